/* Inventories of the checkpoints in the tree: every tensor that the config calls for is there, in the format that the
 * checkpoint is named after, and nothing is left over. */
#include "check.h"
#include "store/config_qwen3_5.h"
#include "store/weights.h"

typedef struct model {
    pawl_checkpoint *ck;
    pawl_qwen35_config c;
    const char *prefix;
    pawl_quant main, mtp; /* expected of the linears that quantised releases quantise */
} model;

static void vector(model *m, const char *name, int64_t n)
{
    float *f;
    pawl_err err;
    check_ok(pawl__weights_vector(m->ck, name, n, &f, &err), &err);
}

static void matrix(model *m, const char *base, const char *name, int64_t n, int64_t k, pawl_quant q)
{
    char full[256];
    pawl_wmat w;
    pawl_err err;
    snprintf(full, sizeof full, "%s%s", base, name);
    check_ok(pawl__weights_matrix(m->ck, full, n, k, &w, &err), &err);
    if (w.q != q) fail_msg("%s: found %s, expected %s", full, pawl__quant_word(w.q), pawl__quant_word(q));
}

static void mlp(model *m, const char *base, pawl_quant q)
{
    char name[256];
    const pawl_qwen35_config *c = &m->c;
    const int64_t h = c->hidden_size;
    pawl_err err;
    if (!c->moe) {
        matrix(m, base, "mlp.gate_proj", c->intermediate_size, h, q);
        matrix(m, base, "mlp.up_proj", c->intermediate_size, h, q);
        matrix(m, base, "mlp.down_proj", h, c->intermediate_size, q);
        return;
    }
    pawl_expert *e = calloc((size_t)c->experts, sizeof *e);
    snprintf(name, sizeof name, "%smlp.experts", base);
    check_ok(pawl__weights_experts(m->ck, name, c->experts, c->moe_intermediate, h, e, &err), &err);
    for (int64_t x = 0; x < c->experts; x++) {
        assert_int_equal(e[x].gate.q, q);
        assert_int_equal(e[x].up.q, q);
        assert_int_equal(e[x].down.q, q);
    }
    free(e);
    matrix(m, base, "mlp.gate", c->experts, h, PAWL_Q_BF16);
    matrix(m, base, "mlp.shared_expert_gate", 1, h, PAWL_Q_BF16);
    matrix(m, base, "mlp.shared_expert.gate_proj", c->shared_intermediate, h, q);
    matrix(m, base, "mlp.shared_expert.up_proj", c->shared_intermediate, h, q);
    matrix(m, base, "mlp.shared_expert.down_proj", h, c->shared_intermediate, q);
}

static void layer(model *m, const char *base, int full, pawl_quant q)
{
    char name[256];
    const pawl_qwen35_config *c = &m->c;
    const int64_t h = c->hidden_size, d = c->head_dim, kd = c->key_heads * c->key_dim,
                  vd = c->value_heads * c->value_dim;
    snprintf(name, sizeof name, "%sinput_layernorm.weight", base);
    vector(m, name, h);
    snprintf(name, sizeof name, "%spost_attention_layernorm.weight", base);
    vector(m, name, h);
    mlp(m, base, q);
    if (full) {
        matrix(m, base, "self_attn.q_proj", c->q_heads * 2 * d, h, q);
        matrix(m, base, "self_attn.k_proj", c->kv_heads * d, h, q);
        matrix(m, base, "self_attn.v_proj", c->kv_heads * d, h, q);
        matrix(m, base, "self_attn.o_proj", h, c->q_heads * d, q);
        snprintf(name, sizeof name, "%sself_attn.q_norm.weight", base);
        vector(m, name, d);
        snprintf(name, sizeof name, "%sself_attn.k_norm.weight", base);
        vector(m, name, d);
        return;
    }
    matrix(m, base, "linear_attn.in_proj_qkv", 2 * kd + vd, h, q);
    matrix(m, base, "linear_attn.in_proj_z", vd, h, q);
    matrix(m, base, "linear_attn.in_proj_a", c->value_heads, h, PAWL_Q_BF16);
    matrix(m, base, "linear_attn.in_proj_b", c->value_heads, h, PAWL_Q_BF16);
    matrix(m, base, "linear_attn.out_proj", h, vd, q);
    float *f;
    pawl_err err;
    const int64_t conv[3] = {2 * kd + vd, 1, c->conv_width};
    snprintf(name, sizeof name, "%slinear_attn.conv1d.weight", base);
    check_ok(pawl__weights_tensor(m->ck, name, 3, conv, &f, &err), &err);
    snprintf(name, sizeof name, "%slinear_attn.A_log", base);
    vector(m, name, c->value_heads);
    snprintf(name, sizeof name, "%slinear_attn.dt_bias", base);
    vector(m, name, c->value_heads);
    snprintf(name, sizeof name, "%slinear_attn.norm.weight", base);
    vector(m, name, c->value_dim);
}

static void read_all(const char *dir, const char *prefix, pawl_quant q, pawl_quant mtp, int has_mtp)
{
    model m = {.prefix = prefix, .main = q, .mtp = mtp};
    pawl_err err;
    char base[256];
    check_ok(pawl__checkpoint_open(dir, NULL, &m.ck, &err), &err);
    check_ok(pawl__qwen35_config_read(pawl__checkpoint_config(m.ck), &m.c, &err), &err);
    const int64_t h = m.c.hidden_size;
    matrix(&m, prefix, "embed_tokens", m.c.vocab_size, h, PAWL_Q_BF16);
    snprintf(base, sizeof base, "%snorm.weight", prefix);
    vector(&m, base, h);
    if (!m.c.tied) matrix(&m, "", "lm_head", m.c.vocab_size, h, PAWL_Q_BF16);
    for (int64_t i = 0; i < m.c.layers; i++) {
        snprintf(base, sizeof base, "%slayers.%lld.", prefix, (long long)i);
        layer(&m, base, m.c.full_attention[i], q);
    }
    assert_int_equal(m.c.mtp_layers, has_mtp);
    if (has_mtp) {
        matrix(&m, "", "mtp.fc", h, 2 * h, PAWL_Q_BF16);
        vector(&m, "mtp.norm.weight", h);
        vector(&m, "mtp.pre_fc_norm_embedding.weight", h);
        vector(&m, "mtp.pre_fc_norm_hidden.weight", h);
        layer(&m, "mtp.layers.0.", 1, mtp);
    }
    if (pawl__checkpoint_warn_unused(m.ck)) fail_msg("%s: %s", dir, pawl__checkpoint_warning(m.ck, 0));
    if (pawl__checkpoint_warning(m.ck, 0)) fail_msg("%s: %s", dir, pawl__checkpoint_warning(m.ck, 0));
    pawl__checkpoint_close(&m.ck);
}

static void bf16(void **state)
{
    (void)state;
    read_all("tests/models/tale-moe-bf16", "model.", PAWL_Q_BF16, PAWL_Q_BF16, 1);
}

static void fp8(void **state)
{
    (void)state;
    read_all("models/tale-moe-fp8", "model.", PAWL_Q_FP8BLK, PAWL_Q_BF16, 1);
}

static void nvfp4(void **state)
{
    (void)state;
    read_all("tests/models/tale-moe-nvfp4", "model.", PAWL_Q_NVFP4, PAWL_Q_BF16, 1);
}

static void tiny(void **state)
{
    (void)state;
    read_all("tests/models/tiny-qwen3_5", "model.", PAWL_Q_BF16, PAWL_Q_BF16, 0);
    read_all("tests/models/tiny-qwen3_5_moe", "model.", PAWL_Q_BF16, PAWL_Q_BF16, 0);
    read_all("tests/models/tiny-qwen3_5_moe_vl", "model.language_model.", PAWL_Q_BF16, PAWL_Q_BF16, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bf16), cmocka_unit_test(fp8), cmocka_unit_test(nvfp4),
                                       cmocka_unit_test(tiny)};
    return cmocka_run_group_tests_name("store.models", tests, NULL, NULL);
}
