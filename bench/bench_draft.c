/* What drafting gains: decoding with the draft length chosen at run time and with fixed ones against plain decoding, on sums
 * answered with thinking, stories greedy and sampled, and on a random model whose drafts are never right.
 *
 * All modes take turns in each repeat, so that a busy neighbour slows them alike; figures are medians over the repeats, and
 * ratios are of one repeat's times. Each mode has one session, kept over the prompts as in a chat. */
#include <argp.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pawl/pawl.h"
#include "report.h"
#include "tool/synth.h"

enum { MOST_REPEATS = 31, MODES = 7, SKIP = 32 };
static const int modes[MODES] = {0, PAWL_DRAFT_AUTO, 1, 2, 3, 4, 6};
static const char *const mode_names[MODES] = {"plain", "auto", "1", "2", "3", "4", "6"};

#define ASK(question) "<|im_start|>user\n" question "<|im_end|>\n<|im_start|>assistant\n<think>\n"
static const char *const sums[] = {ASK("What is 607 + 52?"), ASK("What is 11 * 8?"),
                                   ASK("Tom has 14 apples. Anna gives Tom 9 more. How many apples does Tom have now?"),
                                   ASK("What is 93 - 48?"), NULL};
static const char *const stories[] = {
    "Once upon a time there was a poor woodcutter who lived with his two children at the edge of a great forest.",
    "The king said to his three sons:", "It was a dark night, and the wind", NULL};

typedef struct bench {
    const char *path, *config;
    int repeats, tokens, threads;
    report_form form;
    report out;
} bench;

/* The time of the tokens after the first few, while they come. */
typedef struct watch {
    double start, last;
    int64_t n, skip;
} watch;

__attribute__((format(printf, 1, 2), noreturn)) static void die(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fputs("bench_draft: ", stderr);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

static void must(pawl_status s, const pawl_err *err)
{
    if (s != PAWL_OK) die("%s", err->text);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int look(const pawl_token *t, void *user)
{
    watch *w = user;
    (void)t;
    w->last = now();
    if (w->n++ == w->skip) w->start = w->last;
    return 0;
}

typedef struct mode_run {
    pawl_session *session;
    double seconds[MOST_REPEATS], ratio[MOST_REPEATS], speed[MOST_REPEATS];
    pawl_stats stats; /* summed over the repeats */
} mode_run;

/* Seconds a token over all prompts. */
static double decode(mode_run *r, int draft, const int32_t *const *ids, const size_t *n_ids, size_t prompts,
                     const pawl_sampling *sampling, int64_t tokens, int64_t skip, int ignore_eos)
{
    double seconds = 0;
    int64_t n = 0;
    pawl_err err;
    for (size_t i = 0; i < prompts; i++) {
        watch w = {.skip = skip};
        pawl_generate_options o = PAWL_INIT(pawl_generate_options);
        pawl_result res = PAWL_INIT(pawl_result);
        o.sampling = sampling;
        o.draft = draft;
        o.max_tokens = tokens;
        o.ignore_eos = ignore_eos;
        pawl_session_reset(r->session);
        must(pawl_session_feed(r->session, ids[i], n_ids[i], &err), &err);
        must(pawl_generate(r->session, &o, look, &w, &res, &err), &err);
        if (w.n <= skip + 1) continue;
        seconds += w.last - w.start;
        n += w.n - skip - 1;
        r->stats.rounds += res.stats.rounds;
        for (int j = 0; j < PAWL_MAX_DRAFT; j++) {
            r->stats.drafted_at[j] += res.stats.drafted_at[j];
            r->stats.accepted_at[j] += res.stats.accepted_at[j];
        }
        r->stats.generated_tokens += res.stats.generated_tokens;
    }
    if (n == 0) die("no prompt gave more than %lld tokens", (long long)skip + 1);
    return seconds / (double)n;
}

static void report_mode(bench *b, const char *what, int m, mode_run *r)
{
    char name[64], note[160];
    int at = snprintf(note, sizeof note, "%.2f tokens a round; accepted by place",
                      (double)r->stats.generated_tokens / (double)(r->stats.rounds ? r->stats.rounds : 1));
    for (int j = 0; j < PAWL_MAX_DRAFT && r->stats.drafted_at[j] && at < (int)sizeof note - 8; j++)
        at += snprintf(note + at, sizeof note - (size_t)at, " %.2f",
                       (double)r->stats.accepted_at[j] / (double)r->stats.drafted_at[j]);
    snprintf(name, sizeof name, "%s_%s", what, mode_names[m]);
    report_add(&b->out, name, report_median(r->speed, b->repeats), "tok/s", "%s", m ? note : "");
    snprintf(name, sizeof name, "%s_%s_ratio", what, mode_names[m]);
    if (m) report_add(&b->out, name, report_median(r->ratio, b->repeats), "x plain", NULL);
}

static void compare(bench *b, pawl_model *m, const char *what, const int32_t *const *ids, const size_t *n_ids,
                    size_t prompts, float temperature, int64_t tokens, int64_t skip, int ignore_eos)
{
    static mode_run runs[MODES];
    pawl_err err;
    pawl_sampling s = PAWL_INIT(pawl_sampling);
    s.top_p = temperature > 0 ? 0.95f : 1;
    s.temperature = temperature;
    s.repetition_penalty = 1;
    s.has_seed = 1;
    memset(runs, 0, sizeof runs);
    for (int i = 0; i < MODES; i++) {
        pawl_session_options so = PAWL_INIT(pawl_session_options);
        so.context = 1024;
        must(pawl_session_create(m, &so, &runs[i].session, &err), &err);
    }
    for (int rep = 0; rep < b->repeats; rep++) {
        s.seed = 7 + (uint64_t)rep;
        for (int i = 0; i < MODES; i++) {
            mode_run *r = &runs[i];
            double t = decode(r, modes[i], ids, n_ids, prompts, &s, tokens, skip, ignore_eos);
            r->seconds[rep] = t;
            r->speed[rep] = 1 / t;
            r->ratio[rep] = runs[0].seconds[rep] / t;
        }
    }
    for (int i = 0; i < MODES; i++) {
        report_mode(b, what, i, &runs[i]);
        pawl_session_destroy(&runs[i].session);
    }
}

static void compare_texts(bench *b, pawl_model *m, const char *what, const char *const *texts, float temperature,
                          int ignore_eos)
{
    enum { MOST = 8 };
    int32_t *ids[MOST];
    size_t n_ids[MOST], n = 0;
    pawl_err err;
    for (; n < MOST && texts[n]; n++)
        must(pawl_tokenize(m, texts[n], strlen(texts[n]), PAWL_TOKENIZE_SPECIAL, &ids[n], &n_ids[n], &err), &err);
    compare(b, m, what, (const int32_t *const *)ids, n_ids, n, temperature, b->tokens, 0, ignore_eos);
    for (size_t i = 0; i < n; i++) pawl_free(ids[i]);
}

static void remove_folder(const char *path)
{
    char file[1024];
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        unlink(file);
    }
    if (d) closedir(d);
    rmdir(path);
}

/* A random model of the same shape: 512 tokens after the first 32. */
static void compare_random(bench *b, const pawl_model_options *mo)
{
    char dir[] = "/tmp/bench-draft-XXXXXX";
    pawl_err err;
    pawl_model *m;
    if (!mkdtemp(dir)) die("%s: no such folder can be made", dir);
    pawl_synth_opts so = {.seed = 5, .format = PAWL_SYNTH_FP8};
    pawl_status st = pawl__synth(b->config, dir, &so, &err);
    if (st == PAWL_OK) st = pawl_model_open(dir, mo, &m, &err);
    remove_folder(dir); /* what is mapped stays readable */
    must(st, &err);
    static const int32_t prompt[] = {1, 2, 3, 4, 5, 6, 7, 8};
    const int32_t *ids[] = {prompt};
    size_t n = sizeof prompt / sizeof *prompt;
    compare(b, m, "random", ids, &n, 1, 0, SKIP + 512, SKIP, 1);
    pawl_model_close(&m);
}

static const struct argp_option options[] = {
    {"csv", 'c', 0, 0, "name,value,unit", 0},
    {"json", 'j', 0, 0, "One JSON object (schema pawl.bench/1)", 0},
    {"tokens", 'n', "N", 0, "Most tokens for each prompt (default 128)", 0},
    {"repeats", 'r', "N", 0, "Repeats, 1 to 31 (default 7)", 0},
    {"threads", 't', "N", 0, "Threads (default: all granted CPUs)", 0},
    {0},
};

static int number(struct argp_state *st, const char *arg, int most)
{
    char *end;
    long v = strtol(arg, &end, 10);
    if (*end || v < 1 || v > most) argp_error(st, "found \"%s\", expected a number from 1 to %d", arg, most);
    return (int)v;
}

static error_t parse(int key, char *arg, struct argp_state *st)
{
    bench *b = st->input;
    switch (key) {
    case 'c':
        b->form = REPORT_CSV;
        break;
    case 'j':
        b->form = REPORT_JSON;
        break;
    case 'n':
        b->tokens = number(st, arg, 512);
        break;
    case 'r':
        b->repeats = number(st, arg, MOST_REPEATS);
        break;
    case 't':
        b->threads = number(st, arg, 1024);
        break;
    case ARGP_KEY_ARG:
        if (b->path) argp_error(st, "one model at a time");
        b->path = arg;
        break;
    case ARGP_KEY_END:
        if (!b->path) argp_error(st, "which model? Give the folder of a checkpoint with a tokenizer");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

int main(int argc, char **argv)
{
    static bench b = {.repeats = 7, .tokens = 128};
    static const struct argp how = {
        options, parse, "MODEL", "Speed of drafting against plain decoding, with what was accepted.", 0, 0, 0};
    argp_parse(&how, argc, argv, 0, NULL, &b);
    pawl_err err;
    pawl_model *m;
    pawl_model_options mo = PAWL_INIT(pawl_model_options);
    mo.threads = b.threads;
    must(pawl_model_open(b.path, &mo, &m, &err), &err);
    compare_texts(&b, m, "thinking", sums, 0, 0);
    compare_texts(&b, m, "stories", stories, 0, 1);
    compare_texts(&b, m, "sampled", stories, 0.7f, 1);
    pawl_model_close(&m);
    char config[4096];
    snprintf(config, sizeof config, "%s/config.json", b.path);
    b.config = config;
    compare_random(&b, &mo);
    return report_print(&b.out, b.form, b.path) ? 1 : 0;
}
