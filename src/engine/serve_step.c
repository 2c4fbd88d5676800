/* The engine's thread: one step after another, until there is nothing to do. */
#include "engine/serve.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

/* ---- who is there ------------------------------------------------------------------------------------------------ */

static int keep_choices(pawl_engine *e, pawl_request *r)
{
    if (e->n_all + r->n > e->cap_all) {
        int64_t cap = 2 * (e->n_all + r->n);
        pawl_choice **all = realloc(e->all, (size_t)cap * sizeof(pawl_choice *));
        if (!all) return 0;
        e->all = all;
        e->cap_all = cap;
    }
    for (int32_t i = 0; i < r->n; i++) e->all[e->n_all++] = &r->choices[i];
    return 1;
}

static void fail_request(pawl_engine *e, pawl_request *r)
{
    pawl_err err;
    pawl__fail(&err, PAWL_ENOMEM, "request: out of memory");
    for (int32_t i = 0; i < r->n; i++) {
        pawl__serve_end_with(&r->choices[i], PAWL_END_ERROR, &err);
        pawl__serve_finish(e, &r->choices[i]);
    }
}

/* At idle all memory is with its pools, or with the prefix cache. */
static void check_pools(pawl_engine *e)
{
    pawl_prefix_stats p = {0};
    if (e->prefix) pawl__prefix_get_stats(e->prefix, &p);
    e->now.pools_checked++;
    if (pawl__slots_free(e->slots) == pawl__slots_total(e->slots) && pawl__kv_holders(e->kv) == p.holds) return;
    e->now.pools_leaked++;
    pawl__log(PAWL_LOG_ERROR, "engine", "pools are not full at idle: slots=%lld/%lld pages_held=%lld expected=%lld",
              (long long)pawl__slots_free(e->slots), (long long)pawl__slots_total(e->slots),
              (long long)pawl__kv_holders(e->kv), (long long)p.holds);
}

static void publish_stats(pawl_engine *e)
{
    pawl_engine_stats *s = &e->now;
    pawl_prefix_stats p = {0};
    if (e->prefix) pawl__prefix_get_stats(e->prefix, &p);
    s->size = sizeof *s;
    s->running = e->n_running;
    s->waiting = e->n_all - e->n_running;
    s->pages_total = pawl__kv_total(e->kv);
    s->pages_used = 0;
    for (int i = 0; i < e->n_running; i++) s->pages_used += e->running[i]->lane.n_pages;
    int64_t taken = s->pages_total - pawl__kv_free(e->kv);
    if (s->pages_used > taken) s->pages_used = taken; /* shared ones were counted more than once */
    s->pages_cached = taken - s->pages_used;
    s->slots_total = pawl__slots_total(e->slots);
    s->slots_used = s->slots_total - pawl__slots_free(e->slots);
    s->prefix_bytes = p.bytes;
    s->prefix_evictions = p.evictions;
    memcpy(s->accept_chance, e->chances.accept, sizeof s->accept_chance);
    pthread_mutex_lock(&e->mutex);
    int64_t refused = e->stats.refused;
    e->stats = *s;
    e->stats.refused = refused;
    pthread_mutex_unlock(&e->mutex);
}

/* Waits for work and takes over what has come; 0 when the engine is to end. */
static int take_incoming(pawl_engine *e, int *abandon)
{
    pthread_mutex_lock(&e->mutex);
    while (!e->incoming && e->n_all == 0 && !e->stopping) {
        if (e->live == 0) pthread_cond_broadcast(&e->idle);
        pthread_cond_wait(&e->wake, &e->mutex);
    }
    pawl_request *r = e->incoming, *turned = NULL;
    e->incoming = NULL;
    *abandon = e->abandon;
    int go_on = r || e->n_all > 0 || !e->stopping;
    pthread_mutex_unlock(&e->mutex);
    while (r) { /* newest first: turn round */
        pawl_request *next = r->next;
        r->next = turned;
        turned = r;
        r = next;
    }
    for (r = turned; r; r = turned) {
        turned = r->next;
        if (!keep_choices(e, r)) fail_request(e, r);
    }
    return go_on;
}

static void look_for_ends(pawl_engine *e, int abandon)
{
    double now = pawl__serve_now();
    for (int64_t i = 0; i < e->n_all; i++) {
        pawl_choice *c = e->all[i];
        pawl_request *r = c->request;
        if (abandon || atomic_load(&r->cancel))
            pawl__serve_end_with(c, PAWL_END_CANCELED, NULL);
        else if (r->opt.deadline > 0 && now - r->came > r->opt.deadline)
            pawl__serve_end_with(c, PAWL_END_DEADLINE, NULL);
    }
}

/* Choices that are ending leave; those that stopped by themselves leave a checkpoint for the next turn of their talk. */
static void reap(pawl_engine *e)
{
    for (int64_t i = 0; i < e->n_all;) {
        pawl_choice *c = e->all[i];
        if (!c->ending) {
            i++;
            continue;
        }
        if (c->state == CHOICE_RUNNING && (c->end == PAWL_END_STOP || c->end == PAWL_END_LENGTH))
            pawl__serve_save(e, c, NULL);
        pawl__serve_leave(e, c, CHOICE_ENDED);
        if (c->index == 0) c->request->prefilled = 1; /* the others need not wait for it any more */
        e->all[i] = e->all[--e->n_all];
        pawl__serve_finish(e, c);
    }
}

/* ---- the step's plan --------------------------------------------------------------------------------------------- */

static int prefilling(const pawl_choice *c)
{
    return c->lane.done < c->goal;
}

/* Prefill of a chunk ends where a checkpoint is wanted: at multiples of the interval, ends of messages and of the prompt. */
static int64_t chunk_end(const pawl_engine *e, pawl_choice *c, int64_t most)
{
    const pawl_lane *l = &c->lane;
    const pawl_request *r = c->request;
    int64_t end = l->done + most < c->goal ? l->done + most : c->goal;
    if (!e->prefix) return end;
    int64_t block = (l->done / e->opt.prefix_interval + 1) * e->opt.prefix_interval;
    if (block < end) end = block;
    while (c->next_end < r->opt.n_message_ends && r->message_ends[c->next_end] <= l->done) c->next_end++;
    if (c->next_end < r->opt.n_message_ends && r->message_ends[c->next_end] < end) end = r->message_ends[c->next_end];
    return end;
}

static void add_to_step(pawl_engine *e, pawl_choice *c)
{
    e->step[e->n_step] = c;
    e->lanes[e->n_step++] = &c->lane;
}

/* Most drafts that a decoding choice may use. */
static int most_drafts(const pawl_engine *e, const pawl_choice *c)
{
    int64_t most = c->limit - c->lane.n - 1;
    if (!e->keep_draft) return 0;
    if (e->opt.draft >= 0 && most > e->opt.draft) most = e->opt.draft;
    if (c->request->opt.draft >= 0 && most > c->request->opt.draft) most = c->request->opt.draft;
    return (int)(most < 0 ? 0 : most < PAWL_MAX_DRAFT ? most : PAWL_MAX_DRAFT);
}

/* Numbers of drafts for the decoding choices, which are the first n of the step. */
static void choose_drafts(pawl_engine *e, int n, int64_t prefill_rows)
{
    enum { WITHOUT_RULE = 3 };
    int64_t most_rows = e->opt.max_rows - prefill_rows, wanted = n;
    int scoring = 0; /* logits of a whole chunk leave no room for those of drafts */
    if (most_rows > e->max_logits - (e->n_running - n)) most_rows = e->max_logits - (e->n_running - n);
    for (int i = 0; i < e->n_running; i++)
        scoring |= e->running[i]->lane.prompt_logprobs > 0 && e->running[i]->lane.rows > 0;
    if (most_rows < n || scoring) most_rows = n;
    for (int i = 0; i < n; i++) {
        pawl_choice *c = e->step[i];
        e->load_lanes[i] = (pawl_load_lane){.chances = &c->chances, .most = most_drafts(e, c)};
    }
    if (!e->opt.no_load_rule) {
        pawl__load_choose(&e->load, e->load_lanes, n, prefill_rows, most_rows);
    } else {
        for (int i = 0; i < n; i++) {
            pawl_load_lane *l = &e->load_lanes[i];
            int fixed = e->opt.draft >= 0 ? e->opt.draft : WITHOUT_RULE;
            l->k = fixed < l->most ? fixed : l->most;
            if (wanted + l->k > most_rows) l->k = (int)(most_rows - wanted);
            wanted += l->k;
        }
    }
    for (int i = 0; i < n; i++) e->step[i]->lane.k = e->load_lanes[i].k;
}

/* Rows for the prefilling choices, oldest first: each gets a chunk while there is room. Returns the rows given. */
static int64_t plan_prefill(pawl_engine *e, int64_t room, int64_t logits)
{
    int64_t given = 0;
    for (int i = 0; i < e->n_running && given < room; i++) {
        pawl_choice *c = e->running[i];
        pawl_lane *l = &c->lane;
        if (!prefilling(c) || c->ending) continue;
        int64_t most = room - given;
        if (l->prompt_logprobs && most > logits) most = logits;
        if (most < 1) continue;
        l->rows = (int32_t)(chunk_end(e, c, most) - l->done);
        l->choose = !c->started && l->done + l->rows == c->goal && c->limit > (int64_t)c->request->opt.n_prompt;
        if (l->prompt_logprobs) logits -= l->rows;
        given += l->rows;
    }
    return given;
}

/* Memory for all that the step will write; who gave way is left out. */
static void reserve_all(pawl_engine *e)
{
    for (int i = 0; i < e->n_running;) {
        pawl_choice *c = e->running[i];
        const pawl_lane *l = &c->lane;
        int64_t end = l->rows > 0 ? l->done + l->rows : prefilling(c) ? l->done : l->done + l->k + 1;
        int before = e->n_running;
        pawl__serve_reserve(e, c, end);
        if (e->n_running == before)
            i++;
        else
            i = 0; /* others left: begin again, what is reserved already costs nothing */
    }
}

static void plan_step(pawl_engine *e)
{
    int decoding = 0;
    e->n_step = 0;
    for (int i = 0; i < e->n_running; i++) {
        pawl_choice *c = e->running[i];
        c->lane.rows = c->lane.k = c->lane.choose = 0;
        if (!prefilling(c)) add_to_step(e, c);
    }
    decoding = e->n_step;
    int64_t room = e->opt.max_rows - decoding, logits = e->max_logits - e->n_running;
    int64_t given = plan_prefill(e, room, logits > 1 ? logits : 1);
    choose_drafts(e, decoding, given);
    reserve_all(e);
    e->n_step = 0;
    for (int i = 0; i < e->n_running; i++)
        if (!prefilling(e->running[i])) add_to_step(e, e->running[i]);
    for (int i = 0; i < e->n_running; i++)
        if (e->running[i]->lane.rows > 0) add_to_step(e, e->running[i]);
}

/* ---- the step ---------------------------------------------------------------------------------------------------- */

static void begin_requests(pawl_engine *e)
{
    for (int i = 0; i < e->n_running; i++) {
        pawl_request *r = e->running[i]->request;
        if (r->began > 0) continue;
        r->began = pawl__serve_now();
        r->usage.queue_seconds = r->began - r->came;
        pthread_mutex_lock(&e->mutex);
        e->queued--;
        pthread_mutex_unlock(&e->mutex);
    }
}

/* Choices whose whole prompt was in the prefix cache: their first token was chosen from the stored logits. */
static void take_known_firsts(pawl_engine *e)
{
    for (int i = 0; i < e->n_running; i++) {
        pawl_choice *c = e->running[i];
        if (c->started || c->ending || prefilling(c)) continue;
        c->request->prefilled = 1;
        if (c->limit == (int64_t)c->request->opt.n_prompt)
            pawl__serve_end_with(c, PAWL_END_LENGTH, NULL);
        else
            pawl__serve_take(e, c);
    }
}

/* After the commit of a prefill chunk: the checkpoint it was cut for. */
static void after_prefill(pawl_engine *e, pawl_choice *c)
{
    pawl_lane *l = &c->lane;
    int at_end = l->done == c->goal && !c->started_before;
    pawl__serve_save(e, c, at_end ? l->last_logits : NULL);
    if (l->done < c->goal) return;
    c->request->prefilled = 1;
    if (c->limit == (int64_t)c->request->opt.n_prompt) pawl__serve_end_with(c, PAWL_END_LENGTH, NULL);
}

static void learn(pawl_engine *e, const pawl_batch_times *t, int drafting)
{
    pawl__cost_learn(&e->load.target, t->rows, t->target_seconds);
    if (t->draft_calls > 0) pawl__cost_learn(&e->load.draft, drafting, t->draft_seconds / t->draft_calls);
    e->now.steps++;
    e->now.rows += t->rows;
    e->now.step_seconds += t->draft_seconds + t->target_seconds;
    e->now.draft_seconds += t->draft_seconds;
}

static void trace_step(pawl_engine *e, const pawl_batch_times *t, double begin)
{
    if (!e->trace) return;
    int decoding = 0;
    for (int i = 0; i < e->n_step; i++) decoding += e->lanes[i]->rows == 0;
    double us = 1e6 * (begin - e->epoch), draft = 1e6 * t->draft_seconds, target = 1e6 * t->target_seconds;
    fprintf(e->trace,
            "{\"name\":\"draft\",\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":%.1f,\"dur\":%.1f,\"args\":{\"calls\":%d}},\n"
            "{\"name\":\"target\",\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":%.1f,\"dur\":%.1f,\"args\":{\"rows\":%d,"
            "\"decoding\":%d,\"prefilling\":%d,\"waiting\":%lld}},\n",
            us, draft, t->draft_calls, us + draft, target, t->rows, decoding, e->n_step - decoding,
            (long long)(e->n_all - e->n_running));
}

static void fail_step(pawl_engine *e, const pawl_err *err)
{
    pawl__log(PAWL_LOG_ERROR, "engine", "a step failed: %s", err->text);
    for (int i = 0; i < e->n_step; i++) pawl__serve_end_with(e->step[i], PAWL_END_ERROR, err);
}

static void run_step(pawl_engine *e)
{
    pawl_err err;
    pawl_batch_times t;
    int drafting = 0;
    double begin = pawl__serve_now();
    for (int i = 0; i < e->n_step; i++) drafting += e->lanes[i]->k > 0;
    pthread_mutex_lock(&e->model->step);
    pawl_status s = pawl__batch_compute(e->batch, e->lanes, e->n_step, &t, &e->model->exec, &err);
    pthread_mutex_unlock(&e->model->step);
    if (s == PAWL_OK) {
        for (int i = 0; i < e->n_step; i++) {
            e->step[i]->started_before = e->step[i]->started;
            if (e->lanes[i]->prompt_logprobs && e->lanes[i]->done + e->lanes[i]->rows == e->step[i]->goal &&
                e->lanes[i]->rows > 0)
                pawl__serve_send_prompt(e, e->step[i]);
            pawl__serve_take(e, e->step[i]);
        }
        pthread_mutex_lock(&e->model->step);
        s = pawl__batch_commit(e->batch, e->lanes, e->n_step, &e->model->exec, &err);
        pthread_mutex_unlock(&e->model->step);
    }
    if (s != PAWL_OK) {
        fail_step(e, &err);
        return;
    }
    learn(e, &t, drafting);
    trace_step(e, &t, begin);
    for (int i = 0; i < e->n_step; i++)
        if (e->lanes[i]->rows > 0) after_prefill(e, e->step[i]);
}

void *pawl__serve_thread(void *engine)
{
    pawl_engine *e = engine;
    int abandon;
    publish_stats(e);
    while (take_incoming(e, &abandon)) {
        look_for_ends(e, abandon);
        reap(e);
        pawl__serve_admit(e);
        begin_requests(e);
        take_known_firsts(e);
        reap(e);
        if (e->n_running > 0) {
            plan_step(e);
            if (e->n_step > 0) run_step(e);
            reap(e);
        }
        if (e->n_all == 0) check_pools(e);
        publish_stats(e);
    }
    return NULL;
}
