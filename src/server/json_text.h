/* Writing JSON as text, without trees: what a stream sends for each token must be cheap. */
#ifndef PAWL_SERVER_JSON_TEXT_H
#define PAWL_SERVER_JSON_TEXT_H

#include <stddef.h>

#include "base/buf.h"

/* A string with its quotes; bytes that are not UTF-8 become U+FFFD. */
void json_text_string(pawl_buf *b, const char *s, size_t n);
/* A finite number with the digits that a float32 has; null for NaN and infinity. */
void json_text_float(pawl_buf *b, double v);
/* The bytes as an array of numbers. */
void json_text_bytes(pawl_buf *b, const char *s, size_t n);
/* OpenAI's error object; param and code may be NULL. */
void json_text_error(pawl_buf *b, const char *type, const char *param, const char *code, const char *message);

#endif
