/* Every code of the small floating-point formats against formulas in double, every rounding border of the encoders, and the
 * examples of the format descriptions (OCP FP8 and MX). */
#include "check.h"

#include <math.h>

#include "quant/codes.h"

/* A format's positive finite codes in rising order are 0 .. last. */
typedef struct format {
    const char *name;
    int exponent_bits, mantissa_bits, bias;
    unsigned last;     /* code of the largest finite value */
    unsigned above;    /* what a value past the border above `last` becomes */
    unsigned sign;     /* the sign bit */
    double above_from; /* the smallest value that becomes `above`; 0: saturates, nothing does */
    unsigned (*encode)(float f);
    float (*decode)(unsigned code);
} format;

static unsigned encode_bf16(float f)
{
    return pawl__bf16_encode(f);
}
static unsigned encode_f16(float f)
{
    return pawl__f16_encode(f);
}
static unsigned encode_e4m3(float f)
{
    return pawl__e4m3_encode(f);
}
static unsigned encode_e2m1(float f)
{
    return pawl__e2m1_encode(f);
}
static float decode_bf16(unsigned c)
{
    return pawl__bf16_decode((uint16_t)c);
}
static float decode_f16(unsigned c)
{
    return pawl__f16_decode((uint16_t)c);
}
static float decode_e4m3(unsigned c)
{
    return pawl__e4m3_decode((uint8_t)c);
}
static float decode_e2m1(unsigned c)
{
    return pawl__e2m1_table[c];
}

static const format formats[] = {
    {"bf16", 8, 7, 127, 0x7f7f, 0x7f80, 0x8000, 0x1.ffp127, encode_bf16, decode_bf16},
    {"f16", 5, 10, 15, 0x7bff, 0x7c00, 0x8000, 65520, encode_f16, decode_f16},
    {"e4m3", 4, 3, 7, 0x7e, 0x7e, 0x80, 0, encode_e4m3, decode_e4m3},
    {"e2m1", 2, 1, 1, 7, 7, 8, 0, encode_e2m1, decode_e2m1},
};
enum { FORMATS = sizeof formats / sizeof formats[0] };

/* The value of a positive finite code by the definition. */
static double value(const format *f, unsigned code)
{
    int e = (int)(code >> f->mantissa_bits), m = (int)(code & ((1u << f->mantissa_bits) - 1));
    if (e == 0) return ldexp(m, 1 - f->bias - f->mantissa_bits);
    return ldexp(m + (1 << f->mantissa_bits), e - f->bias - f->mantissa_bits);
}

static void every_code_decodes(void **state)
{
    (void)state;
    for (int i = 0; i < FORMATS; i++) {
        const format *f = &formats[i];
        for (unsigned c = 0; c <= f->last; c++) {
            if ((double)f->decode(c) != value(f, c)) fail_msg("%s code 0x%x: %a", f->name, c, f->decode(c));
            float n = f->decode(c | f->sign);
            if ((double)n != -value(f, c) || !signbit(n)) fail_msg("%s code 0x%x: %a", f->name, c | f->sign, n);
        }
    }
    for (unsigned c = 0x7f80; c <= 0x7fff; c++) {
        float p = decode_bf16(c), n = decode_bf16(c | 0x8000);
        assert_true(c == 0x7f80 ? p == INFINITY && n == -INFINITY : isnan(p) && isnan(n));
    }
    for (unsigned c = 0x7c00; c <= 0x7fff; c++) {
        float p = decode_f16(c), n = decode_f16(c | 0x8000);
        assert_true(c == 0x7c00 ? p == INFINITY && n == -INFINITY : isnan(p) && isnan(n));
    }
    assert_true(isnan(decode_e4m3(0x7f)) && isnan(decode_e4m3(0xff)));
}

static void expect(const format *f, float x, unsigned code)
{
    unsigned p = f->encode(x), n = f->encode(-x);
    if (p != code) fail_msg("%s of %a: 0x%x, expected 0x%x", f->name, x, p, code);
    if (n != (code | f->sign)) fail_msg("%s of %a: 0x%x, expected 0x%x", f->name, -x, n, code | f->sign);
}

static void every_border_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (int i = 0; i < FORMATS; i++) {
        const format *f = &formats[i];
        for (unsigned c = 0; c < f->last; c++) {
            float middle = (float)((value(f, c) + value(f, c + 1)) / 2);
            assert_true((double)middle == (value(f, c) + value(f, c + 1)) / 2);
            expect(f, (float)value(f, c), c);
            expect(f, middle, c % 2 ? c + 1 : c);
            expect(f, nextafterf(middle, 0), c);
            expect(f, nextafterf(middle, INFINITY), c + 1);
        }
        expect(f, (float)value(f, f->last), f->last);
        expect(f, nextafterf((float)value(f, f->last), INFINITY), f->last);
        if (f->above_from > 0) {
            expect(f, (float)f->above_from, f->above);
            expect(f, nextafterf((float)f->above_from, 0), f->last);
        }
        expect(f, 0x1.fffffep127f, f->above);
        expect(f, INFINITY, f->above);
        expect(f, 0x1p-149f, 0);
    }
}

static void nan_encodes(void **state)
{
    (void)state;
    /* quiet, signalling, and one whose upper half would be an infinity */
    const uint32_t nans[] = {0x7fc00000, 0xffc00000, 0x7fa00000, 0x7f800001, 0xff800001, 0x7fffffff};
    for (size_t i = 0; i < sizeof nans / sizeof nans[0]; i++) {
        float x = pawl__f32_from_bits(nans[i]);
        assert_true(isnan(pawl__bf16_decode(pawl__bf16_encode(x))));
        assert_true(isnan(pawl__f16_decode(pawl__f16_encode(x))));
        assert_int_equal(pawl__e4m3_encode(x), 0x7f);
        assert_int_equal(pawl__e2m1_encode(x), 0);
    }
}

static void e8m0(void **state)
{
    (void)state;
    for (int e = 0; e < 255; e++) assert_true((double)pawl__e8m0_decode((uint8_t)e) == ldexp(1, e - 127));
    assert_true(isnan(pawl__e8m0_decode(255)));
    /* a power of two is its own, the next float above it is the next power's */
    for (int e = 1; e < 254; e++) {
        float p = ldexpf(1, e - 127);
        assert_int_equal(pawl__e8m0_encode_up(p), e);
        assert_int_equal(pawl__e8m0_encode_up(nextafterf(p, INFINITY)), e + 1);
        assert_int_equal(pawl__e8m0_encode_up(nextafterf(p, 0)), e == 1 ? 1 : e);
    }
    const struct {
        float x;
        int e;
    } examples[] = {{1.0f, 127}, {1.0000001f, 128}, {0.5f, 126},    {0.3f, 126},     {1.0f / 448, 119}, {3.0f, 129},
                    {0, 1},      {0x1p-149f, 1},    {0x1p-126f, 1}, {0x1p127f, 254}, {0x1.8p127f, 254}, {INFINITY, 254},
                    {NAN, 254}};
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++)
        assert_int_equal(pawl__e8m0_encode_up(examples[i].x), examples[i].e);
}

static void examples(void **state)
{
    (void)state;
    const struct {
        float x;
        int code;
    } fp8[] = {{17, 0x58},      {18, 0x59},      {19, 0x5a},       {240, 0x77},
               {1.0625f, 0x38}, {1.1875f, 0x3a}, {0x1p-10f, 0x00}, {1.5f * 0x1p-9f, 0x02},
               {448, 0x7e},     {464, 0x7e},     {1e30f, 0x7e},    {-1, 0xb8},
               {1, 0x38},       {0x1p-6f, 0x08}, {0x1p-9f, 0x01},  {-500, 0xfe}};
    for (size_t i = 0; i < sizeof fp8 / sizeof fp8[0]; i++) assert_int_equal(pawl__e4m3_encode(fp8[i].x), fp8[i].code);
    const struct {
        float x;
        int code;
    } fp4[] = {{0.25f, 0}, {0.75f, 2}, {1.25f, 2}, {1.75f, 4}, {2.5f, 4},
               {3.5f, 6},  {5, 6},     {7, 7},     {-7, 15},   {-0.0f, 8}};
    for (size_t i = 0; i < sizeof fp4 / sizeof fp4[0]; i++) assert_int_equal(pawl__e2m1_encode(fp4[i].x), fp4[i].code);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_decodes), cmocka_unit_test(every_border_rounds_to_nearest_even),
        cmocka_unit_test(nan_encodes),        cmocka_unit_test(e8m0),
        cmocka_unit_test(examples),
    };
    return cmocka_run_group_tests_name("quant.codes", tests, NULL, NULL);
}
