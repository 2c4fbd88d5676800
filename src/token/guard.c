/* Barriers in the strings of a chat request: put in before the template runs, taken out after it. */
#include "token/guard.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/utf8.h"
#include "token/internal.h"

/* U+FDD0 introduces a pair; the second character says which. They are noncharacters, kept apart from all text; one that
 * stands in the request nevertheless is written as a pair too, so that nothing is lost. */
static const char LITERAL[] = "\xef\xb7\x90\xef\xb7\x91";
static const char BARRIER[] = "\xef\xb7\x90\xef\xb7\x92";
static const char END[] = "\xef\xb7\x90\xef\xb7\x93";
enum { MARK = 3, PAIR = 6 };

typedef struct guard {
    const pawl_tokenizer *t;
    int barriers;     /* 0: only marks are written */
    int only_special; /* an assistant's message */
    pawl_err *err;
} guard;

static json_t *no_memory(const guard *g)
{
    pawl__fail(g->err, PAWL_ENOMEM, "chat: out of memory");
    return NULL;
}

static int starts_in(const pawl_added_set *set, const guard *g, const char *s, size_t n)
{
    unsigned char first = (unsigned char)*s;
    for (uint32_t i = set->first[first]; i < set->first[first + 1]; i++) {
        const pawl_added *a = &set->item[i];
        if (g->only_special && !a->special) continue;
        if (a->n > 1 && a->n <= n && memcmp(a->content, s, a->n) == 0) return 1;
    }
    return 0;
}

/* Copies s with a barrier behind the first character of each added token. */
static void put_inner(const guard *g, const char *s, size_t n, pawl_buf *b)
{
    size_t done = 0, i = 0;
    while (i < n) {
        int mark = n - i >= MARK && memcmp(s + i, LITERAL, MARK) == 0;
        int token = g->barriers && !mark &&
                    (starts_in(&g->t->raw, g, s + i, n - i) || starts_in(&g->t->normalized, g, s + i, n - i));
        uint32_t cp;
        int k = pawl__utf8_decode(s + i, n - i, &cp, NULL);
        if (k < 1) k = 1;
        if (mark || token) {
            pawl__buf_append(b, s + done, i + (size_t)(token ? k : 0) - done);
            pawl__buf_puts(b, mark ? LITERAL : BARRIER);
            done = i + (size_t)k;
        }
        i += (size_t)k;
    }
    pawl__buf_append(b, s + done, n - done);
}

static int white(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Barriers around the text too, so that two strings that a template joins do not make a token; inside of the white space
 * at its ends, which templates trim. */
static json_t *guarded_text(const guard *g, const char *s, size_t n, int edges, int mark_end)
{
    char *nfc = NULL;
    size_t n_nfc;
    if (g->t->normalized.n && g->t->nfc) {
        if (pawl__nfc(s, n, &nfc, &n_nfc, g->err) != PAWL_OK) return NULL;
        if (nfc) s = nfc, n = n_nfc;
    }
    size_t from = 0, to = n;
    while (from < to && white(s[from])) from++;
    while (to > from && white(s[to - 1])) to--;
    edges = edges && g->barriers && to > from;
    pawl_buf b = {0};
    pawl__buf_append(&b, s, from);
    if (edges) pawl__buf_puts(&b, BARRIER);
    put_inner(g, s + from, to - from, &b);
    if (edges) pawl__buf_puts(&b, BARRIER);
    pawl__buf_append(&b, s + to, n - to);
    if (mark_end) pawl__buf_puts(&b, END);
    json_t *v = b.failed ? NULL : json_stringn(b.data ? b.data : "", b.len);
    pawl__buf_free(&b);
    free(nfc);
    return v ? v : no_memory(g);
}

static json_t *guarded(const guard *g, const json_t *v, int edges);

/* Names are told apart by templates (role, type), or stand between signs of the template's own. */
static int is_name(const char *key)
{
    return !strcmp(key, "role") || !strcmp(key, "type");
}

/* Arguments of tool calls are JSON in a string; the template sees them parsed. */
static json_t *guarded_arguments(const guard *g, const json_t *v)
{
    json_t *parsed = NULL;
    if (json_is_string(v) && json_string_length(v) > 0 &&
        pawl__json_parse_any(json_string_value(v), json_string_length(v), "arguments", &parsed, NULL) == PAWL_OK) {
        json_t *out = guarded(g, parsed, 1);
        json_decref(parsed);
        return out;
    }
    return guarded(g, v, 0); /* not JSON: the rendering says so */
}

static json_t *guarded_object(const guard *g, const json_t *v)
{
    json_t *out = json_object(), *item;
    const char *key;
    if (!out) return no_memory(g);
    json_object_foreach((json_t *)(uintptr_t)v, key, item) /* Jansson's iterators want it writable and only read */
    {
        json_t *copy = !strcmp(key, "arguments") ? guarded_arguments(g, item) : guarded(g, item, !is_name(key));
        pawl_buf name = {0};
        put_inner(g, key, strlen(key), &name);
        int bad = !copy || name.failed || json_object_set_new(out, name.data ? name.data : "", copy);
        pawl__buf_free(&name);
        if (bad) {
            json_decref(out);
            return copy ? no_memory(g) : NULL;
        }
    }
    return out;
}

static json_t *guarded(const guard *g, const json_t *v, int edges)
{
    if (json_is_string(v)) return guarded_text(g, json_string_value(v), json_string_length(v), edges, 0);
    if (json_is_object(v)) return guarded_object(g, v);
    if (!json_is_array(v)) return json_incref((json_t *)(uintptr_t)v);
    json_t *out = json_array();
    if (!out) return no_memory(g);
    for (size_t i = 0; i < json_array_size(v); i++) {
        json_t *copy = guarded(g, json_array_get(v, i), edges);
        if (!copy || json_array_append_new(out, copy)) {
            json_decref(out);
            return copy ? no_memory(g) : NULL;
        }
    }
    return out;
}

json_t *pawl__guard_value(const pawl_tokenizer *t, const json_t *value, int barriers, pawl_err *err)
{
    const guard g = {.t = t, .barriers = barriers, .err = err};
    return guarded(&g, value, 1);
}

/* Puts the end mark behind a message's text: its content, or the last part of it. */
static int set_end_mark(const guard *g, json_t *message, const json_t *original)
{
    const json_t *content = json_object_get(original, "content");
    json_t *holder = message;
    const char *key = "content";
    if (json_is_array(content) && json_array_size(content) > 0) {
        size_t last = json_array_size(content) - 1;
        holder = json_array_get(json_object_get(message, "content"), last);
        content = json_object_get(json_array_get(content, last), key = "text");
    }
    if (!json_is_string(content)) {
        pawl__fail(g->err, PAWL_EINVAL, "messages: the last message has no text that could be continued");
        return 0;
    }
    json_t *v = guarded_text(g, json_string_value(content), json_string_length(content), 1, 1);
    return v && json_object_set_new(holder, key, v) == 0;
}

json_t *pawl__guard_messages(const pawl_tokenizer *t, const json_t *messages, int barriers, int mark_end, pawl_err *err)
{
    guard g = {.t = t, .barriers = barriers, .err = err};
    json_t *out = json_array();
    if (!out) return no_memory(&g);
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *m = json_array_get(messages, i);
        const char *role = json_string_value(json_object_get(m, "role"));
        g.only_special = role && !strcmp(role, "assistant");
        json_t *copy = guarded(&g, m, 1);
        if (!copy || json_array_append_new(out, copy)) {
            if (copy) no_memory(&g);
            json_decref(out);
            return NULL;
        }
        if (mark_end && i + 1 == json_array_size(messages) && !set_end_mark(&g, copy, m)) {
            json_decref(out);
            return NULL;
        }
    }
    return out;
}

static int push_barrier(pawl_guarded *g, size_t at)
{
    if (g->n && g->barrier[g->n - 1] == at) return 1;
    if (g->n == g->cap) {
        size_t cap = g->cap ? g->cap * 2 : 64;
        size_t *p = realloc(g->barrier, cap * sizeof *p);
        if (!p) return 0;
        g->barrier = p;
        g->cap = cap;
    }
    g->barrier[g->n++] = at;
    return 1;
}

pawl_status pawl__guard_strip(const char *rendered, size_t n, pawl_guarded *out, pawl_err *err)
{
    *out = (pawl_guarded){.end = SIZE_MAX};
    size_t done = 0, i = 0;
    int ok = 1;
    while (ok && i + PAIR <= n) {
        const char *p = memchr(rendered + i, LITERAL[0], n - PAIR + 1 - i);
        if (!p) break;
        i = (size_t)(p - rendered);
        int literal = !memcmp(p, LITERAL, PAIR), barrier = !memcmp(p, BARRIER, PAIR), end = !memcmp(p, END, PAIR);
        if (!literal && !barrier && !end) {
            i++;
            continue;
        }
        pawl__buf_append(&out->text, rendered + done, i + (size_t)(literal ? MARK : 0) - done);
        if (barrier) ok = push_barrier(out, out->text.len);
        if (end) out->end = out->text.len;
        i += PAIR;
        done = i;
    }
    pawl__buf_append(&out->text, rendered + done, n - done);
    if (ok && !out->text.failed) return PAWL_OK;
    pawl__guarded_free(out);
    return pawl__fail(err, PAWL_ENOMEM, "chat: out of memory");
}

void pawl__guarded_free(pawl_guarded *g)
{
    pawl__buf_free(&g->text);
    free(g->barrier);
    *g = (pawl_guarded){0};
}
