/* UTF-8 as Unicode and the WHATWG encoding standard define it: no surrogates, no overlong forms, at most U+10FFFF. */
#ifndef PAWL_BASE_UTF8_H
#define PAWL_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

enum { PAWL_UTF8_BAD = -1, PAWL_UTF8_CUT = -2 };

/* Decodes the character at s (n > 0 bytes are readable). Returns its length 1..4 and sets *cp; or PAWL_UTF8_BAD with
 * *skip = length of the maximal invalid prefix (at least 1), which a decoder replaces by one U+FFFD; or PAWL_UTF8_CUT
 * when the n bytes are a proper prefix of a valid character (then *skip = n). skip may be NULL. */
int pawl__utf8_decode(const char *s, size_t n, uint32_t *cp, size_t *skip);

/* Writes 1..4 bytes and returns their number; cp must be a scalar value. */
int pawl__utf8_encode(uint32_t cp, char out[4]);

/* n when all n bytes are valid UTF-8, else the offset of the first byte that is not. */
size_t pawl__utf8_valid(const char *s, size_t n);

#endif
