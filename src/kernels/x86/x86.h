/* The x86 kernels' entries: constant data for kernels/list. The bodies are in *_avx2.c, written for AVX2, FMA and F16C,
 * and in *_avx512.c, which need AVX-512 F, BW, DQ and VL beside those; predicates are plain C, so that any build can answer for any machine. */
#ifndef PAWL_KERNELS_X86_X86_H
#define PAWL_KERNELS_X86_X86_H

#include "route/route.h"

extern const pawl_kernel pawl__k_linear_f32_avx2;        /* "linear.f32:avx2" */
extern const pawl_kernel pawl__k_linear_f16_avx2;        /* "linear.f16:avx2" */
extern const pawl_kernel pawl__k_linear_bf16_avx2;       /* "linear.bf16:avx2" */
extern const pawl_kernel pawl__k_linear_fp8blk_avx2;     /* "linear.fp8blk:avx2" */
extern const pawl_kernel pawl__k_linear_fp8ten_avx2;     /* "linear.fp8ten:avx2" */
extern const pawl_kernel pawl__k_linear_fp8ch_avx2;      /* "linear.fp8ch:avx2" */
extern const pawl_kernel pawl__k_linear_nvfp4_avx2;      /* "linear.nvfp4:avx2" */
extern const pawl_kernel pawl__k_linear_mxfp4_avx2;      /* "linear.mxfp4:avx2" */
extern const pawl_kernel pawl__k_linear_f32_avx512;      /* "linear.f32:avx512" */
extern const pawl_kernel pawl__k_linear_f16_avx512;      /* "linear.f16:avx512" */
extern const pawl_kernel pawl__k_linear_bf16_avx512;     /* "linear.bf16:avx512" */
extern const pawl_kernel pawl__k_linear_fp8blk_avx512;   /* "linear.fp8blk:avx512" */
extern const pawl_kernel pawl__k_linear_fp8ten_avx512;   /* "linear.fp8ten:avx512" */
extern const pawl_kernel pawl__k_linear_fp8ch_avx512;    /* "linear.fp8ch:avx512" */
extern const pawl_kernel pawl__k_linear_nvfp4_avx512;    /* "linear.nvfp4:avx512" */
extern const pawl_kernel pawl__k_linear_mxfp4_avx512;    /* "linear.mxfp4:avx512" */
extern const pawl_kernel pawl__k_moe_any_avx2;           /* "moe.any:avx2" */
extern const pawl_kernel pawl__k_moe_masked_any_avx2;    /* "moe_masked.any:avx2" */
extern const pawl_kernel pawl__k_moe_grouped_any_avx2;   /* "moe_grouped.any:avx2" */
extern const pawl_kernel pawl__k_moe_any_avx512;         /* "moe.any:avx512" */
extern const pawl_kernel pawl__k_moe_masked_any_avx512;  /* "moe_masked.any:avx512" */
extern const pawl_kernel pawl__k_moe_grouped_any_avx512; /* "moe_grouped.any:avx512" */
extern const pawl_kernel pawl__k_attn_f32_avx2_tiles;    /* "attn.f32:avx2-tiles" */
extern const pawl_kernel pawl__k_attn_f32_avx512_tiles;  /* "attn.f32:avx512-tiles" */

/* The int8 policy. */
extern const pawl_kernel pawl__k_linear_nvfp4_i8_avx512vnni; /* "linear.nvfp4-i8:avx512vnni" */
extern const pawl_kernel pawl__k_linear_fp8_i8_avx512vnni;   /* "linear.fp8-i8:avx512vnni" */
extern const pawl_kernel pawl__k_linear_nvfp4_i8_avx2;       /* "linear.nvfp4-i8:avx2" */
extern const pawl_kernel pawl__k_linear_fp8_i8_avx2;         /* "linear.fp8-i8:avx2" */
extern const pawl_kernel pawl__k_moe_any_i8_avx512vnni;      /* "moe.any-i8:avx512vnni" */
extern const pawl_kernel pawl__k_moe_any_i8_avx2;            /* "moe.any-i8:avx2" */

#endif
