/* The records behind the public handles, for the files of this folder and for src/tool. */
#ifndef PAWL_ENGINE_ENGINE_H
#define PAWL_ENGINE_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <jansson.h>

#include "model/net.h"
#include "pawl/pawl.h"
#include "route/tuning.h"
#include "spec/adapt.h"
#include "token/genconfig.h"
#include "token/tokenizer.h"

enum { PAWL_MAX_CHUNK = 512, PAWL_DEFAULT_CHUNK = 256, PAWL_DEFAULT_CONTEXT = 8192 };

struct pawl_model {
    char *path;
    pawl_caps caps;
    pawl_pool *pool;
    pawl_exec exec;
    pthread_mutex_t step; /* held during a step: all sessions share the threads and the kernels' scratch */
    pawl_tuning tuning;   /* this machine's measured crossovers, if a tuning file holds any */
    pawl_policy target, draft;
    pawl_plan *plan;
    pawl_checkpoint *ck;
    pawl_net *net;
    pawl_tokenizer *tokenizer; /* NULL: the checkpoint has none */
    int has_template;
    pawl_genconfig gen;
    uint64_t weight_bytes;
    pawl_adapt_costs draft_costs; /* as the last generation left them; under step */
    int poison;
};

struct pawl_session {
    pawl_model *model;
    pawl_net_state *st;
    pawl_seq *seq;
    pawl_adapt adapt;
    atomic_int cancel;
};

/* The plan of a model on a machine described by a text ("cuda cc=90 sms=132"; NULL: this one), for explaining: nothing is
 * run and no body need exist. as_json: JSON. Appends to out. */
pawl_status pawl__engine_explain(const char *path, const char *caps, const pawl_kernel_options *target,
                                 const pawl_kernel_options *draft, int as_json, pawl_buf *out, pawl_err *err);

/* What callers' structs hold may be an older, shorter version: copies as much as both sides know and leaves the rest as it
 * was in dst. */
void pawl__options_copy(void *dst, size_t dst_size, const void *src, size_t src_size);

/* The sampler of a sequence of this model; s is complete, the seed is given apart (choices of one request differ in it). */
pawl_status pawl__sampling_create(const pawl_model *m, const pawl_sampling *s, uint64_t seed, pawl_sampler **out,
                                  pawl_err *err);

/* Names of special tokens ("eos_token", ...) as templates want them: a new reference, or NULL. */
json_t *pawl__special_tokens(const pawl_model *m);

#endif
