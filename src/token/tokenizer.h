/* Hugging Face tokenizer.json, byte-level BPE: text to token ids and back.
 *
 * Loading reads tokenizer.json and, if present, tokenizer_config.json (more added tokens, special token names) from a
 * checkpoint's folder; both are untrusted. A loaded tokenizer is immutable and may be shared between threads; the calls
 * that need scratch memory allocate it themselves. */
#ifndef PAWL_TOKEN_TOKENIZER_H
#define PAWL_TOKEN_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/status.h"

typedef struct pawl_tokenizer pawl_tokenizer;

/* dir: the checkpoint's folder. PAWL_EIO with the path when there is no tokenizer.json. *out is owned by the caller. */
pawl_status pawl__tokenizer_open(const char *dir, pawl_tokenizer **out, pawl_err *err);
void pawl__tokenizer_close(pawl_tokenizer **t);

typedef struct pawl_ids {
    int32_t *data;
    size_t len, cap;
} pawl_ids;
void pawl__ids_free(pawl_ids *ids);
/* Appends one id; PAWL_ENOMEM. */
pawl_status pawl__ids_push(pawl_ids *ids, int32_t id);

enum {
    PAWL_ENCODE_SPECIAL = 1, /* added tokens inside the text become their ids (what rendered templates need); without it
                                they are ordinary text, so that a user cannot type control tokens */
    PAWL_ENCODE_BOS = 2      /* apply the post-processor's template (BOS and the like, where the checkpoint has one) */
};
/* Appends the ids of n bytes of UTF-8 to out. PAWL_EINVAL with the offset when the text is not UTF-8. */
pawl_status pawl__tokenizer_encode(const pawl_tokenizer *t, const char *text, size_t n, unsigned flags, pawl_ids *out,
                                   pawl_err *err);

/* Number of ids that have text: the largest known id + 1. Ids from here to the model's vocabulary are padding. */
int32_t pawl__tokenizer_size(const pawl_tokenizer *t);
/* The raw bytes of one token, borrowed: an added token's content, or the decoded byte-level piece (perhaps a fraction of
 * a character). NULL with *n = 0 for an unknown id. */
const char *pawl__tokenizer_bytes(const pawl_tokenizer *t, int32_t id, size_t *n);
int pawl__tokenizer_is_special(const pawl_tokenizer *t, int32_t id);
/* The id of an added token or vocabulary piece by its content (as text, not byte-level), or -1. */
int32_t pawl__tokenizer_find(const pawl_tokenizer *t, const char *content);

/* Appends the text of the ids; invalid bytes become U+FFFD. skip_special leaves special tokens out. */
pawl_status pawl__tokenizer_decode(const pawl_tokenizer *t, const int32_t *ids, size_t n, int skip_special,
                                   pawl_buf *out, pawl_err *err);

/* A named special token from tokenizer_config.json ("bos_token", "eos_token", "pad_token", "unk_token"), or NULL. */
const char *pawl__tokenizer_named(const pawl_tokenizer *t, const char *name);

/* Incremental detokenizer: holds back bytes that are not yet a whole character. */
typedef struct pawl_detok {
    char held[4];
    unsigned n_held;
} pawl_detok;
/* Appends to out the text that becomes certain with this token. */
void pawl__detok_push(pawl_detok *d, const pawl_tokenizer *t, int32_t id, int skip_special, pawl_buf *out);
/* The end of the text: an incomplete character becomes U+FFFD. */
void pawl__detok_finish(pawl_detok *d, pawl_buf *out);

#endif
