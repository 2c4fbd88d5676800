/* test_requests MODEL RANDOM: what a request may ask for, its limits and its errors; then RANDOM random requests with
 * faults, after which every pool is full. */
#include "engine/client.h"

#include <time.h>
#include <unistd.h>

static const char *model_path;
static int n_random;
static pawl_model *model;
static pawl_model_info info;

static pawl_engine *small_engine(int draft)
{
    pawl_engine_options o = PAWL_INIT(pawl_engine_options);
    o.draft = draft;
    o.no_load_rule = 1;
    o.context = 128;
    o.max_seqs = 4;
    return engine_of(model, &o);
}

static void is_refused(pawl_engine *e, const pawl_request_options *o, const char *word)
{
    pawl_err err;
    pawl_request *r;
    assert_int_equal(pawl_engine_submit(e, o, on_event, NULL, &r, &err), PAWL_EINVAL);
    assert_null(r);
    if (!strstr(err.text, word)) fail_msg("\"%s\" does not name %s", err.text, word);
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    pawl_engine *e = small_engine(2);
    pawl_sampling s = greedy_sampling();
    prompt p;
    uint64_t rng = 1;
    random_prompt(model, &rng, 128, &p);
    pawl_request_options o = request_of(&p, &s, 4);
    is_refused(e, &o, "context of 128"); /* a prompt of the context's length */
    p.n = 10;
    const pawl_request_options good = request_of(&p, &s, 4);
    o = good, o.n_prompt = 0;
    is_refused(e, &o, "prompt");
    o = good, o.n = 129;
    is_refused(e, &o, "n:");
    o = good, o.max_tokens = -5;
    is_refused(e, &o, "max_tokens");
    o = good, o.draft = 9;
    is_refused(e, &o, "draft");
    o = good, o.top_logprobs = 21;
    is_refused(e, &o, "top_logprobs");
    o = good, o.deadline = -1;
    is_refused(e, &o, "deadline");
    const int32_t ends[] = {4, 4};
    o = good, o.message_ends = ends, o.n_message_ends = 2;
    is_refused(e, &o, "message_ends");
    p.ids[3] = -1;
    o = good;
    is_refused(e, &o, "prompt: token 3");
    p.ids[3] = (int32_t)info.vocab;
    is_refused(e, &o, "prompt: token 3");
    p.ids[3] = 3;
    s.temperature = NAN;
    is_refused(e, &o, "temperature");
    engine_end(e);
}

static void lengths_are_kept_exactly(void **state)
{
    (void)state;
    pawl_engine *e = small_engine(4);
    pawl_sampling s = greedy_sampling();
    prompt p;
    uint64_t rng = 2;
    for (int n = 124; n < 128; n++) { /* to the context's very end */
        random_prompt(model, &rng, n, &p);
        pawl_request_options o = request_of(&p, &s, -1);
        o.ignore_eos = 1;
        client *c = ask(e, &o);
        assert_int_equal(c->choice[0].n, 128 - n);
        assert_int_equal(c->choice[0].end, PAWL_END_LENGTH);
        client_free(c);
    }
    random_prompt(model, &rng, 30, &p);
    for (int round = 0; round < 2; round++) /* the second time from the prefix cache */
        for (int most = 0; most <= 6; most++) {
            pawl_request_options o = request_of(&p, &s, most);
            o.ignore_eos = 1;
            client *c = ask(e, &o);
            assert_int_equal(c->choice[0].n, most);
            assert_int_equal(c->choice[0].end, PAWL_END_LENGTH);
            assert_int_equal(c->usage.generated_tokens, most);
            client_free(c);
        }
    engine_end(e);
}

/* The same requests with drafts and without: tokens, log probabilities, ends. Stop tokens fall anywhere in accepted runs. */
static void drafting_changes_nothing(void **state)
{
    (void)state;
    pawl_engine *with = small_engine(3), *without = small_engine(0);
    for (int i = 0; i < 24; i++) {
        prompt p;
        make_prompt(model, i, &p);
        pawl_sampling s = greedy_sampling();
        s.seed = (uint64_t)i;
        if (i % 3) s.temperature = 0.9f;
        if (i % 2) s.repetition_penalty = 1.3f;
        if (i % 4 == 1) s.presence_penalty = 0.5f;
        if (i % 5 == 1) s.frequency_penalty = 0.4f;
        pawl_request_options o = request_of(&p, &s, 24);
        o.logprobs = 1;
        o.top_logprobs = i % (MAX_TOP + 1);
        o.ignore_eos = 1;
        client *plain = ask(without, &o), *drafted = ask(with, &o);
        same_answer("with drafts", &plain->choice[0], &drafted->choice[0]);
        int n = plain->choice[0].n;
        assert_memory_equal(plain->choice[0].logprob, drafted->choice[0].logprob, (size_t)n * sizeof(float));
        for (int t = 0; t < n; t++)
            for (int k = 0; k < o.top_logprobs; k++) {
                assert_int_equal(plain->choice[0].top[t][k].id, drafted->choice[0].top[t][k].id);
                assert_true(plain->choice[0].top[t][k].logprob == drafted->choice[0].top[t][k].logprob);
                assert_true(k == 0 || plain->choice[0].top[t][k].logprob <= plain->choice[0].top[t][k - 1].logprob);
            }
        int32_t stop = plain->choice[0].ids[i % n];
        int first = 0;
        while (plain->choice[0].ids[first] != stop) first++;
        o.stop_ids = &stop;
        o.n_stop_ids = 1;
        client *a = ask(without, &o), *b = ask(with, &o);
        same_answer("a stop token", &a->choice[0], &b->choice[0]);
        assert_int_equal(b->choice[0].n, first + 1);
        assert_int_equal(b->choice[0].end, PAWL_END_STOP);
        o.min_tokens = 20;
        client *c = ask(without, &o), *d = ask(with, &o);
        same_answer("min_tokens", &c->choice[0], &d->choice[0]);
        assert_true(d->choice[0].n >= 20);
        for (int t = 0; t < 20; t++) assert_int_not_equal(d->choice[0].ids[t], stop);
        client *all[] = {plain, drafted, a, b, c, d};
        for (int k = 0; k < 6; k++) client_free(all[k]);
    }
    engine_end(with);
    engine_end(without);
}

/* log p of emitted tokens equal those of a prompt made of them. */
static void logprobs_equal_rescoring(void **state)
{
    (void)state;
    pawl_engine *e = small_engine(3);
    pawl_sampling s = greedy_sampling();
    s.temperature = 1;
    prompt p;
    make_prompt(model, 2, &p);
    pawl_request_options o = request_of(&p, &s, 20);
    o.ignore_eos = 1;
    o.logprobs = 1;
    client *c = ask(e, &o);
    prompt q = p;
    memcpy(q.ids + q.n, c->choice[0].ids, 20 * sizeof *q.ids);
    q.n += 20;
    pawl_request_options again = request_of(&q, &s, 0);
    again.prompt_logprobs = 1;
    client *d = ask(e, &again);
    assert_int_equal(d->n_prompt, q.n);
    assert_true(isnan(d->prompt_lp[0]));
    assert_memory_equal(d->prompt_lp + p.n, c->choice[0].logprob, 20 * sizeof(float));
    client_free(c);
    client_free(d);
    engine_end(e);
}

static void thinking_ends_when_its_budget_is_spent(void **state)
{
    (void)state;
    pawl_sampling s = greedy_sampling();
    prompt p;
    make_prompt(model, 4, &p);
    for (int draft = 0; draft <= 3; draft += 3) {
        pawl_engine *e = small_engine(draft);
        pawl_request_options o = request_of(&p, &s, 20);
        o.ignore_eos = 1;
        client *free_run = ask(e, &o);
        int32_t end[2] = {0, 1}; /* the first one that the model does not say by itself */
        for (int i = 0; i < 20; i++) end[0] += end[0] == free_run->choice[0].ids[i] ? 1 : 0;
        for (int again = 0; again < 20; again++)
            for (int i = 0; i < 20; i++) end[0] += end[0] == free_run->choice[0].ids[i] ? 1 : 0;
        o.think_end = end;
        o.n_think_end = 2;
        static const int budgets[] = {0, 1, 2, 5, 16};
        for (int i = 0; i < 5; i++) {
            o.think_budget = budgets[i];
            client *c = ask(e, &o);
            const answer *a = &c->choice[0];
            assert_memory_equal(a->ids, free_run->choice[0].ids, (size_t)budgets[i] * sizeof *a->ids);
            assert_int_equal(a->ids[budgets[i]], end[0]);
            assert_int_equal(a->ids[budgets[i] + 1], end[1]);
            assert_int_equal(a->n, 20);
            client_free(c);
        }
        client_free(free_run);
        engine_end(e);
    }
}

static void choices_differ_and_find_their_prompt(void **state)
{
    (void)state;
    pawl_engine *e = small_engine(2);
    pawl_sampling s = greedy_sampling();
    s.temperature = 1;
    prompt p;
    make_prompt(model, 6, &p);
    pawl_request_options o = request_of(&p, &s, 10);
    o.n = 4;
    o.ignore_eos = 1;
    client *c = ask(e, &o);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < i; k++) assert_memory_not_equal(c->choice[i].ids, c->choice[k].ids, 10 * sizeof(int32_t));
    pawl_engine_stats st = stats_of(e);
    assert_int_equal(st.prefix_hits, 3 * p.n);
    assert_int_equal(c->usage.cached_tokens, 0);
    client_free(c);
    engine_end(e);
}

static void deadlines_and_cancels(void **state)
{
    (void)state;
    pawl_engine *e = small_engine(0);
    pawl_sampling s = greedy_sampling();
    prompt p;
    make_prompt(model, 8, &p);
    pawl_request_options o = request_of(&p, &s, 60);
    o.ignore_eos = 1;
    o.deadline = 1e-9;
    client *c = ask(e, &o);
    assert_int_equal(c->choice[0].end, PAWL_END_DEADLINE);
    client_free(c);
    o.deadline = 0;
    c = client_new();
    c->cancel_after = 3;
    submit(e, &o, c);
    client_wait(c);
    assert_int_equal(c->choice[0].end, PAWL_END_CANCELED);
    assert_in_range(c->choice[0].n, 3, 60);
    client_free(c);
    /* freed at once, and running when the engine ends */
    for (int i = 0; i < 6; i++) {
        c = client_new();
        submit(e, &o, c);
        if (i % 2)
            client_free(c);
        else {
            pawl_err err;
            pawl_status st = pawl_engine_drain(e, 0, &err);
            assert_true(st == PAWL_ETIMEDOUT || st == PAWL_OK);
            client_wait(c);
            client_free(c);
            break;
        }
    }
    pawl_err err;
    pawl_request *r;
    assert_int_equal(pawl_engine_submit(e, &o, on_event, NULL, &r, &err), PAWL_EBUSY);
    assert_int_equal(stats_of(e).pools_leaked, 0);
    pawl_engine_destroy(&e);
}

/* Random requests with faults under little memory. Handles are freed at any time. */
static void random_requests_leak_nothing(void **state)
{
    (void)state;
    enum { AT_ONCE = 24 };
    pawl_engine_options eo = PAWL_INIT(pawl_engine_options);
    eo.draft = PAWL_DRAFT_AUTO;
    eo.context = 96;
    eo.max_seqs = 6;
    eo.max_rows = 40;
    eo.kv_tokens = 160;
    eo.prefix_interval = 16;
    eo.prefix_bytes = 4 << 20;
    pawl_engine *e = engine_of(model, &eo);
    client *live[AT_ONCE] = {0};
    uint64_t rng = 4711;
    for (int i = 0; i < n_random; i++) {
        client **at = &live[below(&rng, AT_ONCE)];
        if (*at) {
            if (below(&rng, 4)) client_wait(*at);
            client_free(*at);
        }
        *at = client_new();
        prompt p;
        uint64_t few = (uint64_t)below(&rng, 20); /* prompts that share beginnings */
        random_prompt(model, &few, 1 + below(&rng, 80), &p);
        pawl_sampling s = greedy_sampling();
        s.seed = (uint64_t)i;
        s.temperature = (float)below(&rng, 3) * 0.5f;
        pawl_request_options o = request_of(&p, &s, below(&rng, 3) ? below(&rng, 4) : below(&rng, 60));
        int32_t stop = below(&rng, (int)info.vocab);
        o.stop_ids = &stop;
        o.n_stop_ids = 1;
        o.n = below(&rng, 6) ? 1 : 3;
        o.priority = below(&rng, 3);
        o.prompt_logprobs = below(&rng, 10) == 0;
        if (below(&rng, 5) == 0) (*at)->cancel_after = 1 + below(&rng, 8);
        if (below(&rng, 12) == 0) o.deadline = 0.002;
        submit(e, &o, *at);
    }
    for (int i = 0; i < AT_ONCE; i++)
        if (live[i]) {
            client_wait(live[i]);
            client_free(live[i]);
        }
    pawl_engine_stats s = stats_of(e);
    if (n_random >= 300) assert_true(s.preemptions > 0);
    assert_int_equal(s.failed, 0);
    engine_end(e);
}

int main(int argc, char **argv)
{
    if (argc < 3) return 2;
    model_path = argv[1];
    n_random = atoi(argv[2]);
    model = open_model(model_path, NULL);
    info = PAWL_INIT(pawl_model_info);
    pawl_model_get_info(model, &info);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(lengths_are_kept_exactly),
        cmocka_unit_test(drafting_changes_nothing),
        cmocka_unit_test(logprobs_equal_rescoring),
        cmocka_unit_test(thinking_ends_when_its_budget_is_spent),
        cmocka_unit_test(choices_differ_and_find_their_prompt),
        cmocka_unit_test(deadlines_and_cancels),
        cmocka_unit_test(random_requests_leak_nothing),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    pawl_model_close(&model);
    return failed;
}
