/* Where things lie in a weight matrix, for the x86 linear kernels: plain address arithmetic, static in every file that
 * includes it, so that each instruction set has its own copy. */
#ifndef PAWL_KERNELS_X86_LINEAR_ROWS_H
#define PAWL_KERNELS_X86_LINEAR_ROWS_H

#include "kernels/x86/body_avx2.h"
#include "quant/codes.h"

enum { FP8_BLOCK = 128 }; /* k of one FP8 block scale */

/* Bytes of 16 codes. */
static inline __attribute__((always_inline)) int step_bytes(pawl_quant q)
{
    switch (q) {
    case PAWL_Q_F32:
        return 64;
    case PAWL_Q_F16:
    case PAWL_Q_BF16:
        return 32;
    case PAWL_Q_NVFP4:
    case PAWL_Q_MXFP4:
        return 8;
    default:
        return 16;
    }
}

static inline int is_fp8(pawl_quant q)
{
    return q == PAWL_Q_FP8BLK || q == PAWL_Q_FP8TEN || q == PAWL_Q_FP8CH;
}

static inline int is_fp4(pawl_quant q)
{
    return q == PAWL_Q_NVFP4 || q == PAWL_Q_MXFP4;
}

/* Codes of row n from k on; k is a multiple of 16. */
static inline const uint8_t *codes_at(const pawl_wmat *w, int64_t n, int64_t k)
{
    return (const uint8_t *)w->data + n * w->ld + k / 16 * step_bytes(w->q);
}

/* Block scales of an FP4 row from k on (a multiple of 32); NULL for other formats. */
static inline const uint8_t *bscale_at(const pawl_wmat *w, int64_t n, int64_t k)
{
    return is_fp4(w->q) ? w->bscale + n * w->scale_ld + (w->q == PAWL_Q_NVFP4 ? k / 16 : k / 32) : NULL;
}

/* Scale of the FP8 block that holds row n and k; those that follow in the row lie behind it. */
static inline const float *block_scale(const pawl_wmat *w, int64_t n, int64_t k)
{
    return w->scale + (w->row0 + n) / FP8_BLOCK * w->scale_ld + k / FP8_BLOCK;
}

/* 2^(e-127) without a branch: bit 22 makes 255 a NaN and 0 the subnormal 2^-127. */
static inline float e8m0(uint8_t e)
{
    return pawl__f32_from_bits(((uint32_t)e << 23) | ((uint32_t)((uint8_t)(e + 1) < 2) << 22));
}

static inline const float *x_row(const linear_part *p, int64_t j)
{
    return p->x + (p->xrows ? p->xrows[j] : j) * p->ldx;
}

static inline float *y_row(const linear_part *p, int64_t j)
{
    return p->y + (p->yrows ? p->yrows[j] : j) * p->ldy;
}

/* A reduced sum of row n of w becomes an output: scale, then bias. */
static inline float scaled_sum(const linear_part *p, int64_t n, float v)
{
    const pawl_wmat *w = p->w;
    if (w->q == PAWL_Q_FP8TEN) v *= w->scale[0];
    if (w->q == PAWL_Q_FP8CH) v *= w->scale[n];
    if (w->q == PAWL_Q_NVFP4) v *= w->scale2;
    return p->bias ? v + p->bias[n] : v;
}

#endif
