#include "server/reasoning.h"

#include <string.h>

static const char OPEN[] = "<think>", CLOSE[] = "</think>";

void reasoning_begin(reasoning *r, int open)
{
    pawl__buf_clear(&r->held);
    r->state = open ? REASONING_OPEN : REASONING_START;
    r->answered = 0;
}

static int white(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Drops the first n held bytes. */
static void take(reasoning *r, size_t n)
{
    memmove(r->held.data, r->held.data + n, r->held.len - n + 1);
    r->held.len -= n;
}

/* Only at the very beginning of the text, white space aside, does an opening tag count. Nonzero when the state changed. */
static int start(reasoning *r, int end)
{
    const char *s = r->held.data;
    size_t n = r->held.len, i = 0;
    while (i < n && white(s[i])) i++;
    size_t k = n - i < sizeof OPEN - 1 ? n - i : sizeof OPEN - 1;
    if (memcmp(s + i, OPEN, k) != 0 || (end && k < sizeof OPEN - 1)) {
        r->state = REASONING_CLOSED;
        r->answered = 1; /* its leading line breaks are its own */
        return 1;
    }
    if (k < sizeof OPEN - 1) return 0;
    take(r, i + k);
    r->state = REASONING_OPEN;
    return 1;
}

/* Length of the longest end of s that line breaks and a part of the closing tag could make. */
static size_t undecided(const char *s, size_t n)
{
    size_t tag = n < sizeof CLOSE - 2 ? n : sizeof CLOSE - 2;
    while (tag && memcmp(s + n - tag, CLOSE, tag) != 0) tag--;
    size_t i = n - tag;
    while (i && s[i - 1] == '\n') i--;
    return n - i;
}

static int open_part(reasoning *r, pawl_buf *thoughts, int end)
{
    size_t n = r->held.len, skip = 0;
    while (!r->answered && skip < n && r->held.data[skip] == '\n') skip++;
    if (skip) take(r, skip), n -= skip;
    const char *s = r->held.data, *close = memmem(s, n, CLOSE, sizeof CLOSE - 1);
    size_t keep = close ? 0 : end ? 0 : undecided(s, n), to = close ? (size_t)(close - s) : n - keep;
    size_t after = close ? to + sizeof CLOSE - 1 : to;
    while (close && to && s[to - 1] == '\n') to--;
    pawl__buf_append(thoughts, s, to);
    if (to) r->answered = 1; /* line breaks from here on are the thoughts' own */
    take(r, after);
    if (!close) return 0;
    r->state = REASONING_CLOSED;
    r->answered = 0;
    return 1;
}

static void closed_part(reasoning *r, pawl_buf *answer)
{
    size_t n = r->held.len, skip = 0;
    while (!r->answered && skip < n && r->held.data[skip] == '\n') skip++;
    if (skip < n) r->answered = 1;
    pawl__buf_append(answer, r->held.data + skip, n - skip);
    take(r, n);
}

static void run(reasoning *r, pawl_buf *thoughts, pawl_buf *answer, int end)
{
    int changed = 1;
    while (changed && r->held.len) {
        changed = 0;
        if (r->state == REASONING_START)
            changed = start(r, end);
        else if (r->state == REASONING_OPEN)
            changed = open_part(r, thoughts, end);
        else
            closed_part(r, answer);
    }
}

void reasoning_push(reasoning *r, const char *text, size_t n, pawl_buf *thoughts, pawl_buf *answer)
{
    if (n == 0) return;
    pawl__buf_append(&r->held, text, n);
    if (!r->held.failed) run(r, thoughts, answer, 0);
}

void reasoning_finish(reasoning *r, pawl_buf *thoughts, pawl_buf *answer)
{
    if (!r->held.failed) run(r, thoughts, answer, 1);
}

void reasoning_free(reasoning *r)
{
    pawl__buf_free(&r->held);
}
