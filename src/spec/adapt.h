/* How many tokens to draft: the number that promises the most tokens per second, from the acceptance of this sequence's own
 * drafts and the times of its model's rounds. Where no number of drafts beats plain decoding the answer is 0, and rare trial rounds look whether
 * that has changed. Trials have a budget: what they have cost, against the best number known, stays under a small share of
 * all time. Only speed depends on this: the tokens are the same for every number. */
#ifndef PAWL_SPEC_ADAPT_H
#define PAWL_SPEC_ADAPT_H

#include "spec/seq.h"

/* What the numbers of drafts cost: the same for all sequences of a model, near enough, so that a new one starts with what
 * another has learnt. */
typedef struct pawl_adapt_costs {
    double seconds[PAWL_SEQ_MAX_DRAFT + 1]; /* of a round with k drafts; 0: not measured yet */
    int measured[PAWL_SEQ_MAX_DRAFT + 1];   /* rounds behind it */
    double catch_up;                        /* seconds of one waiting position that the draft layer catches up with */
    int known;                              /* the first rounds, which only measure, are over */
} pawl_adapt_costs;

typedef struct pawl_adapt {
    int64_t rounds;
    int64_t since_trial;               /* rounds */
    int trial;                         /* the next round is one: chosen apart from the best number */
    double accept[PAWL_SEQ_MAX_DRAFT]; /* chance that draft i is accepted when those before it were */
    double seen[PAWL_SEQ_MAX_DRAFT];   /* rounds behind it, up to what is remembered */
    pawl_adapt_costs costs;
    double price;       /* of this trial, if none of its drafts is accepted */
    double total, lost; /* seconds of all rounds, and by how much trials took longer than the best number; both fade */
} pawl_adapt;

/* costs: copied; NULL where nothing is known. */
void pawl__adapt_init(pawl_adapt *a, const pawl_adapt_costs *costs);
/* Drafts for the next round, 0 .. max. waiting: positions that the draft layer would have to catch up with. */
int pawl__adapt_choose(pawl_adapt *a, int max, int64_t waiting);
/* What came of it. */
void pawl__adapt_learn(pawl_adapt *a, const pawl_round *r);

#endif
