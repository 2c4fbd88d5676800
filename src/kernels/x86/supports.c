/* Each refusal is a sentence fragment. */
#include "kernels/x86/supports.h"

static pawl_scale scale_of(pawl_quant w)
{
    switch (w) {
    case PAWL_Q_FP8BLK:
    case PAWL_Q_FP8TEN:
    case PAWL_Q_FP8CH:
        return PAWL_SCALE_F32;
    case PAWL_Q_NVFP4:
        return PAWL_SCALE_E4M3;
    case PAWL_Q_MXFP4:
        return PAWL_SCALE_E8M0;
    default:
        return PAWL_SCALE_NONE;
    }
}

bool pawl__x86_whole_groups(const char *dim, int64_t k, pawl_quant w, pawl_reason *why)
{
    int group = w == PAWL_Q_NVFP4 ? 16 : w == PAWL_Q_MXFP4 ? 32 : 1;
    if (k % group == 0) return true;
    pawl__reason(why, "%s %% %d != 0 (%s=%lld)", dim, group, dim, (long long)k);
    return false;
}

bool pawl__x86_operands(const pawl_query *q, pawl_reason *why)
{
    if (q->at != PAWL_SPACE_HOST) {
        pawl__reason(why, "needs operands in host memory");
        return false;
    }
    if (q->a != PAWL_F32 || q->out != PAWL_F32) {
        pawl__reason(why, "needs f32 in and out (a=%s out=%s)", pawl__dtype_word(q->a), pawl__dtype_word(q->out));
        return false;
    }
    if (q->wl != PAWL_LAYOUT_DISK) {
        pawl__reason(why, "needs weights as stored on disk");
        return false;
    }
    if (q->w <= PAWL_Q_NONE || q->w >= PAWL_QUANT_COUNT) {
        pawl__reason(why, "needs a weight format");
        return false;
    }
    if (q->ws != scale_of(q->w)) {
        pawl__reason(why, "needs %s scales for %s (found %s)", pawl__scale_word(scale_of(q->w)), pawl__quant_word(q->w),
                     pawl__scale_word(q->ws));
        return false;
    }
    if (q->flags & (PAWL_QF_ACT_FP8 | PAWL_QF_ACT_INT8)) {
        pawl__reason(why, "activations are not quantised here");
        return false;
    }
    return true;
}
