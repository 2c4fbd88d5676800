#include "model/blocks.h"

#include "store/weights.h"

static pawl_status load_experts(pawl_builder *b, pawl_moe_block *p, pawl_err *err)
{
    char full[320];
    pawl_expert *e = pawl__arena_array(b->arena, (size_t)p->experts.n, sizeof *e);
    if (!e) return pawl__fail(err, PAWL_ENOMEM, "%sexperts: out of memory", b->prefix);
    PAWL_TRY(pawl__builder_name(b, "experts", full, sizeof full, err));
    PAWL_TRY(pawl__weights_experts(b->ck, full, p->experts.n, p->width, p->hidden, e, err));
    for (int64_t i = 1; i < p->experts.n; i++)
        if (e[i].gate.q != e[0].gate.q || e[i].up.q != e[0].gate.q || e[i].down.q != e[0].gate.q)
            return pawl__fail(err, PAWL_EUNSUPPORTED, "%s.%lld: expert stored as %s, expected %s like expert 0", full,
                              (long long)i, pawl__quant_word(e[i].gate.q), pawl__quant_word(e[0].gate.q));
    p->experts.e = e;
    p->experts.h = p->hidden;
    p->experts.i = p->width;
    p->experts.act = PAWL_ACT_SILU;
    p->experts.gated = 1;
    return PAWL_OK;
}

static pawl_status add_ops(pawl_builder *b, pawl_moe_block *p, pawl_err *err)
{
    pawl_query q = pawl__builder_query(b, PAWL_OP_MOE_ROUTE);
    q.n = p->experts.n;
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
    q.x[1] = p->top_k;
    q.x[2] = p->method;
    q.flags |= PAWL_QF_GATED;
    PAWL_TRY(pawl__builder_add(b, &q, "experts", &p->moe, err));
    if (!p->shared_width) return PAWL_OK;
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
        PAWL_TRY(pawl__mlp_load(b, "shared_expert", &p->shared, err));
        PAWL_TRY(pawl__linear_load(b, "shared_expert_gate", 1, p->hidden, 1, &p->shared_gate, err));
    }
    pawl__builder_leave(b, mark);
    return PAWL_OK;
}

int64_t pawl__moe_row_floats(const pawl_moe_block *p)
{
    return p->experts.n + 2 * p->top_k + (p->shared_width ? pawl__mlp_row_floats(&p->shared) + p->hidden + 1 : 0);
}

pawl_status pawl__moe_run(pawl_step *s, const pawl_moe_block *p, const float *x, float *y)
{
    int64_t e = p->experts.n;
    float *logits = pawl__step_floats(s, s->m, e), *weights = pawl__step_floats(s, s->m, p->top_k);
    int32_t *ids = pawl__step_ints(s, s->m, p->top_k);
    if (!logits || !weights || !ids) return PAWL_EINTERNAL;
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
    pawl_moe_args moe = {
        .m = s->m, .top_k = p->top_k, .experts = &p->experts, .x = x, .ids = ids, .weights = weights, .y = y};
    PAWL_TRY(pawl__step_run(s, p->moe, s->m, &moe, "experts", y, p->hidden, p->hidden));
    if (!p->shared_width) return PAWL_OK;
    float *shared = pawl__step_floats(s, s->m, p->hidden), *gate = pawl__step_floats(s, s->m, 1);
    if (!shared || !gate) return PAWL_EINTERNAL;
    PAWL_TRY(pawl__mlp_run(s, &p->shared, x, shared));
    PAWL_TRY(pawl__linear_run(s, &p->shared_gate, s->m, x, p->hidden, gate, 1, "shared_expert_gate"));
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
