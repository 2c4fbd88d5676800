/* What users typed stays what they typed: special tokens inside message content do not become control tokens.
 *
 * A chat template mixes its own text, whose special tokens must take effect, with text from the request, whose must not. So
 * before a rendering, barriers are put into the strings of the request: inside each added token that occurs in them and
 * around each string, in the form of noncharacters (U+FDD0 and a second one). Templates copy, trim and join strings, and
 * the barriers travel along. Afterwards they are taken out, and their places tell the tokenizer where no added token may
 * lie across.
 *
 * What an assistant said before may hold added tokens that are not special, as <think>: templates look for them there, so
 * they keep their effect in assistants' messages. */
#ifndef PAWL_TOKEN_GUARD_H
#define PAWL_TOKEN_GUARD_H

#include <jansson.h>

#include "token/tokenizer.h"

/* A guarded copy of a request's messages (an array), tools or template variables (anything): a new reference, or NULL with
 * err filled in. barriers = 0: none is put in, what looks like one is kept all the same. mark_end: the text of the last
 * message gets an end mark, for answers that are to be continued. */
json_t *pawl__guard_messages(const pawl_tokenizer *t, const json_t *messages, int barriers, int mark_end,
                             pawl_err *err);
json_t *pawl__guard_value(const pawl_tokenizer *t, const json_t *value, int barriers, pawl_err *err);

/* A rendering without its barriers. */
typedef struct pawl_guarded {
    pawl_buf text;
    size_t *barrier; /* [n] rising offsets into text */
    size_t n, cap;
    size_t end; /* offset of the end mark; SIZE_MAX when there was none */
} pawl_guarded;
pawl_status pawl__guard_strip(const char *rendered, size_t n, pawl_guarded *out, pawl_err *err);
void pawl__guarded_free(pawl_guarded *g);

/* As pawl__tokenizer_encode with PAWL_ENCODE_SPECIAL, but no added token spans a barrier. */
pawl_status pawl__tokenizer_encode_guarded(const pawl_tokenizer *t, const pawl_guarded *g, pawl_ids *out,
                                           pawl_err *err);

#endif
