/* Ids to text, whole or token by token. Bytes that are no UTF-8 become U+FFFD, one for each maximal invalid prefix, as
 * the WHATWG encoding standard has it, so that cutting the stream anywhere gives the same text. */
#include "token/internal.h"

#include <string.h>

#include "base/utf8.h"

static const char replacement[] = "\xef\xbf\xbd";

/* Moves what is decided out of the held bytes; at the end of the text everything is. */
static void settle(pawl_detok *d, int at_end, pawl_buf *out)
{
    while (d->n_held > 0) {
        uint32_t cp;
        size_t skip = 0;
        int len = pawl__utf8_decode(d->held, d->n_held, &cp, &skip);
        if (len == PAWL_UTF8_CUT && !at_end) return;
        if (len > 0)
            pawl__buf_append(out, d->held, skip = (size_t)len);
        else
            pawl__buf_append(out, replacement, 3);
        d->n_held -= (unsigned)skip;
        memmove(d->held, d->held + skip, d->n_held);
    }
}

static void feed(pawl_detok *d, const char *bytes, size_t n, pawl_buf *out)
{
    size_t i = 0;
    while (i < n) {
        if (d->n_held == 0) {
            size_t valid = pawl__utf8_valid(bytes + i, n - i);
            if (valid) pawl__buf_append(out, bytes + i, valid);
            i += valid;
            if (i == n) return;
        }
        d->held[d->n_held++] = bytes[i++];
        settle(d, 0, out);
    }
}

void pawl__detok_push(pawl_detok *d, const pawl_tokenizer *t, int32_t id, int skip_special, pawl_buf *out)
{
    if (skip_special && pawl__tokenizer_is_special(t, id)) return;
    size_t n;
    const char *bytes = pawl__tokenizer_bytes(t, id, &n);
    feed(d, bytes, n, out);
}

void pawl__detok_finish(pawl_detok *d, pawl_buf *out)
{
    settle(d, 1, out);
}

pawl_status pawl__tokenizer_decode(const pawl_tokenizer *t, const int32_t *ids, size_t n, int skip_special,
                                   pawl_buf *out, pawl_err *err)
{
    pawl_detok d = {0};
    for (size_t i = 0; i < n; i++) pawl__detok_push(&d, t, ids[i], skip_special, out);
    pawl__detok_finish(&d, out);
    return out->failed ? pawl__fail(err, PAWL_ENOMEM, "out of memory while decoding %zu ids", n) : PAWL_OK;
}
