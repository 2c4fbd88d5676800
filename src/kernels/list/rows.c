/* Ops that work row by row: embedding, norm, rotation, activation, sum. */
#include "kernels/cuda/cuda.h"
#include "kernels/ref/cpu_avx2.h"
#include "kernels/ref/ref.h"
#include "kernels/list/lists.h"

const pawl_kernel *const pawl__list_embed[] = {
    &pawl__k_embed_any_cuda,
#ifdef __x86_64__
    &pawl__k_embed_any_avx2,
#endif
    &pawl__k_embed_any_ref,
    NULL,
};

const pawl_kernel *const pawl__list_rmsnorm[] = {
    &pawl__k_rmsnorm_any_cuda,
#ifdef __x86_64__
    &pawl__k_rmsnorm_f32_avx2,
#endif
    &pawl__k_rmsnorm_f32_ref,
    NULL,
};

const pawl_kernel *const pawl__list_rope[] = {
    &pawl__k_rope_any_cuda,
#ifdef __x86_64__
    &pawl__k_rope_f32_avx2,
#endif
    &pawl__k_rope_f32_ref,
    NULL,
};

const pawl_kernel *const pawl__list_act[] = {
    &pawl__k_act_any_cuda,
#ifdef __x86_64__
    &pawl__k_act_f32_avx2,
#endif
    &pawl__k_act_f32_ref,
    NULL,
};

const pawl_kernel *const pawl__list_add[] = {
    &pawl__k_add_any_cuda,
#ifdef __x86_64__
    &pawl__k_add_f32_avx2,
#endif
    &pawl__k_add_f32_ref,
    NULL,
};
