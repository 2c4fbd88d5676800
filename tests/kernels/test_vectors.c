/* Kernels against numbers that others computed: single FP8 linears (tests/golden/linear_fp8.safetensors) and the small
 * vectors of the Qwen3.5 description, made in float64. Every CPU kernel of the lists that this processor can run and that
 * fits the query is held to them. */
#include "check.h"

#include <math.h>

#include "kernels/list/list.h"
#include "kernels/ref/dot.h"
#include "op/conv.h"
#include "op/gdn.h"
#include "op/linear.h"
#include "op/moe.h"
#include "op/norm.h"
#include "store/safetensors.h"

static pawl_caps machine;
static _Alignas(64) unsigned char scratch[1 << 20];

/* The next kernel of the query's list that can run it here, after `after` (NULL: the first); NULL when there is none. */
static const pawl_kernel *next_kernel(const pawl_query *q, const pawl_kernel *after)
{
    pawl_kernel_list k = pawl__kernel_table.list[q->op];
    if (after) {
        while (*k != after) k++;
        k++;
    }
    for (; *k; k++)
        if ((*k)->arch == PAWL_ARCH_CPU && (*k)->run && !((*k)->isa & ~machine.isa) &&
            (!(*k)->supports || (*k)->supports(q, &machine, NULL)))
            return *k;
    return NULL;
}

static void run(const pawl_kernel *k, const pawl_query *q, int64_t m, const void *args)
{
    pawl_err err = {0};
    pawl_exec ex = {.caps = &machine, .scratch = scratch, .scratch_size = sizeof scratch};
    assert_true(!k->scratch || k->scratch(q, m, 1) <= sizeof scratch);
    check_ok(k->run(args, &ex, &err), &err);
}

static double worst_row(const float *a, const float *b, int64_t rows, int64_t width)
{
    double worst = 0;
    for (int64_t r = 0; r < rows; r++) {
        double d = 0, s = 0;
        for (int64_t i = r * width; i < (r + 1) * width; i++) {
            d += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
            s += (double)b[i] * b[i];
        }
        worst = fmax(worst, sqrt(d / s));
    }
    return worst;
}

static void close_to(const char *what, const float *got, const double *expected, int n, double bound)
{
    for (int i = 0; i < n; i++)
        if (!(fabs(got[i] - expected[i]) <= bound))
            fail_msg("%s[%d] is %.9g, expected %.9g", what, i, got[i], expected[i]);
}

/* A tensor of the golden file, copied to aligned memory; the caller frees. */
static void *take(const pawl_safetensors *g, char letter, const char *name, int64_t shape[2])
{
    char full[64];
    snprintf(full, sizeof full, "%c.%s", letter, name);
    const pawl_tensor *t = pawl__safetensors_find(g, full);
    if (!t) fail_msg("no tensor %s", full);
    assert_int_equal(t->rank, 2);
    shape[0] = t->shape[0];
    shape[1] = t->shape[1];
    void *copy = malloc(t->bytes);
    memcpy(copy, t->data, t->bytes);
    return copy;
}

static void one_linear(const pawl_safetensors *g, char letter)
{
    int64_t xs[2], ws[2], ss[2], cs[2], as[2], ys[2];
    float *x = take(g, letter, "x", xs), *scale = take(g, letter, "weight_scale_inv", ss);
    uint8_t *weight = take(g, letter, "weight", ws), *x_code = take(g, letter, "x_code", cs);
    float *x_scale = take(g, letter, "x_scale", as);
    float *y_act = take(g, letter, "y_act", ys), *y_weight_only = take(g, letter, "y_weight_only", ys);
    int64_t m = xs[0], k = xs[1], n = ws[0];
    int ue8m0 = letter == 'e';
    float *y = malloc((size_t)(m * n) * sizeof *y), *s = malloc((size_t)(m * as[1]) * sizeof *s);
    uint8_t *codes = malloc((size_t)(m * k));

    for (int64_t t = 0; t < m; t++) pawl__fp8_quantize_row(x + t * k, k, 1e-10f, ue8m0, codes + t * k, s + t * as[1]);
    assert_memory_equal(codes, x_code, (size_t)(m * k));
    assert_memory_equal(s, x_scale, (size_t)(m * as[1]) * sizeof *s);

    pawl_wmat w = {
        .q = PAWL_Q_FP8BLK, .n = n, .k = k, .data = weight, .ld = k, .scale = scale, .scale_ld = ss[1], .scale2 = 1};
    pawl_linear_args a = {.m = m, .x = x, .ldx = k, .w = &w, .y = y, .ldy = n};
    pawl_query q = pawl__query(PAWL_OP_LINEAR);
    q.w = PAWL_Q_FP8BLK;
    q.ws = PAWL_SCALE_F32;
    q.n = n;
    q.k = k;
    for (int act = 0; act < 2; act++) {
        q.flags = act ? PAWL_QF_ACT_FP8 : 0;
        if (act && ue8m0)
            break; /* power-of-two activation scales are not what the op does; its inner product is below */
        int served = 0;
        for (const pawl_kernel *kern = NULL; (kern = next_kernel(&q, kern)); served++) {
            run(kern, &q, m, &a);
            double error = worst_row(y, act ? y_act : y_weight_only, m, n);
            printf("%c %-24s relative error %.2e\n", letter, kern->id, error);
            if (!(error <= 1e-6)) fail_msg("%c %s: %g, expected at most 1e-6", letter, kern->id, error);
        }
        assert_true(served > 0);
    }
    for (int64_t t = 0; t < m; t++)
        for (int64_t r = 0; r < n; r++) pawl__ref_dot_a8(&w, r, codes + t * k, s + t * as[1], 1, &y[t * n + r]);
    assert_true(worst_row(y, y_act, m, n) <= 1e-6);
    void *all[] = {x, scale, weight, x_code, x_scale, y_act, y_weight_only, y, s, codes};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) free(all[i]);
}

static void fp8_linears(void **state)
{
    (void)state;
    pawl_safetensors *g = NULL;
    pawl_err err = {0};
    check_ok(pawl__safetensors_open("tests/golden/linear_fp8.safetensors", &g, &err), &err);
    for (char letter = 'a'; letter <= 'e'; letter++) one_linear(g, letter);
    pawl__safetensors_close(&g);
}

static void norms(void **state)
{
    (void)state;
    const float x[] = {1, 2, -3, 4}, w[] = {0.1f, -0.2f, 0, 0.5f};
    const double plain[] = {0.4016632, 0.5842374, -1.095445, 2.1908901};
    const float o[] = {1, -2, 2, 0.5f}, ow[] = {1, 0.5f, 2, 1}, z[] = {0, 1, -1, 3};
    const double gated[] = {0, -0.4807411, -0.707419, 0.9396131};
    float out[4];
    pawl_query q = pawl__query(PAWL_OP_RMSNORM);
    q.k = 4;
    for (int i = 0; i < 2; i++) {
        q.flags = i ? PAWL_QF_GATED : PAWL_QF_OFFSET1;
        pawl_norm_args a = {.m = 1,
                            .heads = 1,
                            .k = 4,
                            .x = i ? o : x,
                            .w = i ? ow : w,
                            .gate = i ? z : NULL,
                            .out = out,
                            .eps = 1e-6f,
                            .offset1 = !i};
        for (const pawl_kernel *k = NULL; (k = next_kernel(&q, k));) {
            run(k, &q, 1, &a);
            close_to(k->id, out, i ? gated : plain, 4, 5e-7);
        }
    }
}

static void convolution(void **state)
{
    (void)state;
    const float w[] = {0.1f, 0.2f, 0.3f, 0.4f}, u[] = {1, 2, 3, 4, 5};
    const double expected[] = {0.2394751, 0.8252861, 1.7615942, 2.8577224, 3.9280552}, window[] = {3, 4, 5};
    pawl_query q = pawl__query(PAWL_OP_CONV);
    q.n = 1;
    q.k = PAWL_CONV_WINDOW;
    for (const pawl_kernel *k = NULL; (k = next_kernel(&q, k));) {
        float conv_state[3] = {0}, out[5];
        pawl_seg seg = {.rows = 5};
        pawl_conv_args a = {.m = 5,
                            .channels = 1,
                            .u = u,
                            .u_row = 1,
                            .w = w,
                            .segs = &seg,
                            .n_segs = 1,
                            .state = conv_state,
                            .slot_size = 3,
                            .out = out};
        run(k, &q, 5, &a);
        close_to(k->id, out, expected, 5, 5e-7);
        close_to("state", conv_state, window, 3, 0);
    }
}

static void delta_rule(void **state)
{
    (void)state;
    /* rows of q, k, v */
    const float qkv[3][7] = {{1, 2, 1, 0, 1, 2, 3}, {0.5f, -1, 1, 1, -1, 0, 1}, {2, 0, -1, 2, 0.5f, 0.5f, -2}};
    const float a[] = {0, 1, -1}, b[] = {0, 2, -2}, dt_bias = 0.5f, a_log = 0.69314718f;
    const double o[] = {0.1581138,  0.3162276,  0.4743414,  0.2045313, 0.0151584,
                        -0.1742145, -0.1911559, -0.0140585, 0.257277};
    const double s[] = {-0.2703354, -0.0198818, 0.3638447, -0.1788953, 0.0485162, 0.0093818};
    pawl_query q = pawl__query(PAWL_OP_GDN);
    q.n = 1;
    q.k = 2;
    q.x[0] = 1;
    q.x[1] = 3;
    for (const pawl_kernel *k = NULL; (k = next_kernel(&q, k));) {
        float gdn_state[6] = {0}, out[9];
        pawl_seg seg = {.rows = 3};
        pawl_gdn_args args = {.m = 3,
                              .nk = 1,
                              .nv = 1,
                              .dk = 2,
                              .dv = 3,
                              .qkv = qkv[0],
                              .a = a,
                              .b = b,
                              .ab_row = 1,
                              .a_log = &a_log,
                              .dt_bias = &dt_bias,
                              .segs = &seg,
                              .n_segs = 1,
                              .state = gdn_state,
                              .slot_size = 6,
                              .out = out};
        run(k, &q, 3, &args);
        close_to(k->id, out, o, 9, 5e-7);
        close_to("state", gdn_state, s, 6, 5e-7);
    }
}

static void router(void **state)
{
    (void)state;
    const float logits[] = {1, 3, 2, 0.5f, 2.5f};
    const double plain[] = {0.4562397, 0.2767234}, renormalised[] = {0.6224593, 0.3775407};
    const pawl_moe_method methods[] = {PAWL_ROUTE_DEFAULT, PAWL_ROUTE_RENORMALIZE, PAWL_ROUTE_RENORMALIZE_NAIVE};
    pawl_query q = pawl__query(PAWL_OP_MOE_ROUTE);
    q.n = 5;
    q.k = 2;
    for (int i = 0; i < 3; i++) {
        q.x[2] = methods[i];
        for (const pawl_kernel *k = NULL; (k = next_kernel(&q, k));) {
            int32_t ids[2];
            float weights[2];
            pawl_moe_route_args a = {.m = 1,
                                     .experts = 5,
                                     .top_k = 2,
                                     .logits = logits,
                                     .logits_row = 5,
                                     .method = methods[i],
                                     .groups = 1,
                                     .groups_kept = 1,
                                     .scale = 1,
                                     .ids = ids,
                                     .weights = weights};
            run(k, &q, 1, &a);
            assert_true(ids[0] == 1 && ids[1] == 4);
            close_to(k->id, weights, i ? renormalised : plain, 2, 1e-7);
        }
    }
}

enum { NK = 2, NV = 4, DK = 16, DV = 40, ROWS = 6, WIDTH = 2 * NK * DK + NV * DV, STATE = NV * DK * DV };

/* Verifying and then replaying the first A rows leaves the bits that running those rows would have left, whichever kernels
 * did either. */
static void replay_is_running(void **state)
{
    (void)state;
    static float qkv[ROWS * WIDTH], ab[ROWS * 2 * NV], first[STATE], ran[STATE], replayed[STATE],
        out[2][ROWS * NV * DV];
    static float k_log[ROWS * NK * DK], v_log[ROWS * NV * DV], decay[ROWS * NV], beta[ROWS * NV], a_log[NV],
        dt_bias[NV];
    uint64_t rng = check_seed("replay_is_running");
    for (int i = 0; i < ROWS * WIDTH; i++) qkv[i] = (float)pawl__rng_uniform(&rng) - 0.5f;
    for (int i = 0; i < ROWS * 2 * NV; i++) ab[i] = (float)pawl__rng_uniform(&rng) * 4 - 2;
    for (int i = 0; i < STATE; i++) first[i] = (float)pawl__rng_uniform(&rng) - 0.5f;
    for (int i = 0; i < NV; i++) a_log[i] = dt_bias[i] = (float)pawl__rng_uniform(&rng);
    pawl_query q = pawl__query(PAWL_OP_GDN);
    q.n = NV;
    q.k = DK;
    q.x[0] = NK;
    q.x[1] = DV;
    pawl_query qv = q, qr = q;
    qv.op = PAWL_OP_GDN_VERIFY;
    qr.op = PAWL_OP_GDN_REPLAY;
    pawl_gdn_log log = {.k = k_log, .v = v_log, .decay = decay, .beta = beta};
    pawl_seg seg = {.rows = ROWS};
    pawl_gdn_args a = {.m = ROWS,
                       .nk = NK,
                       .nv = NV,
                       .dk = DK,
                       .dv = DV,
                       .qkv = qkv,
                       .a = ab,
                       .b = ab + NV,
                       .ab_row = 2 * NV,
                       .a_log = a_log,
                       .dt_bias = dt_bias,
                       .segs = &seg,
                       .n_segs = 1,
                       .slot_size = STATE,
                       .log = log};
    pawl_gdn_replay_args r = {.nk = NK,
                              .nv = NV,
                              .dk = DK,
                              .dv = DV,
                              .segs = &seg,
                              .n_segs = 1,
                              .state = replayed,
                              .slot_size = STATE,
                              .log = log};
    for (const pawl_kernel *runs = NULL; (runs = next_kernel(&q, runs));)
        for (const pawl_kernel *verifies = NULL; (verifies = next_kernel(&qv, verifies));)
            for (const pawl_kernel *replays = NULL; (replays = next_kernel(&qr, replays));)
                for (int accepted = 0; accepted <= ROWS; accepted++) {
                    memcpy(ran, first, sizeof ran);
                    memcpy(replayed, first, sizeof replayed);
                    seg = (pawl_seg){.rows = ROWS, .verify = 1};
                    a.m = ROWS;
                    a.state = replayed;
                    a.out = out[0];
                    run(verifies, &qv, ROWS, &a);
                    assert_memory_equal(replayed, first, sizeof first);
                    seg = (pawl_seg){.rows = accepted};
                    run(replays, &qr, accepted, &r);
                    a.m = accepted;
                    a.state = ran;
                    a.out = out[1];
                    run(runs, &q, accepted, &a);
                    assert_memory_equal(replayed, ran, sizeof ran);
                    assert_memory_equal(out[0], out[1], (size_t)(accepted * NV * DV) * sizeof(float));
                }
}

static void masked_counts_out_of_range(void **state)
{
    (void)state;
    static float zeros[2 * 4 * 32], y[2 * 4 * 32];
    pawl_wmat w = {.q = PAWL_Q_F32, .n = 32, .k = 32, .data = zeros, .ld = 0, .scale2 = 1};
    pawl_expert e[2] = {{.gate = w, .down = w}, {.gate = w, .down = w}};
    pawl_experts s = {.e = e, .n = 2, .h = 32, .i = 32};
    pawl_query q = pawl__query(PAWL_OP_MOE_MASKED);
    q.w = PAWL_Q_F32;
    q.n = q.k = 32;
    q.x[0] = 2;
    q.x[1] = 4;
    const int32_t bad[] = {-1, 5, INT32_MIN, INT32_MAX};
    for (const pawl_kernel *k = NULL; (k = next_kernel(&q, k));)
        for (int i = 0; i < 4; i++) {
            int32_t counts[2] = {4, bad[i]};
            pawl_moe_masked_args a = {.max = 4, .experts = &s, .x = zeros, .counts = counts, .y = y};
            pawl_exec ex = {.caps = &machine, .scratch = scratch, .scratch_size = sizeof scratch};
            pawl_err err = {0};
            check_fails(k->run(&a, &ex, &err), PAWL_EINVAL, &err, "counts[1] is");
        }
}

int main(void)
{
    pawl__caps_probe(&machine);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fp8_linears),
        cmocka_unit_test(norms),
        cmocka_unit_test(convolution),
        cmocka_unit_test(delta_rule),
        cmocka_unit_test(router),
        cmocka_unit_test(replay_is_running),
        cmocka_unit_test(masked_counts_out_of_range),
    };
    return cmocka_run_group_tests_name("kernels.vectors", tests, NULL, NULL);
}
