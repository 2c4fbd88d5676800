/* Properties that every entry and every decision must have, whatever the rows say. */
#include "check.h"
#include "kernels/list/list.h"
#include "rows.h"

static row rows[MAX_ROWS];
static int n_rows;
static pawl_decision one, two;

static const pawl_kernel *entry(int i)
{
    for (int op = 0; op < PAWL_OP_COUNT; op++) {
        for (pawl_kernel_list k = pawl__kernel_table.list[op]; k && *k; k++) {
            if (i-- == 0) return *k;
        }
    }
    return NULL;
}

static bool built_here(const pawl_kernel *k)
{
    const uint64_t arm = PAWL_ISA_NEON | PAWL_ISA_DOTPROD | PAWL_ISA_I8MM | PAWL_ISA_SVE;
#if defined(__x86_64__)
    return !(k->isa & arm);
#elif defined(__aarch64__)
    return !(k->isa & ~arm);
#else
    return k->isa == 0;
#endif
}

static void test_entries_are_well_formed(void **state)
{
    (void)state;
    for (int op = 0; op < PAWL_OP_COUNT; op++) {
        assert_non_null(pawl__kernel_table.list[op]);
        int n = 0;
        for (pawl_kernel_list k = pawl__kernel_table.list[op]; *k; k++, n++) {
            assert_int_equal((*k)->op, op);
            const char *word = pawl__op_word((pawl_op)op);
            assert_memory_equal((*k)->id, word, strlen(word));
            assert_int_equal((*k)->id[strlen(word)], '.');
            assert_non_null(strchr((*k)->id, ':'));
            if ((*k)->arch == PAWL_ARCH_CPU) {
                assert_int_equal((*k)->cc_min, 0);
                /* ARM bodies are in ARM builds only, x86 bodies in x86 builds */
                if (built_here(*k)) assert_non_null((*k)->run);
            } else {
                assert_true((*k)->cc_min >= 80);
                assert_int_equal((*k)->isa, 0);
            }
            assert_true((*k)->m_min >= 0 && ((*k)->m_max == 0 || (*k)->m_max >= (*k)->m_min));
        }
        assert_in_range(n, 2, PAWL_ROUTE_LIST);
    }
    for (int i = 0; entry(i); i++) {
        for (int j = 0; j < i; j++) assert_string_not_equal(entry(i)->id, entry(j)->id);
    }
}

/* A floor asks for no feature, no newer chip and no row count, so what it declines is declined by its predicate alone. */
static void test_each_device_kind_has_a_floor(void **state)
{
    (void)state;
    for (int op = 0; op < PAWL_OP_COUNT; op++) {
        const pawl_kernel *last[2] = {NULL, NULL};
        for (pawl_kernel_list k = pawl__kernel_table.list[op]; *k; k++) last[(*k)->arch] = *k;
        for (int a = 0; a < 2; a++) {
            assert_non_null(last[a]);
            assert_int_equal(last[a]->isa, 0);
            assert_int_equal(last[a]->cc_max, 0);
            assert_true(last[a]->m_min <= 1 && last[a]->m_max == 0);
            assert_true(last[a]->traits & PAWL_TRAIT_ROW_INVARIANT);
        }
    }
}

static void test_supports_never_reads_m(void **state)
{
    (void)state;
    static const int64_t counts[] = {0, 1, 7, 31, 32, 64, 1000, 2147483647};
    for (int i = 0; i < n_rows; i++) {
        for (pawl_kernel_list k = pawl__kernel_table.list[rows[i].query.op]; *k; k++) {
            if (!(*k)->supports) continue;
            pawl_query q = rows[i].query;
            pawl_reason why = {""}, again;
            q.m = PAWL_M_ANY;
            bool yes = (*k)->supports(&q, &rows[i].caps, &why);
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
                again.text[0] = 0;
                q.m = counts[c];
                assert_int_equal((*k)->supports(&q, &rows[i].caps, &again), yes);
                assert_string_equal(again.text, why.text);
            }
            if (!yes && !why.text[0]) fail_msg("%s: %s declines without a reason", rows[i].where, (*k)->id);
        }
    }
}

static void check_spans(const pawl_decision *d)
{
    int64_t next = 1;
    for (int i = 0; i < d->n_spans; i++) {
        assert_int_equal(d->spans[i].m_min, next);
        assert_non_null(d->spans[i].kernel);
        int last = i == d->n_spans - 1;
        assert_int_equal(d->spans[i].m_max == 0, last);
        if (!last) assert_true(d->spans[i].m_max >= d->spans[i].m_min);
        next = d->spans[i].m_max + 1;
    }
    assert_true(d->n_spans > 0);
}

static void same_decision(const pawl_decision *a, const pawl_decision *b)
{
    assert_int_equal(a->n_spans, b->n_spans);
    for (int i = 0; i < a->n_spans; i++) {
        assert_ptr_equal(a->spans[i].kernel, b->spans[i].kernel);
        assert_int_equal(a->spans[i].m_min, b->spans[i].m_min);
    }
    assert_int_equal(a->n_refusals, b->n_refusals);
    for (int i = 0; i < a->n_refusals; i++) assert_string_equal(a->refusals[i].why.text, b->refusals[i].why.text);
}

/* Every query of the rows on every machine of the rows, under random policies: a gapless route, the same one twice, a
 * reason for every entry of the list that is not in it, and one kernel in deterministic mode. */
static void test_decisions(void **state)
{
    (void)state;
    uint64_t s = check_seed("decisions");
    int routed = 0;
    for (int trial = 0; trial < 4000; trial++) {
        const row *r = &rows[pawl__rng_next(&s) % (uint64_t)n_rows], *m = &rows[pawl__rng_next(&s) % (uint64_t)n_rows];
        pawl_policy p = pawl__policy_default();
        p.deterministic = pawl__rng_next(&s) % 4 == 0;
        for (uint64_t n = pawl__rng_next(&s) % 4; n > 0; n--)
            p.bans[p.n_bans++] = entry((int)(pawl__rng_next(&s) % 60))->id;
        pawl_err err;
        pawl_kernel_list list = pawl__kernel_table.list[r->query.op];
        pawl_status st = pawl__route(list, &r->query, &m->caps, &p, NULL, &one, &err);
        if (st != PAWL_OK) {
            assert_int_equal(st, PAWL_EUNSUPPORTED);
            assert_non_null(strstr(err.text, pawl__op_word(r->query.op)));
            continue;
        }
        routed++;
        check_spans(&one);
        check_ok(pawl__route(list, &r->query, &m->caps, &p, NULL, &two, &err), &err);
        same_decision(&one, &two);
        if (p.deterministic) assert_int_equal(one.n_spans, 1);
        for (int i = 0; i < one.n_spans; i++) {
            for (int b = 0; b < p.n_bans; b++) assert_string_not_equal(one.spans[i].kernel->id, p.bans[b]);
            assert_int_equal(one.spans[i].kernel->arch, m->caps.arch);
        }
        for (pawl_kernel_list k = list; *k; k++) {
            int told = 0, fit = 0;
            for (int i = 0; i < one.n_refusals; i++) told |= one.refusals[i].kernel == *k;
            for (int i = 0; i < one.n_fit; i++) fit |= one.fit[i].kernel == *k;
            if (!told && !fit && !p.deterministic) fail_msg("%s vanished from `%s`", (*k)->id, r->line);
        }
    }
    printf("%d of 4000 routed\n", routed);
    assert_true(routed > 500);
}

int main(void)
{
    n_rows = rows_read("tests/routes", rows);
    if (n_rows <= 0) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_entries_are_well_formed),
                                       cmocka_unit_test(test_each_device_kind_has_a_floor),
                                       cmocka_unit_test(test_supports_never_reads_m), cmocka_unit_test(test_decisions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
