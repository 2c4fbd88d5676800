/* Byte-pair merging of one word: always the pair of lowest rank, the leftmost of equals, until no pair has a rank.
 *
 * The symbols are a linked list over the positions of the word; candidates wait in a binary heap ordered by (rank,
 * position), so a word of n bytes costs O(n log n) whatever it holds. An entry is stale, and is dropped, when the pair
 * at its position no longer has its rank: a rank names one pair of ids, so equal rank means the very pair. */
#include "token/internal.h"

#include <stdlib.h>

enum { NONE = UINT32_MAX };

void pawl__bpe_free(pawl_bpe *s)
{
    free(s->id);
    *s = (pawl_bpe){0};
}

/* One block for all arrays; a merge takes one entry out of the heap and puts at most two in, so 2n entries suffice. */
static pawl_status grow(pawl_bpe *s, size_t n, pawl_err *err)
{
    if (n <= s->cap) return PAWL_OK;
    size_t cap = n < 256 ? 256 : n + n / 2;
    pawl__bpe_free(s);
    char *block = malloc(cap * (4 * sizeof(uint32_t) + 2 * sizeof(uint64_t)));
    if (!block) return pawl__fail(err, PAWL_ENOMEM, "out of memory while merging a word of %zu bytes", n);
    s->id = (int32_t *)block;
    s->prev = (uint32_t *)block + cap;
    s->next = (uint32_t *)block + 2 * cap;
    s->rank = (uint32_t *)block + 3 * cap;
    s->heap = (uint64_t *)(block + 4 * cap * sizeof(uint32_t));
    s->cap = cap;
    return PAWL_OK;
}

static void sift_down(uint64_t *heap, size_t n, size_t i)
{
    uint64_t v = heap[i];
    for (size_t c; (c = 2 * i + 1) < n; i = c) {
        if (c + 1 < n && heap[c + 1] < heap[c]) c++;
        if (heap[c] >= v) break;
        heap[i] = heap[c];
    }
    heap[i] = v;
}

static void push(uint64_t *heap, size_t *n, uint64_t v)
{
    size_t i = (*n)++;
    for (size_t p; i > 0 && heap[p = (i - 1) / 2] > v; i = p) heap[i] = heap[p];
    heap[i] = v;
}

static uint64_t pop(uint64_t *heap, size_t *n)
{
    uint64_t top = heap[0];
    heap[0] = heap[--*n];
    if (*n > 0) sift_down(heap, *n, 0);
    return top;
}

/* The rank of the pair that begins at position i has changed: notes it and offers it to the heap. */
static void offer(const pawl_tokenizer *t, pawl_bpe *s, size_t *n_heap, uint32_t i)
{
    s->rank[i] = s->next[i] == NONE ? NONE : pawl__pair_rank(t, s->id[i], s->id[s->next[i]]);
    if (s->rank[i] != NONE) push(s->heap, n_heap, (uint64_t)s->rank[i] << 32 | i);
}

static void merge_all(const pawl_tokenizer *t, pawl_bpe *s, size_t n_heap)
{
    for (size_t i = n_heap / 2; i-- > 0;) sift_down(s->heap, n_heap, i);
    while (n_heap > 0) {
        uint64_t top = pop(s->heap, &n_heap);
        uint32_t i = (uint32_t)top, rank = (uint32_t)(top >> 32);
        if (s->rank[i] != rank) continue;
        uint32_t gone = s->next[i];
        s->id[i] = t->merged[rank];
        s->next[i] = s->next[gone];
        s->rank[gone] = NONE;
        if (s->next[i] != NONE) s->prev[s->next[i]] = i;
        offer(t, s, &n_heap, i);
        if (s->prev[i] != NONE) offer(t, s, &n_heap, s->prev[i]);
    }
}

pawl_status pawl__bpe_word(const pawl_tokenizer *t, pawl_bpe *s, const char *word, size_t n, pawl_ids *out,
                           pawl_err *err)
{
    if (t->ignore_merges) {
        int32_t whole = pawl__vocab_find(t, word, n, 0);
        if (whole >= 0) return pawl__ids_push(out, whole) ? pawl__fail(err, PAWL_ENOMEM, "out of memory") : PAWL_OK;
    }
    PAWL_TRY(grow(s, n, err));
    size_t n_heap = 0;
    for (uint32_t i = 0; i < n; i++) {
        s->id[i] = t->byte_id[(unsigned char)word[i]];
        s->prev[i] = i ? i - 1 : NONE;
        s->next[i] = i + 1 < n ? i + 1 : NONE;
        s->rank[i] = NONE;
    }
    for (uint32_t i = 0; i + 1 < n; i++) {
        s->rank[i] = pawl__pair_rank(t, s->id[i], s->id[i + 1]);
        if (s->rank[i] != NONE) s->heap[n_heap++] = (uint64_t)s->rank[i] << 32 | i;
    }
    merge_all(t, s, n_heap);
    for (uint32_t i = 0; i != NONE; i = s->next[i])
        if (pawl__ids_push(out, s->id[i])) return pawl__fail(err, PAWL_ENOMEM, "out of memory");
    return PAWL_OK;
}
