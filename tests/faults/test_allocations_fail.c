/* test_allocations_fail MODEL EACH: opening a model, a session and a short answer, with the n-th allocation of this whole
 * process failing, whichever library asks: every n up to EACH, then ever fewer. Each run ends with PAWL_ENOMEM and a
 * sentence, or with the tokens of a run where none failed; nothing stays allocated. */
#include "check.h"

#include "faults/alloc.h"
#include "pawl/pawl.h"

enum { TOKENS = 8 };

static const char *model_path;
static long each;

typedef struct answer {
    int n;
    int32_t ids[TOKENS];
} answer;

static int keep(const pawl_token *t, void *user)
{
    answer *a = user;
    a->ids[a->n++] = t->id;
    return 0;
}

static pawl_status run(answer *a, pawl_err *err)
{
    static const int32_t prompt[] = {5, 60, 300, 7};
    pawl_model *m = NULL;
    pawl_session *s = NULL;
    pawl_model_options mo = PAWL_INIT(pawl_model_options);
    mo.threads = 2;
    pawl_logit_bias bias = {.id = 9, .bias = 0.5f};
    pawl_sampling g = PAWL_INIT(pawl_sampling);
    g.temperature = 0.7f;
    g.top_p = 0.9f;
    g.repetition_penalty = 1.1f;
    g.bias = &bias;
    g.n_bias = 1;
    g.has_seed = 1;
    pawl_session_options so = PAWL_INIT(pawl_session_options);
    so.context = 64;
    so.chunk = 16;
    pawl_generate_options o = PAWL_INIT(pawl_generate_options);
    o.sampling = &g;
    o.max_tokens = TOKENS;
    o.draft = 2;
    o.ignore_eos = 1;
    memset(a, 0, sizeof *a);
    pawl_status st = pawl_model_open(model_path, &mo, &m, err);
    if (st == PAWL_OK) st = pawl_session_create(m, &so, &s, err);
    if (st == PAWL_OK) st = pawl_session_feed(s, prompt, 4, err);
    if (st == PAWL_OK) st = pawl_generate(s, &o, keep, a, NULL, err);
    pawl_session_destroy(&s);
    pawl_model_close(&m);
    return st;
}

static void each_allocation_fails(void **state)
{
    (void)state;
    answer want, got;
    pawl_err err;
    /* Twice: what the C library allocates once and keeps is there after the first. */
    for (int i = 0; i < 2; i++) check_ok(run(&want, &err), &err);
    assert_int_equal(want.n, TOKENS);
    long live = alloc_live(), refused = 0, survived = 0;
    for (long n = 1;; n += n < each ? 1 : n / 64 + 1) {
        memset(&err, 0, sizeof err);
        alloc_fail_nth(n);
        pawl_status st = run(&got, &err);
        int failed = alloc_failed();
        alloc_fail_nth(0);
        if (alloc_live() != live)
            fail_msg("allocation %ld failed (%s \"%s\"): %ld blocks stay allocated", n, pawl_status_name(st), err.text,
                     alloc_live() - live);
        if (!failed) {
            check_ok(st, &err);
            printf("%ld allocations and up; %ld refused, %ld done without\n", n - 1, refused, survived);
            break;
        }
        if (st == PAWL_OK) {
            assert_memory_equal(&got, &want, sizeof want);
            survived++;
        } else if (st == PAWL_ENOMEM && *err.text) {
            refused++;
        } else {
            fail_msg("allocation %ld failed: %s \"%s\", expected ENOMEM with a sentence", n, pawl_status_name(st),
                     err.text);
        }
    }
    assert_true(refused > 100);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: test_allocations_fail MODEL EACH\n");
        return 2;
    }
    model_path = argv[1];
    each = strtol(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_allocation_fails)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
