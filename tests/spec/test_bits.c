/* test_bits MODEL: the logits of target and draft layer have the same bits for every prefill chunk, thread count and
 * instruction set, with scratch poisoned and results checked, and what is generated has too. */
#include "spec/spec.h"

static const char *model_path;
static pawl_model_info info;

enum { ROWS = 150 };
static int32_t ids[ROWS];
static scores want;
static record want_run;
static float *want_last; /* logits of the last prompt row, as generating sees them */

/* What the model says: logits of all rows by `chunk`, and a sampled continuation. */
static void score_and_generate(pawl_model *m, int32_t chunk, scores *s, record *r, float *last)
{
    *s = score_ids(m, ids, ROWS, info.draft_layers > 0, chunk);
    pawl_session *ses = session_of(m, 0, chunk);
    feed(ses, ids, 90);
    pawl_sampling sampling = greedy_sampling();
    sampling.temperature = 1.0f;
    sampling.seed = 3;
    pawl_generate_options o = generate_options(&sampling, info.draft_layers ? 4 : 0, 24);
    generate(ses, &o, r);
    pawl_err err;
    pawl_session_reset(ses);
    feed(ses, ids, 90);
    while (ses->seq->done < ses->seq->n)
        check_ok(pawl__seq_prefill(ses->seq, info.draft_layers > 0, &m->exec, &err), &err);
    memcpy(last, ses->seq->logits, (size_t)info.vocab * sizeof *last);
    pawl_session_destroy(&ses);
}

static void same_bits(const char *what, const float *a, const float *b, int64_t rows)
{
    for (int64_t i = 0; i < rows * info.vocab; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0)
            fail_msg("%s: row %lld, id %lld: %.9g, expected %.9g", what, (long long)(i / info.vocab),
                     (long long)(i % info.vocab), (double)b[i], (double)a[i]);
}

static void compare(const char *what, pawl_model *m, int32_t chunk)
{
    scores got;
    static record run;
    float *last = malloc((size_t)info.vocab * sizeof *last);
    score_and_generate(m, chunk, &got, &run, last);
    same_bits(what, want.logits, got.logits, ROWS);
    if (info.draft_layers) same_bits(what, want.draft, got.draft, ROWS - 1);
    same_bits(what, want_last, last, 1);
    same_run(what, &want_run, &run);
    free_scores(&got);
    free(last);
}

/* What everything is compared with: all rows in one step, one thread. */
static int setup(void **state)
{
    (void)state;
    pawl_model_options o = PAWL_INIT(pawl_model_options);
    o.threads = 1;
    pawl_model *m = open_model(model_path, &o);
    info = PAWL_INIT(pawl_model_info);
    pawl_model_get_info(m, &info);
    uint64_t rng = 11;
    for (int i = 0; i < ROWS; i++) ids[i] = below(&rng, (int)info.vocab);
    want_last = malloc((size_t)info.vocab * sizeof *want_last);
    score_and_generate(m, ROWS, &want, &want_run, want_last);
    /* The rows by pawl_score and by generating are the same rows. */
    same_bits("prefill", want.logits + 89 * info.vocab, want_last, 1);
    pawl_model_close(&m);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free_scores(&want);
    free(want_last);
    return 0;
}

static void chunks(void **state)
{
    (void)state;
    static const int32_t sizes[] = {1, 7, 64, 0};
    pawl_model *m = open_model(model_path, NULL);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char what[32];
        snprintf(what, sizeof what, "chunk %d", sizes[i]);
        compare(what, m, sizes[i]);
    }
    pawl_model_close(&m);
}

static void threads(void **state)
{
    (void)state;
    for (int n = 1; n <= 4; n++) {
        pawl_model_options o = PAWL_INIT(pawl_model_options);
        o.threads = n;
        pawl_model *m = open_model(model_path, &o);
        char what[32];
        snprintf(what, sizeof what, "%d threads", n);
        compare(what, m, 64);
        pawl_model_close(&m);
    }
}

static void instruction_sets(void **state)
{
    (void)state;
    static const char *const sets[] = {"ref", "avx2", "avx512"};
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        pawl_kernel_options k = PAWL_INIT(pawl_kernel_options);
        k.isa = sets[i];
        pawl_model_options o = PAWL_INIT(pawl_model_options);
        o.kernels = &k;
        pawl_model *m = open_model(model_path, &o);
        compare(sets[i], m, 64);
        pawl_model_close(&m);
    }
}

static void poison_and_checks(void **state)
{
    (void)state;
    pawl_model_options o = PAWL_INIT(pawl_model_options);
    o.poison = o.check_nan = 1;
    pawl_model *m = open_model(model_path, &o);
    compare("poison and checks, chunk 7", m, 7);
    compare("poison and checks, chunk 64", m, 64);
    pawl_model_close(&m);
}

static void deterministic(void **state)
{
    (void)state;
    pawl_kernel_options k = PAWL_INIT(pawl_kernel_options);
    k.deterministic = 1;
    pawl_model_options o = PAWL_INIT(pawl_model_options);
    o.kernels = &k;
    pawl_model *m = open_model(model_path, &o);
    compare("deterministic", m, 64);
    pawl_model_close(&m);
}

int main(int argc, char **argv)
{
    argc = take_activations(argc, argv);
    if (argc != 2) {
        fprintf(stderr, "usage: test_bits MODEL [int8]\n");
        return 2;
    }
    model_path = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks),           cmocka_unit_test(threads),
        cmocka_unit_test(instruction_sets), cmocka_unit_test(poison_and_checks),
        cmocka_unit_test(deterministic),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
