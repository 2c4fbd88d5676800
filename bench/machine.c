/* Reading is measured over a buffer larger than any cache, in pieces of 1 MiB that the threads share as kernels share rows;
 * arithmetic with as many independent chains as hide the latency. */
#include "machine.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "device/caps.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { MOST_TIMES = 400, THREADS = 256 };
enum { LOOPS = 1 << 16, CHAINS = 12, TASKS = 32 };
static const size_t piece = (size_t)1 << 20, size = (size_t)512 << 20;

struct machine {
    pawl_pool *pool;
    uint64_t isa;
    uint8_t *buffer;
    uint64_t sums[THREADS][8]; /* where results go, a cache line a thread, so that nothing is optimised away */
};

double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median_time(void (*fn)(void *), void *ctx, double seconds)
{
    static double t[MOST_TIMES];
    int n = 0;
    fn(ctx);
    for (double start = bench_now(); n < MOST_TIMES && (n < 3 || bench_now() - start < seconds); n++) {
        double t0 = bench_now();
        fn(ctx);
        t[n] = bench_now() - t0;
    }
    qsort(t, (size_t)n, sizeof *t, by_value);
    return t[n / 2];
}

#if defined(__x86_64__)

__attribute__((target("avx2"))) static void read_avx2(machine *m, const uint8_t *p, int thread)
{
    __m256i s[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
    for (size_t i = 0; i < piece; i += 128)
        for (size_t j = 0; j < 4; j++)
            s[j] = _mm256_xor_si256(s[j], _mm256_load_si256((const __m256i *)(const void *)(p + i + 32 * j)));
    s[0] = _mm256_xor_si256(_mm256_xor_si256(s[0], s[1]), _mm256_xor_si256(s[2], s[3]));
    m->sums[thread % THREADS][0] ^= (uint64_t)_mm256_extract_epi64(s[0], 0);
}

__attribute__((target("avx2,fma"))) static void fma_avx2(machine *m, int thread)
{
    __m256 a[CHAINS], x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(0.001f);
#pragma GCC unroll 12
    for (int j = 0; j < CHAINS; j++) a[j] = _mm256_set1_ps((float)j);
    for (int i = 0; i < LOOPS; i++) {
#pragma GCC unroll 12
        for (int j = 0; j < CHAINS; j++) a[j] = _mm256_fmadd_ps(a[j], x, y);
    }
#pragma GCC unroll 12
    for (int j = 1; j < CHAINS; j++) a[0] = _mm256_add_ps(a[0], a[j]);
    m->sums[thread % THREADS][0] ^= (uint64_t)_mm256_cvtss_f32(a[0]);
}

__attribute__((target("avx512f"))) static void fma_avx512(machine *m, int thread)
{
    __m512 a[CHAINS], x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(0.001f);
#pragma GCC unroll 12
    for (int j = 0; j < CHAINS; j++) a[j] = _mm512_set1_ps((float)j);
    for (int i = 0; i < LOOPS; i++) {
#pragma GCC unroll 12
        for (int j = 0; j < CHAINS; j++) a[j] = _mm512_fmadd_ps(a[j], x, y);
    }
#pragma GCC unroll 12
    for (int j = 1; j < CHAINS; j++) a[0] = _mm512_add_ps(a[0], a[j]);
    m->sums[thread % THREADS][0] ^= (uint64_t)_mm512_cvtss_f32(a[0]);
}

/* Bytes into 16 bits, into 32 bits, added: three instructions, as AVX2 has it. */
__attribute__((target("avx2"))) static void int8_avx2(machine *m, int thread)
{
    __m256i a[CHAINS], x = _mm256_set1_epi8(3), y = _mm256_set1_epi8(1), one = _mm256_set1_epi16(1);
#pragma GCC unroll 12
    for (int j = 0; j < CHAINS; j++) a[j] = _mm256_set1_epi32(j);
    for (int i = 0; i < LOOPS; i++) {
        __asm__ volatile("" : "+x"(x), "+x"(y)); /* or the products would be taken out of the loop */
#pragma GCC unroll 12
        for (int j = 0; j < CHAINS; j++) {
            __m256i p = _mm256_maddubs_epi16(x, _mm256_xor_si256(y, a[j]));
            a[j] = _mm256_add_epi32(a[j], _mm256_madd_epi16(p, one));
        }
    }
#pragma GCC unroll 12
    for (int j = 1; j < CHAINS; j++) a[0] = _mm256_add_epi32(a[0], a[j]);
    m->sums[thread % THREADS][0] ^= (uint64_t)_mm256_extract_epi64(a[0], 0);
}

__attribute__((target("avx512f,avx512vnni"))) static void int8_avx512(machine *m, int thread)
{
    __m512i a[CHAINS], x = _mm512_set1_epi32(0x03030303), y = _mm512_set1_epi32(0x01010101);
#pragma GCC unroll 12
    for (int j = 0; j < CHAINS; j++) a[j] = _mm512_set1_epi32(j);
    for (int i = 0; i < LOOPS; i++) {
#pragma GCC unroll 12
        for (int j = 0; j < CHAINS; j++) a[j] = _mm512_dpbusd_epi32(a[j], x, y);
    }
#pragma GCC unroll 12
    for (int j = 1; j < CHAINS; j++) a[0] = _mm512_add_epi32(a[0], a[j]);
    m->sums[thread % THREADS][0] ^= (uint64_t)_mm512_reduce_add_epi32(a[0]);
}

#endif

static void read_plain(machine *m, const uint8_t *p, int thread)
{
    uint64_t s[8] = {0}, w[8];
    for (size_t i = 0; i < piece; i += sizeof w) {
        memcpy(w, p + i, sizeof w);
        for (int j = 0; j < 8; j++) s[j] ^= w[j];
    }
    for (int j = 1; j < 8; j++) s[0] ^= s[j];
    m->sums[thread % THREADS][0] ^= s[0];
}

static void read_task(void *ctx, int task, int thread)
{
    machine *m = ctx;
    const uint8_t *p = m->buffer + (size_t)task * piece;
#if defined(__x86_64__)
    if (m->isa & PAWL_ISA_AVX2) {
        read_avx2(m, p, thread);
        return;
    }
#endif
    read_plain(m, p, thread);
}

/* Operations of one vector instruction chain element, two each: 0 when this machine's units are not known here. */
static int fma_lanes(const machine *m)
{
#if defined(__x86_64__)
    if (m->isa & PAWL_ISA_AVX512F) return 16;
    if (m->isa & PAWL_ISA_AVX2 && m->isa & PAWL_ISA_FMA) return 8;
#endif
    (void)m;
    return 0;
}

static int int8_lanes(const machine *m)
{
#if defined(__x86_64__)
    if (m->isa & PAWL_ISA_AVX512VNNI) return 64;
    if (m->isa & PAWL_ISA_AVX2) return 32;
#endif
    (void)m;
    return 0;
}

static void fma_task(void *ctx, int task, int thread)
{
    (void)task;
#if defined(__x86_64__)
    fma_lanes(ctx) == 16 ? fma_avx512(ctx, thread) : fma_avx2(ctx, thread);
#else
    (void)ctx;
    (void)thread;
#endif
}

static void int8_task(void *ctx, int task, int thread)
{
    (void)task;
#if defined(__x86_64__)
    int8_lanes(ctx) == 64 ? int8_avx512(ctx, thread) : int8_avx2(ctx, thread);
#else
    (void)ctx;
    (void)thread;
#endif
}

static void read_all(void *ctx)
{
    pawl__pool_run(((machine *)ctx)->pool, (int)(size / piece), read_task, ctx);
}

static void fma_all(void *ctx)
{
    pawl__pool_run(((machine *)ctx)->pool, TASKS, fma_task, ctx);
}

static void int8_all(void *ctx)
{
    pawl__pool_run(((machine *)ctx)->pool, TASKS, int8_task, ctx);
}

machine *machine_open(pawl_pool *pool, uint64_t isa)
{
    machine *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    m->pool = pool;
    m->isa = isa;
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        free(m);
        return NULL;
    }
    m->buffer = p;
    for (size_t i = 0; i < size; i += sizeof i) memcpy(m->buffer + i, &i, sizeof i); /* real pages, not the zero page */
    return m;
}

void machine_close(machine **pm)
{
    machine *m = *pm;
    if (!m) return;
    munmap(m->buffer, size);
    free(m);
    *pm = NULL;
}

void machine_measure(machine *m, machine_rates *out)
{
    const double ops = 2.0 * CHAINS * LOOPS * TASKS;
    out->read = (double)size / bench_median_time(read_all, m, 0.12);
    out->fma = fma_lanes(m) ? ops * fma_lanes(m) / bench_median_time(fma_all, m, 0.08) : 0;
    out->int8 = int8_lanes(m) ? ops * int8_lanes(m) / bench_median_time(int8_all, m, 0.08) : 0;
}
