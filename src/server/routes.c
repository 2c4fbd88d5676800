/* Who answers which path, who may ask, and the answers that need no engine. */
#include <event2/http.h>
#include <event2/http_struct.h>
#include <event2/keyvalq_struct.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/internal.h"
#include "server/json_text.h"
#include "server/openai.h"

/* ---- checks ------------------------------------------------------------------------------------------------------ */

/* Takes as long for a wrong key as for a right one, and does not tell how much of it was right. */
static int equal_keys(const char *a, size_t n_a, const char *b, size_t n_b)
{
    unsigned char diff = n_a != n_b;
    for (size_t i = 0; i < n_a; i++) diff |= (unsigned char)(a[i] ^ b[n_b ? i % n_b : 0]);
    return diff == 0;
}

static int may_ask(call *c)
{
    const pawl_server *s = c->server;
    if (s->n_api_keys == 0) return 1;
    const char *h = evhttp_find_header(evhttp_request_get_input_headers(c->req), "Authorization");
    const char *key = h && strncasecmp(h, "Bearer ", 7) == 0 ? h + 7 : "";
    size_t found = s->n_api_keys;
    for (size_t i = 0; i < s->n_api_keys; i++)
        if (equal_keys(key, strlen(key), s->api_keys[i], strlen(s->api_keys[i]))) found = i;
    if (found == s->n_api_keys || !*key) return 0;
    snprintf(c->tenant, sizeof c->tenant, "key%zu", found);
    return 1;
}

/* What evhttp lets pass although requests could be smuggled past a proxy with it. */
static const char *bad_headers(const call *c)
{
    struct evkeyvalq *h = evhttp_request_get_input_headers(c->req);
    const char *length = NULL;
    int hosts = 0;
    for (struct evkeyval *kv = h->tqh_first; kv; kv = kv->next.tqe_next) {
        if (!strcasecmp(kv->key, "Content-Length")) {
            if (length && strcmp(length, kv->value) != 0) return "two different Content-Length headers";
            length = kv->value;
        }
        hosts += !strcasecmp(kv->key, "Host");
    }
    if (length && evhttp_find_header(h, "Transfer-Encoding")) return "both Content-Length and Transfer-Encoding";
    if (hosts > 1) return "more than one Host header";
    /* HTTP/1.0 has none. evhttp tells the version only through the struct. */
    if (hosts == 0 && c->req->major == 1 && c->req->minor >= 1) return "no Host header";
    return NULL;
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static void reply_json(call *c, int status, pawl_buf *b)
{
    if (b->failed)
        call_error(c, 500, NULL, NULL, "out of memory");
    else
        call_reply(c, status, "application/json", b);
    pawl__buf_free(b);
}

static void health(call *c)
{
    static const char *const states[] = {"loading", "ok", "draining"};
    int state = atomic_load(&c->server->state);
    pawl_buf b = {0};
    pawl__buf_printf(&b, "{\"status\":\"%s\"}", states[state]);
    reply_json(c, state == SERVER_READY ? 200 : 503, &b);
}

static void put_model(const call *c, pawl_buf *b)
{
    const pawl_served *v = &c->server->served;
    pawl_engine_options o = PAWL_INIT(pawl_engine_options);
    pawl_engine_get_options(v->engine, &o);
    pawl__buf_puts(b, "{\"id\":");
    json_text_string(b, v->name, strlen(v->name));
    pawl__buf_printf(
        b, ",\"object\":\"model\",\"created\":%" PRId64 ",\"owned_by\":\"pawl\",\"max_model_len\":%" PRId64 "}",
        c->server->created, o.context);
}

static void models(call *c)
{
    pawl_buf b = {0};
    pawl__buf_puts(&b, "{\"object\":\"list\",\"data\":[");
    put_model(c, &b);
    pawl__buf_puts(&b, "]}");
    reply_json(c, 200, &b);
}

/* The model that the path names: its name may hold a '/', as it is or percent-encoded. */
static void model(call *c)
{
    const char *path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(c->req));
    char *name = evhttp_uridecode(path + strlen("/v1/models/"), 0, NULL);
    const int found = name && !strcmp(name, c->server->served.name);
    free(name);
    if (!found) {
        call_error(c, 404, "model", "model_not_found", "this model is not served here; see /v1/models");
        return;
    }
    pawl_buf b = {0};
    put_model(c, &b);
    reply_json(c, 200, &b);
}

static void metrics(call *c)
{
    const pawl_served *v = &c->server->served;
    pawl_engine_stats e = PAWL_INIT(pawl_engine_stats);
    pawl_buf b = {0};
    pawl_engine_get_stats(v->engine, &e);
    pawl__metrics_print(&c->server->metrics, &e, v->name, v->metrics, &b);
    if (b.failed)
        call_error(c, 500, NULL, NULL, "out of memory");
    else
        call_reply(c, 200, "text/plain; version=0.0.4; charset=utf-8", &b);
    pawl__buf_free(&b);
}

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

static void write_ids(pawl_buf *b, const int32_t *ids, size_t n, int64_t context)
{
    pawl__buf_printf(b, "{\"count\":%zu,\"max_model_len\":%" PRId64 ",\"tokens\":[", n, context);
    for (size_t i = 0; i < n; i++) pawl__buf_printf(b, "%s%d", i ? "," : "", ids[i]);
    pawl__buf_puts(b, "]}");
}

static pawl_status tokenize_chat(const call *c, const json_t *messages, const json_t *root, pawl_buf *b,
                                 int64_t context, pawl_err *err)
{
    if (!c->server->served.chat) return pawl__fail(err, PAWL_EUNSUPPORTED, "this model has no chat template");
    const json_t *extra = json_object_get(root, "chat_template_kwargs");
    if (extra && !json_is_object(extra))
        return pawl__fail(err, PAWL_EINVAL, "chat_template_kwargs: expected an object");
    char *text = json_dumps(messages, JSON_COMPACT), *kwargs = extra ? json_dumps(extra, JSON_COMPACT) : NULL;
    pawl_chat_options o = PAWL_INIT(pawl_chat_options);
    o.kwargs = kwargs;
    o.parse_special = c->server->parse_special;
    pawl_prompt p = PAWL_INIT(pawl_prompt);
    pawl_status st = text ? pawl_chat_prompt(c->server->served.chat, text, &o, &p, err)
                          : pawl__fail(err, PAWL_ENOMEM, "out of memory");
    if (st == PAWL_OK) write_ids(b, p.ids, p.n_ids, context);
    pawl_prompt_free(&p);
    free(text);
    free(kwargs);
    return st;
}

static pawl_status tokenize_text(const call *c, const json_t *prompt, pawl_buf *b, int64_t context, pawl_err *err)
{
    int32_t *ids;
    size_t n;
    unsigned flags = c->server->parse_special ? PAWL_TOKENIZE_SPECIAL : 0;
    if (!json_is_string(prompt))
        return pawl__fail(err, PAWL_EINVAL, "prompt: expected a string (or messages, an array)");
    PAWL_TRY(pawl_tokenize(c->server->served.model, json_string_value(prompt), json_string_length(prompt), flags, &ids,
                           &n, err));
    write_ids(b, ids, n, context);
    pawl_free(ids);
    return PAWL_OK;
}

static void tokenize(call *c)
{
    json_t *root;
    pawl_err err;
    size_t n;
    const char *body = call_body(c, &n);
    if (openai_body(body, n, &root, &err) != PAWL_OK) {
        call_fail(c, NULL, &err);
        return;
    }
    pawl_engine_options o = PAWL_INIT(pawl_engine_options);
    pawl_engine_get_options(c->server->served.engine, &o);
    const json_t *messages = json_object_get(root, "messages");
    pawl_buf b = {0};
    pawl_status st = messages ? tokenize_chat(c, messages, root, &b, o.context, &err)
                              : tokenize_text(c, json_object_get(root, "prompt"), &b, o.context, &err);
    if (st == PAWL_OK)
        reply_json(c, 200, &b);
    else
        call_fail(c, messages ? "messages" : "prompt", &err);
    json_decref(root);
    pawl__buf_free(&b);
}

static pawl_status read_tokens(const json_t *list, int64_t vocab, int32_t **out, pawl_err *err)
{
    size_t n = json_array_size(list);
    if (!json_is_array(list)) return pawl__fail(err, PAWL_EINVAL, "tokens: expected an array of token ids");
    int32_t *ids = malloc((n + 1) * sizeof *ids);
    if (!ids) return pawl__fail(err, PAWL_ENOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        json_int_t id = json_integer_value(v);
        if (!json_is_integer(v) || id < 0 || id >= vocab) {
            free(ids);
            return pawl__fail(err, PAWL_EINVAL, "tokens[%zu]: expected a token id from 0 to %" PRId64, i, vocab - 1);
        }
        ids[i] = (int32_t)id;
    }
    *out = ids;
    return PAWL_OK;
}

static void detokenize(call *c)
{
    json_t *root;
    pawl_err err;
    size_t n, n_text;
    const char *body = call_body(c, &n);
    if (openai_body(body, n, &root, &err) != PAWL_OK) {
        call_fail(c, NULL, &err);
        return;
    }
    const pawl_model *m = c->server->served.model;
    pawl_model_info info = PAWL_INIT(pawl_model_info);
    pawl_model_get_info(m, &info);
    int32_t *ids = NULL;
    char *text = NULL;
    const json_t *list = json_object_get(root, "tokens");
    pawl_status st = read_tokens(list, info.vocab, &ids, &err);
    if (st == PAWL_OK) st = pawl_detokenize(m, ids, json_array_size(list), 0, &text, &n_text, &err);
    if (st == PAWL_OK) {
        pawl_buf b = {0};
        pawl__buf_puts(&b, "{\"prompt\":");
        json_text_string(&b, text, n_text);
        pawl__buf_puts(&b, "}");
        reply_json(c, 200, &b);
    } else {
        call_fail(c, "tokens", &err);
    }
    pawl_free(text);
    free(ids);
    json_decref(root);
}

/* ---- paths ------------------------------------------------------------------------------------------------------- */

static void completions(call *c)
{
    completion_begin(c, 0);
}

static void chat_completions(call *c)
{
    completion_begin(c, 1);
}

typedef struct route {
    const char *path; /* with a '/' at its end: all paths that begin so */
    int post;
    int open; /* asks for no key and needs no model */
    void (*answer)(call *c);
} route;

static const route routes[] = {
    {"/health", 0, 1, health},
    {"/v1/models", 0, 0, models},
    {"/v1/models/", 0, 0, model},
    {"/metrics", 0, 0, metrics},
    {"/v1/chat/completions", 1, 0, chat_completions},
    {"/v1/completions", 1, 0, completions},
    {"/tokenize", 1, 0, tokenize},
    {"/detokenize", 1, 0, detokenize},
};

static int is_at(const route *r, const char *path)
{
    const size_t n = strlen(r->path);
    return r->path[n - 1] == '/' ? !strncmp(path, r->path, n) : !strcmp(path, r->path);
}

static void preflight(call *c)
{
    if (!c->server->cors) {
        call_error(c, 405, NULL, NULL, "OPTIONS: requests from other origins are not allowed here (--cors)");
        return;
    }
    call_header(c, "Access-Control-Allow-Methods", "GET, POST, OPTIONS");
    call_header(c, "Access-Control-Allow-Headers", "Authorization, Content-Type, X-Request-Id");
    call_header(c, "Access-Control-Max-Age", "600");
    call_reply(c, 204, NULL, NULL);
}

void route_call(call *c, const char *path)
{
    const char *wrong = bad_headers(c);
    enum evhttp_cmd_type method = evhttp_request_get_command(c->req);
    if (wrong) {
        call_header(c, "Connection", "close");
        call_error(c, 400, NULL, NULL, wrong);
        return;
    }
    if (method == EVHTTP_REQ_OPTIONS) {
        preflight(c);
        return;
    }
    const route *r = NULL;
    for (size_t i = 0; i < sizeof routes / sizeof *routes && !r; i++)
        if (is_at(&routes[i], path)) r = &routes[i];
    if (!r) {
        call_error(c, 404, NULL, NULL,
                   "there is nothing at this path; see /v1/models, /v1/chat/completions, "
                   "/v1/completions, /tokenize, /detokenize, /health, /metrics");
        return;
    }
    if (r->post ? method != EVHTTP_REQ_POST : method != EVHTTP_REQ_GET && method != EVHTTP_REQ_HEAD) {
        call_header(c, "Allow", r->post ? "POST" : "GET, HEAD");
        call_error(c, 405, NULL, NULL, r->post ? "this path takes POST" : "this path takes GET");
        return;
    }
    if (!r->open && !may_ask(c)) {
        call_header(c, "WWW-Authenticate", "Bearer");
        call_error(c, 401, NULL, "invalid_api_key", "a valid API key is needed: Authorization: Bearer KEY");
        return;
    }
    int state = atomic_load(&c->server->state);
    if (!r->open && (state == SERVER_LOADING || (state == SERVER_DRAINING && r->post))) {
        call_error(c, 503, NULL, state == SERVER_LOADING ? "loading" : "draining",
                   state == SERVER_LOADING ? "the model is being loaded" : "the server is going down");
        return;
    }
    r->answer(c);
}
