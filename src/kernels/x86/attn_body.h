/* attn as small matrix products, in the order of additions of op/attn.h: the text of attn_avx2.c and attn_avx512.c.
 *
 * The query heads that share a KV head, of up to 64 queries of consecutive rows, are a chunk: each key and value is read
 * once for all of them. Where chunks are many (prefill) a task takes one through its whole context. Where they are few
 * (decoding) tasks are single blocks of 256 positions, whose results wait in scratch for the merge in rising order. */
#ifndef PAWL_KERNELS_X86_ATTN_BODY_H
#define PAWL_KERNELS_X86_ATTN_BODY_H

#ifdef __AVX2__

#include <math.h>
#include <string.h>

#include "base/mathfn.h"
#include "kernels/x86/attn.h"
#include "kernels/x86/vec16.h"
#include "op/attn.h"

#ifdef __AVX512F__
enum { TILE_Q = 8, TILE_V = 2 }; /* queries and vec16 of a register tile */
#else
enum { TILE_Q = 4, TILE_V = 1 };
#endif

enum { BLOCK = PAWL_ATTN_BLOCK, PAGE = PAWL_KV_PAGE, PAGES = BLOCK / PAGE };
/* Multiply-adds below which it all stays on the caller's thread: handing it out costs more than it saves. */
enum { SMALL = 1 << 17 };

/* Rows of one segment and query heads of one KV head. Query i is row row0 + i / heads, head head0 + i % heads. */
typedef struct chunk {
    const pawl_seg *seg;
    int64_t row0, kv_head, head0;
    int heads, n;
    int64_t positions; /* that the first row sees; each next one sees one more */
} chunk;

/* Scratch of one thread. */
typedef struct space {
    float *q;           /* the queries, tile by tile: [d][queries of the tile] */
    float *s;           /* [PAWL_ATTN_QUERIES][BLOCK] scores */
    float *o, *all;     /* [PAWL_ATTN_QUERIES][d] of one block; of all blocks so far */
    float *max, *sum;   /* [PAWL_ATTN_QUERIES] of one block */
    float *amax, *asum; /* ... of all blocks so far */
} space;

typedef struct job {
    const pawl_attn_args *a;
    int heads, rows;         /* of a full chunk */
    int64_t chunks, per_row; /* per_row: chunks that share rows: KV heads times parts of a group */
    int64_t longest;         /* positions that any row sees */
    char *scratch;
    int threads;
    /* Only where blocks are tasks: blocks first .. first+count-1 of every chunk. Query i of chunk c is c * heads * rows + i;
     * results of block b are at [b - first][query]. */
    int64_t first, count;
    float *part_o, *part_max, *part_sum, *all_o, *all_max, *all_sum;
} job;

INLINE int64_t seen(const chunk *c, int query)
{
    return c->positions + query / c->heads;
}

/* Positions of the block at `from` that a query sees. */
INLINE int in_block(const chunk *c, int query, int64_t from)
{
    int64_t n = seen(c, query) - from;
    return n < 0 ? 0 : n < BLOCK ? (int)n : BLOCK;
}

/* Queries of the tile at `query`: as many as its widest instance, or the next power of two that fits. */
INLINE int tile_at(const chunk *c, int query)
{
    int left = c->n - query, n = TILE_Q;
    while (n > left) n /= 2;
    return n;
}

INLINE int64_t page_at(const pawl_attn_args *a, const chunk *c, int64_t pos)
{
    return (a->pages[c->seg->page0 + pos / PAGE] * a->kv_heads + c->kv_head) * PAGE * a->d;
}

static void pack_queries(const pawl_attn_args *a, const chunk *c, float *out)
{
    for (int at = 0; at < c->n;) {
        int n = tile_at(c, at);
        for (int r = 0; r < n; r++) {
            const float *q =
                a->q + (c->row0 + (at + r) / c->heads) * a->q_row + (c->head0 + (at + r) % c->heads) * a->q_head;
            for (int64_t i = 0; i < a->d; i++) out[at * a->d + i * n + r] = q[i];
        }
        at += n;
    }
}

/* ---- scores ---- */

/* nq queries by nv pages; constants where it is inlined, so that the sums are registers. */
INLINE void score_tile(const int nq, const int nv, const float *q, const float *const k[TILE_V], int64_t d, float scale,
                       float *s)
{
    vec16 sum[TILE_Q][TILE_V];
#pragma GCC unroll 8
    for (int r = 0; r < nq; r++)
#pragma GCC unroll 2
        for (int v = 0; v < nv; v++) sum[r][v] = vec16_zero();
    for (int64_t i = 0; i < d; i++) {
        vec16 key[TILE_V];
#pragma GCC unroll 2
        for (int v = 0; v < nv; v++) key[v] = vec16_load(k[v] + i * PAGE);
#pragma GCC unroll 8
        for (int r = 0; r < nq; r++) {
            vec16 x = vec16_all(q[i * nq + r]);
#pragma GCC unroll 2
            for (int v = 0; v < nv; v++) sum[r][v] = vec16_fma(x, key[v], sum[r][v]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < nq; r++)
#pragma GCC unroll 2
        for (int v = 0; v < nv; v++) vec16_store(s + r * BLOCK + v * PAGE, vec16_mul(sum[r][v], vec16_all(scale)));
}

INLINE void score_pages(const int nv, int nq, const float *q, const float *const k[TILE_V], int64_t d, float scale,
                        float *s)
{
    switch (nq) {
    case 8:
        score_tile(8 < TILE_Q ? 8 : TILE_Q, nv, q, k, d, scale, s);
        break;
    case 4:
        score_tile(4, nv, q, k, d, scale, s);
        break;
    case 2:
        score_tile(2, nv, q, k, d, scale, s);
        break;
    default:
        score_tile(1, nv, q, k, d, scale, s);
    }
}

/* Scores of whole pages; what a query must not see is computed too, each in its own lane, and is overwritten later. */
static void score_block(const pawl_attn_args *a, const chunk *c, int64_t from, const float *q, float *s)
{
    int most = in_block(c, c->n - 1, from), pages = (most + PAGE - 1) / PAGE;
    for (int p = 0; p < pages; p += TILE_V) {
        const float *k[TILE_V] = {0};
        int nv = pages - p < TILE_V ? pages - p : TILE_V;
        for (int v = 0; v < nv; v++) k[v] = a->cache_k + page_at(a, c, from + (p + v) * PAGE);
        for (int at = 0, nq; at < c->n; at += nq) {
            nq = tile_at(c, at);
            if (in_block(c, at + nq - 1, from) <= p * PAGE) continue;
            float *to = s + at * BLOCK + p * PAGE;
            if (nv == TILE_V)
                score_pages(TILE_V, nq, q + at * a->d, k, a->d, a->scale, to);
            else
                score_pages(1, nq, q + at * a->d, k, a->d, a->scale, to);
        }
    }
}

/* Scores of n positions become e^(s - max); up to the next multiple of 16 they become 0, which changes no sum. */
static void exponents(float *s, int n, float *max, float *sum)
{
    int whole = (n + 15) / 16 * 16;
    for (int j = n; j < whole; j++) s[j] = -INFINITY;
    vec16 m = vec16_all(-INFINITY);
    for (int j = 0; j < whole; j += 16) m = vec16_max(vec16_load(s + j), m);
    float top = vec16_largest(m);
    for (int j = 0; j < whole; j++) s[j] = pawl__expf(s[j] - top);
    vec16 total = vec16_zero();
    for (int j = 0; j < whole; j += 16) total = vec16_add(total, vec16_load(s + j));
    *max = top;
    *sum = vec16_total(total);
}

/* ---- values ---- */

/* o[nq][16 nv of d] += n positions' e times v. */
INLINE void value_tile(const int nq, const int nv, const float *e, const float *v, int64_t d, int n, float *o)
{
    vec16 sum[TILE_Q][TILE_V];
#pragma GCC unroll 8
    for (int r = 0; r < nq; r++)
#pragma GCC unroll 2
        for (int c = 0; c < nv; c++) sum[r][c] = vec16_load(o + r * d + 16 * c);
    for (int j = 0; j < n; j++) {
        vec16 x[TILE_V];
#pragma GCC unroll 2
        for (int c = 0; c < nv; c++) x[c] = vec16_load(v + j * d + 16 * c);
#pragma GCC unroll 8
        for (int r = 0; r < nq; r++) {
            vec16 w = vec16_all(e[r * BLOCK + j]);
#pragma GCC unroll 2
            for (int c = 0; c < nv; c++) sum[r][c] = vec16_fma(w, x[c], sum[r][c]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < nq; r++)
#pragma GCC unroll 2
        for (int c = 0; c < nv; c++) vec16_store(o + r * d + 16 * c, sum[r][c]);
}

INLINE void value_columns(const int nq, const float *e, const float *v, int64_t d, int n, float *o)
{
    int64_t c = 0;
    for (; c + 16 * TILE_V <= d; c += 16 * TILE_V) value_tile(nq, TILE_V, e, v + c, d, n, o + c);
    for (; c < d; c += 16) value_tile(nq, 1, e, v + c, d, n, o + c);
}

static void add_values(int nq, const float *e, const float *v, int64_t d, int n, float *o)
{
    switch (nq) {
    case 8:
        value_columns(8 < TILE_Q ? 8 : TILE_Q, e, v, d, n, o);
        break;
    case 4:
        value_columns(4, e, v, d, n, o);
        break;
    case 2:
        value_columns(2, e, v, d, n, o);
        break;
    default:
        value_columns(1, e, v, d, n, o);
    }
}

INLINE int clamp(int x, int lo, int hi)
{
    return x < lo ? lo : x < hi ? x : hi;
}

/* Page by page, so that a page's values stay in the first-level cache for all queries. Where the rows of a tile end at
 * different positions, those that not all see are added query by query: a value that a query must not see may be anything. */
static void value_block(const pawl_attn_args *a, const chunk *c, int64_t from, const float *e, float *o)
{
    int most = in_block(c, c->n - 1, from);
    int64_t d = a->d;
    for (int p = 0; p < most; p += PAGE) {
        const float *v = a->cache_v + page_at(a, c, from + p);
        for (int at = 0, nq; at < c->n; at += nq) {
            nq = tile_at(c, at);
            int all = clamp(in_block(c, at, from) - p, 0, PAGE);
            if (all > 0) add_values(nq, e + at * BLOCK + p, v, d, all, o + at * d);
            for (int r = 1; r < nq; r++) {
                int own = clamp(in_block(c, at + r, from) - p, 0, PAGE);
                if (own > all)
                    add_values(1, e + (at + r) * BLOCK + p + all, v + all * d, d, own - all, o + (at + r) * d);
            }
        }
    }
}

/* ---- blocks and their merge ---- */

/* The block at `from` for all queries of a chunk whose packed queries are in w->q: o[n][d], max[n], sum[n]. A query that
 * sees nothing of it gets nothing. */
static void attend_block(const pawl_attn_args *a, const chunk *c, int64_t from, const space *w, float *o, float *max,
                         float *sum)
{
    score_block(a, c, from, w->q, w->s);
    for (int i = 0; i < c->n; i++) {
        int n = in_block(c, i, from);
        if (n > 0) exponents(w->s + i * BLOCK, n, &max[i], &sum[i]);
    }
    memset(o, 0, (size_t)(c->n * a->d) * sizeof *o);
    value_block(a, c, from, w->s, o);
}

static void merge(float *restrict o, float *max, float *sum, const float *restrict block, float block_max,
                  float block_sum, int64_t d)
{
    float top = *max > block_max ? *max : block_max;
    float old = pawl__expf(*max - top), new = pawl__expf(block_max - top);
    *sum = fmaf(*sum, old, block_sum * new);
    for (int64_t i = 0; i < d; i += 16) {
        vec16 x = vec16_mul(vec16_load(block + i), vec16_all(new));
        vec16_store(o + i, vec16_fma(vec16_load(o + i), vec16_all(old), x));
    }
    *max = top;
}

static void finish(const pawl_attn_args *a, const chunk *c, int i, const float *restrict o, float sum)
{
    int64_t row = c->row0 + i / c->heads, head = c->head0 + i % c->heads;
    float *restrict out = a->out + (row * a->heads + head) * a->d;
    const float *gate = a->gate ? a->gate + row * a->gate_row + head * a->gate_head : NULL;
    if (gate)
        for (int64_t j = 0; j < a->d; j++) out[j] = o[j] / sum * pawl__sigmoidf(gate[j]);
    else
        for (int64_t j = 0; j < a->d; j++) out[j] = o[j] / sum;
}

/* ---- tasks ---- */

static int64_t chunks_of(const job *j, const pawl_seg *seg)
{
    return seg->slot < 0 ? 0 : (seg->rows + j->rows - 1) / j->rows * j->per_row;
}

static chunk chunk_at(const job *j, int64_t index)
{
    const pawl_attn_args *a = j->a;
    const pawl_seg *seg = a->segs;
    for (; index >= chunks_of(j, seg); seg++) index -= chunks_of(j, seg);
    int64_t group = a->heads / a->kv_heads, parts = j->per_row / a->kv_heads;
    int64_t row = index / j->per_row * j->rows, part = index % j->per_row % parts;
    int rows = seg->rows - row < j->rows ? (int)(seg->rows - row) : j->rows;
    chunk c = {
        .seg = seg, .row0 = seg->row0 + row, .kv_head = index % j->per_row / parts, .positions = seg->pos0 + row + 1};
    c.heads = group - part * j->heads < j->heads ? (int)(group - part * j->heads) : j->heads;
    c.head0 = c.kv_head * group + part * j->heads;
    c.n = c.heads * rows;
    return c;
}

static space space_of(const job *j, int thread)
{
    int64_t n = PAWL_ATTN_QUERIES, d = j->a->d;
    float *p = (float *)(void *)(j->scratch + (size_t)thread * pawl__attn_thread_bytes(d));
    space w = {.q = p, .s = p + n * d};
    w.o = w.s + n * BLOCK;
    w.all = w.o + n * d;
    w.max = w.all + n * d;
    w.sum = w.max + n;
    w.amax = w.sum + n;
    w.asum = w.amax + n;
    return w;
}

/* One chunk through its whole context. The longest come first, so that the last task to end is a short one. */
static void whole_chunk(void *ctx, int task, int thread)
{
    const job *j = ctx;
    const pawl_attn_args *a = j->a;
    chunk c = chunk_at(j, j->chunks - 1 - task);
    space w = space_of(j, thread);
    pack_queries(a, &c, w.q);
    memset(w.all, 0, (size_t)(c.n * a->d) * sizeof(float));
    for (int i = 0; i < c.n; i++) {
        w.amax[i] = -INFINITY;
        w.asum[i] = 0;
    }
    for (int64_t from = 0; from < seen(&c, c.n - 1); from += BLOCK) {
        attend_block(a, &c, from, &w, w.o, w.max, w.sum);
        for (int i = 0; i < c.n; i++)
            if (seen(&c, i) > from)
                merge(w.all + i * a->d, &w.amax[i], &w.asum[i], w.o + i * a->d, w.max[i], w.sum[i], a->d);
    }
    for (int i = 0; i < c.n; i++) finish(a, &c, i, w.all + i * a->d, w.asum[i]);
}

/* One block of one chunk; neighbouring tasks are different chunks of the same positions. */
static void one_block(void *ctx, int task, int thread)
{
    const job *j = ctx;
    int64_t index = task % j->chunks, block = task / j->chunks, from = (j->first + block) * BLOCK;
    chunk c = chunk_at(j, index);
    if (seen(&c, c.n - 1) <= from) return;
    space w = space_of(j, thread);
    pack_queries(j->a, &c, w.q);
    int64_t slot = (block * j->chunks + index) * j->heads * j->rows;
    attend_block(j->a, &c, from, &w, j->part_o + slot * j->a->d, j->part_max + slot, j->part_sum + slot);
}

/* Merges the blocks at hand into one chunk's results, and writes them out behind the last block. */
static void merge_chunk(void *ctx, int task, int thread)
{
    (void)thread;
    const job *j = ctx;
    int64_t d = j->a->d, queries = j->chunks * j->heads * j->rows, at = (int64_t)task * j->heads * j->rows;
    chunk c = chunk_at(j, task);
    for (int i = 0; i < c.n; i++) {
        float *o = j->all_o + (at + i) * d;
        if (j->first == 0) {
            memset(o, 0, (size_t)d * sizeof *o);
            j->all_max[at + i] = -INFINITY;
            j->all_sum[at + i] = 0;
        }
        for (int64_t b = 0; b < j->count && seen(&c, i) > (j->first + b) * BLOCK; b++) {
            int64_t slot = b * queries + at + i;
            merge(o, &j->all_max[at + i], &j->all_sum[at + i], j->part_o + slot * d, j->part_max[slot],
                  j->part_sum[slot], d);
        }
        if ((j->first + j->count) * BLOCK >= j->longest) finish(j->a, &c, i, o, j->all_sum[at + i]);
    }
}

/* In rounds of as many blocks as scratch has room for. */
static void by_blocks(job *j, pawl_exec *ex)
{
    int64_t queries = j->chunks * j->heads * j->rows, slots = (int64_t)PAWL_ATTN_SLOTS * j->threads;
    j->part_o = (float *)(void *)(j->scratch + (size_t)j->threads * pawl__attn_thread_bytes(j->a->d));
    j->part_max = j->part_o + slots * j->a->d;
    j->part_sum = j->part_max + slots;
    j->all_o = j->part_sum + slots;
    j->all_max = j->all_o + slots * j->a->d;
    j->all_sum = j->all_max + slots;
    int64_t blocks = (j->longest + BLOCK - 1) / BLOCK, round = slots / queries;
    for (j->first = 0; j->first < blocks; j->first += round) {
        j->count = blocks - j->first < round ? blocks - j->first : round;
        pawl__pool_run(ex->pool, (int)(j->chunks * j->count), one_block, j);
        pawl__pool_run(ex->pool, (int)j->chunks, merge_chunk, j);
    }
}

/* How rows are cut into chunks. Nothing here changes a bit of any row. */
static job plan_job(const pawl_attn_args *a, const pawl_exec *ex, int64_t *work, int64_t *most)
{
    int64_t group = a->heads / a->kv_heads, rows = 1;
    job j = {.a = a, .scratch = ex->scratch, .threads = pawl__exec_threads(ex)};
    for (int32_t s = 0; s < a->n_segs; s++)
        if (a->segs[s].rows > rows) rows = a->segs[s].rows;
    j.heads = group < PAWL_ATTN_QUERIES ? (int)group : PAWL_ATTN_QUERIES;
    j.rows = PAWL_ATTN_QUERIES / j.heads;
    if (j.rows > rows) j.rows = (int)rows;
    j.per_row = a->kv_heads * ((group + j.heads - 1) / j.heads);
    *work = *most = 0;
    for (int32_t s = 0; s < a->n_segs; s++) {
        const pawl_seg *seg = &a->segs[s];
        if (seg->slot < 0 || seg->rows == 0) continue;
        int64_t end = seg->pos0 + seg->rows, each = 2 * a->heads * a->d;
        int64_t full = seg->rows < j.rows ? seg->rows : j.rows;
        j.chunks += chunks_of(&j, seg);
        j.longest = end > j.longest ? end : j.longest;
        *work += each * seg->rows * (seg->pos0 + (seg->rows + 1) / 2);
        if (each * full * end / a->kv_heads > *most) *most = each * full * end / a->kv_heads;
    }
    return j;
}

static void attend(const pawl_attn_args *a, pawl_exec *ex)
{
    for (int32_t s = 0; s < a->n_segs; s++)
        if (a->segs[s].slot < 0)
            memset(a->out + a->segs[s].row0 * a->heads * a->d, 0,
                   (size_t)(a->segs[s].rows * a->heads * a->d) * sizeof(float));
    int64_t work, most;
    job j = plan_job(a, ex, &work, &most);
    int uneven = j.chunks < 4 * j.threads || 2 * j.threads * most > work;
    if (work < SMALL || j.threads == 1)
        for (int i = 0; i < j.chunks; i++) whole_chunk(&j, i, 0);
    else if (uneven && j.longest > BLOCK && j.chunks * j.heads * j.rows <= (int64_t)PAWL_ATTN_SLOTS * j.threads)
        by_blocks(&j, ex);
    else
        pawl__pool_run(ex->pool, (int)j.chunks, whole_chunk, &j);
}

#endif
#endif
