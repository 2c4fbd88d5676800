/* Gated DeltaNet (Yang et al. 2024, as in Qwen3-Next and Qwen3.5). Per row and value head h with key head kh = h / r,
 * r = nv / nk, all in f32, S is [dk][dv]:
 *     q = q[kh] / sqrt(sum q^2 + 1e-6) / sqrt(dk);  k = k[kh] / sqrt(sum k^2 + 1e-6)
 *     g = -exp(a_log[h]) * softplus(a + dt_bias[h]);  beta = sigmoid(b)
 *     S *= exp(g);  p[j] = sum_i k[i] S[i][j];  d = (v - p) * beta;  S[i][j] += k[i] d[j];  o[j] = sum_i q[i] S[i][j]
 * Order: sums of squares in 16 lanes and the tree of op/linear.h; p and o by fma over rising i from 0 for each column j;
 * S[i][j] = fma(k[i], d[j], S[i][j]) after S = S * e. The decay factor e = exp(g) is what is logged. Rows run one by one
 * in one order for prefill, decode and verification, so how rows are cut into segments never changes a bit.
 *
 * gdn: a segment moves its slot's state on. gdn_verify (segments with verify = 1): outputs are those of gdn, the state is
 * left as it was, and each row's inputs to the recurrence go to the log. gdn_replay: applies the first `rows` logged rows
 * of each segment to its state, with the same bits as if gdn had run them.
 * A slot of -1 is padding: nothing is read or written but its output rows, which become zeros. */
#ifndef PAWL_OP_GDN_H
#define PAWL_OP_GDN_H

#include "op/seg.h"

/* Inputs of the recurrence of verified rows, row-major by log row. q is not needed. */
typedef struct pawl_gdn_log {
    float *k;     /* [rows][nk * dk], normalised */
    float *v;     /* [rows][nv * dv] */
    float *decay; /* [rows][nv]: exp(g) */
    float *beta;  /* [rows][nv] */
} pawl_gdn_log;

/* Used by gdn and gdn_verify alike; segments say which. */
typedef struct pawl_gdn_args {
    int64_t m, nk, nv, dk, dv;
    const float *qkv;   /* [m][2*nk*dk + nv*dv]: the convolution's output, q heads, k heads, v heads */
    const float *a, *b; /* [m][ab_row]: raw outputs of in_proj_a and in_proj_b, nv each */
    int64_t ab_row;
    const float *a_log, *dt_bias; /* [nv] */
    const pawl_seg *segs;
    int32_t n_segs;
    float *state;      /* slot s at state + s*slot_size: [nv][dk][dv] */
    int64_t slot_size; /* floats */
    pawl_gdn_log log;
    float *out; /* [m][nv * dv] */
} pawl_gdn_args;

typedef struct pawl_gdn_replay_args {
    int64_t nk, nv, dk, dv;
    const pawl_seg *segs; /* slot, log0 and rows (= rows to apply, perhaps 0) are read */
    int32_t n_segs;
    float *state;
    int64_t slot_size;
    pawl_gdn_log log;
} pawl_gdn_replay_args;

#endif
