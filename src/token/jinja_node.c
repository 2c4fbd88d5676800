/* What the parser is made of: the stream of tokens, nodes of the tree, interned names. */
#include "token/jinja_parse.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

jnode *pawl__jparse_fail(jparser *p, int line, const char *fmt, ...)
{
    if (p->status != PAWL_OK) return NULL;
    char text[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    p->status = pawl__fail(p->err, PAWL_EFORMAT, "%s:%d: %s", p->name, line, text);
    return NULL;
}

void pawl__jparse_no_memory(jparser *p)
{
    if (p->status == PAWL_OK) p->status = pawl__fail(p->err, PAWL_ENOMEM, "%s: template is too large", p->name);
}

/* ---- tokens ---- */

void pawl__jparse_advance(jparser *p)
{
    if (p->tok->type != T_EOF) p->tok++;
}

const jtoken *pawl__jparse_look(const jparser *p)
{
    return p->tok->type == T_EOF ? p->tok : p->tok + 1;
}

int pawl__jparse_is_name(const jtoken *t, const char *word)
{
    return t->type == T_NAME && pawl__jv_is(t->value, word);
}

int pawl__jparse_skip(jparser *p, jtok type)
{
    if (p->tok->type != type) return 0;
    pawl__jparse_advance(p);
    return 1;
}

int pawl__jparse_skip_name(jparser *p, const char *word)
{
    if (!pawl__jparse_is_name(p->tok, word)) return 0;
    pawl__jparse_advance(p);
    return 1;
}

void pawl__jparse_unexpected(jparser *p, const char *wanted)
{
    char text[40];
    pawl__jparse_fail(p, p->tok->line, "unexpected %s, expected %s", pawl__jinja_token_name(p->tok, text), wanted);
}

void pawl__jparse_expect(jparser *p, jtok type, const char *wanted)
{
    if (!pawl__jparse_skip(p, type)) pawl__jparse_unexpected(p, wanted);
}

/* ---- nodes ---- */

jnode *pawl__jparse_node(jparser *p, jtype type, int line)
{
    if (p->status != PAWL_OK) return NULL;
    jnode *n = pawl__arena_alloc(p->arena, sizeof *n);
    if (!n) {
        pawl__jparse_no_memory(p);
        return NULL;
    }
    n->type = (uint8_t)type;
    n->line = line;
    n->height = 1;
    return n;
}

/* Makes child part of n: the tree's height is bounded, so that whoever walks it may recurse. */
jnode *pawl__jparse_under(jparser *p, jnode *n, jnode *child)
{
    if (!n || !child) return child;
    if (child->height >= JINJA_MAX_HEIGHT) {
        pawl__jparse_fail(p, n->line, "expression or block is nested more than %d deep", JINJA_MAX_HEIGHT);
        return child;
    }
    if (n->height <= child->height) n->height = (uint16_t)(child->height + 1);
    return child;
}

jnode *pawl__jparse_list_under(jparser *p, jnode *n, jnode *list)
{
    for (jnode *i = list; i; i = i->next) pawl__jparse_under(p, n, i);
    return list;
}

jnode *pawl__jparse_node2(jparser *p, jtype type, int line, jop op, jnode *a, jnode *b)
{
    jnode *n = pawl__jparse_node(p, type, line);
    if (!n) return NULL;
    n->op = (uint8_t)op;
    n->a = pawl__jparse_under(p, n, a);
    n->b = pawl__jparse_under(p, n, b);
    return n;
}

void pawl__jparse_append(jchain *c, jnode *n)
{
    if (!n) return;
    if (!c->last) c->last = &c->first;
    *c->last = n;
    c->last = &n->next;
    c->n++;
}

int pawl__jparse_deeper(jparser *p)
{
    if (p->status != PAWL_OK) return 0;
    if (p->nest >= JINJA_MAX_NEST) {
        pawl__jparse_fail(p, p->tok->line, "nested more than %d deep", JINJA_MAX_NEST);
        return 0;
    }
    p->nest++;
    return 1;
}

static uint32_t hash_name(const char *s, size_t n)
{
    uint32_t h = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)s[i]) * 16777619u;
    return h;
}

static int grow_names(jparser *p)
{
    uint32_t nslots = p->nslots ? p->nslots * 2 : 64;
    const char **names = calloc(nslots, sizeof *names);
    uint32_t *ids = calloc(nslots, sizeof *ids);
    if (!names || !ids) {
        free(names);
        free(ids);
        pawl__jparse_no_memory(p);
        return 0;
    }
    for (uint32_t i = 0; i < p->nslots; i++) {
        if (!p->names[i]) continue;
        uint32_t h = hash_name(p->names[i], strlen(p->names[i])) & (nslots - 1);
        while (names[h]) h = (h + 1) & (nslots - 1);
        names[h] = p->names[i];
        ids[h] = p->ids[i];
    }
    free(p->names);
    free(p->ids);
    p->names = names;
    p->ids = ids;
    p->nslots = nslots;
    return 1;
}

/* Gives n the one copy of this name, so that names compare by address. */
void pawl__jparse_intern(jparser *p, jnode *n, jval name)
{
    if (!n) return;
    if (p->nnames * 2 >= p->nslots && !grow_names(p)) return;
    uint32_t h = hash_name(name.u.s, name.n) & (p->nslots - 1);
    while (p->names[h] && !(strlen(p->names[h]) == name.n && memcmp(p->names[h], name.u.s, name.n) == 0))
        h = (h + 1) & (p->nslots - 1);
    if (!p->names[h]) {
        char *copy = pawl__arena_strndup(p->arena, name.u.s, name.n);
        if (!copy) {
            pawl__jparse_no_memory(p);
            return;
        }
        p->names[h] = copy;
        p->ids[h] = p->nnames++;
    }
    n->value = pawl__jv_view(p->names[h], name.n);
    n->id = p->ids[h];
}

jnode *pawl__jparse_name_node(jparser *p, jtype type, const jtoken *t)
{
    jnode *n = pawl__jparse_node(p, type, t->line);
    pawl__jparse_intern(p, n, t->value);
    return n;
}

jnode *pawl__jparse_const_node(jparser *p, int line, jval v)
{
    jnode *n = pawl__jparse_node(p, N_CONST, line);
    if (n) n->value = v;
    return n;
}
