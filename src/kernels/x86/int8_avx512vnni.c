/* The int8 policy for AVX-512 with VNNI and VBMI: tiles of 16 outputs. Integer dots are vpdpbusd of biased weights (unsigned)
 * and activations (signed) that begin at -bias times the sum of the activations. */
#include "kernels/x86/int8.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "quant/codes.h"

#define INLINE static inline __attribute__((always_inline))

enum {
    WIDTH = 16,
    GROUP = PAWL_ACT8_GROUP,
    MOST_ROWS = 9,
    PIECE = 32, /* bytes of a row that are transposed together */
    AHEAD = 512 /* bytes of a row between what is multiplied and what is fetched */
};

/* Rows of bytes, `ld` apart. Addresses are computed where they are used: 16 pointers would not fit the registers. */
typedef struct strided {
    const uint8_t *first;
    int64_t ld;
    int rows; /* of WIDTH; those past the last are read as the last */
} strided;

INLINE const uint8_t *row_at(const strided *p, int r)
{
    return p->first + (r < p->rows ? r : p->rows - 1) * p->ld;
}

/* out[j] = dword j of 32 bytes at `at` of each row; bytes past `bytes` are not read and come out as 0. */
INLINE void transpose(const strided *p, int64_t at, int bytes, __m512i out[8])
{
    __m512i r[8], t[8];
    if (bytes >= PIECE && p->rows == WIDTH) {
        const uint8_t *low = p->first + at;
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) {
            if (i == 4) low += 8 * p->ld; /* rows 0 .. 3 above 4 .. 7, 8 .. 11 above 12 .. 15 */
            const uint8_t *a = low + (i % 4) * p->ld, *b = a + 4 * p->ld;
            r[i] = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)(const void *)a));
            r[i] = _mm512_inserti64x4(r[i], _mm256_loadu_si256((const __m256i *)(const void *)b), 1);
        }
    } else {
        __mmask32 mask = bytes >= PIECE ? 0xffffffff : ((__mmask32)1 << bytes) - 1;
        for (int i = 0; i < 8; i++) {
            int a = i < 4 ? i : i + 4;
            r[i] = _mm512_castsi256_si512(_mm256_maskz_loadu_epi8(mask, row_at(p, a) + at));
            r[i] = _mm512_inserti64x4(r[i], _mm256_maskz_loadu_epi8(mask, row_at(p, a + 4) + at), 1);
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) { /* r[i + c]: column c, and 4 + c in the odd quarters, of four rows a quarter */
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++) {
        out[c] = _mm512_shuffle_i32x4(r[c], r[4 + c], 0x88);
        out[4 + c] = _mm512_shuffle_i32x4(r[c], r[4 + c], 0xdd);
    }
}

/* Fetches the line at `at` of each row; where rows of `bytes` end before, in the WIDTH rows after these. */
INLINE void prefetch(const strided *p, int64_t at, int64_t bytes)
{
    const uint8_t *a = p->first + (at < bytes ? at : at - bytes + WIDTH * p->ld);
#pragma GCC unroll 16
    for (int r = 0; r < WIDTH; r++) _mm_prefetch((const char *)(a + r * p->ld), _MM_HINT_T0);
}

/* The scales of `blocks` blocks (32 at most) of 16 rows from p[r] + at on, [blocks][width]. */
static void nvfp4_scales(const strided *p, int64_t at, int blocks, float *out)
{
    const __m512i abs = _mm512_set1_epi8(0x7f), keep = _mm512_set1_epi32((int)0x87f00000);
    const __m512 up = _mm512_set1_ps(0x1p120f);
    __m512i x[8], most = _mm512_setzero_si512();
    transpose(p, at, blocks, x);
    for (int d = 0; d < (blocks + 3) / 4; d++) {
        most = _mm512_max_epu8(most, _mm512_and_si512(x[d], abs));
        /* each byte to the top, then sign, exponent and mantissa to their places in f32: the value times 2^-120 */
        __m512i b[4] = {_mm512_slli_epi32(x[d], 24), _mm512_slli_epi32(x[d], 16), _mm512_slli_epi32(x[d], 8), x[d]};
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            __m512i v = _mm512_and_si512(_mm512_srai_epi32(b[i], 4), keep);
            _mm512_store_ps(out + (4 * d + i) * WIDTH, _mm512_mul_ps(_mm512_castsi512_ps(v), up));
        }
    }
    if (!_mm512_cmpeq_epi8_mask(most, abs)) return;
    for (int b = 0; b < blocks; b++) /* a NaN came out as 480 */
        for (int r = 0; r < WIDTH; r++) out[b * WIDTH + r] = pawl__e4m3_decode(row_at(p, r)[at + b]);
}

/* Biased codes of a group from four dwords: even k, odd k, of four after four. The table is there four times, so that the
 * two bits above a nibble do not matter. */
INLINE void nvfp4_codes(const __m512i x[4], __m512i out[8])
{
    const __m512i table =
        _mm512_broadcast_i32x4(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        out[2 * j] = _mm512_permutexvar_epi8(x[j], table);
        out[2 * j + 1] = _mm512_permutexvar_epi8(_mm512_srli_epi16(x[j], 4), table);
    }
}

static void unpack_nvfp4(const pawl_wmat *w, int64_t n, int rows, int64_t g0, int groups, int8_tile *t)
{
    int64_t left = w->k - g0 * GROUP, bytes = (left < groups * GROUP ? left : groups * GROUP) / 2;
    const strided p = {(const uint8_t *)w->data + n * w->ld + g0 * (GROUP / 2), w->ld, rows};
    const strided s = {w->bscale + n * w->scale_ld + g0 * 2, w->scale_ld, rows};
    nvfp4_scales(&s, 0, (int)(bytes / 8), t->scale);
    if (bytes % 16) { /* half a group: its second half has scale 0 */
        _mm512_store_ps(t->scale + bytes / 8 * WIDTH, _mm512_setzero_ps());
    }
    uint8_t *out = t->codes;
    for (int64_t at = 0; at < bytes; at += PIECE) {
        __m512i x[8], c[8];
        if (at % 64 == 0) prefetch(&p, at + AHEAD, left / 2);
        transpose(&p, at, bytes - at < PIECE ? (int)(bytes - at) : PIECE, x);
#pragma GCC unroll 2
        for (int g = 0; g < 2; g++) {
            nvfp4_codes(x + 4 * g, c);
#pragma GCC unroll 8
            for (int j = 0; j < 8; j++, out += 64) _mm512_store_si512(out, c[j]);
        }
    }
}

/* (8 + m) * 2^(t - 4) plus the bias for index 64 + 8 t + m, ties to even. */
static const uint8_t fp8_codes[64] = {128, 129, 129, 129, 129, 129, 129, 129, 129, 129, 129, 129, 130, 130, 130, 130,
                                      130, 130, 130, 131, 131, 131, 132, 132, 132, 132, 133, 134, 134, 134, 135, 136,
                                      136, 137, 138, 139, 140, 141, 142, 143, 144, 146, 148, 150, 152, 154, 156, 158,
                                      160, 164, 168, 172, 176, 180, 184, 188, 192, 200, 208, 216, 224, 232, 240, 248};

/* The scales of 16 rows' 128 x 128 blocks at k. */
INLINE __m512 block_scales(const pawl_wmat *w, int64_t n, int rows, int64_t k)
{
    const float *s = w->scale + k / 128;
    int64_t first = (w->row0 + n) / 128, last = (w->row0 + n + rows - 1) / 128;
    __m512 v = _mm512_set1_ps(s[first * w->scale_ld]);
    if (last == first) return v;
    /* at most two blocks: rows from `edge` on are in the next one */
    int edge = (int)(last * 128 - w->row0 - n);
    return _mm512_mask_mov_ps(v, (__mmask16)(0xffff << edge), _mm512_set1_ps(s[last * w->scale_ld]));
}

/* Biased codes of a group of 16 outputs from n on, from eight dwords of their e4m3 codes at k, in place; returns its scales
 * (block scales included). */
INLINE __m512 fp8_group(const pawl_wmat *w, int64_t n, int rows, int64_t k, __m512i x[8])
{
    const __m512i abs = _mm512_set1_epi8(0x7f), zero = _mm512_setzero_si512();
    const __m512i small = _mm512_set1_epi8((char)128), table = _mm512_loadu_si512(fp8_codes);
    __m512i most = zero;
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) most = _mm512_max_epu8(most, _mm512_and_si512(x[j], abs));
    most = _mm512_max_epu8(most, _mm512_rol_epi32(most, 16));
    most = _mm512_max_epu8(most, _mm512_rol_epi32(most, 8)); /* of the group, in each byte of its output */
    __m512i c = _mm512_max_epu8(_mm512_and_si512(most, _mm512_set1_epi8(0x78)), _mm512_set1_epi8(0x40));
    __m512i to_index = _mm512_sub_epi8(_mm512_set1_epi8(0x78), c);
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) {
        /* the sign's bit of an index does not count */
        __m512i v = _mm512_permutex2var_epi8(small, _mm512_add_epi8(x[j], to_index), table);
        x[j] = _mm512_mask_sub_epi8(v, _mm512_movepi8_mask(x[j]), zero, v);
    }
    /* 2^(c - 13): the exponent field's place is bit 23 */
    __m512i e = _mm512_slli_epi32(_mm512_and_si512(c, _mm512_set1_epi32(0x78)), 20);
    __m512 s = _mm512_castsi512_ps(_mm512_add_epi32(e, _mm512_set1_epi32((127 - 13) << 23)));
    s = _mm512_mask_mov_ps(s, _mm512_cmpeq_epi32_mask(most, abs), _mm512_set1_ps(NAN));
    return w->q == PAWL_Q_FP8BLK ? _mm512_mul_ps(s, block_scales(w, n, rows, k)) : s;
}

static void unpack_fp8(const pawl_wmat *w, int64_t n, int rows, int64_t g0, int groups, int8_tile *t)
{
    int64_t k0 = g0 * GROUP, left = w->k - k0;
    const strided p = {(const uint8_t *)w->data + n * w->ld + k0, w->ld, rows};
    uint8_t *out = t->codes;
    for (int g = 0; g < groups; g++, left -= GROUP) {
        __m512i x[8];
        if (g % 2 == 0) prefetch(&p, g * GROUP + AHEAD, w->k - k0);
        transpose(&p, g * GROUP, left < GROUP ? (int)left : GROUP, x);
        _mm512_store_ps(t->scale + g * WIDTH, fp8_group(w, n, rows, k0 + g * GROUP, x));
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++, out += 64) _mm512_store_si512(out, x[j]);
    }
}

static void unpack(const pawl_wmat *w, int64_t n, int rows, int64_t g0, int groups, int8_tile *t)
{
    if (w->q == PAWL_Q_NVFP4)
        unpack_nvfp4(w, n, rows, g0, groups, t);
    else
        unpack_fp8(w, n, rows, g0, groups, t);
}

INLINE __m512i dot4(__m512i sum, __m512i w, const int8_t *a)
{
    return _mm512_dpbusd_epi32(sum, w, _mm512_set1_epi32(*(const int32_t *)(const void *)a));
}

/* sum += a group's w times x; s0 and s1 are the scales of its halves, for FP8 s0 that of all. */
INLINE __m512 dot_group(const int nvfp4, const __m512i w[8], __m512 s0, __m512 s1, const int8_group *x, __m512 sum)
{
    __m512i d0 = _mm512_set1_epi32(x->start[0]);
    __m512i d1 = nvfp4 ? _mm512_set1_epi32(x->start[1]) : _mm512_setzero_si512();
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        d0 = dot4(d0, w[j], x->codes + 4 * j);
        d1 = dot4(d1, w[4 + j], x->codes + 16 + 4 * j);
    }
    __m512 p;
    if (nvfp4)
        p = _mm512_fmadd_ps(_mm512_cvtepi32_ps(d1), s1, _mm512_mul_ps(_mm512_cvtepi32_ps(d0), s0));
    else
        p = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_add_epi32(d0, d1)), s0);
    return _mm512_fmadd_ps(p, _mm512_set1_ps(x->scale), sum);
}

/* mr rows; a constant where it is inlined, so that the arrays become registers. */
INLINE void dot_rows(const int nvfp4, const int mr, const int8_tile *t, int64_t g0, int groups, const int8_rows *x,
                     const int64_t *at, int64_t first, float *acc)
{
    __m512 sum[MOST_ROWS];
    const int8_group *row[MOST_ROWS];
#pragma GCC unroll 9
    for (int c = 0; c < mr; c++) {
        sum[c] = _mm512_load_ps(acc + c * WIDTH);
        row[c] = x->group + (at ? at[c] : first + c) * x->groups + g0;
    }
    const uint8_t *codes = t->codes;
    for (int g = 0; g < groups; g++, codes += 8 * 64) {
        __m512i w[8];
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++) w[j] = _mm512_load_si512(codes + 64 * j);
        __m512 s0 = _mm512_load_ps(t->scale + (nvfp4 ? 2 * g : g) * WIDTH);
        __m512 s1 = nvfp4 ? _mm512_load_ps(t->scale + (2 * g + 1) * WIDTH) : s0;
#pragma GCC unroll 9
        for (int c = 0; c < mr; c++) sum[c] = dot_group(nvfp4, w, s0, s1, row[c] + g, sum[c]);
    }
#pragma GCC unroll 9
    for (int c = 0; c < mr; c++) _mm512_store_ps(acc + c * WIDTH, sum[c]);
}

INLINE void dot_format(const int nvfp4, const int8_tile *t, int64_t g0, int groups, const int8_rows *x,
                       const int64_t *at, int64_t first, int64_t m, float *acc)
{
    for (int64_t c = 0; c < m;) {
        const int64_t *rows = at ? at + c : NULL;
        float *a = acc + c * WIDTH;
        int64_t left = m - c, f = first + c;
        if (left >= 8) {
            dot_rows(nvfp4, 8, t, g0, groups, x, rows, f, a);
            c += 8;
        } else if (left >= 4) {
            dot_rows(nvfp4, 4, t, g0, groups, x, rows, f, a);
            c += 4;
        } else if (left == 3) {
            dot_rows(nvfp4, 3, t, g0, groups, x, rows, f, a);
            c += 3;
        } else if (left == 2) {
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

INLINE void few_nvfp4(const int mr, const pawl_wmat *w, int64_t n, const int8_rows *x, const int64_t *at, int64_t first,
                      float *acc)
{
    enum { BLOCKS = 2 * ACT8_GROUPS }; /* scales are unpacked so many at once */
    _Alignas(64) float scale[BLOCKS * WIDTH];
    __m512 sum[MOST_ROWS];
    const int8_group *row[MOST_ROWS];
    int64_t bytes = w->k / 2, blocks = w->k / 16;
    const strided p = {(const uint8_t *)w->data + n * w->ld, w->ld, WIDTH};
    const strided s = {w->bscale + n * w->scale_ld, w->scale_ld, WIDTH};
#pragma GCC unroll 9
    for (int c = 0; c < mr; c++) {
        sum[c] = _mm512_setzero_ps();
        row[c] = x->group + (at ? at[c] : first + c) * x->groups;
    }
    for (int64_t b = 0; b < blocks; b += BLOCKS) {
        int here = blocks - b < BLOCKS ? (int)(blocks - b) : BLOCKS;
        if (b % 64 == 0) prefetch(&s, b + BLOCKS, blocks);
        nvfp4_scales(&s, b, here, scale);
        if (here % 2) _mm512_store_ps(scale + here * WIDTH, _mm512_setzero_ps()); /* a half past k */
        for (int i = 0; i < here; i += 4) {
            int64_t from = (b + i) * 8;
            __m512i v[8], c8[8];
            if (from % 64 == 0) prefetch(&p, from + AHEAD, bytes);
            transpose(&p, from, bytes - from < PIECE ? (int)(bytes - from) : PIECE, v);
#pragma GCC unroll 2
            for (int h = 0; h < 4; h += 2) {
                if (i + h >= here) break;
                nvfp4_codes(v + 2 * h, c8);
                __m512 s0 = _mm512_load_ps(scale + (i + h) * WIDTH), s1 = _mm512_load_ps(scale + (i + h + 1) * WIDTH);
#pragma GCC unroll 9
                for (int c = 0; c < mr; c++) sum[c] = dot_group(1, c8, s0, s1, row[c] + (b + i + h) / 2, sum[c]);
            }
        }
    }
#pragma GCC unroll 9
    for (int c = 0; c < mr; c++) _mm512_store_ps(acc + c * WIDTH, sum[c]);
}

INLINE void few_fp8(const int mr, const pawl_wmat *w, int64_t n, const int8_rows *x, const int64_t *at, int64_t first,
                    float *acc)
{
    const strided p = {(const uint8_t *)w->data + n * w->ld, w->ld, WIDTH};
    __m512 sum[MOST_ROWS];
    const int8_group *row[MOST_ROWS];
#pragma GCC unroll 9
    for (int c = 0; c < mr; c++) {
        sum[c] = _mm512_setzero_ps();
        row[c] = x->group + (at ? at[c] : first + c) * x->groups;
    }
    for (int64_t k = 0; k < w->k; k += GROUP) {
        __m512i v[8];
        if (k % 64 == 0) prefetch(&p, k + AHEAD, w->k);
        transpose(&p, k, w->k - k < GROUP ? (int)(w->k - k) : GROUP, v);
        __m512 s = fp8_group(w, n, WIDTH, k, v);
#pragma GCC unroll 9
        for (int c = 0; c < mr; c++) sum[c] = dot_group(0, v, s, s, row[c] + k / GROUP, sum[c]);
    }
#pragma GCC unroll 9
    for (int c = 0; c < mr; c++) _mm512_store_ps(acc + c * WIDTH, sum[c]);
}

INLINE void few_rows(const int mr, const pawl_wmat *w, int64_t n, const int8_rows *x, const int64_t *at, int64_t first,
                     float *acc)
{
    if (w->q == PAWL_Q_NVFP4)
        few_nvfp4(mr, w, n, x, at, first, acc);
    else
        few_fp8(mr, w, n, x, at, first, acc);
}

static void few(const pawl_wmat *w, int64_t n, const int8_rows *x, const int64_t *at, int64_t first, int64_t m,
                float *acc)
{
    switch (m) {
    case 1:
        few_rows(1, w, n, x, at, first, acc);
        break;
    case 2:
        few_rows(2, w, n, x, at, first, acc);
        break;
    case 3:
        few_rows(3, w, n, x, at, first, acc);
        break;
    case 4:
        few_rows(4, w, n, x, at, first, acc);
        break;
    case 5:
        few_rows(5, w, n, x, at, first, acc);
        break;
    case 6:
        few_rows(6, w, n, x, at, first, acc);
        break;
    case 7:
        few_rows(7, w, n, x, at, first, acc);
        break;
    case 8:
        few_rows(8, w, n, x, at, first, acc);
        break;
    default:
        few_rows(9, w, n, x, at, first, acc);
        break;
    }
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

const int8_isa pawl__int8_avx512vnni = {.width = WIDTH,
                                        .unpack = unpack,
                                        .dot = dot,
                                        .few = few,
                                        .few_rows = MOST_ROWS,
                                        .quantize = quantize,
                                        .activate = activate,
                                        .add = add};
#endif
