/* Qwen3.5 and 3.6, dense and mixture-of-experts: layers of Gated DeltaNet or gated attention, each followed by an MLP or
 * experts, and one MTP layer that drafts. Formulas: the transformers, vLLM and SGLang implementations of the family agree on
 * them; the names of the tensors are those of the published checkpoints. */
#include "model/family.h"

#include <stdio.h>
#include <string.h>

#include "base/mathfn.h"
#include "model/blocks.h"
#include "op/embed.h"
#include "store/config_qwen3_5.h"
#include "store/weights.h"

typedef struct layer {
    int full_attention, moe;
    pawl_norm_op before_mixer, before_mlp;
    union {
        pawl_attn_block attn;
        pawl_gdn_block gdn;
    };
    union {
        pawl_moe_block experts;
        pawl_mlp_block mlp;
    };
} layer;

typedef struct qwen3_5 {
    pawl_qwen35_config cfg;
    float *inv_freq; /* [rotary_dim / 2] */
    pawl_wmat embed_table;
    const pawl_decision *embed, *add, *draft_embed, *draft_add;
    layer *layers;
    pawl_norm_op norm;
    pawl_linear_op head, draft_head;
    /* MTP */
    pawl_norm_op draft_norm_embedding, draft_norm_hidden, draft_norm;
    pawl_linear_op draft_fc;
    layer draft_layer;
} qwen3_5;

static const char *const types[] = {"qwen3_5", "qwen3_5_moe", "qwen3_5_text", "qwen3_5_moe_text", NULL};

/* ---- loading ---- */

/* The text model's tensors lie under one of these, by where the checkpoint was saved from. */
static pawl_status find_prefix(pawl_builder *b, pawl_err *err)
{
    static const char *const prefixes[] = {"model.language_model.", "language_model.model.", "model."};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        char name[128];
        snprintf(name, sizeof name, "%sembed_tokens.weight", prefixes[i]);
        if (pawl__checkpoint_find(b->ck, name)) {
            strcpy(b->prefix, prefixes[i]);
            return PAWL_OK;
        }
    }
    return pawl__fail(err, PAWL_EFORMAT,
                      "%s: no tensor embed_tokens.weight under model.language_model., "
                      "language_model.model. or model.",
                      pawl__checkpoint_dir(b->ck));
}

static int is_moe(const pawl_builder *b)
{
    char name[256];
    snprintf(name, sizeof name, "%smlp.gate.weight", b->prefix);
    return pawl__checkpoint_find(b->ck, name) != NULL;
}

static pawl_status load_layer(pawl_builder *b, const pawl_qwen35_config *c, int full_attention, int64_t kv_layer,
                              int64_t rec_layer, layer *l, pawl_err *err)
{
    l->full_attention = full_attention;
    PAWL_TRY(pawl__norm_load(b, "input_layernorm", c->hidden_size, c->rms_eps, 1, 0, &l->before_mixer, err));
    if (full_attention) {
        l->attn = (pawl_attn_block){.hidden = c->hidden_size,
                                    .heads = c->q_heads,
                                    .kv_heads = c->kv_heads,
                                    .d = c->head_dim,
                                    .r = c->rotary_dim,
                                    .gated = 1,
                                    .kv_layer = kv_layer};
        PAWL_TRY(pawl__attn_load(b, "self_attn", c->rms_eps, &l->attn, err));
    } else {
        l->gdn = (pawl_gdn_block){.hidden = c->hidden_size,
                                  .nk = c->key_heads,
                                  .nv = c->value_heads,
                                  .dk = c->key_dim,
                                  .dv = c->value_dim,
                                  .rec_layer = rec_layer};
        PAWL_TRY(pawl__gdn_load(b, "linear_attn", c->rms_eps, &l->gdn, err));
    }
    PAWL_TRY(pawl__norm_load(b, "post_attention_layernorm", c->hidden_size, c->rms_eps, 1, 0, &l->before_mlp, err));
    l->moe = is_moe(b);
    if (l->moe) {
        if (!c->moe)
            return pawl__fail(err, PAWL_EFORMAT, "%smlp.gate.weight: a router, but config.json has no experts",
                              b->prefix);
        l->experts = (pawl_moe_block){.hidden = c->hidden_size,
                                      .width = c->moe_intermediate,
                                      .shared_width = c->shared_intermediate,
                                      .top_k = c->top_k,
                                      .method = PAWL_ROUTE_RENORMALIZE_NAIVE,
                                      .experts.n = c->experts};
        return pawl__moe_load(b, "mlp", &l->experts, err);
    }
    if (!c->intermediate_size)
        return pawl__fail(err, PAWL_EFORMAT, "%smlp: no router (gate.weight) and config.json has no intermediate_size",
                          b->prefix);
    l->mlp = (pawl_mlp_block){.hidden = c->hidden_size, .width = c->intermediate_size};
    return pawl__mlp_load(b, "mlp", &l->mlp, err);
}

static pawl_status load_layers(pawl_builder *b, qwen3_5 *m, pawl_err *err)
{
    const pawl_qwen35_config *c = &m->cfg;
    int64_t kv_layer = 0, rec_layer = 0;
    for (int64_t i = 0; i < c->layers; i++) {
        size_t prefix = strlen(b->prefix);
        snprintf(b->prefix + prefix, sizeof b->prefix - prefix, "layers.%lld.", (long long)i);
        strcpy(b->where, "layers.*.");
        int full = c->full_attention[i];
        PAWL_TRY(load_layer(b, c, full, kv_layer, rec_layer, &m->layers[i], err));
        if (full)
            kv_layer++;
        else
            rec_layer++;
        b->prefix[prefix] = 0;
        b->where[0] = 0;
        PAWL_TRY(pawl__checkpoint_tick(b->ck, "loading weights", err));
    }
    return PAWL_OK;
}

static pawl_status add_common_ops(pawl_builder *b, const qwen3_5 *m, const pawl_decision **embed,
                                  const pawl_decision **add, pawl_err *err)
{
    pawl_query q = pawl__builder_query(b, PAWL_OP_EMBED);
    q.w = m->embed_table.q;
    q.n = m->embed_table.n;
    q.k = m->embed_table.k;
    PAWL_TRY(pawl__builder_add(b, &q, "embed_tokens", embed, err));
    q = pawl__builder_query(b, PAWL_OP_ADD);
    q.n = m->cfg.hidden_size;
    return pawl__builder_add(b, &q, "residual", add, err);
}

/* The head is the embedding when they are tied; lm_head.weight lies at the root, or beside the text model. */
static pawl_status load_head(pawl_builder *b, qwen3_5 *m, pawl_err *err)
{
    if (m->cfg.tied) return pawl__linear_of(b, "lm_head", &m->embed_table, 1, &m->head, err);
    char prefix[sizeof b->prefix];
    strcpy(prefix, b->prefix);
    b->prefix[0] = 0;
    if (!pawl__weights_has_matrix(b->ck, "lm_head") && pawl__weights_has_matrix(b->ck, "language_model.lm_head"))
        strcpy(b->prefix, "language_model.");
    pawl_status s = pawl__linear_load(b, "lm_head", m->cfg.vocab_size, m->cfg.hidden_size, 1, &m->head, err);
    strcpy(b->prefix, prefix);
    return s;
}

static pawl_status load_draft(pawl_builder *b, qwen3_5 *m, pawl_err *err)
{
    const pawl_qwen35_config *c = &m->cfg;
    b->scope = PAWL_SCOPE_DRAFT;
    strcpy(b->prefix, pawl__checkpoint_find(b->ck, "model.mtp.fc.weight") ? "model.mtp." : "mtp.");
    strcpy(b->where, "mtp.");
    PAWL_TRY(add_common_ops(b, m, &m->draft_embed, &m->draft_add, err));
    PAWL_TRY(
        pawl__norm_load(b, "pre_fc_norm_embedding", c->hidden_size, c->rms_eps, 1, 0, &m->draft_norm_embedding, err));
    PAWL_TRY(pawl__norm_load(b, "pre_fc_norm_hidden", c->hidden_size, c->rms_eps, 1, 0, &m->draft_norm_hidden, err));
    PAWL_TRY(pawl__linear_load(b, "fc", c->hidden_size, 2 * c->hidden_size, 0, &m->draft_fc, err));
    PAWL_TRY(pawl__norm_load(b, "norm", c->hidden_size, c->rms_eps, 1, 0, &m->draft_norm, err));
    PAWL_TRY(pawl__linear_of(b, "lm_head", &m->head.w, 1, &m->draft_head, err));
    pawl_builder_mark mark;
    PAWL_TRY(pawl__builder_enter(b, "layers.0", &mark, err));
    PAWL_TRY(load_layer(b, c, 1, c->full_layers, 0, &m->draft_layer, err));
    pawl__builder_leave(b, mark);
    return PAWL_OK;
}

static int64_t layer_row_floats(const layer *l)
{
    int64_t mixer = l->full_attention ? pawl__attn_row_floats(&l->attn) : pawl__gdn_row_floats(&l->gdn);
    int64_t mlp = l->moe ? pawl__moe_row_floats(&l->experts) : pawl__mlp_row_floats(&l->mlp);
    return mixer > mlp ? mixer : mlp;
}

static void fill_dims(pawl_net *net, const qwen3_5 *m)
{
    const pawl_qwen35_config *c = &m->cfg;
    int64_t row = 0;
    for (int64_t i = 0; i < c->layers; i++) {
        int64_t f = layer_row_floats(&m->layers[i]);
        row = f > row ? f : row;
    }
    if (c->mtp_layers) {
        int64_t f = layer_row_floats(&m->draft_layer) + 2 * c->hidden_size;
        row = f > row ? f : row;
    }
    net->dims = (pawl_net_dims){.vocab = c->vocab_size,
                                .hidden = c->hidden_size,
                                .layers = c->layers,
                                .context = c->max_positions,
                                .kv_layers = c->full_layers + (c->mtp_layers ? 1 : 0),
                                .kv_heads = c->kv_heads,
                                .head_dim = c->head_dim,
                                .draft_layers = c->mtp_layers,
                                .rec_layers = c->layers - c->full_layers,
                                .conv_channels = 2 * c->key_heads * c->key_dim + c->value_heads * c->value_dim,
                                .nk = c->key_heads,
                                .nv = c->value_heads,
                                .dk = c->key_dim,
                                .dv = c->value_dim,
                                .row_floats = row + 3 * c->hidden_size + c->rotary_dim};
    for (int i = 0; i < c->n_eos; i++) net->eos[i] = c->eos[i];
    net->n_eos = c->n_eos;
}

static pawl_status refuse_what_is_missing(const pawl_qwen35_config *c, pawl_err *err)
{
    if (c->gate_sigmoid)
        return pawl__fail(err, PAWL_EUNSUPPORTED, "output_gate_type: found sigmoid, expected silu (swish)");
    if (c->conv_width != 4)
        return pawl__fail(err, PAWL_EUNSUPPORTED, "linear_conv_kernel_dim: found %lld, expected 4",
                          (long long)c->conv_width);
    if (c->mtp_layers > 1)
        return pawl__fail(err, PAWL_EUNSUPPORTED, "mtp_num_hidden_layers: found %lld, expected 0 or 1",
                          (long long)c->mtp_layers);
    return PAWL_OK;
}

static pawl_status open_net(pawl_net *net, pawl_checkpoint *ck, pawl_err *err)
{
    qwen3_5 *m = pawl__arena_alloc(net->arena, sizeof *m);
    if (!m) return pawl__fail(err, PAWL_ENOMEM, "out of memory");
    net->model = m;
    const pawl_qwen35_config *c = &m->cfg;
    pawl_status s = pawl__qwen35_config_read(pawl__checkpoint_config(ck), &m->cfg, err);
    if (s == PAWL_OK) s = refuse_what_is_missing(c, err);
    if (s != PAWL_OK) {
        if (err) pawl__fail_in(err, "%s/config.json", pawl__checkpoint_dir(ck));
        return s;
    }
    net->type = c->moe ? "qwen3_5_moe_text" : "qwen3_5_text";
    m->layers = pawl__arena_array(net->arena, (size_t)c->layers, sizeof *m->layers);
    m->inv_freq = pawl__arena_array(net->arena, (size_t)c->rotary_dim / 2, sizeof *m->inv_freq);
    if (!m->layers || !m->inv_freq) return pawl__fail(err, PAWL_ENOMEM, "out of memory");
    for (int64_t i = 0; i < c->rotary_dim / 2; i++)
        m->inv_freq[i] = (float)pawl__pow(c->rope_theta, -2.0 * (double)i / (double)c->rotary_dim);

    pawl_builder b = {
        .ck = ck, .plan = net->plan, .arena = net->arena, .space = net->opt.space, .act_int8 = net->opt.act_int8};
    PAWL_TRY(find_prefix(&b, err));
    char name[256];
    PAWL_TRY(pawl__builder_name(&b, "embed_tokens", name, sizeof name, err));
    PAWL_TRY(pawl__weights_matrix(ck, name, c->vocab_size, c->hidden_size, &m->embed_table, err));
    PAWL_TRY(add_common_ops(&b, m, &m->embed, &m->add, err));
    PAWL_TRY(load_layers(&b, m, err));
    PAWL_TRY(pawl__norm_load(&b, "norm", c->hidden_size, c->rms_eps, 1, 0, &m->norm, err));
    PAWL_TRY(load_head(&b, m, err));
    if (c->mtp_layers) PAWL_TRY(load_draft(&b, m, err));
    fill_dims(net, m);
    return PAWL_OK;
}

/* ---- running ---- */

/* h += mixer(norm(h)); h += mlp(norm(h)) */
static pawl_status run_layer(pawl_step *s, const layer *l, const pawl_decision *add, int64_t hidden, float *h, float *x,
                             float *y)
{
    pawl_arena *scratch = s->st->scratch;
    size_t mark = pawl__arena_used(scratch);
    PAWL_TRY(pawl__norm_run(s, &l->before_mixer, h, hidden, x, hidden, "input_layernorm"));
    if (l->full_attention)
        PAWL_TRY(pawl__attn_run(s, &l->attn, x, y));
    else
        PAWL_TRY(pawl__gdn_run(s, &l->gdn, x, y));
    PAWL_TRY(pawl__add_run(s, add, hidden, y, h));
    pawl__arena_release(scratch, mark);
    PAWL_TRY(pawl__norm_run(s, &l->before_mlp, h, hidden, x, hidden, "post_attention_layernorm"));
    if (l->moe)
        PAWL_TRY(pawl__moe_run(s, &l->experts, x, y));
    else
        PAWL_TRY(pawl__mlp_run(s, &l->mlp, x, y));
    PAWL_TRY(pawl__add_run(s, add, hidden, y, h));
    pawl__arena_release(scratch, mark);
    pawl__step_probe(s, "layer", h, hidden);
    return PAWL_OK;
}

static pawl_status run_head(pawl_step *s, const pawl_linear_op *head, const pawl_forward *f, int64_t hidden)
{
    /* Runs of consecutive rows go through the head together. */
    for (int32_t i = 0; i < f->n_logits;) {
        int32_t n = 1;
        while (i + n < f->n_logits && f->logit_rows[i + n] == f->logit_rows[i] + n) n++;
        PAWL_TRY(pawl__linear_run(s, head, n, f->hidden + f->logit_rows[i] * hidden, hidden, f->logits + i * head->w.n,
                                  head->w.n, "lm_head"));
        i += n;
    }
    return PAWL_OK;
}

static pawl_status run_embed(pawl_step *s, const pawl_decision *d, const pawl_wmat *table, const int32_t *ids,
                             float *out)
{
    pawl_embed_args e = {.m = s->m, .ids = ids, .table = table, .out = out};
    return pawl__step_run(s, d, s->m, &e, "embed_tokens", out, table->k, table->k);
}

static pawl_status forward(const pawl_net *net, pawl_step *s, const pawl_forward *f)
{
    const qwen3_5 *m = net->model;
    int64_t hidden = m->cfg.hidden_size;
    PAWL_TRY(pawl__step_begin(s, m->inv_freq, m->cfg.rotary_dim / 2));
    float *h = pawl__step_floats(s, s->m, hidden), *x = pawl__step_floats(s, s->m, hidden);
    float *y = pawl__step_floats(s, s->m, hidden);
    if (!h || !x || !y) return PAWL_EINTERNAL;
    PAWL_TRY(run_embed(s, m->embed, &m->embed_table, f->ids, h));
    pawl__step_probe(s, "embed", h, hidden);
    for (s->layer = 0; s->layer < m->cfg.layers; s->layer++) {
        PAWL_TRY(pawl__step_canceled(s));
        PAWL_TRY(run_layer(s, &m->layers[s->layer], m->add, hidden, h, x, y));
    }
    PAWL_TRY(pawl__norm_run(s, &m->norm, h, hidden, f->hidden, hidden, "norm"));
    pawl__step_probe(s, "norm", f->hidden, hidden);
    return run_head(s, &m->head, f, hidden);
}

static pawl_status draft(const pawl_net *net, pawl_step *s, const pawl_forward *f)
{
    const qwen3_5 *m = net->model;
    int64_t hidden = m->cfg.hidden_size;
    s->layer = m->cfg.layers;
    PAWL_TRY(pawl__step_begin(s, m->inv_freq, m->cfg.rotary_dim / 2));
    float *h = pawl__step_floats(s, s->m, hidden), *x = pawl__step_floats(s, s->m, hidden);
    float *y = pawl__step_floats(s, s->m, hidden);
    float *both = pawl__step_floats(s, s->m, 2 * hidden); /* embedding first, hidden second */
    if (!h || !x || !y || !both) return PAWL_EINTERNAL;
    PAWL_TRY(run_embed(s, m->draft_embed, &m->embed_table, f->ids, x));
    PAWL_TRY(pawl__norm_run(s, &m->draft_norm_embedding, x, hidden, both, 2 * hidden, "mtp.pre_fc_norm_embedding"));
    PAWL_TRY(pawl__norm_run(s, &m->draft_norm_hidden, f->hidden_in, hidden, both + hidden, 2 * hidden,
                            "mtp.pre_fc_norm_hidden"));
    PAWL_TRY(pawl__linear_run(s, &m->draft_fc, s->m, both, 2 * hidden, h, hidden, "mtp.fc"));
    PAWL_TRY(run_layer(s, &m->draft_layer, m->draft_add, hidden, h, x, y));
    PAWL_TRY(pawl__norm_run(s, &m->draft_norm, h, hidden, f->hidden, hidden, "mtp.norm"));
    pawl__step_probe(s, "mtp", f->hidden, hidden);
    return run_head(s, &m->draft_head, f, hidden);
}

static pawl_status commit(const pawl_net *net, pawl_step *s)
{
    const qwen3_5 *m = net->model;
    for (s->layer = 0; s->layer < m->cfg.layers; s->layer++)
        if (!m->layers[s->layer].full_attention) PAWL_TRY(pawl__gdn_commit(s, &m->layers[s->layer].gdn));
    return PAWL_OK;
}

const pawl_family pawl__family_qwen3_5 = {
    .model_types = types, .open = open_net, .forward = forward, .draft = draft, .commit = commit};
