/* Plans: decisions by scope and query, with who needs them. Decisions are allocated one by one so that the pointers that
 * models hold stay put. */
#include "route/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/status.h"
#include "route/plan_internal.h"

pawl_status pawl__plan_create(const pawl_kernel_table *table, const pawl_caps *caps, const pawl_policy *target,
                              const pawl_policy *draft, pawl_exec *ex, pawl_plan **out, pawl_err *err)
{
    pawl_plan *p = calloc(1, sizeof *p);
    if (!p) return pawl__fail(err, PAWL_ENOMEM, "no memory for a plan");
    p->table = table;
    p->caps = caps;
    p->ex = ex;
    p->policy[PAWL_SCOPE_TARGET] = target ? *target : pawl__policy_default();
    p->policy[PAWL_SCOPE_DRAFT] = draft ? *draft : pawl__policy_draft(&p->policy[PAWL_SCOPE_TARGET]);
    *out = p;
    return PAWL_OK;
}

void pawl__plan_destroy(pawl_plan **pp)
{
    pawl_plan *p = *pp;
    *pp = NULL;
    if (!p) return;
    for (int i = 0; i < p->n; i++) {
        for (int u = 0; u < p->entries[i]->n_uses; u++) free(p->entries[i]->uses[u].where);
        free(p->entries[i]->uses);
        free(p->entries[i]);
    }
    free(p->entries);
    free(p);
}

static pawl_status add_use(pawl_plan_entry *e, const char *where, pawl_err *err)
{
    for (int i = 0; i < e->n_uses; i++) {
        if (strcmp(e->uses[i].where, where) != 0) continue;
        e->uses[i].count++;
        return PAWL_OK;
    }
    pawl_plan_use *more = realloc(e->uses, ((size_t)e->n_uses + 1) * sizeof *more);
    if (!more) return pawl__fail(err, PAWL_ENOMEM, "no memory for a plan");
    e->uses = more;
    char *copy = strdup(where);
    if (!copy) return pawl__fail(err, PAWL_ENOMEM, "no memory for a plan");
    e->uses[e->n_uses++] = (pawl_plan_use){copy, 1};
    return PAWL_OK;
}

/* The decision's block of the explanation goes to the trace: a log line is a test case. */
static void trace(const pawl_plan *p, const pawl_plan_entry *e)
{
    if (!pawl__log_enabled(PAWL_LOG_DEBUG)) return;
    pawl_buf text = {0};
    pawl__explain_entry(p, e, &text);
    for (char *s = text.data, *end; s && *s; s = end + 1) {
        end = strchr(s, '\n');
        if (!end) break;
        *end = 0;
        pawl__log(PAWL_LOG_DEBUG, "route", "%s", s);
    }
    pawl__buf_free(&text);
}

/* A forced kernel that an inherited policy could not keep to is worth a line. */
static void report(const pawl_plan *p, pawl_scope scope, const pawl_decision *d)
{
    const pawl_policy *policy = &p->policy[scope];
    for (int i = 0; policy->soft_forces && i < policy->n_forces; i++) {
        if (policy->forces[i].op != d->query.op) continue;
        for (int r = 0; r < d->n_refusals; r++) {
            if (strcmp(d->refusals[r].kernel->id, policy->forces[i].id) != 0) continue;
            pawl__log_once(PAWL_LOG_INFO, "route", "draft: %s does not fit (%s), falling back to %s",
                           policy->forces[i].id, d->refusals[r].why.text, d->spans[0].kernel->id);
        }
    }
}

static pawl_status new_entry(pawl_plan *p, pawl_scope scope, const pawl_query *q, pawl_plan_entry **out, pawl_err *err)
{
    pawl_plan_entry **more = realloc(p->entries, ((size_t)p->n + 1) * sizeof *more);
    if (!more) return pawl__fail(err, PAWL_ENOMEM, "no memory for a plan");
    p->entries = more;
    pawl_plan_entry *e = calloc(1, sizeof *e);
    if (!e) return pawl__fail(err, PAWL_ENOMEM, "no memory for a plan");
    e->scope = scope;
    pawl_status s = pawl__route(p->table->list[q->op], q, p->caps, &p->policy[scope], p->ex, &e->decision, err);
    if (s != PAWL_OK) {
        free(e);
        return s;
    }
    e->decision.failures = &e->failures;
    p->entries[p->n++] = e;
    *out = e;
    return PAWL_OK;
}

/* Verification works on the state that gdn left: a fast verification kernel may serve only where a gdn kernel of its family
 * does, which is known once that layer's gdn stands in the plan. */
static int fast_state(const pawl_plan *p, pawl_scope scope, const pawl_query *q)
{
    pawl_query gdn = *q;
    gdn.op = PAWL_OP_GDN;
    gdn.x[2] = gdn.x[3] = 0;
    for (int i = 0; i < p->n; i++) {
        const pawl_decision *d = &p->entries[i]->decision;
        if (p->entries[i]->scope != scope || !pawl__query_equal(&d->query, &gdn)) continue;
        for (int s = 0; s < d->n_spans; s++) {
            if (d->spans[s].kernel->traits & PAWL_TRAIT_FAST_STATE) return 1;
        }
    }
    return 0;
}

pawl_status pawl__plan_add(pawl_plan *p, pawl_scope scope, const pawl_query *q, const char *where,
                           const pawl_decision **out, pawl_err *err)
{
    pawl_query key = *q;
    key.m = PAWL_M_ANY;
    if (key.op == PAWL_OP_GDN_VERIFY) key.x[3] = fast_state(p, scope, &key);
    pawl_status s = pawl__query_check(&key, err);
    if (s != PAWL_OK) return err ? pawl__fail_in(err, "%s", where) : s;
    pawl_plan_entry *e = NULL;
    for (int i = 0; i < p->n && !e; i++) {
        if (p->entries[i]->scope == scope && pawl__query_equal(&p->entries[i]->decision.query, &key)) e = p->entries[i];
    }
    int fresh = !e;
    if (fresh) {
        s = new_entry(p, scope, &key, &e, err);
        if (s != PAWL_OK) return err ? pawl__fail_in(err, "%s", where) : s;
    }
    PAWL_TRY(add_use(e, where, err));
    if (fresh) {
        report(p, scope, &e->decision);
        trace(p, e);
    }
    if (out) *out = &e->decision;
    return PAWL_OK;
}

size_t pawl__plan_scratch(const pawl_plan *p, int64_t max_rows, int threads)
{
    size_t most = 0;
    for (int i = 0; i < p->n; i++) {
        const pawl_decision *d = &p->entries[i]->decision;
        /* All that fit, not only the chosen: a failed one is replaced without another allocation. */
        for (int f = 0; f < d->n_fit; f++) {
            const pawl_span *s = &d->fit[f];
            /* a tunable kernel may serve any count that a tuned row gave to it */
            int64_t rows =
                s->m_max && s->m_max < max_rows && !(s->kernel->traits & PAWL_TRAIT_TUNABLE) ? s->m_max : max_rows;
            size_t n = s->kernel->scratch ? s->kernel->scratch(&d->query, rows, threads) : 0;
            if (n > most) most = n;
        }
    }
    return most;
}
