/* Small checkpoint folders for tests: made under the temporary folder, removed at the end. */
#ifndef PAWL_TESTS_STORE_FOLDER_H
#define PAWL_TESTS_STORE_FOLDER_H

#include <dirent.h>
#include <unistd.h>

#include "check.h"
#include "store/writer.h"

typedef struct folder {
    char path[128];
} folder;

static inline void folder_make(folder *d)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(d->path, sizeof d->path, "%.90s/pawl-store-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(d->path));
}

static inline void folder_remove(folder *d)
{
    DIR *dir = opendir(d->path);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", d->path, e->d_name);
        if (e->d_name[0] != '.') unlink(path);
    }
    closedir(dir);
    assert_int_equal(rmdir(d->path), 0);
}

static inline void folder_put(const folder *d, const char *name, const void *data, size_t n)
{
    char path[512];
    pawl_err err;
    snprintf(path, sizeof path, "%s/%s", d->path, name);
    check_ok(pawl__file_write(path, data, n, &err), &err);
}

static inline void folder_text(const folder *d, const char *name, const char *text)
{
    folder_put(d, name, text, strlen(text));
}

/* A tensor with its bytes, for folder_tensors. */
typedef struct given {
    pawl_tensor_decl decl;
    const void *data;
} given;

static inline void folder_tensors(const folder *d, const char *name, const given *t, size_t n)
{
    char path[512];
    pawl_err err;
    pawl_writer *w;
    pawl_tensor_decl decls[64];
    assert_true(n <= 64);
    for (size_t i = 0; i < n; i++) decls[i] = t[i].decl;
    snprintf(path, sizeof path, "%s/%s", d->path, name);
    check_ok(pawl__writer_create(path, decls, n, &w, &err), &err);
    for (size_t i = 0; i < n; i++) check_ok(pawl__writer_put(w, t[i].data, pawl__decl_bytes(&decls[i]), &err), &err);
    check_ok(pawl__writer_finish(&w, &err), &err);
}

#endif
