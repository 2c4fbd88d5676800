#include "engine/stream.h"

#include <string.h>

static void drop_given(pawl_stream *s)
{
    if (!s->given) return;
    memmove(s->pending.data, s->pending.data + s->given, s->pending.len - s->given);
    s->pending.len -= s->given;
    s->pending.data[s->pending.len] = 0;
    s->given = 0;
}

/* Offset of the earliest stop text in pending, or its length; *met: which. */
static size_t find_stop(const pawl_stream *s, size_t *met)
{
    size_t best = s->pending.len;
    for (size_t i = 0; i < s->n_stop; i++) {
        size_t n = strlen(s->stop[i]);
        const char *at = n && s->pending.len ? memmem(s->pending.data, s->pending.len, s->stop[i], n) : NULL;
        if (!at || (size_t)(at - s->pending.data) >= best) continue;
        best = (size_t)(at - s->pending.data);
        *met = i;
    }
    return best;
}

/* Length of the longest tail of pending that begins a stop text. */
static size_t held_tail(const pawl_stream *s)
{
    size_t best = 0;
    for (size_t i = 0; i < s->n_stop; i++) {
        size_t n = strlen(s->stop[i]);
        size_t most = n ? n - 1 : 0;
        if (most > s->pending.len) most = s->pending.len;
        for (size_t k = most; k > best; k--)
            if (!memcmp(s->pending.data + s->pending.len - k, s->stop[i], k)) {
                best = k;
                break;
            }
    }
    return best;
}

void pawl__stream_push(pawl_stream *s, int32_t id, int last, const char **text, size_t *n)
{
    *text = NULL;
    *n = 0;
    if (!s->tokenizer || s->stopped) return;
    drop_given(s);
    pawl__detok_push(&s->detok, s->tokenizer, id, !s->keep_special, &s->pending);
    if (last) pawl__detok_finish(&s->detok, &s->pending);
    size_t stop = find_stop(s, &s->met);
    s->stopped = stop < s->pending.len;
    if (s->stopped && s->include_stop) stop += strlen(s->stop[s->met]);
    s->given = s->stopped ? stop : s->pending.len - (last ? 0 : held_tail(s));
    *text = s->pending.data ? s->pending.data : "";
    *n = s->given;
}

void pawl__stream_free(pawl_stream *s)
{
    pawl__buf_free(&s->pending);
}
