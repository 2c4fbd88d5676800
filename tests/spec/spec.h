/* What the tests of speculation share: a run of pawl_generate kept in a record, prompts, and the comparison of what two
 * sessions have computed. */
#ifndef PAWL_TESTS_SPEC_H
#define PAWL_TESTS_SPEC_H

#include "golden/golden.h"

#include "spec/seq.h"

enum { MAX_IDS = 1024, MAX_TEXT = 16384, MAX_PROMPTS = 64 };

typedef struct record {
    int32_t ids[MAX_IDS];
    int drafted[MAX_IDS];
    int64_t position[MAX_IDS];
    int n;
    char text[MAX_TEXT];
    size_t n_text;
    int stop_after;       /* the callback ends the run after so many tokens; 0: never */
    pawl_session *cancel; /* with stop_after: cancelled instead */
    pawl_result result;
    pawl_status status;
} record;

static inline int take_token(const pawl_token *t, void *user)
{
    record *r = user;
    assert_true(r->n < MAX_IDS && r->n_text + t->n_text < MAX_TEXT);
    r->drafted[r->n] = t->drafted;
    r->position[r->n] = t->position;
    r->ids[r->n++] = t->id;
    if (t->n_text) memcpy(r->text + r->n_text, t->text, t->n_text);
    r->n_text += t->n_text;
    if (!r->stop_after || r->n < r->stop_after) return 0;
    if (!r->cancel) return 1;
    pawl_session_cancel(r->cancel);
    return 0;
}

static inline pawl_sampling greedy_sampling(void)
{
    pawl_sampling s = PAWL_INIT(pawl_sampling);
    s.top_p = 1;
    s.repetition_penalty = 1;
    s.has_seed = 1;
    return s;
}

static inline pawl_generate_options generate_options(const pawl_sampling *s, int draft, int64_t max_tokens)
{
    pawl_generate_options o = PAWL_INIT(pawl_generate_options);
    o.sampling = s;
    o.draft = draft;
    o.max_tokens = max_tokens;
    o.ignore_eos = 1;
    return o;
}

/* Generates; fails the test on any status but OK and ECANCELED, and checks what holds for every run: the counters agree
 * with the tokens that came, and these are the sequence's last. */
static inline void generate(pawl_session *s, const pawl_generate_options *o, record *r)
{
    pawl_err err;
    size_t before, n;
    pawl_session_tokens(s, &before);
    r->n = 0;
    r->n_text = 0;
    r->result = PAWL_INIT(pawl_result);
    r->status = pawl_generate(s, o, take_token, r, &r->result, &err);
    if (r->status != PAWL_OK && r->status != PAWL_ECANCELED) fail_msg("pawl_generate: %s", err.text);
    const int32_t *ids = pawl_session_tokens(s, &n);
    int drafted = 0;
    for (int i = 0; i < r->n; i++) {
        assert_int_equal(r->position[i], before + (size_t)i);
        drafted += r->drafted[i];
    }
    assert_int_equal(n, before + (size_t)r->n);
    assert_memory_equal(ids + before, r->ids, (size_t)r->n * sizeof *ids);
    assert_int_equal(r->result.stats.generated_tokens, r->n);
    assert_int_equal(r->result.stats.accepted, drafted);
    assert_true(r->result.stats.drafted >= r->result.stats.accepted);
}

static inline pawl_session *session_of(pawl_model *m, int64_t context, int32_t chunk)
{
    pawl_err err;
    pawl_session *s;
    pawl_session_options o = PAWL_INIT(pawl_session_options);
    o.context = context;
    o.chunk = chunk;
    check_ok(pawl_session_create(m, &o, &s, &err), &err);
    return s;
}

static inline void feed(pawl_session *s, const int32_t *ids, int n)
{
    pawl_err err;
    check_ok(pawl_session_feed(s, ids, (size_t)n, &err), &err);
}

/* Ends the test with the first difference between two runs. */
static inline void same_run(const char *what, const record *a, const record *b)
{
    for (int i = 0; i < a->n && i < b->n; i++)
        if (a->ids[i] != b->ids[i]) fail_msg("%s: token %d is %d, expected %d", what, i, b->ids[i], a->ids[i]);
    if (a->n != b->n) fail_msg("%s: %d tokens, expected %d", what, b->n, a->n);
    if (a->result.finish != b->result.finish)
        fail_msg("%s: finish %d, expected %d", what, (int)b->result.finish, (int)a->result.finish);
    if (a->n_text != b->n_text || memcmp(a->text, b->text, a->n_text) != 0)
        fail_msg("%s: text \"%.*s\", expected \"%.*s\"", what, (int)b->n_text, b->text, (int)a->n_text, a->text);
}

static inline int below(uint64_t *rng, int n)
{
    return (int)(pawl__rng_next(rng) % (uint64_t)n);
}

/* The numeric policy of every model that open_model opens: the last argument of the program when it is "int8". */
static const char *activations;

static inline int take_activations(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[argc - 1], "int8") != 0) return argc;
    activations = argv[argc - 1];
    return argc - 1;
}

static inline pawl_model *open_model(const char *path, const pawl_model_options *o)
{
    pawl_err err;
    pawl_model *m;
    pawl_model_options mine = PAWL_INIT(pawl_model_options);
    pawl_kernel_options k = PAWL_INIT(pawl_kernel_options);
    if (o) mine = *o;
    if (mine.kernels) k = *mine.kernels;
    k.activations = activations;
    mine.kernels = &k;
    check_ok(pawl_model_open(path, &mine, &m, &err), &err);
    return m;
}

/* ---- prompts ---- */

typedef struct prompt {
    int32_t ids[320];
    int n;
} prompt;

static inline void text_prompt(const pawl_model *m, const char *text, prompt *p)
{
    pawl_err err;
    int32_t *ids;
    size_t n;
    check_ok(pawl_tokenize(m, text, strlen(text), PAWL_TOKENIZE_SPECIAL, &ids, &n, &err), &err);
    assert_in_range(n, 1, 320);
    memcpy(p->ids, ids, n * sizeof *ids);
    p->n = (int)n;
    pawl_free(ids);
}

static inline void random_prompt(const pawl_model *m, uint64_t *rng, int n, prompt *p)
{
    pawl_model_info info = PAWL_INIT(pawl_model_info);
    pawl_model_get_info(m, &info);
    p->n = n;
    for (int i = 0; i < n; i++) p->ids[i] = below(rng, (int)info.vocab);
}

/* Prompt i of an unbounded list: openings and questions for a model with a tokenizer, else random ids. */
static inline void make_prompt(const pawl_model *m, int i, prompt *p)
{
    static const char *const openings[] = {
        "Once upon a time a miller's daughter found a silver key in the snow.",
        "The ship had been at sea for forty days when",
        "\"Who is there?\" asked the old man, and",
        "It was a dark night, and the wind",
        "Chapter 1\n\n",
        "The king said to his three sons:",
        "A",
        "In the middle of the forest there stood a little house with a red roof, and in it lived a cat who could read.",
        "She opened the letter. \u201cDear sister,\u201d it began,",
        "1, 2, 3, 4, 5,",
        "Der Wolf und die sieben jungen Gei\u00dflein. \u00c9t\u00e9, na\u00efve, \u6771\u4eac",
        "    for (int i = 0; i < n; i++)\n",
        "The dog ran. The dog ran. The dog ran.",
        "Long ago, before the mountains were named, two brothers set out to find the well at the end of the world, and "
        "they "
        "took with them a loaf of bread, a rope, a lantern, and a little grey donkey that had never once in its life "
        "done "
        "what it was told. On the first evening they came to an inn.",
        "\n\n\n",
        "\"Yes,\" said the Doctor, \"and now",
    };
    enum { OPENINGS = sizeof openings / sizeof openings[0] };
    pawl_model_info info = PAWL_INIT(pawl_model_info);
    pawl_model_get_info(m, &info);
    if (!info.has_tokenizer) {
        uint64_t rng = 1000 + (uint64_t)i;
        random_prompt(m, &rng, 1 + below(&rng, 60), p);
        return;
    }
    char text[512];
    if (i % 2 == 0 && i / 2 < OPENINGS)
        snprintf(text, sizeof text, "%s", openings[i / 2]);
    else
        snprintf(text, sizeof text,
                 "<|im_start|>user\nWhat is %d %c %d?<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
                 3 + 7 * i % 90, i % 3 ? '+' : '-', 2 + 5 * i % 40);
    text_prompt(m, text, p);
}

/* ---- what a session has computed ---- */

/* Element i of the key or value of a position's head. */
static inline float cached(const pawl_session *s, int64_t layer, int64_t position, int64_t head, int64_t i, int values)
{
    const pawl_net_dims *d = pawl__net_dims(s->model->net);
    const pawl_kv *kv = pawl__net_kv(s->st);
    const float *base = values ? pawl__kv_values(kv, layer) : pawl__kv_keys(kv, layer);
    int64_t page = s->seq->pages[position / PAWL_KV_PAGE];
    int64_t slot = position % PAWL_KV_PAGE, at = values ? slot * d->head_dim + i : i * PAWL_KV_PAGE + slot;
    return base[(page * d->kv_heads + head) * PAWL_KV_PAGE * d->head_dim + at];
}

static inline void same_keys(const char *what, const pawl_session *a, const pawl_session *b, int64_t layer, int64_t n)
{
    const pawl_net_dims *d = pawl__net_dims(a->model->net);
    for (int64_t p = 0; p < n; p++)
        for (int64_t h = 0; h < d->kv_heads; h++)
            for (int64_t i = 0; i < 2 * d->head_dim; i++) {
                int v = (int)(i % 2);
                float x = cached(a, layer, p, h, i / 2, v), y = cached(b, layer, p, h, i / 2, v);
                if (memcmp(&x, &y, sizeof x) != 0)
                    fail_msg("%s: %s of layer %lld, position %lld, head %lld differ", what, v ? "values" : "keys",
                             (long long)layer, (long long)p, (long long)h);
            }
}

/* Recurrent states, convolution windows, keys and values of everything that both have computed, bit for bit. */
static inline void same_caches(const char *what, const pawl_session *a, const pawl_session *b)
{
    const pawl_net_dims *d = pawl__net_dims(a->model->net);
    assert_int_equal(a->seq->done, b->seq->done);
    size_t state = (size_t)(d->nv * d->dk * d->dv), conv = (size_t)(d->conv_channels * 3);
    for (int64_t l = 0; l < d->rec_layers; l++) {
        const pawl_slots *x = pawl__net_slots(a->st), *y = pawl__net_slots(b->st);
        if (memcmp(pawl__slots_state(x, l) + (size_t)a->seq->slot * state,
                   pawl__slots_state(y, l) + (size_t)b->seq->slot * state, state * 4) != 0)
            fail_msg("%s: recurrent state of layer %lld differs", what, (long long)l);
        if (memcmp(pawl__slots_conv(x, l) + (size_t)a->seq->slot * conv,
                   pawl__slots_conv(y, l) + (size_t)b->seq->slot * conv, conv * 4) != 0)
            fail_msg("%s: convolution window of layer %lld differs", what, (long long)l);
    }
    int64_t target = d->kv_layers - (d->draft_layers ? 1 : 0);
    for (int64_t l = 0; l < target; l++) same_keys(what, a, b, l, a->seq->done);
    int64_t drafted = a->seq->draft_done < b->seq->draft_done ? a->seq->draft_done : b->seq->draft_done;
    if (d->draft_layers) same_keys(what, a, b, target, drafted);
}

#endif
