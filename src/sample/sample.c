/* The sampler: one row of logits becomes one token. Called by the engine for the target and for drafts alike; a sampler
 * belongs to one sequence and owns its counts and scratch.
 *
 * One pass finds the largest logit of each block of 64 tokens; what follows looks only into the blocks that can matter. No
 * filter sorts the vocabulary: tokens fall into bins of 1/16 nat by their distance from the best one, and only the bins
 * that can hold kept tokens are sorted. The choice is the argmax of logit/T + Gumbel noise (Maddison, Tarlow, Minka 2014),
 * whose noise is a hash of seed, position and token; it needs no normalised probabilities. */
#include "sample/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/mathfn.h"
#include "base/rng.h"

enum { BINS_PER_NAT = 16, N_BINS = 64 * BINS_PER_NAT, BLOCK = 64 };

/* g = -ln(-ln u) with u <= 1 - 2^-53 stays under 36.74, so a token this far below another's score cannot win. */
static const double NOISE_REACH = 37.0;

struct pawl_sampler {
    int64_t vocab, n_valid;
    pawl_sample_params p; /* p.bias is our copy */
    int penalised, filtered;
    int32_t *forbidden; /* [n_forbidden]: not for positions below forbid_before */
    size_t n_forbidden;
    int64_t forbid_before;
    const float
        *row;    /* [vocab]: the logits after penalties and bias, the caller's where there are none; NaN means -inf */
    float *own;  /* [vocab]: such a row where it is not the caller's */
    float *tops; /* [blocks of n_valid]: the largest of each BLOCK of the row */

    /* Only when there are penalties: counts by token and the list of the tokens to penalise. */
    int32_t *generated; /* [vocab] times generated */
    uint8_t *in_prompt; /* [vocab] */
    int32_t *place;     /* [vocab] index in touched, or -1 */
    int32_t *touched;   /* [n_touched] */
    int64_t n_touched;

    /* Only when there is a top-k or top-p: */
    uint64_t *keys, *keys_tmp; /* [n_valid]: best first when sorted ascending; see key_of */
    uint32_t count[N_BINS];
    double mass[N_BINS + 1]; /* behind the last bin: what is too far below, and NaN */

    double step[N_BINS + 1]; /* e^(-i/16) */
};

/* ---- noise ------------------------------------------------------------------------------------------------------- */

static uint64_t noise_base(uint64_t seed, int64_t position)
{
    return pawl__mix64(seed ^ 0x9e3779b97f4a7c15ull * ((uint64_t)position + 1));
}

/* In (0, 1): 52 bits and a half, since 53 bits would round to 1 and make the noise infinite. */
static double noise_uniform(uint64_t base, int32_t token)
{
    return ((double)(pawl__mix64(base ^ (uint32_t)token) >> 12) + 0.5) * 0x1p-52;
}

static double gumbel_of(double u)
{
    return -pawl__ln(-pawl__ln(u));
}

double pawl__gumbel(uint64_t seed, int64_t position, int32_t token)
{
    return gumbel_of(noise_uniform(noise_base(seed, position), token));
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static pawl_status check_number(const char *name, double v, double lo, double hi, pawl_err *err)
{
    if (v >= lo && v <= hi) return PAWL_OK;
    return pawl__fail(err, PAWL_EINVAL, "%s is %g, expected %g to %g", name, v, lo, hi);
}

static pawl_status check_params(int64_t vocab, const pawl_sample_params *p, pawl_err *err)
{
    const double big = 3.4e38;
    PAWL_TRY(check_number("temperature", p->temperature, 0, big, err));
    if (p->top_k < -1)
        return pawl__fail(err, PAWL_EINVAL, "top_k is %d, expected a number of tokens or 0 for all", (int)p->top_k);
    PAWL_TRY(check_number("top_p", p->top_p, 0, big, err));
    PAWL_TRY(check_number("min_p", p->min_p, 0, 1, err));
    PAWL_TRY(check_number("presence_penalty", p->presence, -big, big, err));
    PAWL_TRY(check_number("frequency_penalty", p->frequency, -big, big, err));
    PAWL_TRY(check_number("repetition_penalty", p->repetition, 1e-6, 1e6, err));
    for (size_t i = 0; i < p->n_bias; i++) {
        const pawl_logit_bias *b = &p->bias[i];
        if (b->id < 0 || b->id >= vocab)
            return pawl__fail(err, PAWL_EINVAL, "logit_bias names token %d, expected 0 to %lld", (int)b->id,
                              (long long)vocab - 1);
        if (!(b->bias <= 3.4e38f)) /* -inf forbids a token; NaN and +inf mean nothing */
            return pawl__fail(err, PAWL_EINVAL, "logit_bias of token %d is %g, expected a number or -inf", (int)b->id,
                              (double)b->bias);
    }
    return PAWL_OK;
}

static int64_t blocks(const pawl_sampler *s)
{
    return (s->n_valid + BLOCK - 1) / BLOCK;
}

static int allocate(pawl_sampler *s)
{
    size_t n = (size_t)s->vocab;
    const pawl_logit_bias *bias = s->p.bias;
    s->p.bias = NULL; /* the caller's until it is copied: the destroyer must not free it */
    s->own = malloc(n * sizeof *s->own);
    s->tops = malloc((size_t)blocks(s) * sizeof *s->tops);
    if (!s->own || !s->tops) return 0;
    if (s->p.n_bias) {
        pawl_logit_bias *copy = malloc(s->p.n_bias * sizeof *copy);
        if (!copy) return 0;
        memcpy(copy, bias, s->p.n_bias * sizeof *copy);
        s->p.bias = copy;
    }
    if (s->penalised) {
        s->generated = calloc(n, sizeof *s->generated);
        s->in_prompt = calloc(n, sizeof *s->in_prompt);
        s->place = malloc(n * sizeof *s->place);
        s->touched = malloc(n * sizeof *s->touched);
        if (!s->generated || !s->in_prompt || !s->place || !s->touched) return 0;
        memset(s->place, 0xff, n * sizeof *s->place);
    }
    if (s->filtered) {
        s->keys = malloc((size_t)s->n_valid * sizeof *s->keys);
        s->keys_tmp = malloc((size_t)s->n_valid * sizeof *s->keys_tmp);
        if (!s->keys || !s->keys_tmp) return 0;
    }
    return 1;
}

pawl_status pawl__sampler_create(int64_t vocab, int64_t n_valid, const pawl_sample_params *p, pawl_sampler **out,
                                 pawl_err *err)
{
    *out = NULL;
    if (vocab < 1 || vocab > INT32_MAX || n_valid < 1 || n_valid > vocab)
        return pawl__fail(err, PAWL_EINVAL, "sampler for %lld of %lld tokens", (long long)n_valid, (long long)vocab);
    PAWL_TRY(check_params(vocab, p, err));
    pawl_sampler *s = calloc(1, sizeof *s);
    if (!s) return pawl__fail(err, PAWL_ENOMEM, "out of memory for a sampler");
    s->vocab = vocab;
    s->n_valid = n_valid;
    s->p = *p;
    if (s->p.top_k < 0 || s->p.top_k >= n_valid) s->p.top_k = 0;
    s->penalised = p->presence != 0 || p->frequency != 0 || p->repetition != 1;
    s->filtered = s->p.top_k > 0 || p->top_p < 1;
    for (int i = 0; i <= N_BINS; i++) s->step[i] = pawl__exp(-(double)i / BINS_PER_NAT);
    if (!allocate(s)) {
        pawl__sampler_destroy(&s);
        return pawl__fail(err, PAWL_ENOMEM, "out of memory for a sampler of %lld tokens", (long long)vocab);
    }
    *out = s;
    return PAWL_OK;
}

void pawl__sampler_destroy(pawl_sampler **ps)
{
    pawl_sampler *s = *ps;
    if (!s) return;
    *ps = NULL;
    free((void *)s->p.bias);
    free(s->forbidden);
    free(s->own);
    free(s->tops);
    free(s->generated);
    free(s->in_prompt);
    free(s->place);
    free(s->touched);
    free(s->keys);
    free(s->keys_tmp);
    free(s);
}

pawl_status pawl__sampler_forbid(pawl_sampler *s, const int32_t *ids, size_t n, int64_t before, pawl_err *err)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= s->vocab)
            return pawl__fail(err, PAWL_EINVAL, "token %d is outside the vocabulary of %lld", (int)ids[i],
                              (long long)s->vocab);
    if (n == 0) return PAWL_OK;
    int32_t *copy = malloc(n * sizeof *copy);
    if (!copy) return pawl__fail(err, PAWL_ENOMEM, "out of memory for %zu forbidden tokens", n);
    memcpy(copy, ids, n * sizeof *copy);
    free(s->forbidden);
    s->forbidden = copy;
    s->n_forbidden = n;
    s->forbid_before = before;
    return PAWL_OK;
}

/* ---- counts ------------------------------------------------------------------------------------------------------ */

static void touch(pawl_sampler *s, int32_t id)
{
    if (s->place[id] >= 0) return;
    s->place[id] = (int32_t)s->n_touched;
    s->touched[s->n_touched++] = id;
}

static int counted(const pawl_sampler *s, int32_t id)
{
    return s->penalised && id >= 0 && id < s->vocab;
}

void pawl__sampler_add_prompt(pawl_sampler *s, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!counted(s, ids[i])) continue;
        s->in_prompt[ids[i]] = 1;
        touch(s, ids[i]);
    }
}

void pawl__sampler_add(pawl_sampler *s, int32_t id)
{
    if (!counted(s, id)) return;
    s->generated[id]++;
    touch(s, id);
}

void pawl__sampler_remove(pawl_sampler *s, int32_t id)
{
    if (!counted(s, id) || s->generated[id] == 0) return;
    if (--s->generated[id] > 0 || s->in_prompt[id]) return;
    int32_t last = s->touched[--s->n_touched];
    s->touched[s->place[id]] = last;
    s->place[last] = s->place[id];
    s->place[id] = -1;
}

/* ---- the row ----------------------------------------------------------------------------------------------------- */

static void apply_penalties(pawl_sampler *s)
{
    const float rep = s->p.repetition;
    for (int64_t i = 0; i < s->n_touched; i++) {
        int32_t id = s->touched[i];
        float l = s->own[id];
        l = l > 0 ? l / rep : l * rep;
        int32_t n = s->generated[id];
        if (n > 0) l -= s->p.presence + s->p.frequency * (float)n;
        s->own[id] = l;
    }
}

static inline float larger(float a, float b)
{
    return a > b ? a : b; /* b where a is NaN */
}

/* Of n values, n <= BLOCK; NaN is passed over. A whole block in separate lanes and in loops of constant length, so that the
 * compiler uses vector maxima. */
static float largest(const float *x, int64_t n)
{
    float m[16];
    for (int j = 0; j < 16; j++) m[j] = -INFINITY;
    if (n < BLOCK) {
        for (int64_t i = 0; i < n; i++) m[0] = larger(x[i], m[0]);
        return m[0];
    }
    for (int i = 0; i < BLOCK; i += 16)
        for (int j = 0; j < 16; j++) m[j] = larger(x[i + j], m[j]);
    for (int j = 0; j < 8; j++) m[j] = larger(m[j], m[j + 8]);
    for (int j = 0; j < 4; j++) m[j] = larger(m[j], m[j + 4]);
    return larger(larger(m[0], m[1]), larger(m[2], m[3]));
}

static int64_t block_end(const pawl_sampler *s, int64_t block)
{
    int64_t end = (block + 1) * BLOCK;
    return end < s->n_valid ? end : s->n_valid;
}

/* Fills tops; returns the largest of all. */
static float find_tops(pawl_sampler *s)
{
    float max = -INFINITY;
    for (int64_t b = 0, n = blocks(s); b < n; b++) {
        s->tops[b] = largest(s->row + b * BLOCK, block_end(s, b) - b * BLOCK);
        max = larger(s->tops[b], max);
    }
    return max;
}

/* Sets row and tops and returns the maximum: finite, or -inf when nothing is left to choose. */
static float prepare_row(pawl_sampler *s, const float *logits, int64_t position)
{
    const int64_t n = s->n_valid;
    const size_t n_forbidden = position < s->forbid_before ? s->n_forbidden : 0;
    s->row = logits;
    if (s->penalised || s->p.n_bias || n_forbidden) {
        memcpy(s->own, logits, (size_t)n * sizeof *logits);
        for (int64_t i = n; i < s->vocab; i++) s->own[i] = -INFINITY; /* penalties and bias may name padding ids */
        if (s->penalised) apply_penalties(s);
        for (size_t i = 0; i < s->p.n_bias; i++) s->own[s->p.bias[i].id] += s->p.bias[i].bias;
        for (size_t i = 0; i < n_forbidden; i++) s->own[s->forbidden[i]] = -INFINITY;
        s->row = s->own;
    }
    float max = find_tops(s);
    if (max < INFINITY) return max;
    /* all the mass is on the infinite ones, in equal parts */
    for (int64_t i = 0; i < n; i++) s->own[i] = s->row[i] == INFINITY ? 0.0f : -INFINITY;
    s->row = s->own;
    return find_tops(s);
}

/* The lowest id whose logit is the maximum; -0.0 and +0.0 are equal here, as everywhere. */
static int32_t first_best(const pawl_sampler *s, float max)
{
    int64_t b = 0;
    while (s->tops[b] != max) b++;
    int64_t i = b * BLOCK;
    while (s->row[i] != max) i++;
    return (int32_t)i;
}

/* ---- filters ----------------------------------------------------------------------------------------------------- */

/* Distance to the best token in nats, at most 0. */
static double below(const pawl_sampler *s, int32_t id, double max, double inv_t)
{
    return ((double)s->row[id] - max) * inv_t;
}

/* Which 1/16 nat below the best; everything past the last bin is in the last. */
static int bin_of(double d)
{
    double x = -d * BINS_PER_NAT;
    return x < N_BINS - 1 ? (int)x : N_BINS - 1;
}

/* e^r for 0 >= r > -1/16 by Taylor to the 6th power: relative error under 1e-12. */
static inline double small_exp(double r)
{
    double p = 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = p * r + 1.0;
    return p * r + 1.0;
}

/* e^d for d <= 0; 0 past the bins. */
static double weight(const pawl_sampler *s, double d)
{
    if (d <= -(double)N_BINS / BINS_PER_NAT) return 0.0;
    int b = bin_of(d);
    return s->step[b] * small_exp(d + (double)b / BINS_PER_NAT);
}

/* Ascending keys are descending logits, then ascending ids. Adding +0.0 turns -0.0 into +0.0. */
static uint64_t key_of(float l, int32_t id)
{
    uint32_t u = pawl__f32_bits(l + 0.0f);
    u = u & 0x80000000u ? u : ~(u | 0x80000000u);
    return (uint64_t)u << 32 | (uint32_t)id;
}

static int32_t id_of(uint64_t key)
{
    return (int32_t)(uint32_t)key;
}

/* Sorts keys that come in ascending order of ids: four stable passes over the logit's bytes (no allocation, unlike
 * qsort). */
static void sort_keys(uint64_t *a, uint64_t *tmp, size_t n)
{
    if (n <= 64) {
        for (size_t i = 1; i < n; i++) {
            uint64_t k = a[i];
            size_t j = i;
            for (; j > 0 && a[j - 1] > k; j--) a[j] = a[j - 1];
            a[j] = k;
        }
        return;
    }
    for (int shift = 32; shift < 64; shift += 8) {
        size_t at[256] = {0}, sum = 0;
        for (size_t i = 0; i < n; i++) at[a[i] >> shift & 255]++;
        for (int b = 0; b < 256; b++) {
            size_t c = at[b];
            at[b] = sum;
            sum += c;
        }
        for (size_t i = 0; i < n; i++) tmp[at[a[i] >> shift & 255]++] = a[i];
        uint64_t *swap = a;
        a = tmp;
        tmp = swap;
    }
}

/* Adds the weights of n <= BLOCK tokens to the mass of their bins; the first loop has nothing that a vector has not. */
static void add_mass(pawl_sampler *s, const float *x, int64_t n, double max, double inv_t)
{
    double part[BLOCK];
    int bin[BLOCK];
    for (int64_t i = 0; i < n; i++) {
        double d = ((double)x[i] - max) * inv_t;
        d = d > -(double)N_BINS / BINS_PER_NAT ? d : -(double)N_BINS / BINS_PER_NAT; /* so is NaN */
        bin[i] = (int)(-d * BINS_PER_NAT);
        part[i] = small_exp(d + (double)bin[i] / BINS_PER_NAT);
    }
    for (int64_t i = 0; i < n; i++) s->mass[bin[i]] += s->step[bin[i]] * part[i];
}

/* Counts by bin, or with top-p alone the mass. Where top-k is no more than the blocks, their tops stand for the tokens: k of
 * them in the first bins mean at least k tokens there. */
static void fill_bins(pawl_sampler *s, double max, double inv_t)
{
    memset(s->count, 0, sizeof s->count);
    memset(s->mass, 0, sizeof s->mass);
    if (s->p.top_k == 0) {
        for (int64_t b = 0, n = blocks(s); b < n; b++)
            add_mass(s, s->row + b * BLOCK, block_end(s, b) - b * BLOCK, max, inv_t);
        return;
    }
    const int by_block = s->p.top_k <= blocks(s);
    const float *x = by_block ? s->tops : s->row;
    const int64_t n = by_block ? blocks(s) : s->n_valid;
    for (int64_t i = 0; i < n; i++)
        if (x[i] > -INFINITY) s->count[bin_of(((double)x[i] - max) * inv_t)]++;
}

/* The last bin that can hold a kept token. The margin covers that keep_best sums in another order. */
static int last_bin(const pawl_sampler *s, double total)
{
    int last = 0;
    if (s->p.top_k > 0) {
        for (int64_t have = s->count[0]; last < N_BINS - 1 && have < s->p.top_k;) have += s->count[++last];
    } else {
        const double enough = (double)s->p.top_p * total * (1 + 1e-9);
        for (double sum = s->mass[0]; last < N_BINS - 1 && sum < enough;) sum += s->mass[++last];
    }
    return last;
}

/* Keys of the tokens up to a bin, in rising order of ids; returns their number. */
static size_t collect(pawl_sampler *s, double max, double inv_t, int last)
{
    size_t m = 0;
    for (int64_t b = 0, n = blocks(s); b < n; b++) {
        if (!(s->tops[b] > -INFINITY) || bin_of(((double)s->tops[b] - max) * inv_t) > last) continue;
        for (int64_t i = b * BLOCK; i < block_end(s, b); i++) {
            if (!(s->row[i] > -INFINITY) || bin_of(below(s, (int32_t)i, max, inv_t)) > last) continue;
            s->keys[m++] = key_of(s->row[i], (int32_t)i);
        }
    }
    return m;
}

/* Puts the tokens of top-k and top-p into s->keys, best first; returns their number, at least 1. */
static size_t keep_best(pawl_sampler *s, double max, double inv_t)
{
    const int64_t k = s->p.top_k;
    const double p = s->p.top_p;
    fill_bins(s, max, inv_t);
    double total = 0, sum = 0;
    for (int b = 0; b < N_BINS; b++) total += s->mass[b];
    size_t m = collect(s, max, inv_t, last_bin(s, total));
    sort_keys(s->keys, s->keys_tmp, m);
    if (k > 0 && m > (size_t)k) m = (size_t)k;
    if (p >= 1) return m;

    if (k > 0) { /* top-p counts the mass inside the top-k set */
        total = 0;
        for (size_t i = 0; i < m; i++) total += weight(s, below(s, id_of(s->keys[i]), max, inv_t));
    }
    for (size_t i = 0; i < m; i++) {
        sum += weight(s, below(s, id_of(s->keys[i]), max, inv_t));
        if (sum >= p * total) return i + 1;
    }
    return m;
}

/* ---- the choice -------------------------------------------------------------------------------------------------- */

typedef struct contest {
    uint64_t base;
    double score;      /* best so far */
    double gate;       /* e^-score with a margin: see enter */
    int32_t id, first; /* best so far; which came first and does not compete again */
} contest;

static void set_best(contest *c, int32_t id, double score)
{
    c->id = id;
    c->score = score;
    c->gate = pawl__exp(-score) * 1.0001;
}

/* Lets a token compete; the result does not depend on the order. Most tokens cost a hash and no logarithm:
 * -ln u >= 1 - u, so d + g > score needs 1 - u < e^(d - score), and step[bin] is an upper bound of e^d. */
static void enter(const pawl_sampler *s, contest *c, int32_t id, double d)
{
    if (d < c->score - NOISE_REACH) return;
    double u = noise_uniform(c->base, id);
    if (1.0 - u > s->step[bin_of(d)] * c->gate) return;
    double score = d + gumbel_of(u);
    if (score > c->score || (score == c->score && id < c->id)) set_best(c, id, score);
}

/* All tokens of a block compete. First their hashes alone, against the bound of `enter` for the block's best token: few pass. */
static void enter_block(const pawl_sampler *s, contest *c, int64_t block, double max, double inv_t, double least)
{
    double top = ((double)s->tops[block] - max) * inv_t;
    if (!(top >= least) || top < c->score - NOISE_REACH) return;
    double bound = s->step[bin_of(top)] * c->gate;
    /* u >= 1 - bound, as the integer that u is made of; rounded down twice, since `enter` decides */
    uint64_t from = bound < 1 ? (uint64_t)((1 - bound) * 0x1p52) : 0;
    from = from > 2 ? from - 2 : 0;
    for (int64_t i = block * BLOCK; i < block_end(s, block); i++) {
        if (pawl__mix64(c->base ^ (uint32_t)i) >> 12 < from) continue;
        double d = below(s, (int32_t)i, max, inv_t);
        if (d >= least && i != c->first) enter(s, c, (int32_t)i, d);
    }
}

pawl_status pawl__sampler_choose(pawl_sampler *s, const float *logits, int64_t position, int32_t *token, pawl_err *err)
{
    const float max = prepare_row(s, logits, position);
    if (max == -INFINITY)
        return pawl__fail(err, PAWL_EINVAL, "no token can be chosen for position %lld: all %lld logits are NaN or -inf",
                          (long long)position, (long long)s->n_valid);
    const int32_t best = first_best(s, max);
    if (s->p.temperature < 1e-5f) {
        *token = best;
        return PAWL_OK;
    }
    const double inv_t = 1.0 / (double)s->p.temperature;
    const double least = s->p.min_p > 0 ? pawl__ln((double)s->p.min_p) : -INFINITY;
    contest c = {.base = noise_base(s->p.seed, position), .first = best};
    set_best(&c, best, gumbel_of(noise_uniform(c.base, best)));
    if (s->filtered) {
        size_t n = keep_best(s, max, inv_t);
        for (size_t i = 1; i < n; i++) { /* keys[0] is best */
            double d = below(s, id_of(s->keys[i]), max, inv_t);
            if (d < least) break;
            enter(s, &c, id_of(s->keys[i]), d);
        }
    } else {
        for (int64_t b = 0, n = blocks(s); b < n; b++) enter_block(s, &c, b, max, inv_t, least);
    }
    *token = c.id;
    return PAWL_OK;
}
