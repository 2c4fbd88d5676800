/* Figures of a timed run, collected first and then printed for people, as CSV (name,value,unit) or as JSON. */
#ifndef PAWL_BENCH_REPORT_H
#define PAWL_BENCH_REPORT_H

#include "base/json.h"

typedef enum report_form { REPORT_TEXT, REPORT_CSV, REPORT_JSON } report_form;

enum { REPORT_MOST = 160 };

typedef struct report_line {
    char name[64]; /* words joined by underscores */
    double value;
    const char *unit; /* static */
    char note[160];   /* for people only; may be empty */
} report_line;

typedef struct report {
    report_line lines[REPORT_MOST];
    int n;
} report;

/* Lines past REPORT_MOST are dropped. note may be NULL. */
void report_add(report *r, const char *name, double value, const char *unit, const char *note, ...)
    __attribute__((format(printf, 5, 6)));
/* The value of a line that was added before; 0 when there is none. */
double report_value(const report *r, const char *name);
/* To standard output. subject: what was measured, e.g. the model's path. 0, or -1 when writing failed. */
int report_print(const report *r, report_form form, const char *subject);

/* Sorts x. n >= 1. */
double report_median(double *x, int n);

#endif
