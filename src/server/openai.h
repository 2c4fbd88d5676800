/* OpenAI's API, apart from HTTP: reading a request's JSON into a plain record, writing answers. */
#ifndef PAWL_SERVER_OPENAI_H
#define PAWL_SERVER_OPENAI_H

#include <jansson.h>

#include "base/buf.h"
#include "base/status.h"
#include "pawl/chat.h"
#include "pawl/engine.h"

enum {
    OPENAI_MAX_DEPTH = 64,    /* arrays and objects inside one another */
    OPENAI_MAX_STOPS = 64,    /* stop texts, of */
    OPENAI_MAX_STOP = 4096,   /* bytes each */
    OPENAI_MAX_PROMPTS = 128, /* prompts, and choices of all prompts together, in one request */
    OPENAI_MAX_BIAS = 1024
};

/* One prompt of /v1/completions: a text or ids. */
typedef struct openai_prompt {
    const char *text; /* borrowed from the tree; NULL: ids */
    size_t n_text;
    int32_t *ids;
    size_t n_ids;
} openai_prompt;

typedef struct openai_request {
    json_t *root;      /* everything borrowed below lives in it */
    const char *model; /* NULL: not named */
    /* chat */
    const json_t *messages, *tools, *kwargs; /* tools, kwargs: may be NULL */
    int continue_final;
    /* completions */
    openai_prompt *prompts;
    size_t n_prompts;
    int echo;
    /* both */
    int stream, include_usage;
    int split_reasoning; /* reasoning_content apart from content */
    int want_logprobs;
    pawl_sampling sampling; /* the checkpoint's defaults with the request's fields on top */
    pawl_logit_bias *bias;
    const char **stop;
    int32_t *stop_ids;
    pawl_request_options options; /* without prompt, tenant and thinking's end */
} openai_request;

/* defaults: the checkpoint's sampling; vocab: its width. On failure param names the field ("" where there is none). */
pawl_status openai_parse(const char *body, size_t n, int chat, const pawl_sampling *defaults, int64_t vocab,
                         openai_request *out, char param[64], pawl_err *err);
void openai_request_free(openai_request *r);

/* Any request body: an object, nested at most OPENAI_MAX_DEPTH deep, without a template in it. New reference. */
pawl_status openai_body(const char *body, size_t n, json_t **out, pawl_err *err);

/* ---- answers (openai_write.c) ------------------------------------------------------------------------------------ */

/* What all chunks or the one answer of a request begin with: up to and with "choices":[ . */
void openai_write_head(pawl_buf *b, int chat, int stream, const char *id, int64_t created, const char *model);

typedef struct openai_usage {
    pawl_usage engine; /* of all prompts together */
    int64_t reasoning_tokens;
    uint64_t seed;
} openai_usage;
/* "usage":{...} with how drafting went. */
void openai_write_usage(pawl_buf *b, const openai_usage *u);

/* The log probabilities of a choice as they grow, one comma-separated list for each array of the answer. */
typedef struct openai_logprobs {
    pawl_buf content;                      /* chat */
    pawl_buf tokens, values, top, offsets; /* completions */
    size_t offset;                         /* characters of text so far */
} openai_logprobs;
/* A token that was chosen, with its rivals. */
void openai_logprobs_add(openai_logprobs *l, int chat, const pawl_model *m, const pawl_event_token *t);
/* "logprobs":{...} of what was added since the last call; "logprobs":null if nothing was. Empties the lists. */
void openai_write_logprobs(pawl_buf *b, int chat, openai_logprobs *l);
void openai_logprobs_free(openai_logprobs *l);

const char *openai_finish_reason(pawl_end end);

#endif
