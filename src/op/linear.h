/* linear: y[m][n] = sum over k of x[m][k] * w[n][k] (+ bias[n]), f32 in and out.
 *
 * The order of additions is part of the contract, so that every CPU kernel gives the same bits whatever its vector width,
 * row count, threads or place in a batch. There are 16 virtual lanes; element k belongs to lane k mod 16. Per lane, in
 * rising k, with fused multiply-adds from 0:
 *   F32, F16, BF16   acc = fma(w, x, acc)
 *   FP8BLK           per block of 128 k: p = fma(code, x, p) from p = 0; then acc = fma(p, scale, acc)
 *   FP8TEN, FP8CH    acc = fma(code, x, acc); the reduced sum is multiplied by the scale
 *   NVFP4, MXFP4     acc = fma(code * block scale, x, acc); the product is exact in f32. NVFP4: the reduced sum is
 *                    multiplied by scale2
 * Reduction: s[i] += s[i+8] for i < 8, then s[i+4], s[i+2], s[i+1]; s[0] is the sum. Elements past k in the last 16 are
 * skipped (their lanes keep their value). The bias is added last.
 *
 * With PAWL_QF_ACT_FP8 (FP8BLK weights only) x is first quantised per row and 128 k as GPUs do (quant.h,
 * pawl__fp8_quantize_row, floor 1e-10): p = fma(code_w, code_x, p), acc = fma(p, scale_x * scale_w, acc).
 *
 * With PAWL_QF_ACT_INT8 (NVFP4 and the FP8 formats) rows of x and of w become small integers with scales, in groups of 32 k
 * (quant/act8.h); elements past k are 0. Per output one sum from 0, group by group in rising k, s the scale of x's group:
 *   NVFP4   d0, d1 = the exact integer dots of the group's two halves, b0, b1 = the block scales:
 *           p = d0 * b0; p = fma(d1, b1, p); acc = fma(p, s, acc)
 *   FP8*    d = the exact dot of the group, g its scale: p = d * g; acc = fma(p, s, acc)
 * Then y = acc times scale2 / 2 (codes are doubled), the tensor's or the row's scale; the bias is added last. A result that
 * is not a number is the NaN 0x7fc00000. Error bound against sums in f64 over the quantised values:
 * (3k/32 + 20) * 2^-24 * sum |x w|.
 *
 * Error bound of the others against sums in f64: |y - ref| <= (k/16 + 20) * 2^-24 * sum |x w| per element. */
#ifndef PAWL_OP_LINEAR_H
#define PAWL_OP_LINEAR_H

#include "quant/quant.h"

typedef struct pawl_linear_args {
    int64_t m;
    const float *x;
    int64_t ldx; /* floats between rows of x; >= w->k */
    const pawl_wmat *w;
    const float *bias; /* [n] or NULL */
    float *y;          /* must not overlap x */
    int64_t ldy;       /* floats between rows of y; >= w->n */
} pawl_linear_args;

#endif
