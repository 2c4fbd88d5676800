/* The state of one rendering: its first failure, its bounds and its memory. */
#include "token/jinja.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { CHUNK = 16 << 10 };

jval pawl__jinja_fail(jrun *run, pawl_status s, const char *fmt, ...)
{
    jval undef = pawl__jv_undef("nothing");
    if (run->status != PAWL_OK) return undef;
    char fixed[sizeof((pawl_err *)0)->text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(fixed, sizeof fixed, fmt, ap);
    va_end(ap);
    run->status = pawl__fail(run->err, s, "%s:%d: %s", run->tmpl->name, run->line, fixed);
    return undef;
}

int pawl__jinja_step(jrun *run, uint64_t n)
{
    run->steps += n;
    if (run->steps > run->max_steps)
        pawl__jinja_fail(run, PAWL_ETIMEDOUT, "the template needs more than %llu steps",
                         (unsigned long long)run->max_steps);
    return run->status != PAWL_OK;
}

int pawl__jinja_enter(jrun *run)
{
    if (run->depth >= run->max_depth) {
        pawl__jinja_fail(run, PAWL_ETIMEDOUT, "calls and expressions are nested more than %u deep", run->max_depth);
        return 1;
    }
    run->depth++;
    return 0;
}

void pawl__jinja_leave(jrun *run)
{
    run->depth--;
}

static void *arena_alloc(jrun *run, size_t size)
{
    void *p = pawl__arena_alloc(run->arena, size);
    if (!p) pawl__jinja_fail(run, PAWL_ETIMEDOUT, "the template's values need too much memory");
    return p;
}

void *pawl__jinja_alloc(jrun *run, size_t count, size_t size)
{
    size_t n;
    if (__builtin_mul_overflow(count, size, &n) || n > SIZE_MAX - 16) {
        pawl__jinja_fail(run, PAWL_ETIMEDOUT, "the template's values need too much memory");
        return NULL;
    }
    n = (n + 15) & ~(size_t)15;
    if (n > CHUNK / 8) return arena_alloc(run, n);
    if (n > run->chunk_left) {
        run->chunk = arena_alloc(run, CHUNK);
        if (!run->chunk) {
            run->chunk_left = 0;
            return NULL;
        }
        run->chunk_left = CHUNK;
    }
    void *p = run->chunk;
    run->chunk += n;
    run->chunk_left -= n;
    return p;
}
