/* Many sequences in one step: prefill chunks, decoding and the verification of drafts in one ragged batch, drafting for all
 * sequences together.
 *
 * Words, for each lane (a sequence that has a recurrent slot): `n` tokens are known; the target has computed positions
 * 0 .. done-1; the draft layer has final keys and values for 0 .. draft_done-1. A position p of the draft layer needs the
 * target's hidden state at p and the token at p + 1; the hidden states of positions draft_done .. done-1 wait in `hidden`.
 *
 * A step is two calls: pawl__batch_compute chooses each lane's next tokens, pawl__batch_commit keeps as many of them as the
 * caller wants. Owned by the engine's thread; no allocation after create. */
#ifndef PAWL_SPEC_BATCH_H
#define PAWL_SPEC_BATCH_H

#include "model/net.h"
#include "pawl/engine.h"
#include "sample/sample.h"

enum {
    PAWL_LANE_OUT = PAWL_MAX_DRAFT + 1, /* most tokens a step */
    PAWL_LANE_PENDING = 16              /* most positions that the draft layer trails behind */
};

/* Forced ends of thinking: tokens [prompt, prompt + budget) without ids[0] are followed by all of ids. */
typedef struct pawl_think {
    int64_t prompt, budget; /* budget -1: off */
    const int32_t *ids;
    int64_t n;
} pawl_think;

typedef struct pawl_lane {
    /* the caller's */
    int32_t *tokens; /* [context] */
    int64_t n;
    pawl_sampler *sampler;
    pawl_think think;
    int logprobs; /* wants out_logprob, and with top > 0 out_top */
    int32_t top;
    pawl_top_logprob *out_top; /* [PAWL_LANE_OUT][top] */
    int64_t prompt_logprobs;   /* > 0: prefill rows' logits give prompt_lp[p] and prompt_top[p] of tokens p below it */
    float *prompt_lp;
    pawl_top_logprob *prompt_top;

    /* the batch's */
    int64_t done, draft_done;
    int32_t slot;
    int32_t *pages; /* [pages of a context] */
    int64_t n_pages;
    float *hidden; /* [PAWL_LANE_PENDING][H] */

    /* what the caller asks of a step */
    int32_t rows; /* prefill: positions done .. done+rows-1; 0: decode, which needs n == done + 1 */
    int choose;   /* prefill: the last row's logits give the next token (done + rows == n) */
    int k;        /* decode: tokens to draft */

    /* what the step gives */
    pawl_status status; /* of choosing; err says more */
    pawl_err err;
    int n_out;
    int32_t out[PAWL_LANE_OUT];
    uint8_t out_drafted[PAWL_LANE_OUT];
    float out_logprob[PAWL_LANE_OUT];
    int accepted;
    const float *last_logits; /* of the last prefill row when `choose`; until the next step */

    int32_t drafts[PAWL_MAX_DRAFT];
    int32_t row0, logit0; /* in the step's batch */
} pawl_lane;

typedef struct pawl_batch pawl_batch;

typedef struct pawl_batch_options {
    int32_t max_lanes, max_rows;
    int32_t max_logits; /* rows of logits a step: at least max_lanes */
    int64_t n_valid;    /* tokens that can be chosen */
    int64_t context;
    int keep_draft; /* the draft layer runs and follows prefill */
} pawl_batch_options;

/* net and st are borrowed; st needs max_rows rows, of which all may be verified, and max_lanes slots. */
pawl_status pawl__batch_create(const pawl_net *net, pawl_net_state *st, const pawl_batch_options *opt, pawl_batch **out,
                               pawl_err *err);
void pawl__batch_destroy(pawl_batch **b);

/* Takes a slot, with no pages and nothing done; PAWL_EBUSY when none is free. */
pawl_status pawl__batch_enter(pawl_batch *b, pawl_lane *lane);
/* Gives slot and pages back. The lane keeps its tokens. */
void pawl__batch_leave(pawl_batch *b, pawl_lane *lane);

typedef struct pawl_batch_times {
    double draft_seconds, target_seconds; /* draft: choosing drafts; not the draft layer's following of prefill */
    int32_t rows, draft_calls;
} pawl_batch_times;

/* Runs the step for all lanes; each must have pages for positions up to done + max(rows, k + 1) - 1, and the rows together
 * must fit. A failure other than a lane's own `status` leaves all lanes' states between two positions. */
pawl_status pawl__batch_compute(pawl_batch *b, pawl_lane *const *lanes, int n, pawl_batch_times *times, pawl_exec *ex,
                                pawl_err *err);
/* Ends the step: lanes keep their first n_out tokens (which the caller may have lowered, to 1 at least), already in
 * `tokens`. Lanes with n_out == 0 that decoded (their status says why) are left as they are, to be given up. */
pawl_status pawl__batch_commit(pawl_batch *b, pawl_lane *const *lanes, int n, pawl_exec *ex, pawl_err *err);

/* Brings the draft layer up to all positions but the last, so that the lane's pages are whole. */
pawl_status pawl__batch_settle(pawl_batch *b, pawl_lane *lane, pawl_exec *ex, pawl_err *err);

/* The target's hidden state of position done - 1 (done > 0); of no meaning without keep_draft. */
const float *pawl__batch_last_hidden(const pawl_batch *b, const pawl_lane *lane);

/* Chooses a lane's next token from stored logits of its last position (n == done). */
void pawl__batch_choose_first(pawl_batch *b, pawl_lane *lane, const float *logits);

#endif
