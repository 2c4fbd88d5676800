/* Expert MLPs on GPUs, in three layouts. Blackwell's 10.x has a fused family that chooses experts, permutes and multiplies
 * in one launch; it knows only certain routing methods (those that renormalise, as the kernels of TensorRT-LLM ask for),
 * activations and alignments. What it does not cover goes to the next entry with the reason. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/predicates.h"
#include "op/moe.h"

static bool aligned(const pawl_query *q, int64_t i, int64_t h, pawl_reason *why)
{
    return pawl__cuda_multiple("i", q->n, i, why) && pawl__cuda_multiple("h", q->k, h, why);
}

/* The fused family computes the weights itself and divides them by their sum. */
static bool renormalises(const pawl_query *q, pawl_reason *why)
{
    switch ((pawl_moe_method)q->x[2]) {
    case PAWL_ROUTE_RENORMALIZE:
    case PAWL_ROUTE_DEEPSEEK_V3:
    case PAWL_ROUTE_RENORMALIZE_NAIVE:
    case PAWL_ROUTE_SIGMOID_RENORM:
    case PAWL_ROUTE_MINIMAX2:
        return true;
    default:
        pawl__reason(why, "routing method %s is not covered", pawl__moe_method_name((pawl_moe_method)q->x[2]));
        return false;
    }
}

static bool no_bias(const pawl_query *q, pawl_reason *why)
{
    if (!(q->flags & PAWL_QF_BIAS)) return true;
    pawl__reason(why, "does not add expert biases");
    return false;
}

static bool fused(const pawl_query *q, pawl_quant w, int64_t h, pawl_reason *why)
{
    return pawl__cuda_format(q, w, why) && pawl__cuda_bf16(q, why) && renormalises(q, why) && no_bias(q, why) &&
           aligned(q, 128, h, why);
}

static bool fused_bf16(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    (void)caps;
    return fused(q, PAWL_Q_BF16, 64, why); /* weights lie in blocks of 128 bytes along h */
}

static bool fused_fp8blk(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    (void)caps;
    return fused(q, PAWL_Q_FP8BLK, 128, why);
}

static bool fused_nvfp4(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    (void)caps;
    if (!fused(q, PAWL_Q_NVFP4, 128, why)) return false;
    if (q->flags & PAWL_QF_RELU2 && !(q->flags & PAWL_QF_GATED)) {
        pawl__reason(why, "plain relu2 with nvfp4 came out wrong upstream (vllm#52308)");
        return false;
    }
    return true;
}

/* Grouped matrix products with the activation between them: silu and relu2, gated or plain, with or without biases. */
static bool grouped_bf16(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    (void)caps;
    return pawl__cuda_format(q, PAWL_Q_BF16, why) && pawl__cuda_bf16(q, why) && aligned(q, 64, 64, why);
}

static bool grouped_fp8blk(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    (void)caps;
    return pawl__cuda_format(q, PAWL_Q_FP8BLK, why) && pawl__cuda_bf16(q, why) && aligned(q, 128, 128, why);
}

/* The two products of the masked NVFP4 family quantise between them, right after silu(gate) * up. */
static bool masked_nvfp4(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    (void)caps;
    if (!pawl__cuda_format(q, PAWL_Q_NVFP4, why) || !pawl__cuda_bf16(q, why) || !no_bias(q, why)) return false;
    if (q->flags & PAWL_QF_RELU2 || !(q->flags & PAWL_QF_GATED)) {
        pawl__reason(why, "only gated silu");
        return false;
    }
    return aligned(q, 128, 128, why);
}

const pawl_kernel pawl__k_moe_bf16_sm100 = {
    .id = "moe.bf16:sm100-fused",
    .op = PAWL_OP_MOE,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 100,
    .cc_max = 103,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .traits = PAWL_CUDA_FAST,
    .supports = fused_bf16,
    .prepare = pawl__cuda_needs_12_8,
};

const pawl_kernel pawl__k_moe_fp8blk_sm100 = {
    .id = "moe.fp8blk:sm100-fused",
    .op = PAWL_OP_MOE,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 100,
    .cc_max = 103,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .ws = PAWL_SCALE_F32,
    .traits = PAWL_CUDA_FAST,
    .supports = fused_fp8blk,
    .prepare = pawl__cuda_needs_12_8,
};

const pawl_kernel pawl__k_moe_nvfp4_sm100 = {
    .id = "moe.nvfp4:sm100-fused",
    .op = PAWL_OP_MOE,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 100,
    .cc_max = 103,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .ws = PAWL_SCALE_E4M3,
    .traits = PAWL_CUDA_FAST,
    .supports = fused_nvfp4,
    .prepare = pawl__cuda_needs_12_8,
};

const pawl_kernel pawl__k_moe_bf16_sm90 = {
    .id = "moe.bf16:sm90",
    .op = PAWL_OP_MOE,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 90,
    .cc_max = 90,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .traits = PAWL_CUDA_FAST,
    .supports = grouped_bf16,
};

const pawl_kernel pawl__k_moe_fp8blk_sm90 = {
    .id = "moe.fp8blk:sm90",
    .op = PAWL_OP_MOE,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 90,
    .cc_max = 90,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .ws = PAWL_SCALE_F32,
    .traits = PAWL_CUDA_FAST,
    .supports = grouped_fp8blk,
};

/* The floors: every format, shape, activation and routing method. */
const pawl_kernel pawl__k_moe_any_cuda = {
    .id = "moe.any:cuda",
    .op = PAWL_OP_MOE,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 80,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .traits = PAWL_CUDA_GENERIC,
    .supports = pawl__cuda_any_float,
};

const pawl_kernel pawl__k_moe_masked_bf16_sm90 = {
    .id = "moe_masked.bf16:sm90",
    .op = PAWL_OP_MOE_MASKED,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 90,
    .cc_max = 90,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .traits = PAWL_CUDA_FAST,
    .supports = grouped_bf16,
};

const pawl_kernel pawl__k_moe_masked_fp8blk_sm90 = {
    .id = "moe_masked.fp8blk:sm90",
    .op = PAWL_OP_MOE_MASKED,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 90,
    .cc_max = 90,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .ws = PAWL_SCALE_F32,
    .traits = PAWL_CUDA_FAST,
    .supports = grouped_fp8blk,
};

const pawl_kernel pawl__k_moe_masked_bf16_sm100 = {
    .id = "moe_masked.bf16:sm100",
    .op = PAWL_OP_MOE_MASKED,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 100,
    .cc_max = 103,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .traits = PAWL_CUDA_FAST,
    .supports = grouped_bf16,
    .prepare = pawl__cuda_needs_12_8,
};

const pawl_kernel pawl__k_moe_masked_nvfp4_sm100 = {
    .id = "moe_masked.nvfp4:sm100",
    .op = PAWL_OP_MOE_MASKED,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 100,
    .cc_max = 103,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .ws = PAWL_SCALE_E4M3,
    .traits = PAWL_CUDA_FAST,
    .supports = masked_nvfp4,
    .prepare = pawl__cuda_needs_12_8,
};

const pawl_kernel pawl__k_moe_masked_any_cuda = {
    .id = "moe_masked.any:cuda",
    .op = PAWL_OP_MOE_MASKED,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 80,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .traits = PAWL_CUDA_GENERIC,
    .supports = pawl__cuda_any_float,
};

const pawl_kernel pawl__k_moe_grouped_bf16_sm90 = {
    .id = "moe_grouped.bf16:sm90",
    .op = PAWL_OP_MOE_GROUPED,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 90,
    .cc_max = 90,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .traits = PAWL_CUDA_FAST,
    .supports = grouped_bf16,
};

const pawl_kernel pawl__k_moe_grouped_fp8blk_sm90 = {
    .id = "moe_grouped.fp8blk:sm90",
    .op = PAWL_OP_MOE_GROUPED,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 90,
    .cc_max = 90,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .ws = PAWL_SCALE_F32,
    .traits = PAWL_CUDA_FAST,
    .supports = grouped_fp8blk,
};

const pawl_kernel pawl__k_moe_grouped_any_cuda = {
    .id = "moe_grouped.any:cuda",
    .op = PAWL_OP_MOE_GROUPED,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 80,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .traits = PAWL_CUDA_GENERIC,
    .supports = pawl__cuda_any_float,
};
