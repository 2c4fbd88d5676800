/* linear as an op: the arguments are checked, and the output columns are dealt out to the threads. */
#include "kernels/x86/body_avx2.h"

typedef struct linear_job {
    linear_part part;
    linear_part_fn fn;
    int64_t chunk;
} linear_job;

static void linear_task(void *ctx, int task, int thread)
{
    (void)thread;
    const linear_job *job = ctx;
    int64_t n0 = task * job->chunk, n = job->part.w->n;
    job->fn(&job->part, n0, n - n0 < job->chunk ? n : n0 + job->chunk);
}

pawl_status pawl__x86_linear(const pawl_linear_args *a, linear_part_fn fn, int64_t chunk, pawl_exec *ex, pawl_err *err)
{
    if (a->w->q <= PAWL_Q_NONE || a->w->q >= PAWL_QUANT_COUNT)
        return pawl__fail(err, PAWL_EINVAL, "linear: weight format %d is unknown", (int)a->w->q);
    if (a->ldx < a->w->k || a->ldy < a->w->n)
        return pawl__fail(err, PAWL_EINVAL, "linear: rows of %lld and %lld floats for k=%lld, n=%lld",
                          (long long)a->ldx, (long long)a->ldy, (long long)a->w->k, (long long)a->w->n);
    linear_job job = {
        {.w = a->w, .bias = a->bias, .x = a->x, .ldx = a->ldx, .y = a->y, .ldy = a->ldy, .m = a->m}, fn, chunk};
    pawl__pool_run(ex->pool, (int)((a->w->n + chunk - 1) / chunk), linear_task, &job);
    return PAWL_OK;
}
