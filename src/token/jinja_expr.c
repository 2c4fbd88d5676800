/* Parses expressions, lowest precedence first, with Jinja2's precedence and oddities. */
#include "token/jinja_parse.h"

#include <string.h>

static jnode *binary_chain(jparser *p, jnode *(*operand)(jparser *), const jtok *types, const jop *ops)
{
    int line = p->tok->line;
    jnode *left = operand(p);
    while (p->status == PAWL_OK) {
        int i = 0;
        while (types[i] != T_EOF && types[i] != p->tok->type) i++;
        if (types[i] == T_EOF) break;
        pawl__jparse_advance(p);
        jnode *right = operand(p);
        left = pawl__jparse_node2(p, N_BINARY, line, ops[i], left, right);
        line = p->tok->line;
    }
    return left;
}

static jnode *unary(jparser *p, int with_filter);
static jnode *primary(jparser *p);
static jnode *postfix(jparser *p, jnode *n);

static jnode *unary_operand(jparser *p)
{
    return unary(p, 1);
}

static jnode *power(jparser *p)
{
    static const jtok types[] = {T_POW, T_EOF};
    static const jop ops[] = {OP_POW};
    return binary_chain(p, unary_operand, types, ops);
}

static jnode *product(jparser *p)
{
    static const jtok types[] = {T_MUL, T_DIV, T_FLOORDIV, T_MOD, T_EOF};
    static const jop ops[] = {OP_MUL, OP_DIV, OP_FLOORDIV, OP_MOD};
    return binary_chain(p, power, types, ops);
}

static jnode *concatenation(jparser *p)
{
    int line = p->tok->line;
    jchain items = {0};
    pawl__jparse_append(&items, product(p));
    while (p->status == PAWL_OK && pawl__jparse_skip(p, T_TILDE)) pawl__jparse_append(&items, product(p));
    if (items.n <= 1) return items.first;
    jnode *n = pawl__jparse_node(p, N_CONCAT, line);
    if (n) n->a = pawl__jparse_list_under(p, n, items.first);
    return n;
}

static jnode *sum(jparser *p)
{
    static const jtok types[] = {T_ADD, T_SUB, T_EOF};
    static const jop ops[] = {OP_ADD, OP_SUB};
    return binary_chain(p, concatenation, types, ops);
}

static jop compare_op(jparser *p)
{
    switch (p->tok->type) {
    case T_EQ:
        pawl__jparse_advance(p);
        return OP_EQ;
    case T_NE:
        pawl__jparse_advance(p);
        return OP_NE;
    case T_LT:
        pawl__jparse_advance(p);
        return OP_LT;
    case T_LE:
        pawl__jparse_advance(p);
        return OP_LE;
    case T_GT:
        pawl__jparse_advance(p);
        return OP_GT;
    case T_GE:
        pawl__jparse_advance(p);
        return OP_GE;
    default:
        break;
    }
    if (pawl__jparse_skip_name(p, "in")) return OP_IN;
    if (pawl__jparse_is_name(p->tok, "not") && pawl__jparse_is_name(pawl__jparse_look(p), "in")) {
        pawl__jparse_advance(p);
        pawl__jparse_advance(p);
        return OP_NOTIN;
    }
    return OP_NONE;
}

static jnode *comparison(jparser *p)
{
    int line = p->tok->line;
    jnode *left = sum(p);
    jchain ops = {0};
    while (p->status == PAWL_OK) {
        jop op = compare_op(p);
        if (op == OP_NONE) break;
        pawl__jparse_append(&ops, pawl__jparse_node2(p, N_OPERAND, p->tok->line, op, sum(p), NULL));
    }
    if (!ops.first) return left;
    jnode *n = pawl__jparse_node(p, N_COMPARE, line);
    if (!n) return NULL;
    n->a = pawl__jparse_under(p, n, left);
    n->b = pawl__jparse_list_under(p, n, ops.first);
    return n;
}

static jnode *negation(jparser *p)
{
    int line = p->tok->line;
    if (!pawl__jparse_skip_name(p, "not")) return comparison(p);
    if (!pawl__jparse_deeper(p)) return NULL;
    jnode *n = pawl__jparse_node2(p, N_UNARY, line, OP_NOT, negation(p), NULL);
    p->nest--;
    return n;
}

static jnode *conjunction(jparser *p)
{
    int line = p->tok->line;
    jnode *left = negation(p);
    while (p->status == PAWL_OK && pawl__jparse_skip_name(p, "and"))
        left = pawl__jparse_node2(p, N_AND, line, OP_NONE, left, negation(p));
    return left;
}

static jnode *disjunction(jparser *p)
{
    if (!pawl__jparse_deeper(p)) return NULL;
    int line = p->tok->line;
    jnode *left = conjunction(p);
    while (p->status == PAWL_OK && pawl__jparse_skip_name(p, "or"))
        left = pawl__jparse_node2(p, N_OR, line, OP_NONE, left, conjunction(p));
    p->nest--;
    return left;
}

jnode *pawl__jparse_expression(jparser *p)
{
    if (!pawl__jparse_deeper(p)) return NULL;
    int line = p->tok->line;
    jnode *value = disjunction(p);
    while (p->status == PAWL_OK && pawl__jparse_skip_name(p, "if")) {
        jnode *n = pawl__jparse_node2(p, N_COND, line, OP_NONE, value, disjunction(p));
        if (n && pawl__jparse_skip_name(p, "else")) n->c = pawl__jparse_under(p, n, pawl__jparse_expression(p));
        value = n;
    }
    p->nest--;
    return value;
}

/* Expressions separated by commas make a tuple, one alone stays itself. end_word: a name that ends it, or NULL. */
jnode *pawl__jparse_tuple(jparser *p, jtuple_kind kind, const char *end_word)
{
    int line = p->tok->line, is_tuple = 0;
    jchain items = {0};
    while (p->status == PAWL_OK) {
        if (items.n) pawl__jparse_expect(p, T_COMMA, "','");
        jtok t = p->tok->type;
        if (t == T_VAR_END || t == T_BLOCK_END || t == T_RPAREN || (end_word && pawl__jparse_is_name(p->tok, end_word)))
            break;
        pawl__jparse_append(&items, kind == TUPLE_TARGET    ? primary(p)
                                    : kind == TUPLE_NO_COND ? disjunction(p)
                                                            : pawl__jparse_expression(p));
        if (p->tok->type != T_COMMA) break;
        is_tuple = 1;
    }
    if (!is_tuple && items.n) return items.first;
    if (!is_tuple && kind != TUPLE_PARENS) {
        pawl__jparse_unexpected(p, "an expression");
        return NULL;
    }
    jnode *n = pawl__jparse_node(p, N_TUPLE, line);
    if (n) n->a = pawl__jparse_list_under(p, n, items.first);
    return n;
}

static jnode *list_display(jparser *p)
{
    jnode *n = pawl__jparse_node(p, N_LIST, p->tok->line);
    jchain items = {0};
    pawl__jparse_advance(p);
    while (p->status == PAWL_OK && p->tok->type != T_RBRACKET) {
        if (items.n) pawl__jparse_expect(p, T_COMMA, "',' or ']'");
        if (p->tok->type == T_RBRACKET) break;
        pawl__jparse_append(&items, pawl__jparse_expression(p));
    }
    pawl__jparse_expect(p, T_RBRACKET, "']'");
    if (n) n->a = pawl__jparse_list_under(p, n, items.first);
    return n;
}

static jnode *dict_display(jparser *p)
{
    jnode *n = pawl__jparse_node(p, N_DICT, p->tok->line);
    jchain items = {0};
    pawl__jparse_advance(p);
    while (p->status == PAWL_OK && p->tok->type != T_RBRACE) {
        if (items.n) pawl__jparse_expect(p, T_COMMA, "',' or '}'");
        if (p->tok->type == T_RBRACE) break;
        jnode *key = pawl__jparse_expression(p);
        pawl__jparse_expect(p, T_COLON, "':'");
        pawl__jparse_append(&items,
                            pawl__jparse_node2(p, N_PAIR, p->tok->line, OP_NONE, key, pawl__jparse_expression(p)));
    }
    pawl__jparse_expect(p, T_RBRACE, "'}'");
    if (n) n->a = pawl__jparse_list_under(p, n, items.first);
    return n;
}

static jnode *string_literal(jparser *p)
{
    const jtoken *first = p->tok;
    size_t n = 0;
    for (const jtoken *t = first; t->type == T_STRING; t++) n += t->value.n;
    if (pawl__jparse_look(p)->type != T_STRING) {
        pawl__jparse_advance(p);
        return pawl__jparse_const_node(p, first->line, first->value);
    }
    char *s = pawl__arena_alloc(p->arena, n + 1);
    if (!s) {
        pawl__jparse_no_memory(p);
        return NULL;
    }
    size_t k = 0;
    for (; p->tok->type == T_STRING; pawl__jparse_advance(p)) {
        memcpy(s + k, p->tok->value.u.s, p->tok->value.n);
        k += p->tok->value.n;
    }
    return pawl__jparse_const_node(p, first->line, pawl__jv_view(s, n));
}

static jnode *name_expression(jparser *p)
{
    const jtoken *t = p->tok;
    pawl__jparse_advance(p);
    if (pawl__jparse_is_name(t, "true") || pawl__jparse_is_name(t, "True"))
        return pawl__jparse_const_node(p, t->line, pawl__jv_bool(1));
    if (pawl__jparse_is_name(t, "false") || pawl__jparse_is_name(t, "False"))
        return pawl__jparse_const_node(p, t->line, pawl__jv_bool(0));
    if (pawl__jparse_is_name(t, "none") || pawl__jparse_is_name(t, "None"))
        return pawl__jparse_const_node(p, t->line, pawl__jv_none());
    int flag = pawl__jparse_is_name(t, "varargs")  ? JM_VARARGS
               : pawl__jparse_is_name(t, "kwargs") ? JM_KWARGS
               : pawl__jparse_is_name(t, "caller") ? JM_CALLER
                                                   : 0;
    for (unsigned i = 0; flag && i < p->nmacros; i++) p->macros[i]->op |= (uint8_t)flag;
    return pawl__jparse_name_node(p, N_NAME, t);
}

static jnode *primary(jparser *p)
{
    const jtoken *t = p->tok;
    switch (t->type) {
    case T_NAME:
        return name_expression(p);
    case T_STRING:
        return string_literal(p);
    case T_INT:
    case T_FLOAT:
        pawl__jparse_advance(p);
        return pawl__jparse_const_node(p, t->line, t->value);
    case T_LPAREN: {
        pawl__jparse_advance(p);
        jnode *n = pawl__jparse_tuple(p, TUPLE_PARENS, NULL);
        pawl__jparse_expect(p, T_RPAREN, "')'");
        return n;
    }
    case T_LBRACKET:
        return list_display(p);
    case T_LBRACE:
        return dict_display(p);
    default:
        pawl__jparse_unexpected(p, "an expression");
        return NULL;
    }
}

/* The list of arguments in parentheses. */
static jnode *arguments(jparser *p)
{
    jchain args = {0};
    int keywords = 0, star = 0, stars = 0, line = p->tok->line;
    pawl__jparse_expect(p, T_LPAREN, "'('");
    while (p->status == PAWL_OK && p->tok->type != T_RPAREN) {
        if (args.n) pawl__jparse_expect(p, T_COMMA, "',' or ')'");
        if (p->tok->type == T_RPAREN) break;
        jnode *n;
        int at = p->tok->line, bad = 0;
        if (p->tok->type == T_MUL || p->tok->type == T_POW) {
            int op = p->tok->type == T_POW ? 2 : 1;
            bad = stars || (op == 1 && star);
            if (op == 1) star = 1;
            if (op == 2) stars = 1;
            pawl__jparse_advance(p);
            n = pawl__jparse_node2(p, N_STARARG, at, OP_NONE, pawl__jparse_expression(p), NULL);
            if (n) n->op = (uint8_t)op;
        } else if (p->tok->type == T_NAME && pawl__jparse_look(p)->type == T_ASSIGN) {
            bad = stars;
            keywords = 1;
            const jtoken *key = p->tok;
            pawl__jparse_advance(p);
            pawl__jparse_advance(p);
            n = pawl__jparse_name_node(p, N_KWARG, key);
            for (jnode *k = args.first; n && k; k = k->next)
                if (k->type == N_KWARG && k->value.u.s == n->value.u.s)
                    pawl__jparse_fail(p, at, "keyword argument repeated");
            if (n) n->a = pawl__jparse_under(p, n, pawl__jparse_expression(p));
        } else {
            bad = keywords || star || stars;
            n = pawl__jparse_expression(p);
        }
        if (bad) pawl__jparse_fail(p, line, "invalid order of arguments in a call");
        pawl__jparse_append(&args, n);
    }
    pawl__jparse_expect(p, T_RPAREN, "')'");
    return args.first;
}

static jnode *call(jparser *p, jnode *callee)
{
    jnode *n = pawl__jparse_node2(p, N_CALL, p->tok->line, OP_NONE, callee, NULL);
    jnode *args = arguments(p);
    if (n) n->b = pawl__jparse_list_under(p, n, args);
    return n;
}

static jnode *subscribed(jparser *p)
{
    int line = p->tok->line;
    jnode *start = NULL;
    if (p->tok->type != T_COLON) {
        start = pawl__jparse_expression(p);
        if (p->tok->type != T_COLON) return start;
    }
    pawl__jparse_advance(p);
    jnode *n = pawl__jparse_node2(p, N_SLICE, line, OP_NONE, start, NULL);
    jtok t = p->tok->type;
    if (n && t != T_COLON && t != T_RBRACKET && t != T_COMMA)
        n->b = pawl__jparse_under(p, n, pawl__jparse_expression(p));
    if (n && pawl__jparse_skip(p, T_COLON)) {
        t = p->tok->type;
        if (t != T_RBRACKET && t != T_COMMA) n->c = pawl__jparse_under(p, n, pawl__jparse_expression(p));
    }
    return n;
}

static jnode *subscript(jparser *p, jnode *obj)
{
    int line = p->tok->line;
    if (pawl__jparse_skip(p, T_DOT)) {
        const jtoken *t = p->tok;
        if (t->type != T_NAME && t->type != T_INT) {
            pawl__jparse_unexpected(p, "a name or a number after '.'");
            return NULL;
        }
        pawl__jparse_advance(p);
        if (t->type == T_INT)
            return pawl__jparse_node2(p, N_ITEM, line, OP_NONE, obj, pawl__jparse_const_node(p, t->line, t->value));
        jnode *n = pawl__jparse_node2(p, N_ATTR, line, OP_NONE, obj, NULL);
        if (n) n->value = t->value;
        return n;
    }
    pawl__jparse_advance(p);
    jchain items = {0};
    while (p->status == PAWL_OK && p->tok->type != T_RBRACKET) {
        if (items.n) pawl__jparse_expect(p, T_COMMA, "',' or ']'");
        pawl__jparse_append(&items, subscribed(p));
    }
    pawl__jparse_expect(p, T_RBRACKET, "']'");
    jnode *key = items.first;
    if (items.n != 1) {
        for (jnode *i = items.first; i; i = i->next)
            if (i->type == N_SLICE) pawl__jparse_fail(p, line, "a slice among several subscripts");
        key = pawl__jparse_node(p, N_TUPLE, line);
        if (key) key->a = pawl__jparse_list_under(p, key, items.first);
    }
    return pawl__jparse_node2(p, N_ITEM, line, OP_NONE, obj, key);
}

static jnode *postfix(jparser *p, jnode *n)
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
static jval dotted_name(jparser *p)
{
    jval name = p->tok->value;
    pawl__jparse_expect(p, T_NAME, "a name");
    while (p->status == PAWL_OK && pawl__jparse_skip(p, T_DOT)) {
        if (p->tok->type == T_NAME) name = p->tok->value;
        pawl__jparse_expect(p, T_NAME, "a name");
        pawl__jparse_fail(p, p->tok->line, "unknown filter or test '...%.*s'", (int)(name.n < 60 ? name.n : 60),
                          name.u.s);
    }
    return name;
}

/* One filter; its name is the current token. */
jnode *pawl__jparse_filter(jparser *p, jnode *operand)
{
    jnode *n = pawl__jparse_node2(p, N_FILTER, p->tok->line, OP_NONE, operand, NULL);
    jval name = dotted_name(p);
    jnode *args = p->status == PAWL_OK && p->tok->type == T_LPAREN ? arguments(p) : NULL;
    if (n) {
        n->value = name;
        n->b = pawl__jparse_list_under(p, n, args);
    }
    return n;
}

static jnode *test(jparser *p, jnode *operand)
{
    int line = p->tok->line;
    pawl__jparse_advance(p);
    int negated = pawl__jparse_skip_name(p, "not");
    jnode *n = pawl__jparse_node2(p, N_TEST, line, OP_NONE, operand, NULL);
    jval name = dotted_name(p);
    jnode *args = NULL;
    jtok t = p->tok->type;
    if (t == T_LPAREN) {
        args = arguments(p);
    } else if ((t == T_NAME && !pawl__jparse_is_name(p->tok, "else") && !pawl__jparse_is_name(p->tok, "or") &&
                !pawl__jparse_is_name(p->tok, "and")) ||
               t == T_STRING || t == T_INT || t == T_FLOAT || t == T_LBRACKET || t == T_LBRACE) {
        if (pawl__jparse_is_name(p->tok, "is"))
            return pawl__jparse_fail(p, p->tok->line, "tests cannot be chained with 'is'");
        args = postfix(p, primary(p));
    }
    if (!n) return NULL;
    n->value = name;
    n->b = pawl__jparse_list_under(p, n, args);
    return negated ? pawl__jparse_node2(p, N_UNARY, line, OP_NOT, n, NULL) : n;
}

static jnode *unary(jparser *p, int with_filter)
{
    jnode *n;
    int line = p->tok->line;
    jtok t = p->tok->type;
    if (t == T_SUB || t == T_ADD) {
        if (!pawl__jparse_deeper(p)) return NULL;
        pawl__jparse_advance(p);
        n = pawl__jparse_node2(p, N_UNARY, line, t == T_SUB ? OP_NEG : OP_POS, unary(p, 0), NULL);
        p->nest--;
    } else {
        n = primary(p);
    }
    n = postfix(p, n);
    while (with_filter && p->status == PAWL_OK) {
        if (pawl__jparse_skip(p, T_PIPE))
            n = pawl__jparse_filter(p, n);
        else if (pawl__jparse_is_name(p->tok, "is"))
            n = test(p, n);
        else if (p->tok->type == T_LPAREN)
            n = call(p, n);
        else
            break;
    }
    return n;
}
