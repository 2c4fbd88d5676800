/* test_equality MODEL PROMPTS [VARIANTS]: the tokens and the text do not depend on how many tokens are drafted, whatever the
 * sampling and whatever ends the answer. VARIANTS: ways of sampling tried for each prompt (default all). */
#include "spec/spec.h"

static const char *model_path;
static int n_prompts, n_variants;
static pawl_model *model;
static pawl_model_info info;

static const int DRAFTS[] = {0, 1, 2, 4, 8, PAWL_DRAFT_AUTO};
enum { N_DRAFTS = sizeof DRAFTS / sizeof DRAFTS[0] };

static int setup(void **state)
{
    (void)state;
    model = open_model(model_path, NULL);
    info = PAWL_INIT(pawl_model_info);
    pawl_model_get_info(model, &info);
    assert_int_equal(info.draft_layers, 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pawl_model_close(&model);
    return 0;
}

/* ---- ways of sampling ---- */

enum { VARIANTS = 12 };
static const char *const VARIANT_NAMES[VARIANTS] = {
    "greedy",    "temperature 0.7", "temperature 1.2",   "top-p",      "min-p",      "top-k", "presence",
    "frequency", "repetition 0.7",  "repetition greedy", "logit bias", "all of them"};

/* Favours and forbids some ids; the forbidden ones are those that greedy decoding likes. */
static pawl_logit_bias bias[6];

static pawl_sampling variant(int v, uint64_t seed)
{
    pawl_sampling s = greedy_sampling();
    s.seed = seed;
    s.temperature = v == 0 || v == 9 ? 0.0f : v == 2 ? 1.2f : 0.7f;
    int all = v == 11;
    if (v == 3 || all) s.top_p = 0.9f;
    if (v == 4 || all) s.min_p = 0.05f;
    if (v == 5 || all) s.top_k = 20;
    if (v == 6 || all) s.presence_penalty = 1.5f;
    if (v == 7 || all) s.frequency_penalty = 0.8f;
    if (v == 8 || v == 9 || all) s.repetition_penalty = 1.3f;
    if (v == 10 || all) {
        s.bias = bias;
        s.n_bias = sizeof bias / sizeof bias[0];
    }
    if (all) s.temperature = 1.2f;
    return s;
}

static void set_bias(const record *greedy)
{
    for (int i = 0; i < 6; i++) {
        bias[i].id = greedy->ids[i];
        for (int j = 0; j < i; j++)
            if (bias[j].id == bias[i].id) bias[i].id = (int32_t)((bias[i].id + 1 + 7 * i) % info.vocab);
        bias[i].bias = i % 3 == 0 ? -100.0f : i % 3 == 1 ? 2.5f : -1.5f;
    }
}

static void run_fresh(const prompt *p, const pawl_generate_options *o, record *r)
{
    pawl_session *s = session_of(model, p->n + 300 < info.context ? p->n + 300 : info.context, 32);
    feed(s, p->ids, p->n);
    generate(s, o, r);
    pawl_session_destroy(&s);
}

static void same_for_all_drafts(void **state)
{
    (void)state;
    enum { TOKENS = 40 };
    static record base, r;
    int64_t drafted = 0, accepted = 0;
    for (int i = 0; i < n_prompts; i++) {
        prompt p;
        make_prompt(model, i, &p);
        for (int j = 0; j < n_variants; j++) {
            /* The greedy run comes first for each prompt; fewer variants than there are take turns. */
            int v = n_variants == VARIANTS || j == 0 ? j : 1 + (i * (n_variants - 1) + j - 1) % (VARIANTS - 1);
            pawl_sampling s = variant(v, 77 + (uint64_t)i);
            for (int k = 0; k < N_DRAFTS; k++) {
                pawl_generate_options o = generate_options(&s, DRAFTS[k], TOKENS);
                run_fresh(&p, &o, k ? &r : &base);
                if (k == 0) continue;
                char what[96];
                snprintf(what, sizeof what, "prompt %d, %s, draft %d", i, VARIANT_NAMES[v], DRAFTS[k]);
                same_run(what, &base, &r);
                if (DRAFTS[k] > 0) assert_true(r.result.stats.drafted > 0);
                drafted += r.result.stats.drafted;
                accepted += r.result.stats.accepted;
            }
            if (v == 0) set_bias(&base);
        }
    }
    printf("%d prompts, %d ways of sampling each: %lld drafted, %lld accepted\n", n_prompts, n_variants,
           (long long)drafted, (long long)accepted);
    assert_true(accepted > 0);
}

/* ---- ends in the middle of an accepted run ---- */

static prompt cut_prompt;
static record cut_base; /* greedy, without drafting */

/* Place of a token that was emitted inside a run of accepted drafts, from `from` on; -1: none. */
static int inside_run(const record *drafting, int from)
{
    for (int i = from > 1 ? from : 1; i + 1 < drafting->n; i++)
        if (drafting->drafted[i] && drafting->drafted[i + 1]) return i;
    return -1;
}

/* Greedy; a random model, whose draft layer knows nothing of the target, has only three tokens to say, so that they often
 * agree. */
static pawl_sampling cut_sampling(void)
{
    static const pawl_logit_bias few[] = {{3, 40.0f}, {7, 40.0f}, {11, 40.0f}};
    pawl_sampling s = greedy_sampling();
    if (info.has_tokenizer) return s;
    s.bias = few;
    s.n_bias = 3;
    return s;
}

static void make_cut_runs(record *drafting)
{
    pawl_sampling s = cut_sampling();
    for (int i = 1; i < 12; i++) {
        make_prompt(model, i, &cut_prompt);
        pawl_generate_options o = generate_options(&s, 0, 48);
        run_fresh(&cut_prompt, &o, &cut_base);
        o.draft = 8;
        run_fresh(&cut_prompt, &o, drafting);
        same_run("before cutting", &cut_base, drafting);
        if (inside_run(drafting, 1) >= 0) return;
    }
    fail_msg("no run of accepted drafts was found");
}

/* The brief runs try every third place, which still meets every place of a run. */
static int step(void)
{
    return n_prompts < 20 ? 3 : 1;
}

static void max_tokens_in_a_run(void **state)
{
    (void)state;
    static record drafting, r, rest;
    make_cut_runs(&drafting);
    pawl_sampling g = cut_sampling();
    for (int n = 1; n <= 24; n += step()) {
        pawl_session *s = session_of(model, 0, 32);
        feed(s, cut_prompt.ids, cut_prompt.n);
        pawl_generate_options o = generate_options(&g, 8, n);
        r.stop_after = 0;
        generate(s, &o, &r);
        assert_int_equal(r.n, n);
        assert_int_equal(r.result.finish, PAWL_FINISH_LENGTH);
        assert_memory_equal(r.ids, cut_base.ids, (size_t)n * sizeof *r.ids);
        o.max_tokens = 48 - n;
        generate(s, &o, &rest);
        assert_int_equal(rest.n, 48 - n);
        assert_memory_equal(rest.ids, cut_base.ids + n, (size_t)rest.n * sizeof *r.ids);
        pawl_session_destroy(&s);
    }
}

static void callback_ends_a_run(void **state)
{
    (void)state;
    static record drafting, r, rest;
    make_cut_runs(&drafting);
    pawl_sampling g = cut_sampling();
    for (int cancel = 0; cancel < 2; cancel++)
        for (int n = 1; n <= 24; n += step()) {
            pawl_session *s = session_of(model, 0, 32);
            feed(s, cut_prompt.ids, cut_prompt.n);
            pawl_generate_options o = generate_options(&g, n % 2 ? 8 : 4, 48);
            r = (record){.stop_after = n, .cancel = cancel ? s : NULL};
            generate(s, &o, &r);
            assert_int_equal(r.status, cancel ? PAWL_ECANCELED : PAWL_OK);
            assert_int_equal(r.result.finish, cancel ? PAWL_FINISH_CANCELED : PAWL_FINISH_CALLBACK);
            /* A callback's end is exact; a cancelled run ends with its step. */
            if (!cancel) assert_int_equal(r.n, n);
            assert_in_range(r.n, n, n + 8);
            assert_memory_equal(r.ids, cut_base.ids, (size_t)r.n * sizeof *r.ids);
            o.max_tokens = 48 - r.n;
            rest = (record){0};
            generate(s, &o, &rest);
            assert_memory_equal(rest.ids, cut_base.ids + r.n, (size_t)rest.n * sizeof *r.ids);
            assert_int_equal(rest.n, 48 - r.n);
            pawl_session_destroy(&s);
        }
}

static void end_token_in_a_run(void **state)
{
    (void)state;
    static record drafting, want, r;
    make_cut_runs(&drafting);
    pawl_sampling g = cut_sampling();
    pawl_genconfig saved = model->gen;
    int tried = 0;
    for (int at = inside_run(&drafting, 1); at >= 0 && at < 40; at = inside_run(&drafting, at + step()), tried++) {
        model->gen.eos[0] = cut_base.ids[at];
        model->gen.n_eos = 1;
        int first = 0;
        while (cut_base.ids[first] != cut_base.ids[at]) first++;
        for (int k = 0; k < N_DRAFTS; k++) {
            pawl_generate_options o = generate_options(&g, DRAFTS[k], 48);
            o.ignore_eos = 0;
            run_fresh(&cut_prompt, &o, k ? &r : &want);
            if (k) same_run("end token", &want, &r);
        }
        assert_int_equal(want.n, first + 1);
        assert_int_equal(r.result.finish, PAWL_FINISH_STOP);
    }
    model->gen = saved;
    assert_true(tried > 0);
    printf("%d places\n", tried);
}

static void stop_text_in_a_run(void **state)
{
    (void)state;
    static record drafting, want, r;
    if (!info.has_tokenizer) skip();
    make_cut_runs(&drafting);
    pawl_sampling g = cut_sampling();
    int tried = 0;
    for (int at = inside_run(&drafting, 1); at >= 0 && at < 40; at = inside_run(&drafting, at + step())) {
        pawl_err err;
        char *stop, *pair;
        size_t n_stop, n_pair;
        check_ok(pawl_detokenize(model, &cut_base.ids[at], 1, 1, &stop, &n_stop, &err), &err);
        check_ok(pawl_detokenize(model, &cut_base.ids[at - 1], 2, 1, &pair, &n_pair, &err), &err);
        /* The token's own text, and a stop text that begins in one token and ends in the next. */
        const char *texts[] = {stop, n_pair ? pair + (n_pair > 1) : ""};
        for (int t = 0; t < 2; t++) {
            if (!*texts[t]) continue;
            char whole[MAX_TEXT];
            memcpy(whole, cut_base.text, cut_base.n_text);
            whole[cut_base.n_text] = 0;
            const char *found = strstr(whole, texts[t]);
            if (!found) continue; /* part of a character */
            for (int k = 0; k < N_DRAFTS; k++) {
                pawl_generate_options o = generate_options(&g, DRAFTS[k], 48);
                o.stop = &texts[t];
                o.n_stop = 1;
                run_fresh(&cut_prompt, &o, k ? &r : &want);
                if (k) same_run("stop text", &want, &r);
            }
            assert_int_equal(want.result.finish, PAWL_FINISH_STOP);
            assert_int_equal(want.n_text, found - whole);
            assert_memory_equal(want.text, whole, want.n_text);
            tried++;
        }
        pawl_free(stop);
        pawl_free(pair);
    }
    assert_true(tried > 0);
    printf("%d stop texts\n", tried);
}

/* ---- the context's end ---- */

static void context_end(void **state)
{
    (void)state;
    static record want, r;
    pawl_sampling s = variant(1, 5);
    for (int room = 1; room <= 21; room += room < 12 ? (step() + 1) / 2 : 4)
        for (int k = 0; k < N_DRAFTS; k++) {
            prompt p;
            make_prompt(model, room, &p);
            int64_t context = p.n + room;
            pawl_session *ses = session_of(model, context, 16);
            feed(ses, p.ids, p.n);
            pawl_generate_options o = generate_options(&s, DRAFTS[k], 0);
            generate(ses, &o, k ? &r : &want);
            if (k) same_run("context's end", &want, &r);
            assert_int_equal(want.n, room);
            assert_int_equal(want.result.finish, PAWL_FINISH_LENGTH);
            pawl_err err;
            check_fails(pawl_generate(ses, &o, NULL, NULL, NULL, &err), PAWL_EINVAL, &err, "leaves no room");
            /* Nothing was stored past the context: the pool's memory is zero until it is written. */
            int64_t pages = (context + PAWL_KV_PAGE - 1) / PAWL_KV_PAGE;
            const pawl_net_dims *d = pawl__net_dims(model->net);
            assert_true(ses->seq->n_pages <= pages);
            for (int64_t l = 0; l < d->kv_layers && ses->seq->n_pages == pages; l++)
                for (int64_t pos = context; pos < pages * PAWL_KV_PAGE; pos++)
                    for (int64_t j = 0; j < d->head_dim; j++) assert_true(cached(ses, l, pos, 0, j, 0) == 0.0f);
            pawl_session_destroy(&ses);
        }
}

/* ---- several turns ---- */

/* The next drafts, from a draft layer that has one position to catch up with and from one that has perhaps several. */
static void same_drafts(pawl_session *a, pawl_session *b)
{
    pawl_err err;
    int32_t want[8], got[8];
    pawl_sampler *sampler;
    pawl_sample_params greedy = {.top_p = 1, .repetition = 1};
    check_ok(pawl__sampler_create(info.vocab, info.vocab, &greedy, &sampler, &err), &err);
    feed(a, b->seq->tokens + b->seq->done, 1);
    check_ok(pawl__seq_draft(a->seq, sampler, 8, want, &model->exec, &err), &err);
    check_ok(pawl__seq_draft(b->seq, sampler, 8, got, &model->exec, &err), &err);
    assert_memory_equal(want, got, sizeof want);
    pawl__sampler_destroy(&sampler);
}

/* Random turns: feed some, generate some, with drafting of any kind from turn to turn. The tokens equal those of the same
 * turns without drafting, and the caches those of one plain prefill. */
static void turns(void **state)
{
    (void)state;
    uint64_t seed = check_seed("turns");
    int rounds = n_prompts < 20 ? 6 : 30;
    static record want, r;
    for (int round = 0; round < rounds; round++) {
        uint64_t rng = seed + (uint64_t)round * 1000003;
        pawl_session *plain = session_of(model, 250, 1 + below(&rng, 40));
        pawl_session *mixed = session_of(model, 250, 1 + below(&rng, 40));
        for (int turn = 0; turn < 5; turn++) {
            prompt p;
            random_prompt(model, &rng, below(&rng, 24) + (turn == 0), &p);
            feed(plain, p.ids, p.n);
            feed(mixed, p.ids, p.n);
            pawl_sampling s = variant(below(&rng, VARIANTS - 2), pawl__rng_next(&rng));
            pawl_generate_options o = generate_options(&s, 0, 1 + below(&rng, turn % 2 ? 2 : 16));
            generate(plain, &o, &want);
            o.draft = DRAFTS[turn == 4 ? 1 + below(&rng, 4) : below(&rng, N_DRAFTS)];
            generate(mixed, &o, &r);
            char what[64];
            snprintf(what, sizeof what, "round %d, turn %d, draft %d", round, turn, o.draft);
            same_run(what, &want, &r);
        }
        /* What drafting left behind is what a prefill of the same tokens gives. */
        pawl_err err;
        size_t n;
        const int32_t *ids = pawl_session_tokens(mixed, &n);
        pawl_session *once = session_of(model, 250, 1 + below(&rng, 64));
        feed(once, ids, (int)mixed->seq->done);
        while (once->seq->done < once->seq->n) check_ok(pawl__seq_prefill(once->seq, 1, &model->exec, &err), &err);
        same_caches("after the turns", once, mixed);
        same_caches("after the turns without drafts", once, plain);
        assert_true(mixed->seq->done - mixed->seq->draft_done <= mixed->seq->room);
        same_drafts(once, mixed);
        pawl_session_destroy(&once);
        pawl_session_destroy(&plain);
        pawl_session_destroy(&mixed);
    }
}

/* Drafting after any number of rounds without it, over more positions than a step has rows: the same drafts as after
 * drafting in every round, and the same keys and values of the draft layer. */
static void after_a_pause(void **state)
{
    (void)state;
    static record want, r;
    prompt p;
    uint64_t rng = check_seed("pause");
    random_prompt(model, &rng, 30, &p);
    pawl_sampling g = greedy_sampling();
    pawl_generate_options always = generate_options(&g, 3, 100), once = generate_options(&g, 3, 4);
    pawl_session *a = session_of(model, 250, 64);
    feed(a, p.ids, p.n);
    generate(a, &always, &want);
    for (int pause = 1; pause < 96; pause += 1 + below(&rng, 30)) {
        pawl_session *b = session_of(model, 250, 1 + below(&rng, 24));
        pawl_generate_options plain = generate_options(&g, PAWL_DRAFT_AUTO, pause);
        feed(b, p.ids, p.n);
        memset(&b->adapt, 0, sizeof b->adapt);
        b->adapt.costs.known = 1;
        b->adapt.rounds = 1000; /* never drafts: it knows that no draft is accepted */
        for (int k = 0; k <= 8; k++) b->adapt.costs.seconds[k] = 1 + k;
        generate(b, &plain, &r);
        assert_int_equal(r.result.stats.drafted, 0);
        assert_memory_equal(r.ids, want.ids, (size_t)pause * sizeof *r.ids);
        assert_int_equal(b->seq->draft_done, 0);
        generate(b, &once, &r);
        assert_true(r.result.stats.drafted > 0);
        assert_memory_equal(r.ids, want.ids + pause, (size_t)r.n * sizeof *r.ids);
        pawl_session *c = session_of(model, 250, 64);
        feed(c, b->seq->tokens, (int)b->seq->done);
        while (c->seq->done < c->seq->n) check_ok(pawl__seq_prefill(c->seq, 1, &model->exec, NULL), &(pawl_err){0});
        same_drafts(c, b);
        same_caches("after a pause", c, b);
        pawl_session_destroy(&c);
        pawl_session_destroy(&b);
    }
    pawl_session_destroy(&a);
}

int main(int argc, char **argv)
{
    argc = take_activations(argc, argv);
    if (argc < 3) {
        fprintf(stderr, "usage: test_equality MODEL PROMPTS [VARIANTS] [int8]\n");
        return 2;
    }
    model_path = argv[1];
    n_prompts = atoi(argv[2]);
    n_variants = argc > 3 ? atoi(argv[3]) : VARIANTS;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_for_all_drafts),
        cmocka_unit_test(max_tokens_in_a_run),
        cmocka_unit_test(callback_ends_a_run),
        cmocka_unit_test(end_token_in_a_run),
        cmocka_unit_test(stop_text_in_a_run),
        cmocka_unit_test(context_end),
        cmocka_unit_test(turns),
        cmocka_unit_test(after_a_pause),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
