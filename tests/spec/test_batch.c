/* test_batch MODEL SEQUENCES STEPS: ragged batches that mix prefill, decode, verification with random wrong drafts and any
 * number of accepted rows, idle sequences and padding. Every row's hidden state and logits, and in the end all keys,
 * values, recurrent states and convolution windows, have the bits of decoding each sequence alone, row by row. Slots and
 * pages that belong to nobody are poisoned first and must stay as they are. */
#include "spec/spec.h"

static const char *model_path;
static int n_seqs, n_steps;
static pawl_model *model;
static const pawl_net_dims *dims;

enum { MAX_ROWS_A_SEQ = 9, SPARE_SLOTS = 3, SPARE_PAGES = 5, MOST_TOKENS = 64 };

typedef struct seq {
    int32_t ids[MOST_TOKENS + 16];
    int32_t pos; /* rows that count */
    int32_t slot;
} seq;

typedef struct world {
    pawl_net_state *st;
    int32_t pages_a_seq;
    int32_t *pages; /* [n_seqs][pages_a_seq] */
    seq *seqs;
    float *hidden, *logits; /* alone: [n_seqs][MOST_TOKENS][...] */
    float *draft_hidden;    /* alone: [n_seqs][MOST_TOKENS][hidden] */
} world;

static const uint32_t MARK = 0x7fa12345u; /* a signalling NaN */

static void mark(float *p, int64_t n)
{
    for (int64_t i = 0; i < n; i++) memcpy(p + i, &MARK, 4);
}

static void still_marked(const char *what, const float *p, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (memcmp(p + i, &MARK, 4) != 0) fail_msg("%s was written", what);
}

static int64_t state_size(void)
{
    return dims->nv * dims->dk * dims->dv;
}

/* Applies to all memory that no sequence owns. */
static void each_spare(const world *w, void (*fn)(const char *, float *, int64_t))
{
    int64_t page = dims->kv_heads * PAWL_KV_PAGE * dims->head_dim, conv = dims->conv_channels * 3;
    int64_t slots = pawl__slots_total(pawl__net_slots(w->st)), pages = pawl__kv_total(pawl__net_kv(w->st));
    char *used = calloc((size_t)(slots + pages), 1);
    for (int i = 0; i < n_seqs; i++) used[w->seqs[i].slot] = 1;
    for (int i = 0; i < n_seqs * w->pages_a_seq; i++) used[slots + w->pages[i]] = 1;
    for (int64_t i = 0; i < slots; i++)
        for (int64_t l = 0; l < dims->rec_layers && !used[i]; l++) {
            fn("another slot's state", pawl__slots_state(pawl__net_slots(w->st), l) + i * state_size(), state_size());
            fn("another slot's window", pawl__slots_conv(pawl__net_slots(w->st), l) + i * conv, conv);
        }
    for (int64_t i = 0; i < pages; i++)
        for (int64_t l = 0; l < dims->kv_layers && !used[slots + i]; l++) {
            fn("another page's keys", pawl__kv_keys(pawl__net_kv(w->st), l) + i * page, page);
            fn("another page's values", pawl__kv_values(pawl__net_kv(w->st), l) + i * page, page);
        }
    free(used);
}

static void mark_spare(const char *what, float *p, int64_t n)
{
    (void)what;
    mark(p, n);
}

static void check_spare(const char *what, float *p, int64_t n)
{
    still_marked(what, p, n);
}

static void make_world(world *w, int poison)
{
    pawl_err err;
    w->pages_a_seq = (MOST_TOKENS + 16) / PAWL_KV_PAGE;
    int32_t rows = n_seqs * (MAX_ROWS_A_SEQ + 1);
    pawl_net_state_options o = {.max_rows = rows,
                                .max_verify = rows,
                                .poison = poison,
                                .n_pages = (int64_t)n_seqs * w->pages_a_seq + SPARE_PAGES,
                                .n_slots = n_seqs + SPARE_SLOTS};
    check_ok(pawl__net_state_create(model->net, &o, &w->st, &err), &err);
    w->pages = malloc((size_t)(n_seqs * w->pages_a_seq) * sizeof *w->pages);
    check_ok(pawl__kv_take(pawl__net_kv(w->st), n_seqs * w->pages_a_seq, w->pages), &err);
    w->seqs = calloc((size_t)n_seqs, sizeof *w->seqs);
    for (int i = 0; i < n_seqs; i++) w->seqs[i].slot = pawl__slots_take(pawl__net_slots(w->st));
    w->hidden = malloc((size_t)(n_seqs * MOST_TOKENS * dims->hidden) * 4);
    w->draft_hidden = malloc((size_t)(n_seqs * MOST_TOKENS * dims->hidden) * 4);
    w->logits = malloc((size_t)(n_seqs * MOST_TOKENS * dims->vocab) * 4);
    each_spare(w, mark_spare);
}

static void free_world(world *w)
{
    pawl__net_state_destroy(&w->st);
    free(w->pages);
    free(w->seqs);
    free(w->hidden);
    free(w->draft_hidden);
    free(w->logits);
}

/* Row by row, one sequence at a time, up to where the batched run came. */
static void run_alone(world *w, const seq *like)
{
    pawl_err err;
    int32_t row0 = 0;
    for (int i = 0; i < n_seqs; i++) {
        memcpy(w->seqs[i].ids, like[i].ids, sizeof like[i].ids);
        for (int32_t p = 0; p < like[i].pos; p++) {
            int64_t at = (int64_t)i * MOST_TOKENS + p;
            pawl_seg seg = {.rows = 1, .pos0 = p, .slot = w->seqs[i].slot};
            pawl_forward f = {.m = 1,
                              .ids = &w->seqs[i].ids[p],
                              .segs = &seg,
                              .n_segs = 1,
                              .pages = w->pages + i * w->pages_a_seq,
                              .hidden = w->hidden + at * dims->hidden,
                              .logit_rows = &row0,
                              .n_logits = 1,
                              .logits = w->logits + at * dims->vocab};
            check_ok(pawl__net_forward(model->net, w->st, &f, &model->exec, &err), &err);
            if (!dims->draft_layers) continue;
            pawl_forward d = {.m = 1,
                              .ids = &w->seqs[i].ids[p + 1],
                              .segs = &seg,
                              .n_segs = 1,
                              .pages = f.pages,
                              .hidden_in = f.hidden,
                              .hidden = w->draft_hidden + at * dims->hidden};
            check_ok(pawl__net_draft(model->net, w->st, &d, &model->exec, &err), &err);
        }
        w->seqs[i].pos = like[i].pos;
    }
}

/* One batched step; what its rows gave is kept beside them, to be compared once the plain run has been made. */
static void run_batch(world *w, uint64_t *rng)
{
    pawl_err err;
    int32_t most = n_seqs * (MAX_ROWS_A_SEQ + 1), m = 0, n_segs = 0, logs = 0;
    pawl_seg *segs = calloc((size_t)(2 * n_seqs), sizeof *segs), *commit = calloc((size_t)n_seqs, sizeof *commit);
    pawl_seg *draft = calloc((size_t)(2 * n_seqs), sizeof *draft);
    int32_t *ids = malloc((size_t)most * sizeof *ids), *rows = malloc((size_t)most * sizeof *rows);
    int32_t *draft_ids = malloc((size_t)most * sizeof *ids);
    int *owner = malloc((size_t)(2 * n_seqs) * sizeof *owner), *valid = malloc((size_t)(2 * n_seqs) * sizeof *valid);
    int n_commit = 0;
    for (int i = 0; i < n_seqs; i++) {
        seq *q = &w->seqs[i];
        int kind = below(rng, 10), room = MOST_TOKENS - q->pos;
        int n = kind < 2   ? 0
                : kind < 4 ? 1
                : kind < 6 ? 1 + below(rng, MAX_ROWS_A_SEQ)
                           : 1 + below(rng, MAX_ROWS_A_SEQ);
        int verify = kind >= 6 || kind == 1;
        if (n > room) n = room;
        int accept = verify ? below(rng, n + 1) : n;
        pawl_seg g = {.row0 = m,
                      .rows = n,
                      .pos0 = q->pos,
                      .slot = q->slot,
                      .page0 = i * w->pages_a_seq,
                      .verify = verify,
                      .log0 = verify ? logs : 0};
        for (int r = 0; r < n; r++) ids[m + r] = r < accept ? q->ids[q->pos + r] : below(rng, (int)dims->vocab);
        if (verify) {
            commit[n_commit] = g;
            commit[n_commit].rows = accept;
            commit[n_commit++].row0 = 0;
            logs += n;
        }
        owner[n_segs] = i;
        valid[n_segs] = accept;
        segs[n_segs++] = g;
        m += n;
        if (below(rng, 8)) continue;
        /* Padding: rows of no sequence. */
        pawl_seg pad = {.row0 = m, .rows = 1, .slot = -1};
        ids[m] = below(rng, (int)dims->vocab);
        owner[n_segs] = -1;
        valid[n_segs] = 0;
        segs[n_segs++] = pad;
        m++;
    }
    for (int32_t r = 0; r < m; r++) rows[r] = r;
    float *hidden = malloc((size_t)(m * dims->hidden + 1) * 4), *logits = malloc((size_t)(m * dims->vocab + 1) * 4);
    float *out = malloc((size_t)(m * dims->hidden + 1) * 4);
    pawl_forward f = {.m = m,
                      .ids = ids,
                      .segs = segs,
                      .n_segs = n_segs,
                      .pages = w->pages,
                      .hidden = hidden,
                      .logit_rows = rows,
                      .n_logits = m,
                      .logits = logits};
    check_ok(pawl__net_forward(model->net, w->st, &f, &model->exec, &err), &err);
    for (int s = 0, at = 0; s < n_commit; s++) {
        commit[s].row0 = at;
        at += commit[s].rows;
    }
    check_ok(pawl__net_commit(model->net, w->st, commit, n_commit, &model->exec, &err), &err);
    if (dims->draft_layers) {
        for (int s = 0; s < n_segs; s++) {
            draft[s] = segs[s];
            draft[s].verify = 0;
            for (int r = 0; r < segs[s].rows; r++) {
                int32_t p = segs[s].pos0 + r + 1;
                draft_ids[segs[s].row0 + r] = r < valid[s] ? w->seqs[owner[s]].ids[p] : below(rng, (int)dims->vocab);
            }
        }
        pawl_forward d = {.m = m,
                          .ids = draft_ids,
                          .segs = draft,
                          .n_segs = n_segs,
                          .pages = w->pages,
                          .hidden_in = hidden,
                          .hidden = out};
        check_ok(pawl__net_draft(model->net, w->st, &d, &model->exec, &err), &err);
    }
    for (int s = 0; s < n_segs; s++)
        for (int r = 0; r < valid[s]; r++) {
            int64_t at = (int64_t)owner[s] * MOST_TOKENS + segs[s].pos0 + r, row = segs[s].row0 + r;
            memcpy(w->hidden + at * dims->hidden, hidden + row * dims->hidden, (size_t)dims->hidden * 4);
            memcpy(w->draft_hidden + at * dims->hidden, out + row * dims->hidden, (size_t)dims->hidden * 4);
            memcpy(w->logits + at * dims->vocab, logits + row * dims->vocab, (size_t)dims->vocab * 4);
        }
    for (int s = 0; s < n_segs; s++)
        if (owner[s] >= 0) w->seqs[owner[s]].pos += valid[s];
    free(segs);
    free(commit);
    free(draft);
    free(ids);
    free(rows);
    free(draft_ids);
    free(owner);
    free(valid);
    free(hidden);
    free(logits);
    free(out);
}

static void same_rows(const char *what, int i, const float *alone, const float *batch, int64_t rows, int64_t width)
{
    const int64_t from = (int64_t)i * MOST_TOKENS * width;
    for (int64_t r = 0; r < rows; r++)
        if (memcmp(alone + from + r * width, batch + from + r * width, (size_t)width * 4) != 0)
            fail_msg("sequence %d, position %lld: %s differ", i, (long long)r, what);
}

static void same_worlds(const world *a, const world *b)
{
    int64_t conv = dims->conv_channels * 3, page = dims->kv_heads * PAWL_KV_PAGE * dims->head_dim;
    for (int i = 0; i < n_seqs; i++) {
        int64_t x = a->seqs[i].slot, y = b->seqs[i].slot;
        same_rows("hidden states", i, a->hidden, b->hidden, a->seqs[i].pos, dims->hidden);
        same_rows("logits", i, a->logits, b->logits, a->seqs[i].pos, dims->vocab);
        if (dims->draft_layers)
            same_rows("the draft layer's rows", i, a->draft_hidden, b->draft_hidden, a->seqs[i].pos, dims->hidden);
        for (int64_t l = 0; l < dims->rec_layers; l++) {
            assert_memory_equal(pawl__slots_state(pawl__net_slots(a->st), l) + x * state_size(),
                                pawl__slots_state(pawl__net_slots(b->st), l) + y * state_size(),
                                (size_t)state_size() * 4);
            assert_memory_equal(pawl__slots_conv(pawl__net_slots(a->st), l) + x * conv,
                                pawl__slots_conv(pawl__net_slots(b->st), l) + y * conv, (size_t)conv * 4);
        }
        for (int64_t l = 0; l < dims->kv_layers; l++)
            for (int32_t p = 0; p < a->seqs[i].pos; p++)
                for (int64_t h = 0; h < dims->kv_heads; h++) {
                    int64_t head = h * PAWL_KV_PAGE * dims->head_dim, in = head + p % PAWL_KV_PAGE * dims->head_dim;
                    int64_t at = i * a->pages_a_seq + p / PAWL_KV_PAGE;
                    size_t n = (size_t)dims->head_dim * 4;
                    const float *ka = pawl__kv_keys(pawl__net_kv(a->st), l) + a->pages[at] * page + head;
                    const float *kb = pawl__kv_keys(pawl__net_kv(b->st), l) + b->pages[at] * page + head;
                    for (int64_t e = p % PAWL_KV_PAGE; e < PAWL_KV_PAGE * dims->head_dim; e += PAWL_KV_PAGE)
                        assert_memory_equal(&ka[e], &kb[e], 4);
                    assert_memory_equal(pawl__kv_values(pawl__net_kv(a->st), l) + a->pages[at] * page + in,
                                        pawl__kv_values(pawl__net_kv(b->st), l) + b->pages[at] * page + in, n);
                }
    }
}

static void random_batches(void **state)
{
    (void)state;
    uint64_t rng = check_seed("random_batches");
    world alone, batch;
    make_world(&alone, 0);
    make_world(&batch, 1);
    for (int i = 0; i < n_seqs; i++)
        for (int j = 0; j < MOST_TOKENS + 16; j++) batch.seqs[i].ids[j] = below(&rng, (int)dims->vocab);
    for (int s = 0; s < n_steps; s++) run_batch(&batch, &rng);
    run_alone(&alone, batch.seqs);
    same_worlds(&alone, &batch);
    each_spare(&batch, check_spare);
    each_spare(&alone, check_spare);
    int64_t rows = 0;
    for (int i = 0; i < n_seqs; i++) rows += batch.seqs[i].pos;
    printf("%d sequences, %d steps, %lld rows kept\n", n_seqs, n_steps, (long long)rows);
    free_world(&alone);
    free_world(&batch);
}

/* An idle rank's step. */
static void no_rows(void **state)
{
    (void)state;
    pawl_err err;
    world w;
    make_world(&w, 1);
    pawl_seg none[2] = {{.slot = w.seqs[0].slot}, {.slot = w.seqs[0].slot, .verify = 1}};
    float nothing[1] = {0};
    for (int32_t n = 0; n <= 2; n++) {
        pawl_forward f = {.segs = none, .n_segs = n, .pages = w.pages, .hidden = nothing, .hidden_in = nothing};
        check_ok(pawl__net_forward(model->net, w.st, &f, &model->exec, &err), &err);
        check_ok(pawl__net_commit(model->net, w.st, none, n, &model->exec, &err), &err);
        if (dims->draft_layers) check_ok(pawl__net_draft(model->net, w.st, &f, &model->exec, &err), &err);
    }
    const float *s = pawl__slots_state(pawl__net_slots(w.st), 0) + w.seqs[0].slot * state_size();
    for (int64_t i = 0; i < state_size(); i++) assert_true(s[i] == 0.0f);
    each_spare(&w, check_spare);
    free_world(&w);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: test_batch MODEL SEQUENCES STEPS\n");
        return 2;
    }
    model_path = argv[1];
    n_seqs = atoi(argv[2]);
    n_steps = atoi(argv[3]);
    model = open_model(model_path, NULL);
    dims = pawl__net_dims(model->net);
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_batches), cmocka_unit_test(no_rows)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    pawl_model_close(&model);
    return failed;
}
