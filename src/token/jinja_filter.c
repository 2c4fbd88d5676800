/* Filters on single values: text, numbers, JSON. Those on sequences are in jinja_seq.c. */
#include "token/jinja.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/utf8.h"

static jval undef(void)
{
    return pawl__jv_undef("nothing");
}

static int is_int(jval v)
{
    return v.kind == J_INT || v.kind == J_BOOL;
}

static jval wrong(jrun *run, const char *filter, jval v)
{
    if (v.kind == J_UNDEF) return pawl__jv_use_undef(run, v);
    return pawl__jinja_fail(run, PAWL_EINVAL, "%s: unexpected value of type '%s'", filter, pawl__jv_type(v));
}

static jval plain(jval v)
{
    v.flag = v.kind == J_STR ? 0 : v.flag;
    return v;
}

/* ---- text ---- */

static jval f_upper(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)a, (void)raw;
    v = pawl__jv_to_str(run, v);
    return v.kind == J_STR ? pawl__jinja_upper(run, v) : v;
}

static jval f_lower(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)a, (void)raw;
    v = pawl__jv_to_str(run, v);
    return v.kind == J_STR ? pawl__jinja_lower(run, v) : v;
}

static jval f_capitalize(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)a, (void)raw;
    v = pawl__jv_to_str(run, v);
    return v.kind == J_STR ? pawl__jinja_capitalize(run, v) : v;
}

/* Upper case after one of -, white space, ( { [ <; the rest in lower case. */
static jval f_title(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)a, (void)raw;
    v = pawl__jv_to_str(run, v);
    if (v.kind != J_STR || pawl__jinja_step(run, v.n / 16)) return undef();
    pawl_buf b = pawl__jv_buf(run);
    int begins = 1;
    for (uint32_t i = 0; i < v.n;) {
        uint32_t cp = 0;
        int k = pawl__utf8_decode(v.u.s + i, v.n - i, &cp, NULL);
        if (k <= 0) k = 1;
        char c[4];
        int separator = pawl__jinja_is_space(cp) || (cp < 0x80 && cp && strchr("-({[<", (int)cp));
        if (begins && cp == 0xdf)
            pawl__buf_puts(&b, "SS");
        else
            pawl__buf_append(&b, c,
                             (size_t)pawl__utf8_encode(begins ? pawl__jinja_toupper(cp) : pawl__jinja_tolower(cp), c));
        begins = separator;
        i += (uint32_t)k;
    }
    return pawl__jv_take(run, &b);
}

static jval f_trim(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)raw;
    v = pawl__jv_to_str(run, v);
    if (a[0].kind != J_ABSENT && a[0].kind != J_NONE && a[0].kind != J_STR) return wrong(run, "trim", a[0]);
    return v.kind == J_STR ? pawl__jinja_strip(run, v, a[0], 1, 1) : v;
}

static jval f_string(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)a, (void)raw;
    return pawl__jv_to_str(run, v);
}

static jval f_safe(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)a, (void)raw;
    v = pawl__jv_to_str(run, v);
    if (v.kind == J_STR) v.flag = 1;
    return v;
}

static jval f_escape(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)a, (void)raw;
    if (v.kind == J_STR && v.flag) return v;
    v = pawl__jv_to_str(run, v);
    if (v.kind != J_STR) return v;
    pawl_buf b = pawl__jv_buf(run);
    pawl__jv_escape(v.u.s, v.n, &b);
    v = pawl__jv_take(run, &b);
    if (v.kind == J_STR) v.flag = 1;
    return v;
}

static jval f_forceescape(jrun *run, jval v, jval *a, const jargs *raw)
{
    return f_escape(run, plain(v), a, raw);
}

static jval f_replace(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)raw;
    int64_t count = -1;
    if (a[2].kind != J_ABSENT && a[2].kind != J_NONE) {
        if (!is_int(a[2])) return wrong(run, "replace", a[2]);
        count = a[2].u.i;
    }
    v = plain(pawl__jv_to_str(run, v));
    jval old = pawl__jv_to_str(run, a[0]), by = pawl__jv_to_str(run, a[1]);
    return run->status == PAWL_OK ? pawl__jinja_replace(run, v, old, by, count) : undef();
}

static jval f_center(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)raw;
    if (a[0].kind != J_ABSENT && !is_int(a[0])) return wrong(run, "center", a[0]);
    v = pawl__jv_to_str(run, v);
    return v.kind == J_STR ? pawl__jinja_center(run, v, a[0].kind == J_ABSENT ? 80 : a[0].u.i, ' ', 1, 1) : v;
}

static jval f_indent(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)raw;
    if (v.kind != J_STR) return wrong(run, "indent", v);
    jval width = a[0].kind == J_ABSENT ? pawl__jv_int(4) : a[0];
    if (is_int(width)) width = pawl__jinja_binary(run, OP_MUL, pawl__jv_view(" ", 1), width);
    if (width.kind != J_STR) return wrong(run, "indent", width);
    int first = pawl__jv_truth(run, a[1]), blank = pawl__jv_truth(run, a[2]);
    pawl_buf b = pawl__jv_buf(run);
    pawl__buf_append(&b, v.u.s, v.n);
    pawl__buf_putc(&b, '\n');
    jval text = pawl__jv_take(run, &b);
    jval lines = text.kind == J_STR ? pawl__jinja_splitlines(run, text, 0) : undef();
    if (lines.kind != J_LIST) return lines;
    b = pawl__jv_buf(run);
    for (uint32_t i = 0; i < lines.u.list->n && !b.failed; i++) {
        jval line = lines.u.list->v[i];
        if (i) pawl__buf_putc(&b, '\n');
        if (i ? blank || line.n : first) pawl__buf_append(&b, width.u.s, width.n);
        pawl__buf_append(&b, line.u.s, line.n);
    }
    jval out = pawl__jv_take(run, &b);
    if (out.kind == J_STR) out.flag = v.flag;
    return out;
}

static jval f_truncate(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)raw;
    int64_t length = 255, leeway = 5;
    jval end = a[2].kind == J_ABSENT ? pawl__jv_view("...", 3) : a[2];
    if (end.kind != J_STR) return wrong(run, "truncate", end);
    if (a[0].kind != J_ABSENT && !is_int(a[0])) return wrong(run, "truncate", a[0]);
    if (a[0].kind != J_ABSENT) length = a[0].u.i;
    if (a[3].kind != J_ABSENT && a[3].kind != J_NONE && !is_int(a[3])) return wrong(run, "truncate", a[3]);
    if (a[3].kind != J_ABSENT && a[3].kind != J_NONE) leeway = a[3].u.i;
    int64_t n = pawl__jv_length(run, v), tail = pawl__jv_length(run, end);
    if (length < tail || leeway < 0 || length > UINT32_MAX || leeway > UINT32_MAX)
        return pawl__jinja_fail(run, PAWL_EINVAL, "truncate: length or leeway is out of range");
    if (run->status != PAWL_OK || n <= length + leeway) return v;
    if (v.kind != J_STR) return wrong(run, "truncate", v);
    size_t keep = pawl__jinja_offset(v.u.s, v.n, (uint32_t)(length - tail));
    if (!pawl__jv_truth(run, a[1])) {
        const char *space = keep ? memrchr(v.u.s, ' ', keep) : NULL;
        if (space) keep = (size_t)(space - v.u.s);
    }
    jval head = pawl__jv_view(v.u.s, keep);
    head.flag = v.flag;
    return pawl__jinja_binary(run, OP_ADD, head, end);
}

static jval f_format(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)a;
    v = pawl__jv_to_str(run, v);
    if (v.kind != J_STR) return v;
    if (raw->nkw && raw->npos)
        return pawl__jinja_fail(run, PAWL_EINVAL, "format: positional and keyword arguments at the same time");
    if (raw->nkw) {
        jdict *d = pawl__jv_dict_create(run);
        for (uint32_t i = 0; i < raw->nkw && d; i++) pawl__jv_dict_set(run, d, raw->names[i], raw->vals[i]);
        return d ? pawl__jinja_format(run, v, pawl__jv_dict(d)) : undef();
    }
    jlist list = {.v = raw->pos, .n = raw->npos, .cap = raw->npos};
    return pawl__jinja_format(run, v, (jval){.kind = J_TUPLE, .u.list = &list});
}

/* ---- values ---- */

static jval f_default(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)raw;
    if (v.kind != J_UNDEF && !(pawl__jv_truth(run, a[1]) && !pawl__jv_truth(run, v))) return v;
    return a[0].kind == J_ABSENT ? pawl__jv_view("", 0) : a[0];
}

static jval f_length(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)a, (void)raw;
    return pawl__jv_int(pawl__jv_length(run, v));
}

static jval f_attr(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)raw;
    if (a[0].kind != J_STR) return wrong(run, "attr", a[0]);
    if (v.kind == J_UNDEF) return pawl__jv_use_undef(run, v);
    jval got = pawl__jinja_own_attr(run, v, a[0]);
    return got.kind == J_ABSENT ? pawl__jv_undef("the object has no such attribute") : got;
}

/* ---- numbers ---- */

static jval f_abs(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)a, (void)raw;
    if (v.kind == J_FLOAT) return pawl__jv_float(fabs(v.u.f));
    if (!is_int(v)) return wrong(run, "abs", v);
    return v.u.i < 0 ? pawl__jinja_unary(run, OP_NEG, v) : pawl__jv_int(v.u.i);
}

static int digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'z') return c - 'a' + 10;
    if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
    return 99;
}

/* Python's int(text, base): 1 and *out; 0 when it is no integer; -1 when it does not fit. */
static int parse_int(jval s, int64_t base, int64_t *out)
{
    s = pawl__jinja_strip(NULL, s, pawl__jv_none(), 1, 1);
    const char *p = s.u.s, *end = p + s.n;
    int negative = 0, overflow = 0;
    if (p < end && (*p == '-' || *p == '+')) negative = *p++ == '-';
    int64_t prefix = 0;
    if (end - p > 1 && *p == '0') {
        char c = (char)(p[1] | 0x20);
        prefix = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 0;
    }
    int leading_zero = p < end && *p == '0';
    if (prefix && (base == prefix || base == 0)) {
        base = prefix;
        leading_zero = 0;
        p += 2;
        if (p < end && *p == '_') p++;
    }
    int zero_base = base == 0;
    if (zero_base) base = 10;
    const char *first = p;
    int64_t v = 0;
    while (p < end && digit(*p) < base) {
        overflow |= __builtin_mul_overflow(v, base, &v) ||
                    (negative ? __builtin_sub_overflow(v, digit(*p), &v) : __builtin_add_overflow(v, digit(*p), &v));
        p++;
        if (p + 1 < end && *p == '_' && digit(p[1]) < base) p++;
    }
    if (p == first || p != end || (zero_base && leading_zero && v != 0)) return 0;
    *out = v;
    return overflow ? -1 : 1;
}

static jval int_from_double(jrun *run, double d, jval otherwise)
{
    if (isnan(d)) return otherwise; /* a ValueError in Python, which the filter takes as "no number" */
    if (!(fabs(d) < 9223372036854775808.0))
        return pawl__jinja_fail(run, PAWL_EINVAL, "int: the number does not fit 64 bits");
    return pawl__jv_int((int64_t)d);
}

static jval f_int(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)raw;
    jval otherwise = a[0].kind == J_ABSENT ? pawl__jv_int(0) : a[0];
    int64_t base = 10, i;
    double d;
    if (a[1].kind != J_ABSENT) {
        if (!is_int(a[1])) return wrong(run, "int", a[1]);
        base = a[1].u.i;
    }
    if (is_int(v)) return pawl__jv_int(v.u.i);
    if (v.kind == J_FLOAT) return int_from_double(run, v.u.f, otherwise);
    if (v.kind == J_UNDEF) return pawl__jv_use_undef(run, v);
    if (v.kind != J_STR) return otherwise;
    int got = base == 0 || (base >= 2 && base <= 36) ? parse_int(v, base, &i) : 0;
    if (got < 0) return pawl__jinja_fail(run, PAWL_EINVAL, "int: the number does not fit 64 bits");
    if (got) return pawl__jv_int(i);
    return pawl__jv_parse_float(v.u.s, v.n, &d) ? otherwise : int_from_double(run, d, otherwise);
}

static jval f_float(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)raw;
    double d;
    if (v.kind == J_FLOAT) return v;
    if (is_int(v)) return pawl__jv_float((double)v.u.i);
    if (v.kind == J_UNDEF) return pawl__jv_use_undef(run, v);
    if (v.kind == J_STR && !pawl__jv_parse_float(v.u.s, v.n, &d)) return pawl__jv_float(d);
    return a[0].kind == J_ABSENT ? pawl__jv_float(0) : a[0];
}

static jval f_round(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)raw;
    int64_t precision = 0;
    jval method = a[1].kind == J_ABSENT ? pawl__jv_view("common", 6) : a[1];
    if (a[0].kind != J_ABSENT) {
        if (!is_int(a[0])) return wrong(run, "round", a[0]);
        precision = a[0].u.i;
    }
    if (!pawl__jv_is(method, "common") && !pawl__jv_is(method, "ceil") && !pawl__jv_is(method, "floor"))
        return pawl__jinja_fail(run, PAWL_EINVAL, "round: method must be common, ceil or floor");
    if (!is_int(v) && v.kind != J_FLOAT) return wrong(run, "round", v);
    if (precision < 0 || precision > 300)
        return pawl__jinja_fail(run, PAWL_EUNSUPPORTED, "round: only precisions from 0 to 300 are supported");
    double x = v.kind == J_FLOAT ? v.u.f : (double)v.u.i;
    if (pawl__jv_is(method, "common")) {
        if (is_int(v)) return pawl__jv_int(v.u.i);
        if (!isfinite(x)) return v;
        /* The decimal expansion is exact, so that a tie is a tie of the double itself: half to even. */
        char text[700];
        snprintf(text, sizeof text, "%.*f", (int)precision, x);
        return pawl__jv_float(strtod(text, NULL));
    }
    jval scale = pawl__jinja_binary(run, OP_POW, pawl__jv_int(10), pawl__jv_int(precision));
    jval scaled = pawl__jinja_binary(run, OP_MUL, v, scale);
    if (run->status != PAWL_OK) return undef();
    if (scaled.kind == J_FLOAT) {
        double r = pawl__jv_is(method, "ceil") ? ceil(scaled.u.f) : floor(scaled.u.f);
        if (!(fabs(r) < 9223372036854775808.0))
            return pawl__jinja_fail(run, PAWL_EINVAL, "round: the number does not fit 64 bits");
        scaled = pawl__jv_int((int64_t)r);
    }
    return pawl__jinja_binary(run, OP_DIV, scaled, scale);
}

/* ---- JSON ---- */

static jval f_tojson(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)raw;
    jjson how = {.indent = a[1], .item_sep = ", ", .item_n = 2, .key_sep = ": ", .key_n = 2};
    if (how.indent.kind == J_ABSENT) how.indent = pawl__jv_none();
    if (how.indent.kind == J_BOOL) how.indent = pawl__jv_int(how.indent.u.i);
    if (how.indent.kind != J_NONE && how.indent.kind != J_INT && how.indent.kind != J_STR)
        return wrong(run, "tojson", how.indent);
    if (how.indent.kind != J_NONE) how.item_n = 1;
    if (a[2].kind != J_ABSENT && a[2].kind != J_NONE) {
        int pair = (a[2].kind == J_LIST || a[2].kind == J_TUPLE) && a[2].u.list->n == 2;
        if (!pair || a[2].u.list->v[0].kind != J_STR || a[2].u.list->v[1].kind != J_STR)
            return pawl__jinja_fail(run, PAWL_EINVAL, "tojson: separators must be two strings");
        how.item_sep = a[2].u.list->v[0].u.s;
        how.item_n = a[2].u.list->v[0].n;
        how.key_sep = a[2].u.list->v[1].u.s;
        how.key_n = a[2].u.list->v[1].n;
    }
    how.ascii = pawl__jv_truth(run, a[0]);
    how.sort = pawl__jv_truth(run, a[3]);
    pawl_buf b = pawl__jv_buf(run);
    pawl__jv_json(run, v, &how, &b);
    return pawl__jv_take(run, &b);
}

/* A tree made of text in the rendering's own memory, which the values may point into. */
static jval copy_strings(jrun *run, jval v)
{
    if (v.kind == J_STR) return pawl__jv_copy(run, v.u.s, v.n);
    if (v.kind == J_LIST)
        for (uint32_t i = 0; i < v.u.list->n && run->status == PAWL_OK; i++)
            v.u.list->v[i] = copy_strings(run, v.u.list->v[i]);
    if (v.kind == J_DICT)
        for (uint32_t i = 0; i < v.u.dict->n && run->status == PAWL_OK; i++) {
            v.u.dict->keys[i] = copy_strings(run, v.u.dict->keys[i]);
            v.u.dict->vals[i] = copy_strings(run, v.u.dict->vals[i]);
        }
    return v;
}

static jval f_from_json(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)a, (void)raw;
    if (v.kind != J_STR) return wrong(run, "from_json", v);
    if (pawl__jinja_step(run, v.n / 4)) return undef();
    json_t *j;
    pawl_err e;
    pawl_status s = pawl__json_parse_any(v.u.s, v.n, "from_json", &j, &e);
    if (s != PAWL_OK) return pawl__jinja_fail(run, s == PAWL_ENOMEM ? s : PAWL_EINVAL, "%s", e.text);
    jval out = copy_strings(run, pawl__jv_from_json(run, j));
    json_decref(j);
    return run->status == PAWL_OK ? out : undef();
}

/* ---- table ---- */

static const jfunc filters[] = {{"trim", "chars", 0, f_trim},
                                {"tojson", "ensure_ascii,indent,separators,sort_keys", 0, f_tojson},
                                {"length", "", 0, f_length},
                                {"count", "", 0, f_length},
                                {"string", "", 0, f_string},
                                {"safe", "", 0, f_safe},
                                {"default", "default_value,boolean", 0, f_default},
                                {"d", "default_value,boolean", 0, f_default},
                                {"upper", "", 0, f_upper},
                                {"lower", "", 0, f_lower},
                                {"capitalize", "", 0, f_capitalize},
                                {"title", "", 0, f_title},
                                {"replace", "old,new,count", 2, f_replace},
                                {"indent", "width,first,blank", 0, f_indent},
                                {"int", "default,base", 0, f_int},
                                {"float", "default", 0, f_float},
                                {"abs", "", 0, f_abs},
                                {"round", "precision,method", 0, f_round},
                                {"escape", "", 0, f_escape},
                                {"e", "", 0, f_escape},
                                {"forceescape", "", 0, f_forceescape},
                                {"center", "width", 0, f_center},
                                {"truncate", "length,killwords,end,leeway", 0, f_truncate},
                                {"format", NULL, 0, f_format},
                                {"attr", "name", 1, f_attr},
                                {"from_json", "", 0, f_from_json}};

const jfunc *pawl__jinja_find_filter(jval name)
{
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        if (pawl__jv_is(name, filters[i].name)) return &filters[i];
    return pawl__jinja_find_seq_filter(name);
}

jval pawl__jinja_filter(jrun *run, jval name, jval v, const jargs *args)
{
    const jfunc *f = pawl__jinja_find_filter(name);
    if (!f)
        return pawl__jinja_fail(run, PAWL_EUNSUPPORTED, "there is no filter named '%.*s'",
                                (int)(name.n < 100 ? name.n : 100), name.u.s);
    return run->status == PAWL_OK ? pawl__jinja_invoke(run, f, v, args) : undef();
}
