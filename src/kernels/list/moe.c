/* Expert MLPs in their three layouts, and the choice of experts. */
#include "kernels/cuda/cuda.h"
#include "kernels/ref/cpu_avx2.h"
#include "kernels/ref/ref.h"
#include "kernels/x86/x86.h"
#include "kernels/list/lists.h"

const pawl_kernel *const pawl__list_moe[] = {
    &pawl__k_moe_any_i8_avx512vnni,
    &pawl__k_moe_any_i8_avx2,
    &pawl__k_moe_bf16_sm100,
    &pawl__k_moe_fp8blk_sm100,
    &pawl__k_moe_nvfp4_sm100,
    &pawl__k_moe_bf16_sm90,
    &pawl__k_moe_fp8blk_sm90,
    &pawl__k_moe_any_avx512,
    &pawl__k_moe_any_avx2,
    &pawl__k_moe_any_cuda,
    &pawl__k_moe_any_ref,
    &pawl__k_moe_any_i8_ref,
    NULL,
};

const pawl_kernel *const pawl__list_moe_masked[] = {
    &pawl__k_moe_masked_bf16_sm90,   &pawl__k_moe_masked_fp8blk_sm90, &pawl__k_moe_masked_bf16_sm100,
    &pawl__k_moe_masked_nvfp4_sm100, &pawl__k_moe_masked_any_avx512,  &pawl__k_moe_masked_any_avx2,
    &pawl__k_moe_masked_any_cuda,    &pawl__k_moe_masked_any_ref,     NULL,
};

const pawl_kernel *const pawl__list_moe_grouped[] = {
    &pawl__k_moe_grouped_bf16_sm90,
    &pawl__k_moe_grouped_fp8blk_sm90,
    &pawl__k_moe_grouped_any_avx512,
    &pawl__k_moe_grouped_any_avx2,
    &pawl__k_moe_grouped_any_cuda,
    &pawl__k_moe_grouped_any_ref,
    NULL,
};

const pawl_kernel *const pawl__list_moe_route[] = {
    &pawl__k_moe_route_any_cuda,
#ifdef __x86_64__
    &pawl__k_moe_route_f32_avx2,
#endif
    &pawl__k_moe_route_f32_ref,
    NULL,
};
