/* NVFP4: e2m1 codes, an e4m3 scale for 16 consecutive k and one f32 multiplier a tensor (NVIDIA ModelOpt). The order of the
 * divisions is the format's: in another order some codes near a tie come out otherwise. */
#include <math.h>

#include "quant/codes.h"
#include "quant/quant.h"

static uint8_t block_scale(const float *w, float scale2)
{
    float amax = 0;
    for (int i = 0; i < 16; i++) amax = fmaxf(amax, fabsf(w[i]));
    if (amax == 0) return pawl__e4m3_encode(1.0f);
    float s = amax / 6.0f / scale2;
    if (s < 0x1p-9f) s = 0x1p-9f;
    if (s > 448.0f) s = 448.0f;
    return pawl__e4m3_encode(s);
}

float pawl__nvfp4_encode(const float *w, int64_t n, int64_t k, float scale2, uint8_t *codes, uint8_t *bscale)
{
    if (!(scale2 > 0)) {
        float amax = 0;
        for (int64_t i = 0; i < n * k; i++) amax = fmaxf(amax, fabsf(w[i]));
        scale2 = amax / (6.0f * 448.0f);
        if (!(scale2 > 0)) scale2 = 1.0f; /* all zeros, or so small that the quotient underflows */
    }
    for (int64_t b = 0; b < n * k / 16; b++) {
        const float *x = w + 16 * b;
        bscale[b] = block_scale(x, scale2);
        float s = pawl__e4m3_decode(bscale[b]) * scale2;
        for (int i = 0; i < 8; i++)
            codes[8 * b + i] = (uint8_t)(pawl__e2m1_encode(x[2 * i] / s) | pawl__e2m1_encode(x[2 * i + 1] / s) << 4);
    }
    return scale2;
}
