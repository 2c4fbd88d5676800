#include "faults/alloc.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <malloc.h>
#include <stdlib.h>

/* glibc's own names for the functions that are replaced here. */
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);
void __libc_free(void *p);

static atomic_long calls, live, countdown;
static atomic_int failed;

long alloc_calls(void)
{
    return atomic_load(&calls);
}

long alloc_live(void)
{
    return atomic_load(&live);
}

void alloc_fail_nth(long n)
{
    atomic_store(&failed, 0);
    atomic_store(&countdown, n);
}

int alloc_failed(void)
{
    return atomic_load(&failed);
}

static int fails(void)
{
    atomic_fetch_add(&calls, 1);
    if (atomic_load(&countdown) == 0 || atomic_fetch_sub(&countdown, 1) != 1) return 0;
    atomic_store(&failed, 1);
    errno = ENOMEM;
    return 1;
}

static void *given(void *p)
{
    if (p) atomic_fetch_add(&live, 1);
    return p;
}

void *malloc(size_t n)
{
    return fails() ? NULL : given(__libc_malloc(n));
}

void *calloc(size_t n, size_t size)
{
    return fails() ? NULL : given(__libc_calloc(n, size));
}

void *realloc(void *p, size_t n)
{
    if (fails()) return NULL;
    void *to = __libc_realloc(p, n);
    if (!p) return given(to);
    if (!to && n == 0) atomic_fetch_sub(&live, 1); /* glibc frees p then */
    return to;
}

void *memalign(size_t align, size_t n)
{
    return fails() ? NULL : given(__libc_memalign(align, n));
}

void *aligned_alloc(size_t align, size_t n)
{
    return fails() ? NULL : given(__libc_memalign(align, n));
}

int posix_memalign(void **out, size_t align, size_t n)
{
    void *p = fails() ? NULL : given(__libc_memalign(align, n));
    if (p) *out = p;
    return p ? 0 : ENOMEM;
}

void free(void *p)
{
    if (p) atomic_fetch_sub(&live, 1);
    __libc_free(p);
}
