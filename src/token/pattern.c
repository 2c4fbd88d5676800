/* Regular expressions of tokenizer.json, written for Oniguruma, made safe for PCRE2.
 *
 * The two agree on letters, numbers, marks and the operators that pre-tokenizers use; where they differ, the pattern is
 * rewritten if that is easy and refused otherwise, so that no text is ever split in another way than the checkpoint's
 * makers did. The differences:
 *   \s, \S   PCRE2 counts U+180E as white space: written out as [\t-\r\x{85}\p{Z}]
 *   {n,m}+   possessive in PCRE2, repeated in Oniguruma; && and nested classes; ^ and $; \w, \b, \h, \v and the like */
#include "token/internal.h"

#include <string.h>

#define WHITE "\\t-\\r\\x{85}\\p{Z}"

typedef struct scan {
    const char *p;
    size_t n, i;
    pawl_buf *out;
    pawl_err *err;
} scan;

static pawl_status refuse(const scan *s, size_t at, const char *what)
{
    return pawl__fail(s->err, PAWL_EUNSUPPORTED, "%s at byte %zu of the pattern: engines read it differently", what,
                      at);
}

static int at(const scan *s, const char *word)
{
    size_t n = strlen(word);
    return s->n - s->i >= n && memcmp(s->p + s->i, word, n) == 0;
}

static void copy(scan *s, size_t n)
{
    pawl__buf_append(s->out, s->p + s->i, n);
    s->i += n;
}

/* A backslash and what belongs to it. */
static pawl_status escape(scan *s, int in_class)
{
    if (s->i + 1 == s->n) return refuse(s, s->i, "a lone backslash");
    char c = s->p[s->i + 1];
    if (c == 's' || c == 'S') {
        if (in_class && c == 'S') return refuse(s, s->i, "\\S inside a class");
        pawl__buf_puts(s->out, in_class ? WHITE : c == 's' ? "[" WHITE "]" : "[^" WHITE "]");
        s->i += 2;
        return PAWL_OK;
    }
    int letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'), digit = c >= '0' && c <= '9';
    if (digit || (letter && !strchr("pPdDrntfx", c)))
        return refuse(s, s->i, "an escape other than \\p \\s \\d \\r \\n \\t");
    copy(s, 2);
    return PAWL_OK;
}

/* A class from its bracket to the closing one. */
static pawl_status class(scan *s)
{
    size_t open = s->i;
    copy(s, at(s, "[^") ? 2 : 1);
    if (s->i < s->n && s->p[s->i] == ']') copy(s, 1);
    while (s->i < s->n && s->p[s->i] != ']') {
        if (at(s, "[:space:]")) {
            pawl__buf_puts(s->out, WHITE);
            s->i += 9;
        } else if (s->p[s->i] == '[') {
            return refuse(s, s->i, "a bracket inside a class");
        } else if (at(s, "&&")) {
            return refuse(s, s->i, "a class intersection");
        } else if (at(s, "-\\s") || (at(s, "\\s-") && !(s->i + 3 < s->n && s->p[s->i + 3] == ']'))) {
            return refuse(s, s->i, "a range that ends in a class");
        } else if (s->p[s->i] == '\\') {
            PAWL_TRY(escape(s, 1));
        } else {
            copy(s, 1);
        }
    }
    if (s->i == s->n) return refuse(s, open, "a class without an end");
    copy(s, 1);
    return PAWL_OK;
}

/* An opening parenthesis with its kind. */
static pawl_status group(scan *s)
{
    static const char *const known[] = {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
    if (at(s, "(*")) return refuse(s, s->i, "a verb");
    if (!at(s, "(?")) {
        copy(s, 1);
        return PAWL_OK;
    }
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (at(s, known[k])) {
            copy(s, strlen(known[k]));
            return PAWL_OK;
        }
    return refuse(s, s->i, "a group of an unknown kind");
}

pawl_status pawl__pattern_rewrite(const char *p, size_t n, pawl_buf *out, pawl_err *err)
{
    scan s = {p, n, 0, out, err};
    int interval = 0; /* the last thing was {n,m} */
    while (s.i < n) {
        char c = p[s.i];
        if (interval && (c == '+' || c == '*')) return refuse(&s, s.i, "a quantifier after an interval");
        interval = c == '}';
        switch (c) {
        case '\\':
            PAWL_TRY(escape(&s, 0));
            break;
        case '[':
            PAWL_TRY(class(&s));
            break;
        case '(':
            PAWL_TRY(group(&s));
            break;
        case '^':
        case '$':
            return refuse(&s, s.i, "an anchor");
        default:
            copy(&s, 1);
        }
        /* The brace of \p{L} or \x{85} is copied by the next round and no interval. */
        if (c == '\\' && s.i < n && p[s.i] == '{' && strchr("pPx", p[s.i - 1])) {
            const char *close = memchr(p + s.i, '}', n - s.i);
            if (!close) return refuse(&s, s.i, "a brace without an end");
            copy(&s, (size_t)(close - p) + 1 - s.i);
        }
    }
    return out->failed ? pawl__fail(err, PAWL_ENOMEM, "out of memory") : PAWL_OK;
}
