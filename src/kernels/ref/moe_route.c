/* moe_route: the ten routing methods. Methods whose score rises with the logit choose by the logit itself: the same experts
 * in exact arithmetic, and a sigmoid or softmax that rounds to equal values cannot make a tie of different logits. */
#include "op/moe.h"

#include <string.h>

#include "base/mathfn.h"
#include "kernels/ref/isa.h"
#include "kernels/ref/lanes.h"
#include "kernels/ref/split.h"
#include "kernels/ref/supports.h"

/* One row's working space. */
typedef struct route_row {
    float logit[PAWL_REF_EXPERTS_MAX]; /* NaN replaced by -inf */
    float key[PAWL_REF_EXPERTS_MAX];   /* chosen by */
    uint8_t taken[PAWL_REF_EXPERTS_MAX];
} route_row;

/* l - max, also where both are infinite. */
static inline float below(float l, float max)
{
    return l == max ? 0.0f : l - max;
}

static float largest(const float *x, int64_t n)
{
    float max = -INFINITY;
    for (int64_t i = 0; i < n; i++) max = x[i] > max ? x[i] : max;
    return max;
}

/* The best of key[from .. to-1] that is not taken, the lowest index among equals; taken afterwards. One is left. */
static int64_t take_best(const float *key, uint8_t *taken, int64_t from, int64_t to)
{
    int64_t best = from;
    while (best < to - 1 && taken[best]) best++;
    for (int64_t e = best + 1; e < to; e++)
        if (!taken[e] && key[e] > key[best]) best = e;
    taken[best] = 1;
    return best;
}

/* Sets the keys of experts outside the best groups to -inf. */
static void mask_groups(const pawl_moe_route_args *a, route_row *r)
{
    int64_t size = a->experts / a->groups;
    float score[PAWL_REF_EXPERTS_MAX];
    uint8_t kept[PAWL_REF_EXPERTS_MAX] = {0};
    memset(r->taken, 0, sizeof r->taken);
    for (int64_t g = 0; g < a->groups; g++) {
        score[g] = r->key[take_best(r->key, r->taken, g * size, (g + 1) * size)];
        if (size > 1) score[g] += r->key[take_best(r->key, r->taken, g * size, (g + 1) * size)];
    }
    for (int64_t n = 0; n < a->groups_kept; n++) take_best(score, kept, 0, a->groups);
    for (int64_t e = 0; e < a->experts; e++)
        if (!kept[e / size]) r->key[e] = -INFINITY;
}

static void make_keys(const pawl_moe_route_args *a, route_row *r)
{
    int biased = a->method == PAWL_ROUTE_DEEPSEEK_V3 || a->method == PAWL_ROUTE_MINIMAX2;
    for (int64_t e = 0; e < a->experts; e++) {
        float key = r->logit[e];
        if (biased) key = pawl__sigmoidf(key) + (a->bias ? a->bias[e] : 0.0f);
        r->key[e] = key == key ? key : -INFINITY;
    }
    if (a->method == PAWL_ROUTE_DEEPSEEK_V3 && a->groups_kept < a->groups) mask_groups(a, r);
}

static void divide(float *w, int64_t n, float by)
{
    for (int64_t i = 0; i < n; i++) w[i] = by > 0 ? w[i] / by : 0.0f;
}

static float total(const float *w, int64_t n)
{
    float sum = 0;
    for (int64_t i = 0; i < n; i++) sum += w[i];
    return sum;
}

/* Softmax over all experts: of the chosen into w. All zeros when every logit is -inf. */
static void softmax(const pawl_moe_route_args *a, const route_row *r, const int32_t *ids, float *w)
{
    float p[PAWL_REF_EXPERTS_MAX], max = largest(r->logit, a->experts);
    for (int64_t e = 0; e < a->experts; e++) p[e] = below(r->logit[e], max);
    for (int64_t e = 0; e < a->experts; e++) p[e] = pawl__expf(p[e]);
    for (int64_t i = 0; i < a->top_k; i++) w[i] = p[ids[i]];
    divide(w, a->top_k, max == -INFINITY ? 0 : pawl__lanes_total(p, a->experts));
}

static void make_weights(const pawl_moe_route_args *a, const route_row *r, const int32_t *ids, float *w)
{
    int64_t k = a->top_k;
    switch (a->method) {
    case PAWL_ROUTE_DEFAULT:
        softmax(a, r, ids, w);
        return;
    case PAWL_ROUTE_RENORMALIZE: {
        float max = r->logit[ids[0]];
        for (int64_t i = 0; i < k; i++) w[i] = pawl__expf(below(r->logit[ids[i]], max));
        divide(w, k, max == -INFINITY ? 0 : total(w, k));
        return;
    }
    case PAWL_ROUTE_RENORMALIZE_NAIVE:
        softmax(a, r, ids, w);
        divide(w, k, total(w, k));
        return;
    case PAWL_ROUTE_TOPK:
        for (int64_t i = 0; i < k; i++) w[i] = r->logit[ids[i]];
        return;
    default:
        break;
    }
    for (int64_t i = 0; i < k; i++) w[i] = pawl__sigmoidf(r->logit[ids[i]]);
    switch (a->method) {
    case PAWL_ROUTE_DEEPSEEK_V3:
        if (a->renorm) divide(w, k, total(w, k));
        for (int64_t i = 0; i < k; i++) w[i] *= a->scale;
        break;
    case PAWL_ROUTE_SIGMOID_RENORM:
        divide(w, k, total(w, k));
        break;
    case PAWL_ROUTE_MINIMAX2:
        divide(w, k, total(w, k) + 1e-20f);
        break;
    default:
        break; /* Llama4, Sigmoid, TopKSigmoid: the sigmoid itself */
    }
}

static void rows(const void *args, int64_t first, int64_t last, int thread)
{
    (void)thread;
    const pawl_moe_route_args *a = args;
    route_row r;
    for (int64_t t = first; t < last; t++) {
        const float *logits = a->logits + t * a->logits_row;
        int32_t *ids = a->ids + t * a->top_k;
        for (int64_t e = 0; e < a->experts; e++) r.logit[e] = logits[e] == logits[e] ? logits[e] : -INFINITY;
        make_keys(a, &r);
        memset(r.taken, 0, sizeof r.taken);
        for (int64_t i = 0; i < a->top_k; i++) ids[i] = (int32_t)take_best(r.key, r.taken, 0, a->experts);
        make_weights(a, &r, ids, a->weights + t * a->top_k);
    }
}

static pawl_status run(const void *args, pawl_exec *ex, pawl_err *err)
{
    const pawl_moe_route_args *a = args;
    if (a->experts > PAWL_REF_EXPERTS_MAX || a->top_k > a->experts)
        return pawl__fail(err, PAWL_EINVAL, "moe_route: top-k %lld of %lld experts, expected at most %lld of %d",
                          (long long)a->top_k, (long long)a->experts, (long long)a->experts, PAWL_REF_EXPERTS_MAX);
    if (a->method == PAWL_ROUTE_DEEPSEEK_V3 &&
        (a->groups < 1 || a->experts % a->groups || a->groups_kept < 1 || a->groups_kept > a->groups))
        return pawl__fail(err, PAWL_EINVAL, "moe_route: %lld of %lld groups of %lld experts", (long long)a->groups_kept,
                          (long long)a->groups, (long long)a->experts);
    if (a->top_k > 0) pawl__split(ex, a->m, 16 * a->m * a->experts, rows, a);
    return PAWL_OK;
}

const pawl_kernel PAWL_ENTRY(moe_route_f32) = {
    .id = "moe_route.f32:" PAWL_ISA_WORD,
    .op = PAWL_OP_MOE_ROUTE,
    .arch = PAWL_ARCH_CPU,
    .isa = PAWL_ISA_NEEDS,
    .m_min = 1,
    .traits = PAWL_TRAIT_VERIFY | PAWL_TRAIT_ROW_INVARIANT | PAWL_TRAIT_RETRYABLE,
    .supports = pawl__ref_moe_route,
    .run = run,
};
