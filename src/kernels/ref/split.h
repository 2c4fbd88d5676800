/* Splitting independent items over the pool. How they fall on threads changes no result. */
#ifndef PAWL_KERNELS_REF_SPLIT_H
#define PAWL_KERNELS_REF_SPLIT_H

#include <stdint.h>

#include "device/exec.h"

/* Does items first .. last-1. */
typedef void (*pawl_range_fn)(const void *args, int64_t first, int64_t last, int thread);

typedef struct pawl_split {
    pawl_range_fn fn;
    const void *args;
    int64_t n;
    int tasks;
} pawl_split;

static inline void pawl__split_task(void *ctx, int task, int thread)
{
    const pawl_split *s = ctx;
    int64_t each = s->n / s->tasks, more = s->n % s->tasks; /* the first `more` tasks have one item more */
    int64_t first = each * task + (task < more ? task : more);
    s->fn(s->args, first, first + each + (task < more), thread);
}

/* Steps of vectorisable arithmetic (about 20 us) below which an op stays on the caller's thread: handing it out, and moving
 * states and activations between the cores' caches, would cost more than it saves. */
enum { PAWL_SPLIT_WORK = 1 << 18 };

/* work: multiply-adds or the like of the whole op, roughly. Four tasks a thread: enough to even out, few enough to cost
 * nothing. */
static inline void pawl__split(pawl_exec *ex, int64_t n, int64_t work, pawl_range_fn fn, const void *args)
{
    int64_t most = work < PAWL_SPLIT_WORK ? 1 : 4 * (int64_t)pawl__exec_threads(ex);
    pawl_split s = {.fn = fn, .args = args, .n = n, .tasks = (int)(n < most ? n : most)};
    if (s.tasks > 0) pawl__pool_run(ex->pool, s.tasks, pawl__split_task, &s);
}

#endif
