/* The 16 virtual lanes of op/linear.h and their reduction. Unrolled, the loop over lanes would become 16 scalars before the
 * compiler looks for vectors; hence the pragmas. */
#ifndef PAWL_KERNELS_REF_LANES_H
#define PAWL_KERNELS_REF_LANES_H

#include <math.h>
#include <stdint.h>

enum { PAWL_LANES = 16 };

static inline float pawl__lanes_sum(const float s[PAWL_LANES])
{
    float a[8], b[4];
    for (int i = 0; i < 8; i++) a[i] = s[i] + s[i + 8];
    for (int i = 0; i < 4; i++) b[i] = a[i] + a[i + 4];
    return (b[0] + b[2]) + (b[1] + b[3]);
}

/* Sum of a[i]. */
static inline float pawl__lanes_total(const float *a, int64_t n)
{
    float s[PAWL_LANES] = {0};
    int64_t i = 0;
    for (; i + PAWL_LANES <= n; i += PAWL_LANES) {
#pragma GCC unroll 1
        for (int l = 0; l < PAWL_LANES; l++) s[l] += a[i + l];
    }
    for (int l = 0; i + l < n; l++) s[l] += a[i + l];
    return pawl__lanes_sum(s);
}

/* Sum of a[i] * b[i]. */
static inline float pawl__lanes_dot(const float *a, const float *b, int64_t n)
{
    float s[PAWL_LANES] = {0};
    int64_t i = 0;
    for (; i + PAWL_LANES <= n; i += PAWL_LANES) {
#pragma GCC unroll 1
        for (int l = 0; l < PAWL_LANES; l++) s[l] = fmaf(a[i + l], b[i + l], s[l]);
    }
    for (int l = 0; i + l < n; l++) s[l] = fmaf(a[i + l], b[i + l], s[l]);
    return pawl__lanes_sum(s);
}

#endif
