/* What a checkpoint's tensors are, without knowing what a model expects of them: for inventories. store/weights.h is what
 * reads weights, and checks them. */
#ifndef PAWL_STORE_FORMATS_H
#define PAWL_STORE_FORMATS_H

#include "quant/quant.h"
#include "store/checkpoint.h"

/* The format of the weights that a tensor belongs to: its own, or, for a scale, that of the tensor that it scales.
 * PAWL_Q_NONE for types that hold no weights. *owner: the tensor of the codes, t itself when it is no scale. */
pawl_quant pawl__tensor_format(const pawl_checkpoint *ck, const pawl_tensor *t, const pawl_tensor **owner);
/* Numbers that a tensor holds: two in each byte of packed e2m1 codes, none in a scale. */
int64_t pawl__tensor_parameters(const pawl_checkpoint *ck, const pawl_tensor *t);

#endif
