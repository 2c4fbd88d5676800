/* Linear layers on GPUs. FP8 block weights on Hopper have two fast kernels: one with swapped operands for few rows, where
 * the ordinary one leaves most of a 64-row tile idle, and one on wgmma and TMA for many. Their crossover of 32 rows is what
 * serving stacks ship (FlashInfer, vLLM); it is a measured number, so a tuning file may move it. Blackwell's tensor cores
 * take block scales as powers of two, packed; a "10.x" kernel does not run on 12.0. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/predicates.h"

enum { CROSSOVER = 32 };

static bool fp8_fast(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    (void)caps;
    return pawl__cuda_format(q, PAWL_Q_FP8BLK, why) && pawl__cuda_bf16(q, why) &&
           pawl__cuda_multiple("n", q->n, 64, why) && pawl__cuda_multiple("k", q->k, 128, why);
}

static bool bf16_fast(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    (void)caps;
    return pawl__cuda_format(q, PAWL_Q_BF16, why) && pawl__cuda_bf16(q, why) &&
           pawl__cuda_multiple("n", q->n, 64, why) && pawl__cuda_multiple("k", q->k, 64, why);
}

static bool nvfp4_fast(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    (void)caps;
    return pawl__cuda_format(q, PAWL_Q_NVFP4, why) && pawl__cuda_bf16(q, why) &&
           pawl__cuda_multiple("n", q->n, 64, why) && pawl__cuda_multiple("k", q->k, 64, why);
}

static bool generic(const pawl_query *q, pawl_quant w, pawl_reason *why)
{
    return pawl__cuda_format(q, w, why) && pawl__cuda_floats(q, why);
}

static bool generic_f32(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    (void)caps;
    return generic(q, PAWL_Q_F32, why);
}

static bool generic_f16(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    (void)caps;
    return generic(q, PAWL_Q_F16, why);
}

static bool generic_bf16(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    (void)caps;
    return generic(q, PAWL_Q_BF16, why);
}

static bool generic_fp8blk(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    (void)caps;
    return generic(q, PAWL_Q_FP8BLK, why);
}

static bool generic_fp8ten(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    (void)caps;
    return generic(q, PAWL_Q_FP8TEN, why);
}

static bool generic_fp8ch(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    (void)caps;
    return generic(q, PAWL_Q_FP8CH, why);
}

static bool generic_nvfp4(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    (void)caps;
    return generic(q, PAWL_Q_NVFP4, why);
}

static bool generic_mxfp4(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    (void)caps;
    return generic(q, PAWL_Q_MXFP4, why);
}

const pawl_kernel pawl__k_linear_fp8blk_sm90_small = {
    .id = "linear.fp8blk:sm90-small",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 90,
    .cc_max = 90,
    .m_min = 1,
    .m_max = CROSSOVER - 1,
    .wl = PAWL_LAYOUT_DISK,
    .ws = PAWL_SCALE_F32,
    .traits = PAWL_CUDA_FAST | PAWL_TRAIT_TUNABLE,
    .supports = fp8_fast,
    .prepare = pawl__cuda_needs_12_8,
};

const pawl_kernel pawl__k_linear_fp8blk_sm90_large = {
    .id = "linear.fp8blk:sm90-large",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 90,
    .cc_max = 90,
    .m_min = CROSSOVER,
    .wl = PAWL_LAYOUT_DISK,
    .ws = PAWL_SCALE_F32,
    .traits = PAWL_CUDA_FAST | PAWL_TRAIT_TUNABLE,
    .supports = fp8_fast,
};

const pawl_kernel pawl__k_linear_fp8blk_sm100_large = {
    .id = "linear.fp8blk:sm100-large",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 100,
    .cc_max = 103,
    .m_min = CROSSOVER,
    .wl = PAWL_LAYOUT_DISK,
    .ws = PAWL_SCALE_UE8M0,
    .traits = PAWL_CUDA_FAST | PAWL_TRAIT_TUNABLE,
    .supports = fp8_fast,
    .prepare = pawl__cuda_needs_12_8,
};

const pawl_kernel pawl__k_linear_bf16_sm90 = {
    .id = "linear.bf16:sm90",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 90,
    .cc_max = 90,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .traits = PAWL_CUDA_FAST,
    .supports = bf16_fast,
};

const pawl_kernel pawl__k_linear_bf16_sm100 = {
    .id = "linear.bf16:sm100",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 100,
    .cc_max = 103,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .traits = PAWL_CUDA_FAST,
    .supports = bf16_fast,
    .prepare = pawl__cuda_needs_12_8,
};

/* Hopper has no FP4: tiles are unpacked to bf16 on their way to the tensor cores. */
const pawl_kernel pawl__k_linear_nvfp4_sm90 = {
    .id = "linear.nvfp4:sm90-unpack",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 90,
    .cc_max = 90,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .ws = PAWL_SCALE_E4M3,
    .traits = PAWL_CUDA_FAST,
    .supports = nvfp4_fast,
};

const pawl_kernel pawl__k_linear_nvfp4_sm100 = {
    .id = "linear.nvfp4:sm100",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 100,
    .cc_max = 103,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .ws = PAWL_SCALE_E4M3,
    .traits = PAWL_CUDA_FAST,
    .supports = nvfp4_fast,
    .prepare = pawl__cuda_needs_12_8,
};

const pawl_kernel pawl__k_linear_nvfp4_sm120 = {
    .id = "linear.nvfp4:sm120",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 120,
    .cc_max = 121,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .ws = PAWL_SCALE_E4M3,
    .traits = PAWL_CUDA_FAST,
    .supports = nvfp4_fast,
    .prepare = pawl__cuda_needs_12_8,
};

/* Any shape, any float activation, compute capability 8.0 and newer: the floors. */
const pawl_kernel pawl__k_linear_f32_cuda = {
    .id = "linear.f32:cuda",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 80,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .traits = PAWL_CUDA_GENERIC,
    .supports = generic_f32,
};

const pawl_kernel pawl__k_linear_f16_cuda = {
    .id = "linear.f16:cuda",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 80,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .traits = PAWL_CUDA_GENERIC,
    .supports = generic_f16,
};

const pawl_kernel pawl__k_linear_bf16_cuda = {
    .id = "linear.bf16:cuda",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 80,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .traits = PAWL_CUDA_GENERIC,
    .supports = generic_bf16,
};

const pawl_kernel pawl__k_linear_fp8blk_cuda = {
    .id = "linear.fp8blk:cuda",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 80,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .ws = PAWL_SCALE_F32,
    .traits = PAWL_CUDA_GENERIC,
    .supports = generic_fp8blk,
};

const pawl_kernel pawl__k_linear_fp8ten_cuda = {
    .id = "linear.fp8ten:cuda",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 80,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .traits = PAWL_CUDA_GENERIC,
    .supports = generic_fp8ten,
};

const pawl_kernel pawl__k_linear_fp8ch_cuda = {
    .id = "linear.fp8ch:cuda",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 80,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .traits = PAWL_CUDA_GENERIC,
    .supports = generic_fp8ch,
};

const pawl_kernel pawl__k_linear_nvfp4_cuda = {
    .id = "linear.nvfp4:cuda",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 80,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .traits = PAWL_CUDA_GENERIC,
    .supports = generic_nvfp4,
};

const pawl_kernel pawl__k_linear_mxfp4_cuda = {
    .id = "linear.mxfp4:cuda",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 80,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .traits = PAWL_CUDA_GENERIC,
    .supports = generic_mxfp4,
};
