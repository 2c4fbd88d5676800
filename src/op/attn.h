/* kv_store: puts new keys and values into the paged cache. attn: causal attention of each row over its sequence.
 *
 * The cache of one layer is [page][kv head][d][PAWL_KV_PAGE] for keys, so that the 16 positions of a page are the lanes of
 * their scores, and [page][kv head][PAWL_KV_PAGE][d] for values; position p of a sequence lies in page
 * pages[seg.page0 + p / PAWL_KV_PAGE], slot p % PAWL_KV_PAGE.
 *
 * attn of query row t at absolute position p sees positions 0..p. KV head = h / (heads / kv_heads). Order of additions:
 * score = (fma(q[i], k[i], sum) over rising i from 0) times scale. Positions are taken in blocks at absolute
 * multiples of 256: block maximum m_b, e_j = exp(s_j - m_b), l_b = sum of e_j in 16 lanes (lane = j mod 16) and the tree,
 * o_b[d] = fma(e_j, v_j[d], o_b[d]) in rising j. Blocks are merged in rising order: m = max(m, m_b),
 * l = fma(l, exp(m_old - m), l_b * exp(m_b - m)) and the same for o; then o / l. With a gate: times sigmoid(gate). */
#ifndef PAWL_OP_ATTN_H
#define PAWL_OP_ATTN_H

#include "op/seg.h"

enum { PAWL_ATTN_BLOCK = 256 };

typedef struct pawl_kv_store_args {
    int64_t m; /* rows of all segments */
    int64_t kv_heads, d;
    const float *k, *v; /* vector (t, h) at k + t*kv_row + h*d */
    int64_t k_row, v_row;
    const pawl_seg *segs;
    int32_t n_segs;
    const int32_t *pages; /* the batch's page table */
    float *cache_k, *cache_v;
} pawl_kv_store_args;

typedef struct pawl_attn_args {
    int64_t m;
    int64_t heads, kv_heads, d;
    float scale;
    const float *q; /* (t, h) at q + t*q_row + h*q_head */
    int64_t q_row, q_head;
    const float *gate; /* NULL, or (t, h) at gate + t*gate_row + h*gate_head */
    int64_t gate_row, gate_head;
    const pawl_seg *segs;
    int32_t n_segs;
    const int32_t *pages;
    const float *cache_k, *cache_v;
    float *out; /* [m][heads * d] */
} pawl_attn_args;

#endif
