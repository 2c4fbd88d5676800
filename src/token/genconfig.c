/* Reading generation_config.json. */
#include "token/genconfig.h"

#include <limits.h>

#include "base/file.h"
#include "base/json.h"

enum { MAX_FILE = 1 << 20 };

static pawl_status get_id(const json_t *root, const char *key, int32_t *out, pawl_err *err)
{
    int64_t id = *out;
    PAWL_TRY(pawl__json_get_int(root, key, 0, INT32_MAX, &id, err));
    *out = (int32_t)id;
    return PAWL_OK;
}

/* One id or a list of them. */
static pawl_status get_eos(const json_t *root, pawl_genconfig *g, pawl_err *err)
{
    const json_t *v = json_object_get(root, "eos_token_id");
    if (!v || json_is_null(v)) return PAWL_OK;
    if (!json_is_array(v)) {
        PAWL_TRY(get_id(root, "eos_token_id", &g->eos[0], err));
        g->n_eos = 1;
        return PAWL_OK;
    }
    size_t n = json_array_size(v);
    if (n > PAWL_GENCONFIG_MAX_EOS)
        return pawl__fail(err, PAWL_EFORMAT, "eos_token_id: %zu ids, at most %d are allowed", n,
                          PAWL_GENCONFIG_MAX_EOS);
    for (size_t i = 0; i < n; i++) {
        const json_t *e = json_array_get(v, i);
        json_int_t id = json_integer_value(e);
        if (!json_is_integer(e) || id < 0 || id > INT32_MAX)
            return pawl__fail(err, PAWL_EFORMAT, "eos_token_id[%zu]: expected a token id", i);
        g->eos[g->n_eos++] = (int32_t)id;
    }
    return PAWL_OK;
}

static pawl_status read(const json_t *root, pawl_genconfig *g, pawl_err *err)
{
    if (!json_is_object(root))
        return pawl__fail(err, PAWL_EFORMAT, "expected an object, found %s", pawl__json_kind(root));
    PAWL_TRY(get_eos(root, g, err));
    PAWL_TRY(get_id(root, "bos_token_id", &g->bos, err));
    PAWL_TRY(get_id(root, "pad_token_id", &g->pad, err));
    PAWL_TRY(pawl__json_get_bool(root, "do_sample", &g->do_sample, err));
    PAWL_TRY(pawl__json_get_num(root, "temperature", 0, 1000, &g->temperature, err));
    PAWL_TRY(pawl__json_get_int(root, "top_k", 0, INT32_MAX, &g->top_k, err));
    PAWL_TRY(pawl__json_get_num(root, "top_p", 0, 1, &g->top_p, err));
    PAWL_TRY(pawl__json_get_num(root, "min_p", 0, 1, &g->min_p, err));
    PAWL_TRY(pawl__json_get_num(root, "repetition_penalty", 1e-3, 1e3, &g->repetition_penalty, err));
    PAWL_TRY(pawl__json_get_num(root, "presence_penalty", -100, 100, &g->presence_penalty, err));
    PAWL_TRY(pawl__json_get_num(root, "frequency_penalty", -100, 100, &g->frequency_penalty, err));
    return pawl__json_get_int(root, "max_new_tokens", 1, INT32_MAX, &g->max_new_tokens, err);
}

pawl_status pawl__genconfig_open(const char *dir, const int32_t *fallback, unsigned n_fallback, pawl_genconfig *out,
                                 pawl_err *err)
{
    char path[PATH_MAX];
    pawl_err own;
    if (!err) err = &own;
    *out = (pawl_genconfig){.bos = -1, .pad = -1, .temperature = 1, .top_p = 1, .repetition_penalty = 1};
    PAWL_TRY(pawl__path_join(path, sizeof path, dir, "generation_config.json", err));
    if (pawl__file_exists(path)) {
        json_t *root;
        PAWL_TRY(pawl__json_load(path, MAX_FILE, &root, err));
        pawl_status s = read(root, out, err);
        json_decref(root);
        if (s != PAWL_OK) return pawl__fail_in(err, "%s", path);
    }
    if (out->n_eos > 0) return PAWL_OK;
    if (n_fallback > PAWL_GENCONFIG_MAX_EOS)
        return pawl__fail(err, PAWL_EFORMAT, "%u end tokens, at most %d are allowed", n_fallback,
                          PAWL_GENCONFIG_MAX_EOS);
    for (unsigned i = 0; i < n_fallback; i++) out->eos[out->n_eos++] = fallback[i];
    return PAWL_OK;
}
