/* Acceptance: a planted draft is always right, whatever the number of drafts and the prefill chunk; a trained one is right
 * as often for every chunk. Run from the source tree; checkpoints are made in a temporary folder under $PAWL_BUILD. */
#include "spec/spec.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool/synth.h"

static void remove_folder(const char *path)
{
    char file[1024];
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        unlink(file);
    }
    if (d) closedir(d);
    rmdir(path);
}

/* Rounds of exactly k + 1 tokens: one token from the prompt, then `rounds` rounds. */
static void full_rounds(pawl_model *m, const prompt *p, int32_t chunk, int k, float temperature)
{
    enum { ROUNDS = 3 };
    static record r;
    pawl_session *s = session_of(m, p->n + 64, chunk);
    pawl_sampling g = greedy_sampling();
    g.temperature = temperature;
    feed(s, p->ids, p->n);
    pawl_generate_options o = generate_options(&g, k, 1 + ROUNDS * (k + 1));
    generate(s, &o, &r);
    if (r.result.stats.rounds != ROUNDS || r.result.stats.accepted != ROUNDS * k)
        fail_msg("chunk %d, %d drafts, temperature %g: %lld of %lld accepted in %lld rounds", chunk, k,
                 (double)temperature, (long long)r.result.stats.accepted, (long long)r.result.stats.drafted,
                 (long long)r.result.stats.rounds);
    for (int i = 0; i < k; i++) assert_int_equal(r.result.stats.accepted_at[i], ROUNDS);
    /* A second turn drafts from the first verification on, too. */
    prompt more = {.ids = {1, 4, 9}, .n = 3};
    feed(s, more.ids, more.n);
    o.max_tokens = k + 2;
    generate(s, &o, &r);
    assert_int_equal(r.result.stats.accepted, k);
    pawl_session_destroy(&s);
}

static void planted(void **state)
{
    (void)state;
    static const char *const configs[] = {"tests/models/tiny-qwen3_5_moe_vl", "tests/models/tiny-qwen3_5",
                                          "tests/models/tale-moe-bf16"};
    enum { L = 20 };
    for (int c = 0; c < 3; c++)
        for (int f = 0; f < PAWL_SYNTH_FORMATS; f++) {
            pawl_err err;
            char dir[512], config[512];
            const char *build = getenv("PAWL_BUILD");
            snprintf(dir, sizeof dir, "%s/planted-XXXXXX", build ? build : "/tmp");
            snprintf(config, sizeof config, "%s/config.json", configs[c]);
            assert_non_null(mkdtemp(dir));
            pawl_synth_opts so = {.seed = 5, .format = (pawl_synth_format)f, .planted_mtp = 1};
            check_ok(pawl__synth(config, dir, &so, &err), &err);
            pawl_model_options mo = PAWL_INIT(pawl_model_options);
            mo.threads = 1;
            pawl_model *m = open_model(dir, &mo);
            prompt p;
            uint64_t rng = 3;
            random_prompt(m, &rng, L, &p);
            for (int k = 1; k <= 8; k++) full_rounds(m, &p, L, k, k % 2 ? 0.0f : 1.0f);
            for (int32_t chunk = 1; chunk < L; chunk += c == 2 ? 6 : 1) full_rounds(m, &p, chunk, 1 + chunk % 8, 0);
            pawl_model_close(&m);
            remove_folder(dir);
        }
}

/* The tail of a chunk that is not the last is drafted for with the next prompt token: else acceptance falls. */
static void trained(void **state)
{
    (void)state;
    static record whole, r;
    pawl_model *m = open_model("models/tale-moe-fp8", NULL);
    pawl_sampling g = greedy_sampling();
    prompt p;
    text_prompt(m, "The king said to his three sons: go out into the world, and whoever brings home the finest carpet",
                &p);
    for (int32_t chunk = p.n; chunk > 0; chunk--) {
        pawl_session *s = session_of(m, 200, chunk);
        feed(s, p.ids, p.n);
        pawl_generate_options o = generate_options(&g, 3, 40);
        generate(s, &o, chunk == p.n ? &whole : &r);
        pawl_session_destroy(&s);
        if (chunk == p.n) continue;
        same_run("chunked", &whole, &r);
        assert_memory_equal(whole.drafted, r.drafted, (size_t)whole.n * sizeof *r.drafted);
        assert_int_equal(whole.result.stats.drafted, r.result.stats.drafted);
    }
    printf("%lld of %lld accepted\n", (long long)whole.result.stats.accepted, (long long)whole.result.stats.drafted);
    assert_true(whole.result.stats.accepted > 5);
    pawl_model_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(planted), cmocka_unit_test(trained)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
