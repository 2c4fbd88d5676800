#include "store/writer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"

struct pawl_writer {
    FILE *f;
    char *path, *temp;
    size_t expected, put;
};

static pawl_status fail_io(const pawl_writer *w, const char *what, pawl_err *err)
{
    int e = errno;
    return pawl__fail(err, PAWL_EIO, "%s: cannot %s: %s", w->temp, what, strerror(e));
}

static pawl_status start(const char *path, pawl_writer **out, pawl_err *err)
{
    pawl_writer *w = calloc(1, sizeof *w);
    *out = w;
    size_t cap = strlen(path) + 32;
    if (w) {
        w->path = strdup(path);
        w->temp = malloc(cap);
    }
    if (!w || !w->path || !w->temp) {
        pawl__writer_abort(out);
        return pawl__fail(err, PAWL_ENOMEM, "%s: out of memory", path);
    }
    snprintf(w->temp, cap, "%s.part-%ld", path, (long)getpid());
    w->f = fopen(w->temp, "wbe");
    if (w->f) return PAWL_OK;
    pawl_status s = fail_io(w, "create", err);
    pawl__writer_abort(out);
    return s;
}

size_t pawl__decl_bytes(const pawl_tensor_decl *d)
{
    size_t n = pawl__dtype_bits(d->dtype);
    for (int i = 0; i < d->rank; i++) n *= (size_t)d->shape[i];
    return n / 8;
}

static void put_name(pawl_buf *b, const char *s)
{
    pawl__buf_putc(b, '"');
    for (; *s; s++) {
        if (*s == '"' || *s == '\\') pawl__buf_putc(b, '\\');
        if ((unsigned char)*s < 0x20) {
            pawl__buf_printf(b, "\\u%04x", *s);
        } else {
            pawl__buf_putc(b, *s);
        }
    }
    pawl__buf_putc(b, '"');
}

/* Length word and JSON, padded so that the data begins at a multiple of 8. */
static void make_header(pawl_buf *b, const pawl_tensor_decl *d, size_t n)
{
    size_t at = 0;
    pawl__buf_append(b, "\0\0\0\0\0\0\0\0", 8);
    pawl__buf_puts(b, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (size_t i = 0; i < n; i++) {
        pawl__buf_putc(b, ',');
        put_name(b, d[i].name);
        pawl__buf_printf(b, ":{\"dtype\":\"%s\",\"shape\":[", pawl__dtype_name(d[i].dtype));
        for (int r = 0; r < d[i].rank; r++) pawl__buf_printf(b, r ? ",%lld" : "%lld", (long long)d[i].shape[r]);
        size_t end = at + pawl__decl_bytes(&d[i]);
        pawl__buf_printf(b, "],\"data_offsets\":[%zu,%zu]}", at, end);
        at = end;
    }
    pawl__buf_putc(b, '}');
    while (!b->failed && b->len % 8) pawl__buf_putc(b, ' ');
    for (int i = 0; !b->failed && i < 8; i++) b->data[i] = (char)((uint64_t)(b->len - 8) >> (8 * i));
}

pawl_status pawl__writer_create(const char *path, const pawl_tensor_decl *decls, size_t n, pawl_writer **out,
                                pawl_err *err)
{
    pawl_buf b = {0};
    PAWL_TRY(start(path, out, err));
    make_header(&b, decls, n);
    pawl_status s = PAWL_OK;
    if (b.failed) {
        s = pawl__fail(err, PAWL_ENOMEM, "%s: out of memory for its header", path);
    } else if (fwrite(b.data, 1, b.len, (*out)->f) != b.len) {
        s = fail_io(*out, "write", err);
    }
    pawl__buf_free(&b);
    for (size_t i = 0; i < n; i++) (*out)->expected += pawl__decl_bytes(&decls[i]);
    if (s != PAWL_OK) pawl__writer_abort(out);
    return s;
}

pawl_status pawl__writer_put(pawl_writer *w, const void *data, size_t bytes, pawl_err *err)
{
    if (bytes > w->expected - w->put)
        return pawl__fail(err, PAWL_EINTERNAL, "%s: %zu bytes put after %zu of %zu", w->path, bytes, w->put,
                          w->expected);
    if (fwrite(data, 1, bytes, w->f) != bytes) return fail_io(w, "write", err);
    w->put += bytes;
    return PAWL_OK;
}

static pawl_status close_and_rename(pawl_writer *w, pawl_err *err)
{
    FILE *f = w->f;
    w->f = NULL;
    if (fclose(f)) return fail_io(w, "write", err);
    if (rename(w->temp, w->path)) return fail_io(w, "rename", err);
    return PAWL_OK;
}

pawl_status pawl__writer_finish(pawl_writer **pw, pawl_err *err)
{
    pawl_writer *w = *pw;
    pawl_status s = PAWL_OK;
    if (w->put != w->expected)
        s = pawl__fail(err, PAWL_EINTERNAL, "%s: %zu of %zu bytes put", w->path, w->put, w->expected);
    if (s == PAWL_OK) s = close_and_rename(w, err);
    if (s == PAWL_OK) w->temp[0] = 0; /* nothing left to remove */
    pawl__writer_abort(pw);
    return s;
}

void pawl__writer_abort(pawl_writer **pw)
{
    pawl_writer *w = *pw;
    if (!w) return;
    if (w->f) fclose(w->f);
    if (w->temp && w->temp[0]) unlink(w->temp);
    free(w->temp);
    free(w->path);
    free(w);
    *pw = NULL;
}

pawl_status pawl__file_write(const char *path, const void *data, size_t n, pawl_err *err)
{
    pawl_writer *w;
    PAWL_TRY(start(path, &w, err));
    w->expected = n;
    pawl_status s = pawl__writer_put(w, data, n, err);
    if (s == PAWL_OK) return pawl__writer_finish(&w, err);
    pawl__writer_abort(&w);
    return s;
}
