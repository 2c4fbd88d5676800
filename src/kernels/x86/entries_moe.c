/* The x86 entries of the expert ops. Constant data and predicates without instruction-set flags, as in entries.c. */
#include "kernels/x86/moe_body.h"
#include "kernels/x86/supports.h"
#include "kernels/x86/x86.h"

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

static bool experts(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    (void)caps;
    return pawl__x86_operands(q, why) && pawl__x86_whole_groups("h", q->k, q->w, why) &&
           pawl__x86_whole_groups("i", q->n, q->w, why);
}

const pawl_kernel pawl__k_moe_any_avx2 = {
    .id = "moe.any:avx2",
    .op = PAWL_OP_MOE,
    .arch = PAWL_ARCH_CPU,
    .isa = AVX2,
    .m_min = 1,
    .traits = TRAITS,
    .supports = experts,
    .scratch = pawl__moe_scratch,
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
    .scratch = pawl__moe_masked_scratch,
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
    .scratch = pawl__moe_grouped_scratch,
    .run = BODY(pawl__moe_grouped_run_avx2),
};

const pawl_kernel pawl__k_moe_any_avx512 = {
    .id = "moe.any:avx512",
    .op = PAWL_OP_MOE,
    .arch = PAWL_ARCH_CPU,
    .isa = AVX512,
    .m_min = 1,
    .traits = TRAITS,
    .supports = experts,
    .scratch = pawl__moe_scratch,
    .run = BODY(pawl__moe_run_avx512),
};

const pawl_kernel pawl__k_moe_masked_any_avx512 = {
    .id = "moe_masked.any:avx512",
    .op = PAWL_OP_MOE_MASKED,
    .arch = PAWL_ARCH_CPU,
    .isa = AVX512,
    .m_min = 1,
    .traits = TRAITS,
    .supports = experts,
    .scratch = pawl__moe_masked_scratch,
    .run = BODY(pawl__moe_masked_run_avx512),
};

const pawl_kernel pawl__k_moe_grouped_any_avx512 = {
    .id = "moe_grouped.any:avx512",
    .op = PAWL_OP_MOE_GROUPED,
    .arch = PAWL_ARCH_CPU,
    .isa = AVX512,
    .m_min = 1,
    .traits = TRAITS,
    .supports = experts,
    .scratch = pawl__moe_grouped_scratch,
    .run = BODY(pawl__moe_grouped_run_avx512),
};
