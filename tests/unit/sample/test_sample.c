/* The sampler: noise against values computed elsewhere, each filter on small exact cases, a naive twin that sorts the whole
 * vocabulary on random rows, and chi-square tests of what is drawn over many positions. */
#include "check.h"

#include <math.h>

#include "sample/sample.h"

static const pawl_sample_params PLAIN = {.temperature = 1, .top_p = 1, .repetition = 1};

static pawl_sampler *make(int64_t vocab, int64_t valid, pawl_sample_params p)
{
    pawl_sampler *s = NULL;
    pawl_err err;
    check_ok(pawl__sampler_create(vocab, valid, &p, &s, &err), &err);
    return s;
}

static int32_t choose(pawl_sampler *s, const float *logits, int64_t position)
{
    pawl_err err;
    int32_t id = -1;
    check_ok(pawl__sampler_choose(s, logits, position, &id, &err), &err);
    return id;
}

/* Which of n <= 64 tokens are ever drawn over many positions, as a bit set. */
static uint64_t drawn(pawl_sample_params p, const float *logits, int n)
{
    pawl_sampler *s = make(n, n, p);
    uint64_t set = 0;
    for (int64_t pos = 0; pos < 3000; pos++) set |= 1ull << choose(s, logits, pos);
    pawl__sampler_destroy(&s);
    assert_null(s);
    return set;
}

static void logs(const double *p, float *l, int n)
{
    for (int i = 0; i < n; i++) l[i] = (float)log(p[i]);
}

/* ---- noise ------------------------------------------------------------------------------------------------------- */

static void noise_equals_values_computed_elsewhere(void **state)
{
    (void)state;
    /* Python's decimal module with 60 digits, from the formula in sample.h. */
    static const struct {
        uint64_t seed;
        int64_t position;
        int32_t token;
        double g;
    } rows[] = {
        {0, 0, 0, -0.23641116871242818},
        {0, 0, 1, 0.72867404776517331},
        {1, 0, 0, -0.27844891750631173},
        {42, 7, 151643, 1.1942547326270034},
        {42, 8, 151643, 0.41106746553894935},
        {0xdeadbeefcafef00d, 4095, 248319, 1.8842004588211754},
        {UINT64_MAX, 262143, INT32_MAX, -0.64465697884093165},
        {20240917, 100, 17, -0.00076037847299882514},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double g = pawl__gumbel(rows[i].seed, rows[i].position, rows[i].token);
        if (fabs(g - rows[i].g) > 1e-15 + 4e-16 * fabs(rows[i].g))
            fail_msg("row %zu: %.17g, expected %.17g", i, g, rows[i].g);
    }
}

static void noise_is_finite_and_gumbel(void **state)
{
    (void)state;
    static const uint64_t seeds[] = {0, 1, UINT64_MAX, 1ull << 63, 0x9e3779b97f4a7c15ull};
    static const int64_t positions[] = {-1, 0, INT64_MAX, INT64_MIN, 1 << 20};
    static const int32_t tokens[] = {0, 1, INT32_MAX, INT32_MIN, -1};
    for (int a = 0; a < 5; a++)
        for (int b = 0; b < 5; b++)
            for (int c = 0; c < 5; c++) assert_true(isfinite(pawl__gumbel(seeds[a], positions[b], tokens[c])));
    /* mean 0.5772, variance pi^2/6; 10^6 draws: five standard errors */
    const int n = 1000000;
    double sum = 0, sq = 0, lo = 0, hi = 0;
    for (int i = 0; i < n; i++) {
        double g = pawl__gumbel(99, i / 1000, i % 1000);
        sum += g, sq += g * g;
        lo = g < lo ? g : lo, hi = g > hi ? g : hi;
    }
    double mean = sum / n, var = sq / n - mean * mean;
    assert_true(fabs(mean - 0.5772156649) < 5 * sqrt(1.6449 / n));
    assert_true(fabs(var - 1.6449340668) <
                5 * sqrt((14.6113 - 1.6449 * 1.6449) / n)); /* fourth central moment 3 pi^4/20 */
    assert_true(lo > -3.61 && hi < 36.74 && hi > 10);
}

/* ---- filters on exact cases -------------------------------------------------------------------------------------- */

static void filters_keep_what_they_say(void **state)
{
    (void)state;
    float l[4];
    logs((double[]){.4, .3, .2, .1}, l, 4);
    pawl_sample_params p = PLAIN;
    assert_int_equal(drawn(p, l, 4), 0xf);
    p.top_p = 0.75f, p.min_p = 0.4f; /* top-p .4 + .3 + .2 first, then min-p over .16: vLLM's order would keep two */
    assert_int_equal(drawn(p, l, 4), 0x7);
    p = PLAIN, p.top_p = 0.65f;
    assert_int_equal(drawn(p, l, 4), 0x3);
    p = PLAIN, p.top_p = 0;
    assert_int_equal(drawn(p, l, 4), 0x1);
    p = PLAIN, p.min_p = 0.45f;
    assert_int_equal(drawn(p, l, 4), 0x7);
    p = PLAIN, p.min_p = 1;
    assert_int_equal(drawn(p, l, 4), 0x1);
    for (int k = 1; k <= 5; k++) {
        p = PLAIN, p.top_k = k;
        assert_int_equal(drawn(p, l, 4), (1u << (k < 4 ? k : 4)) - 1);
    }
    p = PLAIN, p.top_k = -1;
    assert_int_equal(drawn(p, l, 4), 0xf);
    /* top-p counts the mass inside top-k: .4/.7 = .571 is not .6 of it, so two stay; of everything .4 + .3 are needed too,
     * but with .55 the renormalised first one is enough */
    p = PLAIN, p.top_k = 2, p.top_p = 0.55f;
    assert_int_equal(drawn(p, l, 4), 0x1);
    p.top_k = 0;
    assert_int_equal(drawn(p, l, 4), 0x3);
    /* temperature comes before the filters: .4 + .3 is not .72, but at T = 1/2 (.53 .30 .13 .03) two are enough */
    p = PLAIN, p.top_p = 0.72f, p.temperature = 1;
    assert_int_equal(drawn(p, l, 4), 0x7);
    p.temperature = 0.5f;
    assert_int_equal(drawn(p, l, 4), 0x3);
}

static void ties_go_to_the_lowest_id(void **state)
{
    (void)state;
    const float flat[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    pawl_sample_params p = PLAIN;
    p.top_k = 3;
    assert_int_equal(drawn(p, flat, 8), 0x7);
    p = PLAIN, p.top_p = 0.5f;
    assert_int_equal(drawn(p, flat, 8), 0xf);
    p = PLAIN, p.min_p = 1;
    assert_int_equal(drawn(p, flat, 8), 0xff);
    const float zeros[6] = {-1, -0.0f, 0.0f, -0.0f, 0.0f, -1}; /* equal, whatever their sign */
    p = PLAIN, p.top_k = 2;
    assert_int_equal(drawn(p, zeros, 6), 0x6);
    p = PLAIN, p.temperature = 0;
    assert_int_equal(drawn(p, zeros, 6), 0x2);
    const float tie[5] = {1, 3, 2, 3, 3};
    assert_int_equal(drawn(p, tie, 5), 0x2);
    p.temperature = 0.9e-5f; /* greedy, too */
    assert_int_equal(drawn(p, tie, 5), 0x2);
}

static void nan_and_infinite_rows(void **state)
{
    (void)state;
    const float row[6] = {NAN, -INFINITY, 1, NAN, 2, -INFINITY};
    pawl_sample_params p = PLAIN;
    assert_int_equal(drawn(p, row, 6), 0x14);
    p.top_k = 5;
    assert_int_equal(drawn(p, row, 6), 0x14);
    p = PLAIN, p.top_p = 0.9999f;
    assert_int_equal(drawn(p, row, 6), 0x14);
    p = PLAIN, p.temperature = 0;
    assert_int_equal(drawn(p, row, 6), 0x10);
    const float inf[5] = {5, INFINITY, NAN, INFINITY, -INFINITY};
    p = PLAIN;
    assert_int_equal(drawn(p, inf, 5), 0xa);
    p.temperature = 0;
    assert_int_equal(drawn(p, inf, 5), 0x2);
    const float far[3] = {3.4e38f, -3.4e38f, 0};
    assert_int_equal(drawn(PLAIN, far, 3), 0x1);
    p = PLAIN, p.temperature = 3e38f; /* everything is as likely as everything else */
    assert_int_equal(drawn(p, far, 3), 0x7);

    const float none[4] = {NAN, -INFINITY, NAN, -INFINITY};
    for (int filtered = 0; filtered < 3; filtered++) {
        p = PLAIN;
        if (filtered == 1) p.top_k = 2;
        if (filtered == 2) p.temperature = 0;
        pawl_sampler *s = make(4, 4, p);
        pawl_err err;
        int32_t id;
        check_fails(pawl__sampler_choose(s, none, 17, &id, &err), PAWL_EINVAL, &err, "position 17");
        pawl__sampler_destroy(&s);
    }
}

static void padding_ids_are_never_chosen(void **state)
{
    (void)state;
    float row[40];
    for (int i = 0; i < 40; i++) row[i] = i < 33 ? (float)-i : 100.0f;
    const pawl_logit_bias bias[] = {{35, 1000}, {3, 0.5f}};
    for (int c = 0; c < 5; c++) {
        pawl_sample_params p = PLAIN;
        if (c == 1) p.top_k = 4;
        if (c == 2) p.top_p = 0.99f;
        if (c == 3) p.temperature = 0;
        if (c == 4) p.presence = 1, p.repetition = 1.5f;
        p.bias = bias, p.n_bias = 2;
        pawl_sampler *s = make(40, 33, p);
        for (int64_t pos = 0; pos < 2000; pos++) {
            int32_t id = choose(s, row, pos);
            assert_true(id < 33);
            pawl__sampler_add(s, id);
            pawl__sampler_add(s, 36);
        }
        pawl__sampler_destroy(&s);
    }
}

/* ---- penalties and bias ------------------------------------------------------------------------------------------ */

static void penalties_by_hand(void **state)
{
    (void)state;
    pawl_sample_params p = PLAIN;
    p.temperature = 0, p.repetition = 2;
    pawl_sampler *s = make(4, 4, p);
    const float l[4] = {3, 2, -1, -1.5f};
    assert_int_equal(choose(s, l, 0), 0);
    pawl__sampler_add_prompt(s, (int32_t[]){0}, 1); /* 3 -> 1.5 */
    assert_int_equal(choose(s, l, 0), 1);
    pawl__sampler_add(s, 1); /* 2 -> 1 */
    assert_int_equal(choose(s, l, 0), 0);
    const float neg[4] = {-1, -1.5f, -3, -4}; /* times 2, not divided: -2, -3 */
    assert_int_equal(choose(s, neg, 0), 0);
    const float neg2[4] = {-1, -1.2f, -1.9f, -4};
    assert_int_equal(choose(s, neg2, 0), 2);
    pawl__sampler_destroy(&s);

    p = PLAIN, p.temperature = 0, p.presence = 0.5f, p.frequency = 0.25f;
    s = make(4, 4, p);
    const float m[4] = {3, 2.6f, 2.1f, 0};
    pawl__sampler_add_prompt(s, (int32_t[]){0, 0, 0, 0, 0}, 5); /* prompt tokens do not count here */
    assert_int_equal(choose(s, m, 0), 0);
    pawl__sampler_add(s, 0); /* 3 - .75 */
    assert_int_equal(choose(s, m, 0), 1);
    pawl__sampler_add(s, 1); /* 2.6 - .75: 2.25 leads */
    assert_int_equal(choose(s, m, 0), 0);
    pawl__sampler_add(s, 0); /* 3 - 1 = 2 */
    assert_int_equal(choose(s, m, 0), 2);
    pawl__sampler_remove(s, 0);
    assert_int_equal(choose(s, m, 0), 0);
    pawl__sampler_destroy(&s);

    /* repetition first, then presence: 4/2 - 1 = 1, where (4 - 1)/2 would be 1.5 */
    p = PLAIN, p.temperature = 0, p.repetition = 2, p.presence = 1;
    s = make(2, 2, p);
    pawl__sampler_add(s, 0);
    assert_int_equal(choose(s, (float[]){4, 1.25f}, 0), 1);
    assert_int_equal(choose(s, (float[]){4, 0.75f}, 0), 0);
    pawl__sampler_destroy(&s);

    const pawl_logit_bias bias[] = {{1, 2}, {2, -INFINITY}, {1, 0.5f}};
    p = PLAIN, p.temperature = 0, p.bias = bias, p.n_bias = 3;
    s = make(3, 3, p);
    assert_int_equal(choose(s, (float[]){2.4f, 0, 9}, 0), 1); /* 2 + .5, twice named */
    assert_int_equal(choose(s, (float[]){2.6f, 0, 9}, 0), 0);
    pawl__sampler_destroy(&s);
}

static void add_and_remove_leave_no_trace(void **state)
{
    (void)state;
    uint64_t rng = check_seed("add_remove");
    enum { V = 50 };
    pawl_sample_params p = PLAIN;
    p.presence = 0.7f, p.frequency = 0.3f, p.repetition = 1.3f, p.top_k = 20, p.seed = rng;
    pawl_sampler *a = make(V, V, p);
    for (int round = 0; round < 300; round++) {
        /* b is built afresh from what a has kept */
        int32_t kept[40];
        int n_kept = (int)(pawl__rng_next(&rng) % 40);
        pawl_sampler *b = make(V, V, p);
        pawl__sampler_destroy(&a);
        a = make(V, V, p);
        int32_t prompt[5];
        for (int i = 0; i < 5; i++) prompt[i] = (int32_t)(pawl__rng_next(&rng) % V);
        pawl__sampler_add_prompt(a, prompt, 5);
        pawl__sampler_add_prompt(b, prompt, 5);
        for (int i = 0; i < n_kept; i++) {
            kept[i] = (int32_t)(pawl__rng_next(&rng) % V);
            int32_t drafts[8];
            int n = (int)(pawl__rng_next(&rng) % 9);
            for (int j = 0; j < n; j++) pawl__sampler_add(a, drafts[j] = (int32_t)(pawl__rng_next(&rng) % V));
            for (int j = n; j-- > 0;) pawl__sampler_remove(a, drafts[j]);
            pawl__sampler_add(a, kept[i]);
            pawl__sampler_add(b, kept[i]);
        }
        float l[V];
        for (int i = 0; i < V; i++) l[i] = (float)(4 * pawl__rng_uniform(&rng) - 2);
        for (int64_t pos = 0; pos < 20; pos++) assert_int_equal(choose(a, l, pos), choose(b, l, pos));
        pawl__sampler_destroy(&b);
    }
    pawl__sampler_remove(a, 7); /* taking back what was never added changes nothing */
    pawl__sampler_add(a, -1);
    pawl__sampler_add(a, V);
    pawl__sampler_destroy(&a);
    pawl__sampler_destroy(&a);
}

static void bad_parameters(void **state)
{
    (void)state;
    static const pawl_logit_bias outside = {9, 1}, nan_bias = {1, NAN}, inf_bias = {1, INFINITY};
    const struct {
        pawl_sample_params p;
        const char *words;
    } rows[] = {
        {{.temperature = NAN, .top_p = 1, .repetition = 1}, "temperature"},
        {{.temperature = -1, .top_p = 1, .repetition = 1}, "temperature"},
        {{.temperature = INFINITY, .top_p = 1, .repetition = 1}, "temperature"},
        {{.top_k = -2, .top_p = 1, .repetition = 1}, "top_k is -2"},
        {{.top_p = -0.1f, .repetition = 1}, "top_p"},
        {{.top_p = NAN, .repetition = 1}, "top_p"},
        {{.top_p = 1, .min_p = 1.5f, .repetition = 1}, "min_p"},
        {{.top_p = 1, .min_p = NAN, .repetition = 1}, "min_p"},
        {{.top_p = 1, .presence = NAN, .repetition = 1}, "presence_penalty"},
        {{.top_p = 1, .frequency = INFINITY, .repetition = 1}, "frequency_penalty"},
        {{.top_p = 1, .repetition = 0}, "repetition_penalty"},
        {{.top_p = 1, .repetition = NAN}, "repetition_penalty"},
        {{.top_p = 1, .repetition = 1, .bias = &outside, .n_bias = 1}, "token 9"},
        {{.top_p = 1, .repetition = 1, .bias = &nan_bias, .n_bias = 1}, "logit_bias"},
        {{.top_p = 1, .repetition = 1, .bias = &inf_bias, .n_bias = 1}, "logit_bias"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pawl_sampler *s;
        pawl_err err;
        check_fails(pawl__sampler_create(8, 8, &rows[i].p, &s, &err), PAWL_EINVAL, &err, rows[i].words);
        assert_null(s);
    }
}

/* ---- against a naive twin ---------------------------------------------------------------------------------------- */

typedef struct twin_item {
    double d, l;
    int32_t id;
} twin_item;

static int by_logit(const void *pa, const void *pb)
{
    const twin_item *a = pa, *b = pb;
    return a->l > b->l ? -1 : a->l < b->l ? 1 : a->id - b->id;
}

/* Sorts everything, sums with libm's exp. Sets *close when a border is too near for two ways of rounding to agree. */
static int32_t twin_choose(const float *l, int n, const pawl_sample_params *p, int64_t pos, int *close)
{
    twin_item *t = calloc((size_t)n, sizeof *t);
    int m = 0;
    for (int i = 0; i < n; i++)
        if (l[i] > -INFINITY) t[m++] = (twin_item){0, (double)l[i], i};
    qsort(t, (size_t)m, sizeof *t, by_logit);
    for (int i = 0; i < m; i++) t[i].d = (t[i].l - t[0].l) / (double)p->temperature;
    if (p->top_k > 0 && p->top_k < m) m = p->top_k;
    double total = 0, sum = 0;
    for (int i = 0; i < m; i++) total += exp(t[i].d);
    *close = 0;
    if (p->top_p < 1)
        for (int i = 0; i < m; i++) {
            sum += exp(t[i].d);
            *close |= fabs(sum / total - (double)p->top_p) < 1e-9;
            if (sum >= (double)p->top_p * total) m = i + 1;
        }
    int32_t best = -1;
    double best_score = -INFINITY;
    for (int i = 0; i < m; i++) {
        *close |= p->min_p > 0 && fabs(exp(t[i].d) - (double)p->min_p) < 1e-9;
        if (p->min_p > 0 && exp(t[i].d) < (double)p->min_p) break;
        double score = t[i].d + pawl__gumbel(p->seed, pos, t[i].id);
        *close |= fabs(score - best_score) < 1e-12;
        if (score > best_score) best_score = score, best = t[i].id;
    }
    free(t);
    return best;
}

static void equals_the_naive_twin(void **state)
{
    (void)state;
    uint64_t rng = check_seed("twin");
    int skipped = 0, done = 0;
    for (int round = 0; round < 600; round++) {
        int n = 1 + (int)(pawl__rng_next(&rng) % (round % 20 == 0 ? 5000 : 300));
        float *l = malloc((size_t)n * sizeof *l);
        double spread = pow(10, 3 * pawl__rng_uniform(&rng) - 1.5);
        int coarse = pawl__rng_next(&rng) % 3 == 0; /* many ties */
        for (int i = 0; i < n; i++) {
            double g = spread * (pawl__rng_uniform(&rng) + pawl__rng_uniform(&rng) + pawl__rng_uniform(&rng) - 1.5);
            l[i] = (float)(coarse ? rint(g) : g);
            if (pawl__rng_next(&rng) % 16 == 0 && i > 0) l[i] = i % 2 ? -INFINITY : NAN;
        }
        pawl_sample_params p = PLAIN;
        p.seed = pawl__rng_next(&rng);
        p.temperature = (float)(0.1 + 2 * pawl__rng_uniform(&rng));
        uint64_t on = pawl__rng_next(&rng);
        if (on & 1) p.top_k = 1 + (int32_t)(pawl__rng_next(&rng) % (uint64_t)n);
        if (on & 2) p.top_p = (float)pawl__rng_uniform(&rng);
        if (on & 4) p.min_p = (float)pow(pawl__rng_uniform(&rng), 3);
        if ((on & 24) == 24) p.top_p = 0.99999f;
        pawl_sampler *s = make(n, n, p);
        for (int64_t pos = 0; pos < 10; pos++) {
            int close;
            int32_t want = twin_choose(l, n, &p, pos, &close), got = choose(s, l, pos);
            if (close) {
                skipped++;
                continue;
            }
            done++;
            if (got != want)
                fail_msg("n=%d T=%g k=%d p=%g min_p=%g pos=%d: got %d, the twin %d", n, (double)p.temperature, p.top_k,
                         (double)p.top_p, (double)p.min_p, (int)pos, got, want);
        }
        pawl__sampler_destroy(&s);
        free(l);
    }
    printf("twin: %d compared, %d at a border\n", done, skipped);
    assert_true(done > 4000);
}

/* ---- distributions ----------------------------------------------------------------------------------------------- */

/* Chi-square of counts against p (sum 1), cells under 5 expected joined; the limit is 4.9 standard deviations in
 * Wilson and Hilferty's approximation, about one false alarm in two million. */
static void check_counts(const char *what, const int *count, const double *p, int n, int draws)
{
    double chi = 0, rest_p = 0;
    int rest_n = 0, cells = 0;
    for (int i = 0; i < n; i++) {
        if (p[i] == 0 && count[i] != 0) fail_msg("%s: token %d of no mass was drawn", what, i);
        double e = p[i] * draws;
        if (e < 5) {
            rest_p += e, rest_n += count[i];
            continue;
        }
        chi += (count[i] - e) * (count[i] - e) / e;
        cells++;
    }
    if (rest_p >= 5) chi += (rest_n - rest_p) * (rest_n - rest_p) / rest_p, cells++;
    if (cells < 2) return;
    double df = cells - 1, c = 2 / (9 * df), z = (cbrt(chi / df) - (1 - c)) / sqrt(c);
    if (z > 4.9) fail_msg("%s: chi-square %.1f with %g degrees of freedom", what, chi, df);
}

/* A random distribution with zeros, at least one entry positive. */
static void random_p(uint64_t *rng, double *p, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        p[i] = pawl__rng_next(rng) % 4 == 0 ? 0 : exp(6 * pawl__rng_uniform(rng));
        if (i == n - 1 && sum == 0) p[i] = 1;
        sum += p[i];
    }
    for (int i = 0; i < n; i++) p[i] /= sum;
}

/* The filtered distribution, by sorting; mass at a border is far from it in random cases. */
static void filtered(const double *p, int n, const pawl_sample_params *sp, double *out)
{
    twin_item t[64];
    for (int i = 0; i < n; i++) t[i] = (twin_item){pow(p[i], 1 / (double)sp->temperature), p[i], i}, out[i] = 0;
    qsort(t, (size_t)n, sizeof *t, by_logit);
    int m = sp->top_k > 0 && sp->top_k < n ? sp->top_k : n;
    double total = 0, sum = 0;
    for (int i = 0; i < m; i++) total += t[i].d;
    for (int i = 0; i < m && sp->top_p < 1; i++)
        if ((sum += t[i].d) >= (double)sp->top_p * total) m = i + 1;
    while (m > 1 && t[m - 1].d < (double)sp->min_p * t[0].d) m--;
    sum = 0;
    for (int i = 0; i < m; i++) sum += t[i].d;
    for (int i = 0; i < m; i++) out[t[i].id] = t[i].d / sum;
}

static void draws_follow_the_distribution(void **state)
{
    (void)state;
    uint64_t rng = check_seed("chi-square");
    enum { V = 24, DRAWS = 100000 };
    static const struct {
        float t, top_p, min_p;
        int top_k;
    } rows[] = {{1, 1, 0, 0},    {0.7f, 1, 0, 0},    {1.2f, 1, 0, 0},         {1, 1, 0, 5},          {1, 0.9f, 0, 0},
                {1, 1, 0.1f, 0}, {0.7f, 0.9f, 0, 8}, {1.2f, 0.95f, 0.05f, 0}, {0.7f, 0.8f, 0.1f, 10}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        double p[V], want[V];
        float l[V];
        random_p(&rng, p, V);
        logs(p, l, V);
        pawl_sample_params sp = PLAIN;
        sp.temperature = rows[r].t, sp.top_p = rows[r].top_p, sp.min_p = rows[r].min_p, sp.top_k = rows[r].top_k;
        sp.seed = pawl__rng_next(&rng);
        filtered(p, V, &sp, want);
        pawl_sampler *s = make(V, V, sp);
        int count[V] = {0};
        for (int64_t pos = 0; pos < DRAWS; pos++) count[choose(s, l, pos)]++;
        pawl__sampler_destroy(&s);
        char what[32];
        snprintf(what, sizeof what, "row %zu", r);
        check_counts(what, count, want, V, DRAWS);
    }
}

/* Draft and target choose with the same noise: whatever q is, the target's tokens follow p; they agree as often as the
 * theory says, sum over x of 1 / sum over y of max(p(y)/p(x), q(y)/q(x)) (Daliri et al., arXiv 2408.07978). */
static void coupling_with_a_draft(void **state)
{
    (void)state;
    uint64_t rng = check_seed("coupling");
    enum { V = 16, DRAWS = 100000 };
    for (int round = 0; round < 6; round++) {
        double p[V], q[V];
        float lp[V], lq[V];
        random_p(&rng, p, V);
        random_p(&rng, q, V);
        if (round == 0) memcpy(q, p, sizeof q);
        if (round == 1) /* a draft that always says the same token */
            for (int i = 0; i < V; i++) q[i] = i == 3;
        logs(p, lp, V);
        logs(q, lq, V);
        pawl_sample_params sp = PLAIN;
        sp.seed = pawl__rng_next(&rng);
        pawl_sampler *s = make(V, V, sp);
        int count[V] = {0}, agreed = 0;
        for (int64_t pos = 0; pos < DRAWS; pos++) {
            int32_t draft = choose(s, lq, pos), target = choose(s, lp, pos);
            count[target]++;
            agreed += draft == target;
        }
        pawl__sampler_destroy(&s);
        check_counts("target's marginal", count, p, V, DRAWS);
        double want = 0;
        for (int x = 0; x < V; x++) {
            if (p[x] == 0 || q[x] == 0) continue;
            double sum = 0;
            for (int y = 0; y < V; y++) sum += fmax(p[y] / p[x], q[y] / q[x]);
            want += 1 / sum;
        }
        double rate = (double)agreed / DRAWS;
        if (round == 0) assert_int_equal(agreed, DRAWS);
        if (fabs(rate - want) > 1e-9 + 5 * sqrt(want * (1 - want) / DRAWS))
            fail_msg("round %d: agreed %.4f, the theory says %.4f", round, rate, want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(noise_equals_values_computed_elsewhere),
        cmocka_unit_test(noise_is_finite_and_gumbel),
        cmocka_unit_test(filters_keep_what_they_say),
        cmocka_unit_test(ties_go_to_the_lowest_id),
        cmocka_unit_test(nan_and_infinite_rows),
        cmocka_unit_test(padding_ids_are_never_chosen),
        cmocka_unit_test(penalties_by_hand),
        cmocka_unit_test(add_and_remove_leave_no_trace),
        cmocka_unit_test(bad_parameters),
        cmocka_unit_test(equals_the_naive_twin),
        cmocka_unit_test(draws_follow_the_distribution),
        cmocka_unit_test(coupling_with_a_draft),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
