/* Sessions: one sequence each, with its caches. */
#include "engine/engine.h"

#include <stdlib.h>
#include <string.h>

static pawl_status create_state(const pawl_model *m, int64_t context, int32_t chunk, pawl_net_state **out,
                                pawl_err *err)
{
    int32_t rows = chunk > PAWL_SEQ_MAX_DRAFT + 1 ? chunk : PAWL_SEQ_MAX_DRAFT + 1;
    pawl_net_state_options o = {.max_rows = rows,
                                .max_verify = PAWL_SEQ_MAX_DRAFT + 1,
                                .n_pages = (context + PAWL_KV_PAGE - 1) / PAWL_KV_PAGE,
                                .n_slots = 1,
                                .poison = m->poison};
    return pawl__net_state_create(m->net, &o, out, err);
}

pawl_status pawl_session_create(pawl_model *m, const pawl_session_options *opt, pawl_session **out, pawl_err *err)
{
    pawl_session_options o = PAWL_INIT(pawl_session_options);
    *out = NULL;
    if (opt) pawl__options_copy(&o, sizeof o, opt, opt->size);
    int64_t most = pawl__net_dims(m->net)->context;
    if (o.context == 0) o.context = most < PAWL_DEFAULT_CONTEXT ? most : PAWL_DEFAULT_CONTEXT;
    if (o.chunk == 0) o.chunk = PAWL_DEFAULT_CHUNK;
    if (o.context < 1 || o.context > most)
        return pawl__fail(err, PAWL_EINVAL, "context: found %lld, expected 1 to the model's %lld", (long long)o.context,
                          (long long)most);
    if (o.chunk < 1 || o.chunk > PAWL_MAX_CHUNK)
        return pawl__fail(err, PAWL_EINVAL, "chunk: found %d, expected 1 to %d", o.chunk, PAWL_MAX_CHUNK);
    pawl_session *s = calloc(1, sizeof *s);
    if (!s) return pawl__fail(err, PAWL_ENOMEM, "session: out of memory");
    s->model = m;
    pthread_mutex_lock(&m->step);
    pawl__adapt_init(&s->adapt, &m->draft_costs);
    pthread_mutex_unlock(&m->step);
    pawl_status st = create_state(m, o.context, o.chunk, &s->st, err);
    if (st == PAWL_OK) st = pawl__seq_create(m->net, s->st, o.context, o.chunk, &s->seq, err);
    if (st != PAWL_OK) {
        pawl_session_destroy(&s);
        return st;
    }
    s->seq->cancel = &s->cancel;
    *out = s;
    return PAWL_OK;
}

void pawl_session_destroy(pawl_session **ps)
{
    pawl_session *s = *ps;
    if (!s) return;
    pawl__seq_destroy(&s->seq);
    pawl__net_state_destroy(&s->st);
    free(s);
    *ps = NULL;
}

pawl_status pawl_session_feed(pawl_session *s, const int32_t *ids, size_t n, pawl_err *err)
{
    pawl_seq *q = s->seq;
    int64_t vocab = pawl__net_dims(s->model->net)->vocab;
    if (n > (size_t)(q->context - q->n))
        return pawl__fail(err, PAWL_EINVAL, "%zu tokens and %lld before them are more than the context of %lld", n,
                          (long long)q->n, (long long)q->context);
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= vocab)
            return pawl__fail(err, PAWL_EINVAL, "token %zu: id %d is outside the vocabulary of %lld", i, ids[i],
                              (long long)vocab);
    if (n) memcpy(q->tokens + q->n, ids, n * sizeof *ids);
    q->n += (int64_t)n;
    return PAWL_OK;
}

pawl_status pawl_session_sync(pawl_session *s, const int32_t *ids, size_t n, pawl_err *err)
{
    pawl_seq *q = s->seq;
    if (n > (size_t)q->context)
        return pawl__fail(err, PAWL_EINVAL, "%zu tokens are more than the context of %lld", n, (long long)q->context);
    size_t have = (size_t)q->n;
    int prefix = have <= n && (have == 0 || !memcmp(q->tokens, ids, have * sizeof *ids));
    if (!prefix) {
        /* A recurrent state has no way back to an earlier position. */
        pawl__seq_reset(q);
        have = 0;
    }
    return pawl_session_feed(s, ids + have, n - have, err);
}

void pawl_session_reset(pawl_session *s)
{
    pawl__seq_reset(s->seq);
}

const int32_t *pawl_session_tokens(const pawl_session *s, size_t *n)
{
    *n = (size_t)s->seq->n;
    return s->seq->tokens;
}

int64_t pawl_session_context(const pawl_session *s)
{
    return s->seq->context;
}

void pawl_session_cancel(pawl_session *s)
{
    atomic_store(&s->cancel, 1);
}
