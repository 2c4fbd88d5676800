#include "sample/logprob.h"

#include <math.h>

#include "base/mathfn.h"

/* Puts the k largest logits into top, as logits yet. */
static void find_top(const float *logits, int64_t n, pawl_top_logprob *top, int32_t k)
{
    int32_t have = 0;
    for (int32_t i = 0; i < n; i++) {
        float l = logits[i] == logits[i] ? logits[i] : -INFINITY;
        if (have == k && !(l > top[k - 1].logprob)) continue;
        int32_t at = have < k ? have++ : k - 1;
        for (; at > 0 && l > top[at - 1].logprob; at--) top[at] = top[at - 1];
        top[at] = (pawl_top_logprob){i, l};
    }
}

float pawl__logprob(const float *logits, int64_t n, int32_t id, pawl_top_logprob *top, int32_t k)
{
    float max = -INFINITY;
    for (int64_t i = 0; i < n; i++) max = logits[i] > max ? logits[i] : max;
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        if (logits[i] > -INFINITY) sum += pawl__exp((double)logits[i] - (double)max);
    double lse = (double)max + pawl__ln(sum);
    if (k > 0) find_top(logits, n, top, k);
    for (int32_t i = 0; i < k; i++) top[i].logprob = (float)((double)top[i].logprob - lse);
    float l = logits[id] == logits[id] ? logits[id] : -INFINITY;
    return (float)((double)l - lse);
}
