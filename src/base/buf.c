#include "base/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void pawl__buf_reserve(pawl_buf *b, size_t n)
{
    if (b->failed) return;
    size_t need;
    if (__builtin_add_overflow(b->len, n, &need) || need == SIZE_MAX || (b->limit && need > b->limit)) {
        b->failed = 1;
        return;
    }
    if (need + 1 <= b->cap) return;
    size_t cap = b->cap ? b->cap : 64;
    while (cap < need + 1) cap = cap > SIZE_MAX / 2 ? need + 1 : cap * 2;
    char *p = realloc(b->data, cap);
    if (!p) {
        b->failed = 1;
        return;
    }
    b->data = p;
    b->cap = cap;
}

void pawl__buf_append(pawl_buf *b, const void *data, size_t n)
{
    pawl__buf_reserve(b, n);
    if (b->failed) return;
    if (n) memcpy(b->data + b->len, data, n);
    b->len += n;
    b->data[b->len] = 0;
}

void pawl__buf_puts(pawl_buf *b, const char *s)
{
    pawl__buf_append(b, s, strlen(s));
}

void pawl__buf_putc(pawl_buf *b, char c)
{
    pawl__buf_append(b, &c, 1);
}

void pawl__buf_printf(pawl_buf *b, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0)
        b->failed = 1;
    else
        pawl__buf_reserve(b, (size_t)n);
    if (!b->failed) {
        vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
}

void pawl__buf_clear(pawl_buf *b)
{
    b->len = 0;
    b->failed = 0;
    if (b->data) b->data[0] = 0;
}

char *pawl__buf_take(pawl_buf *b)
{
    pawl__buf_append(b, "", 0);
    char *p = b->failed ? NULL : b->data;
    if (!p) free(b->data);
    b->data = NULL;
    b->len = b->cap = 0;
    b->failed = 0;
    return p;
}

void pawl__buf_free(pawl_buf *b)
{
    free(b->data);
    b->data = NULL;
    b->len = b->cap = 0;
    b->failed = 0;
}
