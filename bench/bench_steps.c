/* Times the forward pass of a whole model: decoding and prefill at growing contexts, the cost of verifying several rows
 * against one, and several sequences at once. Random tokens, the same ones in each run; no drafts, no sampling.
 *
 * The bytes that a step reads are counted: all weights but the experts, the experts that the step's rows really chose,
 * keys and values, and recurrent states in and out. A context is not computed but pretended: its keys and values are
 * filled with random numbers, which cost the same to read. Figures are medians over steps; shares are of what memory and
 * multipliers gave just before (machine.h). */
#include <argp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "engine/engine.h"
#include "machine.h"
#include "report.h"

enum { MOST_CONTEXTS = 8, PREFILL = 512, MOST_ROWS = 9, MOST_SEQS = 8, STEPS = 64, MOST_STEPS = 256, GENERATED = 64 };

typedef struct bench {
    const char *path, *isa, *activations, *only;
    int threads, steps;
    report_form form;
    int64_t contexts[MOST_CONTEXTS];
    int n_contexts;
    report out;
    machine *limits;
    machine_rates rates;
    pawl_model *model;
    pawl_net_state *st;
    const pawl_net_dims *d;
    /* what a step reads */
    double dense_bytes, expert_bytes;   /* all weights but experts; one expert of one layer */
    double dense_params, expert_params; /* of the linears that every row passes, the output matrix not among them */
    int64_t experts, top_k, moe_layers; /* 0 without experts */
    int64_t attention_layers;           /* of the target */
    uint8_t *touched;                   /* [layers][experts]: chosen in this step */
    double n_touched;                   /* experts in all layers, summed over steps since it was cleared */
    uint64_t rng;
    int32_t *pages;  /* [sequences][pages] */
    int64_t n_pages; /* of one sequence */
    float *hidden, *logits;
    int32_t *all_rows;
} bench;

__attribute__((format(printf, 1, 2), noreturn)) static void die(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fputs("bench_steps: ", stderr);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

static void must(pawl_status s, const pawl_err *err)
{
    if (s != PAWL_OK) die("%s", err->text);
}

static void *allocate(int64_t n, size_t size)
{
    void *p = calloc((size_t)n + 1, size);
    if (!p) die("out of memory");
    return p;
}

/* ---- what a step reads ---- */

static int64_t config_int(const json_t *config, const char *key)
{
    const json_t *text = json_object_get(config, "text_config"), *v = json_object_get(text ? text : config, key);
    return json_is_integer(v) ? json_integer_value(v) : 0;
}

static int ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && !strcmp(s + n - m, end);
}

/* Weights of a tensor that rows are multiplied with; 0 for scales, vectors and tables. */
static double params_of(const pawl_tensor *t)
{
    const char *const scales[] = {"_scale", "_scale_inv", "_scale_2", "input_scale"};
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++)
        if (ends_with(t->name, scales[i])) return 0;
    if (t->rank < 2 || strstr(t->name, "embed_tokens") || strstr(t->name, "lm_head")) return 0;
    return (double)pawl__tensor_count(t) * (t->dtype == PAWL_U8 ? 2 : 1); /* two e2m1 codes a byte */
}

static void count_weights(bench *b)
{
    const pawl_checkpoint *ck = b->model->ck;
    const json_t *config = pawl__checkpoint_config(ck);
    int tied = pawl__checkpoint_find(ck, "lm_head.weight") == NULL;
    double expert_bytes = 0, expert_params = 0;
    b->experts = config_int(config, "num_experts");
    b->top_k = config_int(config, "num_experts_per_tok");
    for (size_t i = 0; i < pawl__checkpoint_count(ck); i++) {
        const pawl_tensor *t = pawl__checkpoint_at(ck, i);
        if (!pawl__checkpoint_used(ck, i) || !strncmp(t->name, "mtp.", 4)) continue;
        if (ends_with(t->name, "mlp.gate.weight")) b->moe_layers++;
        if (ends_with(t->name, "self_attn.k_norm.weight")) b->attention_layers++;
        if (strstr(t->name, ".experts.")) {
            expert_bytes += (double)t->bytes;
            expert_params += params_of(t);
        } else if (!strstr(t->name, "embed_tokens") || tied) {
            b->dense_bytes += (double)t->bytes;
            b->dense_params += params_of(t);
        }
    }
    if (!b->moe_layers) return;
    b->expert_bytes = expert_bytes / (double)(b->moe_layers * b->experts);
    b->expert_params = expert_params / (double)(b->moe_layers * b->experts);
    b->touched = allocate((b->d->layers + 1) * b->experts, 1);
}

static void see(void *user, const char *what, int64_t layer, const void *data, int64_t rows, int64_t width)
{
    bench *b = user;
    const int32_t *ids = data;
    if (strcmp(what, "router_ids") || !b->touched) return;
    uint8_t *seen = b->touched + layer * b->experts;
    memset(seen, 0, (size_t)b->experts);
    for (int64_t i = 0; i < rows * width; i++) {
        b->n_touched += !seen[ids[i]];
        seen[ids[i]] = 1;
    }
}

/* Bytes of keys and values of one position, and of the recurrent states that a row reads and writes. */
static double position_bytes(const bench *b)
{
    return 2.0 * 4 * (double)(b->attention_layers * b->d->kv_heads * b->d->head_dim);
}

static double state_bytes(const bench *b)
{
    return 2.0 * 4 * (double)(b->d->rec_layers * b->d->nv * b->d->dk * b->d->dv);
}

/* ---- steps ---- */

/* Brings all weights into memory and into the page table, as they are in a process that has run for a while. */
static void touch_weights(const bench *b)
{
    volatile unsigned sum = 0;
    for (size_t i = 0; i < pawl__checkpoint_count(b->model->ck); i++) {
        const pawl_tensor *t = pawl__checkpoint_at(b->model->ck, i);
        for (size_t j = 0; pawl__checkpoint_used(b->model->ck, i) && j < t->bytes; j += 4096) sum += t->data[j];
    }
}

static void open_model(bench *b)
{
    pawl_err err;
    pawl_model_options mo = PAWL_INIT(pawl_model_options);
    pawl_kernel_options ko = PAWL_INIT(pawl_kernel_options);
    ko.isa = b->isa;
    ko.activations = b->activations;
    mo.threads = b->threads;
    mo.kernels = &ko;
    double t0 = bench_now();
    must(pawl_model_open(b->path, &mo, &b->model, &err), &err);
    report_add(&b->out, "open", 1e3 * (bench_now() - t0), "ms", "until it could take tokens, %.2f GB of weights",
               1e-9 * (double)b->model->weight_bytes);
    touch_weights(b);
    report_add(&b->out, "open_and_all_in_memory", 1e3 * (bench_now() - t0), "ms", NULL);
    b->d = pawl__net_dims(b->model->net);
    count_weights(b);
    int64_t most = PREFILL + GENERATED;
    for (int i = 0; i < b->n_contexts; i++)
        if (b->contexts[i] + PREFILL + GENERATED > most) most = b->contexts[i] + PREFILL + GENERATED;
    b->n_pages = (most + PAWL_KV_PAGE - 1) / PAWL_KV_PAGE;
    int64_t small = (PREFILL + GENERATED + PAWL_KV_PAGE - 1) / PAWL_KV_PAGE; /* of the further sequences */
    int64_t pages = b->n_pages + small * (MOST_SEQS - 1);
    pawl_net_state_options so = {.max_rows = PREFILL,
                                 .max_verify = MOST_ROWS,
                                 .n_pages = pages,
                                 .n_slots = MOST_SEQS,
                                 .probe = see,
                                 .probe_user = b};
    must(pawl__net_state_create(b->model->net, &so, &b->st, &err), &err);
    b->pages = allocate(pages, sizeof *b->pages);
    if (pawl__kv_take(pawl__net_kv(b->st), pages, b->pages) != PAWL_OK) die("no KV pages");
    for (int i = 0; i < MOST_SEQS; i++) pawl__slots_take(pawl__net_slots(b->st));
    b->hidden = allocate(PREFILL * b->d->hidden, sizeof(float));
    b->logits = allocate(MOST_ROWS * b->d->vocab, sizeof(float));
    b->all_rows = allocate(PREFILL, sizeof *b->all_rows);
    for (int32_t i = 0; i < PREFILL; i++) b->all_rows[i] = i;
    int64_t floats = pages * b->d->kv_heads * PAWL_KV_PAGE * b->d->head_dim;
    for (int64_t l = 0; l < b->d->kv_layers; l++) {
        float *k = pawl__kv_keys(pawl__net_kv(b->st), l), *v = pawl__kv_values(pawl__net_kv(b->st), l);
        for (int64_t i = 0; i < floats; i++) {
            k[i] = (float)pawl__rng_uniform(&b->rng) - 0.5f;
            v[i] = (float)pawl__rng_uniform(&b->rng) - 0.5f;
        }
    }
}

/* One step of `seqs` sequences with `rows` rows each at position `pos`; its seconds. */
static double step(bench *b, int seqs, int rows, int64_t pos, int verify)
{
    pawl_err err;
    int32_t ids[PREFILL];
    pawl_seg segs[MOST_SEQS];
    int m = seqs * rows;
    for (int i = 0; i < m; i++) ids[i] = (int32_t)(pawl__rng_next(&b->rng) % (uint64_t)b->d->vocab);
    int64_t small = (PREFILL + GENERATED + PAWL_KV_PAGE - 1) / PAWL_KV_PAGE;
    for (int i = 0; i < seqs; i++)
        segs[i] = (pawl_seg){.row0 = i * rows,
                             .rows = rows,
                             .pos0 = (int32_t)pos,
                             .slot = i,
                             .page0 = i ? (int32_t)(b->n_pages + (i - 1) * small) : 0,
                             .verify = verify,
                             .log0 = i * rows};
    int one = m > MOST_ROWS; /* of a prompt only the last row's logits are wanted */
    pawl_forward f = {.m = m,
                      .ids = ids,
                      .segs = segs,
                      .n_segs = seqs,
                      .pages = b->pages,
                      .hidden = b->hidden,
                      .logit_rows = one ? b->all_rows + m - 1 : b->all_rows,
                      .n_logits = one ? 1 : m,
                      .logits = b->logits};
    double t0 = bench_now();
    must(pawl__net_forward(b->model->net, b->st, &f, &b->model->exec, &err), &err);
    return bench_now() - t0;
}

/* Median seconds of so many steps; *touched: experts that a step read, on average. */
static double steps(bench *b, int n, int seqs, int rows, int64_t pos, int verify, double *touched)
{
    double t[MOST_STEPS];
    step(b, seqs, rows, pos, verify); /* warms up */
    b->n_touched = 0;
    for (int i = 0; i < n; i++) t[i] = step(b, seqs, rows, pos + (verify ? 0 : i % GENERATED * (rows == 1)), verify);
    *touched = b->n_touched / n;
    return report_median(t, n);
}

/* Bytes that a step reads. */
static double bytes_read(const bench *b, int seqs, int64_t pos, double touched)
{
    return b->dense_bytes + touched * b->expert_bytes + seqs * (state_bytes(b) + (double)pos * position_bytes(b));
}

__attribute__((format(printf, 4, 5))) static void add(bench *b, double value, const char *unit, const char *name, ...)
{
    char full[64];
    va_list args;
    va_start(args, name);
    vsnprintf(full, sizeof full, name, args);
    va_end(args);
    report_add(&b->out, full, value, unit, NULL);
}

static int wanted(const bench *b, const char *part)
{
    return !b->only || strstr(b->only, part);
}

static void measure_limits(bench *b)
{
    machine_measure(b->limits, &b->rates);
}

static void bench_decode(bench *b)
{
    double touched;
    for (int i = 0; i < b->n_contexts; i++) {
        int64_t pos = b->contexts[i];
        measure_limits(b);
        double read = b->rates.read, t = steps(b, b->steps, 1, 1, pos, 0, &touched);
        measure_limits(b);
        read = 0.5 * (read + b->rates.read);
        double bytes = bytes_read(b, 1, pos, touched);
        add(b, 1 / t, "tok/s", "decode_at_%lld", (long long)pos);
        add(b, bytes * 1e-6, "MB", "decode_at_%lld_bytes", (long long)pos);
        add(b, read * 1e-9, "GB/s", "decode_at_%lld_read_bandwidth", (long long)pos);
        add(b, 100 * bytes / t / read, "%", "decode_at_%lld_share_of_bandwidth", (long long)pos);
    }
}

static void bench_prefill(bench *b)
{
    double touched, flops = 2.0 * (b->dense_params + (double)(b->moe_layers * b->top_k) * b->expert_params) * PREFILL;
    int int8 = b->activations && !strcmp(b->activations, "int8");
    for (int i = 0; i < b->n_contexts; i++) {
        int64_t pos = b->contexts[i];
        measure_limits(b);
        double peak = int8 ? b->rates.int8 : b->rates.fma, t = steps(b, 2, 1, PREFILL, pos, 0, &touched);
        add(b, PREFILL / t, "tok/s", "prefill_%d_at_%lld", PREFILL, (long long)pos);
        add(b, flops / t * 1e-9, "GFLOP/s", "prefill_%d_at_%lld_linears", PREFILL, (long long)pos);
        if (peak > 0)
            add(b, 100 * flops / t / peak, "%", "prefill_%d_at_%lld_share_of_%s", PREFILL, (long long)pos,
                int8 ? "int8_peak" : "fma_peak");
    }
}

/* Several rows of one sequence against one row, in turns. */
static void bench_rows(bench *b)
{
    enum { TURNS = 5 };
    double t[MOST_ROWS + 1][TURNS], touched[MOST_ROWS + 1] = {0};
    for (int turn = 0; turn < TURNS; turn++)
        for (int rows = 1; rows <= MOST_ROWS; rows++) {
            double n;
            t[rows][turn] = steps(b, b->steps / 4 + 1, 1, rows, 0, 1, &n);
            touched[rows] += n / TURNS;
        }
    double one = report_median(t[1], TURNS), one_bytes = bytes_read(b, 1, 0, touched[1]);
    add(b, 1e3 * one, "ms", "verify_1");
    for (int rows = 2; rows <= MOST_ROWS; rows++) {
        double cost = report_median(t[rows], TURNS) / one, bytes = bytes_read(b, 1, 0, touched[rows]) / one_bytes;
        add(b, cost, "x", "verify_%d", rows);
        add(b, bytes, "x", "verify_%d_bytes", rows);
        add(b, cost / bytes, "x", "verify_%d_over_bytes", rows);
    }
}

static void bench_batches(bench *b)
{
    double touched;
    for (int seqs = 1; seqs <= MOST_SEQS; seqs *= 2) {
        double t = steps(b, b->steps, seqs, 1, 0, 0, &touched);
        add(b, seqs / t, "tok/s", "batch_%d", seqs);
    }
}

/* ---- command line ---- */

static const struct argp_option options[] = {
    {"csv", 'c', 0, 0, "name,value,unit", 0},
    {"json", 'j', 0, 0, "One JSON object (schema pawl.bench/1)", 0},
    {"isa", 'i', "LEVEL", 0, "Highest instruction set: ref, avx2, avx512, ...", 0},
    {"activations", 'a', "POLICY", 0, "f32 (default) or int8", 0},
    {"contexts", 'x', "N,N,...", 0, "Positions to decode and prefill at (default 0,4096,16384)", 0},
    {"only", 'o', "PARTS", 0, "Of decode, prefill, verify and batch, some", 0},
    {"steps", 's', "N", 0, "Steps of each figure (default 64)", 0},
    {"threads", 't', "N", 0, "Threads (default: all granted CPUs)", 0},
    {0},
};

static long number(struct argp_state *st, const char *arg, char **end, long least, long most)
{
    long v = strtol(arg, end, 10);
    if (*end == arg || v < least || v > most)
        argp_error(st, "found \"%s\", expected a number from %ld to %ld", arg, least, most);
    return v;
}

static void read_contexts(bench *b, struct argp_state *st, char *arg)
{
    b->n_contexts = 0;
    for (char *end = arg; b->n_contexts < MOST_CONTEXTS; arg = end + 1) {
        b->contexts[b->n_contexts++] = number(st, arg, &end, 0, 1 << 20);
        if (*end != ',') break;
    }
}

static error_t parse(int key, char *arg, struct argp_state *st)
{
    bench *b = st->input;
    char *end;
    switch (key) {
    case 'c':
        b->form = REPORT_CSV;
        break;
    case 'j':
        b->form = REPORT_JSON;
        break;
    case 'i':
        b->isa = arg;
        break;
    case 'a':
        b->activations = arg;
        break;
    case 'x':
        read_contexts(b, st, arg);
        break;
    case 'o':
        b->only = arg;
        break;
    case 's':
        b->steps = (int)number(st, arg, &end, 1, MOST_STEPS);
        break;
    case 't':
        b->threads = (int)number(st, arg, &end, 1, 1024);
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

int main(int argc, char **argv)
{
    static const struct argp parser = {options, parse, "MODEL", "Times the forward pass of a model.", 0, 0, 0};
    static bench b = {.steps = STEPS, .contexts = {0, 4096, 16384}, .n_contexts = 3, .rng = 1};
    argp_parse(&parser, argc, argv, 0, NULL, &b);
    open_model(&b);
    b.limits = machine_open(b.model->pool, b.model->caps.isa & b.model->target.isa_mask);
    if (!b.limits) die("out of memory");
    measure_limits(&b);
    add(&b, b.rates.read * 1e-9, "GB/s", "read_bandwidth");
    add(&b, b.rates.fma * 1e-9, "GFLOP/s", "fma_peak");
    add(&b, b.rates.int8 * 1e-9, "GOP/s", "int8_peak");
    if (wanted(&b, "decode")) bench_decode(&b);
    if (wanted(&b, "prefill")) bench_prefill(&b);
    if (wanted(&b, "verify")) bench_rows(&b);
    if (wanted(&b, "batch")) bench_batches(&b);
    int failed = report_print(&b.out, b.form, b.path);
    machine_close(&b.limits);
    pawl__net_state_destroy(&b.st);
    free(b.pages);
    free(b.touched);
    free(b.hidden);
    free(b.logits);
    free(b.all_rows);
    pawl_model_close(&b.model);
    return failed ? 1 : 0;
}
