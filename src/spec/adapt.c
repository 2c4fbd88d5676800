#include "spec/adapt.h"

#include <string.h>

/* Rounds that an acceptance remembers, about: long against one answer's noise, short against a change of subject. */
static const double MEMORY = 24;
/* The same for a trial: they are rare, so that a few must be able to change the mind. */
static const double TRIAL_MEMORY = 6;
/* Acceptance before anything is known, of a usual MTP layer on ordinary text, and the rounds that it counts for. */
static const double PRIOR = 0.7, PRIOR_ROUNDS = 2;
/* Share of all time that trials may cost, and what a round weighs after one more. */
static const double TRIAL_SHARE = 0.01, FADE = 1 - 1.0 / 512;
/* Times are skewed: a neighbour's process makes a round longer, nothing makes it shorter. So a mean follows a shorter round
 * faster than a longer one, and no single round counts for more than a multiple of the mean. */
static const double FOLLOW_DOWN = 0.3, FOLLOW_UP = 0.1, MOST = 3;
/* Trials are rare: a shorter round is believed sooner. */
static const double TRIAL_FOLLOW_DOWN = 0.7;
/* Time of one more draft, in plain rounds, until two numbers have been measured. */
static const double ROW_GUESS = 0.25;
/* The same for a position that waits for the draft layer. */
static const double CATCH_UP_GUESS = 1.0 / 16;
/* Gain over plain decoding from which a draft layer that has fallen behind is worth catching up with. */
static const double WORTH_RESUMING = 1.15;
/* Rounds from one trial to the next, at least, and rounds of a number that count as its first. */
enum { TRIAL_EVERY = 16, FEW = 3 };

/* Drafts of the rounds that only measure. Each number more than once: a first round may be slow for reasons of its own. */
static const int first[] = {2, 0, 1, 0, 3, 2, 1, 0, 0};

void pawl__adapt_init(pawl_adapt *a, const pawl_adapt_costs *costs)
{
    memset(a, 0, sizeof *a);
    if (costs) a->costs = *costs;
    for (int i = 0; i < PAWL_SEQ_MAX_DRAFT; i++) {
        a->accept[i] = PRIOR;
        a->seen[i] = PRIOR_ROUNDS;
    }
}

/* Measured, or on the line through the two measured numbers next to k. */
static double round_seconds(const pawl_adapt *a, int k)
{
    if (a->costs.seconds[k] > 0) {
        double t = a->costs.seconds[k]; /* fewer drafts never take more time: what looks like it is noise */
        for (int j = k + 1; j <= PAWL_SEQ_MAX_DRAFT; j++)
            if (a->costs.seconds[j] > 0 && a->costs.seconds[j] < t) t = a->costs.seconds[j];
        return t;
    }
    int lo = k, hi = k, most = PAWL_SEQ_MAX_DRAFT;
    while (lo >= 0 && a->costs.seconds[lo] <= 0) lo--;
    while (hi <= most && a->costs.seconds[hi] <= 0) hi++;
    if (lo < 0 && hi > most) return 1;
    if (lo < 0) return a->costs.seconds[hi] / (1 + ROW_GUESS * (hi - k));
    if (hi > most) {
        hi = lo;
        for (lo--; lo >= 0 && a->costs.seconds[lo] <= 0;) lo--;
        if (lo < 0) return a->costs.seconds[hi] * (1 + ROW_GUESS * (k - hi));
    }
    double slope = (a->costs.seconds[hi] - a->costs.seconds[lo]) / (hi - lo);
    return a->costs.seconds[lo] + (slope > 0 ? slope : 0) * (k - lo);
}

/* Of min .. max drafts the number with the most tokens per second, which go to *rate. */
static int best(const pawl_adapt *a, int min, int max, double *rate)
{
    double expected = 1, chance = 1;
    int k_best = min;
    *rate = 0;
    for (int k = 0; k <= max; k++) {
        if (k > 0) {
            chance *= a->accept[k - 1];
            expected += chance;
        }
        double r = expected / round_seconds(a, k);
        if (k >= min && r > *rate) {
            *rate = r;
            k_best = k;
        }
    }
    return k_best;
}

static int clip(int k, int max)
{
    return k < 0 ? 0 : k > max ? max : k;
}

/* What a trial tries while k drafts are best: the neighbours, and now and then none, whose time all else is judged by. */
static int neighbour(const pawl_adapt *a, int k, int max)
{
    switch (a->rounds / TRIAL_EVERY % 4) {
    case 0:
        return k - 1;
    case 2:
        return 0;
    default:
        return clip(k + 1, max);
    }
}

int pawl__adapt_choose(pawl_adapt *a, int max, int64_t waiting)
{
    a->trial = 0;
    if (!a->costs.known) return clip(first[a->rounds], max);
    double rate, other_rate;
    int k = best(a, 0, max, &rate), paused = waiting > PAWL_SEQ_MAX_DRAFT + 1;
    if (max < 1) return k;
    if (k > 0 && paused && rate * round_seconds(a, 0) < WORTH_RESUMING) {
        k = 0;
        rate = 1 / round_seconds(a, 0);
    }
    int other = k == 0 ? best(a, 1, max, &other_rate) : neighbour(a, k, max);
    /* As if all of the trial's drafts will fail: then a round's time has bought one token. */
    double price = round_seconds(a, other) - 1 / rate;
    double catch_up = a->costs.catch_up > 0 ? a->costs.catch_up : CATCH_UP_GUESS * round_seconds(a, 0);
    if (paused) price += catch_up * (double)waiting;
    if (price < 0) price = 0;
    if (a->since_trial < TRIAL_EVERY || a->lost + price > TRIAL_SHARE * a->total || other == k) return k;
    a->trial = 1;
    a->price = price;
    return other;
}

static void learn_seconds(double *mean, int few, double down, double t)
{
    if (*mean <= 0) {
        *mean = t;
        return;
    }
    if (few && t < *mean) *mean = t; /* the first ones were slow for reasons of their own */
    if (t > MOST * *mean) t = MOST * *mean;
    *mean += (t < *mean ? down : FOLLOW_UP) * (t - *mean);
}

void pawl__adapt_learn(pawl_adapt *a, const pawl_round *r)
{
    int k = r->drafted;
    double t = r->draft_seconds + r->verify_seconds + r->commit_seconds, rate;
    best(a, 0, PAWL_SEQ_MAX_DRAFT, &rate);
    a->total = FADE * a->total + t;
    a->lost = FADE * a->lost;
    if (a->trial) a->lost += a->price - r->accepted / rate; /* not t: one disturbed trial must not stop all others */
    if (a->lost < 0) a->lost = 0;
    a->since_trial = a->trial ? 0 : a->since_trial + 1;
    if (++a->rounds == (int64_t)(sizeof first / sizeof first[0])) a->costs.known = 1;
    /* A draft behind a rejected one says nothing about itself. */
    for (int i = 0; i < k && i <= r->accepted; i++) {
        double most = a->trial ? TRIAL_MEMORY : MEMORY;
        a->seen[i] = a->seen[i] < most ? a->seen[i] + 1 : most;
        a->accept[i] += ((i < r->accepted ? 1.0 : 0.0) - a->accept[i]) / a->seen[i];
    }
    /* A round in which the draft layer caught up with a long stretch is no example of its number. */
    if (r->caught_up <= PAWL_SEQ_MAX_DRAFT + 1) {
        learn_seconds(&a->costs.seconds[k], a->costs.measured[k] < FEW, a->trial ? TRIAL_FOLLOW_DOWN : FOLLOW_DOWN, t);
        a->costs.measured[k] += a->costs.measured[k] < FEW;
    } else {
        learn_seconds(&a->costs.catch_up, 0, FOLLOW_DOWN, r->draft_seconds / (double)r->caught_up);
    }
    a->trial = 0;
}
