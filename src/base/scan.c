#include "base/scan.h"

#include <string.h>

#include "base/utf8.h"

static const char *name_of(const pawl_scan *s)
{
    return s->name ? s->name : "";
}

static const char *colon(const pawl_scan *s)
{
    return s->name ? ": " : "";
}

static pawl_status fail_at(const pawl_scan *s, const char *expected, pawl_err *err)
{
    size_t at = (size_t)(s->p - s->base);
    if (s->p >= s->end)
        return pawl__fail(err, PAWL_EFORMAT, "%s%sJSON ends at byte %zu, expected %s", name_of(s), colon(s), at,
                          expected);
    unsigned char c = (unsigned char)*s->p;
    if (c > 0x20 && c < 0x7f)
        return pawl__fail(err, PAWL_EFORMAT, "%s%sJSON byte %zu: found '%c', expected %s", name_of(s), colon(s), at, c,
                          expected);
    return pawl__fail(err, PAWL_EFORMAT, "%s%sJSON byte %zu: found byte 0x%02x, expected %s", name_of(s), colon(s), at,
                      c, expected);
}

pawl_status pawl__scan_init(pawl_scan *s, const char *name, const char *text, size_t n, pawl_err *err)
{
    *s = (pawl_scan){.name = name, .base = text, .p = text, .end = text + n};
    size_t valid = pawl__utf8_valid(text, n);
    if (valid == n) return PAWL_OK;
    return pawl__fail(err, PAWL_EFORMAT, "%s%sJSON byte %zu is not valid UTF-8", name_of(s), colon(s), valid);
}

static void skip_space(pawl_scan *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r')) s->p++;
}

char pawl__scan_peek(pawl_scan *s)
{
    skip_space(s);
    return s->p < s->end ? *s->p : 0;
}

int pawl__scan_take(pawl_scan *s, char c)
{
    skip_space(s);
    if (s->p >= s->end || *s->p != c) return 0;
    s->p++;
    return 1;
}

pawl_status pawl__scan_expect(pawl_scan *s, char c, pawl_err *err)
{
    if (pawl__scan_take(s, c)) return PAWL_OK;
    const char expected[] = {'\'', c, '\'', 0};
    return fail_at(s, expected, err);
}

pawl_status pawl__scan_next(pawl_scan *s, char close, int *more, pawl_err *err)
{
    if (pawl__scan_take(s, ',')) {
        *more = 1;
        return PAWL_OK;
    }
    *more = 0;
    if (pawl__scan_take(s, close)) return PAWL_OK;
    return fail_at(s, close == '}' ? "',' or '}'" : "',' or ']'", err);
}

static int hex4(const char *p, const char *end, uint32_t *out)
{
    if (end - p < 4) return 0;
    uint32_t v = 0;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        uint32_t d;
        if (c >= '0' && c <= '9') {
            d = (uint32_t)(c - '0');
        } else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f') {
            d = (uint32_t)((c | 0x20) - 'a' + 10);
        } else {
            return 0;
        }
        v = v << 4 | d;
    }
    *out = v;
    return 1;
}

/* The character after a backslash, s->p on it. Writes 1 to 4 bytes into c and moves past the escape; 0 when malformed. */
static int unescape(pawl_scan *s, char c[4])
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (s->p >= s->end) return 0;
    const char *k = memchr(from, *s->p, sizeof from - 1);
    if (k) {
        c[0] = to[k - from];
        s->p++;
        return 1;
    }
    uint32_t cp, low;
    if (*s->p != 'u' || !hex4(s->p + 1, s->end, &cp)) return 0;
    const char *after = s->p + 5;
    if (cp >= 0xd800 && cp < 0xdc00) {
        if (s->end - after < 6 || after[0] != '\\' || after[1] != 'u' || !hex4(after + 2, s->end, &low)) return 0;
        if (low < 0xdc00 || low > 0xdfff) return 0;
        cp = 0x10000 + ((cp - 0xd800) << 10) + (low - 0xdc00);
        after += 6;
    } else if (cp >= 0xdc00 && cp < 0xe000) {
        return 0;
    }
    s->p = after;
    return pawl__utf8_encode(cp, c);
}

/* out NULL: the string is only passed over. */
static pawl_status read_string(pawl_scan *s, char *out, size_t cap, size_t *len, pawl_err *err)
{
    PAWL_TRY(pawl__scan_expect(s, '"', err));
    size_t start = (size_t)(s->p - s->base), n = 0;
    for (;;) {
        if (s->p >= s->end) return fail_at(s, "'\"' at the end of a string", err);
        if (*s->p == '"') break;
        char c[4];
        int k = 1;
        if (*s->p == '\\') {
            s->p++;
            k = unescape(s, c);
            if (!k) return fail_at(s, "an escape sequence", err);
        } else if ((unsigned char)*s->p < 0x20) {
            return fail_at(s, "no control character in a string", err);
        } else {
            c[0] = *s->p++;
        }
        if (!out) continue;
        if (n + (size_t)k >= cap)
            return pawl__fail(err, PAWL_EFORMAT, "%s%sJSON byte %zu: string of more than %zu bytes", name_of(s),
                              colon(s), start, cap - 1);
        memcpy(out + n, c, (size_t)k);
        n += (size_t)k;
    }
    s->p++;
    if (out) {
        out[n] = 0;
        *len = n;
    }
    return PAWL_OK;
}

pawl_status pawl__scan_string(pawl_scan *s, char *out, size_t cap, size_t *len, pawl_err *err)
{
    return read_string(s, out, cap, len, err);
}

static int is_digit(const pawl_scan *s)
{
    return s->p < s->end && *s->p >= '0' && *s->p <= '9';
}

pawl_status pawl__scan_integer(pawl_scan *s, int64_t *out, pawl_err *err)
{
    skip_space(s);
    if (!is_digit(s)) return fail_at(s, "an integer of at least 0", err);
    if (*s->p == '0' && s->p + 1 < s->end && s->p[1] >= '0' && s->p[1] <= '9')
        return fail_at(s, "an integer without leading zeros", err);
    int64_t v = 0;
    for (; is_digit(s); s->p++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *s->p - '0', &v))
            return fail_at(s, "an integer below 2^63", err);
    if (s->p < s->end && (*s->p == '.' || *s->p == 'e' || *s->p == 'E'))
        return fail_at(s, "an integer without fraction or exponent", err);
    *out = v;
    return PAWL_OK;
}

static pawl_status skip_number(pawl_scan *s, pawl_err *err)
{
    if (s->p < s->end && *s->p == '-') s->p++;
    if (!is_digit(s)) return fail_at(s, "a value", err);
    if (*s->p == '0') {
        s->p++;
    } else {
        while (is_digit(s)) s->p++;
    }
    if (s->p < s->end && *s->p == '.') {
        s->p++;
        if (!is_digit(s)) return fail_at(s, "a digit", err);
        while (is_digit(s)) s->p++;
    }
    if (s->p < s->end && (*s->p == 'e' || *s->p == 'E')) {
        s->p++;
        if (s->p < s->end && (*s->p == '+' || *s->p == '-')) s->p++;
        if (!is_digit(s)) return fail_at(s, "a digit", err);
        while (is_digit(s)) s->p++;
    }
    return PAWL_OK;
}

pawl_status pawl__scan_skip(pawl_scan *s, int depth, pawl_err *err)
{
    skip_space(s);
    if (depth <= 0 && s->p < s->end && (*s->p == '{' || *s->p == '['))
        return fail_at(s, "less deeply nested values", err);
    if (s->p >= s->end) return fail_at(s, "a value", err);
    if (*s->p == '"') return read_string(s, NULL, 0, NULL, err);
    if (*s->p == '{' || *s->p == '[') {
        char close = *s->p == '{' ? '}' : ']';
        s->p++;
        if (pawl__scan_take(s, close)) return PAWL_OK;
        for (int more = 1; more;) {
            if (close == '}') {
                PAWL_TRY(read_string(s, NULL, 0, NULL, err));
                PAWL_TRY(pawl__scan_expect(s, ':', err));
            }
            PAWL_TRY(pawl__scan_skip(s, depth - 1, err));
            PAWL_TRY(pawl__scan_next(s, close, &more, err));
        }
        return PAWL_OK;
    }
    static const char *const words[] = {"true", "false", "null"};
    for (int i = 0; i < 3; i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(s->end - s->p) >= n && !memcmp(s->p, words[i], n)) {
            s->p += n;
            return PAWL_OK;
        }
    }
    return skip_number(s, err);
}

pawl_status pawl__scan_end(pawl_scan *s, pawl_err *err)
{
    skip_space(s);
    return s->p == s->end ? PAWL_OK : fail_at(s, "nothing after the JSON value but spaces", err);
}

const char *pawl__scan_show(const char *s, size_t n, char out[PAWL_SHOWN])
{
    enum { KEEP = PAWL_SHOWN - 4 };
    size_t m = n < KEEP ? n : KEEP;
    while (m < n && m > 0 && ((unsigned char)s[m] & 0xc0) == 0x80) m--; /* not in the middle of a character */
    for (size_t i = 0; i < m; i++) out[i] = (unsigned char)s[i] < 0x20 || s[i] == 0x7f ? '?' : s[i];
    memcpy(out + m, m < n ? "..." : "", m < n ? 4 : 1);
    return out;
}
