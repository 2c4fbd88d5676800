/* Bump allocators.
 *
 * A growing arena (pawl__arena_create) holds things that live and die together: a tokenizer's tables, a parsed config.
 * A fixed arena (pawl__arena_create_fixed) is the scratch of the hot path: it never grows, so a step allocates nothing
 * from the system; the caller takes a mark before a step and releases to it afterwards.
 * Not thread-safe: one thread allocates at a time. */
#ifndef PAWL_BASE_ARENA_H
#define PAWL_BASE_ARENA_H

#include <stddef.h>

typedef struct pawl_arena pawl_arena;

/* limit: most bytes that may ever be handed out, a bound against hostile input. NULL when out of memory. */
pawl_arena *pawl__arena_create(size_t limit);
/* One block of `size` bytes taken from the system now (zeroed pages, touched on first use). NULL when out of memory. */
pawl_arena *pawl__arena_create_fixed(size_t size);
/* Frees everything at once and nulls the caller's pointer; *a may be NULL. */
void pawl__arena_destroy(pawl_arena **a);

/* size bytes aligned to 64; zeroed in a growing arena, of any content in a fixed one. NULL when the limit or the fixed
 * block is exhausted or the system is out of memory. size 0 gives a valid unique pointer. */
void *pawl__arena_alloc(pawl_arena *a, size_t size);
/* count * size with an overflow check. */
void *pawl__arena_array(pawl_arena *a, size_t count, size_t size);
/* A terminated copy of n bytes. */
char *pawl__arena_strndup(pawl_arena *a, const char *s, size_t n);

/* Bytes handed out so far. In a fixed arena it is also the mark for pawl__arena_release. */
size_t pawl__arena_used(const pawl_arena *a);
/* Most bytes ever in use at once (fixed arenas: to size them from a dry run). */
size_t pawl__arena_peak(const pawl_arena *a);
/* Fixed arenas only: forgets all that was allocated after the mark was taken. */
void pawl__arena_release(pawl_arena *a, size_t mark);
/* Fixed arenas only: while on, every allocation is filled with signalling NaNs (as f32), so that a read of a row that
 * nobody wrote shows up in the result. */
void pawl__arena_poison(pawl_arena *a, int on);

#endif
