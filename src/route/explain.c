/* The plan in words: per distinct op a block of its query, who needs it, which kernel serves which row counts, and why the
 * others do not. Kernels for another kind of device or another weight format are left out of the text (the JSON has them):
 * nobody expects them there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "route/plan_internal.h"

enum { WIDTH = 80 };

/* Words of text, folded at WIDTH; lines after the first begin with `indent` blanks. col: where the line stands. */
static void fold(const char *text, int indent, int col, pawl_buf *out)
{
    int first = 1;
    for (const char *s = text; *s;) {
        size_t n = strcspn(s, " ");
        if (!first && col + 1 + (int)n > WIDTH) {
            pawl__buf_printf(out, "\n%*s", indent, "");
            col = indent;
        } else if (!first) {
            pawl__buf_putc(out, ' ');
            col++;
        }
        pawl__buf_append(out, s, n);
        col += (int)n;
        first = 0;
        s += n;
        s += strspn(s, " ");
    }
    pawl__buf_putc(out, '\n');
}

static void print_rows(int64_t lo, int64_t hi, char out[48])
{
    if (hi == 0) {
        snprintf(out, 48, "%lld-", (long long)lo);
    } else if (hi == lo) {
        snprintf(out, 48, "%lld", (long long)lo);
    } else {
        snprintf(out, 48, "%lld-%lld", (long long)lo, (long long)hi);
    }
}

static void explain_refusal(const pawl_plan *p, const pawl_query *q, const pawl_refusal *r, int id_width, pawl_buf *out)
{
    if (pawl__kernel_apart(r->kernel, p->caps, q)) return;
    char rows[48], line[256];
    print_rows(r->m_min, r->m_max, rows);
    int whole = r->m_min == 1 && r->m_max == 0;
    snprintf(line, sizeof line, "%s%s%s", r->why.text, whole ? "" : ", passed over at ", whole ? "" : rows);
    pawl__buf_printf(out, "    not %*s%-*s  ", 5, "", id_width, r->kernel->id);
    fold(line, 13 + id_width + 2, 12 + id_width + 2, out);
}

static int longest_id(const pawl_plan *p, const pawl_decision *d)
{
    size_t n = 0;
    for (int i = 0; i < d->n_refusals; i++) {
        const pawl_kernel *k = d->refusals[i].kernel;
        if (!pawl__kernel_apart(k, p->caps, &d->query) && strlen(k->id) > n) n = strlen(k->id);
    }
    return (int)n;
}

void pawl__explain_entry(const pawl_plan *p, const pawl_plan_entry *e, pawl_buf *out)
{
    const pawl_decision *d = &e->decision;
    pawl_buf text = {0};
    pawl__query_print(&d->query, &text);
    fold(text.data ? text.data : "?", 8, 0, out);
    pawl__buf_clear(&text);
    for (int i = 0; i < e->n_uses; i++) {
        pawl__buf_printf(&text, "%s%s", i ? ", " : "", e->uses[i].where);
        if (e->uses[i].count > 1) pawl__buf_printf(&text, " (%d)", e->uses[i].count);
    }
    pawl__buf_puts(out, "    for      ");
    fold(text.data ? text.data : "?", 13, 13, out);
    pawl__buf_free(&text);
    if (p->policy[e->scope].act_int8 && (d->query.op == PAWL_OP_LINEAR || d->query.op == PAWL_OP_MOE) &&
        !(d->query.flags & PAWL_QF_ACT_INT8)) {
        pawl__buf_printf(out, "    f32      %s\n",
                         d->query.at == PAWL_SPACE_HOST ? "these weights have no int8 form" : "int8 is for CPUs");
    }
    for (int i = 0; i < d->n_spans; i++) {
        const pawl_span *s = &d->spans[i];
        char rows[48];
        print_rows(s->m_min, s->m_max, rows);
        int unpack = s->kernel->ws == PAWL_SCALE_F32 && d->query.ws == PAWL_SCALE_UE8M0;
        pawl__buf_printf(out, "    %-8s %s%s%s\n", rows, s->kernel->id, unpack ? "  (scales unpacked at load)" : "",
                         s->kernel->run ? "" : "  (no body yet)");
    }
    int width = longest_id(p, d);
    for (int i = 0; i < d->n_refusals; i++) explain_refusal(p, &d->query, &d->refusals[i], width, out);
    for (int i = 0; i < e->failures.n; i++) explain_refusal(p, &d->query, &e->failures.list[i], width, out);
}

static void explain_policy(const char *name, const pawl_policy *q, pawl_buf *out)
{
    pawl_buf text = {0};
    if (q->isa_mask != ~(uint64_t)0) {
        pawl__buf_puts(&text, " isa=");
        pawl__isa_print(q->isa_mask, &text);
    }
    if (q->act_int8) pawl__buf_puts(&text, " activations=int8");
    if (q->deterministic) pawl__buf_puts(&text, " deterministic");
    for (int i = 0; i < q->n_forces; i++) {
        pawl__buf_printf(&text, " %s %s=%s", q->soft_forces ? "prefer" : "force", pawl__op_word(q->forces[i].op),
                         q->forces[i].id);
    }
    for (int i = 0; i < q->n_bans; i++) pawl__buf_printf(&text, " ban %s", q->bans[i]);
    if (q->thresholds && q->thresholds->n) pawl__buf_puts(&text, " tuned");
    pawl__buf_printf(out, "%-8s ", name);
    fold(text.len ? text.data + 1 : "auto", 9, 9, out);
    pawl__buf_free(&text);
}

void pawl__plan_explain(const pawl_plan *p, pawl_buf *out)
{
    pawl_buf caps = {0};
    pawl__caps_print(p->caps, &caps);
    pawl__buf_puts(out, "machine  ");
    fold(caps.data ? caps.data : "?", 9, 9, out);
    pawl__buf_free(&caps);
    explain_policy("target", &p->policy[PAWL_SCOPE_TARGET], out);
    explain_policy("draft", &p->policy[PAWL_SCOPE_DRAFT], out);
    for (int scope = 0; scope < 2; scope++) {
        int any = 0;
        for (int i = 0; i < p->n; i++) {
            if (p->entries[i]->scope != (pawl_scope)scope) continue;
            if (!any++) pawl__buf_puts(out, scope == PAWL_SCOPE_TARGET ? "\n-- target\n" : "\n-- draft\n");
            pawl__buf_putc(out, '\n');
            pawl__explain_entry(p, p->entries[i], out);
        }
    }
}

/* Out of memory: Jansson's setters take a NULL tree or value as a failure and change nothing. */
static json_t *json_text(void (*print)(const void *, pawl_buf *), const void *what)
{
    pawl_buf b = {0};
    print(what, &b);
    json_t *s = json_string(b.data ? b.data : "");
    pawl__buf_free(&b);
    return s;
}

static void print_query(const void *q, pawl_buf *b)
{
    pawl__query_print(q, b);
}

static void print_caps(const void *c, pawl_buf *b)
{
    pawl__caps_print(c, b);
}

static void print_isa(const void *isa, pawl_buf *b)
{
    pawl__isa_print(*(const uint64_t *)isa, b);
}

static json_t *json_policy(const pawl_policy *q)
{
    json_t *o = json_object(), *forces = json_array(), *bans = json_array();
    if (q->isa_mask != ~(uint64_t)0) json_object_set_new(o, "isa", json_text(print_isa, &q->isa_mask));
    json_object_set_new(o, "activations", json_string(q->act_int8 ? "int8" : "f32"));
    json_object_set_new(o, "deterministic", json_boolean(q->deterministic));
    json_object_set_new(o, "soft", json_boolean(q->soft_forces));
    json_object_set_new(o, "tuned", json_boolean(q->thresholds && q->thresholds->n));
    for (int i = 0; i < q->n_forces; i++) {
        json_array_append_new(forces,
                              json_pack("{s:s, s:s}", "op", pawl__op_word(q->forces[i].op), "kernel", q->forces[i].id));
    }
    for (int i = 0; i < q->n_bans; i++) json_array_append_new(bans, json_string(q->bans[i]));
    json_object_set_new(o, "forced", forces);
    json_object_set_new(o, "banned", bans);
    return o;
}

/* Row counts: "to" is null where there is no bound. */
static json_t *json_rows(int64_t m_min, int64_t m_max, const pawl_kernel *k)
{
    json_t *o = json_object();
    json_object_set_new(o, "from", json_integer(m_min));
    json_object_set_new(o, "to", m_max ? json_integer(m_max) : json_null());
    json_object_set_new(o, "kernel", json_string(k->id));
    return o;
}

static void json_refusals(json_t *list, const pawl_refusal *r, int n)
{
    for (int i = 0; i < n; i++) {
        json_t *o = json_rows(r[i].m_min, r[i].m_max, r[i].kernel);
        json_object_set_new(o, "reason", json_string(r[i].why.text));
        json_array_append_new(list, o);
    }
}

static json_t *json_entry(const pawl_plan_entry *e)
{
    const pawl_decision *d = &e->decision;
    json_t *o = json_object(), *uses = json_array(), *spans = json_array(), *refusals = json_array();
    json_object_set_new(o, "scope", json_string(e->scope == PAWL_SCOPE_TARGET ? "target" : "draft"));
    json_object_set_new(o, "query", json_text(print_query, &d->query));
    for (int i = 0; i < e->n_uses; i++) {
        json_array_append_new(uses, json_pack("{s:s, s:i}", "where", e->uses[i].where, "count", e->uses[i].count));
    }
    json_object_set_new(o, "uses", uses);
    for (int i = 0; i < d->n_spans; i++) {
        const pawl_span *s = &d->spans[i];
        json_t *span = json_rows(s->m_min, s->m_max, s->kernel);
        json_object_set_new(span, "built", json_boolean(s->kernel->run != NULL));
        json_object_set_new(span, "proven", json_boolean(!(s->kernel->traits & PAWL_TRAIT_UNPROVEN)));
        json_array_append_new(spans, span);
    }
    json_object_set_new(o, "spans", spans);
    json_refusals(refusals, d->refusals, d->n_refusals);
    json_refusals(refusals, e->failures.list, e->failures.n);
    json_object_set_new(o, "refusals", refusals);
    return o;
}

void pawl__plan_explain_json(const pawl_plan *p, pawl_buf *out)
{
    json_t *o = json_object(), *ops = json_array();
    json_object_set_new(o, "schema", json_string("pawl.explain/1"));
    json_object_set_new(o, "caps", json_text(print_caps, p->caps));
    json_object_set_new(o, "target", json_policy(&p->policy[PAWL_SCOPE_TARGET]));
    json_object_set_new(o, "draft", json_policy(&p->policy[PAWL_SCOPE_DRAFT]));
    for (int i = 0; i < p->n; i++) json_array_append_new(ops, json_entry(p->entries[i]));
    json_object_set_new(o, "ops", ops);
    char *text = json_dumps(o, JSON_INDENT(2));
    json_decref(o);
    if (text) {
        pawl__buf_puts(out, text);
        pawl__buf_putc(out, '\n');
    } else {
        out->failed = 1;
    }
    free(text);
}
