/* Running a decision: the look-up by row count, and what happens when a kernel fails. */
#include <string.h>

#include "base/log.h"
#include "base/status.h"
#include "route/decision.h"

/* Kernels that are out of the game: those that the plan remembers and those of this call. */
typedef struct failed_set {
    int n;
    const pawl_kernel *list[PAWL_ROUTE_LIST];
} failed_set;

static int has_failed(const failed_set *f, const pawl_kernel *k)
{
    for (int i = 0; i < f->n; i++) {
        if (f->list[i] == k) return 1;
    }
    return 0;
}

/* The span's kernel, or the best other one that fits, is built and has not failed. NULL when none is left. */
static const pawl_kernel *next_kernel(const pawl_decision *d, int64_t m, const failed_set *failed)
{
    const pawl_kernel *k = pawl__decision_kernel(d, m);
    if (!has_failed(failed, k)) return k;
    for (int i = 0; i < d->n_fit; i++) {
        const pawl_span *s = &d->fit[i];
        if (m < s->m_min || (s->m_max && m > s->m_max)) continue;
        if (s->kernel->run && !has_failed(failed, s->kernel)) return s->kernel;
    }
    return NULL;
}

static void remember(const pawl_decision *d, failed_set *failed, const pawl_kernel *k, const char *text)
{
    if (failed->n < PAWL_ROUTE_LIST) failed->list[failed->n++] = k;
    pawl__log_once(PAWL_LOG_WARN, "route", "%s failed and is passed over from now on: %s", k->id, text);
    pawl_failures *kept = d->failures;
    if (!kept || kept->n == PAWL_ROUTE_LIST) return;
    pawl_refusal *r = &kept->list[kept->n++];
    r->kernel = k;
    r->m_min = 1;
    r->m_max = 0;
    pawl__reason(&r->why, "failed while running: %.60s", text);
}

static pawl_status name_kernel(const pawl_decision *d, const pawl_kernel *k, int64_t m, pawl_err *err)
{
    pawl_query q = d->query;
    q.m = m;
    pawl_buf text = {0};
    pawl__query_print(&q, &text);
    pawl_status s = pawl__fail_in(err, "%s in `%s`", k->id, text.data ? text.data : "?");
    pawl__buf_free(&text);
    return s;
}

pawl_status pawl__op_run(const pawl_decision *d, int64_t m, const void *args, pawl_exec *ex, pawl_err *err)
{
    if (m == 0) return PAWL_OK;
    if (m < 0) {
        return pawl__fail(err, PAWL_EINVAL, "op %s: %lld rows", pawl__op_word(d->query.op), (long long)m);
    }
    failed_set failed;
    failed.n = 0;
    for (int i = 0; d->failures && i < d->failures->n; i++) failed.list[failed.n++] = d->failures->list[i].kernel;
    pawl_err local;
    if (!err) err = &local;
    pawl__fail(err, PAWL_EUNSUPPORTED, "op %s: every kernel that fits has failed before", pawl__op_word(d->query.op));
    for (;;) {
        const pawl_kernel *k = next_kernel(d, m, &failed);
        if (!k) return err->status; /* the last failure's sentence */
        pawl_status s =
            k->run ? k->run(args, ex, err) : pawl__fail(err, PAWL_EUNSUPPORTED, "known, but not built here");
        if (s == PAWL_OK) return PAWL_OK;
        pawl_status named = name_kernel(d, k, m, err);
        /* A wrong argument is wrong for every kernel, and who asked to stop does not want another try. */
        if (!(k->traits & PAWL_TRAIT_RETRYABLE) || s == PAWL_EINVAL || s == PAWL_ECANCELED) return named;
        remember(d, &failed, k, err->text);
    }
}
