/* Printing of figures; see report.h. */
#include "report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void report_add(report *r, const char *name, double value, const char *unit, const char *note, ...)
{
    if (r->n == REPORT_MOST) return;
    report_line *l = &r->lines[r->n++];
    snprintf(l->name, sizeof l->name, "%s", name);
    l->value = value;
    l->unit = unit;
    if (!note) return;
    va_list args;
    va_start(args, note);
    vsnprintf(l->note, sizeof l->note, note, args);
    va_end(args);
}

double report_value(const report *r, const char *name)
{
    for (int i = 0; i < r->n; i++)
        if (!strcmp(r->lines[i].name, name)) return r->lines[i].value;
    return 0;
}

static void print_json(const report *r, const char *subject)
{
    json_t *figures = json_array();
    for (int i = 0; i < r->n; i++)
        json_array_append_new(figures, json_pack("{s:s,s:f,s:s}", "name", r->lines[i].name, "value", r->lines[i].value,
                                                 "unit", r->lines[i].unit));
    json_t *all = json_pack("{s:s,s:s,s:o}", "schema", "pawl.bench/1", "subject", subject, "figures", figures);
    json_dumpf(all, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
    json_decref(all);
    putchar('\n');
}

int report_print(const report *r, report_form form, const char *subject)
{
    if (form == REPORT_JSON) {
        print_json(r, subject);
    } else if (form == REPORT_CSV) {
        puts("name,value,unit");
        for (int i = 0; i < r->n; i++) printf("%s,%.6g,%s\n", r->lines[i].name, r->lines[i].value, r->lines[i].unit);
    } else {
        printf("%s\n", subject);
        for (int i = 0; i < r->n; i++) {
            const report_line *l = &r->lines[i];
            printf("  %-34s %10.2f %-6s%s%s\n", l->name, l->value, l->unit, *l->note ? "  " : "", l->note);
        }
    }
    return fflush(stdout) ? -1 : 0;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double report_median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_value);
    return n % 2 ? x[n / 2] : 0.5 * (x[n / 2 - 1] + x[n / 2]);
}
