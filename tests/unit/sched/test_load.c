/* The choice of drafts on invented machines: what a step costs is given by the test, so that no clock is read. */
#include "check.h"

#include "sched/load.h"

typedef struct machine {
    double base, row, draft; /* seconds of a step, of each of its rows, of a call of the draft layer */
} machine;

enum { LANES = 32, MOST = 8 };

/* Rounds of n lanes; returns the mean number of drafts a lane has in the last half. */
static double run(pawl_load *l, const machine *m, const pawl_chances *chances, int n, int64_t most_rows, int rounds)
{
    int64_t drafts = 0;
    for (int round = 0; round < rounds; round++) {
        pawl_load_lane lanes[LANES];
        int64_t rows = n;
        int calls = 0, drafting = 0;
        for (int i = 0; i < n; i++) lanes[i] = (pawl_load_lane){.chances = chances, .most = MOST};
        pawl__load_choose(l, lanes, n, 0, most_rows);
        for (int i = 0; i < n; i++) {
            assert_in_range(lanes[i].k, 0, MOST);
            rows += lanes[i].k;
            drafting += lanes[i].k > 0;
            if (lanes[i].k > calls) calls = lanes[i].k;
        }
        assert_true(rows <= most_rows);
        pawl__cost_learn(&l->target, rows, m->base + m->row * (double)rows);
        if (calls > 0) pawl__cost_learn(&l->draft, drafting, m->draft);
        if (round >= rounds / 2) drafts += rows - n;
    }
    return (double)drafts / (n * (rounds - rounds / 2));
}

static void a_compute_bound_batch_drafts_nothing(void **state)
{
    (void)state;
    const machine m = {.base = 1e-4, .row = 1e-3, .draft = 5e-4};
    pawl_load l = {0};
    pawl_chances c;
    pawl__chances_init(&c);
    assert_true(run(&l, &m, &c, LANES, 512, 400) < 0.1);
}

static void a_memory_bound_batch_drafts(void **state)
{
    (void)state;
    const machine m = {.base = 1e-1, .row = 1e-6, .draft = 1e-4};
    pawl_load l = {0};
    pawl_chances c;
    pawl__chances_init(&c);
    assert_true(run(&l, &m, &c, LANES, 512, 400) > 4);
    memset(&l, 0, sizeof l);
    assert_true(run(&l, &m, &c, 1, 512, 400) > 4);
}

/* One sequence that gains by drafts, then many that do not, then one again. */
static void the_number_follows_the_batch(void **state)
{
    (void)state;
    const machine m = {.base = 1e-2, .row = 2e-3, .draft = 1e-3};
    pawl_load l = {0};
    pawl_chances c;
    pawl__chances_init(&c);
    assert_true(run(&l, &m, &c, 1, 512, 200) > 1);
    assert_true(run(&l, &m, &c, LANES, 512, 400) < 0.3);
    assert_true(run(&l, &m, &c, 1, 512, 200) > 1);
}

static void rows_stay_within_their_bound(void **state)
{
    (void)state;
    const machine m = {.base = 1e-1, .row = 1e-6, .draft = 1e-4};
    pawl_chances c;
    pawl__chances_init(&c);
    for (int64_t most = LANES; most < 3 * LANES; most += 5) {
        pawl_load l = {0};
        run(&l, &m, &c, LANES, most, 200);
    }
}

/* The very first step of a size is often slow: it must not count for long. */
static void one_slow_step_is_forgotten(void **state)
{
    (void)state;
    pawl_cost c = {0};
    pawl__cost_learn(&c, 32, 1.0);
    pawl__cost_learn(&c, 32, 0.1);
    pawl__cost_learn(&c, 32, 0.1);
    assert_true(pawl__cost_at(&c, 32) < 0.11);
    assert_true(pawl__cost_at(&c, 16) < pawl__cost_at(&c, 32));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_compute_bound_batch_drafts_nothing), cmocka_unit_test(a_memory_bound_batch_drafts),
        cmocka_unit_test(the_number_follows_the_batch),         cmocka_unit_test(rows_stay_within_their_bound),
        cmocka_unit_test(one_slow_step_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
