/* Checkpoint folders: single and sharded, broken indexes, missing shards and tensors, used marks, cross-checks, progress. */
#include "check.h"
#include "folder.h"
#include "store/checkpoint.h"
#include "store/quantcheck.h"

static const float ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};

static void two_shards(folder *d, const char *index)
{
    const given a[] = {{{"a", PAWL_F32, 1, {2}}, ones}, {{"model.visual.x", PAWL_F32, 1, {1}}, ones}};
    const given b[] = {{{"b", PAWL_F32, 1, {3}}, ones}, {{"c", PAWL_F32, 0, {0}}, ones}};
    folder_make(d);
    folder_text(d, "config.json", "{\"model_type\":\"x\"}");
    folder_tensors(d, "s1.safetensors", a, 2);
    folder_tensors(d, "s2.safetensors", b, 2);
    folder_text(d, "model.safetensors.index.json", index);
}

#define MAP(more)                                                                                                      \
    "{\"metadata\":{\"total_size\":28},\"weight_map\":{\"a\":\"s1.safetensors\",\"model.visual.x\":\"s1."              \
    "safetensors\","                                                                                                   \
    "\"b\":\"s2.safetensors\"" more "}}"

static void opens_shards(void **state)
{
    (void)state;
    folder d;
    pawl_checkpoint *ck;
    pawl_err err;
    two_shards(&d, MAP(",\"c\":\"s2.safetensors\""));
    check_ok(pawl__checkpoint_open(d.path, NULL, &ck, &err), &err);
    assert_int_equal(pawl__checkpoint_count(ck), 4);
    assert_string_equal(pawl__checkpoint_dir(ck), d.path);
    const pawl_tensor *b = pawl__checkpoint_find(ck, "b");
    assert_int_equal(b->shape[0], 3);
    assert_non_null(strstr(pawl__checkpoint_file(ck, b), "s2.safetensors"));
    assert_null(pawl__checkpoint_find(ck, "d"));
    assert_null(pawl__checkpoint_warning(ck, 0));
    /* what nobody used is a warning, but for the vision tower */
    assert_non_null(pawl__checkpoint_use(ck, "a"));
    assert_null(pawl__checkpoint_use(ck, "nothing"));
    assert_int_equal(pawl__checkpoint_warn_unused(ck), 2);
    assert_non_null(strstr(pawl__checkpoint_warning(ck, 0), "tensor b, F32 [3], is not used"));
    assert_non_null(strstr(pawl__checkpoint_warning(ck, 1), "tensor c, F32 [], is not used"));
    assert_null(pawl__checkpoint_warning(ck, 2));
    pawl__checkpoint_close(&ck);
    assert_null(ck);
    pawl__checkpoint_close(&ck);
    folder_remove(&d);
}

static void unlisted_tensors(void **state)
{
    (void)state;
    folder d;
    pawl_checkpoint *ck;
    pawl_err err;
    two_shards(&d, MAP(""));
    check_ok(pawl__checkpoint_open(d.path, NULL, &ck, &err), &err);
    assert_non_null(strstr(pawl__checkpoint_warning(ck, 0), "tensor c is in "));
    assert_non_null(strstr(pawl__checkpoint_warning(ck, 0), "the index does not list it there"));
    assert_non_null(pawl__checkpoint_find(ck, "c"));
    pawl__checkpoint_close(&ck);
    folder_remove(&d);
}

static void refuse_index(const char *index, pawl_status status, const char *words)
{
    folder d;
    pawl_checkpoint *ck;
    pawl_err err;
    two_shards(&d, index);
    check_fails(pawl__checkpoint_open(d.path, NULL, &ck, &err), status, &err, words);
    assert_null(ck);
    folder_remove(&d);
}

static void refuses_indexes(void **state)
{
    (void)state;
    refuse_index(MAP(",\"d\":\"s3.safetensors\""), PAWL_EIO, "s3.safetensors: cannot open");
    refuse_index(MAP(",\"d\":\"s3.safetensors\""), PAWL_EIO, "shard listed in model.safetensors.index.json: ");
    refuse_index(MAP(",\"d\":\"s2.safetensors\""), PAWL_EFORMAT,
                 "s2.safetensors: tensor d is missing, but model.safetensors.index.json lists it here");
    refuse_index(MAP(",\"c\":\"s1.safetensors\""), PAWL_EFORMAT, "s1.safetensors: tensor c is missing");
    refuse_index(MAP(",\"c\":\"../s2.safetensors\""), PAWL_EFORMAT,
                 "expected a plain file name without path separators");
    refuse_index(MAP(",\"c\":\"/etc/passwd\""), PAWL_EFORMAT, "shard \"/etc/passwd\": expected a plain file name");
    refuse_index(MAP(",\"c\":\"sub\\\\s2\""), PAWL_EFORMAT, "expected a plain file name");
    refuse_index(MAP(",\"c\":\"..\""), PAWL_EFORMAT, "expected a plain file name");
    refuse_index(MAP(",\"c\":\"a..b\""), PAWL_EFORMAT, "expected a plain file name");
    refuse_index(MAP(",\"c\":\".hidden\""), PAWL_EFORMAT, "expected a plain file name");
    refuse_index(MAP(",\"c\":\"\""), PAWL_EFORMAT, "expected a plain file name");
    refuse_index(MAP(",\"c\":\"s2\\u0000\""), PAWL_EFORMAT, "expected a plain file name");
    refuse_index(MAP(",\"c\":7"), PAWL_EFORMAT, "expected '\"'");
    refuse_index(MAP(",\"a\":\"s1.safetensors\""), PAWL_EFORMAT, "tensor a given twice in weight_map");
    refuse_index("{}", PAWL_EFORMAT, "no weight_map");
    refuse_index("{\"weight_map\":{},\"weight_map\":{}}", PAWL_EFORMAT, "weight_map given twice");
    refuse_index("{\"weight_map\":{}", PAWL_EFORMAT, "JSON ends at byte 16");
    refuse_index("[", PAWL_EFORMAT, "index.json: JSON byte 0: found '[', expected '{'");
    refuse_index("", PAWL_EFORMAT, "JSON ends at byte 0");
}

static void refuses_folders(void **state)
{
    (void)state;
    folder d;
    pawl_checkpoint *ck;
    pawl_err err;
    folder_make(&d);
    check_fails(pawl__checkpoint_open(d.path, NULL, &ck, &err), PAWL_EIO, &err, "config.json: cannot open");
    folder_text(&d, "config.json", "[1]");
    check_fails(pawl__checkpoint_open(d.path, NULL, &ck, &err), PAWL_EFORMAT, &err,
                "config.json: expected an object, found an array");
    folder_text(&d, "config.json", "{\"a\":1,\"a\":2}");
    check_fails(pawl__checkpoint_open(d.path, NULL, &ck, &err), PAWL_EFORMAT, &err, "duplicate");
    folder_text(&d, "config.json", "{}");
    check_fails(pawl__checkpoint_open(d.path, NULL, &ck, &err), PAWL_EIO, &err,
                "found neither model.safetensors.index.json nor model.safetensors");
    folder_put(&d, "model.safetensors", "\1\0\0", 3);
    check_fails(pawl__checkpoint_open(d.path, NULL, &ck, &err), PAWL_EFORMAT, &err,
                "model.safetensors: file of 3 bytes");
    const given t[] = {{{"a", PAWL_F32, 1, {2}}, ones}};
    folder_tensors(&d, "model.safetensors", t, 1);
    folder_text(&d, "hf_quant_config.json", "{");
    check_fails(pawl__checkpoint_open(d.path, NULL, &ck, &err), PAWL_EFORMAT, &err,
                "hf_quant_config.json: not valid JSON");
    folder_text(&d, "hf_quant_config.json", "{}");
    check_ok(pawl__checkpoint_open(d.path, NULL, &ck, &err), &err);
    pawl__checkpoint_close(&ck);
    folder_remove(&d);
}

static void patterns(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *module;
        int covers;
    } rows[] = {
        {"lm_head", "lm_head", 1},
        {"lm_head", "lm_head2", 0},
        {"mtp*", "mtp.layers.0.self_attn.q_proj", 1},
        {"mtp.layers.0*", "mtp.fc", 0},
        {"model.layers.0.mlp", "model.layers.0.mlp.gate", 1},
        {"model.layers.0.mlp", "model.layers.0.mlpx", 0},
        {"model.layers.0.mlp.gate", "model.language_model.layers.0.mlp.gate", 1},
        {"model.language_model.layers.0.mlp.gate", "model.layers.0.mlp.gate", 1},
        {"*self_attn*", "model.layers.3.self_attn.k_proj", 1},
        {"*.gate", "model.layers.3.mlp.gate", 1},
        {"*.gate", "model.layers.3.mlp.gate_proj", 0},
        {"*a*a*a*a*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 0},
        {"", "a", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (pawl__quant_pattern_covers(rows[i].pattern, rows[i].module) != rows[i].covers)
            fail_msg("%s over %s: expected %d", rows[i].pattern, rows[i].module, rows[i].covers);
}

static int contains_warning(const pawl_checkpoint *ck, const char *words)
{
    for (size_t i = 0; pawl__checkpoint_warning(ck, i); i++)
        if (strstr(pawl__checkpoint_warning(ck, i), words)) return 1;
    return 0;
}

static void cross_checks(void **state)
{
    (void)state;
    folder d;
    pawl_checkpoint *ck;
    pawl_err err;
    const given t[] = {{{"model.layers.0.mlp.up_proj.weight", PAWL_F8_E4M3, 2, {2, 4}}, ones}};
    folder_make(&d);
    folder_tensors(&d, "model.safetensors", t, 1);
    folder_text(&d, "config.json",
                "{\"quantization_config\":{\"quant_algo\":\"FP8\",\"modules_to_not_convert\":[\"layers.0.mlp\",5]}}");
    folder_text(&d, "hf_quant_config.json", "{\"quantization\":{\"quant_algo\":\"NVFP4\",\"exclude_modules\":\"x\"}}");
    check_ok(pawl__checkpoint_open(d.path, NULL, &ck, &err), &err);
    assert_true(contains_warning(ck, "quant_algo is FP8 in config.json and NVFP4 in hf_quant_config.json"));
    assert_false(contains_warning(ck, "not quantised")); /* a list with a number in it says nothing */
    pawl__checkpoint_close(&ck);
    folder_text(&d, "config.json",
                "{\"quantization_config\":{\"ignore\":[\"model.language_model.layers.0.mlp.up_proj\"]}}");
    check_ok(pawl__checkpoint_open(d.path, NULL, &ck, &err), &err);
    assert_true(contains_warning(ck, "lists 1 modules as not quantised that are stored quantised, first "
                                     "model.layers.0.mlp.up_proj.weight, F8_E4M3 [2, 4]"));
    pawl__checkpoint_close(&ck);
    const given plain[] = {{{"model.layers.0.mlp.up_proj.weight", PAWL_F32, 2, {2, 4}}, ones}};
    folder_tensors(&d, "model.safetensors", plain, 1);
    check_ok(pawl__checkpoint_open(d.path, NULL, &ck, &err), &err);
    assert_true(contains_warning(ck, "the config says that weights are quantised, but none is"));
    pawl__checkpoint_close(&ck);
    folder_remove(&d);
}

static int count_calls(void *ctx, const char *what, double done)
{
    int *calls = ctx;
    assert_non_null(what);
    assert_true(done >= 0 && done <= 1);
    return ++*calls == 2;
}

static void progress(void **state)
{
    (void)state;
    folder d;
    pawl_checkpoint *ck;
    pawl_err err;
    int calls = 0;
    two_shards(&d, MAP(""));
    check_ok(pawl__checkpoint_open(d.path, &(pawl_checkpoint_opts){count_calls, &calls}, &ck, &err), &err);
    check_ok(pawl__checkpoint_tick(ck, "reading weights", &err), &err);
    assert_int_equal(calls, 0); /* nothing is said about what is over in a moment */
    usleep(320000);
    check_ok(pawl__checkpoint_tick(ck, "reading weights", &err), &err);
    check_ok(pawl__checkpoint_tick(ck, "reading weights", &err), &err);
    assert_int_equal(calls, 1);
    usleep(120000);
    check_fails(pawl__checkpoint_tick(ck, "reading weights", &err), PAWL_ECANCELED, &err, "canceled");
    pawl__checkpoint_close(&ck);
    folder_remove(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_shards),    cmocka_unit_test(unlisted_tensors), cmocka_unit_test(refuses_indexes),
        cmocka_unit_test(refuses_folders), cmocka_unit_test(patterns),         cmocka_unit_test(cross_checks),
        cmocka_unit_test(progress),
    };
    return cmocka_run_group_tests_name("store.checkpoint", tests, NULL, NULL);
}
