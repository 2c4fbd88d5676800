/* pawl: inference for mixture-of-experts language models that draft their own tokens. The public C API.
 *
 * A model is opened once and may be shared between threads. A session is one sequence of tokens with its caches; it
 * belongs to one thread at a time. The usual course:
 *
 *     pawl_model_open -> pawl_session_create -> pawl_session_feed -> pawl_generate -> ... -> close both
 *
 * Option structs begin with their own size, set by the caller with PAWL_INIT, so that a library newer than the program
 * knows which fields are there: pawl_session_options o = PAWL_INIT(pawl_session_options).
 * All text is UTF-8. Functions never print, never exit, and never touch signals. */
#ifndef PAWL_H
#define PAWL_H

#include <stddef.h>
#include <stdint.h>

#include "pawl/status.h"

#ifdef __cplusplus
extern "C" {
#define PAWL_INIT(type)                                                                                                \
    type                                                                                                               \
    {                                                                                                                  \
        sizeof(type)                                                                                                   \
    }
#else
#define PAWL_INIT(type) ((type){.size = sizeof(type)})
#endif

#define PAWL_ABI_VERSION 1
enum { PAWL_MAX_DRAFT = 8 };

typedef struct pawl_model pawl_model;
typedef struct pawl_session pawl_session;

/* The ABI version that the library was built with; it must equal PAWL_ABI_VERSION. */
PAWL_API int pawl_abi_version(void);
/* "0.1.0" */
PAWL_API const char *pawl_version(void);
/* Frees what a call of this API returned through a char ** or int32_t **. NULL is allowed. */
PAWL_API void pawl_free(void *p);

/* ---- models ------------------------------------------------------------------------------------------------------ */

/* Which kernels may be used. Strings are copied. */
typedef struct pawl_kernel_options {
    size_t size;
    const char *isa;   /* highest instruction set: "ref", "avx2", "avx512", "amx", "neon"; NULL: all that is there */
    int deterministic; /* one row-invariant kernel per op for all row counts */
    const char *const *force; /* "OP=ID" each; a forced kernel that cannot serve makes pawl_model_open fail */
    size_t n_force;
    const char *const *ban; /* kernel ids */
    size_t n_ban;
    /* What weights are multiplied with: "f32" (NULL), exact products of the stored weights; or "int8": rows of activations
     * are rounded to int8 in groups of 32, for weights in FP8 and NVFP4 (others have no int8 form and stay f32). Faster, and
     * a little less accurate. One for a whole model: with draft_kernels it is NULL or the same. */
    const char *activations;
} pawl_kernel_options;

typedef struct pawl_model_options {
    size_t size;
    int threads;                              /* 0: as many as this process is granted CPUs */
    const pawl_kernel_options *kernels;       /* NULL: automatic */
    const pawl_kernel_options *draft_kernels; /* for the draft layer; NULL: as the target's */
    int check_nan;                            /* test valid rows after each op; an error names op, layer and row */
    int poison;                               /* fill scratch with signalling NaNs before each use: a debugging aid */
    /* Called while loading takes more than a moment, with bytes done and to do; may be NULL. */
    void (*progress)(void *user, uint64_t done, uint64_t total);
    void *progress_user;
} pawl_model_options;

/* path: a folder with config.json and safetensors files in the Hugging Face layout. opt may be NULL. */
PAWL_API pawl_status pawl_model_open(const char *path, const pawl_model_options *opt, pawl_model **out, pawl_err *err);
/* No session of the model may exist any more. Nulls the caller's pointer; *m may be NULL. */
PAWL_API void pawl_model_close(pawl_model **m);

typedef struct pawl_model_info {
    size_t size;
    const char *model_type; /* of the text model, e.g. "qwen3_5_moe_text"; owned by the model */
    int64_t vocab;          /* width of a logits row */
    int64_t hidden, layers;
    int64_t context;  /* the longest sequence the model was made for */
    int draft_layers; /* MTP layers; 0: the model cannot draft */
    int has_tokenizer, has_template;
    uint64_t weight_bytes;
    int threads;
} pawl_model_info;
/* info->size must be set. */
PAWL_API void pawl_model_get_info(const pawl_model *m, pawl_model_info *info);

/* ---- text -------------------------------------------------------------------------------------------------------- */

enum { PAWL_TOKENIZE_SPECIAL = 1 /* special tokens in the text become their ids */ };

/* *ids is the caller's, to be freed with pawl_free. PAWL_EUNSUPPORTED when the model has no tokenizer. */
PAWL_API pawl_status pawl_tokenize(const pawl_model *m, const char *text, size_t n, unsigned flags, int32_t **ids,
                                   size_t *n_ids, pawl_err *err);
PAWL_API pawl_status pawl_detokenize(const pawl_model *m, const int32_t *ids, size_t n, int skip_special, char **text,
                                     size_t *n_text, pawl_err *err);
/* Renders the checkpoint's chat template. messages: a JSON array as the OpenAI API has it; tools: a JSON array or NULL;
 * kwargs: a JSON object of further template variables (enable_thinking, ...) or NULL. The text ends where the
 * assistant's answer begins when add_generation_prompt is set; tokenise it with PAWL_TOKENIZE_SPECIAL. */
PAWL_API pawl_status pawl_render_chat(const pawl_model *m, const char *messages, const char *tools, const char *kwargs,
                                      int add_generation_prompt, char **text, size_t *n_text, pawl_err *err);

/* ---- sessions ---------------------------------------------------------------------------------------------------- */

typedef struct pawl_session_options {
    size_t size;
    int64_t context; /* most tokens of the sequence; 0: min(the model's, 8192) */
    int32_t chunk;   /* rows per prefill step; 0: 256. Changes speed and memory, never a bit of the results */
} pawl_session_options;

/* opt may be NULL. */
PAWL_API pawl_status pawl_session_create(pawl_model *m, const pawl_session_options *opt, pawl_session **out,
                                         pawl_err *err);
PAWL_API void pawl_session_destroy(pawl_session **s);

/* Appends tokens to the sequence; they are computed by the next call that needs them. PAWL_EINVAL for an id outside the
 * vocabulary or a sequence longer than the context: nothing is appended then. */
PAWL_API pawl_status pawl_session_feed(pawl_session *s, const int32_t *ids, size_t n, pawl_err *err);
/* Makes the sequence equal these tokens. What was already computed is kept when the sequence so far is a prefix of them;
 * otherwise the sequence starts anew. */
PAWL_API pawl_status pawl_session_sync(pawl_session *s, const int32_t *ids, size_t n, pawl_err *err);
/* Forgets everything. */
PAWL_API void pawl_session_reset(pawl_session *s);
/* The tokens of the sequence so far (fed and generated), borrowed until the next call on the session. */
PAWL_API const int32_t *pawl_session_tokens(const pawl_session *s, size_t *n);
PAWL_API int64_t pawl_session_context(const pawl_session *s);
/* The session as bytes: tokens, keys and values, recurrent states, what the draft layer needs. *data is the caller's, to be
 * freed with pawl_free. */
PAWL_API pawl_status pawl_session_save(const pawl_session *s, void **data, size_t *n, pawl_err *err);
/* Makes the session what was saved from a session of the same model, perhaps by another process: what it generates from here
 * on is the same. PAWL_EFORMAT, and the session is as it was, when the bytes are damaged, of another model, or too long for
 * this session's context. */
PAWL_API pawl_status pawl_session_restore(pawl_session *s, const void *data, size_t n, pawl_err *err);
/* From any thread or a signal handler: the running or next pawl_generate or pawl_score ends at its next step with
 * PAWL_ECANCELED. A prefill ends between two layers; what the sequence had computed is then computed again. */
PAWL_API void pawl_session_cancel(pawl_session *s);

/* ---- generating -------------------------------------------------------------------------------------------------- */

typedef struct pawl_logit_bias {
    int32_t id;
    float bias;
} pawl_logit_bias;

typedef struct pawl_sampling {
    size_t size;
    float temperature;                         /* below 1e-5: greedy */
    int32_t top_k;                             /* 0: off */
    float top_p;                               /* 1: off; 0 keeps one token */
    float min_p;                               /* 0: off */
    float presence_penalty, frequency_penalty; /* of generated tokens */
    float repetition_penalty;                  /* of all tokens; 1: off */
    const pawl_logit_bias *bias;
    size_t n_bias;
    uint64_t seed;
    int has_seed; /* 0: a seed is drawn from the system and reported in the result */
} pawl_sampling;
/* The checkpoint's defaults (generation_config.json); greedy where it has none. */
PAWL_API void pawl_model_get_sampling(const pawl_model *m, pawl_sampling *out);

typedef struct pawl_token {
    int32_t id;
    int64_t position; /* in the sequence */
    const char
        *text; /* what became certain with this token: whole characters, perhaps none; not terminated; valid during
                         the callback. NULL when the model has no tokenizer */
    size_t n_text;
    int drafted; /* 1: the draft layer had proposed this token */
} pawl_token;
/* Called for each token on the thread that generates. A nonzero return ends generating after this token; text that was
 * held back as the possible beginning of a stop text is not delivered then. */
typedef int (*pawl_token_fn)(const pawl_token *token, void *user);

enum { PAWL_DRAFT_AUTO = -1 };

typedef struct pawl_generate_options {
    size_t size;
    int64_t max_tokens;            /* 0: up to the context */
    const pawl_sampling *sampling; /* NULL: the checkpoint's defaults */
    int draft;               /* tokens drafted a round: 0 to PAWL_MAX_DRAFT, or PAWL_DRAFT_AUTO. Changes speed only */
    int ignore_eos;          /* do not stop at the checkpoint's end tokens */
    const char *const *stop; /* texts that end the answer; they are not part of it */
    size_t n_stop;
    int keep_special; /* special tokens appear in the text */
} pawl_generate_options;

typedef enum pawl_finish {
    PAWL_FINISH_STOP,     /* an end token or a stop text */
    PAWL_FINISH_LENGTH,   /* max_tokens or the context's end */
    PAWL_FINISH_CALLBACK, /* the callback asked for it */
    PAWL_FINISH_CANCELED
} pawl_finish;

typedef struct pawl_stats {
    int64_t prompt_tokens, generated_tokens;
    double prefill_seconds, decode_seconds;
    int64_t rounds; /* verification passes of the target */
    int64_t drafted, accepted;
    int64_t drafted_at[PAWL_MAX_DRAFT], accepted_at[PAWL_MAX_DRAFT]; /* by place in the chain */
} pawl_stats;

typedef struct pawl_result {
    size_t size;
    pawl_finish finish;
    uint64_t seed; /* that was used */
    pawl_stats stats;
} pawl_result;

/* Continues the sequence, which must have at least one token. The generated tokens become part of it. on_token and result
 * may be NULL. A cancelled run returns PAWL_ECANCELED with result filled in; what was delivered stays delivered. */
PAWL_API pawl_status pawl_generate(pawl_session *s, const pawl_generate_options *opt, pawl_token_fn on_token,
                                   void *user, pawl_result *result, pawl_err *err);

/* ---- scoring ----------------------------------------------------------------------------------------------------- */

/* Called with consecutive rows of logits [rows][vocab], valid during the call; row i belongs to position first + i. For
 * draft rows (draft = 1) row t comes from the hidden state of token t and the embedding of token t+1, and predicts token
 * t+2. A nonzero return ends scoring with PAWL_ECANCELED. */
typedef int (*pawl_logits_fn)(void *user, int draft, int64_t first, int64_t rows, const float *logits);

/* Resets the session and runs the ids through the model. with_draft also gives the draft layer's n - 1 rows. */
PAWL_API pawl_status pawl_score(pawl_session *s, const int32_t *ids, size_t n, int with_draft, pawl_logits_fn on_logits,
                                void *user, pawl_err *err);

#ifdef __cplusplus
}
#endif
#endif
