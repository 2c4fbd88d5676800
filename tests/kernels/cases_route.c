/* Cases of moe_route: the ten methods against an oracle in double, on rows that have broken routers before: large biases of
 * both signs, ties, -inf, NaN, all equal. Where two candidates are so close that f32 and double may differ, the row is drawn
 * again; what is equal is equal in both. */
#include "cases.h"

#include <math.h>
#include <string.h>

enum { MAX_EXPERTS = 256 };

typedef struct oracle {
    double key[MAX_EXPERTS], logit[MAX_EXPERTS], weight[MAX_EXPERTS];
    int ids[MAX_EXPERTS];
    bool clear; /* no choice hangs on less than f32 can tell */
} oracle;

/* The best of n that is not taken; the lowest index among equals. */
static int best(oracle *o, const double *key, const bool *taken, int n)
{
    int b = -1;
    for (int e = 0; e < n; e++)
        if (!taken[e] && (b < 0 || key[e] > key[b])) b = e;
    for (int e = 0; e < n; e++)
        if (!taken[e] && key[e] != key[b] && fabs(key[e] - key[b]) < 1e-4) o->clear = false;
    return b;
}

static void keep_best_groups(const pawl_moe_route_args *a, oracle *o)
{
    double score[MAX_EXPERTS];
    bool kept[MAX_EXPERTS] = {false};
    int size = (int)(a->experts / a->groups);
    for (int g = 0; g < a->groups; g++) {
        double first = -INFINITY, second = -INFINITY;
        for (int e = g * size; e < (g + 1) * size; e++) {
            second = o->key[e] > first ? first : fmax(second, o->key[e]);
            first = fmax(first, o->key[e]);
        }
        score[g] = size > 1 ? first + second : first;
    }
    for (int i = 0; i < a->groups_kept; i++) kept[best(o, score, kept, (int)a->groups)] = true;
    for (int e = 0; e < a->experts; e++)
        if (!kept[e / size]) o->key[e] = -INFINITY;
}

static void divide(double *w, int n, double by)
{
    for (int i = 0; i < n; i++) w[i] = by > 0 ? w[i] / by : 0;
}

static double total(const double *w, int n)
{
    double s = 0;
    for (int i = 0; i < n; i++) s += w[i];
    return s;
}

static void weigh(const pawl_moe_route_args *a, oracle *o)
{
    int k = (int)a->top_k;
    double max = -INFINITY, all = 0, *w = o->weight;
    for (int e = 0; e < a->experts; e++) max = fmax(max, o->logit[e]);
    for (int e = 0; e < a->experts && max > -INFINITY; e++) all += exp(o->logit[e] - max);
    for (int i = 0; i < k; i++) {
        double l = o->logit[o->ids[i]];
        bool softmax = a->method == PAWL_ROUTE_DEFAULT || a->method == PAWL_ROUTE_RENORMALIZE ||
                       a->method == PAWL_ROUTE_RENORMALIZE_NAIVE;
        w[i] = softmax ? (max > -INFINITY ? exp(l - max) : 0) : a->method == PAWL_ROUTE_TOPK ? l : chk_sigmoid(l);
    }
    switch (a->method) {
    case PAWL_ROUTE_DEFAULT:
        divide(w, k, all);
        break;
    case PAWL_ROUTE_RENORMALIZE:
    case PAWL_ROUTE_RENORMALIZE_NAIVE:
    case PAWL_ROUTE_SIGMOID_RENORM:
    case PAWL_ROUTE_MINIMAX2:
        divide(w, k, total(w, k));
        break;
    case PAWL_ROUTE_DEEPSEEK_V3:
        if (a->renorm) divide(w, k, total(w, k));
        for (int i = 0; i < k; i++) w[i] *= a->scale;
        break;
    default:
        break;
    }
}

static void route(const pawl_moe_route_args *a, const float *logits, oracle *o)
{
    bool biased = a->method == PAWL_ROUTE_DEEPSEEK_V3 || a->method == PAWL_ROUTE_MINIMAX2, taken[MAX_EXPERTS] = {false};
    o->clear = true;
    for (int e = 0; e < a->experts; e++) {
        o->logit[e] = isnan(logits[e]) ? -INFINITY : logits[e];
        o->key[e] = biased ? chk_sigmoid(o->logit[e]) + (a->bias ? a->bias[e] : 0) : o->logit[e];
    }
    if (a->method == PAWL_ROUTE_DEEPSEEK_V3) keep_best_groups(a, o);
    for (int i = 0; i < a->top_k; i++) taken[o->ids[i] = best(o, o->key, taken, (int)a->experts)] = true;
    if (!biased) o->clear = true; /* chosen by the logit itself: nothing is rounded */
    weigh(a, o);
}

static void fill_row(float *row, int64_t n, int kind, uint64_t *rng)
{
    for (int64_t e = 0; e < n; e++) {
        float l = (float)(chk_normal(rng) * 3);
        switch (kind) {
        case 1:
            l = 0.5f;
            break; /* all equal */
        case 2:
            l = (float)chk_pick(rng, -2, 2);
            break; /* ties */
        case 3:
            l = chk_pick(rng, 0, 2) ? l : -INFINITY;
            break; /* some never */
        case 4:
            l = -INFINITY;
            break;
        case 5:
            l = NAN;
            break;
        case 6:
            l = chk_pick(rng, 0, 3) ? l : NAN;
            break; /* some NaN */
        case 7:
            l = (float)(18 + chk_normal(rng));
            break; /* f32 sigmoids are nearly 1 */
        default:
            break;
        }
        row[e] = l;
    }
}

static void select_route(chk_case *c, int64_t first, int64_t n)
{
    pawl_moe_route_args *a = &c->args.route;
    *a = c->whole.route;
    a->m = n;
    a->logits += first * a->logits_row;
    a->ids += first * a->top_k;
    a->weights += first * a->top_k;
}

bool chk_make_moe_route(chk_case *c, int index, uint64_t *rng)
{
    static const int64_t shapes[][4] = {/* experts, top-k, groups, kept */
                                        {8, 2, 1, 1},  {256, 8, 8, 4}, {5, 5, 1, 1},
                                        {24, 6, 4, 2}, {1, 1, 1, 1},   {16, 3, 16, 5}};
    if (index >= PAWL_ROUTE_METHODS * 6 * 2) return false;
    const int64_t *s = shapes[index / PAWL_ROUTE_METHODS % 6];
    pawl_moe_route_args *a = &c->args.route;
    int64_t m = 16, row = s[0] + 1;
    *a = (pawl_moe_route_args){
        .m = m, .experts = s[0], .top_k = s[1], .groups = s[2], .groups_kept = s[3], .logits_row = row};
    a->method = (pawl_moe_method)(index % PAWL_ROUTE_METHODS);
    if (a->method == PAWL_ROUTE_LLAMA4) a->top_k = 1;
    a->renorm = index / 2 % 2;
    a->scale = a->method == PAWL_ROUTE_DEEPSEEK_V3 ? 2.5f : 1.0f;
    bool bias = index >= PAWL_ROUTE_METHODS * 6;
    float *logits = chk_floats(c, "logits", CHK_IN, (m - 1) * row + s[0], CHK_RANDOM, rng);
    a->logits = logits;
    float *b = bias ? chk_floats(c, "bias", CHK_IN, s[0], CHK_RANDOM, rng) : NULL;
    for (int64_t e = 0; e < s[0] && b; e++) b[e] = (float)chk_pick(rng, -1, 1) * 20;
    a->bias = b;
    a->ids = chk_buffer(c, "ids", CHK_OUT, (size_t)(m * a->top_k) * 4, 0);
    c->buf[c->bufs - 1].integers = true;
    a->weights = chk_floats(c, "weights", CHK_OUT, m * a->top_k, CHK_RANDOM, rng);
    for (int64_t t = 0; t < m; t++) {
        oracle o;
        int kind = (int)(t % 8), tries = 0;
        do {
            fill_row(logits + t * row, s[0], tries < 200 ? kind : 2, rng);
            route(a, logits + t * row, &o);
        } while (!o.clear && tries++ < 400);
        for (int64_t i = 0; i < a->top_k; i++) {
            chk_expect(c, a->ids, t * a->top_k + i, o.ids[i], CHK_EXACT);
            double w = o.weight[i];
            chk_expect(c, a->weights, t * a->top_k + i, w, isinf(w) ? CHK_EXACT : 4e-6 * fabs(w) + 1e-30);
        }
    }
    c->whole = c->args;
    c->items = m;
    c->select = select_route;
    c->q = pawl__query(PAWL_OP_MOE_ROUTE);
    c->q.n = s[0];
    c->q.k = a->top_k;
    c->q.x[0] = s[2];
    c->q.x[1] = s[3];
    c->q.x[2] = a->method;
    c->q.flags = (bias ? PAWL_QF_BIAS : 0) | (a->renorm && a->method == PAWL_ROUTE_DEEPSEEK_V3 ? PAWL_QF_RENORM : 0);
    snprintf(c->name, sizeof c->name, "%s experts=%d topk=%d groups=%d/%d%s", pawl__moe_method_name(a->method),
             (int)s[0], (int)a->top_k, (int)s[3], (int)s[2], bias ? " bias" : "");
    return true;
}
