/* The choice of the draft length on invented machines and texts: what a round costs and whether a draft is accepted are given
 * by the test, so that no clock is read. */
#include "check.h"

#include "spec/adapt.h"

typedef struct world {
    double plain, row, draft; /* seconds of plain decoding, of each further row, of each draft */
    double jump;              /* seconds more as soon as there is a draft */
    double wait;              /* seconds to catch up with one position */
    int64_t waiting;
    double accept; /* chance of each draft when those before it were accepted */
    uint64_t rng;
    double seconds; /* gone by so far */
    int64_t tokens;
    int64_t chosen[PAWL_SEQ_MAX_DRAFT + 1];
} world;

static double uniform(world *w)
{
    return (double)(pawl__rng_next(&w->rng) >> 11) * 0x1p-53;
}

/* Rounds until `tokens` more have come. Each takes up to a tenth more or less, and one in fifty three times as long. */
static void run(world *w, pawl_adapt *a, int64_t tokens, int max)
{
    for (int64_t end = w->tokens + tokens; w->tokens < end;) {
        int k = pawl__adapt_choose(a, max, w->waiting);
        assert_in_range(k, 0, max);
        pawl_round r = {.drafted = k, .caught_up = k ? w->waiting : 0};
        while (r.accepted < k && uniform(w) < w->accept) r.accepted++;
        double noise = (0.9 + 0.2 * uniform(w)) * (uniform(w) < 0.02 ? 3 : 1);
        double late = k && w->waiting > PAWL_SEQ_MAX_DRAFT + 1 ? w->wait * (double)w->waiting : 0;
        r.draft_seconds = noise * (k * w->draft + late);
        if (w->waiting > 1280) w->waiting = 0; /* the room was full: it had to catch up */
        w->waiting = (k ? 0 : w->waiting) + r.accepted + 1;
        r.verify_seconds = noise * (w->plain + (k > 0) * w->jump + k * w->row);
        pawl__adapt_learn(a, &r);
        w->seconds +=
            (k * (w->draft + w->row) + (k > 0) * w->jump + w->plain + late); /* what it costs without the noise */
        w->tokens += r.accepted + 1;
        w->chosen[k]++;
    }
}

static world world_of(uint64_t seed, double row, double draft, double accept)
{
    return (world){.plain = 1e-3,
                   .wait = 1e-5,
                   .waiting = 50,
                   .row = 1e-3 * row,
                   .draft = 1e-3 * draft,
                   .accept = accept,
                   .rng = seed};
}

/* Speed against plain decoding over 512 tokens after the first 32. */
static double gain(world w, int max)
{
    pawl_adapt a;
    pawl__adapt_init(&a, NULL);
    run(&w, &a, 32, max);
    w.seconds = 0;
    w.tokens = 0;
    run(&w, &a, 512, max);
    return (double)w.tokens * w.plain / w.seconds;
}

static void drafts_that_never_pay(void **state)
{
    (void)state;
    uint64_t seed = check_seed("never");
    for (uint64_t i = 0; i < 200; i++) {
        world w = world_of(seed + i, 0.5 + (double)(i % 3) / 4, 0.3, 0);
        if (i % 2) w.wait = 6e-5; /* as in a very small model */
        double g = gain(w, 8);
        if (g < 0.97) fail_msg("seed %llu: %.3f of plain decoding's speed", (unsigned long long)(seed + i), g);
    }
}

/* At least nine tenths of what the best fixed number would give. */
static void drafts_that_pay(void **state)
{
    (void)state;
    uint64_t seed = check_seed("pay");
    static const double rows[] = {0.05, 0.3, 0.6}, accepts[] = {0.5, 0.7, 0.9};
    for (int i = 0; i < 9; i++) {
        double row = rows[i % 3], accept = accepts[i / 3], best = 1, sum = 0, expected = 1, chance = 1;
        for (int k = 1; k <= 8; k++) {
            expected += chance *= accept;
            double g = expected / (1 + k * (row + 0.1));
            if (g > best) best = g;
        }
        enum { RUNS = 40 };
        for (uint64_t j = 0; j < RUNS; j++) sum += gain(world_of(seed + j, row, 0.1, accept), 8);
        if (sum / RUNS < 0.9 * best)
            fail_msg("rows %.2f, acceptance %.2f: %.3f, the best number gives %.3f", row, accept, sum / RUNS, best);
    }
}

/* The text changes its kind: drafting begins again and ends again. */
static void a_change_is_noticed(void **state)
{
    (void)state;
    uint64_t seed = check_seed("change");
    for (uint64_t i = 0; i < 50; i++) {
        pawl_adapt a;
        pawl__adapt_init(&a, NULL);
        world w = world_of(seed + i, 0.2, 0.1, 0);
        run(&w, &a, 300, 8);
        w.accept = 0.95;
        run(&w, &a, 3000, 8);
        memset(w.chosen, 0, sizeof w.chosen);
        run(&w, &a, 500, 8);
        if (w.chosen[0] * 10 > 500)
            fail_msg("seed %llu: %lld plain rounds", (unsigned long long)(seed + i), (long long)w.chosen[0]);
        w.accept = 0;
        run(&w, &a, 200, 8);
        memset(w.chosen, 0, sizeof w.chosen);
        run(&w, &a, 500, 8);
        if (w.chosen[0] < 430)
            fail_msg("seed %llu: only %lld plain rounds", (unsigned long long)(seed + i), (long long)w.chosen[0]);
    }
}

/* What one sequence has learnt of the costs spares the next one the rounds that only measure. */
static void costs_are_handed_on(void **state)
{
    (void)state;
    for (int cheap = 0; cheap < 2; cheap++) {
        pawl_adapt a, fresh;
        pawl__adapt_init(&a, NULL);
        world w = cheap ? world_of(5, 0.05, 0.05, 0.9) : world_of(5, 1, 1, 0.9);
        run(&w, &a, 200, 8);
        assert_true(a.costs.known);
        pawl__adapt_init(&fresh, &a.costs);
        assert_int_equal(fresh.rounds, 0);
        memset(w.chosen, 0, sizeof w.chosen);
        int64_t before = w.tokens;
        run(&w, &fresh, 8, 8);
        if (cheap)
            assert_int_equal(w.chosen[0], 0);
        else
            assert_int_equal(w.chosen[0], w.tokens - before);
    }
}

/* A disturbed moment made plain decoding look slow, and that was handed on: it is measured again and found to be best. */
static void a_wrong_cost_is_noticed(void **state)
{
    (void)state;
    uint64_t seed = check_seed("wrong");
    for (uint64_t i = 0; i < 50; i++) {
        world w = world_of(seed + i, 0.05, 0.05, 0.8);
        pawl_adapt_costs costs = {.known = 1};
        w.jump = 5e-3;
        for (int k = 0; k <= PAWL_SEQ_MAX_DRAFT; k++) {
            costs.seconds[k] = w.plain + w.jump + k * (w.row + w.draft);
            costs.measured[k] = 100;
        }
        pawl_adapt a;
        pawl__adapt_init(&a, &costs);
        run(&w, &a, 4000, 8);
        memset(w.chosen, 0, sizeof w.chosen);
        run(&w, &a, 500, 8);
        if (w.chosen[0] < 400)
            fail_msg("seed %llu: only %lld plain rounds", (unsigned long long)(seed + i), (long long)w.chosen[0]);
    }
}

static void limits(void **state)
{
    (void)state;
    for (int max = 0; max <= PAWL_SEQ_MAX_DRAFT; max++) { /* run checks the range */
        pawl_adapt a;
        pawl__adapt_init(&a, NULL);
        world w = world_of(9, 0.05, 0.05, 0.9);
        run(&w, &a, 400, max);
    }
    /* A long stretch of catching up is no example of what a number of drafts costs. */
    pawl_adapt a, before;
    pawl__adapt_init(&a, NULL);
    world w = world_of(3, 0.2, 0.1, 0.8);
    run(&w, &a, 100, 8);
    before = a;
    pawl_round r = {.drafted = 2, .caught_up = 200, .draft_seconds = 1, .verify_seconds = 1e-3};
    pawl__adapt_learn(&a, &r);
    assert_memory_equal(a.costs.seconds, before.costs.seconds, sizeof a.costs.seconds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(drafts_that_never_pay),   cmocka_unit_test(drafts_that_pay),
                                       cmocka_unit_test(a_change_is_noticed),     cmocka_unit_test(costs_are_handed_on),
                                       cmocka_unit_test(a_wrong_cost_is_noticed), cmocka_unit_test(limits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
