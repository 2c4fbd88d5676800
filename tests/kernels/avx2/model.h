/* An independent scalar reading of op/linear.h and op/moe.h, and operands between guard pages, for the tests of the AVX2
 * kernels. A guarded buffer ends where an unreadable page begins, so one byte read too far is a crash. */
#ifndef PAWL_TESTS_AVX2_MODEL_H
#define PAWL_TESTS_AVX2_MODEL_H

#include "op/linear.h"
#include "op/moe.h"

/* Values that a test draws. */
typedef enum flavour {
    PLAIN,   /* about N(0, 1) */
    EXTREME, /* subnormals, zeros of both signs, large values */
    SPOILT,  /* NaN and infinities among them; e4m3 codes 0x7f and 0xff */
    FLAVOURS
} flavour;

/* n bytes that end at a guard page; freed all at once by guarded_free_all. */
void *guarded(size_t n);
void guarded_free_all(void);

/* Uniform in 0 .. n-1, and n floats of a flavour. */
int64_t draw(uint64_t *rng, int64_t n);
void draw_floats(uint64_t *rng, flavour f, float *out, int64_t n);
/* A weight matrix of any format with padded rows and scales, at any alignment. n, k > 0; k as the format needs it. */
pawl_wmat draw_weights(uint64_t *rng, pawl_quant q, flavour f, int64_t n, int64_t k);
/* Up to `most`, a multiple of what the format needs. */
int64_t draw_k(uint64_t *rng, pawl_quant q, int64_t most);

/* One output of op/linear.h's contract. */
float model_dot(const pawl_wmat *w, int64_t n, const float *x, const float *bias);
/* One row through one expert: y[h]. */
void model_expert(const pawl_experts *ex, int64_t id, const float *x, float *y);

/* Equal bits, or both NaN (which NaN is not part of the contract). */
int same_float(float a, float b);

#endif
