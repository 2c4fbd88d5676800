/* linear for AVX-512 (F, BW, DQ, VL), every weight format, with the bits of the reference: the 16 virtual lanes of
 * op/linear.h are one register, fed in rising k; what is tiled is which outputs are computed together, never a sum.
 *
 * Few rows ("direct", decode and verification): each weight row comes from memory once and is decoded in registers for all
 * rows of x. Many rows ("packed"): strips of weight rows are decoded to f32 in an L1-sized buffer and meet all rows from
 * there. Weights are read where they lie, unaligned, and never past the last byte of a row; nothing is written but y and
 * the stack. */
#include "kernels/x86/body_avx512.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#include "kernels/x86/linear_rows.h"

#define INLINE static inline __attribute__((always_inline))

enum {
    DIRECT_M = 9,   /* rows of x that meet a weight row in registers */
    TILE_N = 4,     /* weight rows in a tile at most */
    MOST = 24,      /* accumulators in a tile at most */
    STRIP = 512,    /* k that are decoded together */
    PACKED_N = 8,   /* weight rows decoded together: 16 KB of f32 */
    PACKED_M = 96,  /* rows of x that share them */
    PACKED_TILE = 6 /* rows of x in a tile there */
};

/* nr rows of weights by mr rows of x over k elements. */
typedef struct tile {
    const uint8_t *w[TILE_N];
    const uint8_t *s[TILE_N];   /* block scales of NVFP4 and MXFP4 */
    const float *scale[TILE_N]; /* block scales of FP8BLK */
    const float *x[DIRECT_M];
    int64_t k;
    int64_t ahead; /* bytes from a row of this tile to that of the next one, which is prefetched; 0: there is none */
} tile;

INLINE __mmask16 first_lanes(int64_t n)
{
    return (__mmask16)((1u << n) - 1);
}

/* Sign, exponent and mantissa of an e4m3 code moved to their places in f32 are the value times 2^-120, which is exact, but a
 * subnormal where the code is one: rare enough in weights that a processor slow with those does not suffer. The NaN codes
 * come out as 480: callers look for them. */
INLINE __m512 decode_e4m3(__m128i codes)
{
    __m512i v = _mm512_slli_epi32(_mm512_cvtepi8_epi32(codes), 20); /* the sign fills the top */
    v = _mm512_and_si512(v, _mm512_set1_epi32((int)0x87f00000));
    return _mm512_mul_ps(_mm512_castsi512_ps(v), _mm512_set1_ps(0x1p120f));
}

/* 16 e2m1 codes, two a byte. Each byte becomes a quadword whose low half begins with the even code and whose high half with
 * the odd one; a permutation looks at 4 bits only. The table is multiplied with the scale first. */
INLINE __m512 decode_e2m1(const uint8_t *p, float scale)
{
    const __m512 table = _mm512_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f, -0.0f, -0.5f, -1.0f, -1.5f,
                                        -2.0f, -3.0f, -4.0f, -6.0f);
    __m512i v = _mm512_cvtepu8_epi64(_mm_loadl_epi64((const __m128i *)(const void *)p));
    v = _mm512_or_si512(v, _mm512_slli_epi64(v, 28));
    return _mm512_permutexvar_ps(v, _mm512_mul_ps(table, _mm512_set1_ps(scale)));
}

/* Step number `step` of a row: 16 elements, or the first `rem` of them (the others are not read; FP4 has none such). */
INLINE __m512 decode(pawl_quant q, const uint8_t *w, const uint8_t *s, int64_t step, int64_t rem)
{
    const uint8_t *p = w + step * step_bytes(q);
    __mmask16 lanes = first_lanes(rem);
    switch (q) {
    case PAWL_Q_F32:
        return rem == 16 ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps(lanes, p);
    case PAWL_Q_F16:
        return _mm512_cvtph_ps(rem == 16 ? _mm256_loadu_si256((const __m256i *)(const void *)p)
                                         : _mm256_maskz_loadu_epi16(lanes, p));
    case PAWL_Q_BF16: {
        __m256i h =
            rem == 16 ? _mm256_loadu_si256((const __m256i *)(const void *)p) : _mm256_maskz_loadu_epi16(lanes, p);
        return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
    }
    case PAWL_Q_NVFP4:
        return decode_e2m1(p, pawl__e4m3_table[s[step]]);
    case PAWL_Q_MXFP4:
        return decode_e2m1(p, e8m0(s[step / 2]));
    default:
        return decode_e4m3(rem == 16 ? _mm_loadu_si128((const __m128i *)(const void *)p)
                                     : _mm_maskz_loadu_epi8(lanes, p));
    }
}

INLINE __m512i max_code(__m512i max, __m512i codes)
{
    return _mm512_max_epu8(max, _mm512_and_si512(codes, _mm512_set1_epi8(0x7f)));
}

INLINE int is_nan_code(__m512i max)
{
    return _mm512_cmpeq_epi8_mask(max, _mm512_set1_epi8(0x7f)) != 0;
}

/* The inner loop; q, nr and mr are constants where it is inlined, so that the arrays become registers. */
INLINE void feed(const pawl_quant q, const int nr, const int mr, const tile *t, int64_t first, int64_t last, __m512 *a)
{
    for (int64_t step = first; step < last; step++) {
        __m512 w[TILE_N];
#pragma GCC unroll 4
        for (int r = 0; r < nr; r++) w[r] = decode(q, t->w[r], t->s[r], step, 16);
#pragma GCC unroll 9
        for (int c = 0; c < mr; c++) {
            __m512 x = _mm512_loadu_ps(t->x[c] + 16 * step);
#pragma GCC unroll 4
            for (int r = 0; r < nr; r++) a[r * mr + c] = _mm512_fmadd_ps(w[r], x, a[r * mr + c]);
        }
    }
}

/* The last rem elements, less than 16: the other lanes keep their values. */
INLINE void feed_tail(const pawl_quant q, const int nr, const int mr, const tile *t, int64_t step, int64_t rem,
                      __m512 *a)
{
    __mmask16 lanes = first_lanes(rem);
#pragma GCC unroll 4
    for (int r = 0; r < nr; r++) {
        __m512 w = decode(q, t->w[r], t->s[r], step, rem);
#pragma GCC unroll 9
        for (int c = 0; c < mr; c++)
            a[r * mr + c] =
                _mm512_mask3_fmadd_ps(w, _mm512_maskz_loadu_ps(lanes, t->x[c] + 16 * step), a[r * mr + c], lanes);
    }
}

/* 128 codes of each row from `step` on: whether the memory behind them is fetched, and whether a NaN is among them. */
INLINE __m512i look_at(const int nr, const tile *t, int64_t k, int64_t n, __m512i max)
{
#pragma GCC unroll 4
    for (int r = 0; r < nr; r++) {
        const uint8_t *p = t->w[r] + k;
        if (n == FP8_BLOCK) {
            max = max_code(max, _mm512_loadu_si512(p));
            max = max_code(max, _mm512_loadu_si512(p + 64));
        } else {
            for (int64_t i = 0; i < n; i += 64) {
                __mmask64 m = n - i < 64 ? (1ull << (n - i)) - 1 : ~0ull;
                max = max_code(max, _mm512_maskz_loadu_epi8(m, p + i));
            }
        }
    }
    return max;
}

INLINE void prefetch(const int nr, const tile *t, int64_t from, int64_t to)
{
    if (!t->ahead) return;
#pragma GCC unroll 4
    for (int r = 0; r < nr; r++)
        for (int64_t at = from; at < to; at += 64) _mm_prefetch((const char *)t->w[r] + t->ahead + at, _MM_HINT_T0);
}

/* The whole tile in blocks of 128 k. blocks: each is summed from zero and then added to acc times its scale. Returns whether
 * an FP8 code was NaN; acc is of no use then. */
INLINE int run_tile(const pawl_quant q, const int blocks, const int nr, const int mr, const tile *t, __m512 *acc)
{
    const int fp8 = q == PAWL_Q_FP8TEN;
    __m512i max = _mm512_setzero_si512();
    for (int64_t k = 0; k < t->k; k += FP8_BLOCK) {
        int64_t n = t->k - k < FP8_BLOCK ? t->k - k : FP8_BLOCK, first = k / 16;
        __m512 part[MOST], *a = blocks ? part : acc;
        if (blocks) {
#pragma GCC unroll 24
            for (int i = 0; i < nr * mr; i++) part[i] = _mm512_setzero_ps();
        }
        if (fp8) max = look_at(nr, t, k, n, max);
        prefetch(nr, t, first * step_bytes(q), (first + n / 16) * step_bytes(q));
        if (n == FP8_BLOCK)
            feed(q, nr, mr, t, first, first + 8, a);
        else
            feed(q, nr, mr, t, first, first + n / 16, a);
        if (n % 16) feed_tail(q, nr, mr, t, first + n / 16, n % 16, a);
        if (blocks) {
#pragma GCC unroll 24
            for (int i = 0; i < nr * mr; i++)
                acc[i] = _mm512_fmadd_ps(part[i], _mm512_set1_ps(t->scale[i / mr][first / 8]), acc[i]);
        }
    }
    return fp8 && is_nan_code(max);
}

/* The tree of op/linear.h on four registers at once; sums of a, b, c and d in this order. */
INLINE __m128 reduce4(__m512 a, __m512 b, __m512 c, __m512 d)
{
    __m512 ab = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
    __m512 cd = _mm512_add_ps(_mm512_shuffle_f32x4(c, d, 0x44), _mm512_shuffle_f32x4(c, d, 0xee));
    __m512 s = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
    s = _mm512_add_ps(s, _mm512_permute_ps(s, 0x4e));
    s = _mm512_add_ps(s, _mm512_permute_ps(s, 0xb1));
    const __m512i firsts = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    return _mm512_castps512_ps128(_mm512_permutexvar_ps(firsts, s));
}

/* Lanes of outputs n .. n+nr-1 for mr rows from j on become y; acc_ld: registers from one n to the next. */
INLINE void finish(const linear_part *p, int64_t n, int64_t nr, int64_t j, int64_t mr, const __m512 *acc,
                   int64_t acc_ld)
{
    for (int64_t c = 0; c < mr; c++) {
        const __m512 *a = acc + c;
        float v[4];
        float *y = y_row(p, j + c) + n;
        _mm_storeu_ps(v, reduce4(a[0], a[nr > 1 ? acc_ld : 0], a[nr > 2 ? 2 * acc_ld : 0], a[nr > 3 ? 3 * acc_ld : 0]));
        for (int64_t r = 0; r < nr; r++) y[r] = scaled_sum(p, n + r, v[r]);
    }
}

/* Weight rows that meet mr rows of x in one tile: enough accumulators to hide the latency of fma, few enough to stay in
 * registers beside what is decoded. */
INLINE int tile_rows(int mr)
{
    return mr <= 4 ? 4 : 2;
}

/* Outputs n .. n+rows-1, at most a tile of them. A tile is always whole: rows past the last are the last one again, and
 * nothing is made of them. */
INLINE int direct_tile(const pawl_quant q, const int blocks, const int mr, const linear_part *p, int64_t n,
                       int64_t rows, int64_t ahead)
{
    const int nr = tile_rows(mr);
    __m512 acc[MOST];
    tile t = {.k = p->w->k, .ahead = ahead};
#pragma GCC unroll 9
    for (int c = 0; c < mr; c++) t.x[c] = x_row(p, c);
#pragma GCC unroll 4
    for (int r = 0; r < nr; r++) {
        int64_t row = n + (r < rows ? r : rows - 1);
        t.w[r] = codes_at(p->w, row, 0);
        t.s[r] = bscale_at(p->w, row, 0);
        t.scale[r] = blocks ? block_scale(p->w, row, 0) : NULL;
    }
#pragma GCC unroll 24
    for (int i = 0; i < nr * mr; i++) acc[i] = _mm512_setzero_ps();
    if (run_tile(q, blocks, nr, mr, &t, acc)) return 0;
    finish(p, n, rows, 0, mr, acc, mr);
    return 1;
}

static void packed(const linear_part *p, int64_t n0, int64_t n1, int64_t j0, int64_t m);

INLINE void direct_rows(const pawl_quant q, const int blocks, const int mr, const linear_part *p, int64_t n0,
                        int64_t n1)
{
    const int nr = tile_rows(mr);
    for (int64_t n = n0; n < n1; n += nr) {
        int64_t rows = n1 - n < nr ? n1 - n : nr, ahead = n1 - n > nr ? nr * p->w->ld : 0;
        if (!direct_tile(q, blocks, mr, p, n, rows, ahead)) packed(p, n, n + rows, 0, mr);
    }
}

INLINE void direct_kind(const pawl_quant q, const int blocks, const linear_part *p, int64_t n0, int64_t n1)
{
    switch (p->m) {
    case 1:
        direct_rows(q, blocks, 1, p, n0, n1);
        break;
    case 2:
        direct_rows(q, blocks, 2, p, n0, n1);
        break;
    case 3:
        direct_rows(q, blocks, 3, p, n0, n1);
        break;
    case 4:
        direct_rows(q, blocks, 4, p, n0, n1);
        break;
    case 5:
        direct_rows(q, blocks, 5, p, n0, n1);
        break;
    case 6:
        direct_rows(q, blocks, 6, p, n0, n1);
        break;
    case 7:
        direct_rows(q, blocks, 7, p, n0, n1);
        break;
    case 8:
        direct_rows(q, blocks, 8, p, n0, n1);
        break;
    default:
        direct_rows(q, blocks, 9, p, n0, n1);
        break;
    }
}

static void direct_f32(const linear_part *p, int64_t n0, int64_t n1)
{
    direct_kind(PAWL_Q_F32, 0, p, n0, n1);
}

static void direct_f16(const linear_part *p, int64_t n0, int64_t n1)
{
    direct_kind(PAWL_Q_F16, 0, p, n0, n1);
}

static void direct_bf16(const linear_part *p, int64_t n0, int64_t n1)
{
    direct_kind(PAWL_Q_BF16, 0, p, n0, n1);
}

static void direct_fp8(const linear_part *p, int64_t n0, int64_t n1)
{
    direct_kind(PAWL_Q_FP8TEN, 0, p, n0, n1);
}

static void direct_fp8blk(const linear_part *p, int64_t n0, int64_t n1)
{
    direct_kind(PAWL_Q_FP8TEN, 1, p, n0, n1);
}

static void direct_nvfp4(const linear_part *p, int64_t n0, int64_t n1)
{
    direct_kind(PAWL_Q_NVFP4, 0, p, n0, n1);
}

static void direct_mxfp4(const linear_part *p, int64_t n0, int64_t n1)
{
    direct_kind(PAWL_Q_MXFP4, 0, p, n0, n1);
}

static void direct(const linear_part *p, int64_t n0, int64_t n1)
{
    switch (p->w->q) {
    case PAWL_Q_F32:
        direct_f32(p, n0, n1);
        break;
    case PAWL_Q_F16:
        direct_f16(p, n0, n1);
        break;
    case PAWL_Q_BF16:
        direct_bf16(p, n0, n1);
        break;
    case PAWL_Q_FP8BLK:
        direct_fp8blk(p, n0, n1);
        break;
    case PAWL_Q_NVFP4:
        direct_nvfp4(p, n0, n1);
        break;
    case PAWL_Q_MXFP4:
        direct_mxfp4(p, n0, n1);
        break;
    default:
        direct_fp8(p, n0, n1);
        break;
    }
}

/* k codes of a row from p on as f32, block scales of FP4 applied. */
INLINE void decode_row(const pawl_quant q, const uint8_t *p, const uint8_t *s, int64_t k, float *out)
{
    for (int64_t i = 0; i < k / 16; i++) _mm512_store_ps(out + 16 * i, decode(q, p, s, i, 16));
    if (k % 16) _mm512_store_ps(out + k / 16 * 16, decode(q, p, s, k / 16, k % 16));
}

static void decode_fp8(const uint8_t *p, int64_t k, float *out)
{
    __m512i max = _mm512_setzero_si512();
    for (int64_t i = 0; i < k; i += 64) {
        __mmask64 m = k - i < 64 ? (1ull << (k - i)) - 1 : ~0ull;
        max = max_code(max, _mm512_maskz_loadu_epi8(m, p + i));
    }
    if (!is_nan_code(max))
        decode_row(PAWL_Q_FP8TEN, p, NULL, k, out);
    else
        for (int64_t i = 0; i < k; i++) out[i] = pawl__e4m3_table[p[i]];
}

static void decode_strip(const pawl_wmat *w, int64_t n, int64_t k0, int64_t k, float *out)
{
    const uint8_t *p = codes_at(w, n, k0), *s = bscale_at(w, n, k0);
    switch (w->q) {
    case PAWL_Q_F32:
        decode_row(PAWL_Q_F32, p, s, k, out);
        break;
    case PAWL_Q_F16:
        decode_row(PAWL_Q_F16, p, s, k, out);
        break;
    case PAWL_Q_BF16:
        decode_row(PAWL_Q_BF16, p, s, k, out);
        break;
    case PAWL_Q_NVFP4:
        decode_row(PAWL_Q_NVFP4, p, s, k, out);
        break;
    case PAWL_Q_MXFP4:
        decode_row(PAWL_Q_MXFP4, p, s, k, out);
        break;
    default:
        decode_fp8(p, k, out);
        break;
    }
}

/* A tile of decoded rows; acc[r * acc_ld + c] go on from their values, or from 0 where they are fresh. */
INLINE void packed_tile(const int blocks, const int mr, const tile *t, __m512 *acc, int64_t acc_ld, int fresh)
{
    __m512 a[MOST];
#pragma GCC unroll 24
    for (int i = 0; i < TILE_N * mr; i++) a[i] = fresh ? _mm512_setzero_ps() : acc[i / mr * acc_ld + i % mr];
    run_tile(PAWL_Q_F32, blocks, TILE_N, mr, t, a);
#pragma GCC unroll 24
    for (int i = 0; i < TILE_N * mr; i++) acc[i / mr * acc_ld + i % mr] = a[i];
}

INLINE void packed_rows(const int blocks, int mr, const tile *t, __m512 *acc, int64_t acc_ld, int fresh)
{
    switch (mr) {
    case 1:
        packed_tile(blocks, 1, t, acc, acc_ld, fresh);
        break;
    case 2:
        packed_tile(blocks, 2, t, acc, acc_ld, fresh);
        break;
    case 3:
        packed_tile(blocks, 3, t, acc, acc_ld, fresh);
        break;
    case 4:
        packed_tile(blocks, 4, t, acc, acc_ld, fresh);
        break;
    case 5:
        packed_tile(blocks, 5, t, acc, acc_ld, fresh);
        break;
    default:
        packed_tile(blocks, 6, t, acc, acc_ld, fresh);
        break;
    }
}

/* Rows j0 .. j0+m-1 of x, at most PACKED_M. */
static void packed(const linear_part *p, int64_t n0, int64_t n1, int64_t j0, int64_t m)
{
    const pawl_wmat *w = p->w;
    _Alignas(64) float decoded[PACKED_N * STRIP];
    __m512 acc[PACKED_N * PACKED_M];
    for (int64_t n = n0; n < n1; n += PACKED_N) {
        int64_t rows = n1 - n < PACKED_N ? n1 - n : PACKED_N;
        for (int64_t k0 = 0; k0 < w->k; k0 += STRIP) {
            tile t = {.k = w->k - k0 < STRIP ? w->k - k0 : STRIP};
            for (int64_t r = 0; r < rows; r++) decode_strip(w, n + r, k0, t.k, decoded + r * STRIP);
            for (int64_t j = 0; j < m; j += PACKED_TILE) {
                int mr = (int)(m - j < PACKED_TILE ? m - j : PACKED_TILE);
                for (int c = 0; c < mr; c++) t.x[c] = x_row(p, j0 + j + c) + k0;
                for (int64_t r = 0; r < rows; r += TILE_N) {
                    for (int64_t i = 0; i < TILE_N; i++) {
                        int64_t row = r + i < rows ? r + i : rows - 1;
                        t.w[i] = (const uint8_t *)(decoded + row * STRIP);
                        if (w->q == PAWL_Q_FP8BLK) t.scale[i] = block_scale(w, n + row, k0);
                    }
                    if (w->q == PAWL_Q_FP8BLK)
                        packed_rows(1, mr, &t, acc + r * m + j, m, k0 == 0);
                    else
                        packed_rows(0, mr, &t, acc + r * m + j, m, k0 == 0);
                }
            }
        }
        for (int64_t r = 0; r < rows; r += TILE_N)
            finish(p, n + r, rows - r < TILE_N ? rows - r : TILE_N, j0, m, acc + r * m, m);
    }
}

void pawl__linear_part_avx512(const linear_part *p, int64_t n0, int64_t n1)
{
    if (p->m <= 0) return;
    if (p->m <= DIRECT_M) {
        direct(p, n0, n1);
        return;
    }
    int64_t shares = (p->m + PACKED_M - 1) / PACKED_M, most = (p->m + shares - 1) / shares;
    most = (most + PACKED_TILE - 1) / PACKED_TILE * PACKED_TILE;
    for (int64_t j = 0; j < p->m; j += most) packed(p, n0, n1, j, p->m - j < most ? p->m - j : most);
}

int64_t pawl__chunk_avx512(const pawl_wmat *w, int64_t m, int threads)
{
    enum { TASK_BYTES = 65536, LEAST_BYTES = 16384, TASKS = 8 };
    int64_t row = pawl__quant_row_bytes(w->q, w->k) * (m < 1 ? 1 : m < DIRECT_M ? m : DIRECT_M);
    if (row < 1) row = 1;
    int64_t rows = TASK_BYTES / row, share = w->n / (TASKS * (threads < 1 ? 1 : threads));
    if (rows > share) rows = share;
    if (rows < LEAST_BYTES / row) rows = LEAST_BYTES / row;
    return (rows + 15) / 16 * 16 > 0 ? (rows + 15) / 16 * 16 : 16;
}

pawl_status pawl__linear_run_avx512(const void *args, pawl_exec *ex, pawl_err *err)
{
    const pawl_linear_args *a = args;
    return pawl__x86_linear(a, pawl__linear_part_avx512, pawl__chunk_avx512(a->w, a->m, pawl__exec_threads(ex)), ex,
                            err);
}
#endif
