/* config.json of the Qwen3.5 family, dense and MoE: flat text form and multimodal wrapper. */
#ifndef PAWL_STORE_CONFIG_QWEN3_5_H
#define PAWL_STORE_CONFIG_QWEN3_5_H

#include <stdint.h>

#include "store/config.h"

enum { PAWL_QWEN35_MAX_LAYERS = 512 };

typedef struct pawl_qwen35_config {
    char model_type[32]; /* the root's: qwen3_5, qwen3_5_moe, qwen3_5_text, qwen3_5_moe_text */
    int moe;             /* the MoE keys are present and checked; a layer is MoE when its mlp.gate.weight exists */
    int nested;          /* the keys came from text_config */

    int64_t vocab_size, hidden_size, layers, max_positions;
    int64_t q_heads, kv_heads, head_dim; /* q_heads is a multiple of kv_heads */
    int64_t intermediate_size;           /* dense MLP; 0 when absent (MoE only) */
    double rms_eps;

    uint8_t full_attention[PAWL_QWEN35_MAX_LAYERS]; /* 1: attention, 0: Gated DeltaNet */
    int64_t full_layers;                            /* how many are 1 */

    /* Gated DeltaNet: value_heads is a multiple of key_heads */
    int64_t conv_width, key_heads, value_heads, key_dim, value_dim;
    int gate_sigmoid; /* output_gate_type is "sigmoid" instead of silu */

    double rope_theta;
    int64_t rotary_dim; /* even, 2 .. head_dim */

    /* MoE; 0 in a dense config. The router always renormalises. */
    int64_t experts, top_k, moe_intermediate, shared_intermediate;

    int64_t mtp_layers; /* 0 .. 8 */
    int tied;           /* tie_word_embeddings, at the root or in text_config */

    int64_t bos; /* -1 when absent */
    int64_t eos[PAWL_CONFIG_MAX_EOS];
    int n_eos;
} pawl_qwen35_config;

/* Reads and checks everything. An unknown model_type, hidden_act other than silu, biases, dedicated MTP embeddings, an
 * ungated attention and rope scaling are PAWL_EUNSUPPORTED; absurd sizes and wrong types are PAWL_EFORMAT. The message
 * names the key, what was found and what was expected. */
pawl_status pawl__qwen35_config_read(const json_t *root, pawl_qwen35_config *out, pawl_err *err);

#endif
