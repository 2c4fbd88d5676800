/* Names of element types and memory spaces. The element types are those of the safetensors format. */
#ifndef PAWL_BASE_DTYPE_H
#define PAWL_BASE_DTYPE_H

#include <stddef.h>

typedef enum pawl_dtype {
    PAWL_F32,
    PAWL_F16,
    PAWL_BF16,
    PAWL_F64,
    PAWL_F8_E4M3, /* the "fn" variant: no infinity, NaN = 0x7f and 0xff */
    PAWL_F8_E5M2,
    PAWL_F8_E8M0,
    PAWL_F4,
    PAWL_F6_E2M3,
    PAWL_F6_E3M2,
    PAWL_I8,
    PAWL_U8,
    PAWL_I16,
    PAWL_U16,
    PAWL_I32,
    PAWL_U32,
    PAWL_I64,
    PAWL_U64,
    PAWL_C64,
    PAWL_BOOL,
    PAWL_DTYPE_COUNT
} pawl_dtype;

/* Bits of one element. */
unsigned pawl__dtype_bits(pawl_dtype t);
/* "F32", "BF16", "F8_E4M3": as safetensors spells them. */
const char *pawl__dtype_name(pawl_dtype t);
/* PAWL_DTYPE_COUNT when the name (of n bytes) is unknown. */
pawl_dtype pawl__dtype_parse(const char *name, size_t n);
/* "f32", "bf16", "e4m3": as queries spell them. */
const char *pawl__dtype_word(pawl_dtype t);
pawl_dtype pawl__dtype_parse_word(const char *word, size_t n);

typedef enum pawl_space { PAWL_SPACE_HOST, PAWL_SPACE_CUDA } pawl_space;

#endif
