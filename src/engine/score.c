/* Scoring: the logits of every position, target and draft layer. */
#include "engine/engine.h"

#include <stdlib.h>

/* Bytes of logits that are held at once. */
enum { LOGITS_BYTES = 64 << 20 };

typedef struct score {
    pawl_session *s;
    const int32_t *ids;
    int64_t n;
    int with_draft;
    pawl_logits_fn on_logits;
    void *user;
    int32_t chunk;
    float *hidden, *draft_hidden, *logits;
    int32_t *rows;
} score;

static pawl_status deliver(const score *c, int draft, int64_t first, int64_t rows, pawl_err *err)
{
    if (rows == 0 || !c->on_logits(c->user, draft, first, rows, c->logits)) return PAWL_OK;
    return pawl__fail(err, PAWL_ECANCELED, "cancelled");
}

static pawl_status run_chunk(score *c, int64_t pos, pawl_err *err)
{
    pawl_seq *q = c->s->seq;
    int64_t left = c->n - pos;
    int32_t rows = left < c->chunk ? (int32_t)left : c->chunk;
    PAWL_TRY(pawl__seq_reserve(q, pos + rows, err));
    pawl_seg seg = {.rows = rows, .pos0 = (int32_t)pos, .slot = q->slot};
    pawl_forward f = {.m = rows,
                      .ids = c->ids + pos,
                      .segs = &seg,
                      .n_segs = 1,
                      .pages = q->pages,
                      .hidden = c->hidden,
                      .logit_rows = c->rows,
                      .n_logits = rows,
                      .logits = c->logits};
    pthread_mutex_lock(&c->s->model->step);
    pawl_status st = pawl__net_forward(c->s->model->net, c->s->st, &f, &c->s->model->exec, err);
    pthread_mutex_unlock(&c->s->model->step);
    PAWL_TRY(st);
    PAWL_TRY(deliver(c, 0, pos, rows, err));
    if (!c->with_draft) return PAWL_OK;
    if (pos + rows == c->n) rows--; /* the last token has none after it */
    seg.rows = rows;
    pawl_forward d = {.m = rows,
                      .ids = c->ids + pos + 1,
                      .segs = &seg,
                      .n_segs = 1,
                      .pages = q->pages,
                      .hidden_in = c->hidden,
                      .hidden = c->draft_hidden,
                      .logit_rows = c->rows,
                      .n_logits = rows,
                      .logits = c->logits};
    pthread_mutex_lock(&c->s->model->step);
    st = pawl__net_draft(c->s->model->net, c->s->st, &d, &c->s->model->exec, err);
    pthread_mutex_unlock(&c->s->model->step);
    PAWL_TRY(st);
    return deliver(c, 1, pos, rows, err);
}

static pawl_status run_all(score *c, pawl_err *err)
{
    const pawl_net_dims *d = pawl__net_dims(c->s->model->net);
    int64_t fits = LOGITS_BYTES / (d->vocab * (int64_t)sizeof(float));
    c->chunk = c->s->seq->chunk;
    if (fits < c->chunk) c->chunk = fits > 0 ? (int32_t)fits : 1;
    c->hidden = malloc((size_t)(c->chunk * d->hidden) * sizeof(float));
    c->draft_hidden = malloc((size_t)(c->chunk * d->hidden) * sizeof(float));
    c->logits = malloc((size_t)(c->chunk * d->vocab) * sizeof(float));
    c->rows = malloc((size_t)c->chunk * sizeof *c->rows);
    if (!c->hidden || !c->draft_hidden || !c->logits || !c->rows)
        return pawl__fail(err, PAWL_ENOMEM, "score: out of memory for %d rows of logits", c->chunk);
    for (int32_t i = 0; i < c->chunk; i++) c->rows[i] = i;
    for (int64_t pos = 0; pos < c->n; pos += c->chunk) {
        if (atomic_load(&c->s->cancel)) return pawl__fail(err, PAWL_ECANCELED, "cancelled");
        PAWL_TRY(run_chunk(c, pos, err));
    }
    return PAWL_OK;
}

pawl_status pawl_score(pawl_session *s, const int32_t *ids, size_t n, int with_draft, pawl_logits_fn on_logits,
                       void *user, pawl_err *err)
{
    if (with_draft && !pawl__net_dims(s->model->net)->draft_layers)
        return pawl__fail(err, PAWL_EUNSUPPORTED, "%s: the model has no draft layer", s->model->path);
    pawl_session_reset(s);
    PAWL_TRY(pawl_session_feed(s, ids, n, err)); /* checks ids and length */
    score c = {.s = s, .ids = ids, .n = (int64_t)n, .with_draft = with_draft, .on_logits = on_logits, .user = user};
    pawl_status st = run_all(&c, err);
    free(c.hidden);
    free(c.draft_hidden);
    free(c.logits);
    free(c.rows);
    atomic_store(&s->cancel, 0);
    pawl_session_reset(s);
    return st;
}
