/* The loops between an expert's matrices, in a form that compilers vectorise: static in every file that includes it, so that
 * each instruction set has its own copy. */
#ifndef PAWL_KERNELS_X86_MOE_ROWS_H
#define PAWL_KERNELS_X86_MOE_ROWS_H

#include <math.h>

#include "base/mathfn.h"
#include "op/act.h"

static inline void moe_silu(float *restrict g, int64_t n)
{
    for (int64_t c = 0; c < n; c++) g[c] = pawl__siluf(g[c]);
}

static inline void moe_silu_gated(float *restrict g, const float *restrict u, int64_t n)
{
    for (int64_t c = 0; c < n; c++) g[c] = pawl__siluf(g[c]) * u[c];
}

static inline void moe_relu2(float *restrict g, int64_t n)
{
    for (int64_t c = 0; c < n; c++) {
        float v = g[c] < 0.0f ? 0.0f : g[c]; /* NaN passes */
        g[c] = v * v;
    }
}

static inline void moe_times(float *restrict g, const float *restrict u, int64_t n)
{
    for (int64_t c = 0; c < n; c++) g[c] *= u[c];
}

static inline void moe_act(pawl_act act, float *g, const float *u, int64_t n)
{
    if (act == PAWL_ACT_RELU2) {
        moe_relu2(g, n);
        if (u) moe_times(g, u, n);
    } else if (u) {
        moe_silu_gated(g, u, n);
    } else {
        moe_silu(g, n);
    }
}

static inline void moe_add(float w, const float *restrict e, float *restrict y, int64_t n)
{
    for (int64_t c = 0; c < n; c++) y[c] = fmaf(w, e[c], y[c]);
}

#endif
