#include "spec/seq.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Hidden states that may wait for the draft layer beside those of the step that runs: 8 MiB at a width of 2048. */
enum { WAITING = 1024 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

pawl_status pawl__seq_create(const pawl_net *net, pawl_net_state *st, int64_t context, int32_t chunk, pawl_seq **out,
                             pawl_err *err)
{
    const pawl_net_dims *d = pawl__net_dims(net);
    *out = NULL;
    pawl_seq *s = calloc(1, sizeof *s);
    if (!s) return pawl__fail(err, PAWL_ENOMEM, "sequence: out of memory");
    int64_t rows = chunk > PAWL_SEQ_MAX_DRAFT + 1 ? chunk : PAWL_SEQ_MAX_DRAFT + 1;
    s->rows = rows;
    s->room = rows + (context < WAITING ? context : WAITING);
    s->net = net;
    s->st = st;
    s->context = context;
    s->chunk = chunk;
    s->slot = -1;
    s->tokens = calloc((size_t)context, sizeof *s->tokens);
    s->pages = calloc((size_t)(context / PAWL_KV_PAGE + 1), sizeof *s->pages);
    s->hidden = malloc((size_t)(s->room * d->hidden) * sizeof(float));
    s->draft_hidden = malloc((size_t)((rows + 1) * d->hidden) * sizeof(float));
    s->logits = malloc((size_t)((PAWL_SEQ_MAX_DRAFT + 1) * d->vocab) * sizeof(float));
    s->logit_rows = malloc((size_t)rows * sizeof *s->logit_rows);
    s->slot = pawl__slots_take(pawl__net_slots(st));
    if (!s->tokens || !s->pages || !s->hidden || !s->draft_hidden || !s->logits || !s->logit_rows || s->slot < 0) {
        int no_slot = s->slot < 0;
        pawl__seq_destroy(&s);
        return pawl__fail(err, PAWL_ENOMEM,
                          no_slot ? "sequence: no recurrent slot is free" : "sequence: out of memory");
    }
    for (int32_t i = 0; i < rows; i++) s->logit_rows[i] = i;
    *out = s;
    return PAWL_OK;
}

void pawl__seq_destroy(pawl_seq **ps)
{
    pawl_seq *s = *ps;
    if (!s) return;
    pawl__kv_give(pawl__net_kv(s->st), s->pages, s->n_pages);
    if (s->slot >= 0) pawl__slots_give(pawl__net_slots(s->st), s->slot);
    free(s->tokens);
    free(s->pages);
    free(s->hidden);
    free(s->draft_hidden);
    free(s->logits);
    free(s->logit_rows);
    free(s);
    *ps = NULL;
}

void pawl__seq_rewind(pawl_seq *s)
{
    pawl__slots_clear(pawl__net_slots(s->st), s->slot);
    s->done = s->draft_done = 0;
    s->cold = 0;
}

void pawl__seq_reset(pawl_seq *s)
{
    pawl__kv_give(pawl__net_kv(s->st), s->pages, s->n_pages);
    s->n_pages = 0;
    s->n = 0;
    pawl__seq_rewind(s);
}

int pawl__seq_draft_warm(const pawl_seq *s)
{
    return !s->cold;
}

pawl_status pawl__seq_reserve(pawl_seq *s, int64_t end, pawl_err *err)
{
    int64_t need = (end + PAWL_KV_PAGE - 1) / PAWL_KV_PAGE - s->n_pages;
    if (need <= 0) return PAWL_OK;
    if (pawl__kv_take(pawl__net_kv(s->st), need, s->pages + s->n_pages) != PAWL_OK)
        return pawl__fail(err, PAWL_EBUSY, "KV cache: %lld pages needed, %lld free", (long long)need,
                          (long long)pawl__kv_free(pawl__net_kv(s->st)));
    s->n_pages += need;
    return PAWL_OK;
}

/* The draft layer over positions pos .. pos+rows-1 from `hidden` rows and the tokens after them. Its output goes to
 * draft_hidden; the last row's logits, if wanted, to `logits`. */
static pawl_status run_draft(pawl_seq *s, int64_t pos, int32_t rows, const int32_t *next_ids, const float *hidden,
                             float *logits, pawl_exec *ex, pawl_err *err)
{
    pawl_seg seg = {.row0 = 0, .rows = rows, .pos0 = (int32_t)pos, .slot = s->slot};
    int32_t last = rows - 1;
    pawl_forward f = {.m = rows,
                      .ids = next_ids,
                      .segs = &seg,
                      .n_segs = 1,
                      .pages = s->pages,
                      .hidden_in = hidden,
                      .hidden = s->draft_hidden,
                      .logit_rows = &last,
                      .n_logits = logits ? 1 : 0,
                      .logits = logits};
    return pawl__net_draft(s->net, s->st, &f, ex, err);
}

/* Brings the draft layer up to all computed positions: those that wait, in batches of a step's rows. The token after each
 * is known, n > done. The logits, if wanted, are the last position's; *tail is its row of draft_hidden. */
static pawl_status catch_up(pawl_seq *s, float *logits, float **tail, pawl_exec *ex, pawl_err *err)
{
    int64_t first = s->draft_done, hidden = pawl__net_dims(s->net)->hidden;
    while (s->draft_done < s->done) {
        int64_t pos = s->draft_done, left = s->done - pos, rows = left < s->rows ? left : s->rows;
        pawl_status st = run_draft(s, pos, (int32_t)rows, s->tokens + pos + 1, s->hidden + (pos - first) * hidden,
                                   rows == left ? logits : NULL, ex, err);
        if (st != PAWL_OK) {
            s->draft_done = first; /* what waits begins there */
            return st;
        }
        s->draft_done += rows;
        *tail = s->draft_hidden + (rows - 1) * hidden;
    }
    return PAWL_OK;
}

/* Where the hidden states of `rows` further positions go: behind those that wait for the draft layer, which catches up
 * first when there is no room for both. Without a draft layer to follow nothing waits. */
static pawl_status room_for(pawl_seq *s, int64_t rows, int keep_draft, float **at, pawl_exec *ex, pawl_err *err)
{
    float *tail;
    if (keep_draft && s->done - s->draft_done + rows > s->room) PAWL_TRY(catch_up(s, NULL, &tail, ex, err));
    *at = s->hidden + (keep_draft ? s->done - s->draft_done : 0) * pawl__net_dims(s->net)->hidden;
    return PAWL_OK;
}

pawl_status pawl__seq_prefill(pawl_seq *s, int keep_draft, pawl_exec *ex, pawl_err *err)
{
    int64_t rows = s->n - s->done < s->chunk ? s->n - s->done : s->chunk;
    if (rows == 0) return PAWL_OK;
    float *at;
    PAWL_TRY(room_for(s, rows, keep_draft, &at, ex, err));
    PAWL_TRY(pawl__seq_reserve(s, s->done + rows, err));
    pawl_seg seg = {.row0 = 0, .rows = (int32_t)rows, .pos0 = (int32_t)s->done, .slot = s->slot};
    int last = s->done + rows == s->n;
    int32_t last_row = (int32_t)rows - 1;
    pawl_forward f = {.m = (int32_t)rows,
                      .ids = s->tokens + s->done,
                      .segs = &seg,
                      .n_segs = 1,
                      .pages = s->pages,
                      .hidden = at,
                      .logit_rows = &last_row,
                      .n_logits = last ? 1 : 0,
                      .logits = s->logits,
                      .cancel = s->cancel};
    pawl_status st = pawl__net_forward(s->net, s->st, &f, ex, err);
    if (st == PAWL_ECANCELED) pawl__seq_rewind(s);
    PAWL_TRY(st);
    s->done += rows;
    s->cold |= !keep_draft;
    return PAWL_OK;
}

pawl_status pawl__seq_draft(pawl_seq *s, pawl_sampler *sampler, int k, int32_t *drafts, pawl_exec *ex, pawl_err *err)
{
    int64_t hidden = pawl__net_dims(s->net)->hidden;
    float *h = NULL;
    PAWL_TRY(pawl__seq_reserve(s, s->done + k, err)); /* the chain writes keys past the committed positions */
    PAWL_TRY(catch_up(s, s->logits, &h, ex, err));
    int n = 0;
    pawl_status st = PAWL_OK;
    for (;;) {
        st = pawl__sampler_choose(sampler, s->logits, s->done + 1 + n, &drafts[n], err);
        if (st != PAWL_OK) break;
        pawl__sampler_add(sampler, drafts[n]);
        if (++n == k) break;
        /* The draft's own output takes the place of the target's hidden state. */
        memmove(s->draft_hidden + hidden, h, (size_t)hidden * sizeof(float));
        st = run_draft(s, s->done - 1 + n, 1, &drafts[n - 1], s->draft_hidden + hidden, s->logits, ex, err);
        if (st != PAWL_OK) break;
        h = s->draft_hidden;
    }
    while (n > 0) pawl__sampler_remove(sampler, drafts[--n]);
    return st;
}

static pawl_status verify(pawl_seq *s, const int32_t *drafts, int k, int keep_draft, pawl_exec *ex, pawl_err *err)
{
    float *at;
    PAWL_TRY(room_for(s, k + 1, keep_draft, &at, ex, err));
    int32_t ids[PAWL_SEQ_MAX_DRAFT + 1];
    ids[0] = s->tokens[s->done];
    memcpy(ids + 1, drafts, (size_t)k * sizeof *ids);
    PAWL_TRY(pawl__seq_reserve(s, s->done + k + 1, err));
    pawl_seg seg = {.rows = k + 1, .pos0 = (int32_t)s->done, .slot = s->slot, .verify = k > 0};
    pawl_forward f = {.m = k + 1,
                      .ids = ids,
                      .segs = &seg,
                      .n_segs = 1,
                      .pages = s->pages,
                      .hidden = at,
                      .logit_rows = s->logit_rows,
                      .n_logits = k + 1,
                      .logits = s->logits};
    return pawl__net_forward(s->net, s->st, &f, ex, err);
}

pawl_status pawl__seq_round(pawl_seq *s, pawl_sampler *sampler, int k, int keep_draft, pawl_emit_fn emit, void *user,
                            pawl_round *stats, pawl_exec *ex, pawl_err *err)
{
    int32_t drafts[PAWL_SEQ_MAX_DRAFT];
    memset(stats, 0, sizeof *stats);
    int64_t draft_done = s->draft_done;
    double t0 = now();
    if (k > 0) PAWL_TRY(pawl__seq_draft(s, sampler, k, drafts, ex, err));
    double t1 = now();
    PAWL_TRY(verify(s, drafts, k, keep_draft, ex, err));
    double t2 = now();

    int64_t vocab = pawl__net_dims(s->net)->vocab;
    int rows = 0;
    for (int stop = 0; !stop;) {
        int32_t token;
        PAWL_TRY(pawl__sampler_choose(sampler, s->logits + rows * vocab, s->n, &token, err));
        int drafted = rows < k && token == drafts[rows];
        s->tokens[s->n++] = token;
        pawl__sampler_add(sampler, token);
        rows++;
        stop = emit(user, token, drafted) || !drafted;
        stats->accepted += drafted;
    }
    if (k > 0) {
        pawl_seg seg = {.rows = rows, .slot = s->slot};
        PAWL_TRY(pawl__net_commit(s->net, s->st, &seg, 1, ex, err));
    }
    s->done += rows;
    s->cold |= !keep_draft;
    stats->drafted = k;
    stats->caught_up = s->draft_done - draft_done;
    stats->draft_seconds = t1 - t0;
    stats->verify_seconds = t2 - t1;
    stats->commit_seconds = now() - t2;
    return PAWL_OK;
}
