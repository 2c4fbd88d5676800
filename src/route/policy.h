/* What the user may say about the choice of kernels, and the measured table that moves crossovers. Plain data: a target's
 * policy and a draft's lie side by side, nothing is global. */
#ifndef PAWL_ROUTE_POLICY_H
#define PAWL_ROUTE_POLICY_H

#include "route/route.h"

enum { PAWL_POLICY_FORCES = 32, PAWL_POLICY_BANS = 64 };

/* For this query (m = PAWL_M_ANY) the kernel goes first in these row counts. Within its limits only: see
 * PAWL_TRAIT_TUNABLE. */
typedef struct pawl_threshold {
    pawl_query query;
    const pawl_kernel *kernel;
    int64_t m_min, m_max; /* m_max 0: no upper bound */
} pawl_threshold;

typedef struct pawl_thresholds {
    size_t n;
    const pawl_threshold *rows;
} pawl_thresholds;

typedef struct pawl_force {
    pawl_op op;
    const char *id;
} pawl_force;

typedef struct pawl_policy {
    int act_int8; /* the network's queries carry ACT_INT8 where their format allows it; for texts, never read by route */
    uint64_t isa_mask; /* PAWL_ISA_* that kernels may use; start from pawl__policy_default() */
    int deterministic; /* one row-invariant kernel serves all row counts */
    /* Where an op is forced, only its forced kernels may serve it: a query that they cannot serve for every row count is
     * an error. Several kernels may be forced for one op (one per weight format, or one per span). */
    pawl_force forces[PAWL_POLICY_FORCES];
    int n_forces;
    int soft_forces; /* forces are wishes: where they do not fit, the list decides (a draft's policy that was inherited) */
    const char *bans[PAWL_POLICY_BANS]; /* kernel ids that are never picked */
    int n_bans;
    const pawl_thresholds *thresholds; /* NULL: the entries' own row counts; borrowed */
} pawl_policy;

/* Everything allowed, nothing forced. */
pawl_policy pawl__policy_default(void);
/* What a draft gets when the user says nothing: the target's policy with soft forces. */
pawl_policy pawl__policy_draft(const pawl_policy *target);

/* "OP=ID" as in --kernel. The stored id is the table's own string. PAWL_EINVAL: unknown op or kernel, or too many. */
pawl_status pawl__policy_force(pawl_policy *p, const char *text, const pawl_kernel_table *table, pawl_err *err);
/* A kernel's id as in --ban. */
pawl_status pawl__policy_ban(pawl_policy *p, const char *id, const pawl_kernel_table *table, pawl_err *err);
/* NULL when no list has an entry of that id (of n bytes). */
const pawl_kernel *pawl__kernel_find(const pawl_kernel_table *table, const char *id, size_t n);

#endif
