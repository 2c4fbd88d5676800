/* The int8 policy for AVX2: tiles of 8 outputs. NVFP4's biased codes (0 .. 24) are the unsigned operand of vpmaddubsw, and
 * the products of a block of 16 fit in 16 bits; FP8's codes go in by magnitude and give their signs to the activations. */
#include "kernels/x86/int8.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#include "quant/codes.h"

#define INLINE static inline __attribute__((always_inline))

enum { WIDTH = 8, GROUP = PAWL_ACT8_GROUP, PIECE = 16 /* bytes of a row that are transposed together */ };

INLINE __m128i load16(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

/* out[j] = dword j of 16 bytes of each of 8 rows at p[r] + at; bytes past `bytes` are not read and come out as 0. */
INLINE void transpose(const uint8_t *const p[WIDTH], int64_t at, int bytes, __m256i out[4])
{
    __m256i r[4], t[4];
    if (bytes >= PIECE) {
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            r[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(load16(p[i] + at)), load16(p[i + 4] + at), 1);
    } else {
        uint8_t part[WIDTH][PIECE] = {{0}};
        for (int i = 0; i < WIDTH; i++) memcpy(part[i], p[i] + at, (size_t)bytes);
        for (int i = 0; i < 4; i++)
            r[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(load16(part[i])), load16(part[i + 4]), 1);
    }
    t[0] = _mm256_unpacklo_epi32(r[0], r[1]);
    t[1] = _mm256_unpackhi_epi32(r[0], r[1]);
    t[2] = _mm256_unpacklo_epi32(r[2], r[3]);
    t[3] = _mm256_unpackhi_epi32(r[2], r[3]);
    out[0] = _mm256_unpacklo_epi64(t[0], t[2]);
    out[1] = _mm256_unpackhi_epi64(t[0], t[2]);
    out[2] = _mm256_unpacklo_epi64(t[1], t[3]);
    out[3] = _mm256_unpackhi_epi64(t[1], t[3]);
}

INLINE void prefetch(const uint8_t *const p[WIDTH], int64_t at, int64_t ahead)
{
#pragma GCC unroll 8
    for (int r = 0; r < WIDTH; r++) _mm_prefetch((const char *)(p[r] + at + ahead), _MM_HINT_T0);
}

INLINE int least(int64_t a, int64_t b)
{
    return (int)(a < b ? a : b);
}

INLINE void store(uint8_t *p, __m256i v)
{
    _mm256_store_si256((__m256i *)(void *)p, v);
}

static void nvfp4_scales(const uint8_t *const p[WIDTH], int blocks, float *out)
{
    const __m256i abs = _mm256_set1_epi8(0x7f), keep = _mm256_set1_epi32((int)0x87f00000);
    const __m256 up = _mm256_set1_ps(0x1p120f);
    __m256i most = _mm256_setzero_si256();
    for (int b0 = 0; b0 < blocks; b0 += 16) {
        __m256i x[4];
        transpose(p, b0, blocks - b0, x);
        for (int d = 0; d < least((blocks - b0 + 3) / 4, 4); d++) {
            most = _mm256_max_epu8(most, _mm256_and_si256(x[d], abs));
            /* each byte to the top, then sign, exponent and mantissa to their places in f32: the value times 2^-120 */
            __m256i b[4] = {_mm256_slli_epi32(x[d], 24), _mm256_slli_epi32(x[d], 16), _mm256_slli_epi32(x[d], 8), x[d]};
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++) {
                __m256i v = _mm256_and_si256(_mm256_srai_epi32(b[i], 4), keep);
                _mm256_store_ps(out + (b0 + 4 * d + i) * WIDTH, _mm256_mul_ps(_mm256_castsi256_ps(v), up));
            }
        }
    }
    if (!_mm256_movemask_epi8(_mm256_cmpeq_epi8(most, abs))) return;
    for (int b = 0; b < blocks; b++) /* a NaN came out as 480 */
        for (int r = 0; r < WIDTH; r++) out[b * WIDTH + r] = pawl__e4m3_decode(p[r][b]);
}

static void unpack_nvfp4(const pawl_wmat *w, int64_t n, int rows, int64_t g0, int groups, int8_tile *t)
{
    const __m256i low = _mm256_set1_epi8(15);
    const __m256i table =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    const uint8_t *p[WIDTH], *s[WIDTH];
    int64_t bytes = least(w->k - g0 * GROUP, groups * GROUP) / 2;
    for (int r = 0; r < WIDTH; r++) {
        int64_t row = n + (r < rows ? r : rows - 1);
        p[r] = (const uint8_t *)w->data + row * w->ld + g0 * (GROUP / 2);
        s[r] = w->bscale + row * w->scale_ld + g0 * 2;
    }
    nvfp4_scales(s, (int)(bytes / 8), t->scale);
    if (bytes % 16) /* half a group: its second half has scale 0 */
        _mm256_store_ps(t->scale + bytes / 8 * WIDTH, _mm256_setzero_ps());
    uint8_t *out = t->codes;
    for (int64_t at = 0; at < bytes; at += PIECE) {
        __m256i x[4];
        if (at % 64 == 0) prefetch(p, at, WIDTH * w->ld);
        transpose(p, at, least(bytes - at, PIECE), x);
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            __m256i even = _mm256_and_si256(x[j], low), odd = _mm256_and_si256(_mm256_srli_epi16(x[j], 4), low);
            store(out, _mm256_shuffle_epi8(table, even));
            store(out + 32, _mm256_shuffle_epi8(table, odd));
            out += 64;
        }
    }
}

/* The block scale of FP8BLK for each of 8 rows at k, 1 for other formats. */
INLINE __m256 block_scales(const pawl_wmat *w, int64_t n, int rows, int64_t k)
{
    float s[WIDTH];
    if (w->q != PAWL_Q_FP8BLK) return _mm256_set1_ps(1.0f);
    for (int r = 0; r < WIDTH; r++)
        s[r] = w->scale[(w->row0 + n + (r < rows ? r : rows - 1)) / 128 * w->scale_ld + k / 128];
    return _mm256_loadu_ps(s);
}

/* Signed codes of 32 e4m3 codes: to_index moves the group's largest exponent to the top of 64 .. 127; below that is 0. */
INLINE __m256i fp8_codes(__m256i x, __m256i to_index)
{
    /* (8 + m) * 2^(t - 4) for index 64 + 8 t + m, ties to even */
    const __m256i table[4] = {
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2)),
        _mm256_broadcastsi128_si256(_mm_setr_epi8(2, 2, 2, 3, 3, 3, 4, 4, 4, 4, 5, 6, 6, 6, 7, 8)),
        _mm256_broadcastsi128_si256(_mm_setr_epi8(8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 22, 24, 26, 28, 30)),
        _mm256_broadcastsi128_si256(_mm_setr_epi8(32, 36, 40, 44, 48, 52, 56, 60, 64, 72, 80, 88, 96, 104, 112, 120))};
    __m256i i = _mm256_add_epi8(_mm256_and_si256(x, _mm256_set1_epi8(0x7f)), to_index), v = _mm256_setzero_si256();
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        /* 0x70 .. 0x7f inside table j, 0x80 and more outside, which gives 0 */
        __m256i at = _mm256_xor_si256(i, _mm256_set1_epi8((char)(0x40 + 16 * j)));
        v = _mm256_or_si256(v, _mm256_shuffle_epi8(table[j], _mm256_add_epi8(at, _mm256_set1_epi8(0x70))));
    }
    return _mm256_sign_epi8(v, x); /* a code of zero has v zero */
}

static void unpack_fp8(const pawl_wmat *w, int64_t n, int rows, int64_t g0, int groups, int8_tile *t)
{
    const __m256i abs = _mm256_set1_epi8(0x7f);
    const uint8_t *p[WIDTH];
    int64_t k0 = g0 * GROUP, left = w->k - k0;
    for (int r = 0; r < WIDTH; r++) p[r] = (const uint8_t *)w->data + (n + (r < rows ? r : rows - 1)) * w->ld + k0;
    uint8_t *out = t->codes;
    for (int g = 0; g < groups; g++, left -= GROUP) {
        __m256i x[8], most = _mm256_setzero_si256();
        if (g % 2 == 0) prefetch(p, g * GROUP, WIDTH * w->ld);
        int first = least(left, PIECE), second = least(left - first, PIECE);
        transpose(p, g * GROUP, first, x);
        transpose(p, g * GROUP + first, second, x + 4);
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++) most = _mm256_max_epu8(most, _mm256_and_si256(x[j], abs));
        most = _mm256_max_epu8(most, _mm256_or_si256(_mm256_slli_epi32(most, 16), _mm256_srli_epi32(most, 16)));
        most = _mm256_max_epu8(most, _mm256_or_si256(_mm256_slli_epi32(most, 8), _mm256_srli_epi32(most, 24)));
        __m256i c = _mm256_max_epu8(_mm256_and_si256(most, _mm256_set1_epi8(0x78)), _mm256_set1_epi8(0x40));
        __m256i to_index = _mm256_sub_epi8(_mm256_set1_epi8(0x78), c);
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++) {
            store(out, fp8_codes(x[j], to_index));
            out += 32;
        }
        /* 2^(c - 13): the exponent field's place is bit 23 */
        __m256i e = _mm256_slli_epi32(_mm256_and_si256(c, _mm256_set1_epi32(0x78)), 20);
        __m256 s = _mm256_castsi256_ps(_mm256_add_epi32(e, _mm256_set1_epi32((127 - 13) << 23)));
        __m256 nan = _mm256_castsi256_ps(_mm256_cmpeq_epi32(most, abs));
        s = _mm256_blendv_ps(s, _mm256_set1_ps(NAN), nan);
        _mm256_store_ps(t->scale + g * WIDTH, _mm256_mul_ps(s, block_scales(w, n, rows, k0 + g * GROUP)));
    }
}

static void unpack(const pawl_wmat *w, int64_t n, int rows, int64_t g0, int groups, int8_tile *t)
{
    if (w->q == PAWL_Q_NVFP4)
        unpack_nvfp4(w, n, rows, g0, groups, t);
    else
        unpack_fp8(w, n, rows, g0, groups, t);
}

INLINE __m256i four(const int8_t *a)
{
    return _mm256_set1_epi32(*(const int32_t *)(const void *)a);
}

/* 16 k of biased NVFP4 codes; four products of 24 * 127 twice stay below 2^15. */
INLINE __m256i dot_nvfp4(const __m256i w[4], const int8_t *a, int32_t start)
{
    __m256i s = _mm256_add_epi16(_mm256_maddubs_epi16(w[0], four(a)), _mm256_maddubs_epi16(w[1], four(a + 4)));
    __m256i t = _mm256_add_epi16(_mm256_maddubs_epi16(w[2], four(a + 8)), _mm256_maddubs_epi16(w[3], four(a + 12)));
    s = _mm256_madd_epi16(_mm256_add_epi16(s, t), _mm256_set1_epi16(1));
    return _mm256_add_epi32(s, _mm256_set1_epi32(start));
}

/* 16 k of signed codes; a pair of products is at most 2 * 120 * 127. */
INLINE __m256i dot_fp8(const __m256i w[4], const int8_t *a)
{
    __m256i s = _mm256_setzero_si256();
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        __m256i v = _mm256_maddubs_epi16(_mm256_abs_epi8(w[j]), _mm256_sign_epi8(four(a + 4 * j), w[j]));
        s = _mm256_add_epi32(s, _mm256_madd_epi16(v, _mm256_set1_epi16(1)));
    }
    return s;
}

/* mr rows; a constant where it is inlined, so that the arrays become registers. */
INLINE void dot_rows(const int nvfp4, const int mr, const int8_tile *t, int64_t g0, int groups, const int8_rows *x,
                     const int64_t *at, int64_t first, float *acc)
{
    enum { MOST_ROWS = 4 };
    __m256 sum[MOST_ROWS];
    const int8_group *row[MOST_ROWS];
#pragma GCC unroll 4
    for (int c = 0; c < mr; c++) {
        sum[c] = _mm256_load_ps(acc + c * WIDTH);
        row[c] = x->group + (at ? at[c] : first + c) * x->groups + g0;
    }
    const uint8_t *codes = t->codes;
    for (int g = 0; g < groups; g++, codes += 8 * 32) {
        __m256 p[MOST_ROWS];
#pragma GCC unroll 2
        for (int half = 0; half < 2; half++) {
            __m256i w[4];
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++)
                w[j] = _mm256_load_si256((const __m256i *)(const void *)(codes + 128 * half + 32 * j));
            __m256 s = _mm256_load_ps(t->scale + (nvfp4 ? 2 * g + half : g) * WIDTH);
#pragma GCC unroll 4
            for (int c = 0; c < mr; c++) {
                const int8_t *a = row[c][g].codes + 16 * half;
                if (nvfp4) {
                    __m256 d = _mm256_cvtepi32_ps(dot_nvfp4(w, a, row[c][g].start[half]));
                    p[c] = half ? _mm256_fmadd_ps(d, s, p[c]) : _mm256_mul_ps(d, s);
                } else if (half) {
                    __m256i d = _mm256_add_epi32(_mm256_castps_si256(p[c]), dot_fp8(w, a));
                    p[c] = _mm256_mul_ps(_mm256_cvtepi32_ps(d), s);
                } else {
                    p[c] = _mm256_castsi256_ps(dot_fp8(w, a));
                }
            }
        }
#pragma GCC unroll 4
        for (int c = 0; c < mr; c++) sum[c] = _mm256_fmadd_ps(p[c], _mm256_broadcast_ss(&row[c][g].scale), sum[c]);
    }
#pragma GCC unroll 4
    for (int c = 0; c < mr; c++) _mm256_store_ps(acc + c * WIDTH, sum[c]);
}

INLINE void dot_format(const int nvfp4, const int8_tile *t, int64_t g0, int groups, const int8_rows *x,
                       const int64_t *at, int64_t first, int64_t m, float *acc)
{
    for (int64_t c = 0; c < m;) {
        const int64_t *rows = at ? at + c : NULL;
        float *a = acc + c * WIDTH;
        int64_t left = m - c, f = first + c;
        if (left >= 4) {
            dot_rows(nvfp4, 4, t, g0, groups, x, rows, f, a);
            c += 4;
        } else if (left >= 2) {
            dot_rows(nvfp4, 2, t, g0, groups, x, rows, f, a);
            c += 2;
        } else {
            dot_rows(nvfp4, 1, t, g0, groups, x, rows, f, a);
            c += 1;
        }
    }
}

static void dot(int nvfp4, const int8_tile *t, int64_t g0, int groups, const int8_rows *x, const int64_t *at,
                int64_t first, int64_t m, float *acc)
{
    if (nvfp4)
        dot_format(1, t, g0, groups, x, at, first, m, acc);
    else
        dot_format(0, t, g0, groups, x, at, first, m, acc);
}

static void quantize(int nvfp4, const float *row, int64_t k, int64_t g0, int64_t g1, const int8_rows *x, int64_t m)
{
    pawl__int8_quantize(nvfp4, row, k, g0, g1, x, m);
}

static void activate(pawl_act act, float *g, const float *u, int64_t n)
{
    pawl__int8_activate(act, g, u, n);
}

static void add(float w, const float *e, float *y, int64_t n)
{
    pawl__int8_add(w, e, y, n);
}

const int8_isa pawl__int8_avx2 = {
    .width = WIDTH, .unpack = unpack, .dot = dot, .quantize = quantize, .activate = activate, .add = add};
#endif
