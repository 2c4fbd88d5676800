/* Shared by the parser's three files: jinja_node.c (tokens, nodes, names), jinja_expr.c (expressions) and jinja_parse.c
 * (statements).
 *
 * Errors are sticky: after the first one every function returns NULL soon, and callers need not look. */
#ifndef PAWL_TOKEN_JINJA_PARSE_H
#define PAWL_TOKEN_JINJA_PARSE_H

#include "token/jinja.h"

typedef struct jparser {
    const jtoken *tok; /* the current one; the last is T_EOF and is never passed */
    const char *name;
    pawl_arena *arena;
    pawl_err *err;
    pawl_status status;
    unsigned nest;
    int in_for;                    /* inside any for statement: `loop` cannot be assigned */
    int loops;                     /* break and continue have something to act on */
    jnode *macros[JINJA_MAX_NEST]; /* macros around the current place */
    unsigned nmacros;
    const char **names; /* interned names, hashed */
    uint32_t *ids;
    uint32_t nnames, nslots;
} jparser;

typedef struct jchain {
    jnode *first, **last;
    size_t n;
} jchain;

typedef enum jtuple_kind { TUPLE_FULL, TUPLE_NO_COND, TUPLE_TARGET, TUPLE_PARENS } jtuple_kind;

/* ---- jinja_node.c ---- */
jnode *pawl__jparse_fail(jparser *p, int line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void pawl__jparse_no_memory(jparser *p);
void pawl__jparse_advance(jparser *p);
const jtoken *pawl__jparse_look(const jparser *p); /* the token after the current one */
int pawl__jparse_is_name(const jtoken *t, const char *word);
/* Steps over the current token if it is of this type, or this name. */
int pawl__jparse_skip(jparser *p, jtok type);
int pawl__jparse_skip_name(jparser *p, const char *word);
/* Fails, naming the current token; expect only if it is not of this type, which is stepped over otherwise. */
void pawl__jparse_unexpected(jparser *p, const char *wanted);
void pawl__jparse_expect(jparser *p, jtok type, const char *wanted);

jnode *pawl__jparse_node(jparser *p, jtype type, int line);
jnode *pawl__jparse_node2(jparser *p, jtype type, int line, jop op, jnode *a, jnode *b);
jnode *pawl__jparse_name_node(jparser *p, jtype type, const jtoken *t);
jnode *pawl__jparse_const_node(jparser *p, int line, jval v);
/* Makes child, or every node of a list, part of n and returns it: the tree's height is bounded, so that whoever walks it
 * may recurse. */
jnode *pawl__jparse_under(jparser *p, jnode *n, jnode *child);
jnode *pawl__jparse_list_under(jparser *p, jnode *n, jnode *list);
void pawl__jparse_append(jchain *c, jnode *n);
/* Gives n the one copy of this name, so that names compare by address. */
void pawl__jparse_intern(jparser *p, jnode *n, jval name);
/* Counts one more level of nesting; zero when there are too many. The caller lowers p->nest afterwards. */
int pawl__jparse_deeper(jparser *p);

/* ---- jinja_expr.c ---- */
jnode *pawl__jparse_expression(jparser *p);
/* Expressions separated by commas make a tuple, one alone stays itself. end_word: a name that ends it, or NULL. */
jnode *pawl__jparse_tuple(jparser *p, jtuple_kind kind, const char *end_word);
/* One filter; its name is the current token. */
jnode *pawl__jparse_filter(jparser *p, jnode *operand);

#endif
