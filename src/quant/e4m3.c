/* E4M3 "fn" (OCP 8-bit Floating Point Specification): s eeee mmm, bias 7, no infinity, NaN 0x7f and 0xff. */
#include <math.h>

#include "quant/codes.h"

/* Seven codes and the eighth, in steps of s. */
#define SEVEN(from, s)                                                                                                 \
    (from) * (s), (from + 1) * (s), (from + 2) * (s), (from + 3) * (s), (from + 4) * (s), (from + 5) * (s),            \
        (from + 6) * (s)
#define EIGHT(from, s) SEVEN(from, s), (from + 7) * (s)
/* Subnormals in steps of 2^-9, then eight codes 8..15 for each exponent; the last code would be 480 and is NaN. */
#define HALF(sign)                                                                                                     \
    EIGHT(0, sign 0x1p-9f), EIGHT(8, sign 0x1p-9f), EIGHT(8, sign 0x1p-8f), EIGHT(8, sign 0x1p-7f),                    \
        EIGHT(8, sign 0x1p-6f), EIGHT(8, sign 0x1p-5f), EIGHT(8, sign 0x1p-4f), EIGHT(8, sign 0x1p-3f),                \
        EIGHT(8, sign 0x1p-2f), EIGHT(8, sign 0x1p-1f), EIGHT(8, sign 0x1p0f), EIGHT(8, sign 0x1p1f),                  \
        EIGHT(8, sign 0x1p2f), EIGHT(8, sign 0x1p3f), EIGHT(8, sign 0x1p4f), SEVEN(8, sign 0x1p5f), NAN

const float pawl__e4m3_table[256] = {HALF(+), HALF(-)};

uint8_t pawl__e4m3_encode(float f)
{
    uint32_t u = pawl__f32_bits(f), sign = u >> 24 & 0x80, a = u & 0x7fffffffu;
    if (a > 0x7f800000u) return 0x7f;
    if (a >= 0x43e00000u) return (uint8_t)(sign | 0x7e); /* 448 */
    if (a < 0x3c800000u) {                               /* under 2^-6: adding 2^14 rounds to multiples of 2^-9 */
        float r = pawl__f32_from_bits(a) + 0x1p14f;
        return (uint8_t)(sign | (pawl__f32_bits(r) - pawl__f32_bits(0x1p14f)));
    }
    a += 0x7ffff + (a >> 20 & 1);
    return (uint8_t)(sign | ((a >> 20) - ((127u - 7) << 3)));
}
