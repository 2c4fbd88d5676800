/* E8M0 (OCP Microscaling Formats): an exponent byte, 2^(e-127); 0xff is NaN. */
#include <math.h>

#include "quant/codes.h"

float pawl__e8m0_decode(uint8_t e)
{
    if (e == 0) return 0x1p-127f; /* as float bits it would be zero */
    if (e == 255) return NAN;     /* and this one infinity */
    return pawl__f32_from_bits((uint32_t)e << 23);
}

uint8_t pawl__e8m0_encode_up(float f)
{
    uint32_t u = pawl__f32_bits(f), e = (u >> 23 & 255) + ((u & 0x7fffff) != 0);
    return (uint8_t)(e < 1 ? 1 : e > 254 ? 254 : e);
}
