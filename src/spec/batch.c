#include "spec/batch.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sample/logprob.h"

struct pawl_batch {
    const pawl_net *net;
    pawl_net_state *st;
    pawl_batch_options opt;
    int64_t pages_a_lane, hidden_width, vocab;
    int32_t *table;                             /* [max_lanes][pages_a_lane] */
    float *pending;                             /* [max_lanes][PAWL_LANE_PENDING][H] */
    int32_t *ids;                               /* [max_rows] */
    pawl_seg *segs;                             /* [max_lanes] */
    int32_t *logit_rows;                        /* [max_logits] */
    float *hidden, *logits;                     /* [max_rows][H], [max_logits][vocab]: the target's */
    float *draft_in, *draft_out, *draft_logits; /* [max_rows][H] twice, [max_lanes][vocab] */
    pawl_lane **group;                          /* [max_lanes]: of one draft call */
    int draft_place;                            /* which draft of the chain is being chosen */
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

pawl_status pawl__batch_create(const pawl_net *net, pawl_net_state *st, const pawl_batch_options *opt, pawl_batch **out,
                               pawl_err *err)
{
    const pawl_net_dims *d = pawl__net_dims(net);
    *out = NULL;
    pawl_batch *b = calloc(1, sizeof *b);
    if (!b) return pawl__fail(err, PAWL_ENOMEM, "batch: out of memory");
    b->net = net;
    b->st = st;
    b->opt = *opt;
    b->hidden_width = d->hidden;
    b->vocab = d->vocab;
    b->pages_a_lane = (opt->context + PAWL_KV_PAGE - 1) / PAWL_KV_PAGE;
    size_t lanes = (size_t)opt->max_lanes, rows = (size_t)opt->max_rows, width = (size_t)d->hidden;
    b->table = calloc(lanes * (size_t)b->pages_a_lane, sizeof *b->table);
    b->pending = calloc(lanes * PAWL_LANE_PENDING * width, sizeof(float));
    b->ids = calloc(rows, sizeof *b->ids);
    b->segs = calloc(lanes, sizeof *b->segs);
    b->logit_rows = calloc((size_t)opt->max_logits, sizeof *b->logit_rows);
    b->hidden = malloc(rows * width * sizeof(float));
    b->logits = malloc((size_t)opt->max_logits * (size_t)d->vocab * sizeof(float));
    b->draft_in = malloc(rows * width * sizeof(float));
    b->draft_out = malloc(rows * width * sizeof(float));
    b->draft_logits = malloc(lanes * (size_t)d->vocab * sizeof(float));
    b->group = calloc(lanes, sizeof *b->group);
    if (!b->table || !b->pending || !b->ids || !b->segs || !b->logit_rows || !b->hidden || !b->logits || !b->draft_in ||
        !b->draft_out || !b->draft_logits || !b->group) {
        pawl__batch_destroy(&b);
        return pawl__fail(err, PAWL_ENOMEM, "batch of %d rows: out of memory", opt->max_rows);
    }
    *out = b;
    return PAWL_OK;
}

void pawl__batch_destroy(pawl_batch **pb)
{
    pawl_batch *b = *pb;
    if (!b) return;
    free(b->table);
    free(b->pending);
    free(b->ids);
    free(b->segs);
    free(b->logit_rows);
    free(b->hidden);
    free(b->logits);
    free(b->draft_in);
    free(b->draft_out);
    free(b->draft_logits);
    free(b->group);
    free(b);
    *pb = NULL;
}

pawl_status pawl__batch_enter(pawl_batch *b, pawl_lane *lane)
{
    lane->slot = pawl__slots_take(pawl__net_slots(b->st));
    if (lane->slot < 0) return PAWL_EBUSY;
    lane->done = lane->draft_done = 0;
    lane->n_pages = 0;
    lane->pages = b->table + lane->slot * b->pages_a_lane;
    lane->hidden = b->pending + lane->slot * PAWL_LANE_PENDING * b->hidden_width;
    return PAWL_OK;
}

void pawl__batch_leave(pawl_batch *b, pawl_lane *lane)
{
    pawl__kv_give(pawl__net_kv(b->st), lane->pages, lane->n_pages);
    pawl__slots_give(pawl__net_slots(b->st), lane->slot);
    lane->slot = -1;
    lane->pages = NULL;
    lane->n_pages = 0;
    lane->hidden = NULL;
    lane->last_logits = NULL;
}

/* ---- choosing ---------------------------------------------------------------------------------------------------- */

/* The token that must come at this position, or -1. tokens before it are known (drafts included). */
static int32_t forced(const pawl_lane *l, int64_t position)
{
    const pawl_think *t = &l->think;
    int64_t at = position - t->prompt - t->budget;
    if (t->budget < 0 || at < 0 || at >= t->n) return -1;
    for (int64_t p = t->prompt; p < t->prompt + t->budget; p++)
        if (l->tokens[p] == t->ids[0]) return -1;
    return t->ids[at];
}

static pawl_status choose(pawl_lane *l, const float *logits, int64_t position, int32_t *token)
{
    *token = forced(l, position);
    if (*token >= 0) return PAWL_OK;
    return pawl__sampler_choose(l->sampler, logits, position, token, &l->err);
}

/* Chooses the draft number draft_place of each lane of the group from its row of draft_logits. pawl_task_fn */
static void choose_draft(void *ctx, int task, int thread)
{
    pawl_batch *b = ctx;
    pawl_lane *l = b->group[task];
    int i = b->draft_place;
    (void)thread;
    l->status = choose(l, b->draft_logits + task * b->vocab, l->n + i, &l->drafts[i]);
    if (l->status != PAWL_OK) {
        /* a draft layer without a choice drafts no further; the target decides */
        l->status = PAWL_OK;
        l->k = i;
        return;
    }
    l->tokens[l->n + i] = l->drafts[i];
    pawl__sampler_add(l->sampler, l->drafts[i]);
}

/* One token from a row of the target's logits. */
static int accept_row(const pawl_batch *b, pawl_lane *l, const float *logits, int row)
{
    int32_t token;
    l->status = choose(l, logits, l->n, &token);
    if (l->status != PAWL_OK) return 0;
    int drafted = row < l->k && token == l->drafts[row];
    if (l->logprobs)
        l->out_logprob[row] =
            pawl__logprob(logits, b->opt.n_valid, token, l->out_top ? l->out_top + row * l->top : NULL, l->top);
    l->tokens[l->n++] = token;
    pawl__sampler_add(l->sampler, token);
    l->out[row] = token;
    l->out_drafted[row] = (uint8_t)drafted;
    l->n_out = row + 1;
    l->accepted += drafted;
    return drafted;
}

static void score_prompt(const pawl_batch *b, pawl_lane *l)
{
    for (int32_t i = 0; i < l->rows; i++) {
        int64_t p = l->done + i + 1;
        if (p >= l->prompt_logprobs) break;
        l->prompt_lp[p] = pawl__logprob(b->logits + (l->logit0 + i) * b->vocab, b->opt.n_valid, l->tokens[p],
                                        l->prompt_top ? l->prompt_top + p * l->top : NULL, l->top);
    }
}

typedef struct accept_job {
    pawl_batch *b;
    pawl_lane *const *lanes;
} accept_job;

/* pawl_task_fn */
static void accept_lane(void *ctx, int task, int thread)
{
    const accept_job *job = ctx;
    pawl_batch *b = job->b;
    pawl_lane *l = job->lanes[task];
    (void)thread;
    if (l->rows > 0) {
        if (l->prompt_logprobs) score_prompt(b, l);
        if (l->choose) accept_row(b, l, l->last_logits, 0);
        return;
    }
    int row = 0;
    while (accept_row(b, l, b->logits + (l->logit0 + row) * b->vocab, row)) row++;
}

void pawl__batch_choose_first(pawl_batch *b, pawl_lane *lane, const float *logits)
{
    lane->n_out = lane->accepted = 0;
    lane->k = 0;
    lane->status = PAWL_OK;
    accept_row(b, lane, logits, 0);
}

/* ---- the draft layer --------------------------------------------------------------------------------------------- */

/* The draft layer over the first n segments: their hidden states are in draft_in, the tokens after them in ids. Logits are
 * those of each segment's last row. */
static pawl_status run_draft(pawl_batch *b, int n, int32_t m, int with_logits, pawl_exec *ex, pawl_err *err)
{
    if (with_logits)
        for (int i = 0; i < n; i++) b->logit_rows[i] = b->segs[i].row0 + b->segs[i].rows - 1;
    pawl_forward f = {.m = m,
                      .ids = b->ids,
                      .segs = b->segs,
                      .n_segs = n,
                      .pages = b->table,
                      .hidden_in = b->draft_in,
                      .hidden = b->draft_out,
                      .logit_rows = b->logit_rows,
                      .n_logits = with_logits ? n : 0,
                      .logits = b->draft_logits};
    return pawl__net_draft(b->net, b->st, &f, ex, err);
}

static void add_segment(pawl_batch *b, int i, const pawl_lane *l, int32_t row0, int32_t rows, int64_t pos)
{
    b->segs[i] = (pawl_seg){
        .row0 = row0, .rows = rows, .pos0 = (int32_t)pos, .slot = l->slot, .page0 = l->slot * (int32_t)b->pages_a_lane};
}

/* Brings the draft layer of lanes [0, n) up to `done` less `leave` positions; the hidden states are those that wait. More
 * than fit go in several calls, and then no logits can be asked for. */
static pawl_status follow_pending(pawl_batch *b, pawl_lane **lanes, int n, int leave, int with_logits, pawl_exec *ex,
                                  pawl_err *err)
{
    size_t width = (size_t)b->hidden_width;
    for (int first = 0; first < n;) {
        int32_t m = 0;
        int count = 0;
        for (; first + count < n; count++) {
            pawl_lane *l = lanes[first + count];
            int32_t rows = (int32_t)(l->done - l->draft_done) - leave;
            if (m + rows > b->opt.max_rows) break;
            memcpy(b->draft_in + (size_t)m * width, l->hidden, (size_t)rows * width * sizeof(float));
            memmove(l->hidden, l->hidden + (size_t)rows * width, (size_t)leave * width * sizeof(float));
            memcpy(b->ids + m, l->tokens + l->draft_done + 1, (size_t)rows * sizeof *b->ids);
            add_segment(b, count, l, m, rows, l->draft_done);
            l->draft_done += rows;
            m += rows;
        }
        if (with_logits && count < n) return pawl__fail(err, PAWL_EINTERNAL, "drafting for %d lanes does not fit", n);
        PAWL_TRY(run_draft(b, count, m, with_logits, ex, err));
        first += count;
    }
    return PAWL_OK;
}

/* Keeps the hidden states that the draft layer has not taken, at the front of the lane's store. */
static void keep_hidden(pawl_batch *b, pawl_lane *l, const float *rows, int64_t n_rows)
{
    size_t width = (size_t)b->hidden_width;
    int64_t waiting = l->done - l->draft_done - n_rows;
    memcpy(l->hidden + waiting * b->hidden_width, rows, (size_t)n_rows * width * sizeof(float));
}

/* Drafts k tokens for each lane that wants some. The chain's first row follows what waits, with logits; each further row
 * takes the draft layer's own output for the target's hidden state. */
static pawl_status draft(pawl_batch *b, pawl_lane *const *lanes, int n, pawl_batch_times *times, pawl_exec *ex,
                         pawl_err *err)
{
    int active = 0;
    int32_t m = 0;
    size_t width = (size_t)b->hidden_width;
    for (int i = 0; i < n; i++) {
        pawl_lane *l = lanes[i];
        if (l->rows > 0 || l->k == 0) continue;
        int32_t rows = (int32_t)(l->done - l->draft_done);
        if (m + rows > b->opt.max_rows)
            l->k = 0;
        else
            m += rows;
        if (l->k > 0) b->group[active++] = l;
    }
    if (active == 0) return PAWL_OK;
    PAWL_TRY(follow_pending(b, b->group, active, 0, 1, ex, err));
    for (int place = 0; active > 0; place++) {
        times->draft_calls++;
        b->draft_place = place;
        pawl__pool_run(ex->pool, active, choose_draft, b);
        int left = 0;
        for (int i = 0; i < active; i++) {
            pawl_lane *l = b->group[i];
            if (l->k <= place + 1) continue;
            int32_t from = b->segs[i].row0 + b->segs[i].rows - 1;
            memcpy(b->draft_in + (size_t)left * width, b->draft_out + (size_t)from * width, width * sizeof(float));
            b->ids[left] = l->drafts[place];
            b->group[left++] = l;
        }
        active = left;
        for (int i = 0; i < active; i++) add_segment(b, i, b->group[i], i, 1, b->group[i]->done + place);
        if (active > 0) PAWL_TRY(run_draft(b, active, active, 1, ex, err));
    }
    for (int i = 0; i < n; i++)
        for (int j = lanes[i]->rows > 0 ? 0 : lanes[i]->k; j-- > 0;)
            pawl__sampler_remove(lanes[i]->sampler, lanes[i]->drafts[j]);
    return PAWL_OK;
}

/* Lanes whose draft layer would fall too far behind in this step. */
static pawl_status catch_up(pawl_batch *b, pawl_lane *const *lanes, int n, pawl_exec *ex, pawl_err *err)
{
    int late = 0;
    for (int i = 0; i < n; i++) {
        pawl_lane *l = lanes[i];
        if (l->rows > 0 || l->k > 0) continue;
        if (l->done - l->draft_done + 1 > PAWL_LANE_PENDING) b->group[late++] = l;
    }
    return follow_pending(b, b->group, late, 1, 0, ex, err);
}

/* ---- the target -------------------------------------------------------------------------------------------------- */

static pawl_status run_target(pawl_batch *b, pawl_lane *const *lanes, int n, pawl_batch_times *times, pawl_exec *ex,
                              pawl_err *err)
{
    int32_t m = 0, n_logits = 0, log = 0;
    for (int i = 0; i < n; i++) {
        pawl_lane *l = lanes[i];
        int32_t rows = l->rows > 0 ? l->rows : l->k + 1;
        add_segment(b, i, l, m, rows, l->done);
        memcpy(b->ids + m, l->tokens + l->done, (size_t)rows * sizeof *b->ids); /* drafts lie behind the last token */
        if (l->rows == 0 && l->k > 0) {
            b->segs[i].verify = 1;
            b->segs[i].log0 = log;
            log += rows;
        }
        l->row0 = m;
        l->logit0 = n_logits;
        int32_t wanted = l->rows == 0 || l->prompt_logprobs ? rows : l->choose ? 1 : 0;
        if (n_logits + wanted > b->opt.max_logits || m + rows > b->opt.max_rows)
            return pawl__fail(err, PAWL_EINTERNAL, "a step of %d rows and %d logits does not fit", m + rows,
                              n_logits + wanted);
        for (int32_t r = rows - wanted; r < rows; r++) b->logit_rows[n_logits++] = m + r;
        m += rows;
        l->last_logits = wanted ? b->logits + (n_logits - 1) * b->vocab : NULL;
    }
    times->rows = m;
    pawl_forward f = {.m = m,
                      .ids = b->ids,
                      .segs = b->segs,
                      .n_segs = n,
                      .pages = b->table,
                      .hidden = b->hidden,
                      .logit_rows = b->logit_rows,
                      .n_logits = n_logits,
                      .logits = b->logits};
    return pawl__net_forward(b->net, b->st, &f, ex, err);
}

/* After prefill rows: the draft layer follows, all but the last position: its next token may not be known, and a chain of
 * drafts begins with it. What waited comes first. */
static pawl_status follow_prefill(pawl_batch *b, pawl_lane *const *lanes, int n, pawl_exec *ex, pawl_err *err)
{
    size_t width = (size_t)b->hidden_width;
    for (int first = 0; first < n;) {
        int32_t m = 0;
        int count = 0, i = first;
        for (; i < n; i++) {
            pawl_lane *l = lanes[i];
            int64_t waiting = l->done - l->draft_done;
            int32_t rows = (int32_t)waiting + l->rows - 1;
            if (l->rows == 0 || rows == 0) continue;
            if (m + rows > b->opt.max_rows) break;
            float *in = b->draft_in + (size_t)m * width;
            memcpy(in, l->hidden, (size_t)waiting * width * sizeof(float));
            memcpy(in + (size_t)waiting * width, b->hidden + (size_t)l->row0 * width,
                   (size_t)(rows - waiting) * width * sizeof(float));
            memcpy(b->ids + m, l->tokens + l->draft_done + 1, (size_t)rows * sizeof *b->ids);
            add_segment(b, count++, l, m, rows, l->draft_done);
            l->draft_done += rows;
            m += rows;
        }
        if (count > 0) PAWL_TRY(run_draft(b, count, m, 0, ex, err));
        first = i;
    }
    return PAWL_OK;
}

pawl_status pawl__batch_compute(pawl_batch *b, pawl_lane *const *lanes, int n, pawl_batch_times *times, pawl_exec *ex,
                                pawl_err *err)
{
    memset(times, 0, sizeof *times);
    for (int i = 0; i < n; i++) {
        lanes[i]->status = PAWL_OK;
        lanes[i]->n_out = lanes[i]->accepted = 0;
        if (!b->opt.keep_draft || lanes[i]->rows > 0) lanes[i]->k = 0;
    }
    double t0 = now();
    if (b->opt.keep_draft) {
        PAWL_TRY(draft(b, lanes, n, times, ex, err));
        PAWL_TRY(catch_up(b, lanes, n, ex, err));
    }
    double t1 = now();
    PAWL_TRY(run_target(b, lanes, n, times, ex, err));
    accept_job job = {b, lanes};
    pawl__pool_run(ex->pool, n, accept_lane, &job);
    times->draft_seconds = t1 - t0;
    times->target_seconds = now() - t1;
    return PAWL_OK;
}

pawl_status pawl__batch_commit(pawl_batch *b, pawl_lane *const *lanes, int n, pawl_exec *ex, pawl_err *err)
{
    int verified = 0;
    int32_t log = 0;
    if (b->opt.keep_draft) PAWL_TRY(follow_prefill(b, lanes, n, ex, err));
    for (int i = 0; i < n; i++) {
        pawl_lane *l = lanes[i];
        if (l->rows > 0 || l->k == 0) continue;
        b->segs[verified++] = (pawl_seg){.rows = l->n_out, .slot = l->slot, .log0 = log};
        log += l->k + 1;
    }
    if (verified > 0) PAWL_TRY(pawl__net_commit(b->net, b->st, b->segs, verified, ex, err));
    for (int i = 0; i < n; i++) {
        pawl_lane *l = lanes[i];
        int64_t rows = l->rows > 0 ? l->rows : l->n_out;
        if (rows == 0) continue;
        l->done += rows;
        if (!b->opt.keep_draft) {
            l->draft_done = l->done;
        } else if (l->rows > 0) {
            memcpy(l->hidden, b->hidden + (l->row0 + rows - 1) * b->hidden_width,
                   (size_t)b->hidden_width * sizeof(float));
        } else {
            keep_hidden(b, l, b->hidden + l->row0 * b->hidden_width, rows);
        }
    }
    return PAWL_OK;
}

const float *pawl__batch_last_hidden(const pawl_batch *b, const pawl_lane *lane)
{
    int64_t waiting = b->opt.keep_draft ? lane->done - lane->draft_done : 1;
    return lane->hidden + (waiting - 1) * b->hidden_width;
}

pawl_status pawl__batch_settle(pawl_batch *b, pawl_lane *lane, pawl_exec *ex, pawl_err *err)
{
    if (!b->opt.keep_draft || lane->done - lane->draft_done < 2) return PAWL_OK;
    return follow_pending(b, &lane, 1, 1, 0, ex, err);
}
