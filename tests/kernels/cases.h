/* What the case makers share, and their table. */
#ifndef PAWL_TESTS_KERNELS_CASES_H
#define PAWL_TESTS_KERNELS_CASES_H

#include <stdio.h>

#include "checker.h"

bool chk_make_linear(chk_case *c, int index, uint64_t *rng);
bool chk_make_embed(chk_case *c, int index, uint64_t *rng);
bool chk_make_norm(chk_case *c, int index, uint64_t *rng);
bool chk_make_rope(chk_case *c, int index, uint64_t *rng);
bool chk_make_act(chk_case *c, int index, uint64_t *rng);
bool chk_make_add(chk_case *c, int index, uint64_t *rng);
bool chk_make_kv_store(chk_case *c, int index, uint64_t *rng);
bool chk_make_attn(chk_case *c, int index, uint64_t *rng);
bool chk_make_conv(chk_case *c, int index, uint64_t *rng);
bool chk_make_conv_replay(chk_case *c, int index, uint64_t *rng);
bool chk_make_gdn(chk_case *c, int index, uint64_t *rng);
bool chk_make_gdn_verify(chk_case *c, int index, uint64_t *rng);
bool chk_make_gdn_replay(chk_case *c, int index, uint64_t *rng);
bool chk_make_moe_route(chk_case *c, int index, uint64_t *rng);
bool chk_make_moe(chk_case *c, int index, uint64_t *rng);
bool chk_make_moe_masked(chk_case *c, int index, uint64_t *rng);
bool chk_make_moe_grouped(chk_case *c, int index, uint64_t *rng);

/* k rounded up to what the format needs. */
int64_t chk_whole_blocks(pawl_quant q, int64_t k);
/* op/linear.h's error bound. */
double chk_linear_bound(int64_t k, double sum_abs);
/* The same under the int8 policy, over a row as it is quantised (out [k]) and weights as they are rounded ([n][k]; free()). */
double chk_int8_bound(int64_t k, double sum_abs);
void chk_int8_row(const float *x, int64_t k, double *out);
double *chk_decode_int8(const pawl_wmat *w);
/* c->segs := the part of c->whole_segs that lies in rows first .. first+n-1, with rows counted from first. */
void chk_cut_segments(chk_case *c, int64_t first, int64_t n);
double chk_silu(double x);
double chk_sigmoid(double x);

#endif
