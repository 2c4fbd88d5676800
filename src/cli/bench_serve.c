/* pawl bench serve: load for a server that speaks OpenAI's API, and how it bore it. Tokens are counted from the server's
 * usage, times are the client's. */
#include "cli/cli.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "cli/client.h"

enum {
    KEY_REQUESTS = 0x200,
    KEY_CONCURRENCY,
    KEY_RATE,
    KEY_PROMPT,
    KEY_OUTPUT,
    KEY_SHARED,
    KEY_TEMP,
    KEY_SEED,
    KEY_DRAFT,
    KEY_MODEL,
    KEY_API_KEY,
    KEY_CSV,
    KEY_JSON,
    FIRST_IDS = 1000 /* prompts are random ids below this: every vocabulary has so many */
};

typedef struct bench_args {
    const char *url, *key, *model;
    int64_t requests, concurrency, prompt, output, shared, draft;
    double rate, temp;
    uint64_t seed;
    int csv, json;
} bench_args;

static const struct argp_option options[] = {
    {"requests", KEY_REQUESTS, "N", 0, "Requests in all (default 64)", 1},
    {"concurrency", KEY_CONCURRENCY, "N", 0, "At most so many at once (default 8)", 1},
    {"rate", KEY_RATE, "R", 0, "Requests a second, at random moments (default: as soon as another has ended)", 1},
    {"prompt-tokens", KEY_PROMPT, "N", 0, "Default 128", 1},
    {"output-tokens", KEY_OUTPUT, "N", 0, "Default 64; end tokens are ignored", 1},
    {"shared-prefix", KEY_SHARED, "N", 0, "So many of the prompt's tokens are the same in all (default 0)", 1},
    {"temp", KEY_TEMP, "T", 0, "Temperature (default 0)", 1},
    {"seed", KEY_SEED, "S", 0, "Of prompts, moments and sampling (default 1)", 1},
    {"draft", KEY_DRAFT, "N", 0, "Tokens drafted a round at most; pawl's servers only (default: the server's)", 1},
    {"model", KEY_MODEL, "NAME", 0, "For servers that want a name", 1},
    {"api-key", KEY_API_KEY, "KEY", 0, "The server's key", 1},
    {"csv", KEY_CSV, 0, 0, "A header line and a line of figures", 2},
    {"json", KEY_JSON, 0, 0, "One JSON object", 2},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *st)
{
    bench_args *a = st->input;
    switch (key) {
    case KEY_REQUESTS:
        a->requests = cli_int(st, "--requests", arg, 1, 10000000);
        break;
    case KEY_CONCURRENCY:
        a->concurrency = cli_int(st, "--concurrency", arg, 1, 100000);
        break;
    case KEY_RATE:
        a->rate = cli_num(st, "--rate", arg, 1e-6, 1e6);
        break;
    case KEY_PROMPT:
        a->prompt = cli_int(st, "--prompt-tokens", arg, 1, 10000000);
        break;
    case KEY_OUTPUT:
        a->output = cli_int(st, "--output-tokens", arg, 1, 10000000);
        break;
    case KEY_SHARED:
        a->shared = cli_int(st, "--shared-prefix", arg, 0, 10000000);
        break;
    case KEY_TEMP:
        a->temp = cli_num(st, "--temp", arg, 0, 100);
        break;
    case KEY_SEED:
        a->seed = cli_seed(st, "--seed", arg);
        break;
    case KEY_DRAFT:
        a->draft = cli_int(st, "--draft", arg, 0, PAWL_MAX_DRAFT);
        break;
    case KEY_MODEL:
        a->model = arg;
        break;
    case KEY_API_KEY:
        a->key = arg;
        break;
    case KEY_CSV:
        a->csv = 1;
        break;
    case KEY_JSON:
        a->json = 1;
        break;
    case ARGP_KEY_ARG:
        if (a->url) argp_error(st, "what is \"%s\"? bench serve takes one URL", arg);
        a->url = arg;
        break;
    case ARGP_KEY_END:
        if (!a->url) argp_error(st, "which server? Give its address, as http://127.0.0.1:8080");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const char doc[] =
    "Put load on a server with OpenAI's API and measure times and throughput."
    "\v"
    "Examples:\n"
    "  pawl bench serve http://127.0.0.1:8080 --concurrency 32 --requests 128\n"
    "  pawl bench serve URL --rate 5 --prompt-tokens 1000 --shared-prefix 800 --csv\n"
    "\n"
    "ttft: from sending a request to its first text; gap: between two chunks of a stream; token: a "
    "stream's time after its first chunk, by its tokens; all in seconds.\n";

static const struct argp parser = {options, parse, "URL", doc, NULL, NULL, NULL};

/* ---- the load ---------------------------------------------------------------------------------------------------- */

/* Measurements of one kind, sorted at the end. */
typedef struct series {
    double *v;
    size_t n, cap;
} series;

typedef struct bench bench;

typedef struct flight {
    bench *owner;
    double sent, first, last;
} flight;

struct bench {
    const bench_args *a;
    client *c;
    struct event *next; /* the next request's moment, with a rate */
    flight *flights;
    int64_t sent, ended, failed, running;
    int64_t prompt_tokens, output_tokens, cached_tokens, drafted, accepted;
    series ttft, gap, token, whole;
    uint64_t rng;
    double begun, over;
    pawl_err err; /* of the first that failed */
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void add(series *s, double v)
{
    if (s->n == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 1024;
        double *p = realloc(s->v, cap * sizeof *p);
        if (!p) return; /* one measurement less */
        s->v = p;
        s->cap = cap;
    }
    s->v[s->n++] = v;
}

static int64_t figure(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

static void on_event(const json_t *event, void *user)
{
    flight *f = user;
    bench *b = f->owner;
    const json_t *usage = json_object_get(event, "usage");
    double t = now();
    if (json_array_size(json_object_get(event, "choices"))) {
        if (!f->first) {
            f->first = t;
            add(&b->ttft, t - f->sent);
        } else {
            add(&b->gap, t - f->last);
        }
        f->last = t;
    }
    if (!json_is_object(usage)) return;
    int64_t tokens = figure(usage, "completion_tokens");
    const json_t *own = json_object_get(usage, "pawl");
    b->prompt_tokens += figure(usage, "prompt_tokens");
    b->output_tokens += tokens;
    b->cached_tokens += figure(json_object_get(usage, "prompt_tokens_details"), "cached_tokens");
    b->drafted += figure(own, "drafted");
    b->accepted += figure(own, "accepted");
    if (tokens > 1 && f->first) add(&b->token, (f->last - f->first) / (double)(tokens - 1));
}

static void send_more(bench *b);

static void on_end(pawl_status st, const pawl_err *err, void *user)
{
    flight *f = user;
    bench *b = f->owner;
    b->ended++;
    b->running--;
    b->over = now();
    if (st == PAWL_OK) {
        add(&b->whole, b->over - f->sent);
    } else if (b->failed++ == 0) {
        b->err = *err;
    }
    send_more(b);
    if (b->ended == b->a->requests) event_base_loopbreak(client_base(b->c));
}

/* The first `shared` ids depend on the seed alone, the others on the request too. */
static void write_body(const bench_args *a, int64_t i, pawl_buf *out)
{
    uint64_t common = a->seed, own = pawl__mix64(a->seed ^ (uint64_t)(i + 1) * 0x9e3779b97f4a7c15u);
    pawl__buf_puts(out, "{\"prompt\":[");
    for (int64_t k = 0; k < a->prompt; k++) {
        uint64_t r = pawl__rng_next(k < a->shared ? &common : &own);
        pawl__buf_printf(out, "%s%d", k ? "," : "", (int)(r % FIRST_IDS));
    }
    pawl__buf_printf(out,
                     "],\"max_tokens\":%" PRId64 ",\"ignore_eos\":true,\"temperature\":%g,\"seed\":%" PRId64
                     ",\"stream\":true,\"stream_options\":{\"include_usage\":true}",
                     a->output, a->temp, i);
    if (a->draft >= 0) pawl__buf_printf(out, ",\"draft\":%" PRId64, a->draft);
    if (a->model) {
        json_t *name = json_string(a->model);
        char *text = name ? json_dumps(name, JSON_ENCODE_ANY) : NULL;
        if (text) pawl__buf_printf(out, ",\"model\":%s", text);
        free(text);
        json_decref(name);
    }
    pawl__buf_puts(out, "}");
}

static void send_one(bench *b)
{
    static const client_events events = {.event = on_event, .end = on_end};
    flight *f = &b->flights[b->sent];
    pawl_buf body = {0};
    pawl_err err;
    write_body(b->a, b->sent++, &body);
    *f = (flight){.owner = b, .sent = now()};
    b->running++;
    pawl_status st = body.failed ? pawl__fail(&err, PAWL_ENOMEM, "out of memory")
                                 : client_post(b->c, "/v1/completions", body.data, &events, f, NULL, &err);
    pawl__buf_free(&body);
    if (st != PAWL_OK) on_end(st, &err, f);
}

/* Without a rate: as many as may run at once. */
static void send_more(bench *b)
{
    while (!b->next && b->sent < b->a->requests && b->running < b->a->concurrency) send_one(b);
}

/* Moments of a Poisson process: exponential waits. One that comes while too many run is lost time for the server, not for
 * the measurement: the request goes out at the next moment. */
static void on_moment(evutil_socket_t fd, short what, void *user)
{
    (void)fd, (void)what;
    bench *b = user;
    if (b->sent < b->a->requests && b->running < b->a->concurrency) send_one(b);
    if (b->sent == b->a->requests) return;
    double wait = -log(pawl__rng_uniform(&b->rng)) / b->a->rate;
    struct timeval t = {.tv_sec = (time_t)wait, .tv_usec = (suseconds_t)((wait - floor(wait)) * 1e6)};
    event_add(b->next, &t);
}

/* ---- figures ----------------------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(const series *s, double q)
{
    return s->n ? s->v[(size_t)(q * (double)(s->n - 1) + 0.5)] : 0;
}

static double mean(const series *s)
{
    double sum = 0;
    for (size_t i = 0; i < s->n; i++) sum += s->v[i];
    return s->n ? sum / (double)s->n : 0;
}

typedef struct row {
    const char *name;
    const series *s;
} row;

static void print_text(const bench *b, const row *rows, double seconds)
{
    printf("requests    %" PRId64 " of %" PRId64 " in %.2f s, %.2f a second, %" PRId64 " at once at most\n",
           b->ended - b->failed, b->a->requests, seconds, (double)(b->ended - b->failed) / seconds, b->a->concurrency);
    printf("prompt      %" PRId64 " tokens, %.1f a second, %" PRId64 " from the cache\n", b->prompt_tokens,
           (double)b->prompt_tokens / seconds, b->cached_tokens);
    printf("output      %" PRId64 " tokens, %.1f a second\n", b->output_tokens, (double)b->output_tokens / seconds);
    if (b->drafted) printf("drafts      %" PRId64 " of %" PRId64 " accepted\n", b->accepted, b->drafted);
    printf("seconds         mean       p50       p90       p99       max\n");
    for (int i = 0; i < 4; i++)
        printf("%-10s %9.4f %9.4f %9.4f %9.4f %9.4f\n", rows[i].name, mean(rows[i].s), quantile(rows[i].s, 0.5),
               quantile(rows[i].s, 0.9), quantile(rows[i].s, 0.99), quantile(rows[i].s, 1));
}

static void print_csv(const bench *b, const row *rows, double seconds)
{
    printf("requests,failed,concurrency,rate,prompt_tokens,output_tokens,cached_tokens,drafted,accepted,seconds,"
           "requests_per_second,output_tokens_per_second");
    for (int i = 0; i < 4; i++)
        printf(",%s_mean,%s_p50,%s_p90,%s_p99", rows[i].name, rows[i].name, rows[i].name, rows[i].name);
    printf("\n%" PRId64 ",%" PRId64 ",%" PRId64 ",%g,%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64
           ",%.3f,%.3f,%.2f",
           b->a->requests, b->failed, b->a->concurrency, b->a->rate, b->prompt_tokens, b->output_tokens,
           b->cached_tokens, b->drafted, b->accepted, seconds, (double)(b->ended - b->failed) / seconds,
           (double)b->output_tokens / seconds);
    for (int i = 0; i < 4; i++)
        printf(",%.6f,%.6f,%.6f,%.6f", mean(rows[i].s), quantile(rows[i].s, 0.5), quantile(rows[i].s, 0.9),
               quantile(rows[i].s, 0.99));
    printf("\n");
}

static int print_json(const bench *b, const row *rows, double seconds)
{
    json_t *root =
        json_pack("{s:s,s:I,s:I,s:I,s:f,s:I,s:I,s:I,s:I,s:I,s:f,s:f}", "schema", "pawl.bench.serve/1", "requests",
                  (json_int_t)b->a->requests, "failed", (json_int_t)b->failed, "concurrency",
                  (json_int_t)b->a->concurrency, "rate", b->a->rate, "prompt_tokens", (json_int_t)b->prompt_tokens,
                  "output_tokens", (json_int_t)b->output_tokens, "cached_tokens", (json_int_t)b->cached_tokens,
                  "drafted", (json_int_t)b->drafted, "accepted", (json_int_t)b->accepted, "seconds", seconds,
                  "output_tokens_per_second", (double)b->output_tokens / seconds);
    for (int i = 0; i < 4; i++)
        json_object_set_new(root, rows[i].name,
                            json_pack("{s:f,s:f,s:f,s:f,s:f}", "mean", mean(rows[i].s), "p50", quantile(rows[i].s, 0.5),
                                      "p90", quantile(rows[i].s, 0.9), "p99", quantile(rows[i].s, 0.99), "max",
                                      quantile(rows[i].s, 1)));
    return cli_print_json(root);
}

static int report(bench *b)
{
    series *all[] = {&b->ttft, &b->gap, &b->token, &b->whole};
    const row rows[] = {{"ttft", &b->ttft}, {"gap", &b->gap}, {"token", &b->token}, {"request", &b->whole}};
    for (int i = 0; i < 4; i++) qsort(all[i]->v, all[i]->n, sizeof(double), by_value);
    const double seconds = b->over - b->begun;
    int code = CLI_DONE;
    if (b->a->json)
        code = print_json(b, rows, seconds);
    else if (b->a->csv)
        print_csv(b, rows, seconds);
    else
        print_text(b, rows, seconds);
    for (int i = 0; i < 4; i++) free(all[i]->v);
    if (b->failed) {
        fprintf(stderr, "%" PRId64 " requests failed; the first:\n", b->failed);
        return cli_fail(&b->err);
    }
    return code;
}

static int bench_serve(int argc, char **argv)
{
    bench_args a = {.requests = 64, .concurrency = 8, .prompt = 128, .output = 64, .seed = 1, .draft = -1};
    argp_parse(&parser, argc, argv, 0, NULL, &a);
    bench b = {.a = &a, .rng = pawl__mix64(a.seed)};
    pawl_err err;
    b.flights = calloc((size_t)a.requests, sizeof *b.flights);
    if (!b.flights) return cli_error("out of memory");
    if (client_create(a.url, a.key, &b.c, &err) != PAWL_OK) {
        free(b.flights);
        return cli_fail(&err);
    }
    b.begun = now();
    if (a.rate > 0) {
        b.next = event_new(client_base(b.c), -1, 0, on_moment, &b);
        if (b.next) on_moment(-1, 0, &b);
    } else {
        send_more(&b);
    }
    if (b.ended < a.requests) event_base_dispatch(client_base(b.c));
    int code = report(&b);
    if (b.next) event_free(b.next);
    client_destroy(&b.c);
    free(b.flights);
    return cli_finish(code);
}

int cli_bench(int argc, char **argv)
{
    if (argc >= 2 && !strcmp(argv[1], "serve")) {
        static char name[] = "pawl bench serve";
        argv[1] = name;
        return bench_serve(argc - 1, argv + 1);
    }
    if (argc >= 2 && !strcmp(argv[1], "--help")) {
        static char name[] = "pawl bench serve";
        argv[0] = name;
        return bench_serve(argc, argv);
    }
    fputs("pawl bench: what is to be measured? `pawl bench serve URL`: a server; `make bench`: kernels and models\n",
          stderr);
    return CLI_USAGE;
}
