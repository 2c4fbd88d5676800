/* act: out = act(g) * u (gated) or act(g), element by element; act = silu(v) = v / (1 + exp(-v)) or relu2(v) = max(v,0)^2.
 * add: y += x, or with a row gate y = fma(sigmoid(gate[t]), x, y). */
#ifndef PAWL_OP_ACT_H
#define PAWL_OP_ACT_H

#include <stdint.h>

typedef enum pawl_act { PAWL_ACT_SILU, PAWL_ACT_RELU2 } pawl_act;

typedef struct pawl_act_args {
    int64_t m, n;
    const float *g; /* [m][g_row] */
    const float *u; /* [m][u_row]; NULL when not gated */
    int64_t g_row, u_row;
    float *out; /* [m][out_row]; may equal g or u */
    int64_t out_row;
    pawl_act act;
} pawl_act_args;

typedef struct pawl_add_args {
    int64_t m, n;
    const float *x; /* [m][x_row] */
    int64_t x_row;
    const float *gate; /* [m] with stride gate_row, or NULL */
    int64_t gate_row;
    float *y; /* [m][y_row] */
    int64_t y_row;
} pawl_add_args;

#endif
