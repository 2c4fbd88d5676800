/* The pool's protocol: the caller writes the job, opens the gate and raises `generation`; a worker that sees it rise enters
 * through the gate if it is still open, takes tasks until none is left, and leaves. The caller works too, then closes the
 * gate and waits only for the workers that are inside: one that sleeps, or was not scheduled in time, costs nothing. Nobody
 * is inside while a job is written.
 *
 * Tasks are dealt out as one run of neighbours for each thread, since neighbours lie side by side in memory and processors
 * fetch ahead only along a stream that goes on: two threads that took turns would read a matrix at two thirds of the speed.
 * A thread that has finished its run takes the far half of what another one has left, so that all are busy to the end. */
#include "base/pool.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* About 20 microseconds of looking before sleeping: longer than the gap between two kernels of a step, far shorter than a
 * scheduler's time slice. */
enum { SPINS = 4000 };
static const unsigned OPEN = 1u << 31;

typedef struct worker {
    pawl_pool *pool;
    pthread_t thread;
    int index;
} worker;

/* The tasks that a thread has before it: the first one in the low half, the end in the high half. */
typedef struct run {
    _Alignas(64) atomic_uint_fast64_t span;
} run;

struct pawl_pool {
    int threads, started;
    worker *workers; /* threads - 1 */
    run *runs;       /* threads */
    pawl_task_fn fn;
    void *ctx;
    _Alignas(64) atomic_uint generation;
    atomic_int sleepers;
    _Alignas(64) atomic_uint gate; /* OPEN and the number of workers inside */
    atomic_int caller_sleeps;
    atomic_int quit;
};

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void futex_wait(atomic_uint *word, unsigned seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake(atomic_uint *word, int n)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static uint64_t span_of(int first, int end)
{
    return (uint64_t)(uint32_t)end << 32 | (uint32_t)first;
}

static int span_first(uint64_t span)
{
    return (int)(uint32_t)span;
}

static int span_end(uint64_t span)
{
    return (int)(span >> 32);
}

/* The next task of this thread's own run, or -1. */
static int next_own(run *own)
{
    uint64_t span = atomic_load_explicit(&own->span, memory_order_relaxed);
    while (span_first(span) < span_end(span))
        if (atomic_compare_exchange_weak_explicit(&own->span, &span, span + 1, memory_order_relaxed,
                                                  memory_order_relaxed))
            return span_first(span);
    return -1;
}

/* Moves the far half of another thread's run into this thread's, which is empty. 0: nobody has anything left. */
static int steal(pawl_pool *p, int thread)
{
    for (int i = 1; i < p->threads; i++) {
        run *from = &p->runs[(thread + i) % p->threads];
        uint64_t span = atomic_load_explicit(&from->span, memory_order_relaxed);
        while (span_first(span) < span_end(span)) {
            int first = span_first(span), end = span_end(span), half = first + (end - first) / 2;
            if (!atomic_compare_exchange_weak_explicit(&from->span, &span, span_of(first, half), memory_order_relaxed,
                                                       memory_order_relaxed))
                continue;
            atomic_store_explicit(&p->runs[thread].span, span_of(half, end), memory_order_relaxed);
            return 1;
        }
    }
    return 0;
}

static void work(pawl_pool *p, int thread)
{
    do {
        for (int task; (task = next_own(&p->runs[thread])) >= 0;) p->fn(p->ctx, task, thread);
    } while (steal(p, thread));
}

static int enter(pawl_pool *p)
{
    unsigned g = atomic_load(&p->gate);
    while (g & OPEN)
        if (atomic_compare_exchange_weak(&p->gate, &g, g + 1)) return 1;
    return 0;
}

static void *worker_main(void *arg)
{
    worker *w = arg;
    pawl_pool *p = w->pool;
    unsigned seen = 0;
    for (;;) {
        unsigned g;
        int spins = 0;
        while ((g = atomic_load_explicit(&p->generation, memory_order_acquire)) == seen) {
            if (++spins < SPINS) {
                relax();
                continue;
            }
            atomic_fetch_add(&p->sleepers, 1);
            if (atomic_load(&p->generation) == seen) futex_wait(&p->generation, seen);
            atomic_fetch_sub(&p->sleepers, 1);
        }
        seen = g;
        if (atomic_load(&p->quit)) return NULL;
        if (!enter(p)) continue;
        work(p, w->index);
        if (atomic_fetch_sub(&p->gate, 1) == 1 && atomic_load(&p->caller_sleeps)) futex_wake(&p->gate, 1);
    }
}

pawl_status pawl__pool_create(int threads, pawl_pool **out, pawl_err *err)
{
    *out = NULL;
    if (threads < 1 || threads > 1024)
        return pawl__fail(err, PAWL_EINVAL, "thread pool: expected 1 to 1024 threads, found %d", threads);
    pawl_pool *p = NULL;
    if (posix_memalign((void **)&p, 64, sizeof *p)) return pawl__fail(err, PAWL_ENOMEM, "thread pool: out of memory");
    memset(p, 0, sizeof *p);
    p->threads = threads;
    p->workers = calloc((size_t)threads, sizeof *p->workers);
    if (!p->workers || posix_memalign((void **)&p->runs, 64, (size_t)threads * sizeof *p->runs)) {
        free(p->workers);
        free(p);
        return pawl__fail(err, PAWL_ENOMEM, "thread pool: out of memory");
    }
    for (int i = 0; i < threads; i++) atomic_init(&p->runs[i].span, 0);
    for (int i = 1; i < threads; i++) {
        worker *w = &p->workers[i - 1];
        w->pool = p;
        w->index = i;
        int e = pthread_create(&w->thread, NULL, worker_main, w);
        if (e) {
            pawl__pool_destroy(&p);
            return pawl__fail(err, PAWL_ENOMEM, "thread pool: cannot start thread %d of %d: %s", i, threads,
                              strerror(e));
        }
        p->started++;
    }
    *out = p;
    return PAWL_OK;
}

static void release_workers(pawl_pool *p)
{
    atomic_fetch_add(&p->generation, 1);
    if (atomic_load(&p->sleepers)) futex_wake(&p->generation, p->threads);
}

void pawl__pool_destroy(pawl_pool **pp)
{
    pawl_pool *p = *pp;
    if (!p) return;
    atomic_store(&p->quit, 1);
    release_workers(p);
    for (int i = 0; i < p->started; i++) pthread_join(p->workers[i].thread, NULL);
    free(p->workers);
    free(p->runs);
    free(p);
    *pp = NULL;
}

int pawl__pool_threads(const pawl_pool *p)
{
    return p->threads;
}

void pawl__pool_run(pawl_pool *p, int n_tasks, pawl_task_fn fn, void *ctx)
{
    if (!p || p->threads == 1 || n_tasks <= 1) {
        for (int i = 0; i < n_tasks; i++) fn(ctx, i, 0);
        return;
    }
    p->fn = fn;
    p->ctx = ctx;
    for (int i = 0; i < p->threads; i++)
        atomic_store_explicit(
            &p->runs[i].span,
            span_of((int)((int64_t)n_tasks * i / p->threads), (int)((int64_t)n_tasks * (i + 1) / p->threads)),
            memory_order_relaxed);
    atomic_store(&p->gate, OPEN);
    release_workers(p);
    work(p, 0);
    unsigned inside = atomic_fetch_and(&p->gate, ~OPEN) & ~OPEN;
    for (int spins = 0; inside != 0; inside = atomic_load(&p->gate)) {
        if (++spins < SPINS) {
            relax();
            continue;
        }
        atomic_store(&p->caller_sleeps, 1);
        if ((inside = atomic_load(&p->gate)) != 0) futex_wait(&p->gate, inside);
        atomic_store(&p->caller_sleeps, 0);
    }
}
