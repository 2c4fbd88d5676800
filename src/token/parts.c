/* Cuts the two large members out of tokenizer.json, model.vocab and model.merges.
 *
 * They are nearly the whole file, and a tree of them costs more time and memory than everything else in loading: four
 * allocations a merge. So they are read straight from the text (vocab.c); the rest goes to the tree parser. */
#include "token/internal.h"

#include <string.h>

/* Deeper than any tokenizer.json; what is deeper still is the tree parser's to refuse. */
enum { MAX_DEPTH = 64 };

static int pass(pawl_scan *s)
{
    return pawl__scan_skip(s, MAX_DEPTH, NULL) == PAWL_OK;
}

/* The next member's key, still in quotes and undecoded; stands at its value afterwards. */
static int next_key(pawl_scan *s, const char **key, size_t *n)
{
    if (pawl__scan_peek(s) != '"') return 0;
    *key = s->p;
    if (!pass(s)) return 0;
    *n = (size_t)(s->p - *key);
    return pawl__scan_take(s, ':');
}

static int is_key(const char *key, size_t n, const char *quoted)
{
    return n == strlen(quoted) && memcmp(key, quoted, n) == 0;
}

static int cut_value(pawl_scan *s, pawl_scan *part)
{
    pawl__scan_peek(s);
    *part = *s;
    int ok = pass(s);
    part->end = s->p;
    return ok;
}

static int find_in_model(pawl_scan *s, pawl_parts *parts)
{
    const char *key;
    size_t n;
    if (!pawl__scan_take(s, '{')) return pass(s);
    if (pawl__scan_take(s, '}')) return 1;
    do {
        if (!next_key(s, &key, &n)) return 0;
        if (!parts->vocab.p && is_key(key, n, "\"vocab\"")) {
            if (!cut_value(s, &parts->vocab)) return 0;
        } else if (!parts->merges.p && is_key(key, n, "\"merges\"")) {
            if (!cut_value(s, &parts->merges)) return 0;
        } else if (!pass(s)) {
            return 0;
        }
    } while (pawl__scan_take(s, ','));
    return pawl__scan_take(s, '}');
}

static int find_parts(pawl_scan s, pawl_parts *parts)
{
    const char *key;
    size_t n;
    int seen = 0;
    if (!pawl__scan_take(&s, '{')) return 0;
    do {
        if (!next_key(&s, &key, &n)) return 0;
        int model = !seen && is_key(key, n, "\"model\"");
        seen |= model;
        if (model ? !find_in_model(&s, parts) : !pass(&s)) return 0;
    } while (pawl__scan_take(&s, ','));
    return 1;
}

/* The text up to the part, and null with as many lines in its place, so that messages count lines as the file does. */
static void leave_out(pawl_buf *rest, const char **from, const pawl_scan *part)
{
    if (!part->p) return;
    pawl__buf_append(rest, *from, (size_t)(part->p - *from));
    pawl__buf_puts(rest, "null");
    for (const char *c = part->p; c < part->end; c++)
        if (*c == '\n') pawl__buf_putc(rest, '\n');
    *from = part->end;
}

void pawl__tokenizer_parts(const char *text, size_t n, pawl_parts *parts, pawl_buf *rest)
{
    const char *from = text;
    pawl_scan s;
    *parts = (pawl_parts){0};
    /* What cannot be followed goes to the tree parser whole, which says what is wrong with it. */
    if (pawl__scan_init(&s, NULL, text, n, NULL) != PAWL_OK || !find_parts(s, parts)) *parts = (pawl_parts){0};
    const pawl_scan *a = &parts->vocab, *b = &parts->merges;
    int swapped = a->p > b->p;
    leave_out(rest, &from, swapped ? b : a);
    leave_out(rest, &from, swapped ? a : b);
    pawl__buf_append(rest, from, (size_t)(text + n - from));
}
