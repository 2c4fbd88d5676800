/* test_eval MODEL VARIANT check|long [int8]: the file of arithmetic, answered greedily through the public API and held against
 * what an independent implementation answered with the same weights.
 *
 * A problem is right when the stripped text before the end token equals the answer; accuracy has to lie within one point
 * of the golden one. `check` drafts two tokens a round; `long` asks without and with drafts, which must not change a
 * token. Outputs that differ from the golden ones are near-ties of the two largest
 * logits: they are counted and shown. With int8 activations there are more of them, and only the accuracy counts. */
#include "check.h"

#include <ctype.h>

#include "base/json.h"
#include "pawl/pawl.h"

enum { MOST_TOKENS = 24, MOST_CATEGORIES = 16 };
static const double ONE_POINT = 0.01;
/* The share of outputs that may differ from the golden text: a few near-ties, not a systematic difference. */
static const double MOST_DIFFERENT = 0.02;

static const char *model_path, *variant, *activations;
static const int *drafts;
static size_t n_drafts;

static pawl_model *model;
static pawl_session *session;
static json_t *problems, *results;
static int32_t ends[2];

static json_t *load_lines(const char *path)
{
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    json_t *all = json_array(), *one;
    json_error_t why;
    while ((one = json_loadf(f, JSON_DISABLE_EOF_CHECK, &why))) json_array_append_new(all, one);
    assert_true(feof(f));
    fclose(f);
    return all;
}

static int32_t special_id(const char *text)
{
    int32_t *ids, id;
    size_t n;
    pawl_err err;
    check_ok(pawl_tokenize(model, text, strlen(text), PAWL_TOKENIZE_SPECIAL, &ids, &n, &err), &err);
    assert_int_equal(n, 1);
    id = ids[0];
    pawl_free(ids);
    return id;
}

static int setup(void **state)
{
    (void)state;
    pawl_err err;
    problems = load_lines("tests/golden/eval_arith.jsonl");
    check_ok(pawl__json_load("tests/golden/eval_results.json", 1 << 20, &results, &err), &err);
    pawl_kernel_options k = PAWL_INIT(pawl_kernel_options);
    pawl_model_options o = PAWL_INIT(pawl_model_options);
    k.activations = activations;
    o.kernels = &k;
    check_ok(pawl_model_open(model_path, &o, &model, &err), &err);
    check_ok(pawl_session_create(model, NULL, &session, &err), &err);
    ends[0] = special_id("<|im_end|>");
    ends[1] = special_id("<|endoftext|>");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pawl_session_destroy(&session);
    pawl_model_close(&model);
    json_decref(problems);
    json_decref(results);
    return 0;
}

typedef struct answer {
    int32_t ids[MOST_TOKENS];
    size_t n;
} answer;

static int take_token(const pawl_token *t, void *user)
{
    answer *a = user;
    if (t->id == ends[0] || t->id == ends[1]) return 1;
    assert_true(a->n < MOST_TOKENS);
    a->ids[a->n++] = t->id;
    return 0;
}

static answer ask(const char *prompt, int draft, pawl_stats *sum)
{
    pawl_err err;
    int32_t *ids;
    size_t n;
    answer a = {.n = 0};
    pawl_sampling greedy = PAWL_INIT(pawl_sampling);
    greedy.top_p = greedy.repetition_penalty = 1;
    pawl_generate_options o = PAWL_INIT(pawl_generate_options);
    o.sampling = &greedy;
    o.max_tokens = MOST_TOKENS;
    o.draft = draft;
    o.ignore_eos = 1; /* the protocol names its end tokens itself */
    pawl_result r = PAWL_INIT(pawl_result);
    check_ok(pawl_tokenize(model, prompt, strlen(prompt), PAWL_TOKENIZE_SPECIAL, &ids, &n, &err), &err);
    pawl_session_reset(session);
    check_ok(pawl_session_feed(session, ids, n, &err), &err);
    check_ok(pawl_generate(session, &o, take_token, &a, &r, &err), &err);
    pawl_free(ids);
    sum->generated_tokens += r.stats.generated_tokens;
    sum->rounds += r.stats.rounds;
    sum->drafted += r.stats.drafted;
    sum->accepted += r.stats.accepted;
    return a;
}

static int equals_stripped(const char *text, size_t n, const char *want)
{
    while (n && isspace((unsigned char)*text)) text++, n--;
    while (n && isspace((unsigned char)text[n - 1])) n--;
    return n == strlen(want) && memcmp(text, want, n) == 0;
}

typedef struct category {
    const char *name;
    int asked, right, golden_right;
} category;

static category *category_of(category *all, const char *name)
{
    for (int i = 0; i < MOST_CATEGORIES; i++) {
        if (!all[i].name) all[i].name = name;
        if (!strcmp(all[i].name, name)) return &all[i];
    }
    fail_msg("more than %d categories", MOST_CATEGORIES);
    return NULL;
}

static const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    if (!s) fail_msg("no text \"%s\"", key);
    return s;
}

/* The golden file's own sums must follow from its outputs, or the comparison below means nothing. */
static void golden_is_consistent(void **state)
{
    (void)state;
    int right = 0;
    size_t i;
    json_t *p;
    assert_int_equal(json_array_size(problems), 500);
    json_array_foreach(problems, i, p)
    {
        const char *golden = text_of(json_object_get(p, "model_output"), variant);
        right += equals_stripped(golden, strlen(golden), text_of(p, "answer"));
    }
    json_t *of_variant = json_object_get(json_object_get(results, "results"), variant);
    double want = json_number_value(json_object_get(of_variant, "exact_match"));
    if (want * 500 - right > 1e-6 || right - want * 500 > 1e-6)
        fail_msg("%s: %d of 500 golden outputs are right, exact_match says %.4f", variant, right, want);
}

static void accuracy(void **state)
{
    (void)state;
    category by_name[MOST_CATEGORIES] = {{0}};
    category all = {"all", 0, 0, 0};
    pawl_stats sum[2] = {{0}};
    int verbatim = 0;
    pawl_err err;
    for (size_t i = 0; i < json_array_size(problems); i++) {
        const json_t *p = json_array_get(problems, i);
        const char *want = text_of(p, "answer"), *golden = text_of(json_object_get(p, "model_output"), variant);
        answer a = ask(text_of(p, "prompt"), drafts[0], &sum[0]);
        for (size_t d = 1; d < n_drafts; d++) {
            answer b = ask(text_of(p, "prompt"), drafts[d], &sum[d]);
            if (b.n != a.n || memcmp(a.ids, b.ids, a.n * sizeof *a.ids) != 0)
                fail_msg("problem %zu: draft %d gives other tokens than draft %d", i, drafts[d], drafts[0]);
        }
        char *text;
        size_t n;
        check_ok(pawl_detokenize(model, a.ids, a.n, 1, &text, &n, &err), &err);
        int right = equals_stripped(text, n, want), golden_right = equals_stripped(golden, strlen(golden), want);
        category *c = category_of(by_name, text_of(p, "category"));
        c->asked++, c->right += right, c->golden_right += golden_right;
        all.asked++, all.right += right, all.golden_right += golden_right;
        if (n == strlen(golden) && memcmp(text, golden, n) == 0)
            verbatim++;
        else
            printf("problem %zu: \"%.*s\", golden \"%s\", answer \"%s\"\n", i, (int)n, text, golden, want);
        pawl_free(text);
    }
    printf("%s, right here and in the golden run:\n", variant);
    for (int i = 0; i < MOST_CATEGORIES && by_name[i].name; i++)
        printf("  %-6s %3d and %3d of %3d\n", by_name[i].name, by_name[i].right, by_name[i].golden_right,
               by_name[i].asked);
    double mine = (double)all.right / all.asked, theirs = (double)all.golden_right / all.asked;
    printf("  %-6s %3d and %3d of %3d: %.3f and %.3f\n", all.name, all.right, all.golden_right, all.asked, mine,
           theirs);
    printf("verbatim the golden output: %d of %d\n", verbatim, all.asked);
    for (size_t d = 0; d < n_drafts; d++)
        printf("draft %d: %lld tokens in %lld rounds, %lld of %lld drafts accepted\n", drafts[d],
               (long long)sum[d].generated_tokens, (long long)sum[d].rounds, (long long)sum[d].accepted,
               (long long)sum[d].drafted);
    if (mine - theirs > ONE_POINT + 1e-9 || theirs - mine > ONE_POINT + 1e-9)
        fail_msg("accuracy %.4f, expected %.4f +- %.2f", mine, theirs, ONE_POINT);
    if (!activations && all.asked - verbatim > MOST_DIFFERENT * all.asked)
        fail_msg("%d of %d outputs differ from the golden ones, expected a few", all.asked - verbatim, all.asked);
}

int main(int argc, char **argv)
{
    static const int of_check[] = {2}, of_long[] = {0, 4};
    if (argc == 5 && !strcmp(argv[4], "int8")) activations = argv[--argc];
    if (argc != 4 || (strcmp(argv[3], "check") != 0 && strcmp(argv[3], "long") != 0)) {
        fprintf(stderr, "usage: test_eval MODEL VARIANT check|long [int8]\n");
        return 2;
    }
    model_path = argv[1];
    variant = argv[2];
    int in_check = !strcmp(argv[3], "check");
    drafts = in_check ? of_check : of_long;
    n_drafts = in_check ? 1 : 2;
    const struct CMUnitTest tests[] = {cmocka_unit_test(golden_is_consistent), cmocka_unit_test(accuracy)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
