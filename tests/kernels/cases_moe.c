/* Cases of the experts in their three layouts. */
#include "cases.h"

#include <math.h>
#include <stdlib.h>

static const pawl_quant formats[] = {PAWL_Q_BF16,  PAWL_Q_F32,    PAWL_Q_F16,   PAWL_Q_FP8BLK,
                                     PAWL_Q_NVFP4, PAWL_Q_FP8TEN, PAWL_Q_FP8CH, PAWL_Q_MXFP4};
static const pawl_quant int8_formats[] = {PAWL_Q_NVFP4, PAWL_Q_FP8BLK, PAWL_Q_FP8TEN, PAWL_Q_FP8CH};
enum {
    FORMATS = sizeof formats / sizeof formats[0],
    VARIANTS = 4,
    DIMS = 3,
    F32_CASES = FORMATS * VARIANTS * 2,
    INT8_CASES = (int)(sizeof int8_formats / sizeof int8_formats[0]) * VARIANTS * DIMS
};

/* Variant: bit 0 relu2 instead of silu, bit 1 not gated. Biases on every other case. Cases from F32_CASES on quantise
 * activations to int8. */
static void make_experts(chk_case *c, int index, int64_t h, int64_t i, uint64_t *rng)
{
    int int8 = index - F32_CASES;
    pawl_quant q = int8 < 0 ? formats[index % FORMATS] : int8_formats[int8 / (VARIANTS * DIMS)];
    int variant = (int8 < 0 ? index / FORMATS : int8 / DIMS) % VARIANTS;
    bool gated = !(variant & 2), bias = index % 2;
    c->q.flags = int8 < 0 ? 0 : PAWL_QF_ACT_INT8;
    h = chk_whole_blocks(q, h);
    i = chk_whole_blocks(q, i);
    c->experts = (pawl_experts){
        .e = c->expert, .n = 5, .h = h, .i = i, .act = variant & 1 ? PAWL_ACT_RELU2 : PAWL_ACT_SILU, .gated = gated};
    for (int e = 0; e < c->experts.n; e++) {
        pawl_expert *x = &c->expert[e];
        x->gate = chk_weights(c, "gate", q, i, h, CHK_RANDOM, rng);
        if (gated) x->up = chk_weights(c, "up", q, i, h, CHK_RANDOM, rng);
        x->down = chk_weights(c, "down", q, h, i, CHK_RANDOM, rng);
        if (!bias) continue;
        x->gate_bias = chk_floats(c, "gate bias", CHK_IN, i, CHK_RANDOM, rng);
        if (gated) x->up_bias = chk_floats(c, "up bias", CHK_IN, i, CHK_RANDOM, rng);
        x->down_bias = chk_floats(c, "down bias", CHK_IN, h, CHK_RANDOM, rng);
    }
}

static void make_query(chk_case *c, pawl_op op, int64_t x1)
{
    const pawl_experts *s = &c->experts;
    uint32_t int8 = c->q.flags;
    c->q = pawl__query(op);
    c->q.w = s->e[0].gate.q;
    c->q.ws = chk_scale_of(c->q.w);
    c->q.n = s->i;
    c->q.k = s->h;
    c->q.x[0] = s->n;
    c->q.x[1] = x1;
    c->q.x[2] = PAWL_ROUTE_RENORMALIZE_NAIVE;
    c->q.flags = (s->gated ? PAWL_QF_GATED : 0) | (s->act == PAWL_ACT_RELU2 ? PAWL_QF_RELU2 : 0) |
                 (s->e[0].gate_bias ? PAWL_QF_BIAS : 0) | int8;
    c->whole = c->args;
    snprintf(c->name, sizeof c->name, "%s%s items=%d h=%d i=%d %s%s%s", pawl__quant_word(c->q.w),
             int8 ? " act_int8" : "", (int)c->items, (int)s->h, (int)s->i, s->act == PAWL_ACT_RELU2 ? "relu2" : "silu",
             s->gated ? " gated" : "", s->e[0].gate_bias ? " biases" : "");
}

/* An expert's weights in double. */
typedef struct wide {
    double *gate, *up, *down;
} wide;

static void widen(const chk_case *c, wide *w)
{
    const pawl_experts *s = &c->experts;
    double *(*decode)(const pawl_wmat *) = c->q.flags & PAWL_QF_ACT_INT8 ? chk_decode_int8 : chk_decode;
    for (int e = 0; e < s->n; e++) {
        w[e].gate = decode(&s->e[e].gate);
        w[e].up = s->gated ? decode(&s->e[e].up) : NULL;
        w[e].down = decode(&s->e[e].down);
    }
}

static void drop(const pawl_experts *s, wide *w)
{
    for (int e = 0; e < s->n; e++) {
        free(w[e].gate);
        free(w[e].up);
        free(w[e].down);
    }
}

/* A linear in double with what its f32 result may be off by (by the wider bound, that of int8), given that its input may be off by x_error (or NULL). */
static void linear(const double *w, const float *bias, int64_t n, int64_t k, const double *x, const double *x_error,
                   double *y, double *error)
{
    for (int64_t r = 0; r < n; r++) {
        double sum = 0, size = 0, carried = 0, b = bias ? bias[r] : 0;
        for (int64_t i = 0; i < k; i++) {
            sum += w[r * k + i] * x[i];
            size += fabs(w[r * k + i] * x[i]);
            if (x_error) carried += fabs(w[r * k + i]) * x_error[i];
        }
        y[r] = sum + b;
        error[r] = chk_int8_bound(k, size) + fabs(b) * 0x1p-23 + carried;
    }
}

enum { MAX_WIDTH = 320 };

/* Rounding v to int8 in groups, v being off by v_error: at most half a step, more or less. */
static void round_groups(const double *v, double *v_error, int64_t n)
{
    for (int64_t g = 0; g < n; g += 32) {
        double most = 0;
        for (int64_t i = g; i < n && i < g + 32; i++) most = fmax(most, fabs(v[i]) + v_error[i]);
        for (int64_t i = g; i < n && i < g + 32; i++) v_error[i] += 0.501 * most / 127;
    }
}

static void expert(const chk_case *c, const wide *w, int id, const float *x, double *y, double *error)
{
    const pawl_experts *s = &c->experts;
    bool int8 = c->q.flags & PAWL_QF_ACT_INT8;
    double in[MAX_WIDTH], g[MAX_WIDTH], ge[MAX_WIDTH], u[MAX_WIDTH], ue[MAX_WIDTH];
    const pawl_expert *e = &s->e[id];
    for (int64_t i = 0; i < s->h; i++) in[i] = x[i];
    if (int8) chk_int8_row(x, s->h, in);
    linear(w[id].gate, e->gate_bias, s->i, s->h, in, NULL, g, ge);
    if (s->gated) linear(w[id].up, e->up_bias, s->i, s->h, in, NULL, u, ue);
    for (int64_t i = 0; i < s->i; i++) {
        bool relu2 = s->act == PAWL_ACT_RELU2;
        double a = relu2 ? pow(fmax(g[i], 0), 2) : chk_silu(g[i]);
        double slope = relu2 ? 2 * (fabs(g[i]) + ge[i]) : 1.1;
        double ae = slope * ge[i] + fabs(a) * 0x1p-21 + 1e-35;
        double up = s->gated ? u[i] : 1, upe = s->gated ? ue[i] : 0;
        ge[i] = ae * (fabs(up) + upe) + fabs(a) * upe + fabs(a * up) * 0x1p-23;
        g[i] = a * up;
    }
    if (int8) round_groups(g, ge, s->i);
    linear(w[id].down, e->down_bias, s->h, s->i, g, ge, y, error);
}

static void select_moe(chk_case *c, int64_t first, int64_t n)
{
    pawl_moe_args *a = &c->args.moe;
    *a = c->whole.moe;
    a->m = n;
    a->x += first * c->experts.h;
    a->ids += first * a->top_k;
    a->weights += first * a->top_k;
    a->y += first * c->experts.h;
}

static const int64_t dims[][2] = {{37, 21}, {130, 48}, {48, 144}};

bool chk_make_moe(chk_case *c, int index, uint64_t *rng)
{
    static const int64_t tokens[] = {1, 12, 64};
    if (index >= F32_CASES + INT8_CASES) return false;
    int64_t m = tokens[index % 3], top_k = chk_pick(rng, 1, 3);
    make_experts(c, index, dims[index % 3][0] / (m == 64 ? 2 : 1), dims[index % 3][1] / (m == 64 ? 2 : 1), rng);
    int64_t h = c->experts.h;
    pawl_moe_args *a = &c->args.moe;
    *a = (pawl_moe_args){.m = m, .top_k = top_k, .experts = &c->experts};
    a->x = chk_floats(c, "x", CHK_IN, m * h, CHK_RANDOM, rng);
    int32_t *ids = chk_buffer(c, "ids", CHK_IN, (size_t)(m * top_k) * 4, 0);
    /* expert 4 gets no row; ids outside the range are skipped */
    for (int64_t i = 0; i < m * top_k; i++) ids[i] = (int32_t)chk_pick(rng, 0, 3);
    if (m > 1) {
        ids[top_k] = -1;
        ids[2 * top_k] = 5;
        ids[3 * top_k] = INT32_MAX;
    }
    a->ids = ids;
    a->weights = chk_floats(c, "weights", CHK_IN, m * top_k, CHK_RANDOM, rng);
    a->y = chk_floats(c, "y", CHK_OUT, m * h, CHK_RANDOM, rng);
    wide w[CHK_EXPERTS];
    widen(c, w);
    for (int64_t t = 0; t < m; t++) {
        double sum[MAX_WIDTH] = {0}, bound[MAX_WIDTH] = {0}, y[MAX_WIDTH], error[MAX_WIDTH];
        for (int64_t k = 0; k < top_k; k++) {
            if (ids[t * top_k + k] < 0 || ids[t * top_k + k] > 4) continue;
            double weight = a->weights[t * top_k + k];
            expert(c, w, ids[t * top_k + k], a->x + t * h, y, error);
            for (int64_t i = 0; i < h; i++) {
                sum[i] += weight * y[i];
                bound[i] += fabs(weight) * (error[i] + fabs(y[i]) * 0x1p-22);
            }
        }
        for (int64_t i = 0; i < h; i++) chk_expect(c, a->y, t * h + i, sum[i], bound[i]);
    }
    drop(&c->experts, w);
    c->items = m;
    c->select = select_moe;
    make_query(c, PAWL_OP_MOE, top_k);
    return true;
}

/* Items are (expert, row): one alone is a layout of one expert and one row. */
static void select_masked(chk_case *c, int64_t first, int64_t n)
{
    pawl_moe_masked_args *a = &c->args.masked;
    *a = c->whole.masked;
    if (n == c->items) return;
    c->one_expert = c->experts;
    c->one_expert.e = c->expert + (n ? first / a->max : 0);
    c->one_expert.n = n ? 1 : 0;
    c->one_count = n && first % a->max < c->counts[first / a->max];
    a->experts = &c->one_expert;
    a->counts = &c->one_count;
    a->x += first * c->experts.h;
    a->y += first * c->experts.h;
    a->max = 1;
}

bool chk_make_moe_masked(chk_case *c, int index, uint64_t *rng)
{
    if (index >= FORMATS * VARIANTS) return false;
    int64_t max = 4;
    make_experts(c, index, dims[index % 3][0], dims[index % 3][1], rng);
    int64_t h = c->experts.h, n = c->experts.n;
    static const int32_t counts[] = {0, 4, 1, 3, 0}; /* none and all of them, too */
    for (int e = 0; e < n; e++) c->counts[e] = index % 3 == 2 ? (int32_t)chk_pick(rng, 0, max) : counts[e];
    pawl_moe_masked_args *a = &c->args.masked;
    *a = (pawl_moe_masked_args){.max = max, .experts = &c->experts, .counts = c->counts, .zero_padding = index / 2 % 2};
    float *x = chk_floats(c, "x", CHK_IN, n * max * h, CHK_RANDOM, rng);
    a->x = x;
    a->y = chk_floats(c, "y", CHK_OUT, n * max * h, CHK_RANDOM, rng);
    chk_expect(c, a->y, 0, 0, CHK_UNTOUCHED);
    wide w[CHK_EXPERTS];
    widen(c, w);
    for (int64_t item = 0; item < n * max; item++) {
        double y[MAX_WIDTH] = {0}, error[MAX_WIDTH] = {0};
        bool valid = item % max < c->counts[item / max];
        if (valid) expert(c, w, (int)(item / max), x + item * h, y, error);
        for (int64_t i = 0; i < h; i++) {
            if (!valid) x[item * h + i] = NAN;
            if (valid || a->zero_padding) chk_expect(c, a->y, item * h + i, y[i], valid ? error[i] : CHK_EXACT);
        }
    }
    drop(&c->experts, w);
    for (int i = 0; i < n * max; i++) c->pieces[i] = 1;
    c->items = n * max;
    c->select = select_masked;
    make_query(c, PAWL_OP_MOE_MASKED, max);
    c->q.flags |= a->zero_padding ? PAWL_QF_ZERO_PAD : 0;
    return true;
}

static void select_grouped(chk_case *c, int64_t first, int64_t n)
{
    pawl_moe_grouped_args *a = &c->args.grouped;
    *a = c->whole.grouped;
    a->m = n;
    a->x += first * c->experts.h;
    a->expert += first;
    a->y += first * c->experts.h;
}

bool chk_make_moe_grouped(chk_case *c, int index, uint64_t *rng)
{
    if (index >= FORMATS * VARIANTS) return false;
    make_experts(c, index, dims[index % 3][0], dims[index % 3][1], rng);
    int64_t h = c->experts.h, m = index % 2 ? 23 : 1;
    pawl_moe_grouped_args *a = &c->args.grouped;
    float *x = chk_floats(c, "x", CHK_IN, m * h, CHK_RANDOM, rng);
    int32_t *of = chk_buffer(c, "expert", CHK_IN, (size_t)m * 4, 0);
    *a = (pawl_moe_grouped_args){.m = m, .experts = &c->experts, .x = x, .expert = of};
    a->y = chk_floats(c, "y", CHK_OUT, m * h, CHK_RANDOM, rng);
    chk_expect(c, a->y, 0, 0, CHK_UNTOUCHED);
    wide w[CHK_EXPERTS];
    widen(c, w);
    for (int64_t t = 0; t < m; t++) {
        double y[MAX_WIDTH], error[MAX_WIDTH];
        of[t] = m == 1 ? 3 : (int32_t)(t / 6); /* experts 0 .. 3, the last rows of each tile of 6 padding */
        if (m > 1 && t % 6 >= 4 - t / 12) of[t] = -1;
        if (of[t] >= 0) expert(c, w, of[t], x + t * h, y, error);
        for (int64_t i = 0; i < h; i++) {
            if (of[t] < 0) x[t * h + i] = NAN;
            if (of[t] >= 0) chk_expect(c, a->y, t * h + i, y[i], error[i]);
        }
    }
    drop(&c->experts, w);
    c->items = m;
    c->select = select_grouped;
    make_query(c, PAWL_OP_MOE_GROUPED, 1);
    return true;
}
