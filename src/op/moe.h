/* Mixture of experts: choosing experts, and the expert MLPs in three layouts.
 *
 * moe_route: logits [m][experts] -> ids and weights [m][top_k], best first; NaN logits count as -inf; ties go to the
 * lowest id; ids are always distinct and in range; where the sum to divide by is 0 the weights are 0. Methods (names and
 * numbers as in flashinfer's enum):
 *   0 Default          softmax over all, then top-k, no renormalisation
 *   1 Renormalize      top-k of the logits, softmax over the chosen
 *   2 DeepSeekV3       s = sigmoid(l); choose by s + bias inside the best `groups_kept` of `groups` (a group's score is the
 *                      sum of its two best); weight = s (without bias), over the chosen sum with `renorm`, times scale
 *   3 Llama4           top-1, weight = sigmoid(l)
 *   4 RenormalizeNaive softmax over all, top-k, over the chosen sum (Qwen3 and Qwen3.5)
 *   5 TopK             top-k, weight = the raw logit
 *   6 SigmoidRenorm    sigmoid, top-k, over the chosen sum
 *   7 MiniMax2         choose by sigmoid + bias, weight = sigmoid without bias / (sum + 1e-20)
 *   8 Sigmoid          sigmoid, top-k
 *   9 TopKSigmoid      top-k of the logits, then sigmoid
 * 0, 1, 3, 4, 5, 6, 8 and 9 ignore a bias. top_k <= experts at run time.
 *
 * Experts, y = down(act(gate x) * up x), or down(act(gate x)) when not gated (then `up` is unused). Each linear keeps
 * op/linear.h's order of additions; biases follow their linear. With PAWL_QF_ACT_INT8 (moe only) the input rows and the rows
 * between the two halves, after the activation, are quantised like any linear's input.
 *   moe          y[t] = sum over k in order of w[t][k] * expert ids[t][k] (x[t]): acc = fma(w, e, acc) from 0; ids outside
 *                [0, experts) are skipped
 *   moe_masked   [experts][max][h]: rows below counts[e] are computed; rows at or past it may hold anything and are never
 *                read; they are left as they were, or set to zero with zero_padding. 0 <= counts[e] <= max, else
 *                PAWL_EINVAL. The input is not modified.
 *   moe_grouped  rows sorted by expert: expert[t] is the expert of row t, -1 a padding row, not read and not written */
#ifndef PAWL_OP_MOE_H
#define PAWL_OP_MOE_H

#include "op/act.h"
#include "quant/quant.h"

typedef enum pawl_moe_method {
    PAWL_ROUTE_DEFAULT,
    PAWL_ROUTE_RENORMALIZE,
    PAWL_ROUTE_DEEPSEEK_V3,
    PAWL_ROUTE_LLAMA4,
    PAWL_ROUTE_RENORMALIZE_NAIVE,
    PAWL_ROUTE_TOPK,
    PAWL_ROUTE_SIGMOID_RENORM,
    PAWL_ROUTE_MINIMAX2,
    PAWL_ROUTE_SIGMOID,
    PAWL_ROUTE_TOPK_SIGMOID,
    PAWL_ROUTE_METHODS
} pawl_moe_method;

/* "Default", "Renormalize", ... as above. */
const char *pawl__moe_method_name(pawl_moe_method m);

typedef struct pawl_moe_route_args {
    int64_t m, experts, top_k;
    const float *logits; /* [m][logits_row] */
    int64_t logits_row;
    const float *bias; /* [experts] or NULL */
    pawl_moe_method method;
    int64_t groups, groups_kept; /* DeepSeekV3; 1, 1 without groups */
    int renorm;                  /* DeepSeekV3 */
    float scale;                 /* DeepSeekV3's routed_scaling_factor; 1 */
    int32_t *ids;                /* [m][top_k] */
    float *weights;              /* [m][top_k] */
} pawl_moe_route_args;

typedef struct pawl_expert {
    pawl_wmat gate, up, down;                     /* [I, H], [I, H], [H, I]; up.data is NULL when not gated */
    const float *gate_bias, *up_bias, *down_bias; /* [I], [I], [H] or NULL */
} pawl_expert;

typedef struct pawl_experts {
    const pawl_expert *e; /* [n] */
    int64_t n, h, i;
    pawl_act act;
    int gated;
} pawl_experts;

typedef struct pawl_moe_args {
    int64_t m, top_k;
    const pawl_experts *experts;
    const float *x;       /* [m][h] */
    const int32_t *ids;   /* [m][top_k] */
    const float *weights; /* [m][top_k] */
    float *y;             /* [m][h]; must not overlap x */
} pawl_moe_args;

typedef struct pawl_moe_masked_args {
    int64_t max;
    const pawl_experts *experts;
    const float *x; /* [experts][max][h] */
    const int32_t *counts;
    float *y; /* [experts][max][h] */
    int zero_padding;
} pawl_moe_masked_args;

typedef struct pawl_moe_grouped_args {
    int64_t m;
    const pawl_experts *experts;
    const float *x;        /* [m][h] */
    const int32_t *expert; /* [m] */
    float *y;              /* [m][h] */
} pawl_moe_grouped_args;

#endif
