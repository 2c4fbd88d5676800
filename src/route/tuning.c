/* Reading the tuning file. Nothing in it is trusted: a query must parse and be of any row count, a kernel must exist and be
 * of the query's op, spans must rise. */
#include "route/tuning.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/status.h"

void pawl__tuning_free(pawl_tuning *t)
{
    free(t->rows);
    memset(t, 0, sizeof *t);
}

static pawl_status foreign(const char *what, const char *found, const char *here, pawl_err *err)
{
    return pawl__fail(err, PAWL_EUNSUPPORTED, "made with %s \"%.100s\", this is \"%.100s\"", what, found, here);
}

static pawl_status check_fingerprint(const json_t *root, const pawl_caps *caps, pawl_err *err)
{
    const json_t *f = json_object_get(root, "fingerprint");
    if (!json_is_object(f)) {
        return pawl__fail(err, PAWL_EFORMAT, "fingerprint is %s; expected an object", pawl__json_kind(f));
    }
    const char *text = "", *processor = "", *version = "";
    int64_t driver = 0;
    PAWL_TRY(pawl__json_get_str(f, "caps", &text, err));
    PAWL_TRY(pawl__json_get_str(f, "processor", &processor, err));
    PAWL_TRY(pawl__json_get_str(f, "version", &version, err));
    PAWL_TRY(pawl__json_get_int(f, "driver", 0, INT32_MAX, &driver, err));
    if (strcmp(version, PAWL_VERSION) != 0) return foreign("pawl", version, PAWL_VERSION, err);
    if (strcmp(processor, caps->name) != 0) return foreign("processor", processor, caps->name, err);
    if (driver != caps->driver) {
        return pawl__fail(err, PAWL_EUNSUPPORTED, "made with driver %lld, this is %d", (long long)driver, caps->driver);
    }
    pawl_buf here = {0};
    pawl__caps_print(caps, &here);
    pawl_status s = PAWL_OK;
    if (!here.data || strcmp(text, here.data) != 0) s = foreign("caps", text, here.data ? here.data : "?", err);
    pawl__buf_free(&here);
    return s;
}

static pawl_status read_span(const json_t *o, const pawl_query *q, const pawl_kernel_table *table, pawl_threshold *row,
                             pawl_err *err)
{
    if (!json_is_object(o)) {
        return pawl__fail(err, PAWL_EFORMAT, "a span is %s; expected an object", pawl__json_kind(o));
    }
    const char *id = NULL;
    int64_t from = 0;
    double ns = 0;
    PAWL_TRY(pawl__json_get_str(o, "kernel", &id, err));
    PAWL_TRY(pawl__json_get_int(o, "from", 1, INT32_MAX, &from, err));
    PAWL_TRY(pawl__json_get_num(o, "ns", 0, 1e18, &ns, err));
    if (!id || from == 0) return pawl__fail(err, PAWL_EFORMAT, "a span lacks %s", id ? "from" : "kernel");
    const pawl_kernel *k = pawl__kernel_find(table, id, strlen(id));
    if (!k || k->op != q->op) {
        return pawl__fail(err, PAWL_EUNSUPPORTED, "unknown kernel \"%.80s\" for op %s", id, pawl__op_word(q->op));
    }
    *row = (pawl_threshold){*q, k, from, 0};
    return PAWL_OK;
}

static pawl_status read_query(const json_t *o, pawl_query *q, pawl_err *err)
{
    if (!json_is_object(o)) {
        return pawl__fail(err, PAWL_EFORMAT, "an entry is %s; expected an object", pawl__json_kind(o));
    }
    const char *text = NULL;
    PAWL_TRY(pawl__json_get_str(o, "query", &text, err));
    if (!text) return pawl__fail(err, PAWL_EFORMAT, "an entry lacks query");
    pawl_status s = pawl__query_parse(text, strlen(text), q, err);
    if (s == PAWL_OK) s = pawl__query_check(q, err);
    if (s == PAWL_OK && q->m != PAWL_M_ANY) s = pawl__fail(err, PAWL_EINVAL, "%.100s: expected m=*", text);
    return s == PAWL_EINVAL ? PAWL_EFORMAT : s;
}

static pawl_status read_entry(const json_t *o, const pawl_kernel_table *table, pawl_tuning *t, pawl_err *err)
{
    pawl_query q;
    PAWL_TRY(read_query(o, &q, err));
    for (size_t i = 0; i < t->thresholds.n; i++) {
        if (pawl__query_equal(&t->rows[i].query, &q))
            return pawl__fail(err, PAWL_EFORMAT, "a query stands there twice");
    }
    const json_t *spans = json_object_get(o, "spans");
    size_t n = json_array_size(spans), first = t->thresholds.n;
    if (n == 0 || n > 16) return pawl__fail(err, PAWL_EFORMAT, "an entry has %zu spans; expected 1 to 16", n);
    pawl_threshold *more = realloc(t->rows, (first + n) * sizeof *more);
    if (!more) return pawl__fail(err, PAWL_ENOMEM, "no memory for a tuning file");
    t->rows = more;
    for (size_t i = 0; i < n; i++) {
        pawl_threshold *row = &more[first + i];
        PAWL_TRY(read_span(json_array_get(spans, i), &q, table, row, err));
        if (i > 0 && row->m_min <= row[-1].m_min) return pawl__fail(err, PAWL_EFORMAT, "spans do not rise");
        if (i > 0) row[-1].m_max = row->m_min - 1;
    }
    t->thresholds.n += n;
    t->thresholds.rows = t->rows;
    return PAWL_OK;
}

static pawl_status read_root(const json_t *root, const pawl_kernel_table *table, const pawl_caps *caps, pawl_tuning *t,
                             pawl_err *err)
{
    if (!json_is_object(root)) return pawl__fail(err, PAWL_EFORMAT, "is %s; expected an object", pawl__json_kind(root));
    const char *schema = "";
    PAWL_TRY(pawl__json_get_str(root, "schema", &schema, err));
    if (strcmp(schema, "pawl.tune/1") != 0) {
        return pawl__fail(err, PAWL_EFORMAT, "schema is \"%.40s\"; expected \"pawl.tune/1\"", schema);
    }
    PAWL_TRY(check_fingerprint(root, caps, err));
    const json_t *entries = json_object_get(root, "entries");
    if (!json_is_array(entries) || json_array_size(entries) > PAWL_TUNING_MAX_ENTRIES) {
        return pawl__fail(err, PAWL_EFORMAT, "entries is %s; expected an array of at most %d", pawl__json_kind(entries),
                          PAWL_TUNING_MAX_ENTRIES);
    }
    for (size_t i = 0; i < json_array_size(entries); i++) {
        PAWL_TRY(read_entry(json_array_get(entries, i), table, t, err));
    }
    return PAWL_OK;
}

pawl_status pawl__tuning_parse(const char *text, size_t n, const char *name, const pawl_kernel_table *table,
                               const pawl_caps *caps, pawl_tuning *out, pawl_err *err)
{
    memset(out, 0, sizeof *out);
    if (n > PAWL_TUNING_MAX_BYTES) {
        return pawl__fail(err, PAWL_EFORMAT, "%s: %zu bytes; expected at most %d", name, n, PAWL_TUNING_MAX_BYTES);
    }
    json_t *root;
    PAWL_TRY(pawl__json_parse(text, n, name, &root, err));
    pawl_status s = read_root(root, table, caps, out, err);
    json_decref(root);
    if (s == PAWL_OK) return s;
    pawl__tuning_free(out);
    if (err) pawl__fail_in(err, "%s", name);
    return s;
}

void pawl__tuning_load(const char *path, const pawl_kernel_table *table, const pawl_caps *caps, pawl_tuning *out)
{
    memset(out, 0, sizeof *out);
    if (!pawl__file_exists(path)) return;
    pawl_err err;
    char *text;
    size_t n;
    pawl_status s = pawl__file_read(path, PAWL_TUNING_MAX_BYTES, &text, &n, &err);
    if (s == PAWL_OK) {
        s = pawl__tuning_parse(text, n, path, table, caps, out, &err);
        free(text);
    }
    if (s != PAWL_OK) pawl__log_once(PAWL_LOG_WARN, "route", "tuning file ignored: %s", err.text);
}

/* The fingerprint in a file's name only has to tell machines apart; the file itself holds it in full. */
static uint64_t fingerprint(const pawl_caps *caps)
{
    pawl_buf b = {0};
    pawl__caps_print(caps, &b);
    pawl__buf_printf(&b, "|%s|%d|%s", caps->name, caps->driver, PAWL_VERSION);
    uint64_t h = b.len;
    for (size_t i = 0; i < b.len; i++) h = pawl__mix64(h ^ (unsigned char)b.data[i]);
    pawl__buf_free(&b);
    return h;
}

void pawl__tuning_path(const pawl_caps *caps, pawl_buf *out)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && *cache) {
        pawl__buf_puts(out, cache);
    } else if (home && *home) {
        pawl__buf_printf(out, "%s/.cache", home);
    } else {
        return;
    }
    pawl__buf_printf(out, "/pawl/tune-%016llx.json", (unsigned long long)fingerprint(caps));
}
