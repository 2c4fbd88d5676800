/* E2M1 (OCP Microscaling Formats, FP4): s ee m. */
#include "quant/codes.h"

const float pawl__e2m1_table[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

uint8_t pawl__e2m1_encode(float f)
{
    uint32_t u = pawl__f32_bits(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return 0;
    float a = pawl__f32_from_bits(u & 0x7fffffffu);
    /* the borders are halfway between neighbours; a tie goes to the even code */
    int code = (a > 0.25f) + (a >= 0.75f) + (a > 1.25f) + (a >= 1.75f) + (a > 2.5f) + (a >= 3.5f) + (a > 5.0f);
    return (uint8_t)(u >> 28 & 8) | (uint8_t)code;
}
