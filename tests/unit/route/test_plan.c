/* Plans on the real lists: sharing, scopes, the draft's inherited policy, scratch, and both explanations. */
#include "check.h"

#include <jansson.h>

#include "kernels/list/list.h"
#include "route/plan.h"

static pawl_caps caps_of(const char *text)
{
    pawl_caps c;
    pawl_err err;
    check_ok(pawl__caps_parse(text, strlen(text), &c, &err), &err);
    return c;
}

static pawl_query query_of(const char *text)
{
    pawl_query q;
    pawl_err err;
    check_ok(pawl__query_parse(text, strlen(text), &q, &err), &err);
    return q;
}

static const pawl_decision *add(pawl_plan *p, pawl_scope scope, const char *text, const char *where)
{
    pawl_query q = query_of(text);
    const pawl_decision *d = NULL;
    pawl_err err;
    check_ok(pawl__plan_add(p, scope, &q, where, &d, &err), &err);
    return d;
}

static void test_sharing(void **state)
{
    (void)state;
    pawl_caps caps = caps_of("cpu isa=avx2,fma,f16c cores=2");
    pawl_plan *p;
    pawl_err err;
    check_ok(pawl__plan_create(&pawl__kernel_table, &caps, NULL, NULL, NULL, &p, &err), &err);
    const pawl_decision *one = add(p, PAWL_SCOPE_TARGET, "linear w=bf16 n=64 k=64 m=1", "layers.*.a");
    for (int i = 0; i < 50; i++) { /* the list of decisions moves, decisions do not */
        char text[64];
        snprintf(text, sizeof text, "linear w=bf16 n=%d k=64", 100 + i);
        add(p, PAWL_SCOPE_TARGET, text, "layers.*.b");
    }
    assert_ptr_equal(one, add(p, PAWL_SCOPE_TARGET, "linear w=bf16 n=64 k=64 m=9", "layers.*.a"));
    assert_ptr_not_equal(one, add(p, PAWL_SCOPE_DRAFT, "linear w=bf16 n=64 k=64", "mtp.a"));
    assert_int_equal(one->query.m, PAWL_M_ANY);
    pawl_query bad = query_of("linear w=bf16 n=64");
    check_fails(pawl__plan_add(p, PAWL_SCOPE_TARGET, &bad, "layers.*.c", NULL, &err), PAWL_EINVAL, &err,
                "layers.*.c: query linear: k is 0");
    bad = query_of("linear w=bf16 a=bf16 n=64 k=64");
    check_fails(pawl__plan_add(p, PAWL_SCOPE_TARGET, &bad, "layers.*.c", NULL, &err), PAWL_EUNSUPPORTED, &err,
                "layers.*.c: no kernel for 1 rows");
    pawl__plan_destroy(&p);
    assert_null(p);
    pawl__plan_destroy(&p);
}

static void test_draft_policy(void **state)
{
    (void)state;
    pawl_caps caps = caps_of("cpu isa=avx2,fma,f16c cores=2");
    pawl_policy target = pawl__policy_default();
    pawl_plan *p;
    pawl_err err;
    check_ok(pawl__policy_force(&target, "linear=linear.fp8blk:ref", &pawl__kernel_table, &err), &err);
    check_ok(pawl__policy_ban(&target, "moe.any:avx2", &pawl__kernel_table, &err), &err);
    check_ok(pawl__plan_create(&pawl__kernel_table, &caps, &target, NULL, NULL, &p, &err), &err);
    const char *fp8 = "linear w=fp8blk128 n=64 k=64", *bf16 = "linear w=bf16 n=64 k=64";
    /* the target's wish is kept where it fits, and falls back where it does not */
    assert_string_equal(add(p, PAWL_SCOPE_TARGET, fp8, "t")->spans[0].kernel->id, "linear.fp8blk:ref");
    assert_string_equal(add(p, PAWL_SCOPE_DRAFT, fp8, "d")->spans[0].kernel->id, "linear.fp8blk:ref");
    assert_string_equal(add(p, PAWL_SCOPE_DRAFT, bf16, "d")->spans[0].kernel->id, "linear.bf16:avx2");
    assert_string_equal(add(p, PAWL_SCOPE_DRAFT, "moe w=bf16 i=64 h=64 experts=4 topk=2", "d")->spans[0].kernel->id,
                        "moe.any:ref");
    pawl_query q = query_of(bf16);
    check_fails(pawl__plan_add(p, PAWL_SCOPE_TARGET, &q, "t", NULL, &err), PAWL_EUNSUPPORTED, &err,
                "linear.fp8blk:ref: needs fp8blk128 weights");
    pawl__plan_destroy(&p);
    /* said by the user, the draft's own wish binds */
    check_ok(pawl__plan_create(&pawl__kernel_table, &caps, NULL, &target, NULL, &p, &err), &err);
    check_fails(pawl__plan_add(p, PAWL_SCOPE_DRAFT, &q, "d", NULL, &err), PAWL_EUNSUPPORTED, &err, "forced kernel");
    assert_string_equal(add(p, PAWL_SCOPE_TARGET, bf16, "t")->spans[0].kernel->id, "linear.bf16:avx2");
    pawl__plan_destroy(&p);
}

static void test_scratch(void **state)
{
    (void)state;
    pawl_caps caps = caps_of("cpu isa=avx2,fma,f16c cores=2");
    pawl_plan *p;
    pawl_err err;
    check_ok(pawl__plan_create(&pawl__kernel_table, &caps, NULL, NULL, NULL, &p, &err), &err);
    assert_int_equal(pawl__plan_scratch(p, 64, 2), 0);
    size_t most = 0;
    static const char *const queries[] = {"moe w=bf16 i=128 h=256 experts=8 topk=2 gated",
                                          "linear w=fp8blk128 n=512 k=256", "attn heads=4 kv_heads=2 d=64"};
    for (int i = 0; i < 3; i++) {
        const pawl_decision *d = add(p, PAWL_SCOPE_TARGET, queries[i], "x");
        for (int f = 0; f < d->n_fit; f++) {
            const pawl_kernel *k = d->fit[f].kernel;
            size_t n = k->scratch ? k->scratch(&d->query, 64, 2) : 0;
            if (n > most) most = n;
        }
    }
    assert_true(most > 0);
    assert_int_equal(pawl__plan_scratch(p, 64, 2), most);
    pawl__plan_destroy(&p);
}

static pawl_plan *sample(const pawl_caps *caps)
{
    pawl_plan *p;
    pawl_err err;
    pawl_policy target = pawl__policy_default();
    check_ok(pawl__policy_ban(&target, "moe.nvfp4:sm100-fused", &pawl__kernel_table, &err), &err);
    check_ok(pawl__plan_create(&pawl__kernel_table, caps, &target, NULL, NULL, &p, &err), &err);
    const char *fp8 = "linear a=bf16 w=fp8blk128/ue8m0 out=bf16 at=cuda n=4096 k=2048";
    add(p, PAWL_SCOPE_TARGET, fp8, "layers.*.self_attn.o_proj");
    for (int i = 0; i < 3; i++) add(p, PAWL_SCOPE_TARGET, fp8, "layers.*.linear_attn.out_proj");
    add(p, PAWL_SCOPE_TARGET,
        "moe a=bf16 w=bf16 out=bf16 at=cuda i=1024 h=4096 experts=512 topk=10 method=RenormalizeNaive gated",
        "layers.*.mlp.experts");
    add(p, PAWL_SCOPE_DRAFT, "add a=bf16 out=bf16 at=cuda n=4096", "mtp.layers.*");
    return p;
}

static void test_text(void **state)
{
    (void)state;
    pawl_caps caps = caps_of("cuda cc=90 sms=132");
    pawl_plan *p = sample(&caps);
    pawl_buf out = {0};
    pawl__plan_explain(p, &out);
    assert_string_equal(out.data, "machine  cuda cc=90 sms=132\n"
                                  "target   ban moe.nvfp4:sm100-fused\n"
                                  "draft    ban moe.nvfp4:sm100-fused\n"
                                  "\n"
                                  "-- target\n"
                                  "\n"
                                  "linear a=bf16 w=fp8blk128/ue8m0 out=bf16 at=cuda m=* n=4096 k=2048\n"
                                  "    for      layers.*.self_attn.o_proj, layers.*.linear_attn.out_proj (3)\n"
                                  "    1-31     linear.fp8blk:sm90-small  (scales unpacked at load)  (no body yet)\n"
                                  "    32-      linear.fp8blk:sm90-large  (scales unpacked at load)  (no body yet)\n"
                                  "    not      linear.fp8blk:sm100-large  needs cc 100 or newer, this is 90\n"
                                  "    not      linear.fp8blk:sm90-small   serves 1 to 31 rows, passed over at 32-\n"
                                  "\n"
                                  "moe a=bf16 w=bf16 out=bf16 at=cuda m=* i=1024 h=4096 experts=512 topk=10\n"
                                  "        method=RenormalizeNaive gated\n"
                                  "    for      layers.*.mlp.experts\n"
                                  "    1-       moe.bf16:sm90  (no body yet)\n"
                                  "    not      moe.bf16:sm100-fused  needs cc 100 or newer, this is 90\n"
                                  "\n"
                                  "-- draft\n"
                                  "\n"
                                  "add a=bf16 out=bf16 at=cuda m=* n=4096\n"
                                  "    for      mtp.layers.*\n"
                                  "    1-       add.any:cuda  (no body yet)\n");
    pawl__buf_free(&out);
    pawl__plan_destroy(&p);
}

static void check_rows(const json_t *o)
{
    assert_true(json_integer_value(json_object_get(o, "from")) >= 1);
    assert_true(json_is_integer(json_object_get(o, "to")) || json_is_null(json_object_get(o, "to")));
    assert_true(json_is_string(json_object_get(o, "kernel")));
}

static void test_json(void **state)
{
    (void)state;
    pawl_caps caps = caps_of("cuda cc=90 sms=132"), back;
    pawl_plan *p = sample(&caps);
    pawl_buf out = {0};
    pawl__plan_explain_json(p, &out);
    assert_false(out.failed);
    json_error_t e;
    json_t *o = json_loadb(out.data, out.len, JSON_REJECT_DUPLICATES, &e);
    assert_non_null(o);
    assert_string_equal(json_string_value(json_object_get(o, "schema")), "pawl.explain/1");
    const char *text = json_string_value(json_object_get(o, "caps"));
    pawl_err err;
    check_ok(pawl__caps_parse(text, strlen(text), &back, &err), &err);
    assert_int_equal(back.cc, 90);
    json_t *target = json_object_get(o, "target"), *ops = json_object_get(o, "ops"), *op;
    assert_string_equal(json_string_value(json_array_get(json_object_get(target, "banned"), 0)),
                        "moe.nvfp4:sm100-fused");
    assert_int_equal(json_array_size(ops), 3);
    size_t i, j;
    json_t *item;
    json_array_foreach(ops, i, op)
    {
        query_of(json_string_value(json_object_get(op, "query"))); /* a line of it is a query */
        json_array_foreach(json_object_get(op, "spans"), j, item)
        {
            check_rows(item);
            assert_true(json_is_false(json_object_get(item, "built")));
        }
        json_array_foreach(json_object_get(op, "refusals"), j, item)
        {
            check_rows(item);
            assert_true(json_string_length(json_object_get(item, "reason")) > 0);
        }
    }
    json_t *spans = json_object_get(json_array_get(ops, 0), "spans");
    assert_int_equal(json_integer_value(json_object_get(json_array_get(spans, 0), "to")), 31);
    assert_true(json_is_null(json_object_get(json_array_get(spans, 1), "to")));
    json_t *uses = json_object_get(json_array_get(ops, 0), "uses");
    assert_int_equal(json_integer_value(json_object_get(json_array_get(uses, 1), "count")), 3);
    json_decref(o);
    pawl__buf_free(&out);
    pawl__plan_destroy(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sharing), cmocka_unit_test(test_draft_policy),
                                       cmocka_unit_test(test_scratch), cmocka_unit_test(test_text),
                                       cmocka_unit_test(test_json)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
