/* The AVX2 and AVX-512 linear kernels against the scalar model of the contract and against the reference kernels: equal bits, for
 * random shapes, formats, alignments, row counts and thread counts, with guard pages behind every operand. */
#include "check.h"

#include <math.h>

#include "device/caps.h"
#include "kernels/ref/ref.h"
#include "kernels/x86/x86.h"
#include "model.h"

static const struct {
    pawl_quant q;
    const pawl_kernel *fast, *ref;
} kernels[] = {
    {PAWL_Q_F32, &pawl__k_linear_f32_avx2, &pawl__k_linear_f32_ref},
    {PAWL_Q_F16, &pawl__k_linear_f16_avx2, &pawl__k_linear_f16_ref},
    {PAWL_Q_BF16, &pawl__k_linear_bf16_avx2, &pawl__k_linear_bf16_ref},
    {PAWL_Q_FP8BLK, &pawl__k_linear_fp8blk_avx2, &pawl__k_linear_fp8blk_ref},
    {PAWL_Q_FP8TEN, &pawl__k_linear_fp8ten_avx2, &pawl__k_linear_fp8ten_ref},
    {PAWL_Q_FP8CH, &pawl__k_linear_fp8ch_avx2, &pawl__k_linear_fp8ch_ref},
    {PAWL_Q_NVFP4, &pawl__k_linear_nvfp4_avx2, &pawl__k_linear_nvfp4_ref},
    {PAWL_Q_MXFP4, &pawl__k_linear_mxfp4_avx2, &pawl__k_linear_mxfp4_ref},
    {PAWL_Q_F32, &pawl__k_linear_f32_avx512, &pawl__k_linear_f32_ref},
    {PAWL_Q_F16, &pawl__k_linear_f16_avx512, &pawl__k_linear_f16_ref},
    {PAWL_Q_BF16, &pawl__k_linear_bf16_avx512, &pawl__k_linear_bf16_ref},
    {PAWL_Q_FP8BLK, &pawl__k_linear_fp8blk_avx512, &pawl__k_linear_fp8blk_ref},
    {PAWL_Q_FP8TEN, &pawl__k_linear_fp8ten_avx512, &pawl__k_linear_fp8ten_ref},
    {PAWL_Q_FP8CH, &pawl__k_linear_fp8ch_avx512, &pawl__k_linear_fp8ch_ref},
    {PAWL_Q_NVFP4, &pawl__k_linear_nvfp4_avx512, &pawl__k_linear_nvfp4_ref},
    {PAWL_Q_MXFP4, &pawl__k_linear_mxfp4_avx512, &pawl__k_linear_mxfp4_ref},
};
enum { POOLS = 4, PAD = 3 };

static int n_kernels; /* those of them that this machine runs: AVX-512 stands last */

static pawl_pool *pools[POOLS + 1];
static const float poison = -12345.678f;

static int setup(void **state)
{
    (void)state;
    pawl_caps caps;
    pawl__caps_probe(&caps);
    if ((caps.isa & pawl__k_linear_f32_avx2.isa) != pawl__k_linear_f32_avx2.isa) {
        printf("no AVX2 here: nothing to test\n");
        exit(0);
    }
    while (n_kernels < (int)(sizeof kernels / sizeof *kernels) &&
           (caps.isa & kernels[n_kernels].fast->isa) == kernels[n_kernels].fast->isa)
        n_kernels++;
    for (int t = 1; t <= POOLS; t++)
        if (pawl__pool_create(t, &pools[t], NULL)) return -1;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int t = 1; t <= POOLS; t++) pawl__pool_destroy(&pools[t]);
    return 0;
}

static float *run(const pawl_kernel *kernel, pawl_linear_args a, int threads)
{
    pawl_exec ex = {.pool = pools[threads]};
    pawl_err err;
    int64_t n = (a.m - 1) * a.ldy + a.w->n;
    a.y = guarded((size_t)n * sizeof(float));
    for (int64_t i = 0; i < n; i++) a.y[i] = poison;
    check_ok(kernel->run(&a, &ex, &err), &err);
    return a.y;
}

static void compare(int i, const pawl_linear_args *a, int threads)
{
    float *y = run(kernels[i].fast, *a, threads), *ref = run(kernels[i].ref, *a, 1);
    for (int64_t m = 0; m < a->m; m++) {
        for (int64_t n = 0; n < a->w->n; n++) {
            float want = model_dot(a->w, n, a->x + m * a->ldx, a->bias), got = y[m * a->ldy + n];
            if (!same_float(got, want) || !same_float(got, ref[m * a->ldy + n]))
                fail_msg("%s: m=%d n=%d k=%d row0=%d threads=%d: y[%d][%d] is %a, model %a, reference %a",
                         kernels[i].fast->id, (int)a->m, (int)a->w->n, (int)a->w->k, (int)a->w->row0, threads, (int)m,
                         (int)n, got, want, ref[m * a->ldy + n]);
        }
        for (int64_t n = a->w->n; n < a->ldy && m < a->m - 1; n++) assert_true(y[m * a->ldy + n] == poison);
    }
}

static void one_case(uint64_t *rng, int i, int64_t m, int64_t n, int64_t k, flavour fw, flavour fx)
{
    pawl_wmat w = draw_weights(rng, kernels[i].q, fw, n, k);
    pawl_linear_args a = {.m = m, .w = &w, .ldx = k + draw(rng, PAD), .ldy = n + draw(rng, PAD)};
    int64_t nx = (m - 1) * a.ldx + k;
    float *x = guarded((size_t)nx * sizeof *x), *bias = guarded((size_t)n * sizeof *bias);
    draw_floats(rng, fx, x, nx);
    draw_floats(rng, PLAIN, bias, n);
    a.x = x;
    a.bias = draw(rng, 2) ? bias : NULL;
    compare(i, &a, 1 + (int)draw(rng, POOLS));
    guarded_free_all();
}

/* Each row count has its own tile: all of them, then random ones. */
static void test_shapes(void **state)
{
    (void)state;
    uint64_t rng = check_seed("linear avx2");
    for (int i = 0; i < n_kernels; i++) {
        for (int64_t m = 1; m <= 16; m++)
            one_case(&rng, i, m, 1 + draw(&rng, 25), draw_k(&rng, kernels[i].q, 400), PLAIN, PLAIN);
        for (int c = 0; c < 24; c++)
            one_case(&rng, i, 1 + draw(&rng, draw(&rng, 2) ? 6 : 70), 1 + draw(&rng, 40),
                     draw_k(&rng, kernels[i].q, draw(&rng, 2) ? 1500 : 200), (flavour)draw(&rng, FLAVOURS),
                     (flavour)draw(&rng, FLAVOURS));
        one_case(&rng, i, 1, 300, 96, PLAIN, PLAIN);
        one_case(&rng, i, 100, 19, 544, PLAIN, PLAIN); /* more rows than share one decoded strip */
    }
}

/* Every code of e4m3 and of e2m1 in every lane, with x = 1 there and 0 elsewhere: the decoded values themselves. */
static void test_codes(void **state)
{
    (void)state;
    uint64_t rng = check_seed("linear avx2 codes");
    for (int i = 0; i < n_kernels; i++) {
        if (kernels[i].q < PAWL_Q_FP8BLK) continue;
        pawl_wmat w = draw_weights(&rng, kernels[i].q, PLAIN, 256, 32);
        uint8_t *codes = (uint8_t *)(uintptr_t)w.data;
        for (int64_t n = 0; n < 256; n++) memset(codes + n * w.ld, (int)n, (size_t)pawl__quant_row_bytes(w.q, 32));
        for (int64_t m = 1; m <= 32; m *= 2) {
            pawl_linear_args a = {.m = m, .w = &w, .ldx = 32, .ldy = 256};
            float *x = guarded((size_t)m * 32 * sizeof *x);
            memset(x, 0, (size_t)m * 32 * sizeof *x);
            for (int64_t r = 0; r < m; r++) x[r * 32 + draw(&rng, 32)] = 1.0f;
            a.x = x;
            compare(i, &a, 1);
        }
        guarded_free_all();
    }
}

/* NaN and infinity in one row of x leave the other rows' bits alone, and a row's bits do not depend on its neighbours. */
static void test_rows_alone(void **state)
{
    (void)state;
    uint64_t rng = check_seed("linear avx2 rows");
    for (int i = 0; i < n_kernels; i++) {
        enum { M = 21, N = 37, K = 288 };
        pawl_wmat w = draw_weights(&rng, kernels[i].q, PLAIN, N, K);
        float *x = guarded(M * K * sizeof *x);
        draw_floats(&rng, PLAIN, x, M * K);
        draw_floats(&rng, SPOILT, x + 4 * K, K);
        x[4 * K] = NAN;
        pawl_linear_args a = {.m = M, .w = &w, .ldx = K, .ldy = N, .x = x};
        float *all = run(kernels[i].fast, a, 2);
        for (int64_t r = 0; r < M; r++) {
            pawl_linear_args one = a;
            one.m = 1;
            one.x = x + r * K;
            float *y = run(kernels[i].fast, one, 1);
            if (r != 4) assert_memory_equal(y, all + r * N, N * sizeof *y);
        }
        guarded_free_all();
    }
}

static void test_bad_arguments(void **state)
{
    (void)state;
    float x[16] = {0}, y[1] = {7};
    pawl_wmat w = {.q = PAWL_Q_F32, .n = 1, .k = 16, .data = x, .ld = 64};
    pawl_linear_args a = {.m = 1, .w = &w, .x = x, .ldx = 15, .y = y, .ldy = 1};
    pawl_exec ex = {0};
    pawl_err err;
    check_fails(pawl__k_linear_f32_avx2.run(&a, &ex, &err), PAWL_EINVAL, &err, "k=16");
    a.ldx = 16;
    w.q = PAWL_Q_NONE;
    check_fails(pawl__k_linear_f32_avx2.run(&a, &ex, &err), PAWL_EINVAL, &err, "format");
    assert_true(y[0] == 7);
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *query, *why;
        int kernel;
    } rows[] = {
        {"linear a=f32 w=bf16 out=f32 n=64 k=100", "", 2},
        {"linear a=f32 w=bf16 out=f32 n=64 k=100", "needs fp8blk128 weights (found bf16)", 3},
        {"linear a=bf16 w=bf16 out=f32 n=64 k=64", "f32 in and out", 2},
        {"linear a=f32 w=fp8blk128/f32 out=f32 n=64 k=64", "", 3},
        {"linear a=f32 w=fp8blk128/ue8m0 out=f32 n=64 k=64", "needs f32 scales", 3},
        {"linear a=f32 w=nvfp4/e4m3 out=f32 n=64 k=64", "", 6},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pawl_query q;
        pawl_err err;
        pawl_reason why = {""};
        check_ok(pawl__query_parse(rows[i].query, strlen(rows[i].query), &q, &err), &err);
        bool yes = kernels[rows[i].kernel].fast->supports(&q, NULL, &why);
        assert_int_equal(yes, !*rows[i].why);
        if (!strstr(why.text, rows[i].why)) fail_msg("%s: \"%s\"", rows[i].query, why.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),        cmocka_unit_test(test_codes),    cmocka_unit_test(test_rows_alone),
        cmocka_unit_test(test_bad_arguments), cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
