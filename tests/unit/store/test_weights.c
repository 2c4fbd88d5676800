/* Weights in every format that checkpoints hold: which format is decided, that the view decodes to the values that the
 * format's formula gives (computed here from the bytes, apart from the code under test), and what is refused. */
#include <math.h>

#include "check.h"
#include "folder.h"
#include "quant/codes.h"
#include "store/weights.h"

typedef struct bench {
    folder d;
    given t[64];
    size_t n;
    uint64_t rng;
    void *owned[64];
    size_t n_owned;
} bench;

static void start(bench *b)
{
    static uint64_t seed;
    if (!seed) seed = check_seed("weights");
    memset(b, 0, sizeof *b);
    b->rng = seed;
    folder_make(&b->d);
    folder_text(&b->d, "config.json", "{}");
}

static void finish(bench *b)
{
    for (size_t i = 0; i < b->n_owned; i++) free(b->owned[i]);
    folder_remove(&b->d);
}

static void *own(bench *b, size_t bytes)
{
    assert_true(b->n_owned < 64);
    return b->owned[b->n_owned++] = malloc(bytes ? bytes : 1);
}

static void add(bench *b, const char *name, pawl_dtype type, const void *data, int rank, int64_t d0, int64_t d1,
                int64_t d2)
{
    given *g = &b->t[b->n++];
    *g = (given){{name, type, rank, {d0, d1, d2}}, data};
}

static void add_f32(bench *b, const char *name, float value)
{
    float *f = own(b, 4);
    *f = value;
    add(b, name, PAWL_F32, f, 0, 0, 0, 0);
}

static pawl_checkpoint *open_bench(bench *b)
{
    pawl_checkpoint *ck;
    pawl_err err;
    folder_tensors(&b->d, "model.safetensors", b->t, b->n);
    check_ok(pawl__checkpoint_open(b->d.path, NULL, &ck, &err), &err);
    return ck;
}

/* n bytes that are all e4m3 numbers (no NaN). */
static uint8_t *codes(bench *b, int64_t n)
{
    uint8_t *c = own(b, (size_t)n);
    for (int64_t i = 0; i < n; i++) {
        c[i] = (uint8_t)pawl__rng_next(&b->rng);
        if ((c[i] & 0x7f) == 0x7f) c[i] = 0x38;
    }
    return c;
}

static uint8_t *bytes(bench *b, int64_t n)
{
    uint8_t *c = own(b, (size_t)n);
    for (int64_t i = 0; i < n; i++) c[i] = (uint8_t)pawl__rng_next(&b->rng);
    return c;
}

static float *floats(bench *b, int64_t n)
{
    float *f = own(b, (size_t)n * 4);
    for (int64_t i = 0; i < n; i++) f[i] = (float)(pawl__rng_uniform(&b->rng) * 0.01);
    return f;
}

static uint16_t *halves(bench *b, const float *f, int64_t n, int bf16)
{
    uint16_t *h = own(b, (size_t)n * 2);
    for (int64_t i = 0; i < n; i++) h[i] = bf16 ? pawl__bf16_encode(f[i]) : pawl__f16_encode(f[i]);
    return h;
}

static void check_row(const pawl_wmat *w, int64_t row, const float *want)
{
    float got[2200];
    assert_true(w->k <= 2200);
    pawl__wmat_decode_row(w, row, got);
    for (int64_t k = 0; k < w->k; k++)
        if (memcmp(&got[k], &want[k], 4) && !(got[k] == 0 && want[k] == 0))
            fail_msg("row %lld, column %lld: got %a, expected %a", (long long)row, (long long)k, got[k], want[k]);
}

static void must_fail(pawl_checkpoint *ck, const char *name, int64_t n, int64_t k, const char *words)
{
    pawl_wmat w;
    pawl_err err;
    check_fails(pawl__weights_matrix(ck, name, n, k, &w, &err), PAWL_EFORMAT, &err, words);
}

static void unquantised(void **state)
{
    (void)state;
    bench b;
    pawl_err err;
    pawl_wmat w;
    start(&b);
    enum { N = 3, K = 5 };
    float *f = floats(&b, N * K);
    add(&b, "odd", PAWL_U8, "x", 1, 1, 0, 0); /* everything behind it is unaligned */
    add(&b, "a.weight", PAWL_F32, f, 2, N, K, 0);
    add(&b, "b.weight", PAWL_BF16, halves(&b, f, N * K, 1), 2, N, K, 0);
    add(&b, "c.weight", PAWL_F16, halves(&b, f, N * K, 0), 2, N, K, 0);
    add(&b, "i.weight", PAWL_I8, codes(&b, N * K), 2, N, K, 0);
    add(&b, "r.weight", PAWL_F32, f, 1, N * K, 0, 0);
    add(&b, "u.weight", PAWL_F8_E5M2, codes(&b, N * K), 2, N, K, 0);
    add(&b, "s.weight", PAWL_BF16, halves(&b, f, N * K, 1), 2, N, K, 0);
    add(&b, "s.weight_scale_inv", PAWL_F32, f, 2, 1, 1, 0);
    pawl_checkpoint *ck = open_bench(&b);
    assert_true((uintptr_t)pawl__checkpoint_find(ck, "a.weight")->data % 2 == 1);
    const char *names[] = {"a", "b", "c"};
    const pawl_quant q[] = {PAWL_Q_F32, PAWL_Q_BF16, PAWL_Q_F16};
    for (int t = 0; t < 3; t++) {
        check_ok(pawl__weights_matrix(ck, names[t], N, K, &w, &err), &err);
        assert_int_equal(w.q, q[t]);
        assert_true(w.n == N && w.k == K && w.ld == K * (t ? 2 : 4) && !w.scale && !w.bscale && w.scale2 == 1.0f);
        for (int64_t n = 0; n < N; n++) {
            float want[K];
            for (int k = 0; k < K; k++) {
                float x = f[n * K + k];
                want[k] = t == 0   ? x
                          : t == 1 ? pawl__bf16_decode(pawl__bf16_encode(x))
                                   : pawl__f16_decode(pawl__f16_encode(x));
            }
            check_row(&w, n, want);
        }
    }
    assert_true(pawl__weights_has_matrix(ck, "a") && !pawl__weights_has_matrix(ck, "z"));
    must_fail(ck, "z", N, K, "tensor z.weight is missing, expected a matrix of [3, 5]");
    must_fail(ck, "a", K, N, "model.safetensors: tensor a.weight, F32 [3, 5]: expected shape [5, 3]");
    must_fail(ck, "r", N, K, "tensor r.weight, F32 [15]: expected shape [3, 5]");
    must_fail(ck, "i", N, K, "tensor i.weight, I8 [3, 5]: expected weights of type");
    must_fail(ck, "u", N, K, "F8_E5M2 [3, 5]: expected weights of type");
    must_fail(
        ck, "s", N, K,
        "tensor s.weight_scale_inv, F32 [1, 1]: a scale for an unquantised operand of op linear: its weights are BF16");
    pawl__checkpoint_close(&ck);
    finish(&b);
}

/* Dimensions that are no multiples of 128, three types of scales, a zero block. */
static void fp8_blocks(void **state)
{
    (void)state;
    static const int64_t dims[][2] = {{192, 320}, {320, 192}, {2112, 192}, {1, 1}, {128, 128}, {129, 127}};
    for (size_t d = 0; d < sizeof dims / sizeof dims[0]; d++) {
        int64_t n = dims[d][0], k = dims[d][1], nb = (n + 127) / 128, kb = (k + 127) / 128;
        bench b;
        pawl_err err;
        pawl_wmat w;
        start(&b);
        uint8_t *c = codes(&b, n * k), *e = own(&b, (size_t)(nb * kb));
        float *s = floats(&b, nb * kb);
        s[0] = 0; /* legal: the block is zeros */
        for (int64_t i = 0; i < nb * kb; i++) e[i] = (uint8_t)(100 + i % 50);
        uint16_t *sb = halves(&b, s, nb * kb, 1);
        add(&b, "odd", PAWL_U8, "x", 1, 1, 0, 0);
        add(&b, "f.weight", PAWL_F8_E4M3, c, 2, n, k, 0);
        add(&b, "f.weight_scale_inv", PAWL_F32, s, 2, nb, kb, 0);
        add(&b, "b.weight", PAWL_F8_E4M3, c, 2, n, k, 0);
        add(&b, "b.weight_scale_inv", PAWL_BF16, sb, 2, nb, kb, 0);
        add(&b, "e.weight", PAWL_F8_E4M3, c, 2, n, k, 0);
        add(&b, "e.weight_scale_inv", PAWL_F8_E8M0, e, 2, nb, kb, 0);
        pawl_checkpoint *ck = open_bench(&b);
        const char *names[] = {"f", "b", "e"};
        for (int t = 0; t < 3; t++) {
            check_ok(pawl__weights_matrix(ck, names[t], n, k, &w, &err), &err);
            assert_int_equal(w.q, PAWL_Q_FP8BLK);
            assert_true(w.ld == k && w.scale_ld == kb && w.row0 == 0);
            for (int64_t r = 0; r < n; r += r % 128 == 126 ? 1 : 63) {
                float want[2200];
                for (int64_t j = 0; j < k; j++) {
                    int64_t i = (r / 128) * kb + j / 128;
                    float scale = t == 0 ? s[i] : t == 1 ? pawl__bf16_decode(sb[i]) : ldexpf(1.0f, e[i] - 127);
                    want[j] = pawl__e4m3_decode(c[r * k + j]) * scale;
                }
                check_row(&w, r, want);
            }
        }
        pawl__checkpoint_close(&ck);
        finish(&b);
    }
}

static void fp8_other(void **state)
{
    (void)state;
    bench b;
    pawl_err err;
    pawl_wmat w;
    start(&b);
    enum { N = 160, K = 130 };
    uint8_t *c = codes(&b, N * K);
    float *s = floats(&b, N), one = 0.5f;
    static const char *const names[] = {"t0.weight", "t1.weight",   "r1.weight", "r2.weight",
                                        "p.weight",  "none.weight", "bad.weight"};
    for (int i = 0; i < 7; i++) add(&b, names[i], PAWL_F8_E4M3, c, 2, N, K, 0);
    add(&b, "t0.weight_scale", PAWL_F32, &one, 0, 0, 0, 0);
    add(&b, "t1.weight_scale", PAWL_F32, &one, 1, 1, 0, 0);
    add(&b, "r1.weight_scale", PAWL_F32, s, 1, N, 0, 0);
    add(&b, "r2.weight_scale", PAWL_BF16, halves(&b, s, N, 1), 2, N, 1, 0);
    add(&b, "p.weight_scale", PAWL_F32, s, 2, 2, 2, 0);
    add(&b, "bad.weight_scale", PAWL_F32, s, 1, 7, 0, 0);
    add_f32(&b, "t0.input_scale", 0.25f);
    add_f32(&b, "t1.input_global_scale", 8.0f);
    add_f32(&b, "r1.input_scale", -1.0f);
    pawl_checkpoint *ck = open_bench(&b);
    for (int t = 0; t < 5; t++) {
        char name[8];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(names[t], "."), names[t]);
        check_ok(pawl__weights_matrix(ck, name, N, K, &w, &err), &err);
        assert_int_equal(w.q, t < 2 ? PAWL_Q_FP8TEN : t < 4 ? PAWL_Q_FP8CH : PAWL_Q_FP8BLK);
        for (int64_t r = 0; r < N; r += 53) {
            float want[K];
            for (int j = 0; j < K; j++) {
                float scale = t < 2    ? 0.5f
                              : t == 2 ? s[r]
                              : t == 3 ? pawl__bf16_decode(pawl__bf16_encode(s[r]))
                                       : s[(r / 128) * 2 + j / 128];
                want[j] = pawl__e4m3_decode(c[r * K + j]) * scale;
            }
            check_row(&w, r, want);
        }
    }
    must_fail(ck, "none", N, K, "tensor none.weight, F8_E4M3 [160, 130]: its scale weight_scale is missing");
    must_fail(ck, "bad", N, K,
              "tensor bad.weight_scale, F32 [7]: expected one scale, one for each row, or one for each block");
    float in;
    check_ok(pawl__weights_input_scale(ck, "t0", &in, &err), &err);
    assert_true(in == 0.25f);
    check_ok(pawl__weights_input_scale(ck, "t1", &in, &err), &err);
    assert_true(in == 0.125f);
    check_ok(pawl__weights_input_scale(ck, "p", &in, &err), &err);
    assert_true(in == 0);
    check_fails(pawl__weights_input_scale(ck, "r1", &in, &err), PAWL_EFORMAT, &err, "tensor r1.input_scale");
    pawl__checkpoint_close(&ck);
    finish(&b);
}

static void fp8_refused(void **state)
{
    (void)state;
    static const struct {
        pawl_dtype type;
        uint32_t bits; /* of element 1 */
        const char *words;
    } bad[] = {
        {PAWL_F32, 0x7fc00000, "element 1 is nan, expected a finite scale of at least 0"},
        {PAWL_F32, 0xffc00000, "nan, expected a finite scale"},
        {PAWL_F32, 0x7f800000, "element 1 is inf, expected a finite scale"},
        {PAWL_F32, 0xbf800000, "element 1 is -1, expected a finite scale of at least 0"},
        {PAWL_BF16, 0x7fc0, "nan"},
        {PAWL_BF16, 0x7f80, "inf"},
        {PAWL_BF16, 0xbf80, "element 1 is -1"},
        {PAWL_F8_E8M0, 0xff, "nan"},
        {PAWL_I32, 1, "I32 [1, 2]: expected a scale of type F32, BF16, F16 or F8_E8M0"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        bench b;
        start(&b);
        uint8_t scale[8] = {0};
        size_t size = pawl__dtype_bits(bad[i].type) / 8;
        memcpy(scale + size, &bad[i].bits, size);
        add(&b, "x.weight", PAWL_F8_E4M3, codes(&b, 100 * 200), 2, 100, 200, 0);
        add(&b, "x.weight_scale_inv", bad[i].type, scale, 2, 1, 2, 0);
        pawl_checkpoint *ck = open_bench(&b);
        must_fail(ck, "x", 100, 200, bad[i].words);
        must_fail(ck, "x", 100, 200, "model.safetensors: tensor x.weight_scale_inv, ");
        pawl__checkpoint_close(&ck);
        finish(&b);
    }
    bench b;
    start(&b);
    float s[8] = {0};
    add(&b, "x.weight", PAWL_F8_E4M3, codes(&b, 192 * 320), 2, 192, 320, 0);
    add(&b, "x.weight_scale_inv", PAWL_F32, s, 2, 1, 3, 0);
    add(&b, "y.weight", PAWL_F8_E4M3, codes(&b, 192 * 320), 2, 192, 320, 0);
    add(&b, "y.weight_scale_inv", PAWL_F32, s, 2, 2, 2, 0); /* rounded down instead of up */
    pawl_checkpoint *ck = open_bench(&b);
    must_fail(ck, "x", 192, 320, "tensor x.weight_scale_inv, F32 [1, 3]: expected shape [2, 3]");
    must_fail(ck, "y", 192, 320, "tensor y.weight_scale_inv, F32 [2, 2]: expected shape [2, 3]");
    pawl__checkpoint_close(&ck);
    finish(&b);
}

static float fp4(uint8_t byte, int64_t k)
{
    static const float magnitude[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    int c = k % 2 ? byte >> 4 : byte & 15;
    return c & 8 ? -magnitude[c & 7] : magnitude[c & 7];
}

/* ModelOpt, compressed-tensors and MXFP4 matrices; in fused form with e > 0. */
static void fp4_formats(void **state)
{
    (void)state;
    bench b;
    pawl_err err;
    pawl_wmat w;
    start(&b);
    enum { N = 5, K = 96 };
    uint8_t *c = bytes(&b, N * K / 2), *s16 = codes(&b, N * K / 16), *s32 = bytes(&b, N * K / 32);
    for (int i = 0; i < N * K / 16; i++) s16[i] &= 0x7f;
    s16[3] = 0;    /* a zero block scale gives zeros */
    s16[4] = 0x80; /* so does -0 */
    for (int i = 0; i < N * K / 32; i++) s32[i] = (uint8_t)(s32[i] % 60 + 100);
    float mul = 0.003f, div = 300.0f;
    static const char *const names[] = {"m", "m1", "c", "x8", "xe", "xc"};
    add(&b, "odd", PAWL_U8, "x", 1, 1, 0, 0);
    add(&b, "m.weight", PAWL_U8, c, 2, N, K / 2, 0);
    add(&b, "m.weight_scale", PAWL_F8_E4M3, s16, 2, N, K / 16, 0);
    add(&b, "m.weight_scale_2", PAWL_F32, &mul, 0, 0, 0, 0);
    add(&b, "m1.weight", PAWL_U8, c, 2, N, K / 2, 0);
    add(&b, "m1.weight_scale", PAWL_F8_E4M3, s16, 2, N, K / 16, 0);
    add(&b, "m1.weight_scale_2", PAWL_F32, &mul, 1, 1, 0, 0);
    add(&b, "c.weight_packed", PAWL_U8, c, 2, N, K / 2, 0);
    add(&b, "c.weight_scale", PAWL_F8_E4M3, s16, 2, N, K / 16, 0);
    add(&b, "c.weight_global_scale", PAWL_F32, &div, 1, 1, 0, 0);
    add(&b, "x8.weight_packed", PAWL_U8, c, 2, N, K / 2, 0);
    add(&b, "x8.weight_scale", PAWL_U8, s32, 2, N, K / 32, 0);
    add(&b, "xe.weight_packed", PAWL_U8, c, 2, N, K / 2, 0);
    add(&b, "xe.weight_scale", PAWL_F8_E8M0, s32, 2, N, K / 32, 0);
    add(&b, "xc.weight", PAWL_U8, c, 2, N, K / 2, 0);
    add(&b, "xc.weight_scale", PAWL_U8, s32, 2, N, K / 32, 0);
    pawl_checkpoint *ck = open_bench(&b);
    for (int t = 0; t < 6; t++) {
        check_ok(pawl__weights_matrix(ck, names[t], N, K, &w, &err), &err);
        int mx = t >= 3;
        assert_int_equal(w.q, mx ? PAWL_Q_MXFP4 : PAWL_Q_NVFP4);
        assert_true(w.ld == K / 2 && w.scale_ld == K / (mx ? 32 : 16) && !w.scale && w.bscale);
        assert_true(w.scale2 == (mx ? 1.0f : t < 2 ? mul : 1.0f / div));
        for (int64_t r = 0; r < N; r++) {
            float want[K];
            for (int64_t k = 0; k < K; k++) {
                double x = fp4(c[r * K / 2 + k / 2], k);
                x *= mx ? ldexp(1.0, s32[r * K / 32 + k / 32] - 127)
                        : (double)pawl__e4m3_decode(s16[r * K / 16 + k / 16]);
                want[k] = (float)(x * (double)w.scale2);
            }
            check_row(&w, r, want);
        }
    }
    assert_int_equal(pawl__checkpoint_warn_unused(ck), 1); /* only "odd" */
    pawl__checkpoint_close(&ck);
    finish(&b);
}

static void fp4_refused(void **state)
{
    (void)state;
    bench b;
    start(&b);
    enum { N = 4, K = 64 };
    uint8_t *c = bytes(&b, N * K / 2), *good = own(&b, N * K / 16);
    memset(good, 0x38, N * K / 16);
    static const uint8_t nan[16] = {1, 2, 3, 0x7f}, negative[16] = {1, 0x81}, mxnan[8] = {0, 0xff};
    float zero = 0, inf = INFINITY, neg = -1, mul = 1, two[2] = {1, 1};
    static const struct {
        const char *name;
        int packed;
    } m[] = {{"noscale", 0}, {"no2", 0},  {"nog", 1}, {"nan", 0},  {"neg", 0},   {"mxnan", 0},
             {"inf2", 0},    {"neg2", 0}, {"two", 0}, {"div0", 1}, {"shape", 0}, {"type", 0}};
    char name[12][5][32];
    for (int i = 0; i < 12; i++) {
        snprintf(name[i][0], 32, m[i].packed ? "%s.weight_packed" : "%s.weight", m[i].name);
        snprintf(name[i][1], 32, "%s.weight_scale", m[i].name);
        snprintf(name[i][2], 32, m[i].packed ? "%s.weight_global_scale" : "%s.weight_scale_2", m[i].name);
        add(&b, name[i][0], PAWL_U8, c, 2, N, K / 2, 0);
        const void *s = i == 3 ? nan : i == 4 ? negative : i == 5 ? mxnan : good;
        if (i == 5) {
            add(&b, name[i][1], PAWL_U8, s, 2, N, K / 32, 0);
        } else if (i == 11) {
            add(&b, name[i][1], PAWL_I8, s, 2, N, K / 16, 0);
        } else if (i != 0) {
            add(&b, name[i][1], PAWL_F8_E4M3, s, 2, i == 10 ? N * 2 : N, i == 10 ? K / 32 : K / 16, 0);
        }
        const float *f = i == 6 ? &inf : i == 7 ? &neg : i == 8 ? two : i == 9 ? &zero : &mul;
        if (i > 2 && i != 5) add(&b, name[i][2], PAWL_F32, f, 1, i == 8 ? 2 : 1, 0, 0);
    }
    pawl_checkpoint *ck = open_bench(&b);
    must_fail(ck, "noscale", N, K, "tensor noscale.weight, U8 [4, 32]: its scale weight_scale is missing");
    must_fail(ck, "no2", N, K, "tensor no2.weight, U8 [4, 32]: its scale weight_scale_2 is missing");
    must_fail(ck, "nog", N, K, "tensor nog.weight_packed, U8 [4, 32]: its scale weight_global_scale is missing");
    must_fail(
        ck, "nan", N, K,
        "tensor nan.weight_scale, F8_E4M3 [4, 4]: byte 3 is 0x7f, expected a scale that is neither NaN nor negative");
    must_fail(ck, "neg", N, K, "byte 1 is 0x81");
    must_fail(ck, "mxnan", N, K, "byte 1 is 0xff");
    must_fail(ck, "inf2", N, K, "tensor inf2.weight_scale_2, F32 [1]: element 0 is inf");
    must_fail(ck, "neg2", N, K, "element 0 is -1");
    must_fail(ck, "two", N, K, "tensor two.weight_scale_2, F32 [2]: expected one element");
    must_fail(ck, "div0", N, K, "expected a divisor greater than 0");
    must_fail(ck, "shape", N, K, "tensor shape.weight_scale, F8_E4M3 [8, 2]: expected shape [4, 4]");
    must_fail(ck, "type", N, K, "tensor type.weight_scale, I8 [4, 4]: expected block scales of type F8_E4M3");
    must_fail(ck, "neg2", N, K * 2, "tensor neg2.weight, U8 [4, 32]: expected shape [4, 64]");
    must_fail(ck, "neg2", N, 72, "rows of 72 values, expected a multiple of 16");
    pawl__checkpoint_close(&ck);
    finish(&b);
}

static void vectors(void **state)
{
    (void)state;
    bench b;
    pawl_err err;
    float *out;
    start(&b);
    float f[4] = {1.5f, -2, 0.25f, 8};
    double d[4] = {1.5, -2, 0.25, 8};
    add(&b, "odd", PAWL_U8, "x", 1, 1, 0, 0);
    add(&b, "f", PAWL_F32, f, 1, 4, 0, 0);
    add(&b, "b", PAWL_BF16, halves(&b, f, 4, 1), 1, 4, 0, 0);
    add(&b, "h", PAWL_F16, halves(&b, f, 4, 0), 1, 4, 0, 0);
    add(&b, "d", PAWL_F64, d, 1, 4, 0, 0);
    add(&b, "conv", PAWL_F32, f, 3, 1, 1, 4);
    add(&b, "u", PAWL_U8, f, 1, 4, 0, 0);
    pawl_checkpoint *ck = open_bench(&b);
    static const char *const names[] = {"f", "b", "h", "d"};
    for (int i = 0; i < 4; i++) {
        check_ok(pawl__weights_vector(ck, names[i], 4, &out, &err), &err);
        assert_memory_equal(out, f, sizeof f);
    }
    const int64_t shape[3] = {1, 1, 4};
    check_ok(pawl__weights_tensor(ck, "conv", 3, shape, &out, &err), &err);
    assert_memory_equal(out, f, sizeof f);
    check_fails(pawl__weights_vector(ck, "f", 5, &out, &err), PAWL_EFORMAT, &err,
                "tensor f: found F32 [4], expected a float type and shape [5]");
    check_fails(pawl__weights_vector(ck, "conv", 4, &out, &err), PAWL_EFORMAT, &err, "found F32 [1, 1, 4]");
    check_fails(pawl__weights_vector(ck, "u", 4, &out, &err), PAWL_EFORMAT, &err,
                "found U8 [4], expected a float type");
    check_fails(pawl__weights_vector(ck, "mtp.norm.weight", 4, &out, &err), PAWL_EFORMAT, &err,
                "tensor mtp.norm.weight is missing, expected shape [4]");
    pawl__checkpoint_close(&ck);
    finish(&b);
}

/* Fused experts whose I is no multiple of 128: the up half starts inside a block of scales. */
static void fused_fp8(void **state)
{
    (void)state;
    enum { E = 3, I = 96, H = 160, NB = 2, KB = 2, DN = 2, DK = 1 };
    bench b;
    pawl_err err;
    pawl_expert x[E + 1];
    start(&b);
    uint8_t *gu = codes(&b, E * 2 * I * H), *dn = codes(&b, E * H * I);
    float *sg = floats(&b, E * NB * KB), *sd = floats(&b, E * DN * DK);
    add(&b, "odd", PAWL_U8, "x", 1, 1, 0, 0);
    add(&b, "e.gate_up_proj", PAWL_F8_E4M3, gu, 3, E, 2 * I, H);
    add(&b, "e.gate_up_proj_scale_inv", PAWL_F32, sg, 3, E, NB, KB);
    add(&b, "e.down_proj", PAWL_F8_E4M3, dn, 3, E, H, I);
    add(&b, "e.down_proj_scale_inv", PAWL_F32, sd, 3, E, DN, DK);
    add(&b, "g.gate_up_proj", PAWL_F8_E4M3, gu, 3, E, 2 * I, H);
    add(&b, "w.gate_up_proj", PAWL_F8_E4M3, gu, 3, E, 2 * I, H);
    add(&b, "w.gate_up_proj_scale_inv", PAWL_F32, sg, 2, NB, KB, 0);
    add(&b, "w.down_proj", PAWL_F8_E4M3, dn, 3, E, H, I);
    pawl_checkpoint *ck = open_bench(&b);
    check_ok(pawl__weights_experts(ck, "e", E, I, H, x, &err), &err);
    for (int e = 0; e < E; e++) {
        assert_true(!x[e].gate_bias && !x[e].up_bias && !x[e].down_bias);
        assert_true(x[e].gate.n == I && x[e].up.n == I && x[e].down.n == H && x[e].down.k == I);
        for (int half = 0; half < 2; half++)
            for (int r = 0; r < I; r++) {
                float want[H];
                int row = half * I + r;
                for (int k = 0; k < H; k++)
                    want[k] =
                        pawl__e4m3_decode(gu[(e * 2 * I + row) * H + k]) * sg[(e * NB + row / 128) * KB + k / 128];
                check_row(half ? &x[e].up : &x[e].gate, r, want);
            }
        for (int r = 0; r < H; r++) {
            float want[I];
            for (int k = 0; k < I; k++) want[k] = pawl__e4m3_decode(dn[(e * H + r) * I + k]) * sd[e * DN + r / 128];
            check_row(&x[e].down, r, want);
        }
    }
    check_fails(pawl__weights_experts(ck, "g", E, I, H, x, &err), PAWL_EFORMAT, &err,
                "tensor g.down_proj is missing, although g.gate_up_proj is there");
    check_fails(pawl__weights_experts(ck, "w", E, I, H, x, &err), PAWL_EFORMAT, &err,
                "tensor w.gate_up_proj_scale_inv, F32 [2, 2]: expected shape [3, 2, 2]");
    check_fails(pawl__weights_experts(ck, "n", E, I, H, x, &err), PAWL_EFORMAT, &err,
                "tensor n.0.gate_proj.weight is missing, expected a matrix of [96, 160]");
    check_fails(pawl__weights_experts(ck, "e", E + 1, I, H, x, &err), PAWL_EFORMAT, &err,
                "tensor e.gate_up_proj, F8_E4M3 [3, 192, 160]: expected shape [4, 192, 160]");
    pawl__checkpoint_close(&ck);
    finish(&b);
}

static void fused_others(void **state)
{
    (void)state;
    enum { E = 2, I = 16, H = 32 };
    bench b;
    pawl_err err;
    pawl_expert x[E];
    start(&b);
    float *f = floats(&b, E * 2 * I * H), s2[E] = {0.5f, 0.25f}, st[E] = {2, 4};
    uint8_t *c = bytes(&b, E * I * H), *s = codes(&b, E * 2 * I * H / 16), *c8 = codes(&b, E * 2 * I * H);
    for (int i = 0; i < E * 2 * I * H / 16; i++) s[i] &= 0x7f;
    float *ch = floats(&b, E * 2 * I);
    add(&b, "b.gate_up_proj", PAWL_F32, f, 3, E, 2 * I, H);
    add(&b, "b.down_proj", PAWL_F32, f, 3, E, H, I);
    add(&b, "n.gate_up_proj", PAWL_U8, c, 3, E, 2 * I, H / 2);
    add(&b, "n.gate_up_proj_weight_scale", PAWL_F8_E4M3, s, 3, E, 2 * I, H / 16);
    add(&b, "n.gate_up_proj_weight_scale_2", PAWL_F32, s2, 1, E, 0, 0);
    add(&b, "n.down_proj", PAWL_F8_E4M3, c8, 3, E, H, I);
    add(&b, "n.down_proj_scale", PAWL_F32, st, 1, E, 0, 0); /* per tensor */
    add(&b, "c.gate_up_proj.weight", PAWL_F8_E4M3, c8, 3, E, 2 * I, H);
    add(&b, "c.gate_up_proj.weight_scale", PAWL_F32, ch, 3, E, 2 * I, 1); /* per row */
    add(&b, "c.down_proj.weight", PAWL_F32, f, 3, E, H, I);
    add(&b, "s.gate_up_proj", PAWL_F32, f, 3, E, 2 * I, H);
    add(&b, "s.gate_up_proj_scale_inv", PAWL_F32, st, 1, E, 0, 0);
    add(&b, "s.down_proj", PAWL_F32, f, 3, E, H, I);
    pawl_checkpoint *ck = open_bench(&b);
    check_ok(pawl__weights_experts(ck, "b", E, I, H, x, &err), &err);
    for (int e = 0; e < E; e++)
        for (int r = 0; r < I; r++) {
            check_row(&x[e].gate, r, f + (e * 2 * I + r) * H);
            check_row(&x[e].up, r, f + (e * 2 * I + I + r) * H);
            check_row(&x[e].down, r, f + (e * H + r) * I);
        }
    check_ok(pawl__weights_experts(ck, "n", E, I, H, x, &err), &err);
    for (int e = 0; e < E; e++) {
        assert_true(x[e].up.q == PAWL_Q_NVFP4 && x[e].up.scale2 == s2[e] && x[e].down.q == PAWL_Q_FP8TEN);
        float want[H];
        for (int r = 0; r < I; r++) {
            int row = e * 2 * I + I + r;
            for (int k = 0; k < H; k++)
                want[k] = fp4(c[row * H / 2 + k / 2], k) * pawl__e4m3_decode(s[row * H / 16 + k / 16]) * s2[e];
            check_row(&x[e].up, r, want);
        }
        for (int k = 0; k < I; k++) want[k] = pawl__e4m3_decode(c8[(e * H + 3) * I + k]) * st[e];
        check_row(&x[e].down, 3, want);
    }
    check_ok(pawl__weights_experts(ck, "c", E, I, H, x, &err), &err);
    for (int e = 0; e < E; e++) {
        float want[H];
        int row = e * 2 * I + I + 5;
        for (int k = 0; k < H; k++) want[k] = pawl__e4m3_decode(c8[row * H + k]) * ch[row];
        check_row(&x[e].up, 5, want);
    }
    check_fails(pawl__weights_experts(ck, "s", E, I, H, x, &err), PAWL_EFORMAT, &err,
                "tensor s.gate_up_proj_scale_inv, F32 [2]: a scale for an unquantised operand of op moe");
    pawl__checkpoint_close(&ck);
    finish(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unquantised), cmocka_unit_test(fp8_blocks),  cmocka_unit_test(fp8_other),
        cmocka_unit_test(fp8_refused), cmocka_unit_test(fp4_formats), cmocka_unit_test(fp4_refused),
        cmocka_unit_test(vectors),     cmocka_unit_test(fused_fp8),   cmocka_unit_test(fused_others),
    };
    return cmocka_run_group_tests_name("store.weights", tests, NULL, NULL);
}
