/* Special tokens in a request's strings stay text; those of the template's own text take effect. */
#include "check.h"

#include "token/guard.h"

enum { END = 4091, THINK = 4092 };

static int count(const pawl_ids *ids, int32_t id)
{
    int n = 0;
    for (size_t i = 0; i < ids->len; i++) n += ids->data[i] == id;
    return n;
}

/* What a template does: its own text around a guarded string. Returns how often `id` is in the result. */
static int rendered(const pawl_tokenizer *t, const char *role, const char *content, int barriers, int32_t id)
{
    pawl_err err;
    json_t *messages = json_pack("[{s:s,s:s}]", "role", role, "content", content);
    json_t *guarded = pawl__guard_messages(t, messages, barriers, 0, &err);
    assert_non_null(guarded);
    const char *s = json_string_value(json_object_get(json_array_get(guarded, 0), "content"));
    pawl_buf b = {0};
    pawl__buf_printf(&b, "<|im_start|>%s\n%s<|im_end|>\n", role, s);
    pawl_guarded g;
    pawl_ids ids = {0};
    check_ok(pawl__guard_strip(b.data, b.len, &g, &err), &err);
    pawl_buf plain = {0};
    pawl__buf_printf(&plain, "<|im_start|>%s\n%s<|im_end|>\n", role, content);
    assert_string_equal(g.text.data, plain.data); /* nothing is lost or added */
    check_ok(pawl__tokenizer_encode_guarded(t, &g, &ids, &err), &err);
    int n = count(&ids, id);
    pawl__ids_free(&ids);
    pawl__guarded_free(&g);
    pawl__buf_free(&plain);
    pawl__buf_free(&b);
    json_decref(guarded);
    json_decref(messages);
    return n;
}

static void typed_tokens_are_text(void **state)
{
    const pawl_tokenizer *t = *state;
    assert_int_equal(rendered(t, "user", "hi", 1, END), 1);
    assert_int_equal(rendered(t, "user", "a<|im_end|>b<|im_end|>", 1, END), 1);
    assert_int_equal(rendered(t, "user", "<|im_end|>", 1, END), 1);
    assert_int_equal(rendered(t, "user", "<|im_end|>", 0, END), 2);
    assert_int_equal(rendered(t, "user", "<think>", 1, THINK), 0);
    assert_int_equal(rendered(t, "assistant", "<think>x<|im_end|>", 1, THINK), 1);
    assert_int_equal(rendered(t, "assistant", "<think>x<|im_end|>", 1, END), 1);
    /* The barriers' own characters, in all their pairs, are text too. */
    assert_int_equal(
        rendered(t, "user", "\xef\xb7\x90\xef\xb7\x92<|im_end|>\xef\xb7\x90\xef\xb7\x91\xef\xb7\x90", 1, END), 1);
    assert_int_equal(rendered(t, "user", "", 1, END), 1);
    assert_int_equal(rendered(t, "user", " \n", 1, END), 1);
}

static void joined_strings_make_no_token(void **state)
{
    const pawl_tokenizer *t = *state;
    pawl_err err;
    json_t *v = json_pack("[s,s]", "<|im_", "end|>"), *g = pawl__guard_value(t, v, 1, &err);
    pawl_buf b = {0};
    for (size_t i = 0; i < 2; i++) pawl__buf_puts(&b, json_string_value(json_array_get(g, i)));
    pawl_guarded text;
    pawl_ids ids = {0};
    check_ok(pawl__guard_strip(b.data, b.len, &text, &err), &err);
    assert_string_equal(text.text.data, "<|im_end|>");
    check_ok(pawl__tokenizer_encode_guarded(t, &text, &ids, &err), &err);
    assert_int_equal(count(&ids, END), 0);
    pawl__ids_free(&ids);
    pawl__guarded_free(&text);
    pawl__buf_free(&b);
    json_decref(g);
    json_decref(v);
}

static int open_tokenizer(void **state)
{
    pawl_err err;
    pawl_tokenizer *t;
    check_ok(pawl__tokenizer_open("models/tale-moe-fp8", &t, &err), &err);
    *state = t;
    return 0;
}

static int close_tokenizer(void **state)
{
    pawl_tokenizer *t = *state;
    pawl__tokenizer_close(&t);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(typed_tokens_are_text),
                                       cmocka_unit_test(joined_strings_make_no_token)};
    return cmocka_run_group_tests(tests, open_tokenizer, close_tokenizer);
}
