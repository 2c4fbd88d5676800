#include "store/formats.h"

#include <stdio.h>
#include <string.h>

enum { CAP = PAWL_ST_MAX_NAME + 64 };

/* The name without `end`, in out; 0 when it does not end so. */
static int strip_end(const char *name, const char *end, char out[CAP])
{
    size_t n = strlen(name), m = strlen(end);
    if (n <= m || strcmp(name + n - m, end)) return 0;
    memcpy(out, name, n - m);
    out[n - m] = 0;
    return 1;
}

static const pawl_tensor *find(const pawl_checkpoint *ck, const char *base, const char *end)
{
    char name[CAP + 64];
    snprintf(name, sizeof name, "%s%s", base, end);
    return pawl__checkpoint_find(ck, name);
}

static int holds_codes(const pawl_tensor *t)
{
    return t->rank >= 2 && (t->dtype == PAWL_U8 || t->dtype == PAWL_F8_E4M3);
}

/* The scale of that name beside codes; `packed` codes have the same ones. */
static const pawl_tensor *scale_of(const pawl_checkpoint *ck, const pawl_tensor *codes, const char *kind)
{
    static const char *const ends[] = {".weight_packed", "_weight_packed", ".weight", "_packed", ""};
    static const char *const middles[] = {".weight_", "_weight_", "_"};
    char base[CAP], end[64];
    int i = 0;
    while (!strip_end(codes->name, ends[i], base)) i++; /* the last one always fits */
    for (int m = 0; m < 3; m++) {
        snprintf(end, sizeof end, "%s%s", middles[m], kind);
        const pawl_tensor *t = find(ck, base, end);
        if (t) return t;
    }
    return NULL;
}

static pawl_quant codes_format(const pawl_checkpoint *ck, const pawl_tensor *t)
{
    const pawl_tensor *s = scale_of(ck, t, "scale");
    if (t->dtype == PAWL_U8) {
        if (!s) return PAWL_Q_NONE;
        return s->dtype == PAWL_F8_E4M3 ? PAWL_Q_NVFP4 : PAWL_Q_MXFP4;
    }
    if (scale_of(ck, t, "scale_inv")) return PAWL_Q_FP8BLK;
    if (!s) return PAWL_Q_NONE;
    int64_t n = pawl__tensor_count(s),
            rows = pawl__tensor_count(t) / (t->shape[t->rank - 1] ? t->shape[t->rank - 1] : 1);
    if (n == 1 || (t->rank == 3 && n == t->shape[0])) return PAWL_Q_FP8TEN;
    return n == rows ? PAWL_Q_FP8CH : PAWL_Q_FP8BLK;
}

/* The codes that a tensor scales, by its name; NULL when it is no scale. */
static const pawl_tensor *scaled_by(const pawl_checkpoint *ck, const pawl_tensor *t)
{
    static const char *const scales[] = {"weight_scale_inv",    "weight_scale_2", "weight_scale",
                                         "weight_global_scale", "input_scale",    "input_global_scale",
                                         "scale_inv",           "scale_2",        "scale",
                                         "global_scale"};
    static const char *const owners[] = {".weight", ".weight_packed", "_packed", ""};
    char base[CAP];
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        if (!strip_end(t->name, scales[i], base)) continue;
        size_t n = strlen(base);
        if (n < 2 || (base[n - 1] != '.' && base[n - 1] != '_')) continue;
        base[n - 1] = 0;
        for (size_t o = 0; o < 4; o++) {
            const pawl_tensor *codes = find(ck, base, owners[o]);
            if (codes && codes != t && holds_codes(codes)) return codes;
        }
    }
    return NULL;
}

pawl_quant pawl__tensor_format(const pawl_checkpoint *ck, const pawl_tensor *t, const pawl_tensor **owner)
{
    const pawl_tensor *codes = scaled_by(ck, t);
    *owner = codes ? codes : t;
    if (codes || holds_codes(t)) return codes_format(ck, *owner);
    if (t->dtype == PAWL_F32) return PAWL_Q_F32;
    if (t->dtype == PAWL_F16) return PAWL_Q_F16;
    return t->dtype == PAWL_BF16 ? PAWL_Q_BF16 : PAWL_Q_NONE;
}

int64_t pawl__tensor_parameters(const pawl_checkpoint *ck, const pawl_tensor *t)
{
    const pawl_tensor *owner;
    pawl_quant q = pawl__tensor_format(ck, t, &owner);
    if (owner != t) return 0;
    return pawl__tensor_count(t) * (q == PAWL_Q_NVFP4 || q == PAWL_Q_MXFP4 ? 2 : 1);
}
