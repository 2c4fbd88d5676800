/* One block of a linear layer in the reference's order: what linear and the experts share. */
#ifndef PAWL_KERNELS_REF_DOT_H
#define PAWL_KERNELS_REF_DOT_H

#include "quant/quant.h"

enum { PAWL_REF_ROWS = 8 /* rows of x that share one decoding of the weights */ };

/* y[m] = sum over k of w[n][k] * x[m][k], for m < rows <= PAWL_REF_ROWS; x rows are ldx floats apart. */
void pawl__ref_dot(const pawl_wmat *w, int64_t n, const float *x, int64_t ldx, int rows, float *y);

/* The same for quantised activations (FP8BLK): codes rows are w->k bytes, scales rows ceil(k/128) floats apart. */
void pawl__ref_dot_a8(const pawl_wmat *w, int64_t n, const uint8_t *codes, const float *scales, int rows, float *y);

#endif
