/* The serving engine's life: sizes from the machine's memory, its thread, drain and end. */
#include "engine/serve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    DEFAULT_ROWS = 256,
    DEFAULT_QUEUE = 256,
    MOST_SEQS = 64,
    DEFAULT_INTERVAL = 64,
    LOGITS_BYTES = 256 << 20 /* of a step, unless one row a sequence is more */
};

double pawl__serve_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

static int64_t bytes_a_slot(const pawl_net_dims *d)
{
    return d->rec_layers * (d->conv_channels * 3 + d->nv * d->dk * d->dv) * (int64_t)sizeof(float);
}

static int64_t bytes_a_position(const pawl_net_dims *d)
{
    return 2 * d->kv_layers * d->kv_heads * d->head_dim * (int64_t)sizeof(float);
}

static pawl_status check_options(const pawl_engine_options *o, const pawl_net_dims *d, pawl_err *err)
{
    if (o->context < 1 || o->context > d->context)
        return pawl__fail(err, PAWL_EINVAL, "context: found %lld, expected 1 to the model's %lld",
                          (long long)o->context, (long long)d->context);
    if (o->max_rows < 1 || o->max_rows > PAWL_MAX_CHUNK)
        return pawl__fail(err, PAWL_EINVAL, "max_rows: found %d, expected 1 to %d", o->max_rows, PAWL_MAX_CHUNK);
    if (o->max_seqs < 1 || o->max_seqs > o->max_rows)
        return pawl__fail(err, PAWL_EINVAL, "max_seqs: found %d, expected 1 to max_rows %d", o->max_seqs, o->max_rows);
    if (o->kv_tokens < PAWL_KV_PAGE)
        return pawl__fail(err, PAWL_EINVAL, "kv_tokens: found %lld, expected %d or more", (long long)o->kv_tokens,
                          PAWL_KV_PAGE);
    if (o->draft < PAWL_DRAFT_AUTO || o->draft > PAWL_MAX_DRAFT)
        return pawl__fail(err, PAWL_EINVAL, "draft: found %d, expected 0 to %d or PAWL_DRAFT_AUTO", o->draft,
                          PAWL_MAX_DRAFT);
    if (o->prefix_interval < PAWL_KV_PAGE || o->prefix_interval % PAWL_KV_PAGE)
        return pawl__fail(err, PAWL_EINVAL, "prefix_interval: found %d, expected a multiple of %d", o->prefix_interval,
                          PAWL_KV_PAGE);
    if (o->prefix_bytes < -1)
        return pawl__fail(err, PAWL_EINVAL, "prefix_bytes: found %lld, expected -1 or more",
                          (long long)o->prefix_bytes);
    if (o->max_queue < 1) return pawl__fail(err, PAWL_EINVAL, "max_queue: found %d, expected 1 or more", o->max_queue);
    return PAWL_OK;
}

static pawl_status fill_options(const pawl_model *m, const pawl_engine_options *given, pawl_engine_options *o,
                                pawl_err *err)
{
    const pawl_net_dims *d = pawl__net_dims(m->net);
    int64_t memory = (int64_t)m->caps.mem, slot = bytes_a_slot(d);
    *o = (pawl_engine_options){.size = sizeof *o, .draft = PAWL_DRAFT_AUTO};
    if (given) pawl__options_copy(o, sizeof *o, given, given->size);
    if (o->context == 0) o->context = d->context < PAWL_DEFAULT_CONTEXT ? d->context : PAWL_DEFAULT_CONTEXT;
    if (o->max_rows == 0) o->max_rows = DEFAULT_ROWS;
    if (o->max_seqs == 0) {
        int64_t fit = slot > 0 ? memory / 8 / slot : MOST_SEQS;
        o->max_seqs = (int32_t)(fit < 1 ? 1 : fit < MOST_SEQS ? fit : MOST_SEQS);
        if (o->max_seqs > o->max_rows) o->max_seqs = o->max_rows;
    }
    if (o->kv_tokens == 0) {
        int64_t all = (o->context + PAWL_KV_PAGE) * o->max_seqs, fit = memory / 4 / bytes_a_position(d);
        o->kv_tokens = fit < all ? fit : all;
        if (o->kv_tokens < o->context + PAWL_KV_PAGE) o->kv_tokens = o->context + PAWL_KV_PAGE;
    }
    if (o->prefix_bytes == 0) o->prefix_bytes = memory / 8;
    if (o->prefix_interval == 0) o->prefix_interval = DEFAULT_INTERVAL;
    if (o->max_queue == 0) o->max_queue = DEFAULT_QUEUE;
    return check_options(o, d, err);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static pawl_status create_memory(pawl_engine *e, pawl_err *err)
{
    const pawl_net_dims *d = pawl__net_dims(e->model->net);
    const pawl_engine_options *o = &e->opt;
    int64_t rows = (int64_t)o->max_seqs * (PAWL_MAX_DRAFT + 1), fit = LOGITS_BYTES / (d->vocab * 4);
    if (rows > fit) rows = fit;
    if (rows < o->max_seqs) rows = o->max_seqs;
    if (rows > o->max_rows) rows = o->max_rows;
    e->max_logits = (int32_t)rows;
    e->keep_draft = o->draft != 0 && d->draft_layers > 0;
    pawl_net_state_options so = {.max_rows = o->max_rows,
                                 .max_verify = e->max_logits,
                                 .n_pages = o->kv_tokens / PAWL_KV_PAGE,
                                 .n_slots = o->max_seqs,
                                 .poison = e->model->poison};
    PAWL_TRY(pawl__net_state_create(e->model->net, &so, &e->st, err));
    e->kv = pawl__net_kv(e->st);
    e->slots = pawl__net_slots(e->st);
    pawl_batch_options bo = {.max_lanes = o->max_seqs,
                             .max_rows = o->max_rows,
                             .max_logits = e->max_logits,
                             .n_valid = e->model->tokenizer ? pawl__tokenizer_size(e->model->tokenizer) : d->vocab,
                             .context = o->context + PAWL_KV_PAGE,
                             .keep_draft = e->keep_draft};
    PAWL_TRY(pawl__batch_create(e->model->net, e->st, &bo, &e->batch, err));
    if (o->prefix_bytes > 0) {
        pawl_prefix_options po = {.interval = o->prefix_interval,
                                  .page = PAWL_KV_PAGE,
                                  .hidden = d->hidden,
                                  .vocab = d->vocab,
                                  .budget = o->prefix_bytes};
        PAWL_TRY(pawl__prefix_create(e->kv, e->slots, &po, &e->prefix, err));
    }
    size_t seqs = (size_t)o->max_seqs;
    e->running = calloc(seqs, sizeof *e->running);
    e->lanes = calloc(seqs, sizeof *e->lanes);
    e->step = calloc(seqs, sizeof *e->step);
    e->load_lanes = calloc(seqs, sizeof *e->load_lanes);
    e->found = calloc((size_t)(o->context / PAWL_KV_PAGE + 2), sizeof *e->found);
    if (!e->running || !e->lanes || !e->step || !e->load_lanes || !e->found)
        return pawl__fail(err, PAWL_ENOMEM, "engine: out of memory");
    return PAWL_OK;
}

static pawl_status open_trace(pawl_engine *e, pawl_err *err)
{
    if (!e->opt.trace) return PAWL_OK;
    e->trace = fopen(e->opt.trace, "we");
    if (!e->trace) return pawl__fail(err, PAWL_EIO, "%s: %s", e->opt.trace, strerror(errno));
    fputs("[\n", e->trace); /* the closing bracket is optional in this format */
    return PAWL_OK;
}

static void free_engine(pawl_engine *e)
{
    pawl__prefix_destroy(&e->prefix);
    pawl__batch_destroy(&e->batch);
    pawl__net_state_destroy(&e->st);
    if (e->trace) fclose(e->trace);
    free(e->all);
    free(e->running);
    free(e->lanes);
    free(e->step);
    free(e->load_lanes);
    free(e->found);
    pthread_mutex_destroy(&e->mutex);
    pthread_cond_destroy(&e->wake);
    pthread_cond_destroy(&e->idle);
    free(e);
}

pawl_status pawl_engine_create(pawl_model *m, const pawl_engine_options *opt, pawl_engine **out, pawl_err *err)
{
    *out = NULL;
    pawl_engine *e = calloc(1, sizeof *e);
    if (!e) return pawl__fail(err, PAWL_ENOMEM, "engine: out of memory");
    e->model = m;
    e->epoch = pawl__serve_now();
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&e->mutex, NULL);
    pthread_cond_init(&e->wake, &clock);
    pthread_cond_init(&e->idle, &clock);
    pthread_condattr_destroy(&clock);
    pawl__chances_init(&e->chances);
    pawl_status s = fill_options(m, opt, &e->opt, err);
    if (s == PAWL_OK) s = create_memory(e, err);
    if (s == PAWL_OK) s = open_trace(e, err);
    if (s == PAWL_OK && pthread_create(&e->thread, NULL, pawl__serve_thread, e) != 0)
        s = pawl__fail(err, PAWL_ENOMEM, "engine: no thread from the system");
    if (s != PAWL_OK) {
        free_engine(e);
        return s;
    }
    e->opt.trace = NULL; /* the caller's */
    *out = e;
    return PAWL_OK;
}

void pawl_engine_destroy(pawl_engine **pe)
{
    pawl_engine *e = *pe;
    if (!e) return;
    *pe = NULL;
    pthread_mutex_lock(&e->mutex);
    e->stopping = e->abandon = 1;
    pthread_cond_signal(&e->wake);
    pthread_mutex_unlock(&e->mutex);
    pthread_join(e->thread, NULL);
    free_engine(e);
}

pawl_status pawl_engine_drain(pawl_engine *e, double seconds, pawl_err *err)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    if (!(seconds > 0)) seconds = 0;
    if (seconds > 1e9) seconds = 1e9;
    until.tv_sec += (time_t)seconds;
    until.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&e->mutex);
    e->draining = 1;
    int late = 0;
    while (e->live > 0 && !late) late = pthread_cond_timedwait(&e->idle, &e->mutex, &until) == ETIMEDOUT;
    int64_t left = e->live;
    if (left > 0) {
        e->abandon = 1;
        pthread_cond_signal(&e->wake);
        while (e->live > 0) pthread_cond_wait(&e->idle, &e->mutex);
    }
    pthread_mutex_unlock(&e->mutex);
    if (left == 0) return PAWL_OK;
    return pawl__fail(err, PAWL_ETIMEDOUT, "drain: %lld requests were cancelled after %g s", (long long)left, seconds);
}

void pawl_engine_get_options(const pawl_engine *e, pawl_engine_options *out)
{
    pawl__options_copy(out, out->size, &e->opt, sizeof e->opt);
}

void pawl_engine_get_stats(pawl_engine *e, pawl_engine_stats *stats)
{
    pthread_mutex_lock(&e->mutex);
    pawl_engine_stats s = e->stats;
    pthread_mutex_unlock(&e->mutex);
    pawl__options_copy(stats, stats->size, &s, sizeof s);
}
