#include "model/step.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mathfn.h"
#include "op/act.h"
#include "op/linear.h"
#include "op/norm.h"
#include "quant/act8.h"
#include "store/weights.h"

float *pawl__step_floats(pawl_step *s, int64_t rows, int64_t width)
{
    float *p = pawl__arena_array(s->st->scratch, (size_t)rows * (size_t)width, sizeof *p);
    if (!p)
        pawl__fail(s->err, PAWL_EINTERNAL, "layer %lld: step scratch exhausted by %lld x %lld floats",
                   (long long)s->layer, (long long)rows, (long long)width);
    return p;
}

int32_t *pawl__step_ints(pawl_step *s, int64_t rows, int64_t width)
{
    return (int32_t *)pawl__step_floats(s, rows, width);
}

static pawl_status split_segments(pawl_step *s)
{
    pawl_seg *split = pawl__arena_array(s->st->scratch, (size_t)s->n_segs, sizeof *split);
    if (!split) return pawl__fail(s->err, PAWL_EINTERNAL, "step scratch exhausted by %d segments", s->n_segs);
    int32_t front = 0, back = s->n_segs;
    for (int32_t i = 0; i < s->n_segs; i++) {
        if (s->segs[i].verify) {
            split[--back] = s->segs[i];
            s->m_verify += s->segs[i].rows;
        } else {
            split[front++] = s->segs[i];
            s->m_plain += s->segs[i].rows;
        }
    }
    s->plain = split;
    s->n_plain = front;
    s->verify = split + back;
    s->n_verify = s->n_segs - back;
    return PAWL_OK;
}

pawl_status pawl__step_begin(pawl_step *s, const float *inv_freq, int64_t half)
{
    PAWL_TRY(split_segments(s));
    float *cos = pawl__step_floats(s, s->m, half), *sin = pawl__step_floats(s, s->m, half);
    if (!cos || !sin) return PAWL_EINTERNAL;
    for (int32_t i = 0; i < s->n_segs; i++) {
        const pawl_seg *g = &s->segs[i];
        for (int64_t r = 0; r < g->rows; r++)
            for (int64_t j = 0; j < half; j++) {
                double sn, cs;
                pawl__sincos((double)(g->pos0 + r) * (double)inv_freq[j], &sn, &cs);
                sin[(g->row0 + r) * half + j] = (float)sn;
                cos[(g->row0 + r) * half + j] = (float)cs;
            }
    }
    s->cos = cos;
    s->sin = sin;
    return PAWL_OK;
}

static pawl_status look_for_nan(pawl_step *s, const pawl_decision *d, int64_t m, const char *what, const float *out,
                                int64_t width, int64_t ld)
{
    for (int64_t r = 0; r < m; r++)
        for (int64_t j = 0; j < width; j++)
            if (!isfinite(out[r * ld + j]))
                return pawl__fail(s->err, PAWL_EINTERNAL,
                                  "%s in layer %lld (kernel %s): row %lld of %lld, element %lld is %g", what,
                                  (long long)s->layer, pawl__decision_kernel(d, m)->id, (long long)r, (long long)m,
                                  (long long)j, (double)out[r * ld + j]);
    return PAWL_OK;
}

pawl_status pawl__step_run(pawl_step *s, const pawl_decision *d, int64_t m, const void *args, const char *what,
                           const float *out, int64_t width, int64_t ld)
{
    pawl_status st = pawl__op_run(d, m, args, s->ex, s->err);
    if (st != PAWL_OK) {
        pawl__fail_in(s->err, "%s in layer %lld", what, (long long)s->layer);
        return st;
    }
    if (s->check_nan && out) return look_for_nan(s, d, m, what, out, width, ld);
    return PAWL_OK;
}

pawl_status pawl__step_canceled(const pawl_step *s)
{
    if (!s->cancel || !atomic_load_explicit(s->cancel, memory_order_relaxed)) return PAWL_OK;
    return pawl__fail(s->err, PAWL_ECANCELED, "cancelled");
}

void pawl__step_probe(pawl_step *s, const char *what, const void *data, int64_t width)
{
    if (s->st->probe) s->st->probe(s->st->probe_user, what, s->layer, data, s->m, width);
}

/* ---- building ---- */

pawl_status pawl__builder_name(const pawl_builder *b, const char *name, char *out, size_t cap, pawl_err *err)
{
    int n = snprintf(out, cap, "%s%s", b->prefix, name);
    if (n < 0 || (size_t)n >= cap) return pawl__fail(err, PAWL_EINTERNAL, "%s%s: name too long", b->prefix, name);
    return PAWL_OK;
}

pawl_query pawl__builder_query(const pawl_builder *b, pawl_op op)
{
    pawl_query q = pawl__query(op);
    q.at = b->space;
    if (b->space == PAWL_SPACE_CUDA)
        q.a = q.out = PAWL_BF16; /* what GPU kernels exchange; states and caches stay f32 */
    return q;
}

pawl_status pawl__builder_add(pawl_builder *b, const pawl_query *q, const char *name, const pawl_decision **out,
                              pawl_err *err)
{
    char where[160];
    snprintf(where, sizeof where, "%s%s", b->where, name);
    return pawl__plan_add(b->plan, b->scope, q, where, out, err);
}

pawl_status pawl__builder_vector(pawl_builder *b, const char *name, int64_t n, const float **out, pawl_err *err)
{
    char full[320];
    float *v;
    PAWL_TRY(pawl__builder_name(b, name, full, sizeof full, err));
    PAWL_TRY(pawl__weights_vector(b->ck, full, n, &v, err));
    *out = v;
    return PAWL_OK;
}

static pawl_scale scale_kind(pawl_quant q)
{
    switch (q) {
    case PAWL_Q_FP8BLK:
    case PAWL_Q_FP8TEN:
    case PAWL_Q_FP8CH:
        return PAWL_SCALE_F32; /* whatever the file holds, it was unpacked once at load */
    case PAWL_Q_NVFP4:
        return PAWL_SCALE_E4M3;
    case PAWL_Q_MXFP4:
        return PAWL_SCALE_E8M0;
    default:
        return PAWL_SCALE_NONE;
    }
}

void pawl__builder_weight(const pawl_builder *b, pawl_quant w, pawl_query *q)
{
    q->w = w;
    q->ws = scale_kind(w);
    if (b->act_int8 && b->space == PAWL_SPACE_HOST && pawl__has_int8(w)) q->flags |= PAWL_QF_ACT_INT8;
}

pawl_status pawl__linear_of(pawl_builder *b, const char *name, const pawl_wmat *w, int out_f32, pawl_linear_op *out,
                            pawl_err *err)
{
    out->w = *w;
    pawl_query q = pawl__builder_query(b, PAWL_OP_LINEAR);
    pawl__builder_weight(b, w->q, &q);
    q.n = w->n;
    q.k = w->k;
    if (out_f32) q.out = PAWL_F32;
    return pawl__builder_add(b, &q, name, &out->d, err);
}

pawl_status pawl__linear_load(pawl_builder *b, const char *name, int64_t n, int64_t k, int out_f32, pawl_linear_op *out,
                              pawl_err *err)
{
    char full[320];
    pawl_wmat w;
    PAWL_TRY(pawl__builder_name(b, name, full, sizeof full, err));
    PAWL_TRY(pawl__weights_matrix(b->ck, full, n, k, &w, err));
    return pawl__linear_of(b, name, &w, out_f32, out, err);
}

pawl_status pawl__linear_run(pawl_step *s, const pawl_linear_op *op, int64_t m, const float *x, int64_t ldx, float *y,
                             int64_t ldy, const char *what)
{
    pawl_linear_args a = {.m = m, .x = x, .ldx = ldx, .w = &op->w, .y = y, .ldy = ldy};
    return pawl__step_run(s, op->d, m, &a, what, y, op->w.n, ldy);
}

pawl_status pawl__norm_load(pawl_builder *b, const char *name, int64_t k, double eps, int offset1, int gated,
                            pawl_norm_op *out, pawl_err *err)
{
    char full[96];
    snprintf(full, sizeof full, "%s.weight", name);
    PAWL_TRY(pawl__builder_vector(b, full, k, &out->w, err));
    out->k = k;
    out->eps = (float)eps;
    out->offset1 = offset1;
    pawl_query q = pawl__builder_query(b, PAWL_OP_RMSNORM);
    q.k = k;
    q.flags = (offset1 ? PAWL_QF_OFFSET1 : 0) | (gated ? PAWL_QF_GATED : 0);
    return pawl__builder_add(b, &q, name, &out->d, err);
}

pawl_status pawl__norm_run(pawl_step *s, const pawl_norm_op *op, const float *x, int64_t x_row, float *out,
                           int64_t out_row, const char *what)
{
    pawl_norm_args a = {.m = s->m,
                        .heads = 1,
                        .k = op->k,
                        .x = x,
                        .x_row = x_row,
                        .w = op->w,
                        .out = out,
                        .out_row = out_row,
                        .eps = op->eps,
                        .offset1 = op->offset1};
    return pawl__step_run(s, op->d, s->m, &a, what, out, op->k, out_row);
}

pawl_status pawl__add_run(pawl_step *s, const pawl_decision *d, int64_t n, const float *x, float *y)
{
    pawl_add_args a = {.m = s->m, .n = n, .x = x, .x_row = n, .y = y, .y_row = n};
    return pawl__step_run(s, d, s->m, &a, "add", y, n, n);
}
