#include "model/blocks.h"

#include "op/conv.h"
#include "op/gdn.h"
#include "op/norm.h"
#include "store/weights.h"

static pawl_status add_ops(pawl_builder *b, pawl_gdn_block *g, pawl_err *err)
{
    pawl_query q = pawl__builder_query(b, PAWL_OP_CONV);
    q.n = g->channels;
    q.k = PAWL_CONV_WINDOW;
    PAWL_TRY(pawl__builder_add(b, &q, "conv1d", &g->conv, err));
    q = pawl__builder_query(b, PAWL_OP_CONV_REPLAY);
    q.n = g->channels;
    q.k = PAWL_CONV_WINDOW;
    PAWL_TRY(pawl__builder_add(b, &q, "conv1d", &g->conv_replay, err));
    static const pawl_op ops[] = {PAWL_OP_GDN, PAWL_OP_GDN_VERIFY, PAWL_OP_GDN_REPLAY};
    const pawl_decision **decisions[] = {&g->gdn, &g->gdn_verify, &g->gdn_replay};
    for (int i = 0; i < 3; i++) {
        q = pawl__builder_query(b, ops[i]);
        q.n = g->nv;
        q.k = g->dk;
        q.x[0] = g->nk;
        q.x[1] = g->dv;
        PAWL_TRY(pawl__builder_add(b, &q, "recurrence", decisions[i], err));
    }
    return PAWL_OK;
}

/* conv1d.weight is [channels, 1, 4] on disk: the same floats as [channels][4]. */
static pawl_status load_conv(pawl_builder *b, pawl_gdn_block *g, pawl_err *err)
{
    char full[320];
    float *w;
    int64_t shape[3] = {g->channels, 1, PAWL_CONV_WINDOW};
    PAWL_TRY(pawl__builder_name(b, "conv1d.weight", full, sizeof full, err));
    PAWL_TRY(pawl__weights_tensor(b->ck, full, 3, shape, &w, err));
    g->conv_w = w;
    return PAWL_OK;
}

pawl_status pawl__gdn_load(pawl_builder *b, const char *module, double eps, pawl_gdn_block *g, pawl_err *err)
{
    pawl_builder_mark mark;
    int64_t vd = g->nv * g->dv;
    g->channels = 2 * g->nk * g->dk + vd;
    PAWL_TRY(pawl__builder_enter(b, module, &mark, err));
    PAWL_TRY(pawl__linear_load(b, "in_proj_qkv", g->channels, g->hidden, 0, &g->qkv, err));
    PAWL_TRY(pawl__linear_load(b, "in_proj_z", vd, g->hidden, 0, &g->z, err));
    PAWL_TRY(pawl__linear_load(b, "in_proj_b", g->nv, g->hidden, 1, &g->b, err));
    PAWL_TRY(pawl__linear_load(b, "in_proj_a", g->nv, g->hidden, 1, &g->a, err));
    PAWL_TRY(pawl__linear_load(b, "out_proj", g->hidden, vd, 0, &g->out, err));
    PAWL_TRY(load_conv(b, g, err));
    PAWL_TRY(pawl__builder_vector(b, "A_log", g->nv, &g->a_log, err));
    PAWL_TRY(pawl__builder_vector(b, "dt_bias", g->nv, &g->dt_bias, err));
    PAWL_TRY(pawl__norm_load(b, "norm", g->dv, eps, 0, 1, &g->norm, err));
    PAWL_TRY(add_ops(b, g, err));
    pawl__builder_leave(b, mark);
    return PAWL_OK;
}

int64_t pawl__gdn_row_floats(const pawl_gdn_block *g)
{
    return 2 * g->channels + 2 * g->nv * g->dv + 2 * g->nv;
}

static float *conv_log(const pawl_step *s, const pawl_gdn_block *g)
{
    return s->st->log_conv + g->rec_layer * s->st->max_verify * g->channels;
}

static pawl_gdn_log gdn_log(const pawl_step *s, const pawl_gdn_block *g)
{
    int64_t rows = g->rec_layer * s->st->max_verify;
    return (pawl_gdn_log){.k = s->st->log_k + rows * g->nk * g->dk,
                          .v = s->st->log_v + rows * g->nv * g->dv,
                          .decay = s->st->log_decay + rows * g->nv,
                          .beta = s->st->log_beta + rows * g->nv};
}

pawl_status pawl__gdn_run(pawl_step *s, const pawl_gdn_block *g, const float *x, float *y)
{
    int64_t vd = g->nv * g->dv;
    float *u = pawl__step_floats(s, s->m, g->channels), *c = pawl__step_floats(s, s->m, g->channels);
    float *z = pawl__step_floats(s, s->m, vd), *o = pawl__step_floats(s, s->m, vd);
    float *ab = pawl__step_floats(s, s->m, 2 * g->nv);
    if (!u || !c || !z || !o || !ab) return PAWL_EINTERNAL;
    PAWL_TRY(pawl__linear_run(s, &g->qkv, s->m, x, g->hidden, u, g->channels, "in_proj_qkv"));
    PAWL_TRY(pawl__linear_run(s, &g->z, s->m, x, g->hidden, z, vd, "in_proj_z"));
    PAWL_TRY(pawl__linear_run(s, &g->a, s->m, x, g->hidden, ab, 2 * g->nv, "in_proj_a"));
    PAWL_TRY(pawl__linear_run(s, &g->b, s->m, x, g->hidden, ab + g->nv, 2 * g->nv, "in_proj_b"));

    pawl_conv_args conv = {.m = s->m,
                           .channels = g->channels,
                           .u = u,
                           .u_row = g->channels,
                           .w = g->conv_w,
                           .segs = s->segs,
                           .n_segs = s->n_segs,
                           .state = pawl__slots_conv(s->st->slots, g->rec_layer),
                           .slot_size = g->channels * (PAWL_CONV_WINDOW - 1),
                           .log = conv_log(s, g),
                           .out = c};
    PAWL_TRY(pawl__step_run(s, g->conv, s->m, &conv, "conv1d", c, g->channels, g->channels));

    pawl_gdn_args gdn = {.m = s->m_plain,
                         .nk = g->nk,
                         .nv = g->nv,
                         .dk = g->dk,
                         .dv = g->dv,
                         .qkv = c,
                         .a = ab,
                         .b = ab + g->nv,
                         .ab_row = 2 * g->nv,
                         .a_log = g->a_log,
                         .dt_bias = g->dt_bias,
                         .segs = s->plain,
                         .n_segs = s->n_plain,
                         .state = pawl__slots_state(s->st->slots, g->rec_layer),
                         .slot_size = g->nv * g->dk * g->dv,
                         .log = gdn_log(s, g),
                         .out = o};
    PAWL_TRY(pawl__step_run(s, g->gdn, s->m_plain, &gdn, "gdn", NULL, 0, 0));
    gdn.m = s->m_verify;
    gdn.segs = s->verify;
    gdn.n_segs = s->n_verify;
    PAWL_TRY(pawl__step_run(s, g->gdn_verify, s->m_verify, &gdn, "gdn_verify", NULL, 0, 0));

    pawl_norm_args n = {.m = s->m,
                        .heads = g->nv,
                        .k = g->dv,
                        .x = o,
                        .x_row = vd,
                        .x_head = g->dv,
                        .gate = z,
                        .gate_row = vd,
                        .gate_head = g->dv,
                        .w = g->norm.w,
                        .out = o,
                        .out_row = vd,
                        .out_head = g->dv,
                        .eps = g->norm.eps,
                        .offset1 = 0};
    PAWL_TRY(pawl__step_run(s, g->norm.d, s->m, &n, "linear_attn.norm", o, vd, vd));
    return pawl__linear_run(s, &g->out, s->m, o, vd, y, g->hidden, "out_proj");
}

pawl_status pawl__gdn_commit(pawl_step *s, const pawl_gdn_block *g)
{
    pawl_conv_replay_args conv = {.channels = g->channels,
                                  .segs = s->segs,
                                  .n_segs = s->n_segs,
                                  .state = pawl__slots_conv(s->st->slots, g->rec_layer),
                                  .slot_size = g->channels * (PAWL_CONV_WINDOW - 1),
                                  .log = conv_log(s, g)};
    PAWL_TRY(pawl__step_run(s, g->conv_replay, s->m, &conv, "conv_replay", NULL, 0, 0));
    pawl_gdn_replay_args replay = {.nk = g->nk,
                                   .nv = g->nv,
                                   .dk = g->dk,
                                   .dv = g->dv,
                                   .segs = s->segs,
                                   .n_segs = s->n_segs,
                                   .state = pawl__slots_state(s->st->slots, g->rec_layer),
                                   .slot_size = g->nv * g->dk * g->dv,
                                   .log = gdn_log(s, g)};
    return pawl__step_run(s, g->gdn_replay, s->m, &replay, "gdn_replay", NULL, 0, 0);
}
