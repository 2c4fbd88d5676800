/* How many tokens to draft: the number that promises the most tokens per second, from the acceptance and the times of this
 * sequence's own rounds. Only speed depends on it: the tokens are the same for every number. */
#ifndef PAWL_SPEC_ADAPT_H
#define PAWL_SPEC_ADAPT_H

#include "spec/seq.h"

typedef struct pawl_adapt {
    int64_t rounds;
    double accept[PAWL_SEQ_MAX_DRAFT]; /* chance that draft i is accepted when those before it were; exponential mean */
    /* Time of a verification by its number of drafts k: least squares of t over k with exponential forgetting */
    double w, wk, wkk, wt, wkt;
    double draft_seconds; /* of one drafted token */
} pawl_adapt;

void pawl__adapt_init(pawl_adapt *a);
/* Drafts for the next round, 0 .. max. The first rounds and now and then a later one try a neighbouring number, so that its
 * cost and acceptance stay known. */
int pawl__adapt_choose(const pawl_adapt *a, int max);
void pawl__adapt_learn(pawl_adapt *a, const pawl_round *r);

#endif
