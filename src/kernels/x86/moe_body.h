/* The expert kernels of all x86 instruction sets: one body in plain C, moe_body.c, and the few functions that do the
 * arithmetic, which each moe_*.c builds for its own set. */
#ifndef PAWL_KERNELS_X86_MOE_BODY_H
#define PAWL_KERNELS_X86_MOE_BODY_H

#include "kernels/x86/body_avx2.h"

typedef struct moe_isa {
    void (*part)(const linear_part *p, int64_t n0, int64_t n1);
    /* g [n] = act(g) * u, or act(g) where u is NULL */
    void (*act)(pawl_act act, float *g, const float *u, int64_t n);
    /* y [n] = fma(w, e, y) */
    void (*add)(float w, const float *e, float *y, int64_t n);
} moe_isa;

/* The kernels' run functions, with the arguments of the op (op/moe.h). ex->scratch as the functions below ask for, or less:
 * then rows are taken in smaller blocks, which changes no bit. */
pawl_status pawl__moe_body(const moe_isa *isa, const void *args, pawl_exec *ex, pawl_err *err);
pawl_status pawl__moe_masked_body(const moe_isa *isa, const void *args, pawl_exec *ex, pawl_err *err);
pawl_status pawl__moe_grouped_body(const moe_isa *isa, const void *args, pawl_exec *ex, pawl_err *err);

pawl_status pawl__moe_run_avx2(const void *args, pawl_exec *ex, pawl_err *err);
pawl_status pawl__moe_masked_run_avx2(const void *args, pawl_exec *ex, pawl_err *err);
pawl_status pawl__moe_grouped_run_avx2(const void *args, pawl_exec *ex, pawl_err *err);

pawl_status pawl__moe_run_avx512(const void *args, pawl_exec *ex, pawl_err *err);
pawl_status pawl__moe_masked_run_avx512(const void *args, pawl_exec *ex, pawl_err *err);
pawl_status pawl__moe_grouped_run_avx512(const void *args, pawl_exec *ex, pawl_err *err);

size_t pawl__moe_scratch(const pawl_query *q, int64_t m, int threads);
size_t pawl__moe_masked_scratch(const pawl_query *q, int64_t m, int threads);
size_t pawl__moe_grouped_scratch(const pawl_query *q, int64_t m, int threads);

/* Sorts n (row, expert) pairs by expert: pair j is ids[j0 + j] of row (j0 + j) / per_row of x. Those of expert e come to
 * places first[e] .. first[e+1]-1 (first: [experts + 1]) of rows [n]; pos [n] receives each pair's place, -1 for an id outside
 * [0, experts). */
void pawl__moe_sort(const int32_t *ids, int64_t n, int64_t j0, int64_t per_row, int64_t experts, int64_t *first,
                    int64_t *rows, int64_t *pos);

#endif
