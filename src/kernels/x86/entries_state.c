/* The x86 entries of the ops without weights. Constant data and predicates without instruction-set flags, as in entries.c. */
#include "kernels/x86/attn.h"
#include "kernels/x86/x86.h"

#if defined(__x86_64__)
#define BODY(fn) fn
#else
#define BODY(fn) NULL
#endif

enum {
    AVX2 = PAWL_ISA_AVX2 | PAWL_ISA_FMA,
    AVX512 = AVX2 | PAWL_ISA_AVX512F | PAWL_ISA_AVX512BW | PAWL_ISA_AVX512DQ | PAWL_ISA_AVX512VL,
    HEAD_MAX = 512
};

static bool f32_on_host(const pawl_query *q, pawl_reason *why)
{
    if (q->at != PAWL_SPACE_HOST) {
        pawl__reason(why, "needs operands in host memory");
        return false;
    }
    if (q->a != PAWL_F32 || q->out != PAWL_F32 || q->c != PAWL_F32) {
        pawl__reason(why, "needs f32 in, out and cache (a=%s out=%s c=%s)", pawl__dtype_word(q->a),
                     pawl__dtype_word(q->out), pawl__dtype_word(q->c));
        return false;
    }
    return true;
}

static bool attn(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    (void)caps;
    if (!f32_on_host(q, why)) return false;
    if (q->k % 16 == 0 && q->k <= HEAD_MAX) return true;
    pawl__reason(why, "needs a head size of whole 16s up to %d (d=%lld)", HEAD_MAX, (long long)q->k);
    return false;
}

size_t pawl__attn_scratch(const pawl_query *q, int64_t m, int threads)
{
    (void)m;
    size_t slots = 2 * (size_t)PAWL_ATTN_SLOTS * (size_t)(q->k + 2) * sizeof(float);
    return (size_t)threads * (pawl__attn_thread_bytes(q->k) + slots);
}

enum { TRAITS = PAWL_TRAIT_VERIFY | PAWL_TRAIT_ROW_INVARIANT | PAWL_TRAIT_RETRYABLE };

const pawl_kernel pawl__k_attn_f32_avx2_tiles = {
    .id = "attn.f32:avx2-tiles",
    .op = PAWL_OP_ATTN,
    .arch = PAWL_ARCH_CPU,
    .isa = AVX2,
    .m_min = 1,
    .traits = TRAITS,
    .supports = attn,
    .scratch = pawl__attn_scratch,
    .run = BODY(pawl__attn_run_avx2),
};

const pawl_kernel pawl__k_attn_f32_avx512_tiles = {
    .id = "attn.f32:avx512-tiles",
    .op = PAWL_OP_ATTN,
    .arch = PAWL_ARCH_CPU,
    .isa = AVX512,
    .m_min = 1,
    .traits = TRAITS,
    .supports = attn,
    .scratch = pawl__attn_scratch,
    .run = BODY(pawl__attn_run_avx512),
};
