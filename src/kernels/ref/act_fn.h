/* One row of an activation function: used by act and by the experts. */
#ifndef PAWL_KERNELS_REF_ACT_FN_H
#define PAWL_KERNELS_REF_ACT_FN_H

#include "base/mathfn.h"
#include "op/act.h"

/* out = act(g) * u, or act(g) when u is NULL; out may equal g or u. */
static inline void pawl__act_row(pawl_act act, const float *g, const float *u, int64_t n, float *out)
{
    if (act == PAWL_ACT_SILU) {
        if (u)
            for (int64_t i = 0; i < n; i++) out[i] = pawl__siluf(g[i]) * u[i];
        else
            for (int64_t i = 0; i < n; i++) out[i] = pawl__siluf(g[i]);
    } else {
        for (int64_t i = 0; i < n; i++) {
            float v = g[i] < 0 ? 0 : g[i]; /* NaN passes */
            out[i] = u ? v * v * u[i] : v * v;
        }
    }
}

#endif
