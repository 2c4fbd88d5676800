/* The vocabulary and the merges of a byte-level BPE tokenizer, as two hash tables.
 *
 * Pieces are kept as the bytes that they stand for, not in the byte-level alphabet: the map between the two is one to
 * one, so merging can work on bytes and decoding is a copy. The JSON tree is only read here; strings are copied. */
#include "token/internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/rng.h"
#include "base/utf8.h"

/* GPT-2's byte-level alphabet: printable bytes stand for themselves, the other 68 are U+0100 onwards in order. */
static void fill_alphabet(int16_t byte_of[324])
{
    for (int c = 0; c < 324; c++) byte_of[c] = -1;
    int next = 256;
    for (int b = 0; b < 256; b++) {
        int printable = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        byte_of[printable ? b : next++] = (int16_t)b;
    }
}

/* Maps a piece to bytes; 0 when a character lies outside the alphabet. out has room for n bytes. */
static int to_bytes(const pawl_tokenizer *t, const char *piece, size_t n, char *out, size_t *n_out)
{
    size_t k = 0;
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        int len = pawl__utf8_decode(piece + i, n - i, &cp, NULL);
        if (len < 0 || cp >= 324 || t->byte_of[cp] < 0) return 0;
        out[k++] = (char)t->byte_of[cp];
        i += (size_t)len;
    }
    *n_out = k;
    return 1;
}

static uint64_t hash_bytes(uint64_t seed, const char *s, size_t n)
{
    uint64_t h = seed ^ n * 0x9e3779b97f4a7c15ull, w;
    for (; n >= 8; s += 8, n -= 8) {
        memcpy(&w, s, 8);
        h = pawl__mix64(h ^ w) + seed;
    }
    w = 0;
    memcpy(&w, s, n);
    return pawl__mix64(h ^ w);
}

int32_t pawl__vocab_find(const pawl_tokenizer *t, const char *bytes, size_t n, int with_raw)
{
    for (uint64_t i = hash_bytes(t->seed, bytes, n);; i++) {
        uint32_t s = t->slot[i & t->slot_mask];
        if (!s) return -1;
        const pawl_token *k = &t->token[s - 1];
        if (k->n == n && memcmp(k->bytes, bytes, n) == 0 && (with_raw || !(k->flags & PAWL_TOKEN_RAW)))
            return (int32_t)(s - 1);
    }
}

static void enter_bytes(pawl_tokenizer *t, int32_t id)
{
    const pawl_token *k = &t->token[id];
    uint64_t i = hash_bytes(t->seed, k->bytes, k->n);
    while (t->slot[i & t->slot_mask]) i++;
    t->slot[i & t->slot_mask] = (uint32_t)id + 1;
}

static uint64_t pair_key(int32_t left, int32_t right)
{
    return (uint64_t)left << 24 | (uint64_t)right;
}

uint32_t pawl__pair_rank(const pawl_tokenizer *t, int32_t left, int32_t right)
{
    uint64_t key = pair_key(left, right);
    for (uint64_t i = pawl__mix64(key ^ t->seed);; i++) {
        const pawl_pair *p = &t->pair[i & t->pair_mask];
        if (p->key == key) return p->rank;
        if (p->key == UINT64_MAX) return UINT32_MAX;
    }
}

/* Slots for n entries at a load of at most one half. */
static uint64_t table_size(size_t n)
{
    uint64_t size = 16;
    while (size < n * 2) size *= 2;
    return size;
}

/* Checks every entry and finds the largest id and the bytes that all pieces need. */
static pawl_status measure_vocab(json_t *vocab, int32_t *max_id, size_t *bytes, pawl_err *err)
{
    for (void *it = json_object_iter(vocab); it; it = json_object_iter_next(vocab, it)) {
        const char *key = json_object_iter_key(it);
        size_t n = json_object_iter_key_len(it);
        const json_t *v = json_object_iter_value(it);
        if (n > PAWL_TOK_MAX_PIECE)
            return pawl__fail(err, PAWL_EFORMAT, "model.vocab: piece \"%s...\" has %zu bytes, at most %d are allowed",
                              pawl__excerpt(key, n).text, n, PAWL_TOK_MAX_PIECE);
        if (!json_is_integer(v))
            return pawl__fail(err, PAWL_EFORMAT, "model.vocab: the id of piece \"%s\": expected an integer",
                              pawl__excerpt(key, n).text);
        json_int_t id = json_integer_value(v);
        if (id < 0 || id > PAWL_TOK_MAX_ID)
            return pawl__fail(err, PAWL_EFORMAT, "model.vocab: piece \"%s\": expected an id from 0 to %d, found %lld",
                              pawl__excerpt(key, n).text, PAWL_TOK_MAX_ID, (long long)id);
        if ((int32_t)id > *max_id) *max_id = (int32_t)id;
        *bytes += n + 1;
    }
    return PAWL_OK;
}

static pawl_status fill_vocab(pawl_tokenizer *t, json_t *vocab, char *pool, pawl_err *err)
{
    for (void *it = json_object_iter(vocab); it; it = json_object_iter_next(vocab, it)) {
        const char *key = json_object_iter_key(it);
        size_t n = json_object_iter_key_len(it), len;
        pawl_token *k = &t->token[json_integer_value(json_object_iter_value(it))];
        if (k->flags)
            return pawl__fail(err, PAWL_EFORMAT, "model.vocab: piece \"%s\" has id %lld, which another piece has too",
                              pawl__excerpt(key, n).text, (long long)(k - t->token));
        k->flags = PAWL_TOKEN_KNOWN;
        if (!to_bytes(t, key, n, pool, &len)) {
            k->flags |= PAWL_TOKEN_RAW;
            memcpy(pool, key, len = n);
        }
        pool[len] = 0;
        k->bytes = pool;
        k->n = (uint32_t)len;
        pool += len + 1;
    }
    for (int32_t id = 0; id < t->n_ids; id++)
        if (t->token[id].flags) enter_bytes(t, id);
    for (int b = 0; b < 256; b++) {
        char c = (char)b;
        t->byte_id[b] = pawl__vocab_find(t, &c, 1, 0);
        if (t->byte_id[b] < 0)
            return pawl__fail(err, PAWL_EFORMAT,
                              "model.vocab: no piece for byte 0x%02X; a byte-level vocabulary has all 256", b);
    }
    return PAWL_OK;
}

/* Splits a merge into its two halves: "a b" with exactly one space, or ["a", "b"]. 0 when it is neither. */
static int merge_halves(const json_t *m, const char *half[2], size_t len[2])
{
    if (json_is_string(m)) {
        const char *s = json_string_value(m);
        size_t n = json_string_length(m);
        const char *space = memchr(s, ' ', n);
        if (!space) return 0;
        half[0] = s;
        len[0] = (size_t)(space - s);
        half[1] = space + 1;
        len[1] = n - len[0] - 1;
        if (memchr(half[1], ' ', len[1])) return 0;
    } else if (json_is_array(m) && json_array_size(m) == 2) {
        for (int i = 0; i < 2; i++) {
            const json_t *s = json_array_get(m, (size_t)i);
            if (!json_is_string(s)) return 0;
            half[i] = json_string_value(s);
            len[i] = json_string_length(s);
        }
    } else {
        return 0;
    }
    return len[0] > 0 && len[1] > 0;
}

static pawl_status load_merge(pawl_tokenizer *t, const json_t *m, uint32_t rank, pawl_err *err)
{
    const char *half[2];
    char bytes[2 * PAWL_TOK_MAX_PIECE];
    size_t len[2], n = 0;
    int32_t id[2];
    if (!merge_halves(m, half, len))
        return pawl__fail(err, PAWL_EFORMAT, "model.merges[%u]: expected \"a b\" with one space or [\"a\", \"b\"]",
                          rank);
    for (int i = 0; i < 2; i++) {
        size_t k = 0;
        int ok = len[i] <= PAWL_TOK_MAX_PIECE && to_bytes(t, half[i], len[i], bytes + n, &k);
        id[i] = ok ? pawl__vocab_find(t, bytes + n, k, 0) : -1;
        if (id[i] < 0)
            return pawl__fail(err, PAWL_EFORMAT, "model.merges[%u]: piece \"%s\" is not in model.vocab", rank,
                              pawl__excerpt(half[i], len[i]).text);
        n += k;
    }
    t->merged[rank] = pawl__vocab_find(t, bytes, n, 0);
    if (t->merged[rank] < 0)
        return pawl__fail(err, PAWL_EFORMAT, "model.merges[%u]: \"%s\" + \"%s\" is not in model.vocab", rank,
                          pawl__excerpt(half[0], len[0]).text, pawl__excerpt(half[1], len[1]).text);
    uint64_t key = pair_key(id[0], id[1]), i = pawl__mix64(key ^ t->seed);
    for (; t->pair[i & t->pair_mask].key != UINT64_MAX; i++)
        if (t->pair[i & t->pair_mask].key == key)
            return pawl__fail(err, PAWL_EFORMAT, "model.merges[%u]: the same pair as merges[%u]", rank,
                              t->pair[i & t->pair_mask].rank);
    t->pair[i & t->pair_mask] = (pawl_pair){key, rank};
    return PAWL_OK;
}

static pawl_status load_merges(pawl_tokenizer *t, const json_t *merges, pawl_err *err)
{
    size_t n = json_array_size(merges);
    if (n > PAWL_TOK_MAX_ID)
        return pawl__fail(err, PAWL_EFORMAT, "model.merges: %zu entries, at most %d are allowed", n, PAWL_TOK_MAX_ID);
    uint64_t size = table_size(n);
    t->pair = pawl__arena_array(t->arena, size, sizeof *t->pair);
    t->merged = pawl__arena_array(t->arena, n, sizeof *t->merged);
    if (!t->pair || !t->merged) return pawl__fail(err, PAWL_ENOMEM, "model.merges: out of memory");
    t->pair_mask = size - 1;
    t->n_merges = (uint32_t)n;
    for (uint64_t i = 0; i < size; i++) t->pair[i].key = UINT64_MAX;
    for (uint32_t r = 0; r < n; r++) PAWL_TRY(load_merge(t, json_array_get(merges, r), r, err));
    return PAWL_OK;
}

pawl_status pawl__vocab_load(pawl_tokenizer *t, const json_t *model, int32_t min_ids, size_t n_added, pawl_err *err)
{
    json_t *vocab = json_object_get(model, "vocab"), *merges = json_object_get(model, "merges");
    if (!json_is_object(vocab)) return pawl__fail(err, PAWL_EFORMAT, "model.vocab: expected an object of piece: id");
    if (!json_is_array(merges)) return pawl__fail(err, PAWL_EFORMAT, "model.merges: expected an array");
    size_t bytes = 0, n = json_object_size(vocab);
    int32_t max_id = min_ids - 1;
    PAWL_TRY(measure_vocab(vocab, &max_id, &bytes, err));
    /* The id table must not be out of proportion to the file that asks for it. */
    if ((size_t)max_id > 16 * (n + n_added) + 65536)
        return pawl__fail(err, PAWL_EFORMAT, "the largest id is %d, but there are only %zu tokens", max_id,
                          n + n_added);

    fill_alphabet(t->byte_of);
    /* Without a random source the tables still work; only the defence against chosen collisions is then lost. */
    if (getrandom(&t->seed, sizeof t->seed, GRND_NONBLOCK) != (ssize_t)sizeof t->seed) t->seed = (uintptr_t)t;
    t->n_ids = max_id + 1;
    uint64_t slots = table_size(n);
    t->token = pawl__arena_array(t->arena, (size_t)t->n_ids, sizeof *t->token);
    t->slot = pawl__arena_array(t->arena, slots, sizeof *t->slot);
    char *pool = pawl__arena_alloc(t->arena, bytes);
    if (!t->token || !t->slot || !pool) return pawl__fail(err, PAWL_ENOMEM, "model.vocab: out of memory");
    t->slot_mask = slots - 1;
    PAWL_TRY(fill_vocab(t, vocab, pool, err));
    return load_merges(t, merges, err);
}
