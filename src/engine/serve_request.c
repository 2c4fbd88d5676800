/* Requests: checked, copied, queued; cancelled and freed by their owners. */
#include "engine/serve.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static void free_request(pawl_request *r)
{
    for (int32_t i = 0; r->choices && i < r->n; i++) {
        pawl_choice *c = &r->choices[i];
        free(c->lane.tokens);
        free(c->lane.out_top);
        pawl__sampler_destroy(&c->lane.sampler);
        pawl__stream_free(&c->stream);
        pawl__buf_free(&c->text);
    }
    for (size_t i = 0; r->stop && i < r->opt.n_stop; i++) free(r->stop[i]);
    free(r->choices);
    free(r->stop);
    free(r->tenant);
    free(r->prompt);
    free(r->message_ends);
    free(r->stop_ids);
    free(r->think_end);
    free(r->ends);
    free(r->bias);
    free(r->prompt_lp);
    free(r->prompt_top);
    pthread_mutex_destroy(&r->deliver);
    free(r);
}

void pawl__request_unref(pawl_request *r)
{
    if (atomic_fetch_sub(&r->refs, 1) == 1) free_request(r);
}

void pawl_request_cancel(pawl_request *r)
{
    atomic_store(&r->cancel, 1);
}

void pawl_request_free(pawl_request **pr)
{
    pawl_request *r = *pr;
    if (!r) return;
    atomic_store(&r->cancel, 1);
    pthread_mutex_lock(&r->deliver);
    r->fn = NULL;
    *pr = NULL;
    pthread_mutex_unlock(&r->deliver);
    pawl__request_unref(r);
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static pawl_status check_ids(const char *name, const int32_t *ids, size_t n, int64_t vocab, pawl_err *err)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= vocab)
            return pawl__fail(err, PAWL_EINVAL, "%s: token %zu is %d, expected 0 to %lld", name, i, ids[i],
                              (long long)vocab - 1);
    return PAWL_OK;
}

static pawl_status check_range(const char *name, int64_t v, int64_t lo, int64_t hi, pawl_err *err)
{
    if (v >= lo && v <= hi) return PAWL_OK;
    return pawl__fail(err, PAWL_EINVAL, "%s: found %lld, expected %lld to %lld", name, (long long)v, (long long)lo,
                      (long long)hi);
}

/* Tokens that a choice may come to. */
static int64_t limit_of(const pawl_engine *e, const pawl_request_options *o)
{
    int64_t room = e->opt.context - (int64_t)o->n_prompt;
    return (int64_t)o->n_prompt + (o->max_tokens < 0 || o->max_tokens > room ? room : o->max_tokens);
}

static pawl_status check_fit(const pawl_engine *e, const pawl_request_options *o, pawl_err *err)
{
    if (o->n_prompt == 0) return pawl__fail(err, PAWL_EINVAL, "prompt: found no tokens, expected 1 or more");
    if ((int64_t)o->n_prompt >= e->opt.context)
        return pawl__fail(err, PAWL_EINVAL, "prompt: found %zu tokens, expected fewer than the context of %lld",
                          o->n_prompt, (long long)e->opt.context);
    int64_t pages = (limit_of(e, o) + PAWL_KV_PAGE - 1) / PAWL_KV_PAGE + 1, total = pawl__kv_total(e->kv);
    if (pages > total)
        return pawl__fail(err, PAWL_EINVAL,
                          "max_tokens: prompt of %zu and answer need %lld KV pages, there are %lld in all", o->n_prompt,
                          (long long)pages, (long long)total);
    return PAWL_OK;
}

static pawl_status check_options(const pawl_engine *e, const pawl_request_options *o, pawl_err *err)
{
    int64_t vocab = pawl__net_dims(e->model->net)->vocab;
    PAWL_TRY(check_fit(e, o, err));
    PAWL_TRY(check_ids("prompt", o->prompt, o->n_prompt, vocab, err));
    PAWL_TRY(check_ids("stop_ids", o->stop_ids, o->n_stop_ids, vocab, err));
    PAWL_TRY(check_ids("think_end", o->think_end, o->n_think_end, vocab, err));
    PAWL_TRY(check_range("n", o->n, 1, PAWL_MAX_CHOICES, err));
    PAWL_TRY(check_range("max_tokens", o->max_tokens, -1, INT64_MAX, err));
    PAWL_TRY(check_range("min_tokens", o->min_tokens, 0, INT64_MAX, err));
    PAWL_TRY(check_range("draft", o->draft, PAWL_DRAFT_AUTO, PAWL_MAX_DRAFT, err));
    PAWL_TRY(check_range("top_logprobs", o->top_logprobs, 0, PAWL_MAX_TOP_LOGPROBS, err));
    if (!(o->deadline >= 0)) return pawl__fail(err, PAWL_EINVAL, "deadline: found %g, expected 0 or more", o->deadline);
    if (o->n_stop && !e->model->tokenizer)
        return pawl__fail(err, PAWL_EUNSUPPORTED, "stop: the model has no tokenizer, so its output has no text");
    for (size_t i = 0; i < o->n_stop; i++)
        if (!o->stop[i] || !*o->stop[i]) return pawl__fail(err, PAWL_EINVAL, "stop: text %zu is empty", i);
    for (size_t i = 0; i < o->n_message_ends; i++)
        if (o->message_ends[i] <= (i ? o->message_ends[i - 1] : 0) || (size_t)o->message_ends[i] > o->n_prompt)
            return pawl__fail(err, PAWL_EINVAL, "message_ends: number %zu is %d, expected them to rise up to %zu", i,
                              o->message_ends[i], o->n_prompt);
    return PAWL_OK;
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

static void *copy(const void *from, size_t n, size_t size, int *failed)
{
    if (n == 0) return NULL;
    void *to = malloc(n * size);
    if (to)
        memcpy(to, from, n * size);
    else
        *failed = 1;
    return to;
}

static int copy_all(pawl_engine *e, pawl_request *r, const pawl_request_options *o)
{
    int failed = 0;
    r->prompt = copy(o->prompt, o->n_prompt, sizeof *o->prompt, &failed);
    r->message_ends = copy(o->message_ends, o->n_message_ends, sizeof *o->message_ends, &failed);
    r->stop_ids = copy(o->stop_ids, o->n_stop_ids, sizeof *o->stop_ids, &failed);
    r->think_end = copy(o->think_end, o->n_think_end, sizeof *o->think_end, &failed);
    r->bias = copy(r->sampling.bias, r->sampling.n_bias, sizeof *r->bias, &failed);
    r->sampling.bias = r->bias;
    r->tenant = copy(o->tenant ? o->tenant : "", o->tenant ? strlen(o->tenant) + 1 : 1, 1, &failed);
    r->stop = o->n_stop ? calloc(o->n_stop, sizeof *r->stop) : NULL;
    failed |= o->n_stop && !r->stop;
    for (size_t i = 0; r->stop && i < o->n_stop; i++) {
        r->stop[i] = strdup(o->stop[i]);
        failed |= !r->stop[i];
    }
    size_t n_eos = o->ignore_eos ? 0 : e->model->gen.n_eos;
    r->n_ends = o->n_stop_ids + n_eos;
    r->ends = r->n_ends ? malloc(r->n_ends * sizeof *r->ends) : NULL;
    failed |= r->n_ends && !r->ends;
    for (size_t i = 0; r->ends && i < r->n_ends; i++)
        r->ends[i] = i < n_eos ? e->model->gen.eos[i] : o->stop_ids[i - n_eos];
    if (o->prompt_logprobs) {
        r->prompt_lp = calloc(o->n_prompt, sizeof *r->prompt_lp);
        r->prompt_top = calloc(o->n_prompt * (size_t)o->top_logprobs + 1, sizeof *r->prompt_top);
        failed |= !r->prompt_lp || !r->prompt_top;
        if (r->prompt_lp) r->prompt_lp[0] = NAN;
    }
    r->choices = calloc((size_t)r->n, sizeof *r->choices);
    return !failed && r->choices;
}

static pawl_status draw_seed(pawl_sampling *s, pawl_err *err)
{
    while (!s->has_seed && getrandom(&s->seed, sizeof s->seed, 0) != (ssize_t)sizeof s->seed)
        if (errno != EINTR) return pawl__fail(err, PAWL_EIO, "no random seed from the system: %s", strerror(errno));
    s->has_seed = 1;
    return PAWL_OK;
}

/* A sampler is made when a choice is admitted; here it is only seen whether that will work. */
static pawl_status check_sampling(const pawl_engine *e, const pawl_sampling *s, pawl_err *err)
{
    pawl_sampler *probe;
    PAWL_TRY(pawl__sampling_create(e->model, s, s->seed, &probe, err));
    pawl__sampler_destroy(&probe);
    return PAWL_OK;
}

static void fill_choices(pawl_engine *e, pawl_request *r)
{
    for (int32_t i = 0; i < r->n; i++) {
        pawl_choice *c = &r->choices[i];
        c->request = r;
        c->index = i;
        c->ticket.priority = r->opt.priority;
        c->ticket.since = r->came;
        c->limit = limit_of(e, &r->opt);
        c->lane.slot = -1;
        c->stop_id = -1;
        pawl__chances_init(&c->chances);
        c->stream = (pawl_stream){.tokenizer = e->model->tokenizer,
                                  .stop = (const char *const *)r->stop,
                                  .n_stop = r->opt.n_stop,
                                  .keep_special = r->opt.keep_special,
                                  .include_stop = r->opt.include_stop};
    }
}

static pawl_status create_request(pawl_engine *e, const pawl_request_options *opt, pawl_request **out, pawl_err *err)
{
    pawl_request_options o = {.size = sizeof o, .n = 1, .max_tokens = -1, .draft = PAWL_DRAFT_AUTO, .think_budget = -1};
    pawl__options_copy(&o, sizeof o, opt, opt->size);
    if (o.n == 0) o.n = 1;
    PAWL_TRY(check_options(e, &o, err));
    pawl_sampling sampling = PAWL_INIT(pawl_sampling);
    pawl_model_get_sampling(e->model, &sampling);
    if (o.sampling) pawl__options_copy(&sampling, sizeof sampling, o.sampling, o.sampling->size);
    PAWL_TRY(draw_seed(&sampling, err));
    PAWL_TRY(check_sampling(e, &sampling, err));
    pawl_request *r = calloc(1, sizeof *r);
    if (!r) return pawl__fail(err, PAWL_ENOMEM, "request: out of memory");
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&r->deliver, &recursive);
    pthread_mutexattr_destroy(&recursive);
    r->opt = o;
    r->sampling = sampling;
    r->n = o.n;
    r->came = pawl__serve_now();
    r->usage.prompt_tokens = (int64_t)o.n_prompt;
    if (!copy_all(e, r, &o)) {
        free_request(r);
        return pawl__fail(err, PAWL_ENOMEM, "request of %zu tokens: out of memory", o.n_prompt);
    }
    fill_choices(e, r);
    *out = r;
    return PAWL_OK;
}

pawl_status pawl_engine_submit(pawl_engine *e, const pawl_request_options *opt, pawl_event_fn on_event, void *user,
                               pawl_request **out, pawl_err *err)
{
    pawl_request *r = NULL;
    *out = NULL;
    PAWL_TRY(create_request(e, opt, &r, err));
    r->fn = on_event;
    r->user = user;
    atomic_store(&r->refs, 2);
    pthread_mutex_lock(&e->mutex);
    int full = e->queued >= e->opt.max_queue, refused = full || e->draining || e->stopping;
    if (refused) {
        e->stats.refused++;
    } else {
        for (int32_t i = 0; i < r->n; i++) r->choices[i].ticket.order = e->order++;
        e->queued++;
        e->live++;
        *out = r; /* before any event can come */
        r->next = e->incoming;
        e->incoming = r;
        pthread_cond_signal(&e->wake);
    }
    pthread_mutex_unlock(&e->mutex);
    if (!refused) return PAWL_OK;
    free_request(r);
    return full ? pawl__fail(err, PAWL_EBUSY, "the queue of %d requests is full", e->opt.max_queue)
                : pawl__fail(err, PAWL_EBUSY, "the engine takes no more requests");
}
