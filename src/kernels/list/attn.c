/* Attention and the store of its keys and values. */
#include "kernels/cuda/cuda.h"
#include "kernels/ref/cpu_avx2.h"
#include "kernels/ref/ref.h"
#include "kernels/list/lists.h"
#include "kernels/x86/x86.h"

const pawl_kernel *const pawl__list_attn[] = {
    &pawl__k_attn_any_cuda,       &pawl__k_attn_f32_avx512_tiles,
    &pawl__k_attn_f32_avx2_tiles,
#ifdef __x86_64__
    &pawl__k_attn_f32_avx2,
#endif
    &pawl__k_attn_f32_ref,        NULL,
};

const pawl_kernel *const pawl__list_kv_store[] = {
    &pawl__k_kv_store_any_cuda,
#ifdef __x86_64__
    &pawl__k_kv_store_f32_avx2,
#endif
    &pawl__k_kv_store_f32_ref,
    NULL,
};
