/* Block formats: encoders, the decoder that kernels are tested by, views, sizes and names. */
#include "check.h"

#include <math.h>

#include "quant/codes.h"
#include "quant/quant.h"

static float normal(uint64_t *rng)
{
    double r = 0;
    for (int i = 0; i < 12; i++) r += pawl__rng_uniform(rng);
    return (float)(r - 6);
}

static double distance(const float *a, const float *b, int64_t n)
{
    double d = 0, s = 0;
    for (int64_t i = 0; i < n; i++) {
        d += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        s += (double)b[i] * b[i];
    }
    return sqrt(d / s);
}

static void decode_all(const pawl_wmat *w, float *out)
{
    for (int64_t r = 0; r < w->n; r++) pawl__wmat_decode_row(w, r, out + r * w->k);
}

/* Encodes [n, k] with a block of zeros and an outlier, and checks every scale and every element's error. */
static void fp8_blocks_of(int64_t n, int64_t k, unsigned flags, uint64_t *rng)
{
    int64_t bn = (n + 127) / 128, bk = (k + 127) / 128;
    float *w = malloc((size_t)(n * k) * 4), *back = malloc((size_t)(n * k) * 4), *scale = malloc((size_t)(bn * bk) * 4);
    uint8_t *codes = malloc((size_t)(n * k));
    for (int64_t i = 0; i < n * k; i++) w[i] = normal(rng) * 0.02f;
    for (int64_t r = 0; r < n && r < 128; r++)
        for (int64_t c = 0; c < k && c < 128; c++) w[r * k + c] = 0;
    w[n * k - 1] = 3;
    pawl__fp8blk_encode(w, n, k, flags, codes, scale);
    pawl_wmat m = {
        .q = PAWL_Q_FP8BLK, .n = n, .k = k, .data = codes, .ld = k, .scale = scale, .scale_ld = bk, .scale2 = 1};
    decode_all(&m, back);
    assert_true(scale[0] == 1.0f);
    for (int64_t r = 0; r < n; r++)
        for (int64_t c = 0; c < k; c++) {
            float s = scale[r / 128 * bk + c / 128], x = w[r * k + c];
            /* half a step: 2^-4 of the value, or half the smallest subnormal; a bf16 scale may cut the largest by 2^-8 */
            double bound = fmax(fabs(x) * (flags & PAWL_FP8_BF16_SCALE ? 0.067 : 0.0625), s * 0x1p-10) * 1.000001;
            if (fabs((double)back[r * k + c] - x) > bound) fail_msg("[%lld,%lld]", (long long)r, (long long)c);
            if (flags & PAWL_FP8_UE8M0) assert_true(frexpf(s, &(int){0}) == 0.5f);
            if (flags & PAWL_FP8_BF16_SCALE) assert_true(pawl__bf16_decode(pawl__bf16_encode(s)) == s);
        }
    if (flags == 0) assert_true(scale[bn * bk - 1] == 3.0f / 448.0f && codes[n * k - 1] == 0x7e);
    free(w);
    free(back);
    free(scale);
    free(codes);
}

static void fp8_blocks(void **state)
{
    (void)state;
    uint64_t rng = check_seed("fp8_blocks");
    const int64_t dims[][2] = {{192, 320}, {320, 192}, {2112, 256}, {130, 2112}, {1, 129}};
    for (int i = 0; i < 5; i++)
        for (unsigned flags = 0; flags < 4; flags++) fp8_blocks_of(dims[i][0], dims[i][1], flags, &rng);
}

/* Rounding scales up to powers of two with the codes made anew costs under 4 % of the norm; keeping the old codes under the
 * new scales would cost up to half of it, and must be far outside. */
static void ue8m0_requantisation(void **state)
{
    (void)state;
    uint64_t rng = check_seed("ue8m0_requantisation");
    enum { N = 512, K = 512, B = 4 };
    static float w[N * K], first[N * K], second[N * K], scale[B * B], scale_up[B * B];
    static uint8_t codes[N * K], codes_up[N * K];
    for (int i = 0; i < N * K; i++) w[i] = normal(&rng) * 0.02f * (float)(1 + i / K / 128);
    pawl_wmat m = {
        .q = PAWL_Q_FP8BLK, .n = N, .k = K, .data = codes, .ld = K, .scale = scale, .scale_ld = B, .scale2 = 1};
    pawl__fp8blk_encode(w, N, K, 0, codes, scale);
    decode_all(&m, first);
    pawl__fp8blk_encode(first, N, K, PAWL_FP8_UE8M0, codes_up, scale_up);
    m.data = codes_up;
    m.scale = scale_up;
    decode_all(&m, second);
    double error = distance(second, first, N * K);
    printf("UE8M0 requantisation: relative Frobenius error %.4f\n", error);
    assert_true(error > 0.005 && error < 0.04);
    m.data = codes;
    decode_all(&m, second);
    assert_true(distance(second, first, N * K) > 0.04);
}

static void nvfp4_worked_example(void **state)
{
    (void)state;
    const float w[16] = {0.1f,   -0.2f, 0.3f,  0.05f,  -0.6f, 0.25f, 0,      0.45f,
                         -0.15f, 0.12f, 0.33f, -0.41f, 0.02f, 0.5f,  -0.55f, 0.07f};
    const uint8_t expected[8] = {0xc2, 0x15, 0x5f, 0x60, 0x2b, 0xe5, 0x70, 0x1f};
    const double decoded[16] = {0.096429,  -0.192857, 0.289286, 0.048214,  -0.578571, 0.289286, 0,         0.385714,
                                -0.144643, 0.096429,  0.289286, -0.385714, 0,         0.578571, -0.578571, 0.048214};
    uint8_t codes[8], bscale[1];
    float back[16], scale2 = pawl__nvfp4_encode(w, 1, 16, 0.9f / (6.0f * 448.0f), codes, bscale);
    assert_true(fabs(scale2 - 3.3482143e-4) < 1e-10);
    assert_int_equal(bscale[0], 0x79);
    assert_memory_equal(codes, expected, 8);
    pawl_wmat m = {
        .q = PAWL_Q_NVFP4, .n = 1, .k = 16, .data = codes, .ld = 8, .bscale = bscale, .scale_ld = 1, .scale2 = scale2};
    pawl__wmat_decode_row(&m, 0, back);
    for (int i = 0; i < 16; i++) assert_true(fabs(back[i] - decoded[i]) < 1e-6);
}

static void nvfp4_matrix(void **state)
{
    (void)state;
    uint64_t rng = check_seed("nvfp4_matrix");
    enum { N = 24, K = 96 };
    float w[N * K], back[N * K], amax = 0;
    uint8_t codes[N * K / 2], bscale[N * K / 16];
    for (int i = 0; i < N * K; i++) w[i] = normal(&rng) * 0.05f;
    for (int i = 0; i < 16; i++) w[i] = 0; /* a zero block keeps scale 1.0 */
    for (int i = 0; i < N * K; i++) amax = fmaxf(amax, fabsf(w[i]));
    float scale2 = pawl__nvfp4_encode(w, N, K, 0, codes, bscale);
    assert_true(scale2 == amax / 2688.0f);
    assert_int_equal(bscale[0], 0x38);
    pawl_wmat m = {.q = PAWL_Q_NVFP4,
                   .n = N,
                   .k = K,
                   .data = codes,
                   .ld = K / 2,
                   .bscale = bscale,
                   .scale_ld = K / 16,
                   .scale2 = scale2};
    decode_all(&m, back);
    for (int i = 0; i < N * K; i++) {
        float s = pawl__e4m3_decode(bscale[i / 16]) * scale2;
        assert_true(fabsf(back[i] - w[i]) <= s * 1.01f + fabsf(w[i]) * 0.07f);
        int nibble = i % 2 ? codes[i / 2] >> 4 : codes[i / 2] & 15;
        assert_true((double)back[i] ==
                    (float)((double)pawl__e2m1_table[nibble] * pawl__e4m3_decode(bscale[i / 16]) * scale2));
    }
    assert_true(distance(back, w, N * K) < 0.13);
    uint8_t zero_scale[N * K / 16] = {0}; /* legal in a file: gives zeros */
    m.bscale = zero_scale;
    decode_all(&m, back);
    for (int i = 0; i < N * K; i++) assert_true(back[i] == 0);
    assert_true(pawl__nvfp4_encode((float[16]){0}, 1, 16, 0, codes, bscale) > 0);
}

static void mxfp4_decodes(void **state)
{
    (void)state;
    uint8_t codes[64], bscale[4] = {0, 127, 130, 120};
    float back[128];
    for (int i = 0; i < 64; i++) codes[i] = (uint8_t)(i * 37 + 11);
    pawl_wmat m = {
        .q = PAWL_Q_MXFP4, .n = 2, .k = 64, .data = codes, .ld = 32, .bscale = bscale, .scale_ld = 2, .scale2 = 1};
    decode_all(&m, back);
    for (int i = 0; i < 128; i++) {
        int nibble = i % 2 ? codes[i / 2] >> 4 : codes[i / 2] & 15;
        assert_true((double)back[i] == pawl__e2m1_table[nibble] * ldexp(1, bscale[i / 32] - 127));
    }
}

static void other_formats_decode(void **state)
{
    (void)state;
    /* unaligned on purpose: weights lie in a mapped file */
    unsigned char raw[64];
    const uint16_t bf16[4] = {0x3f80, 0xc000, 0x7fc0, 0x0001}, f16[4] = {0x3c00, 0xc000, 0x7bff, 0x0001};
    const float f32[4] = {1, -2, 0x1p-149f, 3e38f}, channel[2] = {0.5f, 3};
    float back[4];
    memcpy(raw + 1, bf16, 8);
    pawl_wmat m = {.q = PAWL_Q_BF16, .n = 1, .k = 4, .data = raw + 1, .ld = 8, .scale2 = 1};
    pawl__wmat_decode_row(&m, 0, back);
    assert_true(back[0] == 1 && back[1] == -2 && isnan(back[2]) && back[3] == 0x1p-133f);
    memcpy(raw + 1, f16, 8);
    m.q = PAWL_Q_F16;
    pawl__wmat_decode_row(&m, 0, back);
    assert_true(back[0] == 1 && back[1] == -2 && back[2] == 65504 && back[3] == 0x1p-24f);
    memcpy(raw + 1, f32, 16);
    m.q = PAWL_Q_F32;
    m.ld = 16;
    pawl__wmat_decode_row(&m, 0, back);
    assert_memory_equal(back, f32, 16);
    const uint8_t fp8[4] = {0x38, 0xb8, 0x7e, 0x7f};
    m = (pawl_wmat){.q = PAWL_Q_FP8CH, .n = 2, .k = 2, .data = fp8, .ld = 2, .scale = channel, .scale2 = 1};
    pawl__wmat_decode_row(&m, 1, back);
    assert_true(back[0] == 1344 && isnan(back[1]));
    m.q = PAWL_Q_FP8TEN;
    pawl__wmat_decode_row(&m, 0, back);
    assert_true(back[0] == 0.5f && back[1] == -0.5f);
}

static void views(void **state)
{
    (void)state;
    enum { N = 300, K = 130 };
    static uint8_t codes[N * K];
    static float whole[N * K], row[K], scale[3 * 2] = {1, 2, 3, 4, 5, 6}, channel[N];
    for (int i = 0; i < N * K; i++) codes[i] = (uint8_t)(i % 120);
    for (int i = 0; i < N; i++) channel[i] = (float)i;
    pawl_wmat m = {
        .q = PAWL_Q_FP8BLK, .n = N, .k = K, .data = codes, .ld = K, .scale = scale, .scale_ld = 2, .scale2 = 1};
    for (int q = 0; q < 2; q++) {
        if (q) {
            m.q = PAWL_Q_FP8CH;
            m.scale = channel;
            m.scale_ld = 0;
        }
        decode_all(&m, whole);
        pawl_wmat outer = pawl__wmat_rows(&m, 100, 150), inner = pawl__wmat_rows(&outer, 30, 100); /* rows 130 .. 229 */
        for (int i = 0; i < 100; i++) {
            pawl__wmat_decode_row(&inner, i, row);
            assert_memory_equal(row, whole + (130 + i) * K, sizeof row);
        }
        assert_true(inner.row0 >= 0 && inner.row0 < 128);
    }
}

static void activations(void **state)
{
    (void)state;
    float x[130] = {0.5f, -1, 2, 3.5f}, scale[2];
    uint8_t codes[130];
    pawl__fp8_quantize_row(x, 130, 1e-10f, 0, codes, scale);
    const uint8_t expected[4] = {0x68, 0xf0, 0x78, 0x7e};
    assert_memory_equal(codes, expected, 4);
    assert_true(scale[0] == 0.0078125f && scale[1] == 1e-10f / 448.0f);
    assert_int_equal(codes[129], 0);
    x[0] = 4;
    pawl__fp8_quantize_row(x, 128, 1e-10f, 1, codes, scale);
    assert_true(scale[0] == 0x1p-6f); /* 4/448 rounded up */
    assert_int_equal(codes[0], pawl__e4m3_encode(256));
}

static void names_and_sizes(void **state)
{
    (void)state;
    for (int q = 0; q < PAWL_QUANT_COUNT; q++) {
        const char *word = pawl__quant_word((pawl_quant)q);
        assert_int_equal(pawl__quant_parse(word, strlen(word)), q);
    }
    for (int s = 0; s < PAWL_SCALE_COUNT; s++) {
        const char *word = pawl__scale_word((pawl_scale)s);
        assert_int_equal(pawl__scale_parse(word, strlen(word)), s);
    }
    assert_string_equal(pawl__quant_word(PAWL_Q_FP8BLK), "fp8blk128");
    assert_int_equal(pawl__quant_parse("fp8", 3), PAWL_QUANT_COUNT);
    assert_int_equal(pawl__scale_parse("f32 ", 4), PAWL_SCALE_COUNT);
    assert_int_equal(pawl__quant_row_bytes(PAWL_Q_F32, 10), 40);
    assert_int_equal(pawl__quant_row_bytes(PAWL_Q_BF16, 10), 20);
    assert_int_equal(pawl__quant_row_bytes(PAWL_Q_NVFP4, 32), 16);
    pawl_wmat m = {.q = PAWL_Q_FP8BLK, .n = 192, .k = 320};
    assert_int_equal(pawl__wmat_bytes(&m), 192 * 320 + 2 * 3 * 4);
    m.q = PAWL_Q_NVFP4;
    assert_int_equal(pawl__wmat_bytes(&m), 192 * 160 + 192 * 20 + 4);
    m.q = PAWL_Q_MXFP4;
    assert_int_equal(pawl__wmat_bytes(&m), 192 * 160 + 192 * 10);
    m.q = PAWL_Q_BF16;
    assert_int_equal(pawl__wmat_bytes(&m), 192 * 640);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fp8_blocks),   cmocka_unit_test(ue8m0_requantisation), cmocka_unit_test(nvfp4_worked_example),
        cmocka_unit_test(nvfp4_matrix), cmocka_unit_test(mxfp4_decodes),        cmocka_unit_test(other_formats_decode),
        cmocka_unit_test(views),        cmocka_unit_test(activations),          cmocka_unit_test(names_and_sizes),
    };
    return cmocka_run_group_tests_name("quant.blocks", tests, NULL, NULL);
}
