/* What `pawl explain` does once somebody can walk a model: builds the plan for this machine or for a described one and
 * prints it. */
#ifndef PAWL_TOOL_EXPLAIN_H
#define PAWL_TOOL_EXPLAIN_H

#include "base/buf.h"
#include "route/plan.h"

typedef struct pawl_explain_options {
    const char *caps_text;     /* NULL: this machine; else a description such as "cuda cc=90 sms=132" */
    const pawl_policy *target; /* NULL: the default */
    const pawl_policy *draft;  /* NULL: inherited from the target */
    int json;
} pawl_explain_options;

/* Adds all of a model's queries to the plan. at says where the tensors would lie: on PAWL_SPACE_CUDA activations are bf16.
 * ctx is whatever the walker needs. */
typedef pawl_status (*pawl_walk_fn)(pawl_plan *plan, pawl_space at, void *ctx, pawl_err *err);

/* Appends the explanation to out. On this machine kernels that are not built are passed over, as they would be in a run; on
 * a described one every entry counts that its predicate lets in. */
pawl_status pawl__tool_explain(const pawl_kernel_table *table, const pawl_explain_options *o, pawl_walk_fn walk,
                               void *ctx, pawl_buf *out, pawl_err *err);

#endif
