/* config.json of the Qwen3.5 family: what is read, the defaults, and what is refused with which words. */
#include "base/json.h"
#include "check.h"
#include "store/config_qwen3_5.h"

static json_t *load(const char *path)
{
    json_t *j;
    pawl_err err;
    check_ok(pawl__json_load(path, 1 << 20, &j, &err), &err);
    return j;
}

static void read_file(const char *path, pawl_qwen35_config *c)
{
    json_t *j = load(path);
    pawl_err err;
    check_ok(pawl__qwen35_config_read(j, c, &err), &err);
    json_decref(j);
}

static void reads_flat_moe(void **state)
{
    (void)state;
    pawl_qwen35_config c;
    read_file("tests/models/tale-moe-bf16/config.json", &c);
    assert_string_equal(c.model_type, "qwen3_5_moe_text");
    assert_true(c.moe && !c.nested && c.tied && !c.gate_sigmoid);
    assert_int_equal(c.vocab_size, 4096);
    assert_int_equal(c.hidden_size, 256);
    assert_int_equal(c.layers, 8);
    assert_int_equal(c.full_layers, 2);
    for (int i = 0; i < 8; i++) assert_int_equal(c.full_attention[i], i % 4 == 3);
    assert_int_equal(c.q_heads, 4);
    assert_int_equal(c.kv_heads, 2);
    assert_int_equal(c.head_dim, 64);
    assert_int_equal(c.rotary_dim, 16);
    assert_true(c.rope_theta == 10000.0 && c.rms_eps == 1e-6);
    assert_int_equal(c.key_heads, 2);
    assert_int_equal(c.value_heads, 4);
    assert_int_equal(c.key_dim, 64);
    assert_int_equal(c.value_dim, 64);
    assert_int_equal(c.conv_width, 4);
    assert_int_equal(c.experts, 8);
    assert_int_equal(c.top_k, 2);
    assert_int_equal(c.moe_intermediate, 128);
    assert_int_equal(c.shared_intermediate, 128);
    assert_int_equal(c.intermediate_size, 0);
    assert_int_equal(c.mtp_layers, 1);
    assert_int_equal(c.max_positions, 4096);
    assert_int_equal(c.bos, -1);
    assert_int_equal(c.n_eos, 1);
    assert_int_equal(c.eos[0], 4091);
}

static void reads_nested_and_dense(void **state)
{
    (void)state;
    pawl_qwen35_config c;
    read_file("tests/models/tiny-qwen3_5_moe_vl/config.json", &c);
    assert_string_equal(c.model_type, "qwen3_5_moe");
    assert_true(c.moe && c.nested && !c.tied);
    assert_int_equal(c.rotary_dim, 16);
    assert_true(c.rope_theta == 1e7);
    assert_int_equal(c.bos, 1);
    read_file("tests/models/tiny-qwen3_5/config.json", &c);
    assert_true(!c.moe && c.intermediate_size > 0 && c.experts == 0);
}

/* The smallest config: everything else is a default. */
static const char *const least = "{\"model_type\":\"qwen3_5_text\",\"vocab_size\":100,\"hidden_size\":64,"
                                 "\"num_hidden_layers\":8,\"num_attention_heads\":4,\"num_key_value_heads\":2,"
                                 "\"intermediate_size\":128,\"max_position_embeddings\":512%s}";

static pawl_status read_with(const char *more, pawl_qwen35_config *c, pawl_err *err)
{
    char text[2000];
    json_t *j;
    snprintf(text, sizeof text, least, more);
    check_ok(pawl__json_parse(text, strlen(text), "config.json", &j, err), err);
    pawl_status s = pawl__qwen35_config_read(j, c, err);
    json_decref(j);
    return s;
}

static void defaults(void **state)
{
    (void)state;
    pawl_qwen35_config c;
    pawl_err err;
    check_ok(read_with("", &c, &err), &err);
    assert_int_equal(c.head_dim, 256);
    assert_int_equal(c.rotary_dim, 64);
    assert_true(c.rope_theta == 1e7 && c.rms_eps == 1e-6);
    assert_int_equal(c.key_heads, 16);
    assert_int_equal(c.value_heads, 32);
    assert_int_equal(c.key_dim, 128);
    assert_int_equal(c.value_dim, 128);
    assert_int_equal(c.full_layers, 2);
    assert_true(c.full_attention[3] && c.full_attention[7] && !c.full_attention[0]);
    assert_true(!c.tied && !c.gate_sigmoid && c.mtp_layers == 0 && c.n_eos == 0 && c.bos == -1);
    /* absent and null are the same; older files have flat rope keys and rope_scaling null */
    check_ok(read_with(",\"head_dim\":null,\"rope_theta\":5000000,\"partial_rotary_factor\":0.5,\"rope_scaling\":null",
                       &c, &err),
             &err);
    assert_true(c.rope_theta == 5e6 && c.rotary_dim == 128);
    /* inside counts more than beside */
    check_ok(
        read_with(",\"partial_rotary_factor\":0.5,\"rope_parameters\":{\"partial_rotary_factor\":0.125}", &c, &err),
        &err);
    assert_int_equal(c.rotary_dim, 32);
    check_ok(read_with(",\"full_attention_interval\":2", &c, &err), &err);
    assert_int_equal(c.full_layers, 4);
    check_ok(
        read_with(",\"eos_token_id\":[1,2,99],\"output_gate_type\":\"sigmoid\",\"tie_word_embeddings\":true", &c, &err),
        &err);
    assert_true(c.n_eos == 3 && c.eos[2] == 99 && c.gate_sigmoid && c.tied);
}

static void refuse(const char *more, pawl_status status, const char *words)
{
    pawl_qwen35_config c;
    pawl_err err;
    check_fails(read_with(more, &c, &err), status, &err, words);
}

static void refuses(void **state)
{
    (void)state;
    refuse(",\"hidden_act\":\"gelu\"", PAWL_EUNSUPPORTED, "hidden_act: found gelu, expected silu");
    refuse(",\"attention_bias\":true", PAWL_EUNSUPPORTED, "attention_bias: found true, expected false");
    refuse(",\"attn_output_gate\":false", PAWL_EUNSUPPORTED, "attn_output_gate: found false, expected true");
    refuse(",\"mtp_use_dedicated_embeddings\":true", PAWL_EUNSUPPORTED, "mtp_use_dedicated_embeddings");
    refuse(",\"norm_topk_prob\":false", PAWL_EUNSUPPORTED, "norm_topk_prob");
    refuse(",\"linear_conv_kernel_dim\":3", PAWL_EUNSUPPORTED, "linear_conv_kernel_dim: found 3, expected 4");
    refuse(",\"output_gate_type\":\"tanh\"", PAWL_EUNSUPPORTED, "output_gate_type: found tanh");
    refuse(",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4}", PAWL_EUNSUPPORTED,
           "rope_type: found yarn, expected default");
    refuse(",\"rope_parameters\":3", PAWL_EFORMAT, "rope_parameters: expected an object, found an integer");
    refuse(",\"head_dim\":\"x\"", PAWL_EFORMAT, "head_dim: expected an integer, found a string");
    refuse(",\"head_dim\":1.5", PAWL_EFORMAT, "head_dim: expected an integer, found a number");
    refuse(",\"head_dim\":0", PAWL_EFORMAT, "head_dim: expected 2 to 4096, found 0");
    refuse(",\"head_dim\":-64", PAWL_EFORMAT, "found -64");
    refuse(",\"head_dim\":9007199254740993", PAWL_EFORMAT, "found 9007199254740993");
    refuse(",\"partial_rotary_factor\":0", PAWL_EFORMAT, "partial_rotary_factor: 0 of head_dim 256 gives 0 dimensions");
    refuse(",\"partial_rotary_factor\":0.01", PAWL_EFORMAT, "partial_rotary_factor");
    refuse(",\"partial_rotary_factor\":2", PAWL_EFORMAT, "partial_rotary_factor: expected 0 to 1, found 2");
    refuse(",\"rms_norm_eps\":-1", PAWL_EFORMAT, "rms_norm_eps");
    refuse(",\"layer_types\":[\"full_attention\"]", PAWL_EFORMAT,
           "layer_types: found 1 entries, expected num_hidden_layers, 8");
    refuse(",\"layer_types\":{}", PAWL_EFORMAT, "layer_types: expected an array, found an object");
    refuse(",\"layer_types\":[1,2,3,4,5,6,7,8]", PAWL_EFORMAT, "layer_types: entry 0");
    refuse(",\"layer_types\":[\"full_attention\",\"sliding\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\"]", PAWL_EFORMAT,
           "entry 1: found sliding, expected linear_attention or full_attention");
    refuse(",\"full_attention_interval\":0", PAWL_EFORMAT, "full_attention_interval: expected 1 to");
    refuse(",\"linear_num_value_heads\":24", PAWL_EFORMAT,
           "linear_num_value_heads: found 24, expected a multiple of linear_num_key_heads, 16");
    refuse(",\"mtp_num_hidden_layers\":1000000", PAWL_EFORMAT, "mtp_num_hidden_layers: expected 0 to 8");
    refuse(",\"eos_token_id\":100", PAWL_EFORMAT, "eos_token_id");
    refuse(",\"eos_token_id\":[5,-1]", PAWL_EFORMAT, "eos_token_id: entry 1");
    refuse(",\"eos_token_id\":[1,1,1,1,1,1,1,1,1]", PAWL_EFORMAT, "eos_token_id: expected at most 8 ids, found 9");
    refuse(",\"text_config\":7", PAWL_EFORMAT, "text_config: expected an object");
    refuse(",\"text_config\":{}", PAWL_EFORMAT, "vocab_size: missing");
}

static void refuse_text(const char *text, pawl_status status, const char *words)
{
    json_t *j;
    pawl_err err;
    pawl_qwen35_config c;
    check_ok(pawl__json_parse(text, strlen(text), "config.json", &j, &err), &err);
    check_fails(pawl__qwen35_config_read(j, &c, &err), status, &err, words);
    json_decref(j);
}

static void refuses_sizes_and_types(void **state)
{
    (void)state;
    static const char *const keys[] = {"vocab_size",          "hidden_size",         "num_hidden_layers",
                                       "num_attention_heads", "num_key_value_heads", "max_position_embeddings"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        char text[1000], words[100];
        json_t *j;
        pawl_err err;
        pawl_qwen35_config c;
        snprintf(text, sizeof text, least, "");
        check_ok(pawl__json_parse(text, strlen(text), "config.json", &j, &err), &err);
        json_object_set_new(j, keys[i], json_integer(1ll << 40));
        snprintf(words, sizeof words, "%s: expected 1 to", keys[i]);
        check_fails(pawl__qwen35_config_read(j, &c, &err), PAWL_EFORMAT, &err, words);
        json_object_set_new(j, keys[i], json_integer(0));
        check_fails(pawl__qwen35_config_read(j, &c, &err), PAWL_EFORMAT, &err, "found 0");
        json_object_del(j, keys[i]);
        snprintf(words, sizeof words, "%s: missing", keys[i]);
        check_fails(pawl__qwen35_config_read(j, &c, &err), PAWL_EFORMAT, &err, words);
        json_decref(j);
    }
    refuse_text("{}", PAWL_EFORMAT, "model_type: missing");
    refuse_text("[]", PAWL_EFORMAT, "config.json: expected an object, found an array");
    refuse_text("{\"model_type\":5}", PAWL_EFORMAT, "model_type: expected a string");
    refuse_text("{\"model_type\":\"qwen4_exp\"}", PAWL_EUNSUPPORTED,
                "model_type: found \"qwen4_exp\", which this build does not know; it knows qwen3_5, qwen3_5_text, "
                "qwen3_5_moe, qwen3_5_moe_text");
    refuse_text("{\"model_type\":\"llama\"}", PAWL_EUNSUPPORTED, "found \"llama\"");
    refuse_text("{\"model_type\":\"a\\nb\"}", PAWL_EUNSUPPORTED, "found \"a?b\"");
    refuse_text("{\"model_type\":\"qwen3_5\",\"text_config\":{\"model_type\":\"qwen3_5_moe_text\"}}", PAWL_EFORMAT,
                "text_config.model_type: found \"qwen3_5_moe_text\" under model_type \"qwen3_5\"");
    /* MoE keys are required in a MoE config */
    char text[1000];
    snprintf(text, sizeof text, least, "");
    char *p = strstr(text, "qwen3_5_text");
    char moe[1100];
    snprintf(moe, sizeof moe, "%.*sqwen3_5_moe_text%s", (int)(p - text), text, p + strlen("qwen3_5_text"));
    refuse_text(moe, PAWL_EFORMAT, "num_experts: missing, expected 1 to");
    moe[strlen(moe) - 1] = 0;
    strcat(moe, ",\"num_experts\":4,\"num_experts_per_tok\":5}");
    refuse_text(moe, PAWL_EFORMAT, "num_experts_per_tok: expected 1 to 4, found 5");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_flat_moe), cmocka_unit_test(reads_nested_and_dense),  cmocka_unit_test(defaults),
        cmocka_unit_test(refuses),        cmocka_unit_test(refuses_sizes_and_types),
    };
    return cmocka_run_group_tests_name("store.config", tests, NULL, NULL);
}
