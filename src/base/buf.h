/* A growing byte string. Failures (out of memory, over the limit) stick: append freely, check b.failed once. */
#ifndef PAWL_BASE_BUF_H
#define PAWL_BASE_BUF_H

#include <stddef.h>

typedef struct pawl_buf {
    char *data;   /* always terminated once anything was appended; NULL before */
    size_t len;   /* bytes, terminator not counted */
    size_t cap;   /* bytes of data */
    size_t limit; /* most bytes len may reach; 0 means no limit */
    int failed;
} pawl_buf;

void pawl__buf_append(pawl_buf *b, const void *data, size_t n);
void pawl__buf_puts(pawl_buf *b, const char *s);
void pawl__buf_putc(pawl_buf *b, char c);
void pawl__buf_printf(pawl_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Room for n more bytes without another allocation. */
void pawl__buf_reserve(pawl_buf *b, size_t n);
/* Empties the string and keeps its memory. */
void pawl__buf_clear(pawl_buf *b);
/* Hands the bytes to the caller, who frees them with free(); the buffer is empty afterwards. Never NULL unless failed. */
char *pawl__buf_take(pawl_buf *b);
void pawl__buf_free(pawl_buf *b);

#endif
