/* The entries for 64-bit ARM. Known on every machine; their bodies exist in builds for ARM only. */
#ifndef PAWL_KERNELS_ARM_ARM_H
#define PAWL_KERNELS_ARM_ARM_H

#include "op/linear.h"
#include "route/route.h"

extern const pawl_kernel pawl__k_linear_f32_neon;
extern const pawl_kernel pawl__k_linear_f16_neon;
extern const pawl_kernel pawl__k_linear_bf16_neon;
extern const pawl_kernel pawl__k_linear_fp8blk_neon;
extern const pawl_kernel pawl__k_linear_fp8ten_neon;
extern const pawl_kernel pawl__k_linear_fp8ch_neon;
extern const pawl_kernel pawl__k_linear_nvfp4_neon;
extern const pawl_kernel pawl__k_linear_mxfp4_neon;

pawl_status pawl__linear_run_neon(const void *args, pawl_exec *ex, pawl_err *err);

#endif
