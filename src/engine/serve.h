/* The records of the engine that serves many requests, for the serve_*.c files.
 *
 * Threads: callers touch `mutex`, `incoming`, `stats` and a request's `cancel`; all else is the engine thread's. A request's
 * `deliver` lock is held during its events; whoever holds it may take `mutex`, never the other way. */
#ifndef PAWL_ENGINE_SERVE_H
#define PAWL_ENGINE_SERVE_H

#include <stdio.h>

#include "cache/prefix.h"
#include "engine/engine.h"
#include "engine/stream.h"
#include "pawl/engine.h"
#include "sched/load.h"
#include "sched/ticket.h"
#include "spec/batch.h"

typedef struct pawl_choice {
    pawl_request *request;
    int32_t index;
    pawl_ticket ticket;
    enum { CHOICE_WAITING, CHOICE_RUNNING, CHOICE_ENDED } state;
    pawl_lane lane;     /* tokens NULL: never admitted yet */
    int64_t goal;       /* prefill ends here */
    int64_t limit;      /* tokens at which it ends with PAWL_END_LENGTH */
    int64_t saved;      /* length of its longest checkpoint in the prefix cache */
    size_t next_end;    /* of the request's message ends */
    int started;        /* its first token was chosen */
    int started_before; /* before this step */
    pawl_chances chances;
    pawl_stream stream;
    pawl_buf text; /* of the event in the making */
    pawl_event_token event_tokens[PAWL_LANE_OUT];
    /* how it ended; CHOICE_ENDED is set when it has given everything back */
    int ending;
    pawl_end end;
    int32_t stop_id;
    const char *stop_text;
    pawl_err err;
} pawl_choice;

struct pawl_request {
    atomic_int refs, cancel;
    pthread_mutex_t deliver; /* recursive */
    pawl_event_fn fn;        /* NULL: the caller has let go */
    void *user;
    pawl_request *next; /* incoming */

    /* the copied options */
    pawl_request_options opt;
    pawl_sampling sampling;
    char *tenant;
    int32_t *prompt, *message_ends, *stop_ids, *think_end, *ends; /* ends: the tokens that end a choice */
    size_t n_ends;
    char **stop;
    pawl_logit_bias *bias;

    pawl_choice *choices; /* [n] */
    int32_t n, n_ended;
    int prefilled; /* the first choice's prompt is computed: the others find it in the prefix cache */
    float *prompt_lp;
    pawl_top_logprob *prompt_top;
    pawl_usage usage;
    double came, began, first; /* submitted, first rows computed, first token */
};

struct pawl_engine {
    pawl_model *model;
    pawl_engine_options opt;
    char *trace_path;
    FILE *trace;
    double epoch;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake, idle; /* work came; nothing is left */
    pawl_request *incoming;    /* newest first */
    int64_t queued;            /* requests of which no choice was admitted */
    int64_t live;              /* requests not done */
    uint64_t order;
    int draining, stopping, abandon; /* abandon: cancel all that is there */
    pawl_engine_stats stats;         /* what callers see, as of the last step */

    pawl_net_state *st;
    pawl_kv *kv;
    pawl_slots *slots;
    pawl_batch *batch;
    pawl_prefix *prefix; /* NULL: none */
    int keep_draft;
    int32_t max_logits;
    pawl_load load;
    pawl_chances chances; /* of all, for the figures and for new choices */
    pawl_choice **all;    /* not ended */
    int64_t n_all, cap_all;
    pawl_choice **running; /* [max_seqs], oldest first */
    int n_running;
    pawl_lane **lanes;  /* [max_seqs]: of the step */
    pawl_choice **step; /* [max_seqs]: the same */
    int n_step;
    pawl_load_lane *load_lanes; /* [max_seqs] */
    int32_t *found;             /* pages of a context */
    pawl_engine_stats now;      /* the engine thread's own */
};

double pawl__serve_now(void);

/* serve_request.c */
void pawl__request_unref(pawl_request *r);

/* serve_admit.c: memory. */
/* Admits who waits, as far as memory goes. */
void pawl__serve_admit(pawl_engine *e);
/* Pages for positions below end: takes, makes room, preempts others. 0: the choice itself was preempted. */
int pawl__serve_reserve(pawl_engine *e, pawl_choice *c, int64_t end);
/* A checkpoint after `done` tokens, if the prefix cache wants one. */
void pawl__serve_save(pawl_engine *e, pawl_choice *c, const float *logits);
/* Gives slot and pages back; the choice waits (and keeps its tokens) or has ended. */
void pawl__serve_leave(pawl_engine *e, pawl_choice *c, int state);

/* serve_deliver.c: what callers get. */
/* Takes the step's tokens of a choice: cuts them where it ends (lane.n_out and lane.n) and sends them. */
void pawl__serve_take(pawl_engine *e, pawl_choice *c);
void pawl__serve_end_with(pawl_choice *c, pawl_end end, const pawl_err *err);
void pawl__serve_send_prompt(pawl_engine *e, pawl_choice *c);
/* Sends the last event or events of a choice that is ending and has left. */
void pawl__serve_finish(pawl_engine *e, pawl_choice *c);

/* serve_step.c */
void *pawl__serve_thread(void *engine);

#endif
