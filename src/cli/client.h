/* A client for OpenAI's API: posts a request and hands on the events of its stream. For `pawl chat --connect` and `pawl
 * bench serve`. Many requests may run at once, each on a connection of its own; one thread. */
#ifndef PAWL_CLI_CLIENT_H
#define PAWL_CLI_CLIENT_H

#include <event2/event.h>
#include <jansson.h>

#include "base/buf.h"
#include "base/status.h"

/* Lines of server-sent events, cut anywhere: on_data is called with each "data:" line's value. A nonzero return ends the
 * call, as does a line over the buffer's limit (PAWL_EFORMAT). */
typedef int (*sse_fn)(const char *data, size_t n, void *user);
pawl_status sse_push(pawl_buf *held, const char *text, size_t n, sse_fn on_data, void *user);

typedef struct client client;
typedef struct client_request client_request;

/* url: http://HOST[:PORT], perhaps with /v1 behind it. key: an API key, or NULL. */
pawl_status client_create(const char *url, const char *key, client **out, pawl_err *err);
void client_destroy(client **c);
struct event_base *client_base(client *c);

typedef struct client_events {
    void (*event)(const json_t *event, void *user); /* each chunk of the stream; may be NULL */
    /* Once, at the end: OK after [DONE], otherwise err says what went wrong. The request is gone afterwards. */
    void (*end)(pawl_status st, const pawl_err *err, void *user);
} client_events;

/* Posts the body (text of a JSON object). *out, which may be NULL, is valid until the end. */
pawl_status client_post(client *c, const char *path, const char *body, const client_events *events, void *user,
                        client_request **out, pawl_err *err);
/* Hangs up; `end` is not called. */
void client_cancel(client_request *r);

#endif
