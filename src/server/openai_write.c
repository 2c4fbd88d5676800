#include <inttypes.h>
#include <string.h>

#include "base/utf8.h"
#include "server/json_text.h"
#include "server/openai.h"

void openai_write_head(pawl_buf *b, int chat, int stream, const char *id, int64_t created, const char *model)
{
    const char *object = !chat ? "text_completion" : stream ? "chat.completion.chunk" : "chat.completion";
    pawl__buf_printf(b, "{\"id\":\"%s-%s\",\"object\":\"%s\",\"created\":%" PRId64 ",\"model\":",
                     chat ? "chatcmpl" : "cmpl", id, object, created);
    json_text_string(b, model, strlen(model));
    pawl__buf_puts(b, ",\"choices\":[");
}

const char *openai_finish_reason(pawl_end end)
{
    switch (end) {
    case PAWL_END_STOP:
        return "stop";
    case PAWL_END_LENGTH:
    case PAWL_END_DEADLINE: /* clients know no other word for an answer that was cut */
        return "length";
    default:
        return "abort";
    }
}

static void write_places(pawl_buf *b, const char *name, const int64_t *v)
{
    int n = PAWL_MAX_DRAFT;
    while (n && v[n - 1] == 0) n--;
    pawl__buf_printf(b, ",\"%s\":[", name);
    for (int i = 0; i < n; i++) pawl__buf_printf(b, "%s%" PRId64, i ? "," : "", v[i]);
    pawl__buf_putc(b, ']');
}

void openai_write_usage(pawl_buf *b, const openai_usage *u)
{
    const pawl_usage *e = &u->engine;
    pawl__buf_printf(b,
                     "\"usage\":{\"prompt_tokens\":%" PRId64 ",\"completion_tokens\":%" PRId64
                     ",\"total_tokens\":%" PRId64 ",\"prompt_tokens_details\":{\"cached_tokens\":%" PRId64
                     "},\"completion_tokens_details\":{\"reasoning_tokens\":%" PRId64 "},",
                     e->prompt_tokens, e->generated_tokens, e->prompt_tokens + e->generated_tokens, e->cached_tokens,
                     u->reasoning_tokens);
    /* Seeds go in and out as signed numbers: JSON readers know no others of 64 bits. */
    pawl__buf_printf(
        b, "\"pawl\":{\"seed\":%" PRId64 ",\"rounds\":%" PRId64 ",\"drafted\":%" PRId64 ",\"accepted\":%" PRId64,
        (int64_t)u->seed, e->rounds, e->drafted, e->accepted);
    write_places(b, "drafted_at", e->drafted_at);
    write_places(b, "accepted_at", e->accepted_at);
    pawl__buf_printf(
        b, ",\"preempted\":%" PRId64 ",\"queue_seconds\":%.6f,\"prefill_seconds\":%.6f,\"decode_seconds\":%.6f}}",
        e->preempted, e->queue_seconds, e->prefill_seconds, e->decode_seconds);
}

/* ---- log probabilities ------------------------------------------------------------------------------------------- */

static void comma(pawl_buf *b)
{
    if (b->len) pawl__buf_putc(b, ',');
}

static void chat_entry(pawl_buf *b, const pawl_model *m, int32_t id, float logprob)
{
    size_t n;
    const char *s = pawl_token_bytes(m, id, &n);
    pawl__buf_puts(b, "{\"token\":");
    json_text_string(b, s, n);
    pawl__buf_puts(b, ",\"logprob\":");
    json_text_float(b, logprob);
    pawl__buf_puts(b, ",\"bytes\":");
    json_text_bytes(b, s, n);
}

/* As OpenAI names a token that is no text by itself: two such must stay different names. */
static void name_token(pawl_buf *b, const pawl_model *m, int32_t id)
{
    size_t n;
    const char *s = pawl_token_bytes(m, id, &n);
    if (pawl__utf8_valid(s ? s : "", n) == n) {
        json_text_string(b, s, n);
        return;
    }
    pawl__buf_puts(b, "\"bytes:");
    for (size_t i = 0; i < n; i++) pawl__buf_printf(b, "\\\\x%02x", (unsigned char)s[i]);
    pawl__buf_putc(b, '"');
}

static void add_chat(openai_logprobs *l, const pawl_model *m, const pawl_event_token *t)
{
    comma(&l->content);
    chat_entry(&l->content, m, t->id, t->logprob);
    pawl__buf_puts(&l->content, ",\"top_logprobs\":[");
    for (int32_t i = 0; i < t->n_top; i++) {
        if (i) pawl__buf_putc(&l->content, ',');
        chat_entry(&l->content, m, t->top[i].id, t->top[i].logprob);
        pawl__buf_putc(&l->content, '}');
    }
    pawl__buf_puts(&l->content, "]}");
}

static size_t characters(const char *s, size_t n)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++) k += ((unsigned char)s[i] & 0xc0) != 0x80;
    return k;
}

static void add_completion(openai_logprobs *l, const pawl_model *m, const pawl_event_token *t)
{
    comma(&l->tokens);
    name_token(&l->tokens, m, t->id);
    comma(&l->values);
    json_text_float(&l->values, t->logprob);
    comma(&l->top);
    if (t->n_top == 0) pawl__buf_puts(&l->top, "null");
    for (int32_t i = 0; i < t->n_top; i++) {
        pawl__buf_putc(&l->top, i ? ',' : '{');
        name_token(&l->top, m, t->top[i].id);
        pawl__buf_putc(&l->top, ':');
        json_text_float(&l->top, t->top[i].logprob);
    }
    if (t->n_top) pawl__buf_putc(&l->top, '}');
    comma(&l->offsets);
    pawl__buf_printf(&l->offsets, "%zu", l->offset);
    l->offset += characters(t->text, t->n_text);
}

void openai_logprobs_add(openai_logprobs *l, int chat, const pawl_model *m, const pawl_event_token *t)
{
    if (chat)
        add_chat(l, m, t);
    else
        add_completion(l, m, t);
}

static void write_list(pawl_buf *b, const char *name, pawl_buf *list)
{
    pawl__buf_printf(b, "\"%s\":[", name);
    pawl__buf_append(b, list->data, list->len);
    pawl__buf_putc(b, ']');
    b->failed |= list->failed;
    pawl__buf_clear(list);
}

void openai_write_logprobs(pawl_buf *b, int chat, openai_logprobs *l)
{
    if (l->content.len == 0 && l->tokens.len == 0) {
        pawl__buf_puts(b, "\"logprobs\":null");
        return;
    }
    pawl__buf_puts(b, "\"logprobs\":{");
    if (chat) {
        write_list(b, "content", &l->content);
        pawl__buf_puts(b, ",\"refusal\":null}");
        return;
    }
    write_list(b, "tokens", &l->tokens);
    pawl__buf_putc(b, ',');
    write_list(b, "token_logprobs", &l->values);
    pawl__buf_putc(b, ',');
    write_list(b, "top_logprobs", &l->top);
    pawl__buf_putc(b, ',');
    write_list(b, "text_offset", &l->offsets);
    pawl__buf_putc(b, '}');
}

void openai_logprobs_free(openai_logprobs *l)
{
    pawl__buf_free(&l->content);
    pawl__buf_free(&l->tokens);
    pawl__buf_free(&l->values);
    pawl__buf_free(&l->top);
    pawl__buf_free(&l->offsets);
}
