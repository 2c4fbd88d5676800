/* The reference kernels: the floor of every list and the one truth about bits. Each follows its op's order of additions
 * (op/<op>.h) as literally as it can; every other CPU kernel is compared with these. They serve any number of rows, need no
 * instruction set, and a row's bits depend on that row alone. */
#ifndef PAWL_KERNELS_REF_REF_H
#define PAWL_KERNELS_REF_REF_H

#include "route/route.h"

extern const pawl_kernel pawl__k_embed_any_ref;

extern const pawl_kernel pawl__k_linear_f32_ref;
extern const pawl_kernel pawl__k_linear_f16_ref;
extern const pawl_kernel pawl__k_linear_bf16_ref;
extern const pawl_kernel pawl__k_linear_fp8blk_ref;
extern const pawl_kernel pawl__k_linear_fp8blk_a8_ref; /* "linear.fp8blk-a8:ref": quantises activations (ACT_FP8) */
extern const pawl_kernel pawl__k_linear_fp8ten_ref;
extern const pawl_kernel pawl__k_linear_fp8ch_ref;
extern const pawl_kernel pawl__k_linear_nvfp4_ref;
extern const pawl_kernel pawl__k_linear_mxfp4_ref;
extern const pawl_kernel pawl__k_linear_nvfp4_i8_ref; /* "linear.nvfp4-i8:ref": under the int8 policy (ACT_INT8) */
extern const pawl_kernel pawl__k_linear_fp8_i8_ref;   /* "linear.fp8-i8:ref": FP8BLK, FP8TEN, FP8CH */

extern const pawl_kernel pawl__k_rmsnorm_f32_ref;
extern const pawl_kernel pawl__k_rope_f32_ref;
extern const pawl_kernel pawl__k_kv_store_f32_ref;
extern const pawl_kernel pawl__k_attn_f32_ref;
extern const pawl_kernel pawl__k_conv_f32_ref;
extern const pawl_kernel pawl__k_conv_replay_f32_ref;
extern const pawl_kernel pawl__k_gdn_f32_ref;
extern const pawl_kernel pawl__k_gdn_verify_f32_ref;
extern const pawl_kernel pawl__k_gdn_replay_f32_ref;
extern const pawl_kernel pawl__k_act_f32_ref;
extern const pawl_kernel pawl__k_add_f32_ref;

extern const pawl_kernel pawl__k_moe_route_f32_ref;
extern const pawl_kernel pawl__k_moe_any_ref;
extern const pawl_kernel pawl__k_moe_any_i8_ref; /* "moe.any-i8:ref" */
extern const pawl_kernel pawl__k_moe_masked_any_ref;
extern const pawl_kernel pawl__k_moe_grouped_any_ref;

#endif
