/* One sequence and its speculation: prefill, drafting by the MTP layer, verification by the target, commit.
 *
 * Words: `n` tokens are known; the target has computed positions 0 .. done-1 (keys, values and recurrent states are
 * committed); the draft layer has final keys and values for 0 .. draft_done-1. A position p of the draft layer needs the
 * target's hidden state at p and the token at p + 1. The draft layer is lazy: hidden states wait in `hidden` until a round
 * drafts or the room is used up, and then all that wait go through it in batches of up to `rows`. A sequence that does not draft pays
 * at most once for every `room` positions. Drafts never change what is emitted: each emitted token is chosen from the target's logits at its
 * position, and a draft is accepted when it equals that choice.
 *
 * Owned by the engine's session; one thread at a time. No allocation after create. */
#ifndef PAWL_SPEC_SEQ_H
#define PAWL_SPEC_SEQ_H

#include "model/net.h"
#include "sample/sample.h"

enum { PAWL_SEQ_MAX_DRAFT = 8 };

typedef struct pawl_seq {
    const pawl_net *net;
    pawl_net_state *st;
    int64_t context;
    int32_t chunk;   /* most rows of a prefill step */
    int64_t rows;    /* most rows of any step */
    int64_t room;    /* most hidden states that wait for the draft layer */
    int32_t *tokens; /* [context] */
    int64_t n, done, draft_done;
    int cold; /* positions were computed without the draft layer following: it cannot draft before a rewind */
    const atomic_int *cancel; /* nonzero ends a prefill step between two layers; NULL, or the owner's to set */
    int32_t slot;             /* recurrent slot */
    int32_t *pages;
    int64_t n_pages;
    float *hidden;       /* [room][H]: the target's hidden states of positions draft_done .. done-1 */
    float *draft_hidden; /* [rows][H]: the draft layer's output */
    float *logits;       /* [max draft + 1][vocab]: the last step's */
    int32_t *logit_rows; /* 0, 1, 2, ... */
} pawl_seq;

/* context: most tokens; st must have slots and pages for it. */
pawl_status pawl__seq_create(const pawl_net *net, pawl_net_state *st, int64_t context, int32_t chunk, pawl_seq **out,
                             pawl_err *err);
/* Gives pages and slot back. */
void pawl__seq_destroy(pawl_seq **s);
/* Back to no tokens. */
void pawl__seq_reset(pawl_seq *s);
/* Forgets what was computed, keeps the tokens. */
void pawl__seq_rewind(pawl_seq *s);

/* True when the draft layer's cache is whole, so that it may draft from here on; otherwise pawl__seq_rewind first. */
int pawl__seq_draft_warm(const pawl_seq *s);

/* Takes KV pages for positions 0 .. end-1. PAWL_EBUSY when the pool has too few. */
pawl_status pawl__seq_reserve(pawl_seq *s, int64_t end, pawl_err *err);

/* Computes up to `chunk` of the tokens that are known but not yet done. keep_draft: the hidden states are kept for the draft layer. When the last
 * known token has been computed, its logits are row 0 of s->logits. PAWL_ECANCELED when s->cancel ended it: some layers'
 * recurrent states have gone on then and the others have not, so the sequence is rewound. */
pawl_status pawl__seq_prefill(pawl_seq *s, int keep_draft, pawl_exec *ex, pawl_err *err);

/* Drafts k tokens (1 .. PAWL_SEQ_MAX_DRAFT) after the last known one. Needs n == done + 1 and a warm draft layer. Each is
 * added to the sampler while later ones are chosen and taken back at the end, so that penalties are exact at each
 * position. Overwrites s->logits. */
pawl_status pawl__seq_draft(pawl_seq *s, pawl_sampler *sampler, int k, int32_t *drafts, pawl_exec *ex, pawl_err *err);

typedef struct pawl_round {
    int drafted, accepted;
    int64_t
        caught_up; /* positions that went through the draft layer to catch up; at most drafted + 1 round after round */
    double draft_seconds, verify_seconds, commit_seconds;
} pawl_round;
/* Told of each emitted token in order; drafted: the draft layer had proposed it. Nonzero ends the round after this token. */
typedef int (*pawl_emit_fn)(void *user, int32_t token, int drafted);

/* One round. Needs n == done + 1: exactly the last emitted token is not computed yet. Drafts up to k tokens (0: plain
 * decoding; keep_draft then still keeps what the draft layer needs to catch up), verifies, and emits 1 to k + 1 tokens, which are
 * appended to s->tokens and added to the sampler. n + k + 1 <= context is the caller's duty. */
pawl_status pawl__seq_round(pawl_seq *s, pawl_sampler *sampler, int k, int keep_draft, pawl_emit_fn emit, void *user,
                            pawl_round *stats, pawl_exec *ex, pawl_err *err);

#endif
