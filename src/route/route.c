/* The choice. Every entry of the list is asked whether it could serve the query; those that could are laid over the row
 * counts 1 .. infinity in order of preference: first what a tuning file measured, then the list's own order. */
#include "route/route.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "route/decision.h"

void pawl__reason(pawl_reason *why, const char *fmt, ...)
{
    if (!why) return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why->text, sizeof why->text, fmt, ap);
    va_end(ap);
}

/* Last row count in a form that compares: 0 ("no bound") becomes the largest number. */
static int64_t last(int64_t m_max)
{
    return m_max == 0 ? INT64_MAX : m_max;
}

static int64_t stored(int64_t m_last)
{
    return m_last == INT64_MAX ? 0 : m_last;
}

static int forced_any(const pawl_policy *p, pawl_op op)
{
    for (int i = 0; i < p->n_forces; i++) {
        if (p->forces[i].op == op) return 1;
    }
    return 0;
}

static int forced(const pawl_policy *p, const pawl_kernel *k)
{
    for (int i = 0; i < p->n_forces; i++) {
        if (p->forces[i].op == k->op && strcmp(p->forces[i].id, k->id) == 0) return 1;
    }
    return 0;
}

static int banned(const pawl_policy *p, const char *id)
{
    for (int i = 0; i < p->n_bans; i++) {
        if (strcmp(p->bans[i], id) == 0) return 1;
    }
    return 0;
}

static bool no_isa(const char *why_not, uint64_t missing, pawl_reason *why)
{
    pawl_buf words = {0};
    pawl__isa_print(missing, &words);
    pawl__reason(why, "%s %s", why_not, words.data ? words.data : "?");
    pawl__buf_free(&words);
    return false;
}

/* What the machine must be for this entry. */
static bool fits_machine(const pawl_kernel *k, const pawl_query *q, const pawl_caps *caps, const pawl_policy *p,
                         pawl_reason *why)
{
    static const char *const arch[] = {[PAWL_ARCH_CPU] = "cpu", [PAWL_ARCH_CUDA] = "cuda"};
    if (k->arch != caps->arch) {
        pawl__reason(why, "for %s, this is a %s", arch[k->arch], arch[caps->arch]);
        return false;
    }
    if ((k->arch == PAWL_ARCH_CUDA) != (q->at == PAWL_SPACE_CUDA)) {
        pawl__reason(why, "the tensors are in %s memory", q->at == PAWL_SPACE_CUDA ? "cuda" : "host");
        return false;
    }
    uint64_t missing = k->isa & ~caps->isa;
    if (missing) return no_isa("needs", missing, why);
    missing = k->isa & ~p->isa_mask;
    if (missing) return no_isa("the policy leaves out", missing, why);
    if (k->isa & caps->slow && !forced(p, k)) return no_isa("slow on this machine:", k->isa & caps->slow, why);
    if (k->cc_min && caps->cc < k->cc_min) {
        pawl__reason(why, "needs cc %d%s, this is %d", k->cc_min, k->cc_max == k->cc_min ? "" : " or newer", caps->cc);
        return false;
    }
    if (k->cc_max && caps->cc > k->cc_max) {
        pawl__reason(why, "for cc %d to %d, this is %d", k->cc_min, k->cc_max, caps->cc);
        return false;
    }
    return true;
}

/* Row counts that an entry may be given at all: a tunable one's own are only where it is known to be fast. */
static pawl_span limits(const pawl_kernel *k)
{
    if (k->traits & PAWL_TRAIT_TUNABLE) return (pawl_span){1, 0, k};
    return (pawl_span){k->m_min > 1 ? k->m_min : 1, k->m_max, k};
}

static bool fits_policy(const pawl_kernel *k, const pawl_query *q, const pawl_policy *p, pawl_reason *why)
{
    if (banned(p, k->id)) {
        pawl__reason(why, "banned");
        return false;
    }
    if (p->deterministic) {
        pawl_span all = limits(k);
        if (!(k->traits & PAWL_TRAIT_ROW_INVARIANT)) {
            pawl__reason(why, "deterministic: its bits depend on the number of rows");
            return false;
        }
        if (all.m_min > 1 || all.m_max != 0) {
            pawl__reason(why, "deterministic: does not serve every row count");
            return false;
        }
    }
    int verifies = q->op == PAWL_OP_GDN_VERIFY || (q->flags & PAWL_QF_VERIFY);
    if (verifies && !(k->traits & PAWL_TRAIT_VERIFY)) {
        pawl__reason(why, "cannot serve rows that may be rolled back");
        return false;
    }
    return true;
}

/* The whole question for one entry, rows aside. */
static bool fits(const pawl_kernel *k, const pawl_query *q, const pawl_caps *caps, const pawl_policy *p, pawl_exec *ex,
                 pawl_reason *why)
{
    pawl__reason(why, "declined without a reason");
    if (!fits_machine(k, q, caps, p, why)) return false;
    /* The store packs weights as the chosen kernel wants them; only what is packed already must match. */
    if (q->wl != PAWL_LAYOUT_DISK && q->wl != k->wl) {
        pawl__reason(why, "the weights are packed for other kernels");
        return false;
    }
    if (k->supports && !k->supports(q, caps, why)) return false;
    if (k->ws != PAWL_SCALE_NONE && q->ws != k->ws && !(k->ws == PAWL_SCALE_F32 && q->ws == PAWL_SCALE_UE8M0)) {
        pawl__reason(why, "wants %s scales, these are %s", pawl__scale_word(k->ws), pawl__scale_word(q->ws));
        return false;
    }
    if (!fits_policy(k, q, p, why)) return false;
    if (!ex) return true;
    if (!k->run) {
        pawl__reason(why, "not built here");
        return false;
    }
    return !k->prepare || k->prepare(q, ex, why) == PAWL_OK;
}

static void refuse(pawl_decision *d, const pawl_kernel *k, int64_t m_min, int64_t m_max, const pawl_reason *why)
{
    if (d->n_refusals == PAWL_ROUTE_REFUSALS) return; /* cannot happen: three a kernel have room */
    pawl_refusal *r = &d->refusals[d->n_refusals++];
    r->kernel = k;
    r->m_min = m_min;
    r->m_max = m_max;
    r->why = *why;
}

/* One way to serve some row counts, in order of preference. */
typedef struct choices {
    int n;
    pawl_span list[PAWL_ROUTE_LIST + PAWL_ROUTE_TUNED];
} choices;

static int is_fit(const pawl_decision *d, const pawl_kernel *k)
{
    for (int i = 0; i < d->n_fit; i++) {
        if (d->fit[i].kernel == k) return 1;
    }
    return 0;
}

/* The tuned rows of this query whose kernels fit, each cut to the kernel's limits. */
static void add_tuned(const pawl_decision *d, const pawl_thresholds *t, choices *c)
{
    for (size_t i = 0; t && i < t->n && c->n < PAWL_ROUTE_TUNED; i++) {
        const pawl_threshold *row = &t->rows[i];
        if (!pawl__query_equal(&row->query, &d->query) || !is_fit(d, row->kernel)) continue;
        pawl_span s = limits(row->kernel);
        if (row->m_min > s.m_min) s.m_min = row->m_min;
        if (last(row->m_max) < last(s.m_max)) s.m_max = row->m_max;
        if (s.m_min <= last(s.m_max)) c->list[c->n++] = s;
    }
}

static const pawl_kernel *first_for(const choices *c, int64_t m)
{
    for (int i = 0; i < c->n; i++) {
        if (m >= c->list[i].m_min && m <= last(c->list[i].m_max)) return c->list[i].kernel;
    }
    return NULL;
}

/* The end of the stretch that begins at m in which the same choices apply. */
static int64_t stretch_end(const choices *c, int64_t m)
{
    int64_t end = INT64_MAX;
    for (int i = 0; i < c->n; i++) {
        int64_t lo = c->list[i].m_min, hi = last(c->list[i].m_max);
        if (lo > m && lo - 1 < end) end = lo - 1;
        if (hi >= m && hi < end) end = hi;
    }
    return end;
}

/* Fills the spans. Returns the first row count that nothing serves, or 0. */
static int64_t lay_spans(const choices *c, pawl_decision *d)
{
    int64_t hole = 0;
    for (int64_t m = 1;;) {
        int64_t end = stretch_end(c, m);
        const pawl_kernel *k = first_for(c, m);
        if (!k) {
            if (!hole) hole = m;
        } else if (d->n_spans > 0 && d->spans[d->n_spans - 1].kernel == k &&
                   last(d->spans[d->n_spans - 1].m_max) == m - 1) {
            d->spans[d->n_spans - 1].m_max = stored(end);
        } else {
            d->spans[d->n_spans++] = (pawl_span){m, stored(end), k};
        }
        if (end == INT64_MAX) return hole;
        m = end + 1;
    }
}

/* A kernel that fits and stands before the one chosen, but outside its row counts: its reason is those counts. */
static void refuse_outside(pawl_decision *d, int rank, const pawl_span *s)
{
    for (int side = 0; side < 2; side++) {
        int64_t lo = side == 0 ? 1 : last(s->m_max) == INT64_MAX ? INT64_MAX : s->m_max + 1;
        int64_t hi = side == 0 ? s->m_min - 1 : INT64_MAX;
        int64_t from = 0, to = 0;
        for (int i = 0; i < d->n_spans; i++) {
            int64_t a = d->spans[i].m_min, b = last(d->spans[i].m_max);
            if (a < lo) a = lo;
            if (b > hi) b = hi;
            if (a > b || lo == INT64_MAX) continue;
            int later = 1;
            for (int j = 0; j <= rank; j++) later &= d->fit[j].kernel != d->spans[i].kernel;
            if (!later) continue;
            if (!from) from = a;
            to = b;
        }
        if (!from) continue;
        pawl_reason why;
        if (s->m_max == 0) {
            pawl__reason(&why, "serves %lld rows and more", (long long)s->m_min);
        } else {
            pawl__reason(&why, "serves %lld to %lld rows", (long long)s->m_min, (long long)s->m_max);
        }
        refuse(d, s->kernel, from, stored(to), &why);
    }
}

/* "linear.fp8blk-a8:ref" is made for the format that its id names, "linear.fp8-i8:ref" for the three of fp8, "moe.any:ref"
 * for every one. */
static int other_format(const pawl_kernel *k, const pawl_query *q)
{
    static const struct {
        const char *word;
        pawl_quant w;
    } formats[] = {{"f32", PAWL_Q_F32},       {"f16", PAWL_Q_F16},       {"bf16", PAWL_Q_BF16},
                   {"fp8blk", PAWL_Q_FP8BLK}, {"fp8ten", PAWL_Q_FP8TEN}, {"fp8ch", PAWL_Q_FP8CH},
                   {"nvfp4", PAWL_Q_NVFP4},   {"mxfp4", PAWL_Q_MXFP4}};
    if (q->w == PAWL_Q_NONE) return 0;
    const char *dot = strchr(k->id, '.');
    if (!dot) return 0;
    size_t n = strcspn(dot + 1, "-:");
    if (n == 3 && memcmp(dot + 1, "fp8", 3) == 0)
        return q->w != PAWL_Q_FP8BLK && q->w != PAWL_Q_FP8TEN && q->w != PAWL_Q_FP8CH;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (strlen(formats[i].word) == n && memcmp(formats[i].word, dot + 1, n) == 0) return formats[i].w != q->w;
    }
    return 0;
}

/* Kernels of the int8 policy have "-i8" before the colon; they and the others never serve the same query. */
static int other_policy(const pawl_kernel *k, const pawl_query *q)
{
    int of_int8 = strstr(k->id, "-i8:") != NULL, wants_int8 = (q->flags & PAWL_QF_ACT_INT8) != 0;
    return of_int8 != wants_int8;
}

/* x86 and ARM have no instruction set in common. A processor that names no feature at all is taken for an x86. */
static int other_processor(const pawl_kernel *k, const pawl_caps *caps)
{
    const uint64_t arm = PAWL_ISA_NEON | PAWL_ISA_DOTPROD | PAWL_ISA_I8MM | PAWL_ISA_SVE;
    return caps->isa & arm ? (k->isa & ~arm) != 0 : (k->isa & arm) != 0;
}

int pawl__kernel_apart(const pawl_kernel *k, const pawl_caps *caps, const pawl_query *q)
{
    return k->arch != caps->arch || other_processor(k, caps) || other_format(k, q) || other_policy(k, q);
}

/* "id: why; id: why" for the entries that one could expect here, as much as fits. */
static void tell_refusals(const pawl_decision *d, const pawl_caps *caps, char *out, size_t cap)
{
    size_t n = 0;
    out[0] = 0;
    for (int i = 0; i < d->n_refusals; i++) {
        const pawl_refusal *r = &d->refusals[i];
        if (pawl__kernel_apart(r->kernel, caps, &d->query)) continue;
        int w = snprintf(out + n, cap - n, "%s%s: %s", n ? "; " : "", r->kernel->id, r->why.text);
        if (w < 0 || (size_t)w >= cap - n) {
            out[n] = 0;
            return;
        }
        n += (size_t)w;
    }
}

static pawl_status no_kernel(const pawl_decision *d, const pawl_caps *caps, int64_t hole, pawl_err *err)
{
    pawl_buf q = {0};
    pawl__query_print(&d->query, &q);
    char reasons[300];
    tell_refusals(d, caps, reasons, sizeof reasons);
    pawl_status s = pawl__fail(err, PAWL_EUNSUPPORTED, "no kernel for %lld rows of `%s`: %s", (long long)hole,
                               q.data ? q.data : "?", reasons);
    pawl__buf_free(&q);
    return s;
}

/* Names the op, the forced kernels with their reasons, and what else would fit. */
static pawl_status force_failed(pawl_kernel_list list, const pawl_query *q, const pawl_caps *caps,
                                const pawl_policy *policy, pawl_exec *ex, int64_t hole, pawl_err *err)
{
    pawl_buf text = {0}, query = {0};
    text.limit = 400;
    pawl__query_print(q, &query);
    pawl__buf_printf(&text, "op %s: the forced kernel cannot serve `%s`", pawl__op_word(q->op),
                     query.data ? query.data : "?");
    pawl_policy free_choice = *policy;
    free_choice.n_forces = 0;
    for (pawl_kernel_list k = list; *k; k++) {
        if (!forced(policy, *k)) continue;
        pawl_reason why;
        if (fits(*k, q, caps, policy, ex, &why)) pawl__reason(&why, "does not serve %lld rows", (long long)hole);
        pawl__buf_printf(&text, "; %s: %s", (*k)->id, why.text);
    }
    int n = 0;
    for (pawl_kernel_list k = list; *k && n < 4; k++) {
        pawl_reason why;
        if (forced(policy, *k) || !fits(*k, q, caps, &free_choice, ex, &why)) continue;
        pawl__buf_printf(&text, "%s%s", n++ ? ", " : "; it could be served by ", (*k)->id);
    }
    pawl_status s = pawl__fail(err, PAWL_EUNSUPPORTED, "%s", text.data ? text.data : "a forced kernel cannot serve");
    pawl__buf_free(&text);
    pawl__buf_free(&query);
    return s;
}

/* The choice with or without the forces. Returns the first row count without a kernel, or 0. */
static int64_t choose(pawl_kernel_list list, const pawl_caps *caps, const pawl_policy *p, int use_forces, pawl_exec *ex,
                      pawl_decision *d)
{
    d->n_spans = d->n_refusals = d->n_fit = 0;
    int only_forced = use_forces && forced_any(p, d->query.op);
    for (pawl_kernel_list k = list; *k; k++) {
        pawl_reason why;
        if (only_forced && !forced(p, *k)) {
            pawl__reason(&why, "another kernel is forced");
            refuse(d, *k, 1, 0, &why);
        } else if (!fits(*k, &d->query, caps, p, ex, &why)) {
            refuse(d, *k, 1, 0, &why);
        } else {
            d->fit[d->n_fit++] = (pawl_span){(*k)->m_min > 1 ? (*k)->m_min : 1, (*k)->m_max, *k};
        }
    }
    choices c;
    c.n = 0;
    if (p->deterministic) {
        /* One kernel for every row count: the best that is left, wherever its crossover lies. */
        if (d->n_fit > 1) d->n_fit = 1;
        if (d->n_fit == 1) d->fit[0] = limits(d->fit[0].kernel);
    } else {
        add_tuned(d, p->thresholds, &c);
    }
    for (int i = 0; i < d->n_fit; i++) c.list[c.n++] = d->fit[i];
    int64_t hole = lay_spans(&c, d);
    if (hole) return hole;
    for (int i = 0; i < d->n_fit; i++) refuse_outside(d, i, &d->fit[i]);
    return 0;
}

pawl_status pawl__route(pawl_kernel_list list, const pawl_query *q, const pawl_caps *caps, const pawl_policy *policy,
                        pawl_exec *ex, pawl_decision *out, pawl_err *err)
{
    pawl_policy everything = pawl__policy_default();
    if (!policy) policy = &everything;
    PAWL_TRY(pawl__query_check(q, err));
    out->query = *q;
    out->query.m = PAWL_M_ANY;
    out->n_spans = out->n_refusals = out->n_fit = 0;
    out->failures = NULL;
    int n = 0;
    while (list && list[n]) n++;
    if (n == 0) return pawl__fail(err, PAWL_EUNSUPPORTED, "op %s has no kernels", pawl__op_word(q->op));
    if (n > PAWL_ROUTE_LIST) return pawl__fail(err, PAWL_EINTERNAL, "op %s lists %d kernels", pawl__op_word(q->op), n);
    int64_t hole = choose(list, caps, policy, 1, ex, out);
    if (!hole) return PAWL_OK;
    if (forced_any(policy, q->op)) {
        if (!policy->soft_forces) return force_failed(list, &out->query, caps, policy, ex, hole, err);
        hole = choose(list, caps, policy, 0, ex, out);
        if (!hole) return PAWL_OK;
    }
    return no_kernel(out, caps, hole, err);
}

const pawl_kernel *pawl__decision_kernel(const pawl_decision *d, int64_t m)
{
    int i = 0;
    while (i + 1 < d->n_spans && d->spans[i + 1].m_min <= m) i++;
    return d->spans[i].kernel;
}
