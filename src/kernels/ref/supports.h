/* What the kernels of this folder ask of a query beside ISA and row count. Compiled once, for every processor: the router
 * calls them about machines that are not this one. */
#ifndef PAWL_KERNELS_REF_SUPPORTS_H
#define PAWL_KERNELS_REF_SUPPORTS_H

#include "route/route.h"

/* Operands in host memory, activations, results and cache f32. */
bool pawl__ref_f32(const pawl_query *q, const pawl_caps *caps, pawl_reason *why);
/* The same, and a weight format that a host kernel can decode, with scales of the matching kind, as stored on disk. */
bool pawl__ref_any_weight(const pawl_query *q, const pawl_caps *caps, pawl_reason *why);
/* Linear kernels of one format each, without ACT_FP8 and ACT_INT8; the last one only with ACT_FP8. */
bool pawl__ref_linear_f32(const pawl_query *q, const pawl_caps *caps, pawl_reason *why);
bool pawl__ref_linear_f16(const pawl_query *q, const pawl_caps *caps, pawl_reason *why);
bool pawl__ref_linear_bf16(const pawl_query *q, const pawl_caps *caps, pawl_reason *why);
bool pawl__ref_linear_fp8blk(const pawl_query *q, const pawl_caps *caps, pawl_reason *why);
bool pawl__ref_linear_fp8ten(const pawl_query *q, const pawl_caps *caps, pawl_reason *why);
bool pawl__ref_linear_fp8ch(const pawl_query *q, const pawl_caps *caps, pawl_reason *why);
bool pawl__ref_linear_nvfp4(const pawl_query *q, const pawl_caps *caps, pawl_reason *why);
bool pawl__ref_linear_mxfp4(const pawl_query *q, const pawl_caps *caps, pawl_reason *why);
bool pawl__ref_linear_fp8blk_a8(const pawl_query *q, const pawl_caps *caps, pawl_reason *why);
/* Only with ACT_INT8: NVFP4; FP8 with scales per block, tensor or row. */
bool pawl__ref_linear_nvfp4_i8(const pawl_query *q, const pawl_caps *caps, pawl_reason *why);
bool pawl__ref_linear_fp8_i8(const pawl_query *q, const pawl_caps *caps, pawl_reason *why);
/* Window PAWL_CONV_WINDOW. */
bool pawl__ref_conv(const pawl_query *q, const pawl_caps *caps, pawl_reason *why);
/* Head sizes up to PAWL_REF_HEAD_MAX: vectors of one head live on the stack. */
enum { PAWL_REF_HEAD_MAX = 512 };
bool pawl__ref_attn(const pawl_query *q, const pawl_caps *caps, pawl_reason *why);
/* Chains, not trees; key heads divide value heads. */
bool pawl__ref_gdn(const pawl_query *q, const pawl_caps *caps, pawl_reason *why);
/* At most so many experts: a row's scores live on the stack. */
enum { PAWL_REF_EXPERTS_MAX = 2048 };
bool pawl__ref_moe_route(const pawl_query *q, const pawl_caps *caps, pawl_reason *why);
/* Experts: pawl__ref_any_weight without quantised activations; and with ACT_INT8. */
bool pawl__ref_moe(const pawl_query *q, const pawl_caps *caps, pawl_reason *why);
bool pawl__ref_moe_i8(const pawl_query *q, const pawl_caps *caps, pawl_reason *why);

#endif
