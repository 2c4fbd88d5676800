/* The HTTP server: OpenAI's API in front of an engine. `pawl serve` is its one user.
 *
 * One thread runs the event loop and owns every connection; the engine's thread only appends what a request has produced
 * to that request's buffer. The server answers /health from its start, everything else once it has been given an engine. */
#ifndef PAWL_SERVER_SERVER_H
#define PAWL_SERVER_SERVER_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "pawl/chat.h"
#include "pawl/engine.h"

typedef struct pawl_server pawl_server;

/* Strings are copied. A zero means the default in brackets. */
typedef struct pawl_server_options {
    const char *host;            /* address to listen on [127.0.0.1] */
    int port;                    /* 0: any free one */
    const char *const *api_keys; /* accepted as "Authorization: Bearer KEY"; none: everybody may ask */
    size_t n_api_keys;
    const char *cors;      /* an origin, or "*", that browsers may ask from; NULL: none */
    size_t max_body;       /* bytes of a request's body [16 MiB] */
    int max_connections;   /* [1024] */
    double header_seconds; /* until a new connection has sent a whole request [10] */
    double idle_seconds;   /* a kept-alive connection may be silent [60] */
    double write_seconds;  /* a client that reads nothing is dropped after [30] */
    double ping_seconds;   /* silence in a stream is broken by a comment [5] */
    int parse_special;     /* special tokens typed in messages take effect */
} pawl_server_options;

/* Binds, listens and starts the loop. PAWL_EIO when the address cannot be had. */
pawl_status pawl__server_start(const pawl_server_options *opt, pawl_server **out, pawl_err *err);
int pawl__server_port(const pawl_server *s);

/* What the server serves; all borrowed until pawl__server_stop. */
typedef struct pawl_served {
    const char *name; /* the model's name in answers and in /v1/models */
    const pawl_model *model;
    const pawl_chat *chat; /* NULL: no chat template, /v1/chat/completions answers 400 */
    pawl_engine *engine;
    const char *metrics; /* lines that /metrics shows as they are, or NULL */
} pawl_served;
/* From now on requests are taken. */
void pawl__server_ready(pawl_server *s, const pawl_served *served);

/* Takes no new connections or requests and waits until the running ones are answered, `seconds` at most; what is left is
 * cut off. Returns the number of requests cut off. */
int pawl__server_drain(pawl_server *s, double seconds);
/* Ends the loop and frees everything; *s may be NULL. The engine must still be there. */
void pawl__server_stop(pawl_server **s);

#endif
