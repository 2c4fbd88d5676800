/* Generating: prefill, then rounds of drafting and verifying, each emitted token delivered as it is chosen. */
#include "engine/engine.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/log.h"
#include "engine/stream.h"

typedef struct run {
    pawl_session *s;
    pawl_generate_options opt;
    pawl_sampler *sampler;
    pawl_stream stream;
    pawl_token_fn on_token;
    void *user;
    pawl_result result;
    int64_t left; /* tokens that may still be emitted */
    int finished;
} run;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int is_eos(const pawl_model *m, int32_t id)
{
    for (unsigned i = 0; i < m->gen.n_eos; i++)
        if (m->gen.eos[i] == id) return 1;
    return 0;
}

/* Delivers one token; nonzero when it is the last. pawl_emit_fn */
static int emit(void *user, int32_t id, int drafted)
{
    run *r = user;
    r->left--;
    r->result.stats.generated_tokens++;
    int ends = !r->opt.ignore_eos && is_eos(r->s->model, id);
    const char *text;
    size_t n;
    pawl__stream_push(&r->stream, id, ends || r->left == 0, &text, &n);
    r->finished = 1;
    if (ends || r->stream.stopped)
        r->result.finish = PAWL_FINISH_STOP;
    else if (r->left == 0)
        r->result.finish = PAWL_FINISH_LENGTH;
    else
        r->finished = 0;
    pawl_token t = {.id = id, .position = r->s->seq->n - 1, .text = text, .n_text = n, .drafted = drafted};
    if (r->on_token && r->on_token(&t, r->user) && !r->finished) {
        r->finished = 1;
        r->result.finish = PAWL_FINISH_CALLBACK;
    }
    return r->finished;
}

static pawl_status draw_seed(uint64_t *seed, pawl_err *err)
{
    while (getrandom(seed, sizeof *seed, 0) != (ssize_t)sizeof *seed)
        if (errno != EINTR) return pawl__fail(err, PAWL_EIO, "no random seed from the system: %s", strerror(errno));
    return PAWL_OK;
}

pawl_status pawl__sampling_create(const pawl_model *m, const pawl_sampling *s, uint64_t seed, pawl_sampler **out,
                                  pawl_err *err)
{
    int64_t vocab = pawl__net_dims(m->net)->vocab;
    int64_t valid = m->tokenizer ? pawl__tokenizer_size(m->tokenizer) : vocab;
    pawl_sample_params p = {.temperature = s->temperature,
                            .top_k = s->top_k,
                            .top_p = s->top_p,
                            .min_p = s->min_p,
                            .presence = s->presence_penalty,
                            .frequency = s->frequency_penalty,
                            .repetition = s->repetition_penalty,
                            .bias = s->bias,
                            .n_bias = s->n_bias,
                            .seed = seed};
    return pawl__sampler_create(vocab, valid, &p, out, err);
}

static pawl_status create_sampler(run *r, pawl_err *err)
{
    const pawl_model *m = r->s->model;
    pawl_sampling sm = PAWL_INIT(pawl_sampling);
    pawl_model_get_sampling(m, &sm);
    if (r->opt.sampling) pawl__options_copy(&sm, sizeof sm, r->opt.sampling, r->opt.sampling->size);
    if (!sm.has_seed) PAWL_TRY(draw_seed(&sm.seed, err));
    r->result.seed = sm.seed;
    PAWL_TRY(pawl__sampling_create(m, &sm, sm.seed, &r->sampler, err));
    pawl__sampler_add_prompt(r->sampler, r->s->seq->tokens, (size_t)r->s->seq->n);
    return PAWL_OK;
}

static int canceled(run *r)
{
    return atomic_load(&r->s->cancel);
}

static pawl_status prefill(run *r, int keep_draft, pawl_err *err)
{
    pawl_session *s = r->s;
    pawl_seq *q = s->seq;
    double t0 = now();
    /* The last token's logits are gone when everything was computed before; a cold draft layer must see all positions. */
    if (q->done == q->n || (keep_draft && !pawl__seq_draft_warm(q))) pawl__seq_rewind(q);
    r->result.stats.prompt_tokens = q->n - q->done;
    while (q->done < q->n && !canceled(r)) {
        pthread_mutex_lock(&s->model->step);
        pawl_status st = pawl__seq_prefill(q, keep_draft, &s->model->exec, err);
        pthread_mutex_unlock(&s->model->step);
        if (st != PAWL_ECANCELED) PAWL_TRY(st); /* the loop sees it too */
    }
    r->result.stats.prefill_seconds = now() - t0;
    return PAWL_OK;
}

static void count_round(pawl_stats *st, const pawl_round *d)
{
    st->rounds++;
    st->drafted += d->drafted;
    st->accepted += d->accepted;
    for (int i = 0; i < d->drafted; i++) st->drafted_at[i]++;
    for (int i = 0; i < d->accepted; i++) st->accepted_at[i]++;
}

/* A draft layer that is nearly never right is usually a checkpoint that was read wrongly: say so once. */
static void watch_acceptance(const pawl_stats *st)
{
    if (st->rounds == 512 && st->drafted >= 512 && (double)(st->rounds + st->accepted) / (double)st->rounds < 1.05)
        pawl__log_once(PAWL_LOG_WARN, "spec",
                       "drafts are almost never accepted: accepted=%lld drafted=%lld rounds=%lld",
                       (long long)st->accepted, (long long)st->drafted, (long long)st->rounds);
}

static pawl_status decode(run *r, int draft, int keep_draft, pawl_err *err)
{
    pawl_session *s = r->s;
    double t0 = now();
    int32_t first;
    pawl_status st = PAWL_OK;
    PAWL_TRY(pawl__sampler_choose(r->sampler, s->seq->logits, s->seq->n, &first, err));
    s->seq->tokens[s->seq->n++] = first;
    pawl__sampler_add(r->sampler, first);
    emit(r, first, 0);
    while (!r->finished && !canceled(r)) {
        int most = r->left - 1 < PAWL_MAX_DRAFT ? (int)r->left - 1 : PAWL_MAX_DRAFT;
        int k = draft == PAWL_DRAFT_AUTO ? pawl__adapt_choose(&s->adapt, most, s->seq->done - s->seq->draft_done)
                : draft < most           ? draft
                                         : most;
        pawl_round d;
        pthread_mutex_lock(&s->model->step);
        st = pawl__seq_round(s->seq, r->sampler, keep_draft ? k : 0, keep_draft, emit, r, &d, &s->model->exec, err);
        pthread_mutex_unlock(&s->model->step);
        if (st != PAWL_OK) break;
        if (draft == PAWL_DRAFT_AUTO) pawl__adapt_learn(&s->adapt, &d);
        count_round(&r->result.stats, &d);
        watch_acceptance(&r->result.stats);
    }
    r->result.stats.decode_seconds = now() - t0;
    if (draft == PAWL_DRAFT_AUTO && s->adapt.costs.known) {
        pthread_mutex_lock(&s->model->step);
        s->model->draft_costs = s->adapt.costs;
        pthread_mutex_unlock(&s->model->step);
    }
    return st;
}

static pawl_status check_options(const run *r, pawl_err *err)
{
    const pawl_generate_options *o = &r->opt;
    if (o->draft < PAWL_DRAFT_AUTO || o->draft > PAWL_MAX_DRAFT)
        return pawl__fail(err, PAWL_EINVAL, "draft: found %d, expected 0 to %d or PAWL_DRAFT_AUTO", o->draft,
                          PAWL_MAX_DRAFT);
    if (o->max_tokens < 0)
        return pawl__fail(err, PAWL_EINVAL, "max_tokens: found %lld, expected 0 or more", (long long)o->max_tokens);
    if (o->n_stop && !r->s->model->tokenizer)
        return pawl__fail(err, PAWL_EUNSUPPORTED, "stop: the model has no tokenizer, so its output has no text");
    if (r->s->seq->n == 0) return pawl__fail(err, PAWL_EINVAL, "the sequence is empty: feed at least one token first");
    if (r->s->seq->n >= r->s->seq->context)
        return pawl__fail(err, PAWL_EINVAL, "the sequence of %lld tokens leaves no room in the context of %lld",
                          (long long)r->s->seq->n, (long long)r->s->seq->context);
    return PAWL_OK;
}

pawl_status pawl_generate(pawl_session *s, const pawl_generate_options *opt, pawl_token_fn on_token, void *user,
                          pawl_result *result, pawl_err *err)
{
    run r = {.s = s, .opt = PAWL_INIT(pawl_generate_options), .on_token = on_token, .user = user};
    if (opt) pawl__options_copy(&r.opt, sizeof r.opt, opt, opt->size);
    PAWL_TRY(check_options(&r, err));
    int64_t room = s->seq->context - s->seq->n;
    r.left = r.opt.max_tokens && r.opt.max_tokens < room ? r.opt.max_tokens : room;
    r.stream = (pawl_stream){.tokenizer = s->model->tokenizer,
                             .stop = r.opt.stop,
                             .n_stop = r.opt.n_stop,
                             .keep_special = r.opt.keep_special};
    int keep_draft = r.opt.draft != 0 && pawl__net_dims(s->model->net)->draft_layers > 0;
    pawl_status st = create_sampler(&r, err);
    if (st == PAWL_OK) st = prefill(&r, keep_draft, err);
    if (st == PAWL_OK && !canceled(&r)) st = decode(&r, r.opt.draft, keep_draft, err);
    if (st == PAWL_OK && !r.finished) {
        r.result.finish = PAWL_FINISH_CANCELED;
        st = pawl__fail(err, PAWL_ECANCELED, "cancelled");
    }
    /* A failed step leaves states between two positions: what was said stays, what was computed does not. */
    if (st != PAWL_OK && st != PAWL_ECANCELED) pawl__seq_rewind(s->seq);
    atomic_store(&s->cancel, 0);
    pawl__sampler_destroy(&r.sampler);
    pawl__stream_free(&r.stream);
    if (result) pawl__options_copy(result, result->size, &r.result, sizeof r.result);
    return st;
}
