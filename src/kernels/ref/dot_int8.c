/* The sum of op/linear.h under the int8 policy, as literally as it can be written. */
#include "kernels/ref/dot_int8.h"

enum { GROUP = PAWL_ACT8_GROUP, HALF = GROUP / 2 };

static float half_dot(const int8_t *w, const int8_t *x)
{
    int32_t d = 0;
    for (int i = 0; i < HALF; i++) d += w[i] * x[i];
    return (float)d;
}

float pawl__ref_dot_int8(const pawl_wmat *w, int64_t n, const int8_t *codes, const float *scales)
{
    float acc = 0;
    for (int64_t g = 0; g < pawl__act8_groups(w->k); g++) {
        int8_t code[GROUP];
        float scale[2], p;
        const int8_t *x = codes + g * GROUP;
        pawl__int8_weights(w, n, g, code, scale);
        float d0 = half_dot(code, x), d1 = half_dot(code + HALF, x + HALF);
        if (w->q == PAWL_Q_NVFP4)
            p = fmaf(d1, scale[1], d0 * scale[0]);
        else
            p = (d0 + d1) * scale[0]; /* the sum is an integer below 2^24: exact */
        acc = fmaf(p, scales[g], acc);
    }
    return acc * pawl__int8_last(w, n);
}
