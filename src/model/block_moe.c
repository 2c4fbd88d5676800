#include "model/blocks.h"

#include <string.h>

#include "base/mathfn.h"
#include "store/weights.h"

static int same_format(const pawl_expert *a, const pawl_expert *b)
{
    return a->gate.q == b->gate.q && a->up.q == b->gate.q && a->down.q == b->gate.q;
}

/* Where the shared expert has the shape and the format of the routed ones it becomes one more of them, which every token
 * chooses last: y = fma(weight, e, y) is what adding it afterwards would compute. The op's weights must be ours to write. */
static pawl_status fold_shared(pawl_builder *b, pawl_moe_block *p, pawl_expert *last, pawl_err *err)
{
    static const char *const names[3] = {"shared_expert.gate_proj", "shared_expert.up_proj", "shared_expert.down_proj"};
    pawl_wmat *const w[3] = {&last->gate, &last->up, &last->down};
    if (b->space != PAWL_SPACE_HOST || p->shared_width != p->width) return PAWL_OK;
    for (int i = 0; i < 3; i++) {
        char full[320];
        PAWL_TRY(pawl__builder_name(b, names[i], full, sizeof full, err));
        PAWL_TRY(
            pawl__weights_matrix(b->ck, full, i < 2 ? p->width : p->hidden, i < 2 ? p->hidden : p->width, w[i], err));
    }
    p->folded = same_format(last, p->experts.e);
    if (p->folded) p->experts.n++;
    return PAWL_OK;
}

static pawl_status load_experts(pawl_builder *b, pawl_moe_block *p, pawl_err *err)
{
    char full[320];
    pawl_expert *e = pawl__arena_array(b->arena, (size_t)p->experts.n + 1, sizeof *e);
    if (!e) return pawl__fail(err, PAWL_ENOMEM, "%sexperts: out of memory", b->prefix);
    PAWL_TRY(pawl__builder_name(b, "experts", full, sizeof full, err));
    PAWL_TRY(pawl__weights_experts(b->ck, full, p->experts.n, p->width, p->hidden, e, err));
    for (int64_t i = 1; i < p->experts.n; i++)
        if (!same_format(&e[i], &e[0]))
            return pawl__fail(err, PAWL_EUNSUPPORTED, "%s.%lld: expert stored as %s, expected %s like expert 0", full,
                              (long long)i, pawl__quant_word(e[i].gate.q), pawl__quant_word(e[0].gate.q));
    p->experts.e = e;
    p->experts.h = p->hidden;
    p->experts.i = p->width;
    p->experts.act = PAWL_ACT_SILU;
    p->experts.gated = 1;
    return fold_shared(b, p, &e[p->experts.n], err);
}

static pawl_status add_ops(pawl_builder *b, pawl_moe_block *p, pawl_err *err)
{
    pawl_query q = pawl__builder_query(b, PAWL_OP_MOE_ROUTE);
    q.n = p->router.w.n;
    q.k = p->top_k;
    q.x[0] = q.x[1] = 1;
    q.x[2] = p->method;
    q.a = q.out = PAWL_F32;
    PAWL_TRY(pawl__builder_add(b, &q, "gate", &p->choose, err));
    q = pawl__builder_query(b, PAWL_OP_MOE);
    pawl__builder_weight(b, p->experts.e[0].gate.q, &q);
    q.n = p->width;
    q.k = p->hidden;
    q.x[0] = p->experts.n;
    q.x[1] = p->top_k + p->folded;
    q.x[2] = p->method;
    q.flags |= PAWL_QF_GATED;
    PAWL_TRY(pawl__builder_add(b, &q, "experts", &p->moe, err));
    if (!p->shared_width || p->folded) return PAWL_OK;
    q = pawl__builder_query(b, PAWL_OP_ADD);
    q.n = p->hidden;
    q.flags = PAWL_QF_ROWGATE;
    return pawl__builder_add(b, &q, "shared_expert_gate", &p->add_shared, err);
}

pawl_status pawl__moe_load(pawl_builder *b, const char *module, pawl_moe_block *p, pawl_err *err)
{
    pawl_builder_mark mark;
    PAWL_TRY(pawl__builder_enter(b, module, &mark, err));
    PAWL_TRY(pawl__linear_load(b, "gate", p->experts.n, p->hidden, 1, &p->router, err));
    PAWL_TRY(load_experts(b, p, err));
    PAWL_TRY(add_ops(b, p, err));
    if (p->shared_width) {
        p->shared.hidden = p->hidden;
        p->shared.width = p->shared_width;
        if (!p->folded) PAWL_TRY(pawl__mlp_load(b, "shared_expert", &p->shared, err));
        PAWL_TRY(pawl__linear_load(b, "shared_expert_gate", 1, p->hidden, 1, &p->shared_gate, err));
    }
    pawl__builder_leave(b, mark);
    return PAWL_OK;
}

int64_t pawl__moe_row_floats(const pawl_moe_block *p)
{
    int64_t shared = !p->shared_width ? 0
                     : p->folded      ? 1 + 2 * (p->top_k + 1)
                                      : 1 + p->hidden + pawl__mlp_row_floats(&p->shared);
    return p->router.w.n + 2 * p->top_k + shared;
}

/* The shared expert as every row's last choice, under its gate. */
static pawl_status choose_shared(pawl_step *s, const pawl_moe_block *p, const float *gate, const int32_t **ids,
                                 const float **weights)
{
    int64_t k = p->top_k;
    int32_t *all_ids = pawl__step_ints(s, s->m, k + 1);
    float *all_weights = pawl__step_floats(s, s->m, k + 1);
    if (!all_ids || !all_weights) return PAWL_EINTERNAL;
    for (int64_t t = 0; t < s->m; t++) {
        memcpy(all_ids + t * (k + 1), *ids + t * k, (size_t)k * sizeof *all_ids);
        memcpy(all_weights + t * (k + 1), *weights + t * k, (size_t)k * sizeof *all_weights);
        all_ids[t * (k + 1) + k] = (int32_t)(p->experts.n - 1);
        all_weights[t * (k + 1) + k] = pawl__sigmoidf(gate[t]);
    }
    *ids = all_ids;
    *weights = all_weights;
    return PAWL_OK;
}

static pawl_status add_shared(pawl_step *s, const pawl_moe_block *p, const float *gate, const float *x, float *y)
{
    float *shared = pawl__step_floats(s, s->m, p->hidden);
    if (!shared) return PAWL_EINTERNAL;
    PAWL_TRY(pawl__mlp_run(s, &p->shared, x, shared));
    pawl_add_args add = {.m = s->m,
                         .n = p->hidden,
                         .x = shared,
                         .x_row = p->hidden,
                         .gate = gate,
                         .gate_row = 1,
                         .y = y,
                         .y_row = p->hidden};
    return pawl__step_run(s, p->add_shared, s->m, &add, "shared expert", y, p->hidden, p->hidden);
}

static pawl_status choose(pawl_step *s, const pawl_moe_block *p, const float *x, int32_t *ids, float *weights)
{
    int64_t e = p->router.w.n;
    float *logits = pawl__step_floats(s, s->m, e);
    if (!logits) return PAWL_EINTERNAL;
    PAWL_TRY(pawl__linear_run(s, &p->router, s->m, x, p->hidden, logits, e, "router"));
    pawl_moe_route_args route = {.m = s->m,
                                 .experts = e,
                                 .top_k = p->top_k,
                                 .logits = logits,
                                 .logits_row = e,
                                 .method = p->method,
                                 .groups = 1,
                                 .groups_kept = 1,
                                 .scale = 1.0f,
                                 .ids = ids,
                                 .weights = weights};
    PAWL_TRY(pawl__step_run(s, p->choose, s->m, &route, "moe_route", weights, p->top_k, p->top_k));
    pawl__step_probe(s, "router_logits", logits, e);
    pawl__step_probe(s, "router_ids", ids, p->top_k);
    pawl__step_probe(s, "router_weights", weights, p->top_k);
    return PAWL_OK;
}

pawl_status pawl__moe_run(pawl_step *s, const pawl_moe_block *p, const float *x, float *y)
{
    int32_t *chosen = pawl__step_ints(s, s->m, p->top_k);
    float *given = pawl__step_floats(s, s->m, p->top_k), *gate = NULL;
    if (!chosen || !given) return PAWL_EINTERNAL;
    PAWL_TRY(choose(s, p, x, chosen, given));
    const int32_t *ids = chosen;
    const float *weights = given;
    if (p->shared_width) {
        gate = pawl__step_floats(s, s->m, 1);
        if (!gate) return PAWL_EINTERNAL;
        PAWL_TRY(pawl__linear_run(s, &p->shared_gate, s->m, x, p->hidden, gate, 1, "shared_expert_gate"));
        if (p->folded) PAWL_TRY(choose_shared(s, p, gate, &ids, &weights));
    }
    pawl_moe_args moe = {.m = s->m,
                         .top_k = p->top_k + p->folded,
                         .experts = &p->experts,
                         .x = x,
                         .ids = ids,
                         .weights = weights,
                         .y = y};
    PAWL_TRY(pawl__step_run(s, p->moe, s->m, &moe, "experts", y, p->hidden, p->hidden));
    return p->shared_width && !p->folded ? add_shared(s, p, gate, x, y) : PAWL_OK;
}
