/* Guarded buffers and made-up operands. */
#include "checker.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/rng.h"
#include "quant/codes.h"

static void *must(void *p)
{
    if (p && p != MAP_FAILED) return p;
    fprintf(stderr, "checker: out of memory\n");
    exit(1);
}

/* slack: bytes between the end and the unreadable page, to try odd alignments. */
void *chk_buffer(chk_case *c, const char *name, chk_role role, size_t bytes, size_t slack)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), front = 64;
    chk_buf *b = &c->buf[c->bufs++];
    if (c->bufs > CHK_BUFS) exit(1);
    snprintf(b->name, sizeof b->name, "%s", name);
    b->role = role;
    b->bytes = bytes;
    b->map_bytes = (front + bytes + slack + page - 1) / page * page + page;
    b->map = must(mmap(NULL, b->map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    memset(b->map, 0xff, b->map_bytes - page); /* as floats: NaN, so that an element too many shows */
    if (mprotect(b->map + b->map_bytes - page, page, PROT_NONE)) exit(1);
    b->data = b->map + b->map_bytes - page - slack - bytes;
    return b->data;
}

double chk_normal(uint64_t *rng)
{
    double r = -6;
    for (int i = 0; i < 12; i++) r += pawl__rng_uniform(rng);
    return r;
}

int64_t chk_pick(uint64_t *rng, int64_t from, int64_t to)
{
    return from + (int64_t)(pawl__rng_next(rng) % (uint64_t)(to - from + 1));
}

/* Exact: +-1, +-2, +-1/2, small enough that every order of adding them up is right to the last bit. Extreme: many orders of
 * magnitude, zeros of both signs, but no product that overflows or leaves the normal range. */
static float value(chk_values values, uint64_t *rng)
{
    float sign = pawl__rng_next(rng) & 1 ? -1.0f : 1.0f;
    switch (values) {
    case CHK_EXACT_POWERS:
        return sign * ldexpf(1, (int)chk_pick(rng, -1, 1));
    case CHK_EXTREME:
        if (chk_pick(rng, 0, 7) == 0) return sign * 0.0f;
        return sign * ldexpf((float)(1 + pawl__rng_uniform(rng)), (int)chk_pick(rng, -30, 30));
    default:
        return (float)chk_normal(rng);
    }
}

float *chk_floats(chk_case *c, const char *name, chk_role role, int64_t n, chk_values values, uint64_t *rng)
{
    float *p = chk_buffer(c, name, role, (size_t)n * sizeof(float), 0);
    for (int64_t i = 0; i < n; i++) p[i] = value(values, rng);
    return p;
}

void chk_expect(chk_case *c, const void *data, int64_t element, double truth, double bound)
{
    chk_buf *b = c->buf;
    while (b->data != data) b++;
    size_t n = b->bytes / 4;
    if (!b->truth) {
        b->truth = must(calloc(n, sizeof(double)));
        b->bound = must(calloc(n, sizeof(double)));
        for (size_t i = 0; i < n; i++) b->bound[i] = CHK_UNTOUCHED;
    }
    b->truth[element] = truth;
    b->bound[element] = bound;
}

void chk_keep_initial(chk_case *c)
{
    for (int i = 0; i < c->bufs; i++) {
        chk_buf *b = &c->buf[i];
        b->initial = must(malloc(b->bytes + 1));
        b->result = must(malloc(b->bytes + 1));
        if (b->role == CHK_OUT)
            for (size_t at = 0; at < b->bytes; at += 4) memcpy(b->data + at, &(uint32_t){0x7fa0dead}, 4);
        memcpy(b->initial, b->data, b->bytes);
    }
}

void chk_free(chk_case *c)
{
    for (int i = 0; i < c->bufs; i++) {
        chk_buf *b = &c->buf[i];
        munmap(b->map, b->map_bytes);
        free(b->initial);
        free(b->result);
        free(b->truth);
        free(b->bound);
    }
    c->bufs = 0;
}

pawl_scale chk_scale_of(pawl_quant q)
{
    if (q == PAWL_Q_FP8BLK || q == PAWL_Q_FP8TEN || q == PAWL_Q_FP8CH) return PAWL_SCALE_F32;
    return q == PAWL_Q_NVFP4 ? PAWL_SCALE_E4M3 : q == PAWL_Q_MXFP4 ? PAWL_SCALE_E8M0 : PAWL_SCALE_NONE;
}

static float scale(chk_values values, uint64_t *rng)
{
    if (values == CHK_EXACT_POWERS) return ldexpf(1, (int)chk_pick(rng, -1, 1));
    return (float)(0.001 + 0.01 * pawl__rng_uniform(rng));
}

static void fill_codes(pawl_quant q, unsigned char *row, int64_t k, chk_values values, uint64_t *rng)
{
    for (int64_t i = 0; i < k; i++) {
        float v = value(values, rng);
        if (q == PAWL_Q_F16 && values == CHK_EXTREME) v *= 0x1p-16f; /* its largest value is 65504 */
        uint16_t half = q == PAWL_Q_F16 ? pawl__f16_encode(v) : pawl__bf16_encode(v);
        uint8_t fp8 = values == CHK_RANDOM ? (uint8_t)chk_pick(rng, 0, 255) : pawl__e4m3_encode(v);
        uint8_t fp4 = values == CHK_RANDOM ? (uint8_t)chk_pick(rng, 0, 15) : pawl__e2m1_encode(v);
        switch (q) {
        case PAWL_Q_F32:
            memcpy(row + 4 * i, &v, 4);
            break;
        case PAWL_Q_F16:
        case PAWL_Q_BF16:
            memcpy(row + 2 * i, &half, 2);
            break;
        case PAWL_Q_FP8BLK:
        case PAWL_Q_FP8TEN:
        case PAWL_Q_FP8CH:
            row[i] = (fp8 & 0x7f) == 0x7f ? 0 : fp8;
            break;
        default:
            row[i / 2] = (uint8_t)(i % 2 ? (row[i / 2] & 15) | fp4 << 4 : fp4);
            break;
        }
    }
}

pawl_wmat chk_weights(chk_case *c, const char *name, pawl_quant q, int64_t n, int64_t k, chk_values values,
                      uint64_t *rng)
{
    char part[24];
    int64_t bytes = pawl__quant_row_bytes(q, k), pad = chk_pick(rng, 0, 1) * chk_pick(rng, 1, 7);
    pawl_wmat w = {.q = q, .n = n, .k = k, .ld = bytes + pad, .scale2 = 1};
    size_t all = (size_t)(n > 0 ? (n - 1) * w.ld + bytes : 0); /* no padding after the last row */
    unsigned char *data = chk_buffer(c, name, CHK_IN, all, (size_t)chk_pick(rng, 0, 3));
    for (int64_t r = 0; r < n; r++) fill_codes(q, data + r * w.ld, k, values, rng);
    w.data = data;
    snprintf(part, sizeof part, "%s.scale", name);
    int64_t scales = 0;
    if (q == PAWL_Q_FP8BLK) {
        w.row0 = chk_pick(rng, 0, 1) * chk_pick(rng, 1, 127);
        w.scale_ld = (k + 127) / 128 + chk_pick(rng, 0, 2);
        scales = n > 0 ? ((w.row0 + n - 1) / 128) * w.scale_ld + (k + 127) / 128 : 0;
    } else if (q == PAWL_Q_FP8TEN || q == PAWL_Q_FP8CH) {
        scales = q == PAWL_Q_FP8CH ? n : 1;
    }
    if (scales) {
        float *s = chk_floats(c, part, CHK_IN, scales, values, rng);
        for (int64_t i = 0; i < scales; i++) s[i] = scale(values, rng);
        w.scale = s;
    }
    int64_t group = q == PAWL_Q_NVFP4 ? 16 : q == PAWL_Q_MXFP4 ? 32 : 0;
    if (!group) return w;
    w.scale_ld = k / group + chk_pick(rng, 0, 3);
    int64_t codes = n > 0 ? (n - 1) * w.scale_ld + k / group : 0;
    uint8_t *s = chk_buffer(c, part, CHK_IN, (size_t)codes, (size_t)chk_pick(rng, 0, 3));
    for (int64_t i = 0; i < codes; i++) {
        if (q == PAWL_Q_MXFP4)
            s[i] = (uint8_t)chk_pick(rng, values == CHK_RANDOM ? 0 : 126, values == CHK_RANDOM ? 134 : 128);
        else
            s[i] = values == CHK_EXACT_POWERS ? pawl__e4m3_encode(scale(values, rng)) : (uint8_t)chk_pick(rng, 0, 0x7e);
    }
    if (q == PAWL_Q_NVFP4) w.scale2 = values == CHK_EXACT_POWERS ? 0.25f : 3.1e-4f;
    w.bscale = s;
    return w;
}

double *chk_decode(const pawl_wmat *w)
{
    double *out = must(malloc((size_t)(w->n * w->k + 1) * sizeof(double)));
    float *row = must(malloc((size_t)(w->k + 1) * sizeof(float)));
    for (int64_t r = 0; r < w->n; r++) {
        pawl_wmat plain =
            *w; /* codes without the scale, which is multiplied in double: rounding it in is not the truth */
        double s = w->q == PAWL_Q_NVFP4 ? w->scale2 : 1;
        float one = 1;
        plain.scale2 = 1;
        if (w->q == PAWL_Q_FP8TEN || w->q == PAWL_Q_FP8CH) {
            s = w->scale[w->q == PAWL_Q_FP8CH ? r : 0];
            plain.q = PAWL_Q_FP8TEN;
            plain.scale = &one;
        } else if (w->q == PAWL_Q_FP8BLK) {
            plain.q = PAWL_Q_FP8TEN;
            plain.scale = &one;
        }
        pawl__wmat_decode_row(&plain, r, row);
        for (int64_t k = 0; k < w->k; k++) {
            double block = w->q == PAWL_Q_FP8BLK ? w->scale[(w->row0 + r) / 128 * w->scale_ld + k / 128] : 1;
            out[r * w->k + k] = row[k] * s * block;
        }
    }
    free(row);
    return out;
}
