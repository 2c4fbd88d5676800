#include "store/weights.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "quant/codes.h"

enum { NAME_CAP = PAWL_ST_MAX_NAME + 64, SHAPE_TEXT = 96 };

/* What belongs to one operand: a matrix, or the matrices of all experts fused in one tensor. */
typedef struct operand {
    pawl_checkpoint *ck;
    const char *op;   /* "linear" or "moe", for messages */
    const char *base; /* its name without ".weight" */
    int64_t e, n, k;  /* e: experts in front of [n, k], 0 for a plain matrix */
    const pawl_tensor *codes;
    int packed; /* compressed-tensors' "weight_packed" */
    pawl_quant q;
    /* what one expert's view needs; steps are 0 where all experts share */
    const float *scale;
    size_t scale_step;
    int64_t scale_ld;
    const uint8_t *bscale;
    size_t bscale_step;
    const float *scale2;
    size_t scale2_step;
} operand;

static pawl_status fail_operand(const operand *o, const pawl_tensor *t, pawl_err *err, const char *what)
{
    char found[PAWL_TENSOR_TEXT];
    return pawl__fail(err, PAWL_EFORMAT, "%s: tensor %s, %s: %s", pawl__checkpoint_file(o->ck, t), t->name,
                      pawl__tensor_text(t, found), what);
}

static pawl_status out_of_memory(const operand *o, pawl_err *err)
{
    return pawl__fail(err, PAWL_ENOMEM, "%s: out of memory for the scales of %s", pawl__checkpoint_dir(o->ck), o->base);
}

/* "[8, 256, 128]" */
static const char *shape_text(const int64_t *shape, int rank, char out[SHAPE_TEXT])
{
    int at = snprintf(out, SHAPE_TEXT, "[");
    for (int i = 0; i < rank && at < SHAPE_TEXT - 24; i++)
        at += snprintf(out + at, (size_t)(SHAPE_TEXT - at), i ? ", %lld" : "%lld", (long long)shape[i]);
    snprintf(out + at, (size_t)(SHAPE_TEXT - at), "]");
    return out;
}

static int has_shape(const pawl_tensor *t, const int64_t *shape, int rank)
{
    return t->rank == rank && !memcmp(t->shape, shape, (size_t)rank * sizeof *shape);
}

/* The shape must be [e, rows, cols], without e for a plain matrix. */
static pawl_status check_shape(const operand *o, const pawl_tensor *t, int64_t rows, int64_t cols, pawl_err *err)
{
    int64_t shape[3] = {o->e, rows, cols};
    const int64_t *want = o->e ? shape : shape + 1;
    int rank = o->e ? 3 : 2;
    if (has_shape(t, want, rank)) return PAWL_OK;
    char what[SHAPE_TEXT + 32], text[SHAPE_TEXT];
    snprintf(what, sizeof what, "expected shape %s", shape_text(want, rank, text));
    return fail_operand(o, t, err, what);
}

static int is_float(const pawl_tensor *t)
{
    return t->dtype == PAWL_F32 || t->dtype == PAWL_BF16 || t->dtype == PAWL_F16;
}

/* Element i of a tensor of a float type or e8m0. */
static float element(const pawl_tensor *t, int64_t i)
{
    uint16_t h;
    float f;
    double d;
    switch (t->dtype) {
    case PAWL_F32:
        memcpy(&f, t->data + i * 4, 4);
        return f;
    case PAWL_F64:
        memcpy(&d, t->data + i * 8, 8);
        return (float)d;
    case PAWL_BF16:
        memcpy(&h, t->data + i * 2, 2);
        return pawl__bf16_decode(h);
    case PAWL_F16:
        memcpy(&h, t->data + i * 2, 2);
        return pawl__f16_decode(h);
    default:
        return pawl__e8m0_decode(t->data[i]);
    }
}

/* Looks for base + "." or, in a fused operand, base + "_" and the like before `end`; marks what it finds as used. */
static const pawl_tensor *find_part(const operand *o, const char *end, int use)
{
    static const char *const matrix[] = {".weight_"}, *const fused[] = {"_", ".weight_", "_weight_"};
    const char *const *middle = o->e ? fused : matrix;
    for (int i = 0; i < (o->e ? 3 : 1); i++) {
        char name[NAME_CAP];
        snprintf(name, sizeof name, "%s%s%s", o->base, middle[i], end);
        const pawl_tensor *t = use ? pawl__checkpoint_use(o->ck, name) : pawl__checkpoint_find(o->ck, name);
        if (t) return t;
    }
    return NULL;
}

static const pawl_tensor *find_codes(operand *o, int use)
{
    char name[NAME_CAP];
    const pawl_tensor *t = find_part(o, "packed", use);
    o->packed = t != NULL;
    for (int i = 0; !t && i < (o->e ? 2 : 1); i++) {
        snprintf(name, sizeof name, "%s%s", o->base, o->e && i == 0 ? "" : ".weight");
        t = use ? pawl__checkpoint_use(o->ck, name) : pawl__checkpoint_find(o->ck, name);
    }
    return t;
}

/* A scale that must be there. */
static pawl_status need_part(const operand *o, const char *end, const pawl_tensor **out, pawl_err *err)
{
    *out = find_part(o, end, 1);
    if (*out) return PAWL_OK;
    char what[64];
    snprintf(what, sizeof what, "its scale %s_%s is missing", o->e ? "" : "weight", end);
    return fail_operand(o, o->codes, err, what);
}

/* All elements of a scale as floats in the arena. */
static pawl_status convert_scale(const operand *o, const pawl_tensor *t, float **out, pawl_err *err)
{
    if (!is_float(t) && t->dtype != PAWL_F8_E8M0)
        return fail_operand(o, t, err, "expected a scale of type F32, BF16, F16 or F8_E8M0");
    int64_t n = pawl__tensor_count(t);
    float *f = pawl__arena_array(pawl__checkpoint_arena(o->ck), (size_t)n, sizeof *f);
    if (!f) return out_of_memory(o, err);
    for (int64_t i = 0; i < n; i++) {
        f[i] = element(t, i);
        if (f[i] >= 0 && f[i] < INFINITY) continue;
        char what[96];
        snprintf(what, sizeof what, "element %lld is %g, expected a finite scale of at least 0", (long long)i,
                 (double)f[i]);
        return fail_operand(o, t, err, what);
    }
    *out = f;
    return PAWL_OK;
}

/* One factor for the tensor, or one for each expert. */
static pawl_status read_tensor_scale(operand *o, const pawl_tensor *t, float **out, size_t *step, pawl_err *err)
{
    int64_t n = pawl__tensor_count(t);
    if (n != 1 && !(o->e && n == o->e))
        return fail_operand(o, t, err, o->e ? "expected one element, or one for each expert" : "expected one element");
    *step = n == 1 ? 0 : 1;
    return convert_scale(o, t, out, err);
}

static int64_t blocks(int64_t n)
{
    return (n + 127) / 128;
}

static pawl_status read_block_scale(operand *o, const pawl_tensor *t, pawl_err *err)
{
    float *f;
    PAWL_TRY(check_shape(o, t, blocks(o->n), blocks(o->k), err));
    PAWL_TRY(convert_scale(o, t, &f, err));
    o->q = PAWL_Q_FP8BLK;
    o->scale = f;
    o->scale_ld = blocks(o->k);
    o->scale_step = (size_t)(blocks(o->n) * blocks(o->k));
    return PAWL_OK;
}

/* e4m3 codes: which kind of scale lies beside them decides. */
static pawl_status read_fp8(operand *o, pawl_err *err)
{
    float *f;
    PAWL_TRY(check_shape(o, o->codes, o->n, o->k, err));
    const pawl_tensor *t = find_part(o, "scale_inv", 1);
    if (t) return read_block_scale(o, t, err);
    PAWL_TRY(need_part(o, "scale", &t, err));
    int64_t shape[3] = {o->e, blocks(o->n), blocks(o->k)}, count = pawl__tensor_count(t);
    if (count > 1 && has_shape(t, o->e ? shape : shape + 1, o->e ? 3 : 2)) return read_block_scale(o, t, err);
    int64_t rows = o->e ? o->e * o->n : o->n;
    if (count == 1 || count != rows) {
        if (count != 1 && !(o->e && count == o->e))
            return fail_operand(o, t, err, "expected one scale, one for each row, or one for each block of 128 x 128");
        o->q = PAWL_Q_FP8TEN;
        PAWL_TRY(read_tensor_scale(o, t, &f, &o->scale_step, err));
    } else {
        int lead = o->e ? 2 : 1;
        shape[1] = o->n;
        shape[2] = 1;
        if (!has_shape(t, o->e ? shape : shape + 1, lead)) PAWL_TRY(check_shape(o, t, o->n, 1, err));
        o->q = PAWL_Q_FP8CH;
        o->scale_step = (size_t)o->n;
        PAWL_TRY(convert_scale(o, t, &f, err));
    }
    o->scale = f;
    o->scale_ld = 1;
    return PAWL_OK;
}

/* Block scales stay in the file as bytes. Codes above `most` are negative, the code `nan` is NaN. */
static pawl_status check_block_bytes(const operand *o, const pawl_tensor *t, uint8_t most, uint8_t nan, pawl_err *err)
{
    enum { STRETCH = 4096 };
    size_t i = 0;
    for (; i + STRETCH <= t->bytes; i += STRETCH) { /* a loop that compilers turn into vector code: files are large */
        uint8_t any = 0;
        for (size_t j = 0; j < STRETCH; j++) any |= (uint8_t)((t->data[i + j] > most) | (t->data[i + j] == nan));
        if (any) break;
    }
    for (; i < t->bytes; i++) {
        uint8_t c = t->data[i];
        if (c <= most && c != nan) continue;
        char what[96];
        snprintf(what, sizeof what, "byte %zu is 0x%02x, expected a scale that is neither NaN nor negative", i, c);
        return fail_operand(o, t, err, what);
    }
    return PAWL_OK;
}

static pawl_status read_nvfp4_factor(operand *o, pawl_err *err)
{
    const pawl_tensor *t;
    float *f;
    PAWL_TRY(need_part(o, o->packed ? "global_scale" : "scale_2", &t, err));
    PAWL_TRY(read_tensor_scale(o, t, &f, &o->scale2_step, err));
    o->scale2 = f;
    if (!o->packed) return PAWL_OK;
    for (int64_t i = 0; i < pawl__tensor_count(t); i++) { /* compressed-tensors stores the divisor */
        f[i] = 1.0f / f[i];
        if (!(f[i] < INFINITY)) return fail_operand(o, t, err, "expected a divisor greater than 0");
    }
    return PAWL_OK;
}

/* Two e2m1 codes a byte: the type of the block scales tells NVFP4 from MXFP4. */
static pawl_status read_fp4(operand *o, pawl_err *err)
{
    const pawl_tensor *t;
    if (o->codes->dtype != PAWL_U8) return fail_operand(o, o->codes, err, "expected packed codes of type U8");
    PAWL_TRY(need_part(o, "scale", &t, err));
    int mx = t->dtype == PAWL_U8 || t->dtype == PAWL_F8_E8M0, group = mx ? 32 : 16;
    if (!mx && t->dtype != PAWL_F8_E4M3)
        return fail_operand(o, t, err, "expected block scales of type F8_E4M3 (NVFP4) or U8 or F8_E8M0 (MXFP4)");
    if (o->k % group) {
        char what[96];
        snprintf(what, sizeof what, "rows of %lld values, expected a multiple of %d", (long long)o->k, group);
        return fail_operand(o, o->codes, err, what);
    }
    PAWL_TRY(check_shape(o, o->codes, o->n, o->k / 2, err));
    PAWL_TRY(check_shape(o, t, o->n, o->k / group, err));
    /* e8m0 has no sign; in e4m3 0x80 is -0, which scales as 0 does */
    PAWL_TRY(check_block_bytes(o, t, mx ? 0xff : 0x80, mx ? 0xff : 0x7f, err));
    o->q = mx ? PAWL_Q_MXFP4 : PAWL_Q_NVFP4;
    o->bscale = t->data;
    o->scale_ld = o->k / group;
    o->bscale_step = (size_t)(o->n * o->scale_ld);
    return mx ? PAWL_OK : read_nvfp4_factor(o, err);
}

static pawl_status read_plain(operand *o, pawl_err *err)
{
    static const char *const scales[] = {"scale_inv", "scale", "scale_2", "global_scale"};
    for (int i = 0; i < 4; i++) {
        const pawl_tensor *t = find_part(o, scales[i], 0);
        if (!t) continue;
        char what[160];
        snprintf(what, sizeof what, "a scale for an unquantised operand of op %s: its weights are %s", o->op,
                 pawl__tensor_dtype_name(o->codes));
        return fail_operand(o, t, err, what);
    }
    PAWL_TRY(check_shape(o, o->codes, o->n, o->k, err));
    o->q = o->codes->dtype == PAWL_F32 ? PAWL_Q_F32 : o->codes->dtype == PAWL_F16 ? PAWL_Q_F16 : PAWL_Q_BF16;
    return PAWL_OK;
}

/* o->codes is set. */
static pawl_status read_operand(operand *o, pawl_err *err)
{
    const pawl_tensor *t = o->codes;
    PAWL_TRY(pawl__checkpoint_tick(o->ck, "reading weights", err));
    if (o->packed || t->dtype == PAWL_U8) return read_fp4(o, err);
    if (t->dtype == PAWL_F8_E4M3) return read_fp8(o, err);
    if (is_float(t)) return read_plain(o, err);
    return fail_operand(o, t, err, "expected weights of type BF16, F16, F32, F8_E4M3 or U8 (packed e2m1)");
}

/* The matrix of expert e, or the matrix. */
static pawl_wmat view(const operand *o, int64_t e)
{
    pawl_wmat w = {.q = o->q, .n = o->n, .k = o->k, .ld = pawl__quant_row_bytes(o->q, o->k), .scale_ld = o->scale_ld};
    size_t at = (size_t)e;
    w.data = o->codes->data + at * (size_t)(o->n * w.ld);
    w.scale = o->scale ? o->scale + at * o->scale_step : NULL;
    w.bscale = o->bscale ? o->bscale + at * o->bscale_step : NULL;
    w.scale2 = o->scale2 ? o->scale2[at * o->scale2_step] : 1.0f;
    return w;
}

static pawl_status read_matrix(pawl_checkpoint *ck, const char *op, const char *name, int64_t n, int64_t k,
                               pawl_wmat *out, pawl_err *err)
{
    operand o = {.ck = ck, .op = op, .base = name, .n = n, .k = k};
    o.codes = find_codes(&o, 1);
    if (!o.codes)
        return pawl__fail(err, PAWL_EFORMAT, "%s: tensor %s.weight is missing, expected a matrix of [%lld, %lld]",
                          pawl__checkpoint_dir(ck), name, (long long)n, (long long)k);
    PAWL_TRY(read_operand(&o, err));
    *out = view(&o, 0);
    return PAWL_OK;
}

pawl_status pawl__weights_matrix(pawl_checkpoint *ck, const char *name, int64_t n, int64_t k, pawl_wmat *out,
                                 pawl_err *err)
{
    return read_matrix(ck, "linear", name, n, k, out, err);
}

int pawl__weights_has_matrix(const pawl_checkpoint *ck, const char *name)
{
    char full[NAME_CAP];
    snprintf(full, sizeof full, "%s.weight", name);
    if (pawl__checkpoint_find(ck, full)) return 1;
    snprintf(full, sizeof full, "%s.weight_packed", name);
    return pawl__checkpoint_find(ck, full) != NULL;
}

pawl_status pawl__weights_tensor(pawl_checkpoint *ck, const char *name, int rank, const int64_t *shape, float **out,
                                 pawl_err *err)
{
    char text[SHAPE_TEXT], found[PAWL_TENSOR_TEXT];
    const pawl_tensor *t = pawl__checkpoint_use(ck, name);
    if (!t)
        return pawl__fail(err, PAWL_EFORMAT, "%s: tensor %s is missing, expected shape %s", pawl__checkpoint_dir(ck),
                          name, shape_text(shape, rank, text));
    if ((!is_float(t) && t->dtype != PAWL_F64) || !has_shape(t, shape, rank))
        return pawl__fail(err, PAWL_EFORMAT, "%s: tensor %s: found %s, expected a float type and shape %s",
                          pawl__checkpoint_file(ck, t), name, pawl__tensor_text(t, found),
                          shape_text(shape, rank, text));
    int64_t n = pawl__tensor_count(t);
    float *f = pawl__arena_array(pawl__checkpoint_arena(ck), (size_t)n, sizeof *f);
    if (!f) return pawl__fail(err, PAWL_ENOMEM, "%s: out of memory for tensor %s", pawl__checkpoint_file(ck, t), name);
    for (int64_t i = 0; i < n; i++) f[i] = element(t, i);
    *out = f;
    return PAWL_OK;
}

pawl_status pawl__weights_vector(pawl_checkpoint *ck, const char *name, int64_t n, float **out, pawl_err *err)
{
    return pawl__weights_tensor(ck, name, 1, &n, out, err);
}

/* PREFIX.gate_up_proj [e, 2i, h] and PREFIX.down_proj [e, h, i]; *found = 0 when the first is not there. */
static pawl_status read_fused(pawl_checkpoint *ck, const char *prefix, int64_t e, int64_t i, int64_t h,
                              pawl_expert *out, int *found, pawl_err *err)
{
    char up_name[NAME_CAP], down_name[NAME_CAP];
    snprintf(up_name, sizeof up_name, "%s.gate_up_proj", prefix);
    snprintf(down_name, sizeof down_name, "%s.down_proj", prefix);
    operand gate_up = {.ck = ck, .op = "moe", .base = up_name, .e = e, .n = 2 * i, .k = h};
    operand down = {.ck = ck, .op = "moe", .base = down_name, .e = e, .n = h, .k = i};
    gate_up.codes = find_codes(&gate_up, 1);
    *found = gate_up.codes != NULL;
    if (!*found) return PAWL_OK;
    down.codes = find_codes(&down, 1);
    if (!down.codes)
        return pawl__fail(err, PAWL_EFORMAT, "%s: tensor %s is missing, although %s is there", pawl__checkpoint_dir(ck),
                          down_name, gate_up.codes->name);
    PAWL_TRY(read_operand(&gate_up, err));
    PAWL_TRY(read_operand(&down, err));
    for (int64_t x = 0; x < e; x++) {
        pawl_wmat both = view(&gate_up, x);
        out[x].gate = pawl__wmat_rows(&both, 0, i);
        out[x].up = pawl__wmat_rows(&both, i, i);
        out[x].down = view(&down, x);
    }
    return PAWL_OK;
}

pawl_status pawl__weights_experts(pawl_checkpoint *ck, const char *prefix, int64_t e, int64_t i, int64_t h,
                                  pawl_expert *out, pawl_err *err)
{
    int fused;
    memset(out, 0, (size_t)e * sizeof *out);
    PAWL_TRY(read_fused(ck, prefix, e, i, h, out, &fused, err));
    for (int64_t x = 0; !fused && x < e; x++) {
        char name[NAME_CAP];
        snprintf(name, sizeof name, "%s.%lld.gate_proj", prefix, (long long)x);
        PAWL_TRY(read_matrix(ck, "moe", name, i, h, &out[x].gate, err));
        snprintf(name, sizeof name, "%s.%lld.up_proj", prefix, (long long)x);
        PAWL_TRY(read_matrix(ck, "moe", name, i, h, &out[x].up, err));
        snprintf(name, sizeof name, "%s.%lld.down_proj", prefix, (long long)x);
        PAWL_TRY(read_matrix(ck, "moe", name, h, i, &out[x].down, err));
    }
    return PAWL_OK;
}

pawl_status pawl__weights_input_scale(pawl_checkpoint *ck, const char *name, float *out, pawl_err *err)
{
    char full[NAME_CAP];
    operand o = {.ck = ck, .op = "linear", .base = name};
    *out = 0;
    snprintf(full, sizeof full, "%s.input_scale", name);
    const pawl_tensor *t = pawl__checkpoint_use(ck, full);
    int divisor = !t;
    if (!t) {
        snprintf(full, sizeof full, "%s.input_global_scale", name);
        t = pawl__checkpoint_use(ck, full);
    }
    if (!t) return PAWL_OK;
    if (!is_float(t) || pawl__tensor_count(t) != 1)
        return fail_operand(&o, t, err, "expected one element of a float type");
    float f = element(t, 0);
    if (divisor) f = 1.0f / f;
    if (!(f > 0 && f < INFINITY)) return fail_operand(&o, t, err, "expected a finite value greater than 0");
    *out = f;
    return PAWL_OK;
}
