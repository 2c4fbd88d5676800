/* linear for 64-bit ARM's NEON, every weight format, with the bits of the reference: the 16 virtual lanes of op/linear.h
 * are four registers, fed in rising k. 128 weights of a few rows at a time are decoded to f32 and meet all rows of x from
 * the first-level cache. Weights are read where they lie, unaligned, and never past the last byte of a row. */
#include "kernels/arm/arm.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#include <math.h>
#include <string.h>

#include "quant/codes.h"

#define INLINE static inline __attribute__((always_inline))

enum {
    BLOCK = 128, /* k decoded together: one FP8 block */
    TILE_N = 4,  /* weight rows decoded together */
    TILE_M = 64, /* rows of x that share them: their lanes take 16 KB */
    TASK_BYTES = 16384
};

typedef struct lanes {
    float32x4_t q[4];
} lanes;

INLINE lanes load16(const float *p)
{
    return (lanes){{vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)}};
}

INLINE lanes fma16(lanes w, lanes x, lanes a)
{
    for (int i = 0; i < 4; i++) a.q[i] = vfmaq_f32(a.q[i], w.q[i], x.q[i]);
    return a;
}

/* ---- decoding 16 codes ---- */

INLINE void store_bf16(uint16x8_t lo, uint16x8_t hi, float *out)
{
    vst1q_f32(out, vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(lo), 16)));
    vst1q_f32(out + 4, vreinterpretq_f32_u32(vshll_high_n_u16(lo, 16)));
    vst1q_f32(out + 8, vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(hi), 16)));
    vst1q_f32(out + 12, vreinterpretq_f32_u32(vshll_high_n_u16(hi, 16)));
}

INLINE void decode_f16(const uint8_t *p, float *out)
{
    for (int i = 0; i < 16; i += 4) vst1q_f32(out + i, vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p + 2 * i))));
}

/* Sign, exponent and mantissa of an e4m3 code moved to their places in f32 are the value times 2^-120, exactly. The NaN
 * codes would come out as 480: the caller looks for them. */
INLINE void decode_e4m3(const uint8_t *p, float *out)
{
    const int32x4_t keep = vdupq_n_s32((int32_t)0x87f00000);
    int8x16_t c = vreinterpretq_s8_u8(vld1q_u8(p));
    int16x8_t h[2] = {vmovl_s8(vget_low_s8(c)), vmovl_high_s8(c)};
    for (int i = 0; i < 2; i++) {
        int32x4_t lo = vandq_s32(vshlq_n_s32(vmovl_s16(vget_low_s16(h[i])), 20), keep);
        int32x4_t hi = vandq_s32(vshlq_n_s32(vmovl_high_s16(h[i]), 20), keep);
        vst1q_f32(out + 8 * i, vmulq_n_f32(vreinterpretq_f32_s32(lo), 0x1p120f));
        vst1q_f32(out + 8 * i + 4, vmulq_n_f32(vreinterpretq_f32_s32(hi), 0x1p120f));
    }
}

/* All e2m1 values are bf16 numbers: their two bytes come from two tables. */
INLINE void decode_e2m1(const uint8_t *p, float scale, float *out)
{
    static const uint8_t top[16] = {0x00, 0x3f, 0x3f, 0x3f, 0x40, 0x40, 0x40, 0x40,
                                    0x80, 0xbf, 0xbf, 0xbf, 0xc0, 0xc0, 0xc0, 0xc0};
    static const uint8_t low[16] = {0x00, 0x00, 0x80, 0xc0, 0x00, 0x40, 0x80, 0xc0,
                                    0x00, 0x00, 0x80, 0xc0, 0x00, 0x40, 0x80, 0xc0};
    uint8x8_t b = vld1_u8(p), even = vand_u8(b, vdup_n_u8(15)), odd = vshr_n_u8(b, 4);
    uint8x16_t codes = vcombine_u8(vzip1_u8(even, odd), vzip2_u8(even, odd));
    uint8x16_t h = vqtbl1q_u8(vld1q_u8(top), codes), l = vqtbl1q_u8(vld1q_u8(low), codes);
    store_bf16(vreinterpretq_u16_u8(vzip1q_u8(l, h)), vreinterpretq_u16_u8(vzip2q_u8(l, h)), out);
    for (int i = 0; i < 16; i += 4) vst1q_f32(out + i, vmulq_n_f32(vld1q_f32(out + i), scale));
}

/* ---- rows of weights ---- */

static int has_nan_e4m3(const uint8_t *p, int n)
{
    uint8x16_t max = vdupq_n_u8(0);
    for (int i = 0; i + 16 <= n; i += 16) max = vmaxq_u8(max, vandq_u8(vld1q_u8(p + i), vdupq_n_u8(0x7f)));
    return vmaxvq_u8(max) == 0x7f;
}

/* Elements k0 .. k0+n-1 of a row without the factor that is applied later; n <= BLOCK, k0 a multiple of BLOCK. */
static void decode_block(const pawl_wmat *w, int64_t row, int64_t k0, int n, float *out)
{
    const uint8_t *p = (const uint8_t *)w->data + row * w->ld;
    int whole = n / 16 * 16, i = 0;
    switch (w->q) {
    case PAWL_Q_F32:
        memcpy(out, p + 4 * k0, 4 * (size_t)n);
        break;
    case PAWL_Q_F16:
        for (p += 2 * k0; i < whole; i += 16) decode_f16(p + 2 * i, out + i);
        for (; i < n; i++) {
            uint16_t h;
            memcpy(&h, p + 2 * i, 2);
            out[i] = pawl__f16_decode(h);
        }
        break;
    case PAWL_Q_BF16:
        for (p += 2 * k0; i < whole; i += 16)
            store_bf16(vreinterpretq_u16_u8(vld1q_u8(p + 2 * i)), vreinterpretq_u16_u8(vld1q_u8(p + 2 * i + 16)),
                       out + i);
        for (; i < n; i++) {
            uint16_t h;
            memcpy(&h, p + 2 * i, 2);
            out[i] = pawl__bf16_decode(h);
        }
        break;
    case PAWL_Q_NVFP4:
        for (; i < n; i += 16)
            decode_e2m1(p + (k0 + i) / 2, pawl__e4m3_table[w->bscale[row * w->scale_ld + (k0 + i) / 16]], out + i);
        break;
    case PAWL_Q_MXFP4:
        for (; i < n; i += 16)
            decode_e2m1(p + (k0 + i) / 2, pawl__e8m0_decode(w->bscale[row * w->scale_ld + (k0 + i) / 32]), out + i);
        break;
    default:
        p += k0;
        if (!has_nan_e4m3(p, n))
            for (; i < whole; i += 16) decode_e4m3(p + i, out + i);
        for (; i < n; i++) out[i] = pawl__e4m3_decode(p[i]);
    }
}

/* acc += n elements of one decoded row times one row of x. A last step of less than 16 leaves the other lanes alone. */
INLINE lanes feed(const float *w, const float *x, int n, lanes acc)
{
    int k = 0;
    for (; k + 16 <= n; k += 16) acc = fma16(load16(w + k), load16(x + k), acc);
    if (k < n) {
        float a[16];
        for (int i = 0; i < 4; i++) vst1q_f32(a + 4 * i, acc.q[i]);
        for (int i = 0; k + i < n; i++) a[i] = fmaf(w[k + i], x[k + i], a[i]);
        acc = load16(a);
    }
    return acc;
}

INLINE float reduce(lanes s)
{
    float32x4_t a = vaddq_f32(s.q[0], s.q[2]), b = vaddq_f32(s.q[1], s.q[3]), c = vaddq_f32(a, b);
    return (vgetq_lane_f32(c, 0) + vgetq_lane_f32(c, 2)) + (vgetq_lane_f32(c, 1) + vgetq_lane_f32(c, 3));
}

static float scaled(const pawl_linear_args *a, int64_t n, float v)
{
    const pawl_wmat *w = a->w;
    if (w->q == PAWL_Q_FP8TEN) v *= w->scale[0];
    if (w->q == PAWL_Q_FP8CH) v *= w->scale[n];
    if (w->q == PAWL_Q_NVFP4) v *= w->scale2;
    return a->bias ? v + a->bias[n] : v;
}

/* Outputs n0 .. n0+rows-1 for rows m0 .. m0+count-1 of x. */
static void tile(const pawl_linear_args *a, int64_t n0, int rows, int64_t m0, int count)
{
    const pawl_wmat *w = a->w;
    float decoded[TILE_N][BLOCK];
    lanes acc[TILE_N][TILE_M];
    memset(acc, 0, sizeof acc);
    for (int64_t k = 0; k < w->k; k += BLOCK) {
        int n = w->k - k < BLOCK ? (int)(w->k - k) : BLOCK;
        for (int r = 0; r < rows; r++) decode_block(w, n0 + r, k, n, decoded[r]);
        for (int r = 0; r < rows; r++) {
            if (w->q == PAWL_Q_FP8BLK) {
                float scale = w->scale[(w->row0 + n0 + r) / BLOCK * w->scale_ld + k / BLOCK];
                lanes s = {{vdupq_n_f32(scale), vdupq_n_f32(scale), vdupq_n_f32(scale), vdupq_n_f32(scale)}};
                lanes zero = {{vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0)}};
                for (int m = 0; m < count; m++)
                    acc[r][m] = fma16(feed(decoded[r], a->x + (m0 + m) * a->ldx + k, n, zero), s, acc[r][m]);
            } else {
                for (int m = 0; m < count; m++)
                    acc[r][m] = feed(decoded[r], a->x + (m0 + m) * a->ldx + k, n, acc[r][m]);
            }
        }
    }
    for (int r = 0; r < rows; r++)
        for (int m = 0; m < count; m++) a->y[(m0 + m) * a->ldy + n0 + r] = scaled(a, n0 + r, reduce(acc[r][m]));
}

typedef struct linear_job {
    const pawl_linear_args *a;
    int64_t chunk; /* outputs of one task, a multiple of TILE_N */
} linear_job;

static void linear_task(void *ctx, int task, int thread)
{
    (void)thread;
    const linear_job *job = ctx;
    const pawl_linear_args *a = job->a;
    int64_t first = task * job->chunk, last = first + job->chunk < a->w->n ? first + job->chunk : a->w->n;
    for (int64_t n = first; n < last; n += TILE_N)
        for (int64_t m = 0; m < a->m; m += TILE_M)
            tile(a, n, (int)(last - n < TILE_N ? last - n : TILE_N), m, (int)(a->m - m < TILE_M ? a->m - m : TILE_M));
}

pawl_status pawl__linear_run_neon(const void *args, pawl_exec *ex, pawl_err *err)
{
    const pawl_linear_args *a = args;
    if (a->w->q <= PAWL_Q_NONE || a->w->q >= PAWL_QUANT_COUNT)
        return pawl__fail(err, PAWL_EINVAL, "linear: weight format %d is unknown", (int)a->w->q);
    if (a->ldx < a->w->k || a->ldy < a->w->n)
        return pawl__fail(err, PAWL_EINVAL, "linear: rows of %lld and %lld floats for k=%lld, n=%lld",
                          (long long)a->ldx, (long long)a->ldy, (long long)a->w->k, (long long)a->w->n);
    int64_t row = pawl__quant_row_bytes(a->w->q, a->w->k);
    int64_t chunk = (TASK_BYTES / (row > 0 ? row : 1) + TILE_N) / TILE_N * TILE_N;
    linear_job job = {a, chunk};
    pawl__pool_run(ex->pool, (int)((a->w->n + chunk - 1) / chunk), linear_task, &job);
    return PAWL_OK;
}
#endif
