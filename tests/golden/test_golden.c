/* test_golden MODEL GOLDEN: whole-model results against vectors that other implementations made: logits, hidden states,
 * router choices, recurrent states, greedy continuations, drafts. What the file holds is what is tested. */
#include "golden/golden.h"

static const char *model_path, *golden_path;
static pawl_model *model;
static pawl_safetensors *golden;
static const char *prefixes[8];
static int n_prefixes;

static const double BOUND = 1e-4;

static char name_buf[128];
static const char *tensor(const char *prefix, const char *what)
{
    snprintf(name_buf, sizeof name_buf, "%s.%s", prefix, what);
    return name_buf;
}

static int setup(void **state)
{
    (void)state;
    static const char *const all[] = {"p0", "p1", "p2", "p3", "p4", "p5", "prompt0", "prompt1"};
    pawl_err err;
    check_ok(pawl__safetensors_open(golden_path, &golden, &err), &err);
    check_ok(pawl_model_open(model_path, NULL, &model, &err), &err);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (pawl__safetensors_find(golden, tensor(all[i], "input_ids"))) prefixes[n_prefixes++] = all[i];
    return n_prefixes ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    pawl_model_close(&model);
    pawl__safetensors_close(&golden);
    return 0;
}

/* Compares the last rows of `got` with whichever of the tensors is there. */
static void compare_tail(const char *prefix, const char *what, const float *got, int64_t n, int64_t vocab)
{
    int64_t rows, width;
    float *want = golden_floats(golden, tensor(prefix, what), &rows, &width);
    if (!want) return;
    assert_int_equal(width, vocab);
    assert_true(rows <= n);
    char label[64];
    snprintf(label, sizeof label, "%s.%s", prefix, what);
    golden_close(label, got + (n - rows) * vocab, want, rows, vocab, BOUND);
    free(want);
}

static void compare_top8(const char *prefix, const float *logits, int64_t n, int64_t vocab)
{
    int64_t rows, width, count;
    int32_t *ids = golden_ints(golden, tensor(prefix, "top8_ids"), &count);
    if (!ids) return;
    float *want = golden_floats(golden, tensor(prefix, "top8_logits"), &rows, &width);
    assert_int_equal(rows, n);
    float *got = malloc((size_t)(rows * 8) * sizeof *got);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < 8; j++) got[r * 8 + j] = logits[r * vocab + ids[r * 8 + j]];
    char label[64];
    snprintf(label, sizeof label, "%s.top8", prefix);
    golden_close(label, got, want, rows, 8, BOUND);
    free(got);
    free(want);
    free(ids);
}

static void logits_of_all_prompts(void **state)
{
    (void)state;
    for (int i = 0; i < n_prefixes; i++) {
        int64_t n;
        int32_t *ids = golden_ints(golden, tensor(prefixes[i], "input_ids"), &n);
        scores s = score_ids(model, ids, n, 0, 0);
        static const char *const tails[] = {"logits", "logits_last8", "logits_last16"};
        for (size_t t = 0; t < 3; t++) compare_tail(prefixes[i], tails[t], s.logits, n, s.vocab);
        compare_top8(prefixes[i], s.logits, n, s.vocab);
        free_scores(&s);
        free(ids);
    }
}

/* ---- inner results, seen through the probe ---- */

typedef struct inner {
    int64_t rows, hidden, layers, experts, top_k;
    float *hid;    /* [layers + 2][rows][hidden] */
    float *router; /* [layers][rows][experts] */
    float *ids, *weights;
    float *mtp;
} inner;

static void record(void *user, const char *what, int64_t layer, const void *data, int64_t rows, int64_t width)
{
    inner *r = user;
    size_t bytes = (size_t)(rows * width) * 4;
    if (!strcmp(what, "mtp")) memcpy(r->mtp, data, bytes);
    if (layer >= r->layers && strcmp(what, "norm") != 0) return;
    if (!strcmp(what, "embed")) memcpy(r->hid, data, bytes);
    if (!strcmp(what, "layer")) memcpy(r->hid + (layer + 1) * rows * width, data, bytes);
    if (!strcmp(what, "norm")) memcpy(r->hid + (r->layers + 1) * rows * width, data, bytes);
    if (!strcmp(what, "router_logits")) {
        r->experts = width;
        memcpy(r->router + layer * rows * width, data, bytes);
    }
    if (!strcmp(what, "router_ids")) {
        r->top_k = width;
        for (int64_t j = 0; j < rows * width; j++) r->ids[layer * rows * width + j] = (float)((const int32_t *)data)[j];
    }
    if (!strcmp(what, "router_weights")) memcpy(r->weights + layer * rows * width, data, bytes);
}

/* Runs a prompt in one forward pass with the probe on; with next ids also the draft layer. */
static void run_probed(const int32_t *ids, int64_t n, const int32_t *next, inner *r, pawl_net_state **st,
                       float **mtp_logits)
{
    const pawl_net_dims *d = pawl__net_dims(model->net);
    pawl_err err;
    *r = (inner){.rows = n, .hidden = d->hidden, .layers = d->layers};
    r->hid = malloc((size_t)((d->layers + 2) * n * d->hidden) * 4);
    r->router = malloc((size_t)(d->layers * n * 512) * 4);
    r->ids = malloc((size_t)(d->layers * n * 64) * 4);
    r->weights = malloc((size_t)(d->layers * n * 64) * 4);
    r->mtp = malloc((size_t)(n * d->hidden) * 4);
    int64_t n_pages = (n + PAWL_KV_PAGE - 1) / PAWL_KV_PAGE;
    pawl_net_state_options o = {
        .max_rows = (int32_t)n, .max_verify = 1, .n_pages = n_pages, .n_slots = 1, .probe = record, .probe_user = r};
    check_ok(pawl__net_state_create(model->net, &o, st, &err), &err);
    int32_t *pages = malloc((size_t)n_pages * sizeof *pages), *rows = malloc((size_t)n * sizeof *rows);
    assert_int_equal(pawl__kv_take(pawl__net_kv(*st), n_pages, pages), PAWL_OK);
    for (int32_t i = 0; i < n; i++) rows[i] = i;
    pawl_seg seg = {.rows = (int32_t)n, .slot = pawl__slots_take(pawl__net_slots(*st))};
    float *hidden = malloc((size_t)(n * d->hidden) * 4);
    pawl_forward f = {.m = (int32_t)n, .ids = ids, .segs = &seg, .n_segs = 1, .pages = pages, .hidden = hidden};
    check_ok(pawl__net_forward(model->net, *st, &f, &model->exec, &err), &err);
    if (next) {
        *mtp_logits = malloc((size_t)(n * d->vocab) * 4);
        float *out = malloc((size_t)(n * d->hidden) * 4);
        pawl_forward g = {.m = (int32_t)n,
                          .ids = next,
                          .segs = &seg,
                          .n_segs = 1,
                          .pages = pages,
                          .hidden_in = hidden,
                          .hidden = out,
                          .logit_rows = rows,
                          .n_logits = (int32_t)n,
                          .logits = *mtp_logits};
        check_ok(pawl__net_draft(model->net, *st, &g, &model->exec, &err), &err);
        free(out);
    }
    free(hidden);
    free(pages);
    free(rows);
}

static void free_inner(inner *r)
{
    free(r->hid);
    free(r->router);
    free(r->ids);
    free(r->weights);
    free(r->mtp);
}

static void compare_named(const char *prefix, const char *what, const float *got, double bound)
{
    int64_t rows, width;
    float *want = golden_floats(golden, tensor(prefix, what), &rows, &width);
    if (!want) return;
    char label[64];
    snprintf(label, sizeof label, "%s.%s", prefix, what);
    golden_close(label, got, want, rows, width, bound);
    free(want);
}

/* pX.gdn_recurrent_state is [layer][head][dk][dv]: the error is taken per layer. conv states there keep four inputs. */
static void compare_states(const char *prefix, const pawl_net_state *st)
{
    const pawl_net_dims *d = pawl__net_dims(model->net);
    int64_t rows, width, size = d->nv * d->dk * d->dv;
    float *want = golden_floats(golden, tensor(prefix, "gdn_recurrent_state"), &rows, &width);
    if (!want) return;
    for (int64_t l = 0; l < d->rec_layers; l++)
        golden_close("gdn_recurrent_state", pawl__slots_state(pawl__net_slots(st), l), want + l * size, 1, size, BOUND);
    free(want);
    want = golden_floats(golden, tensor(prefix, "gdn_conv_state"), &rows, &width);
    assert_int_equal(width, 4);
    float *three = malloc((size_t)(d->conv_channels * 3) * sizeof *three);
    for (int64_t l = 0; l < d->rec_layers; l++) {
        for (int64_t c = 0; c < d->conv_channels; c++)
            for (int j = 0; j < 3; j++) three[c * 3 + j] = want[(l * d->conv_channels + c) * 4 + 1 + j];
        golden_close("gdn_conv_state", pawl__slots_conv(pawl__net_slots(st), l), three, 1, d->conv_channels * 3, BOUND);
    }
    free(three);
    free(want);
}

static void inner_results(void **state)
{
    (void)state;
    for (int i = 0; i < n_prefixes; i++) {
        const char *p = prefixes[i];
        int64_t n, n_next, rows, width;
        int32_t *ids = golden_ints(golden, tensor(p, "input_ids"), &n);
        int32_t *next = golden_ints(golden, tensor(p, "mtp_next_ids"), &n_next);
        inner r;
        pawl_net_state *st;
        float *mtp_logits = NULL;
        run_probed(ids, n, next, &r, &st, &mtp_logits);
        compare_named(p, "hidden", r.hid, BOUND);
        compare_named(p, "final_hidden", r.hid + (r.layers + 1) * n * r.hidden, BOUND);
        compare_named(p, "router_logits", r.router, BOUND);
        compare_named(p, "router_topk_weight", r.weights, BOUND);
        float *topk = golden_floats(golden, tensor(p, "router_topk_index"), &rows, &width);
        for (int64_t j = 0; topk && j < rows * width; j++) assert_true(r.ids[j] == topk[j]);
        free(topk);
        compare_states(p, st);
        if (next) {
            compare_named(p, "mtp_hidden_in", r.hid + (r.layers + 1) * n * r.hidden, BOUND);
            compare_named(p, "mtp_hidden_out", r.mtp, BOUND);
            compare_tail(p, "mtp_logits", mtp_logits, n, pawl__net_dims(model->net)->vocab);
            compare_tail(p, "mtp_logits_last8", mtp_logits, n, pawl__net_dims(model->net)->vocab);
        }
        free(mtp_logits);
        free_inner(&r);
        pawl__net_state_destroy(&st);
        free(next);
        free(ids);
    }
}

/* ---- continuations and drafts ---- */

static void greedy_continuations(void **state)
{
    (void)state;
    for (int i = 0; i < n_prefixes; i++) {
        const char *p = prefixes[i];
        int64_t n, n_greedy, n_margin, width;
        int32_t *want = golden_ints(golden, tensor(p, "greedy"), &n_greedy);
        if (!want) continue;
        int32_t *ids = golden_ints(golden, tensor(p, "input_ids"), &n);
        float *margin = golden_floats(golden, tensor(p, "greedy_margin"), &width, &n_margin);
        pawl_err err;
        pawl_session *s;
        check_ok(pawl_session_create(model, NULL, &s, &err), &err);
        check_ok(pawl_session_feed(s, ids, (size_t)n, &err), &err);
        pawl_sampling greedy = PAWL_INIT(pawl_sampling);
        greedy.top_p = 1;
        greedy.repetition_penalty = 1;
        greedy.has_seed = 1;
        pawl_generate_options o = PAWL_INIT(pawl_generate_options);
        o.sampling = &greedy;
        o.max_tokens = n_greedy;
        o.ignore_eos = 1;
        check_ok(pawl_generate(s, &o, NULL, NULL, NULL, &err), &err);
        size_t total;
        const int32_t *got = pawl_session_tokens(s, &total);
        assert_int_equal(total, n + n_greedy);
        for (int64_t k = 0; k < n_greedy; k++) {
            if (got[n + k] == want[k]) continue;
            /* From a near-tie on, two right orders of summation may go different ways. */
            if (margin[k] >= 1e-3f)
                fail_msg("%s: token %lld is %d, expected %d (margin %g)", p, (long long)k, got[n + k], want[k],
                         (double)margin[k]);
            printf("%s: differs from token %lld on, where the margin is %g\n", p, (long long)k, (double)margin[k]);
            break;
        }
        pawl_session_destroy(&s);
        free(margin);
        free(ids);
        free(want);
    }
}

/* Prompt and greedy continuation in one array. */
static int32_t *with_greedy(const char *p, int64_t *n, int64_t *n_greedy)
{
    int32_t *ids = golden_ints(golden, tensor(p, "input_ids"), n);
    int32_t *greedy = golden_ints(golden, tensor(p, "greedy"), n_greedy);
    ids = realloc(ids, (size_t)(*n + *n_greedy) * sizeof *ids);
    memcpy(ids + *n, greedy, (size_t)*n_greedy * sizeof *ids);
    free(greedy);
    return ids;
}

static void drafts(void **state)
{
    (void)state;
    for (int i = 0; i < n_prefixes; i++) {
        const char *p = prefixes[i];
        int64_t n, n_greedy, n_draft;
        int32_t *want = golden_ints(golden, tensor(p, "mtp_draft"), &n_draft);
        if (!want) continue;
        int32_t *ids = with_greedy(p, &n, &n_greedy);
        scores s = score_ids(model, ids, n + n_greedy, 1, 0);
        int wrong = 0;
        for (int64_t k = 0; k < n_draft; k++) {
            const float *row = s.draft + (n + k - 1) * s.vocab;
            int32_t got = argmax(row, s.vocab);
            if (got == want[k]) continue;
            wrong++;
            printf("%s: draft %lld is %d, expected %d, logits %g apart\n", p, (long long)k, got, want[k],
                   (double)(row[got] - row[want[k]]));
            assert_true(row[got] - row[want[k]] < 1e-3f);
        }
        printf("%s: %lld drafts, %d near-ties decided otherwise\n", p, (long long)n_draft, wrong);
        free_scores(&s);
        free(ids);
        free(want);
    }
}

static void draft_chains(void **state)
{
    (void)state;
    for (int i = 0; i < n_prefixes; i++) {
        const char *p = prefixes[i];
        int64_t n, n_greedy, n_chain;
        int32_t *want = golden_ints(golden, tensor(p, "mtp_chain3"), &n_chain);
        if (!want) continue;
        int32_t *ids = with_greedy(p, &n, &n_greedy);
        pawl_err err;
        pawl_session *s;
        pawl_sampler *sampler;
        pawl_sample_params greedy = {.top_p = 1, .repetition = 1};
        check_ok(pawl_session_create(model, NULL, &s, &err), &err);
        check_ok(pawl__sampler_create(pawl__net_dims(model->net)->vocab, pawl__net_dims(model->net)->vocab, &greedy,
                                      &sampler, &err),
                 &err);
        check_ok(pawl_session_feed(s, ids, (size_t)n, &err), &err);
        while (s->seq->done < s->seq->n) check_ok(pawl__seq_prefill(s->seq, 1, &model->exec, &err), &err);
        for (int64_t k = 0; k < n_chain / 3; k++) {
            int32_t got[3];
            check_ok(pawl_session_feed(s, ids + n + k, 1, &err), &err);
            check_ok(pawl__seq_draft(s->seq, sampler, 3, got, &model->exec, &err), &err);
            for (int j = 0; j < 3; j++)
                if (got[j] != want[k * 3 + j])
                    fail_msg("%s: chain %lld draft %d is %d, expected %d", p, (long long)k, j, got[j], want[k * 3 + j]);
            check_ok(pawl__seq_prefill(s->seq, 1, &model->exec, &err), &err);
        }
        printf("%s: %lld chains of three drafts\n", p, (long long)(n_chain / 3));
        pawl__sampler_destroy(&sampler);
        pawl_session_destroy(&s);
        free(ids);
        free(want);
    }
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: test_golden MODEL GOLDEN\n");
        return 2;
    }
    model_path = argv[1];
    golden_path = argv[2];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_of_all_prompts), cmocka_unit_test(inner_results),
        cmocka_unit_test(greedy_continuations),  cmocka_unit_test(drafts),
        cmocka_unit_test(draft_chains),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
