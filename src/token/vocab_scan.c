/* A strict JSON scanner for the two large members of tokenizer.json, model.vocab and model.merges.
 *
 * They are nearly the whole file, and a tree of them costs more time and memory than everything else in loading: four
 * allocations a merge. So they are cut out and read straight from the text; the rest goes to the tree parser. Grammar:
 * RFC 8259; as in the tree parser, strings must be valid UTF-8 and surrogates must come in pairs. */
#include "token/internal.h"

#include <string.h>

#include "base/utf8.h"

pawl_status pawl__vocab_scan_fail(const pawl_vocab_scan *s, const char *what, pawl_err *err)
{
    return pawl__fail(err, PAWL_EFORMAT, "not valid JSON at byte %zu: %s", s->i, what);
}

char pawl__vocab_scan_peek(pawl_vocab_scan *s)
{
    for (; s->i < s->end; s->i++) {
        char c = s->text[s->i];
        if (c != ' ' && c != '\n' && c != '\r' && c != '\t') return c;
    }
    return 0;
}

int pawl__vocab_scan_take(pawl_vocab_scan *s, char c)
{
    if (pawl__vocab_scan_peek(s) != c || s->i == s->end) return 0;
    s->i++;
    return 1;
}

/* Four hexadecimal digits, or -1. */
static int32_t hex4(pawl_vocab_scan *s)
{
    int32_t v = 0;
    if (s->end - s->i < 4) return -1;
    for (int k = 0; k < 4; k++) {
        char c = s->text[s->i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) return -1;
        v = v * 16 + digit;
        s->i++;
    }
    return v;
}

/* What follows a backslash, as a code point, or -1. */
static int32_t escape(pawl_vocab_scan *s)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (s->i == s->end) return -1;
    char c = s->text[s->i++];
    if (c != 'u') {
        const char *at = c ? strchr(from, c) : NULL;
        return at ? to[at - from] : -1;
    }
    int32_t hi = hex4(s);
    if (hi < 0xd800 || hi > 0xdfff) return hi;
    if (hi > 0xdbff || s->end - s->i < 2 || s->text[s->i] != '\\' || s->text[s->i + 1] != 'u') return -1;
    s->i += 2;
    int32_t lo = hex4(s);
    return lo >= 0xdc00 && lo <= 0xdfff ? 0x10000 + ((hi - 0xd800) << 10) + (lo - 0xdc00) : -1;
}

pawl_status pawl__vocab_scan_string(pawl_vocab_scan *s, char *out, size_t cap, size_t *n, pawl_err *err)
{
    if (!pawl__vocab_scan_take(s, '"')) return pawl__vocab_scan_fail(s, "expected a string", err);
    size_t k = 0;
    for (;;) {
        if (s->i == s->end) return pawl__vocab_scan_fail(s, "a string without an end", err);
        char c = s->text[s->i], utf8[4];
        const char *from = s->text + s->i;
        int len = 1;
        if (c == '"') break;
        if (c == '\\') {
            s->i++;
            int32_t cp = escape(s);
            if (cp < 0) return pawl__vocab_scan_fail(s, "a bad escape in a string", err);
            if (cp == 0) return pawl__fail(err, PAWL_EFORMAT, "U+0000 in a string at byte %zu", s->i);
            len = pawl__utf8_encode((uint32_t)cp, utf8);
            from = utf8;
        } else {
            uint32_t cp;
            if ((unsigned char)c < 0x20) return pawl__vocab_scan_fail(s, "a control character in a string", err);
            if ((unsigned char)c >= 0x80) len = pawl__utf8_decode(from, s->end - s->i, &cp, NULL);
            if (len < 0) return pawl__vocab_scan_fail(s, "a string that is not UTF-8", err);
            s->i += (size_t)len;
        }
        if (cap - k < (size_t)len)
            return pawl__fail(err, PAWL_EFORMAT, "a string of more than %zu bytes at byte %zu", cap, s->i);
        for (int j = 0; j < len; j++) out[k++] = from[j];
    }
    s->i++;
    *n = k;
    return PAWL_OK;
}

pawl_status pawl__vocab_scan_int(pawl_vocab_scan *s, int64_t *v, pawl_err *err)
{
    int negative = pawl__vocab_scan_take(s, '-');
    size_t first = s->i;
    int64_t x = 0;
    for (; s->i < s->end && s->text[s->i] >= '0' && s->text[s->i] <= '9'; s->i++)
        if (x < INT64_MAX / 10 - 1) x = x * 10 + (s->text[s->i] - '0');
    char next = s->i < s->end ? s->text[s->i] : 0;
    if (s->i == first || next == '.' || next == 'e' || next == 'E')
        return pawl__fail(err, PAWL_EFORMAT, "expected an integer at byte %zu", first);
    if (s->text[first] == '0' && s->i > first + 1) return pawl__vocab_scan_fail(s, "a number that begins with 0", err);
    *v = negative ? -x : x;
    return PAWL_OK;
}

int pawl__vocab_scan_skip(pawl_vocab_scan *s)
{
    size_t depth = 0;
    do {
        char c = pawl__vocab_scan_peek(s);
        if (s->i == s->end) return 0;
        s->i++;
        if (c == '[' || c == '{') {
            depth++;
        } else if (c == ']' || c == '}') {
            if (depth == 0) return 0;
            depth--;
        } else if (c == '"') {
            while (s->i < s->end && s->text[s->i] != '"') s->i += s->text[s->i] == '\\' ? 2 : 1;
            if (s->i >= s->end) return 0;
            s->i++;
        } else if (depth == 0) {
            while (s->i < s->end && !strchr(",:]} \t\r\n", s->text[s->i])) s->i++;
        }
    } while (depth > 0);
    return 1;
}

/* The next member's key, still in quotes and undecoded; stands at its value afterwards. */
static int next_key(pawl_vocab_scan *s, const char **key, size_t *n)
{
    if (pawl__vocab_scan_peek(s) != '"') return 0;
    size_t from = s->i;
    if (!pawl__vocab_scan_skip(s)) return 0;
    *key = s->text + from;
    *n = s->i - from;
    return pawl__vocab_scan_take(s, ':');
}

static int is_key(const char *key, size_t n, const char *quoted)
{
    return n == strlen(quoted) && memcmp(key, quoted, n) == 0;
}

static int cut_value(pawl_vocab_scan *s, pawl_vocab_scan *part)
{
    pawl__vocab_scan_peek(s);
    *part = (pawl_vocab_scan){s->text, s->i, s->end};
    int ok = pawl__vocab_scan_skip(s);
    part->end = s->i;
    return ok;
}

static int find_in_model(pawl_vocab_scan *s, pawl_parts *parts)
{
    const char *key;
    size_t n;
    if (!pawl__vocab_scan_take(s, '{')) return pawl__vocab_scan_skip(s);
    if (pawl__vocab_scan_take(s, '}')) return 1;
    do {
        if (!next_key(s, &key, &n)) return 0;
        if (!parts->vocab.text && is_key(key, n, "\"vocab\"")) {
            if (!cut_value(s, &parts->vocab)) return 0;
        } else if (!parts->merges.text && is_key(key, n, "\"merges\"")) {
            if (!cut_value(s, &parts->merges)) return 0;
        } else if (!pawl__vocab_scan_skip(s)) {
            return 0;
        }
    } while (pawl__vocab_scan_take(s, ','));
    return pawl__vocab_scan_take(s, '}');
}

static int find_parts(pawl_vocab_scan s, pawl_parts *parts)
{
    const char *key;
    size_t n;
    int seen = 0;
    if (!pawl__vocab_scan_take(&s, '{')) return 0;
    do {
        if (!next_key(&s, &key, &n)) return 0;
        int model = !seen && is_key(key, n, "\"model\"");
        seen |= model;
        if (model ? !find_in_model(&s, parts) : !pawl__vocab_scan_skip(&s)) return 0;
    } while (pawl__vocab_scan_take(&s, ','));
    return 1;
}

/* The text up to the part, and null with as many lines in its place, so that messages count lines as the file does. */
static void leave_out(pawl_buf *rest, const char *text, size_t *from, const pawl_vocab_scan *part)
{
    if (!part->text) return;
    pawl__buf_append(rest, text + *from, part->i - *from);
    pawl__buf_puts(rest, "null");
    for (size_t i = part->i; i < part->end; i++)
        if (text[i] == '\n') pawl__buf_putc(rest, '\n');
    *from = part->end;
}

void pawl__vocab_scan_parts(const char *text, size_t n, pawl_parts *parts, pawl_buf *rest)
{
    size_t from = 0;
    *parts = (pawl_parts){0};
    /* What cannot be followed goes to the tree parser whole, which says what is wrong with it. */
    if (!find_parts((pawl_vocab_scan){text, 0, n}, parts)) *parts = (pawl_parts){0};
    const pawl_vocab_scan *a = &parts->vocab, *b = &parts->merges;
    int swapped = a->i > b->i;
    leave_out(rest, text, &from, swapped ? b : a);
    leave_out(rest, text, &from, swapped ? a : b);
    pawl__buf_append(rest, text + from, n - from);
}
