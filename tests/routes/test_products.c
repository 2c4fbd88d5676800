/* Full products of conditions, each compared with a literal statement of the rule that does not use the entries. The
 * entries here get bodies that only note that they were called, so what is compared is what would have run. */
#include "check.h"
#include "kernels/list/list.h"
#include "op/moe.h"
#include "route/plan.h"

enum { MAX_ENTRIES = 64 };

static const char *ran; /* id of the last body that was called */
static pawl_decision decision;

/* One body per slot, because a body does not learn which entry it belongs to. */
static const char *slot_id[MAX_ENTRIES];
#define BODY(i)                                                                                                        \
    static pawl_status body##i(const void *args, pawl_exec *ex, pawl_err *err)                                         \
    {                                                                                                                  \
        (void)args, (void)ex, (void)err;                                                                               \
        ran = slot_id[i];                                                                                              \
        return PAWL_OK;                                                                                                \
    }
BODY(0)
BODY(1)
BODY(2)
BODY(3)
static pawl_status (*const bodies[])(const void *, pawl_exec *, pawl_err *) = {body0, body1, body2, body3};

/* The FP8 block entries of the GPU list, in the list's order, with bodies. */
static pawl_kernel copies[MAX_ENTRIES];
static const pawl_kernel *list[MAX_ENTRIES + 1];

static void copy_fp8_entries(void)
{
    int n = 0;
    for (pawl_kernel_list k = pawl__kernel_table.list[PAWL_OP_LINEAR]; *k; k++) {
        if ((*k)->arch != PAWL_ARCH_CUDA || !strstr((*k)->id, "fp8blk")) continue;
        assert_in_range(n, 0, 3);
        copies[n] = **k;
        copies[n].run = bodies[n];
        slot_id[n] = copies[n].id;
        list[n] = &copies[n];
        n++;
    }
    list[n] = NULL;
    assert_int_equal(n, 4);
}

/* The rule as the serving stack has it, in its own order: (1) outside 1 <= m < 32 and the large-M backend is on: that
 * backend, which takes care of no rows and hands what it cannot do to the generic kernel; (2) else anything that does not
 * fit: the generic kernel; (3) else the small-M kernel. The kind of scale and the bias decide nothing. */
static const char *literal(int64_t m, int large_on, int shape_ok, int dtype_ok)
{
    int m_ok = m >= 1 && m < 32;
    if (!m_ok && large_on) {
        if (m == 0) return NULL;
        return shape_ok && dtype_ok ? "linear.fp8blk:sm90-large" : "linear.fp8blk:cuda";
    }
    if (!(shape_ok && dtype_ok && m_ok)) return m == 0 ? NULL : "linear.fp8blk:cuda";
    return "linear.fp8blk:sm90-small";
}

static void test_fp8_linear_on_hopper(void **state)
{
    (void)state;
    copy_fp8_entries();
    static const int64_t counts[] = {0, 1, 8, 31, 32, 64};
    pawl_caps caps = {.arch = PAWL_ARCH_CUDA, .cc = 90, .sms = 132, .driver = 12080};
    pawl_exec ex = {.caps = &caps};
    int cases = 0;
    for (int bits = 0; bits < 128; bits++) {
        int large_on = bits & 1, packed = bits >> 1 & 1, bad_n = bits >> 2 & 1, bad_k = bits >> 3 & 1;
        int dtype_ok = bits >> 4 & 1, bias = bits >> 5 & 1, pure = bits >> 6 & 1;
        pawl_query q = pawl__query(PAWL_OP_LINEAR);
        q.at = PAWL_SPACE_CUDA;
        q.a = PAWL_BF16;
        q.out = dtype_ok ? PAWL_BF16 : PAWL_F32;
        q.w = PAWL_Q_FP8BLK;
        q.ws = packed ? PAWL_SCALE_UE8M0 : PAWL_SCALE_F32;
        q.n = bad_n ? 4096 + 32 : 4096;
        q.k = bad_k ? 2048 + 64 : 2048;
        q.flags = bias ? PAWL_QF_BIAS : 0;
        pawl_policy p = pawl__policy_default();
        if (!large_on) p.bans[p.n_bans++] = "linear.fp8blk:sm90-large";
        pawl_err err;
        check_ok(pawl__route(list, &q, &caps, &p, pure ? NULL : &ex, &decision, &err), &err);
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++, cases++) {
            int64_t m = counts[i];
            const char *expected = literal(m, large_on, !bad_n && !bad_k, dtype_ok);
            ran = NULL;
            check_ok(pawl__op_run(&decision, m, "args", &ex, &err), &err);
            if (!expected) {
                assert_null(ran);
                continue;
            }
            assert_non_null(ran);
            if (strcmp(ran, expected) != 0) fail_msg("m=%d bits=%d: %s, expected %s", (int)m, bits, ran, expected);
            /* packed scales reach no kernel that wants floats: all of these say that they want floats, so the store
             * unpacks once at load */
            assert_int_equal(pawl__decision_kernel(&decision, m)->ws, PAWL_SCALE_F32);
        }
    }
    printf("%d cases\n", cases);
    assert_int_equal(cases, 128 * 6);
}

static void test_old_driver(void **state)
{
    (void)state;
    copy_fp8_entries();
    pawl_caps caps = {.arch = PAWL_ARCH_CUDA, .cc = 90, .sms = 132, .driver = 12040};
    pawl_exec ex = {.caps = &caps};
    pawl_query q = pawl__query(PAWL_OP_LINEAR);
    q.at = PAWL_SPACE_CUDA;
    q.a = q.out = PAWL_BF16;
    q.w = PAWL_Q_FP8BLK;
    q.ws = PAWL_SCALE_F32;
    q.n = 4096, q.k = 2048;
    pawl_err err;
    check_ok(pawl__route(list, &q, &caps, NULL, &ex, &decision, &err), &err);
    assert_string_equal(pawl__decision_kernel(&decision, 1)->id, "linear.fp8blk:cuda");
    assert_string_equal(pawl__decision_kernel(&decision, 32)->id, "linear.fp8blk:sm90-large");
    int told = 0;
    for (int i = 0; i < decision.n_refusals; i++) {
        if (strcmp(decision.refusals[i].kernel->id, "linear.fp8blk:sm90-small") != 0) continue;
        assert_string_equal(decision.refusals[i].why.text, "needs CUDA 12.8, the driver has 12.4");
        told = 1;
    }
    assert_true(told);
    /* the same forced: an error at load, with the reason */
    pawl_policy p = pawl__policy_default();
    p.forces[p.n_forces++] = (pawl_force){PAWL_OP_LINEAR, "linear.fp8blk:sm90-small"};
    check_fails(pawl__route(list, &q, &caps, &p, &ex, &decision, &err), PAWL_EUNSUPPORTED, &err,
                "linear.fp8blk:sm90-small: needs CUDA 12.8");
    /* without a device (a described machine) prepare is not asked */
    check_ok(pawl__route(list, &q, &caps, NULL, NULL, &decision, &err), &err);
    assert_string_equal(pawl__decision_kernel(&decision, 1)->id, "linear.fp8blk:sm90-small");
}

/* Verification: the fast kernel iff gdn's stepping or its chunked kernel is of the fast family, the chip has one, the state
 * is in the chip's dtype, and the drafts are a chain. */
static void test_gdn_verification(void **state)
{
    (void)state;
    static const int ccs[] = {80, 89, 90, 100, 103, 120};
    int cases = 0;
    for (int bits = 0; bits < 6 * 16; bits++) {
        int cc = ccs[bits / 16], step_on = bits & 1, chunk_on = bits >> 1 & 1, tree = bits >> 2 & 1;
        int bf16 = bits >> 3 & 1;
        pawl_caps caps = {.arch = PAWL_ARCH_CUDA, .cc = cc};
        pawl_policy p = pawl__policy_default();
        static const char *const step[] = {"gdn.f32:sm90-step", "gdn.bf16:sm100-step", "gdn.f32:sm120-step"};
        static const char *const chunk[] = {"gdn.f32:sm90-chunk", "gdn.bf16:sm100-chunk", "gdn.f32:sm120-chunk"};
        for (int i = 0; i < 3; i++) {
            if (!step_on) p.bans[p.n_bans++] = step[i];
            if (!chunk_on) p.bans[p.n_bans++] = chunk[i];
        }
        pawl_query q = pawl__query(PAWL_OP_GDN);
        q.at = PAWL_SPACE_CUDA;
        q.a = q.out = PAWL_BF16;
        q.c = bf16 ? PAWL_BF16 : PAWL_F32;
        q.n = 32, q.k = 128, q.x[0] = 16, q.x[1] = 128;
        pawl_err err;
        pawl_plan *plan;
        const pawl_decision *d;
        check_ok(pawl__plan_create(&pawl__kernel_table, &caps, &p, NULL, NULL, &plan, &err), &err);
        check_ok(pawl__plan_add(plan, PAWL_SCOPE_TARGET, &q, "layers.*.linear_attn", NULL, &err), &err);
        q.op = PAWL_OP_GDN_VERIFY;
        q.x[2] = tree;
        check_ok(pawl__plan_add(plan, PAWL_SCOPE_TARGET, &q, "layers.*.linear_attn", &d, &err), &err);

        const char *fast = cc == 90 && !bf16                ? "gdn_verify.f32:sm90"
                           : cc >= 100 && cc <= 103 && bf16 ? "gdn_verify.bf16:sm100"
                           : cc == 120 && !bf16             ? "gdn_verify.f32:sm120"
                                                            : NULL;
        const char *expected = fast && (step_on || chunk_on) && !tree ? fast : "gdn_verify.any:cuda";
        assert_int_equal(d->n_spans, 1);
        assert_string_equal(d->spans[0].kernel->id, expected);
        assert_true(d->spans[0].kernel->traits & PAWL_TRAIT_VERIFY);
        pawl__plan_destroy(&plan);
        cases++;
    }
    printf("%d cases\n", cases);
}

static pawl_query experts(pawl_op op, pawl_quant w)
{
    pawl_query q = pawl__query(op);
    q.at = PAWL_SPACE_CUDA;
    q.a = q.out = PAWL_BF16;
    q.w = w;
    q.ws = w == PAWL_Q_FP8BLK ? PAWL_SCALE_F32 : w == PAWL_Q_NVFP4 ? PAWL_SCALE_E4M3 : PAWL_SCALE_NONE;
    q.n = 1024, q.k = 4096, q.x[0] = 64, q.x[1] = op == PAWL_OP_MOE_GROUPED ? 0 : 10;
    return q;
}

/* Fused experts: each routing method by name, on each chip. */
static void test_routing_methods(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int covered;
    } methods[] = {{"Default", 0}, {"Renormalize", 1},   {"DeepSeekV3", 1}, {"Llama4", 0},  {"RenormalizeNaive", 1},
                   {"TopK", 0},    {"SigmoidRenorm", 1}, {"MiniMax2", 1},   {"Sigmoid", 0}, {"TopKSigmoid", 0}};
    static const int ccs[] = {80, 89, 90, 100, 103, 120};
    assert_int_equal(sizeof methods / sizeof *methods, PAWL_ROUTE_METHODS);
    for (int m = 0; m < PAWL_ROUTE_METHODS; m++) {
        assert_string_equal(pawl__moe_method_name((pawl_moe_method)m), methods[m].name);
        for (size_t c = 0; c < 6; c++) {
            pawl_caps caps = {.arch = PAWL_ARCH_CUDA, .cc = ccs[c]};
            pawl_query q = experts(PAWL_OP_MOE, PAWL_Q_BF16);
            q.flags = PAWL_QF_GATED;
            q.x[2] = m;
            pawl_err err;
            check_ok(pawl__route(pawl__kernel_table.list[PAWL_OP_MOE], &q, &caps, NULL, NULL, &decision, &err), &err);
            const char *id = pawl__decision_kernel(&decision, 1)->id;
            int ten = ccs[c] == 100 || ccs[c] == 103;
            const char *expected = ccs[c] == 90                ? "moe.bf16:sm90"
                                   : ten && methods[m].covered ? "moe.bf16:sm100-fused"
                                                               : "moe.any:cuda";
            assert_string_equal(id, expected);
            if (!ten || methods[m].covered) continue;
            int told = 0;
            for (int i = 0; i < decision.n_refusals; i++) {
                told |= strcmp(decision.refusals[i].kernel->id, "moe.bf16:sm100-fused") == 0 &&
                        strstr(decision.refusals[i].why.text, methods[m].name) != NULL;
            }
            assert_true(told);
        }
    }
}

/* BF16 experts in every layout: silu and relu2, gated and plain, with and without biases are served by a fast entry where
 * the chip has one for the layout; the fused one alone takes no biases. */
static void test_bf16_activations(void **state)
{
    (void)state;
    static const pawl_op ops[] = {PAWL_OP_MOE, PAWL_OP_MOE_MASKED, PAWL_OP_MOE_GROUPED};
    static const char *const on90[] = {"moe.bf16:sm90", "moe_masked.bf16:sm90", "moe_grouped.bf16:sm90"};
    static const char *const on100[] = {"moe.bf16:sm100-fused", "moe_masked.bf16:sm100", "moe_grouped.any:cuda"};
    for (int bits = 0; bits < 3 * 2 * 8; bits++) {
        int layout = bits / 16, newer = bits >> 3 & 1;
        pawl_query q = experts(ops[layout], PAWL_Q_BF16);
        q.flags = (bits & 1 ? PAWL_QF_GATED : 0) | (bits & 2 ? PAWL_QF_RELU2 : 0) | (bits & 4 ? PAWL_QF_BIAS : 0);
        if (layout == 0) q.x[2] = PAWL_ROUTE_RENORMALIZE_NAIVE;
        pawl_caps caps = {.arch = PAWL_ARCH_CUDA, .cc = newer ? 100 : 90};
        pawl_err err;
        check_ok(pawl__route(pawl__kernel_table.list[q.op], &q, &caps, NULL, NULL, &decision, &err), &err);
        const char *expected = newer ? on100[layout] : on90[layout];
        if (layout == 0 && newer && (bits & 4)) expected = "moe.any:cuda";
        assert_string_equal(pawl__decision_kernel(&decision, 1)->id, expected);
    }
}

/* Every expert kernel forced on every format: it serves all row counts, or the message names op, kernel and reason and
 * what could be had instead. */
static void test_forced_experts(void **state)
{
    (void)state;
    static const pawl_op ops[] = {PAWL_OP_MOE, PAWL_OP_MOE_MASKED, PAWL_OP_MOE_GROUPED};
    static const pawl_quant formats[] = {PAWL_Q_BF16, PAWL_Q_FP8BLK, PAWL_Q_NVFP4};
    static const int ccs[] = {80, 90, 100, 120};
    int served = 0, refused = 0;
    for (int i = 0; i < 3 * 3 * 4; i++) {
        pawl_query q = experts(ops[i % 3], formats[i / 3 % 3]);
        q.flags = PAWL_QF_GATED;
        if (q.op == PAWL_OP_MOE) q.x[2] = PAWL_ROUTE_RENORMALIZE_NAIVE;
        pawl_caps caps = {.arch = PAWL_ARCH_CUDA, .cc = ccs[i / 9]};
        for (pawl_kernel_list k = pawl__kernel_table.list[q.op]; *k; k++) {
            pawl_policy p = pawl__policy_default();
            char text[100];
            pawl_err err;
            snprintf(text, sizeof text, "%s=%s", pawl__op_word(q.op), (*k)->id);
            check_ok(pawl__policy_force(&p, text, &pawl__kernel_table, &err), &err);
            pawl_status s = pawl__route(pawl__kernel_table.list[q.op], &q, &caps, &p, NULL, &decision, &err);
            if (s == PAWL_OK) {
                assert_int_equal(decision.n_spans, 1);
                assert_ptr_equal(decision.spans[0].kernel, *k);
                served++;
                continue;
            }
            assert_int_equal(s, PAWL_EUNSUPPORTED);
            snprintf(text, sizeof text, "op %s: ", pawl__op_word(q.op));
            assert_non_null(strstr(err.text, text));
            snprintf(text, sizeof text, "; %s: ", (*k)->id);
            assert_non_null(strstr(err.text, text));
            assert_non_null(strstr(err.text, "it could be served by "));
            /* the draft that inherits this wish falls back instead */
            pawl_policy draft = pawl__policy_draft(&p);
            check_ok(pawl__route(pawl__kernel_table.list[q.op], &q, &caps, &draft, NULL, &decision, &err), &err);
            refused++;
        }
    }
    printf("%d served, %d refused\n", served, refused);
    assert_true(served > 40 && refused > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fp8_linear_on_hopper), cmocka_unit_test(test_old_driver),
        cmocka_unit_test(test_gdn_verification),     cmocka_unit_test(test_routing_methods),
        cmocka_unit_test(test_bf16_activations),     cmocka_unit_test(test_forced_experts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
