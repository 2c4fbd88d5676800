/* Runs a template's tree: scopes, expressions, statements, macros. */
#include "token/jinja.h"

#include <string.h>

typedef enum flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE } flow;

static jval eval(jrun *run, const jnode *n);
static flow exec_list(jrun *run, const jnode *n);

static jval undef(void)
{
    return pawl__jv_undef("nothing");
}

/* ---- scopes ---- */

static jframe *new_frame(jrun *run, jframe *parent)
{
    jframe *f = pawl__jinja_alloc(run, 1, sizeof *f);
    if (f) f->parent = parent;
    return f;
}

static void set_name(jrun *run, jframe *f, const char *name, jval v)
{
    if (pawl__jinja_step(run, f->n / 16)) return;
    for (uint32_t i = 0; i < f->n; i++) {
        if (f->vars[i].name != name) continue;
        f->vars[i].value = v;
        return;
    }
    if (f->n == f->cap) {
        uint32_t cap = f->cap ? f->cap * 2 : 4;
        jvar *more = cap > f->cap ? pawl__jinja_alloc(run, cap, sizeof *more) : NULL;
        if (!more) return;
        if (f->n) memcpy(more, f->vars, f->n * sizeof *more);
        f->vars = more;
        f->cap = cap;
    }
    f->vars[f->n++] = (jvar){name, v};
}

static jval unset(const char *name, uint32_t n)
{
    return (jval){.kind = J_UNDEF, .flag = JU_NAME, .n = n, .u.s = name};
}

static jval *find_name(const jframe *f, const char *name)
{
    for (uint32_t i = 0; i < f->n; i++)
        if (f->vars[i].name == name) return &f->vars[i].value;
    return NULL;
}

static jval get_name(jrun *run, jval name)
{
    for (const jframe *f = run->frame; f; f = f->parent) {
        if (f->n > 16) pawl__jinja_step(run, f->n / 16);
        const jval *own = find_name(f, name.u.s);
        if (own) return own->kind == J_ABSENT ? unset(name.u.s, name.n) : *own;
    }
    jval *v = pawl__jv_dict_find(run->vars, name);
    if (v) return *v;
    const jfunc *g = pawl__jinja_global(name.u.s, name.n);
    if (g) return (jval){.kind = J_FUNC, .u.func = g};
    return unset(name.u.s, name.n);
}

/* Empties a scope for (another) entry by its owner. */
static void open_scope(jrun *run, jframe *f, const jnode *owner)
{
    f->n = 0;
    for (uint32_t i = 0; i < owner->nmasked; i++)
        set_name(run, f, owner->masked[i], unset(owner->masked[i], (uint32_t)strlen(owner->masked[i])));
}

static void assign(jrun *run, jframe *frame, const jnode *target, jval v)
{
    if (run->status != PAWL_OK) return;
    run->line = target->line;
    if (target->type == N_NAME) {
        set_name(run, frame, target->value.u.s, v);
    } else if (target->type == N_NSREF) {
        jval ns = get_name(run, target->value);
        if (ns.kind != J_NS)
            pawl__jinja_fail(run, PAWL_EINVAL, "cannot assign an attribute of an object that is no namespace");
        else
            pawl__jv_dict_set(run, ns.u.dict, target->a->value, v);
    } else {
        jiter *it = pawl__jv_iter(run, v);
        const jnode *t = target->a;
        jval item;
        if (!it) return;
        for (; t && pawl__jv_next(run, it, &item); t = t->next) assign(run, frame, t, item);
        if (t)
            pawl__jinja_fail(run, PAWL_EINVAL, "not enough values to unpack");
        else if (pawl__jv_next(run, it, &item))
            pawl__jinja_fail(run, PAWL_EINVAL, "too many values to unpack");
    }
}

/* ---- expressions ---- */

typedef struct arglist {
    jlist pos, names, vals;
} arglist;

static void add_keyword(jrun *run, arglist *l, jval name, jval v)
{
    for (uint32_t i = 0; i < l->names.n; i++)
        if (pawl__jv_same(l->names.v[i], name)) {
            pawl__jinja_fail(run, PAWL_EINVAL, "got multiple values for keyword argument '%.*s'",
                             (int)(name.n < 100 ? name.n : 100), name.u.s);
            return;
        }
    pawl__jv_push(run, &l->names, name);
    pawl__jv_push(run, &l->vals, v);
}

static void add_star(jrun *run, arglist *l, jval v, int keywords)
{
    jval item;
    if (!keywords) {
        jiter *it = pawl__jv_iter(run, v);
        while (it && pawl__jv_next(run, it, &item)) pawl__jv_push(run, &l->pos, item);
        return;
    }
    if (v.kind != J_DICT) {
        pawl__jinja_fail(run, PAWL_EINVAL, "argument after ** must be a mapping, not %s", pawl__jv_type(v));
        return;
    }
    for (uint32_t i = 0; i < v.u.dict->n && !pawl__jinja_step(run, 1 + l->names.n / 16); i++) {
        if (v.u.dict->keys[i].kind != J_STR)
            pawl__jinja_fail(run, PAWL_EINVAL, "keywords must be strings");
        else
            add_keyword(run, l, v.u.dict->keys[i], v.u.dict->vals[i]);
    }
}

static void eval_arguments(jrun *run, const jnode *n, arglist *l)
{
    for (; n && run->status == PAWL_OK; n = n->next) {
        if (n->type == N_KWARG)
            add_keyword(run, l, n->value, eval(run, n->a));
        else if (n->type == N_STARARG)
            add_star(run, l, eval(run, n->a), n->op == 2);
        else
            pawl__jv_push(run, &l->pos, eval(run, n));
    }
}

static jargs arguments(const arglist *l)
{
    return (jargs){.pos = l->pos.v, .names = l->names.v, .vals = l->vals.v, .npos = l->pos.n, .nkw = l->names.n};
}

static jval eval_call(jrun *run, const jnode *n, jmacro *caller)
{
    arglist l = {0};
    jval callee = eval(run, n->a);
    eval_arguments(run, n->b, &l);
    if (caller) {
        const char *name = run->tmpl->parsed.caller;
        add_keyword(run, &l, pawl__jv_view(name, strlen(name)), (jval){.kind = J_MACRO, .u.macro = caller});
    }
    if (run->status != PAWL_OK) return undef();
    run->line = n->line;
    jargs args = arguments(&l);
    return pawl__jinja_call(run, callee, &args);
}

static jval apply_filter(jrun *run, const jnode *n, jval v)
{
    arglist l = {0};
    eval_arguments(run, n->b, &l);
    if (run->status != PAWL_OK) return undef();
    run->line = n->line;
    jargs args = arguments(&l);
    return pawl__jinja_filter(run, n->value, v, &args);
}

static jval eval_test(jrun *run, const jnode *n)
{
    arglist l = {0};
    jval v = eval(run, n->a);
    eval_arguments(run, n->b, &l);
    if (run->status != PAWL_OK) return undef();
    run->line = n->line;
    jargs args = arguments(&l);
    return pawl__jv_bool(pawl__jinja_test(run, n->value, v, &args));
}

static jval eval_sequence(jrun *run, const jnode *n)
{
    jval list = pawl__jv_list(run, 0);
    for (const jnode *i = n->a; i && list.kind == J_LIST && run->status == PAWL_OK; i = i->next)
        pawl__jv_push(run, list.u.list, eval(run, i));
    if (list.kind == J_LIST && n->type == N_TUPLE) list.kind = J_TUPLE;
    return list;
}

static jval eval_dict(jrun *run, const jnode *n)
{
    jdict *d = pawl__jv_dict_create(run);
    for (const jnode *i = n->a; i && d && run->status == PAWL_OK; i = i->next) {
        jval key = eval(run, i->a), v = eval(run, i->b);
        run->line = i->line;
        pawl__jv_dict_set(run, d, key, v);
    }
    return pawl__jv_dict(d);
}

static jval eval_concat(jrun *run, const jnode *n)
{
    pawl_buf b = pawl__jv_buf(run);
    for (const jnode *i = n->a; i && run->status == PAWL_OK && !b.failed; i = i->next)
        pawl__jv_str(run, eval(run, i), &b);
    run->line = n->line;
    return pawl__jv_take(run, &b);
}

static jval eval_compare(jrun *run, const jnode *n)
{
    jval left = eval(run, n->a);
    for (const jnode *o = n->b; o && run->status == PAWL_OK; o = o->next) {
        jval right = eval(run, o->a);
        if (run->status != PAWL_OK) break;
        run->line = o->line;
        if (!pawl__jinja_compare(run, (jop)o->op, left, right)) return pawl__jv_bool(0);
        left = right;
    }
    return pawl__jv_bool(1);
}

static jval eval_item(jrun *run, const jnode *n)
{
    jval obj = eval(run, n->a);
    if (n->b->type != N_SLICE) {
        jval key = eval(run, n->b);
        run->line = n->line;
        return run->status == PAWL_OK ? pawl__jinja_item(run, obj, key) : undef();
    }
    jval part[3];
    const jnode *from[3] = {n->b->a, n->b->b, n->b->c};
    for (int i = 0; i < 3; i++) part[i] = from[i] ? eval(run, from[i]) : pawl__jv_none();
    run->line = n->line;
    return run->status == PAWL_OK ? pawl__jinja_slice(run, obj, part[0], part[1], part[2]) : undef();
}

static jval eval_binary(jrun *run, const jnode *n)
{
    jval a = eval(run, n->a), b = eval(run, n->b);
    run->line = n->line;
    return run->status == PAWL_OK ? pawl__jinja_binary(run, (jop)n->op, a, b) : undef();
}

static jval eval_node(jrun *run, const jnode *n)
{
    jval v;
    switch ((jtype)n->type) {
    case N_TUPLE:
    case N_LIST:
        return eval_sequence(run, n);
    case N_DICT:
        return eval_dict(run, n);
    case N_ATTR:
        v = eval(run, n->a);
        run->line = n->line;
        return run->status == PAWL_OK ? pawl__jinja_attr(run, v, n->value) : undef();
    case N_ITEM:
        return eval_item(run, n);
    case N_CALL:
        return eval_call(run, n, NULL);
    case N_FILTER:
        return apply_filter(run, n, eval(run, n->a));
    case N_TEST:
        return eval_test(run, n);
    case N_UNARY:
        v = eval(run, n->a);
        run->line = n->line;
        return run->status == PAWL_OK ? pawl__jinja_unary(run, (jop)n->op, v) : undef();
    case N_BINARY:
        return eval_binary(run, n);
    case N_AND:
        v = eval(run, n->a);
        return pawl__jv_truth(run, v) ? eval(run, n->b) : v;
    case N_OR:
        v = eval(run, n->a);
        return pawl__jv_truth(run, v) ? v : eval(run, n->b);
    case N_CONCAT:
        return eval_concat(run, n);
    case N_COMPARE:
        return eval_compare(run, n);
    case N_COND:
        if (pawl__jv_truth(run, eval(run, n->b))) return eval(run, n->a);
        return n->c ? eval(run, n->c) : pawl__jv_undef("an inline if without an else was false");
    default:
        return pawl__jinja_fail(run, PAWL_EINTERNAL, "unexpected node of type %d", n->type);
    }
}

static jval eval(jrun *run, const jnode *n)
{
    if (pawl__jinja_step(run, 1)) return undef();
    if (n->type == N_CONST) return n->value;
    if (n->type == N_NAME) return get_name(run, n->value);
    run->line = n->line;
    if (pawl__jinja_enter(run)) return undef();
    jval v = eval_node(run, n);
    pawl__jinja_leave(run);
    return v;
}

/* ---- macros ---- */

/* Runs statements with their output going into a string. */
static jval capture(jrun *run, const jnode *body, flow *how)
{
    pawl_buf b = pawl__jv_buf(run), *old = run->out;
    run->out = &b;
    *how = exec_list(run, body);
    run->out = old;
    return pawl__jv_take(run, &b);
}

static int takes_keyword(jrun *run, jmacro *m, const jargs *args, uint32_t i, uint32_t npos, jframe *f)
{
    uint32_t k = 0;
    for (const jnode *p = m->node->a; p; p = p->next, k++) {
        if (k < npos || !pawl__jv_same(p->value, args->names[i])) continue;
        set_name(run, f, p->value.u.s, args->vals[i]);
        return 1;
    }
    return 0;
}

/* Gives the macro's parameters their values, as Jinja2's Macro object does. */
static void bind(jrun *run, jmacro *m, const jargs *args, jframe *f)
{
    const jparsed *t = &run->tmpl->parsed;
    uint32_t k = 0;
    for (const jnode *p = m->node->a; p; p = p->next, k++)
        set_name(run, f, p->value.u.s, k < args->npos ? args->pos[k] : (jval){.kind = J_ABSENT});
    jval caller = {.kind = J_ABSENT};
    jdict *rest = pawl__jv_dict_create(run);
    for (uint32_t i = 0; i < args->nkw && rest; i++) {
        if (takes_keyword(run, m, args, i, args->npos, f)) continue;
        if ((m->node->op & JM_CALLER) && pawl__jv_is(args->names[i], "caller"))
            caller = args->vals[i];
        else if (m->node->op & JM_KWARGS)
            pawl__jv_dict_set(run, rest, args->names[i], args->vals[i]);
        else
            pawl__jinja_fail(run, PAWL_EINVAL, "macro takes no keyword argument '%.*s'",
                             (int)(args->names[i].n < 100 ? args->names[i].n : 100), args->names[i].u.s);
    }
    if (args->npos > k && !(m->node->op & JM_VARARGS))
        pawl__jinja_fail(run, PAWL_EINVAL, "macro takes not more than %u arguments", k);
    if (m->node->op & JM_CALLER)
        set_name(run, f, t->caller, caller.kind == J_ABSENT ? pawl__jv_undef("No caller defined") : caller);
    if (m->node->op & JM_KWARGS) set_name(run, f, t->kwargs, pawl__jv_dict(rest));
    if (m->node->op & JM_VARARGS) {
        jval more = pawl__jv_tuple(run, 0);
        for (uint32_t i = k; i < args->npos && more.kind == J_TUPLE; i++) pawl__jv_push(run, more.u.list, args->pos[i]);
        set_name(run, f, t->varargs, more);
    }
    for (const jnode *p = m->node->a; p && run->status == PAWL_OK; p = p->next) {
        const jval *v = find_name(f, p->value.u.s);
        if (v && v->kind == J_ABSENT)
            set_name(run, f, p->value.u.s, p->a ? eval(run, p->a) : unset(p->value.u.s, p->value.n));
    }
}

jval pawl__jinja_call_macro(jrun *run, jmacro *m, const jargs *args)
{
    if (pawl__jinja_enter(run)) return undef();
    jframe *f = new_frame(run, m->scope), *old = run->frame;
    jval v = undef();
    if (f) {
        int line = run->line;
        open_scope(run, f, m->node);
        run->frame = f;
        bind(run, m, args, f);
        flow how;
        if (run->status == PAWL_OK) v = capture(run, m->node->d, &how);
        run->frame = old;
        if (run->status == PAWL_OK) run->line = line;
    }
    pawl__jinja_leave(run);
    return v;
}

static jmacro *new_macro(jrun *run, const jnode *n)
{
    jmacro *m = pawl__jinja_alloc(run, 1, sizeof *m);
    if (!m) return NULL;
    m->node = n;
    m->scope = run->frame;
    return m;
}

/* ---- statements ---- */

static void write_out(jrun *run, jval v)
{
    pawl__jv_str(run, v, run->out);
    if (run->out->failed) pawl__jinja_fail(run, PAWL_ETIMEDOUT, "the output is longer than %zu bytes", run->max_string);
}

static jval target_value(jrun *run, const jnode *target)
{
    if (target->type == N_NAME) return get_name(run, target->value);
    jval t = pawl__jv_tuple(run, 0);
    for (const jnode *i = target->a; i && t.kind == J_TUPLE; i = i->next)
        pawl__jv_push(run, t.u.list, target_value(run, i));
    return t;
}

int pawl__jinja_next_filtered(jrun *run, jiter *it, jval *out)
{
    jframe *old = run->frame;
    int found = 0;
    jval item;
    run->frame = it->scope;
    while (!found && pawl__jv_next(run, it->src.u.iter, &item)) {
        it->scope->n = 0;
        assign(run, it->scope, it->loop->a, item);
        found = pawl__jv_truth(run, eval(run, it->loop->c)) && run->status == PAWL_OK;
        if (found) *out = target_value(run, it->loop->a);
    }
    run->frame = old;
    return found && run->status == PAWL_OK;
}

static jiter *filtered(jrun *run, const jnode *n, jiter *it)
{
    jiter *f = pawl__jinja_alloc(run, 1, sizeof *f);
    jframe *scope = new_frame(run, run->frame);
    if (!f || !scope) return NULL;
    f->how = JI_FILTER_LOOP;
    f->src = pawl__jv_iter_value(it);
    f->loop = n;
    f->scope = scope;
    return f;
}

static flow exec_for(jrun *run, const jnode *n)
{
    jval seq = eval(run, n->b);
    run->line = n->line;
    jiter *it = run->status == PAWL_OK ? pawl__jv_iter(run, seq) : NULL;
    if (it && n->c) it = filtered(run, n, it);
    jloop *l = it ? pawl__jinja_alloc(run, 1, sizeof *l) : NULL;
    jframe *f = new_frame(run, run->frame), *old = run->frame;
    if (!l || !f) return FLOW_ON;
    l->it = it;
    l->seq = n->c ? pawl__jv_iter_value(it) : seq;
    l->index0 = -1;
    l->length = -1;
    int completed = 0;
    flow how = FLOW_ON;
    while (how != FLOW_BREAK && pawl__jinja_loop_next(run, l)) {
        open_scope(run, f, n);
        set_name(run, f, run->tmpl->parsed.loop, (jval){.kind = J_LOOP, .u.loop = l});
        assign(run, f, n->a, l->now);
        run->frame = f;
        how = exec_list(run, n->d);
        run->frame = old;
        /* Jinja2 notes that the loop has run at the end of its body, where break and continue do not come by. */
        completed |= how == FLOW_ON;
    }
    return !completed && n->e && run->status == PAWL_OK ? exec_list(run, n->e) : FLOW_ON;
}

static flow exec_if(jrun *run, const jnode *n)
{
    for (; n && run->status == PAWL_OK; n = n->c)
        if (!n->a || (pawl__jv_truth(run, eval(run, n->a)) && run->status == PAWL_OK)) return exec_list(run, n->b);
    return FLOW_ON;
}

/* A chain of filters on text, innermost first: the operand of the first one is NULL. */
static jval filter_text(jrun *run, const jnode *f, jval text)
{
    if (f->a) text = filter_text(run, f->a, text);
    return run->status == PAWL_OK ? apply_filter(run, f, text) : undef();
}

static flow exec_captured(jrun *run, const jnode *n)
{
    const jnode *filter = n->type == N_SETBLOCK ? n->b : n->a;
    jframe *f = new_frame(run, run->frame), *old = run->frame;
    if (!f) return FLOW_ON;
    open_scope(run, f, n);
    run->frame = f;
    flow how;
    jval v = capture(run, n->type == N_SETBLOCK ? n->c : n->d, &how);
    if (run->status == PAWL_OK && how == FLOW_ON && filter) v = filter_text(run, filter, v);
    run->frame = old;
    if (run->status != PAWL_OK || how != FLOW_ON) return how;
    if (n->type == N_SETBLOCK)
        assign(run, run->frame, n->a, v);
    else
        write_out(run, v);
    return FLOW_ON;
}

static flow exec_scope(jrun *run, const jnode *n)
{
    jframe *f = new_frame(run, run->frame), *old = run->frame;
    if (!f) return FLOW_ON;
    open_scope(run, f, n);
    if (n->type == N_WITH) {
        const jnode *v = n->b;
        for (const jnode *t = n->a; t && v; t = t->next, v = v->next) assign(run, f, t, eval(run, v));
    }
    run->frame = f;
    flow how = exec_list(run, n->d);
    run->frame = old;
    return how;
}

static flow exec_node(jrun *run, const jnode *n)
{
    switch ((jtype)n->type) {
    case N_PRINT:
        write_out(run, eval(run, n->a));
        break;
    case N_SET:
        assign(run, run->frame, n->a, eval(run, n->b));
        break;
    case N_IF:
        return exec_if(run, n);
    case N_FOR:
        return exec_for(run, n);
    case N_SETBLOCK:
    case N_FILTERBLOCK:
        return exec_captured(run, n);
    case N_WITH:
    case N_SCOPE:
        return exec_scope(run, n);
    case N_MACRO: {
        jmacro *m = new_macro(run, n);
        set_name(run, run->frame, n->value.u.s, (jval){.kind = J_MACRO, .u.macro = m});
        break;
    }
    case N_CALLBLOCK: {
        jmacro *m = new_macro(run, n->b);
        if (m) write_out(run, eval_call(run, n->a, m));
        break;
    }
    case N_BREAK:
        return FLOW_BREAK;
    case N_CONTINUE:
        return FLOW_CONTINUE;
    default:
        pawl__jinja_fail(run, PAWL_EINTERNAL, "unexpected statement of type %d", n->type);
        break;
    }
    return FLOW_ON;
}

static flow exec_list(jrun *run, const jnode *n)
{
    flow how = FLOW_ON;
    if (pawl__jinja_enter(run)) return FLOW_ON;
    for (; n && how == FLOW_ON && !pawl__jinja_step(run, 1); n = n->next) {
        run->line = n->line;
        if (n->type == N_DATA)
            write_out(run, n->value);
        else
            how = exec_node(run, n);
    }
    pawl__jinja_leave(run);
    return how;
}

void pawl__jinja_run(jrun *run, const jnode *root)
{
    run->frame = new_frame(run, NULL);
    if (!run->frame) return;
    open_scope(run, run->frame, root);
    exec_list(run, root->d);
}
