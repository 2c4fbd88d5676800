/* The ARM entries: constant data, compiled into every build. Proven under an emulator only: no ARM machine was at hand. */
#include "kernels/arm/arm.h"

#include "kernels/ref/supports.h"

#if defined(__aarch64__)
#define BODY(fn) fn
#else
#define BODY(fn) NULL
#endif

enum { TRAITS = PAWL_TRAIT_VERIFY | PAWL_TRAIT_ROW_INVARIANT | PAWL_TRAIT_RETRYABLE | PAWL_TRAIT_UNPROVEN };

const pawl_kernel pawl__k_linear_f32_neon = {
    .id = "linear.f32:neon",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CPU,
    .isa = PAWL_ISA_NEON,
    .m_min = 1,
    .traits = TRAITS,
    .supports = pawl__ref_linear_f32,
    .run = BODY(pawl__linear_run_neon),
};

const pawl_kernel pawl__k_linear_f16_neon = {
    .id = "linear.f16:neon",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CPU,
    .isa = PAWL_ISA_NEON,
    .m_min = 1,
    .traits = TRAITS,
    .supports = pawl__ref_linear_f16,
    .run = BODY(pawl__linear_run_neon),
};

const pawl_kernel pawl__k_linear_bf16_neon = {
    .id = "linear.bf16:neon",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CPU,
    .isa = PAWL_ISA_NEON,
    .m_min = 1,
    .traits = TRAITS,
    .supports = pawl__ref_linear_bf16,
    .run = BODY(pawl__linear_run_neon),
};

const pawl_kernel pawl__k_linear_fp8blk_neon = {
    .id = "linear.fp8blk:neon",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CPU,
    .isa = PAWL_ISA_NEON,
    .m_min = 1,
    .traits = TRAITS,
    .supports = pawl__ref_linear_fp8blk,
    .run = BODY(pawl__linear_run_neon),
};

const pawl_kernel pawl__k_linear_fp8ten_neon = {
    .id = "linear.fp8ten:neon",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CPU,
    .isa = PAWL_ISA_NEON,
    .m_min = 1,
    .traits = TRAITS,
    .supports = pawl__ref_linear_fp8ten,
    .run = BODY(pawl__linear_run_neon),
};

const pawl_kernel pawl__k_linear_fp8ch_neon = {
    .id = "linear.fp8ch:neon",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CPU,
    .isa = PAWL_ISA_NEON,
    .m_min = 1,
    .traits = TRAITS,
    .supports = pawl__ref_linear_fp8ch,
    .run = BODY(pawl__linear_run_neon),
};

const pawl_kernel pawl__k_linear_nvfp4_neon = {
    .id = "linear.nvfp4:neon",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CPU,
    .isa = PAWL_ISA_NEON,
    .m_min = 1,
    .traits = TRAITS,
    .supports = pawl__ref_linear_nvfp4,
    .run = BODY(pawl__linear_run_neon),
};

const pawl_kernel pawl__k_linear_mxfp4_neon = {
    .id = "linear.mxfp4:neon",
    .op = PAWL_OP_LINEAR,
    .arch = PAWL_ARCH_CPU,
    .isa = PAWL_ISA_NEON,
    .m_min = 1,
    .traits = TRAITS,
    .supports = pawl__ref_linear_mxfp4,
    .run = BODY(pawl__linear_run_neon),
};
