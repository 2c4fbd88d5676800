/* test_sessions MODEL: cancelling from other threads and beforehand; sessions of one model on several threads. */
#include "spec/spec.h"

#include <pthread.h>
#include <unistd.h>

#include "model/step.h"

static const char *model_path;
static pawl_model *model;

static int setup(void **state)
{
    (void)state;
    pawl_model_options o = PAWL_INIT(pawl_model_options);
    o.threads = 2;
    model = open_model(model_path, &o);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pawl_model_close(&model);
    return 0;
}

/* ---- threads ---- */

enum { WORKERS = 3, RUNS = 3 };

typedef struct worker {
    int index;
    record runs[RUNS];
} worker;

static void *work(void *arg)
{
    worker *w = arg;
    for (int i = 0; i < RUNS; i++) {
        prompt p;
        make_prompt(model, w->index * RUNS + i, &p);
        pawl_session *s = session_of(model, p.n + 64, 16);
        pawl_sampling g = greedy_sampling();
        g.temperature = i % 2 ? 0.7f : 0.0f;
        g.seed = (uint64_t)(w->index + i);
        pawl_generate_options o = generate_options(&g, (w->index + i) % 3 * 2, 40);
        feed(s, p.ids, p.n);
        generate(s, &o, &w->runs[i]);
        pawl_session_destroy(&s);
    }
    return NULL;
}

static void sessions_on_threads(void **state)
{
    (void)state;
    static worker alone[WORKERS], together[WORKERS];
    pthread_t threads[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        alone[i].index = together[i].index = i;
        work(&alone[i]);
    }
    for (int i = 0; i < WORKERS; i++) assert_int_equal(pthread_create(&threads[i], NULL, work, &together[i]), 0);
    for (int i = 0; i < WORKERS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < WORKERS; i++)
        for (int j = 0; j < RUNS; j++) same_run("together", &alone[i].runs[j], &together[i].runs[j]);
}

/* ---- cancelling ---- */

static void *cancel_soon(void *arg)
{
    usleep(2000);
    pawl_session_cancel(arg);
    return NULL;
}

static int slowly(const pawl_token *t, void *user)
{
    (void)t, (void)user;
    usleep(200);
    return 0;
}

static void cancel_from_a_thread(void **state)
{
    (void)state;
    pawl_err err;
    prompt p;
    make_prompt(model, 0, &p);
    for (int draft = 0; draft <= 8; draft += 4) {
        pawl_session *s = session_of(model, 250, 16);
        feed(s, p.ids, p.n);
        pawl_sampling g = greedy_sampling();
        pawl_generate_options o = generate_options(&g, draft, 0);
        pawl_result r = PAWL_INIT(pawl_result);
        pthread_t t;
        assert_int_equal(pthread_create(&t, NULL, cancel_soon, s), 0);
        check_fails(pawl_generate(s, &o, slowly, NULL, &r, &err), PAWL_ECANCELED, &err, "cancelled");
        pthread_join(t, NULL);
        assert_int_equal(r.finish, PAWL_FINISH_CANCELED);
        /* What was cancelled goes on, and to the same end. */
        static record rest, whole;
        pawl_session *other = session_of(model, 250, 64);
        size_t n;
        const int32_t *ids = pawl_session_tokens(s, &n);
        assert_int_equal(n, (size_t)(p.n + r.stats.generated_tokens));
        feed(other, ids, (int)n);
        o.max_tokens = 12;
        generate(s, &o, &rest);
        generate(other, &o, &whole);
        same_run("after cancelling", &whole, &rest);
        pawl_session_destroy(&other);
        pawl_session_destroy(&s);
    }
}

/* Cancels in the step that starts at a position, after one of its layers. */
typedef struct trap {
    pawl_session *s;
    int64_t position, layer, past; /* past: layers that ran although it was cancelled */
} trap;

static void spring(void *user, const char *what, int64_t layer, const void *data, int64_t rows, int64_t width)
{
    trap *t = user;
    (void)data, (void)rows, (void)width;
    if (strcmp(what, "layer") != 0) return;
    if (atomic_load(&t->s->cancel)) t->past++;
    if (t->s->seq->done == t->position && layer == t->layer) pawl_session_cancel(t->s);
}

static void cancel_between_layers(void **state)
{
    (void)state;
    enum { CHUNK = 16, TOKENS = 40 };
    static record whole, r;
    pawl_err err;
    prompt p;
    uint64_t rng = 5;
    random_prompt(model, &rng, TOKENS, &p);
    pawl_sampling g = greedy_sampling();
    pawl_generate_options o = generate_options(&g, 2, 12);
    pawl_session *other = session_of(model, 250, CHUNK);
    feed(other, p.ids, p.n);
    generate(other, &o, &whole);
    int64_t layers = pawl__net_dims(model->net)->layers;
    for (int64_t layer = 0; layer < layers; layer++) {
        pawl_session *s = session_of(model, 250, CHUNK);
        trap t = {.s = s, .position = CHUNK, .layer = layer};
        s->st->probe = spring;
        s->st->probe_user = &t;
        feed(s, p.ids, p.n);
        pawl_result res = PAWL_INIT(pawl_result);
        check_fails(pawl_generate(s, &o, NULL, NULL, &res, &err), PAWL_ECANCELED, &err, "cancelled");
        assert_int_equal(res.finish, PAWL_FINISH_CANCELED);
        assert_int_equal(t.past, 0);
        s->st->probe = NULL;
        generate(s, &o, &r);
        same_run("after cancelling between layers", &whole, &r);
        same_caches("after cancelling between layers", other, s);
        pawl_session_destroy(&s);
    }
    pawl_session_destroy(&other);
}

static int ignore_logits(void *user, int draft, int64_t first, int64_t rows, const float *logits)
{
    (void)user, (void)draft, (void)first, (void)rows, (void)logits;
    return 0;
}

static void cancelled_before(void **state)
{
    (void)state;
    pawl_err err;
    prompt p;
    static record r, want;
    make_prompt(model, 0, &p);
    pawl_session *s = session_of(model, 250, 4), *other = session_of(model, 250, 4);
    feed(s, p.ids, p.n);
    feed(other, p.ids, p.n);
    pawl_sampling g = greedy_sampling();
    pawl_generate_options o = generate_options(&g, 4, 10);
    pawl_result res = PAWL_INIT(pawl_result);
    pawl_session_cancel(s);
    check_fails(pawl_generate(s, &o, NULL, NULL, &res, &err), PAWL_ECANCELED, &err, "cancelled");
    assert_int_equal(res.finish, PAWL_FINISH_CANCELED);
    assert_int_equal(res.stats.generated_tokens, 0);
    generate(s, &o, &r); /* the request was used up */
    generate(other, &o, &want);
    same_run("after a cancelled run", &want, &r);
    pawl_session_cancel(s);
    check_fails(pawl_score(s, p.ids, (size_t)p.n, 0, ignore_logits, NULL, &err), PAWL_ECANCELED, &err, "cancelled");
    check_ok(pawl_score(s, p.ids, (size_t)p.n, 0, ignore_logits, NULL, &err), &err);
    pawl_session_destroy(&s);
    pawl_session_destroy(&other);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: test_sessions MODEL\n");
        return 2;
    }
    model_path = argv[1];
    const struct CMUnitTest tests[] = {cmocka_unit_test(sessions_on_threads), cmocka_unit_test(cancel_from_a_thread),
                                       cmocka_unit_test(cancelled_before), cmocka_unit_test(cancel_between_layers)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
