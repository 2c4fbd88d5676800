/* Log probabilities of the model's own distribution: the softmax of a row of logits before penalties, temperature and
 * filters. NaN counts as -inf. */
#ifndef PAWL_SAMPLE_LOGPROB_H
#define PAWL_SAMPLE_LOGPROB_H

#include "pawl/engine.h"

/* logits [n]. Returns the log probability of id; top [k] receives the k best tokens, best first, ties to the lowest id. */
float pawl__logprob(const float *logits, int64_t n, int32_t id, pawl_top_logprob *top, int32_t k);

#endif
