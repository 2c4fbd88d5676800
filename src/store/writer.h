/* Writing safetensors files: the header first, then the tensors' bytes as a stream, in the order in which they were
 * declared. The file appears under its name only when it is complete. */
#ifndef PAWL_STORE_WRITER_H
#define PAWL_STORE_WRITER_H

#include "base/dtype.h"
#include "base/status.h"
#include "store/safetensors.h"

/* A tensor to be written; the name is borrowed until pawl__writer_create returns. */
typedef struct pawl_tensor_decl {
    const char *name;
    pawl_dtype dtype;
    int rank;
    int64_t shape[PAWL_ST_MAX_RANK];
} pawl_tensor_decl;

/* Bytes that a tensor takes; a whole number of bytes is the caller's duty. */
size_t pawl__decl_bytes(const pawl_tensor_decl *d);

typedef struct pawl_writer pawl_writer;

/* Starts PATH with n tensors; a temporary file beside it takes the bytes until finish. */
pawl_status pawl__writer_create(const char *path, const pawl_tensor_decl *decls, size_t n, pawl_writer **out,
                                pawl_err *err);
/* The next bytes of the data, little-endian, row-major; a tensor may come in any number of pieces. */
pawl_status pawl__writer_put(pawl_writer *w, const void *data, size_t bytes, pawl_err *err);
/* Closes and renames; fails when the bytes put are not what was declared. Destroys the writer in any case. */
pawl_status pawl__writer_finish(pawl_writer **w, pawl_err *err);
/* Gives up: the temporary file is removed. *w may be NULL. */
void pawl__writer_abort(pawl_writer **w);

/* A small file, complete or not at all. */
pawl_status pawl__file_write(const char *path, const void *data, size_t n, pawl_err *err);

#endif
