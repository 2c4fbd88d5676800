/* Keys, defaults and meanings: the published config.json files of Qwen3.5 and 3.6 and their configuration class in
 * transformers. Bounds are far above any release and low enough that no product of two sizes overflows. */
#include "store/config_qwen3_5.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"

enum {
    MAX_VOCAB = 1 << 24,
    MAX_WIDTH = 1 << 20, /* hidden and MLP sizes */
    MAX_HEADS = 4096,
    MAX_HEAD_DIM = 4096,
    MAX_EXPERTS = 1 << 16,
    MAX_MTP = 8
};

static const char *const known_types[] = {"qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"};
enum { N_KNOWN = sizeof known_types / sizeof known_types[0] };

static pawl_status unsupported(pawl_err *err, const char *key, const char *found, const char *expected)
{
    return pawl__fail(err, PAWL_EUNSUPPORTED, "%s: found %.80s, expected %s", key, found, expected);
}

static pawl_status read_types(const json_t *root, const json_t *text, pawl_qwen35_config *c, pawl_err *err)
{
    const char *type, *inner = NULL;
    PAWL_TRY(pawl__config_model_type(root, &type, err));
    PAWL_TRY(pawl__config_check_type(type, known_types, N_KNOWN, err));
    snprintf(c->model_type, sizeof c->model_type, "%s", type);
    c->moe = strstr(type, "_moe") != NULL;
    c->nested = text != root;
    if (!c->nested) return PAWL_OK;
    PAWL_TRY(pawl__json_get_str(text, "model_type", &inner, err));
    if (inner && (strstr(inner, "_moe") != NULL) != c->moe)
        return pawl__fail(err, PAWL_EFORMAT, "text_config.model_type: found \"%.80s\" under model_type \"%s\"", inner,
                          type);
    if (inner) PAWL_TRY(pawl__config_check_type(inner, known_types, N_KNOWN, err));
    return PAWL_OK;
}

static pawl_status check_multiple(const char *a, int64_t x, const char *b, int64_t y, pawl_err *err)
{
    if (x % y == 0) return PAWL_OK;
    return pawl__fail(err, PAWL_EFORMAT, "%s: found %lld, expected a multiple of %s, %lld", a, (long long)x, b,
                      (long long)y);
}

static pawl_status read_sizes(const json_t *t, pawl_qwen35_config *c, pawl_err *err)
{
    PAWL_TRY(pawl__config_need_int(t, "vocab_size", 1, MAX_VOCAB, &c->vocab_size, err));
    PAWL_TRY(pawl__config_need_int(t, "hidden_size", 1, MAX_WIDTH, &c->hidden_size, err));
    PAWL_TRY(pawl__config_need_int(t, "num_hidden_layers", 1, PAWL_QWEN35_MAX_LAYERS, &c->layers, err));
    PAWL_TRY(pawl__config_need_int(t, "num_attention_heads", 1, MAX_HEADS, &c->q_heads, err));
    PAWL_TRY(pawl__config_need_int(t, "num_key_value_heads", 1, MAX_HEADS, &c->kv_heads, err));
    PAWL_TRY(check_multiple("num_attention_heads", c->q_heads, "num_key_value_heads", c->kv_heads, err));
    PAWL_TRY(pawl__config_need_int(t, "max_position_embeddings", 1, 1 << 27, &c->max_positions, err));
    c->head_dim = 256;
    PAWL_TRY(pawl__json_get_int(t, "head_dim", 2, MAX_HEAD_DIM, &c->head_dim, err));
    PAWL_TRY(pawl__json_get_int(t, "intermediate_size", 1, MAX_WIDTH, &c->intermediate_size, err));
    if (!c->moe && !c->intermediate_size)
        PAWL_TRY(pawl__config_need_int(t, "intermediate_size", 1, MAX_WIDTH, &c->intermediate_size, err));
    c->rms_eps = 1e-6;
    return pawl__json_get_num(t, "rms_norm_eps", 0, 1, &c->rms_eps, err);
}

static pawl_status read_gdn(const json_t *t, pawl_qwen35_config *c, pawl_err *err)
{
    const char *gate = "silu";
    c->conv_width = 4;
    c->key_dim = c->value_dim = 128;
    c->key_heads = 16;
    c->value_heads = 32;
    PAWL_TRY(pawl__json_get_int(t, "linear_conv_kernel_dim", 1, 64, &c->conv_width, err));
    if (c->conv_width != 4) {
        char found[32];
        snprintf(found, sizeof found, "%lld", (long long)c->conv_width);
        return unsupported(err, "linear_conv_kernel_dim", found, "4");
    }
    PAWL_TRY(pawl__json_get_int(t, "linear_key_head_dim", 1, MAX_HEAD_DIM, &c->key_dim, err));
    PAWL_TRY(pawl__json_get_int(t, "linear_value_head_dim", 1, MAX_HEAD_DIM, &c->value_dim, err));
    PAWL_TRY(pawl__json_get_int(t, "linear_num_key_heads", 1, MAX_HEADS, &c->key_heads, err));
    PAWL_TRY(pawl__json_get_int(t, "linear_num_value_heads", 1, MAX_HEADS, &c->value_heads, err));
    PAWL_TRY(check_multiple("linear_num_value_heads", c->value_heads, "linear_num_key_heads", c->key_heads, err));
    PAWL_TRY(pawl__json_get_str(t, "output_gate_type", &gate, err));
    c->gate_sigmoid = !strcmp(gate, "sigmoid");
    if (c->gate_sigmoid || !strcmp(gate, "silu") || !strcmp(gate, "swish")) return PAWL_OK;
    return unsupported(err, "output_gate_type", gate, "silu, swish or sigmoid");
}

/* The layers' kinds, from the list or, without one, from the interval. */
static pawl_status read_layers(const json_t *t, pawl_qwen35_config *c, pawl_err *err)
{
    int64_t interval = 4;
    PAWL_TRY(pawl__json_get_int(t, "full_attention_interval", 1, PAWL_QWEN35_MAX_LAYERS, &interval, err));
    const json_t *types = json_object_get(t, "layer_types");
    int listed = types && !json_is_null(types);
    if (listed && !json_is_array(types))
        return pawl__fail(err, PAWL_EFORMAT, "layer_types: expected an array, found %s", pawl__json_kind(types));
    if (listed && json_array_size(types) != (size_t)c->layers)
        return pawl__fail(err, PAWL_EFORMAT, "layer_types: found %zu entries, expected num_hidden_layers, %lld",
                          json_array_size(types), (long long)c->layers);
    for (int64_t i = 0; i < c->layers; i++) {
        int full = (i + 1) % interval == 0;
        if (listed) {
            const char *kind = json_string_value(json_array_get(types, (size_t)i));
            if (!kind || (strcmp(kind, "full_attention") && strcmp(kind, "linear_attention")))
                return pawl__fail(err, PAWL_EFORMAT,
                                  "layer_types: entry %lld: found %.80s, expected linear_attention or full_attention",
                                  (long long)i, kind ? kind : "no string");
            full = !strcmp(kind, "full_attention");
        }
        c->full_attention[i] = (uint8_t)full;
        c->full_layers += full;
    }
    return PAWL_OK;
}

static pawl_status read_rope(const json_t *t, pawl_qwen35_config *c, pawl_err *err)
{
    static const char *const inside[] = {"rope_parameters", "rope_scaling"};
    double partial = 0.25;
    const char *type = "default";
    c->rope_theta = 1e7;
    PAWL_TRY(pawl__json_get_num(t, "rope_theta", 1, 1e12, &c->rope_theta, err));
    PAWL_TRY(pawl__json_get_num(t, "partial_rotary_factor", 0, 1, &partial, err));
    for (int i = 0; i < 2; i++) { /* what stands inside counts more than what stands beside it */
        const json_t *o = json_object_get(t, inside[i]);
        if (!o || json_is_null(o)) continue;
        if (!json_is_object(o))
            return pawl__fail(err, PAWL_EFORMAT, "%s: expected an object, found %s", inside[i], pawl__json_kind(o));
        PAWL_TRY(pawl__json_get_num(o, "rope_theta", 1, 1e12, &c->rope_theta, err));
        PAWL_TRY(pawl__json_get_num(o, "partial_rotary_factor", 0, 1, &partial, err));
        PAWL_TRY(pawl__json_get_str(o, "type", &type, err));
        PAWL_TRY(pawl__json_get_str(o, "rope_type", &type, err));
        if (strcmp(type, "default") && strcmp(type, "mrope")) return unsupported(err, "rope_type", type, "default");
    }
    double r = (double)c->head_dim * partial;
    c->rotary_dim = (int64_t)r;
    if ((double)c->rotary_dim == r && c->rotary_dim >= 2 && c->rotary_dim % 2 == 0) return PAWL_OK;
    return pawl__fail(err, PAWL_EFORMAT,
                      "partial_rotary_factor: %g of head_dim %lld gives %g dimensions, expected an even number from 2",
                      partial, (long long)c->head_dim, r);
}

static pawl_status read_moe(const json_t *t, pawl_qwen35_config *c, pawl_err *err)
{
    if (!c->moe) return PAWL_OK;
    PAWL_TRY(pawl__config_need_int(t, "num_experts", 1, MAX_EXPERTS, &c->experts, err));
    PAWL_TRY(pawl__config_need_int(t, "num_experts_per_tok", 1, c->experts, &c->top_k, err));
    PAWL_TRY(pawl__config_need_int(t, "moe_intermediate_size", 1, MAX_WIDTH, &c->moe_intermediate, err));
    PAWL_TRY(pawl__config_need_int(t, "shared_expert_intermediate_size", 1, MAX_WIDTH, &c->shared_intermediate, err));
    return PAWL_OK;
}

/* Switches that published releases leave at one value. */
static pawl_status check_switches(const json_t *t, pawl_err *err)
{
    const char *act = "silu", *state = "float32";
    int bias = 0, gated = 1, dedicated = 0, norm = 1;
    PAWL_TRY(pawl__json_get_str(t, "hidden_act", &act, err));
    if (strcmp(act, "silu")) return unsupported(err, "hidden_act", act, "silu");
    PAWL_TRY(pawl__json_get_bool(t, "attention_bias", &bias, err));
    if (bias) return unsupported(err, "attention_bias", "true", "false");
    PAWL_TRY(pawl__json_get_bool(t, "attn_output_gate", &gated, err));
    if (!gated) return unsupported(err, "attn_output_gate", "false", "true");
    PAWL_TRY(pawl__json_get_bool(t, "mtp_use_dedicated_embeddings", &dedicated, err));
    if (dedicated) return unsupported(err, "mtp_use_dedicated_embeddings", "true", "false");
    PAWL_TRY(pawl__json_get_bool(t, "norm_topk_prob", &norm, err));
    if (!norm) return unsupported(err, "norm_topk_prob", "false", "true");
    /* a hint for storage only: the state is kept in f32, which holds either */
    return pawl__json_get_str(t, "mamba_ssm_dtype", &state, err);
}

pawl_status pawl__qwen35_config_read(const json_t *root, pawl_qwen35_config *c, pawl_err *err)
{
    const json_t *t;
    int n_bos;
    int64_t bos[PAWL_CONFIG_MAX_EOS];
    memset(c, 0, sizeof *c);
    if (!json_is_object(root))
        return pawl__fail(err, PAWL_EFORMAT, "config.json: expected an object, found %s", pawl__json_kind(root));
    PAWL_TRY(pawl__config_text(root, &t, err));
    PAWL_TRY(read_types(root, t, c, err));
    PAWL_TRY(check_switches(t, err));
    PAWL_TRY(read_sizes(t, c, err));
    PAWL_TRY(read_gdn(t, c, err));
    PAWL_TRY(read_layers(t, c, err));
    PAWL_TRY(read_rope(t, c, err));
    PAWL_TRY(read_moe(t, c, err));
    PAWL_TRY(pawl__json_get_int(t, "mtp_num_hidden_layers", 0, MAX_MTP, &c->mtp_layers, err));
    PAWL_TRY(pawl__json_get_bool(root, "tie_word_embeddings", &c->tied, err));
    if (!json_object_get(root, "tie_word_embeddings"))
        PAWL_TRY(pawl__json_get_bool(t, "tie_word_embeddings", &c->tied, err));
    PAWL_TRY(pawl__config_get_ids(t, "eos_token_id", c->vocab_size, c->eos, &c->n_eos, err));
    PAWL_TRY(pawl__config_get_ids(t, "bos_token_id", c->vocab_size, bos, &n_bos, err));
    c->bos = n_bos ? bos[0] : -1;
    return PAWL_OK;
}
