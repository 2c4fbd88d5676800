/* Ops and queries. An op is what a layer needs computed, with a written contract (op/<op>.h); a query is one op with its
 * shapes and formats, without pointers: it is hashed, compared, printed, and parsed back from its own print.
 *
 * Text form: the op's word and key=value pairs in the order of the table in query.c; keys at their default are left out:
 *   linear a=f32 w=fp8blk128/f32 out=f32 m=1 n=4096 k=2048
 *   moe a=f32 w=bf16 out=f32 m=* i=512 h=2048 experts=256 topk=8 act=silu gated
 * m=* stands for any number of rows (m = PAWL_M_ANY). */
#ifndef PAWL_OP_QUERY_H
#define PAWL_OP_QUERY_H

#include <stdint.h>

#include "base/buf.h"
#include "base/dtype.h"
#include "base/status.h"
#include "quant/quant.h"

typedef enum pawl_op {
    PAWL_OP_EMBED,       /* op/embed.h      n vocabulary, k hidden */
    PAWL_OP_RMSNORM,     /* op/norm.h       k width */
    PAWL_OP_LINEAR,      /* op/linear.h     n out, k in */
    PAWL_OP_ROPE,        /* op/rope.h       n heads, k head size, x[0] rotary dims */
    PAWL_OP_KV_STORE,    /* op/attn.h       n KV heads, k head size; c cache dtype */
    PAWL_OP_ATTN,        /* op/attn.h       n query heads, k head size, x[0] KV heads; c cache dtype */
    PAWL_OP_CONV,        /* op/conv.h       n channels, k window */
    PAWL_OP_CONV_REPLAY, /* op/conv.h       the same */
    PAWL_OP_GDN,         /* op/gdn.h        n value heads, k = dk, x[0] key heads, x[1] = dv; c state dtype */
    PAWL_OP_GDN_VERIFY, /* op/gdn.h        the same; x[2] = 1 for a draft tree, x[3] = 1: gdn runs in the fast family */
    PAWL_OP_GDN_REPLAY, /* op/gdn.h        the same as gdn */
    PAWL_OP_ACT,        /* op/act.h        n width */
    PAWL_OP_ADD,        /* op/act.h        n width */
    PAWL_OP_MOE_ROUTE,  /* op/moe.h        n experts, k top-k, x[0] groups, x[1] groups kept, x[2] method */
    PAWL_OP_MOE, /* op/moe.h        n expert width I, k hidden H, x[0] experts, x[1] top-k, x[2] routing method */
    PAWL_OP_MOE_MASKED,  /* op/moe.h        the same, layout [E, max, H]; x[1] = max */
    PAWL_OP_MOE_GROUPED, /* op/moe.h        the same, rows sorted by expert */
    PAWL_OP_COUNT
} pawl_op;

/* How a weight lies where the kernel meets it. The CPU reads the on-disk layout; packed layouts are made once at load. */
typedef enum pawl_layout { PAWL_LAYOUT_DISK, PAWL_LAYOUT_PACKED_CUDA, PAWL_LAYOUT_COUNT } pawl_layout;

enum { PAWL_M_ANY = -1 };

/* Flags of a query; which of them an op knows stands in query.c's table. */
enum {
    PAWL_QF_BIAS = 1 << 0,    /* linear, moe*: biases are added; moe_route: a selection bias */
    PAWL_QF_OFFSET1 = 1 << 1, /* rmsnorm: weights are stored as w - 1 */
    PAWL_QF_GATED = 1 << 2, /* moe*, act: act(gate) * up; attn: output times sigmoid(gate); rmsnorm: times silu(gate) */
    PAWL_QF_RELU2 = 1 << 3, /* moe*, act: relu squared; without it silu */
    PAWL_QF_ZERO_PAD = 1 << 4, /* moe_masked: rows past the count come back as zeros */
    PAWL_QF_RENORM = 1 << 5,   /* moe_route: DeepSeekV3 only, divide by the chosen weights' sum */
    PAWL_QF_VERIFY = 1 << 6,   /* conv: state is left as it was, the inputs are logged */
    PAWL_QF_ACT_FP8 = 1 << 7,  /* linear: activations are quantised to e4m3 per 1 x 128 inside, as GPUs do */
    PAWL_QF_ROWGATE = 1 << 8,  /* add: the summand times sigmoid(one scalar a row) */
    PAWL_QF_ACT_INT8 = 1 << 9  /* linear, moe: activations are quantised to int8 per 1 x 32 inside (quant/act8.h) */
};

typedef struct pawl_query {
    pawl_op op;
    pawl_dtype a, out, c; /* activations in, activations out, cache or state */
    pawl_quant w;
    pawl_scale ws;
    pawl_layout wl;
    pawl_space at;
    int64_t m, n, k, x[4];
    uint32_t flags;
} pawl_query;

/* All zero but for the defaults: f32 activations, cache and output, host, m = PAWL_M_ANY. */
pawl_query pawl__query(pawl_op op);

const char *pawl__op_word(pawl_op op);
pawl_op pawl__op_parse(const char *word, size_t n); /* PAWL_OP_COUNT when unknown */

void pawl__query_print(const pawl_query *q, pawl_buf *out);
pawl_status pawl__query_parse(const char *text, size_t n, pawl_query *out, pawl_err *err);
int pawl__query_equal(const pawl_query *a, const pawl_query *b);
/* Shapes make sense for the op (positive, divisible where the format asks for it): the check of a query from outside. */
pawl_status pawl__query_check(const pawl_query *q, pawl_err *err);

#endif
