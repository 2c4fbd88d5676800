/* Scoring given tokens: the model's logits into a safetensors file, or the tokens' log-probabilities. Runs on a session of
 * the caller, which is reset. */
#ifndef PAWL_TOOL_SCORE_H
#define PAWL_TOOL_SCORE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "pawl/pawl.h"

/* Writes f32 "logits" [n, vocab] to path and, with_draft, "mtp_logits" [n-1, vocab] of the draft layer, whose row t comes
 * from the hidden state of token t and the embedding of token t+1. The file appears only when it is complete; memory is
 * bounded by a chunk of rows. vocab: the model's (pawl_model_get_info). */
pawl_status pawl__score_write(pawl_session *s, int64_t vocab, const int32_t *ids, size_t n, int with_draft,
                              const char *path, pawl_err *err);

/* logprob[t] = natural log of the probability of ids[t] after the tokens before it, t = 1 .. n-1; logprob[0] is 0: nothing
 * predicts the first token. At least two ids. */
pawl_status pawl__score_logprobs(pawl_session *s, int64_t vocab, const int32_t *ids, size_t n, double *logprob,
                                 pawl_err *err);

#endif
