/* What the attention bodies and their entries share. Plain C, no instruction-set flags. */
#ifndef PAWL_KERNELS_X86_ATTN_H
#define PAWL_KERNELS_X86_ATTN_H

#include "op/attn.h"
#include "route/route.h"

/* Queries that meet a key together; block results that scratch holds per thread where blocks are tasks. */
enum { PAWL_ATTN_QUERIES = 64, PAWL_ATTN_SLOTS = 256 };

/* One thread's own scratch: queries, scores, and results of one block and of all, for heads of size d. */
static inline size_t pawl__attn_thread_bytes(int64_t d)
{
    return (size_t)(PAWL_ATTN_QUERIES * (3 * d + PAWL_ATTN_BLOCK + 4)) * sizeof(float);
}

/* Of all threads, with the results of blocks and their merged ones. */
size_t pawl__attn_scratch(const pawl_query *q, int64_t m, int threads);

pawl_status pawl__attn_run_avx2(const void *args, pawl_exec *ex, pawl_err *err);
pawl_status pawl__attn_run_avx512(const void *args, pawl_exec *ex, pawl_err *err);

#endif
