/* What a run has cost, for people and for programs. */
#include "cli/cli.h"

#include <stdio.h>

const char *cli_finish_name(pawl_finish f)
{
    switch (f) {
    case PAWL_FINISH_STOP:
        return "stop";
    case PAWL_FINISH_LENGTH:
        return "length";
    case PAWL_FINISH_CALLBACK:
        return "callback";
    case PAWL_FINISH_CANCELED:
        return "canceled";
    }
    return "unknown";
}

static double per(double n, double d)
{
    return d > 0 ? n / d : 0;
}

void cli_stats_print(const pawl_result *r)
{
    const pawl_stats *s = &r->stats;
    const char *dim = cli_may_colour(2) ? "\033[2m" : "", *off = *dim ? "\033[0m" : "";
    fprintf(stderr, "%sprompt     %lld tokens in %.3f s, %.1f tokens/s\n", dim, (long long)s->prompt_tokens,
            s->prefill_seconds, per((double)s->prompt_tokens, s->prefill_seconds));
    fprintf(stderr, "generated  %lld tokens in %.3f s, %.1f tokens/s; finish %s, seed %llu\n",
            (long long)s->generated_tokens, s->decode_seconds, per((double)s->generated_tokens, s->decode_seconds),
            cli_finish_name(r->finish), (unsigned long long)r->seed);
    if (s->drafted > 0) {
        fprintf(stderr, "drafts     %lld of %lld accepted (%.1f %%), %.2f tokens a round; by place",
                (long long)s->accepted, (long long)s->drafted, 100 * per((double)s->accepted, (double)s->drafted),
                per((double)(s->accepted + s->rounds), (double)s->rounds));
        for (int i = 0; i < PAWL_MAX_DRAFT && s->drafted_at[i] > 0; i++)
            fprintf(stderr, " %.0f %%", 100 * per((double)s->accepted_at[i], (double)s->drafted_at[i]));
        fputc('\n', stderr);
    }
    fputs(off, stderr);
}

/* null where nothing was drafted: no rate is not a rate of zero. */
static json_t *rate(int64_t accepted, int64_t drafted)
{
    return drafted > 0 ? json_real((double)accepted / (double)drafted) : json_null();
}

json_t *cli_stats_json(const pawl_stats *s)
{
    json_t *places = json_array();
    for (int i = 0; i < PAWL_MAX_DRAFT && s->drafted_at[i] > 0; i++)
        json_array_append_new(places, json_pack("{s:I,s:I,s:o}", "drafted", (json_int_t)s->drafted_at[i], "accepted",
                                                (json_int_t)s->accepted_at[i], "acceptance",
                                                rate(s->accepted_at[i], s->drafted_at[i])));
    return json_pack("{s:I,s:I,s:f,s:f,s:f,s:f,s:I,s:I,s:I,s:o,s:f,s:o}", "prompt_tokens", (json_int_t)s->prompt_tokens,
                     "generated_tokens", (json_int_t)s->generated_tokens, "prefill_seconds", s->prefill_seconds,
                     "decode_seconds", s->decode_seconds, "prefill_tokens_per_second",
                     per((double)s->prompt_tokens, s->prefill_seconds), "tokens_per_second",
                     per((double)s->generated_tokens, s->decode_seconds), "rounds", (json_int_t)s->rounds, "drafted",
                     (json_int_t)s->drafted, "accepted", (json_int_t)s->accepted, "acceptance",
                     rate(s->accepted, s->drafted), "tokens_per_round",
                     per((double)(s->accepted + s->rounds), (double)s->rounds), "by_place", places);
}

json_t *cli_seed_json(uint64_t seed)
{
    if (seed <= 1ull << 53) return json_integer((json_int_t)seed);
    char text[24]; /* readers with double numbers would round it */
    snprintf(text, sizeof text, "%llu", (unsigned long long)seed);
    return json_string(text);
}
