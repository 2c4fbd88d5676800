/* model.safetensors.index.json: which shard holds which tensor. */
#ifndef PAWL_STORE_INDEX_H
#define PAWL_STORE_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "store/names.h"

enum { PAWL_INDEX_MAX_FILES = 1024 };

typedef struct pawl_index {
    char *file[PAWL_INDEX_MAX_FILES]; /* plain file names, without folder */
    size_t files;
    struct {
        const char *name; /* terminated */
        uint32_t len, file;
    } * entry;
    size_t count;
    pawl_names names; /* from tensor to entry */
    char *text;       /* holds the names */
} pawl_index;

/* Reads the file. Shard names with a path separator or ".." are refused, and duplicate tensors. *out is zeroed first and
 * must be freed in any case. */
pawl_status pawl__index_load(const char *path, pawl_index *out, pawl_err *err);
/* The same from n bytes of text. */
pawl_status pawl__index_parse(const char *text, size_t n, const char *name, pawl_index *out, pawl_err *err);
void pawl__index_free(pawl_index *x);

#endif
