/* Checks a kernel against its op's contract, whichever kernel it is: made-up operands of random, exact and extreme values,
 * then every promise in turn. A kernel that is on a list is checked without a line written for it here.
 *
 * A case is one problem of one op: its query, its argument record and the buffers that the record points into. Each buffer
 * ends at an unreadable page (so that one element too many is a fault), begins behind guard bytes, and knows what a run
 * must leave in it: per element a value in double with a bound, or "as it was". */
#ifndef PAWL_TESTS_KERNELS_CHECKER_H
#define PAWL_TESTS_KERNELS_CHECKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "op/act.h"
#include "op/attn.h"
#include "op/conv.h"
#include "op/embed.h"
#include "op/gdn.h"
#include "op/linear.h"
#include "op/moe.h"
#include "op/norm.h"
#include "op/rope.h"
#include "route/route.h"

enum { CHK_BUFS = 128, CHK_SEGS = 8, CHK_EXPERTS = 8 };

/* Bounds with a meaning of their own. */
#define CHK_EXACT     0.0  /* the bits of (float)truth; for ids the integer */
#define CHK_UNTOUCHED -1.0 /* what was there before */

typedef enum chk_role { CHK_IN, CHK_OUT, CHK_INOUT } chk_role;

typedef struct chk_buf {
    char name[24];
    chk_role role;
    unsigned char *map; /* pages, the last one unreadable */
    size_t map_bytes;
    unsigned char *data;
    size_t bytes;
    unsigned char *initial; /* content before a run; an output's is poison */
    unsigned char *result;  /* content after the first run */
    double *truth, *bound;  /* per element, or NULL when only bits are compared */
    bool integers;          /* int32 instead of float */
} chk_buf;

typedef struct chk_case {
    char name[128];
    pawl_query q;
    int64_t items; /* what `select` counts: rows, or (expert, row) of the masked layout */
    /* Makes the argument record say: only items first .. first+n-1. Doing so for all items one after another must give what
     * doing all at once gives. The record is left as it was made by select(c, 0, items). */
    void (*select)(struct chk_case *c, int64_t first, int64_t n);
    int64_t pieces[64]; /* item counts of indivisible pieces (verify segments); 0: single items */
    chk_buf buf[CHK_BUFS];
    int bufs;
    union {
        pawl_linear_args linear;
        pawl_embed_args embed;
        pawl_norm_args norm;
        pawl_rope_args rope;
        pawl_act_args act;
        pawl_add_args add;
        pawl_kv_store_args kv_store;
        pawl_attn_args attn;
        pawl_conv_args conv;
        pawl_conv_replay_args conv_replay;
        pawl_gdn_args gdn;
        pawl_gdn_replay_args replay;
        pawl_moe_route_args route;
        pawl_moe_args moe;
        pawl_moe_masked_args masked;
        pawl_moe_grouped_args grouped;
    } args, whole; /* as selected now; for all items */
    /* What args point into beside buffers. */
    pawl_wmat w;
    pawl_seg segs[CHK_SEGS], whole_segs[CHK_SEGS];
    int n_segs;
    pawl_expert expert[CHK_EXPERTS];
    pawl_experts experts, one_expert;
    int32_t counts[CHK_EXPERTS], one_count;
} chk_case;

typedef enum chk_values { CHK_RANDOM, CHK_EXACT_POWERS, CHK_EXTREME, CHK_VALUES } chk_values;

/* Building cases (buffers.c). All of these end the program when memory is short. */
void *chk_buffer(chk_case *c, const char *name, chk_role role, size_t bytes, size_t slack);
float *chk_floats(chk_case *c, const char *name, chk_role role, int64_t n, chk_values values, uint64_t *rng);
/* Truth and bound arrays of the buffer that begins at data, made on first use (all untouched). */
void chk_expect(chk_case *c, const void *data, int64_t element, double truth, double bound);
void chk_keep_initial(chk_case *c); /* remembers what inputs hold now; outputs become poison */
void chk_free(chk_case *c);
double chk_normal(uint64_t *rng);
int64_t chk_pick(uint64_t *rng, int64_t from, int64_t to); /* from .. to */
/* A weight matrix with padded rows; unaligned where its format has no alignment. row0 for FP8BLK. */
pawl_wmat chk_weights(chk_case *c, const char *name, pawl_quant q, int64_t n, int64_t k, chk_values values,
                      uint64_t *rng);
pawl_scale chk_scale_of(pawl_quant q);
/* Weights in double, row by row: [n][k]. free() it. */
double *chk_decode(const pawl_wmat *w);

/* Case makers, one an op: case `index` into c (zeroed), or false when there is none. */
typedef bool (*chk_maker)(chk_case *c, int index, uint64_t *rng);
extern const chk_maker chk_makers[PAWL_OP_COUNT];

/* Checks kernel k on every case of its op that it supports, against the contract and the bits of `floor` (may be k itself).
 * Returns the number of cases that were run; on a broken promise 0 with the sentence in why. Kernels for features that this
 * processor lacks are not run: -1. */
int chk_kernel(const pawl_kernel *k, const pawl_kernel *const *floors, uint64_t seed, char *why, size_t why_size);

#endif
