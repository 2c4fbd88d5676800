/* The AVX2 and AVX-512 expert kernels in their three layouts against the scalar model of the contract and the reference kernels:
 * equal bits for random shapes, formats, counts, thread counts and sizes of scratch, with guard pages everywhere. */
#include "check.h"

#include <math.h>

#include "device/caps.h"
#include "kernels/ref/ref.h"
#include "kernels/x86/x86.h"
#include "model.h"

enum { POOLS = 4, E_MOST = 6 };
/* Per instruction set, AVX-512 last; n_sets: those that this machine runs. */
static const struct {
    const pawl_kernel *moe, *masked, *grouped;
} sets[] = {
    {&pawl__k_moe_any_avx2, &pawl__k_moe_masked_any_avx2, &pawl__k_moe_grouped_any_avx2},
    {&pawl__k_moe_any_avx512, &pawl__k_moe_masked_any_avx512, &pawl__k_moe_grouped_any_avx512},
};
static int n_sets;

static pawl_pool *pools[POOLS + 1];
static const float poison = -12345.678f;

static int setup(void **state)
{
    (void)state;
    pawl_caps caps;
    pawl__caps_probe(&caps);
    while (n_sets < (int)(sizeof sets / sizeof *sets) && !(sets[n_sets].moe->isa & ~caps.isa)) n_sets++;
    if (n_sets == 0) {
        printf("no AVX2 here: nothing to test\n");
        exit(0);
    }
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

static float *floats(int64_t n, uint64_t *rng)
{
    float *p = guarded((size_t)n * sizeof *p);
    if (rng)
        draw_floats(rng, PLAIN, p, n);
    else
        for (int64_t i = 0; i < n; i++) p[i] = poison;
    return p;
}

typedef struct setting {
    pawl_experts ex;
    pawl_expert e[E_MOST];
    pawl_query q;
    int threads, small; /* small: less scratch than asked for, so that rows are taken in blocks */
} setting;

/* Experts of one format, or with `mixed` each matrix of its own. */
static void draw_setting(uint64_t *rng, pawl_op op, setting *s)
{
    int mixed = !draw(rng, 4);
    pawl_quant q = (pawl_quant)(PAWL_Q_F32 + draw(rng, PAWL_QUANT_COUNT - PAWL_Q_F32));
    s->ex = (pawl_experts){.e = s->e, .n = 1 + draw(rng, E_MOST), .gated = (int)draw(rng, 2)};
    s->ex.h = 32 * (1 + draw(rng, 5));
    s->ex.i = 32 * (1 + draw(rng, 4));
    if (q < PAWL_Q_NVFP4 && !mixed) {
        s->ex.h -= draw(rng, 32);
        s->ex.i -= draw(rng, 32);
    }
    s->ex.act = draw(rng, 2) ? PAWL_ACT_SILU : PAWL_ACT_RELU2;
    int biases = (int)draw(rng, 2);
    for (int64_t i = 0; i < s->ex.n; i++) {
        pawl_quant qs[3];
        for (int j = 0; j < 3; j++)
            qs[j] = mixed ? (pawl_quant)(PAWL_Q_F32 + draw(rng, PAWL_QUANT_COUNT - PAWL_Q_F32)) : q;
        s->e[i] = (pawl_expert){.gate = draw_weights(rng, qs[0], PLAIN, s->ex.i, s->ex.h),
                                .down = draw_weights(rng, qs[2], PLAIN, s->ex.h, s->ex.i)};
        if (s->ex.gated) s->e[i].up = draw_weights(rng, qs[1], PLAIN, s->ex.i, s->ex.h);
        if (!biases) continue;
        s->e[i].gate_bias = floats(s->ex.i, rng);
        s->e[i].up_bias = s->ex.gated ? floats(s->ex.i, rng) : NULL;
        s->e[i].down_bias = floats(s->ex.h, rng);
    }
    s->q = pawl__query(op);
    s->q.w = q;
    s->q.n = s->ex.i;
    s->q.k = s->ex.h;
    s->q.x[0] = s->ex.n;
    s->q.flags = s->ex.gated ? PAWL_QF_GATED : 0;
    s->threads = 1 + (int)draw(rng, POOLS);
    s->small = !draw(rng, 3);
}

static pawl_status run(const pawl_kernel *kernel, const setting *s, const void *args, int64_t m, pawl_err *err)
{
    pawl_exec ex = {.pool = pools[s->threads]};
    if (kernel->scratch) ex.scratch_size = kernel->scratch(&s->q, m, s->threads);
    if (s->small && kernel->arch == PAWL_ARCH_CPU && kernel->isa) {
        pawl_query one = s->q;
        if (one.op == PAWL_OP_MOE_MASKED) one.x[1] = 1;
        size_t least = kernel->scratch(&one, one.op == PAWL_OP_MOE_MASKED ? 1 : 3, s->threads);
        if (least < ex.scratch_size) ex.scratch_size = least;
    }
    ex.scratch = guarded((ex.scratch_size + 63) / 64 * 64);
    return kernel->run(args, &ex, err);
}

static void same(const char *what, const setting *s, const float *got, const float *want, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!same_float(got[i], want[i]))
            fail_msg("%s: experts=%d h=%d i=%d w=%s gated=%d act=%d threads=%d small=%d: element %d is %a, expected %a",
                     what, (int)s->ex.n, (int)s->ex.h, (int)s->ex.i, pawl__quant_word(s->q.w), s->ex.gated,
                     (int)s->ex.act, s->threads, s->small, (int)i, got[i], want[i]);
}

static void test_moe(void **state)
{
    (void)state;
    uint64_t rng = check_seed("moe avx2");
    for (int c = 0; c < 40; c++) {
        setting s;
        draw_setting(&rng, PAWL_OP_MOE, &s);
        int64_t m = 1 + draw(&rng, draw(&rng, 2) ? 3 : 24), k = 1 + draw(&rng, s.ex.n), h = s.ex.h;
        s.q.x[1] = k;
        float *x = floats(m * h, &rng), *w = floats(m * k, &rng), *y = floats(m * h, NULL), *ref = floats(m * h, NULL);
        float *want = floats(m * h, NULL), *e = floats(h, NULL);
        int32_t *ids = guarded((size_t)(m * k) * sizeof *ids);
        for (int64_t i = 0; i < m * k; i++) ids[i] = (int32_t)draw(&rng, s.ex.n);
        if (draw(&rng, 3) == 0) { /* ids that name no expert are skipped */
            ids[draw(&rng, m * k)] = -1;
            ids[draw(&rng, m * k)] = (int32_t)s.ex.n;
            ids[draw(&rng, m * k)] = INT32_MAX;
        }
        for (int64_t t = 0; t < m; t++) {
            for (int64_t i = 0; i < h; i++) want[t * h + i] = 0;
            for (int64_t j = 0; j < k; j++) {
                int32_t id = ids[t * k + j];
                if (id < 0 || id >= s.ex.n) continue;
                model_expert(&s.ex, id, x + t * h, e);
                for (int64_t i = 0; i < h; i++) want[t * h + i] = fmaf(w[t * k + j], e[i], want[t * h + i]);
            }
        }
        pawl_moe_args a = {.m = m, .top_k = k, .experts = &s.ex, .x = x, .ids = ids, .weights = w, .y = y};
        pawl_err err;
        for (int i = 0; i < n_sets; i++) {
            for (int64_t j = 0; j < m * h; j++) y[j] = poison;
            check_ok(run(sets[i].moe, &s, &a, m, &err), &err);
            same(sets[i].moe->id, &s, y, want, m * h);
        }
        a.y = ref;
        check_ok(run(&pawl__k_moe_any_ref, &s, &a, m, &err), &err);
        same("moe.any:ref", &s, ref, want, m * h);
        guarded_free_all();
    }
}

/* Padding rows hold NaN: they are not read, and not written unless the query asks for zeros. */
static void test_masked(void **state)
{
    (void)state;
    uint64_t rng = check_seed("moe_masked avx2");
    for (int c = 0; c < 40; c++) {
        setting s;
        draw_setting(&rng, PAWL_OP_MOE_MASKED, &s);
        int64_t max = 1 + draw(&rng, draw(&rng, 2) ? 4 : 12), h = s.ex.h, rows = s.ex.n * max;
        s.q.x[1] = max;
        float *x = floats(rows * h, &rng), *y = floats(rows * h, NULL), *ref = floats(rows * h, NULL);
        float *want = floats(rows * h, NULL);
        int32_t *counts = guarded((size_t)s.ex.n * sizeof *counts);
        int zero = (int)draw(&rng, 2);
        for (int64_t i = 0; i < s.ex.n; i++) {
            counts[i] = (int32_t)(draw(&rng, 3) ? draw(&rng, max + 1) : draw(&rng, 2) * max);
            for (int64_t r = 0; r < max; r++) {
                float *row = want + (i * max + r) * h;
                if (r < counts[i]) {
                    model_expert(&s.ex, i, x + (i * max + r) * h, row);
                    continue;
                }
                for (int64_t j = 0; j < h; j++) {
                    x[(i * max + r) * h + j] = j % 2 ? NAN : INFINITY;
                    if (zero) row[j] = 0;
                }
            }
        }
        pawl_moe_masked_args a = {.max = max, .experts = &s.ex, .x = x, .counts = counts, .y = y, .zero_padding = zero};
        pawl_err err;
        for (int i = 0; i < n_sets; i++) {
            for (int64_t j = 0; j < rows * h; j++) y[j] = poison;
            check_ok(run(sets[i].masked, &s, &a, rows, &err), &err);
            same(sets[i].masked->id, &s, y, want, rows * h);
        }
        a.y = ref;
        check_ok(run(&pawl__k_moe_masked_any_ref, &s, &a, rows, &err), &err);
        same("moe_masked.any:ref", &s, ref, want, rows * h);

        int64_t bad = draw(&rng, s.ex.n);
        counts[bad] = draw(&rng, 2) ? -1 : (int32_t)max + 1;
        for (int64_t i = 0; i < rows * h; i++) y[i] = poison;
        a.y = y;
        a.zero_padding = 1;
        for (int i = 0; i < n_sets; i++)
            check_fails(run(sets[i].masked, &s, &a, rows, &err), PAWL_EINVAL, &err, "counts[");
        for (int64_t i = 0; i < rows * h; i++) assert_true(y[i] == poison);
        guarded_free_all();
    }
}

static void test_grouped(void **state)
{
    (void)state;
    uint64_t rng = check_seed("moe_grouped avx2");
    for (int c = 0; c < 40; c++) {
        setting s;
        draw_setting(&rng, PAWL_OP_MOE_GROUPED, &s);
        int64_t m = 1 + draw(&rng, draw(&rng, 2) ? 4 : 40), h = s.ex.h;
        float *x = floats(m * h, &rng), *y = floats(m * h, NULL), *ref = floats(m * h, NULL),
              *want = floats(m * h, NULL);
        int32_t *expert = guarded((size_t)m * sizeof *expert);
        int32_t id = 0;
        for (int64_t t = 0; t < m; t++) {
            if (id < s.ex.n - 1 && !draw(&rng, 4)) id += (int32_t)(1 + draw(&rng, s.ex.n - 1 - id));
            expert[t] = draw(&rng, 5) ? id : -1;
            if (expert[t] >= 0)
                model_expert(&s.ex, id, x + t * h, want + t * h);
            else
                for (int64_t j = 0; j < h; j++) x[t * h + j] = NAN;
        }
        pawl_moe_grouped_args a = {.m = m, .experts = &s.ex, .x = x, .expert = expert, .y = y};
        pawl_err err;
        for (int i = 0; i < n_sets; i++) {
            for (int64_t j = 0; j < m * h; j++) y[j] = poison;
            check_ok(run(sets[i].grouped, &s, &a, m, &err), &err);
            same(sets[i].grouped->id, &s, y, want, m * h);
        }
        a.y = ref;
        check_ok(run(&pawl__k_moe_grouped_any_ref, &s, &a, m, &err), &err);
        same("moe_grouped.any:ref", &s, ref, want, m * h);
        guarded_free_all();
    }
}

static void test_no_scratch(void **state)
{
    (void)state;
    uint64_t rng = check_seed("moe avx2 scratch");
    setting s;
    draw_setting(&rng, PAWL_OP_MOE, &s);
    float *x = floats(s.ex.h, &rng), *w = floats(1, &rng), *y = floats(s.ex.h, NULL);
    int32_t ids[1] = {0};
    pawl_moe_args a = {.m = 1, .top_k = 1, .experts = &s.ex, .x = x, .ids = ids, .weights = w, .y = y};
    pawl_exec ex = {0};
    pawl_err err;
    for (int i = 0; i < n_sets; i++) check_fails(sets[i].moe->run(&a, &ex, &err), PAWL_EINVAL, &err, "scratch");
    assert_true(y[0] == poison);
    guarded_free_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moe),
        cmocka_unit_test(test_masked),
        cmocka_unit_test(test_grouped),
        cmocka_unit_test(test_no_scratch),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
