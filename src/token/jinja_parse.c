/* Builds the syntax tree of a template. The grammar is Jinja2's, precedence and oddities included; what needs other
 * templates (include, import, extends, block) is refused by name.
 *
 * Errors are sticky: after the first one every function returns NULL soon, and callers need not look. */
#include "token/jinja.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct parser {
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
} parser;

static jnode *expression(parser *p);
static jnode *primary(parser *p);
static jnode *postfix(parser *p, jnode *n);
static jnode *body_until(parser *p, const char *const *ends);

static jnode *fail_at(parser *p, int line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static jnode *fail_at(parser *p, int line, const char *fmt, ...)
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

static void no_memory(parser *p)
{
    if (p->status == PAWL_OK) p->status = pawl__fail(p->err, PAWL_ENOMEM, "%s: template is too large", p->name);
}

/* ---- tokens ---- */

static void advance(parser *p)
{
    if (p->tok->type != T_EOF) p->tok++;
}

static const jtoken *look(const parser *p)
{
    return p->tok->type == T_EOF ? p->tok : p->tok + 1;
}

static int is_name(const jtoken *t, const char *word)
{
    return t->type == T_NAME && pawl__jv_is(t->value, word);
}

static int skip_if(parser *p, jtok type)
{
    if (p->tok->type != type) return 0;
    advance(p);
    return 1;
}

static int skip_name(parser *p, const char *word)
{
    if (!is_name(p->tok, word)) return 0;
    advance(p);
    return 1;
}

static void unexpected(parser *p, const char *wanted)
{
    char text[40];
    fail_at(p, p->tok->line, "unexpected %s, expected %s", pawl__jinja_token_name(p->tok, text), wanted);
}

static void expect(parser *p, jtok type, const char *wanted)
{
    if (!skip_if(p, type)) unexpected(p, wanted);
}

/* ---- nodes ---- */

static jnode *node(parser *p, jtype type, int line)
{
    if (p->status != PAWL_OK) return NULL;
    jnode *n = pawl__arena_alloc(p->arena, sizeof *n);
    if (!n) {
        no_memory(p);
        return NULL;
    }
    n->type = (uint8_t)type;
    n->line = line;
    n->height = 1;
    return n;
}

/* Makes child part of n: the tree's height is bounded, so that whoever walks it may recurse. */
static jnode *under(parser *p, jnode *n, jnode *child)
{
    if (!n || !child) return child;
    if (child->height >= JINJA_MAX_HEIGHT) {
        fail_at(p, n->line, "expression or block is nested more than %d deep", JINJA_MAX_HEIGHT);
        return child;
    }
    if (n->height <= child->height) n->height = (uint16_t)(child->height + 1);
    return child;
}

static jnode *list_under(parser *p, jnode *n, jnode *list)
{
    for (jnode *i = list; i; i = i->next) under(p, n, i);
    return list;
}

static jnode *node2(parser *p, jtype type, int line, jop op, jnode *a, jnode *b)
{
    jnode *n = node(p, type, line);
    if (!n) return NULL;
    n->op = (uint8_t)op;
    n->a = under(p, n, a);
    n->b = under(p, n, b);
    return n;
}

typedef struct chain {
    jnode *first, **last;
    size_t n;
} chain;

static void chain_add(chain *c, jnode *n)
{
    if (!n) return;
    if (!c->last) c->last = &c->first;
    *c->last = n;
    c->last = &n->next;
    c->n++;
}

static int deeper(parser *p)
{
    if (p->status != PAWL_OK) return 0;
    if (p->nest >= JINJA_MAX_NEST) {
        fail_at(p, p->tok->line, "nested more than %d deep", JINJA_MAX_NEST);
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

static int grow_names(parser *p)
{
    uint32_t nslots = p->nslots ? p->nslots * 2 : 64;
    const char **names = calloc(nslots, sizeof *names);
    uint32_t *ids = calloc(nslots, sizeof *ids);
    if (!names || !ids) {
        free(names);
        free(ids);
        no_memory(p);
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
static void set_name(parser *p, jnode *n, jval name)
{
    if (!n) return;
    if (p->nnames * 2 >= p->nslots && !grow_names(p)) return;
    uint32_t h = hash_name(name.u.s, name.n) & (p->nslots - 1);
    while (p->names[h] && !(strlen(p->names[h]) == name.n && memcmp(p->names[h], name.u.s, name.n) == 0))
        h = (h + 1) & (p->nslots - 1);
    if (!p->names[h]) {
        char *copy = pawl__arena_strndup(p->arena, name.u.s, name.n);
        if (!copy) {
            no_memory(p);
            return;
        }
        p->names[h] = copy;
        p->ids[h] = p->nnames++;
    }
    n->value = pawl__jv_view(p->names[h], name.n);
    n->id = p->ids[h];
}

static jnode *name_node(parser *p, jtype type, const jtoken *t)
{
    jnode *n = node(p, type, t->line);
    set_name(p, n, t->value);
    return n;
}

static jnode *const_node(parser *p, int line, jval v)
{
    jnode *n = node(p, N_CONST, line);
    if (n) n->value = v;
    return n;
}

/* ---- expressions, lowest precedence first ---- */

static jnode *binary_chain(parser *p, jnode *(*operand)(parser *), const jtok *types, const jop *ops)
{
    int line = p->tok->line;
    jnode *left = operand(p);
    while (p->status == PAWL_OK) {
        int i = 0;
        while (types[i] != T_EOF && types[i] != p->tok->type) i++;
        if (types[i] == T_EOF) break;
        advance(p);
        jnode *right = operand(p);
        left = node2(p, N_BINARY, line, ops[i], left, right);
        line = p->tok->line;
    }
    return left;
}

static jnode *unary(parser *p, int with_filter);

static jnode *unary_operand(parser *p)
{
    return unary(p, 1);
}

static jnode *power(parser *p)
{
    static const jtok types[] = {T_POW, T_EOF};
    static const jop ops[] = {OP_POW};
    return binary_chain(p, unary_operand, types, ops);
}

static jnode *product(parser *p)
{
    static const jtok types[] = {T_MUL, T_DIV, T_FLOORDIV, T_MOD, T_EOF};
    static const jop ops[] = {OP_MUL, OP_DIV, OP_FLOORDIV, OP_MOD};
    return binary_chain(p, power, types, ops);
}

static jnode *concatenation(parser *p)
{
    int line = p->tok->line;
    chain items = {0};
    chain_add(&items, product(p));
    while (p->status == PAWL_OK && skip_if(p, T_TILDE)) chain_add(&items, product(p));
    if (items.n <= 1) return items.first;
    jnode *n = node(p, N_CONCAT, line);
    if (n) n->a = list_under(p, n, items.first);
    return n;
}

static jnode *sum(parser *p)
{
    static const jtok types[] = {T_ADD, T_SUB, T_EOF};
    static const jop ops[] = {OP_ADD, OP_SUB};
    return binary_chain(p, concatenation, types, ops);
}

static jop compare_op(parser *p)
{
    switch (p->tok->type) {
    case T_EQ:
        advance(p);
        return OP_EQ;
    case T_NE:
        advance(p);
        return OP_NE;
    case T_LT:
        advance(p);
        return OP_LT;
    case T_LE:
        advance(p);
        return OP_LE;
    case T_GT:
        advance(p);
        return OP_GT;
    case T_GE:
        advance(p);
        return OP_GE;
    default:
        break;
    }
    if (skip_name(p, "in")) return OP_IN;
    if (is_name(p->tok, "not") && is_name(look(p), "in")) {
        advance(p);
        advance(p);
        return OP_NOTIN;
    }
    return OP_NONE;
}

static jnode *comparison(parser *p)
{
    int line = p->tok->line;
    jnode *left = sum(p);
    chain ops = {0};
    while (p->status == PAWL_OK) {
        jop op = compare_op(p);
        if (op == OP_NONE) break;
        chain_add(&ops, node2(p, N_OPERAND, p->tok->line, op, sum(p), NULL));
    }
    if (!ops.first) return left;
    jnode *n = node(p, N_COMPARE, line);
    if (!n) return NULL;
    n->a = under(p, n, left);
    n->b = list_under(p, n, ops.first);
    return n;
}

static jnode *negation(parser *p)
{
    int line = p->tok->line;
    if (!skip_name(p, "not")) return comparison(p);
    if (!deeper(p)) return NULL;
    jnode *n = node2(p, N_UNARY, line, OP_NOT, negation(p), NULL);
    p->nest--;
    return n;
}

static jnode *conjunction(parser *p)
{
    int line = p->tok->line;
    jnode *left = negation(p);
    while (p->status == PAWL_OK && skip_name(p, "and")) left = node2(p, N_AND, line, OP_NONE, left, negation(p));
    return left;
}

static jnode *disjunction(parser *p)
{
    if (!deeper(p)) return NULL;
    int line = p->tok->line;
    jnode *left = conjunction(p);
    while (p->status == PAWL_OK && skip_name(p, "or")) left = node2(p, N_OR, line, OP_NONE, left, conjunction(p));
    p->nest--;
    return left;
}

static jnode *expression(parser *p)
{
    if (!deeper(p)) return NULL;
    int line = p->tok->line;
    jnode *value = disjunction(p);
    while (p->status == PAWL_OK && skip_name(p, "if")) {
        jnode *n = node2(p, N_COND, line, OP_NONE, value, disjunction(p));
        if (n && skip_name(p, "else")) n->c = under(p, n, expression(p));
        value = n;
    }
    p->nest--;
    return value;
}

typedef enum tuple_kind { TUPLE_FULL, TUPLE_NO_COND, TUPLE_TARGET, TUPLE_PARENS } tuple_kind;

/* Expressions separated by commas make a tuple, one alone stays itself. end_word: a name that ends it, or NULL. */
static jnode *tuple(parser *p, tuple_kind kind, const char *end_word)
{
    int line = p->tok->line, is_tuple = 0;
    chain items = {0};
    while (p->status == PAWL_OK) {
        if (items.n) expect(p, T_COMMA, "','");
        jtok t = p->tok->type;
        if (t == T_VAR_END || t == T_BLOCK_END || t == T_RPAREN || (end_word && is_name(p->tok, end_word))) break;
        chain_add(&items, kind == TUPLE_TARGET ? primary(p) : kind == TUPLE_NO_COND ? disjunction(p) : expression(p));
        if (p->tok->type != T_COMMA) break;
        is_tuple = 1;
    }
    if (!is_tuple && items.n) return items.first;
    if (!is_tuple && kind != TUPLE_PARENS) {
        unexpected(p, "an expression");
        return NULL;
    }
    jnode *n = node(p, N_TUPLE, line);
    if (n) n->a = list_under(p, n, items.first);
    return n;
}

static jnode *list_display(parser *p)
{
    jnode *n = node(p, N_LIST, p->tok->line);
    chain items = {0};
    advance(p);
    while (p->status == PAWL_OK && p->tok->type != T_RBRACKET) {
        if (items.n) expect(p, T_COMMA, "',' or ']'");
        if (p->tok->type == T_RBRACKET) break;
        chain_add(&items, expression(p));
    }
    expect(p, T_RBRACKET, "']'");
    if (n) n->a = list_under(p, n, items.first);
    return n;
}

static jnode *dict_display(parser *p)
{
    jnode *n = node(p, N_DICT, p->tok->line);
    chain items = {0};
    advance(p);
    while (p->status == PAWL_OK && p->tok->type != T_RBRACE) {
        if (items.n) expect(p, T_COMMA, "',' or '}'");
        if (p->tok->type == T_RBRACE) break;
        jnode *key = expression(p);
        expect(p, T_COLON, "':'");
        chain_add(&items, node2(p, N_PAIR, p->tok->line, OP_NONE, key, expression(p)));
    }
    expect(p, T_RBRACE, "'}'");
    if (n) n->a = list_under(p, n, items.first);
    return n;
}

static jnode *string_literal(parser *p)
{
    const jtoken *first = p->tok;
    size_t n = 0;
    for (const jtoken *t = first; t->type == T_STRING; t++) n += t->value.n;
    if (look(p)->type != T_STRING) {
        advance(p);
        return const_node(p, first->line, first->value);
    }
    char *s = pawl__arena_alloc(p->arena, n + 1);
    if (!s) {
        no_memory(p);
        return NULL;
    }
    size_t k = 0;
    for (; p->tok->type == T_STRING; advance(p)) {
        memcpy(s + k, p->tok->value.u.s, p->tok->value.n);
        k += p->tok->value.n;
    }
    return const_node(p, first->line, pawl__jv_view(s, n));
}

static jnode *name_expression(parser *p)
{
    const jtoken *t = p->tok;
    advance(p);
    if (is_name(t, "true") || is_name(t, "True")) return const_node(p, t->line, pawl__jv_bool(1));
    if (is_name(t, "false") || is_name(t, "False")) return const_node(p, t->line, pawl__jv_bool(0));
    if (is_name(t, "none") || is_name(t, "None")) return const_node(p, t->line, pawl__jv_none());
    int flag = is_name(t, "varargs")  ? JM_VARARGS
               : is_name(t, "kwargs") ? JM_KWARGS
               : is_name(t, "caller") ? JM_CALLER
                                      : 0;
    for (unsigned i = 0; flag && i < p->nmacros; i++) p->macros[i]->op |= (uint8_t)flag;
    return name_node(p, N_NAME, t);
}

static jnode *primary(parser *p)
{
    const jtoken *t = p->tok;
    switch (t->type) {
    case T_NAME:
        return name_expression(p);
    case T_STRING:
        return string_literal(p);
    case T_INT:
    case T_FLOAT:
        advance(p);
        return const_node(p, t->line, t->value);
    case T_LPAREN: {
        advance(p);
        jnode *n = tuple(p, TUPLE_PARENS, NULL);
        expect(p, T_RPAREN, "')'");
        return n;
    }
    case T_LBRACKET:
        return list_display(p);
    case T_LBRACE:
        return dict_display(p);
    default:
        unexpected(p, "an expression");
        return NULL;
    }
}

/* The list of arguments in parentheses. */
static jnode *arguments(parser *p)
{
    chain args = {0};
    int keywords = 0, star = 0, stars = 0, line = p->tok->line;
    expect(p, T_LPAREN, "'('");
    while (p->status == PAWL_OK && p->tok->type != T_RPAREN) {
        if (args.n) expect(p, T_COMMA, "',' or ')'");
        if (p->tok->type == T_RPAREN) break;
        jnode *n;
        int at = p->tok->line, bad = 0;
        if (p->tok->type == T_MUL || p->tok->type == T_POW) {
            int op = p->tok->type == T_POW ? 2 : 1;
            bad = stars || (op == 1 && star);
            if (op == 1) star = 1;
            if (op == 2) stars = 1;
            advance(p);
            n = node2(p, N_STARARG, at, OP_NONE, expression(p), NULL);
            if (n) n->op = (uint8_t)op;
        } else if (p->tok->type == T_NAME && look(p)->type == T_ASSIGN) {
            bad = stars;
            keywords = 1;
            const jtoken *key = p->tok;
            advance(p);
            advance(p);
            n = name_node(p, N_KWARG, key);
            for (jnode *k = args.first; n && k; k = k->next)
                if (k->type == N_KWARG && k->value.u.s == n->value.u.s) fail_at(p, at, "keyword argument repeated");
            if (n) n->a = under(p, n, expression(p));
        } else {
            bad = keywords || star || stars;
            n = expression(p);
        }
        if (bad) fail_at(p, line, "invalid order of arguments in a call");
        chain_add(&args, n);
    }
    expect(p, T_RPAREN, "')'");
    return args.first;
}

static jnode *call(parser *p, jnode *callee)
{
    jnode *n = node2(p, N_CALL, p->tok->line, OP_NONE, callee, NULL);
    jnode *args = arguments(p);
    if (n) n->b = list_under(p, n, args);
    return n;
}

static jnode *subscribed(parser *p)
{
    int line = p->tok->line;
    jnode *start = NULL;
    if (p->tok->type != T_COLON) {
        start = expression(p);
        if (p->tok->type != T_COLON) return start;
    }
    advance(p);
    jnode *n = node2(p, N_SLICE, line, OP_NONE, start, NULL);
    jtok t = p->tok->type;
    if (n && t != T_COLON && t != T_RBRACKET && t != T_COMMA) n->b = under(p, n, expression(p));
    if (n && skip_if(p, T_COLON)) {
        t = p->tok->type;
        if (t != T_RBRACKET && t != T_COMMA) n->c = under(p, n, expression(p));
    }
    return n;
}

static jnode *subscript(parser *p, jnode *obj)
{
    int line = p->tok->line;
    if (skip_if(p, T_DOT)) {
        const jtoken *t = p->tok;
        if (t->type != T_NAME && t->type != T_INT) {
            unexpected(p, "a name or a number after '.'");
            return NULL;
        }
        advance(p);
        if (t->type == T_INT) return node2(p, N_ITEM, line, OP_NONE, obj, const_node(p, t->line, t->value));
        jnode *n = node2(p, N_ATTR, line, OP_NONE, obj, NULL);
        if (n) n->value = t->value;
        return n;
    }
    advance(p);
    chain items = {0};
    while (p->status == PAWL_OK && p->tok->type != T_RBRACKET) {
        if (items.n) expect(p, T_COMMA, "',' or ']'");
        chain_add(&items, subscribed(p));
    }
    expect(p, T_RBRACKET, "']'");
    jnode *key = items.first;
    if (items.n != 1) {
        for (jnode *i = items.first; i; i = i->next)
            if (i->type == N_SLICE) fail_at(p, line, "a slice among several subscripts");
        key = node(p, N_TUPLE, line);
        if (key) key->a = list_under(p, key, items.first);
    }
    return node2(p, N_ITEM, line, OP_NONE, obj, key);
}

static jnode *postfix(parser *p, jnode *n)
{
    while (p->status == PAWL_OK) {
        if (p->tok->type == T_DOT || p->tok->type == T_LBRACKET)
            n = subscript(p, n);
        else if (p->tok->type == T_LPAREN)
            n = call(p, n);
        else
            break;
    }
    return n;
}

/* A filter's or test's name, which may hold dots. */
static jval dotted_name(parser *p)
{
    jval name = p->tok->value;
    expect(p, T_NAME, "a name");
    while (p->status == PAWL_OK && skip_if(p, T_DOT)) {
        if (p->tok->type == T_NAME) name = p->tok->value;
        expect(p, T_NAME, "a name");
        fail_at(p, p->tok->line, "unknown filter or test '...%.*s'", (int)(name.n < 60 ? name.n : 60), name.u.s);
    }
    return name;
}

/* One filter; its name is the current token. */
static jnode *filter(parser *p, jnode *operand)
{
    jnode *n = node2(p, N_FILTER, p->tok->line, OP_NONE, operand, NULL);
    jval name = dotted_name(p);
    jnode *args = p->status == PAWL_OK && p->tok->type == T_LPAREN ? arguments(p) : NULL;
    if (n) {
        n->value = name;
        n->b = list_under(p, n, args);
    }
    return n;
}

static jnode *test(parser *p, jnode *operand)
{
    int line = p->tok->line;
    advance(p);
    int negated = skip_name(p, "not");
    jnode *n = node2(p, N_TEST, line, OP_NONE, operand, NULL);
    jval name = dotted_name(p);
    jnode *args = NULL;
    jtok t = p->tok->type;
    if (t == T_LPAREN) {
        args = arguments(p);
    } else if ((t == T_NAME && !is_name(p->tok, "else") && !is_name(p->tok, "or") && !is_name(p->tok, "and")) ||
               t == T_STRING || t == T_INT || t == T_FLOAT || t == T_LBRACKET || t == T_LBRACE) {
        if (is_name(p->tok, "is")) return fail_at(p, p->tok->line, "tests cannot be chained with 'is'");
        args = postfix(p, primary(p));
    }
    if (!n) return NULL;
    n->value = name;
    n->b = list_under(p, n, args);
    return negated ? node2(p, N_UNARY, line, OP_NOT, n, NULL) : n;
}

static jnode *unary(parser *p, int with_filter)
{
    jnode *n;
    int line = p->tok->line;
    jtok t = p->tok->type;
    if (t == T_SUB || t == T_ADD) {
        if (!deeper(p)) return NULL;
        advance(p);
        n = node2(p, N_UNARY, line, t == T_SUB ? OP_NEG : OP_POS, unary(p, 0), NULL);
        p->nest--;
    } else {
        n = primary(p);
    }
    n = postfix(p, n);
    while (with_filter && p->status == PAWL_OK) {
        if (skip_if(p, T_PIPE))
            n = filter(p, n);
        else if (is_name(p->tok, "is"))
            n = test(p, n);
        else if (p->tok->type == T_LPAREN)
            n = call(p, n);
        else
            break;
    }
    return n;
}

/* ---- statements ---- */

static void check_target(parser *p, const jnode *n)
{
    if (!n) return;
    if (n->type == N_TUPLE) {
        for (const jnode *i = n->a; i; i = i->next) check_target(p, i);
        return;
    }
    if (n->type != N_NAME) {
        fail_at(p, n->line, "cannot assign to this expression");
        return;
    }
    if (p->in_for && pawl__jv_is(n->value, "loop")) fail_at(p, n->line, "cannot assign to loop inside a for");
}

static jnode *target(parser *p, const char *end_word)
{
    jnode *n = tuple(p, TUPLE_TARGET, end_word);
    check_target(p, n);
    return n;
}

static jnode *statement_set(parser *p, int line)
{
    jnode *to;
    if (look(p)->type == T_DOT) {
        to = p->tok->type == T_NAME ? name_node(p, N_NSREF, p->tok) : NULL;
        expect(p, T_NAME, "a name");
        expect(p, T_DOT, "'.'");
        if (p->tok->type == T_NAME && to) to->a = const_node(p, p->tok->line, p->tok->value);
        expect(p, T_NAME, "a name after '.'");
    } else {
        to = target(p, NULL);
    }
    if (skip_if(p, T_ASSIGN)) return node2(p, N_SET, line, OP_NONE, to, tuple(p, TUPLE_FULL, NULL));
    jnode *f = NULL;
    while (p->status == PAWL_OK && skip_if(p, T_PIPE)) f = filter(p, f);
    static const char *const ends[] = {"endset", NULL};
    jnode *n = node2(p, N_SETBLOCK, line, OP_NONE, to, f);
    jnode *body = body_until(p, ends);
    advance(p);
    if (n) n->c = list_under(p, n, body);
    return n;
}

static jnode *statement_if(parser *p, int line)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL}, *const last[] = {"endif", NULL};
    jnode *first = NULL, **link = &first;
    uint16_t height = 1;
    for (;;) {
        jnode *cond = tuple(p, TUPLE_NO_COND, NULL);
        jnode *n = node2(p, N_IF, line, OP_NONE, cond, NULL);
        jnode *body = body_until(p, ends);
        if (!n || p->status != PAWL_OK) return NULL;
        n->b = list_under(p, n, body);
        *link = n;
        link = &n->c;
        if (n->height > height) height = n->height;
        line = p->tok->line;
        if (!skip_name(p, "elif")) break;
    }
    if (skip_name(p, "else")) {
        jnode *n = node(p, N_IF, line);
        jnode *body = body_until(p, last);
        if (!n) return NULL;
        n->b = list_under(p, n, body);
        *link = n;
        if (n->height > height) height = n->height;
    }
    advance(p);
    first->height = height;
    return first;
}

static jnode *statement_for(parser *p, int line)
{
    static const char *const ends[] = {"endfor", "else", NULL}, *const last[] = {"endfor", NULL};
    p->in_for++;
    jnode *to = target(p, "in");
    if (!skip_name(p, "in")) unexpected(p, "'in'");
    jnode *n = node2(p, N_FOR, line, OP_NONE, to, tuple(p, TUPLE_NO_COND, "recursive"));
    if (skip_name(p, "if") && n) n->c = under(p, n, expression(p));
    if (is_name(p->tok, "recursive")) fail_at(p, line, "recursive loops are not supported");
    p->loops++;
    jnode *body = body_until(p, ends);
    p->loops--;
    if (n) n->d = list_under(p, n, body);
    if (skip_name(p, "else")) {
        jnode *scope = node(p, N_SCOPE, p->tok->line);
        body = body_until(p, last);
        if (scope) scope->d = list_under(p, scope, body);
        if (n) n->e = under(p, n, scope);
    }
    advance(p);
    p->in_for--;
    return n;
}

static void parameters(parser *p, jnode *macro)
{
    chain params = {0};
    int defaults = 0;
    expect(p, T_LPAREN, "'('");
    while (p->status == PAWL_OK && p->tok->type != T_RPAREN) {
        if (params.n) expect(p, T_COMMA, "',' or ')'");
        const jtoken *t = p->tok;
        expect(p, T_NAME, "a parameter's name");
        if (p->status != PAWL_OK) return;
        jnode *n = name_node(p, N_PARAM, t);
        if (skip_if(p, T_ASSIGN)) {
            defaults = 1;
            if (n) n->a = under(p, n, expression(p));
        } else if (defaults) {
            fail_at(p, t->line, "a parameter without a default follows one with a default");
        }
        for (jnode *q = params.first; q && n; q = q->next)
            if (q->value.u.s == n->value.u.s) fail_at(p, t->line, "parameter named twice");
        chain_add(&params, n);
    }
    expect(p, T_RPAREN, "')'");
    if (macro) macro->a = list_under(p, macro, params.first);
}

/* The body of a macro or call block: a function of its own, so that an outer loop cannot be left from inside. */
static void function_body(parser *p, jnode *macro, const char *const *ends)
{
    if (!macro || p->status != PAWL_OK) return;
    if (p->nmacros == JINJA_MAX_NEST) {
        fail_at(p, macro->line, "nested more than %d deep", JINJA_MAX_NEST);
        return;
    }
    p->macros[p->nmacros++] = macro;
    int loops = p->loops;
    p->loops = 0;
    jnode *body = body_until(p, ends);
    advance(p);
    p->loops = loops;
    p->nmacros--;
    macro->d = list_under(p, macro, body);
}

static jnode *statement_macro(parser *p, int line)
{
    static const char *const ends[] = {"endmacro", NULL};
    const jtoken *t = p->tok;
    expect(p, T_NAME, "the macro's name");
    if (p->status != PAWL_OK) return NULL;
    jnode *n = name_node(p, N_MACRO, t);
    if (n) n->line = line;
    parameters(p, n);
    function_body(p, n, ends);
    return n;
}

static jnode *statement_call(parser *p, int line)
{
    static const char *const ends[] = {"endcall", NULL};
    jnode *macro = node(p, N_MACRO, line);
    if (p->tok->type == T_LPAREN) parameters(p, macro);
    jnode *c = expression(p);
    if (c && c->type != N_CALL) return fail_at(p, line, "a call block needs a call");
    function_body(p, macro, ends);
    return node2(p, N_CALLBLOCK, line, OP_NONE, c, macro);
}

static jnode *statement_generation(parser *p, int line)
{
    static const char *const ends[] = {"endgeneration", NULL};
    jnode *n = node(p, N_SCOPE, line);
    int loops = p->loops;
    p->loops = 0;
    jnode *body = body_until(p, ends);
    advance(p);
    p->loops = loops;
    if (n) n->d = list_under(p, n, body);
    return n;
}

static jnode *statement_filter(parser *p, int line)
{
    static const char *const ends[] = {"endfilter", NULL};
    jnode *f = filter(p, NULL);
    while (p->status == PAWL_OK && skip_if(p, T_PIPE)) f = filter(p, f);
    jnode *n = node2(p, N_FILTERBLOCK, line, OP_NONE, f, NULL);
    jnode *body = body_until(p, ends);
    advance(p);
    if (n) n->d = list_under(p, n, body);
    return n;
}

static jnode *statement_with(parser *p, int line)
{
    static const char *const ends[] = {"endwith", NULL};
    chain targets = {0}, values = {0};
    while (p->status == PAWL_OK && p->tok->type != T_BLOCK_END) {
        if (targets.n) expect(p, T_COMMA, "','");
        chain_add(&targets, target(p, NULL));
        expect(p, T_ASSIGN, "'='");
        chain_add(&values, expression(p));
    }
    jnode *n = node(p, N_WITH, line);
    jnode *body = body_until(p, ends);
    advance(p);
    if (!n) return NULL;
    n->a = list_under(p, n, targets.first);
    n->b = list_under(p, n, values.first);
    n->d = list_under(p, n, body);
    return n;
}

static jnode *statement_print(parser *p, int line)
{
    chain items = {0};
    while (p->status == PAWL_OK && p->tok->type != T_BLOCK_END) {
        if (items.n) expect(p, T_COMMA, "','");
        chain_add(&items, node2(p, N_PRINT, line, OP_NONE, expression(p), NULL));
    }
    jnode *n = node(p, N_SCOPE, line);
    if (n) n->d = list_under(p, n, items.first);
    return n;
}

static jnode *statement_break(parser *p, int line)
{
    if (!p->loops) return fail_at(p, line, "break outside a loop");
    return node(p, N_BREAK, line);
}

static jnode *statement_continue(parser *p, int line)
{
    if (!p->loops) return fail_at(p, line, "continue outside a loop");
    return node(p, N_CONTINUE, line);
}

static jnode *statement(parser *p)
{
    static const struct {
        const char *tag;
        jnode *(*parse)(parser *, int line);
    } tags[] = {{"set", statement_set},
                {"if", statement_if},
                {"for", statement_for},
                {"macro", statement_macro},
                {"call", statement_call},
                {"filter", statement_filter},
                {"with", statement_with},
                {"print", statement_print},
                {"break", statement_break},
                {"continue", statement_continue},
                {"generation", statement_generation}};
    static const char *const refused[] = {"include",    "import", "from",  "extends", "block",
                                          "autoescape", "do",     "trans", "debug"};
    const jtoken *t = p->tok;
    if (t->type != T_NAME) {
        unexpected(p, "a tag's name");
        return NULL;
    }
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        if (!is_name(t, tags[i].tag)) continue;
        if (!deeper(p)) return NULL;
        advance(p);
        jnode *n = tags[i].parse(p, t->line);
        p->nest--;
        return n;
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (is_name(t, refused[i])) return fail_at(p, t->line, "the tag '%s' is not supported", refused[i]);
    char text[40];
    return fail_at(p, t->line, "unknown tag %s", pawl__jinja_token_name(t, text));
}

/* Statements up to a tag named in ends (NULL: to the end of the template); that name is then the current token. */
static jnode *statements(parser *p, const char *const *ends)
{
    chain body = {0};
    while (p->status == PAWL_OK) {
        const jtoken *t = p->tok;
        if (t->type == T_EOF) {
            if (ends) fail_at(p, t->line, "unexpected end of template, expected '%s'", ends[0]);
            break;
        }
        advance(p);
        if (t->type == T_DATA) {
            jnode *n = node(p, N_DATA, t->line);
            if (n) n->value = t->value;
            chain_add(&body, n);
        } else if (t->type == T_VAR_BEGIN) {
            jnode *n = node2(p, N_PRINT, t->line, OP_NONE, tuple(p, TUPLE_FULL, NULL), NULL);
            expect(p, T_VAR_END, "'}}'");
            chain_add(&body, n);
        } else {
            for (int i = 0; ends && ends[i]; i++)
                if (is_name(p->tok, ends[i])) return body.first;
            chain_add(&body, statement(p));
            expect(p, T_BLOCK_END, "'%}'");
        }
    }
    return body.first;
}

static jnode *body_until(parser *p, const char *const *ends)
{
    skip_if(p, T_COLON);
    expect(p, T_BLOCK_END, "'%}'");
    return statements(p, ends);
}

static const char *own_name(parser *p, const char *word)
{
    jnode *n = node(p, N_NAME, 1);
    set_name(p, n, pawl__jv_view(word, strlen(word)));
    return n ? n->value.u.s : NULL;
}

pawl_status pawl__jinja_parse(const jtokens *tokens, const char *name, pawl_arena *arena, jparsed *out, pawl_err *err)
{
    parser p = {.tok = tokens->v, .name = name, .arena = arena, .err = err};
    out->loop = own_name(&p, "loop");
    out->caller = own_name(&p, "caller");
    out->varargs = own_name(&p, "varargs");
    out->kwargs = own_name(&p, "kwargs");
    out->root = node(&p, N_SCOPE, 1);
    jnode *body = statements(&p, NULL);
    if (out->root) out->root->d = list_under(&p, out->root, body);
    out->nnames = p.nnames;
    free(p.names);
    free(p.ids);
    return p.status;
}
