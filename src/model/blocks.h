/* The blocks that layers are made of. Each reads its weights under the builder's prefix and computes [m][hidden] from a
 * normalised [m][hidden]; what differs between families is data in the record. */
#ifndef PAWL_MODEL_BLOCKS_H
#define PAWL_MODEL_BLOCKS_H

#include "model/step.h"
#include "op/moe.h"

/* Attention with rotary positions on the first r dimensions of each head, q and k normalised per head, and (gated) an
 * output gate that lies beside each query head: rows of q_proj are, per head, d query rows and d gate rows. */
typedef struct pawl_attn_block {
    int64_t hidden, heads, kv_heads, d, r;
    int gated;
    int64_t kv_layer; /* which of the KV cache's layers */
    pawl_linear_op q, k, v, o;
    pawl_norm_op q_norm, k_norm;
    const pawl_decision *rope_q, *rope_k, *store, *attn;
} pawl_attn_block;
/* The sizes are set by the caller; `module` is "self_attn". */
pawl_status pawl__attn_load(pawl_builder *b, const char *module, double eps, pawl_attn_block *out, pawl_err *err);
pawl_status pawl__attn_run(pawl_step *s, const pawl_attn_block *a, const float *x, float *y);
int64_t pawl__attn_row_floats(const pawl_attn_block *a);

/* Gated DeltaNet. */
typedef struct pawl_gdn_block {
    int64_t hidden, nk, nv, dk, dv, channels;
    int64_t rec_layer; /* which of the recurrent layers */
    pawl_linear_op qkv, z, a, b, out;
    pawl_norm_op norm;
    const float *conv_w, *a_log, *dt_bias;
    const pawl_decision *conv, *conv_replay, *gdn, *gdn_verify, *gdn_replay;
} pawl_gdn_block;
pawl_status pawl__gdn_load(pawl_builder *b, const char *module, double eps, pawl_gdn_block *out, pawl_err *err);
pawl_status pawl__gdn_run(pawl_step *s, const pawl_gdn_block *g, const float *x, float *y);
/* Applies the logged rows of the step's segments. */
pawl_status pawl__gdn_commit(pawl_step *s, const pawl_gdn_block *g);
int64_t pawl__gdn_row_floats(const pawl_gdn_block *g);

/* A gated MLP: down(silu(gate x) * (up x)). */
typedef struct pawl_mlp_block {
    int64_t hidden, width;
    pawl_linear_op gate, up, down;
    const pawl_decision *act;
} pawl_mlp_block;
pawl_status pawl__mlp_load(pawl_builder *b, const char *module, pawl_mlp_block *out, pawl_err *err);
pawl_status pawl__mlp_run(pawl_step *s, const pawl_mlp_block *p, const float *x, float *y);
int64_t pawl__mlp_row_floats(const pawl_mlp_block *p);

/* Routed experts and, where shared_width is not 0, a shared expert under a scalar gate. */
typedef struct pawl_moe_block {
    int64_t hidden, width, shared_width, top_k;
    pawl_moe_method method;
    pawl_linear_op router;
    pawl_experts experts;
    int folded; /* the shared expert is the last of `experts`, and `shared` is empty */
    pawl_mlp_block shared;
    pawl_linear_op shared_gate;
    const pawl_decision *choose, *moe, *add_shared;
} pawl_moe_block;
/* experts.n, width, shared_width, top_k and method are set by the caller; `module` is "mlp". */
pawl_status pawl__moe_load(pawl_builder *b, const char *module, pawl_moe_block *out, pawl_err *err);
pawl_status pawl__moe_run(pawl_step *s, const pawl_moe_block *p, const float *x, float *y);
int64_t pawl__moe_row_floats(const pawl_moe_block *p);

/* Enters a module: appends "module." to the builder's prefix and where, and returns what leave needs. */
typedef struct pawl_builder_mark {
    size_t prefix, where;
} pawl_builder_mark;
pawl_status pawl__builder_enter(pawl_builder *b, const char *module, pawl_builder_mark *mark, pawl_err *err);
void pawl__builder_leave(pawl_builder *b, pawl_builder_mark mark);

#endif
