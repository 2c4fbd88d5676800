/* The plan of a whole model: one decision per distinct query, made once at load, and the text that explains it.
 * Built by walking a model; owned by the engine (or by whoever explains). Nothing is decided after that but the look-up of
 * a span by row count. */
#ifndef PAWL_ROUTE_PLAN_H
#define PAWL_ROUTE_PLAN_H

#include "base/buf.h"
#include "route/decision.h"

typedef enum pawl_scope { PAWL_SCOPE_TARGET, PAWL_SCOPE_DRAFT } pawl_scope;

typedef struct pawl_plan pawl_plan;

/* table, caps, ex and the policies' thresholds are borrowed and must outlive the plan; the policies are copied.
 * draft NULL: inherited from the target (pawl__policy_draft). ex NULL: a plan to be explained, not run. */
pawl_status pawl__plan_create(const pawl_kernel_table *table, const pawl_caps *caps, const pawl_policy *target,
                              const pawl_policy *draft, pawl_exec *ex, pawl_plan **out, pawl_err *err);
void pawl__plan_destroy(pawl_plan **p);

/* The decision for a query (its m is ignored). Equal queries in one scope share one decision and collect their uses.
 * A gdn_verify is added after its layer's gdn: the plan fills in whether that is served by the chip's fast family.
 * where: who needs it, layers as stars: "layers.*.mlp.experts"; copied. *out lives as long as the plan. */
pawl_status pawl__plan_add(pawl_plan *p, pawl_scope scope, const pawl_query *q, const char *where,
                           const pawl_decision **out, pawl_err *err);

/* Bytes of exec.scratch that the hungriest kernel of the plan may use for up to max_rows rows. */
size_t pawl__plan_scratch(const pawl_plan *p, int64_t max_rows, int threads);

/* Text for people, at most 80 columns wide, and JSON (schema "pawl.explain/1", doc/schema/explain.schema.json). Queries
 * and caps stand in it in their text form: a line of it is a test case. */
void pawl__plan_explain(const pawl_plan *p, pawl_buf *out);
void pawl__plan_explain_json(const pawl_plan *p, pawl_buf *out);

#endif
