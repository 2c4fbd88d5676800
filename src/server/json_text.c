#include "server/json_text.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/utf8.h"

static void put_escape(pawl_buf *b, unsigned char c)
{
    switch (c) {
    case '"':
        pawl__buf_puts(b, "\\\"");
        break;
    case '\\':
        pawl__buf_puts(b, "\\\\");
        break;
    case '\n':
        pawl__buf_puts(b, "\\n");
        break;
    case '\r':
        pawl__buf_puts(b, "\\r");
        break;
    case '\t':
        pawl__buf_puts(b, "\\t");
        break;
    default:
        pawl__buf_printf(b, "\\u%04x", c);
    }
}

void json_text_string(pawl_buf *b, const char *s, size_t n)
{
    size_t done = 0, i = 0;
    pawl__buf_putc(b, '"');
    while (i < n) {
        unsigned char c = (unsigned char)s[i];
        if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\') {
            i++;
            continue;
        }
        if (c >= 0x80) {
            uint32_t cp;
            size_t skip;
            int k = pawl__utf8_decode(s + i, n - i, &cp, &skip);
            if (k > 0) {
                i += (size_t)k;
                continue;
            }
            pawl__buf_append(b, s + done, i - done);
            pawl__buf_puts(b, "\xef\xbf\xbd");
            i += skip;
        } else {
            pawl__buf_append(b, s + done, i - done);
            put_escape(b, c);
            i++;
        }
        done = i;
    }
    pawl__buf_append(b, s + done, n - done);
    pawl__buf_putc(b, '"');
}

void json_text_float(pawl_buf *b, double v)
{
    if (isfinite(v))
        pawl__buf_printf(b, "%.9g", v);
    else
        pawl__buf_puts(b, "null");
}

void json_text_bytes(pawl_buf *b, const char *s, size_t n)
{
    pawl__buf_putc(b, '[');
    for (size_t i = 0; i < n; i++) pawl__buf_printf(b, "%s%u", i ? "," : "", (unsigned char)s[i]);
    pawl__buf_putc(b, ']');
}

static void string_or_null(pawl_buf *b, const char *s)
{
    if (s)
        json_text_string(b, s, strlen(s));
    else
        pawl__buf_puts(b, "null");
}

void json_text_error(pawl_buf *b, const char *type, const char *param, const char *code, const char *message)
{
    pawl__buf_puts(b, "{\"error\":{\"message\":");
    json_text_string(b, message, strlen(message));
    pawl__buf_puts(b, ",\"type\":");
    string_or_null(b, type);
    pawl__buf_puts(b, ",\"param\":");
    string_or_null(b, param);
    pawl__buf_puts(b, ",\"code\":");
    string_or_null(b, code);
    pawl__buf_puts(b, "}}");
}
