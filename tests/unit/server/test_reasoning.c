/* Reasoning and answer come out the same however the text is cut. */
#include "check.h"

#include "server/reasoning.h"

static void run(int open, const char *text, unsigned cuts, int n, pawl_buf *thoughts, pawl_buf *answer)
{
    reasoning r = {0};
    reasoning_begin(&r, open);
    int from = 0;
    for (int i = 1; i <= n; i++) {
        if (i < n && !(cuts >> (i - 1) & 1)) continue;
        reasoning_push(&r, text + from, (size_t)(i - from), thoughts, answer);
        from = i;
    }
    reasoning_finish(&r, thoughts, answer);
    reasoning_free(&r);
}

static const struct {
    int open;
    const char *text, *thoughts, *answer;
} cases[] = {
    {1, "a\n</think>\n\nb", "a", "b"},
    {1, "\n</think>c", "", "c"},
    {1, "x</thin", "x</thin", ""},
    {1, "x\n\ny", "x\n\ny", ""},
    {1, "</think></think>", "", "</think>"},
    {1, "a<</think>\nb\n", "a<", "b\n"},
    {1, "", "", ""},
    {0, "a</think>b", "", "a</think>b"},
    {0, "\n<think>\nq</think>z", "q", "z"},
    {0, "<think", "", "<think"},
    {0, "<thinx>", "", "<thinx>"},
    {0, "\n\nabc", "", "\n\nabc"},
    {0, "b<think>c", "", "b<think>c"},
};

static void every_cut_gives_the_same(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        int n = (int)strlen(cases[k].text);
        for (unsigned cuts = 0; cuts < 1u << (n > 1 ? n - 1 : 0); cuts++) {
            pawl_buf thoughts = {0}, answer = {0};
            run(cases[k].open, cases[k].text, cuts, n, &thoughts, &answer);
            assert_string_equal(thoughts.data ? thoughts.data : "", cases[k].thoughts);
            assert_string_equal(answer.data ? answer.data : "", cases[k].answer);
            pawl__buf_free(&thoughts);
            pawl__buf_free(&answer);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_cut_gives_the_same)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
