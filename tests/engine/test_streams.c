/* test_streams MODEL STREAMS TOKENS: concurrent requests of all kinds, under plenty and under little memory. Each stream
 * equals its run alone by pawl_generate without drafts, byte for byte; what was cancelled is a beginning of it. */
#include "engine/client.h"

#include "base/rng.h"

static const char *model_path;
static int n_streams, n_tokens;
static pawl_model *model;

typedef struct job {
    prompt prompt;
    pawl_sampling sampling;
    pawl_request_options opt;
    char stop[8];
    const char *stops[1];
    int cancel_after;
    answer want[MAX_CHOICES];
} job;

static pawl_sampling random_sampling(uint64_t *rng)
{
    pawl_sampling s = greedy_sampling();
    s.seed = pawl__rng_next(rng);
    if (below(rng, 3) == 0) return s;
    s.temperature = 0.7f + 0.1f * (float)below(rng, 5);
    if (below(rng, 2)) s.top_k = 20;
    if (below(rng, 2)) s.top_p = 0.9f;
    if (below(rng, 3) == 0) s.repetition_penalty = 1.2f;
    if (below(rng, 3) == 0) s.frequency_penalty = 0.3f;
    return s;
}

static void run_alone(pawl_session *s, job *j, int choice)
{
    static record r;
    answer *a = &j->want[choice];
    pawl_sampling sm = j->sampling;
    if (choice > 0) sm.seed = pawl__mix64(sm.seed + (uint64_t)choice);
    pawl_generate_options o = generate_options(&sm, 0, j->opt.max_tokens);
    o.ignore_eos = j->opt.ignore_eos;
    o.stop = j->opt.stop;
    o.n_stop = j->opt.n_stop;
    pawl_session_reset(s);
    feed(s, j->prompt.ids, j->prompt.n);
    generate(s, &o, &r);
    a->n = r.n;
    memcpy(a->ids, r.ids, (size_t)r.n * sizeof *r.ids);
    a->n_text = r.n_text;
    memcpy(a->text, r.text, r.n_text);
    a->end = r.result.finish == PAWL_FINISH_STOP ? PAWL_END_STOP : PAWL_END_LENGTH;
}

static void make_jobs(job *jobs, pawl_session *s)
{
    uint64_t rng = 77;
    pawl_model_info info = PAWL_INIT(pawl_model_info);
    pawl_model_get_info(model, &info);
    for (int i = 0; i < n_streams; i++) {
        job *j = &jobs[i];
        make_prompt(model, i % 12, &j->prompt); /* some prompts come more than once */
        j->sampling = random_sampling(&rng);
        j->opt = request_of(&j->prompt, &j->sampling, 1 + below(&rng, n_tokens));
        j->opt.n = below(&rng, 8) == 0 ? MAX_CHOICES : 1;
        j->opt.draft = below(&rng, 3) == 0 ? below(&rng, 5) : PAWL_DRAFT_AUTO;
        j->opt.ignore_eos = below(&rng, 2);
        j->opt.priority = below(&rng, 3);
        if (info.has_tokenizer && below(&rng, 3) == 0) {
            static const char *const texts[] = {"e", " the", "ing", "1", ". "};
            strcpy(j->stop, texts[below(&rng, 5)]);
            j->stops[0] = j->stop;
            j->opt.stop = j->stops;
            j->opt.n_stop = 1;
        }
        if (below(&rng, 6) == 0) j->cancel_after = 1 + below(&rng, n_tokens);
        for (int c = 0; c < j->opt.n; c++) run_alone(s, j, c);
    }
}

static void check_stream(int i, const job *j, const client *c)
{
    char what[64];
    int64_t tokens = 0;
    for (int k = 0; k < j->opt.n; k++) {
        const answer *got = &c->choice[k];
        snprintf(what, sizeof what, "stream %d, choice %d", i, k);
        assert_true(got->ended);
        tokens += got->n;
        if (got->end == PAWL_END_CANCELED) {
            assert_true(j->cancel_after > 0 && got->n <= j->want[k].n);
            assert_memory_equal(got->ids, j->want[k].ids, (size_t)got->n * sizeof *got->ids);
            assert_true(got->n_text <= j->want[k].n_text);
            assert_memory_equal(got->text, j->want[k].text, got->n_text);
        } else {
            same_answer(what, &j->want[k], got);
        }
    }
    assert_int_equal(c->usage.generated_tokens, tokens);
    assert_int_equal(c->usage.prompt_tokens, j->prompt.n);
    assert_true(c->usage.accepted <= c->usage.drafted);
}

static void run_jobs(const job *jobs, const pawl_engine_options *o, int64_t *preemptions)
{
    pawl_engine *e = engine_of(model, o);
    client **clients = calloc((size_t)n_streams, sizeof(client *));
    for (int i = 0; i < n_streams; i++) {
        clients[i] = client_new();
        clients[i]->cancel_after = jobs[i].cancel_after;
        submit(e, &jobs[i].opt, clients[i]);
    }
    for (int i = 0; i < n_streams; i++) {
        client_wait(clients[i]);
        check_stream(i, &jobs[i], clients[i]);
        client_free(clients[i]);
    }
    free(clients);
    *preemptions = stats_of(e).preemptions;
    engine_end(e);
}

static void streams_equal_their_runs_alone(void **state)
{
    (void)state;
    int64_t preemptions;
    job *jobs = calloc((size_t)n_streams, sizeof *jobs);
    pawl_session *s = session_of(model, 512 < pawl__net_dims(model->net)->context ? 512 : 0, 0);
    make_jobs(jobs, s);
    int64_t context = pawl_session_context(s);
    pawl_session_destroy(&s);
    pawl_engine_options plenty = PAWL_INIT(pawl_engine_options);
    plenty.draft = PAWL_DRAFT_AUTO;
    plenty.context = context;
    plenty.prefix_interval = 16;
    plenty.max_queue = n_streams;
    run_jobs(jobs, &plenty, &preemptions);
    pawl_engine_options no_cache = plenty;
    no_cache.prefix_bytes = -1;
    no_cache.max_rows = 24;
    no_cache.max_seqs = 6;
    no_cache.no_load_rule = 1;
    run_jobs(jobs, &no_cache, &preemptions);
    pawl_engine_options no_draft = plenty;
    no_draft.draft = 0;
    run_jobs(jobs, &no_draft, &preemptions);
    pawl_engine_options tiny = plenty;
    tiny.max_seqs = 8;
    tiny.kv_tokens = context + 2 * PAWL_KV_PAGE;
    tiny.prefix_bytes = 2 << 20;
    run_jobs(jobs, &tiny, &preemptions);
    if (n_streams >= 32 && n_tokens >= 40) assert_true(preemptions > 0); /* fewer may fit one after another */
    free(jobs);
}

int main(int argc, char **argv)
{
    if (argc < 4) return 2;
    model_path = argv[1];
    n_streams = atoi(argv[2]);
    n_tokens = atoi(argv[3]);
    model = open_model(model_path, NULL);
    const struct CMUnitTest tests[] = {cmocka_unit_test(streams_equal_their_runs_alone)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    pawl_model_close(&model);
    return failed;
}
