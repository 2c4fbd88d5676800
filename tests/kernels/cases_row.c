/* Cases of the element-wise ops: rmsnorm, rope, act, add. */
#include "cases.h"

#include <math.h>

double chk_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

double chk_silu(double x)
{
    return x / (1 + exp(-x));
}

static void select_norm(chk_case *c, int64_t first, int64_t n)
{
    pawl_norm_args *a = &c->args.norm;
    *a = c->whole.norm;
    a->m = n;
    a->x += first * a->x_row;
    a->out += first * a->out_row;
    if (a->gate) a->gate += first * a->gate_row;
}

static const int64_t widths[] = {1, 7, 16, 37, 64, 129, 256};
enum { WIDTHS = sizeof widths / sizeof widths[0] };

bool chk_make_norm(chk_case *c, int index, uint64_t *rng)
{
    if (index >= WIDTHS * 4 * 2) return false;
    bool offset1 = index / WIDTHS % 2, gated = index / WIDTHS / 2 % 2, in_place = chk_pick(rng, 0, 1);
    chk_values values = index / WIDTHS / 4 ? CHK_EXTREME : CHK_RANDOM;
    int64_t k = widths[index % WIDTHS], m = chk_pick(rng, 1, 20), heads = chk_pick(rng, 1, 3);
    pawl_norm_args *a = &c->args.norm;
    *a = (pawl_norm_args){.m = m, .heads = heads, .k = k, .eps = 1e-6f, .offset1 = offset1, .x_head = k + 2};
    a->x_row = heads * a->x_head + 3;
    int64_t size = (m - 1) * a->x_row + (heads - 1) * a->x_head + k;
    float *x = chk_floats(c, "x", in_place ? CHK_INOUT : CHK_IN, size, values, rng);
    a->x = x;
    a->w = chk_floats(c, "w", CHK_IN, k, values, rng);
    a->out_row = in_place ? a->x_row : heads * k;
    a->out_head = in_place ? a->x_head : k;
    a->out = in_place ? x : chk_floats(c, "out", CHK_OUT, m * heads * k, values, rng);
    a->gate_row = heads * (k + 1);
    a->gate_head = k + 1;
    if (gated) a->gate = chk_floats(c, "gate", CHK_IN, m * a->gate_row, values, rng);
    for (int64_t v = 0; v < m * heads; v++) {
        const float *xv = a->x + v / heads * a->x_row + v % heads * a->x_head;
        double sum = 0;
        for (int64_t i = 0; i < k; i++) sum += (double)xv[i] * xv[i];
        for (int64_t i = 0; i < k; i++) {
            double y = xv[i] / sqrt(sum / (double)k + a->eps) * (offset1 + (double)a->w[i]), size_y = fabs(y);
            if (gated) y *= chk_silu(a->gate[v / heads * a->gate_row + v % heads * a->gate_head + i]);
            chk_expect(c, a->out, v / heads * a->out_row + v % heads * a->out_head + i, y,
                       ((double)k / 16 + 24) * 0x1p-23 * fabs(y) + 1e-35 * size_y + 1e-35);
        }
    }
    c->whole = c->args;
    c->items = m;
    c->select = select_norm;
    c->q = pawl__query(PAWL_OP_RMSNORM);
    c->q.k = k;
    c->q.flags = (offset1 ? PAWL_QF_OFFSET1 : 0) | (gated ? PAWL_QF_GATED : 0);
    snprintf(c->name, sizeof c->name, "m=%d heads=%d k=%d%s%s%s values=%d", (int)m, (int)heads, (int)k,
             offset1 ? " offset1" : "", gated ? " gated" : "", in_place ? " in place" : "", values);
    return true;
}

static void select_rope(chk_case *c, int64_t first, int64_t n)
{
    pawl_rope_args *a = &c->args.rope;
    *a = c->whole.rope;
    a->m = n;
    a->x += first * a->x_row;
    a->cos += first * a->r / 2;
    a->sin += first * a->r / 2;
}

bool chk_make_rope(chk_case *c, int index, uint64_t *rng)
{
    static const int64_t rotary[] = {2, 6, 16, 32, 64, 70};
    if (index >= 6) return false;
    int64_t r = rotary[index], k = r + chk_pick(rng, 0, 2) * 16, m = chk_pick(rng, 1, 20), heads = chk_pick(rng, 1, 4);
    pawl_rope_args *a = &c->args.rope;
    *a = (pawl_rope_args){.m = m, .heads = heads, .r = r, .x_head = k, .x_row = heads * k + 5};
    a->x = chk_floats(c, "x", CHK_INOUT, (m - 1) * a->x_row + heads * k, CHK_RANDOM, rng);
    float *cosine = chk_floats(c, "cos", CHK_IN, m * r / 2, CHK_RANDOM, rng);
    float *sine = chk_floats(c, "sin", CHK_IN, m * r / 2, CHK_RANDOM, rng);
    a->cos = cosine;
    a->sin = sine;
    for (int64_t t = 0; t < m; t++)
        for (int64_t i = 0; i < r / 2; i++) {
            double angle = chk_normal(rng) * 100;
            cosine[t * r / 2 + i] = (float)cos(angle);
            sine[t * r / 2 + i] = (float)sin(angle);
            for (int64_t h = 0; h < heads; h++) {
                int64_t at = t * a->x_row + h * a->x_head + i;
                double p = a->x[at], q = a->x[at + r / 2], cs = cosine[t * r / 2 + i], sn = sine[t * r / 2 + i];
                double bound = 0x1p-22 * (fabs(p) + fabs(q));
                chk_expect(c, a->x, at, p * cs - q * sn, bound);
                chk_expect(c, a->x, at + r / 2, q * cs + p * sn, bound);
            }
        }
    c->whole = c->args;
    c->items = m;
    c->select = select_rope;
    c->q = pawl__query(PAWL_OP_ROPE);
    c->q.n = heads;
    c->q.k = k;
    c->q.x[0] = r;
    snprintf(c->name, sizeof c->name, "m=%d heads=%d k=%d r=%d", (int)m, (int)heads, (int)k, (int)r);
    return true;
}

static void select_act(chk_case *c, int64_t first, int64_t n)
{
    pawl_act_args *a = &c->args.act;
    *a = c->whole.act;
    a->m = n;
    a->g += first * a->g_row;
    if (a->u) a->u += first * a->u_row;
    a->out += first * a->out_row;
}

bool chk_make_act(chk_case *c, int index, uint64_t *rng)
{
    if (index >= WIDTHS * 2 * 2 * 2) return false;
    bool relu2 = index / WIDTHS % 2, gated = index / WIDTHS / 2 % 2;
    chk_values values = index / WIDTHS / 4 ? CHK_EXTREME : CHK_RANDOM;
    int in_place = (int)chk_pick(rng, 0, gated ? 2 : 1); /* 1: out is g, 2: out is u */
    int64_t n = widths[index % WIDTHS], m = chk_pick(rng, 1, 20), row = n + chk_pick(rng, 0, 3);
    pawl_act_args *a = &c->args.act;
    *a = (pawl_act_args){.m = m, .n = n, .g_row = row, .u_row = row, .out_row = row};
    a->act = relu2 ? PAWL_ACT_RELU2 : PAWL_ACT_SILU;
    float *g = chk_floats(c, "g", in_place == 1 ? CHK_INOUT : CHK_IN, (m - 1) * row + n, values, rng), *u = NULL;
    if (gated) u = chk_floats(c, "u", in_place == 2 ? CHK_INOUT : CHK_IN, (m - 1) * row + n, values, rng);
    a->g = g;
    a->u = u;
    a->out = in_place == 1 ? g : in_place == 2 ? u : chk_floats(c, "out", CHK_OUT, (m - 1) * row + n, values, rng);
    for (int64_t t = 0; t < m; t++)
        for (int64_t i = 0; i < n; i++) {
            int64_t at = t * row + i;
            double v = relu2 ? pow(fmax(g[at], 0), 2) : chk_silu(g[at]), up = u ? u[at] : 1;
            chk_expect(c, a->out, at, v * up, 0x1p-21 * fabs(v * up) + 1e-35 * (1 + fabs(up)));
        }
    c->whole = c->args;
    c->items = m;
    c->select = select_act;
    c->q = pawl__query(PAWL_OP_ACT);
    c->q.n = n;
    c->q.flags = (relu2 ? PAWL_QF_RELU2 : 0) | (gated ? PAWL_QF_GATED : 0);
    snprintf(c->name, sizeof c->name, "m=%d n=%d %s%s in_place=%d values=%d", (int)m, (int)n, relu2 ? "relu2" : "silu",
             gated ? " gated" : "", in_place, values);
    return true;
}

static void select_add(chk_case *c, int64_t first, int64_t n)
{
    pawl_add_args *a = &c->args.add;
    *a = c->whole.add;
    a->m = n;
    a->x += first * a->x_row;
    a->y += first * a->y_row;
    if (a->gate) a->gate += first * a->gate_row;
}

bool chk_make_add(chk_case *c, int index, uint64_t *rng)
{
    if (index >= WIDTHS * 2 * 2) return false;
    bool gated = index / WIDTHS % 2;
    chk_values values = index / WIDTHS / 2 ? CHK_EXACT_POWERS : CHK_RANDOM;
    int64_t n = widths[index % WIDTHS], m = chk_pick(rng, 1, 20);
    pawl_add_args *a = &c->args.add;
    *a = (pawl_add_args){.m = m, .n = n, .x_row = n + 1, .y_row = n + 2, .gate_row = 3};
    a->x = chk_floats(c, "x", CHK_IN, (m - 1) * a->x_row + n, values, rng);
    a->y = chk_floats(c, "y", CHK_INOUT, (m - 1) * a->y_row + n, values, rng);
    if (gated) a->gate = chk_floats(c, "gate", CHK_IN, (m - 1) * a->gate_row + 1, values, rng);
    for (int64_t t = 0; t < m; t++)
        for (int64_t i = 0; i < n; i++) {
            double x = a->x[t * a->x_row + i], y = a->y[t * a->y_row + i];
            double g = gated ? chk_sigmoid(a->gate[t * a->gate_row]) : 1;
            double bound = values == CHK_EXACT_POWERS && !gated ? CHK_EXACT : 0x1p-21 * (fabs(x) + fabs(y));
            chk_expect(c, a->y, t * a->y_row + i, g * x + y, bound);
        }
    c->whole = c->args;
    c->items = m;
    c->select = select_add;
    c->q = pawl__query(PAWL_OP_ADD);
    c->q.n = n;
    c->q.flags = gated ? PAWL_QF_ROWGATE : 0;
    snprintf(c->name, sizeof c->name, "m=%d n=%d%s values=%d", (int)m, (int)n, gated ? " row gate" : "", values);
    return true;
}
