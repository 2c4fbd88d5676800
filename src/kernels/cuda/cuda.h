/* GPU entries: constant data and predicates, compiled into every build so that routing can be asked anywhere. Bodies come
 * with a GPU build; until then run is NULL, and the traits say unproven. A range cc_min..cc_max is one family of chips
 * ("10.x" is 100 to 103); cc_min alone means "this or newer". */
#ifndef PAWL_KERNELS_CUDA_CUDA_H
#define PAWL_KERNELS_CUDA_CUDA_H

#include "route/route.h"

extern const pawl_kernel pawl__k_linear_fp8blk_sm90_small;
extern const pawl_kernel pawl__k_linear_fp8blk_sm90_large;
extern const pawl_kernel pawl__k_linear_fp8blk_sm100_large;
extern const pawl_kernel pawl__k_linear_bf16_sm90;
extern const pawl_kernel pawl__k_linear_bf16_sm100;
extern const pawl_kernel pawl__k_linear_nvfp4_sm90;
extern const pawl_kernel pawl__k_linear_nvfp4_sm100;
extern const pawl_kernel pawl__k_linear_nvfp4_sm120;
extern const pawl_kernel pawl__k_linear_f32_cuda;
extern const pawl_kernel pawl__k_linear_f16_cuda;
extern const pawl_kernel pawl__k_linear_bf16_cuda;
extern const pawl_kernel pawl__k_linear_fp8blk_cuda;
extern const pawl_kernel pawl__k_linear_fp8ten_cuda;
extern const pawl_kernel pawl__k_linear_fp8ch_cuda;
extern const pawl_kernel pawl__k_linear_nvfp4_cuda;
extern const pawl_kernel pawl__k_linear_mxfp4_cuda;

extern const pawl_kernel pawl__k_moe_bf16_sm100;
extern const pawl_kernel pawl__k_moe_fp8blk_sm100;
extern const pawl_kernel pawl__k_moe_nvfp4_sm100;
extern const pawl_kernel pawl__k_moe_bf16_sm90;
extern const pawl_kernel pawl__k_moe_fp8blk_sm90;
extern const pawl_kernel pawl__k_moe_any_cuda;
extern const pawl_kernel pawl__k_moe_masked_bf16_sm90;
extern const pawl_kernel pawl__k_moe_masked_fp8blk_sm90;
extern const pawl_kernel pawl__k_moe_masked_bf16_sm100;
extern const pawl_kernel pawl__k_moe_masked_nvfp4_sm100;
extern const pawl_kernel pawl__k_moe_masked_any_cuda;
extern const pawl_kernel pawl__k_moe_grouped_bf16_sm90;
extern const pawl_kernel pawl__k_moe_grouped_fp8blk_sm90;
extern const pawl_kernel pawl__k_moe_grouped_any_cuda;

extern const pawl_kernel pawl__k_gdn_f32_sm90_step;
extern const pawl_kernel pawl__k_gdn_f32_sm90_chunk;
extern const pawl_kernel pawl__k_gdn_bf16_sm100_step;
extern const pawl_kernel pawl__k_gdn_bf16_sm100_chunk;
extern const pawl_kernel pawl__k_gdn_f32_sm120_step;
extern const pawl_kernel pawl__k_gdn_f32_sm120_chunk;
extern const pawl_kernel pawl__k_gdn_any_cuda;
extern const pawl_kernel pawl__k_gdn_verify_f32_sm90;
extern const pawl_kernel pawl__k_gdn_verify_bf16_sm100;
extern const pawl_kernel pawl__k_gdn_verify_f32_sm120;
extern const pawl_kernel pawl__k_gdn_verify_any_cuda;
extern const pawl_kernel pawl__k_gdn_replay_any_cuda;

extern const pawl_kernel pawl__k_embed_any_cuda;
extern const pawl_kernel pawl__k_rmsnorm_any_cuda;
extern const pawl_kernel pawl__k_rope_any_cuda;
extern const pawl_kernel pawl__k_kv_store_any_cuda;
extern const pawl_kernel pawl__k_attn_any_cuda;
extern const pawl_kernel pawl__k_conv_any_cuda;
extern const pawl_kernel pawl__k_conv_replay_any_cuda;
extern const pawl_kernel pawl__k_act_any_cuda;
extern const pawl_kernel pawl__k_add_any_cuda;
extern const pawl_kernel pawl__k_moe_route_any_cuda;

#endif
