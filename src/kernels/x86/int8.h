/* The int8 policy on x86: what its bodies share. An instruction set brings a few small functions (int8_isa); which rows and
 * tiles they are called for, threads and scratch are plain C (linear_int8.c, moe_int8.c).
 *
 * Weights are met in tiles of `width` outputs by a strip of k. unpack turns a tile into bytes in [k / 4][width][4] order, so
 * that a vector register holds four consecutive k of each output of the tile, and dot multiplies it with any number of rows,
 * each output in a lane of its own: op/linear.h's order needs no sum across lanes. */
#ifndef PAWL_KERNELS_X86_INT8_H
#define PAWL_KERNELS_X86_INT8_H

#include "base/mathfn.h"
#include "op/linear.h"
#include "op/moe.h"
#include "quant/act8.h"
#include "route/route.h"

enum {
    ACT8_STRIP = 512, /* k of a tile at most: 8 KB of 16 outputs */
    ACT8_WIDTH = 16,  /* outputs of a tile at most */
    ACT8_GROUPS = ACT8_STRIP / PAWL_ACT8_GROUP,
    ACT8_NVFP4_BIAS = 12, /* NVFP4 codes are stored plus 12: 0 .. 24 */
    ACT8_FP8_BIAS = 128   /* FP8 codes plus 128, where the instructions want one operand unsigned */
};

/* Quantised rows of activations, [m] of each. The order of codes inside 16 follows the weights': NVFP4 wants even k before odd
 * ones (int8_order), as its nibbles come apart. */
typedef struct int8_group {
    int8_t codes[PAWL_ACT8_GROUP];
    /* -bias times the sum of the codes of each half, what a dot of biased weights begins with; for FP8 that of all and 0. */
    int32_t start[2];
    float scale;
} int8_group;

typedef struct int8_rows {
    int64_t groups;    /* of 32 k in a row */
    int8_group *group; /* [m][groups] */
} int8_rows;

typedef struct int8_tile {
    _Alignas(64) uint8_t codes[ACT8_STRIP * ACT8_WIDTH];
    _Alignas(64) float scale[ACT8_GROUPS * 2 * ACT8_WIDTH]; /* NVFP4 [k / 16][width], FP8 [k / 32][width] */
} int8_tile;

typedef struct int8_isa {
    int width;
    /* Outputs n .. n+rows-1 (rows <= width; more are made up), groups g0 .. g0+groups-1 of w's rows. */
    void (*unpack)(const pawl_wmat *w, int64_t n, int rows, int64_t g0, int groups, int8_tile *t);
    /* acc [m][width] += the tile's groups for m rows; row i of them is at[i], or first + i where at is NULL. */
    void (*dot)(int nvfp4, const int8_tile *t, int64_t g0, int groups, const int8_rows *x, const int64_t *at,
                int64_t first, int64_t m, float *acc);
    /* Both at once for a whole tile, all of k and m <= few_rows rows, weights staying in registers: acc [m][width]. */
    void (*few)(const pawl_wmat *w, int64_t n, const int8_rows *x, const int64_t *at, int64_t first, int64_t m,
                float *acc);
    int few_rows; /* the most rows that `few` takes */
    /* Groups g0 .. g1-1 of row m of x, from a row whose first k floats count; row begins at group g0. */
    void (*quantize)(int nvfp4, const float *row, int64_t k, int64_t g0, int64_t g1, const int8_rows *x, int64_t m);
    /* g = act(g) * u for n floats; u may be NULL. */
    void (*activate)(pawl_act act, float *g, const float *u, int64_t n);
    /* y = fma(w, e, y) for n floats. */
    void (*add)(float w, const float *e, float *y, int64_t n);
} int8_isa;

extern const int8_isa pawl__int8_avx2, pawl__int8_avx512vnni;

/* Outputs n0 .. n1-1 of w for m rows, on the calling thread: output n of row xrows[j] (x0 + j without xrows) goes to
 * y[j * ldy + n - y0]. n0 is a multiple of the width. */
typedef struct int8_part {
    const int8_isa *isa;
    const pawl_wmat *w;
    const float *bias; /* [w->n] or NULL */
    const int8_rows *x;
    const int64_t *xrows;
    int64_t x0;
    float *y;
    int64_t ldy, y0;
    int64_t m;
} int8_part;
void pawl__int8_part(const int8_part *p, int64_t n0, int64_t n1);

/* Outputs in one task: a multiple of 32, so that a task of experts owns whole groups of what lies between their halves. */
int64_t pawl__int8_chunk(const pawl_wmat *w, int64_t m);

/* Bytes of m quantised rows of k elements (rounded up to 64), and the rows at `at`. */
size_t pawl__int8_rows_bytes(int64_t m, int64_t k);
int8_rows pawl__int8_rows_at(void *at, int64_t k);

size_t pawl__linear_int8_scratch(const pawl_query *q, int64_t m, int threads);
pawl_status pawl__linear_int8_run_avx2(const void *args, pawl_exec *ex, pawl_err *err);
pawl_status pawl__linear_int8_run_avx512vnni(const void *args, pawl_exec *ex, pawl_err *err);

size_t pawl__moe_int8_scratch(const pawl_query *q, int64_t m, int threads);
pawl_status pawl__moe_int8_run_avx2(const void *args, pawl_exec *ex, pawl_err *err);
pawl_status pawl__moe_int8_run_avx512vnni(const void *args, pawl_exec *ex, pawl_err *err);

/* Place of element i of 16 among the codes. */
static inline int pawl__int8_order(int nvfp4, int i)
{
    return nvfp4 ? (i & 8) + (i & 1) * 4 + (i & 7) / 2 : i;
}

/* The body of `quantize`, for each instruction set to compile in its own. */
static inline void pawl__int8_quantize(int nvfp4, const float *row, int64_t k, int64_t g0, int64_t g1,
                                       const int8_rows *x, int64_t m)
{
    enum { GROUP = PAWL_ACT8_GROUP };
    for (int64_t g = g0; g < g1; g++) {
        int8_group *to = &x->group[m * x->groups + g];
        float last[GROUP];
        const float *from = row + (g - g0) * GROUP;
        if (k - g * GROUP < GROUP) {
            for (int i = 0; i < GROUP; i++) last[i] = g * GROUP + i < k ? from[i] : 0.0f;
            from = last;
        }
        int8_t code[GROUP];
        to->scale = pawl__act8_group(from, code);
        int32_t sum[2] = {0, 0};
        for (int i = 0; i < 16; i++) {
            sum[0] += code[i];
            sum[1] += code[16 + i];
        }
        if (nvfp4) {
            for (int i = 0; i < GROUP; i++) to->codes[(i & 16) + pawl__int8_order(1, i & 15)] = code[i];
        } else {
            for (int i = 0; i < GROUP; i++) to->codes[i] = code[i];
        }
        to->start[0] = nvfp4 ? -ACT8_NVFP4_BIAS * sum[0] : -ACT8_FP8_BIAS * (sum[0] + sum[1]);
        to->start[1] = nvfp4 ? -ACT8_NVFP4_BIAS * sum[1] : 0;
    }
}

/* The same for `activate`. */
static inline void pawl__int8_activate(pawl_act act, float *restrict g, const float *restrict u, int64_t n)
{
    if (act == PAWL_ACT_RELU2) {
        for (int64_t i = 0; i < n; i++) {
            float v = g[i] * (g[i] > 0.0f ? 1.0f : 0.0f); /* a product, so that NaN stays */
            g[i] = v * v;
        }
    } else {
        for (int64_t i = 0; i < n; i++) g[i] = pawl__siluf(g[i]);
    }
    if (u)
        for (int64_t i = 0; i < n; i++) g[i] *= u[i];
}

/* And for `add`. */
static inline void pawl__int8_add(float w, const float *restrict e, float *restrict y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = fmaf(w, e[i], y[i]);
}

#endif
