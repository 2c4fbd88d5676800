#include "base/readahead.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14; older ones say EINVAL */
#endif

/* Small enough to stop soon and not to hold up others who change the address space, large enough for a disk. */
enum { STEP = 2 << 20, LOWEST = 19 };

struct pawl_readahead {
    pthread_t thread;
    atomic_int quit;
    atomic_uint_fast64_t done;
    size_t n;
    pawl_range range[];
};

/* Unlike touching the pages, neither call raises SIGBUS when the file has been cut meanwhile. */
static void bring(const unsigned char *p, size_t n, int *populate)
{
    size_t off = (uintptr_t)p % (size_t)sysconf(_SC_PAGESIZE);
    void *start = (void *)(size_t)(p - off);
    if (*populate && madvise(start, n + off, MADV_POPULATE_READ) && errno == EINVAL) *populate = 0;
    if (!*populate) madvise(start, n + off, MADV_WILLNEED);
}

static void *run(void *ctx)
{
    pawl_readahead *r = ctx;
    int populate = 1;
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), LOWEST); /* of this thread: whoever computes comes first */
    for (size_t i = 0; i < r->n; i++)
        for (size_t at = 0; at < r->range[i].bytes; at += STEP) {
            if (atomic_load(&r->quit)) return NULL;
            size_t n = r->range[i].bytes - at < STEP ? r->range[i].bytes - at : STEP;
            bring(r->range[i].data + at, n, &populate);
            atomic_fetch_add(&r->done, n);
        }
    return NULL;
}

pawl_readahead *pawl__readahead_start(const pawl_range *ranges, size_t n)
{
    pawl_readahead *r = malloc(sizeof *r + n * sizeof *ranges);
    if (!r) return NULL;
    atomic_init(&r->quit, 0);
    atomic_init(&r->done, 0);
    r->n = n;
    if (n) memcpy(r->range, ranges, n * sizeof *ranges);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the program's signals are not this thread's */
    int failed = pthread_create(&r->thread, NULL, run, r);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!failed) return r;
    free(r);
    return NULL;
}

uint64_t pawl__readahead_done(const pawl_readahead *r)
{
    return atomic_load(&r->done);
}

void pawl__readahead_stop(pawl_readahead **pr)
{
    pawl_readahead *r = *pr;
    if (!r) return;
    atomic_store(&r->quit, 1);
    pthread_join(r->thread, NULL);
    free(r);
    *pr = NULL;
}
