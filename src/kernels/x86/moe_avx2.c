/* The expert MLPs for AVX2, in the standard, masked and grouped layouts, made of the linear core in linear_avx2.c.
 *
 * Rows are sorted by expert (counting sort, stable) inside scratch, so that each chosen expert's weights are read once for
 * all of its rows. Two passes over the pool: (expert, columns of I) gate, up and activation; then down. In the standard
 * layout the second pass cuts H instead of experts, so that a task owns its columns of y and adds the experts up in the
 * order of k. Many rows are taken in blocks, so that scratch stays bounded; a row's bits do not depend on its block. */
#include "kernels/x86/body_avx2.h"

#if defined(__x86_64__)
#include <math.h>
#include <string.h>

#include "base/mathfn.h"

enum {
    BLOCK_BYTES =
        32 << 20, /* scratch for the rows of one block: enough that experts of large models get several rows */
    ALIGN = 64
};

/* Where things lie in scratch, for `rows` rows (token and expert pairs in the standard layout). */
typedef struct moe_layout {
    int64_t rows;
    size_t first, chosen, rows_at, pos, g, u, e, size;
} moe_layout;

static size_t take(size_t *at, int64_t n, size_t size)
{
    size_t here = *at;
    *at = (here + (size_t)n * size + ALIGN - 1) / ALIGN * ALIGN;
    return here;
}

static moe_layout lay_out(int64_t experts, int64_t rows, int64_t h, int64_t i, int gated, int summed)
{
    moe_layout l = {.rows = rows};
    size_t at = 0;
    l.first = take(&at, experts + 1, sizeof(int64_t));
    l.chosen = take(&at, experts, sizeof(int64_t));
    l.rows_at = take(&at, rows, sizeof(int64_t));
    l.pos = take(&at, summed ? rows : 0, sizeof(int64_t));
    l.g = take(&at, rows * i, sizeof(float));
    l.u = take(&at, gated ? rows * i : 0, sizeof(float));
    l.e = take(&at, summed ? rows * h : 0, sizeof(float));
    l.size = at;
    return l;
}

/* The layout of a block of at most `rows` rows, taken in groups of `unit` (a token's top-k rows stay together). */
static moe_layout lay_out_block(int64_t experts, int64_t rows, int64_t unit, int64_t h, int64_t i, int gated,
                                int summed)
{
    int64_t row_bytes = (int64_t)sizeof(float) * (i * (gated ? 2 : 1) + (summed ? h : 0));
    int64_t most = BLOCK_BYTES / (row_bytes > 0 ? row_bytes : 1) / unit * unit;
    if (most < unit) most = unit;
    return lay_out(experts, rows < most ? rows : most, h, i, gated, summed);
}

size_t pawl__moe_scratch_avx2(const pawl_query *q, int64_t m, int threads)
{
    (void)threads;
    int64_t k = q->x[1] > 0 ? q->x[1] : 1;
    return lay_out_block(q->x[0], m * k, k, q->k, q->n, (q->flags & PAWL_QF_GATED) != 0, 1).size;
}

size_t pawl__moe_masked_scratch_avx2(const pawl_query *q, int64_t m, int threads)
{
    (void)m; /* the layout's size does not depend on the rows in use */
    (void)threads;
    return lay_out_block(q->x[0], q->x[0] * q->x[1], 1, q->k, q->n, (q->flags & PAWL_QF_GATED) != 0, 0).size;
}

size_t pawl__moe_grouped_scratch_avx2(const pawl_query *q, int64_t m, int threads)
{
    (void)threads;
    return lay_out_block(q->x[0], m, 1, q->k, q->n, (q->flags & PAWL_QF_GATED) != 0, 0).size;
}

/* One block on its way through the two passes. */
typedef struct moe_job {
    const pawl_experts *ex;
    const float *x;
    float *y;
    int64_t *first;  /* [experts + 1]: expert e's rows are first[e] .. first[e+1]-1 of the sorted order */
    int64_t *chosen; /* [n_chosen]: the experts that have rows */
    int64_t n_chosen, chunks;
    int64_t *rows; /* sorted order -> row of x; outside the standard layout also of y */
    float *g, *u;  /* [rows][i] */
    int64_t chunk_i, chunk_h;
    /* standard layout */
    const pawl_moe_args *sum;
    int64_t t0, t1;
    int64_t *pos; /* (t - t0) * top_k + k -> sorted order, -1 for none */
    float *e;     /* [rows][h] */
} moe_job;

static void relu2_row(float *restrict g, int64_t n)
{
    for (int64_t c = 0; c < n; c++) {
        float v = g[c] * (g[c] > 0.0f ? 1.0f : 0.0f); /* a product, so that NaN stays */
        g[c] = v * v;
    }
}

static void silu_row(float *restrict g, int64_t n)
{
    for (int64_t c = 0; c < n; c++) g[c] = pawl__siluf(g[c]);
}

static void times_row(float *restrict g, const float *restrict u, int64_t n)
{
    for (int64_t c = 0; c < n; c++) g[c] *= u[c];
}

static int64_t chunk_end(int64_t c0, int64_t chunk, int64_t n)
{
    return n - c0 < chunk ? n : c0 + chunk;
}

/* Pass 1: columns of I of one expert. */
static void up_task(void *ctx, int task, int thread)
{
    (void)thread;
    const moe_job *job = ctx;
    const pawl_experts *ex = job->ex;
    int64_t id = job->chosen[task / job->chunks], c0 = task % job->chunks * job->chunk_i;
    int64_t c1 = chunk_end(c0, job->chunk_i, ex->i), j0 = job->first[id], m = job->first[id + 1] - j0;
    const pawl_expert *e = &ex->e[id];
    linear_part p = {.w = &e->gate,
                     .bias = e->gate_bias,
                     .x = job->x,
                     .ldx = ex->h,
                     .xrows = job->rows + j0,
                     .y = job->g + j0 * ex->i,
                     .ldy = ex->i,
                     .m = m};
    pawl__linear_part_avx2(&p, c0, c1);
    if (ex->gated) {
        p.w = &e->up;
        p.bias = e->up_bias;
        p.y = job->u + j0 * ex->i;
        pawl__linear_part_avx2(&p, c0, c1);
    }
    for (int64_t j = j0; j < j0 + m; j++) {
        float *g = job->g + j * ex->i + c0;
        if (ex->act == PAWL_ACT_RELU2)
            relu2_row(g, c1 - c0);
        else
            silu_row(g, c1 - c0);
        if (ex->gated) times_row(g, job->u + j * ex->i + c0, c1 - c0);
    }
}

static void down_part(const moe_job *job, int64_t id, float *y, const int64_t *yrows, int64_t c0, int64_t c1)
{
    const pawl_experts *ex = job->ex;
    const pawl_expert *e = &ex->e[id];
    int64_t j0 = job->first[id];
    linear_part p = {.w = &e->down,
                     .bias = e->down_bias,
                     .x = job->g + j0 * ex->i,
                     .ldx = ex->i,
                     .y = y,
                     .ldy = ex->h,
                     .yrows = yrows,
                     .m = job->first[id + 1] - j0};
    pawl__linear_part_avx2(&p, c0, c1);
}

/* Pass 2 of the masked and grouped layouts: columns of H of one expert, straight to y. */
static void down_task(void *ctx, int task, int thread)
{
    (void)thread;
    const moe_job *job = ctx;
    int64_t id = job->chosen[task / job->chunks], c0 = task % job->chunks * job->chunk_h;
    down_part(job, id, job->y, job->rows + job->first[id], c0, chunk_end(c0, job->chunk_h, job->ex->h));
}

/* Pass 2 of the standard layout: columns of H of all experts, and their weighted sum in the order of k. */
static void sum_task(void *ctx, int task, int thread)
{
    (void)thread;
    const moe_job *job = ctx;
    const pawl_moe_args *a = job->sum;
    int64_t h = job->ex->h, c0 = task * job->chunk_h, c1 = chunk_end(c0, job->chunk_h, h);
    for (int64_t i = 0; i < job->n_chosen; i++) {
        int64_t id = job->chosen[i];
        down_part(job, id, job->e + job->first[id] * h, NULL, c0, c1);
    }
    for (int64_t t = job->t0; t < job->t1; t++) {
        float *restrict y = job->y + t * h;
        for (int64_t c = c0; c < c1; c++) y[c] = 0.0f;
        for (int64_t k = 0; k < a->top_k; k++) {
            int64_t j = job->pos[(t - job->t0) * a->top_k + k];
            if (j < 0) continue;
            const float *restrict e = job->e + j * h;
            float w = a->weights[t * a->top_k + k];
            for (int64_t c = c0; c < c1; c++) y[c] = fmaf(w, e[c], y[c]);
        }
    }
}

static int64_t chunks_of(int64_t n, int64_t chunk)
{
    return (n + chunk - 1) / chunk;
}

/* Runs one block; job->first holds the counts of expert e at [e + 1] summed up, job->rows the sorted rows. */
static void run_block(moe_job *job, pawl_exec *ex)
{
    const pawl_experts *experts = job->ex;
    job->n_chosen = 0;
    for (int64_t e = 0; e < experts->n; e++)
        if (job->first[e + 1] > job->first[e]) job->chosen[job->n_chosen++] = e;
    if (job->n_chosen > 0) {
        const pawl_expert *e = &experts->e[job->chosen[0]];
        int64_t mean = job->first[experts->n] / job->n_chosen;
        job->chunk_i = pawl__chunk_avx2(&e->gate, mean);
        job->chunk_h = pawl__chunk_avx2(&e->down, mean);
        job->chunks = chunks_of(experts->i, job->chunk_i);
        pawl__pool_run(ex->pool, (int)(job->n_chosen * job->chunks), up_task, job);
    } else {
        job->chunk_h = experts->h;
    }
    if (job->sum) {
        /* every expert's columns are one task here: cut finer where that leaves threads without work */
        int64_t share = (chunks_of(experts->h, 2 * pawl__exec_threads(ex)) + 15) / 16 * 16;
        if (job->chunk_h > share) job->chunk_h = share;
        pawl__pool_run(ex->pool, (int)chunks_of(experts->h, job->chunk_h), sum_task, job);
    } else if (job->n_chosen > 0) {
        job->chunks = chunks_of(experts->h, job->chunk_h);
        pawl__pool_run(ex->pool, (int)(job->n_chosen * job->chunks), down_task, job);
    }
}

/* The block that the scratch at hand has room for: the one that was asked for, or a smaller one. */
static pawl_status fit(const char *op, const pawl_experts *e, int64_t rows, int64_t unit, int summed,
                       const pawl_exec *ex, moe_layout *l, pawl_err *err)
{
    *l = lay_out_block(e->n, rows, unit, e->h, e->i, e->gated, summed);
    while (l->size > ex->scratch_size && l->rows > unit)
        *l = lay_out(e->n, (l->rows / unit + 1) / 2 * unit, e->h, e->i, e->gated, summed);
    if (ex->scratch && l->size <= ex->scratch_size) return PAWL_OK;
    return pawl__fail(err, PAWL_EINVAL, "%s: %zu bytes of scratch, expected at least %zu", op, ex->scratch_size,
                      l->size);
}

static moe_job start_job(const pawl_experts *experts, const moe_layout *l, const pawl_exec *ex)
{
    char *s = ex->scratch;
    return (moe_job){.ex = experts,
                     .first = (int64_t *)(void *)(s + l->first),
                     .chosen = (int64_t *)(void *)(s + l->chosen),
                     .rows = (int64_t *)(void *)(s + l->rows_at),
                     .pos = (int64_t *)(void *)(s + l->pos),
                     .g = (float *)(void *)(s + l->g),
                     .u = (float *)(void *)(s + l->u),
                     .e = (float *)(void *)(s + l->e)};
}

/* Sorts n rows by expert; ids outside [0, experts) have none. Row j of the block is row (j + j0) / per_row of x.
 * pos (may be NULL) receives each row's place or -1. */
static void sort_rows(moe_job *job, const int32_t *ids, int64_t j0, int64_t n, int64_t per_row, int64_t *pos)
{
    int64_t experts = job->ex->n, *first = job->first;
    memset(first, 0, (size_t)(experts + 1) * sizeof *first);
    for (int64_t j = 0; j < n; j++)
        if (ids[j0 + j] >= 0 && ids[j0 + j] < experts) first[ids[j0 + j]]++;
    int64_t sum = 0;
    for (int64_t e = 0; e <= experts; e++) {
        int64_t count = first[e];
        first[e] = sum;
        sum += count;
    }
    for (int64_t j = 0; j < n; j++) {
        int32_t id = ids[j0 + j];
        int in = id >= 0 && id < experts;
        if (in) job->rows[first[id]] = (j0 + j) / per_row;
        if (pos) pos[j] = in ? first[id] : -1;
        if (in) first[id]++;
    }
    /* each entry has moved to its expert's end, which is where the next one begins */
    memmove(first + 1, first, (size_t)experts * sizeof *first);
    first[0] = 0;
}

pawl_status pawl__moe_run_avx2(const void *args, pawl_exec *ex, pawl_err *err)
{
    const pawl_moe_args *a = args;
    const pawl_experts *e = a->experts;
    if (a->top_k < 1) return pawl__fail(err, PAWL_EINVAL, "moe: top_k is %lld", (long long)a->top_k);
    moe_layout l;
    PAWL_TRY(fit("moe", e, a->m * a->top_k, a->top_k, 1, ex, &l, err));
    moe_job job = start_job(e, &l, ex);
    job.x = a->x;
    job.y = a->y;
    job.sum = a;
    int64_t tokens = l.rows / a->top_k;
    for (job.t0 = 0; job.t0 < a->m; job.t0 = job.t1) {
        job.t1 = chunk_end(job.t0, tokens, a->m);
        sort_rows(&job, a->ids, job.t0 * a->top_k, (job.t1 - job.t0) * a->top_k, a->top_k, job.pos);
        run_block(&job, ex);
    }
    return PAWL_OK;
}

pawl_status pawl__moe_masked_run_avx2(const void *args, pawl_exec *ex, pawl_err *err)
{
    const pawl_moe_masked_args *a = args;
    const pawl_experts *e = a->experts;
    for (int64_t i = 0; i < e->n; i++)
        if (a->counts[i] < 0 || a->counts[i] > a->max)
            return pawl__fail(err, PAWL_EINVAL, "moe_masked: counts[%lld] is %d, expected 0 to %lld", (long long)i,
                              (int)a->counts[i], (long long)a->max);
    moe_layout l;
    PAWL_TRY(fit("moe_masked", e, e->n * a->max, 1, 0, ex, &l, err));
    moe_job job = start_job(e, &l, ex);
    job.x = a->x;
    job.y = a->y;
    int64_t next = 0, row = 0; /* the first expert with rows left, and its next row */
    while (next < e->n) {
        int64_t n = 0;
        for (int64_t i = 0; i < e->n; i++) {
            job.first[i] = n;
            if (i < next) continue;
            int64_t at = i == next ? row : 0;
            for (; at < a->counts[i] && n < l.rows; at++) job.rows[n++] = i * a->max + at;
            if (i == next) row = at;
            if (i == next && at == a->counts[i]) {
                next++;
                row = 0;
            }
        }
        job.first[e->n] = n;
        run_block(&job, ex);
    }
    if (!a->zero_padding) return PAWL_OK;
    for (int64_t i = 0; i < e->n; i++)
        memset(a->y + (i * a->max + a->counts[i]) * e->h, 0, (size_t)((a->max - a->counts[i]) * e->h) * sizeof(float));
    return PAWL_OK;
}

pawl_status pawl__moe_grouped_run_avx2(const void *args, pawl_exec *ex, pawl_err *err)
{
    const pawl_moe_grouped_args *a = args;
    const pawl_experts *e = a->experts;
    for (int64_t t = 0; t < a->m; t++)
        if (a->expert[t] < -1 || a->expert[t] >= e->n)
            return pawl__fail(err, PAWL_EINVAL, "moe_grouped: expert[%lld] is %d, expected -1 to %lld", (long long)t,
                              (int)a->expert[t], (long long)e->n - 1);
    moe_layout l;
    PAWL_TRY(fit("moe_grouped", e, a->m, 1, 0, ex, &l, err));
    moe_job job = start_job(e, &l, ex);
    job.x = a->x;
    job.y = a->y;
    for (int64_t t = 0; t < a->m; t += l.rows) {
        sort_rows(&job, a->expert, t, chunk_end(t, l.rows, a->m) - t, 1, NULL);
        run_block(&job, ex);
    }
    return PAWL_OK;
}
#endif
