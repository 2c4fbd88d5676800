/* linear under the int8 policy on x86: rows are quantised once, then tiles of weights are unpacked and meet all rows. */
#include "kernels/x86/int8.h"

#if defined(__x86_64__)

enum {
    ROWS = 128,         /* of x that share one unpacking */
    FEW_ROWS = 16,      /* quantised on the caller's thread */
    TASK_BYTES = 16384, /* below that a task costs more to hand out than to do */
    ALIGN = 64
};

/* Sums of outputs n .. n+rows-1 for rows j .. j+m-1 become y. */
static void finish(const int8_part *p, int64_t n, int rows, int64_t j, int64_t m, const float *acc)
{
    float last[ACT8_WIDTH];
    for (int i = 0; i < rows; i++) last[i] = pawl__int8_last(p->w, n + i);
    for (int64_t c = 0; c < m; c++) {
        float *y = p->y + (j + c) * p->ldy + n - p->y0;
        for (int i = 0; i < rows; i++) {
            float v = acc[c * p->isa->width + i] * last[i];
            if (p->bias) v += p->bias[n + i];
            y[i] = v == v ? v : NAN;
        }
    }
}

void pawl__int8_part(const int8_part *p, int64_t n0, int64_t n1)
{
    const pawl_wmat *w = p->w;
    int width = p->isa->width, nvfp4 = w->q == PAWL_Q_NVFP4;
    int8_tile tile;
    _Alignas(64) float acc[ROWS * ACT8_WIDTH];
    for (int64_t n = n0; n < n1; n += width) {
        int rows = n1 - n < width ? (int)(n1 - n) : width;
        for (int64_t j = 0; j < p->m; j += ROWS) {
            int64_t m = p->m - j < ROWS ? p->m - j : ROWS;
            if (rows == width && m <= p->isa->few_rows) {
                p->isa->few(w, n, p->x, p->xrows ? p->xrows + j : NULL, p->x0 + j, m, acc);
                finish(p, n, rows, j, m, acc);
                continue;
            }
            for (int64_t i = 0; i < m * width; i++) acc[i] = 0;
            for (int64_t g = 0; g < p->x->groups; g += ACT8_GROUPS) {
                int groups = p->x->groups - g < ACT8_GROUPS ? (int)(p->x->groups - g) : ACT8_GROUPS;
                p->isa->unpack(w, n, rows, g, groups, &tile);
                p->isa->dot(nvfp4, &tile, g, groups, p->x, p->xrows ? p->xrows + j : NULL, p->x0 + j, m, acc);
            }
            finish(p, n, rows, j, m, acc);
        }
    }
}

int64_t pawl__int8_chunk(const pawl_wmat *w, int64_t m)
{
    int64_t row = pawl__quant_row_bytes(w->q, w->k) * (m < ROWS ? m : ROWS);
    int64_t rows = (TASK_BYTES + row - 1) / (row > 0 ? row : 1);
    return (rows + 31) / 32 * 32;
}

size_t pawl__int8_rows_bytes(int64_t m, int64_t k)
{
    return ((size_t)(m * pawl__act8_groups(k)) * sizeof(int8_group) + ALIGN - 1) / ALIGN * ALIGN;
}

int8_rows pawl__int8_rows_at(void *base, int64_t k)
{
    return (int8_rows){.groups = pawl__act8_groups(k), .group = base};
}

size_t pawl__linear_int8_scratch(const pawl_query *q, int64_t m, int threads)
{
    (void)threads;
    return pawl__int8_rows_bytes(m, q->k);
}

typedef struct linear_job {
    const pawl_linear_args *a;
    int8_part part;
    int8_rows x;
    int64_t chunk;
} linear_job;

static void quantize_task(void *ctx, int task, int thread)
{
    (void)thread;
    const linear_job *job = ctx;
    const pawl_linear_args *a = job->a;
    int64_t first = (int64_t)task * FEW_ROWS, last = a->m - first < FEW_ROWS ? a->m : first + FEW_ROWS;
    for (int64_t m = first; m < last; m++)
        job->part.isa->quantize(a->w->q == PAWL_Q_NVFP4, a->x + m * a->ldx, a->w->k, 0, job->x.groups, &job->x, m);
}

static void linear_task(void *ctx, int task, int thread)
{
    (void)thread;
    const linear_job *job = ctx;
    int64_t n0 = task * job->chunk, n = job->a->w->n;
    pawl__int8_part(&job->part, n0, n - n0 < job->chunk ? n : n0 + job->chunk);
}

static pawl_status run(const int8_isa *isa, const pawl_linear_args *a, pawl_exec *ex, pawl_err *err)
{
    size_t need = pawl__int8_rows_bytes(a->m, a->w->k);
    if (!pawl__has_int8(a->w->q))
        return pawl__fail(err, PAWL_EINVAL, "linear under int8: weights in %s", pawl__quant_word(a->w->q));
    if (a->m <= 0) return PAWL_OK;
    if (ex->scratch_size < need)
        return pawl__fail(err, PAWL_EINTERNAL, "linear under int8: %zu bytes of scratch, expected %zu",
                          ex->scratch_size, need);
    linear_job job = {.a = a, .x = pawl__int8_rows_at(ex->scratch, a->w->k), .chunk = pawl__int8_chunk(a->w, a->m)};
    job.part = (int8_part){.isa = isa, .w = a->w, .bias = a->bias, .x = &job.x, .y = a->y, .ldy = a->ldy, .m = a->m};
    pawl__pool_run(ex->pool, (int)((a->m + FEW_ROWS - 1) / FEW_ROWS), quantize_task, &job);
    pawl__pool_run(ex->pool, (int)((a->w->n + job.chunk - 1) / job.chunk), linear_task, &job);
    return PAWL_OK;
}

pawl_status pawl__linear_int8_run_avx2(const void *args, pawl_exec *ex, pawl_err *err)
{
    return run(&pawl__int8_avx2, args, ex, err);
}

pawl_status pawl__linear_int8_run_avx512vnni(const void *args, pawl_exec *ex, pawl_err *err)
{
    return run(&pawl__int8_avx512vnni, args, ex, err);
}
#endif
