/* No step of the engine after the first allocates, drafting or not, greedy or sampled. Run from the source tree. */
#include "faults/alloc.h"
#include "spec/spec.h"

enum { TOKENS = 200, FIRST = 3 };

typedef struct counted {
    int n;
    long first, last; /* calls so far when the FIRST-th and the latest token came */
} counted;

static int count(const pawl_token *t, void *user)
{
    (void)t;
    counted *c = user;
    c->last = alloc_calls();
    if (++c->n == FIRST) c->first = c->last;
    return 0;
}

static void one_run(pawl_model *m, const pawl_sampling *g, int draft, int with_stop)
{
    static const char *const stop[] = {"a text that never comes"};
    pawl_err err;
    prompt p;
    counted c = {0};
    make_prompt(m, 0, &p);
    pawl_session *s = session_of(m, p.n + TOKENS, 64);
    feed(s, p.ids, p.n);
    pawl_generate_options o = generate_options(g, draft, TOKENS);
    o.stop = stop;
    o.n_stop = with_stop ? 1 : 0;
    check_ok(pawl_generate(s, &o, count, &c, NULL, &err), &err);
    assert_int_equal(c.n, TOKENS);
    if (c.last != c.first)
        fail_msg("draft %d, temperature %g: %ld allocations between token %d and the last", draft,
                 (double)g->temperature, c.last - c.first, FIRST);
    pawl_session_destroy(&s);
}

static void steps_allocate_nothing(void **state)
{
    (void)state;
    static const int drafts[] = {0, 2, PAWL_DRAFT_AUTO};
    long start = alloc_calls();
    pawl_model *m = open_model("models/tale-moe-fp8", NULL);
    assert_true(alloc_calls() > start); /* the counter counts */
    pawl_sampling greedy = greedy_sampling(), sampled = greedy_sampling();
    sampled.temperature = 0.7f;
    sampled.top_p = 0.9f;
    sampled.presence_penalty = 0.3f;
    sampled.frequency_penalty = 0.2f;
    sampled.repetition_penalty = 1.1f;
    for (size_t i = 0; i < sizeof drafts / sizeof drafts[0]; i++)
        for (int with_stop = 0; with_stop < 2; with_stop++) {
            one_run(m, &greedy, drafts[i], with_stop);
            one_run(m, &sampled, drafts[i], with_stop);
        }
    pawl_model_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(steps_allocate_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
