/* kv_store and attn over the paged cache. One (row, head) at a time: scores of a block of positions, then its weighted sum
 * of values, then the merge into what came before. */
#include "op/attn.h"

#include <string.h>

#include "base/mathfn.h"
#include "kernels/ref/isa.h"
#include "kernels/ref/lanes.h"
#include "kernels/ref/split.h"
#include "kernels/ref/supports.h"

/* Where the page of (position, head) begins in a cache. */
static int64_t page_at(const int32_t *pages, const pawl_seg *seg, int64_t pos, int64_t kv_heads, int64_t head,
                       int64_t d)
{
    return (pages[seg->page0 + pos / PAWL_KV_PAGE] * kv_heads + head) * PAWL_KV_PAGE * d;
}

static void store_segments(const void *args, int64_t first, int64_t last, int thread)
{
    (void)thread;
    const pawl_kv_store_args *a = args;
    for (int64_t s = first; s < last; s++) {
        const pawl_seg *seg = &a->segs[s];
        if (seg->slot < 0) continue;
        for (int32_t i = 0; i < seg->rows; i++)
            for (int64_t h = 0; h < a->kv_heads; h++) {
                int64_t to = page_at(a->pages, seg, seg->pos0 + i, a->kv_heads, h, a->d);
                int64_t slot = (seg->pos0 + i) % PAWL_KV_PAGE;
                const float *k = a->k + (seg->row0 + i) * a->k_row + h * a->d;
                for (int64_t j = 0; j < a->d; j++) a->cache_k[to + j * PAWL_KV_PAGE + slot] = k[j];
                memcpy(a->cache_v + to + slot * a->d, a->v + (seg->row0 + i) * a->v_row + h * a->d,
                       (size_t)a->d * sizeof(float));
            }
    }
}

/* Running result of a softmax-weighted sum, as if over one block. */
typedef struct merged {
    float max, sum;
    float o[PAWL_REF_HEAD_MAX];
} merged;

static void merge(merged *restrict to, const merged *restrict block, int64_t d)
{
    float max = to->max > block->max ? to->max : block->max;
    float old = pawl__expf(to->max - max), new = pawl__expf(block->max - max);
    to->sum = fmaf(to->sum, old, block->sum * new);
    for (int64_t i = 0; i < d; i++) to->o[i] = fmaf(to->o[i], old, block->o[i] * new);
    to->max = max;
}

/* o += e * v */
static void add_value(float *restrict o, float e, const float *restrict v, int64_t d)
{
    for (int64_t i = 0; i < d; i++) o[i] = fmaf(e, v[i], o[i]);
}

/* Scores of the positions of a page before their scale: 16 sums side by side. */
static void score_page(const float *restrict q, const float *restrict k, int64_t d, float s[PAWL_KV_PAGE])
{
    float sum[PAWL_KV_PAGE] = {0};
    for (int64_t i = 0; i < d; i++) {
#pragma GCC unroll 1
        for (int j = 0; j < PAWL_KV_PAGE; j++) sum[j] = fmaf(q[i], k[i * PAWL_KV_PAGE + j], sum[j]);
    }
    memcpy(s, sum, sizeof sum);
}

/* Positions from .. from+n-1 of one block. */
static void attend_block(const pawl_attn_args *a, const pawl_seg *seg, int64_t kv_head, const float *q, int64_t from,
                         int n, merged *out)
{
    float s[PAWL_ATTN_BLOCK];
    for (int j = 0; j < n; j += PAWL_KV_PAGE)
        score_page(q, a->cache_k + page_at(a->pages, seg, from + j, a->kv_heads, kv_head, a->d), a->d, s + j);
    out->max = -INFINITY;
    for (int j = 0; j < n; j++) {
        s[j] *= a->scale;
        out->max = s[j] > out->max ? s[j] : out->max;
    }
    for (int j = 0; j < n; j++) s[j] = pawl__expf(s[j] - out->max);
    out->sum = pawl__lanes_total(s, n);
    memset(out->o, 0, (size_t)a->d * sizeof(float));
    for (int j = 0; j < n; j++)
        add_value(out->o, s[j],
                  a->cache_v + page_at(a->pages, seg, from + j, a->kv_heads, kv_head, a->d) + j % PAWL_KV_PAGE * a->d,
                  a->d);
}

static void attend(const pawl_attn_args *a, const pawl_seg *seg, int64_t row, int64_t head)
{
    float *out = a->out + (row * a->heads + head) * a->d;
    if (seg->slot < 0) {
        memset(out, 0, (size_t)a->d * sizeof(float));
        return;
    }
    const float *q = a->q + row * a->q_row + head * a->q_head;
    int64_t kv_head = head / (a->heads / a->kv_heads), positions = seg->pos0 + (row - seg->row0) + 1;
    merged all = {.max = -INFINITY}, block;
    for (int64_t from = 0; from < positions; from += PAWL_ATTN_BLOCK) {
        int64_t left = positions - from;
        attend_block(a, seg, kv_head, q, from, left < PAWL_ATTN_BLOCK ? (int)left : PAWL_ATTN_BLOCK, &block);
        merge(&all, &block, a->d);
    }
    const float *gate = a->gate ? a->gate + row * a->gate_row + head * a->gate_head : NULL;
    if (gate)
        for (int64_t i = 0; i < a->d; i++) out[i] = all.o[i] / all.sum * pawl__sigmoidf(gate[i]);
    else
        for (int64_t i = 0; i < a->d; i++) out[i] = all.o[i] / all.sum;
}

/* Items are (row, head) of the batch. */
static void attend_items(const void *args, int64_t first, int64_t last, int thread)
{
    (void)thread;
    const pawl_attn_args *a = args;
    int32_t s = 0;
    for (int64_t item = first; item < last; item++) {
        int64_t row = item / a->heads;
        while (s < a->n_segs && row >= a->segs[s].row0 + a->segs[s].rows) s++;
        if (s < a->n_segs && row >= a->segs[s].row0) attend(a, &a->segs[s], row, item % a->heads);
    }
}

static pawl_status run_store(const void *args, pawl_exec *ex, pawl_err *err)
{
    (void)err;
    const pawl_kv_store_args *a = args;
    pawl__split(ex, a->n_segs, a->m * a->kv_heads * a->d, store_segments, args);
    return PAWL_OK;
}

static pawl_status run_attn(const void *args, pawl_exec *ex, pawl_err *err)
{
    (void)err;
    const pawl_attn_args *a = args;
    int64_t positions = 0; /* seen by all rows together */
    for (int32_t i = 0; i < a->n_segs; i++) positions += (int64_t)a->segs[i].rows * (a->segs[i].pos0 + a->segs[i].rows);
    pawl__split(ex, a->m * a->heads, 2 * positions * a->heads * a->d, attend_items, a);
    return PAWL_OK;
}

enum { TRAITS = PAWL_TRAIT_VERIFY | PAWL_TRAIT_ROW_INVARIANT | PAWL_TRAIT_RETRYABLE };

const pawl_kernel PAWL_ENTRY(kv_store_f32) = {
    .id = "kv_store.f32:" PAWL_ISA_WORD,
    .op = PAWL_OP_KV_STORE,
    .arch = PAWL_ARCH_CPU,
    .isa = PAWL_ISA_NEEDS,
    .m_min = 1,
    .traits = TRAITS,
    .supports = pawl__ref_f32,
    .run = run_store,
};

const pawl_kernel PAWL_ENTRY(attn_f32) = {
    .id = "attn.f32:" PAWL_ISA_WORD,
    .op = PAWL_OP_ATTN,
    .arch = PAWL_ARCH_CPU,
    .isa = PAWL_ISA_NEEDS,
    .m_min = 1,
    .traits = TRAITS,
    .supports = pawl__ref_attn,
    .run = run_attn,
};
