/* The other ops on GPUs: one generic family for compute capability 8.0 and newer. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/predicates.h"

static bool conv(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    (void)caps;
    if (!pawl__cuda_floats(q, why)) return false;
    if (q->k == 4) return true;
    pawl__reason(why, "needs window 4 (window=%lld)", (long long)q->k);
    return false;
}

const pawl_kernel pawl__k_embed_any_cuda = {
    .id = "embed.any:cuda",
    .op = PAWL_OP_EMBED,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 80,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .traits = PAWL_CUDA_GENERIC,
    .supports = pawl__cuda_any_float,
};

const pawl_kernel pawl__k_rmsnorm_any_cuda = {
    .id = "rmsnorm.any:cuda",
    .op = PAWL_OP_RMSNORM,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 80,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .traits = PAWL_CUDA_GENERIC,
    .supports = pawl__cuda_any_float,
};

const pawl_kernel pawl__k_rope_any_cuda = {
    .id = "rope.any:cuda",
    .op = PAWL_OP_ROPE,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 80,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .traits = PAWL_CUDA_GENERIC,
    .supports = pawl__cuda_any_float,
};

const pawl_kernel pawl__k_kv_store_any_cuda = {
    .id = "kv_store.any:cuda",
    .op = PAWL_OP_KV_STORE,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 80,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .traits = PAWL_CUDA_GENERIC,
    .supports = pawl__cuda_any_cache,
};

const pawl_kernel pawl__k_attn_any_cuda = {
    .id = "attn.any:cuda",
    .op = PAWL_OP_ATTN,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 80,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .traits = PAWL_CUDA_GENERIC,
    .supports = pawl__cuda_any_cache,
};

const pawl_kernel pawl__k_conv_any_cuda = {
    .id = "conv.any:cuda",
    .op = PAWL_OP_CONV,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 80,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .traits = PAWL_CUDA_GENERIC,
    .supports = conv,
};

const pawl_kernel pawl__k_conv_replay_any_cuda = {
    .id = "conv_replay.any:cuda",
    .op = PAWL_OP_CONV_REPLAY,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 80,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .traits = PAWL_CUDA_GENERIC,
    .supports = conv,
};

const pawl_kernel pawl__k_act_any_cuda = {
    .id = "act.any:cuda",
    .op = PAWL_OP_ACT,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 80,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .traits = PAWL_CUDA_GENERIC,
    .supports = pawl__cuda_any_float,
};

const pawl_kernel pawl__k_add_any_cuda = {
    .id = "add.any:cuda",
    .op = PAWL_OP_ADD,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 80,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .traits = PAWL_CUDA_GENERIC,
    .supports = pawl__cuda_any_float,
};

const pawl_kernel pawl__k_moe_route_any_cuda = {
    .id = "moe_route.any:cuda",
    .op = PAWL_OP_MOE_ROUTE,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 80,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .traits = PAWL_CUDA_GENERIC,
    .supports = pawl__cuda_any_float,
};
