/* What plan.c and explain.c share; nobody else looks inside a plan. */
#ifndef PAWL_ROUTE_PLAN_INTERNAL_H
#define PAWL_ROUTE_PLAN_INTERNAL_H

#include "route/plan.h"

typedef struct pawl_plan_use {
    char *where;
    int count;
} pawl_plan_use;

typedef struct pawl_plan_entry {
    pawl_scope scope;
    pawl_decision decision;
    pawl_failures failures;
    int n_uses;
    pawl_plan_use *uses;
} pawl_plan_entry;

struct pawl_plan {
    const pawl_kernel_table *table;
    const pawl_caps *caps;
    pawl_policy policy[2]; /* by scope */
    pawl_exec *ex;
    int n;
    pawl_plan_entry **entries;
};

/* One block of the explanation. */
void pawl__explain_entry(const pawl_plan *p, const pawl_plan_entry *e, pawl_buf *out);

#endif
