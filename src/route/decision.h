/* A decision: the route of one query, with the reason for every kernel that was passed over. */
#ifndef PAWL_ROUTE_DECISION_H
#define PAWL_ROUTE_DECISION_H

#include "route/policy.h"

enum {
    PAWL_ROUTE_LIST = 96,  /* entries of the longest list that the router accepts */
    PAWL_ROUTE_TUNED = 16, /* tuned spans of one query that are read */
    PAWL_ROUTE_SPANS = 2 * (PAWL_ROUTE_LIST + PAWL_ROUTE_TUNED) + 1, /* every bound of a kernel can begin a span */
    PAWL_ROUTE_REFUSALS = 3 * PAWL_ROUTE_LIST
};

typedef struct pawl_span {
    int64_t m_min, m_max; /* m_max 0: no upper bound */
    const pawl_kernel *kernel;
} pawl_span;

typedef struct pawl_refusal {
    const pawl_kernel *kernel;
    int64_t m_min, m_max; /* the row counts in which it was passed over */
    pawl_reason why;
} pawl_refusal;

/* Kernels that failed while running and were passed over since. Owned by the plan. */
typedef struct pawl_failures {
    int n;
    pawl_refusal list[PAWL_ROUTE_LIST];
} pawl_failures;

typedef struct pawl_decision {
    pawl_query query; /* m = PAWL_M_ANY */
    int n_spans;
    pawl_span spans[PAWL_ROUTE_SPANS]; /* rising, from 1 to infinity, no gap, no overlap */
    int n_refusals;
    pawl_refusal refusals[PAWL_ROUTE_REFUSALS];
    /* All entries that fit, best first, with the row counts that they serve: what a failed retryable run goes on to. */
    int n_fit;
    pawl_span fit[PAWL_ROUTE_LIST];
    pawl_failures *failures; /* NULL in a decision that no plan owns: nothing is remembered */
} pawl_decision;

/* Chooses. ex == NULL: pure, entries without a body count (invented machines) and prepare is not called. With ex, entries
 * that are not built here are passed over, and prepare may decline.
 * PAWL_EUNSUPPORTED: no kernel serves some row count, or a forced one cannot; err names op, kernels and reasons. */
pawl_status pawl__route(pawl_kernel_list list, const pawl_query *q, const pawl_caps *caps, const pawl_policy *policy,
                        pawl_exec *ex, pawl_decision *out, pawl_err *err);

/* Made for another kind of device, another processor family or another weight format: texts for people leave it out, nobody
 * expects it there. */
int pawl__kernel_apart(const pawl_kernel *k, const pawl_caps *caps, const pawl_query *q);

/* The kernel for m >= 1 rows; never NULL in a decision that pawl__route filled. */
const pawl_kernel *pawl__decision_kernel(const pawl_decision *d, int64_t m);

/* Runs the op on m rows; m is the row count that spans are looked up by. m == 0 returns PAWL_OK without calling anything.
 * When a retryable kernel fails, the next one that fits takes over for good, and the log says so once; other failures
 * are the caller's, with kernel and query named. args: the op's record (op/<op>.h). */
pawl_status pawl__op_run(const pawl_decision *d, int64_t m, const void *args, pawl_exec *ex, pawl_err *err);

#endif
