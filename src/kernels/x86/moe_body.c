/* The expert MLPs in the standard, masked and grouped layouts, made of the linear core of one instruction set.
 *
 * Rows are sorted by expert (counting sort, stable), so that each chosen expert's weights are read once for all of its rows.
 * Two passes over the pool, each cut into tasks inside the experts, so that all threads share even one expert: (expert,
 * columns of I) gate, up and activation; then down. In the standard layout the second pass cuts H only and a task goes
 * through all experts, so that what they give never leaves the thread: it owns its columns of y and adds the experts up in
 * the order of k. Many rows are taken in blocks, so that scratch stays bounded; a row's bits do not depend on its block. */
#include "kernels/x86/moe_body.h"

#include <string.h>

enum {
    BLOCK_BYTES = 32 << 20, /* scratch for the rows of one block: enough that an expert gets many of them */
    ALIGN = 64,
    LINE = 16,         /* floats in a cache line: no two threads write to the same one */
    MOST_WIDTH = 128,  /* columns in one task at most */
    TASKS = 4,         /* a thread's tasks in one matrix, so that all end together */
    TASK_BYTES = 49152 /* weights, times rows, in one task: enough to be worth handing out */
};

/* Where things lie in scratch, for `rows` rows (token and expert pairs in the standard layout). */
typedef struct moe_layout {
    int64_t rows, width;
    size_t first, chosen, rows_at, pos, g, own, size;
} moe_layout;

static int64_t at_most(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t whole_lines(int64_t n)
{
    return (n + LINE - 1) / LINE * LINE;
}

static int64_t pieces(int64_t n, int64_t size)
{
    return (n + size - 1) / size;
}

static size_t take(size_t *at, int64_t n, size_t size)
{
    size_t here = *at;
    *at = (here + (size_t)n * size + ALIGN - 1) / ALIGN * ALIGN;
    return here;
}

/* Columns of a task at most: `threads` threads share the wider of an expert's two sides. */
static int64_t task_width(int64_t h, int64_t i, int threads)
{
    return at_most(whole_lines(pieces(h > i ? h : i, (int64_t)TASKS * threads)), MOST_WIDTH);
}

static moe_layout lay_out(int64_t experts, int64_t rows, int64_t h, int64_t i, int threads)
{
    moe_layout l = {.rows = rows, .width = task_width(h, i, threads)};
    size_t at = 0;
    l.first = take(&at, experts + 1, sizeof(int64_t));
    l.chosen = take(&at, experts, sizeof(int64_t));
    l.rows_at = take(&at, rows, sizeof(int64_t));
    l.pos = take(&at, rows, sizeof(int64_t));
    l.g = take(&at, rows * i, sizeof(float));
    l.own = take(&at, threads * rows * l.width, sizeof(float));
    l.size = at;
    return l;
}

/* The layout of a block of at most `rows` rows, taken in groups of `unit` (a token's top-k rows stay together). */
static moe_layout lay_out_block(int64_t experts, int64_t rows, int64_t unit, int64_t h, int64_t i, int threads)
{
    int64_t row_bytes = (int64_t)sizeof(float) * (i + threads * task_width(h, i, threads));
    int64_t most = BLOCK_BYTES / row_bytes / unit * unit;
    if (most < unit) most = unit;
    return lay_out(experts, at_most(rows, most), h, i, threads);
}

size_t pawl__moe_scratch(const pawl_query *q, int64_t m, int threads)
{
    int64_t k = q->x[1] > 0 ? q->x[1] : 1;
    return lay_out_block(q->x[0], m * k, k, q->k, q->n, threads).size;
}

size_t pawl__moe_masked_scratch(const pawl_query *q, int64_t m, int threads)
{
    (void)m; /* the layout's size does not depend on the rows in use */
    return lay_out_block(q->x[0], q->x[0] * q->x[1], 1, q->k, q->n, threads).size;
}

size_t pawl__moe_grouped_scratch(const pawl_query *q, int64_t m, int threads)
{
    return lay_out_block(q->x[0], m, 1, q->k, q->n, threads).size;
}

/* One block on its way through the two passes. */
typedef struct moe_job {
    const moe_isa *isa;
    const pawl_experts *ex;
    const float *x;
    float *y;
    int64_t *first;  /* [experts + 1]: expert e's rows are first[e] .. first[e+1]-1 of the sorted order */
    int64_t *chosen; /* [n_chosen]: the experts that have rows */
    int64_t n_chosen;
    int64_t *rows; /* sorted order -> row of x; outside the standard layout also of y */
    float *g;      /* [rows][i] */
    float *own;    /* [threads][own_size]: what up gives, then in the standard layout what down gives, [rows][chunk] */
    int64_t own_size, width;
    int64_t chunk, chunks; /* columns of one task in this pass, and tasks in one matrix */
    /* standard layout */
    const pawl_moe_args *sum;
    int64_t t0, t1;
    int64_t *pos; /* (t - t0) * top_k + k -> sorted order, -1 for none */
} moe_job;

/* Pass 1: columns of I of one expert. */
static void up_task(void *ctx, int task, int thread)
{
    const moe_job *job = ctx;
    const pawl_experts *ex = job->ex;
    int64_t id = job->chosen[task / job->chunks], c0 = task % job->chunks * job->chunk;
    int64_t n = at_most(job->chunk, ex->i - c0), j0 = job->first[id], m = job->first[id + 1] - j0;
    const pawl_expert *e = &ex->e[id];
    float *g = job->g + j0 * ex->i, *u = job->own + thread * job->own_size;
    pawl_wmat w = pawl__wmat_rows(&e->gate, c0, n);
    linear_part p = {.w = &w,
                     .bias = e->gate_bias ? e->gate_bias + c0 : NULL,
                     .x = job->x,
                     .ldx = ex->h,
                     .xrows = job->rows + j0,
                     .y = g + c0,
                     .ldy = ex->i,
                     .m = m};
    job->isa->part(&p, 0, n);
    if (ex->gated) {
        w = pawl__wmat_rows(&e->up, c0, n);
        p.bias = e->up_bias ? e->up_bias + c0 : NULL;
        p.y = u;
        p.ldy = n;
        job->isa->part(&p, 0, n);
    }
    for (int64_t j = 0; j < m; j++) job->isa->act(ex->act, g + j * ex->i + c0, ex->gated ? u + j * n : NULL, n);
}

/* Columns c0 .. c0+n-1 of what expert id's down gives its rows: y [yrow][ldy] from column c0 on. */
static void down(const moe_job *job, int64_t id, int64_t c0, int64_t n, float *y, int64_t ldy, const int64_t *yrows)
{
    const pawl_experts *ex = job->ex;
    int64_t j0 = job->first[id];
    pawl_wmat w = pawl__wmat_rows(&ex->e[id].down, c0, n);
    linear_part p = {.w = &w,
                     .bias = ex->e[id].down_bias ? ex->e[id].down_bias + c0 : NULL,
                     .x = job->g + j0 * ex->i,
                     .ldx = ex->i,
                     .y = y,
                     .ldy = ldy,
                     .yrows = yrows,
                     .m = job->first[id + 1] - j0};
    job->isa->part(&p, 0, n);
}

/* Pass 2 of the masked and grouped layouts: columns of H of one expert, straight to y. */
static void down_task(void *ctx, int task, int thread)
{
    (void)thread;
    const moe_job *job = ctx;
    int64_t id = job->chosen[task / job->chunks], c0 = task % job->chunks * job->chunk, h = job->ex->h;
    down(job, id, c0, at_most(job->chunk, h - c0), job->y + c0, h, job->rows + job->first[id]);
}

/* Pass 2 of the standard layout: columns of H of all experts, and their weighted sum in the order of k. */
static void sum_task(void *ctx, int task, int thread)
{
    const moe_job *job = ctx;
    const pawl_moe_args *a = job->sum;
    int64_t h = job->ex->h, c0 = task * job->chunk, n = at_most(job->chunk, h - c0);
    float *e = job->own + thread * job->own_size;
    for (int64_t i = 0; i < job->n_chosen; i++) {
        int64_t id = job->chosen[i];
        down(job, id, c0, n, e + job->first[id] * n, n, NULL);
    }
    for (int64_t t = job->t0; t < job->t1; t++) {
        float *y = job->y + t * h + c0;
        memset(y, 0, (size_t)n * sizeof *y);
        for (int64_t k = 0; k < a->top_k; k++) {
            int64_t j = job->pos[(t - job->t0) * a->top_k + k];
            if (j >= 0) job->isa->add(a->weights[t * a->top_k + k], e + j * n, y, n);
        }
    }
}

/* Cuts the n outputs of a matrix that meets m rows: few large tasks where weights have to come from memory, small ones where
 * each takes long, and always enough for all threads. */
static void cut(moe_job *job, const pawl_wmat *w, int64_t n, int64_t m)
{
    int64_t row = pawl__quant_row_bytes(w->q, w->k) * m;
    job->chunk = at_most(whole_lines(pieces(TASK_BYTES, row > 0 ? row : 1)), job->width);
    job->chunks = pieces(n, job->chunk);
}

/* Runs one block; job->first holds the counts of expert e at [e + 1] summed up, job->rows the sorted rows. */
static void run_block(moe_job *job, pawl_exec *ex)
{
    const pawl_experts *experts = job->ex;
    job->n_chosen = 0;
    for (int64_t e = 0; e < experts->n; e++)
        if (job->first[e + 1] > job->first[e]) job->chosen[job->n_chosen++] = e;
    const pawl_expert *some = &experts->e[job->n_chosen > 0 ? job->chosen[0] : 0];
    int64_t mean = job->n_chosen > 0 ? job->first[experts->n] / job->n_chosen : 0;
    cut(job, &some->gate, experts->i, mean);
    pawl__pool_run(ex->pool, (int)(job->n_chosen * job->chunks), up_task, job);
    if (job->sum) {
        job->chunk = job->width;
        pawl__pool_run(ex->pool, (int)pieces(experts->h, job->chunk), sum_task, job);
    } else {
        cut(job, &some->down, experts->h, mean);
        pawl__pool_run(ex->pool, (int)(job->n_chosen * job->chunks), down_task, job);
    }
}

/* Sets the job up for blocks of `rows` rows, or of as many as the scratch at hand has room for; *most: how many. */
static pawl_status start(const char *op, const moe_isa *isa, const pawl_experts *e, int64_t rows, int64_t unit,
                         const pawl_exec *ex, moe_job *job, int64_t *most, pawl_err *err)
{
    int threads = pawl__exec_threads(ex);
    moe_layout l = lay_out_block(e->n, rows, unit, e->h, e->i, threads);
    while (l.size > ex->scratch_size && l.rows > unit)
        l = lay_out(e->n, (l.rows / unit + 1) / 2 * unit, e->h, e->i, threads);
    if (!ex->scratch || l.size > ex->scratch_size)
        return pawl__fail(err, PAWL_EINVAL, "%s: %zu bytes of scratch, expected at least %zu", op, ex->scratch_size,
                          l.size);
    char *s = ex->scratch;
    *job = (moe_job){.isa = isa,
                     .ex = e,
                     .first = (int64_t *)(void *)(s + l.first),
                     .chosen = (int64_t *)(void *)(s + l.chosen),
                     .rows = (int64_t *)(void *)(s + l.rows_at),
                     .pos = (int64_t *)(void *)(s + l.pos),
                     .g = (float *)(void *)(s + l.g),
                     .own = (float *)(void *)(s + l.own),
                     .own_size = l.rows * l.width,
                     .width = l.width};
    *most = l.rows;
    return PAWL_OK;
}

void pawl__moe_sort(const int32_t *ids, int64_t n, int64_t j0, int64_t per_row, int64_t experts, int64_t *first,
                    int64_t *rows, int64_t *pos)
{
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
        if (in) rows[first[id]] = (j0 + j) / per_row;
        pos[j] = in ? first[id] : -1;
        if (in) first[id]++;
    }
    /* each entry has moved to its expert's end, which is where the next one begins */
    memmove(first + 1, first, (size_t)experts * sizeof *first);
    first[0] = 0;
}

pawl_status pawl__moe_body(const moe_isa *isa, const void *args, pawl_exec *ex, pawl_err *err)
{
    const pawl_moe_args *a = args;
    if (a->top_k < 1) return pawl__fail(err, PAWL_EINVAL, "moe: top_k is %lld", (long long)a->top_k);
    moe_job job;
    int64_t most;
    PAWL_TRY(start("moe", isa, a->experts, a->m * a->top_k, a->top_k, ex, &job, &most, err));
    job.x = a->x;
    job.y = a->y;
    job.sum = a;
    for (job.t0 = 0; job.t0 < a->m; job.t0 = job.t1) {
        job.t1 = at_most(job.t0 + most / a->top_k, a->m);
        pawl__moe_sort(a->ids, (job.t1 - job.t0) * a->top_k, job.t0 * a->top_k, a->top_k, job.ex->n, job.first,
                       job.rows, job.pos);
        run_block(&job, ex);
    }
    return PAWL_OK;
}

pawl_status pawl__moe_masked_body(const moe_isa *isa, const void *args, pawl_exec *ex, pawl_err *err)
{
    const pawl_moe_masked_args *a = args;
    const pawl_experts *e = a->experts;
    for (int64_t i = 0; i < e->n; i++)
        if (a->counts[i] < 0 || a->counts[i] > a->max)
            return pawl__fail(err, PAWL_EINVAL, "moe_masked: counts[%lld] is %d, expected 0 to %lld", (long long)i,
                              (int)a->counts[i], (long long)a->max);
    moe_job job;
    int64_t most;
    PAWL_TRY(start("moe_masked", isa, e, e->n * a->max, 1, ex, &job, &most, err));
    job.x = a->x;
    job.y = a->y;
    int64_t next = 0, row = 0; /* the first expert with rows left, and its next row */
    while (next < e->n) {
        int64_t n = 0;
        for (int64_t i = 0; i < e->n; i++) {
            job.first[i] = n;
            if (i < next) continue;
            int64_t at = i == next ? row : 0;
            for (; at < a->counts[i] && n < most; at++) job.rows[n++] = i * a->max + at;
            if (i == next) row = at;
            if (i == next && at == a->counts[i]) {
                next++;
                row = 0;
            }
        }
        job.first[e->n] = n;
        if (n > 0) run_block(&job, ex);
    }
    if (!a->zero_padding) return PAWL_OK;
    for (int64_t i = 0; i < e->n; i++)
        memset(a->y + (i * a->max + a->counts[i]) * e->h, 0, (size_t)((a->max - a->counts[i]) * e->h) * sizeof(float));
    return PAWL_OK;
}

pawl_status pawl__moe_grouped_body(const moe_isa *isa, const void *args, pawl_exec *ex, pawl_err *err)
{
    const pawl_moe_grouped_args *a = args;
    const pawl_experts *e = a->experts;
    for (int64_t t = 0; t < a->m; t++)
        if (a->expert[t] < -1 || a->expert[t] >= e->n)
            return pawl__fail(err, PAWL_EINVAL, "moe_grouped: expert[%lld] is %d, expected -1 to %lld", (long long)t,
                              (int)a->expert[t], (long long)e->n - 1);
    moe_job job;
    int64_t most;
    PAWL_TRY(start("moe_grouped", isa, e, a->m, 1, ex, &job, &most, err));
    job.x = a->x;
    job.y = a->y;
    for (int64_t t = 0; t < a->m; t += most) {
        pawl__moe_sort(a->expert, at_most(most, a->m - t), t, 1, job.ex->n, job.first, job.rows, job.pos);
        run_block(&job, ex);
    }
    return PAWL_OK;
}
