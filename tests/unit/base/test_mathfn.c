/* The elementary functions against libm in double precision: worst error over dense and extreme arguments. */
#include "check.h"

#include <math.h>

#include "base/mathfn.h"

/* Error in units of the last place of the f32 result (subnormal spacing below the normal range). */
static double ulps(float got, double want)
{
    if (isnan(want)) return isnan(got) ? 0 : 1e9;
    if (isinf(want) || fabs(want) > 3.4028235677973366e38) return isinf(got) && (got > 0) == (want > 0) ? 0 : 1e9;
    float w = (float)want;
    float step = nextafterf(fabsf(w), INFINITY) - fabsf(w);
    return fabs((double)got - want) / step;
}

static void expf_is_exact_to_two_ulps(void **state)
{
    (void)state;
    double worst = 0;
    for (double x = -106; x < 90; x += 0.000313) {
        double u = ulps(pawl__expf((float)x), exp((double)(float)x));
        if (u > worst) worst = u;
    }
    printf("expf: worst error %.2f ulp\n", worst);
    assert_true(worst <= 2.0);
    assert_true(pawl__expf(0.0f) == 1.0f);
    assert_true(pawl__expf(-INFINITY) == 0.0f);
    assert_true(pawl__expf(INFINITY) == INFINITY);
    assert_true(isnan(pawl__expf(NAN)));
}

static void logf_and_softplus(void **state)
{
    (void)state;
    double worst = 0, worst_sp = 0;
    for (double x = 1; x < 1e9; x *= 1.00037) {
        double u = ulps(pawl__logf((float)x), log((double)(float)x));
        if (u > worst) worst = u;
    }
    for (double x = -80; x < 40; x += 0.00037) {
        float xf = (float)x;
        double want = xf > 20 ? (double)xf : log1p(exp((double)xf));
        double u = ulps(pawl__softplusf(xf), want);
        if (u > worst_sp) worst_sp = u;
    }
    printf("logf: %.2f ulp, softplusf: %.2f ulp\n", worst, worst_sp);
    assert_true(worst <= 3.0);
    assert_true(worst_sp <= 4.0);
    assert_true(pawl__logf(1.0f) == 0.0f);
    assert_true(isnan(pawl__softplusf(NAN)));
}

static void sigmoid_and_silu(void **state)
{
    (void)state;
    double worst = 0;
    for (double x = -87; x < 100; x += 0.00041) {
        float xf = (float)x;
        double u = ulps(pawl__sigmoidf(xf), 1 / (1 + exp(-(double)xf)));
        if (u > worst) worst = u;
        u = ulps(pawl__siluf(xf), (double)xf / (1 + exp(-(double)xf)));
        if (u > worst) worst = u;
    }
    printf("sigmoidf, siluf: %.2f ulp\n", worst);
    assert_true(worst <= 4.0);
    assert_true(pawl__sigmoidf(-INFINITY) == 0.0f && pawl__sigmoidf(INFINITY) == 1.0f);
}

static void double_functions(void **state)
{
    (void)state;
    double log_err = 0, exp_err = 0, trig_err = 0;
    for (double x = 1e-300; x < 1e300; x *= 1.7) log_err = fmax(log_err, fabs(pawl__ln(x) / log(x) - 1));
    for (double x = 1e-16; x < 0.5; x *= 1.3) {
        double u = 1 - x; /* near 1, where -ln u is small: the noise's tail */
        log_err = fmax(log_err, fabs(pawl__ln(u) / log(u) - 1));
    }
    for (double x = -690; x < 690; x += 0.37) exp_err = fmax(exp_err, fabs(pawl__exp(x) / exp(x) - 1));
    for (double x = -3e5; x < 3e5; x += 0.713) {
        double s, c;
        pawl__sincos(x, &s, &c);
        trig_err = fmax(trig_err, fmax(fabs(s - sin(x)), fabs(c - cos(x))));
    }
    printf("log %.2g, exp %.2g relative; sincos %.2g absolute\n", log_err, exp_err, trig_err);
    assert_true(log_err < 1e-15);
    assert_true(exp_err < 1e-15);
    assert_true(trig_err < 1e-15);
    assert_true(fabs(pawl__pow(1e7, -2.0 / 64) - 0.60429639) < 1e-8); /* inv_freq values of the Qwen3.5 specification */
    assert_true(fabs(pawl__pow(1e7, -30.0 / 64) / 5.2329910e-4 - 1) < 1e-7);
    assert_true(fabs(pawl__pow(1e7, -62.0 / 64) / 1.6548171e-7 - 1) < 1e-7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expf_is_exact_to_two_ulps),
        cmocka_unit_test(logf_and_softplus),
        cmocka_unit_test(sigmoid_and_silu),
        cmocka_unit_test(double_functions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
