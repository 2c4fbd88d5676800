/* Which names start out undefined in a scope.
 *
 * Jinja2 compiles a template's names to variables of a Python function, so that the text decides, before anything runs,
 * where a name comes from. One consequence cannot be had by looking names up at run time: a name that a scope sets, and
 * did not read before in its text, is that scope's own from the start. Until it is set it is undefined, for macros and
 * inner loops that stand before the set too, even if the caller passes a variable of that name. This file walks the tree
 * as that compiler does and notes those names; the interpreter enters them as undefined when it enters the scope. */
#include "token/jinja.h"

#include <stdlib.h>
#include <string.h>

/* Where a name's first value comes from, and whether the scope sets it. */
enum { FROM_NOWHERE = 0, FROM_OUTSIDE, FROM_UNDEFINED, FROM_PARAM, STORED = 0x80, FROM_MASK = 0x7f };

typedef struct symbols {
    const struct symbols *parent;
    uint8_t *state; /* by the name's number */
} symbols;

typedef struct walker {
    uint32_t nnames;
    const char **names; /* by number, as met */
    const char *tmpl;
    pawl_arena *arena;
    pawl_err *err;
    pawl_status status;
    uint64_t work; /* bytes copied for branches: bounded, since a branch copies the whole table */
} walker;

enum { MAX_WORK = 1 << 30 };

static void walk_scope(walker *w, jnode *owner, const symbols *parent);

static int known(const symbols *s, uint32_t id)
{
    for (; s; s = s->parent)
        if (s->state[id] & FROM_MASK) return 1;
    return 0;
}

static void load(walker *w, symbols *s, const jnode *n)
{
    w->names[n->id] = n->value.u.s;
    if (!known(s, n->id)) s->state[n->id] |= FROM_OUTSIDE;
}

static void store(walker *w, symbols *s, const jnode *n)
{
    w->names[n->id] = n->value.u.s;
    uint8_t *st = &s->state[n->id];
    if (!(*st & FROM_MASK)) *st |= s->parent && known(s->parent, n->id) ? FROM_OUTSIDE : FROM_UNDEFINED;
    *st |= STORED;
}

static void param(walker *w, symbols *s, const jnode *n)
{
    w->names[n->id] = n->value.u.s;
    s->state[n->id] = STORED | FROM_PARAM;
}

static void expressions(walker *w, symbols *s, const jnode *n)
{
    for (; n; n = n->next) {
        if (n->type == N_NAME) load(w, s, n);
        if (n->a) expressions(w, s, n->a);
        if (n->b) expressions(w, s, n->b);
        if (n->c) expressions(w, s, n->c);
    }
}

static void targets(walker *w, symbols *s, const jnode *n, void (*how)(walker *, symbols *, const jnode *))
{
    if (n->type == N_NAME)
        how(w, s, n);
    else if (n->type == N_NSREF)
        load(w, s, n);
    else
        for (const jnode *i = n->a; i; i = i->next) targets(w, s, i, how);
}

static void statements(walker *w, symbols *s, jnode *n);

static uint8_t *new_table(walker *w, const uint8_t *from)
{
    w->work += w->nnames;
    uint8_t *t = w->work > MAX_WORK ? NULL : calloc(w->nnames ? w->nnames : 1, 1);
    if (t && from) memcpy(t, from, w->nnames);
    if (!t && w->status == PAWL_OK)
        w->status = pawl__fail(w->err, PAWL_ENOMEM, "%s: template has too many names and branches", w->tmpl);
    return t;
}

/* Takes the branches' tables into s. A name that only some of the branches set may keep what it was outside. */
static void merge(walker *w, symbols *s, uint8_t *const branch[3])
{
    for (uint32_t i = 0; i < w->nnames; i++) {
        int stores = 0, was = s->state[i] & STORED;
        for (int b = 0; b < 3; b++) stores += (branch[b][i] & STORED) != 0;
        uint8_t from = s->state[i] & FROM_MASK;
        for (int b = 0; b < 3; b++)
            if (branch[b][i] & FROM_MASK) from = branch[b][i] & FROM_MASK;
        if (!was && stores && stores < 3) from = FROM_OUTSIDE;
        s->state[i] = (uint8_t)(from | (was || stores ? STORED : 0));
    }
}

/* branch_n: the alternatives after the first, NULL when this is an elif looked at on its own. */
static void branches(walker *w, symbols *s, jnode *n, jnode *rest)
{
    expressions(w, s, n->a);
    uint8_t *t[3] = {new_table(w, s->state), new_table(w, s->state), new_table(w, s->state)};
    if (w->status == PAWL_OK) {
        symbols body = {s->parent, t[0]}, elifs = {s->parent, t[1]}, other = {s->parent, t[2]};
        statements(w, &body, n->b);
        for (; rest && w->status == PAWL_OK; rest = rest->c) {
            if (rest->a)
                branches(w, &elifs, rest, NULL);
            else
                statements(w, &other, rest->b);
        }
        if (w->status == PAWL_OK) merge(w, s, t);
    }
    for (int i = 0; i < 3; i++) free(t[i]);
}

/* What a statement means for the scope that it stands in; scopes inside it are walked later. */
static void statement(walker *w, symbols *s, jnode *n)
{
    switch (n->type) {
    case N_PRINT:
        expressions(w, s, n->a);
        break;
    case N_SET:
        expressions(w, s, n->b);
        targets(w, s, n->a, store);
        break;
    case N_SETBLOCK:
        targets(w, s, n->a, store);
        break;
    case N_IF:
        branches(w, s, n, n->c);
        break;
    case N_FOR:
        expressions(w, s, n->b);
        break;
    case N_MACRO:
        store(w, s, n);
        break;
    case N_CALLBLOCK:
        expressions(w, s, n->a);
        break;
    case N_FILTERBLOCK:
        expressions(w, s, n->a);
        break;
    case N_WITH:
        expressions(w, s, n->b);
        break;
    default:
        break;
    }
}

static void statements(walker *w, symbols *s, jnode *n)
{
    for (; n && w->status == PAWL_OK; n = n->next) statement(w, s, n);
}

/* The scopes that open directly inside these statements. */
static void inner_scopes(walker *w, jnode *n, const symbols *s)
{
    for (; n && w->status == PAWL_OK; n = n->next) {
        switch (n->type) {
        case N_IF:
            for (jnode *b = n; b; b = b->c) inner_scopes(w, b->b, s);
            break;
        case N_FOR:
            walk_scope(w, n, s);
            if (n->e) walk_scope(w, n->e, s);
            break;
        case N_CALLBLOCK:
            walk_scope(w, n->b, s);
            break;
        case N_MACRO:
        case N_SETBLOCK:
        case N_FILTERBLOCK:
        case N_WITH:
        case N_SCOPE:
            walk_scope(w, n, s);
            break;
        default:
            break;
        }
    }
}

static void note_masked(walker *w, jnode *owner, const symbols *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->nnames; i++) n += (s->state[i] & FROM_MASK) == FROM_UNDEFINED;
    if (!n) return;
    owner->masked = pawl__arena_array(w->arena, n, sizeof *owner->masked);
    if (!owner->masked) {
        w->status = pawl__fail(w->err, PAWL_ENOMEM, "%s: template is too large", w->tmpl);
        return;
    }
    for (uint32_t i = 0; i < w->nnames; i++)
        if ((s->state[i] & FROM_MASK) == FROM_UNDEFINED) owner->masked[owner->nmasked++] = w->names[i];
}

static void walk_scope(walker *w, jnode *owner, const symbols *parent)
{
    symbols s = {parent, new_table(w, NULL)};
    if (!s.state) return;
    jnode *body = owner->type == N_SETBLOCK ? owner->c : owner->d;
    if (owner->type == N_FOR) targets(w, &s, owner->a, param);
    if (owner->type == N_MACRO) {
        for (const jnode *q = owner->a; q; q = q->next) param(w, &s, q);
        for (const jnode *q = owner->a; q; q = q->next)
            if (q->a) expressions(w, &s, q->a);
    }
    if (owner->type == N_WITH)
        for (const jnode *q = owner->a; q; q = q->next) targets(w, &s, q, param);
    statements(w, &s, body);
    if (w->status == PAWL_OK) note_masked(w, owner, &s);
    inner_scopes(w, body, &s);
    free(s.state);
}

pawl_status pawl__jinja_scopes(jnode *root, uint32_t nnames, const char *name, pawl_arena *arena, pawl_err *err)
{
    walker w = {.nnames = nnames, .tmpl = name, .arena = arena, .err = err};
    w.names = calloc(nnames ? nnames : 1, sizeof *w.names);
    if (!w.names) return pawl__fail(err, PAWL_ENOMEM, "%s: out of memory", name);
    walk_scope(&w, root, NULL);
    free(w.names);
    return w.status;
}
