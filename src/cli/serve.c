/* pawl serve: a model behind OpenAI's API, until a signal asks to stop. */
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "server/server.h"
#include "tool/explain_model.h"

enum {
    KEY_HOST = 0x200,
    KEY_PORT,
    KEY_NAME,
    KEY_API_KEY,
    KEY_API_KEY_FILE,
    KEY_CORS,
    KEY_MAX_BODY,
    KEY_MAX_CONNECTIONS,
    KEY_PARSE_SPECIAL,
    KEY_SLOTS,
    KEY_KV_TOKENS,
    KEY_PREFIX_BYTES,
    KEY_QUEUE,
    KEY_DRAFT,
    KEY_NO_LOAD_RULE,
    KEY_TRACE,
    KEY_DRAIN,
    KEY_WRITE_TIMEOUT,
    KEY_HEADER_TIMEOUT,
    KEY_IDLE_TIMEOUT,
    MAX_KEY_FILE = 1 << 20
};

typedef struct serve_args {
    const char *model, *name, *key_file;
    cli_model_args machine;
    pawl_server_options http;
    pawl_engine_options engine;
    cli_list keys;
    double drain;
} serve_args;

static const struct argp_option options[] = {
    {0, 0, 0, 0, "Clients:", 1},
    {"host", KEY_HOST, "ADDRESS", 0, "Listen here (default 127.0.0.1; 0.0.0.0: on every interface)", 1},
    {"port", KEY_PORT, "N", 0, "Default 8080; 0: any free one, which is printed", 1},
    {"name", KEY_NAME, "NAME", 0, "The model's name for clients (default: its folder's)", 1},
    {"api-key", KEY_API_KEY, "KEY", 0,
     "Ask for this key. May be repeated; others on this machine can see it: see "
     "--api-key-file",
     1},
    {"api-key-file", KEY_API_KEY_FILE, "FILE", 0, "Ask for one of the keys in this file, one a line", 1},
    {"cors", KEY_CORS, "ORIGIN", 0, "Let web pages from this origin ask (* for any)", 1},
    {"parse-special", KEY_PARSE_SPECIAL, 0, 0, "Special tokens typed in messages take effect", 1},
    {0, 0, 0, 0, "Limits:", 2},
    {"max-body", KEY_MAX_BODY, "BYTES", 0, "Of a request (default 16 MiB)", 2},
    {"max-connections", KEY_MAX_CONNECTIONS, "N", 0, "Default 1024", 2},
    {"header-timeout", KEY_HEADER_TIMEOUT, "S", 0, "A new connection has this long to send a request (default 10)", 2},
    {"idle-timeout", KEY_IDLE_TIMEOUT, "S", 0, "A kept-alive connection may be silent this long (default 60)", 2},
    {"write-timeout", KEY_WRITE_TIMEOUT, "S", 0, "A client that reads nothing is dropped after this (default 30)", 2},
    {"queue", KEY_QUEUE, "N", 0, "Requests that may wait, then 429 (default 256)", 2},
    {"drain", KEY_DRAIN, "S", 0, "On SIGTERM running requests have this long (default 30)", 2},
    {0, 0, 0, 0, "The engine:", 3},
    {"slots", KEY_SLOTS, "N", 0, "Sequences that run at once (default: as memory allows, at most 64)", 3},
    {"kv-tokens", KEY_KV_TOKENS, "N", 0, "Positions that the KV cache holds (default: from memory)", 3},
    {"prefix-bytes", KEY_PREFIX_BYTES, "BYTES", 0, "Budget of the prefix cache; 0: none (default: from memory)", 3},
    {"draft", KEY_DRAFT, "N|auto", 0, "Tokens drafted a round; never changes a byte (default auto)", 3},
    {"no-load-rule", KEY_NO_LOAD_RULE, 0, 0, "Draft as much under load as without", 3},
    {"trace", KEY_TRACE, "FILE", 0, "Write each step in Chrome's trace format", 3},
    {0},
};

static void parse_draft(struct argp_state *st, serve_args *a, const char *arg)
{
    a->engine.draft = !strcmp(arg, "auto") ? PAWL_DRAFT_AUTO : (int)cli_int(st, "--draft", arg, 0, PAWL_MAX_DRAFT);
}

static error_t parse_engine(int key, char *arg, struct argp_state *st)
{
    serve_args *a = st->input;
    switch (key) {
    case KEY_SLOTS:
        a->engine.max_seqs = (int32_t)cli_int(st, "--slots", arg, 1, 4096);
        break;
    case KEY_KV_TOKENS:
        a->engine.kv_tokens = cli_int(st, "--kv-tokens", arg, 16, INT64_MAX / 4096);
        break;
    case KEY_PREFIX_BYTES:
        a->engine.prefix_bytes = cli_int(st, "--prefix-bytes", arg, 0, INT64_MAX);
        if (a->engine.prefix_bytes == 0) a->engine.prefix_bytes = -1;
        break;
    case KEY_QUEUE:
        a->engine.max_queue = (int32_t)cli_int(st, "--queue", arg, 1, 1000000);
        break;
    case KEY_DRAFT:
        parse_draft(st, a, arg);
        break;
    case KEY_NO_LOAD_RULE:
        a->engine.no_load_rule = 1;
        break;
    case KEY_TRACE:
        a->engine.trace = arg;
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static error_t parse(int key, char *arg, struct argp_state *st)
{
    serve_args *a = st->input;
    switch (key) {
    case ARGP_KEY_INIT:
        st->child_inputs[0] = &a->machine;
        break;
    case KEY_HOST:
        a->http.host = arg;
        break;
    case KEY_PORT:
        a->http.port = (int)cli_int(st, "--port", arg, 0, 65535);
        break;
    case KEY_NAME:
        a->name = arg;
        break;
    case KEY_API_KEY:
        if (!*arg) argp_error(st, "--api-key: the key is empty");
        cli_list_add(st, &a->keys, arg);
        break;
    case KEY_API_KEY_FILE:
        a->key_file = arg;
        break;
    case KEY_CORS:
        a->http.cors = arg;
        break;
    case KEY_PARSE_SPECIAL:
        a->http.parse_special = 1;
        break;
    case KEY_MAX_BODY:
        a->http.max_body = (size_t)cli_int(st, "--max-body", arg, 1024, (int64_t)1 << 32);
        break;
    case KEY_MAX_CONNECTIONS:
        a->http.max_connections = (int)cli_int(st, "--max-connections", arg, 1, 100000);
        break;
    case KEY_HEADER_TIMEOUT:
        a->http.header_seconds = cli_num(st, "--header-timeout", arg, 0.01, 3600);
        break;
    case KEY_IDLE_TIMEOUT:
        a->http.idle_seconds = cli_num(st, "--idle-timeout", arg, 0.01, 86400);
        break;
    case KEY_WRITE_TIMEOUT:
        a->http.write_seconds = cli_num(st, "--write-timeout", arg, 0.01, 86400);
        break;
    case KEY_DRAIN:
        a->drain = cli_num(st, "--drain", arg, 0, 86400);
        break;
    case ARGP_KEY_ARG:
        if (a->model) argp_error(st, "what is \"%s\"? serve takes one MODEL", arg);
        a->model = arg;
        break;
    case ARGP_KEY_END:
        if (!a->model) argp_error(st, "which model? Give the folder of a checkpoint");
        break;
    default:
        return parse_engine(key, arg, st);
    }
    return 0;
}

static const char doc[] = "Serve a model over HTTP as OpenAI's API has it: /v1/chat/completions, /v1/completions, "
                          "/v1/models, /tokenize, /detokenize, /health, /metrics."
                          "\v"
                          "Examples:\n"
                          "  pawl serve models/tale-moe-fp8\n"
                          "  pawl serve MODEL --host 0.0.0.0 --api-key-file keys.txt --log-json\n"
                          "\n"
                          "SIGTERM or SIGINT: no new requests, running ones are finished; a second one ends at once.\n";

static const struct argp_child children[] = {{&cli_model_argp, 0, NULL, 0}, {0}};
static const struct argp parser = {options, parse, "MODEL", doc, children, NULL, NULL};

/* ---- what the server is given ------------------------------------------------------------------------------------ */

/* Adds the file's lines to the keys; they point into *text, which the caller frees. */
static pawl_status read_keys(serve_args *a, char **text, pawl_err *err)
{
    size_t n;
    if (!a->key_file) return PAWL_OK;
    PAWL_TRY(pawl__file_read(a->key_file, MAX_KEY_FILE, text, &n, err));
    char *rest = *text, *line;
    size_t before = a->keys.n;
    while ((line = strsep(&rest, "\r\n"))) {
        while (*line == ' ' || *line == '\t') line++;
        for (size_t k = strlen(line); k && (line[k - 1] == ' ' || line[k - 1] == '\t');) line[--k] = 0;
        if (!*line || *line == '#') continue;
        const char **v = realloc(a->keys.v, (a->keys.n + 1) * sizeof *v);
        if (!v) return pawl__fail(err, PAWL_ENOMEM, "%s: out of memory", a->key_file);
        a->keys.v = v;
        v[a->keys.n++] = line;
    }
    if (a->keys.n == before) return pawl__fail(err, PAWL_EINVAL, "%s holds no key", a->key_file);
    return PAWL_OK;
}

/* The folder's own name, also of "." and with slashes at its end. *out is the caller's. */
static pawl_status model_name(const serve_args *a, char **out, pawl_err *err)
{
    char *path = a->name ? NULL : realpath(a->model, NULL);
    const char *slash = path ? strrchr(path, '/') : NULL;
    const char *name = a->name ? a->name : slash && slash[1] ? slash + 1 : a->model;
    *out = strdup(name);
    free(path);
    return *out ? PAWL_OK : pawl__fail(err, PAWL_ENOMEM, "out of memory");
}

static void quote_label(pawl_buf *b, const char *s)
{
    for (; *s; s++) {
        if (*s == '"' || *s == '\\') pawl__buf_putc(b, '\\');
        pawl__buf_putc(b, *s == '\n' ? ' ' : *s);
    }
}

/* The route table as lines for /metrics: which kernel serves which op from how many rows on. */
static void route_lines(const serve_args *a, pawl_buf *out)
{
    cli_kernel_options k;
    pawl_buf text = {0};
    json_t *root = NULL;
    cli_kernel_options_from(&a->machine, &k);
    if (pawl__explain_model(a->model, NULL, &k.target, k.has_draft ? &k.draft : NULL, 1, &text, NULL) == PAWL_OK)
        pawl__json_parse(text.data, text.len, "explain", &root, NULL);
    const json_t *ops = json_object_get(root, "ops");
    if (json_array_size(ops))
        pawl__buf_puts(out, "# HELP pawl_route_info The kernel that serves an op from this many rows on.\n"
                            "# TYPE pawl_route_info gauge\n");
    for (size_t i = 0; i < json_array_size(ops); i++) {
        const json_t *op = json_array_get(ops, i), *spans = json_object_get(op, "spans");
        const char *query = json_string_value(json_object_get(op, "query"));
        const char *scope = json_string_value(json_object_get(op, "scope"));
        for (size_t s = 0; query && scope && s < json_array_size(spans); s++) {
            const json_t *span = json_array_get(spans, s);
            const char *kernel = json_string_value(json_object_get(span, "kernel"));
            pawl__buf_printf(out, "pawl_route_info{scope=\"%s\",from=\"%lld\",kernel=\"%s\",query=\"", scope,
                             (long long)json_integer_value(json_object_get(span, "from")), kernel ? kernel : "");
            quote_label(out, query);
            pawl__buf_puts(out, "\"} 1\n");
        }
    }
    json_decref(root);
    pawl__buf_free(&text);
}

/* ---- systemd ----------------------------------------------------------------------------------------------------- */

/* sd_notify's protocol: a datagram to the socket that the environment names; nothing without one. */
static void notify(const char *message)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (!path || (*path != '/' && *path != '@') || strlen(path) >= sizeof to.sun_path) return;
    memcpy(to.sun_path, path, strlen(path));
    if (*path == '@') to.sun_path[0] = 0; /* an abstract address */
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return;
    socklen_t n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    if (sendto(fd, message, strlen(message), MSG_NOSIGNAL, (struct sockaddr *)&to, n) < 0)
        pawl__log(PAWL_LOG_WARN, "serve", "%s: %s", path, strerror(errno));
    close(fd);
}

/* ---- serving ----------------------------------------------------------------------------------------------------- */

typedef struct serving {
    pawl_model *model;
    pawl_chat *chat;
    pawl_engine *engine;
    pawl_server *server;
    pawl_buf metrics;
    char *name, *key_text;
} serving;

static void greet(const serve_args *a, const serving *v)
{
    pawl_engine_options o = PAWL_INIT(pawl_engine_options);
    pawl_engine_get_options(v->engine, &o);
    const char *host = a->http.host ? a->http.host : "127.0.0.1";
    const char *ask = !strcmp(host, "0.0.0.0") || !strcmp(host, "::") ? "127.0.0.1" : host;
    int brackets = strchr(ask, ':') != NULL, port = pawl__server_port(v->server);
    fprintf(stderr,
            "pawl %s serves %s at http://%s%s%s:%d\n"
            "context %" PRId64 " tokens, %d sequences at once, %" PRId64 " positions of KV cache, drafting %s\n",
            pawl_version(), v->name, brackets ? "[" : "", ask, brackets ? "]" : "", port, o.context, o.max_seqs,
            o.kv_tokens, o.draft == 0 ? "off" : "on");
    fprintf(stderr,
            "try:  curl http://%s%s%s:%d/v1/chat/completions -H 'Content-Type: application/json' %s-d "
            "'{\"messages\":[{\"role\":\"user\",\"content\":\"What is 17 + 25?\"}]}'\n",
            brackets ? "[" : "", ask, brackets ? "]" : "", port, a->keys.n ? "-H 'Authorization: Bearer KEY' " : "");
}

static pawl_status open_all(serve_args *a, serving *v, pawl_err *err)
{
    PAWL_TRY(read_keys(a, &v->key_text, err));
    PAWL_TRY(model_name(a, &v->name, err));
    a->http.api_keys = a->keys.v;
    a->http.n_api_keys = a->keys.n;
    PAWL_TRY(pawl__server_start(&a->http, &v->server, err)); /* /health answers while the model is loaded */
    PAWL_TRY(cli_model_open(&a->machine, a->model, &v->model, err));
    pawl_model_info info = PAWL_INIT(pawl_model_info);
    pawl_model_get_info(v->model, &info);
    if (!info.has_tokenizer)
        return pawl__fail(err, PAWL_EUNSUPPORTED, "%s has no tokenizer.json: there is no text to serve", a->model);
    if (info.has_template) PAWL_TRY(pawl_chat_open(v->model, &v->chat, err));
    a->engine.context = a->machine.context;
    a->engine.max_rows = a->machine.chunk;
    PAWL_TRY(pawl_engine_create(v->model, &a->engine, &v->engine, err));
    route_lines(a, &v->metrics);
    const pawl_served served = {
        .name = v->name, .model = v->model, .chat = v->chat, .engine = v->engine, .metrics = v->metrics.data};
    pawl__server_ready(v->server, &served);
    return PAWL_OK;
}

static void close_all(serving *v)
{
    pawl__server_stop(&v->server); /* first: it uses all the others */
    pawl_engine_destroy(&v->engine);
    pawl_chat_close(&v->chat);
    pawl_model_close(&v->model);
    pawl__buf_free(&v->metrics);
    free(v->name);
    free(v->key_text);
}

/* Signals are taken by a thread of their own, from the start on, so that no other is interrupted: while loading a signal
 * ends the program, then the first one asks to stop and the second ends the program. */
static sigset_t wanted;
static sem_t asked;
static atomic_int serving_now;

static void *watch_signals(void *user)
{
    (void)user;
    int sig = 0;
    while (sigwait(&wanted, &sig) != 0) {}
    if (!atomic_load(&serving_now)) _exit(128 + sig);
    pawl__log(PAWL_LOG_INFO, "serve", "signal %d: finishing what runs", sig);
    sem_post(&asked);
    while (sigwait(&wanted, &sig) != 0) {}
    _exit(128 + sig);
}

static pawl_status start_watching(pawl_err *err)
{
    pthread_t thread;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGTERM);
    sigaddset(&wanted, SIGINT);
    pthread_sigmask(SIG_BLOCK, &wanted, NULL); /* the threads that come inherit it */
    sem_init(&asked, 0, 0);
    int e = pthread_create(&thread, NULL, watch_signals, NULL);
    if (e) return pawl__fail(err, PAWL_EIO, "no thread: %s", strerror(e));
    pthread_detach(thread);
    return PAWL_OK;
}

static void serve_until_signal(const serve_args *a, serving *v)
{
    atomic_store(&serving_now, 1);
    notify("READY=1");
    while (sem_wait(&asked) != 0) {}
    notify("STOPPING=1");
    int left = pawl__server_drain(v->server, a->drain);
    if (left) pawl__log(PAWL_LOG_WARN, "serve", "%d requests were cut off after %g s", left, a->drain);
}

int cli_serve(int argc, char **argv)
{
    serve_args a = {.http = {.port = 8080}, .engine = PAWL_INIT(pawl_engine_options), .drain = 30};
    a.engine.draft = PAWL_DRAFT_AUTO;
    argp_parse(&parser, argc, argv, 0, NULL, &a);
    setenv("PAWL_LOG", "info", 0); /* one line a request, unless the user has chosen */
    pawl_err err;
    serving v = {0};
    pawl_status st = start_watching(&err);
    if (st == PAWL_OK) st = open_all(&a, &v, &err);
    if (st == PAWL_OK) {
        greet(&a, &v);
        serve_until_signal(&a, &v);
    }
    close_all(&v);
    free(a.keys.v);
    cli_model_args_free(&a.machine);
    return st == PAWL_OK ? CLI_DONE : cli_fail(&err);
}
