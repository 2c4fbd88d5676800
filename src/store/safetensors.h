/* One safetensors file: mapped, and checked in full before anything of it is used.
 *
 * The format and the checks: a little-endian u64 N, N bytes of JSON from tensor names to {dtype, shape, data_offsets},
 * then data without holes or overlap up to the end of the file (https://github.com/huggingface/safetensors, "Format").
 * A file from a stranger costs one message: memory is bounded by a small multiple of its header, time is n log n. */
#ifndef PAWL_STORE_SAFETENSORS_H
#define PAWL_STORE_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/status.h"

enum {
    PAWL_ST_MAX_RANK = 8,
    PAWL_ST_MAX_NAME = 512,         /* bytes of a tensor's name */
    PAWL_ST_MAX_HEADER = 100000000, /* bytes of JSON: the reference reader's bound */
    PAWL_ST_MAX_TENSORS = 4 << 20,
    PAWL_ST_MAX_DEPTH = 32 /* of values nested in the header */
};

typedef struct pawl_tensor {
    const char *name; /* terminated, without NUL inside; lives as long as the file */
    uint32_t name_len;
    uint8_t rank;        /* 0 for a scalar */
    uint8_t dtype;       /* a pawl_dtype; PAWL_DTYPE_COUNT for a type we do not know, which only its user must refuse */
    const char *unknown; /* the type's name when it is unknown, else NULL */
    int64_t shape[PAWL_ST_MAX_RANK];
    const unsigned char *data; /* row-major; any alignment: never cast, use memcpy */
    size_t bytes;
} pawl_tensor;

typedef struct pawl_safetensors pawl_safetensors;

/* Maps and checks the file. PAWL_EIO when it cannot be read, PAWL_EFORMAT when it is not a well-formed safetensors file,
 * with the path, the tensor or the offset, what was found and what was expected. */
pawl_status pawl__safetensors_open(const char *path, pawl_safetensors **out, pawl_err *err);
/* The same for n bytes in memory, which must outlive the result; name is used in messages. */
pawl_status pawl__safetensors_parse(const void *data, size_t n, const char *name, pawl_safetensors **out,
                                    pawl_err *err);
/* Unmaps; *f may be NULL. */
void pawl__safetensors_close(pawl_safetensors **f);

const char *pawl__safetensors_path(const pawl_safetensors *f);
size_t pawl__safetensors_count(const pawl_safetensors *f);
/* In the order of their data; i < count. */
const pawl_tensor *pawl__safetensors_at(const pawl_safetensors *f, size_t i);
/* NULL when absent. */
const pawl_tensor *pawl__safetensors_find(const pawl_safetensors *f, const char *name);

/* "F8_E4M3 [128, 256]" into out, for messages; returns out. */
enum { PAWL_TENSOR_TEXT = 128 };
const char *pawl__tensor_text(const pawl_tensor *t, char out[PAWL_TENSOR_TEXT]);
/* The type's name as the file spells it. */
const char *pawl__tensor_dtype_name(const pawl_tensor *t);
/* Elements: the product of the shape, 1 for a scalar. Never overflows for a tensor of a checked file. */
int64_t pawl__tensor_count(const pawl_tensor *t);

#endif
