/* Speed of the ops without weights, at the shapes of a model with 16 query heads over 2 KV heads of 256, and 32 value heads of
 * 128 over 16 key heads: attention at several contexts, the recurrence and its convolution, norms, routing, sampling.
 *
 * Every kernel of the lists that this machine has runs, so that lines compare instruction sets; the figures are the best of
 * several runs. Attention counts two multiply-adds per element of a key-value pair and query head, the recurrence three per
 * element of the state and row. */
#include <argp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "kernels/list/list.h"
#include "op/act.h"
#include "op/attn.h"
#include "op/conv.h"
#include "op/gdn.h"
#include "op/moe.h"
#include "op/norm.h"
#include "op/rope.h"
#include "sample/sample.h"

enum {
    HEADS = 16,
    KV_HEADS = 2,
    D = 256,
    NK = 16,
    NV = 32,
    DK = 128,
    HIDDEN = 2048,
    EXPERTS = 256,
    TOP_K = 8,
    CHANNELS = 2 * NK * DK + NV * DK,
    MOST_ROWS = 512,
    MOST_CONTEXT = 16384 + MOST_ROWS,
    VOCAB = 248320
};

typedef struct bench {
    const char *filter;
    int threads;
    pawl_caps caps;
    pawl_exec ex;
    uint64_t rng;
    float *x, *y, *z; /* MOST_ROWS x CHANNELS numbers each */
    float *cache_k, *cache_v, *state;
    int32_t pages[MOST_CONTEXT / PAWL_KV_PAGE];
} bench;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *allocate(size_t bytes)
{
    void *p = NULL;
    if (posix_memalign(&p, 64, bytes + 64)) {
        fprintf(stderr, "bench_state: out of memory for %zu bytes\n", bytes);
        exit(1);
    }
    memset(p, 0, bytes);
    return p;
}

static float *numbers(bench *b, size_t n)
{
    float *p = allocate(n * sizeof *p);
    for (size_t i = 0; i < n; i++) p[i] = (float)(2 * pawl__rng_uniform(&b->rng) - 1);
    return p;
}

/* The best of at least 5 runs within 0.3 s. work: multiply-adds or other units of one run. */
static void time_op(bench *b, pawl_op op, const pawl_query *q, int64_t m, const void *args, const char *shape,
                    double work)
{
    for (pawl_kernel_list k = pawl__kernel_table.list[op]; *k; k++) {
        if ((*k)->arch != PAWL_ARCH_CPU || !(*k)->run || ((*k)->isa & ~b->caps.isa)) continue;
        if (strncmp((*k)->id, b->filter, strlen(b->filter)) != 0) continue;
        if ((*k)->supports && !(*k)->supports(q, &b->caps, NULL)) continue;
        size_t bytes = (*k)->scratch ? (*k)->scratch(q, m, b->threads) : 0;
        b->ex.scratch = allocate(bytes);
        b->ex.scratch_size = bytes;
        double best = INFINITY, begin = now();
        for (int i = 0; i < 5 || now() - begin < 0.3; i++) {
            double t = now();
            (*k)->run(args, &b->ex, NULL);
            t = now() - t;
            best = t < best ? t : best;
            if (now() - begin > 3) break;
        }
        printf("%-24s %-28s %2d threads %10.1f us %9.2f G/s\n", (*k)->id, shape, b->threads, best * 1e6,
               work / best * 1e-9);
        fflush(stdout);
        free(b->ex.scratch);
    }
}

static void bench_attn(bench *b, int rows, int context)
{
    pawl_seg seg = {.rows = rows, .pos0 = context};
    pawl_attn_args a = {.m = rows,
                        .heads = HEADS,
                        .kv_heads = KV_HEADS,
                        .d = D,
                        .scale = 1.0f / 16,
                        .q = b->x,
                        .q_row = 2 * HEADS * D,
                        .q_head = 2 * D,
                        .gate = b->x + D,
                        .gate_row = 2 * HEADS * D,
                        .gate_head = 2 * D,
                        .segs = &seg,
                        .n_segs = 1,
                        .pages = b->pages,
                        .cache_k = b->cache_k,
                        .cache_v = b->cache_v,
                        .out = b->y};
    pawl_query q = pawl__query(PAWL_OP_ATTN);
    q.n = HEADS;
    q.k = D;
    q.x[0] = KV_HEADS;
    char shape[64];
    snprintf(shape, sizeof shape, "rows=%d context=%d", rows, context);
    time_op(b, PAWL_OP_ATTN, &q, rows, &a, shape, 2.0 * HEADS * D * rows * (context + (rows + 1) / 2.0));
}

static void bench_gdn(bench *b, int rows, int verify)
{
    pawl_seg seg = {.rows = rows, .verify = verify};
    pawl_gdn_log log = {.k = b->z, .v = b->z + NK * DK * rows, .decay = b->z + CHANNELS * rows};
    log.beta = log.decay + NV * rows;
    pawl_gdn_args a = {.m = rows,
                       .nk = NK,
                       .nv = NV,
                       .dk = DK,
                       .dv = DK,
                       .qkv = b->x,
                       .a = b->x,
                       .b = b->x + NV,
                       .ab_row = 2 * NV,
                       .a_log = b->x,
                       .dt_bias = b->x,
                       .segs = &seg,
                       .n_segs = 1,
                       .state = b->state,
                       .slot_size = NV * DK * DK,
                       .log = log,
                       .out = b->y};
    pawl_query q = pawl__query(verify ? PAWL_OP_GDN_VERIFY : PAWL_OP_GDN);
    q.n = NV;
    q.k = q.x[1] = DK;
    q.x[0] = NK;
    char shape[64];
    snprintf(shape, sizeof shape, "rows=%d%s", rows, verify ? " verify" : "");
    time_op(b, q.op, &q, rows, &a, shape, 3.0 * NV * DK * DK * rows);
    pawl_conv_args c = {.m = rows,
                        .channels = CHANNELS,
                        .u = b->x,
                        .u_row = CHANNELS,
                        .w = b->x,
                        .segs = &seg,
                        .n_segs = 1,
                        .state = b->state,
                        .slot_size = 3 * CHANNELS,
                        .log = b->z,
                        .out = b->y};
    q = pawl__query(PAWL_OP_CONV);
    q.n = CHANNELS;
    q.k = PAWL_CONV_WINDOW;
    time_op(b, PAWL_OP_CONV, &q, rows, &c, shape, (double)CHANNELS * rows);
}

static void bench_rows(bench *b, int rows)
{
    char shape[64];
    snprintf(shape, sizeof shape, "rows=%d", rows);
    pawl_norm_args n = {.m = rows,
                        .heads = 1,
                        .k = HIDDEN,
                        .x = b->x,
                        .x_row = HIDDEN,
                        .w = b->x,
                        .out = b->y,
                        .out_row = HIDDEN,
                        .eps = 1e-6f,
                        .offset1 = 1};
    pawl_query q = pawl__query(PAWL_OP_RMSNORM);
    q.k = HIDDEN;
    time_op(b, PAWL_OP_RMSNORM, &q, rows, &n, shape, (double)rows * HIDDEN);
    n = (pawl_norm_args){.m = rows,
                         .heads = NV,
                         .k = DK,
                         .x = b->x,
                         .x_row = NV * DK,
                         .x_head = DK,
                         .gate = b->z,
                         .gate_row = NV * DK,
                         .gate_head = DK,
                         .w = b->x,
                         .out = b->y,
                         .out_row = NV * DK,
                         .out_head = DK,
                         .eps = 1e-6f};
    time_op(b, PAWL_OP_RMSNORM, &q, rows, &n, "gated", (double)rows * NV * DK);
    pawl_moe_route_args r = {.m = rows,
                             .experts = EXPERTS,
                             .top_k = TOP_K,
                             .logits = b->x,
                             .logits_row = EXPERTS,
                             .method = PAWL_ROUTE_RENORMALIZE_NAIVE,
                             .groups = 1,
                             .groups_kept = 1,
                             .scale = 1,
                             .ids = (int32_t *)(void *)b->y,
                             .weights = b->y + TOP_K * rows};
    q = pawl__query(PAWL_OP_MOE_ROUTE);
    q.n = EXPERTS;
    q.k = TOP_K;
    q.x[0] = q.x[1] = 1;
    q.x[2] = r.method;
    time_op(b, PAWL_OP_MOE_ROUTE, &q, rows, &r, shape, (double)rows * EXPERTS);
    pawl_rope_args o = {.m = rows,
                        .heads = HEADS,
                        .r = 64,
                        .x = b->y,
                        .x_row = 2 * HEADS * D,
                        .x_head = 2 * D,
                        .cos = b->x,
                        .sin = b->z};
    q = pawl__query(PAWL_OP_ROPE);
    q.n = HEADS;
    q.k = D;
    q.x[0] = 64;
    time_op(b, PAWL_OP_ROPE, &q, rows, &o, shape, (double)rows * HEADS * 64);
    pawl_add_args s = {.m = rows, .n = HIDDEN, .x = b->x, .x_row = HIDDEN, .y = b->y, .y_row = HIDDEN};
    q = pawl__query(PAWL_OP_ADD);
    q.n = HIDDEN;
    time_op(b, PAWL_OP_ADD, &q, rows, &s, shape, (double)rows * HIDDEN);
}

/* Logits as a model's: most near the middle, a few far above. */
static void bench_sample(bench *b)
{
    static const struct {
        const char *name;
        pawl_sample_params p;
    } cases[] = {
        {"greedy", {.top_p = 1, .repetition = 1}},
        {"temperature 0.7", {.temperature = 0.7f, .top_p = 1, .repetition = 1}},
        {"min-p 0.05", {.temperature = 1, .top_p = 1, .min_p = 0.05f, .repetition = 1}},
        {"top-k 20, top-p 0.95", {.temperature = 0.6f, .top_k = 20, .top_p = 0.95f, .repetition = 1}},
        {"top-p 0.95", {.temperature = 1, .top_p = 0.95f, .repetition = 1}},
        {"all, penalties",
         {.temperature = 1, .top_k = 40, .top_p = 0.9f, .min_p = 0.01f, .presence = 1, .repetition = 1.1f}},
    };
    if (strncmp("sample", b->filter, strlen(b->filter)) != 0) return;
    float *logits = allocate(VOCAB * sizeof *logits);
    for (int i = 0; i < VOCAB; i++) {
        double sum = 0;
        for (int j = 0; j < 6; j++) sum += pawl__rng_uniform(&b->rng) - 0.5;
        logits[i] = (float)(3 * sum + (i % 20000 == 77 ? 8 + i * 6e-5 : 0));
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pawl_sampler *s;
        if (pawl__sampler_create(VOCAB, VOCAB, &cases[i].p, &s, NULL) != PAWL_OK) continue;
        for (int32_t t = 0; t < 1000; t++) pawl__sampler_add(s, t * 17);
        double best = INFINITY, begin = now();
        int32_t token = 0;
        for (int64_t n = 0; n < 5 || now() - begin < 0.3; n++) {
            double t = now();
            pawl__sampler_choose(s, logits, n, &token, NULL);
            t = now() - t;
            best = t < best ? t : best;
        }
        printf("%-24s %-28s %2d thread  %10.1f us\n", "sample", cases[i].name, 1, best * 1e6);
        pawl__sampler_destroy(&s);
    }
    free(logits);
}

static error_t option(int key, char *arg, struct argp_state *state)
{
    bench *b = state->input;
    if (key == 't')
        b->threads = atoi(arg);
    else if (key == ARGP_KEY_ARG)
        b->filter = arg;
    else
        return ARGP_ERR_UNKNOWN;
    return 0;
}

int main(int argc, char **argv)
{
    static const struct argp_option options[] = {{"threads", 't', "N", 0, "threads (default: all)", 0}, {0}};
    const struct argp parser = {.options = options,
                                .parser = option,
                                .args_doc = "[ID]",
                                .doc = "Times ops without weights whose id begins with ID."};
    static bench b;
    pawl_err err;
    pawl__caps_probe(&b.caps);
    b.threads = b.caps.cores;
    b.filter = "";
    argp_parse(&parser, argc, argv, 0, NULL, &b);
    if (pawl__pool_create(b.threads, &b.ex.pool, &err) != PAWL_OK) {
        fprintf(stderr, "bench_state: %s\n", err.text);
        return 1;
    }
    b.ex.caps = &b.caps;
    size_t n = (size_t)MOST_ROWS * CHANNELS + 4096, kv = (size_t)MOST_CONTEXT * KV_HEADS * D;
    b.x = numbers(&b, n);
    b.y = numbers(&b, n);
    b.z = numbers(&b, n + 2 * MOST_ROWS * NV);
    b.cache_k = numbers(&b, kv);
    b.cache_v = numbers(&b, kv);
    b.state = numbers(&b, NV * DK * DK);
    for (int i = 0; i < MOST_CONTEXT / PAWL_KV_PAGE; i++) b.pages[i] = i;
    static const int contexts[] = {0, 4096, 16384};
    for (int c = 0; c < 3; c++) {
        bench_attn(&b, 1, contexts[c]);
        bench_attn(&b, 4, contexts[c]);
        bench_attn(&b, MOST_ROWS, contexts[c]);
    }
    bench_gdn(&b, 1, 0);
    bench_gdn(&b, 4, 1);
    bench_gdn(&b, MOST_ROWS, 0);
    bench_rows(&b, 1);
    bench_rows(&b, MOST_ROWS);
    bench_sample(&b);
    float *all[] = {b.x, b.y, b.z, b.cache_k, b.cache_v, b.state};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    pawl__pool_destroy(&b.ex.pool);
    return 0;
}
