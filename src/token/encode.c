/* Text to ids: cut out the added tokens, normalise the rest, cut out those added tokens that want normalised text,
 * split into words, merge each word; then the post-processor's ids around it all. */
#include "token/internal.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "token/guard.h"

int pawl__is_white(uint32_t cp)
{
    return (cp >= 9 && cp <= 13) || cp == 0x20 || cp == 0x85 || cp == 0xa0 || cp == 0x1680 ||
           (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029 || cp == 0x202f || cp == 0x205f ||
           cp == 0x3000;
}

pawl_status pawl__nfc(const char *text, size_t n, char **out, size_t *n_out, pawl_err *err)
{
    *out = NULL;
    *n_out = 0;
    /* Text below U+0300 is in NFC (no such character combines); CC is the first byte of U+0300. */
    size_t i = 0;
    while (i < n && (unsigned char)text[i] < 0xcc) i++;
    if (i == n) return PAWL_OK;
    utf8proc_uint8_t *s = NULL;
    utf8proc_ssize_t k =
        utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n, &s, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    if (k == UTF8PROC_ERROR_NOMEM) return pawl__fail(err, PAWL_ENOMEM, "out of memory while normalising %zu bytes", n);
    if (k < 0) return pawl__fail(err, PAWL_EINVAL, "the text cannot be normalised: %s", utf8proc_errmsg(k));
    *out = (char *)s;
    *n_out = (size_t)k;
    return PAWL_OK;
}

typedef struct encoder {
    const pawl_tokenizer *t;
    pawl_ids *out;
    pawl_bpe bpe;
    unsigned flags;
    const char *text;            /* the whole text */
    const pawl_guarded *guarded; /* its barriers, or NULL */
} encoder;

static pawl_status push(pawl_ids *out, int32_t id, pawl_err *err)
{
    return pawl__ids_push(out, id) == PAWL_OK ? PAWL_OK : pawl__fail(err, PAWL_ENOMEM, "out of memory");
}

static pawl_status word(void *user, const char *s, size_t n, pawl_err *err)
{
    encoder *e = user;
    return pawl__bpe_word(e->t, &e->bpe, s, n, e->out, err);
}

static pawl_status plain(encoder *e, const char *text, size_t n, pawl_err *err)
{
    return n ? pawl__pretok_split(e->t->pretok, text, n, word, e, err) : PAWL_OK;
}

typedef pawl_status (*piece_fn)(encoder *e, const char *text, size_t n, pawl_err *err);

/* Is there a barrier strictly inside [start, end) of the whole text? */
static int barred(const encoder *e, size_t start, size_t end)
{
    const pawl_guarded *g = e->guarded;
    if (!g) return 0;
    size_t lo = 0, hi = g->n; /* the first barrier past start */
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (g->barrier[mid] > start)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo < g->n && g->barrier[lo] < end;
}

/* Cuts the set's tokens out and hands what lies between them on. text is a part of the whole text, or a normalised copy of
 * one without barriers. */
static pawl_status cut(encoder *e, const pawl_added_set *set, const char *text, size_t n, piece_fn rest, pawl_err *err)
{
    size_t taken = 0, from = 0, start, end;
    int32_t id;
    while ((e->flags & PAWL_ENCODE_SPECIAL) && pawl__added_next(set, text, n, from, &start, &end, &id)) {
        if (set == &e->t->raw && barred(e, start, end)) {
            for (from = start + 1; from < n && ((unsigned char)text[from] & 0xc0) == 0x80;) from++;
            continue;
        }
        from = end;
        if (start > taken) PAWL_TRY(rest(e, text + taken, start - taken, err));
        PAWL_TRY(push(e->out, id, err));
        taken = end;
    }
    return taken < n ? rest(e, text + taken, n - taken, err) : PAWL_OK;
}

/* Normalising moves offsets, so a piece with a barrier in it is not searched for tokens that want normalised text. */
static pawl_status normalise(encoder *e, const char *text, size_t n, pawl_err *err)
{
    char *nfc = NULL;
    size_t n_nfc, offset = (size_t)(text - e->text);
    unsigned flags = e->flags;
    if (barred(e, offset, offset + n)) e->flags &= ~(unsigned)PAWL_ENCODE_SPECIAL;
    if (e->t->nfc) PAWL_TRY(pawl__nfc(text, n, &nfc, &n_nfc, err));
    pawl_status s =
        nfc ? cut(e, &e->t->normalized, nfc, n_nfc, plain, err) : cut(e, &e->t->normalized, text, n, plain, err);
    free(nfc);
    e->flags = flags;
    return s;
}

static pawl_status encode(const pawl_tokenizer *t, const char *text, size_t n, unsigned flags,
                          const pawl_guarded *guarded, pawl_ids *out, pawl_err *err)
{
    if (n > PAWL_TOK_MAX_TEXT)
        return pawl__fail(err, PAWL_EINVAL, "the text has %zu bytes, at most %d are allowed", n, PAWL_TOK_MAX_TEXT);
    size_t valid = pawl__utf8_valid(text, n);
    if (valid != n)
        return pawl__fail(err, PAWL_EINVAL, "the text is not UTF-8: byte 0x%02X at offset %zu",
                          (unsigned char)text[valid], valid);
    encoder e = {.t = t, .out = out, .flags = flags, .text = text, .guarded = guarded};
    size_t before = out->len;
    unsigned n_before = flags & PAWL_ENCODE_BOS ? t->n_before : 0, n_after = flags & PAWL_ENCODE_BOS ? t->n_after : 0;
    pawl_status s = PAWL_OK;
    for (unsigned i = 0; i < n_before && s == PAWL_OK; i++) s = push(out, t->before[i], err);
    if (s == PAWL_OK) s = cut(&e, &t->raw, text, n, normalise, err);
    for (unsigned i = 0; i < n_after && s == PAWL_OK; i++) s = push(out, t->after[i], err);
    pawl__bpe_free(&e.bpe);
    if (s != PAWL_OK) out->len = before;
    return s;
}

pawl_status pawl__tokenizer_encode(const pawl_tokenizer *t, const char *text, size_t n, unsigned flags, pawl_ids *out,
                                   pawl_err *err)
{
    return encode(t, text, n, flags, NULL, out, err);
}

pawl_status pawl__tokenizer_encode_guarded(const pawl_tokenizer *t, const pawl_guarded *g, pawl_ids *out, pawl_err *err)
{
    return encode(t, g->text.data ? g->text.data : "", g->text.len, PAWL_ENCODE_SPECIAL, g, out, err);
}
