/* linear for AVX2, FMA and F16C: FP8 weights and up to 4 rows of x, each weight row read and decoded once for all of them.
 * Called by linear_avx2.c, whose contract this keeps. A tile with more than one row of x goes over a block of k twice, once
 * for each half of the lanes, so that twice as many outputs fit into the registers. */
#include "kernels/x86/body_avx2.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kernels/x86/linear_rows.h"

#define INLINE static inline __attribute__((always_inline))

enum {
    DIRECT_M = LINEAR_FP8_ROWS, /* rows of x that meet a weight row in registers */
    TILE_N = 4,                 /* weight rows in a tile at most */
    MOST = 8,                   /* outputs in a tile at most: a half of their lanes is 8 of 16 registers */
    RAISED = 32768              /* floats of x that may be raised at a time: 128 KB of stack */
};

/* What the inner loop decodes. RAISED_E4M3 leaves the codes times 2^-120; the rows of x are times 2^120 then. */
typedef enum code { C_E4M3, C_RAISED_E4M3 } code;

/* nr rows of weights by mr rows of x over k elements. */
typedef struct tile {
    const uint8_t *w[TILE_N];
    const float *scale[TILE_N]; /* block scales of FP8BLK */
    const float *x[DIRECT_M];
    int64_t k;
    int64_t ahead; /* bytes from a row of this tile to that of the next one, which is prefetched; 0: there is none */
} tile;

/* 8 e4m3 codes. Sign, exponent and mantissa moved to their places in f32 are the value times 2^-120, which is exact, but a
 * subnormal where the code is one: rare enough in weights that a processor slow with those does not suffer. The NaN codes
 * come out as 480: callers look for them. */
INLINE __m256 decode_e4m3(const uint8_t *p, int raised)
{
    __m256i v = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)); /* the sign fills the top */
    v = _mm256_and_si256(_mm256_slli_epi32(v, 20), _mm256_set1_epi32((int)0x87f00000));
    return raised ? _mm256_castsi256_ps(v) : _mm256_mul_ps(_mm256_castsi256_ps(v), _mm256_set1_ps(0x1p120f));
}

/* A half of the 16 elements of step number `step` of a row. */
INLINE __m256 decode(code q, const uint8_t *w, int64_t step, int half)
{
    return decode_e4m3(w + 16 * step + 8 * half, q == C_RAISED_E4M3);
}

/* The codes after the last full 16, rem < 16, and zeroes behind them. */
static void decode_tail(code q, const uint8_t *p, int64_t rem, float *out)
{
    memset(out, 0, 16 * sizeof *out);
    for (int64_t i = 0; i < rem; i++) out[i] = pawl__e4m3_table[p[i]] * (q == C_RAISED_E4M3 ? 0x1p-120f : 1.0f);
}

/* The inner loop, for `hs` halves of the lanes from `half` on. q, nr, mr and hs are constants where it is inlined, so that
 * the arrays become registers; a[h * MOST + r * mr + c]. */
INLINE void feed(const code q, const int nr, const int mr, const int hs, const tile *t, int64_t first, int64_t last,
                 int half, __m256 *a)
{
    for (int64_t step = first; step < last; step++) {
#pragma GCC unroll 2
        for (int h = 0; h < hs; h++) {
            __m256 x[DIRECT_M];
#pragma GCC unroll 4
            for (int c = 0; c < mr; c++) {
                x[c] = _mm256_loadu_ps(t->x[c] + 16 * step + 8 * (half + h));
                __asm__("" : "+x"(x[c])); /* keeps the compiler from loading it again for each row */
            }
#pragma GCC unroll 4
            for (int r = 0; r < nr; r++) {
                __m256 w = decode(q, t->w[r], step, half + h);
#pragma GCC unroll 4
                for (int c = 0; c < mr; c++)
                    a[h * MOST + r * mr + c] = _mm256_fmadd_ps(w, x[c], a[h * MOST + r * mr + c]);
            }
        }
    }
}

/* Half of the lanes of the last rem elements, less than 16: one fma for each lane that has one, the others keep their
 * values. wt: the decoded tail of each row. */
INLINE void feed_tail(const int nr, const int mr, const int hs, const tile *t, int64_t step, int64_t rem, int half,
                      float (*wt)[16], __m256 *a)
{
    for (int h = 0; h < hs; h++) {
        int64_t n = rem - 8 * (half + h) < 8 ? rem - 8 * (half + h) : 8;
        for (int i = 0; i < nr * mr; i++) {
            float v[8];
            _mm256_storeu_ps(v, a[h * MOST + i]);
            for (int64_t l = 0; l < n; l++)
                v[l] = fmaf(wt[i / mr][8 * (half + h) + l], t->x[i % mr][16 * step + 8 * (half + h) + l], v[l]);
            a[h * MOST + i] = _mm256_loadu_ps(v);
        }
    }
}

INLINE __m256i max_code(__m256i max, __m256i codes)
{
    return _mm256_max_epu8(max, _mm256_and_si256(codes, _mm256_set1_epi8(0x7f)));
}

/* Whether a NaN is among n codes. */
INLINE __m256i look_at(const uint8_t *p, int64_t n, __m256i max)
{
    int64_t i = 0;
    for (; i + 32 <= n; i += 32) max = max_code(max, _mm256_loadu_si256((const __m256i *)(const void *)(p + i)));
    if (i < n) {
        uint8_t last[32] = {0};
        memcpy(last, p + i, (size_t)(n - i));
        max = max_code(max, _mm256_loadu_si256((const __m256i *)(const void *)last));
    }
    return max;
}

INLINE int is_nan_code(__m256i max)
{
    return _mm256_movemask_epi8(_mm256_cmpeq_epi8(max, _mm256_set1_epi8(0x7f))) != 0;
}

INLINE void prefetch(const int nr, const tile *t, int64_t from, int64_t to)
{
    if (!t->ahead) return;
#pragma GCC unroll 4
    for (int r = 0; r < nr; r++)
        for (int64_t at = from; at < to; at += 64) _mm_prefetch((const char *)t->w[r] + t->ahead + at, _MM_HINT_T0);
}

/* Some halves of the lanes over the n elements from k on, at most a block; n % 16 only at the end of a row. */
INLINE void run_halves(const code q, const int blocks, const int nr, const int mr, const int hs, const tile *t,
                       int64_t k, int64_t n, int half, __m256 *acc)
{
    int64_t first = k / 16;
    __m256 a[2 * MOST];
#pragma GCC unroll 2
    for (int h = 0; h < hs; h++) {
#pragma GCC unroll 8
        for (int i = 0; i < nr * mr; i++) a[h * MOST + i] = blocks ? _mm256_setzero_ps() : acc[(half + h) * MOST + i];
    }
    if (n == FP8_BLOCK)
        feed(q, nr, mr, hs, t, first, first + 8, half, a);
    else
        feed(q, nr, mr, hs, t, first, first + n / 16, half, a);
    if (n % 16) {
        float wt[TILE_N][16];
        for (int r = 0; r < nr; r++) decode_tail(q, t->w[r] + (first + n / 16) * 16, n % 16, wt[r]);
        feed_tail(nr, mr, hs, t, first + n / 16, n % 16, half, wt, a);
    }
#pragma GCC unroll 2
    for (int h = 0; h < hs; h++) {
#pragma GCC unroll 8
        for (int i = 0; i < nr * mr; i++) {
            __m256 *to = &acc[(half + h) * MOST + i];
            *to = blocks ? _mm256_fmadd_ps(a[h * MOST + i], _mm256_broadcast_ss(t->scale[i / mr] + first / 8), *to)
                         : a[h * MOST + i];
        }
    }
}

/* The whole tile in blocks of 128 k. blocks: each is summed from zero and then added to acc times its scale. Returns whether
 * an FP8 code was NaN; acc[half * MOST + r * mr + c] is of no use then. */
INLINE int run_tile(const code q, const int blocks, const int nr, const int mr, const tile *t, __m256 *acc)
{
    const int hs = mr == 1 ? 2 : 1;
    __m256i max = _mm256_setzero_si256();
    for (int64_t k = 0; k < t->k; k += FP8_BLOCK) {
        int64_t n = t->k - k < FP8_BLOCK ? t->k - k : FP8_BLOCK;
#pragma GCC unroll 4
        for (int r = 0; r < nr; r++) max = look_at(t->w[r] + k, n, max);
        prefetch(nr, t, k, k + n);
#pragma GCC unroll 2
        for (int half = 0; half < 2; half += hs) run_halves(q, blocks, nr, mr, hs, t, k, n, half, acc);
    }
    return is_nan_code(max);
}

/* The tree of op/linear.h, from the two halves of the lanes. */
INLINE float reduce(__m256 lo, __m256 hi)
{
    __m256 v = _mm256_add_ps(lo, hi);
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

/* Weight rows that meet mr rows of x in one tile: enough accumulators to hide the latency of fma, few enough to stay in
 * registers beside what is decoded. */
INLINE int tile_rows(int mr)
{
    return mr <= 2 ? 4 : 2;
}

/* Outputs n .. n+rows-1, at most a tile of them, for all rows of p. A tile is always whole: rows past the last are the last
 * one again, and nothing is made of them. */
INLINE int direct_tile(const code q, const int blocks, const int mr, const linear_part *p, int64_t n, int64_t rows,
                       int64_t ahead)
{
    const int nr = tile_rows(mr);
    __m256 acc[2 * MOST];
    tile t = {.k = p->w->k, .ahead = ahead};
#pragma GCC unroll 4
    for (int c = 0; c < mr; c++) t.x[c] = x_row(p, c);
#pragma GCC unroll 4
    for (int r = 0; r < nr; r++) {
        int64_t row = n + (r < rows ? r : rows - 1);
        t.w[r] = codes_at(p->w, row, 0);
        t.scale[r] = blocks ? block_scale(p->w, row, 0) : NULL;
    }
#pragma GCC unroll 16
    for (int i = 0; i < 2 * MOST; i++) acc[i] = _mm256_setzero_ps();
    if (run_tile(q, blocks, nr, mr, &t, acc)) return 0;
    for (int c = 0; c < mr; c++) {
        float *y = y_row(p, c);
        for (int r = 0; r < rows; r++) y[n + r] = scaled_sum(p, n + r, reduce(acc[r * mr + c], acc[MOST + r * mr + c]));
    }
    return 1;
}

/* raw: the part with the rows of x as they are, for tiles with a NaN. */
INLINE void direct_rows(const code q, const int blocks, const int mr, const linear_part *p, const linear_part *raw,
                        int64_t n0, int64_t n1)
{
    const int nr = tile_rows(mr);
    for (int64_t n = n0; n < n1; n += nr) {
        int64_t rows = n1 - n < nr ? n1 - n : nr, ahead = n1 - n > nr ? nr * p->w->ld : 0;
        if (!direct_tile(q, blocks, mr, p, n, rows, ahead)) pawl__linear_packed_avx2(raw, n, n + rows);
    }
}

INLINE void direct_kind(const code q, const int blocks, const linear_part *p, const linear_part *raw, int64_t n0,
                        int64_t n1)
{
    switch (p->m) {
    case 1:
        direct_rows(q, blocks, 1, p, raw, n0, n1);
        break;
    case 2:
        direct_rows(q, blocks, 2, p, raw, n0, n1);
        break;
    case 3:
        direct_rows(q, blocks, 3, p, raw, n0, n1);
        break;
    default:
        direct_rows(q, blocks, 4, p, raw, n0, n1);
        break;
    }
}

static void direct_fp8(const linear_part *p, const linear_part *raw, int64_t n0, int64_t n1)
{
    direct_kind(C_E4M3, 0, p, raw, n0, n1);
}

static void direct_fp8blk(const linear_part *p, const linear_part *raw, int64_t n0, int64_t n1)
{
    direct_kind(C_E4M3, 1, p, raw, n0, n1);
}

static void direct_raised_fp8(const linear_part *p, const linear_part *raw, int64_t n0, int64_t n1)
{
    direct_kind(C_RAISED_E4M3, 0, p, raw, n0, n1);
}

static void direct_raised_fp8blk(const linear_part *p, const linear_part *raw, int64_t n0, int64_t n1)
{
    direct_kind(C_RAISED_E4M3, 1, p, raw, n0, n1);
}

/* k floats times 2^120: exact, subnormal or not, when the answer is that all are below 2^8. */
INLINE int raise_row(const float *x, int64_t k, float *out)
{
    __m256 max = _mm256_setzero_ps();
    const __m256 factor = _mm256_set1_ps(0x1p120f), abs = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
    int64_t i = 0;
    int below = 1;
    for (; i + 8 <= k; i += 8) {
        __m256 v = _mm256_mul_ps(_mm256_loadu_ps(x + i), factor);
        _mm256_storeu_ps(out + i, v);
        max = _mm256_or_ps(max, _mm256_cmp_ps(_mm256_and_ps(v, abs), _mm256_set1_ps(INFINITY), _CMP_NLT_UQ));
    }
    for (; i < k; i++) {
        out[i] = x[i] * 0x1p120f;
        below &= fabsf(out[i]) < INFINITY;
    }
    return below && !_mm256_movemask_ps(max);
}

/* An fma rounds once, after an exact product: code * 2^-120 times x * 2^120 gives the bits of code times x, and spares a
 * multiplication for each code. Rows of x that are too many or too large are taken as they are. */
void pawl__linear_fp8_avx2(const linear_part *p, int64_t n0, int64_t n1)
{
    _Alignas(64) float raised[RAISED];
    const int blocks = p->w->q == PAWL_Q_FP8BLK;
    int64_t k = p->w->k;
    linear_part r = *p;
    int fits = p->m * k <= RAISED;
    for (int64_t j = 0; j < p->m && fits; j++) fits = raise_row(x_row(p, j), k, raised + j * k);
    r.x = raised;
    r.ldx = k;
    r.xrows = NULL;
    if (blocks && fits)
        direct_raised_fp8blk(&r, p, n0, n1);
    else if (blocks)
        direct_fp8blk(p, p, n0, n1);
    else if (fits)
        direct_raised_fp8(&r, p, n0, n1);
    else
        direct_fp8(p, p, n0, n1);
}

#endif
