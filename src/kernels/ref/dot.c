/* The inner product of op/linear.h, in its order of additions, for every weight format. Weights are decoded 128 at a time. */
#include "kernels/ref/dot.h"

#include <string.h>

#include "kernels/ref/lanes.h"
#include "quant/codes.h"

enum { BLOCK = 128 };

/* Weights k0 .. k0+count-1 of row n without the factor that is applied later: FP8's block, tensor or row scale and NVFP4's
 * scale2. Exact in f32. */
static void decode_block(const pawl_wmat *w, int64_t n, int64_t k0, int count, float *out)
{
    const uint8_t *row = (const uint8_t *)w->data + n * w->ld;
    for (int i = 0; i < count; i++) {
        int64_t k = k0 + i;
        uint16_t code = 0;
        switch (w->q) {
        case PAWL_Q_F32:
            memcpy(&out[i], row + 4 * k, 4);
            break;
        case PAWL_Q_F16:
            memcpy(&code, row + 2 * k, 2);
            out[i] = pawl__f16_decode(code);
            break;
        case PAWL_Q_BF16:
            memcpy(&code, row + 2 * k, 2);
            out[i] = pawl__bf16_decode(code);
            break;
        case PAWL_Q_FP8BLK:
        case PAWL_Q_FP8TEN:
        case PAWL_Q_FP8CH:
            out[i] = pawl__e4m3_decode(row[k]);
            break;
        case PAWL_Q_NVFP4:
            code = (uint16_t)(row[k / 2] >> 4 * (k % 2) & 15);
            out[i] = pawl__e2m1_table[code] * pawl__e4m3_decode(w->bscale[n * w->scale_ld + k / 16]);
            break;
        case PAWL_Q_MXFP4:
            code = (uint16_t)(row[k / 2] >> 4 * (k % 2) & 15);
            out[i] = pawl__e2m1_table[code] * pawl__e8m0_decode(w->bscale[n * w->scale_ld + k / 32]);
            break;
        case PAWL_Q_NONE:
        case PAWL_QUANT_COUNT:
            out[i] = 0;
            break;
        }
    }
}

static const float *block_scales(const pawl_wmat *w, int64_t n)
{
    return w->scale + (w->row0 + n) / 128 * w->scale_ld;
}

/* What the reduced sum is multiplied by. */
static float last_scale(const pawl_wmat *w, int64_t n, float sum)
{
    switch (w->q) {
    case PAWL_Q_FP8TEN:
        return sum * w->scale[0];
    case PAWL_Q_FP8CH:
        return sum * w->scale[n];
    case PAWL_Q_NVFP4:
        return sum * w->scale2;
    default:
        return sum;
    }
}

void pawl__ref_dot(const pawl_wmat *w, int64_t n, const float *x, int64_t ldx, int rows, float *y)
{
    float acc[PAWL_REF_ROWS][PAWL_LANES] = {{0}};
    float block[BLOCK];
    for (int64_t k0 = 0; k0 < w->k; k0 += BLOCK) {
        int count = w->k - k0 < BLOCK ? (int)(w->k - k0) : BLOCK;
        decode_block(w, n, k0, count, block);
        for (int m = 0; m < rows; m++) {
            const float *xb = x + m * ldx + k0;
            if (w->q == PAWL_Q_FP8BLK) {
                float p[PAWL_LANES] = {0}, scale = block_scales(w, n)[k0 / 128];
                for (int i = 0; i < count; i++) p[i % PAWL_LANES] = fmaf(block[i], xb[i], p[i % PAWL_LANES]);
                for (int l = 0; l < PAWL_LANES; l++) acc[m][l] = fmaf(p[l], scale, acc[m][l]);
            } else {
                for (int i = 0; i < count; i++) acc[m][i % PAWL_LANES] = fmaf(block[i], xb[i], acc[m][i % PAWL_LANES]);
            }
        }
    }
    for (int m = 0; m < rows; m++) y[m] = last_scale(w, n, pawl__lanes_sum(acc[m]));
}

void pawl__ref_dot_a8(const pawl_wmat *w, int64_t n, const uint8_t *codes, const float *scales, int rows, float *y)
{
    float acc[PAWL_REF_ROWS][PAWL_LANES] = {{0}};
    float block[BLOCK];
    int64_t blocks = (w->k + BLOCK - 1) / BLOCK;
    for (int64_t b = 0; b < blocks; b++) {
        int count = w->k - b * BLOCK < BLOCK ? (int)(w->k - b * BLOCK) : BLOCK;
        decode_block(w, n, b * BLOCK, count, block);
        for (int m = 0; m < rows; m++) {
            const uint8_t *xb = codes + m * w->k + b * BLOCK;
            float p[PAWL_LANES] = {0}, scale = scales[m * blocks + b] * block_scales(w, n)[b];
            for (int i = 0; i < count; i++)
                p[i % PAWL_LANES] = fmaf(block[i], pawl__e4m3_decode(xb[i]), p[i % PAWL_LANES]);
            for (int l = 0; l < PAWL_LANES; l++) acc[m][l] = fmaf(p[l], scale, acc[m][l]);
        }
    }
    for (int m = 0; m < rows; m++) y[m] = pawl__lanes_sum(acc[m]);
}
