/* Loading: hostile and broken tokenizer files each with its message, added-token flags, post-processors, generation
 * configs, and an allocation that fails, for the first, the second, the third ... */
#include "check.h"

#include <unistd.h>

#include "base/json.h"
#include "token/genconfig.h"
#include "token/internal.h"
#include "tiny_tokenizer.h"

/* The n-th allocation of pawl's own code fails while this counts down; 0 is off (see the link options). */
static long fail_in;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

static int fails_now(void)
{
    return fail_in > 0 && --fail_in == 0;
}

void *__wrap_malloc(size_t n)
{
    return fails_now() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails_now() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    return fails_now() ? NULL : __real_realloc(p, n);
}

static pawl_status load(const tiny *tk, const char *config, pawl_tokenizer **t, pawl_err *err)
{
    char *json = tiny_text(tk);
    pawl_status s = pawl__tokenizer_load(json, strlen(json), config, config ? strlen(config) : 0, t, err);
    free(json);
    return s;
}

static void check_ids(const pawl_tokenizer *t, const char *text, unsigned flags, const char *want)
{
    pawl_err err;
    pawl_ids ids = {0};
    pawl_buf got = {0};
    check_ok(pawl__tokenizer_encode(t, text, strlen(text), flags, &ids, &err), &err);
    pawl__buf_puts(&got, "");
    for (size_t i = 0; i < ids.len; i++) pawl__buf_printf(&got, "%s%d", i ? " " : "", ids.data[i]);
    if (strcmp(got.data, want) != 0) fail_msg("\"%s\": got %s, expected %s", text, got.data, want);
    pawl__buf_free(&got);
    pawl__ids_free(&ids);
}

static void merges_by_rank(void **state)
{
    (void)state;
    pawl_err err;
    tiny tk = tiny_create();
    pawl_tokenizer *t;
    check_ok(load(&tk, NULL, &t, &err), &err);
    check_ids(t, "abc", 0, "257"); /* b c first, then a bc */
    check_ids(t, "ab", 0, "256");
    check_ids(t, "abab", 0, "256 256");
    check_ids(t, "abbc", 0, "256 258");
    check_ids(t, "<s>ab", PAWL_ENCODE_SPECIAL, "300 256");
    check_ids(t, "<s>", 0, "60 115 62");
    check_ids(t, "", PAWL_ENCODE_SPECIAL, "");
    pawl__tokenizer_close(&t);
    assert_null(t);
    pawl__tokenizer_close(&t);

    /* An empty sequence normalises nothing. */
    json_object_set_new(tk.root, "normalizer", json_pack("{s:s, s:[]}", "type", "Sequence", "normalizers"));
    check_ok(load(&tk, NULL, &t, &err), &err);
    check_ids(t, "e\u0301", 0, "101 204 129");
    pawl__tokenizer_close(&t);

    /* ignore_merges: a whole word that is a piece needs no merges. */
    json_object_set_new(tk.model, "ignore_merges", json_true());
    tiny_piece(&tk, "xyz");
    check_ok(load(&tk, NULL, &t, &err), &err);
    check_ids(t, "xyz", 0, "259");
    check_ids(t, "xyzz", 0, "120 121 122 122");
    pawl__tokenizer_close(&t);
    tiny_free(&tk);
}

static void added_flags(void **state)
{
    (void)state;
    pawl_err err;
    tiny tk = tiny_create();
    json_array_append_new(tk.added, tiny_added(301, "<s>x"));
    json_t *l = tiny_added(302, "<l>"), *r = tiny_added(303, "<r>"), *w = tiny_added(304, "wd"),
           *n = tiny_added(305, "\u00c5n");
    json_object_set_new(l, "lstrip", json_true());
    json_object_set_new(r, "rstrip", json_true());
    json_object_set_new(w, "single_word", json_true());
    json_object_set_new(n, "normalized", json_true());
    json_object_set_new(n, "special", json_false());
    json_array_append_new(tk.added, l);
    json_array_append_new(tk.added, r);
    json_array_append_new(tk.added, w);
    json_array_append_new(tk.added, n);
    pawl_tokenizer *t;
    check_ok(load(&tk, NULL, &t, &err), &err);
    check_ids(t, "<s>x<s>", PAWL_ENCODE_SPECIAL, "301 300"); /* longest at equal start */
    check_ids(t, "a \u3000<l> b", PAWL_ENCODE_SPECIAL, "97 302 32 98");
    check_ids(t, "a <r> \n b", PAWL_ENCODE_SPECIAL, "97 32 303 98");
    check_ids(t, "<r> <l>", PAWL_ENCODE_SPECIAL, "303 302");
    check_ids(t, "wd wd", PAWL_ENCODE_SPECIAL, "304 32 304");
    check_ids(t, "awd wdb -wd-", PAWL_ENCODE_SPECIAL, "97 119 100 32 119 100 98 32 45 304 45");
    check_ids(t, "wd\u00e9", PAWL_ENCODE_SPECIAL, "119 100 195 169");
    check_ids(t, "A\u030an!", PAWL_ENCODE_SPECIAL, "305 33"); /* found after normalisation */
    assert_false(pawl__tokenizer_is_special(t, 305));
    assert_int_equal(pawl__tokenizer_find(t, "<s>x"), 301);
    assert_int_equal(pawl__tokenizer_find(t, "<l>"), 302);
    assert_int_equal(pawl__tokenizer_find(t, "bc"), 258);
    pawl__tokenizer_close(&t);
    tiny_free(&tk);
}

static void config_file(void **state)
{
    (void)state;
    pawl_err err;
    tiny tk = tiny_create();
    pawl_tokenizer *t;
    check_ok(
        load(&tk,
             "{\"added_tokens_decoder\":{\"300\":{\"content\":\"<s>\",\"special\":true},\"310\":{\"content\":\"<x>\"}},"
             "\"bos_token\":{\"content\":\"<s>\"},\"eos_token\":\"<x>\",\"pad_token\":null,\"add_bos_token\":true,"
             "\"add_eos_token\":true}",
             &t, &err),
        &err);
    assert_int_equal(pawl__tokenizer_size(t), 311);
    check_ids(t, "<x>a", PAWL_ENCODE_SPECIAL, "310 97");
    check_ids(t, "a", PAWL_ENCODE_BOS, "300 97 310");
    check_ids(t, "a", 0, "97");
    assert_string_equal(pawl__tokenizer_named(t, "bos_token"), "<s>");
    assert_null(pawl__tokenizer_named(t, "pad_token"));
    size_t n;
    assert_null(pawl__tokenizer_bytes(t, 305, &n));
    pawl_buf out = {0};
    int32_t ids[] = {97, 305, -1, 1 << 20, 98};
    check_ok(pawl__tokenizer_decode(t, ids, 5, 0, &out, &err), &err);
    assert_string_equal(out.data, "ab");
    pawl__buf_free(&out);
    pawl__tokenizer_close(&t);

    static const struct {
        const char *config, *words;
    } bad[] = {
        {"{\"added_tokens_decoder\":{\"300\":{\"content\":\"<t>\"}}}",
         "added token \"<t>\" has id 300, but that is \"<s>\""},
        {"{\"added_tokens_decoder\":{\"301\":{\"content\":\"<s>\"}}}", "added token \"<s>\" has two ids, 300 and 301"},
        {"{\"added_tokens_decoder\":{\"97\":{\"content\":\"<t>\"}}}", "has id 97, but that is \"a\""},
        {"{\"added_tokens_decoder\":{\"x\":{\"content\":\"<t>\"}}}", "added_tokens_decoder[\"x\"]: expected an id"},
        {"{\"added_tokens_decoder\":{\"99999999\":{\"content\":\"<t>\"}}}", "expected an id"},
        {"{\"added_tokens_decoder\":{\"301\":[]}}",
         "added_tokens_decoder[\"301\"]: expected an object, found an array"},
        {"{\"added_tokens_decoder\":[]}", "added_tokens_decoder: expected an object, found an array"},
        {"{\"bos_token\":7}", "tokenizer_config.json: bos_token: expected a string"},
        {"{\"add_bos_token\":true}", "add_bos_token is true, but bos_token is no known token"},
        {"[]", "tokenizer_config.json: expected an object, found an array"},
        {"{", "tokenizer_config.json: not valid JSON at line 1"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        check_fails(load(&tk, bad[i].config, &t, &err), PAWL_EFORMAT, &err, bad[i].words);
        assert_null(t);
    }
    tiny_free(&tk);
}

static void post_processors(void **state)
{
    (void)state;
    static const char template[] =
        "{\"type\":\"Sequence\",\"processors\":[{\"type\":\"ByteLevel\"},{\"type\":\"TemplateProcessing\",\"single\":["
        "{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}%s],\"pair\":[],"
        "\"special_tokens\":{\"<s>\":{\"id\":\"<s>\",\"ids\":[%d],\"tokens\":[\"<s>\"]}}}]}";
    pawl_err err;
    tiny tk = tiny_create();
    pawl_tokenizer *t;
    char text[1024];
    snprintf(text, sizeof text, template, "", 300);
    json_object_set_new(tk.root, "post_processor", json_loads(text, 0, NULL));
    check_ok(load(&tk, NULL, &t, &err), &err);
    check_ids(t, "ab", PAWL_ENCODE_BOS, "300 256");
    check_ids(t, "ab", 0, "256");
    pawl__tokenizer_close(&t);
    snprintf(text, sizeof text, template, "", 299);
    json_object_set_new(tk.root, "post_processor", json_loads(text, 0, NULL));
    check_fails(load(&tk, NULL, &t, &err), PAWL_EFORMAT, &err,
                "tokenizer.json: post_processor: special_tokens: \"<s>\": ids[0] is not the id of a token");
    snprintf(text, sizeof text, template, ",{\"Sequence\":{\"id\":\"B\"}}", 300);
    json_object_set_new(tk.root, "post_processor", json_loads(text, 0, NULL));
    check_fails(load(&tk, NULL, &t, &err), PAWL_EFORMAT, &err,
                "single[2]: expected a SpecialToken or the one Sequence");
    json_object_set_new(tk.root, "post_processor", json_pack("{s:s}", "type", "BertProcessing"));
    check_fails(load(&tk, NULL, &t, &err), PAWL_EUNSUPPORTED, &err, "post_processor: type \"BertProcessing\"");
    tiny_free(&tk);
}

/* One change to a good file, and what is said about it. */
typedef struct breakage {
    void (*change)(tiny *);
    pawl_status status;
    const char *words;
} breakage;

static void set_type(tiny *t)
{
    json_object_set_new(t->model, "type", json_string("Unigram"));
}
static void no_type(tiny *t)
{
    json_object_del(t->model, "type");
}
static void no_model(tiny *t)
{
    json_object_del(t->root, "model");
}
static void fallback(tiny *t)
{
    json_object_set_new(t->model, "byte_fallback", json_true());
}
static void dropout(tiny *t)
{
    json_object_set_new(t->model, "dropout", json_real(0.1));
}
static void suffix(tiny *t)
{
    json_object_set_new(t->model, "end_of_word_suffix", json_string("</w>"));
}
static void prefix(tiny *t)
{
    json_object_set_new(t->model, "continuing_subword_prefix", json_string("##"));
}
static void no_vocab(tiny *t)
{
    json_object_del(t->model, "vocab");
}
static void list_vocab(tiny *t)
{
    json_object_set_new(t->model, "vocab", json_array());
}
static void no_byte(tiny *t)
{
    json_object_del(t->vocab, "a");
}
static void text_id(tiny *t)
{
    json_object_set_new(t->vocab, "zz", json_string("5"));
}
static void minus_id(tiny *t)
{
    json_object_set_new(t->vocab, "zz", json_integer(-1));
}
static void huge_id(tiny *t)
{
    json_object_set_new(t->vocab, "zz", json_integer(1 << 24));
}
static void lonely_id(tiny *t)
{
    json_object_set_new(t->vocab, "zz", json_integer((1 << 24) - 1));
}
static void same_id(tiny *t)
{
    json_object_set_new(t->vocab, "zz", json_integer(97));
}
static void no_merges(tiny *t)
{
    json_object_del(t->model, "merges");
}
static void map_merges(tiny *t)
{
    json_object_set_new(t->model, "merges", json_object());
}
static void merge_three(tiny *t)
{
    json_array_append_new(t->merges, json_string("a b c"));
}
static void merge_one(tiny *t)
{
    json_array_append_new(t->merges, json_string("ab"));
}
static void merge_empty(tiny *t)
{
    json_array_append_new(t->merges, json_string(" ab"));
}
static void merge_number(tiny *t)
{
    json_array_append_new(t->merges, json_integer(3));
}
static void merge_triple(tiny *t)
{
    json_array_append_new(t->merges, json_pack("[s,s,s]", "a", "b", "c"));
}
static void merge_mixed(tiny *t)
{
    json_array_append_new(t->merges, json_pack("[s,i]", "a", 1));
}
static void merge_unknown(tiny *t)
{
    json_array_append_new(t->merges, json_string("ax b"));
}
static void merge_result(tiny *t)
{
    json_array_append_new(t->merges, json_string("c b"));
}
static void merge_twice(tiny *t)
{
    json_array_append_new(t->merges, json_string("a b"));
}
static void normalizer(tiny *t)
{
    json_object_set_new(t->root, "normalizer", json_pack("{s:s}", "type", "NFKC"));
}
static void decoder(tiny *t)
{
    json_object_set_new(t->root, "decoder", json_pack("{s:s}", "type", "WordPiece"));
}
static void no_pre(tiny *t)
{
    json_object_del(t->root, "pre_tokenizer");
}
static void evil_pre(tiny *t)
{
    tiny_pattern(t, "[a-z&&b]");
}
static void added_map(tiny *t)
{
    json_object_set_new(t->root, "added_tokens", json_object());
}
static void added_no_id(tiny *t)
{
    json_object_del(json_array_get(t->added, 0), "id");
}
static void added_empty(tiny *t)
{
    json_object_set_new(json_array_get(t->added, 0), "content", json_string(""));
}
static void added_flag(tiny *t)
{
    json_object_set_new(json_array_get(t->added, 0), "lstrip", json_integer(1));
}
static void added_clash(tiny *t)
{
    json_array_append_new(t->added, tiny_added(300, "<t>"));
}
static void added_two_ids(tiny *t)
{
    json_array_append_new(t->added, tiny_added(301, "<s>"));
}
static void added_far(tiny *t)
{
    json_array_append_new(t->added, tiny_added(9999999, "<t>"));
}

static void long_piece(tiny *t)
{
    char piece[PAWL_TOK_MAX_PIECE + 2];
    memset(piece, 'z', sizeof piece - 1);
    piece[sizeof piece - 1] = 0;
    json_object_set_new(t->vocab, piece, json_integer(259));
}

static void broken_files(void **state)
{
    (void)state;
    static const breakage list[] = {
        {set_type, PAWL_EUNSUPPORTED, "tokenizer.json: model: type \"Unigram\" is not supported, only BPE"},
        {no_type, PAWL_EFORMAT, "model: type is missing"},
        {no_model, PAWL_EFORMAT, "model: expected an object"},
        {fallback, PAWL_EUNSUPPORTED, "byte_fallback"},
        {dropout, PAWL_EUNSUPPORTED, "dropout"},
        {suffix, PAWL_EUNSUPPORTED, "end_of_word_suffix"},
        {prefix, PAWL_EUNSUPPORTED, "continuing_subword_prefix"},
        {no_vocab, PAWL_EFORMAT, "model.vocab: expected an object"},
        {list_vocab, PAWL_EFORMAT, "model.vocab: expected an object"},
        {no_byte, PAWL_EFORMAT, "model.vocab: no piece for byte 0x61"},
        {text_id, PAWL_EFORMAT, "model.vocab: piece \"zz\": JSON byte"},
        {minus_id, PAWL_EFORMAT, "piece \"zz\": JSON byte"},
        {huge_id, PAWL_EFORMAT, "piece \"zz\": expected an id from 0 to 16777215, found 16777216"},
        {lonely_id, PAWL_EFORMAT, "the largest id is 16777215, but there are only 261 tokens"},
        {same_id, PAWL_EFORMAT, "model.vocab: pieces \"a\" and \"zz\" have the same id 97"},
        {long_piece, PAWL_EFORMAT, "model.vocab: JSON byte 2163: string of more than 8192 bytes"},
        {no_merges, PAWL_EFORMAT, "model.merges: expected an array"},
        {map_merges, PAWL_EFORMAT, "model.merges: expected an array"},
        {merge_three, PAWL_EFORMAT, "model.merges[3]: expected \"a b\""},
        {merge_one, PAWL_EFORMAT, "model.merges[3]: expected \"a b\""},
        {merge_empty, PAWL_EFORMAT, "model.merges[3]: expected \"a b\""},
        {merge_number, PAWL_EFORMAT, "model.merges[3]: expected \"a b\""},
        {merge_triple, PAWL_EFORMAT, "model.merges[3]: expected \"a b\""},
        {merge_mixed, PAWL_EFORMAT, "model.merges[3]: expected \"a b\""},
        {merge_unknown, PAWL_EFORMAT, "model.merges[3]: piece \"ax\" is not in model.vocab"},
        {merge_result, PAWL_EFORMAT, "model.merges[3]: its result \"cb\" is not in model.vocab"},
        {merge_twice, PAWL_EFORMAT, "model.merges[3]: the same pair as merges[1]"},
        {normalizer, PAWL_EUNSUPPORTED, "normalizer: type \"NFKC\" is not supported"},
        {decoder, PAWL_EUNSUPPORTED, "decoder: type \"WordPiece\" is not supported"},
        {no_pre, PAWL_EFORMAT, "pre_tokenizer: expected an object, found nothing"},
        {evil_pre, PAWL_EUNSUPPORTED, "pretokenizers[0]: a class intersection at byte 4"},
        {added_map, PAWL_EFORMAT, "added_tokens: expected an array, found an object"},
        {added_no_id, PAWL_EFORMAT, "added_tokens[0]: id is missing"},
        {added_empty, PAWL_EFORMAT, "added_tokens[0]: content: expected 1 to 512 bytes, found 0"},
        {added_flag, PAWL_EFORMAT, "added_tokens[0]: lstrip: expected true or false"},
        {added_clash, PAWL_EFORMAT, "added token \"<t>\" has id 300, but that is \"<s>\" elsewhere"},
        {added_two_ids, PAWL_EFORMAT, "added token \"<s>\" has two ids, 300 and 301"},
        {added_far, PAWL_EFORMAT, "the largest id is 9999999"},
    };
    pawl_err err;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        tiny tk = tiny_create();
        pawl_tokenizer *t;
        list[i].change(&tk);
        check_fails(load(&tk, NULL, &t, &err), list[i].status, &err, list[i].words);
        assert_null(t);
        tiny_free(&tk);
    }
}

static void not_json(void **state)
{
    (void)state;
    static const char *const text[] = {"",     "{",  "[1,2]", "nul", "{\"model\":{\"vocab\":{\"a\":0,\"a\":1}}}",
                                       "\xff", "{}x"};
    pawl_err err;
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        pawl_tokenizer *t;
        check_fails(pawl__tokenizer_load(text[i], strlen(text[i]), NULL, 0, &t, &err), PAWL_EFORMAT, &err,
                    "tokenizer.json: ");
        assert_null(t);
    }
    pawl_tokenizer *t;
    size_t n = 1 << 20; /* nested deeper than any stack would like */
    char *deep = malloc(n);
    assert_non_null(deep);
    memset(deep, '[', n);
    check_fails(pawl__tokenizer_load(deep, n, NULL, 0, &t, &err), PAWL_EFORMAT, &err, "tokenizer.json: not valid JSON");
    free(deep);
    check_fails(pawl__tokenizer_open("tests/unit", &t, &err), PAWL_EIO, &err, "tests/unit/tokenizer.json: cannot open");
    assert_null(t);
}

/* Vocabulary and merges are read without the tree parser, and must be read as strictly: random damage to a good file is
 * refused as bad JSON by both or by neither. */
static void as_strict_as_the_tree(void **state)
{
    (void)state;
    uint64_t seed = check_seed("as_strict_as_the_tree");
    static const char bytes[] = "\"\\{}[],: \n\t\x01\x1f-+.e0189ua\xc3\xa9\xed\xff/";
    tiny tk = tiny_create();
    char *json = json_dumps(tk.root, JSON_INDENT(1));
    size_t n = strlen(json), loaded = 0, refused = 0;
    char *copy = malloc(n + 1);
    assert_non_null(copy);
    for (int round = 0; round < 20000; round++) {
        size_t len = n;
        memcpy(copy, json, n + 1);
        for (uint64_t k = pawl__rng_next(&seed) % 3; k < 3; k++) {
            size_t at = pawl__rng_next(&seed) % len;
            char c = bytes[pawl__rng_next(&seed) % (sizeof bytes - 1)];
            if (pawl__rng_next(&seed) % 4)
                copy[at] = c;
            else
                memmove(copy + at, copy + at + 1, len-- - at);
        }
        pawl_err err, tree_err;
        pawl_tokenizer *t;
        json_t *tree = NULL;
        int bad = pawl__json_parse(copy, len, "tree", &tree, &tree_err) != PAWL_OK;
        pawl_status s = pawl__tokenizer_load(copy, len, NULL, 0, &t, &err);
        if (bad && s == PAWL_OK) fail_msg("loaded, but the tree parser says %s", tree_err.text);
        if (!bad && s != PAWL_OK && strstr(err.text, "not valid JSON"))
            fail_msg("%s, but the tree parser is content", err.text);
        loaded += s == PAWL_OK;
        refused += s != PAWL_OK;
        json_decref(tree);
        pawl__tokenizer_close(&t);
    }
    printf("%zu loaded, %zu refused\n", loaded, refused);
    assert_true(loaded > 100 && refused > 1000);
    free(copy);
    free(json);
    tiny_free(&tk);
}

/* Every way to run out of memory while loading and encoding is a clean failure. */
static void failing_allocations(void **state)
{
    (void)state;
    pawl_err err;
    tiny tk = tiny_create();
    json_object_set_new(json_array_get(tk.added, 0), "normalized", json_true());
    char *json = tiny_text(&tk);
    static const char text[] =
        "abc A\u030a <s> 12 the end of a somewhat longer text, longer than sixty-four ids would be";
    long n = 1;
    for (;; n++) {
        pawl_tokenizer *t;
        pawl_ids ids = {0};
        fail_in = n;
        pawl_status s = pawl__tokenizer_load(json, strlen(json), NULL, 0, &t, &err);
        int loaded = s == PAWL_OK;
        if (loaded) s = pawl__tokenizer_encode(t, text, sizeof text - 1, PAWL_ENCODE_SPECIAL, &ids, &err);
        int unused = fail_in > 0;
        fail_in = 0;
        if (!loaded) assert_null(t);
        if (s != PAWL_OK) {
            assert_int_equal(s, PAWL_ENOMEM);
            assert_int_equal(ids.len, 0);
        }
        pawl__ids_free(&ids);
        pawl__tokenizer_close(&t);
        if (unused) break;
        assert_true(s != PAWL_OK);
    }
    printf("%ld allocations failed in turn\n", n - 1);
    assert_true(n > 10);
    free(json);
    tiny_free(&tk);
}

static void generation_config(void **state)
{
    (void)state;
    pawl_err err;
    pawl_genconfig g;
    int32_t fallback_eos[2] = {5, 6};
    check_ok(pawl__genconfig_open("models/tale-moe-fp8", fallback_eos, 2, &g, &err), &err);
    assert_int_equal(g.n_eos, 2);
    assert_int_equal(g.eos[0], 4091);
    assert_int_equal(g.eos[1], 4089);
    assert_int_equal(g.bos, 4089);
    assert_true(g.do_sample == 1 && g.temperature == 0.7 && g.top_k == 20 && g.top_p == 0.95 && g.min_p == 0);
    check_ok(pawl__genconfig_open("tests/unit", fallback_eos, 2, &g, &err), &err); /* no file */
    assert_int_equal(g.n_eos, 2);
    assert_int_equal(g.eos[1], 6);
    assert_true(!g.do_sample && g.temperature == 1 && g.top_k == 0 && g.top_p == 1 && g.repetition_penalty == 1);

    static const struct {
        const char *text, *words; /* NULL: fine */
    } list[] = {
        {"{\"eos_token_id\":7,\"max_new_tokens\":9,\"presence_penalty\":0.5,\"min_p\":0.1}", NULL},
        {"{\"eos_token_id\":null}", NULL},
        {"{\"eos_token_id\":\"7\"}", "eos_token_id: expected an integer"},
        {"{\"eos_token_id\":[7,-1]}", "eos_token_id[1]: expected a token id"},
        {"{\"temperature\":-1}", "temperature: expected 0 to 1000"},
        {"{\"top_p\":1.5}", "top_p: expected 0 to 1"},
        {"{\"top_k\":-1}", "top_k: expected 0 to"},
        {"{\"min_p\":2}", "min_p: expected 0 to 1"},
        {"{\"repetition_penalty\":0}", "repetition_penalty: expected"},
        {"{\"max_new_tokens\":0}", "max_new_tokens: expected 1"},
        {"{\"do_sample\":1}", "do_sample: expected true or false"},
        {"[]", "expected an object, found an array"},
    };
    char dir[] = "/tmp/pawl-genconfig-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/generation_config.json", dir);
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        fputs(list[i].text, f);
        fclose(f);
        if (!list[i].words) {
            check_ok(pawl__genconfig_open(dir, fallback_eos, 2, &g, &err), &err);
            assert_int_equal(g.eos[0], i == 0 ? 7 : 5);
        } else {
            check_fails(pawl__genconfig_open(dir, NULL, 0, &g, &err), PAWL_EFORMAT, &err, list[i].words);
            assert_non_null(strstr(err.text, "generation_config.json"));
        }
    }
    unlink(path);
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_by_rank),        cmocka_unit_test(added_flags),
        cmocka_unit_test(config_file),           cmocka_unit_test(post_processors),
        cmocka_unit_test(broken_files),          cmocka_unit_test(not_json),
        cmocka_unit_test(as_strict_as_the_tree), cmocka_unit_test(failing_allocations),
        cmocka_unit_test(generation_config),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
