/* One HTTP request: its headers are checked, then it is answered whole or as a stream. */
#include "server/internal.h"

#include <ctype.h>
#include <event2/keyvalq_struct.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "server/json_text.h"

enum { WAITING_INPUT = 64 << 10 /* bytes of a next request that are taken while an answer is made */ };

/* A request id from the client is taken over when it is harmless in a log line and a header. */
static int good_id(const char *s)
{
    size_t n = strlen(s);
    if (n == 0 || n > 60) return 0;
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && !strchr("-_.:", *s)) return 0;
    return 1;
}

static void set_open(pawl_server *s)
{
    pthread_mutex_lock(&s->lock);
    atomic_store(&s->open, s->n_calls);
    if (s->n_calls == 0) pthread_cond_broadcast(&s->idle);
    pthread_mutex_unlock(&s->lock);
}

call *call_begin(pawl_server *s, connection *conn, struct evhttp_request *req)
{
    call *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    *c = (call){.server = s, .conn = conn, .req = req, .started = server_now(), .next = s->calls};
    const char *id = evhttp_find_header(evhttp_request_get_input_headers(req), "X-Request-Id");
    if (id && good_id(id))
        snprintf(c->id, sizeof c->id, "%s", id);
    else
        snprintf(c->id, sizeof c->id, "%016" PRIx64, s->next_id);
    s->next_id =
        s->next_id * 6364136223846793005u + 1442695040888963407u; /* ids differ and do not count requests aloud */
    if (c->next) c->next->prev = c;
    s->calls = c;
    conn->current = c;
    s->n_calls++;
    set_open(s);
    call_header(c, "x-request-id", c->id);
    if (s->cors) {
        call_header(c, "Access-Control-Allow-Origin", s->cors);
        if (strcmp(s->cors, "*") != 0) call_header(c, "Vary", "Origin");
    }
    return c;
}

static const char *method_name(const call *c)
{
    switch (evhttp_request_get_command(c->req)) {
    case EVHTTP_REQ_GET:
        return "GET";
    case EVHTTP_REQ_POST:
        return "POST";
    case EVHTTP_REQ_HEAD:
        return "HEAD";
    case EVHTTP_REQ_OPTIONS:
        return "OPTIONS";
    default:
        return "other";
    }
}

static void release(call *c)
{
    pawl_server *s = c->server;
    if (c->completion) completion_free(c->completion);
    c->conn->current = NULL;
    if (c->prev)
        c->prev->next = c->next;
    else
        s->calls = c->next;
    if (c->next) c->next->prev = c->prev;
    free(c);
    s->n_calls--;
    set_open(s);
}

static void log_end(const call *c)
{
    if (!pawl__log_enabled(PAWL_LOG_INFO)) return;
    const char *uri = evhttp_request_get_uri(c->req);
    pawl__log(PAWL_LOG_INFO, "http", "%s %.120s status=%d bytes=%zu seconds=%.3f id=%s", method_name(c),
              uri ? uri : "?", c->status, c->sent, server_now() - c->started, c->id);
}

void call_header(call *c, const char *name, const char *value)
{
    evhttp_add_header(evhttp_request_get_output_headers(c->req), name, value);
}

static const char *reason(int status)
{
    switch (status) {
    case 200:
        return "OK";
    case 204:
        return "No Content";
    case 400:
        return "Bad Request";
    case 401:
        return "Unauthorized";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 429:
        return "Too Many Requests";
    case 503:
        return "Service Unavailable";
    default:
        return "Internal Server Error";
    }
}

void call_reply(call *c, int status, const char *type, const pawl_buf *body)
{
    struct evhttp_request *req = c->req;
    struct evbuffer *b = evbuffer_new();
    c->status = status;
    c->sent = body ? body->len : 0;
    if (type) call_header(c, "Content-Type", type);
    if (atomic_load(&c->server->state) == SERVER_DRAINING) call_header(c, "Connection", "close");
    if (b && body) evbuffer_add(b, body->data, body->len);
    if (c->waiting) {
        struct bufferevent *bev = evhttp_connection_get_bufferevent(c->conn->evcon);
        bufferevent_setwatermark(bev, EV_READ, 0, 0);
        bufferevent_set_timeouts(bev, &c->server->idle_time, &c->server->write_time);
    }
    log_end(c);
    release(c); /* first: sending may end the connection */
    evhttp_send_reply(req, status, reason(status), b);
    if (b) evbuffer_free(b);
}

static const char *error_type(int status)
{
    switch (status) {
    case 401:
        return "authentication_error";
    case 404:
        return "not_found_error";
    case 429:
        return "rate_limit_error";
    case 503:
        return "service_unavailable_error";
    default:
        return status >= 500 ? "server_error" : "invalid_request_error";
    }
}

void call_error(call *c, int status, const char *param, const char *code, const char *message)
{
    pawl_buf b = {0};
    json_text_error(&b, error_type(status), param, code, message);
    if (status == 429 || status == 503) call_header(c, "Retry-After", "1");
    call_reply(c, status, "application/json", &b);
    pawl__buf_free(&b);
}

void call_fail(call *c, const char *param, const pawl_err *err)
{
    int draining = atomic_load(&c->server->state) == SERVER_DRAINING;
    switch (err->status) {
    case PAWL_EINVAL:
    case PAWL_EFORMAT:
    case PAWL_EUNSUPPORTED:
    case PAWL_ETIMEDOUT: /* a bound on work was reached: of a template or a pattern */
        call_error(c, 400, param, NULL, err->text);
        break;
    case PAWL_EBUSY:
        call_error(c, draining ? 503 : 429, NULL, draining ? "draining" : "queue_full", err->text);
        break;
    case PAWL_ECANCELED:
        call_error(c, 503, NULL, NULL, err->text);
        break;
    default:
        pawl__log(PAWL_LOG_ERROR, "http", "id=%s %s: %s", c->id, pawl_status_name(err->status), err->text);
        call_error(c, 500, NULL, NULL, err->text);
    }
}

/* evhttp stops reading while a request is answered, and so would not see the client go before the answer is written. The
 * read timeout would cut a long wait. */
void call_wait(call *c)
{
    struct bufferevent *bev = evhttp_connection_get_bufferevent(c->conn->evcon);
    bufferevent_data_cb read, write;
    bufferevent_event_cb event;
    void *arg;
    bufferevent_getcb(bev, &read, &write, &event, &arg);
    bufferevent_setcb(bev, NULL, write, event, arg); /* what comes now is the next request: it waits */
    bufferevent_setwatermark(bev, EV_READ, 0, WAITING_INPUT);
    bufferevent_set_timeouts(bev, NULL, &c->server->write_time);
    bufferevent_enable(bev, EV_READ);
    c->waiting = 1;
}

void call_stream_begin(call *c)
{
    struct bufferevent *bev = evhttp_connection_get_bufferevent(c->conn->evcon);
    c->streaming = 1;
    c->status = 200;
    call_header(c, "Content-Type", "text/event-stream; charset=utf-8");
    call_header(c, "Cache-Control", "no-cache");
    call_header(c, "X-Accel-Buffering", "no");
    if (atomic_load(&c->server->state) == SERVER_DRAINING) call_header(c, "Connection", "close");
    evhttp_send_reply_start(c->req, 200, "OK");
    bufferevent_set_timeouts(bev, NULL, &c->server->write_time); /* the read timeout would cut a silent stream */
}

static void on_drained(struct evhttp_connection *evcon, void *user)
{
    (void)evcon;
    connection *conn = user;
    if (conn->current && conn->current->completion) completion_drained(conn->current->completion);
}

void call_stream_send(call *c, const pawl_buf *data)
{
    struct evbuffer *b = evbuffer_new();
    if (!b || data->failed || evbuffer_add(b, data->data, data->len) != 0) {
        if (b) evbuffer_free(b);
        return; /* the stream will lack this piece and end without [DONE]: the client sees that it is cut */
    }
    c->sent += data->len;
    evhttp_send_reply_chunk_with_cb(c->req, b, on_drained, c->conn);
    evbuffer_free(b);
}

void call_stream_end(call *c)
{
    struct evhttp_request *req = c->req;
    struct bufferevent *bev = evhttp_connection_get_bufferevent(c->conn->evcon);
    bufferevent_set_timeouts(bev, &c->server->idle_time, &c->server->write_time);
    log_end(c);
    release(c);
    evhttp_send_reply_end(req);
}

size_t call_pending(const call *c)
{
    return evbuffer_get_length(bufferevent_get_output(evhttp_connection_get_bufferevent(c->conn->evcon)));
}

void call_drop(call *c)
{
    c->status = 499; /* as nginx logs a client that went away */
    log_end(c);
    release(c);
}

const char *call_body(call *c, size_t *n)
{
    struct evbuffer *b = evhttp_request_get_input_buffer(c->req);
    *n = evbuffer_get_length(b);
    const char *p = *n ? (const char *)evbuffer_pullup(b, -1) : "";
    if (!p) *n = 0, p = "";
    return p;
}
