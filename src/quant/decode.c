/* Decoding a row of any format: the slow truth. Every product below is exact in double, so that the only rounding is the
 * last one, to f32. */
#include <string.h>

#include "quant/codes.h"
#include "quant/quant.h"

static uint8_t nibble(const uint8_t *row, int64_t k)
{
    return k % 2 ? row[k / 2] >> 4 : row[k / 2] & 15;
}

void pawl__wmat_decode_row(const pawl_wmat *w, int64_t row, float *out)
{
    const uint8_t *p = (const uint8_t *)w->data + row * w->ld;
    const uint8_t *bs = w->bscale ? w->bscale + row * w->scale_ld : NULL;
    switch (w->q) {
    case PAWL_Q_F32:
        memcpy(out, p, (size_t)w->k * 4);
        break;
    case PAWL_Q_F16:
    case PAWL_Q_BF16:
        for (int64_t k = 0; k < w->k; k++) {
            uint16_t code;
            memcpy(&code, p + 2 * k, 2);
            out[k] = w->q == PAWL_Q_BF16 ? pawl__bf16_decode(code) : pawl__f16_decode(code);
        }
        break;
    case PAWL_Q_FP8BLK: {
        const float *s = w->scale + (w->row0 + row) / 128 * w->scale_ld;
        for (int64_t k = 0; k < w->k; k++) out[k] = (float)((double)pawl__e4m3_decode(p[k]) * s[k / 128]);
        break;
    }
    case PAWL_Q_FP8TEN:
    case PAWL_Q_FP8CH: {
        double s = w->scale[w->q == PAWL_Q_FP8CH ? row : 0];
        for (int64_t k = 0; k < w->k; k++) out[k] = (float)(pawl__e4m3_decode(p[k]) * s);
        break;
    }
    case PAWL_Q_NVFP4:
        for (int64_t k = 0; k < w->k; k++)
            out[k] = (float)((double)pawl__e2m1_table[nibble(p, k)] * pawl__e4m3_decode(bs[k / 16]) * w->scale2);
        break;
    case PAWL_Q_MXFP4:
        for (int64_t k = 0; k < w->k; k++)
            out[k] = (float)((double)pawl__e2m1_table[nibble(p, k)] * pawl__e8m0_decode(bs[k / 32]));
        break;
    case PAWL_Q_NONE:
    case PAWL_QUANT_COUNT:
        break;
    }
}
