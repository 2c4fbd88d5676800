#include "sched/load.h"

#include <math.h>
#include <string.h>

/* Rounds that a mean remembers, about. */
static const double FORGET = 1.0 / 24;
/* Every so many rounds another number is tried. A bin's first few times give their least: the very first ones are slow. */
enum { EXACT_ROWS = 16, EXPLORE_EVERY = 32, FIRST_TIMES = 3 };

static int bin_of(int64_t rows)
{
    if (rows <= EXACT_ROWS) return rows > 0 ? (int)rows - 1 : 0;
    int b = EXACT_ROWS + (int)(4 * (log2((double)rows) - log2(EXACT_ROWS)));
    return b < PAWL_LOAD_BINS ? b : PAWL_LOAD_BINS - 1;
}

void pawl__cost_learn(pawl_cost *c, int64_t rows, double seconds)
{
    int b = bin_of(rows);
    if (c->times[b] < FIRST_TIMES) {
        if (c->times[b]++ == 0 || seconds < c->seconds[b]) {
            c->rows[b] = (double)rows;
            c->seconds[b] = seconds;
        }
        return;
    }
    c->rows[b] += FORGET * ((double)rows - c->rows[b]);
    c->seconds[b] += FORGET * (seconds - c->seconds[b]);
}

double pawl__cost_at(const pawl_cost *c, int64_t rows)
{
    double lower_rows = 0, lower = 0;
    for (int b = 0; b < PAWL_LOAD_BINS; b++) {
        if (c->rows[b] == 0) continue;
        double s = c->seconds[b] > lower ? c->seconds[b] : lower;
        if (c->rows[b] >= (double)rows) {
            if (lower_rows == 0) return s * (0.5 + 0.5 * (double)rows / c->rows[b]); /* fewer than were ever seen */
            double part = ((double)rows - lower_rows) / (c->rows[b] - lower_rows);
            return lower + part * (s - lower);
        }
        lower_rows = c->rows[b];
        lower = s;
    }
    /* More rows than were ever seen: half a row's share each, between free (memory-bound) and full price. */
    return lower_rows > 0 ? lower * (1 + 0.5 * ((double)rows / lower_rows - 1)) : 0;
}

void pawl__chances_init(pawl_chances *c)
{
    for (int i = 0; i < PAWL_LOAD_DRAFT; i++) c->accept[i] = 0.7; /* a usual MTP layer on ordinary text */
}

void pawl__chances_learn(pawl_chances *c, int drafted, int accepted)
{
    /* A draft behind a rejected one says nothing about itself. */
    for (int i = 0; i < drafted && i <= accepted; i++)
        c->accept[i] += FORGET * ((i < accepted ? 1.0 : 0.0) - c->accept[i]);
}

/* The chance that the lane's next draft (number k) is accepted, all before it included. */
static double marginal(const pawl_load_lane *lane)
{
    double p = 1;
    for (int i = 0; i <= lane->k; i++) p *= lane->chances->accept[i];
    return p;
}

/* Adds drafts in the order of their chance and remembers where tokens a second were most. */
static void choose_best(const pawl_load *l, pawl_load_lane *lanes, int n, int64_t other_rows, int64_t most_rows)
{
    int calls[PAWL_LOAD_DRAFT] = {0}; /* lanes in the chain's i-th call */
    double tokens = n, best_rate = tokens / pawl__cost_at(&l->target, other_rows + n), worst = 2;
    for (int i = 0; i < n; i++) lanes[i].k = 0;
    for (int64_t rows = n; rows < most_rows; rows++) {
        pawl_load_lane *next = NULL;
        double chance = 0;
        for (int i = 0; i < n; i++) {
            double p = lanes[i].k < lanes[i].most ? marginal(&lanes[i]) : 0;
            if (p > chance) {
                chance = p;
                next = &lanes[i];
            }
        }
        if (!next) break;
        calls[next->k++]++;
        tokens += chance;
        double seconds = pawl__cost_at(&l->target, other_rows + rows + 1);
        for (int i = 0; i < PAWL_LOAD_DRAFT && calls[i]; i++) seconds += pawl__cost_at(&l->draft, calls[i]);
        if (tokens / seconds > best_rate) {
            best_rate = tokens / seconds;
            worst = chance;
        }
    }
    /* Chances fall along a lane and the order was by chance: what came until the best point are those not below `worst`. */
    for (int i = 0; i < n; i++) {
        int most = lanes[i].k;
        lanes[i].k = 0;
        while (lanes[i].k < most && marginal(&lanes[i]) >= worst) lanes[i].k++;
    }
}

/* The same number for each lane, as far as the lanes and the rows allow. */
static void choose_same(pawl_load_lane *lanes, int n, int64_t most_rows, int k)
{
    int64_t each = most_rows / n - 1;
    if (k > each) k = (int)each;
    for (int i = 0; i < n; i++) lanes[i].k = k < lanes[i].most ? k : lanes[i].most;
}

static int known(const pawl_load *l, int64_t rows)
{
    return l->target.times[bin_of(rows)] >= FIRST_TIMES;
}

void pawl__load_choose(pawl_load *l, pawl_load_lane *lanes, int n, int64_t other_rows, int64_t most_rows)
{
    int64_t round = l->rounds++;
    if (n == 0) return;
    if (other_rows == 0 && !known(l, n)) {
        choose_same(lanes, n, most_rows, 0); /* what a step costs without drafts is what all else is compared with */
        return;
    }
    int64_t rows = n;
    choose_same(lanes, n, most_rows, 1);
    for (int i = 0; i < n; i++) rows += lanes[i].k;
    if (rows == n || pawl__cost_at(&l->target, 1) == 0 || pawl__cost_at(&l->draft, 1) == 0) return;
    if (other_rows == 0 && !known(l, rows)) return;
    choose_best(l, lanes, n, other_rows, most_rows);
    if (other_rows > 0 || round % EXPLORE_EVERY) return;
    int most = 0;
    for (int i = 0; i < n; i++) most = lanes[i].k > most ? lanes[i].k : most;
    /* In turn one more than the best, none, and one less: alike for all, since the time of a step is by all its rows. */
    int64_t turn = round / EXPLORE_EVERY % 4;
    choose_same(lanes, n, most_rows, turn % 2 == 0 ? most + 1 : turn == 1 || most == 0 ? 0 : most - 1);
}
