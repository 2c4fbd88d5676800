/* test_chat MODEL: the chat renderings of transformers through the public API, from messages as JSON text to token ids. */
#include "check.h"

#include "base/json.h"
#include "pawl/pawl.h"

static const char *model_path;
static pawl_model *model;
static json_t *golden;

static int setup(void **state)
{
    (void)state;
    pawl_err err;
    check_ok(pawl__json_load("tests/golden/chat_template.json", 1 << 20, &golden, &err), &err);
    check_ok(pawl_model_open(model_path, NULL, &model, &err), &err);
    pawl_model_info info = PAWL_INIT(pawl_model_info);
    pawl_model_get_info(model, &info);
    assert_true(info.has_tokenizer && info.has_template);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pawl_model_close(&model);
    json_decref(golden);
    return 0;
}

static pawl_status render(const json_t *c, char **text, size_t *n, pawl_err *err)
{
    json_t *options = json_deep_copy(json_object_get(c, "options"));
    json_t *tools = json_object_get(c, "tools");
    int generate = json_is_true(json_object_get(options, "add_generation_prompt"));
    if (!options) options = json_object();
    json_object_del(options, "add_generation_prompt");
    char *messages_text = json_dumps(json_object_get(c, "messages"), JSON_ENCODE_ANY);
    char *tools_text = tools && !json_is_null(tools) ? json_dumps(tools, JSON_ENCODE_ANY) : NULL;
    char *kwargs_text = json_object_size(options) ? json_dumps(options, 0) : NULL;
    pawl_status st = pawl_render_chat(model, messages_text, tools_text, kwargs_text, generate, text, n, err);
    free(messages_text);
    free(tools_text);
    free(kwargs_text);
    json_decref(options);
    return st;
}

static void renderings(void **state)
{
    (void)state;
    size_t i, j;
    json_t *c, *id;
    pawl_err err;
    json_array_foreach(json_object_get(golden, "cases"), i, c)
    {
        const char *name = json_string_value(json_object_get(c, "name"));
        const json_t *want = json_object_get(c, "text"), *want_ids = json_object_get(c, "ids");
        char *text;
        size_t n, n_ids;
        int32_t *ids;
        pawl_status st = render(c, &text, &n, &err);
        if (st != PAWL_OK) fail_msg("%s: %s", name, err.text);
        if (n != json_string_length(want) || memcmp(text, json_string_value(want), n) != 0)
            fail_msg("%s: rendered \"%s\"", name, text);
        check_ok(pawl_tokenize(model, text, n, PAWL_TOKENIZE_SPECIAL, &ids, &n_ids, &err), &err);
        if (n_ids != json_array_size(want_ids))
            fail_msg("%s: %zu ids, expected %zu", name, n_ids, json_array_size(want_ids));
        json_array_foreach(want_ids, j, id)
        {
            if (ids[j] != json_integer_value(id))
                fail_msg("%s: id %zu is %d, expected %lld", name, j, ids[j], (long long)json_integer_value(id));
        }
        char *back;
        size_t n_back;
        check_ok(pawl_detokenize(model, ids, n_ids, 0, &back, &n_back, &err), &err);
        if (n_back != n || memcmp(back, text, n) != 0) fail_msg("%s: back from ids: \"%s\"", name, back);
        pawl_free(back);
        pawl_free(ids);
        pawl_free(text);
    }
    assert_int_equal(i, 17);
}

static void errors_of_the_template(void **state)
{
    (void)state;
    size_t i;
    json_t *c;
    json_array_foreach(json_object_get(golden, "errors"), i, c)
    {
        pawl_err err;
        char *text = NULL;
        size_t n = 0;
        check_fails(render(c, &text, &n, &err), PAWL_EINVAL, &err, json_string_value(json_object_get(c, "error")));
        assert_null(text);
    }
    assert_int_equal(i, 4);
}

static void errors_of_the_caller(void **state)
{
    (void)state;
    static const char user[] = "[{\"role\": \"user\", \"content\": \"hi\"}]";
    static const struct {
        const char *messages, *tools, *kwargs, *words;
    } bad[] = {
        {"[{", NULL, NULL, "messages"},     {"{}", NULL, NULL, "messages"}, {"", NULL, NULL, "messages"},
        {user, "{}", NULL, "tools"},        {user, "[", NULL, "tools"},     {user, NULL, "[]", "kwargs"},
        {user, NULL, "nonsense", "kwargs"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        pawl_err err;
        char *text = NULL;
        size_t n = 0;
        pawl_status st = pawl_render_chat(model, bad[i].messages, bad[i].tools, bad[i].kwargs, 1, &text, &n, &err);
        printf("%s: %s\n", pawl_status_name(st), st == PAWL_OK ? "" : err.text);
        if (st != PAWL_EINVAL && st != PAWL_EFORMAT) fail_msg("bad input %zu: %s", i, pawl_status_name(st));
        if (!strstr(err.text, bad[i].words)) fail_msg("bad input %zu: said \"%s\"", i, err.text);
        assert_null(text);
    }
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: test_chat MODEL\n");
        return 2;
    }
    model_path = argv[1];
    const struct CMUnitTest tests[] = {cmocka_unit_test(renderings), cmocka_unit_test(errors_of_the_template),
                                       cmocka_unit_test(errors_of_the_caller)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
