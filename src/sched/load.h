/* How many tokens to draft for each sequence of a batch: as many as promise the most tokens a second for all together, from
 * each sequence's acceptance and the measured time of a step by its rows. A batch that is compute-bound pays for every row,
 * so there drafts are fewer. Only speed depends on it. */
#ifndef PAWL_SCHED_LOAD_H
#define PAWL_SCHED_LOAD_H

#include <stdint.h>

enum { PAWL_LOAD_DRAFT = 8, PAWL_LOAD_BINS = 48 };

/* Seconds by rows: exact up to 16, then in growing bins; means with forgetting, straight lines between what is known. */
typedef struct pawl_cost {
    double seconds[PAWL_LOAD_BINS], rows[PAWL_LOAD_BINS]; /* means of what fell into the bin; rows 0: nothing yet */
    int times[PAWL_LOAD_BINS];                            /* how often something did, counted up to a few */
} pawl_cost;
void pawl__cost_learn(pawl_cost *c, int64_t rows, double seconds);
/* 0 while nothing is known. Never falls as rows rise. */
double pawl__cost_at(const pawl_cost *c, int64_t rows);

/* Chance that draft i is accepted when those before it were; means with forgetting. */
typedef struct pawl_chances {
    double accept[PAWL_LOAD_DRAFT];
} pawl_chances;
void pawl__chances_init(pawl_chances *c);
void pawl__chances_learn(pawl_chances *c, int drafted, int accepted);

typedef struct pawl_load {
    pawl_cost target, draft; /* draft: one call of the draft layer, by sequences */
    int64_t rounds;
} pawl_load;

typedef struct pawl_load_lane {
    const pawl_chances *chances;
    int most; /* drafts that are allowed */
    int k;    /* out */
} pawl_load_lane;

/* other_rows: rows of the step that are not decoding (prefill). most_rows: for decoding rows together, at least n. A
 * number of sequences that is new decodes a few steps without drafts and then with one each; later every 32nd step tries
 * another number for all (none, one more, one less), so that costs and chances stay known. */
void pawl__load_choose(pawl_load *l, pawl_load_lane *lanes, int n, int64_t other_rows, int64_t most_rows);

#endif
