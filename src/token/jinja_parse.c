/* Builds the syntax tree of a template: its statements. The grammar is Jinja2's; what needs other templates (include,
 * import, extends, block) is refused by name. */
#include "token/jinja_parse.h"

#include <stdlib.h>
#include <string.h>

static jnode *body_until(jparser *p, const char *const *ends);

static void check_target(jparser *p, const jnode *n)
{
    if (!n) return;
    if (n->type == N_TUPLE) {
        for (const jnode *i = n->a; i; i = i->next) check_target(p, i);
        return;
    }
    if (n->type != N_NAME) {
        pawl__jparse_fail(p, n->line, "cannot assign to this expression");
        return;
    }
    if (p->in_for && pawl__jv_is(n->value, "loop")) pawl__jparse_fail(p, n->line, "cannot assign to loop inside a for");
}

static jnode *target(jparser *p, const char *end_word)
{
    jnode *n = pawl__jparse_tuple(p, TUPLE_TARGET, end_word);
    check_target(p, n);
    return n;
}

static jnode *statement_set(jparser *p, int line)
{
    jnode *to;
    if (pawl__jparse_look(p)->type == T_DOT) {
        to = p->tok->type == T_NAME ? pawl__jparse_name_node(p, N_NSREF, p->tok) : NULL;
        pawl__jparse_expect(p, T_NAME, "a name");
        pawl__jparse_expect(p, T_DOT, "'.'");
        if (p->tok->type == T_NAME && to) to->a = pawl__jparse_const_node(p, p->tok->line, p->tok->value);
        pawl__jparse_expect(p, T_NAME, "a name after '.'");
    } else {
        to = target(p, NULL);
    }
    if (pawl__jparse_skip(p, T_ASSIGN))
        return pawl__jparse_node2(p, N_SET, line, OP_NONE, to, pawl__jparse_tuple(p, TUPLE_FULL, NULL));
    jnode *f = NULL;
    while (p->status == PAWL_OK && pawl__jparse_skip(p, T_PIPE)) f = pawl__jparse_filter(p, f);
    static const char *const ends[] = {"endset", NULL};
    jnode *n = pawl__jparse_node2(p, N_SETBLOCK, line, OP_NONE, to, f);
    jnode *body = body_until(p, ends);
    pawl__jparse_advance(p);
    if (n) n->c = pawl__jparse_list_under(p, n, body);
    return n;
}

static jnode *statement_if(jparser *p, int line)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL}, *const last[] = {"endif", NULL};
    jnode *first = NULL, **link = &first;
    uint16_t height = 1;
    for (;;) {
        jnode *cond = pawl__jparse_tuple(p, TUPLE_NO_COND, NULL);
        jnode *n = pawl__jparse_node2(p, N_IF, line, OP_NONE, cond, NULL);
        jnode *body = body_until(p, ends);
        if (!n || p->status != PAWL_OK) return NULL;
        n->b = pawl__jparse_list_under(p, n, body);
        *link = n;
        link = &n->c;
        if (n->height > height) height = n->height;
        line = p->tok->line;
        if (!pawl__jparse_skip_name(p, "elif")) break;
    }
    if (pawl__jparse_skip_name(p, "else")) {
        jnode *n = pawl__jparse_node(p, N_IF, line);
        jnode *body = body_until(p, last);
        if (!n) return NULL;
        n->b = pawl__jparse_list_under(p, n, body);
        *link = n;
        if (n->height > height) height = n->height;
    }
    pawl__jparse_advance(p);
    first->height = height;
    return first;
}

static jnode *statement_for(jparser *p, int line)
{
    static const char *const ends[] = {"endfor", "else", NULL}, *const last[] = {"endfor", NULL};
    p->in_for++;
    jnode *to = target(p, "in");
    if (!pawl__jparse_skip_name(p, "in")) pawl__jparse_unexpected(p, "'in'");
    jnode *n = pawl__jparse_node2(p, N_FOR, line, OP_NONE, to, pawl__jparse_tuple(p, TUPLE_NO_COND, "recursive"));
    if (pawl__jparse_skip_name(p, "if") && n) n->c = pawl__jparse_under(p, n, pawl__jparse_expression(p));
    if (pawl__jparse_is_name(p->tok, "recursive")) pawl__jparse_fail(p, line, "recursive loops are not supported");
    p->loops++;
    jnode *body = body_until(p, ends);
    p->loops--;
    if (n) n->d = pawl__jparse_list_under(p, n, body);
    if (pawl__jparse_skip_name(p, "else")) {
        jnode *scope = pawl__jparse_node(p, N_SCOPE, p->tok->line);
        body = body_until(p, last);
        if (scope) scope->d = pawl__jparse_list_under(p, scope, body);
        if (n) n->e = pawl__jparse_under(p, n, scope);
    }
    pawl__jparse_advance(p);
    p->in_for--;
    return n;
}

static void parameters(jparser *p, jnode *macro)
{
    jchain params = {0};
    int defaults = 0;
    pawl__jparse_expect(p, T_LPAREN, "'('");
    while (p->status == PAWL_OK && p->tok->type != T_RPAREN) {
        if (params.n) pawl__jparse_expect(p, T_COMMA, "',' or ')'");
        const jtoken *t = p->tok;
        pawl__jparse_expect(p, T_NAME, "a parameter's name");
        if (p->status != PAWL_OK) return;
        jnode *n = pawl__jparse_name_node(p, N_PARAM, t);
        if (pawl__jparse_skip(p, T_ASSIGN)) {
            defaults = 1;
            if (n) n->a = pawl__jparse_under(p, n, pawl__jparse_expression(p));
        } else if (defaults) {
            pawl__jparse_fail(p, t->line, "a parameter without a default follows one with a default");
        }
        for (jnode *q = params.first; q && n; q = q->next)
            if (q->value.u.s == n->value.u.s) pawl__jparse_fail(p, t->line, "parameter named twice");
        pawl__jparse_append(&params, n);
    }
    pawl__jparse_expect(p, T_RPAREN, "')'");
    if (macro) macro->a = pawl__jparse_list_under(p, macro, params.first);
}

/* The body of a macro or call block: a function of its own, so that an outer loop cannot be left from inside. */
static void function_body(jparser *p, jnode *macro, const char *const *ends)
{
    if (!macro || p->status != PAWL_OK) return;
    if (p->nmacros == JINJA_MAX_NEST) {
        pawl__jparse_fail(p, macro->line, "nested more than %d deep", JINJA_MAX_NEST);
        return;
    }
    p->macros[p->nmacros++] = macro;
    int loops = p->loops;
    p->loops = 0;
    jnode *body = body_until(p, ends);
    pawl__jparse_advance(p);
    p->loops = loops;
    p->nmacros--;
    macro->d = pawl__jparse_list_under(p, macro, body);
}

static jnode *statement_macro(jparser *p, int line)
{
    static const char *const ends[] = {"endmacro", NULL};
    const jtoken *t = p->tok;
    pawl__jparse_expect(p, T_NAME, "the macro's name");
    if (p->status != PAWL_OK) return NULL;
    jnode *n = pawl__jparse_name_node(p, N_MACRO, t);
    if (n) n->line = line;
    parameters(p, n);
    function_body(p, n, ends);
    return n;
}

static jnode *statement_call(jparser *p, int line)
{
    static const char *const ends[] = {"endcall", NULL};
    jnode *macro = pawl__jparse_node(p, N_MACRO, line);
    if (p->tok->type == T_LPAREN) parameters(p, macro);
    jnode *c = pawl__jparse_expression(p);
    if (c && c->type != N_CALL) return pawl__jparse_fail(p, line, "a call block needs a call");
    function_body(p, macro, ends);
    return pawl__jparse_node2(p, N_CALLBLOCK, line, OP_NONE, c, macro);
}

static jnode *statement_generation(jparser *p, int line)
{
    static const char *const ends[] = {"endgeneration", NULL};
    jnode *n = pawl__jparse_node(p, N_SCOPE, line);
    int loops = p->loops;
    p->loops = 0;
    jnode *body = body_until(p, ends);
    pawl__jparse_advance(p);
    p->loops = loops;
    if (n) n->d = pawl__jparse_list_under(p, n, body);
    return n;
}

static jnode *statement_filter(jparser *p, int line)
{
    static const char *const ends[] = {"endfilter", NULL};
    jnode *f = pawl__jparse_filter(p, NULL);
    while (p->status == PAWL_OK && pawl__jparse_skip(p, T_PIPE)) f = pawl__jparse_filter(p, f);
    jnode *n = pawl__jparse_node2(p, N_FILTERBLOCK, line, OP_NONE, f, NULL);
    jnode *body = body_until(p, ends);
    pawl__jparse_advance(p);
    if (n) n->d = pawl__jparse_list_under(p, n, body);
    return n;
}

static jnode *statement_with(jparser *p, int line)
{
    static const char *const ends[] = {"endwith", NULL};
    jchain targets = {0}, values = {0};
    while (p->status == PAWL_OK && p->tok->type != T_BLOCK_END) {
        if (targets.n) pawl__jparse_expect(p, T_COMMA, "','");
        pawl__jparse_append(&targets, target(p, NULL));
        pawl__jparse_expect(p, T_ASSIGN, "'='");
        pawl__jparse_append(&values, pawl__jparse_expression(p));
    }
    jnode *n = pawl__jparse_node(p, N_WITH, line);
    jnode *body = body_until(p, ends);
    pawl__jparse_advance(p);
    if (!n) return NULL;
    n->a = pawl__jparse_list_under(p, n, targets.first);
    n->b = pawl__jparse_list_under(p, n, values.first);
    n->d = pawl__jparse_list_under(p, n, body);
    return n;
}

static jnode *statement_print(jparser *p, int line)
{
    jchain items = {0};
    while (p->status == PAWL_OK && p->tok->type != T_BLOCK_END) {
        if (items.n) pawl__jparse_expect(p, T_COMMA, "','");
        pawl__jparse_append(&items, pawl__jparse_node2(p, N_PRINT, line, OP_NONE, pawl__jparse_expression(p), NULL));
    }
    jnode *n = pawl__jparse_node(p, N_SCOPE, line);
    if (n) n->d = pawl__jparse_list_under(p, n, items.first);
    return n;
}

static jnode *statement_break(jparser *p, int line)
{
    if (!p->loops) return pawl__jparse_fail(p, line, "break outside a loop");
    return pawl__jparse_node(p, N_BREAK, line);
}

static jnode *statement_continue(jparser *p, int line)
{
    if (!p->loops) return pawl__jparse_fail(p, line, "continue outside a loop");
    return pawl__jparse_node(p, N_CONTINUE, line);
}

static jnode *statement(jparser *p)
{
    static const struct {
        const char *tag;
        jnode *(*parse)(jparser *, int line);
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
        pawl__jparse_unexpected(p, "a tag's name");
        return NULL;
    }
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        if (!pawl__jparse_is_name(t, tags[i].tag)) continue;
        if (!pawl__jparse_deeper(p)) return NULL;
        pawl__jparse_advance(p);
        jnode *n = tags[i].parse(p, t->line);
        p->nest--;
        return n;
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (pawl__jparse_is_name(t, refused[i]))
            return pawl__jparse_fail(p, t->line, "the tag '%s' is not supported", refused[i]);
    char text[40];
    return pawl__jparse_fail(p, t->line, "unknown tag %s", pawl__jinja_token_name(t, text));
}

/* Statements up to a tag named in ends (NULL: to the end of the template); that name is then the current token. */
static jnode *statements(jparser *p, const char *const *ends)
{
    jchain body = {0};
    while (p->status == PAWL_OK) {
        const jtoken *t = p->tok;
        if (t->type == T_EOF) {
            if (ends) pawl__jparse_fail(p, t->line, "unexpected end of template, expected '%s'", ends[0]);
            break;
        }
        pawl__jparse_advance(p);
        if (t->type == T_DATA) {
            jnode *n = pawl__jparse_node(p, N_DATA, t->line);
            if (n) n->value = t->value;
            pawl__jparse_append(&body, n);
        } else if (t->type == T_VAR_BEGIN) {
            jnode *n = pawl__jparse_node2(p, N_PRINT, t->line, OP_NONE, pawl__jparse_tuple(p, TUPLE_FULL, NULL), NULL);
            pawl__jparse_expect(p, T_VAR_END, "'}}'");
            pawl__jparse_append(&body, n);
        } else {
            for (int i = 0; ends && ends[i]; i++)
                if (pawl__jparse_is_name(p->tok, ends[i])) return body.first;
            pawl__jparse_append(&body, statement(p));
            pawl__jparse_expect(p, T_BLOCK_END, "'%}'");
        }
    }
    return body.first;
}

static jnode *body_until(jparser *p, const char *const *ends)
{
    pawl__jparse_skip(p, T_COLON);
    pawl__jparse_expect(p, T_BLOCK_END, "'%}'");
    return statements(p, ends);
}

static const char *own_name(jparser *p, const char *word)
{
    jnode *n = pawl__jparse_node(p, N_NAME, 1);
    pawl__jparse_intern(p, n, pawl__jv_view(word, strlen(word)));
    return n ? n->value.u.s : NULL;
}

pawl_status pawl__jinja_parse(const jtokens *tokens, const char *name, pawl_arena *arena, jparsed *out, pawl_err *err)
{
    jparser p = {.tok = tokens->v, .name = name, .arena = arena, .err = err};
    out->loop = own_name(&p, "loop");
    out->caller = own_name(&p, "caller");
    out->varargs = own_name(&p, "varargs");
    out->kwargs = own_name(&p, "kwargs");
    out->root = pawl__jparse_node(&p, N_SCOPE, 1);
    jnode *body = statements(&p, NULL);
    if (out->root) out->root->d = pawl__jparse_list_under(&p, out->root, body);
    out->nnames = p.nnames;
    free(p.names);
    free(p.ids);
    return p.status;
}
