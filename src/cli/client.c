#include "cli/client.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/http.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

enum { MAX_LINE = 64 << 20, MAX_ERROR_BODY = 1 << 16, SILENCE = 600 };

struct client {
    struct event_base *base;
    char *host, *key;
    int port;
};

struct client_request {
    client *owner;
    struct evhttp_connection *conn;
    struct evhttp_request *req; /* NULL once evhttp has given it up */
    client_events events;
    void *user;
    pawl_buf held, error_body;
    int done; /* [DONE] has come */
    pawl_status st;
    pawl_err err;
};

pawl_status sse_push(pawl_buf *held, const char *text, size_t n, sse_fn on_data, void *user)
{
    pawl__buf_append(held, text, n);
    if (held->failed) return PAWL_EFORMAT;
    size_t at = 0;
    const char *end;
    while ((end = memchr(held->data + at, '\n', held->len - at))) {
        const char *line = held->data + at;
        size_t k = (size_t)(end - line);
        at += k + 1;
        if (k && line[k - 1] == '\r') k--;
        if (k < 5 || memcmp(line, "data:", 5) != 0) continue;
        size_t skip = k > 5 && line[5] == ' ' ? 6 : 5;
        if (on_data(line + skip, k - skip, user)) return PAWL_ECANCELED;
    }
    memmove(held->data, held->data + at, held->len - at + 1);
    held->len -= at;
    return PAWL_OK;
}

pawl_status client_create(const char *url, const char *key, client **out, pawl_err *err)
{
    *out = NULL;
    struct evhttp_uri *uri = evhttp_uri_parse(url);
    const char *scheme = uri ? evhttp_uri_get_scheme(uri) : NULL, *host = uri ? evhttp_uri_get_host(uri) : NULL;
    if (!scheme || strcmp(scheme, "http") != 0 || !host || !*host) {
        if (uri) evhttp_uri_free(uri);
        return pawl__fail(err, PAWL_EINVAL, "\"%.200s\" is no address: expected http://HOST:PORT", url);
    }
    client *c = calloc(1, sizeof *c);
    if (c) {
        size_t n = strlen(host); /* [::1] without its brackets */
        c->host = *host == '[' && host[n - 1] == ']' ? strndup(host + 1, n - 2) : strdup(host);
        c->key = key ? strdup(key) : NULL;
        c->port = evhttp_uri_get_port(uri) > 0 ? evhttp_uri_get_port(uri) : 80;
        c->base = event_base_new();
    }
    evhttp_uri_free(uri);
    *out = c;
    if (c && c->host && c->base && (!key || c->key)) return PAWL_OK;
    client_destroy(out);
    return pawl__fail(err, PAWL_ENOMEM, "client: out of memory");
}

void client_destroy(client **c)
{
    if (!*c) return;
    if ((*c)->base) event_base_free((*c)->base);
    free((*c)->host);
    free((*c)->key);
    free(*c);
    *c = NULL;
}

struct event_base *client_base(client *c)
{
    return c->base;
}

static void release(client_request *r)
{
    evhttp_connection_free_on_completion(r->conn); /* not within its own callback */
    pawl__buf_free(&r->held);
    pawl__buf_free(&r->error_body);
    free(r);
}

/* The server's own words for a refusal, or its status. */
static void explain_refusal(client_request *r, int code)
{
    json_t *root = NULL;
    if (r->error_body.len) pawl__json_parse_any(r->error_body.data, r->error_body.len, "answer", &root, NULL);
    const char *text = json_string_value(json_object_get(json_object_get(root, "error"), "message"));
    r->st = text ? pawl__fail(&r->err, code == 429 ? PAWL_EBUSY : PAWL_EINVAL, "the server says: %.400s", text)
                 : pawl__fail(&r->err, PAWL_EIO, "the server answers with status %d", code);
    json_decref(root);
}

static int on_data(const char *data, size_t n, void *user)
{
    client_request *r = user;
    if (n == 6 && !memcmp(data, "[DONE]", 6)) {
        r->done = 1;
        return 0;
    }
    json_t *root;
    if (pawl__json_parse_any(data, n, "the server's answer", &root, &r->err) != PAWL_OK) {
        r->st = r->err.status;
        return 1;
    }
    const json_t *error = json_object_get(root, "error");
    const char *text = json_string_value(json_object_get(error, "message"));
    if (error)
        r->st = pawl__fail(&r->err, PAWL_EIO, "the server says: %.400s", text ? text : "an error");
    else if (r->events.event)
        r->events.event(root, r->user);
    json_decref(root);
    return error != NULL;
}

static void on_chunk(struct evhttp_request *req, void *user)
{
    client_request *r = user;
    struct evbuffer *in = evhttp_request_get_input_buffer(req);
    size_t n = evbuffer_get_length(in);
    const char *text = n ? (const char *)evbuffer_pullup(in, -1) : NULL;
    if (!text || r->st != PAWL_OK) return;
    if (evhttp_request_get_response_code(req) != 200) {
        pawl__buf_append(&r->error_body, text, n);
        return;
    }
    if (sse_push(&r->held, text, n, on_data, r) == PAWL_EFORMAT)
        r->st = pawl__fail(&r->err, PAWL_EFORMAT, "the server sends a line without an end");
}

static void on_end(struct evhttp_request *req, void *user)
{
    client_request *r = user;
    int code = req ? evhttp_request_get_response_code(req) : 0;
    r->req = NULL;
    if (req && code && code != 200)
        explain_refusal(r, code);
    else if (r->st == PAWL_OK && !r->done)
        r->st = pawl__fail(&r->err, PAWL_EIO,
                           code ? "the server hung up in the middle of an answer" : "no connection to %s port %d",
                           r->owner->host, r->owner->port);
    r->events.end(r->st, &r->err, r->user);
    release(r);
}

static int add_headers(const client *c, struct evhttp_request *req)
{
    struct evkeyvalq *h = evhttp_request_get_output_headers(req);
    char text[1024];
    snprintf(text, sizeof text, "%s:%d", c->host, c->port);
    int bad = evhttp_add_header(h, "Host", text) || evhttp_add_header(h, "Content-Type", "application/json") ||
              evhttp_add_header(h, "Connection", "close");
    if (c->key) {
        snprintf(text, sizeof text, "Bearer %s", c->key);
        bad |= evhttp_add_header(h, "Authorization", text);
    }
    return bad;
}

pawl_status client_post(client *c, const char *path, const char *body, const client_events *events, void *user,
                        client_request **out, pawl_err *err)
{
    client_request *r = calloc(1, sizeof *r);
    if (!r) return pawl__fail(err, PAWL_ENOMEM, "client: out of memory");
    r->owner = c;
    r->events = *events;
    r->user = user;
    r->held.limit = MAX_LINE;
    r->error_body.limit = MAX_ERROR_BODY;
    r->conn = evhttp_connection_base_new(c->base, NULL, c->host, (ev_uint16_t)c->port);
    r->req = r->conn ? evhttp_request_new(on_end, r) : NULL;
    if (!r->req || add_headers(c, r->req) ||
        evbuffer_add(evhttp_request_get_output_buffer(r->req), body, strlen(body)) != 0) {
        if (r->req) evhttp_request_free(r->req);
        if (r->conn) evhttp_connection_free(r->conn);
        free(r);
        return pawl__fail(err, PAWL_ENOMEM, "client: out of memory");
    }
    evhttp_connection_set_timeout(r->conn, SILENCE);
    evhttp_request_set_chunked_cb(r->req, on_chunk);
    if (out) *out = r;
    /* A failure of this call has freed the request and has been told to on_end, if it had got that far. */
    if (evhttp_make_request(r->conn, r->req, EVHTTP_REQ_POST, path) == 0) return PAWL_OK;
    return pawl__fail(err, PAWL_EIO, "no connection to %s port %d", c->host, c->port);
}

void client_cancel(client_request *r)
{
    if (r->req) evhttp_cancel_request(r->req); /* without on_end */
    release(r);
}
