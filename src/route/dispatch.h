/* In which number format one layer's rows travel to the ranks that hold their experts. One resolver for every platform and
 * mode; asked per layer, because a checkpoint may hold layers of several formats. */
#ifndef PAWL_ROUTE_DISPATCH_H
#define PAWL_ROUTE_DISPATCH_H

#include "route/route.h"

typedef enum pawl_wire { PAWL_WIRE_AUTO, PAWL_WIRE_BF16, PAWL_WIRE_FP8, PAWL_WIRE_INT8, PAWL_WIRE_NVFP4 } pawl_wire;

/* The family of kernels that runs the experts, as far as it matters to the wire. */
typedef enum pawl_runner { PAWL_RUNNER_OTHER, PAWL_RUNNER_CUTEDSL, PAWL_RUNNER_CUTLASS } pawl_runner;

typedef struct pawl_dispatch_ask {
    pawl_wire option;              /* what the user asked for; AUTO: nothing */
    int legacy_bf16;               /* the deprecated switch that asks for bf16 */
    pawl_quant w;                  /* this layer's expert weights, as they are on disk */
    int input_scale;               /* this layer carries a global scale for its quantised inputs */
    pawl_wire normal, low_latency; /* what this layer's quantisation config names for each mode; AUTO: nothing */
    int is_low_latency;            /* which of the two modes */
    pawl_runner runner;
    int npu;
} pawl_dispatch_ask;

typedef struct pawl_dispatch {
    pawl_wire wire; /* never AUTO */
    int rule;       /* 0..6, the first of the ordered list that matched */
    pawl_reason why;
} pawl_dispatch;

/* PAWL_EINVAL: an input scale on a layer whose weights are not quantised. */
pawl_status pawl__dispatch_resolve(const pawl_dispatch_ask *ask, pawl_dispatch *out, pawl_err *err);

/* "bf16", "fp8", "int8", "nvfp4", "auto". */
const char *pawl__wire_word(pawl_wire w);
pawl_status pawl__wire_parse(const char *word, pawl_wire *out, pawl_err *err);

#endif
