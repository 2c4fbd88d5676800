/* A fork-join thread pool for kernels.
 *
 * The caller's thread takes part in the work, so a pool of 1 has no other thread. Workers spin for a bounded time after a
 * job and then sleep; the pool never has more threads than asked for, and the caller asks for no more than the granted
 * CPUs. One thread at a time may call pawl__pool_run on a pool (the engine's). How tasks fall on threads never changes a
 * result: a task writes only what is its own. */
#ifndef PAWL_BASE_POOL_H
#define PAWL_BASE_POOL_H

#include "base/status.h"

typedef struct pawl_pool pawl_pool;

/* task: 0 .. n_tasks-1; thread: 0 .. threads-1, for per-thread scratch. */
typedef void (*pawl_task_fn)(void *ctx, int task, int thread);

/* threads >= 1. */
pawl_status pawl__pool_create(int threads, pawl_pool **out, pawl_err *err);
void pawl__pool_destroy(pawl_pool **p);
int pawl__pool_threads(const pawl_pool *p);

/* Runs fn for each task and returns when all are done. n_tasks may be 0. p may be NULL: everything on this thread. */
void pawl__pool_run(pawl_pool *p, int n_tasks, pawl_task_fn fn, void *ctx);

#endif
