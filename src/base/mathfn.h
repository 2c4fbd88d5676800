/* exp, log and their kin, written once for all machines so that every build gives the same bits (no libm: its results
 * differ between versions and processors). The f32 functions are straight-line code with explicit fma, so that a compiler
 * turns a loop over them into vector code with the same results lane by lane. They are static: each instruction set's
 * object file keeps its own copy.
 *
 * Accuracy, measured by tests/unit/base/test_mathfn.c against libm in double. Method: argument reduction and polynomials
 * as in Cody & Waite, Software Manual for the Elementary Functions (1980). */
#ifndef PAWL_BASE_MATHFN_H
#define PAWL_BASE_MATHFN_H

#include <math.h>
#include <stdint.h>

#include "base/bits.h"

/* e^x; 0 below about -104, infinity above about 88.7, NaN for NaN. */
static inline float pawl__expf(float x)
{
    x = x < -105.0f ? -105.0f : x; /* comparisons are false for NaN, which passes through */
    x = x > 89.0f ? 89.0f : x;
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer in the low bits */
    float t = fmaf(x, 1.44269504f, magic);
    int32_t n = (int32_t)(pawl__f32_bits(t) - 0x4b400000u);
    float nf = t - magic;
    float r = fmaf(nf, -0.693145752f, x); /* ln 2 in two parts; the first has 15 bits, so nf * it is exact */
    r = fmaf(nf, -1.42860677e-6f, r);
    float p = 1.0f / 5040;
    p = fmaf(p, r, 1.0f / 720);
    p = fmaf(p, r, 1.0f / 120);
    p = fmaf(p, r, 1.0f / 24);
    p = fmaf(p, r, 1.0f / 6);
    p = fmaf(p, r, 0.5f);
    p = fmaf(p, r, 1.0f);
    p = fmaf(p, r, 1.0f);
    /* 2^n in two factors, so that subnormal results and overflow come out right */
    int32_t n1 = n >> 1, n2 = n - n1;
    float s1 = pawl__f32_from_bits((uint32_t)(n1 + 127) << 23);
    float s2 = pawl__f32_from_bits((uint32_t)(n2 + 127) << 23);
    return p * s1 * s2;
}

/* ln x for normal positive x, infinity for infinity. Callers pass x >= 1. */
static inline float pawl__logf(float x)
{
    uint32_t u = pawl__f32_bits(x);
    /* m in [sqrt(1/2), sqrt 2) */
    uint32_t shifted = u - 0x3f3504f3u;
    int32_t e = (int32_t)shifted >> 23;
    float m = pawl__f32_from_bits((shifted & 0x7fffffu) + 0x3f3504f3u);
    float s = (m - 1.0f) / (m + 1.0f), z = s * s;
    float p = 2.0f / 11; /* 2 atanh(s) = 2s + 2s^3/3 + ... */
    p = fmaf(p, z, 2.0f / 9);
    p = fmaf(p, z, 2.0f / 7);
    p = fmaf(p, z, 2.0f / 5);
    p = fmaf(p, z, 2.0f / 3);
    float ef = (float)e;
    float tail = fmaf(p * z, s, ef * 1.42860677e-6f);
    float head = fmaf(ef, 0.693145752f, 2.0f * s);
    float y = head + tail;
    return x > 3.40282347e38f ? x : y;
}

static inline float pawl__sigmoidf(float x)
{
    return 1.0f / (1.0f + pawl__expf(-x));
}

/* x * sigmoid(x) */
static inline float pawl__siluf(float x)
{
    return x / (1.0f + pawl__expf(-x));
}

/* ln(1 + e^x), and x itself above 20 as the reference implementations have it. */
static inline float pawl__softplusf(float x)
{
    float e = pawl__expf(x);
    float u = 1.0f + e;
    float y = pawl__logf(u) + (e - (u - 1.0f)) / u; /* the second term gives back what 1 + e rounded away */
    return x > 20.0f ? x : y;
}

/* Double precision, for sampling noise and rotary angles. */

/* ln x for normal positive x. */
double pawl__ln(double x);
/* e^x for |x| < 700. */
double pawl__exp(double x);
/* x^y for x > 0. */
double pawl__pow(double x, double y);
/* sin and cos of |x| < 2^27. */
void pawl__sincos(double x, double *s, double *c);

#endif
