/* What callers get: tokens with their text, ends, the last event. */
#include "engine/serve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void send(pawl_request *r, pawl_event *ev)
{
    ev->usage = &r->usage;
    ev->seed = r->sampling.seed;
    pthread_mutex_lock(&r->deliver);
    if (r->fn) r->fn(ev, r->user);
    pthread_mutex_unlock(&r->deliver);
}

void pawl__serve_end_with(pawl_choice *c, pawl_end end, const pawl_err *err)
{
    if (c->ending) return;
    c->ending = 1;
    c->end = end;
    if (err) c->err = *err;
}

static int is_end(const pawl_request *r, int32_t id)
{
    for (size_t i = 0; i < r->n_ends; i++)
        if (r->ends[i] == id) return 1;
    return 0;
}

/* Looks at one token: its text (as an offset into c->text, made a pointer later) and whether the choice ends with it. */
static void take_token(pawl_choice *c, int i, int64_t position)
{
    pawl_lane *l = &c->lane;
    pawl_event_token *t = &c->event_tokens[i];
    int32_t id = l->out[i];
    int ends = is_end(c->request, id), full = position + 1 == c->limit;
    const char *text;
    size_t n;
    pawl__stream_push(&c->stream, id, ends || full, &text, &n);
    if (n) pawl__buf_append(&c->text, text, n);
    *t = (pawl_event_token){.id = id,
                            .position = position,
                            .n_text = n,
                            .drafted = l->out_drafted[i],
                            .logprob = l->out_logprob[i],
                            .top = l->out_top ? l->out_top + i * l->top : NULL,
                            .n_top = l->top};
    if (ends) {
        c->stop_id = id;
        pawl__serve_end_with(c, PAWL_END_STOP, NULL);
    } else if (c->stream.stopped) {
        c->stop_text = c->stream.stop[c->stream.met];
        pawl__serve_end_with(c, PAWL_END_STOP, NULL);
    } else if (full) {
        pawl__serve_end_with(c, PAWL_END_LENGTH, NULL);
    }
}

static void count_round(pawl_engine *e, pawl_choice *c)
{
    pawl_lane *l = &c->lane;
    pawl_usage *u = &c->request->usage;
    pawl_engine_stats *s = &e->now;
    u->generated_tokens += l->n_out;
    s->generated_tokens += l->n_out;
    if (l->rows > 0 || !c->started) return; /* the first token comes from the prompt's logits */
    u->rounds++;
    s->rounds++;
    s->chosen[l->k]++;
    u->drafted += l->k;
    s->drafted += l->k;
    u->accepted += l->accepted;
    s->accepted += l->accepted;
    for (int i = 0; i < l->k; i++) {
        u->drafted_at[i]++;
        s->drafted_at[i]++;
    }
    for (int i = 0; i < l->accepted; i++) {
        u->accepted_at[i]++;
        s->accepted_at[i]++;
    }
    pawl__chances_learn(&c->chances, l->k, l->accepted);
    pawl__chances_learn(&e->chances, l->k, l->accepted);
}

void pawl__serve_take(pawl_engine *e, pawl_choice *c)
{
    pawl_lane *l = &c->lane;
    pawl_request *r = c->request;
    if (l->status != PAWL_OK) {
        pawl__serve_end_with(c, PAWL_END_ERROR, &l->err);
        return;
    }
    if (l->n_out == 0) return;
    int64_t base = l->n - l->n_out;
    int kept = 0, accepted = 0;
    pawl__buf_clear(&c->text);
    while (kept < l->n_out && !c->ending) {
        take_token(c, kept, base + kept);
        accepted += l->out_drafted[kept++];
    }
    l->n_out = kept;
    l->n = base + kept;
    l->accepted = accepted;
    count_round(e, c);
    if (!c->started && r->first == 0) {
        r->first = pawl__serve_now();
        r->usage.prefill_seconds = r->first - r->began;
    }
    c->started = 1;
    size_t at = 0;
    for (int i = 0; i < kept; i++) {
        c->event_tokens[i].text = c->text.data ? c->text.data + at : "";
        at += c->event_tokens[i].n_text;
    }
    if (c->text.failed) {
        pawl_err err;
        pawl__fail(&err, PAWL_ENOMEM, "text of a step: out of memory");
        pawl__serve_end_with(c, PAWL_END_ERROR, &err);
        return;
    }
    send(r, &(pawl_event){.kind = PAWL_EVENT_TOKENS,
                          .choice = c->index,
                          .tokens = c->event_tokens,
                          .n_tokens = (size_t)kept,
                          .stop_id = -1});
}

void pawl__serve_send_prompt(pawl_engine *e, pawl_choice *c)
{
    pawl_request *r = c->request;
    size_t n = r->opt.n_prompt;
    c->lane.prompt_logprobs = 0; /* once */
    pawl_event_token *tokens = calloc(n, sizeof *tokens);
    pawl_stream s = {.tokenizer = e->model->tokenizer, .keep_special = 1};
    pawl_buf text = {0};
    if (!tokens) return;
    for (size_t i = 0; i < n; i++) {
        const char *piece;
        pawl__stream_push(&s, r->prompt[i], i + 1 == n, &piece, &tokens[i].n_text);
        if (tokens[i].n_text) pawl__buf_append(&text, piece, tokens[i].n_text);
        tokens[i].id = r->prompt[i];
        tokens[i].position = (int64_t)i;
        tokens[i].logprob = r->prompt_lp[i];
        tokens[i].top = r->prompt_top + i * (size_t)r->opt.top_logprobs;
        tokens[i].n_top = i > 0 ? r->opt.top_logprobs : 0;
    }
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        tokens[i].text = text.data && !text.failed ? text.data + at : "";
        if (text.failed) tokens[i].n_text = 0;
        at += tokens[i].n_text;
    }
    send(r, &(pawl_event){.kind = PAWL_EVENT_PROMPT, .tokens = tokens, .n_tokens = n, .stop_id = -1});
    pawl__buf_free(&text);
    pawl__stream_free(&s);
    free(tokens);
}

static void count_end(pawl_engine_stats *s, pawl_end end)
{
    s->requests++;
    s->finished_stop += end == PAWL_END_STOP;
    s->finished_length += end == PAWL_END_LENGTH;
    s->canceled += end == PAWL_END_CANCELED;
    s->expired += end == PAWL_END_DEADLINE;
    s->failed += end == PAWL_END_ERROR;
}

void pawl__serve_finish(pawl_engine *e, pawl_choice *c)
{
    pawl_request *r = c->request;
    double now = pawl__serve_now();
    r->n_ended++;
    if (r->first > 0) r->usage.decode_seconds = now - r->first;
    pawl_event ev = {.kind = PAWL_EVENT_END,
                     .choice = c->index,
                     .end = c->end,
                     .stop_text = c->stop_text,
                     .stop_id = c->stop_id,
                     .err = c->end == PAWL_END_ERROR ? &c->err : NULL};
    send(r, &ev);
    if (r->n_ended < r->n) return;
    count_end(&e->now, c->end);
    ev.kind = PAWL_EVENT_DONE;
    ev.choice = 0;
    send(r, &ev);
    pthread_mutex_lock(&e->mutex);
    e->live--;
    if (r->began == 0) e->queued--;
    pthread_mutex_unlock(&e->mutex);
    pawl__request_unref(r);
}
