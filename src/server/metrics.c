#include "server/metrics.h"

#include <inttypes.h>
#include <stdio.h>

/* vLLM's bounds, so that its dashboards' quantiles stay comparable. */
static const double ttft[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
                              1,     2.5,   5,    7.5,  10,   20,   40,   80,  160,  640, 2560};
static const double inter_token[] = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5,
                                     0.75, 1,     2.5,  5,     7.5, 10,   20,  40,  80};
static const double latency[] = {0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960};
static const double tokens[] = {1,    2,    5,    10,    20,    50,    100,    200,   500,
                                1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000};
#define BOUNDS(a) a, (int)(sizeof a / sizeof *a), {0}, 0

void pawl__metrics_init(pawl_metrics *m)
{
    *m = (pawl_metrics){.ttft = {BOUNDS(ttft)},
                        .inter_token = {BOUNDS(inter_token)},
                        .e2e = {BOUNDS(latency)},
                        .queue = {BOUNDS(latency)},
                        .prefill = {BOUNDS(latency)},
                        .decode = {BOUNDS(latency)},
                        .prompt_tokens = {BOUNDS(tokens)},
                        .generation_tokens = {BOUNDS(tokens)}};
}

void pawl__histogram_add(pawl_histogram *h, double v)
{
    int i = 0;
    while (i < h->n && v > h->bounds[i]) i++;
    h->count[i]++;
    h->sum += v;
}

typedef struct printer {
    pawl_buf *out;
    char label[300]; /* model_name="...",engine="0" */
} printer;

static void head(printer *p, const char *name, const char *type, const char *help)
{
    pawl__buf_printf(p->out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void one(printer *p, const char *name, const char *type, double v, const char *help)
{
    head(p, name, type, help);
    pawl__buf_printf(p->out, "%s{%s} %.15g\n", name, p->label, v);
}

static void count(printer *p, const char *name, int64_t v, const char *help)
{
    one(p, name, "counter", (double)v, help);
}

static void gauge(printer *p, const char *name, double v, const char *help)
{
    one(p, name, "gauge", v, help);
}

static void histogram(printer *p, const char *name, const pawl_histogram *h, const char *help)
{
    uint64_t sum = 0;
    head(p, name, "histogram", help);
    for (int i = 0; i <= h->n; i++) {
        sum += h->count[i];
        if (i < h->n)
            pawl__buf_printf(p->out, "%s_bucket{%s,le=\"%g\"} %" PRIu64 "\n", name, p->label, h->bounds[i], sum);
        else
            pawl__buf_printf(p->out, "%s_bucket{%s,le=\"+Inf\"} %" PRIu64 "\n", name, p->label, sum);
    }
    pawl__buf_printf(p->out, "%s_sum{%s} %.9g\n%s_count{%s} %" PRIu64 "\n", name, p->label, h->sum, name, p->label,
                     sum);
}

static void by_place(printer *p, const char *name, const char *label, const int64_t *v, int n, int first,
                     const char *help)
{
    head(p, name, "counter", help);
    for (int i = 0; i < n; i++)
        pawl__buf_printf(p->out, "%s{%s,%s=\"%d\"} %" PRId64 "\n", name, p->label, label, i + first, v[i]);
}

static void set_label(printer *p, const char *model)
{
    size_t k = (size_t)snprintf(p->label, sizeof p->label, "model_name=\"");
    for (; *model && k < 250; model++) {
        if (*model == '"' || *model == '\\') p->label[k++] = '\\';
        p->label[k++] = *model == '\n' ? ' ' : *model;
    }
    snprintf(p->label + k, sizeof p->label - k, "\",engine=\"0\"");
}

static void print_requests(printer *p, const pawl_metrics *m)
{
    static const char *const reasons[] = {"stop", "length", "abort", "deadline", "error"};
    histogram(p, "vllm:time_to_first_token_seconds", &m->ttft, "From a request's arrival to its first token.");
    histogram(p, "vllm:inter_token_latency_seconds", &m->inter_token, "Between two tokens of a choice.");
    histogram(p, "vllm:e2e_request_latency_seconds", &m->e2e, "From a request's arrival to its end.");
    histogram(p, "vllm:request_queue_time_seconds", &m->queue, "Until the first rows of a request were computed.");
    histogram(p, "vllm:request_prefill_time_seconds", &m->prefill, "From there to the first token.");
    histogram(p, "vllm:request_decode_time_seconds", &m->decode, "From the first token to the end.");
    histogram(p, "vllm:request_prompt_tokens", &m->prompt_tokens, "Tokens of a request's prompt.");
    histogram(p, "vllm:request_generation_tokens", &m->generation_tokens, "Tokens that a request generated.");
    head(p, "vllm:request_success_total", "counter", "Choices by the reason that they ended.");
    for (int i = 0; i <= PAWL_END_ERROR; i++)
        pawl__buf_printf(p->out, "vllm:request_success_total{%s,finished_reason=\"%s\"} %" PRIu64 "\n", p->label,
                         reasons[i], m->finished[i]);
    count(p, "pawl_requests_dropped_total", (int64_t)m->dropped, "Requests whose client went away.");
}

static void print_drafting(printer *p, const pawl_engine_stats *e)
{
    count(p, "vllm:spec_decode_num_drafts_total", e->rounds, "Verifications of the target.");
    count(p, "vllm:spec_decode_num_draft_tokens_total", e->drafted, "Tokens drafted.");
    count(p, "vllm:spec_decode_num_accepted_tokens_total", e->accepted, "Drafted tokens that were accepted.");
    by_place(p, "vllm:spec_decode_num_accepted_tokens_per_pos_total", "position", e->accepted_at, PAWL_MAX_DRAFT, 0,
             "Accepted tokens by place in the chain.");
    by_place(p, "pawl_draft_tokens_per_pos_total", "position", e->drafted_at, PAWL_MAX_DRAFT, 0,
             "Drafted tokens by place in the chain.");
    by_place(p, "pawl_draft_length_total", "drafts", e->chosen, PAWL_MAX_DRAFT + 1, 0,
             "Rounds by the number of drafts chosen for acceptance and load.");
    head(p, "pawl_draft_acceptance", "gauge", "Recent chance of acceptance by place in the chain.");
    for (int i = 0; i < PAWL_MAX_DRAFT; i++)
        pawl__buf_printf(p->out, "pawl_draft_acceptance{%s,position=\"%d\"} %.6g\n", p->label, i, e->accept_chance[i]);
}

static void print_engine(printer *p, const pawl_engine_stats *e)
{
    const double total = e->pages_total > 0 ? (double)e->pages_total : 1;
    gauge(p, "vllm:num_requests_running", (double)e->running, "Sequences that have memory.");
    gauge(p, "vllm:num_requests_waiting", (double)e->waiting, "Sequences that wait.");
    gauge(p, "vllm:kv_cache_usage_perc", (double)e->pages_used / total, "Share of KV pages in use; 1 is all.");
    gauge(p, "vllm:gpu_cache_usage_perc", (double)e->pages_used / total, "The same under vLLM's older name.");
    count(p, "vllm:num_preemptions_total", e->preemptions, "Sequences that gave their memory back and waited.");
    count(p, "vllm:prompt_tokens_total", e->prompt_tokens, "Prompt tokens of all requests.");
    count(p, "vllm:generation_tokens_total", e->generated_tokens, "Tokens generated.");
    count(p, "vllm:prefix_cache_queries_total", e->prefix_lookups, "Tokens looked for in the prefix cache.");
    count(p, "vllm:prefix_cache_hits_total", e->prefix_hits, "Tokens found in the prefix cache.");
    gauge(p, "pawl_kv_pages_total", (double)e->pages_total, "KV pages of 16 positions.");
    gauge(p, "pawl_kv_pages_used", (double)e->pages_used, "KV pages that sequences hold.");
    gauge(p, "pawl_kv_pages_cached", (double)e->pages_cached, "KV pages that the prefix cache alone holds.");
    gauge(p, "pawl_state_slots_total", (double)e->slots_total, "Recurrent-state slots.");
    gauge(p, "pawl_state_slots_used", (double)e->slots_used, "Recurrent-state slots in use.");
    gauge(p, "pawl_prefix_cache_bytes", (double)e->prefix_bytes, "Bytes that the prefix cache holds.");
    count(p, "pawl_prefix_cache_evictions_total", e->prefix_evictions, "Entries thrown out of the prefix cache.");
    count(p, "pawl_requests_total", e->requests, "Requests taken.");
    count(p, "pawl_requests_refused_total", e->refused, "Requests refused, the queue being full.");
    count(p, "pawl_requests_canceled_total", e->canceled, "Requests that were cancelled.");
    count(p, "pawl_requests_failed_total", e->failed, "Requests that failed.");
    count(p, "pawl_steps_total", e->steps, "Steps of the engine.");
    count(p, "pawl_rows_total", e->rows, "Token rows of the target, all steps together.");
    one(p, "pawl_step_seconds_total", "counter", e->step_seconds, "Time in steps.");
    one(p, "pawl_draft_seconds_total", "counter", e->draft_seconds, "Of it, in the draft layer.");
    count(p, "pawl_pools_checked_total", e->pools_checked, "Looks at the pools when the engine went idle.");
    count(p, "pawl_pools_leaked_total", e->pools_leaked, "Those that found less than everything.");
    print_drafting(p, e);
}

void pawl__metrics_print(const pawl_metrics *m, const pawl_engine_stats *e, const char *model, const char *extra,
                         pawl_buf *out)
{
    printer p = {.out = out};
    set_label(&p, model);
    print_engine(&p, e);
    print_requests(&p, m);
    if (extra) pawl__buf_puts(out, extra);
}
