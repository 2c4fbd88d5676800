/* Gated DeltaNet on GPUs. The fast family differs by chip in how it keeps the state: Hopper in f32, 10.x in bf16 in a pool
 * with a null slot, 12.x in kernels of its own. Stepping (few rows) and the chunked scan (many) are two kernels; their
 * crossover is one chunk of 64 rows. Fast verification knows chains of drafts only, and works where a gdn kernel of its
 * family keeps the state; trees and everything else go to the generic kernel, step by step. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/predicates.h"

enum { CHUNK = 64, HEAD = 128, FAST_GDN = PAWL_CUDA_FAST | PAWL_TRAIT_TUNABLE | PAWL_TRAIT_FAST_STATE };

static bool heads(const pawl_query *q, pawl_dtype state, pawl_reason *why)
{
    if (!pawl__cuda_bf16(q, why)) return false;
    if (q->k != HEAD || q->x[1] != HEAD) {
        pawl__reason(why, "needs dk = dv = 128 (dk=%lld dv=%lld)", (long long)q->k, (long long)q->x[1]);
        return false;
    }
    if (q->c != state) {
        pawl__reason(why, "keeps its state in %s, not %s", pawl__dtype_word(state), pawl__dtype_word(q->c));
        return false;
    }
    return true;
}

static bool fast_f32(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    (void)caps;
    return heads(q, PAWL_F32, why);
}

static bool fast_bf16(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    (void)caps;
    return heads(q, PAWL_BF16, why);
}

static bool verify(const pawl_query *q, pawl_dtype state, pawl_reason *why)
{
    if (!heads(q, state, why)) return false;
    if (q->x[2]) {
        pawl__reason(why, "only chains of drafts, this is a tree");
        return false;
    }
    if (!q->x[3]) {
        pawl__reason(why, "gdn itself does not run in the fast family");
        return false;
    }
    return true;
}

static bool verify_f32(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    (void)caps;
    return verify(q, PAWL_F32, why);
}

static bool verify_bf16(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    (void)caps;
    return verify(q, PAWL_BF16, why);
}

const pawl_kernel pawl__k_gdn_f32_sm90_step = {
    .id = "gdn.f32:sm90-step",
    .op = PAWL_OP_GDN,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 90,
    .cc_max = 90,
    .m_min = 1,
    .m_max = CHUNK - 1,
    .wl = PAWL_LAYOUT_DISK,
    .traits = FAST_GDN,
    .supports = fast_f32,
};

const pawl_kernel pawl__k_gdn_f32_sm90_chunk = {
    .id = "gdn.f32:sm90-chunk",
    .op = PAWL_OP_GDN,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 90,
    .cc_max = 90,
    .m_min = CHUNK,
    .wl = PAWL_LAYOUT_DISK,
    .traits = FAST_GDN,
    .supports = fast_f32,
};

const pawl_kernel pawl__k_gdn_bf16_sm100_step = {
    .id = "gdn.bf16:sm100-step",
    .op = PAWL_OP_GDN,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 100,
    .cc_max = 103,
    .m_min = 1,
    .m_max = CHUNK - 1,
    .wl = PAWL_LAYOUT_DISK,
    .traits = FAST_GDN,
    .supports = fast_bf16,
    .prepare = pawl__cuda_needs_12_8,
};

const pawl_kernel pawl__k_gdn_bf16_sm100_chunk = {
    .id = "gdn.bf16:sm100-chunk",
    .op = PAWL_OP_GDN,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 100,
    .cc_max = 103,
    .m_min = CHUNK,
    .wl = PAWL_LAYOUT_DISK,
    .traits = FAST_GDN,
    .supports = fast_bf16,
    .prepare = pawl__cuda_needs_12_8,
};

const pawl_kernel pawl__k_gdn_f32_sm120_step = {
    .id = "gdn.f32:sm120-step",
    .op = PAWL_OP_GDN,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 120,
    .cc_max = 121,
    .m_min = 1,
    .m_max = CHUNK - 1,
    .wl = PAWL_LAYOUT_DISK,
    .traits = FAST_GDN,
    .supports = fast_f32,
    .prepare = pawl__cuda_needs_12_8,
};

const pawl_kernel pawl__k_gdn_f32_sm120_chunk = {
    .id = "gdn.f32:sm120-chunk",
    .op = PAWL_OP_GDN,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 120,
    .cc_max = 121,
    .m_min = CHUNK,
    .wl = PAWL_LAYOUT_DISK,
    .traits = FAST_GDN,
    .supports = fast_f32,
    .prepare = pawl__cuda_needs_12_8,
};

const pawl_kernel pawl__k_gdn_any_cuda = {
    .id = "gdn.any:cuda",
    .op = PAWL_OP_GDN,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 80,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .traits = PAWL_CUDA_GENERIC,
    .supports = pawl__cuda_any_cache,
};

const pawl_kernel pawl__k_gdn_verify_f32_sm90 = {
    .id = "gdn_verify.f32:sm90",
    .op = PAWL_OP_GDN_VERIFY,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 90,
    .cc_max = 90,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .traits = PAWL_CUDA_FAST,
    .supports = verify_f32,
};

const pawl_kernel pawl__k_gdn_verify_bf16_sm100 = {
    .id = "gdn_verify.bf16:sm100",
    .op = PAWL_OP_GDN_VERIFY,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 100,
    .cc_max = 103,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .traits = PAWL_CUDA_FAST,
    .supports = verify_bf16,
    .prepare = pawl__cuda_needs_12_8,
};

const pawl_kernel pawl__k_gdn_verify_f32_sm120 = {
    .id = "gdn_verify.f32:sm120",
    .op = PAWL_OP_GDN_VERIFY,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 120,
    .cc_max = 121,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .traits = PAWL_CUDA_FAST,
    .supports = verify_f32,
    .prepare = pawl__cuda_needs_12_8,
};

const pawl_kernel pawl__k_gdn_verify_any_cuda = {
    .id = "gdn_verify.any:cuda",
    .op = PAWL_OP_GDN_VERIFY,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 80,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .traits = PAWL_CUDA_GENERIC,
    .supports = pawl__cuda_any_cache,
};

const pawl_kernel pawl__k_gdn_replay_any_cuda = {
    .id = "gdn_replay.any:cuda",
    .op = PAWL_OP_GDN_REPLAY,
    .arch = PAWL_ARCH_CUDA,
    .cc_min = 80,
    .m_min = 1,
    .wl = PAWL_LAYOUT_DISK,
    .traits = PAWL_CUDA_GENERIC,
    .supports = pawl__cuda_any_cache,
};
