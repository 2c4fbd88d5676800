/* Pre-tokenizer: the published patterns on texts whose splits were made with another regular expression engine, the
 * rewriting of patterns, and what is refused. Words are joined by '|' in the tables. */
#include "check.h"

#include "token/internal.h"
#include "tiny_tokenizer.h"

#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
#define WHITE_TAIL  "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const char qwen3_5[] =
    CONTRACTION "[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" WHITE_TAIL;
static const char llama3[] =
    CONTRACTION "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" WHITE_TAIL;
static const char *const deepseek[3] = {
    "\\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
    "?[\\p{P}\\p{S}]+[\\r\\n]*|" WHITE_TAIL};
static const char o200k[] = "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+("
                            "?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
                            "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*("
                            "?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
                            "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" WHITE_TAIL;

/* A Sequence of Splits and the closing ByteLevel. */
static pawl_status create(const char *const *pattern, size_t n, pawl_pretok **out, pawl_err *err)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(list, tiny_split(pattern[i]));
    json_array_append_new(list, tiny_byte_level());
    json_t *spec = json_pack("{s:s, s:o}", "type", "Sequence", "pretokenizers", list);
    pawl_status s = pawl__pretok_create(spec, out, err);
    json_decref(spec);
    return s;
}

static pawl_pretok *must_create(const char *const *pattern, size_t n)
{
    pawl_err err;
    pawl_pretok *p;
    check_ok(create(pattern, n, &p, &err), &err);
    return p;
}

static pawl_status join(void *user, const char *word, size_t n, pawl_err *err)
{
    (void)err;
    pawl_buf *b = user;
    assert_true(n > 0);
    if (b->len) pawl__buf_putc(b, '|');
    pawl__buf_append(b, word, n);
    return PAWL_OK;
}

static void check_split(const pawl_pretok *p, const char *text, const char *want)
{
    pawl_err err;
    pawl_buf got = {0};
    check_ok(pawl__pretok_split(p, text, strlen(text), join, &got, &err), &err);
    if (strcmp(got.data ? got.data : "", want) != 0)
        fail_msg("\"%s\": got \"%s\", expected \"%s\"", text, got.data, want);
    pawl__buf_free(&got);
}

/* want[1..3] NULL: the same as want[0]. Columns: Qwen2, Qwen3.5, Llama 3, DeepSeek V3. */
static const struct {
    const char *text, *want[4];
} table[] = {
    {"Hello, world!", {"Hello|,| world|!"}},
    {"  two  spaces", {" | two| | spaces"}},
    {"I'll go; IT'S 12345.",
     {"I|'ll| go|;| IT|'S| |1|2|3|4|5|.", NULL, "I|'ll| go|;| IT|'S| |123|45|.", "I|'ll| go|;| IT|'S| |123|45|."}},
    {"x = foo(1,2)\n\treturn", {"x| =| foo|(|1|,|2|)\n|\treturn"}},
    {"a\n\n b\n", {"a|\n\n| b|\n"}},
    {"tab\t\tx   ", {"tab|\t|\tx|   "}},
    {"   \n  \n   x", {"   \n  \n|  | x"}},
    {"end.\r\n\r\nNext", {"end|.\r\n\r\n|Next"}},
    {"a_b-c 3.14e-10", {"a|_b|-c| |3|.|1|4|e|-|1|0", NULL, "a|_b|-c| |3|.|14|e|-|10", "a|_b|-c| |3|.|14|e|-|10"}},
    {"e\u0301", {"e|\u0301", "e\u0301", "e|\u0301", "e\u0301"}},
    {"\u0928\u092e\u0938\u094d\u0924\u0947",
     {"\u0928\u092e\u0938|\u094d\u0924|\u0947", "\u0928\u092e\u0938\u094d\u0924\u0947",
      "\u0928\u092e\u0938|\u094d\u0924|\u0947", "\u0928\u092e\u0938\u094d\u0924\u0947"}},
    {"日本語ABC 中文テスト123",
     {"日本語ABC| 中文テスト|1|2|3", NULL, "日本語ABC| 中文テスト|123", "日本語|ABC| |中文テスト|123"}},
    {"🙂🙂 ok", {"🙂🙂| ok"}},
    {"\u200b zero", {"\u200b| zero"}},
};

static void published_patterns(void **state)
{
    (void)state;
    const char *qwen2 = QWEN2_PATTERN, *q35 = qwen3_5, *l3 = llama3;
    pawl_pretok *p[4] = {must_create(&qwen2, 1), must_create(&q35, 1), must_create(&l3, 1), must_create(deepseek, 3)};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        for (int k = 0; k < 4; k++)
            check_split(p[k], table[i].text, table[i].want[k] ? table[i].want[k] : table[i].want[0]);
    for (int k = 0; k < 4; k++) pawl__pretok_destroy(&p[k]);
}

/* Splits that other engines got wrong. */
static void known_cases(void **state)
{
    (void)state;
    const char *qwen2 = QWEN2_PATTERN, *q35 = qwen3_5, *o2 = o200k;
    pawl_pretok *p = must_create(&qwen2, 1), *m = must_create(&q35, 1), *o = must_create(&o2, 1);
    check_split(p, "p->q", "p|->|q");
    check_split(p, "->", "->");
    check_split(p, "(x):\n", "(x|):\n");
    check_split(p, "2024", "2|0|2|4");
    check_split(p, "!!!???", "!!!???");
    check_split(p, "\u00b2\u00bd\u216b", "\u00b2|\u00bd|\u216b"); /* No and Nl are numbers */
    check_split(p, "\u180ex", "\u180ex");                         /* no white space, and may precede letters */
    check_split(p, "a\u180e\u180eb", "a|\u180e\u180e|b");
    check_split(p, "a \u180e", "a| \u180e"); /* PCRE2's own \s would part the two */
    check_split(p, "a\u3000\u00a0b", "a|\u3000|\u00a0b");
    check_split(p, "'\u017fx", "'\u017f|x"); /* caseless s is also the long s */
    check_split(m, "ka\u0301\u0302b c", "ka\u0301\u0302b| c");
    check_split(o, "CamelCaseWord's 1234", "Camel|Case|Word's| |123|4");
    pawl__pretok_destroy(&p);
    pawl__pretok_destroy(&m);
    pawl__pretok_destroy(&o);
}

static void rewriting(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } ok[] = {
        {"\\s+(?!\\S)", "[\\t-\\r\\x{85}\\p{Z}]+(?![^\\t-\\r\\x{85}\\p{Z}])"},
        {"[^\\s\\p{L}]", "[^\\t-\\r\\x{85}\\p{Z}\\p{L}]"},
        {"\\p{N}{1,3}", "\\p{N}{1,3}"},
        {"\\\\s", "\\\\s"},
        {"[\\]\\s]x", "[\\]\\t-\\r\\x{85}\\p{Z}]x"},
        {"[]a]\\s", "[]a][\\t-\\r\\x{85}\\p{Z}]"},
        {"[[:space:]]", "[\\t-\\r\\x{85}\\p{Z}]"},
        {"\\p{L}+", "\\p{L}+"},
        {"\\x{85}*", "\\x{85}*"},
    };
    static const struct {
        const char *in, *words;
    } bad[] = {
        {"\\p{N}{1,3}+", "quantifier after an interval at byte 10"},
        {"[a-z&&[^b]]", "class intersection at byte 4"},
        {"[a[b]]", "bracket inside a class"},
        {"[\\S]", "\\S inside a class"},
        {"[a-\\s]", "range that ends in a class"},
        {"^a", "an anchor at byte 0"},
        {"\\s+$", "an anchor at byte 3"},
        {"\\w+", "escape other"},
        {"a\\b", "escape other"},
        {"\\1", "escape other"},
        {"\\h", "escape other"},
        {"(*UTF)a", "a verb at byte 0"},
        {"(?R)", "group of an unknown kind"},
        {"(?m:a)", "group of an unknown kind"},
        {"(?<n>a)", "group of an unknown kind"},
        {"[abc", "class without an end"},
        {"abc\\", "lone backslash"},
        {"\\p{L", "brace without an end"},
    };
    pawl_err err;
    for (size_t i = 0; i < sizeof ok / sizeof *ok; i++) {
        pawl_buf out = {0};
        check_ok(pawl__pattern_rewrite(ok[i].in, strlen(ok[i].in), &out, &err), &err);
        assert_string_equal(out.data, ok[i].out);
        pawl__buf_free(&out);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        pawl_buf out = {0};
        check_fails(pawl__pattern_rewrite(bad[i].in, strlen(bad[i].in), &out, &err), PAWL_EUNSUPPORTED, &err,
                    bad[i].words);
        pawl__buf_free(&out);
    }
}

static pawl_status count(void *user, const char *word, size_t n, pawl_err *err)
{
    (void)word, (void)n, (void)err;
    ++*(size_t *)user;
    return PAWL_OK;
}

/* Patterns that would run for ever end in an error, in bounded time and memory. */
static void slow_patterns(void **state)
{
    (void)state;
    static const char *const evil[] = {"(a+)+[bc]", "(?:a|a)*[bc]", "(?:(?:a*)*)*[bc]", "(?:a?){200}a{200}[bc]"};
    pawl_err err;
    size_t n = 1 << 16, words = 0;
    char *text = malloc(n);
    assert_non_null(text);
    memset(text, 'a', n);
    for (size_t i = 0; i < sizeof evil / sizeof *evil; i++) {
        pawl_pretok *p = must_create(&evil[i], 1);
        struct timespec a, b;
        clock_gettime(CLOCK_MONOTONIC, &a);
        pawl_status s = pawl__pretok_split(p, text, n, count, &words, &err);
        clock_gettime(CLOCK_MONOTONIC, &b);
        printf("%s: %s, %.2f s\n", evil[i], s ? err.text : "ok",
               (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec));
        assert_int_equal(s, PAWL_ETIMEDOUT);
        pawl__pretok_destroy(&p);
    }
    /* Slow at every position without any match being long. */
    const char *creeping = "a*[bc]|a";
    pawl_pretok *p = must_create(&creeping, 1);
    char *more = malloc(1 << 17);
    assert_non_null(more);
    memset(more, 'a', 1 << 17);
    check_fails(pawl__pretok_split(p, more, 1 << 17, count, &words, &err), PAWL_ETIMEDOUT, &err, "too slow");
    pawl__pretok_destroy(&p);
    free(more);
    free(text);
}

static void empty_matches(void **state)
{
    (void)state;
    const char *star = "x*", *behind = "(?=[A-Z])";
    pawl_pretok *p = must_create(&star, 1), *q = must_create(&behind, 1);
    check_split(p, "axxb", "a|xx|b");
    check_split(p, "\u00e9\u4e2d", "\u00e9|\u4e2d");
    check_split(q, "oneTwoThree", "one|Two|Three");
    pawl__pretok_destroy(&p);
    pawl__pretok_destroy(&q);
}

/* How many stages there are, and how many run as machine code, can be asked. */
static void stages_and_jit(void **state)
{
    (void)state;
    pawl_pretok *p = must_create(deepseek, 3);
    unsigned jit;
    assert_int_equal(pawl__pretok_stages(p, &jit), 3);
    assert_true(jit <= 3);
    pawl__pretok_destroy(&p);
}

static void refused_specs(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        pawl_status status;
        const char *words;
    } bad[] = {
        {"null", PAWL_EFORMAT, "pre_tokenizer: expected an object, found null"},
        {"{}", PAWL_EFORMAT, "pre_tokenizer: type is missing"},
        {"{'type':'Whitespace'}", PAWL_EUNSUPPORTED, "type \"Whitespace\" is not supported"},
        {"{'type':'Metaspace'}", PAWL_EUNSUPPORTED, "type \"Metaspace\" is not supported"},
        {"{'type':'Split','pattern':{'Regex':'a'},'behavior':'Isolated'}", PAWL_EUNSUPPORTED, "no ByteLevel stage"},
        {"{'type':'Split','pattern':{'Regex':'a'},'behavior':'Removed'}", PAWL_EUNSUPPORTED, "behavior \"Removed\""},
        {"{'type':'Split','pattern':{},'behavior':'Isolated'}", PAWL_EFORMAT, "expected a Regex or a String"},
        {"{'type':'Split','pattern':{'Regex':''},'behavior':'Isolated'}", PAWL_EFORMAT, "a pattern of 0 bytes"},
        {"{'type':'Split','pattern':{'Regex':'(a'},'behavior':'Isolated'}", PAWL_EFORMAT, "does not compile"},
        {"{'type':'Split','pattern':{'Regex':7},'behavior':'Isolated'}", PAWL_EFORMAT, "Regex: expected a string"},
        {"{'type':'ByteLevel','add_prefix_space':true}", PAWL_EUNSUPPORTED, "add_prefix_space"},
        {"{'type':'Sequence'}", PAWL_EFORMAT, "pretokenizers: expected an array"},
        {"{'type':'Sequence','pretokenizers':[]}", PAWL_EUNSUPPORTED, "no ByteLevel stage"},
        {"{'type':'Sequence','pretokenizers':[{'type':'ByteLevel'},{'type':'Digits'}]}", PAWL_EUNSUPPORTED,
         "pretokenizers[1]: a stage after ByteLevel"},
        {"{'type':'Sequence','pretokenizers':[{'type':'Sequence','pretokenizers':[{'type':'Sequence'}]}]}",
         PAWL_EUNSUPPORTED, "pretokenizers[0]: pretokenizers[0]: type \"Sequence\""},
    };
    pawl_err err;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[512];
        snprintf(text, sizeof text, "%s", bad[i].json);
        for (char *c = text; *c; c++)
            if (*c == '\'') *c = '"';
        json_t *spec = json_loads(text, JSON_DECODE_ANY, NULL);
        assert_non_null(spec);
        pawl_pretok *p;
        check_fails(pawl__pretok_create(spec, &p, &err), bad[i].status, &err, bad[i].words);
        assert_null(p);
        json_decref(spec);
    }
    const char *many[20];
    for (int i = 0; i < 20; i++) many[i] = "a";
    pawl_pretok *p;
    check_fails(create(many, 20, &p, &err), PAWL_EUNSUPPORTED, &err, "pretokenizers[16]: more than 16 stages");
}

static void other_stages(void **state)
{
    (void)state;
    pawl_err err;
    static const char *const spec[] = {
        "{\"type\":\"ByteLevel\"}",
        "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\",\"individual_digits\":true},{\"type\":"
        "\"Split\","
        "\"pattern\":{\"String\":\".x\"},\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\",\"use_regex\":false}]}"};
    static const char *const want[] = {"I|'ve| 12|.|x| a", "I've |1|2|.x| a"};
    for (int i = 0; i < 2; i++) {
        json_t *j = json_loads(spec[i], 0, NULL);
        pawl_pretok *p;
        check_ok(pawl__pretok_create(j, &p, &err), &err);
        check_split(p, "I've 12.x a", want[i]);
        pawl__pretok_destroy(&p);
        json_decref(j);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_patterns), cmocka_unit_test(known_cases),   cmocka_unit_test(rewriting),
        cmocka_unit_test(slow_patterns),      cmocka_unit_test(empty_matches), cmocka_unit_test(stages_and_jit),
        cmocka_unit_test(refused_specs),      cmocka_unit_test(other_stages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
