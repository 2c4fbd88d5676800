/* Cuts a template into tokens as Jinja2's lexer does with trim_blocks and lstrip_blocks. The tokens' text points into the
 * source, or, for string literals with escapes, into the template's arena. */
#include "token/jinja.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "base/utf8.h"

typedef struct lexer {
    const char *src, *name;
    size_t n, pos;
    size_t line_pos; /* newlines before this offset are counted in line */
    int line;
    pawl_arena *arena;
    jtokens *out;
    pawl_err *err;
    char *open; /* closing brackets expected, innermost last */
    size_t nopen, open_cap;
} lexer;

static int line_at(lexer *x, size_t pos)
{
    for (; x->line_pos < pos; x->line_pos++) x->line += x->src[x->line_pos] == '\n';
    return x->line;
}

static pawl_status lex_fail(lexer *x, size_t pos, const char *what)
{
    return pawl__fail(x->err, PAWL_EFORMAT, "%s:%d: %s", x->name, line_at(x, pos), what);
}

static pawl_status out_of_memory(lexer *x)
{
    return pawl__fail(x->err, PAWL_ENOMEM, "%s: out of memory for the template's text", x->name);
}

static pawl_status emit(lexer *x, jtok type, size_t pos, jval value)
{
    jtokens *t = x->out;
    if (t->n == t->cap) {
        size_t cap = t->cap ? t->cap * 2 : 256;
        jtoken *v = realloc(t->v, cap * sizeof *v);
        if (!v) return out_of_memory(x);
        t->v = v;
        t->cap = cap;
    }
    t->v[t->n++] = (jtoken){.type = type, .line = line_at(x, pos), .value = value};
    return PAWL_OK;
}

static size_t skip_space(const lexer *x, size_t pos)
{
    while (pos < x->n) {
        uint32_t cp;
        int k = pawl__utf8_decode(x->src + pos, x->n - pos, &cp, NULL);
        if (k <= 0 || !pawl__jinja_is_space(cp)) break;
        pos += (size_t)k;
    }
    return pos;
}

/* The start of the white space that ends at `end`, not before `begin`. */
static size_t skip_space_back(const lexer *x, size_t begin, size_t end)
{
    while (end > begin) {
        size_t p = end - 1;
        while (p > begin && ((unsigned char)x->src[p] & 0xc0) == 0x80) p--;
        uint32_t cp;
        int k = pawl__utf8_decode(x->src + p, end - p, &cp, NULL);
        if (k <= 0 || !pawl__jinja_is_space(cp)) break;
        end = p;
    }
    return end;
}

static int at(const lexer *x, size_t pos, const char *s)
{
    size_t k = strlen(s);
    return pos + k <= x->n && memcmp(x->src + pos, s, k) == 0;
}

/* If the word (raw, endraw) stands alone in the tag whose text begins at pos, the offset after it and its white space;
 * else 0. */
static size_t tag_word(const lexer *x, size_t pos, const char *word)
{
    pos = skip_space(x, pos);
    return at(x, pos, word) ? skip_space(x, pos + strlen(word)) : 0;
}

/* Offset after a block's or comment's end mark at pos ("%}" or "#}" with its sign), or 0 where there is none. Takes one
 * newline with it unless '+' says not to, or all white space after '-'. */
static size_t block_end(const lexer *x, size_t pos, const char *mark)
{
    if (at(x, pos, "+") && at(x, pos + 1, mark)) return pos + 3;
    if (at(x, pos, "-") && at(x, pos + 1, mark)) return skip_space(x, pos + 3);
    if (!at(x, pos, mark)) return 0;
    pos += 2;
    return pos < x->n && x->src[pos] == '\n' ? pos + 1 : pos;
}

static int after_newline(const lexer *x, size_t end)
{
    return end == 0 || x->src[end - 1] == '\n';
}

/* Emits the text [begin, end) in front of a tag with this sign, with white space cut as the sign and lstrip_blocks say. */
static pawl_status emit_data(lexer *x, size_t begin, size_t end, char sign, int variable)
{
    size_t stop = end;
    if (sign == '-') {
        stop = skip_space_back(x, begin, end);
    } else if (sign != '+' && !variable) {
        size_t line = end;
        while (line > begin && x->src[line - 1] != '\n') line--;
        if ((line > begin || after_newline(x, begin)) && skip_space_back(x, line, end) == line) stop = line;
    }
    if (stop == begin) return PAWL_OK;
    return emit(x, T_DATA, begin, pawl__jv_view(x->src + begin, stop - begin));
}

/* After "{% raw %}": copies up to the end tag. */
static pawl_status lex_raw(lexer *x, size_t begin)
{
    for (size_t p = begin; p + 2 <= x->n; p++) {
        if (!at(x, p, "{%")) continue;
        size_t q = p + 2;
        char sign = 0;
        if (q < x->n && (x->src[q] == '-' || x->src[q] == '+')) sign = x->src[q++];
        q = tag_word(x, q, "endraw");
        size_t end = q ? block_end(x, q, "%}") : 0;
        if (!end) continue;
        x->pos = end;
        return emit_data(x, begin, p, sign, 0);
    }
    x->pos = x->n;
    return begin == x->n ? PAWL_OK : lex_fail(x, begin, "missing end of raw block");
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'z') return c - 'a' + 10;
    if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
    return 99;
}

/* Offset after digits of this base with single underscores between them, or pos itself if there are none. */
static size_t digits(const lexer *x, size_t pos, int base)
{
    size_t p = pos;
    while (p < x->n && digit_value(x->src[p]) < base) {
        p++;
        if (p + 1 < x->n && x->src[p] == '_' && digit_value(x->src[p + 1]) < base) p++;
    }
    return p;
}

static pawl_status emit_float(lexer *x, size_t end)
{
    char text[400];
    size_t k = 0;
    for (size_t p = x->pos; p < end; p++) {
        if (x->src[p] == '_') continue;
        if (k + 1 >= sizeof text) return lex_fail(x, x->pos, "a number of more than 400 digits");
        text[k++] = x->src[p];
    }
    double f;
    if (pawl__jv_parse_float(text, k, &f)) return lex_fail(x, x->pos, "malformed number");
    size_t begin = x->pos;
    x->pos = end;
    return emit(x, T_FLOAT, begin, pawl__jv_float(f));
}

static pawl_status lex_number(lexer *x)
{
    size_t begin = x->pos;
    /* A number after a dot is an index (x.0.1), never a fraction. */
    if (begin == 0 || x->src[begin - 1] != '.') {
        size_t p = digits(x, begin, 10);
        size_t end = 0;
        if (p + 1 < x->n && x->src[p] == '.' && digit_value(x->src[p + 1]) < 10) end = p = digits(x, p + 1, 10);
        if (p < x->n && (x->src[p] == 'e' || x->src[p] == 'E')) {
            size_t e = p + 1;
            if (e < x->n && (x->src[e] == '+' || x->src[e] == '-')) e++;
            if (digits(x, e, 10) > e) end = digits(x, e, 10);
        }
        if (end) return emit_float(x, end);
    }
    int base = 10;
    size_t p = begin;
    if (x->src[p] == '0') {
        char c = p + 1 < x->n ? (char)(x->src[p + 1] | 0x20) : 0;
        base = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 1;
        size_t d = p + 2;
        if (base > 1 && d < x->n && x->src[d] == '_') d++;
        if (base > 1 && digits(x, d, base) == d) base = 1;
        p = base > 1 ? d : p;
    }
    size_t end = digits(x, p, base);
    int64_t value = 0;
    for (; p < end; p++) {
        if (x->src[p] == '_') continue;
        if (__builtin_mul_overflow(value, base, &value) ||
            __builtin_add_overflow(value, digit_value(x->src[p]), &value))
            return lex_fail(x, begin, "integer does not fit 64 bits");
    }
    x->pos = end;
    return emit(x, T_INT, begin, pawl__jv_int(value));
}

static int put_cp(char *out, size_t *k, uint32_t cp)
{
    if (cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff)) return -1;
    *k += (size_t)pawl__utf8_encode(cp, out + *k);
    return 0;
}

/* Up to max digits of a base at s; their number in *got. */
static uint32_t escape_digits(const char *s, size_t n, int base, size_t max, size_t *got)
{
    uint32_t v = 0;
    size_t k = 0;
    while (k < max && k < n && digit_value(s[k]) < base) v = v * (uint32_t)base + (uint32_t)digit_value(s[k++]);
    *got = k;
    return v;
}

/* Python's string escapes (its "unicode-escape" codec). The result is never longer than twice the literal plus 8. */
static pawl_status unescape(lexer *x, size_t begin, const char *s, size_t n, jval *out)
{
    char *buf = pawl__arena_alloc(x->arena, n * 2 + 8);
    if (!buf) return out_of_memory(x);
    static const char plain[] = "\\\\''\"\"a\ab\bf\fn\nr\rt\tv\v";
    size_t k = 0;
    for (size_t i = 0; i < n;) {
        if (s[i] != '\\') {
            buf[k++] = s[i++];
            continue;
        }
        char c = s[++i]; /* the lexer saw that a character follows */
        size_t got;
        uint32_t cp;
        const char *p = c ? strchr(plain, c) : NULL;
        while (p && (p - plain) % 2) p = strchr(p + 1, c);
        if (c == '\n') {
            i++;
        } else if (p) {
            buf[k++] = p[1];
            i++;
        } else if (c >= '0' && c <= '7') {
            cp = escape_digits(s + i, n - i, 8, 3, &got);
            if (put_cp(buf, &k, cp)) return lex_fail(x, begin, "bad escape in a string");
            i += got;
        } else if (c == 'x' || c == 'u' || c == 'U') {
            size_t want = c == 'x' ? 2 : c == 'u' ? 4 : 8;
            cp = escape_digits(s + i + 1, n - i - 1, 16, want, &got);
            if (got != want || put_cp(buf, &k, cp)) return lex_fail(x, begin, "bad escape in a string");
            i += 1 + got;
        } else if (c == 'N') {
            return lex_fail(x, begin, "\\N escapes are not supported");
        } else if ((unsigned char)c >= 0x80) {
            /* Jinja2 turns such characters into escapes first, so that the backslash before them escapes a backslash. */
            int len = pawl__utf8_decode(s + i, n - i, &cp, NULL);
            if (len <= 0) return lex_fail(x, begin, "bad escape in a string");
            char hex[16];
            int h = snprintf(hex, sizeof hex, cp < 0x100 ? "\\x%02x" : cp < 0x10000 ? "\\u%04x" : "\\U%08x", cp);
            memcpy(buf + k, hex, (size_t)h);
            k += (size_t)h;
            i += (size_t)len;
        } else {
            buf[k++] = '\\';
            buf[k++] = c;
            i++;
        }
    }
    *out = pawl__jv_view(buf, k);
    return PAWL_OK;
}

static pawl_status lex_string(lexer *x)
{
    size_t begin = x->pos;
    char quote = x->src[begin];
    int escapes = 0;
    size_t p = begin + 1;
    while (p < x->n && x->src[p] != quote) {
        if (x->src[p] == '\\') {
            escapes = 1;
            p++;
        }
        p++;
    }
    if (p >= x->n) return lex_fail(x, begin, "string without an end");
    jval v = pawl__jv_view(x->src + begin + 1, p - begin - 1);
    if (escapes) PAWL_TRY(unescape(x, begin, v.u.s, v.n, &v));
    x->pos = p + 1;
    return emit(x, T_STRING, begin, v);
}

static int name_char(const lexer *x, size_t pos)
{
    if (pos >= x->n) return 0;
    unsigned char c = (unsigned char)x->src[pos];
    if (c == '_' || digit_value((char)c) < 36) return 1;
    if (c < 0x80) return 0;
    uint32_t cp;
    int k = pawl__utf8_decode(x->src + pos, x->n - pos, &cp, NULL);
    if (k <= 0) return 0;
    switch (utf8proc_category((utf8proc_int32_t)cp)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ND:
        return k;
    default:
        return 0;
    }
}

static pawl_status lex_operator(lexer *x)
{
    static const struct {
        const char text[3];
        jtok type;
    } ops[] = {{"//", T_FLOORDIV}, {"**", T_POW},   {"==", T_EQ},      {"!=", T_NE},      {">=", T_GE},
               {"<=", T_LE},       {"+", T_ADD},    {"-", T_SUB},      {"/", T_DIV},      {"*", T_MUL},
               {"%", T_MOD},       {"~", T_TILDE},  {"[", T_LBRACKET}, {"]", T_RBRACKET}, {"(", T_LPAREN},
               {")", T_RPAREN},    {"{", T_LBRACE}, {"}", T_RBRACE},   {">", T_GT},       {"<", T_LT},
               {"=", T_ASSIGN},    {".", T_DOT},    {":", T_COLON},    {"|", T_PIPE},     {",", T_COMMA},
               {";", T_SEMICOLON}};
    size_t begin = x->pos;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        if (!at(x, begin, ops[i].text)) continue;
        jtok type = ops[i].type;
        if (type == T_LBRACKET || type == T_LPAREN || type == T_LBRACE) {
            if (x->nopen == x->open_cap) return lex_fail(x, begin, "brackets are nested too deeply");
            x->open[x->nopen++] = type == T_LBRACKET ? ']' : type == T_LPAREN ? ')' : '}';
        }
        if (type == T_RBRACKET || type == T_RPAREN || type == T_RBRACE) {
            char what[40];
            snprintf(what, sizeof what, "unexpected '%c'", x->src[begin]);
            if (x->nopen == 0 || x->open[--x->nopen] != x->src[begin]) return lex_fail(x, begin, what);
        }
        x->pos += strlen(ops[i].text);
        return emit(x, type, begin, pawl__jv_view(x->src + begin, strlen(ops[i].text)));
    }
    char what[80];
    uint32_t cp = 0;
    int k = pawl__utf8_decode(x->src + begin, x->n - begin, &cp, NULL);
    snprintf(what, sizeof what, "unexpected character '%.*s'", k > 0 ? k : 1, x->src + begin);
    return lex_fail(x, begin, what);
}

/* Inside {{ }} or {% %}, up to and including its end. */
static pawl_status lex_tag(lexer *x, int variable)
{
    x->nopen = 0;
    while (x->pos < x->n) {
        if (x->nopen == 0) {
            size_t end = 0;
            if (!variable)
                end = block_end(x, x->pos, "%}");
            else if (at(x, x->pos, "-}}"))
                end = skip_space(x, x->pos + 3);
            else if (at(x, x->pos, "}}"))
                end = x->pos + 2;
            if (end) {
                size_t begin = x->pos;
                x->pos = end;
                return emit(x, variable ? T_VAR_END : T_BLOCK_END, begin, pawl__jv_none());
            }
        }
        size_t p = skip_space(x, x->pos);
        if (p > x->pos) {
            x->pos = p;
            continue;
        }
        char c = x->src[p];
        if (c >= '0' && c <= '9') {
            PAWL_TRY(lex_number(x));
        } else if (c == '\'' || c == '"') {
            PAWL_TRY(lex_string(x));
        } else if (name_char(x, p)) {
            for (int k; (k = name_char(x, p)) > 0;) p += (size_t)k;
            size_t begin = x->pos;
            x->pos = p;
            PAWL_TRY(emit(x, T_NAME, begin, pawl__jv_view(x->src + begin, p - begin)));
        } else {
            PAWL_TRY(lex_operator(x));
        }
    }
    return PAWL_OK; /* the parser reports the missing end, with what it was looking for */
}

static pawl_status lex_comment(lexer *x, size_t begin)
{
    for (size_t p = begin; p < x->n; p++) {
        size_t end = block_end(x, p, "#}");
        if (!end) continue;
        x->pos = end;
        return PAWL_OK;
    }
    x->pos = x->n;
    return begin == x->n ? PAWL_OK
                         : lex_fail(x, begin, "missing end of comment"); /* Jinja2 lets "{#" at the end pass */
}

static pawl_status lex_all(lexer *x)
{
    while (x->pos < x->n) {
        size_t begin = x->pos, p = begin;
        while (p < x->n && !(x->src[p] == '{' && (at(x, p, "{%") || at(x, p, "{{") || at(x, p, "{#")))) p++;
        if (p == x->n) {
            x->pos = p;
            PAWL_TRY(emit(x, T_DATA, begin, pawl__jv_view(x->src + begin, p - begin)));
            break;
        }
        char kind = x->src[p + 1];
        char sign = p + 2 < x->n && (x->src[p + 2] == '-' || x->src[p + 2] == '+') ? x->src[p + 2] : 0;
        size_t inside = p + 2 + (sign != 0);
        PAWL_TRY(emit_data(x, begin, p, sign, kind == '{'));
        if (kind == '#') {
            PAWL_TRY(lex_comment(x, inside));
            continue;
        }
        size_t raw = kind == '%' ? tag_word(x, inside, "raw") : 0;
        if (raw && at(x, raw, "-%}")) {
            PAWL_TRY(lex_raw(x, skip_space(x, raw + 3)));
            continue;
        }
        if (raw && at(x, raw, "%}")) {
            PAWL_TRY(lex_raw(x, raw + 2));
            continue;
        }
        x->pos = inside;
        PAWL_TRY(emit(x, kind == '{' ? T_VAR_BEGIN : T_BLOCK_BEGIN, p, pawl__jv_none()));
        PAWL_TRY(lex_tag(x, kind == '{'));
    }
    return emit(x, T_EOF, x->n, pawl__jv_none());
}

pawl_status pawl__jinja_lex(const char *src, size_t n, const char *name, pawl_arena *arena, jtokens *tokens,
                            pawl_err *err)
{
    char open[JINJA_MAX_NEST];
    lexer x = {.src = src, .n = n, .name = name, .line = 1, .arena = arena, .out = tokens, .err = err};
    x.open = open;
    x.open_cap = sizeof open;
    return lex_all(&x);
}

const char *pawl__jinja_token_name(const jtoken *t, char out[40])
{
    switch (t->type) {
    case T_EOF:
        return "end of template";
    case T_DATA:
        return "text";
    case T_VAR_BEGIN:
        return "'{{'";
    case T_VAR_END:
        return "'}}'";
    case T_BLOCK_BEGIN:
        return "'{%'";
    case T_BLOCK_END:
        return "'%}'";
    case T_STRING:
        return "a string";
    case T_INT:
    case T_FLOAT:
        return "a number";
    default: {
        int k = t->value.n < 30 ? (int)t->value.n : 30;
        snprintf(out, 40, "'%.*s'", k, t->value.u.s);
        return out;
    }
    }
}
