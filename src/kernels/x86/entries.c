/* The x86 entries of linear. Constant data and predicates without instruction-set flags: compiled into every build, so that any
 * machine can say what another would choose; the bodies exist on x86-64 only. */
#include "kernels/x86/x86.h"

#include "kernels/x86/body_avx2.h"
#include "kernels/x86/body_avx512.h"
#include "kernels/x86/supports.h"

#if defined(__x86_64__)
#define BODY(fn) fn
#else
#define BODY(fn) NULL
#endif

enum {
    AVX2 = PAWL_ISA_AVX2 | PAWL_ISA_FMA | PAWL_ISA_F16C,
    AVX512 = AVX2 | PAWL_ISA_AVX512F | PAWL_ISA_AVX512BW | PAWL_ISA_AVX512DQ | PAWL_ISA_AVX512VL,
    TRAITS = PAWL_TRAIT_VERIFY | PAWL_TRAIT_ROW_INVARIANT | PAWL_TRAIT_RETRYABLE
};

static bool linear_of(pawl_quant w, const pawl_query *q, pawl_reason *why)
{
    if (q->w != w) {
        pawl__reason(why, "needs %s weights (found %s)", pawl__quant_word(w), pawl__quant_word(q->w));
        return false;
    }
    return pawl__x86_operands(q, why) && pawl__x86_whole_groups("k", q->k, w, why);
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

const pawl_kernel pawl__k_linear_f32_avx512 = {
    .id = "linear.f32:avx512",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CPU,
    .isa = AVX512,
    .m_min = 1,
    .traits = TRAITS,
    .supports = linear_f32,
    .run = BODY(pawl__linear_run_avx512),
};

const pawl_kernel pawl__k_linear_f16_avx512 = {
    .id = "linear.f16:avx512",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CPU,
    .isa = AVX512,
    .m_min = 1,
    .traits = TRAITS,
    .supports = linear_f16,
    .run = BODY(pawl__linear_run_avx512),
};

const pawl_kernel pawl__k_linear_bf16_avx512 = {
    .id = "linear.bf16:avx512",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CPU,
    .isa = AVX512,
    .m_min = 1,
    .traits = TRAITS,
    .supports = linear_bf16,
    .run = BODY(pawl__linear_run_avx512),
};

const pawl_kernel pawl__k_linear_fp8blk_avx512 = {
    .id = "linear.fp8blk:avx512",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CPU,
    .isa = AVX512,
    .m_min = 1,
    .traits = TRAITS,
    .supports = linear_fp8blk,
    .run = BODY(pawl__linear_run_avx512),
};

const pawl_kernel pawl__k_linear_fp8ten_avx512 = {
    .id = "linear.fp8ten:avx512",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CPU,
    .isa = AVX512,
    .m_min = 1,
    .traits = TRAITS,
    .supports = linear_fp8ten,
    .run = BODY(pawl__linear_run_avx512),
};

const pawl_kernel pawl__k_linear_fp8ch_avx512 = {
    .id = "linear.fp8ch:avx512",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CPU,
    .isa = AVX512,
    .m_min = 1,
    .traits = TRAITS,
    .supports = linear_fp8ch,
    .run = BODY(pawl__linear_run_avx512),
};

const pawl_kernel pawl__k_linear_nvfp4_avx512 = {
    .id = "linear.nvfp4:avx512",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CPU,
    .isa = AVX512,
    .m_min = 1,
    .traits = TRAITS,
    .supports = linear_nvfp4,
    .run = BODY(pawl__linear_run_avx512),
};

const pawl_kernel pawl__k_linear_mxfp4_avx512 = {
    .id = "linear.mxfp4:avx512",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CPU,
    .isa = AVX512,
    .m_min = 1,
    .traits = TRAITS,
    .supports = linear_mxfp4,
    .run = BODY(pawl__linear_run_avx512),
};
