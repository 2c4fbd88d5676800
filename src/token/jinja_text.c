/* Text as Python sees it: characters are code points of valid UTF-8, white space and letters are Unicode's.
 *
 * Case mapping is by single characters (utf8proc's tables) and, of the mappings to several, only that of sharp s. */
#include "token/jinja.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <utf8proc.h>

#include "base/utf8.h"

/* ---- characters ---- */

int pawl__jinja_is_space(uint32_t cp)
{
    if (cp <= 0x20) return cp == 0x20 || (cp >= 0x09 && cp <= 0x0d) || (cp >= 0x1c && cp <= 0x1f);
    return cp == 0x85 || cp == 0xa0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029 ||
           cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

static int is_start(char c)
{
    return ((unsigned char)c & 0xc0) != 0x80;
}

uint32_t pawl__jinja_chars(const char *s, size_t n)
{
    uint32_t k = 0;
    for (size_t i = 0; i < n; i++) k += (uint32_t)is_start(s[i]);
    return k;
}

size_t pawl__jinja_offset(const char *s, size_t n, uint32_t i)
{
    size_t p = 0;
    for (; p < n && i > 0; i--) {
        p++;
        while (p < n && !is_start(s[p])) p++;
    }
    return p;
}

/* The character at s and its length; valid UTF-8 is taken for granted, anything else is one byte long. */
static int decode(const char *s, size_t n, uint32_t *cp)
{
    int k = pawl__utf8_decode(s, n, cp, NULL);
    if (k > 0) return k;
    *cp = 0xfffd;
    return 1;
}

static size_t before(const char *s, size_t end)
{
    do end--;
    while (end > 0 && !is_start(s[end]));
    return end;
}

uint32_t pawl__jinja_toupper(uint32_t cp)
{
    return (uint32_t)utf8proc_toupper((utf8proc_int32_t)cp);
}

uint32_t pawl__jinja_tolower(uint32_t cp)
{
    return (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
}

static uint32_t to_title(uint32_t cp)
{
    return (uint32_t)utf8proc_totitle((utf8proc_int32_t)cp);
}

static int category(uint32_t cp)
{
    return (int)utf8proc_category((utf8proc_int32_t)cp);
}

static int is_cased(int cat)
{
    return cat == UTF8PROC_CATEGORY_LU || cat == UTF8PROC_CATEGORY_LL || cat == UTF8PROC_CATEGORY_LT;
}

static int in_class(uint32_t cp, int what)
{
    int cat = category(cp);
    int alpha = is_cased(cat) || cat == UTF8PROC_CATEGORY_LM || cat == UTF8PROC_CATEGORY_LO;
    int digit = cat == UTF8PROC_CATEGORY_ND || cp == 0xb2 || cp == 0xb3 || cp == 0xb9 || cp == 0x2070 ||
                (cp >= 0x2074 && cp <= 0x2079) || (cp >= 0x2080 && cp <= 0x2089);
    switch (what) {
    case J_DECIMAL:
        return cat == UTF8PROC_CATEGORY_ND;
    case J_DIGIT:
        return digit;
    case J_ALPHA:
        return alpha;
    case J_ALNUM:
        return alpha || digit || cat == UTF8PROC_CATEGORY_NL || cat == UTF8PROC_CATEGORY_NO;
    default:
        return pawl__jinja_is_space(cp);
    }
}

int pawl__jinja_isclass(jrun *run, jval s, int what)
{
    if (pawl__jinja_step(run, s.n / 16)) return 0;
    int cased = 0, after_cased = 0;
    for (uint32_t i = 0; i < s.n;) {
        uint32_t cp;
        i += (uint32_t)decode(s.u.s + i, s.n - i, &cp);
        if (what != J_LOWER && what != J_UPPER && what != J_TITLE) {
            if (!in_class(cp, what)) return 0;
            cased = 1;
            continue;
        }
        int cat = category(cp);
        int upper = cat == UTF8PROC_CATEGORY_LU, lower = cat == UTF8PROC_CATEGORY_LL;
        if (what == J_LOWER && is_cased(cat) && !lower) return 0;
        if (what == J_UPPER && is_cased(cat) && !upper) return 0;
        if (what == J_TITLE && is_cased(cat) && lower != after_cased) return 0;
        after_cased = is_cased(cat);
        cased |= after_cased;
    }
    return cased;
}

/* ---- case ---- */

static void put(pawl_buf *b, uint32_t cp)
{
    char c[4];
    pawl__buf_append(b, c, (size_t)pawl__utf8_encode(cp, c));
}

typedef enum casing { TO_UPPER, TO_LOWER, TO_CAPITAL, TO_WORDS, TO_SWAPPED } casing;

static void put_upper(pawl_buf *b, uint32_t cp, int title)
{
    if (cp == 0xdf)
        pawl__buf_puts(b, title ? "Ss" : "SS");
    else
        put(b, title ? to_title(cp) : pawl__jinja_toupper(cp));
}

static jval recase(jrun *run, jval s, casing how)
{
    if (pawl__jinja_step(run, s.n / 16)) return pawl__jv_undef("nothing");
    pawl_buf b = pawl__jv_buf(run);
    int after_cased = 0;
    for (uint32_t i = 0; i < s.n;) {
        uint32_t cp;
        int first = i == 0;
        i += (uint32_t)decode(s.u.s + i, s.n - i, &cp);
        int upper = how == TO_UPPER || (how == TO_CAPITAL && first) || (how == TO_WORDS && !after_cased) ||
                    (how == TO_SWAPPED && category(cp) == UTF8PROC_CATEGORY_LL);
        if (upper)
            put_upper(&b, cp, how == TO_CAPITAL || how == TO_WORDS);
        else
            put(&b, pawl__jinja_tolower(cp));
        after_cased = is_cased(category(cp));
    }
    jval v = pawl__jv_take(run, &b);
    if (v.kind == J_STR) v.flag = s.flag;
    return v;
}

jval pawl__jinja_upper(jrun *run, jval s)
{
    return recase(run, s, TO_UPPER);
}

jval pawl__jinja_lower(jrun *run, jval s)
{
    return recase(run, s, TO_LOWER);
}

jval pawl__jinja_capitalize(jrun *run, jval s)
{
    return recase(run, s, TO_CAPITAL);
}

jval pawl__jinja_title(jrun *run, jval s)
{
    return recase(run, s, TO_WORDS);
}

jval pawl__jinja_swapcase(jrun *run, jval s)
{
    return recase(run, s, TO_SWAPPED);
}

/* ---- cutting and padding ---- */

static int strips(uint32_t cp, jval chars)
{
    if (chars.kind != J_STR) return pawl__jinja_is_space(cp);
    for (uint32_t i = 0; i < chars.n;) {
        uint32_t c;
        i += (uint32_t)decode(chars.u.s + i, chars.n - i, &c);
        if (c == cp) return 1;
    }
    return 0;
}

jval pawl__jinja_strip(jrun *run, jval s, jval chars, int left, int right)
{
    size_t begin = 0, end = s.n;
    uint32_t cp;
    while (left && begin < end) {
        int k = decode(s.u.s + begin, end - begin, &cp);
        if (!strips(cp, chars) || (run && pawl__jinja_step(run, chars.n / 16))) break;
        begin += (size_t)k;
    }
    while (right && end > begin) {
        size_t p = before(s.u.s, end);
        decode(s.u.s + p, end - p, &cp);
        if (!strips(cp, chars) || (run && pawl__jinja_step(run, chars.n / 16))) break;
        end = p;
    }
    if (run) pawl__jinja_step(run, (s.n - (end - begin)) / 16);
    jval v = pawl__jv_view(s.u.s + begin, end - begin);
    v.flag = s.flag;
    return v;
}

jval pawl__jinja_replace(jrun *run, jval s, jval old, jval by, int64_t count)
{
    if (pawl__jinja_step(run, s.n / 64)) return pawl__jv_undef("nothing");
    pawl_buf b = pawl__jv_buf(run);
    uint32_t i = 0;
    for (; count != 0 && i <= s.n && !b.failed; count -= count > 0) {
        if (old.n == 0) { /* an empty string stands before every character and at the end */
            pawl__buf_append(&b, by.u.s, by.n);
            if (i == s.n) break;
            size_t k = pawl__jinja_offset(s.u.s + i, s.n - i, 1);
            pawl__buf_append(&b, s.u.s + i, k);
            i += (uint32_t)k;
            continue;
        }
        const char *hit = i < s.n ? memmem(s.u.s + i, s.n - i, old.u.s, old.n) : NULL;
        if (!hit) break;
        pawl__buf_append(&b, s.u.s + i, (size_t)(hit - (s.u.s + i)));
        pawl__buf_append(&b, by.u.s, by.n);
        i = (uint32_t)(hit - s.u.s) + old.n;
    }
    pawl__buf_append(&b, s.u.s + i, s.n - i);
    jval v = pawl__jv_take(run, &b);
    if (v.kind == J_STR) v.flag = s.flag;
    return v;
}

static void pad(pawl_buf *b, int64_t n, uint32_t fill)
{
    for (; n > 0 && !b->failed; n--) put(b, fill);
}

jval pawl__jinja_center(jrun *run, jval s, int64_t width, uint32_t fill, int left, int right)
{
    int64_t n = pawl__jinja_chars(s.u.s, s.n), missing;
    if (__builtin_sub_overflow(width, n, &missing) || missing <= 0) return s;
    if (pawl__jinja_step(run, (uint64_t)missing / 16)) return pawl__jv_undef("nothing");
    int64_t before_text = left && right ? missing / 2 + (missing & width & 1) : left ? missing : 0;
    pawl_buf b = pawl__jv_buf(run);
    pad(&b, before_text, fill);
    pawl__buf_append(&b, s.u.s, s.n);
    pad(&b, missing - before_text, fill);
    jval v = pawl__jv_take(run, &b);
    if (v.kind == J_STR) v.flag = s.flag;
    return v;
}

static int ends_line(uint32_t cp)
{
    return (cp >= 0x0a && cp <= 0x0d) || (cp >= 0x1c && cp <= 0x1e) || cp == 0x85 || cp == 0x2028 || cp == 0x2029;
}

jval pawl__jinja_splitlines(jrun *run, jval s, int keep)
{
    jval list = pawl__jv_list(run, 0);
    uint32_t begin = 0;
    for (uint32_t i = 0; i < s.n && list.kind == J_LIST && run->status == PAWL_OK;) {
        uint32_t cp, at = i;
        i += (uint32_t)decode(s.u.s + i, s.n - i, &cp);
        int end = ends_line(cp);
        if (!end && i < s.n) continue;
        if (cp == '\r' && i < s.n && s.u.s[i] == '\n') i++;
        jval line = pawl__jv_view(s.u.s + begin, (end && !keep ? at : i) - begin);
        line.flag = s.flag;
        pawl__jinja_step(run, 1 + line.n / 64);
        pawl__jv_push(run, list.u.list, line);
        begin = i;
    }
    return list;
}

/* ---- printf-style formatting ---- */

typedef struct spec {
    int left, plus, space, zero, alternate;
    int64_t width, precision; /* precision: -1 when not given */
} spec;

typedef struct formatter {
    jrun *run;
    const char *p, *end;
    jval args;
    uint32_t used; /* positional arguments taken */
    pawl_buf out;
} formatter;

static jval bad_format(formatter *f, const char *why)
{
    return pawl__jinja_fail(f->run, PAWL_EINVAL, "%%-formatting: %s", why);
}

static jval next_argument(formatter *f)
{
    if (f->args.kind == J_TUPLE) {
        if (f->used < f->args.u.list->n) return f->args.u.list->v[f->used++];
    } else if (f->used++ == 0) {
        return f->args;
    }
    return bad_format(f, "not enough arguments for format string");
}

static int64_t format_count(formatter *f)
{
    if (f->p < f->end && *f->p == '*') {
        f->p++;
        jval v = next_argument(f);
        if (v.kind != J_INT) bad_format(f, "* wants an int");
        return v.kind == J_INT ? v.u.i : 0;
    }
    int64_t n = 0;
    for (; f->p < f->end && *f->p >= '0' && *f->p <= '9'; f->p++)
        if (n < INT32_MAX) n = n * 10 + (*f->p - '0');
    return n;
}

/* sign and prefix stand before zeros, zeros before the text. */
static void put_padded(formatter *f, const spec *s, const char *prefix, const char *text, size_t n, int zeros)
{
    int64_t missing = s->width - (int64_t)strlen(prefix) - pawl__jinja_chars(text, n);
    if (missing > 0) pawl__jinja_step(f->run, (uint64_t)missing / 16);
    if (!s->left && !zeros) pad(&f->out, missing, ' ');
    pawl__buf_puts(&f->out, prefix);
    if (!s->left && zeros) pad(&f->out, missing, '0');
    pawl__buf_append(&f->out, text, n);
    if (s->left) pad(&f->out, missing, ' ');
}

static void format_int(formatter *f, const spec *s, char type, jval v)
{
    if (v.kind == J_FLOAT && type == 'd' && fabs(v.u.f) < 9.2e18) v = pawl__jv_int((int64_t)v.u.f);
    if (v.kind != J_INT && v.kind != J_BOOL) {
        bad_format(f, "a number is required");
        return;
    }
    uint64_t u = v.u.i < 0 ? 0 - (uint64_t)v.u.i : (uint64_t)v.u.i;
    char digits[100], prefix[4];
    const char *fmt = type == 'x' ? "%0*llx" : type == 'X' ? "%0*llX" : type == 'o' ? "%0*llo" : "%0*llu";
    int least = s->precision > 60 ? 60 : s->precision < 0 ? 1 : (int)s->precision;
    if (s->precision > 60) bad_format(f, "precision too large");
    int n = snprintf(digits, sizeof digits, fmt, least, (unsigned long long)u);
    const char *base = s->alternate && type == 'x' ? "0x" : s->alternate && type == 'X' ? "0X" : "";
    if (s->alternate && type == 'o') base = "0o";
    snprintf(prefix, sizeof prefix, "%s%s", v.u.i < 0 ? "-" : s->plus ? "+" : s->space ? " " : "", base);
    put_padded(f, s, prefix, digits, (size_t)n, s->zero);
}

static void format_float(formatter *f, const spec *s, char type, jval v)
{
    if (v.kind != J_INT && v.kind != J_BOOL && v.kind != J_FLOAT) {
        bad_format(f, "a real number is required");
        return;
    }
    double d = v.kind == J_FLOAT ? v.u.f : (double)v.u.i;
    int precision = s->precision < 0 ? 6 : s->precision > 300 ? 300 : (int)s->precision;
    if (s->precision > 300) bad_format(f, "precision too large");
    char fmt[8], text[700];
    snprintf(fmt, sizeof fmt, s->alternate ? "%%#.*%c" : "%%.*%c", type);
    int n = snprintf(text, sizeof text, fmt, precision, fabs(d));
    const char *sign = signbit(d) && !isnan(d) ? "-" : s->plus ? "+" : s->space ? " " : "";
    put_padded(f, s, sign, text, (size_t)n, s->zero && isfinite(d));
}

static void format_text(formatter *f, const spec *s, char type, jval v)
{
    pawl_buf b = pawl__jv_buf(f->run);
    if (type == 'r')
        pawl__jv_repr(f->run, v, &b);
    else
        pawl__jv_str(f->run, v, &b);
    size_t n = b.len;
    if (s->precision >= 0 && s->precision < UINT32_MAX && n) n = pawl__jinja_offset(b.data, n, (uint32_t)s->precision);
    if (b.failed) f->out.failed = 1;
    put_padded(f, s, "", n ? b.data : "", n, 0);
    pawl__buf_free(&b);
}

static void format_char(formatter *f, const spec *s, jval v)
{
    char c[4];
    if (v.kind == J_STR && pawl__jinja_chars(v.u.s, v.n) == 1) {
        put_padded(f, s, "", v.u.s, v.n, 0);
    } else if (v.kind == J_INT && v.u.i >= 0 && v.u.i <= 0x10ffff && !(v.u.i >= 0xd800 && v.u.i <= 0xdfff)) {
        put_padded(f, s, "", c, (size_t)pawl__utf8_encode((uint32_t)v.u.i, c), 0);
    } else {
        bad_format(f, "%c requires int or char");
    }
}

/* One conversion; f->p stands after the '%'. */
static void conversion(formatter *f)
{
    spec s = {.precision = -1};
    jval v = {.kind = J_ABSENT};
    if (f->p < f->end && *f->p == '(') {
        const char *name = ++f->p;
        while (f->p < f->end && *f->p != ')') f->p++;
        if (f->args.kind != J_DICT || f->p == f->end) {
            bad_format(f, "format requires a mapping");
            return;
        }
        jval *found = pawl__jv_dict_find_str(f->args.u.dict, name, (size_t)(f->p - name));
        if (!found) {
            bad_format(f, "key not found");
            return;
        }
        v = *found;
        f->used = 1;
        f->p++;
    }
    for (; f->p < f->end; f->p++) {
        if (*f->p == '-')
            s.left = 1;
        else if (*f->p == '+')
            s.plus = 1;
        else if (*f->p == ' ')
            s.space = 1;
        else if (*f->p == '0')
            s.zero = 1;
        else if (*f->p == '#')
            s.alternate = 1;
        else
            break;
    }
    s.width = format_count(f);
    if (s.width < 0) {
        s.left = 1;
        s.width = s.width > -INT32_MAX ? -s.width : INT32_MAX;
    }
    if (f->p < f->end && *f->p == '.') {
        f->p++;
        s.precision = format_count(f);
        if (s.precision < 0) s.precision = 0;
    }
    while (f->p < f->end && (*f->p == 'l' || *f->p == 'h' || *f->p == 'L')) f->p++;
    char type = f->p < f->end ? *f->p++ : 0;
    if (type == '%') {
        pawl__buf_putc(&f->out, '%');
        return;
    }
    if (!type || !strchr("diuxXofFeEgGsrc", type)) {
        bad_format(f, "unsupported format character");
        return;
    }
    if (v.kind == J_ABSENT) v = next_argument(f);
    if (f->run->status != PAWL_OK) return;
    if (strchr("diu", type))
        format_int(f, &s, 'd', v);
    else if (strchr("xXo", type))
        format_int(f, &s, type, v);
    else if (strchr("fFeEgG", type))
        format_float(f, &s, type, v);
    else if (type == 'c')
        format_char(f, &s, v);
    else
        format_text(f, &s, type, v);
}

jval pawl__jinja_format(jrun *run, jval fmt, jval args)
{
    if (fmt.flag) return pawl__jinja_fail(run, PAWL_EUNSUPPORTED, "%% on a string marked safe is not supported");
    formatter f = {.run = run, .p = fmt.u.s, .end = fmt.u.s + fmt.n, .args = args, .out = pawl__jv_buf(run)};
    while (f.p < f.end && run->status == PAWL_OK && !f.out.failed) {
        const char *percent = memchr(f.p, '%', (size_t)(f.end - f.p));
        if (!percent) percent = f.end;
        pawl__buf_append(&f.out, f.p, (size_t)(percent - f.p));
        f.p = percent;
        if (f.p == f.end) break;
        f.p++;
        conversion(&f);
    }
    int mapping = args.kind == J_DICT || args.kind == J_LIST || args.kind == J_UNDEF || args.kind == J_RANGE;
    if ((args.kind == J_TUPLE && f.used < args.u.list->n) || (args.kind != J_TUPLE && !mapping && f.used == 0))
        bad_format(&f, "not all arguments converted during string formatting");
    return pawl__jv_take(run, &f.out);
}
