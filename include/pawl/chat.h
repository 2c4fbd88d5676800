/* pawl: chat prompts as token ids. What a server needs between a list of messages and the engine. */
#ifndef PAWL_CHAT_H
#define PAWL_CHAT_H

#include "pawl/pawl.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The compiled chat template of a model. Immutable: may be shared between threads. */
typedef struct pawl_chat pawl_chat;

/* PAWL_EUNSUPPORTED when the model has no tokenizer or no template. The model must live longer. */
PAWL_API pawl_status pawl_chat_open(const pawl_model *m, pawl_chat **out, pawl_err *err);
/* Nulls the caller's pointer; *c may be NULL. */
PAWL_API void pawl_chat_close(pawl_chat **c);

typedef struct pawl_chat_options {
    size_t size;
    const char *tools;  /* a JSON array, or NULL */
    const char *kwargs; /* a JSON object of further template variables, or NULL */
    int continue_final; /* 1: the prompt ends within the last message, an assistant's, which the answer continues;
                           0: it ends where a new answer begins */
    int parse_special;  /* 1: added tokens typed in messages take effect, as with transformers' apply_chat_template;
                           0: they are ordinary text. What an assistant said may hold those that are not special */
} pawl_chat_options;

typedef struct pawl_prompt {
    size_t size;
    int32_t *ids;          /* [n_ids] */
    int32_t *message_ends; /* [n_message_ends] numbers of ids at which a message has ended, rising */
    size_t n_ids, n_message_ends;
    int thinking; /* the prompt ends inside an open <think> block */
} pawl_prompt;

/* Renders and tokenises messages, a JSON array as the OpenAI API has it. opt may be NULL. out->size must be set; on success
 * out is the caller's, to be freed with pawl_prompt_free. */
PAWL_API pawl_status pawl_chat_prompt(const pawl_chat *c, const char *messages, const pawl_chat_options *opt,
                                      pawl_prompt *out, pawl_err *err);
PAWL_API void pawl_prompt_free(pawl_prompt *p);

/* The bytes that a token stands for, perhaps a fraction of a character; borrowed from the model. NULL with *n = 0 for an id
 * without text. */
PAWL_API const char *pawl_token_bytes(const pawl_model *m, int32_t id, size_t *n);

#ifdef __cplusplus
}
#endif
#endif
