/* linear under the int8 policy: rows of x are quantised once, then output columns are split over the pool. */
#include "op/linear.h"

#include "kernels/ref/dot_int8.h"
#include "kernels/ref/ref.h"
#include "kernels/ref/split.h"
#include "kernels/ref/supports.h"

enum { GROUP = PAWL_ACT8_GROUP };

typedef struct int8_job {
    const pawl_linear_args *a;
    int64_t groups;
    float *scales; /* [m][groups] */
    int8_t *codes; /* [m][groups * 32] */
} int8_job;

static void quantize_rows(const void *ctx, int64_t first, int64_t last, int thread)
{
    (void)thread;
    const int8_job *job = ctx;
    for (int64_t m = first; m < last; m++)
        pawl__act8_quantize_row(job->a->x + m * job->a->ldx, job->a->w->k, job->codes + m * job->groups * GROUP,
                                job->scales + m * job->groups);
}

static void columns(const void *ctx, int64_t first, int64_t last, int thread)
{
    (void)thread;
    const int8_job *job = ctx;
    const pawl_linear_args *a = job->a;
    for (int64_t n = first; n < last; n++)
        for (int64_t m = 0; m < a->m; m++) {
            float y = pawl__ref_dot_int8(a->w, n, job->codes + m * job->groups * GROUP, job->scales + m * job->groups);
            if (a->bias) y += a->bias[n];
            a->y[m * a->ldy + n] = y == y ? y : NAN;
        }
}

static size_t bytes(int64_t m, int64_t k)
{
    return (size_t)(m * pawl__act8_groups(k)) * (sizeof(float) + GROUP);
}

static size_t scratch(const pawl_query *q, int64_t m, int threads)
{
    (void)threads;
    return bytes(m, q->k);
}

static pawl_status run(const void *args, pawl_exec *ex, pawl_err *err)
{
    int8_job job = {.a = args};
    int64_t m = job.a->m, k = job.a->w->k;
    if (m <= 0) return PAWL_OK;
    if (ex->scratch_size < bytes(m, k))
        return pawl__fail(err, PAWL_EINTERNAL, "linear under int8: %zu bytes of scratch, expected %zu",
                          ex->scratch_size, bytes(m, k));
    job.groups = pawl__act8_groups(k);
    job.scales = ex->scratch;
    job.codes = (int8_t *)(job.scales + m * job.groups);
    pawl__split(ex, m, INT64_MAX, quantize_rows, &job);
    pawl__split(ex, job.a->w->n, INT64_MAX, columns, &job);
    return PAWL_OK;
}

enum { TRAITS = PAWL_TRAIT_VERIFY | PAWL_TRAIT_ROW_INVARIANT | PAWL_TRAIT_RETRYABLE };

const pawl_kernel pawl__k_linear_nvfp4_i8_ref = {
    .id = "linear.nvfp4-i8:ref",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CPU,
    .m_min = 1,
    .traits = TRAITS,
    .supports = pawl__ref_linear_nvfp4_i8,
    .scratch = scratch,
    .run = run,
};

const pawl_kernel pawl__k_linear_fp8_i8_ref = {
    .id = "linear.fp8-i8:ref",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CPU,
    .m_min = 1,
    .traits = TRAITS,
    .supports = pawl__ref_linear_fp8_i8,
    .scratch = scratch,
    .run = run,
};
