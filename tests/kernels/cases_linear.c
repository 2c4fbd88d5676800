/* Cases of linear and embed. */
#include "cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quant/act8.h"
#include "quant/codes.h"

static const struct {
    pawl_quant q;
    uint32_t flags; /* how activations are quantised, if they are */
} formats[] = {{PAWL_Q_F32, 0},
               {PAWL_Q_F16, 0},
               {PAWL_Q_BF16, 0},
               {PAWL_Q_FP8BLK, 0},
               {PAWL_Q_FP8TEN, 0},
               {PAWL_Q_FP8CH, 0},
               {PAWL_Q_NVFP4, 0},
               {PAWL_Q_MXFP4, 0},
               {PAWL_Q_FP8BLK, PAWL_QF_ACT_FP8},
               {PAWL_Q_NVFP4, PAWL_QF_ACT_INT8},
               {PAWL_Q_FP8BLK, PAWL_QF_ACT_INT8},
               {PAWL_Q_FP8TEN, PAWL_QF_ACT_INT8},
               {PAWL_Q_FP8CH, PAWL_QF_ACT_INT8}};
enum { FORMATS = sizeof formats / sizeof formats[0], PLAIN_FORMATS = 8 };

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

double chk_int8_bound(int64_t k, double sum_abs)
{
    return (3 * (double)k / 32 + 20) * 0x1p-24 * sum_abs + 1e-40;
}

void chk_int8_row(const float *x, int64_t k, double *out)
{
    enum { MOST = 1024 };
    int8_t codes[MOST];
    float scales[MOST / PAWL_ACT8_GROUP];
    if (k > MOST) abort();
    pawl__act8_quantize_row(x, k, codes, scales);
    for (int64_t i = 0; i < k; i++) out[i] = (double)codes[i] * scales[i / PAWL_ACT8_GROUP];
}

double *chk_decode_int8(const pawl_wmat *w)
{
    double *out = malloc((size_t)(w->n * w->k) * sizeof *out);
    if (!out) abort();
    for (int64_t n = 0; n < w->n; n++) {
        for (int64_t k = 0; k < w->k; k++) {
            int8_t code[PAWL_ACT8_GROUP];
            float scale[2];
            int i = (int)(k % PAWL_ACT8_GROUP);
            pawl__int8_weights(w, n, k / PAWL_ACT8_GROUP, code, scale);
            out[n * w->k + k] = (double)code[i] * scale[i / 16] * pawl__int8_last(w, n);
        }
    }
    return out;
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
    const float *row = a->x + m * a->ldx;
    int64_t k = a->w->k;
    uint8_t codes[1024];
    float scales[8];
    if (c->q.flags & PAWL_QF_ACT_INT8) {
        chk_int8_row(row, k, x);
    } else if (c->q.flags & PAWL_QF_ACT_FP8) {
        pawl__fp8_quantize_row(row, k, 1e-10f, 0, codes, scales);
        for (int64_t i = 0; i < k; i++) x[i] = (double)pawl__e4m3_decode(codes[i]) * scales[i / 128];
    } else {
        for (int64_t i = 0; i < k; i++) x[i] = row[i];
    }
}

static void expect_linear(chk_case *c, chk_values values)
{
    const pawl_linear_args *a = &c->whole.linear;
    int64_t k = a->w->k;
    bool int8 = c->q.flags & PAWL_QF_ACT_INT8;
    double *w = int8 ? chk_decode_int8(a->w) : chk_decode(a->w), x[1024];
    bool exact = values == CHK_EXACT_POWERS && !(c->q.flags & (PAWL_QF_ACT_FP8 | PAWL_QF_ACT_INT8));
    for (int64_t m = 0; m < a->m; m++) {
        seen(c, m, x);
        for (int64_t n = 0; n < a->w->n; n++) {
            double y = 0, sum = 0, bias = a->bias ? a->bias[n] : 0;
            for (int64_t i = 0; i < k; i++) {
                y += x[i] * w[n * k + i];
                sum += fabs(x[i] * w[n * k + i]);
            }
            double bound = (int8 ? chk_int8_bound(k, sum) : chk_linear_bound(k, sum)) + fabs(bias) * 0x1p-23;
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
    pawl_quant q = formats[index % FORMATS].q;
    uint32_t flags = formats[index % FORMATS].flags;
    bool bias = chk_pick(rng, 0, 1);
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
    c->q.flags = flags | (bias ? PAWL_QF_BIAS : 0);
    snprintf(c->name, sizeof c->name, "%s%s m=%d n=%d k=%d values=%d%s", pawl__quant_word(q),
             flags & PAWL_QF_ACT_FP8    ? " act_fp8"
             : flags & PAWL_QF_ACT_INT8 ? " act_int8"
                                        : "",
             (int)m, (int)n, (int)k, values, bias ? " bias" : "");
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
    if (index >= PLAIN_FORMATS * 2) return false;
    pawl_quant q = formats[index % PLAIN_FORMATS].q;
    int64_t m = index < PLAIN_FORMATS ? 1 : 19, n = 140, k = chk_whole_blocks(q, index < PLAIN_FORMATS ? 32 : 143);
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
