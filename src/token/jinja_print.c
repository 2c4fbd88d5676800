/* Values as text: Python's str() and repr(), and json.dumps. */
#include "token/jinja.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "base/utf8.h"

/* ---- numbers ---- */

/* Decimal digits and exponent of f > 0, the fewest digits that read back as f and of these the nearest: what Python's
 * repr shows. digits has no point; the value is 0.DIGITS * 10^*point. */
static void shortest(double f, char digits[20], int *point)
{
    int exp2;
    int power_of_two = frexp(f, &exp2) == 0.5;
    for (int n = 1; n <= 17; n++) {
        char text[40];
        snprintf(text, sizeof text, "%.*e", n - 1, f);
        int ok = strtod(text, NULL) == f;
        /* The gap below a power of two is half the one above, so the digits rounded up may read back as f where the
         * nearest ones do not. */
        if (!ok && power_of_two && n < 17) {
            char *e = strchr(text, 'e'), *last = e - 1;
            if (*last >= '0' && *last < '9') {
                ++*last;
                ok = strtod(text, NULL) == f;
            }
        }
        if (!ok && n < 17) continue;
        int k = 0;
        char *c = text;
        for (; *c != 'e'; c++)
            if (*c >= '0' && *c <= '9') digits[k++] = *c; /* skips the point, whatever the locale writes there */
        while (k > 1 && digits[k - 1] == '0') k--;
        digits[k] = 0;
        *point = atoi(c + 1) + 1;
        return;
    }
}

void pawl__jv_float_repr(double f, char out[40])
{
    if (isnan(f)) {
        strcpy(out, "nan");
        return;
    }
    char *o = out;
    if (signbit(f)) *o++ = '-';
    f = fabs(f);
    if (isinf(f)) {
        strcpy(o, "inf");
        return;
    }
    char d[20] = "0";
    int point = 1;
    if (f != 0) shortest(f, d, &point);
    int n = (int)strlen(d);
    if (point > 16 || point <= -4) {
        int e = point - 1;
        *o++ = d[0];
        if (n > 1) *o++ = '.';
        memcpy(o, d + 1, (size_t)(n - 1));
        o += n - 1;
        snprintf(o, 16, "e%c%02d", e < 0 ? '-' : '+', e < 0 ? -e : e);
    } else if (point <= 0) {
        o += snprintf(o, 3, "0.");
        for (int i = point; i < 0; i++) *o++ = '0';
        strcpy(o, d);
    } else {
        for (int i = 0; i < point; i++) *o++ = i < n ? d[i] : '0';
        *o++ = '.';
        if (n > point) {
            strcpy(o, d + point);
        } else {
            *o++ = '0';
            *o = 0;
        }
    }
}

/* Digits with single underscores between them, copied without these. NULL when there are none. */
static const char *take_digits(const char *s, const char *end, char **out)
{
    const char *begin = s;
    while (s < end && *s >= '0' && *s <= '9') {
        *(*out)++ = *s++;
        if (s + 1 < end && *s == '_' && s[1] >= '0' && s[1] <= '9') s++;
    }
    return s > begin ? s : NULL;
}

static int word_is(const char *s, const char *end, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(end - s) != n) return 0;
    for (size_t i = 0; i < n; i++)
        if ((s[i] | 0x20) != word[i]) return 0;
    return 1;
}

int pawl__jv_parse_float(const char *s, size_t n, double *out)
{
    char text[1024], *o = text;
    jval stripped = pawl__jinja_strip(NULL, pawl__jv_view(s, n), pawl__jv_none(), 1, 1);
    s = stripped.u.s;
    n = stripped.n;
    const char *end = s + n;
    if (n == 0 || n >= sizeof text - 8) return 1;
    double sign = 1;
    if (*s == '-' || *s == '+') sign = *s++ == '-' ? -1 : 1;
    if (word_is(s, end, "inf") || word_is(s, end, "infinity")) {
        *out = sign * INFINITY;
        return 0;
    }
    if (word_is(s, end, "nan")) {
        *out = NAN;
        return 0;
    }
    const char *p = take_digits(s, end, &o), *fraction = NULL;
    int have = p != NULL;
    if (p) s = p;
    if (s < end && *s == '.') {
        const char *point = localeconv()->decimal_point; /* strtod reads the locale's point */
        while (*point) *o++ = *point++;
        s++;
        fraction = take_digits(s, end, &o);
        if (fraction) s = fraction;
    }
    if (!have && !fraction) return 1;
    if (s < end && (*s == 'e' || *s == 'E')) {
        *o++ = 'e';
        s++;
        if (s < end && (*s == '-' || *s == '+')) *o++ = *s++;
        s = take_digits(s, end, &o);
        if (!s) return 1;
    }
    if (s != end) return 1;
    *o = 0;
    *out = sign * strtod(text, NULL);
    return 0;
}

/* ---- repr and str ---- */

static int printable(uint32_t cp)
{
    if (cp < 0x7f) return cp >= 0x20;
    switch (utf8proc_category((utf8proc_int32_t)cp)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return 0;
    default:
        return 1;
    }
}

static void repr_str(jval v, pawl_buf *out)
{
    const char *s = v.u.s;
    char quote = v.n && memchr(s, '\'', v.n) && !memchr(s, '"', v.n) ? '"' : '\'';
    if (v.flag) pawl__buf_puts(out, "Markup(");
    pawl__buf_putc(out, quote);
    for (uint32_t i = 0; i < v.n;) {
        uint32_t cp = 0;
        int k = pawl__utf8_decode(s + i, v.n - i, &cp, NULL);
        if (k <= 0) k = 1;
        if (cp == '\\' || cp == (uint32_t)quote)
            pawl__buf_printf(out, "\\%c", (int)cp);
        else if (cp == '\n')
            pawl__buf_puts(out, "\\n");
        else if (cp == '\r')
            pawl__buf_puts(out, "\\r");
        else if (cp == '\t')
            pawl__buf_puts(out, "\\t");
        else if (printable(cp))
            pawl__buf_append(out, s + i, (size_t)k);
        else
            pawl__buf_printf(out, cp < 0x100 ? "\\x%02x" : cp < 0x10000 ? "\\u%04x" : "\\U%08x", cp);
        i += (uint32_t)k;
    }
    pawl__buf_putc(out, quote);
    if (v.flag) pawl__buf_putc(out, ')');
}

static void repr(jrun *run, jval v, pawl_buf *out, unsigned depth);

static void repr_items(jrun *run, const jlist *l, pawl_buf *out, unsigned depth)
{
    for (uint32_t i = 0; i < l->n && run->status == PAWL_OK; i++) {
        if (i) pawl__buf_puts(out, ", ");
        repr(run, l->v[i], out, depth + 1);
    }
}

static void repr_dict(jrun *run, const jdict *d, pawl_buf *out, unsigned depth)
{
    pawl__buf_putc(out, '{');
    for (uint32_t i = 0; i < d->n && run->status == PAWL_OK; i++) {
        if (i) pawl__buf_puts(out, ", ");
        repr(run, d->keys[i], out, depth + 1);
        pawl__buf_puts(out, ": ");
        repr(run, d->vals[i], out, depth + 1);
    }
    pawl__buf_putc(out, '}');
}

static void repr_view(jrun *run, jval v, pawl_buf *out, unsigned depth)
{
    const jdict *d = v.u.dict;
    pawl__buf_puts(out, v.flag == 'k' ? "dict_keys([" : v.flag == 'v' ? "dict_values([" : "dict_items([");
    for (uint32_t i = 0; i < d->n && run->status == PAWL_OK; i++) {
        if (i) pawl__buf_puts(out, ", ");
        if (v.flag == 'i') pawl__buf_putc(out, '(');
        if (v.flag != 'v') repr(run, d->keys[i], out, depth + 1);
        if (v.flag == 'i') pawl__buf_puts(out, ", ");
        if (v.flag != 'k') repr(run, d->vals[i], out, depth + 1);
        if (v.flag == 'i') pawl__buf_putc(out, ')');
    }
    pawl__buf_puts(out, "])");
}

/* What Python shows with an address in memory is shown without one here. */
static void repr_object(jrun *run, jval v, pawl_buf *out, unsigned depth)
{
    switch ((jkind)v.kind) {
    case J_NS:
        pawl__buf_puts(out, "<Namespace ");
        repr_dict(run, v.u.dict, out, depth);
        pawl__buf_putc(out, '>');
        break;
    case J_RANGE: {
        const jrange *r = v.u.range;
        pawl__buf_printf(out, "range(%lld, %lld", (long long)r->start, (long long)r->stop);
        if (r->step != 1) pawl__buf_printf(out, ", %lld", (long long)r->step);
        pawl__buf_putc(out, ')');
        break;
    }
    case J_MACRO:
        pawl__buf_puts(out, "<Macro ");
        if (v.u.macro->node->value.kind == J_STR)
            repr_str(v.u.macro->node->value, out);
        else
            pawl__buf_puts(out, "anonymous");
        pawl__buf_putc(out, '>');
        break;
    case J_LOOP:
        pawl__buf_printf(out, "<LoopContext %lld/%lld>", (long long)v.u.loop->index0 + 1,
                         (long long)pawl__jv_length(run, v));
        break;
    default:
        pawl__buf_printf(out, "<%s object>", pawl__jv_type(v));
        break;
    }
}

static void repr(jrun *run, jval v, pawl_buf *out, unsigned depth)
{
    if (pawl__jinja_step(run, 1)) return;
    if (out->failed) return;
    if (depth > JINJA_MAX_VALUE_DEPTH) {
        pawl__jinja_fail(run, PAWL_ETIMEDOUT, "a value is nested more than %d deep", JINJA_MAX_VALUE_DEPTH);
        return;
    }
    char number[40];
    switch ((jkind)v.kind) {
    case J_ABSENT:
    case J_UNDEF:
        pawl__buf_puts(out, "Undefined");
        break;
    case J_NONE:
        pawl__buf_puts(out, "None");
        break;
    case J_BOOL:
        pawl__buf_puts(out, v.u.i ? "True" : "False");
        break;
    case J_INT:
        pawl__buf_printf(out, "%lld", (long long)v.u.i);
        break;
    case J_FLOAT:
        pawl__jv_float_repr(v.u.f, number);
        pawl__buf_puts(out, number);
        break;
    case J_STR:
        pawl__jinja_step(run, v.n / 64);
        repr_str(v, out);
        break;
    case J_LIST:
        pawl__buf_putc(out, '[');
        repr_items(run, v.u.list, out, depth);
        pawl__buf_putc(out, ']');
        break;
    case J_TUPLE:
        pawl__buf_putc(out, '(');
        repr_items(run, v.u.list, out, depth);
        pawl__buf_puts(out, v.u.list->n == 1 ? ",)" : ")");
        break;
    case J_DICT:
        repr_dict(run, v.u.dict, out, depth);
        break;
    case J_VIEW:
        repr_view(run, v, out, depth);
        break;
    default:
        repr_object(run, v, out, depth);
        break;
    }
}

void pawl__jv_repr(jrun *run, jval v, pawl_buf *out)
{
    repr(run, v, out, 0);
}

void pawl__jv_str(jrun *run, jval v, pawl_buf *out)
{
    if (v.kind == J_STR) {
        pawl__jinja_step(run, v.n / 256);
        pawl__buf_append(out, v.u.s, v.n);
    } else if (v.kind != J_UNDEF) {
        repr(run, v, out, 0);
    }
}

jval pawl__jv_to_str(jrun *run, jval v)
{
    if (v.kind == J_STR) return v;
    pawl_buf b = pawl__jv_buf(run);
    pawl__jv_str(run, v, &b);
    return pawl__jv_take(run, &b);
}

/* ---- JSON ---- */

static void json_str(jval v, int ascii, pawl_buf *out)
{
    static const char named[] = "\bb\ff\nn\rr\tt\"\"\\\\";
    pawl__buf_putc(out, '"');
    for (uint32_t i = 0; i < v.n;) {
        const char *p = v.u.s + i;
        unsigned char c = (unsigned char)*p;
        const char *name = c ? strchr(named, c) : NULL;
        while (name && (name - named) % 2) name = strchr(name + 1, c);
        if (name) {
            pawl__buf_printf(out, "\\%c", name[1]);
            i++;
        } else if (c < 0x20 || (ascii && c == 0x7f)) {
            pawl__buf_printf(out, "\\u%04x", c);
            i++;
        } else if (c < 0x80) {
            pawl__buf_putc(out, (char)c);
            i++;
        } else {
            uint32_t cp = 0;
            int k = pawl__utf8_decode(p, v.n - i, &cp, NULL);
            if (k <= 0) k = 1;
            if (!ascii)
                pawl__buf_append(out, p, (size_t)k);
            else if (cp < 0x10000)
                pawl__buf_printf(out, "\\u%04x", cp);
            else
                pawl__buf_printf(out, "\\u%04x\\u%04x", 0xd800 + ((cp - 0x10000) >> 10),
                                 0xdc00 + ((cp - 0x10000) & 0x3ff));
            i += (uint32_t)k;
        }
    }
    pawl__buf_putc(out, '"');
}

static void json_number(jval v, pawl_buf *out)
{
    char number[40];
    if (v.kind == J_INT) {
        pawl__buf_printf(out, "%lld", (long long)v.u.i);
    } else if (isnan(v.u.f)) {
        pawl__buf_puts(out, "NaN");
    } else if (isinf(v.u.f)) {
        pawl__buf_puts(out, v.u.f < 0 ? "-Infinity" : "Infinity");
    } else {
        pawl__jv_float_repr(v.u.f, number);
        pawl__buf_puts(out, number);
    }
}

static void newline(const jjson *how, unsigned level, pawl_buf *out)
{
    if (how->indent.kind == J_NONE) return;
    pawl__buf_putc(out, '\n');
    for (unsigned l = 0; l < level && !out->failed; l++) {
        if (how->indent.kind == J_STR)
            pawl__buf_append(out, how->indent.u.s, how->indent.n);
        else
            for (int64_t i = 0; i < how->indent.u.i && !out->failed; i++) pawl__buf_putc(out, ' ');
    }
}

static void json(jrun *run, jval v, const jjson *how, pawl_buf *out, unsigned level);

static void json_key(jrun *run, jval key, const jjson *how, pawl_buf *out)
{
    if (key.kind == J_STR) {
        json_str(key, how->ascii, out);
    } else if (key.kind == J_NONE || key.kind == J_BOOL) {
        pawl__buf_puts(out, key.kind == J_NONE ? "\"null\"" : key.u.i ? "\"true\"" : "\"false\"");
    } else if (key.kind == J_INT || key.kind == J_FLOAT) {
        pawl__buf_putc(out, '"');
        json_number(key, out);
        pawl__buf_putc(out, '"');
    } else {
        pawl__jinja_fail(run, PAWL_EINVAL, "tojson: keys must be str, int, float, bool or None, not %s",
                         pawl__jv_type(key));
    }
}

static void json_dict(jrun *run, const jdict *d, const jjson *how, pawl_buf *out, unsigned level)
{
    uint32_t *perm = how->sort ? pawl__jinja_sort(run, d->keys, d->n, 0) : NULL;
    if (run->status != PAWL_OK) return;
    pawl__buf_putc(out, '{');
    for (uint32_t i = 0; i < d->n && run->status == PAWL_OK; i++) {
        uint32_t k = perm ? perm[i] : i;
        if (i) pawl__buf_append(out, how->item_sep, how->item_n);
        newline(how, level + 1, out);
        json_key(run, d->keys[k], how, out);
        pawl__buf_append(out, how->key_sep, how->key_n);
        json(run, d->vals[k], how, out, level + 1);
    }
    if (d->n) newline(how, level, out);
    pawl__buf_putc(out, '}');
}

static void json(jrun *run, jval v, const jjson *how, pawl_buf *out, unsigned level)
{
    if (pawl__jinja_step(run, 1 + (v.kind == J_STR ? v.n / 64 : 0)) || out->failed) return;
    if (level > JINJA_MAX_VALUE_DEPTH) {
        pawl__jinja_fail(run, PAWL_ETIMEDOUT, "a value is nested more than %d deep", JINJA_MAX_VALUE_DEPTH);
        return;
    }
    switch ((jkind)v.kind) {
    case J_NONE:
        pawl__buf_puts(out, "null");
        break;
    case J_BOOL:
        pawl__buf_puts(out, v.u.i ? "true" : "false");
        break;
    case J_INT:
    case J_FLOAT:
        json_number(v, out);
        break;
    case J_STR:
        json_str(v, how->ascii, out);
        break;
    case J_LIST:
    case J_TUPLE:
        pawl__buf_putc(out, '[');
        for (uint32_t i = 0; i < v.u.list->n && run->status == PAWL_OK; i++) {
            if (i) pawl__buf_append(out, how->item_sep, how->item_n);
            newline(how, level + 1, out);
            json(run, v.u.list->v[i], how, out, level + 1);
        }
        if (v.u.list->n) newline(how, level, out);
        pawl__buf_putc(out, ']');
        break;
    case J_DICT:
        json_dict(run, v.u.dict, how, out, level);
        break;
    default:
        pawl__jinja_fail(run, PAWL_EINVAL, "Object of type %s is not JSON serializable", pawl__jv_type(v));
        break;
    }
}

void pawl__jv_json(jrun *run, jval v, const jjson *how, pawl_buf *out)
{
    json(run, v, how, out, 0);
}

void pawl__jv_escape(const char *s, size_t n, pawl_buf *out)
{
    for (size_t i = 0; i < n && !out->failed; i++) {
        switch (s[i]) {
        case '&':
            pawl__buf_puts(out, "&amp;");
            break;
        case '<':
            pawl__buf_puts(out, "&lt;");
            break;
        case '>':
            pawl__buf_puts(out, "&gt;");
            break;
        case '\'':
            pawl__buf_puts(out, "&#39;");
            break;
        case '"':
            pawl__buf_puts(out, "&#34;");
            break;
        default:
            pawl__buf_putc(out, s[i]);
            break;
        }
    }
}
