/* One step in flight: the batch, its scratch, and the call that runs an op. Blocks get this record and nothing else. */
#ifndef PAWL_MODEL_STEP_H
#define PAWL_MODEL_STEP_H

#include "model/net.h"

/* The state behind pawl_net_state; blocks read the caches and logs from it. */
struct pawl_net_state {
    pawl_kv *kv;
    pawl_slots *slots;
    pawl_arena *scratch;
    int32_t max_rows, max_verify;
    /* Logs of verified rows, per recurrent layer: [rec_layers][max_verify][width] */
    float *log_conv, *log_k, *log_v, *log_decay, *log_beta;
    pawl_probe_fn probe;
    void *probe_user;
};

typedef struct pawl_step {
    pawl_net_state *st;
    pawl_exec *ex;
    pawl_err *err;
    int64_t m;
    const pawl_seg *segs;
    int32_t n_segs;
    const int32_t *pages;
    /* The same segments, those to be rolled back apart from the others, with their row counts */
    const pawl_seg *plain, *verify;
    int32_t n_plain, n_verify;
    int64_t m_plain, m_verify;
    const float *cos, *sin; /* [m][rotary/2] */
    const atomic_int *cancel;
    int64_t layer; /* for messages and the probe */
    int check_nan;
} pawl_step;

/* Splits the segments and computes the rows' rotary angles: inv_freq [half]. */
pawl_status pawl__step_begin(pawl_step *s, const float *inv_freq, int64_t half);

/* rows * width floats of the step's scratch; NULL with the error set when scratch was sized wrongly (a bug). */
float *pawl__step_floats(pawl_step *s, int64_t rows, int64_t width);
int32_t *pawl__step_ints(pawl_step *s, int64_t rows, int64_t width);

/* Runs the op. `what` names it in messages. out [m][ld] (width used), looked at for NaN and infinity when the user asked. */
pawl_status pawl__step_run(pawl_step *s, const pawl_decision *d, int64_t m, const void *args, const char *what,
                           const float *out, int64_t width, int64_t ld);

/* Whether the step has been cancelled: PAWL_ECANCELED. Asked before each layer. */
pawl_status pawl__step_canceled(const pawl_step *s);

void pawl__step_probe(pawl_step *s, const char *what, const void *data, int64_t width);

/* ---- what blocks are built from ---- */

/* Collects the weights and the plan's entries of one network. */
typedef struct pawl_builder {
    pawl_checkpoint *ck;
    pawl_plan *plan;
    pawl_arena *arena;
    pawl_scope scope;
    pawl_space space;
    int act_int8;
    char prefix[200]; /* of the current module, e.g. "model.layers.3.", with its dot */
    char where[96];   /* the same for the plan, layers as stars: "layers.*." */
} pawl_builder;

/* prefix + name into out (cap bytes). */
pawl_status pawl__builder_name(const pawl_builder *b, const char *name, char *out, size_t cap, pawl_err *err);
/* A query with the network's space and activation type. */
pawl_query pawl__builder_query(const pawl_builder *b, pawl_op op);
/* The query's weights: format, kind of scales, and the flag of the int8 policy where that policy is on and has a form for
 * the format (on the host). */
void pawl__builder_weight(const pawl_builder *b, pawl_quant w, pawl_query *q);
pawl_status pawl__builder_add(pawl_builder *b, const pawl_query *q, const char *name, const pawl_decision **out,
                              pawl_err *err);
/* The vector prefix + name as f32. */
pawl_status pawl__builder_vector(pawl_builder *b, const char *name, int64_t n, const float **out, pawl_err *err);

typedef struct pawl_linear_op {
    const pawl_decision *d;
    pawl_wmat w;
} pawl_linear_op;
/* The matrix prefix + name + ".weight" [n, k]; out_f32: the result stays f32 on every device (logits, gates). */
pawl_status pawl__linear_load(pawl_builder *b, const char *name, int64_t n, int64_t k, int out_f32, pawl_linear_op *out,
                              pawl_err *err);
/* The same for a matrix that was read before (a tied head). */
pawl_status pawl__linear_of(pawl_builder *b, const char *name, const pawl_wmat *w, int out_f32, pawl_linear_op *out,
                            pawl_err *err);
/* y [m][ldy] = x [m][ldx] times w transposed. */
pawl_status pawl__linear_run(pawl_step *s, const pawl_linear_op *op, int64_t m, const float *x, int64_t ldx, float *y,
                             int64_t ldy, const char *what);

typedef struct pawl_norm_op {
    const pawl_decision *d;
    const float *w;
    int64_t k;
    float eps;
    int offset1;
} pawl_norm_op;
pawl_status pawl__norm_load(pawl_builder *b, const char *name, int64_t k, double eps, int offset1, int gated,
                            pawl_norm_op *out, pawl_err *err);
/* Whole rows: out [m][out_row] = norm(x [m][x_row]). */
pawl_status pawl__norm_run(pawl_step *s, const pawl_norm_op *op, const float *x, int64_t x_row, float *out,
                           int64_t out_row, const char *what);

/* y [m][n] += x [m][n]. */
pawl_status pawl__add_run(pawl_step *s, const pawl_decision *d, int64_t n, const float *x, float *y);

#endif
