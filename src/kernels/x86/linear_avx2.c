/* linear for AVX2, FMA and F16C, every weight format, with the bits of the reference: the 16 virtual lanes of op/linear.h
 * are two registers of 8 lanes, fed in rising k; what is tiled is which outputs are computed together, never a sum.
 *
 * Few rows ("direct", decode and verification): each weight row comes from memory once and is decoded in registers. More
 * rows ("packed"): strips of 8 weight rows are decoded to f32 in an L1-sized buffer and meet all rows from there. Weights
 * are read where they lie, unaligned, and never past the last byte of a row; nothing is written but y and the stack. */
#include "kernels/x86/body_avx2.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kernels/x86/linear_rows.h"

#define INLINE static inline __attribute__((always_inline))

enum {
    STRIP = 512,   /* k that are decoded together */
    TILE_M = 6,    /* rows of x in a tile at most: 12 accumulators of 16 registers */
    PACKED_N = 8,  /* weight rows decoded together: 16 KB of f32 */
    PACKED_M = 48, /* rows of x that share them: 24 KB of lanes */
    TILE_N = 4,
    TASK_BYTES = 16384 /* below that a task costs more to hand out than to do */
};

/* nr rows of weights by mr rows of x over some steps of 16 k; acc[r * acc_ld + c * 16] are the lanes of row r and x c. */
typedef struct tile {
    const uint8_t *w[TILE_N];
    const uint8_t *s[TILE_N];   /* block scales of NVFP4 and MXFP4 */
    const float *scale[TILE_N]; /* block scales of FP8BLK */
    const float *x[TILE_M];
    int64_t steps;
    int64_t ahead; /* bytes from a row of this tile to that of the next one: prefetched where the memory is the limit */
    int fresh;     /* acc holds nothing yet */
    float *acc;
    int64_t acc_ld;
} tile;

/* Whether half a step can be decoded without the other half. */
INLINE int has_halves(pawl_quant q)
{
    return q == PAWL_Q_F32 || q == PAWL_Q_F16 || q == PAWL_Q_BF16;
}

INLINE __m256 decode_half(pawl_quant q, const uint8_t *p, int half)
{
    if (q == PAWL_Q_F32) return _mm256_loadu_ps((const float *)(const void *)(p + 32 * half));
    __m128i h = _mm_loadu_si128((const __m128i *)(const void *)(p + 16 * half));
    if (q == PAWL_Q_F16) return _mm256_cvtph_ps(h);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

/* 16 e4m3 codes. Sign, exponent and mantissa moved to their places in f32 are the value times 2^-120, which is exact, but
 * a subnormal where the code is one: rare enough in weights that a processor slow with those does not suffer. The NaN codes
 * come out as 480: callers look for them first. */
INLINE __m256 decode_e4m3(const uint8_t *p)
{
    __m256i v = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)); /* the sign fills the top */
    v = _mm256_and_si256(_mm256_slli_epi32(v, 20), _mm256_set1_epi32((int)0x87f00000));
    return _mm256_mul_ps(_mm256_castsi256_ps(v), _mm256_set1_ps(0x1p120f));
}

/* 8 e2m1 codes out of a table that is multiplied with their scale already. In a little-endian word code k is at bit 4k. */
INLINE __m256 decode_e2m1(const uint8_t *p, __m256 table)
{
    int32_t word;
    memcpy(&word, p, 4);
    __m256i v = _mm256_srlv_epi32(_mm256_set1_epi32(word), _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
    __m256i sign = _mm256_and_si256(_mm256_slli_epi32(v, 28), _mm256_set1_epi32((int)0x80000000));
    return _mm256_xor_ps(_mm256_permutevar8x32_ps(table, v), _mm256_castsi256_ps(sign)); /* looks at 3 bits */
}

INLINE void decode_step(pawl_quant q, const uint8_t *w, const uint8_t *s, int64_t step, __m256 *lo, __m256 *hi)
{
    const uint8_t *p = w + step * step_bytes(q);
    if (q == PAWL_Q_NVFP4 || q == PAWL_Q_MXFP4) {
        float scale = q == PAWL_Q_NVFP4 ? pawl__e4m3_table[s[step]] : e8m0(s[step / 2]);
        __m256 table =
            _mm256_mul_ps(_mm256_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f), _mm256_set1_ps(scale));
        *lo = decode_e2m1(p, table);
        *hi = decode_e2m1(p + 4, table);
    } else if (has_halves(q)) {
        *lo = decode_half(q, p, 0);
        *hi = decode_half(q, p, 1);
    } else {
        *lo = decode_e4m3(p);
        *hi = decode_e4m3(p + 8);
    }
}

/* The inner loop; q, nr and mr are constants where it is inlined, so that the arrays become registers. */
INLINE void feed(const pawl_quant q, const int nr, const int mr, const tile *t, int64_t first, int64_t last,
                 __m256 a[12][2])
{
    for (int64_t step = first; step < last; step++) {
        if (mr < 3) { /* a prefetch past the last row is no access: it never faults */
#pragma GCC unroll 4
            for (int r = 0; r < nr; r++)
                _mm_prefetch((const char *)(t->w[r] + t->ahead + step * step_bytes(q)), _MM_HINT_T0);
        }
        if (has_halves(q) && nr > 1) {
            /* half by half, and each x once for all rows of weights: 12 accumulators leave 4 registers */
#pragma GCC unroll 2
            for (int half = 0; half < 2; half++) {
                __m256 w[TILE_N];
#pragma GCC unroll 4
                for (int r = 0; r < nr; r++) w[r] = decode_half(q, t->w[r] + step * step_bytes(q), half);
#pragma GCC unroll 6
                for (int c = 0; c < mr; c++) {
                    __m256 x = _mm256_loadu_ps(t->x[c] + 16 * step + 8 * half);
                    __asm__("" : "+x"(x)); /* keeps the compiler from loading it again for each row */
#pragma GCC unroll 4
                    for (int r = 0; r < nr; r++) a[r * mr + c][half] = _mm256_fmadd_ps(w[r], x, a[r * mr + c][half]);
                }
            }
        } else {
#pragma GCC unroll 4
            for (int r = 0; r < nr; r++) {
                __m256 lo, hi;
                decode_step(q, t->w[r], t->s[r], step, &lo, &hi);
#pragma GCC unroll 6
                for (int c = 0; c < mr; c++) {
                    const float *x = t->x[c] + 16 * step;
                    a[r * mr + c][0] = _mm256_fmadd_ps(lo, _mm256_loadu_ps(x), a[r * mr + c][0]);
                    a[r * mr + c][1] = _mm256_fmadd_ps(hi, _mm256_loadu_ps(x + 8), a[r * mr + c][1]);
                }
            }
        }
    }
}

INLINE void strip(const pawl_quant q, const int nr, const int mr, const tile *t)
{
    __m256 a[12][2];
#pragma GCC unroll 12
    for (int i = 0; i < nr * mr; i++) {
        const float *acc = t->acc + (i / mr) * t->acc_ld + (i % mr) * 16;
        a[i][0] = t->fresh ? _mm256_setzero_ps() : _mm256_loadu_ps(acc);
        a[i][1] = t->fresh ? _mm256_setzero_ps() : _mm256_loadu_ps(acc + 8);
    }
    feed(q, nr, mr, t, 0, t->steps, a);
#pragma GCC unroll 12
    for (int i = 0; i < nr * mr; i++) {
        float *acc = t->acc + (i / mr) * t->acc_ld + (i % mr) * 16;
        _mm256_storeu_ps(acc, a[i][0]);
        _mm256_storeu_ps(acc + 8, a[i][1]);
    }
}

/* The same for whole FP8 blocks: each is summed from zero and then added to acc times its scale. */
INLINE void strip_blocks(const pawl_quant q, const int nr, const int mr, const tile *t)
{
    for (int i = 0; t->fresh && i < nr * mr; i++) {
        float *acc = t->acc + (i / mr) * t->acc_ld + (i % mr) * 16;
        _mm256_storeu_ps(acc, _mm256_setzero_ps());
        _mm256_storeu_ps(acc + 8, _mm256_setzero_ps());
    }
    for (int64_t block = 0; block < t->steps / 8; block++) {
        __m256 a[12][2];
#pragma GCC unroll 12
        for (int i = 0; i < nr * mr; i++) a[i][0] = a[i][1] = _mm256_setzero_ps();
        feed(q, nr, mr, t, block * 8, block * 8 + 8, a);
#pragma GCC unroll 12
        for (int i = 0; i < nr * mr; i++) {
            float *acc = t->acc + (i / mr) * t->acc_ld + (i % mr) * 16;
            __m256 scale = _mm256_broadcast_ss(t->scale[i / mr] + block);
            _mm256_storeu_ps(acc, _mm256_fmadd_ps(a[i][0], scale, _mm256_loadu_ps(acc)));
            _mm256_storeu_ps(acc + 8, _mm256_fmadd_ps(a[i][1], scale, _mm256_loadu_ps(acc + 8)));
        }
    }
}

INLINE void strip_kind(const pawl_quant q, const int blocks, const int nr, const int mr, const tile *t)
{
    if (blocks)
        strip_blocks(q, nr, mr, t);
    else
        strip(q, nr, mr, t);
}

/* The tile shapes in use: enough accumulators in flight to hide the latency of fma, few enough to stay in registers. */
INLINE void strip_shape(const pawl_quant q, const int blocks, int nr, int mr, const tile *t)
{
    switch (nr * 8 + mr) {
    case 4 * 8 + 1:
        strip_kind(q, blocks, 4, 1, t);
        break;
    case 2 * 8 + 1:
        strip_kind(q, blocks, 2, 1, t);
        break;
    case 2 * 8 + 2:
        strip_kind(q, blocks, 2, 2, t);
        break;
    case 2 * 8 + 3:
        strip_kind(q, blocks, 2, 3, t);
        break;
    case 1 * 8 + 1:
        strip_kind(q, blocks, 1, 1, t);
        break;
    case 1 * 8 + 2:
        strip_kind(q, blocks, 1, 2, t);
        break;
    case 1 * 8 + 3:
        strip_kind(q, blocks, 1, 3, t);
        break;
    case 1 * 8 + 4:
        strip_kind(q, blocks, 1, 4, t);
        break;
    case 1 * 8 + 5:
        strip_kind(q, blocks, 1, 5, t);
        break;
    default:
        strip_kind(q, blocks, 1, 6, t);
        break;
    }
}

static void strip_f32(int nr, int mr, const tile *t)
{
    strip_shape(PAWL_Q_F32, 0, nr, mr, t);
}

static void strip_f16(int nr, int mr, const tile *t)
{
    strip_shape(PAWL_Q_F16, 0, nr, mr, t);
}

static void strip_bf16(int nr, int mr, const tile *t)
{
    strip_shape(PAWL_Q_BF16, 0, nr, mr, t);
}

static void strip_e4m3(int nr, int mr, const tile *t)
{
    strip_shape(PAWL_Q_FP8TEN, 0, nr, mr, t);
}

static void strip_f32_blocks(int nr, int mr, const tile *t)
{
    strip_shape(PAWL_Q_F32, 1, nr, mr, t);
}

static void strip_e4m3_blocks(int nr, int mr, const tile *t)
{
    strip_shape(PAWL_Q_FP8BLK, 1, nr, mr, t);
}

static void strip_nvfp4(int nr, int mr, const tile *t)
{
    strip_shape(PAWL_Q_NVFP4, 0, nr, mr, t);
}

static void strip_mxfp4(int nr, int mr, const tile *t)
{
    strip_shape(PAWL_Q_MXFP4, 0, nr, mr, t);
}

static void strip_any(pawl_quant q, int nr, int mr, const tile *t)
{
    switch (q) {
    case PAWL_Q_F32:
        strip_f32(nr, mr, t);
        break;
    case PAWL_Q_F16:
        strip_f16(nr, mr, t);
        break;
    case PAWL_Q_BF16:
        strip_bf16(nr, mr, t);
        break;
    case PAWL_Q_NVFP4:
        strip_nvfp4(nr, mr, t);
        break;
    case PAWL_Q_MXFP4:
        strip_mxfp4(nr, mr, t);
        break;
    default:
        strip_e4m3(nr, mr, t);
        break;
    }
}

/* The codes after the last full 16, rem < 16. FP4 formats have none. */
static void decode_tail(pawl_quant q, const uint8_t *p, int rem, float *out)
{
    for (int i = 0; i < rem; i++) {
        uint16_t h = 0;
        if (q == PAWL_Q_F32) {
            memcpy(&out[i], p + 4 * i, 4);
        } else if (is_fp8(q)) {
            out[i] = pawl__e4m3_table[p[i]];
        } else {
            memcpy(&h, p + 2 * i, 2);
            out[i] = q == PAWL_Q_F16 ? _cvtsh_ss(h) : pawl__bf16_decode(h);
        }
    }
}

/* Whether a NaN is among n codes, n a multiple of 16. */
static int has_nan_e4m3(const uint8_t *p, int64_t n)
{
    const __m256i abs = _mm256_set1_epi8(0x7f);
    __m256i max = _mm256_setzero_si256();
    int64_t i = 0;
    for (; i + 32 <= n; i += 32)
        max = _mm256_max_epu8(max, _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(const void *)(p + i)), abs));
    if (i < n) {
        __m128i last = _mm_loadu_si128((const __m128i *)(const void *)(p + i));
        max = _mm256_max_epu8(
            max, _mm256_and_si256(_mm256_castsi128_si256(last), _mm256_zextsi128_si256(_mm256_castsi256_si128(abs))));
    }
    return _mm256_movemask_epi8(_mm256_cmpeq_epi8(max, abs));
}

/* k codes of row n from k0 on (a multiple of 16) as f32, block scales of FP4 applied. */
static void decode_strip(const pawl_wmat *w, int64_t n, int64_t k0, int64_t k, float *out)
{
    const uint8_t *p = codes_at(w, n, k0), *s = bscale_at(w, n, k0);
    int64_t steps = k / 16;
    if (is_fp8(w->q) && has_nan_e4m3(p, steps * 16)) {
        for (int64_t i = 0; i < k; i++) out[i] = pawl__e4m3_table[p[i]];
        return;
    }
    for (int64_t i = 0; i < steps; i++) {
        __m256 lo, hi;
        switch (w->q) {
        case PAWL_Q_F32:
            decode_step(PAWL_Q_F32, p, s, i, &lo, &hi);
            break;
        case PAWL_Q_F16:
            decode_step(PAWL_Q_F16, p, s, i, &lo, &hi);
            break;
        case PAWL_Q_BF16:
            decode_step(PAWL_Q_BF16, p, s, i, &lo, &hi);
            break;
        case PAWL_Q_NVFP4:
            decode_step(PAWL_Q_NVFP4, p, s, i, &lo, &hi);
            break;
        case PAWL_Q_MXFP4:
            decode_step(PAWL_Q_MXFP4, p, s, i, &lo, &hi);
            break;
        default:
            decode_step(PAWL_Q_FP8TEN, p, s, i, &lo, &hi);
            break;
        }
        _mm256_storeu_ps(out + 16 * i, lo);
        _mm256_storeu_ps(out + 16 * i + 8, hi);
    }
    decode_tail(w->q, p + steps * step_bytes(w->q), (int)(k % 16), out + 16 * steps);
}

/* The last k % 16 elements: one fma for each lane that has one. wt: [nr] rows of decoded weights, x: at the tail. */
static void tail_lanes(int nr, int mr, const float *wt, int64_t wt_ld, const float *const *x, int rem, float *acc,
                       int64_t acc_ld)
{
    for (int r = 0; r < nr; r++)
        for (int c = 0; c < mr; c++)
            for (int i = 0; i < rem; i++) {
                float *a = &acc[r * acc_ld + c * 16 + i];
                *a = fmaf(wt[r * wt_ld + i], x[c][i], *a);
            }
}

/* acc = fma(p, scale of the row, acc) on all lanes. */
static void add_scaled(int nr, int mr, const float *p, const float *const *scale, float *acc, int64_t acc_ld)
{
    for (int r = 0; r < nr; r++) {
        __m256 s = _mm256_broadcast_ss(scale[r]);
        for (int i = 0; i < mr * 16; i += 8) {
            float *a = acc + r * acc_ld + i;
            _mm256_storeu_ps(a, _mm256_fmadd_ps(_mm256_loadu_ps(p + r * mr * 16 + i), s, _mm256_loadu_ps(a)));
        }
    }
}

static float reduce(const float *acc)
{
    __m256 v = _mm256_add_ps(_mm256_loadu_ps(acc), _mm256_loadu_ps(acc + 8));
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

/* Lanes of output n for rows j0 .. j0+mr-1 become y. */
static void finish(const linear_part *p, int64_t n, int64_t j0, int64_t mr, const float *acc)
{
    for (int64_t c = 0; c < mr; c++) y_row(p, j0 + c)[n] = scaled_sum(p, n, reduce(acc + c * 16));
}

/* Moves a tile's operands on by some steps of 16 k. */
static void advance(pawl_quant q, tile *t, int nr, int mr, int64_t steps)
{
    for (int r = 0; r < nr; r++) {
        t->w[r] += steps * step_bytes(q);
        if (t->scale[r]) t->scale[r] += steps / 8;
    }
    for (int c = 0; c < mr; c++) t->x[c] += steps * 16;
}

/* A tile over k elements, block scales and the tail included. q is the format of t->w: that of the matrix, or F32 for rows
 * that are decoded. t->scale is set where FP8 blocks are to be summed by themselves. */
static void run_tile(pawl_quant q, tile *t, int nr, int mr, int64_t k)
{
    int rem = (int)(k % 16);
    int64_t steps = k / 16, part_steps = t->scale[0] ? steps % 8 : 0;
    _Alignas(64) float part[12 * 16], wt[TILE_N][16];
    t->steps = steps - part_steps;
    if (!t->scale[0])
        strip_any(q, nr, mr, t);
    else if (q == PAWL_Q_F32)
        strip_f32_blocks(nr, mr, t);
    else
        strip_e4m3_blocks(nr, mr, t);
    if (!part_steps && !rem) return;
    tile last = *t;
    advance(q, &last, nr, mr, t->steps);
    if (t->scale[0]) { /* a block that is not whole */
        last.steps = part_steps;
        last.fresh = 1;
        last.acc = part;
        last.acc_ld = mr * 16;
        strip_any(q, nr, mr, &last);
        advance(q, &last, nr, mr, part_steps);
    }
    for (int r = 0; r < nr; r++) decode_tail(q, last.w[r], rem, wt[r]);
    tail_lanes(nr, mr, wt[0], 16, last.x, rem, last.acc, last.acc_ld);
    if (t->scale[0]) add_scaled(nr, mr, part, last.scale, t->acc, t->acc_ld);
}

/* Rows with NaN codes: the fast decoders do not know them. */
static void direct_nan(const linear_part *p, int64_t n, int nr, const tile *whole, int mr)
{
    _Alignas(64) float decoded[TILE_N][STRIP];
    for (int64_t k0 = 0; k0 < p->w->k; k0 += STRIP) {
        int64_t k = p->w->k - k0 < STRIP ? p->w->k - k0 : STRIP;
        tile t = *whole;
        advance(p->w->q, &t, nr, mr, k0 / 16);
        t.fresh = k0 == 0;
        for (int r = 0; r < nr; r++) {
            decode_strip(p->w, n + r, k0, k, decoded[r]);
            t.w[r] = (const uint8_t *)decoded[r];
        }
        run_tile(PAWL_Q_F32, &t, nr, mr, k);
    }
}

static void direct_tile(const linear_part *p, int64_t n, int nr, int64_t j0, int mr)
{
    const pawl_wmat *w = p->w;
    _Alignas(64) float acc[12 * 16];
    tile t = {.ahead = nr * w->ld, .fresh = 1, .acc = acc, .acc_ld = mr * 16};
    int nan = 0;
    for (int c = 0; c < mr; c++) t.x[c] = x_row(p, j0 + c);
    for (int r = 0; r < nr; r++) {
        t.w[r] = codes_at(w, n + r, 0);
        t.s[r] = bscale_at(w, n + r, 0);
        if (w->q == PAWL_Q_FP8BLK) t.scale[r] = block_scale(w, n + r, 0);
        nan |= is_fp8(w->q) && has_nan_e4m3(t.w[r], w->k / 16 * 16);
    }
    if (nan)
        direct_nan(p, n, nr, &t, mr);
    else
        run_tile(w->q, &t, nr, mr, w->k);
    for (int r = 0; r < nr; r++) finish(p, n + r, j0, mr, acc + r * mr * 16);
}

/* How many of m rows of x the next tile takes, by measurement: two rows of weights by three of x where half a step can be
 * decoded alone, else as many as one decoded step can feed from registers. */
static int tile_rows(pawl_quant q, int64_t m)
{
    if (has_halves(q)) return m == 1 ? 1 : m == 2 || m == 4 ? 2 : 3;
    if (m == 6 && is_fp4(q)) return 3;
    return m <= 6 ? (int)m : 4;
}

/* Up to so many rows of x, every group of weight rows meets them all before the next one is touched. */
static int64_t direct_rows(pawl_quant q)
{
    return has_halves(q) ? 12 : 8;
}

static void direct(const linear_part *p, int64_t n0, int64_t n1)
{
    int most = p->m == 1 ? 4 : p->m == 2 || has_halves(p->w->q) ? 2 : 1;
    for (int64_t n = n0; n < n1;) {
        int nr = n1 - n >= most ? most : 1;
        for (int64_t j = 0; j < p->m;) {
            int mr = tile_rows(p->w->q, p->m - j);
            direct_tile(p, n, nr, j, mr);
            j += mr;
        }
        n += nr;
    }
}

static void packed(const linear_part *p, int64_t n0, int64_t n1, int64_t j0, int64_t m)
{
    const pawl_wmat *w = p->w;
    _Alignas(64) float decoded[PACKED_N * STRIP], acc[PACKED_N * PACKED_M * 16];
    int64_t acc_ld = m * 16;
    for (int64_t n = n0; n < n1; n += PACKED_N) {
        int64_t rows = n1 - n < PACKED_N ? n1 - n : PACKED_N;
        for (int64_t k0 = 0; k0 < w->k; k0 += STRIP) {
            int64_t k = w->k - k0 < STRIP ? w->k - k0 : STRIP;
            for (int64_t r = 0; r < rows; r++) decode_strip(w, n + r, k0, k, decoded + r * STRIP);
            for (int64_t j = 0; j < m; j += 3) {
                int mr = (int)(m - j < 3 ? m - j : 3);
                tile t = {.fresh = k0 == 0, .acc_ld = acc_ld};
                for (int c = 0; c < mr; c++) t.x[c] = x_row(p, j0 + j + c) + k0;
                for (int64_t r = 0; r < rows; r += 2) {
                    int nr = rows - r < 2 ? 1 : 2;
                    t.acc = acc + r * acc_ld + j * 16;
                    for (int i = 0; i < nr; i++) {
                        t.w[i] = (const uint8_t *)(decoded + (r + i) * STRIP);
                        if (w->q == PAWL_Q_FP8BLK) t.scale[i] = block_scale(w, n + r + i, k0);
                    }
                    run_tile(PAWL_Q_F32, &t, nr, mr, k);
                }
            }
        }
        for (int64_t r = 0; r < rows; r++) finish(p, n + r, j0, m, acc + r * acc_ld);
    }
}

void pawl__linear_packed_avx2(const linear_part *p, int64_t n0, int64_t n1)
{
    packed(p, n0, n1, 0, p->m);
}

void pawl__linear_part_avx2(const linear_part *p, int64_t n0, int64_t n1)
{
    if (is_fp8(p->w->q) && p->m > 0 && p->m <= LINEAR_FP8_ROWS) {
        pawl__linear_fp8_avx2(p, n0, n1);
        return;
    }
    if (p->m <= direct_rows(p->w->q)) {
        direct(p, n0, n1);
        return;
    }
    for (int64_t j = 0; j < p->m; j += PACKED_M) packed(p, n0, n1, j, p->m - j < PACKED_M ? p->m - j : PACKED_M);
}

int64_t pawl__chunk_avx2(const pawl_wmat *w, int64_t m)
{
    int64_t row = pawl__quant_row_bytes(w->q, w->k) * (m < PACKED_M ? m : PACKED_M);
    int64_t rows = (TASK_BYTES + row - 1) / (row > 0 ? row : 1);
    return (rows + 15) / 16 * 16;
}

pawl_status pawl__linear_run_avx2(const void *args, pawl_exec *ex, pawl_err *err)
{
    const pawl_linear_args *a = args;
    return pawl__x86_linear(a, pawl__linear_part_avx2, pawl__chunk_avx2(a->w, a->m), ex, err);
}
#endif
