/* libs: pawl_store
 * A config.json from a stranger. Whatever is accepted is within the bounds that the model's arithmetic relies on. */
#include <stdlib.h>

#include "base/json.h"
#include "store/config_qwen3_5.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *j;
    pawl_err err;
    pawl_qwen35_config c;
    if (pawl__json_parse((const char *)data, size, "config.json", &j, &err) != PAWL_OK) return 0;
    if (pawl__qwen35_config_read(j, &c, &err) == PAWL_OK) {
        int64_t full = 0;
        for (int64_t i = 0; i < c.layers; i++) full += c.full_attention[i];
        if (c.layers < 1 || c.layers > PAWL_QWEN35_MAX_LAYERS || full != c.full_layers) abort();
        if (c.q_heads % c.kv_heads || c.value_heads % c.key_heads) abort();
        if (c.rotary_dim < 2 || c.rotary_dim % 2 || c.rotary_dim > c.head_dim) abort();
        if (c.moe && (c.top_k < 1 || c.top_k > c.experts)) abort();
        if (!c.moe && c.intermediate_size < 1) abort();
        if (c.n_eos < 0 || c.n_eos > PAWL_CONFIG_MAX_EOS) abort();
    }
    json_decref(j);
    return 0;
}
