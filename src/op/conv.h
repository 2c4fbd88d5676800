/* conv: causal depthwise convolution over time with window 4, then silu, per channel ch:
 *     c(t) = w[0] u(t-3) + w[1] u(t-2) + w[2] u(t-1) + w[3] u(t);  s(t) = silu(c(t))
 * summed from w[0]*u(t-3) by fma in this order. Inputs before a segment come from its state: the last 3 inputs, oldest
 * first, [channels][3] per slot; a fresh slot is zeros. After a segment that is not `verify` the state is the last 3
 * inputs (also when it has fewer than 3 rows). A verify segment leaves the state alone and its rows' inputs are copied to
 * log[log0 + i][channels]. conv_replay then moves the state on by the first `rows` logged rows of each segment. */
#ifndef PAWL_OP_CONV_H
#define PAWL_OP_CONV_H

#include "op/seg.h"

enum { PAWL_CONV_WINDOW = 4 };

typedef struct pawl_conv_args {
    int64_t m, channels;
    const float *u; /* [m][u_row] */
    int64_t u_row;
    const float *w; /* [channels][4] */
    const pawl_seg *segs;
    int32_t n_segs;
    float *state;      /* slot s at state + s*slot_size: [channels][3] */
    int64_t slot_size; /* floats */
    float *log;        /* [..][channels]; may be NULL when no segment is verify */
    float *out;        /* [m][channels] */
} pawl_conv_args;

typedef struct pawl_conv_replay_args {
    int64_t channels;
    const pawl_seg *segs; /* slot, log0 and rows (= rows to apply, perhaps 0) are read */
    int32_t n_segs;
    float *state;
    int64_t slot_size;
    const float *log;
} pawl_conv_replay_args;

#endif
