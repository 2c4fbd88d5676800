/* Speed and memory of a model as a whole.
 *
 * Fresh processes come first, before this one holds much memory: a child's peak, as the kernel counts it, includes what its
 * parent held when it was forked. Then, in this process: prefill, decoding with several numbers of drafts (taken in turns,
 * so that a busy neighbour slows them alike), the parts of a round, and between the repeats the rate at which all threads
 * together read memory. Figures are medians and good for comparing within one run: machines differ, and so do their hours. */
#include <argp.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/engine.h"
#include "report.h"

extern char **environ;

enum { MOST_REPEATS = 51, MODES = 5, STREAM_BLOCK = 1 << 20, STREAM_LEAST = 256 << 20 };
static const int modes[MODES] = {0, 1, 2, 4, PAWL_DRAFT_AUTO};
static const char *const mode_names[MODES] = {"0", "1", "2", "4", "auto"};
static const double MIB = 1024.0 * 1024.0;

typedef struct bench {
    const char *path, *prompt;
    char program[PATH_MAX];
    int repeats, tokens, threads;
    report_form form;
    report out;
    pawl_model *model;
    pawl_session *session;
    pawl_model_info info;
    int32_t *ids; /* the prompt */
    size_t n_ids;
    uint8_t *stream; /* for the reading rate */
    size_t stream_size;
    double rates[MOST_REPEATS + 1];
    int n_rates;
    uint64_t sums[256];
} bench;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

__attribute__((format(printf, 1, 2))) static void die(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fputs("bench_model: ", stderr);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

static void must(pawl_status s, const pawl_err *err)
{
    if (s != PAWL_OK) die("%s", err->text);
}

/* ---- fresh processes ---- */

/* Runs the program with its standard output in a pipe. first: seconds until the first byte comes, all: until it has ended.
 * Returns its peak memory in bytes. */
static double run_program(const bench *b, char *const *args, double *first, double *all)
{
    int fd[2], status;
    char bytes[4096];
    pid_t pid;
    if (pipe2(fd, O_CLOEXEC)) die("no pipe: %s", strerror(errno));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fd[1], STDOUT_FILENO);
    double t0 = now();
    int failed = posix_spawn(&pid, b->program, &actions, NULL, args, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed) die("%s: %s (see --pawl)", b->program, strerror(failed));
    close(fd[1]);
    *first = 0;
    for (ssize_t n; (n = read(fd[0], bytes, sizeof bytes)) != 0;) {
        if (n < 0 && errno != EINTR) die("reading from %s: %s", b->program, strerror(errno));
        if (*first == 0 && n > 0) *first = now() - t0;
    }
    close(fd[0]);
    struct rusage usage;
    while (wait4(pid, &status, 0, &usage) < 0)
        if (errno != EINTR) die("waiting for %s: %s", b->program, strerror(errno));
    *all = now() - t0;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) die("%s failed", b->program);
    if (*first == 0) *first = *all; /* the first token had no text of its own */
    return 1024.0 * (double)usage.ru_maxrss;
}

/* The program's arguments; a model without a tokenizer is asked with ids. */
static void arguments(bench *b, int has_text, const char *tokens, const char *draft, char *out[16])
{
    const char *const args[] = {b->program, "run", b->path,   "-p",  has_text ? b->prompt : "1,2,3", "-n", tokens,
                                "--temp",   "0",   "--draft", draft, has_text ? NULL : "--ids",      NULL};
    for (size_t i = 0; i < sizeof args / sizeof *args; i++) out[i] = (char *)args[i];
}

static void bench_processes(bench *b, int has_text)
{
    char *args[16];
    double first[MOST_REPEATS], all[MOST_REPEATS], peak = 0;
    arguments(b, has_text, "1", "auto", args);
    double warm_first, warm_all;
    run_program(b, args, &warm_first, &warm_all); /* the files come into the page cache */
    for (int i = 0; i < b->repeats; i++) run_program(b, args, &first[i], &all[i]);
    double worst = 0;
    for (int i = 0; i < b->repeats; i++) worst = first[i] > worst ? first[i] : worst;
    report_add(&b->out, "start_to_first_token", 1e3 * report_median(first, b->repeats), "ms",
               "a fresh process to its first byte of text; worst %.1f of %d", 1e3 * worst, b->repeats);
    report_add(&b->out, "start_to_first_token_best", 1e3 * first[0], "ms", NULL);
    report_add(&b->out, "one_token_process", 1e3 * report_median(all, b->repeats), "ms", "and to its end");
    static const char *const drafts[] = {"0", "4", "auto"};
    char tokens[16];
    snprintf(tokens, sizeof tokens, "%d", b->tokens);
    for (size_t i = 0; i < sizeof drafts / sizeof *drafts; i++) {
        arguments(b, has_text, tokens, drafts[i], args);
        double p = run_program(b, args, &warm_first, &warm_all);
        if (p > peak) peak = p;
    }
    report_add(&b->out, "peak_memory", peak / MIB, "MiB", "resident, fresh process, %d tokens, drafts 0, 4 and auto",
               b->tokens);
}

/* ---- the machine ---- */

static void stream_task(void *ctx, int task, int thread)
{
    bench *b = ctx;
    const uint64_t *p = (const uint64_t *)(const void *)(b->stream + (size_t)task * STREAM_BLOCK);
    uint64_t s[8] = {0};
    for (size_t i = 0; i < STREAM_BLOCK / sizeof *p; i += 8)
        for (int j = 0; j < 8; j++) s[j] ^= p[i + (size_t)j];
    for (int j = 1; j < 8; j++) s[0] ^= s[j];
    b->sums[thread % 256] ^= s[0];
}

static void open_stream(bench *b)
{
    long l3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
    size_t size = l3 > 0 ? 4 * (size_t)l3 : 0;
    if (size > (size_t)1 << 30) size = (size_t)1 << 30;
    if (size < STREAM_LEAST) size = STREAM_LEAST;
    b->stream_size = size / STREAM_BLOCK * STREAM_BLOCK;
    void *p;
    if (posix_memalign(&p, 4096, b->stream_size)) die("no memory for %zu bytes to read", b->stream_size);
    b->stream = p;
    for (size_t i = 0; i < b->stream_size; i += 8) memcpy(b->stream + i, &i, 8); /* real pages, not the zero page */
}

static void measure_stream(bench *b)
{
    double t0 = now();
    pawl__pool_run(b->model->pool, (int)(b->stream_size / STREAM_BLOCK), stream_task, b);
    b->rates[b->n_rates++] = (double)b->stream_size / (now() - t0);
}

/* ---- the model in this process ---- */

static void open_model(bench *b)
{
    pawl_err err;
    pawl_model_options mo = PAWL_INIT(pawl_model_options);
    mo.threads = b->threads;
    must(pawl_model_open(b->path, &mo, &b->model, &err), &err);
    must(pawl_session_create(b->model, NULL, &b->session, &err), &err);
    b->info = PAWL_INIT(pawl_model_info);
    pawl_model_get_info(b->model, &b->info);
    if (b->info.has_tokenizer)
        must(pawl_tokenize(b->model, b->prompt, strlen(b->prompt), 0, &b->ids, &b->n_ids, &err), &err);
    if (b->n_ids == 0) {
        pawl_free(b->ids);
        b->ids = malloc(3 * sizeof *b->ids);
        if (!b->ids) die("out of memory");
        for (b->n_ids = 0; b->n_ids < 3; b->n_ids++) b->ids[b->n_ids] = (int32_t)b->n_ids + 1;
    }
    int64_t room = pawl_session_context(b->session) - (int64_t)b->n_ids;
    if (room < b->tokens) b->tokens = room > 2 ? (int)room : 2;
}

static pawl_result generate(bench *b, const int32_t *ids, size_t n, int tokens, int draft)
{
    pawl_err err;
    pawl_sampling greedy = PAWL_INIT(pawl_sampling);
    greedy.top_p = greedy.repetition_penalty = 1;
    pawl_generate_options o = PAWL_INIT(pawl_generate_options);
    o.sampling = &greedy;
    o.max_tokens = tokens;
    o.draft = draft;
    o.ignore_eos = 1;
    pawl_result r = PAWL_INIT(pawl_result);
    pawl_session_reset(b->session);
    must(pawl_session_feed(b->session, ids, n, &err), &err);
    must(pawl_generate(b->session, &o, NULL, NULL, &r, &err), &err);
    return r;
}

/* Rows of the model's own text: what it says after the prompt, so that the choice of experts is a usual one. */
static void bench_prefill(bench *b)
{
    static const int lengths[] = {16, 64, 256};
    int64_t context = pawl_session_context(b->session), most = 256;
    if (most > context - 1) most = context - 1;
    if ((int64_t)b->n_ids < most) generate(b, b->ids, b->n_ids, (int)(most - (int64_t)b->n_ids), 0);
    size_t n;
    const int32_t *text = pawl_session_tokens(b->session, &n);
    int32_t *ids = malloc(n * sizeof *ids + 1);
    if (!ids) die("out of memory");
    memcpy(ids, text, n * sizeof *ids);
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
        for (int draft = 0; draft <= 2; draft += 2) {
            if ((size_t)lengths[l] > n || (draft && !b->info.draft_layers)) continue;
            double rate[MOST_REPEATS];
            for (int i = 0; i < b->repeats; i++)
                rate[i] = lengths[l] / generate(b, ids, (size_t)lengths[l], 1, draft).stats.prefill_seconds;
            char name[64];
            snprintf(name, sizeof name, "prefill_%d%s", lengths[l], draft ? "_with_draft_layer" : "");
            report_add(&b->out, name, report_median(rate, b->repeats), "tok/s", NULL);
        }
    free(ids);
}

static void bench_decode(bench *b)
{
    static double rate[MODES][MOST_REPEATS];
    pawl_result last[MODES];
    int n_modes = b->info.draft_layers ? MODES : 1;
    for (int m = 0; m < n_modes; m++) generate(b, b->ids, b->n_ids, b->tokens, modes[m]);
    for (int i = 0; i < b->repeats; i++) {
        measure_stream(b);
        for (int m = 0; m < n_modes; m++) {
            last[m] = generate(b, b->ids, b->n_ids, b->tokens, modes[m]);
            /* the first token belongs to the prefill */
            rate[m][i] = (double)(last[m].stats.generated_tokens - 1) / last[m].stats.decode_seconds;
        }
    }
    measure_stream(b);
    double plain = 0;
    for (int m = 0; m < n_modes; m++) {
        char name[64], places[100] = "";
        const pawl_stats *s = &last[m].stats;
        double median = report_median(rate[m], b->repeats);
        if (m == 0) plain = median;
        for (int i = 0; i < PAWL_MAX_DRAFT && s->drafted_at[i]; i++) {
            size_t at = strlen(places);
            snprintf(places + at, sizeof places - at, " %.0f%%",
                     100.0 * (double)s->accepted_at[i] / (double)s->drafted_at[i]);
        }
        snprintf(name, sizeof name, "decode_draft_%s", mode_names[m]);
        if (m == 0)
            report_add(&b->out, name, median, "tok/s", "range %.0f to %.0f", rate[m][0], rate[m][b->repeats - 1]);
        else
            report_add(&b->out, name, median, "tok/s", "%.2f x; range %.0f to %.0f; accepted by place%s",
                       median / plain, rate[m][0], rate[m][b->repeats - 1], places);
        if (!s->drafted) continue;
        snprintf(name, sizeof name, "tokens_a_round_draft_%s", mode_names[m]);
        report_add(&b->out, name, (double)(s->rounds + s->accepted) / (double)s->rounds, "tok", NULL);
        for (int i = 0; i < PAWL_MAX_DRAFT && s->drafted_at[i]; i++) {
            snprintf(name, sizeof name, "acceptance_draft_%s_place_%d", mode_names[m], i + 1);
            if (b->form != REPORT_TEXT) /* people have read it above */
                report_add(&b->out, name, (double)s->accepted_at[i] / (double)s->drafted_at[i], "share", NULL);
        }
    }
}

static int ignore_token(void *user, int32_t token, int drafted)
{
    (void)user;
    (void)token;
    (void)drafted;
    return 0;
}

/* Where the time of a round goes: medians over rounds of drafting, verifying and committing. */
static void bench_parts(bench *b, int draft)
{
    enum { MOST_ROUNDS = 512 };
    static double part[3][MOST_ROUNDS];
    pawl_err err;
    pawl_seq *q = b->session->seq;
    pawl_sampler *sampler;
    pawl_sample_params p = {.top_p = 1, .repetition = 1};
    int64_t valid = b->model->tokenizer ? pawl__tokenizer_size(b->model->tokenizer) : b->info.vocab;
    must(pawl__sampler_create(b->info.vocab, valid, &p, &sampler, &err), &err);
    pawl_session_reset(b->session);
    must(pawl_session_feed(b->session, b->ids, b->n_ids, &err), &err);
    while (q->done < q->n) must(pawl__seq_prefill(q, draft > 0, &b->model->exec, &err), &err);
    int32_t token;
    must(pawl__sampler_choose(sampler, q->logits, q->n, &token, &err), &err);
    q->tokens[q->n++] = token;
    pawl__sampler_add(sampler, token);
    int n = 0;
    for (int64_t end = q->n + b->tokens; n < MOST_ROUNDS && q->n < end && q->n + draft + 1 <= q->context; n++) {
        pawl_round r;
        must(pawl__seq_round(q, sampler, draft, draft > 0, ignore_token, NULL, &r, &b->model->exec, &err), &err);
        part[0][n] = r.draft_seconds;
        part[1][n] = r.verify_seconds;
        part[2][n] = r.commit_seconds;
    }
    pawl__sampler_destroy(&sampler);
    if (n == 0) return;
    static const char *const names[] = {"draft", "verify", "commit"};
    for (int i = draft ? 0 : 1; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "round_draft_%d_%s", draft, names[i]);
        report_add(&b->out, name, 1e6 * report_median(part[i], n), "us", NULL);
    }
}

/* ---- what a token has to read ---- */

static int64_t config_int(const json_t *config, const char *key)
{
    const json_t *text = json_object_get(config, "text_config"), *v = json_object_get(text ? text : config, key);
    return json_is_integer(v) ? json_integer_value(v) : json_is_true(v);
}

/* Bytes of weights that one token of plain decoding reads: all of the target but the experts that were not chosen, and of
 * the embedding one row unless it is the output matrix too. */
static double active_bytes(const pawl_model *m)
{
    const json_t *config = pawl__checkpoint_config(m->ck);
    int64_t experts = config_int(config, "num_experts"), chosen = config_int(config, "num_experts_per_tok");
    int tied =
        json_is_true(json_object_get(config, "tie_word_embeddings")) || config_int(config, "tie_word_embeddings") != 0;
    double sum = 0;
    for (size_t i = 0; i < pawl__checkpoint_count(m->ck); i++) {
        const pawl_tensor *t = pawl__checkpoint_at(m->ck, i);
        double bytes = (double)t->bytes;
        if (!pawl__checkpoint_used(m->ck, i) || !strncmp(t->name, "mtp.", 4)) continue;
        if (strstr(t->name, ".experts.") && experts > 0)
            bytes *= (double)chosen / (double)experts;
        else if (strstr(t->name, "embed_tokens") && !tied && t->shape[0] > 0)
            bytes /= (double)t->shape[0];
        sum += bytes;
    }
    return sum;
}

static void report_limits(bench *b)
{
    double weights = (double)b->info.weight_bytes, active = active_bytes(b->model);
    double rate = report_median(b->rates, b->n_rates), got = active * report_value(&b->out, "decode_draft_0");
    long l3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
    report_add(&b->out, "weights", weights / MIB, "MiB", NULL);
    report_add(&b->out, "peak_over_weights", report_value(&b->out, "peak_memory") - weights / MIB, "MiB", NULL);
    report_add(&b->out, "active_weights", active / MIB, "MiB", "that one token of plain decoding reads");
    report_add(&b->out, "read_bandwidth", rate * 1e-9, "GB/s", "%d threads reading %.0f MiB, in this run",
               b->info.threads, (double)b->stream_size / MIB);
    report_add(&b->out, "decode_reads", got * 1e-9, "GB/s", NULL);
    report_add(&b->out, "decode_share_of_bandwidth", 100 * got / rate, "%", "%s",
               l3 > 0 && weights < (double)l3 ? "no limit here: the whole model fits in the last-level cache"
                                              : "of what memory can give");
}

/* ---- command line ---- */

static const struct argp_option options[] = {
    {"csv", 'c', 0, 0, "name,value,unit", 0},
    {"json", 'j', 0, 0, "One JSON object (schema pawl.bench/1)", 0},
    {"prompt", 'p', "TEXT", 0, "Text to continue (default: the beginning of a tale)", 0},
    {"tokens", 'n', "N", 0, "Tokens to decode in each repeat (default 128)", 0},
    {"repeats", 'r', "N", 0, "Repeats of each figure, 1 to 51 (default 7)", 0},
    {"threads", 't', "N", 0, "Threads (default: all granted CPUs)", 0},
    {"pawl", 'P', "FILE", 0, "The program for fresh processes (default: beside this one's folder)", 0},
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
    case 'p':
        b->prompt = arg;
        break;
    case 'n':
        b->tokens = number(st, arg, 1 << 20);
        break;
    case 'r':
        b->repeats = number(st, arg, MOST_REPEATS);
        break;
    case 't':
        b->threads = number(st, arg, 1024);
        break;
    case 'P':
        snprintf(b->program, sizeof b->program, "%s", arg);
        break;
    case ARGP_KEY_ARG:
        if (b->path) argp_error(st, "one model at a time");
        b->path = arg;
        break;
    case ARGP_KEY_END:
        if (!b->path) argp_error(st, "which model? Give the folder of a checkpoint");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static void find_program(bench *b)
{
    char self[PATH_MAX - 16];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0) die("where is pawl? Give --pawl FILE");
    self[n] = 0;
    snprintf(b->program, sizeof b->program, "%s/../pawl", dirname(self));
}

int main(int argc, char **argv)
{
    static const struct argp parser = {options, parse, "MODEL", "Times a model as a whole, and weighs it.", 0, 0, 0};
    static bench b = {.prompt = "Once upon", .repeats = 7, .tokens = 128};
    argp_parse(&parser, argc, argv, 0, NULL, &b);
    if (!*b.program) find_program(&b);
    char tokenizer[PATH_MAX];
    snprintf(tokenizer, sizeof tokenizer, "%s/tokenizer.json", b.path);
    bench_processes(&b, access(tokenizer, R_OK) == 0);
    open_model(&b);
    open_stream(&b);
    bench_prefill(&b);
    bench_decode(&b);
    bench_parts(&b, 0);
    if (b.info.draft_layers) {
        bench_parts(&b, 2);
        bench_parts(&b, 4);
    }
    report_limits(&b);
    int failed = report_print(&b.out, b.form, b.path);
    free(b.stream);
    pawl_free(b.ids);
    pawl_session_destroy(&b.session);
    pawl_model_close(&b.model);
    return failed ? 1 : 0;
}
