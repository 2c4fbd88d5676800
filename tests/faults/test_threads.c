/* Cancelling before and during a run from another thread, and two sessions of one model on two threads. Meant for
 * -DPAWL_SANITIZE=thread too. Nothing waits for a clock: threads meet at flags. */
#include "spec/spec.h"

#include <pthread.h>
#include <semaphore.h>

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

/* ---- cancelling ---- */

typedef struct meeting {
    pawl_session *s;
    sem_t reached, canceled;
    int n;
} meeting;

enum { CANCEL_AT = 5 };

static void *cancel_when_reached(void *arg)
{
    meeting *w = arg;
    sem_wait(&w->reached);
    pawl_session_cancel(w->s);
    sem_post(&w->canceled);
    return NULL;
}

/* Holds the run at one token until the other thread has cancelled it. */
static int meet(const pawl_token *t, void *user)
{
    (void)t;
    meeting *w = user;
    if (++w->n != CANCEL_AT) return 0;
    sem_post(&w->reached);
    sem_wait(&w->canceled);
    return 0;
}

static void cancel_during(void **state)
{
    (void)state;
    for (int draft = PAWL_DRAFT_AUTO; draft <= 4; draft++) {
        pawl_err err;
        prompt p;
        make_prompt(model, 0, &p);
        meeting w = {.s = session_of(model, p.n + 64, 16)};
        sem_init(&w.reached, 0, 0);
        sem_init(&w.canceled, 0, 0);
        feed(w.s, p.ids, p.n);
        pawl_sampling g = greedy_sampling();
        pawl_generate_options o = generate_options(&g, draft, 40);
        pawl_result r = PAWL_INIT(pawl_result);
        pthread_t t;
        assert_int_equal(pthread_create(&t, NULL, cancel_when_reached, &w), 0);
        check_fails(pawl_generate(w.s, &o, meet, &w, &r, &err), PAWL_ECANCELED, &err, "cancelled");
        pthread_join(t, NULL);
        assert_int_equal(r.finish, PAWL_FINISH_CANCELED);
        assert_int_equal(r.stats.generated_tokens, w.n);
        /* It ends with the round that it was cancelled in. */
        assert_in_range(w.n, CANCEL_AT, CANCEL_AT + PAWL_MAX_DRAFT);
        sem_destroy(&w.reached);
        sem_destroy(&w.canceled);
        pawl_session_destroy(&w.s);
    }
}

static void *cancel_now(void *arg)
{
    pawl_session_cancel(arg);
    return NULL;
}

static void cancel_before(void **state)
{
    (void)state;
    static record want, got;
    pawl_err err;
    prompt p;
    make_prompt(model, 0, &p);
    pawl_session *s = session_of(model, p.n + 64, 16), *other = session_of(model, p.n + 64, 16);
    feed(s, p.ids, p.n);
    feed(other, p.ids, p.n);
    pawl_sampling g = greedy_sampling();
    pawl_generate_options o = generate_options(&g, 2, 12);
    pawl_result r = PAWL_INIT(pawl_result);
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, cancel_now, s), 0);
    pthread_join(t, NULL);
    check_fails(pawl_generate(s, &o, NULL, NULL, &r, &err), PAWL_ECANCELED, &err, "cancelled");
    assert_int_equal(r.finish, PAWL_FINISH_CANCELED);
    assert_int_equal(r.stats.generated_tokens, 0);
    /* The request was used up, and nothing was lost. */
    generate(s, &o, &got);
    generate(other, &o, &want);
    same_run("after cancelling", &want, &got);
    pawl_session_destroy(&s);
    pawl_session_destroy(&other);
}

/* ---- sessions side by side ---- */

typedef struct worker {
    int draft;
    float temperature;
    record got;
} worker;

static void *work(void *arg)
{
    worker *w = arg;
    prompt p;
    make_prompt(model, w->draft, &p);
    pawl_session *s = session_of(model, p.n + 64, 16);
    pawl_sampling g = greedy_sampling();
    g.temperature = w->temperature;
    g.seed = 11;
    pawl_generate_options o = generate_options(&g, w->draft, 40);
    feed(s, p.ids, p.n);
    generate(s, &o, &w->got);
    pawl_session_destroy(&s);
    return NULL;
}

static void two_sessions(void **state)
{
    (void)state;
    enum { N = 2 };
    static worker alone[N] = {{.draft = 0}, {.draft = 3, .temperature = 0.7f}}, together[N];
    for (int i = 0; i < N; i++) {
        together[i] = alone[i];
        work(&alone[i]);
    }
    pthread_t t[N];
    for (int i = 0; i < N; i++) assert_int_equal(pthread_create(&t[i], NULL, work, &together[i]), 0);
    for (int i = 0; i < N; i++) pthread_join(t[i], NULL);
    for (int i = 0; i < N; i++) same_run("side by side", &alone[i].got, &together[i].got);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: test_threads MODEL\n");
        return 2;
    }
    model_path = argv[1];
    const struct CMUnitTest tests[] = {cmocka_unit_test(cancel_during), cmocka_unit_test(cancel_before),
                                       cmocka_unit_test(two_sessions)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
