/* FP8 with a scale per block: weights by 128 x 128 as DeepSeek-V3 and Qwen checkpoints store them, activations by 1 x 128
 * as GPUs quantise them. The scale is the block's largest magnitude / 448, so that the largest code is used. */
#include <math.h>

#include "quant/codes.h"
#include "quant/quant.h"

static float weight_scale(float amax, unsigned flags)
{
    if (!(amax > 0)) return 1.0f;
    float s = amax / 448.0f;
    if (flags & PAWL_FP8_BF16_SCALE) s = pawl__bf16_decode(pawl__bf16_encode(s));
    if (flags & PAWL_FP8_UE8M0) s = pawl__e8m0_decode(pawl__e8m0_encode_up(s));
    return s > 0 ? s : 1.0f; /* a block so small that the quotient underflows becomes zeros */
}

void pawl__fp8blk_encode(const float *w, int64_t n, int64_t k, unsigned flags, uint8_t *codes, float *scale)
{
    int64_t blocks = (k + 127) / 128;
    for (int64_t n0 = 0; n0 < n; n0 += 128) {
        int64_t n1 = n0 + 128 < n ? n0 + 128 : n;
        for (int64_t k0 = 0; k0 < k; k0 += 128) {
            int64_t k1 = k0 + 128 < k ? k0 + 128 : k;
            float amax = 0;
            for (int64_t r = n0; r < n1; r++)
                for (int64_t c = k0; c < k1; c++) amax = fmaxf(amax, fabsf(w[r * k + c]));
            float s = weight_scale(amax, flags);
            scale[n0 / 128 * blocks + k0 / 128] = s;
            for (int64_t r = n0; r < n1; r++)
                for (int64_t c = k0; c < k1; c++) codes[r * k + c] = pawl__e4m3_encode(w[r * k + c] / s);
        }
    }
}

void pawl__fp8_quantize_row(const float *x, int64_t k, float floor, int ue8m0, uint8_t *codes, float *scale)
{
    for (int64_t k0 = 0; k0 < k; k0 += 128) {
        int64_t k1 = k0 + 128 < k ? k0 + 128 : k;
        float amax = floor;
        for (int64_t c = k0; c < k1; c++) amax = fmaxf(amax, fabsf(x[c]));
        float s = amax / 448.0f;
        if (ue8m0) s = pawl__e8m0_decode(pawl__e8m0_encode_up(s));
        scale[k0 / 128] = s;
        for (int64_t c = k0; c < k1; c++) codes[c] = pawl__e4m3_encode(x[c] / s);
    }
}
