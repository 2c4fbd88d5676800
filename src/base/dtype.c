#include "base/dtype.h"

#include <string.h>

static const struct {
    const char *name, *word;
    unsigned bits;
} types[PAWL_DTYPE_COUNT] = {
    [PAWL_F32] = {"F32", "f32", 32},
    [PAWL_F16] = {"F16", "f16", 16},
    [PAWL_BF16] = {"BF16", "bf16", 16},
    [PAWL_F64] = {"F64", "f64", 64},
    [PAWL_F8_E4M3] = {"F8_E4M3", "e4m3", 8},
    [PAWL_F8_E5M2] = {"F8_E5M2", "e5m2", 8},
    [PAWL_F8_E8M0] = {"F8_E8M0", "e8m0", 8},
    [PAWL_F4] = {"F4", "e2m1", 4},
    [PAWL_F6_E2M3] = {"F6_E2M3", "e2m3", 6},
    [PAWL_F6_E3M2] = {"F6_E3M2", "e3m2", 6},
    [PAWL_I8] = {"I8", "i8", 8},
    [PAWL_U8] = {"U8", "u8", 8},
    [PAWL_I16] = {"I16", "i16", 16},
    [PAWL_U16] = {"U16", "u16", 16},
    [PAWL_I32] = {"I32", "i32", 32},
    [PAWL_U32] = {"U32", "u32", 32},
    [PAWL_I64] = {"I64", "i64", 64},
    [PAWL_U64] = {"U64", "u64", 64},
    [PAWL_C64] = {"C64", "c64", 64},
    [PAWL_BOOL] = {"BOOL", "bool", 8},
};

unsigned pawl__dtype_bits(pawl_dtype t)
{
    return types[t].bits;
}

const char *pawl__dtype_name(pawl_dtype t)
{
    return types[t].name;
}

const char *pawl__dtype_word(pawl_dtype t)
{
    return types[t].word;
}

static int equals(const char *known, const char *s, size_t n)
{
    return strlen(known) == n && !memcmp(known, s, n);
}

pawl_dtype pawl__dtype_parse(const char *name, size_t n)
{
    int t = 0;
    while (t < PAWL_DTYPE_COUNT && !equals(types[t].name, name, n)) t++;
    return (pawl_dtype)t;
}

pawl_dtype pawl__dtype_parse_word(const char *word, size_t n)
{
    int t = 0;
    while (t < PAWL_DTYPE_COUNT && !equals(types[t].word, word, n)) t++;
    return (pawl_dtype)t;
}
