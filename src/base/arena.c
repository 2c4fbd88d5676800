#include "base/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64, FIRST_CHUNK = 16 << 10, MAX_CHUNK = 4 << 20 };

typedef struct chunk {
    struct chunk *prev;
    size_t size, used;
    void *block; /* what malloc gave; data is the aligned address inside it */
    unsigned char *data;
} chunk;

struct pawl_arena {
    chunk *top;
    size_t limit, used, peak;
    int fixed, poison;
};

static size_t round_up(size_t n)
{
    return (n + (ALIGN - 1)) & ~(size_t)(ALIGN - 1);
}

static chunk *chunk_create(size_t size, int zero)
{
    if (size > SIZE_MAX - sizeof(chunk) - ALIGN) return NULL;
    size_t total = sizeof(chunk) + ALIGN + size;
    void *block = zero ? calloc(1, total) : malloc(total);
    if (!block) return NULL;
    chunk *c = block;
    c->prev = NULL;
    c->size = size;
    c->used = 0;
    c->block = block;
    c->data = (unsigned char *)round_up((uintptr_t)(c + 1));
    return c;
}

pawl_arena *pawl__arena_create(size_t limit)
{
    pawl_arena *a = calloc(1, sizeof *a);
    if (a) a->limit = limit < SIZE_MAX / 2 ? limit : SIZE_MAX / 2;
    return a;
}

pawl_arena *pawl__arena_create_fixed(size_t size)
{
    pawl_arena *a = calloc(1, sizeof *a);
    if (!a) return NULL;
    if (size > SIZE_MAX / 2) {
        free(a);
        return NULL;
    }
    a->fixed = 1;
    a->limit = round_up(size);
    a->top = chunk_create(a->limit, 0);
    if (!a->top) {
        free(a);
        return NULL;
    }
    return a;
}

void pawl__arena_destroy(pawl_arena **pa)
{
    pawl_arena *a = *pa;
    if (!a) return;
    for (chunk *c = a->top; c;) {
        chunk *prev = c->prev;
        free(c->block);
        c = prev;
    }
    free(a);
    *pa = NULL;
}

static void fill_with_snan(void *p, size_t n)
{
    static const uint32_t snan = 0x7fa00000u;
    for (size_t i = 0; i + 4 <= n; i += 4) memcpy((char *)p + i, &snan, 4);
}

void *pawl__arena_alloc(pawl_arena *a, size_t size)
{
    if (size > a->limit) return NULL; /* so that rounding up cannot overflow */
    size_t n = size ? round_up(size) : ALIGN;
    if (n > a->limit - a->used) return NULL;
    if (!a->fixed && (!a->top || n > a->top->size - a->top->used)) {
        size_t want = a->top ? a->top->size * 2 : FIRST_CHUNK;
        if (want > MAX_CHUNK) want = MAX_CHUNK;
        chunk *c = chunk_create(n > want ? n : want, 1);
        if (!c) return NULL;
        c->prev = a->top;
        a->top = c;
    }
    void *p = a->top->data + a->top->used;
    a->top->used += n;
    a->used += n;
    if (a->used > a->peak) a->peak = a->used;
    if (a->poison) fill_with_snan(p, n);
    return p;
}

void *pawl__arena_array(pawl_arena *a, size_t count, size_t size)
{
    size_t n;
    if (__builtin_mul_overflow(count, size, &n)) return NULL;
    return pawl__arena_alloc(a, n);
}

char *pawl__arena_strndup(pawl_arena *a, const char *s, size_t n)
{
    if (n == SIZE_MAX) return NULL;
    char *p = pawl__arena_alloc(a, n + 1);
    if (!p) return NULL;
    memcpy(p, s, n);
    p[n] = 0;
    return p;
}

size_t pawl__arena_used(const pawl_arena *a)
{
    return a->used;
}

size_t pawl__arena_peak(const pawl_arena *a)
{
    return a->peak;
}

void pawl__arena_release(pawl_arena *a, size_t mark)
{
    a->used = a->top->used = mark;
}

void pawl__arena_poison(pawl_arena *a, int on)
{
    a->poison = on;
}
