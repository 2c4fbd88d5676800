/* Exact conversions between f32 and the small floating-point codes: bf16, f16, e4m3, e8m0, e2m1. Each is tested over all
 * codes and all rounding borders. Rounding is to nearest, ties to even, unless said otherwise. */
#ifndef PAWL_QUANT_CODES_H
#define PAWL_QUANT_CODES_H

#include <stdint.h>

#include "base/bits.h"

static inline float pawl__bf16_decode(uint16_t b)
{
    return pawl__f32_from_bits((uint32_t)b << 16);
}

/* NaN stays NaN (quiet); overflow rounds to infinity. */
uint16_t pawl__bf16_encode(float f);

float pawl__f16_decode(uint16_t h);
uint16_t pawl__f16_encode(float f);

/* E4M3 "fn" (OCP FP8): 256-entry table of exact values; NaN for 0x7f and 0xff. */
extern const float pawl__e4m3_table[256];
static inline float pawl__e4m3_decode(uint8_t c)
{
    return pawl__e4m3_table[c];
}
/* Saturates to +-448 (infinity too); NaN gives 0x7f. */
uint8_t pawl__e4m3_encode(float f);

/* E2M1 (OCP MX FP4): magnitudes 0 .5 1 1.5 2 3 4 6, bit 3 the sign. */
extern const float pawl__e2m1_table[16];
/* Saturates to +-6; NaN gives 0. */
uint8_t pawl__e2m1_encode(float f);

/* E8M0 (OCP MX): 2^(e-127); 0xff is NaN, 0 is 2^-127. */
float pawl__e8m0_decode(uint8_t e);
/* The smallest power of two >= f by the bit rule (never ceil(log2f)), clamped to codes 1..254; NaN and infinity give 254. */
uint8_t pawl__e8m0_encode_up(float f);

#endif
