#include "model/blocks.h"

#include <math.h>

#include "op/attn.h"
#include "op/norm.h"
#include "op/rope.h"

static pawl_status add_ops(pawl_builder *b, pawl_attn_block *a, pawl_err *err)
{
    pawl_query q = pawl__builder_query(b, PAWL_OP_ROPE);
    q.n = a->heads;
    q.k = a->d;
    q.x[0] = a->r;
    PAWL_TRY(pawl__builder_add(b, &q, "rope", &a->rope_q, err));
    q.n = a->kv_heads;
    PAWL_TRY(pawl__builder_add(b, &q, "rope", &a->rope_k, err));
    q = pawl__builder_query(b, PAWL_OP_KV_STORE);
    q.n = a->kv_heads;
    q.k = a->d;
    PAWL_TRY(pawl__builder_add(b, &q, "kv", &a->store, err));
    q = pawl__builder_query(b, PAWL_OP_ATTN);
    q.n = a->heads;
    q.k = a->d;
    q.x[0] = a->kv_heads;
    q.flags = a->gated ? PAWL_QF_GATED : 0;
    return pawl__builder_add(b, &q, "attn", &a->attn, err);
}

pawl_status pawl__attn_load(pawl_builder *b, const char *module, double eps, pawl_attn_block *a, pawl_err *err)
{
    pawl_builder_mark mark;
    PAWL_TRY(pawl__builder_enter(b, module, &mark, err));
    PAWL_TRY(pawl__linear_load(b, "q_proj", a->heads * a->d * (a->gated ? 2 : 1), a->hidden, 0, &a->q, err));
    PAWL_TRY(pawl__linear_load(b, "k_proj", a->kv_heads * a->d, a->hidden, 0, &a->k, err));
    PAWL_TRY(pawl__linear_load(b, "v_proj", a->kv_heads * a->d, a->hidden, 0, &a->v, err));
    PAWL_TRY(pawl__linear_load(b, "o_proj", a->hidden, a->heads * a->d, 0, &a->o, err));
    PAWL_TRY(pawl__norm_load(b, "q_norm", a->d, eps, 1, 0, &a->q_norm, err));
    PAWL_TRY(pawl__norm_load(b, "k_norm", a->d, eps, 1, 0, &a->k_norm, err));
    PAWL_TRY(add_ops(b, a, err));
    pawl__builder_leave(b, mark);
    return PAWL_OK;
}

int64_t pawl__attn_row_floats(const pawl_attn_block *a)
{
    return a->q.w.n + 2 * a->k.w.n + a->heads * a->d;
}

/* Normalises and rotates the heads of one projection in place. */
static pawl_status norm_and_rotate(pawl_step *s, const pawl_attn_block *a, const pawl_norm_op *norm,
                                   const pawl_decision *rope, float *x, int64_t row, int64_t heads, int64_t head)
{
    pawl_norm_args n = {.m = s->m,
                        .heads = heads,
                        .k = a->d,
                        .x = x,
                        .x_row = row,
                        .x_head = head,
                        .w = norm->w,
                        .out = x,
                        .out_row = row,
                        .out_head = head,
                        .eps = norm->eps,
                        .offset1 = norm->offset1};
    PAWL_TRY(pawl__step_run(s, norm->d, s->m, &n, "q_norm/k_norm", x, a->d, row));
    pawl_rope_args r = {
        .m = s->m, .heads = heads, .r = a->r, .x = x, .x_row = row, .x_head = head, .cos = s->cos, .sin = s->sin};
    return pawl__step_run(s, rope, s->m, &r, "rope", x, a->d, row);
}

pawl_status pawl__attn_run(pawl_step *s, const pawl_attn_block *a, const float *x, float *y)
{
    int64_t q_row = a->q.w.n, q_head = a->gated ? 2 * a->d : a->d, kv_row = a->k.w.n;
    float *q = pawl__step_floats(s, s->m, q_row), *k = pawl__step_floats(s, s->m, kv_row);
    float *v = pawl__step_floats(s, s->m, kv_row), *o = pawl__step_floats(s, s->m, a->heads * a->d);
    if (!q || !k || !v || !o) return PAWL_EINTERNAL;
    PAWL_TRY(pawl__linear_run(s, &a->q, s->m, x, a->hidden, q, q_row, "q_proj"));
    PAWL_TRY(pawl__linear_run(s, &a->k, s->m, x, a->hidden, k, kv_row, "k_proj"));
    PAWL_TRY(pawl__linear_run(s, &a->v, s->m, x, a->hidden, v, kv_row, "v_proj"));
    PAWL_TRY(norm_and_rotate(s, a, &a->q_norm, a->rope_q, q, q_row, a->heads, q_head));
    PAWL_TRY(norm_and_rotate(s, a, &a->k_norm, a->rope_k, k, kv_row, a->kv_heads, a->d));

    float *keys = pawl__kv_keys(s->st->kv, a->kv_layer), *values = pawl__kv_values(s->st->kv, a->kv_layer);
    pawl_kv_store_args store = {.m = s->m,
                                .kv_heads = a->kv_heads,
                                .d = a->d,
                                .k = k,
                                .v = v,
                                .k_row = kv_row,
                                .v_row = kv_row,
                                .segs = s->segs,
                                .n_segs = s->n_segs,
                                .pages = s->pages,
                                .cache_k = keys,
                                .cache_v = values};
    PAWL_TRY(pawl__step_run(s, a->store, s->m, &store, "kv_store", NULL, 0, 0));
    pawl_attn_args at = {.m = s->m,
                         .heads = a->heads,
                         .kv_heads = a->kv_heads,
                         .d = a->d,
                         .scale = (float)(1.0 / sqrt((double)a->d)),
                         .q = q,
                         .q_row = q_row,
                         .q_head = q_head,
                         .gate = a->gated ? q + a->d : NULL,
                         .gate_row = q_row,
                         .gate_head = q_head,
                         .segs = s->segs,
                         .n_segs = s->n_segs,
                         .pages = s->pages,
                         .cache_k = keys,
                         .cache_v = values,
                         .out = o};
    PAWL_TRY(pawl__step_run(s, a->attn, s->m, &at, "attn", o, a->heads * a->d, a->heads * a->d));
    return pawl__linear_run(s, &a->o, s->m, o, a->heads * a->d, y, a->hidden, "o_proj");
}
