/* test_prefix MODEL LENGTHS: the prefix cache changes nothing. For every prompt length up to LENGTHS, checkpoints every 16
 * positions, at the end of the prompt and at a message's end within it: a hit gives the tokens, log probabilities and drafts'
 * fates of a miss. Tenants do not share. Repeats are found. */
#include "engine/client.h"

static const char *model_path;
static int n_lengths;
static pawl_model *model;
static prompt base;

enum { ANSWER = 12 };

static pawl_engine *make_engine(int64_t prefix_bytes)
{
    pawl_engine_options o = PAWL_INIT(pawl_engine_options);
    o.draft = 2; /* fixed, so that the numbers of accepted drafts can be compared */
    o.no_load_rule = 1;
    o.max_seqs = 4;
    o.prefix_bytes = prefix_bytes;
    o.prefix_interval = 16;
    return engine_of(model, &o);
}

static pawl_request_options request(const prompt *p, const pawl_sampling *s)
{
    pawl_request_options o = request_of(p, s, ANSWER);
    o.ignore_eos = 1;
    o.logprobs = 1;
    return o;
}

static void same_client(const char *what, const client *want, const client *got)
{
    same_answer(what, &want->choice[0], &got->choice[0]);
    assert_memory_equal(want->choice[0].logprob, got->choice[0].logprob, (size_t)want->choice[0].n * sizeof(float));
    if (want->usage.accepted != got->usage.accepted || want->usage.rounds != got->usage.rounds)
        fail_msg("%s: %lld drafts accepted in %lld rounds, expected %lld in %lld", what, (long long)got->usage.accepted,
                 (long long)got->usage.rounds, (long long)want->usage.accepted, (long long)want->usage.rounds);
}

/* Both engines answer the prompt; at least `cached` of its tokens are found by the one that can. */
static void compare(pawl_engine *miss, pawl_engine *hit, const prompt *p, int64_t cached, const char *what)
{
    pawl_sampling s = greedy_sampling();
    s.temperature = 0.8f;
    pawl_request_options o = request(p, &s);
    client *want = ask(miss, &o), *got = ask(hit, &o);
    same_client(what, want, got);
    assert_int_equal(want->usage.cached_tokens, 0);
    if (got->usage.cached_tokens < cached)
        fail_msg("%s: %lld tokens found, expected %lld", what, (long long)got->usage.cached_tokens, (long long)cached);
    client_free(want);
    client_free(got);
}

static void a_hit_equals_a_miss(void **state)
{
    (void)state;
    pawl_engine *miss = make_engine(-1);
    int step = n_lengths > 60 ? 37 : 13;
    for (int first = 1; first <= n_lengths; first++) {
        /* One engine for each first prompt, so that nothing but its checkpoints can be hit. */
        pawl_engine *hit = make_engine(64 << 20);
        char what[64];
        prompt p = base;
        p.n = first;
        compare(miss, hit, &p, 0, "the first prompt");
        p.ids[first - 1] ^= 1;
        snprintf(what, sizeof what, "a prompt of %d with another end", first);
        compare(miss, hit, &p, (first - 1) / 16 * 16, what);
        p = base;
        for (int n = first; n <= n_lengths + 20; n += n == first ? 1 : step) {
            snprintf(what, sizeof what, "%d tokens after a prompt of %d", n, first);
            p.n = n;
            compare(miss, hit, &p, first, what);
        }
        engine_end(hit);
    }
    engine_end(miss);
}

static void ends_of_messages_are_kept(void **state)
{
    (void)state;
    pawl_sampling s = greedy_sampling();
    pawl_engine *e = make_engine(64 << 20), *miss = make_engine(-1);
    prompt p = base;
    p.n = 45;
    const int32_t ends[] = {5, 23, 37};
    pawl_request_options o = request(&p, &s);
    o.message_ends = ends;
    o.n_message_ends = 3;
    client_free(ask(e, &o));
    for (int i = 0; i < 3; i++) {
        prompt q = base;
        q.ids[ends[i]] ^= 1;
        q.n = 50;
        compare(miss, e, &q, ends[i], "another message after a kept end");
    }
    engine_end(e);
    engine_end(miss);
}

static void tenants_share_nothing(void **state)
{
    (void)state;
    pawl_sampling s = greedy_sampling();
    pawl_engine *e = make_engine(64 << 20);
    prompt p = base;
    p.n = 40;
    pawl_request_options o = request(&p, &s);
    static const char *const tenants[] = {"a", "b", NULL, "a", "b", NULL};
    for (int i = 0; i < 6; i++) {
        o.tenant = tenants[i];
        client *c = ask(e, &o);
        assert_int_equal(c->usage.cached_tokens, i < 3 ? 0 : 40);
        client_free(c);
    }
    engine_end(e);
}

/* Many different prompts through a small budget and few pages: the cache gives way, answers stay right. */
static void a_full_cache_gives_way(void **state)
{
    (void)state;
    pawl_engine_options o = PAWL_INIT(pawl_engine_options);
    o.draft = 2;
    o.no_load_rule = 1;
    o.context = 128;
    o.kv_tokens = 320;
    o.max_seqs = 2;
    o.prefix_interval = 16;
    o.prefix_bytes = 3 << 20;
    pawl_engine *e = engine_of(model, &o), *miss = make_engine(-1);
    uint64_t rng = 9;
    for (int i = 0; i < 40; i++) {
        prompt p;
        random_prompt(model, &rng, 20 + below(&rng, 80), &p);
        compare(miss, e, &p, 0, "a full cache");
        assert_true(stats_of(e).prefix_bytes <= o.prefix_bytes);
    }
    assert_true(stats_of(e).prefix_evictions > 0);
    engine_end(e);
    engine_end(miss);
}

int main(int argc, char **argv)
{
    if (argc < 3) return 2;
    model_path = argv[1];
    n_lengths = atoi(argv[2]);
    model = open_model(model_path, NULL);
    uint64_t rng = 5;
    random_prompt(model, &rng, 320, &base);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hit_equals_a_miss), cmocka_unit_test(ends_of_messages_are_kept),
        cmocka_unit_test(tenants_share_nothing), cmocka_unit_test(a_full_cache_gives_way)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    pawl_model_close(&model);
    return failed;
}
