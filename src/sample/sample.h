/* From logits to a token, as doc/design.md fixes it: NaN -> -inf, penalties, bias, temperature, top-k, top-p, min-p, then the
 * argmax of log p plus shared noise. Draft and target use this same code with the same position's noise; the output then
 * depends on the target and the seed alone. No allocation after create. */
#ifndef PAWL_SAMPLE_SAMPLE_H
#define PAWL_SAMPLE_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "pawl/pawl.h"

typedef struct pawl_sample_params {
    float temperature;                     /* below 1e-5: greedy */
    int32_t top_k;                         /* 0 or >= vocab: off */
    float top_p;                           /* >= 1: off; 0 keeps one token */
    float min_p;                           /* 0: off */
    float presence, frequency, repetition; /* 0, 0, 1: off */
    const pawl_logit_bias *bias;
    size_t n_bias;
    uint64_t seed;
} pawl_sample_params;

/* Gumbel noise of a token at an absolute position: g = -ln(-ln u), u from 52 bits of
 * mix64(mix64(seed ^ 0x9E3779B97F4A7C15 * (position + 1)) ^ token). Finite for all arguments. */
double pawl__gumbel(uint64_t seed, int64_t position, int32_t token);

/* One sequence's sampler: counts of its tokens for the penalties, and scratch. */
typedef struct pawl_sampler pawl_sampler;

/* n_valid: ids at or past it are padding rows of the vocabulary and are never chosen. bias is copied. PAWL_EINVAL names the
 * parameter that is out of range (NaN included) or the bias id outside the vocabulary. */
pawl_status pawl__sampler_create(int64_t vocab, int64_t n_valid, const pawl_sample_params *p, pawl_sampler **out,
                                 pawl_err *err);
void pawl__sampler_destroy(pawl_sampler **s);

/* Tokens that must not be chosen for positions below `before` (end tokens under min_tokens). ids are copied; one list a
 * sampler. PAWL_ENOMEM; PAWL_EINVAL for an id outside the vocabulary. */
pawl_status pawl__sampler_forbid(pawl_sampler *s, const int32_t *ids, size_t n, int64_t before, pawl_err *err);

/* The sequence's tokens: prompt tokens count for the repetition penalty only, generated ones for all three. */
void pawl__sampler_add_prompt(pawl_sampler *s, const int32_t *ids, size_t n);
void pawl__sampler_add(pawl_sampler *s, int32_t id);
/* Takes back the most recent pawl__sampler_add of this id: drafts are added while they are looked at and taken back
 * afterwards, so that each position is penalised by exactly the tokens before it. */
void pawl__sampler_remove(pawl_sampler *s, int32_t id);

/* The token for absolute position `position` (the index in the sequence of the token being produced) from a row of
 * logits [vocab], which is not changed. PAWL_EINVAL when all logits are NaN or -inf. */
pawl_status pawl__sampler_choose(pawl_sampler *s, const float *logits, int64_t position, int32_t *token, pawl_err *err);

#endif
