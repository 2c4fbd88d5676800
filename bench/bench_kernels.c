/* Times the linear and expert kernels that the router picks on this machine: for one row, for 2 to 9 (what verification of
 * drafts costs) and for many; on one thread and on all. Bytes of weights and multiply-adds a second, as shares of what
 * memory and multipliers gave in the same run (machine.h), and the cost against one row.
 *
 *   bench_kernels [--csv] [--isa LEVEL] [--threads N] [--filter WORDS] [--quick]
 *
 * Weights come from a buffer larger than any cache, other ones in each call, as a model's layers are. Times are medians. */
#include <argp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "kernels/list/list.h"
#include "machine.h"
#include "op/linear.h"
#include "op/moe.h"
#include "route/decision.h"

enum { SCALES = 1 << 20, EXPERTS = 256, TOP_K = 8, HIDDEN = 2048, WIDTH = 512, ROW_COUNTS = 11 };
static const size_t arena_bytes = (size_t)768 << 20;
static const int64_t row_counts[ROW_COUNTS] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 64, 512};

typedef struct bench {
    uint8_t *arena; /* bytes that are ordinary values in every format */
    size_t at;      /* where the next matrix begins */
    float *scales;
    pawl_caps caps;
    pawl_policy policy;
    pawl_exec ex;
    machine *limits;
    machine_rates rates;
    int threads, csv, quick;
    const char *filter, *isa;
    uint64_t rng;
} bench;

typedef struct format {
    const char *word;
    pawl_quant q;
    pawl_scale ws;
    uint32_t flags;
} format;
static const format formats[] = {{"bf16", PAWL_Q_BF16, PAWL_SCALE_NONE, 0},
                                 {"fp8", PAWL_Q_FP8BLK, PAWL_SCALE_F32, 0},
                                 {"fp8 int8", PAWL_Q_FP8BLK, PAWL_SCALE_F32, PAWL_QF_ACT_INT8},
                                 {"nvfp4", PAWL_Q_NVFP4, PAWL_SCALE_E4M3, 0},
                                 {"nvfp4 int8", PAWL_Q_NVFP4, PAWL_SCALE_E4M3, PAWL_QF_ACT_INT8}};

__attribute__((format(printf, 1, 2), noreturn)) static void die(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fputs("bench_kernels: ", stderr);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

static void *allocate(size_t n)
{
    void *p = NULL;
    if (posix_memalign(&p, 64, n ? n : 64)) die("out of memory (%zu bytes)", n);
    return p;
}

static pawl_wmat matrix(bench *b, pawl_quant q, int64_t n, int64_t k)
{
    pawl_wmat w = {.q = q,
                   .n = n,
                   .k = k,
                   .ld = pawl__quant_row_bytes(q, k),
                   .scale = b->scales,
                   .scale_ld = q == PAWL_Q_NVFP4 ? k / 16 : (k + 127) / 128,
                   .scale2 = 1.0f};
    size_t bytes = (size_t)(n * w.ld + 63) / 64 * 64;
    size_t scales = q == PAWL_Q_NVFP4 ? (size_t)(n * w.scale_ld + 63) / 64 * 64 : 0;
    if (b->at + bytes + scales > arena_bytes) b->at = 0;
    w.data = b->arena + b->at;
    w.bscale = b->arena + b->at + bytes; /* a ninth of what NVFP4 reads, so it must not stay in a cache either */
    b->at += bytes + scales;
    return w;
}

static float *values(bench *b, int64_t n)
{
    float *p = allocate((size_t)n * sizeof *p);
    for (int64_t i = 0; i < n; i++) p[i] = (float)(pawl__rng_uniform(&b->rng) - 0.5);
    return p;
}

/* One op on one row count; `next` gives it other weights before each call. */
typedef struct call {
    bench *b;
    const pawl_kernel *kernel;
    const void *args;
    void (*next)(struct call *);
} call;

static void run_call(void *ctx)
{
    call *c = ctx;
    pawl_err err;
    c->next(c);
    if (c->kernel->run(c->args, &c->b->ex, &err) != PAWL_OK) die("%s: %s", c->kernel->id, err.text);
}

static void need_scratch(bench *b, const pawl_kernel *kernel, const pawl_query *q, int64_t m)
{
    size_t n = kernel->scratch ? kernel->scratch(q, m, pawl__exec_threads(&b->ex)) : 0;
    if (n <= b->ex.scratch_size) return;
    free(b->ex.scratch);
    b->ex.scratch = allocate(n);
    b->ex.scratch_size = n;
}

static void report(const bench *b, const format *f, const call *c, const char *shape, int64_t m, double t, double bytes,
                   double flops, double cost)
{
    double peak = f->flags & PAWL_QF_ACT_INT8 ? b->rates.int8 : b->rates.fma;
    const char *text = b->csv
                           ? "%s,%s,%s,%d,%d,%.1f,%.2f,%.1f,%.0f,%.1f,%.2f\n"
                           : "%-24s %-10s %-22s %2d %4d %10.1f us %7.2f GB/s %5.1f%% %7.0f GFLOP/s %5.1f%% %7.2f x\n";
    printf(text, c->kernel->id, f->word, shape, pawl__exec_threads(&b->ex), (int)m, t * 1e6, bytes / t * 1e-9,
           100 * bytes / t / b->rates.read, flops / t * 1e-9, peak > 0 ? 100 * flops / t / peak : 0, cost);
    fflush(stdout);
}

static int skipped(const bench *b, int64_t m)
{
    return b->quick && m != 1 && m != 2 && m != 4 && m != 8 && m != 64;
}

/* The kernels for a query: false when the filter does not want them. */
static int choose(const bench *b, const pawl_query *q, pawl_decision *d)
{
    pawl_err err;
    pawl_exec ex = b->ex;
    if (pawl__route(pawl__kernel_table.list[q->op], q, &b->caps, &b->policy, &ex, d, &err) != PAWL_OK)
        die("%s", err.text);
    return !b->filter || strstr(pawl__decision_kernel(d, 1)->id, b->filter);
}

typedef struct linear_call {
    call c;
    pawl_linear_args a;
    pawl_wmat w;
} linear_call;

static void next_matrix(call *c)
{
    linear_call *l = (linear_call *)(void *)c;
    l->w = matrix(c->b, l->w.q, l->w.n, l->w.k);
}

static void bench_linear(bench *b, const format *f, int64_t n, int64_t k)
{
    static pawl_decision d;
    pawl_query q = pawl__query(PAWL_OP_LINEAR);
    q.w = f->q;
    q.ws = f->ws;
    q.flags = f->flags;
    q.n = n;
    q.k = k;
    if (!choose(b, &q, &d)) return;
    machine_measure(b->limits, &b->rates);
    double one = 0;
    for (int i = 0; i < ROW_COUNTS; i++) {
        int64_t m = row_counts[i];
        if (skipped(b, m)) continue;
        float *x = values(b, m * k), *y = values(b, m * n);
        linear_call l = {{b, pawl__decision_kernel(&d, m), &l.a, next_matrix},
                         {.m = m, .x = x, .ldx = k, .w = &l.w, .y = y, .ldy = n},
                         matrix(b, f->q, n, k)};
        need_scratch(b, l.c.kernel, &q, m);
        double t = bench_median_time(run_call, &l, b->quick ? 0.1 : 0.2);
        if (m == 1) one = t;
        char shape[64];
        snprintf(shape, sizeof shape, "n=%d k=%d", (int)n, (int)k);
        report(b, f, &l.c, shape, m, t, (double)pawl__wmat_bytes(&l.w), 2.0 * (double)(m * n * k), t / one);
        free(x);
        free(y);
    }
}

typedef struct expert_call {
    call c;
    pawl_moe_args a;
    pawl_experts ex;
    pawl_expert e[EXPERTS];
    int32_t *ids;
    int64_t calls, chosen; /* experts that all calls had together */
} expert_call;

/* Draws other experts for every row. */
static void next_ids(call *c)
{
    expert_call *l = (expert_call *)(void *)c;
    uint8_t used[EXPERTS] = {0};
    for (int64_t r = 0; r < l->a.m; r++)
        for (int i = 0; i < TOP_K; i++) {
            int32_t id = (int32_t)(pawl__rng_next(&c->b->rng) % EXPERTS), *row = l->ids + r * TOP_K;
            for (int j = 0; j < i; j++)
                if (row[j] == id) {
                    id = (id + 1) % EXPERTS;
                    j = -1;
                }
            row[i] = id;
            used[id] = 1;
        }
    for (int e = 0; e < EXPERTS; e++) l->chosen += used[e];
    l->calls++;
}

static void bench_experts(bench *b, const format *f)
{
    static pawl_decision d;
    static expert_call l;
    pawl_query q = pawl__query(PAWL_OP_MOE);
    q.w = f->q;
    q.ws = f->ws;
    q.flags = f->flags | PAWL_QF_GATED;
    q.n = WIDTH;
    q.k = HIDDEN;
    q.x[0] = EXPERTS;
    q.x[1] = TOP_K;
    if (!choose(b, &q, &d)) return;
    machine_measure(b->limits, &b->rates);
    double one = 0, expert_bytes = 0;
    for (int i = 0; i < ROW_COUNTS; i++) {
        int64_t m = row_counts[i];
        if (skipped(b, m)) continue;
        float *x = values(b, m * HIDDEN), *y = values(b, m * HIDDEN), *w = values(b, m * TOP_K);
        l = (expert_call){.c = {b, pawl__decision_kernel(&d, m), &l.a, next_ids},
                          .ex = {.e = l.e, .n = EXPERTS, .h = HIDDEN, .i = WIDTH, .gated = 1},
                          .ids = allocate((size_t)(m * TOP_K) * sizeof(int32_t))};
        l.a = (pawl_moe_args){.m = m, .top_k = TOP_K, .experts = &l.ex, .x = x, .ids = l.ids, .weights = w, .y = y};
        for (int e = 0; e < EXPERTS; e++) {
            l.e[e] = (pawl_expert){.gate = matrix(b, f->q, WIDTH, HIDDEN),
                                   .up = matrix(b, f->q, WIDTH, HIDDEN),
                                   .down = matrix(b, f->q, HIDDEN, WIDTH)};
            expert_bytes = (double)(pawl__wmat_bytes(&l.e[e].gate) + pawl__wmat_bytes(&l.e[e].up) +
                                    pawl__wmat_bytes(&l.e[e].down));
        }
        need_scratch(b, l.c.kernel, &q, m);
        double t = bench_median_time(run_call, &l, b->quick ? 0.1 : 0.2);
        if (m == 1) one = t;
        double touched = (double)l.chosen / (double)l.calls;
        char shape[64];
        snprintf(shape, sizeof shape, "%.1f of %d experts", touched, EXPERTS);
        report(b, f, &l.c, shape, m, t, touched * expert_bytes, 6.0 * (double)(m * TOP_K * HIDDEN * WIDTH), t / one);
        free(x);
        free(y);
        free(w);
        free(l.ids);
    }
}

static void bench_threads(bench *b, int threads)
{
    pawl_err err;
    if (pawl__pool_create(threads, &b->ex.pool, &err) != PAWL_OK) die("%s", err.text);
    b->limits = machine_open(b->ex.pool, b->caps.isa & b->policy.isa_mask);
    if (!b->limits) die("out of memory");
    machine_measure(b->limits, &b->rates);
    if (!b->csv)
        printf("%d threads: read %.1f GB/s, fma %.0f GFLOP/s, int8 %.0f GOP/s\n", threads, b->rates.read * 1e-9,
               b->rates.fma * 1e-9, b->rates.int8 * 1e-9);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        bench_linear(b, &formats[i], 4096, 4096);
        if (!b->quick) bench_linear(b, &formats[i], 512, 2048);
        bench_experts(b, &formats[i]);
    }
    machine_close(&b->limits);
    pawl__pool_destroy(&b->ex.pool);
}

static const struct argp_option options[] = {
    {"csv", 'c', 0, 0, "kernel,format,shape,threads,rows,us,GB/s,% of read,GFLOP/s,% of peak,cost", 0},
    {"isa", 'i', "LEVEL", 0, "Highest instruction set: ref, avx2, avx512, ...", 0},
    {"threads", 't', "N", 0, "Only so many threads (default: one, then all granted CPUs)", 0},
    {"filter", 'f', "WORDS", 0, "Only where the kernel for one row has these words in its id", 0},
    {"quick", 'q', 0, 0, "Fewer row counts and shapes, shorter", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *st)
{
    bench *b = st->input;
    pawl_err err;
    switch (key) {
    case 'c':
        b->csv = 1;
        break;
    case 'q':
        b->quick = 1;
        break;
    case 'f':
        b->filter = arg;
        break;
    case 'i':
        if (pawl__isa_level(arg, &b->policy.isa_mask, &err) != PAWL_OK) argp_error(st, "%s", err.text);
        break;
    case 't':
        b->threads = atoi(arg);
        if (b->threads < 1) argp_error(st, "found \"%s\", expected a number of threads", arg);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const struct argp parser = {options, parse, NULL, "Times kernels of linear layers and experts.", 0, 0, 0};
    static bench b = {.rng = 1};
    b.policy = pawl__policy_default();
    argp_parse(&parser, argc, argv, 0, NULL, &b);
    pawl__caps_probe(&b.caps);
    b.ex.caps = &b.caps;
    b.arena = allocate(arena_bytes);
    b.scales = allocate(SCALES * sizeof *b.scales);
    for (size_t i = 0; i < arena_bytes; i += 8) { /* bytes 38..3f and b8..bf */
        uint64_t v = (pawl__rng_next(&b.rng) & 0x8787878787878787ull) | 0x3838383838383838ull;
        memcpy(b.arena + i, &v, 8);
    }
    for (int i = 0; i < SCALES; i++) b.scales[i] = 0.01f;
    if (b.threads || b.caps.cores < 2) {
        bench_threads(&b, b.threads ? b.threads : 1);
    } else {
        bench_threads(&b, 1);
        bench_threads(&b, b.caps.cores);
    }
    free(b.arena);
    free(b.scales);
    free(b.ex.scratch);
    return 0;
}
