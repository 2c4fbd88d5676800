/* Names and sizes of the weight formats, and views of a weight matrix. */
#include "quant/quant.h"

#include <string.h>

static const char *const quant_words[PAWL_QUANT_COUNT] = {
    [PAWL_Q_NONE] = "none",   [PAWL_Q_F32] = "f32",          [PAWL_Q_F16] = "f16",
    [PAWL_Q_BF16] = "bf16",   [PAWL_Q_FP8BLK] = "fp8blk128", [PAWL_Q_FP8TEN] = "fp8ten",
    [PAWL_Q_FP8CH] = "fp8ch", [PAWL_Q_NVFP4] = "nvfp4",      [PAWL_Q_MXFP4] = "mxfp4",
};

static const char *const scale_words[PAWL_SCALE_COUNT] = {
    [PAWL_SCALE_NONE] = "none", [PAWL_SCALE_F32] = "f32",   [PAWL_SCALE_UE8M0] = "ue8m0",
    [PAWL_SCALE_E4M3] = "e4m3", [PAWL_SCALE_E8M0] = "e8m0",
};

static int find_word(const char *const *words, int count, const char *word, size_t n)
{
    int i = 0;
    while (i < count && (strlen(words[i]) != n || memcmp(words[i], word, n) != 0)) i++;
    return i;
}

const char *pawl__quant_word(pawl_quant q)
{
    return (unsigned)q < PAWL_QUANT_COUNT ? quant_words[q] : "?";
}

pawl_quant pawl__quant_parse(const char *word, size_t n)
{
    return (pawl_quant)find_word(quant_words, PAWL_QUANT_COUNT, word, n);
}

const char *pawl__scale_word(pawl_scale s)
{
    return (unsigned)s < PAWL_SCALE_COUNT ? scale_words[s] : "?";
}

pawl_scale pawl__scale_parse(const char *word, size_t n)
{
    return (pawl_scale)find_word(scale_words, PAWL_SCALE_COUNT, word, n);
}

int64_t pawl__quant_row_bytes(pawl_quant q, int64_t k)
{
    switch (q) {
    case PAWL_Q_F32:
        return 4 * k;
    case PAWL_Q_F16:
    case PAWL_Q_BF16:
        return 2 * k;
    case PAWL_Q_FP8BLK:
    case PAWL_Q_FP8TEN:
    case PAWL_Q_FP8CH:
        return k;
    case PAWL_Q_NVFP4:
    case PAWL_Q_MXFP4:
        return k / 2;
    default:
        return 0;
    }
}

pawl_wmat pawl__wmat_rows(const pawl_wmat *w, int64_t first, int64_t n)
{
    pawl_wmat v = *w;
    v.n = n;
    if (w->data) v.data = (const char *)w->data + first * w->ld;
    if (w->q == PAWL_Q_FP8BLK) {
        int64_t row = w->row0 + first;
        v.scale = w->scale + row / 128 * w->scale_ld;
        v.row0 = row % 128;
    } else if (w->q == PAWL_Q_FP8CH) {
        v.scale = w->scale + first;
    }
    if (w->bscale) v.bscale = w->bscale + first * w->scale_ld;
    return v;
}

size_t pawl__wmat_bytes(const pawl_wmat *w)
{
    size_t n = (size_t)w->n, k = (size_t)w->k, codes = n * (size_t)pawl__quant_row_bytes(w->q, w->k);
    switch (w->q) {
    case PAWL_Q_FP8BLK:
        return codes + ((size_t)w->row0 + n + 127) / 128 * ((k + 127) / 128) * 4;
    case PAWL_Q_FP8TEN:
        return codes + 4;
    case PAWL_Q_FP8CH:
        return codes + 4 * n;
    case PAWL_Q_NVFP4:
        return codes + n * (k / 16) + 4;
    case PAWL_Q_MXFP4:
        return codes + n * (k / 32);
    default:
        return codes;
    }
}
