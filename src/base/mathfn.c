/* The double-precision functions of mathfn.h, in plain products and sums (no contraction), so that they need no fma. */
#include "base/mathfn.h"

static double from_bits(uint64_t u)
{
    double d;
    memcpy(&d, &u, 8);
    return d;
}

static uint64_t to_bits(double d)
{
    uint64_t u;
    memcpy(&u, &d, 8);
    return u;
}

/* ln 2 in two parts; the first has 32 significant bits, so its product with a small integer is exact. */
static const double LN2_HI = 6.93147180369123816490e-01, LN2_LO = 1.90821492927058770002e-10;

double pawl__ln(double x)
{
    uint64_t shifted = to_bits(x) - 0x3fe6a09e667f3bcdull; /* sqrt(1/2) */
    int64_t e = (int64_t)shifted >> 52;
    double m = from_bits((shifted & 0xfffffffffffffull) + 0x3fe6a09e667f3bcdull);
    double s = (m - 1.0) / (m + 1.0), z = s * s;
    double p = 0.0;
    for (int k = 23; k >= 3; k -= 2) p = p * z + 2.0 / k; /* 2 atanh(s), |s| < 0.172 */
    double ef = (double)e;
    return ef * LN2_HI + (2.0 * s + (p * z * s + ef * LN2_LO));
}

double pawl__exp(double x)
{
    double n = rint(x * 1.44269504088896340736);
    double r = (x - n * LN2_HI) - n * LN2_LO;
    double p = 1.0;
    for (int k = 14; k >= 1; k--) p = p * r / k + 1.0; /* Taylor, |r| < 0.347 */
    return p * from_bits((uint64_t)((int64_t)n + 1023) << 52);
}

double pawl__pow(double x, double y)
{
    return pawl__exp(y * pawl__ln(x));
}

void pawl__sincos(double x, double *sin_out, double *cos_out)
{
    /* pi/2 in three parts of 33, 33 and 53 bits: exact products for |n| < 2^20 and more than enough beyond */
    static const double P1 = 1.57079632673412561417e+00, P2 = 6.07710050630396597660e-11,
                        P3 = 2.02226624879595063154e-21;
    double n = rint(x * 6.36619772367581382433e-01);
    double r = ((x - n * P1) - n * P2) - n * P3;
    double z = r * r;
    double s = 0.0, c = 0.0;
    for (int k = 17; k >= 3; k -= 2) s = (s + 1.0) * -z / (k * (k - 1)); /* Taylor, |r| <= pi/4 */
    for (int k = 18; k >= 2; k -= 2) c = (c + 1.0) * -z / (k * (k - 1));
    s = (s + 1.0) * r;
    c = c + 1.0;
    switch ((int64_t)n & 3) {
    case 0:
        *sin_out = s, *cos_out = c;
        break;
    case 1:
        *sin_out = c, *cos_out = -s;
        break;
    case 2:
        *sin_out = -s, *cos_out = -c;
        break;
    default:
        *sin_out = -c, *cos_out = s;
        break;
    }
}
