/* The promises, one after another. */
#include "checker.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/pool.h"
#include "base/rng.h"

typedef struct check {
    const pawl_kernel *k;
    chk_case *c;
    char *why;
    size_t why_size;
} check;

static bool broken(const check *ck, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool broken(const check *ck, const char *fmt, ...)
{
    int n = snprintf(ck->why, ck->why_size, "%s on %s: ", ck->k->id, ck->c->name);
    if (n < 0 || (size_t)n >= ck->why_size) return false;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(ck->why + n, ck->why_size - (size_t)n, fmt, ap);
    va_end(ap);
    return false;
}

static void reset(chk_case *c)
{
    for (int i = 0; i < c->bufs; i++) memcpy(c->buf[i].data, c->buf[i].initial, c->buf[i].bytes);
}

static size_t page_bytes(const chk_buf *b)
{
    return (size_t)(b->data - b->map) + b->bytes;
}

/* Guards, and inputs that a kernel may not write. */
static bool guards_hold(const check *ck)
{
    for (int i = 0; i < ck->c->bufs; i++) {
        const chk_buf *b = &ck->c->buf[i];
        for (const unsigned char *p = b->map; p < b->data; p++)
            if (*p != 0xff) return broken(ck, "wrote in front of %s", b->name);
        for (size_t at = page_bytes(b); at % 4096; at++)
            if (b->map[at] != 0xff) return broken(ck, "wrote behind %s", b->name);
        if (b->role == CHK_IN && memcmp(b->data, b->initial, b->bytes) != 0)
            return broken(ck, "wrote into its input %s", b->name);
    }
    return true;
}

/* Runs with so many threads, as if the processor had no more than `isa`. Scratch ends at an unreadable page like any buffer
 * and is full of NaN. */
static bool run(const check *ck, const pawl_kernel *k, int threads, uint64_t isa)
{
    pawl_pool *pool = NULL;
    pawl_caps caps = {.arch = PAWL_ARCH_CPU, .isa = isa, .cores = threads};
    pawl_err err = {0};
    pawl_status s = PAWL_OK;
    chk_case scratch = {0};
    size_t bytes = k->scratch ? k->scratch(&ck->c->q, ck->c->items, threads) : 0;
    bytes = (bytes + 63) / 64 * 64;
    if (threads > 1 && pawl__pool_create(threads, &pool, &err) != PAWL_OK) return broken(ck, "%s", err.text);
    pawl_exec ex = {.caps = &caps, .pool = pool, .scratch_size = bytes};
    if (bytes) {
        ex.scratch = chk_buffer(&scratch, "scratch", CHK_OUT, bytes, 0);
        memset(ex.scratch, 0xff, bytes);
    }
    pawl_reason reason = {{0}};
    if (k->prepare) s = k->prepare(&ck->c->q, &ex, &reason);
    if (s == PAWL_OK) s = k->run(&ck->c->args, &ex, &err);
    bool ok = true;
    if (s != PAWL_OK) ok = broken(ck, "failed with %d threads: %s%s", threads, err.text, reason.text);
    if (bytes && ok)
        for (const unsigned char *p = scratch.buf[0].map; p < scratch.buf[0].data && ok; p++)
            if (*p != 0xff) ok = broken(ck, "wrote in front of its scratch");
    chk_free(&scratch);
    pawl__pool_destroy(&pool);
    return ok && guards_hold(ck);
}

/* Outputs against the values in double. */
static bool right(const check *ck)
{
    for (int i = 0; i < ck->c->bufs; i++) {
        const chk_buf *b = &ck->c->buf[i];
        if (!b->truth) continue;
        for (size_t e = 0; e < b->bytes / 4; e++) {
            uint32_t got, before;
            float f, t = (float)b->truth[e];
            memcpy(&got, b->data + 4 * e, 4);
            memcpy(&before, b->initial + 4 * e, 4);
            memcpy(&f, &got, 4);
            if (b->bound[e] == CHK_UNTOUCHED) {
                if (got != before) return broken(ck, "%s[%zu] was to be left alone", b->name, e);
            } else if (b->integers) {
                if ((int32_t)got != (int32_t)b->truth[e])
                    return broken(ck, "%s[%zu] is %d, expected %d", b->name, e, (int32_t)got, (int32_t)b->truth[e]);
            } else if (!(b->bound[e] == CHK_EXACT ? f == t || (f != f && t != t)
                                                  : fabs(f - b->truth[e]) <= b->bound[e])) {
                return broken(ck, "%s[%zu] is %.9g, expected %.9g within %.3g", b->name, e, f, b->truth[e],
                              b->bound[e]);
            }
        }
    }
    return true;
}

static void keep(chk_case *c)
{
    for (int i = 0; i < c->bufs; i++) memcpy(c->buf[i].result, c->buf[i].data, c->buf[i].bytes);
}

static bool same_bits(const check *ck, const char *as)
{
    for (int i = 0; i < ck->c->bufs; i++) {
        const chk_buf *b = &ck->c->buf[i];
        for (size_t at = 0; at < b->bytes && b->role != CHK_IN; at++) {
            if (b->data[at] == b->result[at]) continue;
            float x, y;
            memcpy(&x, b->data + at / 4 * 4, 4);
            memcpy(&y, b->result + at / 4 * 4, 4);
            return broken(ck, "%s[%zu] is %.9g, not the bits %s (%.9g)", b->name, at / 4, y, as, x);
        }
    }
    return true;
}

static bool untouched(const check *ck)
{
    for (int i = 0; i < ck->c->bufs; i++)
        if (memcmp(ck->c->buf[i].data, ck->c->buf[i].initial, ck->c->buf[i].bytes) != 0)
            return broken(ck, "no rows, but %s was written", ck->c->buf[i].name);
    return true;
}

/* The items piece by piece, `width` at a time (or in the case's own pieces). */
static bool in_pieces(const check *ck, uint64_t isa, int64_t width)
{
    chk_case *c = ck->c;
    reset(c);
    int piece = 0;
    for (int64_t first = 0; first < c->items;) {
        int64_t n = c->pieces[0] ? c->pieces[piece++] : width;
        if (n > c->items - first) n = c->items - first;
        c->select(c, first, n);
        if (!run(ck, ck->k, 1, isa)) return false;
        first += n;
    }
    c->select(c, 0, c->items);
    char as[64];
    snprintf(as, sizeof as, "of %lld row%s at a time", (long long)width, width == 1 ? "" : "s");
    return same_bits(ck, as);
}

static bool check_case(const check *ck, const pawl_kernel *floor, uint64_t machine)
{
    chk_case *c = ck->c;
    uint64_t isa = ck->k->isa;
    chk_keep_initial(c);
    c->select(c, 0, c->items);
    if (!run(ck, ck->k, 1, isa) || !right(ck)) return false;
    keep(c);
    reset(c);
    if (!run(ck, ck->k, 1, isa) || !same_bits(ck, "of a second run")) return false;
    if (floor && floor != ck->k) {
        reset(c);
        check of_floor = *ck;
        of_floor.k = floor;
        if (!run(&of_floor, floor, 1, 0)) return false;
        if (!same_bits(ck, "of the reference")) return false;
    }
    for (int threads = 2; threads <= 4; threads++) {
        char as[32];
        snprintf(as, sizeof as, "with %d threads", threads);
        reset(c);
        if (!run(ck, ck->k, threads, isa) || !same_bits(ck, as)) return false;
    }
    static const char *const levels[] = {"ref", "avx2", "avx512", "amx", "native"};
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        uint64_t mask = 0;
        if (pawl__isa_level(levels[i], &mask, NULL) != PAWL_OK || (isa & ~mask)) continue;
        reset(c);
        if (!run(ck, ck->k, 1, mask & machine) || !same_bits(ck, "under another instruction-set cap")) return false;
    }
    reset(c);
    c->select(c, 0, 0);
    if (!run(ck, ck->k, 1, isa) || !untouched(ck)) return false;
    if (!(ck->k->traits & PAWL_TRAIT_ROW_INVARIANT)) return true;
    return in_pieces(ck, isa, 1) && (c->pieces[0] || in_pieces(ck, isa, 7));
}

static const pawl_kernel *floor_for(const pawl_kernel *const *floors, const chk_case *c, const pawl_caps *caps)
{
    const pawl_kernel *found = NULL; /* the last that fits: lists end in their floor */
    for (; floors && *floors; floors++)
        if ((*floors)->run && !(*floors)->isa && (!(*floors)->supports || (*floors)->supports(&c->q, caps, NULL)))
            found = *floors;
    return found;
}

int chk_kernel(const pawl_kernel *k, const pawl_kernel *const *floors, uint64_t seed, char *why, size_t why_size)
{
    pawl_caps machine;
    int cases = 0;
    pawl__caps_probe(&machine);
    if (k->arch != PAWL_ARCH_CPU || (k->isa & ~machine.isa)) return -1;
    chk_case *c = calloc(1, sizeof *c);
    check ck = {.k = k, .c = c, .why = why, .why_size = why_size};
    if (!c) exit(1);
    for (int index = 0;; index++) {
        memset(c, 0, sizeof *c);
        uint64_t rng = pawl__mix64(seed + (uint64_t)index * 1000 + (uint64_t)k->op);
        if (!chk_makers[k->op] || !chk_makers[k->op](c, index, &rng)) break;
        bool fits = c->items >= k->m_min && (!k->m_max || c->items <= k->m_max);
        if (fits && (!k->supports || k->supports(&c->q, &machine, NULL))) {
            if (!check_case(&ck, floor_for(floors, c, &machine), machine.isa)) {
                chk_free(c);
                free(c);
                return 0;
            }
            cases++;
        }
        chk_free(c);
    }
    free(c);
    if (!cases) snprintf(why, why_size, "%s: no case is served by it", k->id);
    return cases;
}
