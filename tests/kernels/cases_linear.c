/* Cases of linear and embed. */
#include "cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quant/codes.h"

/* The last one means FP8BLK with quantised activations. */
static const pawl_quant formats[] = {PAWL_Q_F32,   PAWL_Q_F16,   PAWL_Q_BF16,  PAWL_Q_FP8BLK, PAWL_Q_FP8TEN,
                                     PAWL_Q_FP8CH, PAWL_Q_NVFP4, PAWL_Q_MXFP4, PAWL_Q_FP8BLK};
enum { FORMATS = sizeof formats / sizeof formats[0] };

static const int64_t shapes[][3] = {/* m, n, k */
                                    {1, 1, 16}, {1, 37, 100}, {3, 7, 130},  {5, 130, 272}, {64, 9, 48},  {17, 33, 384},
                                    {2, 3, 1},  {4, 5, 15},   {1, 64, 512}, {9, 16, 257},  {33, 6, 129}, {8, 4, 640}};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

int64_t chk_whole_blocks(pawl_quant q, int64_t k)
{
    int64_t block = q == PAWL_Q_NVFP4 ? 16 : q == PAWL_Q_MXFP4 ? 32 : 1;
    return (k + block - 1) / block * block;
}

double chk_linear_bound(int64_t k, double sum_abs)
{
    return ((double)k / 16 + 20) * 0x1p-24 * sum_abs + 1e-40;
}

static void select_linear(chk_case *c, int64_t first, int64_t n)
{
    pawl_linear_args *a = &c->args.linear;
    *a = c->whole.linear;
    a->m = n;
    a->x += first * a->ldx;
    a->y += first * a->ldy;
}

/* Row m of x as the kernel sees it: quantised and scaled back when activations are quantised. */
static void seen(const chk_case *c, int64_t m, double *x)
{
    const pawl_linear_args *a = &c->whole.linear;
    int64_t k = a->w->k;
    uint8_t codes[1024];
    float scales[8];
    if (c->q.flags & PAWL_QF_ACT_FP8) pawl__fp8_quantize_row(a->x + m * a->ldx, k, 1e-10f, 0, codes, scales);
    for (int64_t i = 0; i < k; i++)
        x[i] =
            c->q.flags & PAWL_QF_ACT_FP8 ? (double)pawl__e4m3_decode(codes[i]) * scales[i / 128] : a->x[m * a->ldx + i];
}

static void expect_linear(chk_case *c, chk_values values)
{
    const pawl_linear_args *a = &c->whole.linear;
    int64_t k = a->w->k;
    double *w = chk_decode(a->w), x[1024];
    bool exact = values == CHK_EXACT_POWERS && !(c->q.flags & PAWL_QF_ACT_FP8);
    for (int64_t m = 0; m < a->m; m++) {
        seen(c, m, x);
        for (int64_t n = 0; n < a->w->n; n++) {
            double y = 0, sum = 0, bias = a->bias ? a->bias[n] : 0;
            for (int64_t i = 0; i < k; i++) {
                y += x[i] * w[n * k + i];
                sum += fabs(x[i] * w[n * k + i]);
            }
            double bound = chk_linear_bound(k, sum) + fabs(bias) * 0x1p-23;
            chk_expect(c, a->y, m * a->ldy + n, y + bias, exact ? CHK_EXACT : bound);
        }
    }
    free(w);
}

bool chk_make_linear(chk_case *c, int index, uint64_t *rng)
{
    if (index >= FORMATS * SHAPES * 3) return false;
    chk_values values = (chk_values)(index / FORMATS / SHAPES);
    int shape = index / FORMATS % SHAPES;
    pawl_quant q = formats[index % FORMATS];
    bool a8 = index % FORMATS == FORMATS - 1, bias = chk_pick(rng, 0, 1);
    int64_t m = shapes[shape][0], n = shapes[shape][1], k = chk_whole_blocks(q, shapes[shape][2]);
    pawl_linear_args *a = &c->args.linear;
    c->w = chk_weights(c, "w", q, n, k, values, rng);
    *a = (pawl_linear_args){.m = m, .ldx = k + chk_pick(rng, 0, 5), .ldy = n + chk_pick(rng, 0, 3), .w = &c->w};
    float *x = chk_floats(c, "x", CHK_IN, (m - 1) * a->ldx + k, values, rng);
    for (int64_t t = 0; t + 1 < m; t++)
        for (int64_t i = k; i < a->ldx; i++) x[t * a->ldx + i] = NAN;
    a->x = x;
    if (bias) a->bias = chk_floats(c, "bias", CHK_IN, n, values, rng);
    a->y = chk_floats(c, "y", CHK_OUT, (m - 1) * a->ldy + n, values, rng);
    c->whole = c->args;
    c->items = m;
    c->select = select_linear;
    c->q = pawl__query(PAWL_OP_LINEAR);
    c->q.w = q;
    c->q.ws = chk_scale_of(q);
    c->q.n = n;
    c->q.k = k;
    c->q.flags = (a8 ? PAWL_QF_ACT_FP8 : 0) | (bias ? PAWL_QF_BIAS : 0);
    snprintf(c->name, sizeof c->name, "%s%s m=%d n=%d k=%d values=%d%s", pawl__quant_word(q), a8 ? " a8" : "", (int)m,
             (int)n, (int)k, values, bias ? " bias" : "");
    expect_linear(c, values);
    return true;
}

static void select_embed(chk_case *c, int64_t first, int64_t n)
{
    pawl_embed_args *a = &c->args.embed;
    *a = c->whole.embed;
    a->m = n;
    a->ids += first;
    a->out += first * a->table->k;
}

bool chk_make_embed(chk_case *c, int index, uint64_t *rng)
{
    if (index >= 8 * 2) return false;
    pawl_quant q = formats[index % 8];
    int64_t m = index < 8 ? 1 : 19, n = 140, k = chk_whole_blocks(q, index < 8 ? 32 : 143);
    pawl_embed_args *a = &c->args.embed;
    c->w = chk_weights(c, "table", q, n, k, CHK_RANDOM, rng);
    int32_t *ids = chk_buffer(c, "ids", CHK_IN, (size_t)m * 4, 0);
    for (int64_t t = 0; t < m; t++) ids[t] = (int32_t)(t == 0 ? n - 1 : chk_pick(rng, 0, n - 1));
    *a = (pawl_embed_args){.m = m, .ids = ids, .table = &c->w};
    a->out = chk_floats(c, "out", CHK_OUT, m * k, CHK_RANDOM, rng);
    double *w = chk_decode(&c->w);
    for (int64_t t = 0; t < m; t++)
        for (int64_t i = 0; i < k; i++) chk_expect(c, a->out, t * k + i, w[ids[t] * k + i], CHK_EXACT);
    free(w);
    c->whole = c->args;
    c->items = m;
    c->select = select_embed;
    c->q = pawl__query(PAWL_OP_EMBED);
    c->q.w = q;
    c->q.ws = chk_scale_of(q);
    c->q.n = n;
    c->q.k = k;
    snprintf(c->name, sizeof c->name, "%s m=%d k=%d", pawl__quant_word(q), (int)m, (int)k);
    return true;
}
