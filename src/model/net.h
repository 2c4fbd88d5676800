/* A network: weights, and the decisions about the kernels that run them. One forward pass takes a ragged batch of token
 * rows; prefill, decode, verification of drafts and an idle rank's empty step differ only in the batch.
 *
 * The family files (model/<arch>.c) fill the table of functions; the rest of the engine calls pawl__net_*. A network is
 * immutable once open and may be shared; all that changes during a step is in a pawl_net_state. */
#ifndef PAWL_MODEL_NET_H
#define PAWL_MODEL_NET_H

#include <stdatomic.h>

#include "cache/kv.h"
#include "cache/slots.h"
#include "op/seg.h"
#include "route/plan.h"
#include "store/checkpoint.h"

typedef struct pawl_net pawl_net;

/* Sizes that the caches and the engine need. */
typedef struct pawl_net_dims {
    int64_t vocab, hidden, layers, context;
    int64_t kv_layers; /* layers with keys and values, the draft layers' included */
    int64_t kv_heads, head_dim;
    int64_t draft_layers; /* MTP layers; 0: cannot draft */
    int64_t rec_layers;   /* layers with recurrent state */
    int64_t conv_channels;
    int64_t nk, nv, dk, dv; /* Gated DeltaNet heads and head sizes */
    int64_t row_floats;     /* scratch of one row in a step, all blocks' maximum */
} pawl_net_dims;

/* Sees intermediate results: tests compare them with golden vectors. what: "embed", "layer", "norm", "router_logits",
 * "router_ids" (int32), "router_weights", "mtp"; layer counts from 0, the draft layer follows the last. */
typedef void (*pawl_probe_fn)(void *user, const char *what, int64_t layer, const void *data, int64_t rows,
                              int64_t width);

typedef struct pawl_net_options {
    pawl_space space; /* where the network will run: HOST, or CUDA for a plan that is only explained */
    int check_nan;    /* test all valid rows after each op; an error names op, layer and row */
    int act_int8;     /* linear and expert ops quantise activations to int8 where the weights' format allows it */
} pawl_net_options;

/* Reads config.json, finds the family, takes views of all weights and adds every op to the plan. The checkpoint and the plan
 * are borrowed and must outlive the network. */
pawl_status pawl__net_open(pawl_checkpoint *ck, pawl_plan *plan, const pawl_net_options *opt, pawl_net **out,
                           pawl_err *err);
void pawl__net_close(pawl_net **net);
const pawl_net_dims *pawl__net_dims(const pawl_net *net);
/* The text model's type, e.g. "qwen3_5_moe_text". */
const char *pawl__net_type(const pawl_net *net);
/* End-of-sequence ids of config.json, for checkpoints whose generation_config.json names none. */
const int64_t *pawl__net_eos(const pawl_net *net, int *n);

/* Caches and scratch of one engine. */
typedef struct pawl_net_state pawl_net_state;
typedef struct pawl_net_state_options {
    int32_t max_rows;   /* rows of a step */
    int32_t max_verify; /* rows of a step that may be rolled back (logged) */
    int64_t n_pages;    /* KV pages of PAWL_KV_PAGE positions */
    int64_t n_slots;    /* recurrent slots = sequences */
    int poison;         /* fill scratch with signalling NaNs before each use */
    pawl_probe_fn probe;
    void *probe_user;
} pawl_net_state_options;
pawl_status pawl__net_state_create(const pawl_net *net, const pawl_net_state_options *opt, pawl_net_state **out,
                                   pawl_err *err);
void pawl__net_state_destroy(pawl_net_state **st);
pawl_kv *pawl__net_kv(const pawl_net_state *st);
pawl_slots *pawl__net_slots(const pawl_net_state *st);

/* One step's input and output. Arrays are the caller's. */
typedef struct pawl_forward {
    int32_t m; /* rows of all segments; 0 is fine */
    const int32_t *ids;
    const pawl_seg *segs;
    int32_t n_segs;
    const int32_t *pages;      /* page table that the segments' page0 point into */
    const float *hidden_in;    /* draft only: [m][hidden] */
    float *hidden;             /* out: [m][hidden] after the final norm (draft: after its own) */
    const int32_t *logit_rows; /* rows whose logits are wanted, rising */
    int32_t n_logits;
    float *logits; /* out: [n_logits][vocab] */
    /* Looked at before each layer; nonzero ends the step with PAWL_ECANCELED, and the segments' states are void. Or NULL. */
    const atomic_int *cancel;
} pawl_forward;

/* The target: reads ids at their positions, extends KV and recurrent states (but for `verify` segments' states, whose rows
 * are logged until pawl__net_commit). */
pawl_status pawl__net_forward(const pawl_net *net, pawl_net_state *st, const pawl_forward *f, pawl_exec *ex,
                              pawl_err *err);
/* The draft layer: row at position p takes the hidden state of position p and the token at p + 1, writes its own keys and
 * values at p, and its logits predict the token at p + 2. Segments' slots are not used. */
pawl_status pawl__net_draft(const pawl_net *net, pawl_net_state *st, const pawl_forward *f, pawl_exec *ex,
                            pawl_err *err);
/* After a step with verify segments: moves each segment's recurrent state on by its first `rows` logged rows, bit for bit as
 * if they had been computed plainly. Keys and values need nothing: rows past the accepted ones are overwritten later. */
pawl_status pawl__net_commit(const pawl_net *net, pawl_net_state *st, const pawl_seg *segs, int32_t n_segs,
                             pawl_exec *ex, pawl_err *err);

#endif
