/* rmsnorm over vectors of k elements:
 *     r = 1 / sqrt(mean(x^2) + eps);  out = x * r * (offset + w);  gated: out *= silu(gate)
 * offset is 1 with PAWL_QF_OFFSET1 (Qwen3.5's norms but the Gated DeltaNet one), else 0. The sum of squares runs in 16
 * lanes (lane = index mod 16, fma in order) and the fixed tree of op/linear.h. Each element: ((x * r) * (offset + w)).
 * There are m rows of `heads` vectors each: vector (t, h) of x starts at x + t*x_row + h*x_head. out may equal x. */
#ifndef PAWL_OP_NORM_H
#define PAWL_OP_NORM_H

#include <stdint.h>

typedef struct pawl_norm_args {
    int64_t m, heads, k;
    const float *x;
    int64_t x_row, x_head; /* floats between rows and between heads */
    const float *gate;     /* NULL unless gated; same vectors, strides below */
    int64_t gate_row, gate_head;
    const float *w; /* [k], shared by all heads */
    float *out;
    int64_t out_row, out_head;
    float eps;
    int offset1;
} pawl_norm_args;

#endif
