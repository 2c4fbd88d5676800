/* Experts: moe, moe_masked and moe_grouped. One row and one expert at a time; rows are split over the pool. The space
 * between an expert's two halves is scratch, `i` floats a thread. */
#include "op/moe.h"

#include <string.h>

#include "kernels/ref/act_fn.h"
#include "kernels/ref/dot.h"
#include "kernels/ref/ref.h"
#include "kernels/ref/split.h"
#include "kernels/ref/supports.h"

typedef struct moe_job {
    const void *args;
    float *mid; /* [threads][2 * i] */
} moe_job;

static float linear_at(const pawl_wmat *w, const float *bias, int64_t n, const float *x)
{
    float y;
    pawl__ref_dot(w, n, x, 0, 1, &y);
    return bias ? y + bias[n] : y;
}

/* mid[i] = act(gate x) * up x; mid has room for 2 * i. */
static void first_half(const pawl_experts *s, const pawl_expert *e, const float *x, float *mid)
{
    float *up = mid + s->i;
    for (int64_t n = 0; n < s->i; n++) {
        mid[n] = linear_at(&e->gate, e->gate_bias, n, x);
        if (s->gated) up[n] = linear_at(&e->up, e->up_bias, n, x);
    }
    pawl__act_row(s->act, mid, s->gated ? up : NULL, s->i, mid);
}

static void expert_row(const pawl_experts *s, int64_t id, const float *x, float *mid, float *y)
{
    const pawl_expert *e = &s->e[id];
    first_half(s, e, x, mid);
    for (int64_t n = 0; n < s->h; n++) y[n] = linear_at(&e->down, e->down_bias, n, mid);
}

static void moe_rows(const void *ctx, int64_t first, int64_t last, int thread)
{
    const moe_job *job = ctx;
    const pawl_moe_args *a = job->args;
    const pawl_experts *s = a->experts;
    float *mid = job->mid + thread * 2 * s->i;
    for (int64_t t = first; t < last; t++) {
        float *y = a->y + t * s->h;
        memset(y, 0, (size_t)s->h * sizeof(float));
        for (int64_t k = 0; k < a->top_k; k++) {
            int32_t id = a->ids[t * a->top_k + k];
            if (id < 0 || id >= s->n) continue;
            float w = a->weights[t * a->top_k + k];
            first_half(s, &s->e[id], a->x + t * s->h, mid);
            for (int64_t n = 0; n < s->h; n++)
                y[n] = fmaf(w, linear_at(&s->e[id].down, s->e[id].down_bias, n, mid), y[n]);
        }
    }
}

/* Items are (expert, row). */
static void masked_rows(const void *ctx, int64_t first, int64_t last, int thread)
{
    const moe_job *job = ctx;
    const pawl_moe_masked_args *a = job->args;
    const pawl_experts *s = a->experts;
    for (int64_t item = first; item < last; item++) {
        int64_t id = item / a->max;
        if (item % a->max < a->counts[id])
            expert_row(s, id, a->x + item * s->h, job->mid + thread * 2 * s->i, a->y + item * s->h);
        else if (a->zero_padding)
            memset(a->y + item * s->h, 0, (size_t)s->h * sizeof(float));
    }
}

static void grouped_rows(const void *ctx, int64_t first, int64_t last, int thread)
{
    const moe_job *job = ctx;
    const pawl_moe_grouped_args *a = job->args;
    const pawl_experts *s = a->experts;
    for (int64_t t = first; t < last; t++)
        if (a->expert[t] >= 0 && a->expert[t] < s->n)
            expert_row(s, a->expert[t], a->x + t * s->h, job->mid + thread * 2 * s->i, a->y + t * s->h);
}

static size_t mid_bytes(int64_t i, int threads)
{
    return (size_t)threads * 2 * (size_t)i * sizeof(float);
}

static size_t scratch(const pawl_query *q, int64_t m, int threads)
{
    (void)m;
    return mid_bytes(q->n, threads);
}

static pawl_status start(moe_job *job, const char *id, const void *args, const pawl_experts *s, pawl_exec *ex,
                         pawl_err *err)
{
    size_t need = mid_bytes(s->i, pawl__exec_threads(ex));
    if (ex->scratch_size < need)
        return pawl__fail(err, PAWL_EINTERNAL, "%s: %zu bytes of scratch, expected %zu", id, ex->scratch_size, need);
    *job = (moe_job){.args = args, .mid = ex->scratch};
    return PAWL_OK;
}

static pawl_status run_moe(const void *args, pawl_exec *ex, pawl_err *err)
{
    const pawl_moe_args *a = args;
    moe_job job;
    PAWL_TRY(start(&job, pawl__k_moe_any_ref.id, a, a->experts, ex, err));
    pawl__split(ex, a->m, INT64_MAX, moe_rows, &job);
    return PAWL_OK;
}

static pawl_status run_masked(const void *args, pawl_exec *ex, pawl_err *err)
{
    const pawl_moe_masked_args *a = args;
    moe_job job;
    for (int64_t e = 0; e < a->experts->n; e++)
        if (a->counts[e] < 0 || a->counts[e] > a->max)
            return pawl__fail(err, PAWL_EINVAL, "moe_masked: counts[%lld] is %d, expected 0 to %lld", (long long)e,
                              a->counts[e], (long long)a->max);
    PAWL_TRY(start(&job, pawl__k_moe_masked_any_ref.id, a, a->experts, ex, err));
    pawl__split(ex, a->experts->n * a->max, INT64_MAX, masked_rows, &job);
    return PAWL_OK;
}

static pawl_status run_grouped(const void *args, pawl_exec *ex, pawl_err *err)
{
    const pawl_moe_grouped_args *a = args;
    moe_job job;
    PAWL_TRY(start(&job, pawl__k_moe_grouped_any_ref.id, a, a->experts, ex, err));
    pawl__split(ex, a->m, INT64_MAX, grouped_rows, &job);
    return PAWL_OK;
}

enum { TRAITS = PAWL_TRAIT_VERIFY | PAWL_TRAIT_ROW_INVARIANT | PAWL_TRAIT_RETRYABLE };

const pawl_kernel pawl__k_moe_any_ref = {
    .id = "moe.any:ref",
    .op = PAWL_OP_MOE,
    .arch = PAWL_ARCH_CPU,
    .m_min = 1,
    .traits = TRAITS,
    .supports = pawl__ref_moe,
    .scratch = scratch,
    .run = run_moe,
};

const pawl_kernel pawl__k_moe_masked_any_ref = {
    .id = "moe_masked.any:ref",
    .op = PAWL_OP_MOE_MASKED,
    .arch = PAWL_ARCH_CPU,
    .m_min = 1,
    .traits = TRAITS,
    .supports = pawl__ref_moe,
    .scratch = scratch,
    .run = run_masked,
};

const pawl_kernel pawl__k_moe_grouped_any_ref = {
    .id = "moe_grouped.any:ref",
    .op = PAWL_OP_MOE_GROUPED,
    .arch = PAWL_ARCH_CPU,
    .m_min = 1,
    .traits = TRAITS,
    .supports = pawl__ref_moe,
    .scratch = scratch,
    .run = run_grouped,
};
