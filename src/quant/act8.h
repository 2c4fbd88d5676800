/* The int8 activation policy: activations and weights as small integers with scales, so that a dot product is exact integer
 * arithmetic inside a group. op/linear.h has the sums that are made of them.
 *
 * Activations, per row and 32 k (the last group is filled up with zeros): a = largest |x|;
 *   a is infinite or a NaN is among them   codes 0, scale NaN: every sum that they enter is a NaN
 *   a < 2^-100                             codes 0, scale 0
 *   else                                   scale = a / 127, code = round(x * (127 / a)) in f32, ties to even: -127 .. 127
 *
 * Weights, per row and 32 k:
 *   NVFP4   code = 2 * e2m1, exact: 0, +-1, 2, 3, 4, 6, 8, 12; two scales, those of the two blocks of 16
 *   FP8*    c = the largest exponent field of the 32 e4m3 codes, at least 8; code = round(e4m3 * 2^(13-c)), ties to even:
 *           -120 .. 120; scale = 2^(c-13), for FP8BLK times the block's scale; NaN when a NaN is among them. Weights
 *           down to an eighth of the group's largest stay exact, smaller ones are off by at most 2^-7 of it (c = 8: by at
 *           most 2^-6 before the block's scale). A power of two and not amax/127, which would round every weight. */
#ifndef PAWL_QUANT_ACT8_H
#define PAWL_QUANT_ACT8_H

#include <math.h>

#include "base/bits.h"
#include "quant/quant.h"

enum { PAWL_ACT8_GROUP = 32 };

/* Groups of a row of k elements. */
static inline int64_t pawl__act8_groups(int64_t k)
{
    return (k + PAWL_ACT8_GROUP - 1) / PAWL_ACT8_GROUP;
}

/* One whole group: returns its scale. Inline, so that kernels get it in their own vector instructions. */
static inline float pawl__act8_group(const float x[PAWL_ACT8_GROUP], int8_t code[PAWL_ACT8_GROUP])
{
    int32_t top = 0; /* magnitudes compare as integers do; NaN lies above infinity */
    for (int i = 0; i < PAWL_ACT8_GROUP; i++) {
        int32_t b = (int32_t)(pawl__f32_bits(x[i]) & 0x7fffffffu);
        top = b > top ? b : top;
    }
    if (top >= 0x7f800000 || top < 0x0d800000 /* 2^-100 */) {
        for (int i = 0; i < PAWL_ACT8_GROUP; i++) code[i] = 0;
        return top >= 0x7f800000 ? NAN : 0.0f;
    }
    float a = pawl__f32_from_bits((uint32_t)top), to_code = 127.0f / a;
    for (int i = 0; i < PAWL_ACT8_GROUP; i++) {
        /* 1.5 * 2^23 moves the integer, rounded to nearest and even, to the low bits of the mantissa */
        code[i] = (int8_t)pawl__f32_bits(x[i] * to_code + 0x1.8p23f);
    }
    return a / 127.0f;
}

/* A row: codes [32 * groups], scale [groups]. */
void pawl__act8_quantize_row(const float *x, int64_t k, int8_t *codes, float *scale);

/* Whether weights of this format have an integer form. */
int pawl__has_int8(pawl_quant q);

/* Group g (elements 32 g to 32 g + 31) of a row of weights: codes, and the scales of its two halves (for FP8 the same twice).
 * Elements past k are 0, halves past k have scale 0. The tensor's or row's own multiplier (scale2, FP8TEN, FP8CH) is left
 * out: pawl__int8_last. */
void pawl__int8_weights(const pawl_wmat *w, int64_t row, int64_t g, int8_t code[PAWL_ACT8_GROUP], float scale[2]);

/* What the finished sum of a row is multiplied by: scale2 / 2, the tensor's or row's scale, or 1. */
float pawl__int8_last(const pawl_wmat *w, int64_t row);

#endif
