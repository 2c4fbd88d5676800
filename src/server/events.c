#include "server/events.h"

#include <stdlib.h>
#include <string.h>

typedef struct header {
    pawl_event_kind kind;
    pawl_end end;
    int32_t choice, prompt, has_err;
    size_t n_tokens, n_top; /* n_top: of all tokens together */
    uint64_t seed;
    double when;
} header;

typedef struct token_header {
    int32_t id, n_top;
    float logprob;
    size_t n_text;
} token_header;

void event_write(pawl_buf *b, const pawl_event *e, int prompt, double when)
{
    header h = {.kind = e->kind,
                .end = e->end,
                .choice = e->choice,
                .prompt = prompt,
                .has_err = e->err != NULL,
                .seed = e->seed,
                .when = when};
    if (e->kind == PAWL_EVENT_TOKENS || e->kind == PAWL_EVENT_PROMPT) h.n_tokens = e->n_tokens;
    for (size_t i = 0; i < h.n_tokens; i++) h.n_top += (size_t)e->tokens[i].n_top;
    pawl__buf_append(b, &h, sizeof h);
    for (size_t i = 0; i < h.n_tokens; i++) {
        const pawl_event_token *t = &e->tokens[i];
        token_header th = {.id = t->id, .n_top = t->n_top, .logprob = t->logprob, .n_text = t->n_text};
        pawl__buf_append(b, &th, sizeof th);
        pawl__buf_append(b, t->text, t->n_text);
        if (t->n_top) pawl__buf_append(b, t->top, (size_t)t->n_top * sizeof *t->top);
    }
    if (e->kind == PAWL_EVENT_DONE) pawl__buf_append(b, e->usage, sizeof *e->usage);
    if (e->err) pawl__buf_append(b, e->err, sizeof *e->err);
}

static int grow(void **p, size_t *cap, size_t n, size_t size)
{
    if (n <= *cap) return 1;
    void *q = realloc(*p, (n + n / 2) * size);
    if (!q) return 0;
    *p = q;
    *cap = n + n / 2;
    return 1;
}

static void get(event_reader *r, const pawl_buf *b, void *to, size_t n)
{
    memcpy(to, b->data + r->at, n);
    r->at += n;
}

int event_next(event_reader *r, pawl_buf *b, event_record *out)
{
    if (r->at >= b->len || b->failed) {
        r->at = 0;
        return 0;
    }
    header h;
    get(r, b, &h, sizeof h);
    if (!grow((void **)&r->tokens, &r->cap_tokens, h.n_tokens, sizeof *r->tokens) ||
        !grow((void **)&r->top, &r->cap_top, h.n_top, sizeof *r->top)) {
        b->failed = 1;
        r->at = 0;
        return 0;
    }
    size_t n_top = 0;
    for (size_t i = 0; i < h.n_tokens; i++) {
        token_header th;
        get(r, b, &th, sizeof th);
        r->tokens[i] = (pawl_event_token){.id = th.id,
                                          .text = b->data + r->at,
                                          .n_text = th.n_text,
                                          .logprob = th.logprob,
                                          .top = r->top + n_top,
                                          .n_top = th.n_top};
        r->at += th.n_text;
        if (th.n_top) get(r, b, r->top + n_top, (size_t)th.n_top * sizeof *r->top);
        n_top += (size_t)th.n_top;
    }
    if (h.kind == PAWL_EVENT_DONE) get(r, b, &r->usage, sizeof r->usage);
    if (h.has_err) get(r, b, &r->err, sizeof r->err);
    *out = (event_record){.event = {.kind = h.kind,
                                    .choice = h.choice,
                                    .tokens = r->tokens,
                                    .n_tokens = h.n_tokens,
                                    .end = h.end,
                                    .stop_id = -1,
                                    .err = h.has_err ? &r->err : NULL,
                                    .usage = &r->usage,
                                    .seed = h.seed},
                          .prompt = h.prompt,
                          .when = h.when};
    return 1;
}

void event_reader_free(event_reader *r)
{
    free(r->tokens);
    free(r->top);
    *r = (event_reader){0};
}
