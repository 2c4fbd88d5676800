/* Weights as a model asks for them, in the format that is found on disk.
 *
 * The format of each matrix is decided from its tensors alone, because the lists of exceptions in published configs are
 * sometimes wrong:
 *   X.weight_packed + X.weight_scale e4m3 [N, K/16] + X.weight_global_scale   NVFP4 (compressed-tensors; a divisor)
 *   X.weight_packed + X.weight_scale u8 or e8m0 [N, K/32]                     MXFP4
 *   X.weight u8 [N, K/2] + X.weight_scale e4m3 [N, K/16] + X.weight_scale_2   NVFP4 (ModelOpt; a multiplier)
 *   X.weight u8 [N, K/2] + X.weight_scale u8 or e8m0 [N, K/32]                MXFP4
 *   X.weight e4m3 + X.weight_scale_inv [N/128, K/128]                         FP8 in blocks; f32, bf16, f16 or e8m0 scales
 *   X.weight e4m3 + X.weight_scale, 1 element                                 FP8 per tensor
 *   X.weight e4m3 + X.weight_scale [N] or [N, 1]                              FP8 per row
 *   X.weight bf16, f16 or f32, and no scale beside it                         unquantised
 * Codes stay in the map and are borrowed; f32 block, row and tensor scales are converted once into the checkpoint's arena.
 * Every scale is looked at: NaN, infinite and negative ones are an error; a zero block scale is legal and gives zeros.
 * Codes are not looked at (that would read the whole file): the NaN codes 0x7f and 0xff of e4m3 decode to NaN, as a NaN in
 * a bf16 tensor does, and --check-nan names the op that meets one.
 *
 * Errors are PAWL_EFORMAT with file, tensor, found and expected. All tensors that are read are marked as used. */
#ifndef PAWL_STORE_WEIGHTS_H
#define PAWL_STORE_WEIGHTS_H

#include "op/moe.h"
#include "quant/quant.h"
#include "store/checkpoint.h"

/* The matrix [n, k] called `name` without ".weight", e.g. "model.layers.0.mlp.gate". */
pawl_status pawl__weights_matrix(pawl_checkpoint *ck, const char *name, int64_t n, int64_t k, pawl_wmat *out,
                                 pawl_err *err);
/* True when such a matrix is there in any format. */
int pawl__weights_has_matrix(const pawl_checkpoint *ck, const char *name);

/* A tensor of any float type by its full name, of exactly this shape, as f32 in the checkpoint's arena. */
pawl_status pawl__weights_tensor(pawl_checkpoint *ck, const char *name, int rank, const int64_t *shape, float **out,
                                 pawl_err *err);
/* The same with shape [n], e.g. norms, "…A_log", "…dt_bias". */
pawl_status pawl__weights_vector(pawl_checkpoint *ck, const char *name, int64_t n, float **out, pawl_err *err);

/* e experts of gate, up [i, h] and down [h, i] under prefix ("model.layers.0.mlp.experts"), into out[e]; biases NULL.
 * Fused when PREFIX.gate_up_proj or a packed form of it exists (rows gate then up), else PREFIX.N.{gate,up,down}_proj. In
 * a fused pair the scales are named as beside a matrix, with or without ".weight", and have the experts in front. */
pawl_status pawl__weights_experts(pawl_checkpoint *ck, const char *prefix, int64_t e, int64_t i, int64_t h,
                                  pawl_expert *out, pawl_err *err);

/* The static activation scale of a matrix: X.input_scale, or 1 / X.input_global_scale; 0 when there is none. */
pawl_status pawl__weights_input_scale(pawl_checkpoint *ck, const char *name, float *out, pawl_err *err);

#endif
