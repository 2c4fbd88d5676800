/* Reading config.json, the parts that are the same for all architectures. Typed look-ups are in base/json.h. */
#ifndef PAWL_STORE_CONFIG_H
#define PAWL_STORE_CONFIG_H

#include <stdint.h>
#include <jansson.h>

#include "base/status.h"

enum { PAWL_CONFIG_MAX_BYTES = 4 << 20, PAWL_CONFIG_MAX_EOS = 8 };

/* Loads DIR/config.json: an object of at most PAWL_CONFIG_MAX_BYTES. The caller owns *out (json_decref). */
pawl_status pawl__config_load(const char *dir, json_t **out, pawl_err *err);

/* The object that holds the language model's keys: root.text_config when there is one, else root. */
pawl_status pawl__config_text(const json_t *root, const json_t **text, pawl_err *err);

/* root.model_type, borrowed. */
pawl_status pawl__config_model_type(const json_t *root, const char **type, pawl_err *err);
/* PAWL_EUNSUPPORTED unless type is one of the n known; the message lists them. */
pawl_status pawl__config_check_type(const char *type, const char *const *known, size_t n, pawl_err *err);

/* As pawl__json_get_int, but an absent key is an error. */
pawl_status pawl__config_need_int(const json_t *obj, const char *key, int64_t lo, int64_t hi, int64_t *out,
                                  pawl_err *err);
/* The key is an id, a list of at most PAWL_CONFIG_MAX_EOS ids, or absent (*n = 0). */
pawl_status pawl__config_get_ids(const json_t *obj, const char *key, int64_t vocab, int64_t out[PAWL_CONFIG_MAX_EOS],
                                 int *n, pawl_err *err);

#endif
