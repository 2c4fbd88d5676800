/* From tokens to the text that a client may see: whole characters only, and nothing of a stop text. */
#ifndef PAWL_ENGINE_STREAM_H
#define PAWL_ENGINE_STREAM_H

#include "base/buf.h"
#include "token/tokenizer.h"

typedef struct pawl_stream {
    const pawl_tokenizer *tokenizer; /* NULL: no text at all */
    const char *const *stop;
    size_t n_stop;
    int keep_special;
    int include_stop; /* the stop text that was met is given out too */
    pawl_detok detok;
    pawl_buf pending; /* decoded, not yet given out: it may be the beginning of a stop text */
    size_t given;     /* bytes of pending that the last call gave out */
    int stopped;      /* a stop text was met: stop[met] */
    size_t met;
} pawl_stream;

/* Adds a token; *text and *n: what became certain, valid until the next call. last: generating ends with this token, nothing
 * is held back. Sets stopped. */
void pawl__stream_push(pawl_stream *s, int32_t id, int last, const char **text, size_t *n);
void pawl__stream_free(pawl_stream *s);

#endif
