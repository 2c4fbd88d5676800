/* Number formats of weights: names, sizes, and the view of one weight matrix as it lies in a checkpoint.
 *
 * Codes are defined in quant/{bf16,f16,e4m3,e8m0,e2m1}; this header adds the block formats made of them. Formulas: the
 * OCP FP8 and MX specifications; block FP8 as DeepSeek-V3 and Qwen checkpoints store it; NVFP4 as NVIDIA ModelOpt and
 * compressed-tensors store it. No SIMD here: kernels decode for themselves and are compared with these functions. */
#ifndef PAWL_QUANT_QUANT_H
#define PAWL_QUANT_QUANT_H

#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/status.h"

typedef enum pawl_quant {
    PAWL_Q_NONE, /* the op has no weight */
    PAWL_Q_F32,
    PAWL_Q_F16,
    PAWL_Q_BF16,
    PAWL_Q_FP8BLK, /* e4m3, one scale per 128 x 128 block: w = code * scale[n/128][k/128] */
    PAWL_Q_FP8TEN, /* e4m3, one scale per tensor */
    PAWL_Q_FP8CH,  /* e4m3, one scale per row */
    PAWL_Q_NVFP4,  /* e2m1, e4m3 scale per 16 along k, one f32 multiplier per tensor */
    PAWL_Q_MXFP4,  /* e2m1, e8m0 scale per 32 along k */
    PAWL_QUANT_COUNT
} pawl_quant;

/* How the scales of a quantised operand are stored where a kernel meets them. A typed kind, so that a packed scale cannot
 * reach a kernel that wants floats. */
typedef enum pawl_scale {
    PAWL_SCALE_NONE,
    PAWL_SCALE_F32,   /* block, tensor or channel scales as floats */
    PAWL_SCALE_UE8M0, /* block scales as exponent bytes, four packed in an int32 along k (a kernel-side layout) */
    PAWL_SCALE_E4M3,  /* NVFP4 */
    PAWL_SCALE_E8M0,  /* MXFP4 */
    PAWL_SCALE_COUNT
} pawl_scale;

/* "bf16", "fp8blk128", "fp8ten", "fp8ch", "nvfp4", "mxfp4", "f32", "f16", "none". */
const char *pawl__quant_word(pawl_quant q);
pawl_quant pawl__quant_parse(const char *word, size_t n); /* PAWL_QUANT_COUNT when unknown */
/* "none", "f32", "ue8m0", "e4m3", "e8m0". */
const char *pawl__scale_word(pawl_scale s);
pawl_scale pawl__scale_parse(const char *word, size_t n);

/* One weight matrix [n, k], row-major, borrowed: data usually points into a mapped file and may be unaligned. */
typedef struct pawl_wmat {
    pawl_quant q;
    int64_t n, k;
    const void *data;      /* codes; F32/F16/BF16 little-endian; two e2m1 codes a byte, even k in the low four bits */
    int64_t ld;            /* bytes between rows */
    const float *scale;    /* FP8BLK [ceil((row0+n)/128)][scale_ld], FP8TEN [1], FP8CH [n]; else NULL */
    const uint8_t *bscale; /* NVFP4: e4m3 [n][scale_ld]; MXFP4: e8m0 [n][scale_ld]; else NULL */
    int64_t scale_ld;      /* elements between rows of scale or bscale */
    int64_t row0;          /* FP8BLK: the first row's index inside its scale's first block, 0 <= row0 < 128 */
    float scale2;          /* NVFP4: the tensor's multiplier (ModelOpt's weight_scale_2); 1 elsewhere */
} pawl_wmat;

/* Bytes of one row of k codes. PAWL_Q_NVFP4 needs k % 16 == 0, MXFP4 k % 32 == 0. */
int64_t pawl__quant_row_bytes(pawl_quant q, int64_t k);
/* A view of rows first .. first+n-1. */
pawl_wmat pawl__wmat_rows(const pawl_wmat *w, int64_t first, int64_t n);
/* Row `row` as exact products of code and scales, rounded once to f32: out[k]. The slow truth that kernels are tested by. */
void pawl__wmat_decode_row(const pawl_wmat *w, int64_t row, float *out);
/* Bytes of codes and scales of the whole matrix, for accounts of memory and bandwidth. */
size_t pawl__wmat_bytes(const pawl_wmat *w);

/* Encoders (for synth, tests and quantize). w: f32 [n, k] row-major.
 * FP8 block: scale = amax/448 of each block (1.0 for a zero block), optionally rounded up to a power of two *before* the
 * codes are made; codes [n][k], scale [ceil(n/128)][ceil(k/128)]. bf16_scale rounds the scale to bf16 first, as the Qwen
 * releases store it. */
enum { PAWL_FP8_UE8M0 = 1, PAWL_FP8_BF16_SCALE = 2 };
void pawl__fp8blk_encode(const float *w, int64_t n, int64_t k, unsigned flags, uint8_t *codes, float *scale);
/* NVFP4: scale2 = amax(w)/(6*448) unless given (> 0); bscale [n][k/16], codes [n][k/2]. All in f32 in this order: amax/6,
 * / scale2, round to e4m3 clamped to [2^-9, 448] (zero block: 1.0), code = e2m1(w / (sc * scale2)). Returns scale2. */
float pawl__nvfp4_encode(const float *w, int64_t n, int64_t k, float scale2, uint8_t *codes, uint8_t *bscale);
/* Activations as a GPU quantises them, per row and 128 k: s = max(amax, floor)/448, code = e4m3(x / s) by true division.
 * ue8m0 rounds s up to a power of two first. codes [k], scale [ceil(k/128)]. */
void pawl__fp8_quantize_row(const float *x, int64_t k, float floor, int ue8m0, uint8_t *codes, float *scale);

#endif
