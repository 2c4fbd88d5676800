/* bf16: the upper half of a float. */
#include "quant/codes.h"

uint16_t pawl__bf16_encode(float f)
{
    uint32_t u = pawl__f32_bits(f);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(u >> 16 | 0x40); /* cutting a NaN must not leave an infinity */
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
