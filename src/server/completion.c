/* One request for completions, from its JSON to its last byte.
 *
 * Each prompt is a request of the engine, with n choices. The engine's thread copies events into `incoming` under the lock
 * and puts the completion on the server's dirty list; the loop takes them from there, and writes chunks or gathers the one
 * answer. A client that does not read makes the events wait in `incoming`; the write timeout then ends it.
 *
 * Freeing: pawl_request_free first, after which no event runs or comes; then nobody but the loop knows the completion. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/events.h"
#include "server/internal.h"
#include "server/json_text.h"
#include "server/openai.h"
#include "server/reasoning.h"

enum { MAX_PENDING = 64 << 10 }; /* bytes that may wait for a client before its events do */

typedef struct part {
    completion *owner;
    pawl_request *handle;
    pawl_prompt prompt;
    int index, done;
} part;

typedef struct choice {
    reasoning split;
    pawl_buf text, thoughts; /* whole answer: all so far; stream: of the event at hand */
    openai_logprobs logprobs;
    double last; /* when its latest token came; 0: none yet */
    pawl_end end;
} choice;

struct completion {
    call *call;
    pawl_server *server;
    openai_request q;
    int chat;
    part *parts;
    size_t n_parts, n_done;
    choice *choices; /* [n_parts][n] */
    size_t n_choices;
    pawl_buf head, out, work;
    event_reader reader;
    openai_usage usage;
    double first, last_sent;
    int blocked;       /* the client has to read first */
    char failure[500]; /* why it cannot go on */
    int failure_status;

    /* shared with the engine's thread */
    pthread_mutex_t lock;
    pawl_buf incoming;
    int dirty;
    completion *next_dirty; /* under the server's lock */
};

/* ---- from the engine's thread ------------------------------------------------------------------------------------ */

static void on_event(const pawl_event *e, void *user)
{
    part *t = user;
    completion *p = t->owner;
    pawl_server *s = p->server;
    pthread_mutex_lock(&p->lock);
    event_write(&p->incoming, e, t->index, server_now());
    int news = !p->dirty;
    p->dirty = 1;
    pthread_mutex_unlock(&p->lock);
    if (!news) return;
    pthread_mutex_lock(&s->lock);
    int wake = s->dirty == NULL; /* otherwise somebody has: one wake-up a step, however many requests it serves */
    p->next_dirty = s->dirty;
    s->dirty = p;
    pthread_mutex_unlock(&s->lock);
    if (wake) server_wake(s);
}

static void fail(completion *p, int status, const char *why)
{
    snprintf(p->failure, sizeof p->failure, "%s", why);
    p->failure_status = status;
}

/* ---- chunks ------------------------------------------------------------------------------------------------------ */

static void begin_chunk(completion *p, size_t index)
{
    pawl__buf_puts(&p->out, "data: ");
    pawl__buf_append(&p->out, p->head.data, p->head.len);
    pawl__buf_printf(&p->out, "{\"index\":%zu,", index);
}

static void end_chunk(completion *p, const char *finish)
{
    if (finish)
        pawl__buf_printf(&p->out, ",\"finish_reason\":\"%s\"}]", finish);
    else
        pawl__buf_puts(&p->out, ",\"finish_reason\":null}]");
    pawl__buf_puts(&p->out, p->q.include_usage ? ",\"usage\":null}\n\n" : "}\n\n");
}

static void role_chunks(completion *p)
{
    for (size_t i = 0; p->chat && i < p->n_choices; i++) {
        begin_chunk(p, i);
        pawl__buf_puts(&p->out, "\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null");
        end_chunk(p, NULL);
    }
}

/* What the choice has gathered, as one chunk; nothing when there is nothing and it goes on. */
static void write_chunk(completion *p, size_t index, const char *finish)
{
    choice *c = &p->choices[index];
    if (!c->text.len && !c->thoughts.len && !c->logprobs.content.len && !c->logprobs.tokens.len && !finish) return;
    begin_chunk(p, index);
    if (p->chat) {
        pawl__buf_puts(&p->out, "\"delta\":{");
        if (c->thoughts.len) {
            pawl__buf_puts(&p->out, "\"reasoning_content\":");
            json_text_string(&p->out, c->thoughts.data, c->thoughts.len);
        }
        if (c->text.len) {
            pawl__buf_puts(&p->out, c->thoughts.len ? ",\"content\":" : "\"content\":");
            json_text_string(&p->out, c->text.data, c->text.len);
        }
        pawl__buf_puts(&p->out, "},");
    } else {
        pawl__buf_puts(&p->out, "\"text\":");
        json_text_string(&p->out, c->text.data, c->text.len);
        pawl__buf_putc(&p->out, ',');
    }
    openai_write_logprobs(&p->out, p->chat, &c->logprobs);
    end_chunk(p, finish);
    p->out.failed |= c->text.failed | c->thoughts.failed;
    pawl__buf_clear(&c->text);
    pawl__buf_clear(&c->thoughts);
}

static void flush(completion *p)
{
    if (p->out.len == 0 && !p->out.failed) return;
    if (p->out.failed) fail(p, 500, "out of memory");
    call_stream_send(p->call, &p->out);
    pawl__buf_clear(&p->out);
    p->last_sent = server_now();
}

/* ---- the whole answer -------------------------------------------------------------------------------------------- */

static void write_choice(completion *p, size_t index)
{
    choice *c = &p->choices[index];
    pawl_buf *b = &p->out;
    pawl__buf_printf(b, "%s{\"index\":%zu,", index ? "," : "", index);
    if (p->chat) {
        pawl__buf_puts(b, "\"message\":{\"role\":\"assistant\",\"content\":");
        json_text_string(b, c->text.data, c->text.len);
        if (c->thoughts.len) {
            pawl__buf_puts(b, ",\"reasoning_content\":");
            json_text_string(b, c->thoughts.data, c->thoughts.len);
        }
        pawl__buf_puts(b, ",\"refusal\":null},");
    } else {
        pawl__buf_puts(b, "\"text\":");
        json_text_string(b, c->text.data, c->text.len);
        pawl__buf_putc(b, ',');
    }
    openai_write_logprobs(b, p->chat, &c->logprobs);
    pawl__buf_printf(b, ",\"finish_reason\":\"%s\"}", openai_finish_reason(c->end));
    b->failed |= c->text.failed | c->thoughts.failed;
}

static void answer_whole(completion *p)
{
    call *c = p->call;
    pawl_buf body = {0};
    pawl__buf_append(&p->out, p->head.data, p->head.len);
    for (size_t i = 0; i < p->n_choices; i++) write_choice(p, i);
    pawl__buf_puts(&p->out, "],");
    openai_write_usage(&p->out, &p->usage);
    pawl__buf_puts(&p->out, "}");
    if (p->out.failed) {
        call_error(c, 500, NULL, NULL, "out of memory");
        return;
    }
    body = p->out;
    p->out = (pawl_buf){0};
    call_reply(c, 200, "application/json", &body); /* frees the completion */
    pawl__buf_free(&body);
}

static void end_stream(completion *p)
{
    call *c = p->call;
    if (p->failure[0]) {
        pawl__buf_puts(&p->out, "data: ");
        json_text_error(&p->out, "server_error", NULL, NULL, p->failure);
        pawl__buf_puts(&p->out, "\n\n");
    } else {
        if (p->q.include_usage) {
            pawl__buf_puts(&p->out, "data: ");
            pawl__buf_append(&p->out, p->head.data, p->head.len);
            pawl__buf_puts(&p->out, "],");
            openai_write_usage(&p->out, &p->usage);
            pawl__buf_puts(&p->out, "}\n\n");
        }
        pawl__buf_puts(&p->out, "data: [DONE]\n\n");
    }
    flush(p);
    call_stream_end(c); /* frees the completion */
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static void add_text(completion *p, choice *c, const pawl_event_token *t)
{
    if (!p->chat || !p->q.split_reasoning) {
        pawl__buf_append(&c->text, t->text, t->n_text);
        return;
    }
    p->usage.reasoning_tokens += c->split.state == REASONING_OPEN;
    reasoning_push(&c->split, t->text, t->n_text, &c->thoughts, &c->text);
}

static void take_tokens(completion *p, size_t index, const event_record *r)
{
    choice *c = &p->choices[index];
    pawl_metrics *m = &p->server->metrics;
    const pawl_event *e = &r->event;
    if (!p->first) {
        p->first = r->when;
        pawl__histogram_add(&m->ttft, r->when - p->call->started);
    }
    for (size_t i = 0; i < e->n_tokens; i++) {
        add_text(p, c, &e->tokens[i]);
        if (p->q.want_logprobs) openai_logprobs_add(&c->logprobs, p->chat, p->server->served.model, &e->tokens[i]);
        if (c->last) pawl__histogram_add(&m->inter_token, (r->when - c->last) / (double)e->n_tokens);
    }
    c->last = r->when;
    if (p->q.stream) write_chunk(p, index, NULL);
}

static void take_end(completion *p, size_t index, const pawl_event *e)
{
    choice *c = &p->choices[index];
    c->end = e->end;
    p->server->metrics.finished[e->end]++;
    if (p->chat && p->q.split_reasoning) reasoning_finish(&c->split, &c->thoughts, &c->text);
    if (e->end == PAWL_END_ERROR)
        fail(p, 500, e->err ? e->err->text : "the engine failed");
    else if (e->end == PAWL_END_CANCELED)
        fail(p, 503, "the server is going down");
    else if (p->q.stream)
        write_chunk(p, index, openai_finish_reason(e->end));
}

static void take_done(completion *p, const event_record *r)
{
    const pawl_usage *u = r->event.usage;
    pawl_usage *sum = &p->usage.engine;
    pawl_metrics *m = &p->server->metrics;
    p->parts[r->prompt].done = 1;
    p->n_done++;
    if (r->prompt == 0) p->usage.seed = r->event.seed;
    sum->prompt_tokens += u->prompt_tokens;
    sum->cached_tokens += u->cached_tokens;
    sum->generated_tokens += u->generated_tokens;
    sum->rounds += u->rounds;
    sum->drafted += u->drafted;
    sum->accepted += u->accepted;
    sum->preempted += u->preempted;
    sum->queue_seconds += u->queue_seconds;
    sum->prefill_seconds += u->prefill_seconds;
    sum->decode_seconds += u->decode_seconds;
    for (int i = 0; i < PAWL_MAX_DRAFT; i++) {
        sum->drafted_at[i] += u->drafted_at[i];
        sum->accepted_at[i] += u->accepted_at[i];
    }
    pawl__histogram_add(&m->queue, u->queue_seconds);
    pawl__histogram_add(&m->prefill, u->prefill_seconds);
    pawl__histogram_add(&m->decode, u->decode_seconds);
    pawl__histogram_add(&m->prompt_tokens, (double)u->prompt_tokens);
    pawl__histogram_add(&m->generation_tokens, (double)u->generated_tokens);
    pawl__histogram_add(&m->e2e, r->when - p->call->started);
}

static void take_prompt(completion *p, const event_record *r)
{
    const size_t n = (size_t)p->q.options.n;
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < r->event.n_tokens; i++)
            openai_logprobs_add(&p->choices[(size_t)r->prompt * n + k].logprobs, p->chat, p->server->served.model,
                                &r->event.tokens[i]);
}

static void take_event(completion *p, const event_record *r)
{
    const pawl_event *e = &r->event;
    size_t index = (size_t)r->prompt * (size_t)p->q.options.n + (size_t)e->choice;
    switch (e->kind) {
    case PAWL_EVENT_PROMPT:
        take_prompt(p, r);
        break;
    case PAWL_EVENT_TOKENS:
        take_tokens(p, index, r);
        break;
    case PAWL_EVENT_END:
        take_end(p, index, e);
        break;
    case PAWL_EVENT_DONE:
        take_done(p, r);
        break;
    }
}

/* Works off what has come, unless the client has to read first. May end and free the completion. */
static void advance(completion *p)
{
    if (p->q.stream && call_pending(p->call) > MAX_PENDING) {
        p->blocked = 1;
        return;
    }
    pthread_mutex_lock(&p->lock);
    pawl_buf incoming = p->incoming;
    p->incoming = p->work;
    p->work = incoming;
    p->dirty = 0;
    pthread_mutex_unlock(&p->lock);
    event_record r;
    while (event_next(&p->reader, &p->work, &r)) take_event(p, &r);
    int lost = p->work.failed;
    pawl__buf_clear(&p->work);
    if (lost) fail(p, 500, "out of memory");
    if (p->n_done < p->n_parts && !p->failure[0]) {
        if (p->q.stream) flush(p);
        return;
    }
    if (p->q.stream)
        end_stream(p);
    else if (p->failure[0])
        call_error(p->call, p->failure_status, NULL, NULL, p->failure);
    else
        answer_whole(p);
}

void completions_pump(pawl_server *s)
{
    for (;;) {
        pthread_mutex_lock(&s->lock);
        completion *p = s->dirty;
        if (p) s->dirty = p->next_dirty;
        pthread_mutex_unlock(&s->lock);
        if (!p) return;
        if (p->blocked) {
            pthread_mutex_lock(&p->lock);
            p->dirty = 0;
            pthread_mutex_unlock(&p->lock);
        } else {
            advance(p);
        }
    }
}

void completion_drained(completion *p)
{
    if (!p->blocked || call_pending(p->call) > MAX_PENDING) return;
    p->blocked = 0;
    advance(p);
}

void completion_ping(completion *p, double now)
{
    const struct timeval *t = &p->server->ping_time;
    if (!p->call->streaming || p->blocked || now - p->last_sent < (double)t->tv_sec + 1e-6 * (double)t->tv_usec) return;
    pawl__buf_puts(&p->out, ": ping\n\n");
    flush(p);
}

/* ---- beginning and ending ---------------------------------------------------------------------------------------- */

void completion_free(completion *p)
{
    pawl_server *s = p->server;
    for (size_t i = 0; i < p->n_parts; i++) {
        if (p->parts[i].handle) pawl_request_free(&p->parts[i].handle);
        pawl_prompt_free(&p->parts[i].prompt);
    }
    if (p->n_done < p->n_parts && p->call->status == 499) s->metrics.dropped++;
    pthread_mutex_lock(&s->lock);
    completion **at = &s->dirty;
    while (*at && *at != p) at = &(*at)->next_dirty;
    if (*at) *at = p->next_dirty;
    pthread_mutex_unlock(&s->lock);
    for (size_t i = 0; i < p->n_choices; i++) {
        reasoning_free(&p->choices[i].split);
        pawl__buf_free(&p->choices[i].text);
        pawl__buf_free(&p->choices[i].thoughts);
        openai_logprobs_free(&p->choices[i].logprobs);
    }
    free(p->choices);
    free(p->parts);
    openai_request_free(&p->q);
    event_reader_free(&p->reader);
    pawl__buf_free(&p->head);
    pawl__buf_free(&p->out);
    pawl__buf_free(&p->work);
    pawl__buf_free(&p->incoming);
    pthread_mutex_destroy(&p->lock);
    p->call->completion = NULL;
    free(p);
}

static pawl_status make_chat_prompt(completion *p, pawl_err *err)
{
    const pawl_served *v = &p->server->served;
    if (!v->chat) return pawl__fail(err, PAWL_EUNSUPPORTED, "this model has no chat template; use /v1/completions");
    char *messages = json_dumps(p->q.messages, JSON_COMPACT);
    char *tools = p->q.tools ? json_dumps(p->q.tools, JSON_COMPACT) : NULL;
    char *kwargs = p->q.kwargs ? json_dumps(p->q.kwargs, JSON_COMPACT) : NULL;
    pawl_chat_options o = PAWL_INIT(pawl_chat_options);
    o.tools = tools;
    o.kwargs = kwargs;
    o.continue_final = p->q.continue_final;
    o.parse_special = p->server->parse_special;
    p->parts[0].prompt = PAWL_INIT(pawl_prompt);
    pawl_status st = !messages || (p->q.tools && !tools) || (p->q.kwargs && !kwargs)
                         ? pawl__fail(err, PAWL_ENOMEM, "out of memory")
                         : pawl_chat_prompt(v->chat, messages, &o, &p->parts[0].prompt, err);
    free(messages);
    free(tools);
    free(kwargs);
    return st;
}

/* The ids of a prompt of /v1/completions; with echo its text is the beginning of each choice's. */
static pawl_status make_prompt(completion *p, size_t i, pawl_err *err)
{
    const pawl_model *m = p->server->served.model;
    openai_prompt *q = &p->q.prompts[i];
    pawl_prompt *prompt = &p->parts[i].prompt;
    if (q->text) {
        unsigned flags = p->server->parse_special ? PAWL_TOKENIZE_SPECIAL : 0;
        PAWL_TRY(pawl_tokenize(m, q->text, q->n_text, flags, &prompt->ids, &prompt->n_ids, err));
    } else {
        prompt->ids = q->ids;
        prompt->n_ids = q->n_ids;
        q->ids = NULL;
    }
    if (!p->q.echo) return PAWL_OK;
    char *text;
    size_t n;
    PAWL_TRY(pawl_detokenize(m, prompt->ids, prompt->n_ids, 0, &text, &n, err));
    for (int k = 0; k < p->q.options.n; k++)
        pawl__buf_append(&p->choices[i * (size_t)p->q.options.n + (size_t)k].text, text, n);
    pawl_free(text);
    return PAWL_OK;
}

static pawl_status submit(completion *p, size_t i, pawl_err *err)
{
    static const char close_tag[] = "</think>";
    part *t = &p->parts[i];
    pawl_request_options o = p->q.options;
    int32_t *end = NULL;
    size_t n_end = 0;
    o.prompt = t->prompt.ids;
    o.n_prompt = t->prompt.n_ids;
    o.message_ends = t->prompt.message_ends;
    o.n_message_ends = t->prompt.n_message_ends;
    o.tenant = p->call->tenant[0] ? p->call->tenant : NULL;
    if (!t->prompt.thinking) o.think_budget = -1;
    if (o.think_budget >= 0) {
        PAWL_TRY(pawl_tokenize(p->server->served.model, close_tag, sizeof close_tag - 1, PAWL_TOKENIZE_SPECIAL, &end,
                               &n_end, err));
        o.think_end = end;
        o.n_think_end = n_end;
    }
    pawl_status st = pawl_engine_submit(p->server->served.engine, &o, on_event, t, &t->handle, err);
    pawl_free(end);
    return st;
}

/* Room for parts and choices, once the request is known. */
static pawl_status make_room(completion *p, pawl_err *err)
{
    p->n_parts = p->chat ? 1 : p->q.n_prompts;
    p->parts = calloc(p->n_parts, sizeof *p->parts);
    size_t n = p->n_parts * (size_t)p->q.options.n;
    p->choices = calloc(n, sizeof *p->choices);
    if (!p->parts || !p->choices) {
        p->n_parts = p->parts ? p->n_parts : 0;
        return pawl__fail(err, PAWL_ENOMEM, "out of memory");
    }
    p->n_choices = n;
    for (size_t i = 0; i < p->n_parts; i++) p->parts[i] = (part){.owner = p, .index = (int)i};
    return PAWL_OK;
}

static pawl_status start(completion *p, pawl_err *err)
{
    PAWL_TRY(make_room(p, err));
    if (p->chat) PAWL_TRY(make_chat_prompt(p, err));
    for (size_t i = 0; !p->chat && i < p->n_parts; i++) PAWL_TRY(make_prompt(p, i, err));
    for (size_t i = 0; i < p->n_choices; i++)
        reasoning_begin(&p->choices[i].split, p->parts[i / (size_t)p->q.options.n].prompt.thinking);
    openai_write_head(&p->head, p->chat, p->q.stream, p->call->id, (int64_t)time(NULL), p->server->served.name);
    if (p->head.failed) return pawl__fail(err, PAWL_ENOMEM, "out of memory");
    for (size_t i = 0; i < p->n_parts; i++) PAWL_TRY(submit(p, i, err));
    return PAWL_OK;
}

void completion_begin(call *c, int chat)
{
    const pawl_served *v = &c->server->served;
    completion *p = calloc(1, sizeof *p);
    pawl_err err;
    char param[64];
    size_t n;
    const char *body = call_body(c, &n);
    if (!p) {
        call_error(c, 500, NULL, NULL, "out of memory");
        return;
    }
    p->call = c;
    p->server = c->server;
    p->chat = chat;
    pthread_mutex_init(&p->lock, NULL);
    c->completion = p;
    pawl_sampling defaults = PAWL_INIT(pawl_sampling);
    pawl_model_info info = PAWL_INIT(pawl_model_info);
    pawl_model_get_sampling(v->model, &defaults);
    pawl_model_get_info(v->model, &info);
    if (openai_parse(body, n, chat, &defaults, info.vocab, &p->q, param, &err) != PAWL_OK) {
        call_fail(c, param[0] ? param : NULL, &err);
        return;
    }
    if (p->q.model && strcmp(p->q.model, v->name) != 0) {
        char text[400];
        snprintf(text, sizeof text, "the model \"%.100s\" does not exist here; this server has \"%.200s\"", p->q.model,
                 v->name);
        call_error(c, 404, "model", "model_not_found", text);
        return;
    }
    if (start(p, &err) != PAWL_OK) {
        call_fail(c, chat ? "messages" : "prompt", &err);
        return;
    }
    if (!p->q.stream) {
        call_wait(c);
        return;
    }
    call_stream_begin(c);
    role_chunks(p);
    for (size_t i = 0; p->q.echo && i < p->n_choices; i++) write_chunk(p, i, NULL);
    flush(p);
}
