/* The int8 forms of activations and weights, against values worked out by hand and against the definitions in double. */
#include "quant/act8.h"

#include "base/rng.h"
#include "check.h"
#include "quant/codes.h"

enum { GROUP = PAWL_ACT8_GROUP };

static void test_row_by_hand(void **state)
{
    (void)state;
    float x[40] = {0}, scale[2];
    int8_t code[64];
    x[0] = -254.0f; /* scale 2 */
    x[1] = 254.0f;
    x[2] = 1.0f;  /* 0.5: to even, 0 */
    x[3] = 3.0f;  /* 1.5: to even, 2 */
    x[4] = -5.0f; /* -2.5: to even, -2 */
    x[5] = 100.5f;
    x[31] = -0.9f;
    x[32] = 1e-3f; /* the last group has 8 elements */
    x[39] = -1e-3f;
    pawl__act8_quantize_row(x, 40, code, scale);
    static const int8_t first[] = {-127, 127, 0, 2, -2, 50};
    assert_memory_equal(code, first, sizeof first);
    assert_int_equal(code[31], 0);
    assert_int_equal(code[32], 127);
    assert_int_equal(code[39], -127);
    for (int i = 40; i < 64; i++) assert_int_equal(code[i], 0);
    assert_true(scale[0] == 2.0f && scale[1] == 1e-3f / 127.0f);
}

static void test_row_extremes(void **state)
{
    (void)state;
    static const struct {
        float v, scale;
        int8_t code;
    } cases[] = {{0, 0, 0},
                 {-0.0f, 0, 0},
                 {0x1p-149f, 0, 0},
                 {0x1.fffffep-101f, 0, 0},
                 {0x1p-100f, 0x1p-100f / 127, 127},
                 {-0x1.fffffep127f, 0x1.fffffep127f / 127, -127},
                 {INFINITY, NAN, 0},
                 {-INFINITY, NAN, 0},
                 {NAN, NAN, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float x[GROUP] = {[7] = cases[i].v, [8] = 0x1p-120f}, scale;
        int8_t code[GROUP];
        pawl__act8_quantize_row(x, GROUP, code, &scale);
        assert_int_equal(code[7], cases[i].code);
        assert_int_equal(code[8], 0);
        assert_true(scale == cases[i].scale || (scale != scale && cases[i].scale != cases[i].scale));
    }
}

static void test_rows_are_near(void **state)
{
    (void)state;
    uint64_t s = check_seed("act8");
    for (int trial = 0; trial < 2000; trial++) {
        float x[GROUP], scale, most = 0;
        int8_t code[GROUP];
        int e = (int)(pawl__rng_next(&s) % 180) - 90;
        for (int i = 0; i < GROUP; i++) {
            x[i] = ldexpf((float)(int64_t)(pawl__rng_next(&s) % 2000001) - 1000000.0f, e);
            most = fmaxf(most, fabsf(x[i]));
        }
        pawl__act8_quantize_row(x, GROUP, code, &scale);
        assert_true(scale == most / 127.0f);
        for (int i = 0; i < GROUP; i++) assert_true(fabs(code[i] * (double)scale - x[i]) <= 0.50001 * scale);
    }
}

static void test_nvfp4_is_exact(void **state)
{
    (void)state;
    uint8_t codes[24], scales[3] = {0x38, 0x7f, 0x01}; /* 1, NaN, 2^-9 */
    for (int i = 0; i < 24; i++) codes[i] = (uint8_t)((2 * i & 15) | ((2 * i + 1) & 15) << 4);
    pawl_wmat w = {
        .q = PAWL_Q_NVFP4, .n = 1, .k = 48, .data = codes, .ld = 24, .bscale = scales, .scale_ld = 3, .scale2 = 3.0f};
    int8_t code[GROUP];
    float scale[2];
    pawl__int8_weights(&w, 0, 0, code, scale);
    for (int i = 0; i < GROUP; i++) assert_true(code[i] == 2 * pawl__e2m1_table[i % 16]);
    assert_true(scale[0] == 1 && scale[1] != scale[1]);
    pawl__int8_weights(&w, 0, 1, code, scale); /* half a group */
    for (int i = 0; i < GROUP; i++) assert_true(code[i] == (i < 16 ? 2 * pawl__e2m1_table[i] : 0));
    assert_true(scale[0] == 0x1p-9f && scale[1] == 0);
    assert_true(pawl__int8_last(&w, 0) == 1.5f);
}

/* By hand: 0x48 is 2 * 2^1 = 4, the exponent field 9; then codes are values times 2^4. */
static void test_fp8_by_hand(void **state)
{
    (void)state;
    static const uint8_t codes[33] = {0x48, 0xc8, 0x38, 0x3c, 0x07, 0x15, 0x0f, [32] = 0x7f};
    static const float values[] = {4, -4, 1, 1.5f, 7 * 0x1p-9f, 13 * 0x1p-8f, 15 * 0x1p-9f};
    static const int8_t expected[] = {64, -64, 16, 24, 0, 1, 0};
    static const float scale_of_block[2] = {0.5f, 0.25f};
    pawl_wmat w = {
        .q = PAWL_Q_FP8BLK, .n = 1, .k = 33, .data = codes, .ld = 33, .scale = scale_of_block, .scale_ld = 1};
    int8_t code[GROUP];
    float scale[2];
    pawl__int8_weights(&w, 0, 0, code, scale);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        assert_true(pawl__e4m3_decode(codes[i]) == values[i]);
        assert_int_equal(code[i], expected[i]);
    }
    assert_true(scale[0] == 0x1p-5f && scale[1] == scale[0]);
    pawl__int8_weights(&w, 0, 1, code, scale); /* a NaN */
    assert_true(scale[0] != scale[0]);
    w.row0 = 127; /* row 1 lies in the second block */
    w.n = 2;
    w.ld = 0;
    pawl__int8_weights(&w, 1, 0, code, scale);
    assert_true(scale[0] == 0x1p-6f);
    w.q = PAWL_Q_FP8CH;
    pawl__int8_weights(&w, 1, 0, code, scale);
    assert_true(scale[0] == 0x1p-4f && pawl__int8_last(&w, 1) == 0.25f);
}

/* The error that quant/act8.h promises, and the figure for ordinary weights. */
static void test_fp8_error(void **state)
{
    (void)state;
    uint64_t s = check_seed("int8 weights");
    double sum = 0, off = 0;
    for (int trial = 0; trial < 2000; trial++) {
        uint8_t codes[GROUP];
        int8_t code[GROUP];
        float scale[2], one = 1, most = 0;
        int ordinary = trial % 2;
        for (int i = 0; i < GROUP; i++) {
            double u = 0;
            for (int j = 0; j < 12; j++) u += pawl__rng_uniform(&s);
            codes[i] = ordinary ? pawl__e4m3_encode((float)((u - 6) * 100)) : (uint8_t)pawl__rng_next(&s);
            if ((codes[i] & 0x7f) == 0x7f) codes[i] = 0;
            most = fmaxf(most, fabsf(pawl__e4m3_decode(codes[i])));
        }
        pawl_wmat w = {.q = PAWL_Q_FP8TEN, .n = 1, .k = GROUP, .data = codes, .ld = GROUP, .scale = &one};
        pawl__int8_weights(&w, 0, 0, code, scale);
        for (int i = 0; i < GROUP; i++) {
            float v = pawl__e4m3_decode(codes[i]);
            double d = fabs(code[i] * (double)scale[0] - v);
            assert_in_range(code[i] + 120, 0, 240);
            assert_true(d <= fmax(most * 0x1p-7, 0x1p-6));
            if (fabsf(v) >= most / 8 && most >= 4) assert_true(d == 0);
            if (ordinary) sum += (double)v * v, off += d * d;
        }
    }
    double relative = sqrt(off / sum);
    printf("fp8 weights of normal distribution as int8: relative error %.5f\n", relative);
    assert_true(relative < 0.005);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_row_by_hand),   cmocka_unit_test(test_row_extremes),
                                       cmocka_unit_test(test_rows_are_near), cmocka_unit_test(test_nvfp4_is_exact),
                                       cmocka_unit_test(test_fp8_by_hand),   cmocka_unit_test(test_fp8_error)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
