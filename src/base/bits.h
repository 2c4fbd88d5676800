/* A float and its bit pattern. */
#ifndef PAWL_BASE_BITS_H
#define PAWL_BASE_BITS_H

#include <stdint.h>
#include <string.h>

static inline float pawl__f32_from_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static inline uint32_t pawl__f32_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

#endif
