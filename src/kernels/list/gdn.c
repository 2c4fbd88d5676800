/* Gated DeltaNet: the recurrence, its verification, its replay, and the convolution before it. */
#include "kernels/cuda/cuda.h"
#include "kernels/ref/cpu_avx2.h"
#include "kernels/ref/ref.h"
#include "kernels/list/lists.h"

const pawl_kernel *const pawl__list_gdn[] = {
    &pawl__k_gdn_f32_sm90_step,   &pawl__k_gdn_f32_sm90_chunk,
    &pawl__k_gdn_bf16_sm100_step, &pawl__k_gdn_bf16_sm100_chunk,
    &pawl__k_gdn_f32_sm120_step,  &pawl__k_gdn_f32_sm120_chunk,
    &pawl__k_gdn_any_cuda,
#ifdef __x86_64__
    &pawl__k_gdn_f32_avx2,
#endif
    &pawl__k_gdn_f32_ref,         NULL,
};

const pawl_kernel *const pawl__list_gdn_verify[] = {
    &pawl__k_gdn_verify_f32_sm90,  &pawl__k_gdn_verify_bf16_sm100,
    &pawl__k_gdn_verify_f32_sm120, &pawl__k_gdn_verify_any_cuda,
#ifdef __x86_64__
    &pawl__k_gdn_verify_f32_avx2,
#endif
    &pawl__k_gdn_verify_f32_ref,   NULL,
};

const pawl_kernel *const pawl__list_gdn_replay[] = {
    &pawl__k_gdn_replay_any_cuda,
#ifdef __x86_64__
    &pawl__k_gdn_replay_f32_avx2,
#endif
    &pawl__k_gdn_replay_f32_ref,
    NULL,
};

const pawl_kernel *const pawl__list_conv[] = {
    &pawl__k_conv_any_cuda,
#ifdef __x86_64__
    &pawl__k_conv_f32_avx2,
#endif
    &pawl__k_conv_f32_ref,
    NULL,
};

const pawl_kernel *const pawl__list_conv_replay[] = {
    &pawl__k_conv_replay_any_cuda,
    &pawl__k_conv_replay_f32_ref,
    NULL,
};
