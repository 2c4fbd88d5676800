#include "store/config.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/scan.h"

pawl_status pawl__config_load(const char *dir, json_t **out, pawl_err *err)
{
    char path[4096];
    PAWL_TRY(pawl__path_join(path, sizeof path, dir, "config.json", err));
    PAWL_TRY(pawl__json_load(path, PAWL_CONFIG_MAX_BYTES, out, err));
    if (json_is_object(*out)) return PAWL_OK;
    pawl__fail(err, PAWL_EFORMAT, "%s: expected an object, found %s", path, pawl__json_kind(*out));
    json_decref(*out);
    *out = NULL;
    return PAWL_EFORMAT;
}

pawl_status pawl__config_text(const json_t *root, const json_t **text, pawl_err *err)
{
    const json_t *t = json_object_get(root, "text_config");
    *text = root;
    if (!t || json_is_null(t)) return PAWL_OK;
    if (!json_is_object(t))
        return pawl__fail(err, PAWL_EFORMAT, "text_config: expected an object, found %s", pawl__json_kind(t));
    *text = t;
    return PAWL_OK;
}

pawl_status pawl__config_model_type(const json_t *root, const char **type, pawl_err *err)
{
    *type = NULL;
    PAWL_TRY(pawl__json_get_str(root, "model_type", type, err));
    if (!*type) return pawl__fail(err, PAWL_EFORMAT, "model_type: missing");
    return PAWL_OK;
}

pawl_status pawl__config_check_type(const char *type, const char *const *known, size_t n, pawl_err *err)
{
    char list[300] = "", shown[PAWL_SHOWN];
    for (size_t i = 0, at = 0; i < n; i++) {
        if (!strcmp(type, known[i])) return PAWL_OK;
        if (at < sizeof list) at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "", known[i]);
    }
    return pawl__fail(err, PAWL_EUNSUPPORTED, "model_type: found \"%s\", which this build does not know; it knows %s",
                      pawl__scan_show(type, strlen(type), shown), list);
}

pawl_status pawl__config_need_int(const json_t *obj, const char *key, int64_t lo, int64_t hi, int64_t *out,
                                  pawl_err *err)
{
    const json_t *v = json_object_get(obj, key);
    if (!v || json_is_null(v))
        return pawl__fail(err, PAWL_EFORMAT, "%s: missing, expected %lld to %lld", key, (long long)lo, (long long)hi);
    return pawl__json_get_int(obj, key, lo, hi, out, err);
}

pawl_status pawl__config_get_ids(const json_t *obj, const char *key, int64_t vocab, int64_t out[PAWL_CONFIG_MAX_EOS],
                                 int *n, pawl_err *err)
{
    const json_t *v = json_object_get(obj, key);
    *n = 0;
    if (!v || json_is_null(v)) return PAWL_OK;
    if (!json_is_array(v)) {
        PAWL_TRY(pawl__json_get_int(obj, key, 0, vocab - 1, &out[0], err));
        *n = 1;
        return PAWL_OK;
    }
    if (json_array_size(v) > PAWL_CONFIG_MAX_EOS)
        return pawl__fail(err, PAWL_EFORMAT, "%s: expected at most %d ids, found %zu", key, PAWL_CONFIG_MAX_EOS,
                          json_array_size(v));
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *e = json_array_get(v, i);
        if (!json_is_integer(e) || json_integer_value(e) < 0 || json_integer_value(e) >= vocab)
            return pawl__fail(err, PAWL_EFORMAT, "%s: entry %zu: expected an id from 0 to %lld", key, i,
                              (long long)(vocab - 1));
        out[i] = json_integer_value(e);
    }
    *n = (int)json_array_size(v);
    return PAWL_OK;
}
