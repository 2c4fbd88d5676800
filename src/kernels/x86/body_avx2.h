/* What the AVX2 bodies share: the run functions that the entries name, the scratch they ask for, and the linear core that
 * the expert kernels are made of. Included by entries.c (plain flags) and *_avx2.c; holds declarations only. */
#ifndef PAWL_KERNELS_X86_BODY_AVX2_H
#define PAWL_KERNELS_X86_BODY_AVX2_H

#include "op/linear.h"
#include "op/moe.h"
#include "route/route.h"

/* Outputs n0 .. n1-1 of w for m rows, on the calling thread: y[yrow(j) * ldy + n] = x[xrow(j)] . w[n] (+ bias[n]), in the
 * order of additions of op/linear.h. xrows and yrows name the rows of x and y, [m]; NULL stands for 0 .. m-1. */
typedef struct linear_part {
    const pawl_wmat *w;
    const float *bias; /* [w->n] or NULL */
    const float *x;
    int64_t ldx;
    const int64_t *xrows;
    float *y;
    int64_t ldy;
    const int64_t *yrows;
    int64_t m;
} linear_part;
typedef void (*linear_part_fn)(const linear_part *p, int64_t n0, int64_t n1);
/* The linear op out of parts of `chunk` outputs, which the threads share; linear_run.c. */
pawl_status pawl__x86_linear(const pawl_linear_args *a, linear_part_fn fn, int64_t chunk, pawl_exec *ex, pawl_err *err);

void pawl__linear_part_avx2(const linear_part *p, int64_t n0, int64_t n1);

/* Two of the ways that it takes: FP8 weights and 1 to LINEAR_FP8_ROWS rows of x; any weights by strips that are decoded
 * first, for at most 48 rows of x. */
enum { LINEAR_FP8_ROWS = 4 };
void pawl__linear_fp8_avx2(const linear_part *p, int64_t n0, int64_t n1);
void pawl__linear_packed_avx2(const linear_part *p, int64_t n0, int64_t n1);

/* Rows of w in one task: a multiple of 16 outputs (a cache line of y), at least about 16 KB of weights or as much work. */
int64_t pawl__chunk_avx2(const pawl_wmat *w, int64_t m);

pawl_status pawl__linear_run_avx2(const void *args, pawl_exec *ex, pawl_err *err);

#endif
