/* libs: pawl_kernels_list */
/* Query, caps and tuning-file text from strangers. The first byte says which; what parses must print to a text that parses
 * to the same, and a query that passes the check must route or say why not. */
#include <stdlib.h>
#include <string.h>

#include "kernels/list/list.h"
#include "route/decision.h"
#include "route/tuning.h"

static void need(int ok)
{
    if (!ok) abort();
}

static void try_caps(const char *text, size_t n)
{
    pawl_caps c, back;
    if (pawl__caps_parse(text, n, &c, NULL) != PAWL_OK) return;
    pawl_buf one = {0}, two = {0};
    pawl__caps_print(&c, &one);
    need(pawl__caps_parse(one.data, one.len, &back, NULL) == PAWL_OK);
    pawl__caps_print(&back, &two);
    need(strcmp(one.data, two.data) == 0);
    pawl__buf_free(&one);
    pawl__buf_free(&two);
}

static void try_route(const pawl_query *q)
{
    static pawl_decision d;
    static const char *const machines[] = {"cpu", "cpu isa=avx2,fma,f16c", "cuda cc=90", "cuda cc=100", "cuda cc=120"};
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        pawl_caps caps;
        need(pawl__caps_parse(machines[i], strlen(machines[i]), &caps, NULL) == PAWL_OK);
        pawl_err err;
        pawl_status s = pawl__route(pawl__kernel_table.list[q->op], q, &caps, NULL, NULL, &d, &err);
        need(s == PAWL_OK || s == PAWL_EUNSUPPORTED);
        if (s == PAWL_OK) need(d.n_spans > 0 && d.spans[0].m_min == 1 && d.spans[d.n_spans - 1].m_max == 0);
    }
}

static void try_query(const char *text, size_t n)
{
    pawl_query q, back;
    if (pawl__query_parse(text, n, &q, NULL) != PAWL_OK) return;
    pawl_buf b = {0};
    pawl__query_print(&q, &b);
    need(pawl__query_parse(b.data, b.len, &back, NULL) == PAWL_OK);
    need(pawl__query_equal(&q, &back));
    pawl__buf_free(&b);
    if (pawl__query_check(&q, NULL) == PAWL_OK) try_route(&q);
}

static void try_tuning(const char *text, size_t n)
{
    static const pawl_caps caps = {.arch = PAWL_ARCH_CUDA, .cc = 90};
    pawl_tuning t;
    if (pawl__tuning_parse(text, n, "fuzz", &pawl__kernel_table, &caps, &t, NULL) != PAWL_OK) {
        need(t.rows == NULL);
        return;
    }
    static pawl_decision d;
    pawl_policy p = pawl__policy_default();
    p.thresholds = &t.thresholds;
    for (size_t i = 0; i < t.thresholds.n && i < 16; i++) {
        const pawl_query *q = &t.rows[i].query;
        if (pawl__route(pawl__kernel_table.list[q->op], q, &caps, &p, NULL, &d, NULL) == PAWL_OK) {
            need(d.spans[0].m_min == 1 && d.spans[d.n_spans - 1].m_max == 0);
        }
    }
    pawl__tuning_free(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    const char *text = (const char *)data + 1;
    switch (data[0]) {
    case 'c':
        try_caps(text, size - 1);
        break;
    case 'q':
        try_query(text, size - 1);
        break;
    case 't':
        try_tuning(text, size - 1);
        break;
    default:
        break;
    }
    return 0;
}
