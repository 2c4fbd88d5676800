/* Times the AVX2 linear and expert kernels: microseconds, GB/s of weight bytes, GFLOP/s, each as a share of the read
 * bandwidth and of the fma rate measured in the same run, and the ratio to the reference kernel.
 *
 *   bench_kernels [--csv] [--threads N] [--filter WORDS] [--quick]
 *
 * Weights are taken from different places of a buffer larger than the caches, as a model's layers are. Times are medians.
 * The reference is timed on fewer outputs where it would take long, and scaled. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "device/caps.h"
#include "kernels/ref/ref.h"
#include "kernels/x86/x86.h"
#include "op/linear.h"
#include "op/moe.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum { ARENA = 256 << 20, SCALES = 1 << 20, MOST_EXPERTS = 64, MOST_REPS = 400 };

typedef struct bench {
    uint8_t *arena; /* bytes that are ordinary values in every format */
    size_t at;      /* where the next matrix begins */
    float *scales;
    uint8_t *bscales;
    pawl_exec ex;
    double read, peak; /* bytes/s and flop/s */
    double min_time;   /* seconds a case is repeated for */
    int csv, quick;
    const char *filter;
    uint64_t rng;
} bench;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *allocate(size_t n)
{
    void *p = NULL;
    if (posix_memalign(&p, 64, n ? n : 64)) {
        fprintf(stderr, "bench_kernels: out of memory (%zu bytes)\n", n);
        exit(1);
    }
    return p;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Runs fn until `seconds` have passed, at least 3 times, and returns the median time. */
static double median_time(void (*fn)(void *), void *ctx, double seconds)
{
    static double t[MOST_REPS];
    int n = 0;
    fn(ctx);
    for (double start = now(); n < MOST_REPS && (n < 3 || now() - start < seconds); n++) {
        double t0 = now();
        fn(ctx);
        t[n] = now() - t0;
    }
    qsort(t, (size_t)n, sizeof *t, by_value);
    return t[n / 2];
}

/* What the machine can do at this moment. */

static volatile float sink[64];

__attribute__((target("avx2,fma"))) static void read_task(void *ctx, int task, int thread)
{
    const uint8_t *p = (const uint8_t *)ctx + (size_t)task * (1 << 20);
    __m256i s[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
    for (size_t i = 0; i < 1 << 20; i += 128)
        for (int j = 0; j < 4; j++)
            s[j] = _mm256_xor_si256(s[j], _mm256_load_si256((const __m256i *)(const void *)(p + i + 32 * (size_t)j)));
    s[0] = _mm256_xor_si256(_mm256_xor_si256(s[0], s[1]), _mm256_xor_si256(s[2], s[3]));
    sink[thread % 64] = (float)_mm256_extract_epi32(s[0], 0);
}

static void read_all(void *ctx)
{
    bench *b = ctx;
    pawl__pool_run(b->ex.pool, ARENA >> 20, read_task, b->arena);
}

enum { FMA_LOOPS = 1 << 18, CHAINS = 12, FMA_TASKS = 8 };

__attribute__((target("avx2,fma"))) static void fma_task(void *ctx, int task, int thread)
{
    (void)ctx;
    (void)task;
    __m256 a[CHAINS], x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(0.001f);
#pragma GCC unroll 12
    for (int j = 0; j < CHAINS; j++) a[j] = _mm256_set1_ps((float)j);
    for (int i = 0; i < FMA_LOOPS; i++) {
#pragma GCC unroll 12
        for (int j = 0; j < CHAINS; j++) a[j] = _mm256_fmadd_ps(a[j], x, y);
    }
#pragma GCC unroll 12
    for (int j = 1; j < CHAINS; j++) a[0] = _mm256_add_ps(a[0], a[j]);
    sink[thread % 64] = _mm256_cvtss_f32(a[0]);
}

static void fma_all(void *ctx)
{
    pawl__pool_run(((bench *)ctx)->ex.pool, FMA_TASKS, fma_task, NULL);
}

/* Measured again for each kernel: on a shared machine it changes from second to second. */
static void measure_machine(bench *b)
{
    b->read = ARENA / median_time(read_all, b, 0.1);
    b->peak = 2.0 * 8 * CHAINS * FMA_LOOPS * FMA_TASKS / median_time(fma_all, b, 0.1);
    if (!b->csv)
        printf("%d threads: read %.1f GB/s, fma %.0f GFLOP/s\n", pawl__exec_threads(&b->ex), b->read * 1e-9,
               b->peak * 1e-9);
}

static pawl_wmat matrix(bench *b, pawl_quant q, int64_t n, int64_t k)
{
    pawl_wmat w = {.q = q,
                   .n = n,
                   .k = k,
                   .ld = pawl__quant_row_bytes(q, k),
                   .scale = b->scales,
                   .bscale = b->bscales,
                   .scale2 = 1.0f};
    w.scale_ld = q == PAWL_Q_NVFP4 ? k / 16 : q == PAWL_Q_MXFP4 ? k / 32 : (k + 127) / 128;
    size_t bytes = (size_t)(n * w.ld);
    if (b->at + bytes > ARENA) b->at = 0;
    w.data = b->arena + b->at;
    b->at += (bytes + 63) / 64 * 64;
    return w;
}

static float *values(bench *b, int64_t n)
{
    float *p = allocate((size_t)n * sizeof *p);
    for (int64_t i = 0; i < n; i++) p[i] = (float)(pawl__rng_uniform(&b->rng) - 0.5);
    return p;
}

static int wanted(const bench *b, const char *id)
{
    return !b->filter || strstr(id, b->filter);
}

static void report(const bench *b, const char *id, const char *shape, int64_t m, double t, double bytes, double flops,
                   double ratio)
{
    double gbs = bytes / t * 1e-9, gflops = flops / t * 1e-9;
    int threads = pawl__exec_threads(&b->ex);
    const char *format = b->csv
                             ? "%s,%s,%d,%d,%.1f,%.2f,%.0f,%.1f,%.0f,%.1f\n"
                             : "%-21s %-30s %4d %2d %10.1f us %7.2f GB/s %4.0f%% %7.1f GFLOP/s %4.0f%% %6.1f x ref\n";
    printf(format, id, shape, (int)m, threads, t * 1e6, gbs, 100 * gbs * 1e9 / b->read, gflops,
           100 * gflops * 1e9 / b->peak, ratio);
    fflush(stdout);
}

/* One kernel call, whatever the op; `next` gives it other weights. */
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
    if (c->next) c->next(c);
    if (c->kernel->run(c->args, &c->b->ex, &err) != PAWL_OK) {
        fprintf(stderr, "bench_kernels: %s: %s\n", c->kernel->id, err.text);
        exit(1);
    }
}

static void need_scratch(bench *b, const pawl_kernel *kernel, const pawl_query *q, int64_t m)
{
    size_t n = kernel->scratch ? kernel->scratch(q, m, pawl__exec_threads(&b->ex)) : 0;
    if (n <= b->ex.scratch_size) return;
    free(b->ex.scratch);
    b->ex.scratch = allocate(n);
    b->ex.scratch_size = n;
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

static void bench_linear(bench *b, const pawl_kernel *kernel, const pawl_kernel *ref, pawl_quant q)
{
    static const int64_t shapes[][2] = {{2048, 2048}, {4096, 4096}, {512, 256}}, ms[] = {1, 2, 3, 4, 6, 8, 64, 512};
    if (!wanted(b, kernel->id) || (kernel->isa & ~b->ex.caps->isa)) return;
    measure_machine(b);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t i = 0; i < sizeof ms / sizeof *ms; i++) {
            int64_t n = shapes[s][0], k = shapes[s][1], m = ms[i];
            if (b->quick && (s != 0 || (m != 1 && m != 4 && m != 64))) continue;
            float *x = values(b, m * k), *y = values(b, m * n);
            linear_call l = {{b, kernel, &l.a, next_matrix},
                             {.m = m, .x = x, .ldx = k, .w = &l.w, .y = y, .ldy = n},
                             matrix(b, q, n, k)};
            double t = median_time(run_call, &l, b->min_time), flops = 2.0 * (double)(m * n * k);
            l.c.kernel = ref;
            l.w.n = flops > 1e8 ? (int64_t)((double)n * 1e8 / flops) + 1 : n;
            double slice = (double)l.w.n / (double)n;
            double tr = median_time(run_call, &l, b->min_time / 4) / slice;
            l.w.n = n;
            char shape[64];
            snprintf(shape, sizeof shape, "n=%d k=%d", (int)n, (int)k);
            report(b, kernel->id, shape, m, t, (double)(n * l.w.ld), flops, tr / t);
            free(x);
            free(y);
        }
}

typedef struct expert_call {
    call c;
    pawl_experts ex;
    pawl_expert e[MOST_EXPERTS];
    pawl_moe_args moe;
    pawl_moe_masked_args masked;
    pawl_moe_grouped_args grouped;
    int32_t *ids;
    int64_t pairs, chosen; /* chosen: experts that the last call had */
} expert_call;

/* Draws new experts for every token, so that the weights are not in the cache. */
static void next_ids(call *c)
{
    expert_call *l = (expert_call *)(void *)c;
    int64_t n = l->ex.n, k = l->moe.top_k;
    char used[MOST_EXPERTS] = {0};
    for (int64_t j = 0; j < l->pairs; j++) {
        int32_t id = (int32_t)(pawl__rng_next(&c->b->rng) % (uint64_t)n);
        for (int64_t i = j / k * k; i < j; i++)
            if (l->ids[i] == id) {
                id = (int32_t)((id + 1) % n);
                i = j / k * k - 1;
            }
        l->ids[j] = id;
        used[id] = 1;
    }
    l->chosen = 0;
    for (int64_t e = 0; e < n; e++) l->chosen += used[e];
}

typedef struct expert_shape {
    const char *name;
    int64_t experts, top_k, h, i;
} expert_shape;

static void bench_moe(bench *b, pawl_quant q, const expert_shape *s)
{
    static const int64_t ms[] = {1, 2, 4, 8, 64, 512};
    const pawl_kernel *kernel = &pawl__k_moe_any_avx2, *ref = &pawl__k_moe_any_ref;
    if (!wanted(b, kernel->id)) return;
    measure_machine(b);
    for (size_t i = 0; i < sizeof ms / sizeof *ms; i++) {
        int64_t m = ms[i];
        if (b->quick && m != 1 && m != 4) continue;
        float *x = values(b, m * s->h), *y = values(b, m * s->h), *w = values(b, m * s->top_k);
        expert_call l = {.c = {b, kernel, &l.moe, next_ids},
                         .ex = {.e = l.e, .n = s->experts, .h = s->h, .i = s->i, .gated = 1},
                         .ids = allocate((size_t)(m * s->top_k) * sizeof(int32_t)),
                         .pairs = m * s->top_k};
        l.moe =
            (pawl_moe_args){.m = m, .top_k = s->top_k, .experts = &l.ex, .x = x, .ids = l.ids, .weights = w, .y = y};
        double expert_bytes = 0;
        for (int64_t e = 0; e < s->experts; e++) {
            l.e[e] = (pawl_expert){
                .gate = matrix(b, q, s->i, s->h), .up = matrix(b, q, s->i, s->h), .down = matrix(b, q, s->h, s->i)};
            expert_bytes = (double)(2 * s->i * l.e[e].gate.ld + s->h * l.e[e].down.ld);
        }
        pawl_query query = pawl__query(PAWL_OP_MOE);
        query.w = q;
        query.n = s->i;
        query.k = s->h;
        query.x[0] = s->experts;
        query.x[1] = s->top_k;
        query.flags = PAWL_QF_GATED;
        need_scratch(b, kernel, &query, m);
        need_scratch(b, ref, &query, m);
        double t = median_time(run_call, &l, b->min_time), bytes = (double)l.chosen * expert_bytes;
        double flops = 6.0 * (double)(l.pairs * s->h * s->i);
        l.c.kernel = ref;
        if (m > 8) { /* the first 8 rows stand for all */
            l.moe.m = 8;
            l.pairs = 8 * s->top_k;
        }
        double tr = median_time(run_call, &l, b->min_time / 4) * (double)m / (double)l.moe.m;
        char shape[64];
        snprintf(shape, sizeof shape, "%s %s", s->name, pawl__quant_word(q));
        report(b, kernel->id, shape, m, t, bytes, flops, tr / t);
        free(x);
        free(y);
        free(w);
        free(l.ids);
    }
}

/* Masked and grouped: every expert has `rows` rows. */
static void bench_rows(bench *b, pawl_quant q, const expert_shape *s, int64_t rows, int masked)
{
    const pawl_kernel *kernel = masked ? &pawl__k_moe_masked_any_avx2 : &pawl__k_moe_grouped_any_avx2;
    const pawl_kernel *ref = masked ? &pawl__k_moe_masked_any_ref : &pawl__k_moe_grouped_any_ref;
    if (!wanted(b, kernel->id)) return;
    measure_machine(b);
    int64_t m = s->experts * rows;
    float *x = values(b, m * s->h), *y = values(b, m * s->h);
    expert_call l = {.c = {b, kernel, NULL, NULL}, .ex = {.e = l.e, .n = s->experts, .h = s->h, .i = s->i, .gated = 1}};
    double bytes = 0;
    int32_t counts[MOST_EXPERTS];
    l.ids = allocate((size_t)m * sizeof(int32_t));
    for (int64_t e = 0; e < s->experts; e++) {
        l.e[e] = (pawl_expert){
            .gate = matrix(b, q, s->i, s->h), .up = matrix(b, q, s->i, s->h), .down = matrix(b, q, s->h, s->i)};
        bytes += (double)(2 * s->i * l.e[e].gate.ld + s->h * l.e[e].down.ld);
        counts[e] = (int32_t)rows;
        for (int64_t r = 0; r < rows; r++) l.ids[e * rows + r] = (int32_t)e;
    }
    l.masked = (pawl_moe_masked_args){.max = rows, .experts = &l.ex, .x = x, .counts = counts, .y = y};
    l.grouped = (pawl_moe_grouped_args){.m = m, .experts = &l.ex, .x = x, .expert = l.ids, .y = y};
    l.c.args = masked ? (const void *)&l.masked : (const void *)&l.grouped;
    pawl_query query = pawl__query(masked ? PAWL_OP_MOE_MASKED : PAWL_OP_MOE_GROUPED);
    query.w = q;
    query.n = s->i;
    query.k = s->h;
    query.x[0] = s->experts;
    query.x[1] = masked ? rows : 0;
    query.flags = PAWL_QF_GATED;
    need_scratch(b, kernel, &query, m);
    need_scratch(b, ref, &query, m);
    double t = median_time(run_call, &l, b->min_time), flops = 6.0 * (double)(m * s->h * s->i);
    l.c.kernel = ref;
    double tr = median_time(run_call, &l, 0);
    char shape[64];
    snprintf(shape, sizeof shape, "%s %s", s->name, pawl__quant_word(q));
    report(b, kernel->id, shape, m, t, bytes, flops, tr / t);
    free(x);
    free(y);
    free(l.ids);
}

static int usage(void)
{
    fprintf(stderr, "usage: bench_kernels [--csv] [--threads N] [--filter WORDS] [--quick]\n");
    return 2;
}

int main(int argc, char **argv)
{
    pawl_caps caps;
    pawl__caps_probe(&caps);
    bench b = {.min_time = 0.2, .rng = 1};
    int threads = caps.cores > 0 ? caps.cores : 1;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--csv"))
            b.csv = 1;
        else if (!strcmp(argv[i], "--quick"))
            b.quick = 1;
        else if (!strcmp(argv[i], "--threads") && i + 1 < argc)
            threads = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--filter") && i + 1 < argc)
            b.filter = argv[++i];
        else
            return usage();
    }
    if ((caps.isa & pawl__k_moe_any_avx2.isa) != pawl__k_moe_any_avx2.isa) {
        fprintf(stderr, "bench_kernels: this machine has no AVX2\n");
        return 1;
    }
    pawl_err err;
    if (pawl__pool_create(threads, &b.ex.pool, &err) != PAWL_OK) {
        fprintf(stderr, "bench_kernels: %s\n", err.text);
        return 1;
    }
    b.ex.caps = &caps;
    b.arena = allocate(ARENA);
    b.scales = allocate(SCALES * sizeof *b.scales);
    b.bscales = allocate(SCALES);
    for (size_t i = 0; i < ARENA; i += 8) { /* bytes 38..3f and b8..bf */
        uint64_t v = (pawl__rng_next(&b.rng) & 0x8787878787878787ull) | 0x3838383838383838ull;
        memcpy(b.arena + i, &v, 8);
    }
    for (size_t i = 0; i < SCALES; i++) b.scales[i] = 0.01f;
    memset(b.bscales, 0x30, SCALES);

    if (b.csv)
        printf("kernel,shape,m,threads,us,gb_per_s,percent_of_read,gflop_per_s,percent_of_peak,times_reference\n");
    else
        printf("%s\n", caps.name);

    bench_linear(&b, &pawl__k_linear_f32_avx2, &pawl__k_linear_f32_ref, PAWL_Q_F32);
    bench_linear(&b, &pawl__k_linear_f16_avx2, &pawl__k_linear_f16_ref, PAWL_Q_F16);
    bench_linear(&b, &pawl__k_linear_bf16_avx2, &pawl__k_linear_bf16_ref, PAWL_Q_BF16);
    bench_linear(&b, &pawl__k_linear_fp8blk_avx2, &pawl__k_linear_fp8blk_ref, PAWL_Q_FP8BLK);
    bench_linear(&b, &pawl__k_linear_fp8ten_avx2, &pawl__k_linear_fp8ten_ref, PAWL_Q_FP8TEN);
    bench_linear(&b, &pawl__k_linear_fp8ch_avx2, &pawl__k_linear_fp8ch_ref, PAWL_Q_FP8CH);
    bench_linear(&b, &pawl__k_linear_nvfp4_avx2, &pawl__k_linear_nvfp4_ref, PAWL_Q_NVFP4);
    bench_linear(&b, &pawl__k_linear_mxfp4_avx2, &pawl__k_linear_mxfp4_ref, PAWL_Q_MXFP4);
    bench_linear(&b, &pawl__k_linear_f32_avx512, &pawl__k_linear_f32_ref, PAWL_Q_F32);
    bench_linear(&b, &pawl__k_linear_f16_avx512, &pawl__k_linear_f16_ref, PAWL_Q_F16);
    bench_linear(&b, &pawl__k_linear_bf16_avx512, &pawl__k_linear_bf16_ref, PAWL_Q_BF16);
    bench_linear(&b, &pawl__k_linear_fp8blk_avx512, &pawl__k_linear_fp8blk_ref, PAWL_Q_FP8BLK);
    bench_linear(&b, &pawl__k_linear_fp8ten_avx512, &pawl__k_linear_fp8ten_ref, PAWL_Q_FP8TEN);
    bench_linear(&b, &pawl__k_linear_fp8ch_avx512, &pawl__k_linear_fp8ch_ref, PAWL_Q_FP8CH);
    bench_linear(&b, &pawl__k_linear_nvfp4_avx512, &pawl__k_linear_nvfp4_ref, PAWL_Q_NVFP4);
    bench_linear(&b, &pawl__k_linear_mxfp4_avx512, &pawl__k_linear_mxfp4_ref, PAWL_Q_MXFP4);

    static const expert_shape big = {"e=64 topk=8 h=2048 i=512", 64, 8, 2048, 512};
    static const expert_shape demo = {"e=8 topk=2 h=256 i=128", 8, 2, 256, 128};
    static const pawl_quant formats[] = {PAWL_Q_BF16, PAWL_Q_FP8BLK, PAWL_Q_NVFP4};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        bench_moe(&b, formats[i], &big);
        bench_moe(&b, formats[i], &demo);
        if (b.quick) continue;
        bench_rows(&b, formats[i], &big, 4, 1);
        bench_rows(&b, formats[i], &big, 4, 0);
    }
    free(b.arena);
    free(b.scales);
    free(b.bscales);
    free(b.ex.scratch);
    pawl__pool_destroy(&b.ex.pool);
    return 0;
}
#else
int main(void)
{
    fprintf(stderr, "bench_kernels: the kernels that it times need x86-64\n");
    return 1;
}
#endif
