/* Reading JSON files from strangers, on top of Jansson: size-bounded loading and typed look-ups whose errors name the
 * key, what was found and what was expected. Trees are owned by the caller (json_decref). */
#ifndef PAWL_BASE_JSON_H
#define PAWL_BASE_JSON_H

#include <stddef.h>
#include <stdint.h>
#include <jansson.h>

#include "base/status.h"

/* Parses n bytes of text; duplicate keys are refused. name is used in messages only. On success *out is owned by the
 * caller. */
pawl_status pawl__json_parse(const char *text, size_t n, const char *name, json_t **out, pawl_err *err);
/* The same for any value, not only an object or array, and duplicate keys keep their last value, as in Python's json. */
pawl_status pawl__json_parse_any(const char *text, size_t n, const char *name, json_t **out, pawl_err *err);
/* Reads and parses a file of at most max bytes. PAWL_EIO when it cannot be read (ENOENT included), else PAWL_EFORMAT. */
pawl_status pawl__json_load(const char *path, size_t max, json_t **out, pawl_err *err);

/* Look-ups in an object. An absent key leaves *out as it was and is PAWL_OK; a key that is null counts as absent.
 * A wrong type or a value outside [lo, hi] is PAWL_EFORMAT. */
pawl_status pawl__json_get_int(const json_t *obj, const char *key, int64_t lo, int64_t hi, int64_t *out, pawl_err *err);
pawl_status pawl__json_get_num(const json_t *obj, const char *key, double lo, double hi, double *out, pawl_err *err);
pawl_status pawl__json_get_bool(const json_t *obj, const char *key, int *out, pawl_err *err);
/* Borrowed from the tree. */
pawl_status pawl__json_get_str(const json_t *obj, const char *key, const char **out, pawl_err *err);

/* "null", "a string", "an object", ... for messages. */
const char *pawl__json_kind(const json_t *v);

#endif
