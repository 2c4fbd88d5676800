#include "quant/act8.h"

#include <string.h>

#include "quant/codes.h"

enum { GROUP = PAWL_ACT8_GROUP };

void pawl__act8_quantize_row(const float *x, int64_t k, int8_t *codes, float *scale)
{
    int64_t whole = k / GROUP;
    for (int64_t g = 0; g < whole; g++) scale[g] = pawl__act8_group(x + g * GROUP, codes + g * GROUP);
    if (k % GROUP == 0) return;
    float last[GROUP] = {0};
    memcpy(last, x + whole * GROUP, (size_t)(k % GROUP) * sizeof *x);
    scale[whole] = pawl__act8_group(last, codes + whole * GROUP);
}

int pawl__has_int8(pawl_quant q)
{
    return q == PAWL_Q_NVFP4 || q == PAWL_Q_FP8BLK || q == PAWL_Q_FP8TEN || q == PAWL_Q_FP8CH;
}

static void nvfp4_group(const pawl_wmat *w, int64_t row, int64_t k0, int n, int8_t *code, float scale[2])
{
    const uint8_t *p = (const uint8_t *)w->data + row * w->ld + k0 / 2;
    const uint8_t *s = w->bscale + row * w->scale_ld + k0 / 16;
    for (int i = 0; i < n; i++) code[i] = (int8_t)(2 * pawl__e2m1_table[p[i / 2] >> 4 * (i % 2) & 15]);
    for (int i = 0; i < n / 16; i++) scale[i] = pawl__e4m3_decode(s[i]);
}

static void fp8_group(const pawl_wmat *w, int64_t row, int64_t k0, int n, int8_t *code, float scale[2])
{
    const uint8_t *p = (const uint8_t *)w->data + row * w->ld + k0;
    int c = 8, nan = 0;
    for (int i = 0; i < n; i++) {
        int e = p[i] >> 3 & 15;
        if (e > c) c = e;
        nan |= (p[i] & 0x7f) == 0x7f;
    }
    for (int i = 0; i < n && !nan; i++) code[i] = (int8_t)rintf(ldexpf(pawl__e4m3_decode(p[i]), 13 - c));
    float s = nan ? NAN : ldexpf(1.0f, c - 13);
    if (w->q == PAWL_Q_FP8BLK) s *= w->scale[(w->row0 + row) / 128 * w->scale_ld + k0 / 128];
    scale[0] = scale[1] = s;
}

void pawl__int8_weights(const pawl_wmat *w, int64_t row, int64_t g, int8_t code[GROUP], float scale[2])
{
    int64_t k0 = g * GROUP;
    int n = w->k - k0 < GROUP ? (int)(w->k - k0) : GROUP;
    memset(code, 0, GROUP);
    scale[0] = scale[1] = 0;
    if (w->q == PAWL_Q_NVFP4)
        nvfp4_group(w, row, k0, n, code, scale);
    else
        fp8_group(w, row, k0, n, code, scale);
}

float pawl__int8_last(const pawl_wmat *w, int64_t row)
{
    switch (w->q) {
    case PAWL_Q_FP8TEN:
        return w->scale[0];
    case PAWL_Q_FP8CH:
        return w->scale[row];
    case PAWL_Q_NVFP4:
        return w->scale2 * 0.5f;
    default:
        return 1.0f;
    }
}
