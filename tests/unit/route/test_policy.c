/* Policies from text, the dispatch resolver, and the tuning file. */
#include "check.h"

#include <unistd.h>

#include "kernels/list/list.h"
#include "route/decision.h"
#include "route/dispatch.h"
#include "route/tuning.h"

static void test_policy_text(void **state)
{
    (void)state;
    pawl_policy p = pawl__policy_default();
    pawl_err err;
    const pawl_kernel_table *t = &pawl__kernel_table;
    check_ok(pawl__policy_force(&p, "moe=moe.any:ref", t, &err), &err);
    assert_int_equal(p.n_forces, 1);
    check_fails(pawl__policy_force(&p, "moe", t, &err), PAWL_EINVAL, &err, "expected OP=ID");
    check_fails(pawl__policy_force(&p, "mo=moe.any:ref", t, &err), PAWL_EINVAL, &err, "unknown op");
    check_fails(pawl__policy_force(&p, "moe=moe.any:best", t, &err), PAWL_EINVAL, &err,
                "op moe has no kernel \"moe.any:best\"; there are: moe.");
    check_fails(pawl__policy_force(&p, "linear=moe.any:ref", t, &err), PAWL_EINVAL, &err, "op linear has no kernel");
    check_fails(pawl__policy_ban(&p, "moe.any:best", t, &err), PAWL_EINVAL, &err, "no kernel has this id");
    for (int i = 0; i < PAWL_POLICY_BANS; i++) check_ok(pawl__policy_ban(&p, "moe.any:ref", t, &err), &err);
    check_fails(pawl__policy_ban(&p, "moe.any:ref", t, &err), PAWL_EINVAL, &err, "more than");
    for (int i = 1; i < PAWL_POLICY_FORCES; i++) check_ok(pawl__policy_force(&p, "moe=moe.any:ref", t, &err), &err);
    check_fails(pawl__policy_force(&p, "moe=moe.any:ref", t, &err), PAWL_EINVAL, &err, "more than");
}

static void resolve(pawl_dispatch_ask ask, pawl_wire wire, int rule)
{
    pawl_dispatch d;
    pawl_err err;
    check_ok(pawl__dispatch_resolve(&ask, &d, &err), &err);
    assert_string_equal(pawl__wire_word(d.wire), pawl__wire_word(wire));
    assert_int_equal(d.rule, rule);
    assert_true(d.why.text[0] != 0);
}

/* Each rule with everything after it saying something else. */
static void test_dispatch(void **state)
{
    (void)state;
    pawl_dispatch_ask ask = {.option = PAWL_WIRE_INT8,
                             .legacy_bf16 = 1,
                             .w = PAWL_Q_NVFP4,
                             .input_scale = 1,
                             .normal = PAWL_WIRE_FP8,
                             .low_latency = PAWL_WIRE_INT8,
                             .runner = PAWL_RUNNER_CUTEDSL,
                             .npu = 1};
    resolve(ask, PAWL_WIRE_INT8, 0);
    ask.option = PAWL_WIRE_AUTO;
    resolve(ask, PAWL_WIRE_BF16, 1);
    ask.legacy_bf16 = 0;
    resolve(ask, PAWL_WIRE_NVFP4, 2);
    ask.input_scale = 0;
    resolve(ask, PAWL_WIRE_FP8, 3);
    ask.is_low_latency = 1;
    resolve(ask, PAWL_WIRE_INT8, 3);
    ask.low_latency = PAWL_WIRE_AUTO; /* named for the other mode only */
    resolve(ask, PAWL_WIRE_BF16, 4);
    ask.runner = PAWL_RUNNER_CUTLASS;
    resolve(ask, PAWL_WIRE_BF16, 4);
    ask.runner = PAWL_RUNNER_OTHER;
    resolve(ask, PAWL_WIRE_BF16, 5);
    ask.npu = 0;
    resolve(ask, PAWL_WIRE_FP8, 6);
}

/* A checkpoint with one unquantised MoE layer: bf16 for that layer only. */
static void test_dispatch_per_layer(void **state)
{
    (void)state;
    resolve((pawl_dispatch_ask){.w = PAWL_Q_FP8BLK}, PAWL_WIRE_FP8, 6);
    resolve((pawl_dispatch_ask){.w = PAWL_Q_NVFP4, .input_scale = 1}, PAWL_WIRE_NVFP4, 2);
    resolve((pawl_dispatch_ask){.w = PAWL_Q_BF16}, PAWL_WIRE_BF16, 3);
    resolve((pawl_dispatch_ask){.w = PAWL_Q_BF16, .is_low_latency = 1}, PAWL_WIRE_BF16, 3);
    pawl_dispatch d;
    pawl_err err;
    check_fails(pawl__dispatch_resolve(&(pawl_dispatch_ask){.w = PAWL_Q_BF16, .input_scale = 1}, &d, &err), PAWL_EINVAL,
                &err, "op moe: an input scale was passed for bf16 experts");
    pawl_wire w;
    check_ok(pawl__wire_parse("nvfp4", &w, &err), &err);
    assert_int_equal(w, PAWL_WIRE_NVFP4);
    check_fails(pawl__wire_parse("fp4", &w, &err), PAWL_EINVAL, &err, "expected auto, bf16, fp8, int8 or nvfp4");
}

static const pawl_caps here = {.arch = PAWL_ARCH_CUDA, .cc = 90, .sms = 132, .driver = 12080, .name = "H200"};

#define PRINT(caps, name, driver, version)                                                                             \
    "{\"schema\":\"pawl.tune/1\",\"fingerprint\":{\"caps\":\"" caps "\",\"processor\":\"" name "\",\"driver\":" driver \
    ",\"version\":\"" version "\"},\"entries\":["
#define HEAD  PRINT("cuda cc=90 sms=132 driver=12080", "H200", "12080", PAWL_VERSION)
#define QUERY "\"query\":\"linear a=bf16 w=fp8blk128 out=bf16 at=cuda m=* n=4096 k=2048\""
#define SMALL "{\"from\":1,\"kernel\":\"linear.fp8blk:sm90-small\",\"ns\":1.5}"
#define LARGE "{\"from\":48,\"kernel\":\"linear.fp8blk:sm90-large\",\"ns\":2}"

static pawl_status parse(const char *text, pawl_tuning *t, pawl_err *err)
{
    return pawl__tuning_parse(text, strlen(text), "tune.json", &pawl__kernel_table, &here, t, err);
}

static void test_tuning(void **state)
{
    (void)state;
    static pawl_decision d;
    pawl_tuning t;
    pawl_err err;
    check_ok(parse(HEAD "{" QUERY ",\"spans\":[" SMALL "," LARGE "]}]}", &t, &err), &err);
    assert_int_equal(t.thresholds.n, 2);
    pawl_policy p = pawl__policy_default();
    p.thresholds = &t.thresholds;
    pawl_query q = t.rows[0].query;
    check_ok(pawl__route(pawl__kernel_table.list[q.op], &q, &here, &p, NULL, &d, &err), &err);
    assert_string_equal(pawl__decision_kernel(&d, 47)->id, "linear.fp8blk:sm90-small");
    assert_string_equal(pawl__decision_kernel(&d, 48)->id, "linear.fp8blk:sm90-large");
    /* another shape keeps the shipped crossover */
    q.n = 2048;
    check_ok(pawl__route(pawl__kernel_table.list[q.op], &q, &here, &p, NULL, &d, &err), &err);
    assert_string_equal(pawl__decision_kernel(&d, 32)->id, "linear.fp8blk:sm90-large");
    pawl__tuning_free(&t);
    assert_int_equal(t.thresholds.n, 0);
}

static void test_bad_tuning(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        pawl_status status;
        const char *words;
    } bad[] = {
        {"", PAWL_EFORMAT, "tune.json: not valid JSON"},
        {"[]", PAWL_EFORMAT, "tune.json: is an array"},
        {"{}", PAWL_EFORMAT, "schema is \"\""},
        {"{\"schema\":\"pawl.tune/2\"}", PAWL_EFORMAT, "schema is \"pawl.tune/2\""},
        {"{\"schema\":\"pawl.tune/1\"}", PAWL_EFORMAT, "fingerprint is nothing"},
        {PRINT("cuda cc=90 sms=132 driver=12080", "H200", "12080", "0.0.1") "]}", PAWL_EUNSUPPORTED, "made with pawl"},
        {PRINT("cuda cc=90 sms=132 driver=12080", "H100", "12080", PAWL_VERSION) "]}", PAWL_EUNSUPPORTED,
         "made with processor \"H100\""},
        {PRINT("cuda cc=90 sms=132 driver=12080", "H200", "12040", PAWL_VERSION) "]}", PAWL_EUNSUPPORTED,
         "driver 12040"},
        {PRINT("cuda cc=90 sms=114 driver=12080", "H200", "12080", PAWL_VERSION) "]}", PAWL_EUNSUPPORTED,
         "made with caps"},
        {HEAD "{" QUERY ",\"spans\":[{\"from\":1,\"kernel\":\"linear.fp8blk:sm91\",\"ns\":1}]}]}", PAWL_EUNSUPPORTED,
         "unknown kernel \"linear.fp8blk:sm91\""},
        {HEAD "{" QUERY ",\"spans\":[{\"from\":1,\"kernel\":\"moe.any:ref\",\"ns\":1}]}]}", PAWL_EUNSUPPORTED,
         "unknown kernel \"moe.any:ref\" for op linear"},
        {HEAD "{" QUERY ",\"spans\":[]}]}", PAWL_EFORMAT, "0 spans"},
        {HEAD "{" QUERY "}]}", PAWL_EFORMAT, "0 spans"},
        {HEAD "{" QUERY ",\"spans\":[3]}]}", PAWL_EFORMAT, "a span is an integer"},
        {HEAD "{" QUERY ",\"spans\":[" LARGE "," SMALL "]}]}", PAWL_EFORMAT, "spans do not rise"},
        {HEAD "{" QUERY ",\"spans\":[{\"from\":0,\"kernel\":\"moe.any:ref\"}]}]}", PAWL_EFORMAT, "from"},
        {HEAD "{" QUERY ",\"spans\":[{\"from\":1}]}]}", PAWL_EFORMAT, "lacks kernel"},
        {HEAD "{" QUERY ",\"spans\":[" SMALL "]},{" QUERY ",\"spans\":[" SMALL "]}]}", PAWL_EFORMAT, "twice"},
        {HEAD "{\"query\":\"linear m=1 w=bf16 n=1 k=1\",\"spans\":[" SMALL "]}]}", PAWL_EFORMAT, "expected m=*"},
        {HEAD "{\"query\":\"linear\",\"spans\":[" SMALL "]}]}", PAWL_EFORMAT, "n is 0"},
        {HEAD "{\"spans\":[]}]}", PAWL_EFORMAT, "lacks query"},
        {HEAD "7]}", PAWL_EFORMAT, "an entry is an integer"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        pawl_tuning t;
        pawl_err err;
        check_fails(parse(bad[i].text, &t, &err), bad[i].status, &err, bad[i].words);
        assert_null(t.rows);
        assert_int_equal(t.thresholds.n, 0);
    }
    static char huge[PAWL_TUNING_MAX_BYTES + 2];
    memset(huge, ' ', sizeof huge - 1);
    pawl_tuning t;
    pawl_err err;
    check_fails(parse(huge, &t, &err), PAWL_EFORMAT, &err, "expected at most 1048576");
}

static void test_tuning_file(void **state)
{
    (void)state;
    char path[] = "/tmp/pawl-tune-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    const char *text = HEAD "{" QUERY ",\"spans\":[" SMALL "," LARGE "]}]}";
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    pawl_tuning t;
    pawl__tuning_load(path, &pawl__kernel_table, &here, &t);
    assert_int_equal(t.thresholds.n, 2);
    pawl__tuning_free(&t);
    pawl_caps other = here;
    other.sms = 78; /* foreign: ignored, with a line in the log */
    pawl__tuning_load(path, &pawl__kernel_table, &other, &t);
    assert_int_equal(t.thresholds.n, 0);
    unlink(path);
    pawl__tuning_load(path, &pawl__kernel_table, &here, &t);
    assert_int_equal(t.thresholds.n, 0);

    pawl_buf one = {0}, two = {0};
    setenv("XDG_CACHE_HOME", "/cache", 1);
    pawl__tuning_path(&here, &one);
    pawl__tuning_path(&other, &two);
    assert_memory_equal(one.data, "/cache/pawl/tune-", 17);
    assert_string_not_equal(one.data, two.data);
    pawl__buf_free(&one);
    pawl__buf_free(&two);
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", "/home/x", 1);
    pawl__tuning_path(&here, &one);
    assert_memory_equal(one.data, "/home/x/.cache/pawl/tune-", 25);
    pawl__buf_free(&one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_policy_text),        cmocka_unit_test(test_dispatch),
                                       cmocka_unit_test(test_dispatch_per_layer), cmocka_unit_test(test_tuning),
                                       cmocka_unit_test(test_bad_tuning),         cmocka_unit_test(test_tuning_file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
