/* Cases of gdn, gdn_verify and gdn_replay. The truth is the recurrence of op/gdn.h in double, as it stands there. */
#include "cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct shape {
    int64_t nk, nv, dk, dv;
    int32_t rows[4];
} shape;

static const shape shapes[] = {
    {1, 1, 2, 3, {3, 0, 0, 0}},
    {2, 4, 16, 40, {5, 1, 2, 4}},
    {1, 3, 64, 64, {1, 9, 1, 2}},
    {2, 2, 20, 33, {0, 2, 1, 12}},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static void lay(chk_case *c, const shape *s, bool verify)
{
    int32_t row = 0;
    c->n_segs = s->rows[1] || s->rows[3] ? 4 : 1;
    for (int i = 0, piece = 0; i < c->n_segs; i++) {
        c->whole_segs[i] =
            (pawl_seg){.row0 = row, .rows = s->rows[i], .slot = c->n_segs - 1 - i, .log0 = row + 1, .verify = verify};
        row += s->rows[i];
        if (c->n_segs > 1 && i == 2) c->whole_segs[i].slot = -1;
        if (verify && s->rows[i]) c->pieces[piece++] = s->rows[i];
    }
    c->items = row;
    memcpy(c->segs, c->whole_segs, sizeof c->segs);
}

static void select_gdn(chk_case *c, int64_t first, int64_t n)
{
    pawl_gdn_args *a = &c->args.gdn;
    *a = c->whole.gdn;
    chk_cut_segments(c, first, n);
    a->m = n;
    a->qkv += first * (2 * a->nk * a->dk + a->nv * a->dv);
    a->a += first * a->ab_row;
    a->b += first * a->ab_row;
    a->out += first * a->nv * a->dv;
}

static void select_replay(chk_case *c, int64_t first, int64_t n)
{
    c->args.replay = c->whole.replay;
    chk_cut_segments(c, first, n);
}

/* S *= decay; p = k S; d = (v - p) beta; S += k d; out = q S (where q is given). */
static void step(double *s, const double *k, const double *q, const float *v, double decay, double beta, int64_t dk,
                 int64_t dv, double *out)
{
    for (int64_t j = 0; j < dv; j++) {
        double p = 0, o = 0;
        for (int64_t i = 0; i < dk; i++) p += k[i] * (s[i * dv + j] *= decay);
        for (int64_t i = 0; i < dk; i++) {
            s[i * dv + j] += k[i] * (v[j] - p) * beta;
            if (q) o += q[i] * s[i * dv + j];
        }
        if (out) out[j] = o;
    }
}

static void normalised(const float *x, int64_t n, double after, double *out)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * x[i];
    for (int64_t i = 0; i < n; i++) out[i] = x[i] / sqrt(sum + 1e-6) / after;
}

enum { MAX_D = 64 };

static void expect_state(chk_case *c, float *state, int64_t at, const double *s, int64_t n)
{
    for (int64_t i = 0; i < n; i++) chk_expect(c, state, at + i, s[i], 2e-5 * (1 + fabs(s[i])));
}

static void expect_head(chk_case *c, const pawl_seg *seg, int64_t h)
{
    const pawl_gdn_args *a = &c->whole.gdn;
    int64_t dk = a->dk, dv = a->dv, kh = h / (a->nv / a->nk), width = 2 * a->nk * dk + a->nv * dv;
    int64_t at = seg->slot * a->slot_size + h * dk * dv;
    double s[MAX_D * MAX_D] = {0}, q[MAX_D], k[MAX_D], out[MAX_D] = {0};
    for (int64_t i = 0; i < dk * dv && seg->slot >= 0; i++) s[i] = a->state[at + i];
    for (int64_t t = seg->row0; t < seg->row0 + seg->rows; t++) {
        const float *qkv = a->qkv + t * width, *v = qkv + 2 * a->nk * dk + h * dv;
        normalised(qkv + kh * dk, dk, sqrt((double)dk), q);
        normalised(qkv + (a->nk + kh) * dk, dk, 1, k);
        double decay = exp(-exp(a->a_log[h]) * log1p(exp((double)a->a[t * a->ab_row + h] + a->dt_bias[h])));
        double beta = chk_sigmoid(a->b[t * a->ab_row + h]);
        if (seg->slot >= 0) step(s, k, q, v, decay, beta, dk, dv, out);
        for (int64_t j = 0; j < dv; j++)
            chk_expect(c, a->out, (t * a->nv + h) * dv + j, out[j],
                       seg->slot < 0 ? CHK_EXACT : 2e-5 * (1 + fabs(out[j])));
        if (seg->slot < 0 || !seg->verify) continue;
        int64_t log = seg->log0 + t - seg->row0;
        for (int64_t i = 0; i < dk; i++) chk_expect(c, a->log.k, (log * a->nk + kh) * dk + i, k[i], 1e-6);
        for (int64_t j = 0; j < dv; j++) chk_expect(c, a->log.v, (log * a->nv + h) * dv + j, v[j], CHK_EXACT);
        chk_expect(c, a->log.decay, log * a->nv + h, decay, 4e-6);
        chk_expect(c, a->log.beta, log * a->nv + h, beta, 1e-6);
    }
    if (seg->slot >= 0 && !seg->verify) expect_state(c, a->state, at, s, dk * dv);
}

static void make_log(chk_case *c, pawl_gdn_log *log, const shape *s, chk_role role, uint64_t *rng)
{
    int64_t rows = c->items + 1;
    log->k = chk_floats(c, "log.k", role, rows * s->nk * s->dk, CHK_RANDOM, rng);
    log->v = chk_floats(c, "log.v", role, rows * s->nv * s->dv, CHK_RANDOM, rng);
    log->decay = chk_floats(c, "log.decay", role, rows * s->nv, CHK_RANDOM, rng);
    log->beta = chk_floats(c, "log.beta", role, rows * s->nv, CHK_RANDOM, rng);
}

static bool make(chk_case *c, int index, bool verify, uint64_t *rng)
{
    if (index >= SHAPES * 2) return false;
    const shape *s = &shapes[index % SHAPES];
    lay(c, s, verify);
    int64_t m = c->items;
    pawl_gdn_args *a = &c->args.gdn;
    *a = (pawl_gdn_args){
        .m = m, .nk = s->nk, .nv = s->nv, .dk = s->dk, .dv = s->dv, .segs = c->segs, .n_segs = c->n_segs};
    a->ab_row = 2 * s->nv;
    a->slot_size = s->nv * s->dk * s->dv + 5;
    a->qkv = chk_floats(c, "qkv", CHK_IN, m * (2 * s->nk * s->dk + s->nv * s->dv), CHK_RANDOM, rng);
    float *ab = chk_floats(c, "ab", CHK_IN, m * a->ab_row, CHK_RANDOM, rng);
    /* the second round has gates far out: no decay, full decay, beta 0 and 1 */
    for (int64_t i = 0; i < m * a->ab_row && index >= SHAPES; i++) ab[i] *= 30;
    a->b = ab;
    a->a = ab + s->nv;
    a->a_log = chk_floats(c, "a_log", CHK_IN, s->nv, CHK_RANDOM, rng);
    a->dt_bias = chk_floats(c, "dt_bias", CHK_IN, s->nv, CHK_RANDOM, rng);
    a->state =
        chk_floats(c, "state", CHK_INOUT, (c->n_segs - 1) * a->slot_size + s->nv * s->dk * s->dv, CHK_RANDOM, rng);
    if (verify) make_log(c, &a->log, s, CHK_OUT, rng);
    a->out = chk_floats(c, "out", CHK_OUT, m * s->nv * s->dv, CHK_RANDOM, rng);
    chk_expect(c, a->state, 0, 0, CHK_UNTOUCHED);
    if (verify) {
        chk_expect(c, a->log.k, 0, 0, CHK_UNTOUCHED);
        chk_expect(c, a->log.v, 0, 0, CHK_UNTOUCHED);
        chk_expect(c, a->log.decay, 0, 0, CHK_UNTOUCHED);
        chk_expect(c, a->log.beta, 0, 0, CHK_UNTOUCHED);
    }
    c->whole = c->args;
    for (int i = 0; i < c->n_segs; i++)
        for (int64_t h = 0; h < s->nv; h++) expect_head(c, &c->whole_segs[i], h);
    c->select = select_gdn;
    c->q = pawl__query(verify ? PAWL_OP_GDN_VERIFY : PAWL_OP_GDN);
    c->q.n = s->nv;
    c->q.k = s->dk;
    c->q.x[0] = s->nk;
    c->q.x[1] = s->dv;
    snprintf(c->name, sizeof c->name, "m=%d heads=%d/%d dk=%d dv=%d", (int)m, (int)s->nk, (int)s->nv, (int)s->dk,
             (int)s->dv);
    return true;
}

bool chk_make_gdn(chk_case *c, int index, uint64_t *rng)
{
    return make(c, index, false, rng);
}

bool chk_make_gdn_verify(chk_case *c, int index, uint64_t *rng)
{
    return make(c, index, true, rng);
}

bool chk_make_gdn_replay(chk_case *c, int index, uint64_t *rng)
{
    if (index >= SHAPES) return false;
    const shape *s = &shapes[index];
    lay(c, s, false);
    pawl_gdn_replay_args *a = &c->args.replay;
    *a = (pawl_gdn_replay_args){
        .nk = s->nk, .nv = s->nv, .dk = s->dk, .dv = s->dv, .segs = c->segs, .n_segs = c->n_segs};
    a->slot_size = s->nv * s->dk * s->dv + 5;
    a->state =
        chk_floats(c, "state", CHK_INOUT, (c->n_segs - 1) * a->slot_size + s->nv * s->dk * s->dv, CHK_RANDOM, rng);
    make_log(c, &a->log, s, CHK_IN, rng);
    for (int64_t i = 0; i < (c->items + 1) * s->nk * s->dk; i++) a->log.k[i] /= sqrtf((float)s->dk);
    for (int64_t i = 0; i < (c->items + 1) * s->nv; i++) {
        a->log.decay[i] = (float)chk_sigmoid(a->log.decay[i]);
        a->log.beta[i] = (float)chk_sigmoid(a->log.beta[i]);
    }
    chk_expect(c, a->state, 0, 0, CHK_UNTOUCHED);
    for (int i = 0; i < c->n_segs; i++) {
        const pawl_seg *seg = &c->whole_segs[i];
        for (int64_t h = 0; h < s->nv && seg->slot >= 0; h++) {
            double state[MAX_D * MAX_D], k[MAX_D];
            int64_t at = seg->slot * a->slot_size + h * s->dk * s->dv, kh = h / (s->nv / s->nk);
            for (int64_t e = 0; e < s->dk * s->dv; e++) state[e] = a->state[at + e];
            for (int64_t log = seg->log0; log < seg->log0 + seg->rows; log++) {
                for (int64_t e = 0; e < s->dk; e++) k[e] = a->log.k[(log * s->nk + kh) * s->dk + e];
                step(state, k, NULL, a->log.v + (log * s->nv + h) * s->dv, a->log.decay[log * s->nv + h],
                     a->log.beta[log * s->nv + h], s->dk, s->dv, NULL);
            }
            if (seg->rows) expect_state(c, a->state, at, state, s->dk * s->dv);
        }
    }
    c->whole = c->args;
    c->select = select_replay;
    c->q = pawl__query(PAWL_OP_GDN_REPLAY);
    c->q.n = s->nv;
    c->q.k = s->dk;
    c->q.x[0] = s->nk;
    c->q.x[1] = s->dv;
    snprintf(c->name, sizeof c->name, "rows=%d heads=%d/%d dk=%d dv=%d", (int)c->items, (int)s->nk, (int)s->nv,
             (int)s->dk, (int)s->dv);
    return true;
}
