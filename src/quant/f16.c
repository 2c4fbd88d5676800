/* f16: IEEE 754 binary16. */
#include "quant/codes.h"

float pawl__f16_decode(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fffu;
    if (rest >= 0x7c00) return pawl__f32_from_bits(sign | 0x7f800000u | rest << 13);
    if (rest < 0x400) { /* subnormal: rest * 2^-24, exact in f32 */
        float f = (float)rest * 0x1p-24f;
        return sign ? -f : f;
    }
    return pawl__f32_from_bits(sign | ((rest << 13) + ((127u - 15) << 23)));
}

uint16_t pawl__f16_encode(float f)
{
    uint32_t u = pawl__f32_bits(f), sign = u >> 16 & 0x8000, a = u & 0x7fffffffu;
    if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00 | (a >> 13 & 0x1ff));
    if (a >= 0x477ff000u) return (uint16_t)(sign | 0x7c00); /* 65520, halfway to 2^16, and above */
    if (a < 0x38800000u) {                                  /* under 2^-14: adding 0.5 rounds to multiples of 2^-24 */
        float r = pawl__f32_from_bits(a) + 0.5f;
        return (uint16_t)(sign | (pawl__f32_bits(r) - pawl__f32_bits(0.5f)));
    }
    a += 0xfff + (a >> 13 & 1);
    return (uint16_t)(sign | ((a >> 13) - ((127u - 15) << 10)));
}
