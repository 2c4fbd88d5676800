/* The experts under the int8 policy on x86, standard layout. Rows are sorted by expert (counting sort, stable), so that each
 * chosen expert's weights are unpacked once for all of its rows. Three passes over the pool: tokens are quantised, once for
 * gate and up of all their experts; (expert, columns of I) gate, up, activation, and what comes out quantised, for which a
 * task owns whole groups of 32 columns; columns of H, where a task goes through all experts and adds them up in the order of
 * k, so that what they give never leaves the thread. Many rows are taken in blocks, so that scratch stays bounded. */
#include "kernels/x86/int8.h"
#include "kernels/x86/moe_body.h"

#if defined(__x86_64__)
#include <string.h>

enum {
    BLOCK_BYTES = 32 << 20, /* scratch for the rows of one block: enough that an expert gets many of them */
    ALIGN = 64,
    GROUP = PAWL_ACT8_GROUP,
    MOST_WIDTH = 128, /* columns in one task at most */
    TASKS = 4,        /* a thread's tasks in one matrix, so that all end together */
    TOKENS = 16       /* quantised in one task */
};

/* Where things lie in scratch, for so many (token, expert) pairs and tokens. */
typedef struct moe_layout {
    int64_t pairs, tokens, width;
    size_t first, chosen, rows, pos, x, mid, own, size;
} moe_layout;

static int64_t at_most(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t pieces(int64_t n, int64_t size)
{
    return (n + size - 1) / size;
}

static size_t take(size_t *at, size_t bytes)
{
    size_t here = *at;
    *at = (here + bytes + ALIGN - 1) / ALIGN * ALIGN;
    return here;
}

/* Columns of a task: whole groups, and so many tasks that `threads` threads share a matrix of n outputs. */
static int64_t task_width(int64_t n, int threads)
{
    return at_most(pieces(pieces(n, (int64_t)TASKS * threads), GROUP) * GROUP, MOST_WIDTH);
}

static moe_layout lay_out(int64_t experts, int64_t tokens, int64_t top_k, int64_t h, int64_t i, int threads)
{
    moe_layout l = {.pairs = tokens * top_k, .tokens = tokens};
    size_t at = 0, pairs = (size_t)l.pairs;
    int64_t up = 2 * task_width(i, threads), down = task_width(h, threads);
    l.width = up > down ? up : down;
    l.first = take(&at, (size_t)(experts + 1) * sizeof(int64_t));
    l.chosen = take(&at, (size_t)experts * sizeof(int64_t));
    l.rows = take(&at, pairs * sizeof(int64_t));
    l.pos = take(&at, pairs * sizeof(int64_t));
    l.x = take(&at, pawl__int8_rows_bytes(tokens, h));
    l.mid = take(&at, pawl__int8_rows_bytes(l.pairs, i));
    l.own = take(&at, (size_t)threads * pairs * (size_t)l.width * sizeof(float));
    l.size = at;
    return l;
}

/* The layout of a block of at most `tokens` tokens, of fewer where it would grow past BLOCK_BYTES. */
static moe_layout lay_out_block(int64_t experts, int64_t tokens, int64_t top_k, int64_t h, int64_t i, int threads)
{
    moe_layout l = lay_out(experts, tokens, top_k, h, i, threads);
    while (l.size > BLOCK_BYTES && l.tokens > 1) l = lay_out(experts, (l.tokens + 1) / 2, top_k, h, i, threads);
    return l;
}

size_t pawl__moe_int8_scratch(const pawl_query *q, int64_t m, int threads)
{
    return lay_out_block(q->x[0], m, q->x[1] > 0 ? q->x[1] : 1, q->k, q->n, threads).size;
}

/* One block on its way through the passes. */
typedef struct moe_job {
    const int8_isa *isa;
    const pawl_moe_args *a;
    int64_t t0, t1;  /* its tokens */
    int64_t *first;  /* [experts + 1]: expert e's rows are first[e] .. first[e+1]-1 of the sorted order */
    int64_t *chosen; /* [n_chosen]: the experts that have rows */
    int64_t *rows;   /* sorted order -> token of the block */
    int64_t *pos;    /* (t - t0) * top_k + k -> sorted order, -1 for none */
    int64_t n_chosen;
    int64_t chunk, chunks; /* columns of one task in this pass, and tasks in one matrix */
    int8_rows x, mid;      /* [tokens] of h, [pairs] of i */
    float *own;            /* [threads][own_size]: what gate and up give, then what down gives */
    int64_t own_size;
    int nvfp4;
} moe_job;

static void token_task(void *ctx, int task, int thread)
{
    (void)thread;
    const moe_job *job = ctx;
    int64_t h = job->a->experts->h, first = job->t0 + (int64_t)task * TOKENS;
    for (int64_t t = first; t < at_most(first + TOKENS, job->t1); t++)
        job->isa->quantize(job->nvfp4, job->a->x + t * h, h, 0, job->x.groups, &job->x, t - job->t0);
}

static void up_task(void *ctx, int task, int thread)
{
    const moe_job *job = ctx;
    const pawl_experts *s = job->a->experts;
    int64_t id = job->chosen[task / job->chunks], c0 = task % job->chunks * job->chunk;
    int64_t n = at_most(job->chunk, s->i - c0), j0 = job->first[id], m = job->first[id + 1] - j0;
    const pawl_expert *e = &s->e[id];
    float *g = job->own + thread * job->own_size, *u = s->gated ? g + m * n : NULL;
    int8_part p = {.isa = job->isa,
                   .w = &e->gate,
                   .bias = e->gate_bias,
                   .x = &job->x,
                   .xrows = job->rows + j0,
                   .y = g,
                   .ldy = n,
                   .y0 = c0,
                   .m = m};
    pawl__int8_part(&p, c0, c0 + n);
    if (u) {
        p.w = &e->up;
        p.bias = e->up_bias;
        p.y = u;
        pawl__int8_part(&p, c0, c0 + n);
    }
    for (int64_t j = 0; j < m; j++) {
        job->isa->activate(s->act, g + j * n, u ? u + j * n : NULL, n);
        job->isa->quantize(job->nvfp4, g + j * n, s->i, c0 / GROUP, pieces(c0 + n, GROUP), &job->mid, j0 + j);
    }
}

static void down_task(void *ctx, int task, int thread)
{
    const moe_job *job = ctx;
    const pawl_moe_args *a = job->a;
    int64_t h = a->experts->h, c0 = task * job->chunk, n = at_most(job->chunk, h - c0);
    float *e = job->own + thread * job->own_size;
    for (int64_t i = 0; i < job->n_chosen; i++) {
        int64_t id = job->chosen[i], j0 = job->first[id];
        int8_part p = {.isa = job->isa,
                       .w = &a->experts->e[id].down,
                       .bias = a->experts->e[id].down_bias,
                       .x = &job->mid,
                       .x0 = j0,
                       .y = e + j0 * n,
                       .ldy = n,
                       .y0 = c0,
                       .m = job->first[id + 1] - j0};
        pawl__int8_part(&p, c0, c0 + n);
    }
    for (int64_t t = job->t0; t < job->t1; t++) {
        float *y = a->y + t * h + c0;
        memset(y, 0, (size_t)n * sizeof *y);
        for (int64_t k = 0; k < a->top_k; k++) {
            int64_t j = job->pos[(t - job->t0) * a->top_k + k];
            if (j >= 0) job->isa->add(a->weights[t * a->top_k + k], e + j * n, y, n);
        }
    }
}

/* Sorts the block's pairs by expert; ids outside [0, experts) have no place. */
static void sort_pairs(moe_job *job)
{
    const pawl_moe_args *a = job->a;
    int64_t experts = a->experts->n, *first = job->first;
    pawl__moe_sort(a->ids + job->t0 * a->top_k, (job->t1 - job->t0) * a->top_k, 0, a->top_k, experts, first, job->rows,
                   job->pos);
    job->n_chosen = 0;
    for (int64_t e = 0; e < experts; e++)
        if (first[e + 1] > first[e]) job->chosen[job->n_chosen++] = e;
}

static pawl_status run(const int8_isa *isa, const pawl_moe_args *a, pawl_exec *ex, pawl_err *err)
{
    const pawl_experts *s = a->experts;
    int threads = pawl__exec_threads(ex);
    if (a->top_k < 1) return pawl__fail(err, PAWL_EINVAL, "moe: top_k is %lld", (long long)a->top_k);
    if (a->m <= 0) return PAWL_OK;
    moe_layout l = lay_out_block(s->n, a->m, a->top_k, s->h, s->i, threads);
    if (!ex->scratch || l.size > ex->scratch_size)
        return pawl__fail(err, PAWL_EINTERNAL, "moe under int8: %zu bytes of scratch, expected %zu", ex->scratch_size,
                          l.size);
    char *p = ex->scratch;
    moe_job job = {.isa = isa,
                   .a = a,
                   .first = (int64_t *)(void *)(p + l.first),
                   .chosen = (int64_t *)(void *)(p + l.chosen),
                   .rows = (int64_t *)(void *)(p + l.rows),
                   .pos = (int64_t *)(void *)(p + l.pos),
                   .x = pawl__int8_rows_at(p + l.x, s->h),
                   .mid = pawl__int8_rows_at(p + l.mid, s->i),
                   .own = (float *)(void *)(p + l.own),
                   .own_size = l.pairs * l.width,
                   .nvfp4 = s->e[0].gate.q == PAWL_Q_NVFP4};
    for (job.t0 = 0; job.t0 < a->m; job.t0 = job.t1) {
        job.t1 = at_most(job.t0 + l.tokens, a->m);
        sort_pairs(&job);
        pawl__pool_run(ex->pool, (int)pieces(job.t1 - job.t0, TOKENS), token_task, &job);
        job.chunk = task_width(s->i, threads);
        job.chunks = pieces(s->i, job.chunk);
        pawl__pool_run(ex->pool, (int)(job.n_chosen * job.chunks), up_task, &job);
        job.chunk = task_width(s->h, threads);
        pawl__pool_run(ex->pool, (int)pieces(s->h, job.chunk), down_task, &job);
    }
    return PAWL_OK;
}

pawl_status pawl__moe_int8_run_avx2(const void *args, pawl_exec *ex, pawl_err *err)
{
    return run(&pawl__int8_avx2, args, ex, err);
}

pawl_status pawl__moe_int8_run_avx512vnni(const void *args, pawl_exec *ex, pawl_err *err)
{
    return run(&pawl__int8_avx512vnni, args, ex, err);
}
#endif
