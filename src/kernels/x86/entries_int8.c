/* The x86 entries of the int8 policy. Constant data and predicates without instruction-set flags, as in entries.c. */
#include "kernels/x86/int8.h"
#include "kernels/x86/supports.h"
#include "kernels/x86/x86.h"

#if defined(__x86_64__)
#define BODY(fn) fn
#else
#define BODY(fn) NULL
#endif

enum {
    AVX2 = PAWL_ISA_AVX2 | PAWL_ISA_FMA | PAWL_ISA_F16C,
    AVX512VNNI = AVX2 | PAWL_ISA_AVX512F | PAWL_ISA_AVX512BW | PAWL_ISA_AVX512DQ | PAWL_ISA_AVX512VL |
                 PAWL_ISA_AVX512VNNI | PAWL_ISA_AVX512VBMI,
    TRAITS = PAWL_TRAIT_VERIFY | PAWL_TRAIT_ROW_INVARIANT | PAWL_TRAIT_RETRYABLE
};

static bool int8(const pawl_query *q, pawl_reason *why)
{
    if (!(q->flags & PAWL_QF_ACT_INT8)) {
        pawl__reason(why, "needs int8 activations (found f32 inside)");
        return false;
    }
    if (!pawl__has_int8(q->w)) {
        pawl__reason(why, "%s weights have no int8 form", pawl__quant_word(q->w));
        return false;
    }
    pawl_query plain = *q;
    plain.flags &= ~(uint32_t)PAWL_QF_ACT_INT8;
    return pawl__x86_operands(&plain, why);
}

static bool linear_nvfp4(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    (void)caps;
    if (q->w != PAWL_Q_NVFP4) {
        pawl__reason(why, "needs nvfp4 weights (found %s)", pawl__quant_word(q->w));
        return false;
    }
    return int8(q, why) && pawl__x86_whole_groups("k", q->k, q->w, why);
}

static bool linear_fp8(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    (void)caps;
    if (q->w == PAWL_Q_NVFP4) {
        pawl__reason(why, "needs fp8 weights (found nvfp4)");
        return false;
    }
    return int8(q, why);
}

const pawl_kernel pawl__k_linear_nvfp4_i8_avx512vnni = {
    .id = "linear.nvfp4-i8:avx512vnni",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CPU,
    .isa = AVX512VNNI,
    .m_min = 1,
    .traits = TRAITS,
    .supports = linear_nvfp4,
    .scratch = BODY(pawl__linear_int8_scratch),
    .run = BODY(pawl__linear_int8_run_avx512vnni),
};

const pawl_kernel pawl__k_linear_fp8_i8_avx512vnni = {
    .id = "linear.fp8-i8:avx512vnni",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CPU,
    .isa = AVX512VNNI,
    .m_min = 1,
    .traits = TRAITS,
    .supports = linear_fp8,
    .scratch = BODY(pawl__linear_int8_scratch),
    .run = BODY(pawl__linear_int8_run_avx512vnni),
};

const pawl_kernel pawl__k_linear_nvfp4_i8_avx2 = {
    .id = "linear.nvfp4-i8:avx2",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CPU,
    .isa = AVX2,
    .m_min = 1,
    .traits = TRAITS,
    .supports = linear_nvfp4,
    .scratch = BODY(pawl__linear_int8_scratch),
    .run = BODY(pawl__linear_int8_run_avx2),
};

const pawl_kernel pawl__k_linear_fp8_i8_avx2 = {
    .id = "linear.fp8-i8:avx2",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CPU,
    .isa = AVX2,
    .m_min = 1,
    .traits = TRAITS,
    .supports = linear_fp8,
    .scratch = BODY(pawl__linear_int8_scratch),
    .run = BODY(pawl__linear_int8_run_avx2),
};

static bool experts(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    (void)caps;
    return int8(q, why) && pawl__x86_whole_groups("h", q->k, q->w, why) && pawl__x86_whole_groups("i", q->n, q->w, why);
}

const pawl_kernel pawl__k_moe_any_i8_avx512vnni = {
    .id = "moe.any-i8:avx512vnni",
    .op = PAWL_OP_MOE,
    .arch = PAWL_ARCH_CPU,
    .isa = AVX512VNNI,
    .m_min = 1,
    .traits = TRAITS,
    .supports = experts,
    .scratch = BODY(pawl__moe_int8_scratch),
    .run = BODY(pawl__moe_int8_run_avx512vnni),
};

const pawl_kernel pawl__k_moe_any_i8_avx2 = {
    .id = "moe.any-i8:avx2",
    .op = PAWL_OP_MOE,
    .arch = PAWL_ARCH_CPU,
    .isa = AVX2,
    .m_min = 1,
    .traits = TRAITS,
    .supports = experts,
    .scratch = BODY(pawl__moe_int8_scratch),
    .run = BODY(pawl__moe_int8_run_avx2),
};
