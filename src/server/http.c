/* The event loop: listening, connections and their limits, waking up for the engine's news, ending.
 *
 * libevent's evhttp has no time limit for sending a request (its timeout begins anew with each byte) and no limit on
 * connections; both are made here. A connection is "fresh" until its first request has come in whole: it then holds a
 * reference to the bufferevent and has a deadline, at which the socket is shut down. */
#include "server/internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/thread.h>
#include <jansson.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/rng.h"

enum { BACKLOG = 1024, MAX_HEADERS = 32 << 10, FINISH_SECONDS = 2 };

double server_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void server_wake(pawl_server *s)
{
    uint64_t one = 1;
    ssize_t ignored = write(s->wake_fd, &one, sizeof one); /* fails only when it is awake already */
    (void)ignored;
}

/* ---- connections ---- */

static void listen_if_room(pawl_server *s)
{
    if (s->n_connections < s->max_connections && s->listener && atomic_load(&s->state) != SERVER_DRAINING)
        evconnlistener_enable(s->listener);
}

/* Takes a connection out of the fresh list, with its deadline and its reference. */
static void settle(connection *c)
{
    pawl_server *s = c->server;
    if (!c->deadline) return;
    event_free(c->deadline);
    c->deadline = NULL;
    if (c->prev)
        c->prev->next = c->next;
    else
        s->fresh = c->next;
    if (c->next) c->next->prev = c->prev;
    bufferevent_decref(c->bev);
}

static void forget(connection *c)
{
    pawl_server *s = c->server;
    settle(c);
    if (c->fd >= 0 && (size_t)c->fd < s->n_by_fd && s->by_fd[c->fd] == c) s->by_fd[c->fd] = NULL;
    free(c);
    s->n_connections--;
    listen_if_room(s);
}

/* The socket stays open while the reference is held, so this cannot hit somebody else's. */
static void on_deadline(evutil_socket_t fd, short what, void *user)
{
    (void)fd, (void)what;
    connection *c = user;
    int sock = bufferevent_getfd(c->bev);
    if (sock >= 0) shutdown(sock, SHUT_RDWR);
    forget(c);
}

static struct bufferevent *on_accept(struct event_base *base, void *user)
{
    pawl_server *s = user;
    struct bufferevent *bev = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
    connection *c = bev ? calloc(1, sizeof *c) : NULL;
    if (c) c->deadline = event_new(base, -1, 0, on_deadline, c);
    if (!c || !c->deadline) { /* without memory for the limits: evhttp makes its own, unlimited but for its timeout */
        free(c);
        return bev;
    }
    c->server = s;
    c->bev = bev;
    c->fd = -1;
    bufferevent_incref(bev);
    event_add(c->deadline, &s->header_time);
    c->next = s->fresh;
    if (c->next) c->next->prev = c;
    s->fresh = c;
    if (++s->n_connections >= s->max_connections && s->listener) evconnlistener_disable(s->listener);
    return bev;
}

/* Fresh connections whose client has gone: evhttp has let go of the bufferevent, only our reference is left. */
static void on_sweep(evutil_socket_t fd, short what, void *user)
{
    (void)fd, (void)what;
    pawl_server *s = user;
    for (connection *c = s->fresh, *next; c; c = next) {
        next = c->next;
        bufferevent_data_cb read, write;
        bufferevent_event_cb event;
        void *arg;
        bufferevent_getcb(c->bev, &read, &write, &event, &arg);
        if (!read && !write && !event) forget(c);
    }
    double now = server_now();
    for (call *c = s->calls, *next; c; c = next) {
        next = c->next;
        if (c->completion) completion_ping(c->completion, now);
    }
}

static void on_close(struct evhttp_connection *evcon, void *user)
{
    (void)evcon;
    connection *c = user;
    if (c->current) call_drop(c->current);
    forget(c);
}

/* The connection of a request: known by its socket, or fresh. NULL when out of memory. */
static connection *connection_of(pawl_server *s, struct evhttp_request *req)
{
    struct evhttp_connection *evcon = evhttp_request_get_connection(req);
    struct bufferevent *bev = evhttp_connection_get_bufferevent(evcon);
    int fd = bufferevent_getfd(bev);
    if (fd < 0) return NULL;
    if ((size_t)fd < s->n_by_fd && s->by_fd[fd]) return s->by_fd[fd];
    connection *c = s->fresh;
    while (c && c->bev != bev) c = c->next;
    if (!c) return NULL;
    if ((size_t)fd >= s->n_by_fd) {
        size_t n = (size_t)fd + 64;
        connection **p = realloc(s->by_fd, n * sizeof *p);
        if (!p) return NULL;
        memset(p + s->n_by_fd, 0, (n - s->n_by_fd) * sizeof *p);
        s->by_fd = p;
        s->n_by_fd = n;
    }
    s->by_fd[fd] = c;
    c->fd = fd;
    c->evcon = evcon;
    settle(c);
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    evhttp_connection_set_closecb(evcon, on_close, c);
    return c;
}

static void on_request(struct evhttp_request *req, void *user)
{
    pawl_server *s = user;
    connection *c = connection_of(s, req);
    call *k = c ? call_begin(s, c, req) : NULL;
    if (!k) {
        evhttp_send_error(req, 503, NULL);
        return;
    }
    const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(req);
    const char *path = uri ? evhttp_uri_get_path(uri) : NULL;
    route_call(k, path ? path : "/");
}

/* ---- the loop ---- */

/* Ends the loop once the clients have taken the answers that are on their way, or after a moment. */
static void on_finish(evutil_socket_t fd, short what, void *user)
{
    (void)fd, (void)what;
    pawl_server *s = user;
    static const struct timeval soon = {.tv_usec = 5000};
    int waiting = 0;
    for (size_t i = 0; i < s->n_by_fd; i++)
        if (s->by_fd[i]) waiting |= evbuffer_get_length(bufferevent_get_output(s->by_fd[i]->bev)) > 0;
    if (!waiting || server_now() > s->finish_by || event_base_once(s->base, -1, EV_TIMEOUT, on_finish, s, &soon) != 0)
        event_base_loopbreak(s->base);
}

static void on_wake(evutil_socket_t fd, short what, void *user)
{
    (void)what;
    pawl_server *s = user;
    uint64_t n;
    ssize_t ignored = read(fd, &n, sizeof n);
    (void)ignored;
    completions_pump(s);
    if (atomic_load(&s->state) == SERVER_DRAINING && s->listener) evconnlistener_disable(s->listener);
    if (!atomic_load(&s->stop) || s->finish_by > 0) return;
    while (s->calls) {
        connection *c = s->calls->conn;
        call_drop(s->calls);
        evhttp_connection_free(c->evcon);
    }
    s->finish_by = server_now() + FINISH_SECONDS;
    on_finish(-1, 0, s);
}

static void *loop(void *user)
{
    pawl_server *s = user;
    event_base_dispatch(s->base);
    return NULL;
}

static void on_libevent(int severity, const char *message)
{
    pawl__log(severity >= EVENT_LOG_ERR    ? PAWL_LOG_ERROR
              : severity == EVENT_LOG_WARN ? PAWL_LOG_WARN
                                           : PAWL_LOG_DEBUG,
              "http", "%s", message);
}

/* ---- starting and ending ---- */

static pawl_status bind_listener(pawl_server *s, int port, pawl_err *err)
{
    char service[16];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *list;
    snprintf(service, sizeof service, "%d", port);
    int e = getaddrinfo(s->host, service, &hints, &list);
    if (e) return pawl__fail(err, PAWL_EINVAL, "--host %.200s: %s", s->host, gai_strerror(e));
    int saved = 0;
    for (struct addrinfo *a = list; a && !s->listener; a = a->ai_next) {
        s->listener = evconnlistener_new_bind(s->base, NULL, NULL,
                                              LEV_OPT_CLOSE_ON_FREE | LEV_OPT_REUSEABLE | LEV_OPT_CLOSE_ON_EXEC,
                                              BACKLOG, a->ai_addr, (int)a->ai_addrlen);
        saved = errno;
    }
    freeaddrinfo(list);
    if (!s->listener) return pawl__fail(err, PAWL_EIO, "%.200s port %d: %s", s->host, port, strerror(saved));
    struct sockaddr_storage bound;
    socklen_t n = sizeof bound;
    if (getsockname(evconnlistener_get_fd(s->listener), (struct sockaddr *)&bound, &n) == 0)
        s->port = ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
                                                    : ((struct sockaddr_in *)&bound)->sin_port);
    if (!evhttp_bind_listener(s->http, s->listener)) {
        evconnlistener_free(s->listener);
        s->listener = NULL;
        return pawl__fail(err, PAWL_ENOMEM, "server: out of memory");
    }
    return PAWL_OK;
}

static void set_limits(pawl_server *s)
{
    evhttp_set_max_headers_size(s->http, MAX_HEADERS);
    evhttp_set_max_body_size(s->http, (ev_ssize_t)s->max_body);
    evhttp_set_timeout_tv(s->http, &s->idle_time);
    evhttp_set_allowed_methods(s->http, EVHTTP_REQ_GET | EVHTTP_REQ_POST | EVHTTP_REQ_HEAD | EVHTTP_REQ_OPTIONS |
                                            EVHTTP_REQ_PUT | EVHTTP_REQ_DELETE | EVHTTP_REQ_PATCH);
    evhttp_set_default_content_type(s->http, NULL);
    evhttp_set_bevcb(s->http, on_accept, s);
    evhttp_set_gencb(s->http, on_request, s);
}

static struct timeval seconds_or(double given, double otherwise)
{
    double t = given > 0 ? given : otherwise;
    return (struct timeval){.tv_sec = (time_t)t, .tv_usec = (suseconds_t)((t - (double)(time_t)t) * 1e6)};
}

static pawl_status copy_options(pawl_server *s, const pawl_server_options *o, pawl_err *err)
{
    s->host = strdup(o->host ? o->host : "127.0.0.1");
    s->cors = o->cors ? strdup(o->cors) : NULL;
    s->api_keys = calloc(o->n_api_keys + 1, sizeof *s->api_keys);
    int bad = !s->host || (o->cors && !s->cors) || !s->api_keys;
    for (size_t i = 0; !bad && i < o->n_api_keys; i++) bad = !(s->api_keys[s->n_api_keys++] = strdup(o->api_keys[i]));
    s->max_body = o->max_body ? o->max_body : (size_t)16 << 20;
    s->max_connections = o->max_connections ? o->max_connections : 1024;
    s->parse_special = o->parse_special;
    s->header_time = seconds_or(o->header_seconds, 10);
    s->idle_time = seconds_or(o->idle_seconds, 60);
    s->write_time = seconds_or(o->write_seconds, 30);
    s->ping_time = seconds_or(o->ping_seconds, 5);
    return bad ? pawl__fail(err, PAWL_ENOMEM, "server: out of memory") : PAWL_OK;
}

static pawl_status set_up(pawl_server *s, const pawl_server_options *o, pawl_err *err)
{
    PAWL_TRY(copy_options(s, o, err));
    s->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (s->wake_fd < 0) return pawl__fail(err, PAWL_EIO, "eventfd: %s", strerror(errno));
    if (evthread_use_pthreads() != 0) return pawl__fail(err, PAWL_EINTERNAL, "libevent has no threads here");
    event_set_log_callback(on_libevent);
    s->base = event_base_new();
    s->http = s->base ? evhttp_new(s->base) : NULL;
    s->wake = s->base ? event_new(s->base, s->wake_fd, EV_READ | EV_PERSIST, on_wake, s) : NULL;
    s->sweep = s->base ? event_new(s->base, -1, EV_PERSIST, on_sweep, s) : NULL;
    if (!s->http || !s->wake || !s->sweep) return pawl__fail(err, PAWL_ENOMEM, "server: out of memory");
    const struct timeval each = {.tv_usec = 500000};
    event_add(s->wake, NULL);
    event_add(s->sweep, &each);
    set_limits(s);
    PAWL_TRY(bind_listener(s, o->port, err));
    int e = pthread_create(&s->thread, NULL, loop, s);
    return e ? pawl__fail(err, PAWL_EIO, "server: no thread: %s", strerror(e)) : PAWL_OK;
}

static void tear_down(pawl_server *s)
{
    if (s->http) evhttp_free(s->http); /* closes connections, with on_close for each, and the listener */
    while (s->fresh) forget(s->fresh);
    if (s->wake) event_free(s->wake);
    if (s->sweep) event_free(s->sweep);
    if (s->base) event_base_free(s->base);
    if (s->wake_fd >= 0) close(s->wake_fd);
    for (size_t i = 0; i < s->n_api_keys; i++) free(s->api_keys[i]);
    free(s->api_keys);
    free(s->host);
    free(s->cors);
    free(s->by_fd);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->idle);
    free(s);
}

pawl_status pawl__server_start(const pawl_server_options *opt, pawl_server **out, pawl_err *err)
{
    *out = NULL;
    signal(SIGPIPE, SIG_IGN);
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    json_object_seed(0); /* before there are threads that might do it at once */
    pawl_server *s = calloc(1, sizeof *s);
    if (!s) return pawl__fail(err, PAWL_ENOMEM, "server: out of memory");
    s->wake_fd = -1;
    s->created = (int64_t)time(NULL);
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->idle, &attr);
    pthread_condattr_destroy(&attr);
    s->next_id = pawl__mix64((uint64_t)(server_now() * 1e9) ^ (uint64_t)getpid() << 32);
    pawl_status st = set_up(s, opt, err);
    if (st == PAWL_OK)
        *out = s;
    else
        tear_down(s);
    return st;
}

int pawl__server_port(const pawl_server *s)
{
    return s->port;
}

void pawl__server_ready(pawl_server *s, const pawl_served *served)
{
    s->served = *served; /* nobody reads it before the state says so */
    atomic_store(&s->state, SERVER_READY);
}

int pawl__server_drain(pawl_server *s, double seconds)
{
    atomic_store(&s->state, SERVER_DRAINING);
    server_wake(s);
    double end = server_now() + seconds;
    struct timespec until = {.tv_sec = (time_t)end, .tv_nsec = (long)((end - (double)(time_t)end) * 1e9)};
    pthread_mutex_lock(&s->lock);
    while (atomic_load(&s->open) > 0 && pthread_cond_timedwait(&s->idle, &s->lock, &until) == 0) {}
    int left = atomic_load(&s->open);
    pthread_mutex_unlock(&s->lock);
    return left;
}

void pawl__server_stop(pawl_server **s)
{
    if (!*s) return;
    atomic_store(&(*s)->stop, 1);
    server_wake(*s);
    pthread_join((*s)->thread, NULL);
    tear_down(*s);
    *s = NULL;
}
