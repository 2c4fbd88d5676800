#include "spec/adapt.h"

#include <string.h>

/* Rounds that a mean remembers, about: long against one answer's noise, short against a change of subject. */
static const double FORGET = 1.0 / 24;
/* Every so many rounds a neighbouring number is tried. */
enum { EXPLORE_EVERY = 32 };

void pawl__adapt_init(pawl_adapt *a)
{
    memset(a, 0, sizeof *a);
    for (int i = 0; i < PAWL_SEQ_MAX_DRAFT; i++) a->accept[i] = 0.7; /* a usual MTP layer on ordinary text */
}

static double verify_seconds(const pawl_adapt *a, int k)
{
    double det = a->w * a->wkk - a->wk * a->wk;
    double mean_k = a->wk / a->w, mean_t = a->wt / a->w;
    double slope = det > 1e-9 * a->w * a->w ? (a->w * a->wkt - a->wk * a->wt) / det : 0;
    if (slope < 0) slope = 0;
    double t = mean_t + slope * (k - mean_k);
    return t > 0.1 * mean_t ? t : 0.1 * mean_t;
}

static int best(const pawl_adapt *a, int max)
{
    double expected = 1, chance = 1, best_rate = 0;
    int k_best = 0;
    for (int k = 0; k <= max; k++) {
        if (k > 0) {
            chance *= a->accept[k - 1];
            expected += chance;
        }
        double rate = expected / (verify_seconds(a, k) + k * a->draft_seconds);
        if (rate > best_rate) {
            best_rate = rate;
            k_best = k;
        }
    }
    return k_best;
}

int pawl__adapt_choose(const pawl_adapt *a, int max)
{
    static const int first[] = {2, 1, 3, 0};
    int k;
    if (a->rounds < (int64_t)(sizeof first / sizeof first[0])) {
        k = first[a->rounds];
    } else {
        k = best(a, max);
        if (a->rounds % EXPLORE_EVERY == 0) k = k == 0 ? 1 : k + ((a->rounds / EXPLORE_EVERY) % 2 ? 1 : -1);
    }
    return k < 0 ? 0 : k > max ? max : k;
}

void pawl__adapt_learn(pawl_adapt *a, const pawl_round *r)
{
    int k = r->drafted;
    a->rounds++;
    /* A draft behind a rejected one says nothing about itself. */
    for (int i = 0; i < k && i <= r->accepted; i++)
        a->accept[i] += FORGET * ((i < r->accepted ? 1.0 : 0.0) - a->accept[i]);
    if (k > 0) {
        double d = r->draft_seconds / k;
        a->draft_seconds = a->draft_seconds > 0 ? a->draft_seconds + FORGET * (d - a->draft_seconds) : d;
    }
    double t = r->verify_seconds + r->commit_seconds, keep = 1 - FORGET;
    a->w = keep * a->w + 1;
    a->wk = keep * a->wk + k;
    a->wkk = keep * a->wkk + (double)k * k;
    a->wt = keep * a->wt + t;
    a->wkt = keep * a->wkt + k * t;
}
