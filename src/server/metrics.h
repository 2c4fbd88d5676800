/* What /metrics shows: the server's own counts of requests and times, and the engine's figures, as Prometheus reads them.
 * Names are vLLM's where the meaning is the same, pawl_* otherwise. One thread writes and reads. */
#ifndef PAWL_SERVER_METRICS_H
#define PAWL_SERVER_METRICS_H

#include <stdint.h>

#include "base/buf.h"
#include "pawl/engine.h"

enum { METRICS_MAX_BUCKETS = 24 };

typedef struct pawl_histogram {
    const double *bounds;
    int n;
    uint64_t count[METRICS_MAX_BUCKETS + 1]; /* the last: above all bounds */
    double sum;
} pawl_histogram;

typedef struct pawl_metrics {
    pawl_histogram ttft, inter_token, e2e, queue, prefill, decode, prompt_tokens, generation_tokens;
    uint64_t finished[PAWL_END_ERROR + 1]; /* choices by how they ended */
    uint64_t dropped;                      /* requests whose client went away */
} pawl_metrics;

void pawl__metrics_init(pawl_metrics *m);
void pawl__histogram_add(pawl_histogram *h, double v);
/* extra: further lines, or NULL. */
void pawl__metrics_print(const pawl_metrics *m, const pawl_engine_stats *e, const char *model, const char *extra,
                         pawl_buf *out);

#endif
