/* One output of op/linear.h under the int8 policy: what linear and the experts share. */
#ifndef PAWL_KERNELS_REF_DOT_INT8_H
#define PAWL_KERNELS_REF_DOT_INT8_H

#include "quant/act8.h"

/* Sum for row n of w and one quantised row of x (codes [32 * groups], scales [groups]), the tensor's multiplier included. */
float pawl__ref_dot_int8(const pawl_wmat *w, int64_t n, const int8_t *codes, const float *scales);

#endif
