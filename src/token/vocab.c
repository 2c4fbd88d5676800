/* The vocabulary and the merges of a byte-level BPE tokenizer, as two hash tables.
 *
 * Pieces are kept as the bytes that they stand for, not in the byte-level alphabet: the map between the two is one to
 * one, so merging can work on bytes and decoding is a copy. Both are read from the JSON text itself (scan.c). */
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

/* Maps a piece to bytes in place; 0 when a character lies outside the alphabet, and the piece is as it was. */
static int to_bytes(const pawl_tokenizer *t, char *piece, size_t *n)
{
    size_t k = 0;
    uint32_t cp;
    int len;
    for (size_t i = 0; i < *n; i += (size_t)len) {
        len = pawl__utf8_decode(piece + i, *n - i, &cp, NULL);
        if (len < 0 || cp >= 324 || t->byte_of[cp] < 0) return 0;
    }
    for (size_t i = 0; i < *n; i += (size_t)len) {
        len = pawl__utf8_decode(piece + i, *n - i, &cp, NULL);
        piece[k++] = (char)t->byte_of[cp];
    }
    *n = k;
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

/* Puts a token into the hash table; 0 when the same piece is there already. */
static int enter_bytes(pawl_tokenizer *t, int32_t id)
{
    const pawl_token *k = &t->token[id];
    uint64_t i = hash_bytes(t->seed, k->bytes, k->n);
    for (uint32_t s; (s = t->slot[i & t->slot_mask]) != 0; i++) {
        const pawl_token *o = &t->token[s - 1];
        if (o->n == k->n && o->flags == k->flags && memcmp(o->bytes, k->bytes, k->n) == 0) return 0;
    }
    t->slot[i & t->slot_mask] = (uint32_t)id + 1;
    return 1;
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

/* The vocabulary in file order while it is read: the list is from malloc, the bytes lie in the arena. */
typedef struct entry {
    const char *bytes;
    uint32_t n;
    int32_t id;
    uint32_t flags;
} entry;

typedef struct entries {
    entry *item;
    size_t n, cap;
    int32_t max_id;
    char *pool;
    size_t room;
} entries;

/* A string of at most cap bytes; out has one more for the terminator. */
static pawl_status read_piece(pawl_scan *s, char *out, size_t cap, size_t *n, pawl_err *err)
{
    PAWL_TRY(pawl__scan_string(s, out, cap + 1, n, err));
    if (memchr(out, 0, *n)) return pawl__fail(err, PAWL_EFORMAT, "U+0000 in piece \"%s\"", pawl__excerpt(out, *n).text);
    return PAWL_OK;
}

static pawl_status read_entry(pawl_tokenizer *t, pawl_scan *s, entries *l, pawl_err *err)
{
    size_t n;
    int64_t id;
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 4096;
        entry *more = realloc(l->item, cap * sizeof *more);
        if (!more) return pawl__fail(err, PAWL_ENOMEM, "out of memory");
        l->item = more;
        l->cap = cap;
    }
    /* A piece takes at least its quotes, a colon and a digit in the file: its terminator always has room. */
    PAWL_TRY(read_piece(s, l->pool, l->room <= PAWL_TOK_MAX_PIECE ? l->room - 1 : PAWL_TOK_MAX_PIECE, &n, err));
    PAWL_TRY(pawl__scan_expect(s, ':', err));
    pawl_status status = pawl__scan_integer(s, &id, err);
    if (status == PAWL_OK && id > PAWL_TOK_MAX_ID)
        status =
            pawl__fail(err, PAWL_EFORMAT, "expected an id from 0 to %d, found %lld", PAWL_TOK_MAX_ID, (long long)id);
    if (status != PAWL_OK) return pawl__fail_in(err, "piece \"%s\"", pawl__excerpt(l->pool, n).text);
    entry *e = &l->item[l->n++];
    e->flags = PAWL_TOKEN_KNOWN | (to_bytes(t, l->pool, &n) ? 0u : PAWL_TOKEN_RAW);
    e->bytes = l->pool;
    e->n = (uint32_t)n;
    e->id = (int32_t)id;
    if (e->id > l->max_id) l->max_id = e->id;
    l->pool[n] = 0; /* the decoded bytes are fewer than the piece's */
    l->pool += n + 1;
    l->room -= n + 1;
    return PAWL_OK;
}

static pawl_status read_entries(pawl_tokenizer *t, pawl_scan s, entries *l, pawl_err *err)
{
    if (!s.p || !pawl__scan_take(&s, '{')) return pawl__fail(err, PAWL_EFORMAT, "expected an object of piece: id");
    l->room = (size_t)(s.end - s.p);
    l->pool = pawl__arena_alloc(t->arena, l->room);
    if (!l->pool) return pawl__fail(err, PAWL_ENOMEM, "out of memory");
    if (pawl__scan_take(&s, '}')) return PAWL_OK;
    for (int more = 1; more;) {
        PAWL_TRY(read_entry(t, &s, l, err));
        PAWL_TRY(pawl__scan_next(&s, '}', &more, err));
    }
    return PAWL_OK;
}

static pawl_status fill_vocab(pawl_tokenizer *t, const entries *l, pawl_err *err)
{
    for (size_t i = 0; i < l->n; i++) {
        const entry *e = &l->item[i];
        pawl_token *k = &t->token[e->id];
        if (k->flags)
            return pawl__fail(err, PAWL_EFORMAT, "pieces \"%s\" and \"%s\" have the same id %d",
                              pawl__excerpt(k->bytes, k->n).text, pawl__excerpt(e->bytes, e->n).text, e->id);
        *k = (pawl_token){e->bytes, e->n, e->flags};
        if (!enter_bytes(t, e->id))
            return pawl__fail(err, PAWL_EFORMAT, "piece \"%s\" is there twice", pawl__excerpt(e->bytes, e->n).text);
    }
    for (int b = 0; b < 256; b++) {
        char c = (char)b;
        t->byte_id[b] = pawl__vocab_find(t, &c, 1, 0);
        if (t->byte_id[b] < 0)
            return pawl__fail(err, PAWL_EFORMAT, "no piece for byte 0x%02X; a byte-level vocabulary has all 256", b);
    }
    return PAWL_OK;
}

static pawl_status load_vocab(pawl_tokenizer *t, const entries *l, size_t n_added, pawl_err *err)
{
    /* The id table must not be out of proportion to the file that asks for it. */
    if ((size_t)l->max_id > 16 * (l->n + n_added) + 65536)
        return pawl__fail(err, PAWL_EFORMAT, "the largest id is %d, but there are only %zu tokens", l->max_id,
                          l->n + n_added);
    t->n_ids = l->max_id + 1;
    uint64_t slots = table_size(l->n);
    t->token = pawl__arena_array(t->arena, (size_t)t->n_ids, sizeof *t->token);
    t->slot = pawl__arena_array(t->arena, slots, sizeof *t->slot);
    if (!t->token || !t->slot) return pawl__fail(err, PAWL_ENOMEM, "out of memory");
    t->slot_mask = slots - 1;
    return fill_vocab(t, l, err);
}

/* The two halves of a merge, side by side in one buffer. */
typedef struct halves {
    char text[2 * PAWL_TOK_MAX_PIECE + 2];
    char *half[2];
    size_t len[2];
} halves;

/* "a b" with exactly one space, or ["a", "b"]; *ok is 0 when it is neither. */
static pawl_status read_halves(pawl_scan *s, halves *h, int *ok, pawl_err *err)
{
    size_t n;
    *ok = 0;
    h->half[0] = h->text;
    if (pawl__scan_peek(s) == '"') {
        PAWL_TRY(read_piece(s, h->text, sizeof h->text - 1, &n, err));
        char *space = memchr(h->text, ' ', n);
        if (!space) return PAWL_OK;
        h->len[0] = (size_t)(space - h->text);
        h->half[1] = space + 1;
        h->len[1] = n - h->len[0] - 1;
        if (memchr(h->half[1], ' ', h->len[1])) return PAWL_OK;
    } else if (pawl__scan_take(s, '[')) {
        for (int i = 0; i < 2; i++) {
            if (pawl__scan_peek(s) != '"') return PAWL_OK;
            h->half[i] = i ? h->text + h->len[0] : h->text;
            PAWL_TRY(read_piece(s, h->half[i], PAWL_TOK_MAX_PIECE, &h->len[i], err));
            if (!pawl__scan_take(s, i ? ']' : ',')) return PAWL_OK;
        }
    } else {
        return PAWL_OK;
    }
    *ok = h->len[0] > 0 && h->len[1] > 0;
    return PAWL_OK;
}

static pawl_status load_merge(pawl_tokenizer *t, pawl_scan *s, uint32_t rank, halves *h, pawl_err *err)
{
    int32_t id[2];
    int ok;
    PAWL_TRY(read_halves(s, h, &ok, err));
    if (!ok) return pawl__fail(err, PAWL_EFORMAT, "expected \"a b\" with one space or [\"a\", \"b\"]");
    for (int i = 0; i < 2; i++) {
        id[i] = to_bytes(t, h->half[i], &h->len[i]) ? pawl__vocab_find(t, h->half[i], h->len[i], 0) : -1;
        if (id[i] < 0)
            return pawl__fail(err, PAWL_EFORMAT, "piece \"%s\" is not in model.vocab",
                              pawl__excerpt(h->half[i], h->len[i]).text);
    }
    memmove(h->text + h->len[0], h->half[1], h->len[1]);
    size_t n = h->len[0] + h->len[1];
    t->merged[rank] = pawl__vocab_find(t, h->text, n, 0);
    if (t->merged[rank] < 0)
        return pawl__fail(err, PAWL_EFORMAT, "its result \"%s\" is not in model.vocab", pawl__excerpt(h->text, n).text);
    uint64_t key = pair_key(id[0], id[1]), i = pawl__mix64(key ^ t->seed);
    for (; t->pair[i & t->pair_mask].key != UINT64_MAX; i++)
        if (t->pair[i & t->pair_mask].key == key)
            return pawl__fail(err, PAWL_EFORMAT, "the same pair as merges[%u]", t->pair[i & t->pair_mask].rank);
    t->pair[i & t->pair_mask] = (pawl_pair){key, rank};
    return PAWL_OK;
}

/* Elements of the array that s stands before; SIZE_MAX when it is none. */
static size_t count_elements(pawl_scan s)
{
    size_t n = 0;
    if (!s.p || !pawl__scan_take(&s, '[')) return SIZE_MAX;
    if (pawl__scan_take(&s, ']')) return 0;
    do {
        if (pawl__scan_skip(&s, 2, NULL) != PAWL_OK) return SIZE_MAX;
        n++;
    } while (pawl__scan_take(&s, ','));
    return pawl__scan_take(&s, ']') ? n : SIZE_MAX;
}

static pawl_status load_merges(pawl_tokenizer *t, pawl_scan s, pawl_err *err)
{
    size_t n = count_elements(s);
    if (n == SIZE_MAX) return pawl__fail(err, PAWL_EFORMAT, "model.merges: expected an array");
    if (n > PAWL_TOK_MAX_ID)
        return pawl__fail(err, PAWL_EFORMAT, "model.merges: %zu entries, at most %d are allowed", n, PAWL_TOK_MAX_ID);
    uint64_t size = table_size(n);
    t->pair = pawl__arena_array(t->arena, size, sizeof *t->pair);
    t->merged = pawl__arena_array(t->arena, n, sizeof *t->merged);
    if (!t->pair || !t->merged) return pawl__fail(err, PAWL_ENOMEM, "model.merges: out of memory");
    t->pair_mask = size - 1;
    t->n_merges = (uint32_t)n;
    for (uint64_t i = 0; i < size; i++) t->pair[i].key = UINT64_MAX;
    halves h;
    pawl__scan_take(&s, '[');
    for (uint32_t rank = 0; rank < n; rank++) {
        if (load_merge(t, &s, rank, &h, err) != PAWL_OK) return pawl__fail_in(err, "model.merges[%u]", rank);
        int more;
        PAWL_TRY(pawl__scan_next(&s, ']', &more, err));
    }
    return PAWL_OK;
}

pawl_status pawl__vocab_load(pawl_tokenizer *t, const pawl_parts *parts, int32_t min_ids, size_t n_added, pawl_err *err)
{
    fill_alphabet(t->byte_of);
    /* Without a random source the tables still work; only the defence against chosen collisions is then lost. */
    if (getrandom(&t->seed, sizeof t->seed, GRND_NONBLOCK) != (ssize_t)sizeof t->seed) t->seed = (uintptr_t)t;
    entries l = {.max_id = min_ids - 1};
    pawl_status s = read_entries(t, parts->vocab, &l, err);
    if (s == PAWL_OK) s = load_vocab(t, &l, n_added, err);
    free(l.item);
    return s == PAWL_OK ? load_merges(t, parts->merges, err) : pawl__fail_in(err, "model.vocab");
}
