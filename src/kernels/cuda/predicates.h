/* Conditions that the GPU entries share. Each says no with its reason; portable C, no device needed. */
#ifndef PAWL_KERNELS_CUDA_PREDICATES_H
#define PAWL_KERNELS_CUDA_PREDICATES_H

#include "route/route.h"

/* Entries whose bodies are not written yet: what the traits promise is what the body will have to keep. The generic
 * family adds a row's terms in an order that no other row changes; the fast ones may not. */
enum {
    PAWL_CUDA_GENERIC = PAWL_TRAIT_UNPROVEN | PAWL_TRAIT_VERIFY | PAWL_TRAIT_ROW_INVARIANT | PAWL_TRAIT_CAPTURABLE,
    PAWL_CUDA_FAST = PAWL_TRAIT_UNPROVEN | PAWL_TRAIT_VERIFY | PAWL_TRAIT_CAPTURABLE
};

bool pawl__cuda_format(const pawl_query *q, pawl_quant w, pawl_reason *why);
/* Activations in and out are bf16. */
bool pawl__cuda_bf16(const pawl_query *q, pawl_reason *why);
/* The same or f32. */
bool pawl__cuda_floats(const pawl_query *q, pawl_reason *why);
/* v is a multiple of `of`; name as in the query's text. */
bool pawl__cuda_multiple(const char *name, int64_t v, int64_t of, pawl_reason *why);

/* Ready-made predicates: float activations, and for caches f32 or bf16 as well. */
bool pawl__cuda_any_float(const pawl_query *q, const pawl_caps *caps, pawl_reason *why);
bool pawl__cuda_any_cache(const pawl_query *q, const pawl_caps *caps, pawl_reason *why);

/* prepare of kernels that need CUDA 12.8: what ex's machine has must not be older. An unknown version (0) passes. */
pawl_status pawl__cuda_needs_12_8(const pawl_query *q, pawl_exec *ex, pawl_reason *why);

#endif
