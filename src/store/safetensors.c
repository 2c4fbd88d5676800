#include "store/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "store/names.h"
#include "base/scan.h"

struct pawl_safetensors {
    pawl_map map; /* empty when the bytes are the caller's */
    char *path;
    pawl_tensor *tensor; /* in the order of their data */
    size_t count, cap;
    char *text; /* names and unknown types, each terminated */
    size_t text_used;
    pawl_names names;
};

/* What one entry of the header says, before it is placed. */
typedef struct entry {
    int64_t begin, end;
    int has_dtype, has_shape, has_offsets;
} entry;

static pawl_status fail_tensor(const pawl_safetensors *f, const pawl_tensor *t, pawl_err *err, const char *what)
{
    char shown[PAWL_SHOWN];
    return pawl__fail(err, PAWL_EFORMAT, "%s: tensor %s: %s", f->path, pawl__scan_show(t->name, t->name_len, shown),
                      what);
}

/* One slot more in f->tensor, zeroed. */
static pawl_tensor *add_tensor(pawl_safetensors *f)
{
    if (f->count == f->cap) {
        size_t cap = f->cap ? f->cap * 2 : 64;
        pawl_tensor *t = realloc(f->tensor, cap * sizeof *t);
        if (!t) return NULL;
        f->tensor = t;
        f->cap = cap;
    }
    pawl_tensor *t = &f->tensor[f->count++];
    memset(t, 0, sizeof *t);
    return t;
}

/* f->text has room for every string of the header: a JSON string takes its bytes and two quotes. */
static const char *keep_text(pawl_safetensors *f, const char *s, size_t n)
{
    char *p = f->text + f->text_used;
    memcpy(p, s, n);
    p[n] = 0;
    f->text_used += n + 1;
    return p;
}

static pawl_status read_dtype(pawl_safetensors *f, pawl_scan *s, pawl_tensor *t, pawl_err *err)
{
    char word[33];
    size_t n;
    PAWL_TRY(pawl__scan_string(s, word, sizeof word, &n, err));
    t->dtype = (uint8_t)pawl__dtype_parse(word, n);
    if (t->dtype == PAWL_DTYPE_COUNT) {
        char shown[PAWL_SHOWN];
        pawl__scan_show(word, n, shown);
        t->unknown = keep_text(f, shown, strlen(shown));
    }
    return PAWL_OK;
}

static pawl_status read_shape(pawl_safetensors *f, pawl_scan *s, pawl_tensor *t, pawl_err *err)
{
    PAWL_TRY(pawl__scan_expect(s, '[', err));
    if (pawl__scan_take(s, ']')) return PAWL_OK;
    for (int more = 1; more;) {
        if (t->rank == PAWL_ST_MAX_RANK) return fail_tensor(f, t, err, "shape: expected at most 8 dimensions");
        PAWL_TRY(pawl__scan_integer(s, &t->shape[t->rank], err));
        t->rank++;
        PAWL_TRY(pawl__scan_next(s, ']', &more, err));
    }
    return PAWL_OK;
}

static pawl_status read_offsets(pawl_scan *s, entry *e, pawl_err *err)
{
    PAWL_TRY(pawl__scan_expect(s, '[', err));
    PAWL_TRY(pawl__scan_integer(s, &e->begin, err));
    PAWL_TRY(pawl__scan_expect(s, ',', err));
    PAWL_TRY(pawl__scan_integer(s, &e->end, err));
    return pawl__scan_expect(s, ']', err);
}

/* Bytes from begin to end must be what dtype and shape take, inside the data. */
static pawl_status check_size(const pawl_safetensors *f, const pawl_tensor *t, const entry *e, size_t data,
                              pawl_err *err)
{
    char what[160], shown[PAWL_TENSOR_TEXT];
    if (e->begin > e->end || (uint64_t)e->end > data) {
        snprintf(what, sizeof what, "data_offsets [%lld, %lld] out of range, expected begin <= end <= %zu",
                 (long long)e->begin, (long long)e->end, data);
        return fail_tensor(f, t, err, what);
    }
    int64_t n = 1, bits;
    for (int i = 0; i < t->rank; i++)
        if (__builtin_mul_overflow(n, t->shape[i], &n)) return fail_tensor(f, t, err, "shape: its product overflows");
    if (t->unknown) return PAWL_OK;
    if (__builtin_mul_overflow(n, (int64_t)pawl__dtype_bits(t->dtype), &bits))
        return fail_tensor(f, t, err, "shape: its size in bits overflows");
    if (bits % 8) return fail_tensor(f, t, err, "shape: not a whole number of bytes");
    if (bits / 8 == e->end - e->begin) return PAWL_OK;
    snprintf(what, sizeof what, "%s takes %lld bytes, found data_offsets of %lld bytes", pawl__tensor_text(t, shown),
             (long long)(bits / 8), (long long)(e->end - e->begin));
    return fail_tensor(f, t, err, what);
}

/* s is after the name. data: the first byte after the header, size bytes. */
static pawl_status read_tensor(pawl_safetensors *f, pawl_scan *s, pawl_tensor *t, const unsigned char *data,
                               size_t size, pawl_err *err)
{
    entry e = {0};
    PAWL_TRY(pawl__scan_expect(s, '{', err));
    for (int more = !pawl__scan_take(s, '}'); more;) {
        char key[PAWL_ST_MAX_NAME + 1];
        size_t n;
        PAWL_TRY(pawl__scan_string(s, key, sizeof key, &n, err));
        PAWL_TRY(pawl__scan_expect(s, ':', err));
        int *seen = strlen(key) != n               ? NULL /* a NUL inside */
                    : !strcmp(key, "dtype")        ? &e.has_dtype
                    : !strcmp(key, "shape")        ? &e.has_shape
                    : !strcmp(key, "data_offsets") ? &e.has_offsets
                                                   : NULL;
        if (seen && (*seen)++) return fail_tensor(f, t, err, "dtype, shape or data_offsets given twice");
        if (seen == &e.has_dtype) {
            PAWL_TRY(read_dtype(f, s, t, err));
        } else if (seen == &e.has_shape) {
            PAWL_TRY(read_shape(f, s, t, err));
        } else if (seen == &e.has_offsets) {
            PAWL_TRY(read_offsets(s, &e, err));
        } else {
            PAWL_TRY(pawl__scan_skip(s, PAWL_ST_MAX_DEPTH - 2, err));
        }
        PAWL_TRY(pawl__scan_next(s, '}', &more, err));
    }
    if (!e.has_dtype || !e.has_shape || !e.has_offsets)
        return fail_tensor(f, t, err, "expected dtype, shape and data_offsets");
    PAWL_TRY(check_size(f, t, &e, size, err));
    t->data = data + e.begin;
    t->bytes = (size_t)(e.end - e.begin);
    return PAWL_OK;
}

static pawl_status read_metadata(pawl_scan *s, pawl_err *err)
{
    PAWL_TRY(pawl__scan_expect(s, '{', err));
    if (pawl__scan_take(s, '}')) return PAWL_OK;
    for (int more = 1; more;) {
        PAWL_TRY(pawl__scan_skip(s, 0, err)); /* depth 0 leaves strings and other scalars */
        PAWL_TRY(pawl__scan_expect(s, ':', err));
        if (!pawl__scan_take(s, '"')) return pawl__scan_expect(s, '"', err);
        s->p--;
        PAWL_TRY(pawl__scan_skip(s, 0, err));
        PAWL_TRY(pawl__scan_next(s, '}', &more, err));
    }
    return PAWL_OK;
}

static pawl_status check_name(const pawl_safetensors *f, const char *name, size_t n, pawl_err *err)
{
    if (n == 0) return pawl__fail(err, PAWL_EFORMAT, "%s: a tensor with an empty name", f->path);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f) {
            char shown[PAWL_SHOWN];
            return pawl__fail(err, PAWL_EFORMAT, "%s: tensor %s: control character in the name", f->path,
                              pawl__scan_show(name, n, shown));
        }
    return PAWL_OK;
}

static pawl_status read_header(pawl_safetensors *f, const char *text, size_t n, const unsigned char *data, size_t size,
                               pawl_err *err)
{
    pawl_scan s;
    int metadata = 0;
    PAWL_TRY(pawl__scan_init(&s, f->path, text, n, err));
    PAWL_TRY(pawl__scan_expect(&s, '{', err));
    for (int more = !pawl__scan_take(&s, '}'); more;) {
        char name[PAWL_ST_MAX_NAME + 1];
        size_t len;
        PAWL_TRY(pawl__scan_string(&s, name, sizeof name, &len, err));
        PAWL_TRY(pawl__scan_expect(&s, ':', err));
        if (len == 12 && !memcmp(name, "__metadata__", 12)) {
            if (metadata++) return pawl__fail(err, PAWL_EFORMAT, "%s: __metadata__ given twice", f->path);
            PAWL_TRY(read_metadata(&s, err));
        } else {
            PAWL_TRY(check_name(f, name, len, err));
            if (f->count == PAWL_ST_MAX_TENSORS)
                return pawl__fail(err, PAWL_EFORMAT, "%s: more than %d tensors", f->path, PAWL_ST_MAX_TENSORS);
            pawl_tensor *t = add_tensor(f);
            if (!t) return pawl__fail(err, PAWL_ENOMEM, "%s: out of memory for its header", f->path);
            t->name = keep_text(f, name, len);
            t->name_len = (uint32_t)len;
            PAWL_TRY(read_tensor(f, &s, t, data, size, err));
        }
        PAWL_TRY(pawl__scan_next(&s, '}', &more, err));
    }
    return pawl__scan_end(&s, err);
}

static int by_place(const void *a, const void *b)
{
    const pawl_tensor *x = a, *y = b;
    if (x->data != y->data) return x->data < y->data ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes); /* an empty tensor before the one that starts where it lies */
}

/* The tensors cover the data from its first byte to its last, each once. */
static pawl_status check_places(pawl_safetensors *f, const unsigned char *data, size_t size, pawl_err *err)
{
    if (f->count) qsort(f->tensor, f->count, sizeof *f->tensor, by_place);
    size_t at = 0;
    char what[160];
    for (size_t i = 0; i < f->count; i++) {
        const pawl_tensor *t = &f->tensor[i];
        size_t begin = (size_t)(t->data - data);
        if (begin != at) {
            snprintf(what, sizeof what, "begins at byte %zu of the data, expected %zu: %s", begin, at,
                     begin < at ? "it overlaps the tensor before it" : "there is a hole before it");
            return fail_tensor(f, t, err, what);
        }
        at += t->bytes;
    }
    if (at == size) return PAWL_OK;
    return pawl__fail(err, PAWL_EFORMAT, "%s: tensors end at byte %zu of the data, expected %zu, the end of the file",
                      f->path, at, size);
}

static pawl_status check_duplicates(pawl_safetensors *f, pawl_err *err)
{
    if (pawl__names_init(&f->names, f->count)) return pawl__fail(err, PAWL_ENOMEM, "%s: out of memory", f->path);
    for (size_t i = 0; i < f->count; i++) {
        const pawl_tensor *t = &f->tensor[i];
        if (pawl__names_add(&f->names, t->name, t->name_len, (uint32_t)i) != PAWL_NAMES_NONE)
            return fail_tensor(f, t, err, "name given twice");
    }
    return PAWL_OK;
}

static pawl_status parse(pawl_safetensors *f, const unsigned char *bytes, size_t n, pawl_err *err)
{
    if (n < 8)
        return pawl__fail(err, PAWL_EFORMAT, "%s: file of %zu bytes, expected at least the 8 of a header's length",
                          f->path, n);
    uint64_t header = 0;
    for (int i = 7; i >= 0; i--) header = header << 8 | bytes[i];
    if (header > PAWL_ST_MAX_HEADER)
        return pawl__fail(err, PAWL_EFORMAT, "%s: header of %llu bytes, expected at most %d", f->path,
                          (unsigned long long)header, PAWL_ST_MAX_HEADER);
    if (header > n - 8)
        return pawl__fail(err, PAWL_EFORMAT, "%s: header of %llu bytes, but only %zu follow in the file", f->path,
                          (unsigned long long)header, n - 8);
    if (header == 0 || bytes[8] != '{')
        return pawl__fail(err, PAWL_EFORMAT, "%s: header does not begin with '{'", f->path);
    f->text = malloc((size_t)header);
    if (!f->text) return pawl__fail(err, PAWL_ENOMEM, "%s: out of memory for its header", f->path);
    const unsigned char *data = bytes + 8 + header;
    size_t size = n - 8 - (size_t)header;
    PAWL_TRY(read_header(f, (const char *)bytes + 8, (size_t)header, data, size, err));
    PAWL_TRY(check_places(f, data, size, err));
    return check_duplicates(f, err);
}

static pawl_status create(const char *path, pawl_safetensors **out, pawl_err *err)
{
    *out = calloc(1, sizeof **out);
    if (*out) (*out)->path = strdup(path);
    if (*out && (*out)->path) return PAWL_OK;
    pawl__safetensors_close(out);
    return pawl__fail(err, PAWL_ENOMEM, "%s: out of memory", path);
}

pawl_status pawl__safetensors_open(const char *path, pawl_safetensors **out, pawl_err *err)
{
    PAWL_TRY(create(path, out, err));
    pawl_status s = pawl__map_open(path, &(*out)->map, err);
    if (s == PAWL_OK) s = parse(*out, (*out)->map.data, (*out)->map.size, err);
    if (s != PAWL_OK) pawl__safetensors_close(out);
    return s;
}

pawl_status pawl__safetensors_parse(const void *data, size_t n, const char *name, pawl_safetensors **out, pawl_err *err)
{
    PAWL_TRY(create(name, out, err));
    pawl_status s = parse(*out, data, n, err);
    if (s != PAWL_OK) pawl__safetensors_close(out);
    return s;
}

void pawl__safetensors_close(pawl_safetensors **pf)
{
    pawl_safetensors *f = *pf;
    if (!f) return;
    pawl__map_close(&f->map);
    pawl__names_free(&f->names);
    free(f->tensor);
    free(f->text);
    free(f->path);
    free(f);
    *pf = NULL;
}

const char *pawl__safetensors_path(const pawl_safetensors *f)
{
    return f->path;
}

size_t pawl__safetensors_count(const pawl_safetensors *f)
{
    return f->count;
}

const pawl_tensor *pawl__safetensors_at(const pawl_safetensors *f, size_t i)
{
    return &f->tensor[i];
}

const pawl_tensor *pawl__safetensors_find(const pawl_safetensors *f, const char *name)
{
    uint32_t i = pawl__names_find(&f->names, name, strlen(name));
    return i == PAWL_NAMES_NONE ? NULL : &f->tensor[i];
}

const char *pawl__tensor_dtype_name(const pawl_tensor *t)
{
    return t->unknown ? t->unknown : pawl__dtype_name(t->dtype);
}

const char *pawl__tensor_text(const pawl_tensor *t, char out[PAWL_TENSOR_TEXT])
{
    int at = snprintf(out, PAWL_TENSOR_TEXT, "%.32s [", pawl__tensor_dtype_name(t));
    for (int i = 0; i < t->rank && at < PAWL_TENSOR_TEXT - 24; i++)
        at += snprintf(out + at, (size_t)(PAWL_TENSOR_TEXT - at), i ? ", %lld" : "%lld", (long long)t->shape[i]);
    snprintf(out + at, (size_t)(PAWL_TENSOR_TEXT - at), "]");
    return out;
}

int64_t pawl__tensor_count(const pawl_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->shape[i];
    return n;
}
