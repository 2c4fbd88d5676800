/* The x86 entries. Constant data and predicates without instruction-set flags: compiled into every build, so that any
 * machine can say what another would choose; the bodies exist on x86-64 only. */
#include "kernels/x86/x86.h"

#include "kernels/x86/body_avx2.h"

#if defined(__x86_64__)
#define BODY(fn) fn
#else
#define BODY(fn) NULL
#endif

enum {
    AVX2 = PAWL_ISA_AVX2 | PAWL_ISA_FMA | PAWL_ISA_F16C,
    TRAITS = PAWL_TRAIT_VERIFY | PAWL_TRAIT_ROW_INVARIANT | PAWL_TRAIT_RETRYABLE
};

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

/* Scales of an FP4 format span `group` codes along each dimension that is summed over. */
static bool whole_groups(const char *dim, int64_t k, pawl_quant w, pawl_reason *why)
{
    int group = w == PAWL_Q_NVFP4 ? 16 : w == PAWL_Q_MXFP4 ? 32 : 1;
    if (k % group == 0) return true;
    pawl__reason(why, "%s %% %d != 0 (%s=%lld)", dim, group, dim, (long long)k);
    return false;
}

static bool operands(const pawl_query *q, pawl_reason *why)
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
    if (q->flags & PAWL_QF_ACT_FP8) {
        pawl__reason(why, "activations are not quantised here");
        return false;
    }
    return true;
}

static bool linear_of(pawl_quant w, const pawl_query *q, pawl_reason *why)
{
    if (q->w != w) {
        pawl__reason(why, "needs %s weights (found %s)", pawl__quant_word(w), pawl__quant_word(q->w));
        return false;
    }
    return operands(q, why) && whole_groups("k", q->k, w, why);
}

static bool linear_f32(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    (void)caps;
    return linear_of(PAWL_Q_F32, q, why);
}

static bool linear_f16(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    (void)caps;
    return linear_of(PAWL_Q_F16, q, why);
}

static bool linear_bf16(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    (void)caps;
    return linear_of(PAWL_Q_BF16, q, why);
}

static bool linear_fp8blk(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    (void)caps;
    return linear_of(PAWL_Q_FP8BLK, q, why);
}

static bool linear_fp8ten(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    (void)caps;
    return linear_of(PAWL_Q_FP8TEN, q, why);
}

static bool linear_fp8ch(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    (void)caps;
    return linear_of(PAWL_Q_FP8CH, q, why);
}

static bool linear_nvfp4(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    (void)caps;
    return linear_of(PAWL_Q_NVFP4, q, why);
}

static bool linear_mxfp4(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    (void)caps;
    return linear_of(PAWL_Q_MXFP4, q, why);
}

static bool experts(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    (void)caps;
    return operands(q, why) && whole_groups("h", q->k, q->w, why) && whole_groups("i", q->n, q->w, why);
}

const pawl_kernel pawl__k_linear_f32_avx2 = {
    .id = "linear.f32:avx2",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CPU,
    .isa = AVX2,
    .m_min = 1,
    .traits = TRAITS,
    .supports = linear_f32,
    .run = BODY(pawl__linear_run_avx2),
};

const pawl_kernel pawl__k_linear_f16_avx2 = {
    .id = "linear.f16:avx2",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CPU,
    .isa = AVX2,
    .m_min = 1,
    .traits = TRAITS,
    .supports = linear_f16,
    .run = BODY(pawl__linear_run_avx2),
};

const pawl_kernel pawl__k_linear_bf16_avx2 = {
    .id = "linear.bf16:avx2",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CPU,
    .isa = AVX2,
    .m_min = 1,
    .traits = TRAITS,
    .supports = linear_bf16,
    .run = BODY(pawl__linear_run_avx2),
};

const pawl_kernel pawl__k_linear_fp8blk_avx2 = {
    .id = "linear.fp8blk:avx2",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CPU,
    .isa = AVX2,
    .m_min = 1,
    .traits = TRAITS,
    .supports = linear_fp8blk,
    .run = BODY(pawl__linear_run_avx2),
};

const pawl_kernel pawl__k_linear_fp8ten_avx2 = {
    .id = "linear.fp8ten:avx2",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CPU,
    .isa = AVX2,
    .m_min = 1,
    .traits = TRAITS,
    .supports = linear_fp8ten,
    .run = BODY(pawl__linear_run_avx2),
};

const pawl_kernel pawl__k_linear_fp8ch_avx2 = {
    .id = "linear.fp8ch:avx2",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CPU,
    .isa = AVX2,
    .m_min = 1,
    .traits = TRAITS,
    .supports = linear_fp8ch,
    .run = BODY(pawl__linear_run_avx2),
};

const pawl_kernel pawl__k_linear_nvfp4_avx2 = {
    .id = "linear.nvfp4:avx2",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CPU,
    .isa = AVX2,
    .m_min = 1,
    .traits = TRAITS,
    .supports = linear_nvfp4,
    .run = BODY(pawl__linear_run_avx2),
};

const pawl_kernel pawl__k_linear_mxfp4_avx2 = {
    .id = "linear.mxfp4:avx2",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CPU,
    .isa = AVX2,
    .m_min = 1,
    .traits = TRAITS,
    .supports = linear_mxfp4,
    .run = BODY(pawl__linear_run_avx2),
};

const pawl_kernel pawl__k_moe_any_avx2 = {
    .id = "moe.any:avx2",
    .op = PAWL_OP_MOE,
    .arch = PAWL_ARCH_CPU,
    .isa = AVX2,
    .m_min = 1,
    .traits = TRAITS,
    .supports = experts,
    .scratch = BODY(pawl__moe_scratch_avx2),
    .run = BODY(pawl__moe_run_avx2),
};

const pawl_kernel pawl__k_moe_masked_any_avx2 = {
    .id = "moe_masked.any:avx2",
    .op = PAWL_OP_MOE_MASKED,
    .arch = PAWL_ARCH_CPU,
    .isa = AVX2,
    .m_min = 1,
    .traits = TRAITS,
    .supports = experts,
    .scratch = BODY(pawl__moe_masked_scratch_avx2),
    .run = BODY(pawl__moe_masked_run_avx2),
};

const pawl_kernel pawl__k_moe_grouped_any_avx2 = {
    .id = "moe_grouped.any:avx2",
    .op = PAWL_OP_MOE_GROUPED,
    .arch = PAWL_ARCH_CPU,
    .isa = AVX2,
    .m_min = 1,
    .traits = TRAITS,
    .supports = experts,
    .scratch = BODY(pawl__moe_grouped_scratch_avx2),
    .run = BODY(pawl__moe_grouped_run_avx2),
};
