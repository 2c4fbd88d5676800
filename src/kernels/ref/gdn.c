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
    const float *v;     /* the part's columns */
    float decay, beta;
} gdn_row;

static inline __attribute__((always_inline)) void step_columns(float *restrict state, int64_t dv, int64_t dk,
                                                               const gdn_row *r, int n, float *restrict out)
{
    const float *restrict k = r->k, *restrict q = r->q, *restrict v = r->v;
    float p[PART] = {0}, o[PART] = {0}, d[PART], decay = r->decay, beta = r->beta;
    for (int64_t i = 0; i < dk; i++) {
        float *restrict s = state + i * dv;
        for (int j = 0; j < n; j++) {
            float decayed = s[j] * decay;
            s[j] = decayed;
            p[j] = fmaf(k[i], decayed, p[j]);
        }
    }
    for (int j = 0; j < n; j++) d[j] = (v[j] - p[j]) * beta;
    if (!q) {
        for (int64_t i = 0; i < dk; i++) {
            float *restrict s = state + i * dv;
            for (int j = 0; j < n; j++) s[j] = fmaf(k[i], d[j], s[j]);
        }
        return;
    }
    for (int64_t i = 0; i < dk; i++) {
        float *restrict s = state + i * dv;
        for (int j = 0; j < n; j++) {
            float updated = fmaf(k[i], d[j], s[j]);
            s[j] = updated;
            o[j] = fmaf(q[i], updated, o[j]);
        }
    }
    for (int j = 0; j < n; j++) out[j] = o[j];
}

/* One row through n <= PART columns; the full width apart, so that its inner loops have a constant length. */
static void step(float *state, int64_t dv, int64_t dk, const gdn_row *r, int n, float *out)
{
    if (n == PART)
        step_columns(state, dv, dk, r, PART, out);
    else
        step_columns(state, dv, dk, r, n, out);
}

/* The part's columns of a head's state, for a verify segment worked on in a copy [dk][PART]. */
static void copy_in(float *restrict to, const float *restrict state, int64_t dv, int64_t dk, int n)
{
    for (int64_t i = 0; i < dk; i++) memcpy(to + i * PART, state + i * dv, (size_t)n * sizeof(float));
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
    float q[PAWL_REF_HEAD_MAX], k[PAWL_REF_HEAD_MAX], copy[PAWL_REF_HEAD_MAX * PART];
    int64_t kh = h / (a->nv / a->nk), width = 2 * a->nk * a->dk + a->nv * a->dv, ld = a->dv;
    float *state = a->state + seg->slot * a->slot_size + h * a->dk * a->dv + j0, root_dk = sqrtf((float)a->dk);
    float rate = -pawl__expf(a->a_log[h]);
    if (seg->verify) {
        copy_in(copy, state, ld, a->dk, n);
        state = copy;
        ld = PART;
    }
    for (int32_t i = 0; i < seg->rows; i++) {
        int64_t t = seg->row0 + i, log = seg->log0 + i;
        const float *qkv = a->qkv + t * width, *v = qkv + 2 * a->nk * a->dk + h * a->dv + j0;
        normalise(qkv + kh * a->dk, a->dk, root_dk, q);
        normalise(qkv + (a->nk + kh) * a->dk, a->dk, 1.0f, k);
        float g = rate * pawl__softplusf(a->a[t * a->ab_row + h] + a->dt_bias[h]);
        gdn_row r = {.k = k, .q = q, .v = v, .decay = pawl__expf(g), .beta = pawl__sigmoidf(a->b[t * a->ab_row + h])};
        step(state, ld, a->dk, &r, n, a->out + t * a->nv * a->dv + h * a->dv + j0);
        if (!seg->verify) continue;
        memcpy(a->log.v + (log * a->nv + h) * a->dv + j0, v, (size_t)n * sizeof(float));
        if (j0 > 0) continue; /* what follows is the head's, not the part's */
        a->log.decay[log * a->nv + h] = r.decay;
        a->log.beta[log * a->nv + h] = r.beta;
        if (h % (a->nv / a->nk) == 0) memcpy(a->log.k + (log * a->nk + kh) * a->dk, k, (size_t)a->dk * sizeof(float));
    }
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

static void replay_parts(const void *args, int64_t first, int64_t last, int thread)
{
    (void)thread;
    const pawl_gdn_replay_args *a = args;
    int64_t per_head = (a->dv + PART - 1) / PART;
    for (int64_t item = first; item < last; item++) {
        const pawl_seg *seg = &a->segs[item / (a->nv * per_head)];
        if (seg->slot < 0) continue;
        int64_t h = item / per_head % a->nv, kh = h / (a->nv / a->nk), j0 = item % per_head * PART;
        int n = a->dv - j0 < PART ? (int)(a->dv - j0) : PART;
        float *state = a->state + seg->slot * a->slot_size + h * a->dk * a->dv + j0;
        for (int32_t i = 0; i < seg->rows; i++) {
            int64_t log = seg->log0 + i;
            gdn_row r = {.k = a->log.k + (log * a->nk + kh) * a->dk,
                         .v = a->log.v + (log * a->nv + h) * a->dv + j0,
                         .decay = a->log.decay[log * a->nv + h],
                         .beta = a->log.beta[log * a->nv + h]};
            step(state, a->dv, a->dk, &r, n, NULL);
        }
    }
}

static pawl_status run(const void *args, pawl_exec *ex, pawl_err *err)
{
    (void)err;
    const pawl_gdn_args *a = args;
    pawl__split(ex, a->n_segs * a->nv * ((a->dv + PART - 1) / PART), parts, a);
    return PAWL_OK;
}

static pawl_status run_replay(const void *args, pawl_exec *ex, pawl_err *err)
{
    (void)err;
    const pawl_gdn_replay_args *a = args;
    pawl__split(ex, a->n_segs * a->nv * ((a->dv + PART - 1) / PART), replay_parts, a);
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
