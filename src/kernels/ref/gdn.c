/* gdn, gdn_verify and gdn_replay: the recurrence of Gated DeltaNet, row by row. Columns of the state are independent, so a
 * task takes PART of them through all rows of a segment: its slice of the state stays in the first-level cache, and how rows
 * are cut into segments cannot change a bit. Each task normalises q and k for itself, a few percent of its work. */
#include "op/gdn.h"

#include <string.h>

#include "base/mathfn.h"
#include "kernels/ref/isa.h"
#include "kernels/ref/lanes.h"
#include "kernels/ref/split.h"
#include "kernels/ref/supports.h"

enum { PART = 32 };
#define L2_EPS 1e-6f /* inside the root, whatever the model's rms_norm_eps */

/* Row inputs of the recurrence for one value head. */
typedef struct gdn_row {
    const float *k, *q; /* [dk], normalised; q NULL when no output is wanted */
    const float *v;     /* [PART] */
    float decay, beta;
} gdn_row;

/* One row through PART columns of a state whose rows are ld apart. The inner loops have a constant length so that the sums of
 * all columns can stay in vector registers. */
static void step(float *restrict state, int64_t ld, int64_t dk, const gdn_row *r, float *restrict out)
{
    const float *restrict k = r->k, *restrict q = r->q;
    float p[PART] = {0}, o[PART] = {0}, d[PART], decay = r->decay;
    for (int64_t i = 0; i < dk; i++) {
        float *restrict s = state + i * ld;
        for (int j = 0; j < PART; j++) {
            float decayed = s[j] * decay;
            s[j] = decayed;
            p[j] = fmaf(k[i], decayed, p[j]);
        }
    }
    for (int j = 0; j < PART; j++) d[j] = (r->v[j] - p[j]) * r->beta;
    if (!q) {
        for (int64_t i = 0; i < dk; i++) {
            float *restrict s = state + i * ld;
            for (int j = 0; j < PART; j++) s[j] = fmaf(k[i], d[j], s[j]);
        }
        return;
    }
    for (int64_t i = 0; i < dk; i++) {
        float *restrict s = state + i * ld;
        for (int j = 0; j < PART; j++) {
            float updated = fmaf(k[i], d[j], s[j]);
            s[j] = updated;
            o[j] = fmaf(q[i], updated, o[j]);
        }
    }
    memcpy(out, o, sizeof o);
}

/* n <= PART columns of a head's state [dk][dv]. They are worked on where they are, or in a copy [dk][PART]: for a verify
 * segment, which must leave the state alone, and where the last part is narrower than PART (the rest of the copy is zero
 * and stays so, because v is zero there). */
typedef struct columns {
    float *at;
    int64_t ld;
    float copy[PAWL_REF_HEAD_MAX * PART];
} columns;

static void columns_begin(columns *c, float *state, int64_t dv, int64_t dk, int n, int copied)
{
    c->at = copied ? c->copy : state;
    c->ld = copied ? PART : dv;
    if (!copied) return;
    memset(c->copy, 0, (size_t)dk * PART * sizeof(float));
    for (int64_t i = 0; i < dk; i++) memcpy(c->copy + i * PART, state + i * dv, (size_t)n * sizeof(float));
}

static void columns_write_back(const columns *c, float *state, int64_t dv, int64_t dk, int n)
{
    if (c->at == c->copy)
        for (int64_t i = 0; i < dk; i++) memcpy(state + i * dv, c->copy + i * PART, (size_t)n * sizeof(float));
}

/* out = x / sqrt(sum x^2 + eps) / after */
static void normalise(const float *restrict x, int64_t dk, float after, float *restrict out)
{
    float root = sqrtf(pawl__lanes_dot(x, x, dk) + L2_EPS);
    for (int64_t i = 0; i < dk; i++) out[i] = x[i] / root / after;
}

/* Columns j0 .. j0+n-1 of value head h through one segment. */
static void part_of_segment(const pawl_gdn_args *a, const pawl_seg *seg, int64_t h, int64_t j0, int n)
{
    float q[PAWL_REF_HEAD_MAX], k[PAWL_REF_HEAD_MAX], v[PART] = {0}, out[PART];
    int64_t kh = h / (a->nv / a->nk), width = 2 * a->nk * a->dk + a->nv * a->dv;
    float *state = a->state + seg->slot * a->slot_size + h * a->dk * a->dv + j0;
    float root_dk = sqrtf((float)a->dk), rate = -pawl__expf(a->a_log[h]);
    size_t bytes = (size_t)n * sizeof(float);
    columns cols;
    columns_begin(&cols, state, a->dv, a->dk, n, seg->verify || n < PART);
    for (int32_t i = 0; i < seg->rows; i++) {
        int64_t t = seg->row0 + i, log = seg->log0 + i;
        const float *qkv = a->qkv + t * width;
        normalise(qkv + kh * a->dk, a->dk, root_dk, q);
        normalise(qkv + (a->nk + kh) * a->dk, a->dk, 1.0f, k);
        memcpy(v, qkv + 2 * a->nk * a->dk + h * a->dv + j0, bytes);
        float g = rate * pawl__softplusf(a->a[t * a->ab_row + h] + a->dt_bias[h]);
        gdn_row r = {.k = k, .q = q, .v = v, .decay = pawl__expf(g), .beta = pawl__sigmoidf(a->b[t * a->ab_row + h])};
        step(cols.at, cols.ld, a->dk, &r, out);
        memcpy(a->out + (t * a->nv + h) * a->dv + j0, out, bytes);
        if (!seg->verify) continue;
        memcpy(a->log.v + (log * a->nv + h) * a->dv + j0, v, bytes);
        if (j0 > 0) continue; /* what follows is the head's, not the part's */
        a->log.decay[log * a->nv + h] = r.decay;
        a->log.beta[log * a->nv + h] = r.beta;
        if (h % (a->nv / a->nk) == 0) memcpy(a->log.k + (log * a->nk + kh) * a->dk, k, (size_t)a->dk * sizeof(float));
    }
    if (!seg->verify) columns_write_back(&cols, state, a->dv, a->dk, n);
}

/* Items are (segment, value head, part of the columns). */
static void parts(const void *args, int64_t first, int64_t last, int thread)
{
    (void)thread;
    const pawl_gdn_args *a = args;
    int64_t per_head = (a->dv + PART - 1) / PART;
    for (int64_t item = first; item < last; item++) {
        const pawl_seg *seg = &a->segs[item / (a->nv * per_head)];
        int64_t h = item / per_head % a->nv, j0 = item % per_head * PART;
        int n = a->dv - j0 < PART ? (int)(a->dv - j0) : PART;
        if (seg->slot >= 0) {
            part_of_segment(a, seg, h, j0, n);
            continue;
        }
        for (int32_t i = 0; i < seg->rows; i++)
            memset(a->out + ((seg->row0 + i) * a->nv + h) * a->dv + j0, 0, (size_t)n * sizeof(float));
    }
}

/* The same columns, moved on by the logged rows. */
static void replay_part(const pawl_gdn_replay_args *a, const pawl_seg *seg, int64_t h, int64_t j0, int n)
{
    int64_t kh = h / (a->nv / a->nk);
    float *state = a->state + seg->slot * a->slot_size + h * a->dk * a->dv + j0, v[PART] = {0};
    columns cols;
    columns_begin(&cols, state, a->dv, a->dk, n, n < PART);
    for (int32_t i = 0; i < seg->rows; i++) {
        int64_t log = seg->log0 + i;
        memcpy(v, a->log.v + (log * a->nv + h) * a->dv + j0, (size_t)n * sizeof(float));
        gdn_row r = {.k = a->log.k + (log * a->nk + kh) * a->dk,
                     .v = v,
                     .decay = a->log.decay[log * a->nv + h],
                     .beta = a->log.beta[log * a->nv + h]};
        step(cols.at, cols.ld, a->dk, &r, NULL);
    }
    columns_write_back(&cols, state, a->dv, a->dk, n);
}

static void replay_parts(const void *args, int64_t first, int64_t last, int thread)
{
    (void)thread;
    const pawl_gdn_replay_args *a = args;
    int64_t per_head = (a->dv + PART - 1) / PART;
    for (int64_t item = first; item < last; item++) {
        const pawl_seg *seg = &a->segs[item / (a->nv * per_head)];
        int64_t h = item / per_head % a->nv, j0 = item % per_head * PART;
        if (seg->slot >= 0) replay_part(a, seg, h, j0, a->dv - j0 < PART ? (int)(a->dv - j0) : PART);
    }
}

static pawl_status run(const void *args, pawl_exec *ex, pawl_err *err)
{
    (void)err;
    const pawl_gdn_args *a = args;
    pawl__split(ex, a->n_segs * a->nv * ((a->dv + PART - 1) / PART), 3 * a->m * a->nv * a->dk * a->dv, parts, a);
    return PAWL_OK;
}

static pawl_status run_replay(const void *args, pawl_exec *ex, pawl_err *err)
{
    (void)err;
    const pawl_gdn_replay_args *a = args;
    int64_t rows = 0;
    for (int32_t i = 0; i < a->n_segs; i++) rows += a->segs[i].rows;
    pawl__split(ex, a->n_segs * a->nv * ((a->dv + PART - 1) / PART), 2 * rows * a->nv * a->dk * a->dv, replay_parts, a);
    return PAWL_OK;
}

enum { TRAITS = PAWL_TRAIT_VERIFY | PAWL_TRAIT_ROW_INVARIANT };

const pawl_kernel PAWL_ENTRY(gdn_f32) = {
    .id = "gdn.f32:" PAWL_ISA_WORD,
    .op = PAWL_OP_GDN,
    .arch = PAWL_ARCH_CPU,
    .isa = PAWL_ISA_NEEDS,
    .m_min = 1,
    .traits = TRAITS,
    .supports = pawl__ref_gdn,
    .run = run,
};

const pawl_kernel PAWL_ENTRY(gdn_verify_f32) = {
    .id = "gdn_verify.f32:" PAWL_ISA_WORD,
    .op = PAWL_OP_GDN_VERIFY,
    .arch = PAWL_ARCH_CPU,
    .isa = PAWL_ISA_NEEDS,
    .m_min = 1,
    .traits = TRAITS | PAWL_TRAIT_RETRYABLE,
    .supports = pawl__ref_gdn,
    .run = run,
};

const pawl_kernel PAWL_ENTRY(gdn_replay_f32) = {
    .id = "gdn_replay.f32:" PAWL_ISA_WORD,
    .op = PAWL_OP_GDN_REPLAY,
    .arch = PAWL_ARCH_CPU,
    .isa = PAWL_ISA_NEEDS,
    .m_min = 1,
    .traits = TRAITS,
    .supports = pawl__ref_gdn,
    .run = run_replay,
};
