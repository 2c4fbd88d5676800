/* What the server's files share.
 *
 * http.c owns loop, listener and connections; call.c is one HTTP request and the ways to answer it; routes.c finds the
 * handler; completion.c joins one completion request with the engine; openai_parse.c, openai_write.c and reasoning.c know
 * the API's formats and nothing of HTTP; metrics.c counts. Everything but completion.c's on_event runs on the loop's
 * thread. */
#ifndef PAWL_SERVER_INTERNAL_H
#define PAWL_SERVER_INTERNAL_H

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "server/metrics.h"
#include "server/server.h"

typedef struct call call;
typedef struct completion completion;
typedef struct connection connection;

enum { SERVER_LOADING, SERVER_READY, SERVER_DRAINING };

struct pawl_server {
    /* options, copied */
    char *host, *cors;
    char **api_keys;
    size_t n_api_keys, max_body;
    int port, max_connections, parse_special;
    struct timeval header_time, idle_time, write_time, ping_time;

    struct event_base *base;
    struct evhttp *http;
    struct evconnlistener *listener;
    struct event *wake; /* the eventfd */
    struct event *sweep;
    pthread_t thread;
    int wake_fd;

    /* connections: fresh ones have not sent a request yet */
    connection *fresh;
    connection **by_fd;
    size_t n_by_fd;
    int n_connections;
    double finish_by; /* while stopping: when the loop ends at the latest */

    call *calls; /* being answered */
    int n_calls;
    uint64_t next_id;
    pawl_metrics metrics;
    pawl_served served;
    int64_t created; /* seconds since the epoch, for /v1/models */

    /* shared with other threads */
    atomic_int state;
    atomic_int stop; /* 1: what still runs is cut off and the loop ends */
    atomic_int open; /* n_calls, for who waits for the drain */
    pthread_mutex_t lock;
    pthread_cond_t idle;
    completion *dirty; /* have events to be looked at; under lock */
};

/* ---- http.c ---- */
/* Makes the loop look at the dirty list and at `stop`. From any thread. */
void server_wake(pawl_server *s);
double server_now(void);

/* A connection, from accepting it to its end. */
struct connection {
    pawl_server *server;
    struct bufferevent *bev; /* a reference while fresh */
    struct event *deadline;  /* while fresh */
    struct evhttp_connection *evcon;
    connection *next, *prev; /* in the list of fresh ones */
    int fd;
    call *current; /* the request being answered */
};

/* ---- call.c ---- */
struct call {
    pawl_server *server;
    connection *conn;
    struct evhttp_request *req;
    call *next, *prev;
    char id[64]; /* x-request-id */
    double started;
    int streaming, waiting, status;
    size_t sent;            /* bytes of the body */
    completion *completion; /* NULL for what is answered at once */
    char tenant[20];        /* names the API key without giving it away; "" where none is asked for */
};

call *call_begin(pawl_server *s, connection *c, struct evhttp_request *req);
/* Answers with a whole body and ends the call. type: the media type. */
void call_reply(call *c, int status, const char *type, const pawl_buf *body);
/* OpenAI's error object; param and code may be NULL. Ends the call. */
void call_error(call *c, int status, const char *param, const char *code, const char *message);
/* From a failed library call: EINVAL, EFORMAT 400, EBUSY 429, ECANCELED 503, the rest 500. */
void call_fail(call *c, const char *param, const pawl_err *err);
void call_header(call *c, const char *name, const char *value);
/* The answer will come later and whole: until then it is noticed when the client goes. */
void call_wait(call *c);
/* A stream of server-sent events: headers, then pieces, then the end. */
void call_stream_begin(call *c);
/* drained (may be NULL) is called once the client has taken all that was sent. */
void call_stream_send(call *c, const pawl_buf *data);
void call_stream_end(call *c);
/* Bytes that wait for the client. */
size_t call_pending(const call *c);
/* The client is gone, or is cut off: frees the call without a word. */
void call_drop(call *c);
/* The body as received, contiguous; borrowed. */
const char *call_body(call *c, size_t *n);

/* ---- routes.c ---- */
/* Answers, or begins to. */
void route_call(call *c, const char *path);

/* ---- completion.c ---- */
void completion_begin(call *c, int chat);
/* Looks at all completions with news. */
void completions_pump(pawl_server *s);
/* The client has taken what was sent. */
void completion_drained(completion *p);
/* Cancels and frees; the call goes on without it. */
void completion_free(completion *p);
/* A comment line if nothing was sent lately. */
void completion_ping(completion *p, double now);

#endif
