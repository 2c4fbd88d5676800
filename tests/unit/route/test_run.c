/* Running a decision on invented kernels: no rows, look-up at the borders, failures that may and may not go on, tuned
 * spans, prepare, and entries without a body. */
#include "check.h"

#include "route/decision.h"

static char trail[64]; /* a letter for each body that was called */
static pawl_status a_result, b_result;
static const char *decline; /* what prepare says no with */
static pawl_decision d;

static void note(char c)
{
    size_t n = strlen(trail);
    assert_true(n + 1 < sizeof trail);
    trail[n] = c;
    trail[n + 1] = 0;
}

static pawl_status run_a(const void *args, pawl_exec *ex, pawl_err *err)
{
    (void)args, (void)ex;
    note('a');
    return a_result == PAWL_OK ? PAWL_OK : pawl__fail(err, a_result, "a is ill");
}

static pawl_status run_b(const void *args, pawl_exec *ex, pawl_err *err)
{
    (void)args, (void)ex;
    note('b');
    return b_result == PAWL_OK ? PAWL_OK : pawl__fail(err, b_result, "b is ill");
}

static pawl_status run_c(const void *args, pawl_exec *ex, pawl_err *err)
{
    (void)args, (void)ex, (void)err;
    note('c');
    return PAWL_OK;
}

static pawl_status prepare(const pawl_query *q, pawl_exec *ex, pawl_reason *why)
{
    (void)q, (void)ex;
    if (!decline) return PAWL_OK;
    pawl__reason(why, "%s", decline);
    return PAWL_EUNSUPPORTED;
}

enum { STEADY = PAWL_TRAIT_ROW_INVARIANT | PAWL_TRAIT_RETRYABLE };

/* a for up to 31 rows (a crossover), b from 8 to 100 (a limit), c for all. */
static pawl_kernel a = {.id = "add.x:a", .op = PAWL_OP_ADD, .m_min = 1, .m_max = 31, .run = run_a};
static pawl_kernel b = {.id = "add.x:b", .op = PAWL_OP_ADD, .m_min = 8, .m_max = 100, .traits = STEADY, .run = run_b};
static pawl_kernel c = {.id = "add.x:c", .op = PAWL_OP_ADD, .m_min = 1, .traits = STEADY, .run = run_c};
static const pawl_kernel *const list[] = {&a, &b, &c, NULL};
static pawl_caps caps;
static pawl_exec ex = {.caps = &caps};

static int reset(void **state)
{
    (void)state;
    trail[0] = 0;
    a_result = b_result = PAWL_OK;
    decline = NULL;
    a.traits = STEADY | PAWL_TRAIT_TUNABLE;
    a.prepare = prepare;
    a.run = run_a;
    return 0;
}

static pawl_query query(void)
{
    pawl_query q = pawl__query(PAWL_OP_ADD);
    q.n = 16;
    return q;
}

static void route(const pawl_policy *p)
{
    pawl_query q = query();
    pawl_err err;
    check_ok(pawl__route(list, &q, &caps, p, &ex, &d, &err), &err);
}

static const char *refusal(const pawl_kernel *k)
{
    for (int i = 0; i < d.n_refusals; i++) {
        if (d.refusals[i].kernel == k) return d.refusals[i].why.text;
    }
    return "";
}

static void test_borders(void **state)
{
    (void)state;
    route(NULL);
    assert_int_equal(d.n_spans, 3);
    static const struct {
        int64_t m;
        const char *who;
    } cases[] = {{1, "a"}, {7, "a"}, {8, "a"}, {31, "a"}, {32, "b"}, {100, "b"}, {101, "c"}, {INT64_MAX, "c"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pawl_err err;
        trail[0] = 0;
        check_ok(pawl__op_run(&d, cases[i].m, NULL, &ex, &err), &err);
        assert_string_equal(trail, cases[i].who);
    }
    assert_string_equal(refusal(&a), "serves 1 to 31 rows");
    assert_string_equal(refusal(&b), "serves 8 to 100 rows");
}

static void test_no_rows(void **state)
{
    (void)state;
    route(NULL);
    a_result = PAWL_EINTERNAL;
    pawl_err err;
    check_ok(pawl__op_run(&d, 0, NULL, &ex, &err), &err);
    assert_string_equal(trail, "");
    check_fails(pawl__op_run(&d, -1, NULL, &ex, &err), PAWL_EINVAL, &err, "op add: -1 rows");
    assert_string_equal(trail, "");
}

static void test_retryable_failure_goes_on(void **state)
{
    (void)state;
    static pawl_failures kept;
    kept.n = 0;
    route(NULL);
    d.failures = &kept;
    a_result = b_result = PAWL_ENOMEM;
    pawl_err err;
    check_ok(pawl__op_run(&d, 9, NULL, &ex, &err), &err);
    assert_string_equal(trail, "abc");
    assert_int_equal(kept.n, 2);
    assert_ptr_equal(kept.list[0].kernel, &a);
    assert_non_null(strstr(kept.list[0].why.text, "a is ill"));
    /* for good: they are not tried again, though they would work now */
    a_result = b_result = PAWL_OK;
    check_ok(pawl__op_run(&d, 9, NULL, &ex, &err), &err);
    check_ok(pawl__op_run(&d, 3, NULL, &ex, NULL), &err);
    assert_string_equal(trail, "abccc");
    assert_int_equal(kept.n, 2);
}

static void test_failure_without_memory(void **state)
{
    (void)state;
    route(NULL);
    a_result = PAWL_EIO;
    check_ok(pawl__op_run(&d, 3, NULL, &ex, NULL), &(pawl_err){0});
    check_ok(pawl__op_run(&d, 3, NULL, &ex, NULL), &(pawl_err){0});
    assert_string_equal(trail, "acac"); /* nothing is remembered: 3 rows are outside b's limit */
}

static void test_other_failures_are_the_callers(void **state)
{
    (void)state;
    pawl_err err;
    a.traits &= ~(uint32_t)PAWL_TRAIT_RETRYABLE;
    route(NULL);
    a_result = PAWL_ENOMEM;
    check_fails(pawl__op_run(&d, 5, NULL, &ex, &err), PAWL_ENOMEM, &err,
                "add.x:a in `add a=f32 out=f32 m=5 n=16`: a is ill");
    assert_string_equal(trail, "a");
    a.traits |= PAWL_TRAIT_RETRYABLE;
    a_result = PAWL_EINVAL;
    check_fails(pawl__op_run(&d, 5, NULL, &ex, &err), PAWL_EINVAL, &err, "a is ill");
    a_result = PAWL_ECANCELED;
    check_fails(pawl__op_run(&d, 5, NULL, &ex, &err), PAWL_ECANCELED, &err, "a is ill");
    assert_string_equal(trail, "aaa");
}

static void test_prepare_declines(void **state)
{
    (void)state;
    decline = "library 1.2, needs 1.3";
    route(NULL);
    assert_ptr_equal(pawl__decision_kernel(&d, 1), &c);
    assert_ptr_equal(pawl__decision_kernel(&d, 8), &b);
    assert_string_equal(refusal(&a), "library 1.2, needs 1.3");
    /* pure: nobody is asked */
    pawl_query q = query();
    pawl_err err;
    check_ok(pawl__route(list, &q, &caps, NULL, NULL, &d, &err), &err);
    assert_ptr_equal(pawl__decision_kernel(&d, 1), &a);
}

static void test_not_built_here(void **state)
{
    (void)state;
    a.run = NULL;
    route(NULL);
    assert_ptr_equal(pawl__decision_kernel(&d, 1), &c);
    assert_string_equal(refusal(&a), "not built here");
    pawl_query q = query();
    pawl_err err;
    check_ok(pawl__route(list, &q, &caps, NULL, NULL, &d, &err), &err);
    assert_ptr_equal(pawl__decision_kernel(&d, 1), &a);
    check_fails(pawl__route(list, &q, &caps,
                            &(pawl_policy){.isa_mask = ~0ull, .forces = {{PAWL_OP_ADD, "add.x:a"}}, .n_forces = 1}, &ex,
                            &d, &err),
                PAWL_EUNSUPPORTED, &err, "add.x:a: not built here");
}

static void test_tuned(void **state)
{
    (void)state;
    pawl_policy p = pawl__policy_default();
    pawl_query other = query();
    other.n = 32;
    /* a's crossover moves to 48; b's limits stay limits */
    const pawl_threshold rows[] = {
        {other, &c, 1, 0}, {query(), &a, 1, 47}, {query(), &c, 48, 63}, {query(), &b, 64, 0}};
    const pawl_thresholds t = {sizeof rows / sizeof *rows, rows};
    p.thresholds = &t;
    route(&p);
    static const struct {
        int64_t m;
        const pawl_kernel *k;
    } cases[] = {{1, &a}, {47, &a}, {48, &c}, {63, &c}, {64, &b}, {100, &b}, {101, &c}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_ptr_equal(pawl__decision_kernel(&d, cases[i].m), cases[i].k);
    }
    /* a banned kernel is not brought back by a measurement */
    p.bans[p.n_bans++] = "add.x:a";
    route(&p);
    assert_ptr_equal(pawl__decision_kernel(&d, 1), &c);
    assert_ptr_equal(pawl__decision_kernel(&d, 9), &b);
    /* deterministic: tuning changes nothing */
    p.n_bans = 0;
    p.deterministic = 1;
    route(&p);
    assert_int_equal(d.n_spans, 1);
    assert_ptr_equal(d.spans[0].kernel, &a); /* its crossover is no limit, so it may serve all rows */
    p.bans[p.n_bans++] = "add.x:a";
    route(&p);
    assert_int_equal(d.n_spans, 1);
    assert_ptr_equal(d.spans[0].kernel, &c);
    assert_string_equal(refusal(&b), "deterministic: does not serve every row count");
}

static void test_hole(void **state)
{
    (void)state;
    static const pawl_kernel *const short_list[] = {&a, &b, NULL};
    pawl_query q = query();
    pawl_err err;
    check_fails(pawl__route(short_list, &q, &caps, NULL, &ex, &d, &err), PAWL_EUNSUPPORTED, &err,
                "no kernel for 101 rows of `add a=f32 out=f32 m=* n=16`");
    static const pawl_kernel *const none[] = {NULL};
    check_fails(pawl__route(none, &q, &caps, NULL, &ex, &d, &err), PAWL_EUNSUPPORTED, &err, "op add has no kernels");
    check_fails(pawl__route(NULL, &q, &caps, NULL, &ex, &d, &err), PAWL_EUNSUPPORTED, &err, "op add has no kernels");
    q.n = 0;
    check_fails(pawl__route(list, &q, &caps, NULL, &ex, &d, &err), PAWL_EINVAL, &err, "n is 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_borders, reset),
        cmocka_unit_test_setup(test_no_rows, reset),
        cmocka_unit_test_setup(test_retryable_failure_goes_on, reset),
        cmocka_unit_test_setup(test_failure_without_memory, reset),
        cmocka_unit_test_setup(test_other_failures_are_the_callers, reset),
        cmocka_unit_test_setup(test_prepare_declines, reset),
        cmocka_unit_test_setup(test_not_built_here, reset),
        cmocka_unit_test_setup(test_tuned, reset),
        cmocka_unit_test_setup(test_hole, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
