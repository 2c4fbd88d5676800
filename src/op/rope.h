/* rope: rotates the first r of k dimensions of each head in place, half-split pairs (i, i + r/2):
 *     x'[i] = x[i] c - x[i+r/2] s;  x'[i+r/2] = x[i+r/2] c + x[i] s
 * as fma(x[i], c, -(x[i+r/2] * s)) and fma(x[i+r/2], c, x[i] * s); c and s are given per row, so no kernel computes an
 * angle: they come from one f64 routine (base/mathfn.h) for all machines. */
#ifndef PAWL_OP_ROPE_H
#define PAWL_OP_ROPE_H

#include <stdint.h>

typedef struct pawl_rope_args {
    int64_t m, heads;
    int64_t r; /* rotary dimensions, even */
    float *x;  /* vector (t, h) at x + t*x_row + h*x_head */
    int64_t x_row, x_head;
    const float *cos, *sin; /* [m][r/2] */
} pawl_rope_args;

#endif
