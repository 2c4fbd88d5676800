/* Experts under the int8 policy, standard layout: one row and one expert at a time; rows are split over the pool. */
#include "op/moe.h"

#include <string.h>

#include "kernels/ref/act_fn.h"
#include "kernels/ref/dot_int8.h"
#include "kernels/ref/ref.h"
#include "kernels/ref/split.h"
#include "kernels/ref/supports.h"

enum { GROUP = PAWL_ACT8_GROUP };

/* A row in quantised form. */
typedef struct int8_row {
    float *scales;
    int8_t *codes;
} int8_row;

typedef struct moe_job {
    const pawl_moe_args *a;
    char *scratch; /* [threads][thread_bytes] */
    size_t thread_bytes;
} moe_job;

static size_t row_bytes(int64_t k)
{
    return (size_t)pawl__act8_groups(k) * (sizeof(float) + GROUP);
}

/* gate and up (2 * i floats), the quantised input, the quantised middle */
static size_t thread_bytes(int64_t h, int64_t i)
{
    return (2 * (size_t)i * sizeof(float) + row_bytes(h) + row_bytes(i) + 63) / 64 * 64;
}

static int8_row quantize(const float *x, int64_t k, char *at)
{
    int8_row r = {.scales = (float *)(void *)at};
    r.codes = (int8_t *)(r.scales + pawl__act8_groups(k));
    pawl__act8_quantize_row(x, k, r.codes, r.scales);
    return r;
}

static float linear_at(const pawl_wmat *w, const float *bias, int64_t n, int8_row x)
{
    float y = pawl__ref_dot_int8(w, n, x.codes, x.scales);
    if (bias) y += bias[n];
    return y == y ? y : NAN;
}

static void moe_rows(const void *ctx, int64_t first, int64_t last, int thread)
{
    const moe_job *job = ctx;
    const pawl_moe_args *a = job->a;
    const pawl_experts *s = a->experts;
    float *mid = (float *)(void *)(job->scratch + (size_t)thread * job->thread_bytes), *up = mid + s->i;
    char *x_at = (char *)(mid + 2 * s->i), *mid_at = x_at + row_bytes(s->h);
    for (int64_t t = first; t < last; t++) {
        float *y = a->y + t * s->h;
        int8_row x = quantize(a->x + t * s->h, s->h, x_at);
        memset(y, 0, (size_t)s->h * sizeof(float));
        for (int64_t k = 0; k < a->top_k; k++) {
            int32_t id = a->ids[t * a->top_k + k];
            if (id < 0 || id >= s->n) continue;
            const pawl_expert *e = &s->e[id];
            float w = a->weights[t * a->top_k + k];
            for (int64_t n = 0; n < s->i; n++) {
                mid[n] = linear_at(&e->gate, e->gate_bias, n, x);
                if (s->gated) up[n] = linear_at(&e->up, e->up_bias, n, x);
            }
            pawl__act_row(s->act, mid, s->gated ? up : NULL, s->i, mid);
            int8_row q = quantize(mid, s->i, mid_at);
            for (int64_t n = 0; n < s->h; n++) y[n] = fmaf(w, linear_at(&e->down, e->down_bias, n, q), y[n]);
        }
    }
}

static size_t scratch(const pawl_query *q, int64_t m, int threads)
{
    (void)m;
    return (size_t)threads * thread_bytes(q->k, q->n);
}

static pawl_status run(const void *args, pawl_exec *ex, pawl_err *err)
{
    const pawl_moe_args *a = args;
    moe_job job = {.a = a, .scratch = ex->scratch, .thread_bytes = thread_bytes(a->experts->h, a->experts->i)};
    size_t need = (size_t)pawl__exec_threads(ex) * job.thread_bytes;
    if (ex->scratch_size < need)
        return pawl__fail(err, PAWL_EINTERNAL, "%s: %zu bytes of scratch, expected %zu", pawl__k_moe_any_i8_ref.id,
                          ex->scratch_size, need);
    pawl__split(ex, a->m, INT64_MAX, moe_rows, &job);
    return PAWL_OK;
}

const pawl_kernel pawl__k_moe_any_i8_ref = {
    .id = "moe.any-i8:ref",
    .op = PAWL_OP_MOE,
    .arch = PAWL_ARCH_CPU,
    .m_min = 1,
    .traits = PAWL_TRAIT_VERIFY | PAWL_TRAIT_ROW_INVARIANT | PAWL_TRAIT_RETRYABLE,
    .supports = pawl__ref_moe_i8,
    .scratch = scratch,
    .run = run,
};
