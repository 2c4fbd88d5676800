/* The predicates; each refusal is a sentence fragment. */
#include "kernels/ref/supports.h"

#include "op/conv.h"
#include "op/moe.h"
#include "quant/act8.h"

static bool refuse(pawl_reason *why, const char *what, const char *found)
{
    pawl__reason(why, "needs %s (found %s)", what, found);
    return false;
}

bool pawl__ref_f32(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    (void)caps;
    if (q->at != PAWL_SPACE_HOST) return refuse(why, "operands in host memory", "device memory");
    if (q->a != PAWL_F32) return refuse(why, "f32 activations", pawl__dtype_word(q->a));
    if (q->out != PAWL_F32) return refuse(why, "f32 output", pawl__dtype_word(q->out));
    if (q->c != PAWL_F32) return refuse(why, "f32 cache or state", pawl__dtype_word(q->c));
    return true;
}

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

bool pawl__ref_any_weight(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    if (!pawl__ref_f32(q, caps, why)) return false;
    if (q->w == PAWL_Q_NONE) return refuse(why, "a weight format", "none");
    if (q->ws != scale_of(q->w)) {
        pawl__reason(why, "needs %s scales for %s (found %s)", pawl__scale_word(scale_of(q->w)), pawl__quant_word(q->w),
                     pawl__scale_word(q->ws));
        return false;
    }
    if (q->wl != PAWL_LAYOUT_DISK) return refuse(why, "weights as stored on disk", "a packed layout");
    return true;
}

static bool weight_only(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    if (!pawl__ref_any_weight(q, caps, why)) return false;
    if (q->flags & PAWL_QF_ACT_FP8) return refuse(why, "f32 activations inside", "act_fp8");
    if (q->flags & PAWL_QF_ACT_INT8) return refuse(why, "f32 activations inside", "act_int8");
    return true;
}

static bool linear(pawl_quant w, const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    if (q->w != w) {
        pawl__reason(why, "needs %s weights (found %s)", pawl__quant_word(w), pawl__quant_word(q->w));
        return false;
    }
    return weight_only(q, caps, why);
}

bool pawl__ref_linear_f32(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    return linear(PAWL_Q_F32, q, caps, why);
}

bool pawl__ref_linear_f16(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    return linear(PAWL_Q_F16, q, caps, why);
}

bool pawl__ref_linear_bf16(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    return linear(PAWL_Q_BF16, q, caps, why);
}

bool pawl__ref_linear_fp8blk(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    return linear(PAWL_Q_FP8BLK, q, caps, why);
}

bool pawl__ref_linear_fp8ten(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    return linear(PAWL_Q_FP8TEN, q, caps, why);
}

bool pawl__ref_linear_fp8ch(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    return linear(PAWL_Q_FP8CH, q, caps, why);
}

bool pawl__ref_linear_nvfp4(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    return linear(PAWL_Q_NVFP4, q, caps, why);
}

bool pawl__ref_linear_mxfp4(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    return linear(PAWL_Q_MXFP4, q, caps, why);
}

bool pawl__ref_linear_fp8blk_a8(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    if (q->w != PAWL_Q_FP8BLK) return refuse(why, "fp8blk128 weights", pawl__quant_word(q->w));
    if (!pawl__ref_any_weight(q, caps, why)) return false;
    if (!(q->flags & PAWL_QF_ACT_FP8)) return refuse(why, "quantised activations", "f32 inside");
    return true;
}

static bool int8(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    if (!pawl__ref_any_weight(q, caps, why)) return false;
    if (!(q->flags & PAWL_QF_ACT_INT8)) return refuse(why, "int8 activations", "f32 inside");
    if (!pawl__has_int8(q->w)) return refuse(why, "weights with an int8 form", pawl__quant_word(q->w));
    return true;
}

bool pawl__ref_linear_nvfp4_i8(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    if (q->w != PAWL_Q_NVFP4) return refuse(why, "nvfp4 weights", pawl__quant_word(q->w));
    return int8(q, caps, why);
}

bool pawl__ref_linear_fp8_i8(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    if (q->w == PAWL_Q_NVFP4) return refuse(why, "fp8 weights", pawl__quant_word(q->w));
    return int8(q, caps, why);
}

bool pawl__ref_conv(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    if (!pawl__ref_f32(q, caps, why)) return false;
    if (q->k != PAWL_CONV_WINDOW) {
        pawl__reason(why, "needs window %d (found %lld)", PAWL_CONV_WINDOW, (long long)q->k);
        return false;
    }
    return true;
}

static bool head_fits(const char *name, int64_t d, pawl_reason *why)
{
    if (d <= PAWL_REF_HEAD_MAX) return true;
    pawl__reason(why, "%s %lld > %d", name, (long long)d, PAWL_REF_HEAD_MAX);
    return false;
}

bool pawl__ref_attn(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    return pawl__ref_f32(q, caps, why) && head_fits("head size", q->k, why);
}

bool pawl__ref_gdn(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    if (!pawl__ref_f32(q, caps, why) || !head_fits("key head size", q->k, why)) return false;
    if (q->x[2]) return refuse(why, "a chain of drafts", "a tree");
    if (q->x[0] > 0 && q->n % q->x[0]) {
        pawl__reason(why, "value heads %% key heads != 0 (%lld, %lld)", (long long)q->n, (long long)q->x[0]);
        return false;
    }
    return true;
}

bool pawl__ref_moe_route(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    if (!pawl__ref_f32(q, caps, why)) return false;
    if (q->x[2] < 0 || q->x[2] >= PAWL_ROUTE_METHODS) {
        pawl__reason(why, "unknown routing method %lld", (long long)q->x[2]);
        return false;
    }
    if (q->n > PAWL_REF_EXPERTS_MAX) {
        pawl__reason(why, "%lld experts > %d", (long long)q->n, PAWL_REF_EXPERTS_MAX);
        return false;
    }
    if (q->k > q->n) {
        pawl__reason(why, "top-k %lld > %lld experts", (long long)q->k, (long long)q->n);
        return false;
    }
    return true;
}

bool pawl__ref_moe(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    return weight_only(q, caps, why);
}

bool pawl__ref_moe_i8(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    return int8(q, caps, why);
}
