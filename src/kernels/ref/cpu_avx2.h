/* The row-wise reference kernels compiled a second time for AVX2 + FMA (cmake/isa.cmake): the same source and therefore the
 * same bits, in vector instructions. Ids are those of ref.h with ":avx2" at the end. On other processors these symbols do
 * not exist; the lists ask for __x86_64__ before naming them. */
#ifndef PAWL_KERNELS_REF_CPU_AVX2_H
#define PAWL_KERNELS_REF_CPU_AVX2_H

#include "route/route.h"

extern const pawl_kernel pawl__k_embed_any_avx2;
extern const pawl_kernel pawl__k_rmsnorm_f32_avx2;
extern const pawl_kernel pawl__k_rope_f32_avx2;
extern const pawl_kernel pawl__k_kv_store_f32_avx2;
extern const pawl_kernel pawl__k_attn_f32_avx2;
extern const pawl_kernel pawl__k_conv_f32_avx2;
extern const pawl_kernel pawl__k_gdn_f32_avx2;
extern const pawl_kernel pawl__k_gdn_verify_f32_avx2;
extern const pawl_kernel pawl__k_gdn_replay_f32_avx2;
extern const pawl_kernel pawl__k_act_f32_avx2;
extern const pawl_kernel pawl__k_add_f32_avx2;
extern const pawl_kernel pawl__k_moe_route_f32_avx2;

#endif
