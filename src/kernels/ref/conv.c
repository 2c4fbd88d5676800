/* conv: the short causal convolution. Channels are independent and are taken 64 at a time, with their weights and window
 * turned so that a channel's neighbours lie side by side; rows run one by one. */
#include "op/conv.h"

#include <string.h>

#include "base/mathfn.h"
#include "kernels/ref/isa.h"
#include "kernels/ref/split.h"
#include "kernels/ref/supports.h"

enum { PART = 64, PAST = PAWL_CONV_WINDOW - 1 };

static void conv_row(const float (*restrict w)[PART], const float (*restrict past)[PART], const float *restrict u,
                     int64_t n, float *restrict out)
{
    for (int64_t c = 0; c < n; c++) {
        float s = w[0][c] * past[0][c];
        s = fmaf(w[1][c], past[1][c], s);
        s = fmaf(w[2][c], past[2][c], s);
        s = fmaf(w[3][c], u[c], s);
        out[c] = pawl__siluf(s);
    }
}

/* Channels c0 .. c0+n-1 of one segment. */
static void part_of_segment(const pawl_conv_args *a, const pawl_seg *seg, int64_t c0, int64_t n)
{
    float w[PAWL_CONV_WINDOW][PART], past[PAST][PART];
    float *state = a->state + seg->slot * a->slot_size + c0 * PAST;
    for (int64_t c = 0; c < n; c++) {
        for (int i = 0; i < PAWL_CONV_WINDOW; i++) w[i][c] = a->w[(c0 + c) * PAWL_CONV_WINDOW + i];
        for (int i = 0; i < PAST; i++) past[i][c] = state[c * PAST + i];
    }
    for (int32_t i = 0; i < seg->rows; i++) {
        const float *u = a->u + (seg->row0 + i) * a->u_row + c0;
        conv_row(w, past, u, n, a->out + (seg->row0 + i) * a->channels + c0);
        memmove(past[0], past[1], sizeof past - sizeof past[0]);
        memcpy(past[PAST - 1], u, (size_t)n * sizeof(float));
        if (seg->verify) memcpy(a->log + (seg->log0 + i) * a->channels + c0, u, (size_t)n * sizeof(float));
    }
    if (seg->verify) return;
    for (int64_t c = 0; c < n; c++)
        for (int i = 0; i < PAST; i++) state[c * PAST + i] = past[i][c];
}

/* Items are (segment, part of the channels). */
static void parts(const void *args, int64_t first, int64_t last, int thread)
{
    (void)thread;
    const pawl_conv_args *a = args;
    int64_t per_seg = (a->channels + PART - 1) / PART;
    for (int64_t item = first; item < last; item++) {
        const pawl_seg *seg = &a->segs[item / per_seg];
        int64_t c0 = item % per_seg * PART, n = a->channels - c0 < PART ? a->channels - c0 : PART;
        if (seg->slot >= 0) {
            part_of_segment(a, seg, c0, n);
            continue;
        }
        for (int32_t i = 0; i < seg->rows; i++)
            memset(a->out + (seg->row0 + i) * a->channels + c0, 0, (size_t)n * sizeof(float));
    }
}

static pawl_status run(const void *args, pawl_exec *ex, pawl_err *err)
{
    (void)err;
    const pawl_conv_args *a = args;
    pawl__split(ex, a->n_segs * ((a->channels + PART - 1) / PART), 16 * a->m * a->channels, parts, a);
    return PAWL_OK;
}

const pawl_kernel PAWL_ENTRY(conv_f32) = {
    .id = "conv.f32:" PAWL_ISA_WORD,
    .op = PAWL_OP_CONV,
    .arch = PAWL_ARCH_CPU,
    .isa = PAWL_ISA_NEEDS,
    .m_min = 1,
    .traits = PAWL_TRAIT_VERIFY | PAWL_TRAIT_ROW_INVARIANT,
    .supports = pawl__ref_conv,
    .run = run,
};
