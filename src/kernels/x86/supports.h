/* What all x86 kernels ask of a query beside ISA and row count. Plain C, compiled once: the router asks it about machines that
 * are not this one. */
#ifndef PAWL_KERNELS_X86_SUPPORTS_H
#define PAWL_KERNELS_X86_SUPPORTS_H

#include "route/route.h"

/* f32 in and out in host memory, activations not quantised, weights of any format as stored on disk, with the scales of that
 * format. */
bool pawl__x86_operands(const pawl_query *q, pawl_reason *why);

/* Whether k codes of format w along dimension `dim` (its name in the refusal) are whole groups of one block scale: 16 for
 * NVFP4, 32 for MXFP4, no groups otherwise. */
bool pawl__x86_whole_groups(const char *dim, int64_t k, pawl_quant w, pawl_reason *why);

#endif
