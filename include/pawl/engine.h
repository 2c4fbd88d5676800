/* pawl: many requests at once. The engine's public C API.
 *
 * An engine runs one thread that computes one step after another: a ragged batch of prefill chunks, decode rows and drafted
 * tokens of all sequences that have memory. Requests come from any thread; what they produce comes back as events on the
 * engine's thread. What a request produces depends on the model, the request and its seed alone: not on the other
 * requests, the draft length, the prefix cache, or a preemption.
 *
 *     pawl_engine_create -> pawl_engine_submit ... events ... pawl_request_free -> pawl_engine_destroy
 *
 * Text is UTF-8. Option structs begin with their own size (PAWL_INIT). */
#ifndef PAWL_ENGINE_H
#define PAWL_ENGINE_H

#include "pawl/pawl.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pawl_engine pawl_engine;
typedef struct pawl_request pawl_request;

/* ---- engines ----------------------------------------------------------------------------------------------------- */

typedef struct pawl_engine_options {
    size_t size;
    int64_t context;         /* most tokens of one sequence; 0: min(the model's, 8192) */
    int32_t max_seqs;        /* sequences that run at once (recurrent-state slots); 0: as memory allows, 64 at most */
    int64_t kv_tokens;       /* token positions that the KV cache can hold; 0: from the machine's memory */
    int32_t max_rows;        /* token rows of one step; 0: 256 */
    int64_t prefix_bytes;    /* the prefix cache's budget; 0: an eighth of the machine's memory; -1: no prefix cache */
    int32_t prefix_interval; /* positions between saved recurrent states, a multiple of 16; 0: 64 */
    int draft;               /* most drafts of a sequence and step: 0 to PAWL_MAX_DRAFT, or PAWL_DRAFT_AUTO. With 0 the
                                  draft layer is not run at all */
    int no_load_rule;        /* 1: drafts are not reduced when the batch is compute-bound */
    int32_t max_queue;       /* requests that may wait; 0: 256 */
    const char *trace;       /* a file that gets each step in Chrome's trace format; NULL: none */
} pawl_engine_options;

/* Starts the engine's thread. The model is borrowed; sessions of the model may be used beside the engine. opt may be NULL.
 * PAWL_ENOMEM says what did not fit. */
PAWL_API pawl_status pawl_engine_create(pawl_model *m, const pawl_engine_options *opt, pawl_engine **out,
                                        pawl_err *err);
/* Cancels what is left (each request still gets its last event), ends the thread, frees the engine. Handles of requests
 * stay valid until they are freed. Not from within an event. *e may be NULL. */
PAWL_API void pawl_engine_destroy(pawl_engine **e);
/* Takes no new requests from now on and waits until all are done, `seconds` at most; what is left then is cancelled.
 * PAWL_ETIMEDOUT when something had to be cancelled. Not from within an event. */
PAWL_API pawl_status pawl_engine_drain(pawl_engine *e, double seconds, pawl_err *err);

/* The options that hold, with all that was left to the engine filled in. info->size must be set. */
PAWL_API void pawl_engine_get_options(const pawl_engine *e, pawl_engine_options *out);

/* ---- requests ---------------------------------------------------------------------------------------------------- */

enum { PAWL_MAX_CHOICES = 128, PAWL_MAX_TOP_LOGPROBS = 20 };

typedef struct pawl_request_options {
    size_t size;
    const int32_t *prompt;
    size_t n_prompt;
    const int32_t *message_ends; /* lengths of the prompt at which a later prompt may go another way (ends of messages),
                                    rising: recurrent states are kept there for the prefix cache */
    size_t n_message_ends;
    const char *tenant;            /* whose prefixes it may share (an API key, say); NULL: those without one */
    const pawl_sampling *sampling; /* NULL: the checkpoint's defaults. Choice i > 0 uses the seed mix64(seed + i) */
    int32_t n;                     /* choices, 1 to PAWL_MAX_CHOICES; 0: 1 */
    int64_t max_tokens;            /* of each choice; 0: none (the prompt is computed and cached); -1: to the context */
    int64_t min_tokens;            /* end tokens and stop tokens are forbidden before so many */
    int draft;                     /* at most so many drafts a step, or PAWL_DRAFT_AUTO */
    int ignore_eos;                /* the checkpoint's end tokens do not end it */
    const char *const *stop;       /* texts that end a choice */
    size_t n_stop;
    int include_stop;        /* the stop text that ended it is part of the text */
    const int32_t *stop_ids; /* tokens that end a choice, beside the checkpoint's */
    size_t n_stop_ids;
    int keep_special;         /* special tokens appear in the text */
    int logprobs;             /* 1: each token comes with its log probability */
    int32_t top_logprobs;     /* and so many best others, 0 to PAWL_MAX_TOP_LOGPROBS */
    int prompt_logprobs;      /* 1: the prompt's tokens too, as PAWL_EVENT_PROMPT (the prefix cache is not read then) */
    int32_t priority;         /* larger first; equal ones in the order they came. Who waits long is raised */
    double deadline;          /* seconds from now; what was produced until then stays. 0: none */
    int64_t think_budget;     /* with think_end: after so many tokens without it, think_end is forced. -1: no limit */
    const int32_t *think_end; /* the tokens that end thinking, which began with the answer */
    size_t n_think_end;
} pawl_request_options;

typedef struct pawl_top_logprob {
    int32_t id;
    float logprob;
} pawl_top_logprob;

typedef struct pawl_event_token {
    int32_t id;
    int64_t position; /* in the sequence */
    const char *text; /* what became certain with this token: whole characters, perhaps none; not terminated */
    size_t n_text;
    int drafted;
    float logprob; /* of the model's distribution before penalties, temperature and filters; with logprobs */
    const pawl_top_logprob *top; /* [n_top], best first */
    int32_t n_top;
} pawl_event_token;

typedef enum pawl_end {
    PAWL_END_STOP,     /* an end token, a stop token or a stop text */
    PAWL_END_LENGTH,   /* max_tokens or the context's end */
    PAWL_END_CANCELED, /* by pawl_request_cancel, or the engine was destroyed */
    PAWL_END_DEADLINE,
    PAWL_END_ERROR /* see the event's err */
} pawl_end;

typedef enum pawl_event_kind {
    PAWL_EVENT_PROMPT, /* tokens of the prompt with their log probabilities (the first has none: NaN) */
    PAWL_EVENT_TOKENS, /* one step's tokens of one choice, 1 or more */
    PAWL_EVENT_END,    /* one choice has ended */
    PAWL_EVENT_DONE    /* all choices have ended: the request's last event */
} pawl_event_kind;

/* What a request has cost so far; complete in PAWL_EVENT_DONE. */
typedef struct pawl_usage {
    int64_t prompt_tokens;
    int64_t cached_tokens;    /* of the prompt, found in the prefix cache by the first choice */
    int64_t generated_tokens; /* of all choices */
    int64_t rounds;           /* verifications */
    int64_t drafted, accepted;
    int64_t drafted_at[PAWL_MAX_DRAFT], accepted_at[PAWL_MAX_DRAFT]; /* by place in the chain */
    int64_t preempted;      /* times that a choice gave its memory back and waited */
    double queue_seconds;   /* until its first rows were computed */
    double prefill_seconds; /* from there to its first token */
    double decode_seconds;  /* from there to the end */
} pawl_usage;

/* Valid during the call only. */
typedef struct pawl_event {
    pawl_event_kind kind;
    int32_t choice;                 /* PROMPT, DONE: 0 */
    const pawl_event_token *tokens; /* PROMPT, TOKENS */
    size_t n_tokens;
    pawl_end end;            /* END; DONE: that of the last choice to end */
    const char *stop_text;   /* END by a stop text: which; else NULL */
    int32_t stop_id;         /* END by a token: which; else -1 */
    const pawl_err *err;     /* END with PAWL_END_ERROR */
    const pawl_usage *usage; /* never NULL */
    uint64_t seed;           /* that the request uses */
} pawl_event;

/* Called on the engine's thread, which waits: it must not block. It may call pawl_request_cancel and pawl_request_free, and
 * pawl_engine_submit. */
typedef void (*pawl_event_fn)(const pawl_event *event, void *user);

/* Copies everything that opt points to. *out is the caller's, to be freed with pawl_request_free. Events may come before
 * this call returns. PAWL_EINVAL: the request makes no sense or can never fit, with the field's name; PAWL_EBUSY: the queue
 * is full or the engine drains; nothing happens then. */
PAWL_API pawl_status pawl_engine_submit(pawl_engine *e, const pawl_request_options *opt, pawl_event_fn on_event,
                                        void *user, pawl_request **out, pawl_err *err);
/* From any thread: the request ends before the next step. Its END and DONE events still come. */
PAWL_API void pawl_request_cancel(pawl_request *r);
/* From any thread, also from within an event, once for each request. Cancels a request that has not ended. When it
 * returns, no event of the request is running or will come, except the one that it is called from; so do not hold a lock
 * that the event function takes. Nulls the caller's pointer. */
PAWL_API void pawl_request_free(pawl_request **r);

/* ---- figures ----------------------------------------------------------------------------------------------------- */

typedef struct pawl_engine_stats {
    size_t size;
    int64_t running, waiting; /* sequences (a request of n choices is n of them) */
    int64_t pages_used,
        pages_total;      /* KV pages of 16 positions; those that only the prefix cache holds are not "used" */
    int64_t pages_cached; /* held by the prefix cache alone */
    int64_t slots_used, slots_total; /* recurrent states */
    int64_t requests, finished_stop, finished_length, canceled, expired, failed, refused;
    int64_t preemptions;
    int64_t prompt_tokens, cached_tokens, generated_tokens;
    int64_t prefix_lookups, prefix_hits;    /* in tokens: asked for, found */
    int64_t prefix_bytes, prefix_evictions; /* bytes held now; states and leaves thrown out so far */
    int64_t steps, rows;                    /* rows: of the target, all steps together */
    double step_seconds, draft_seconds;     /* time in steps; of it, in the draft layer */
    int64_t rounds, drafted, accepted;
    int64_t drafted_at[PAWL_MAX_DRAFT], accepted_at[PAWL_MAX_DRAFT];
    int64_t chosen[PAWL_MAX_DRAFT + 1];   /* rounds by the number of drafts chosen */
    double accept_chance[PAWL_MAX_DRAFT]; /* recent, by place in the chain */
    int64_t pools_checked,
        pools_leaked; /* looks at the pools when the engine went idle; those that found less than all */
} pawl_engine_stats;

/* From any thread. stats->size must be set. */
PAWL_API void pawl_engine_get_stats(pawl_engine *e, pawl_engine_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
