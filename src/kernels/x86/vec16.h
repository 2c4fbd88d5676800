/* The 16 virtual lanes of op/linear.h as a value: one register with AVX-512, two with AVX2. Kernels that are written in it
 * are one text for both and give the same bits. For *_avx2.c and *_avx512.c only. */
#ifndef PAWL_KERNELS_X86_VEC16_H
#define PAWL_KERNELS_X86_VEC16_H

#ifdef __AVX2__
#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))

#ifdef __AVX512F__
typedef __m512 vec16;

INLINE vec16 vec16_zero(void)
{
    return _mm512_setzero_ps();
}

INLINE vec16 vec16_all(float x)
{
    return _mm512_set1_ps(x);
}

INLINE vec16 vec16_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

INLINE void vec16_store(float *p, vec16 v)
{
    _mm512_storeu_ps(p, v);
}

INLINE vec16 vec16_add(vec16 a, vec16 b)
{
    return _mm512_add_ps(a, b);
}

INLINE vec16 vec16_mul(vec16 a, vec16 b)
{
    return _mm512_mul_ps(a, b);
}

/* a * b + c, rounded once. */
INLINE vec16 vec16_fma(vec16 a, vec16 b, vec16 c)
{
    return _mm512_fmadd_ps(a, b, c);
}

/* a > b ? a : b, lane by lane: b where either is NaN. */
INLINE vec16 vec16_max(vec16 a, vec16 b)
{
    return _mm512_max_ps(a, b);
}

INLINE __m256 vec16_low(vec16 v)
{
    return _mm512_castps512_ps256(v);
}

INLINE __m256 vec16_high(vec16 v)
{
    return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1));
}
#else
typedef struct vec16 {
    __m256 lo, hi;
} vec16;

INLINE vec16 vec16_zero(void)
{
    return (vec16){_mm256_setzero_ps(), _mm256_setzero_ps()};
}

INLINE vec16 vec16_all(float x)
{
    __m256 v = _mm256_set1_ps(x);
    return (vec16){v, v};
}

INLINE vec16 vec16_load(const float *p)
{
    return (vec16){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}

INLINE void vec16_store(float *p, vec16 v)
{
    _mm256_storeu_ps(p, v.lo);
    _mm256_storeu_ps(p + 8, v.hi);
}

INLINE vec16 vec16_add(vec16 a, vec16 b)
{
    return (vec16){_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}

INLINE vec16 vec16_mul(vec16 a, vec16 b)
{
    return (vec16){_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}

INLINE vec16 vec16_fma(vec16 a, vec16 b, vec16 c)
{
    return (vec16){_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}

INLINE vec16 vec16_max(vec16 a, vec16 b)
{
    return (vec16){_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}

INLINE __m256 vec16_low(vec16 v)
{
    return v.lo;
}

INLINE __m256 vec16_high(vec16 v)
{
    return v.hi;
}
#endif

/* The reduction tree of op/linear.h: (i, i+8), then (i, i+4), then (0+2) + (1+3). */
INLINE float vec16_total(vec16 v)
{
    __m256 a = _mm256_add_ps(vec16_low(v), vec16_high(v));
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

/* The largest lane; no lane is NaN. */
INLINE float vec16_largest(vec16 v)
{
    __m256 a = _mm256_max_ps(vec16_low(v), vec16_high(v));
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    __m128 c = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}

#endif
#endif
