/* A strict reader of JSON text that builds no tree: safetensors headers and shard indexes reach 100 MB, a tokenizer's
 * vocabulary and merges 20 MB, and a tree of one takes ten times that. The caller walks the structure that it expects; anything else is skipped with a bound on depth.
 * The text must be valid UTF-8 (checked by scan_init). Errors are PAWL_EFORMAT with the name, the byte offset, and what
 * was expected. */
#ifndef PAWL_BASE_SCAN_H
#define PAWL_BASE_SCAN_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct pawl_scan {
    const char *name; /* put in front of messages; may be NULL */
    const char *base, *p, *end;
} pawl_scan;

/* Starts at the first value. The text and the name must outlive the scan. */
pawl_status pawl__scan_init(pawl_scan *s, const char *name, const char *text, size_t n, pawl_err *err);

/* The next character after white space, left in place; 0 at the end. */
char pawl__scan_peek(pawl_scan *s);
/* Passes over white space and the character c, which must come next. */
pawl_status pawl__scan_expect(pawl_scan *s, char c, pawl_err *err);
/* True, and past it, when the next character after white space is c. */
int pawl__scan_take(pawl_scan *s, char c);
/* After an element of an object or array: *more = 1 past a comma, 0 past the closing character. */
pawl_status pawl__scan_next(pawl_scan *s, char close, int *more, pawl_err *err);
/* A string, decoded into out (a terminator is added; the bytes may hold NUL). Needs at most cap bytes with the terminator,
 * else an error that says so. */
pawl_status pawl__scan_string(pawl_scan *s, char *out, size_t cap, size_t *len, pawl_err *err);
/* An integer from 0 to INT64_MAX, written without fraction or exponent. */
pawl_status pawl__scan_integer(pawl_scan *s, int64_t *out, pawl_err *err);
/* Any value, nested at most `depth` deep. */
pawl_status pawl__scan_skip(pawl_scan *s, int depth, pawl_err *err);
/* Only white space is left. */
pawl_status pawl__scan_end(pawl_scan *s, pawl_err *err);

/* A name from a stranger's file as it may stand in a message: control characters become '?', long ones are cut. Returns
 * out. */
enum { PAWL_SHOWN = 132 };
const char *pawl__scan_show(const char *s, size_t n, char out[PAWL_SHOWN]);

#endif
