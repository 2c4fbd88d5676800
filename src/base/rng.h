/* Hash-based random numbers: the mixing function of splitmix64 (Steele, Lea, Flood 2014) and a small generator on it. */
#ifndef PAWL_BASE_RNG_H
#define PAWL_BASE_RNG_H

#include <stdint.h>

/* The finaliser of splitmix64: a bijection on 64-bit words. */
static inline uint64_t pawl__mix64(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

/* A stream of 64-bit words from a seed; state is one word that the caller owns. */
static inline uint64_t pawl__rng_next(uint64_t *state)
{
    return pawl__mix64(*state += 0x9e3779b97f4a7c15ull);
}

/* Uniform in (0, 1), never 0 and never 1. */
static inline double pawl__rng_uniform(uint64_t *state)
{
    return ((double)(pawl__rng_next(state) >> 12) + 0.5) * 0x1p-52;
}

#endif
