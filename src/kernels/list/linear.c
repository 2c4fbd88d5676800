/* Linear layers, best first, the floors of each kind of device last. */
#include "kernels/cuda/cuda.h"
#include "kernels/ref/ref.h"
#include "kernels/x86/x86.h"
#include "kernels/list/lists.h"

/* clang-format off */
const pawl_kernel *const pawl__list_linear[] = {
    &pawl__k_linear_nvfp4_i8_avx512vnni,
    &pawl__k_linear_fp8_i8_avx512vnni,
    &pawl__k_linear_nvfp4_i8_avx2,
    &pawl__k_linear_fp8_i8_avx2,
    &pawl__k_linear_fp8blk_sm90_small,
    &pawl__k_linear_fp8blk_sm90_large,
    &pawl__k_linear_fp8blk_sm100_large,
    &pawl__k_linear_bf16_sm90,
    &pawl__k_linear_bf16_sm100,
    &pawl__k_linear_nvfp4_sm90,
    &pawl__k_linear_nvfp4_sm100,
    &pawl__k_linear_nvfp4_sm120,
    &pawl__k_linear_f32_avx2,
    &pawl__k_linear_f16_avx2,
    &pawl__k_linear_bf16_avx2,
    &pawl__k_linear_fp8blk_avx2,
    &pawl__k_linear_fp8ten_avx2,
    &pawl__k_linear_fp8ch_avx2,
    &pawl__k_linear_nvfp4_avx2,
    &pawl__k_linear_mxfp4_avx2,
    &pawl__k_linear_f32_cuda,
    &pawl__k_linear_f16_cuda,
    &pawl__k_linear_bf16_cuda,
    &pawl__k_linear_fp8blk_cuda,
    &pawl__k_linear_fp8ten_cuda,
    &pawl__k_linear_fp8ch_cuda,
    &pawl__k_linear_nvfp4_cuda,
    &pawl__k_linear_mxfp4_cuda,
    &pawl__k_linear_f32_ref,
    &pawl__k_linear_f16_ref,
    &pawl__k_linear_bf16_ref,
    &pawl__k_linear_fp8blk_ref,
    &pawl__k_linear_fp8ten_ref,
    &pawl__k_linear_fp8ch_ref,
    &pawl__k_linear_nvfp4_ref,
    &pawl__k_linear_mxfp4_ref,
    &pawl__k_linear_fp8blk_a8_ref,
    &pawl__k_linear_nvfp4_i8_ref,
    &pawl__k_linear_fp8_i8_ref,
    NULL,
};
