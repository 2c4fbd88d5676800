/* A client of the engine for tests: a request's events kept in a record, and waiting for its end. */
#ifndef PAWL_TESTS_CLIENT_H
#define PAWL_TESTS_CLIENT_H

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#include "spec/spec.h"

#include "pawl/engine.h"

enum { MAX_CHOICES = 4, MAX_TOP = 5 };

typedef struct answer {
    int32_t ids[MAX_IDS];
    float logprob[MAX_IDS];
    pawl_top_logprob top[MAX_IDS][MAX_TOP];
    int n, ended;
    char text[MAX_TEXT];
    size_t n_text;
    pawl_end end;
    pawl_err err;
} answer;

typedef struct client {
    answer choice[MAX_CHOICES];
    pawl_usage usage;
    uint64_t seed;
    int cancel_after; /* tokens of choice 0; 0: never */
    int free_after;   /* the same: freed within the event */
    atomic_int done;
    pawl_request *request;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    float prompt_lp[MAX_IDS];
    int n_prompt;
} client;

static inline client *client_new(void)
{
    client *c = calloc(1, sizeof *c);
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->cond, NULL);
    return c;
}

static inline void client_free(client *c)
{
    pawl_request_free(&c->request);
    pthread_mutex_destroy(&c->mutex);
    pthread_cond_destroy(&c->cond);
    free(c);
}

static inline void on_event(const pawl_event *ev, void *user)
{
    client *c = user;
    answer *a = &c->choice[ev->choice];
    assert_false(atomic_load(&c->done));
    c->usage = *ev->usage;
    c->seed = ev->seed;
    if (ev->kind == PAWL_EVENT_PROMPT) {
        c->n_prompt = (int)ev->n_tokens;
        for (size_t i = 0; i < ev->n_tokens && i < MAX_IDS; i++) c->prompt_lp[i] = ev->tokens[i].logprob;
    } else if (ev->kind == PAWL_EVENT_TOKENS) {
        assert_false(a->ended);
        for (size_t i = 0; i < ev->n_tokens; i++) {
            const pawl_event_token *t = &ev->tokens[i];
            assert_true(a->n < MAX_IDS && a->n_text + t->n_text < MAX_TEXT);
            a->logprob[a->n] = t->logprob;
            for (int k = 0; k < t->n_top && k < MAX_TOP; k++) a->top[a->n][k] = t->top[k];
            a->ids[a->n++] = t->id;
            if (t->n_text) memcpy(a->text + a->n_text, t->text, t->n_text);
            a->n_text += t->n_text;
        }
        if (c->cancel_after && ev->choice == 0 && a->n >= c->cancel_after) pawl_request_cancel(c->request);
    } else if (ev->kind == PAWL_EVENT_END) {
        assert_false(a->ended);
        a->ended = 1;
        a->end = ev->end;
        if (ev->err) a->err = *ev->err;
    } else {
        pthread_mutex_lock(&c->mutex);
        atomic_store(&c->done, 1);
        pthread_cond_signal(&c->cond);
        pthread_mutex_unlock(&c->mutex);
    }
}

static inline void client_wait(client *c)
{
    pthread_mutex_lock(&c->mutex);
    while (!atomic_load(&c->done)) pthread_cond_wait(&c->cond, &c->mutex);
    pthread_mutex_unlock(&c->mutex);
}

static inline pawl_request_options request_of(const prompt *p, const pawl_sampling *s, int64_t max_tokens)
{
    pawl_request_options o = PAWL_INIT(pawl_request_options);
    o.prompt = p->ids;
    o.n_prompt = (size_t)p->n;
    o.sampling = s;
    o.max_tokens = max_tokens;
    o.draft = PAWL_DRAFT_AUTO;
    o.think_budget = -1;
    return o;
}

static inline pawl_engine *engine_of(pawl_model *m, const pawl_engine_options *o)
{
    pawl_err err;
    pawl_engine *e;
    check_ok(pawl_engine_create(m, o, &e, &err), &err);
    return e;
}

static inline void submit(pawl_engine *e, const pawl_request_options *o, client *c)
{
    pawl_err err;
    check_ok(pawl_engine_submit(e, o, on_event, c, &c->request, &err), &err);
}

/* One request from beginning to end. */
static inline client *ask(pawl_engine *e, const pawl_request_options *o)
{
    client *c = client_new();
    submit(e, o, c);
    client_wait(c);
    return c;
}

static inline pawl_engine_stats stats_of(pawl_engine *e)
{
    pawl_engine_stats s = PAWL_INIT(pawl_engine_stats);
    pawl_engine_get_stats(e, &s);
    return s;
}

/* Ends the engine after a look at its pools. */
static inline void engine_end(pawl_engine *e)
{
    pawl_err err;
    check_ok(pawl_engine_drain(e, 600, &err), &err);
    pawl_engine_stats s = stats_of(e);
    assert_int_equal(s.pools_leaked, 0);
    assert_int_equal(s.running, 0);
    pawl_engine_destroy(&e);
}

static inline void same_answer(const char *what, const answer *want, const answer *got)
{
    for (int i = 0; i < want->n && i < got->n; i++)
        if (want->ids[i] != got->ids[i])
            fail_msg("%s: token %d is %d, expected %d", what, i, got->ids[i], want->ids[i]);
    if (want->n != got->n) fail_msg("%s: %d tokens, expected %d", what, got->n, want->n);
    if (want->end != got->end) fail_msg("%s: end %d, expected %d", what, (int)got->end, (int)want->end);
    if (want->n_text != got->n_text || memcmp(want->text, got->text, want->n_text) != 0)
        fail_msg("%s: text \"%.*s\", expected \"%.*s\"", what, (int)got->n_text, got->text, (int)want->n_text,
                 want->text);
}

#endif
