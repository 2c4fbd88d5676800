/* What the AVX-512 bodies share, as body_avx2.h does for AVX2: the run functions that the entries name and the linear core
 * that the expert kernels are made of. They need AVX-512 F, BW, DQ and VL beside AVX2, FMA and F16C. */
#ifndef PAWL_KERNELS_X86_BODY_AVX512_H
#define PAWL_KERNELS_X86_BODY_AVX512_H

#include "kernels/x86/body_avx2.h"

/* The twin of pawl__linear_part_avx2, bit for bit. Any m >= 0 and any n0 <= n1: up to 9 rows of x, each row of w is read
 * and decoded once for all of them; from 10 on, w is decoded in strips that many rows share. It uses about 130 KB of stack
 * and nothing else, takes no lock, and may run on any number of threads with disjoint outputs. */
void pawl__linear_part_avx512(const linear_part *p, int64_t n0, int64_t n1);

/* Rows of w in one task for `threads` threads: a multiple of 16 outputs (a cache line of y), so many that a task is worth
 * handing out and so few that threads which lag behind can be relieved. */
int64_t pawl__chunk_avx512(const pawl_wmat *w, int64_t m, int threads);

pawl_status pawl__linear_run_avx512(const void *args, pawl_exec *ex, pawl_err *err);

#endif
