/* conv_replay: after a verification, the convolution's window moves on by the accepted rows. It only moves floats. */
#include "op/conv.h"

#include "kernels/ref/ref.h"
#include "kernels/ref/supports.h"

enum { PAST = PAWL_CONV_WINDOW - 1 };

static pawl_status run(const void *args, pawl_exec *ex, pawl_err *err)
{
    (void)ex, (void)err;
    const pawl_conv_replay_args *a = args;
    for (int32_t i = 0; i < a->n_segs; i++) {
        const pawl_seg *seg = &a->segs[i];
        if (seg->slot < 0 || seg->rows == 0) continue;
        float *state = a->state + seg->slot * a->slot_size;
        const float *log = a->log + (int64_t)seg->log0 * a->channels;
        for (int64_t c = 0; c < a->channels; c++) {
            float *past = state + c * PAST;
            /* The last three of (window, rows 0 .. rows-1); writing front to back never overtakes a read. */
            for (int j = 0; j < PAST; j++) {
                int32_t at = seg->rows + j; /* index into the window followed by the rows */
                past[j] = at < PAST ? past[at] : log[(at - PAST) * a->channels + c];
            }
        }
    }
    return PAWL_OK;
}

const pawl_kernel pawl__k_conv_replay_f32_ref = {
    .id = "conv_replay.f32:ref",
    .op = PAWL_OP_CONV_REPLAY,
    .arch = PAWL_ARCH_CPU,
    .m_min = 1,
    .traits = PAWL_TRAIT_VERIFY | PAWL_TRAIT_ROW_INVARIANT,
    .supports = pawl__ref_conv,
    .run = run,
};
