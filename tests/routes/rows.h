/* The routing rows under tests/routes/<op>.txt, read into memory.
 *
 *   caps ; query ; expected ; refusals ; policy
 *
 * expected: a kernel id for all row counts, or spans "1-31=id,32-=id", or "error: words" that the message must contain.
 * refusals: "id: words | id: words", each of which the decision must give; may be empty. policy (may be left out):
 * "ban ID", "force OP=ID", "isa LEVEL", "deterministic", "soft", comma-separated. A # begins a comment line. */
#ifndef PAWL_TESTS_ROUTES_ROWS_H
#define PAWL_TESTS_ROUTES_ROWS_H

#include "route/decision.h"

typedef struct row {
    char where[64]; /* "linear.txt:12" */
    char line[1024];
    pawl_caps caps;
    pawl_query query;
    pawl_policy policy;
    char expected[400], refusals[500];
} row;

enum { MAX_ROWS = 400 };

/* Reads all files of the folder; prints and returns -1 when one is malformed. */
int rows_read(const char *dir, row *out);

/* The decision's spans in the form of `expected`. */
void rows_print_spans(const pawl_decision *d, char *out, size_t cap);

#endif
