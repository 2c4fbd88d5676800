/* Memory: who is admitted, who gives way, what the prefix cache keeps. */
#include "engine/serve.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

static int64_t pages_for(int64_t positions)
{
    return (positions + PAWL_KV_PAGE - 1) / PAWL_KV_PAGE;
}

/* ---- leaving ----------------------------------------------------------------------------------------------------- */

void pawl__serve_save(pawl_engine *e, pawl_choice *c, const float *logits)
{
    pawl_lane *l = &c->lane;
    if (!e->prefix || l->done < 1 || (l->done <= c->saved && !logits)) return;
    pawl_err err;
    pthread_mutex_lock(&e->model->step);
    pawl_status settled = pawl__batch_settle(e->batch, l, &e->model->exec, &err);
    pthread_mutex_unlock(&e->model->step);
    if (settled != PAWL_OK) return; /* only a later request would have gained */
    pawl__prefix_insert(e->prefix, c->request->tenant, l->tokens, l->done, l->pages, l->slot,
                        pawl__batch_last_hidden(e->batch, l), logits);
    c->saved = l->done;
}

void pawl__serve_leave(pawl_engine *e, pawl_choice *c, int state)
{
    if (c->state == CHOICE_RUNNING) {
        int at = 0;
        while (e->running[at] != c) at++;
        e->n_running--;
        memmove(e->running + at, e->running + at + 1, (size_t)(e->n_running - at) * sizeof(pawl_choice *));
        pawl__batch_leave(e->batch, &c->lane);
    }
    c->state = state;
}

static void preempt(pawl_engine *e, pawl_choice *c)
{
    pawl__serve_save(e, c, NULL);
    pawl__serve_leave(e, c, CHOICE_WAITING);
    c->saved = 0;
    c->request->usage.preempted++;
    e->now.preemptions++;
}

/* Who gives way: the lowest priority, then the last to come. */
static pawl_choice *victim(const pawl_engine *e)
{
    pawl_choice *worst = NULL;
    for (int i = 0; i < e->n_running; i++) {
        pawl_choice *c = e->running[i];
        if (!c->ending && (!worst || pawl__ticket_before(&worst->ticket, &c->ticket, 0))) worst = c;
    }
    return worst;
}

static int take_pages(pawl_engine *e, pawl_lane *l, int64_t n)
{
    if (pawl__kv_free(e->kv) < n && !(e->prefix && pawl__prefix_make_room(e->prefix, n))) return 0;
    pawl__kv_take(e->kv, n, l->pages + l->n_pages);
    l->n_pages += n;
    return 1;
}

int pawl__serve_reserve(pawl_engine *e, pawl_choice *c, int64_t end)
{
    pawl_lane *l = &c->lane;
    int64_t need = pages_for(end) - l->n_pages;
    while (need > 0 && !take_pages(e, l, need)) {
        pawl_choice *v = victim(e);
        preempt(e, v);
        if (v == c) return 0;
    }
    return 1;
}

/* ---- admission --------------------------------------------------------------------------------------------------- */

/* What a choice needs beside pages and a slot, once. */
static pawl_status prepare(pawl_engine *e, pawl_choice *c, pawl_err *err)
{
    pawl_request *r = c->request;
    pawl_lane *l = &c->lane;
    if (l->tokens) return PAWL_OK;
    uint64_t seed = r->sampling.seed + (uint64_t)c->index;
    if (c->index > 0) seed = pawl__mix64(seed);
    PAWL_TRY(pawl__sampling_create(e->model, &r->sampling, seed, &l->sampler, err));
    pawl__sampler_add_prompt(l->sampler, r->prompt, r->opt.n_prompt);
    PAWL_TRY(pawl__sampler_forbid(l->sampler, r->ends, r->n_ends, (int64_t)r->opt.n_prompt + r->opt.min_tokens, err));
    l->logprobs = r->opt.logprobs;
    l->top = r->opt.top_logprobs;
    if (l->top > 0) l->out_top = calloc((size_t)(PAWL_LANE_OUT * l->top), sizeof *l->out_top);
    int32_t *tokens = malloc((size_t)(c->limit + PAWL_LANE_OUT) * sizeof *tokens);
    if (!tokens || (l->top > 0 && !l->out_top)) {
        free(tokens);
        return pawl__fail(err, PAWL_ENOMEM, "request: out of memory for %lld tokens", (long long)c->limit);
    }
    memcpy(tokens, r->prompt, r->opt.n_prompt * sizeof *tokens);
    l->tokens = tokens;
    l->n = (int64_t)r->opt.n_prompt;
    l->think = (pawl_think){.prompt = l->n,
                            .budget = r->opt.n_think_end ? r->opt.think_budget : -1,
                            .ids = r->think_end,
                            .n = (int64_t)r->opt.n_think_end};
    if (c->index == 0 && r->prompt_lp) {
        l->prompt_logprobs = l->n;
        l->prompt_lp = r->prompt_lp;
        l->prompt_top = r->prompt_top;
    }
    return PAWL_OK;
}

/* Takes over what the prefix cache has: shares whole pages, copies the last. 0: no page for the copy. */
static int use_prefix(pawl_engine *e, pawl_choice *c, pawl_prefix_hit *hit)
{
    pawl_lane *l = &c->lane;
    /* A choice that goes on has chosen its last token: only what lies before it counts. */
    int64_t n = c->started ? l->n - 1 : l->n;
    memset(hit, 0, sizeof *hit);
    if (!e->prefix || l->prompt_logprobs || n < 1) return 1;
    pawl__prefix_find(e->prefix, c->request->tenant, l->tokens, c->started ? l->n : n, e->found, hit);
    if (!c->started) e->now.prefix_lookups += n;
    if (hit->len == 0) return 1;
    if (hit->len > n) hit->len = 0; /* all of a sequence that goes on: its last token must be computed */
    if (hit->len == 0) return 1;
    int64_t whole = (hit->len - 1) / PAWL_KV_PAGE;
    pawl__slots_load(e->slots, l->slot, hit->state);
    memcpy(l->hidden, hit->hidden, (size_t)pawl__net_dims(e->model->net)->hidden * sizeof(float));
    memcpy(l->pages, e->found, (size_t)whole * sizeof *l->pages);
    pawl__kv_hold(e->kv, l->pages, whole);
    l->n_pages = whole;
    l->done = hit->len;
    l->draft_done = hit->len - 1;
    c->saved = hit->len;
    if (hit->logits && !c->started && hit->len == l->n) pawl__batch_choose_first(e->batch, l, hit->logits);
    /* Room may be made at the cost of the very checkpoint; its last page must not go before it is copied. */
    int32_t last = e->found[whole];
    pawl__kv_hold(e->kv, &last, 1);
    int ok = take_pages(e, l, 1);
    if (ok) pawl__kv_copy(e->kv, last, l->pages[whole]);
    pawl__kv_give(e->kv, &last, 1);
    return ok;
}

/* Takes back a first token that was chosen from stored logits. */
static void unchoose(pawl_lane *l)
{
    while (l->n_out > 0) {
        pawl__sampler_remove(l->sampler, l->out[--l->n_out]);
        l->n--;
    }
}

/* 0: not now. */
static int admit(pawl_engine *e, pawl_choice *c)
{
    pawl_lane *l = &c->lane;
    pawl_err err;
    if (prepare(e, c, &err) != PAWL_OK) {
        pawl__serve_end_with(c, PAWL_END_ERROR, &err);
        return 1;
    }
    /* One page for each that runs, so that who comes does not at once drive out another. */
    int64_t held = 0, need = pages_for(l->n + 1) + e->n_running;
    for (int i = 0; i < e->n_running; i++) held += e->running[i]->lane.n_pages;
    if (need > pawl__kv_total(e->kv) - held && e->n_running > 0) return 0;
    if (pawl__batch_enter(e->batch, l) != PAWL_OK) return 0;
    pawl_prefix_hit hit;
    l->n_out = 0;
    l->last_logits = NULL;
    int64_t end = l->n + 1;
    if (!use_prefix(e, c, &hit) || !take_pages(e, l, pages_for(end) > l->n_pages ? pages_for(end) - l->n_pages : 0)) {
        unchoose(l);
        pawl__batch_leave(e->batch, l);
        return 0;
    }
    c->goal = c->started ? l->n - 1 : (int64_t)c->request->opt.n_prompt;
    c->next_end = 0;
    c->state = CHOICE_RUNNING;
    int at = e->n_running++;
    for (; at > 0 && e->running[at - 1]->ticket.order > c->ticket.order; at--) e->running[at] = e->running[at - 1];
    e->running[at] = c;
    if (!c->started) {
        if (c->index == 0) c->request->usage.cached_tokens = hit.len;
        e->now.prefix_hits += hit.len;
        e->now.cached_tokens += hit.len;
        e->now.prompt_tokens += l->n - l->n_out;
    }
    return 1;
}

/* The other choices wait for the first one's prompt, which they will find in the prefix cache. */
static int may_start(const pawl_engine *e, const pawl_choice *c)
{
    return c->state == CHOICE_WAITING && !c->ending && (c->index == 0 || !e->prefix || c->request->prefilled);
}

void pawl__serve_admit(pawl_engine *e)
{
    double now = pawl__serve_now();
    while (e->n_running < e->opt.max_seqs) {
        pawl_choice *best = NULL;
        for (int64_t i = 0; i < e->n_all; i++) {
            pawl_choice *c = e->all[i];
            if (may_start(e, c) && (!best || pawl__ticket_before(&c->ticket, &best->ticket, now))) best = c;
        }
        if (!best || !admit(e, best)) return;
    }
}
