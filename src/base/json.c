#include "base/json.h"

#include <errno.h>
#include <string.h>

#include "base/file.h"
#include <stdlib.h>

const char *pawl__json_kind(const json_t *v)
{
    if (!v) return "nothing";
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
        return "true";
    case JSON_FALSE:
        return "false";
    case JSON_NULL:
        return "null";
    }
    return "an unknown value";
}

typedef struct feed {
    const char *at, *end;
    int out_of_memory;
} feed;

/* Jansson 2.14 drops a byte of a long token when the token's buffer cannot grow, and goes on; a number that follows
 * clears errno. So it gets one byte at a time, and each time errno tells how the last one went. json_load_callback_t */
static size_t next_byte(void *buffer, size_t size, void *data)
{
    feed *f = data;
    f->out_of_memory |= errno == ENOMEM;
    if (f->out_of_memory) return (size_t)-1;
    if (f->at == f->end || size == 0) return 0;
    *(char *)buffer = *f->at++;
    return 1;
}

static pawl_status parse(const char *text, size_t n, size_t flags, const char *name, json_t **out, pawl_err *err)
{
    json_error_t e = {0};
    feed f = {.at = text, .end = text + n};
    errno = 0;
    *out = json_load_callback(next_byte, &f, flags | JSON_ALLOW_NUL, &e);
    f.out_of_memory |= errno == ENOMEM;
    if (*out && !f.out_of_memory) return PAWL_OK;
    json_decref(*out);
    *out = NULL;
    /* Where an allocation fails, the parser gives up without saying why, or calls the token that it had no room for bad
     * syntax. */
    enum json_error_code code = json_error_code(&e);
    if (f.out_of_memory || code == json_error_unknown || code == json_error_out_of_memory)
        return pawl__fail(err, PAWL_ENOMEM, "%s: out of memory while reading %zu bytes of JSON", name, n);
    return pawl__fail(err, PAWL_EFORMAT, "%s: not valid JSON at line %d, column %d: %s", name, e.line, e.column,
                      e.text);
}

pawl_status pawl__json_parse(const char *text, size_t n, const char *name, json_t **out, pawl_err *err)
{
    return parse(text, n, JSON_REJECT_DUPLICATES, name, out, err);
}

pawl_status pawl__json_parse_any(const char *text, size_t n, const char *name, json_t **out, pawl_err *err)
{
    return parse(text, n, JSON_DECODE_ANY, name, out, err);
}

pawl_status pawl__json_load(const char *path, size_t max, json_t **out, pawl_err *err)
{
    char *text;
    size_t n;
    *out = NULL;
    PAWL_TRY(pawl__file_read(path, max, &text, &n, err));
    pawl_status s = pawl__json_parse(text, n, path, out, err);
    free(text);
    return s;
}

static const json_t *lookup(const json_t *obj, const char *key)
{
    const json_t *v = json_object_get(obj, key);
    return v && !json_is_null(v) ? v : NULL;
}

pawl_status pawl__json_get_int(const json_t *obj, const char *key, int64_t lo, int64_t hi, int64_t *out, pawl_err *err)
{
    const json_t *v = lookup(obj, key);
    if (!v) return PAWL_OK;
    if (!json_is_integer(v))
        return pawl__fail(err, PAWL_EFORMAT, "%s: expected an integer, found %s", key, pawl__json_kind(v));
    int64_t i = json_integer_value(v);
    if (i < lo || i > hi)
        return pawl__fail(err, PAWL_EFORMAT, "%s: expected %lld to %lld, found %lld", key, (long long)lo, (long long)hi,
                          (long long)i);
    *out = i;
    return PAWL_OK;
}

pawl_status pawl__json_get_num(const json_t *obj, const char *key, double lo, double hi, double *out, pawl_err *err)
{
    const json_t *v = lookup(obj, key);
    if (!v) return PAWL_OK;
    if (!json_is_number(v))
        return pawl__fail(err, PAWL_EFORMAT, "%s: expected a number, found %s", key, pawl__json_kind(v));
    double d = json_number_value(v);
    if (!(d >= lo && d <= hi)) return pawl__fail(err, PAWL_EFORMAT, "%s: expected %g to %g, found %g", key, lo, hi, d);
    *out = d;
    return PAWL_OK;
}

pawl_status pawl__json_get_bool(const json_t *obj, const char *key, int *out, pawl_err *err)
{
    const json_t *v = lookup(obj, key);
    if (!v) return PAWL_OK;
    if (!json_is_boolean(v))
        return pawl__fail(err, PAWL_EFORMAT, "%s: expected true or false, found %s", key, pawl__json_kind(v));
    *out = json_is_true(v);
    return PAWL_OK;
}

pawl_status pawl__json_get_str(const json_t *obj, const char *key, const char **out, pawl_err *err)
{
    const json_t *v = lookup(obj, key);
    if (!v) return PAWL_OK;
    if (!json_is_string(v))
        return pawl__fail(err, PAWL_EFORMAT, "%s: expected a string, found %s", key, pawl__json_kind(v));
    *out = json_string_value(v);
    return PAWL_OK;
}
