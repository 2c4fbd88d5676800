/* linear: every weight format through pawl__ref_dot; output columns are split over the pool. */
#include "op/linear.h"

#include "kernels/ref/dot.h"
#include "kernels/ref/ref.h"
#include "kernels/ref/split.h"
#include "kernels/ref/supports.h"

enum { FP8_BLOCK = 128 };
#define ACT_FLOOR 1e-10f /* the smallest amax of a block of activations, as SGLang's and the golden quantiser have it */

/* Quantised activations: scales [m][ceil(k/128)], then codes [m][k]. NULL when activations stay f32. */
typedef struct linear_job {
    const pawl_linear_args *a;
    float *scales;
    uint8_t *codes;
} linear_job;

static void columns(const void *args, int64_t first, int64_t last, int thread)
{
    (void)thread;
    const linear_job *job = args;
    const pawl_linear_args *a = job->a;
    int64_t k = a->w->k, blocks = (k + FP8_BLOCK - 1) / FP8_BLOCK;
    for (int64_t n = first; n < last; n++) {
        for (int64_t m = 0; m < a->m; m += PAWL_REF_ROWS) {
            float y[PAWL_REF_ROWS];
            int rows = a->m - m < PAWL_REF_ROWS ? (int)(a->m - m) : PAWL_REF_ROWS;
            if (job->codes)
                pawl__ref_dot_a8(a->w, n, job->codes + m * k, job->scales + m * blocks, rows, y);
            else
                pawl__ref_dot(a->w, n, a->x + m * a->ldx, a->ldx, rows, y);
            for (int i = 0; i < rows; i++) a->y[(m + i) * a->ldy + n] = a->bias ? y[i] + a->bias[n] : y[i];
        }
    }
}

static void quantize_rows(const void *args, int64_t first, int64_t last, int thread)
{
    (void)thread;
    const linear_job *job = args;
    int64_t k = job->a->w->k, blocks = (k + FP8_BLOCK - 1) / FP8_BLOCK;
    for (int64_t m = first; m < last; m++)
        pawl__fp8_quantize_row(job->a->x + m * job->a->ldx, k, ACT_FLOOR, 0, job->codes + m * k,
                               job->scales + m * blocks);
}

static pawl_status run(const void *args, pawl_exec *ex, pawl_err *err)
{
    (void)err;
    linear_job job = {.a = args};
    if (job.a->m > 0) pawl__split(ex, job.a->w->n, INT64_MAX, columns, &job);
    return PAWL_OK;
}

static size_t a8_bytes(int64_t m, int64_t k)
{
    return (size_t)m * (size_t)((k + FP8_BLOCK - 1) / FP8_BLOCK) * sizeof(float) + (size_t)m * (size_t)k;
}

static size_t a8_scratch(const pawl_query *q, int64_t m, int threads)
{
    (void)threads;
    return a8_bytes(m, q->k);
}

static pawl_status run_a8(const void *args, pawl_exec *ex, pawl_err *err)
{
    linear_job job = {.a = args};
    int64_t m = job.a->m, k = job.a->w->k;
    if (m <= 0) return PAWL_OK;
    if (ex->scratch_size < a8_bytes(m, k))
        return pawl__fail(err, PAWL_EINTERNAL, "linear.fp8blk-a8:ref: %zu bytes of scratch, expected %zu",
                          ex->scratch_size, a8_bytes(m, k));
    job.scales = ex->scratch;
    job.codes = (uint8_t *)(job.scales + m * ((k + FP8_BLOCK - 1) / FP8_BLOCK));
    pawl__split(ex, m, INT64_MAX, quantize_rows, &job);
    pawl__split(ex, job.a->w->n, INT64_MAX, columns, &job);
    return PAWL_OK;
}

enum { TRAITS = PAWL_TRAIT_VERIFY | PAWL_TRAIT_ROW_INVARIANT | PAWL_TRAIT_RETRYABLE };

const pawl_kernel pawl__k_linear_f32_ref = {
    .id = "linear.f32:ref",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CPU,
    .m_min = 1,
    .traits = TRAITS,
    .supports = pawl__ref_linear_f32,
    .run = run,
};

const pawl_kernel pawl__k_linear_f16_ref = {
    .id = "linear.f16:ref",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CPU,
    .m_min = 1,
    .traits = TRAITS,
    .supports = pawl__ref_linear_f16,
    .run = run,
};

const pawl_kernel pawl__k_linear_bf16_ref = {
    .id = "linear.bf16:ref",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CPU,
    .m_min = 1,
    .traits = TRAITS,
    .supports = pawl__ref_linear_bf16,
    .run = run,
};

const pawl_kernel pawl__k_linear_fp8blk_ref = {
    .id = "linear.fp8blk:ref",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CPU,
    .m_min = 1,
    .traits = TRAITS,
    .supports = pawl__ref_linear_fp8blk,
    .run = run,
};

const pawl_kernel pawl__k_linear_fp8blk_a8_ref = {
    .id = "linear.fp8blk-a8:ref",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CPU,
    .m_min = 1,
    .traits = TRAITS,
    .supports = pawl__ref_linear_fp8blk_a8,
    .scratch = a8_scratch,
    .run = run_a8,
};

const pawl_kernel pawl__k_linear_fp8ten_ref = {
    .id = "linear.fp8ten:ref",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CPU,
    .m_min = 1,
    .traits = TRAITS,
    .supports = pawl__ref_linear_fp8ten,
    .run = run,
};

const pawl_kernel pawl__k_linear_fp8ch_ref = {
    .id = "linear.fp8ch:ref",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CPU,
    .m_min = 1,
    .traits = TRAITS,
    .supports = pawl__ref_linear_fp8ch,
    .run = run,
};

const pawl_kernel pawl__k_linear_nvfp4_ref = {
    .id = "linear.nvfp4:ref",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CPU,
    .m_min = 1,
    .traits = TRAITS,
    .supports = pawl__ref_linear_nvfp4,
    .run = run,
};

const pawl_kernel pawl__k_linear_mxfp4_ref = {
    .id = "linear.mxfp4:ref",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CPU,
    .m_min = 1,
    .traits = TRAITS,
    .supports = pawl__ref_linear_mxfp4,
    .run = run,
};
