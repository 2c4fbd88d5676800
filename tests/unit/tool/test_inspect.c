/* What inspect reports of the checkpoints in the tree, with figures worked out apart from it. */
#include <stdio.h>

#include "base/json.h"
#include "check.h"
#include "tool/inspect.h"
#include "unit/store/folder.h"

static json_t *inspect(const char *dir, int tensors)
{
    pawl_buf out = {0};
    pawl_err err;
    json_t *j;
    check_ok(pawl__inspect(dir, &(pawl_inspect_opts){.tensors = tensors, .json = 1}, &out, &err), &err);
    assert_int_equal(out.data[out.len - 1], '\n');
    check_ok(pawl__json_parse(out.data, out.len, "inspect", &j, &err), &err);
    pawl__buf_free(&out);
    assert_string_equal(json_string_value(json_object_get(j, "schema")), "pawl.inspect/1");
    return j;
}

/* The integer at a dotted path. */
static int64_t at(const json_t *j, const char *path)
{
    char part[64];
    for (; *path; path += strspn(path, ".")) {
        size_t n = strcspn(path, ".");
        snprintf(part, sizeof part, "%.*s", (int)n, path);
        j = json_object_get(j, part);
        if (!j) fail_msg("no %s", part);
        path += n;
    }
    return json_integer_value(j);
}

static int64_t format_bytes(const json_t *list, const char *format)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *f = json_array_get(list, i);
        if (!strcmp(json_string_value(json_object_get(f, "format")), format)) return at(f, "bytes");
    }
    return -1;
}

/* The three formats of one model: the same parameters, the bytes of models/README.md. */
static void demo(void **state)
{
    (void)state;
    static const char *const dirs[] = {"tests/models/tale-moe-bf16", "models/tale-moe-fp8",
                                       "tests/models/tale-moe-nvfp4"};
    static const char *const words[] = {"bf16", "fp8blk128", "nvfp4"};
    static const int64_t bytes[] = {23107472, 13933552, 9920288};
    int64_t total = 0, active = 0;
    for (int f = 0; f < 3; f++) {
        json_t *j = inspect(dirs[f], 0);
        assert_true(json_is_null(json_object_get(j, "problem")));
        assert_string_equal(json_string_value(json_object_get(j, "model_type")), "qwen3_5_moe_text");
        assert_int_equal(at(j, "bytes"), bytes[f]);
        assert_int_equal(at(j, "model.layers"), 8);
        assert_int_equal(at(j, "model.layer_kinds.gated_delta_net"), 6);
        assert_int_equal(at(j, "model.layer_kinds.attention"), 2);
        assert_int_equal(at(j, "model.layer_kinds.experts"), 8);
        assert_int_equal(at(j, "model.layer_kinds.dense_mlp"), 0);
        assert_int_equal(at(j, "model.draft_layers"), 1);
        assert_int_equal(at(j, "model.kv_bytes_per_token"), 3 * 2 * 2 * 64 * 4);
        assert_int_equal(at(j, "model.state_bytes_per_sequence"), 6 * (4 * 64 * 64 + 3 * 512) * 4);
        assert_int_equal(json_array_size(json_object_get(j, "unread")), 0);
        assert_int_equal(json_array_size(json_object_get(j, "warnings")), 0);
        if (f == 0) {
            total = at(j, "parameters.total");
            active = at(j, "parameters.active");
            /* bf16, but for A_log and norm of the six Gated DeltaNet layers */
            assert_int_equal(2 * (total + at(j, "draft.parameters")) + 6 * (4 + 64) * 2, bytes[0]);
            assert_int_equal(total - active, 8 * (8 - 2) * 3 * 128 * 256); /* six of eight experts a layer */
        }
        assert_int_equal(at(j, "parameters.total"), total);
        assert_int_equal(at(j, "parameters.active"), active);
        const json_t *formats = json_object_get(j, "formats");
        assert_true(format_bytes(formats, words[f]) > 0);
        if (f)
            assert_int_equal(format_bytes(formats, "bf16") + 6 * (4 + 64) * 4 + format_bytes(formats, words[f]),
                             bytes[f]);
        assert_int_equal(json_array_size(json_object_get(json_object_get(j, "draft"), "formats")), 1);
        assert_null(json_object_get(j, "tensors"));
        json_decref(j);
    }
}

static void wrapper(void **state)
{
    (void)state;
    json_t *j = inspect("tests/models/tiny-qwen3_5_moe_vl", 1);
    assert_true(at(j, "parameters.vision") > 0);
    assert_int_equal(json_array_size(json_object_get(j, "tensors")), at(j, "tensor_count"));
    assert_int_equal(json_array_size(json_object_get(j, "unread")), 0);
    json_decref(j);
    pawl_buf out = {0};
    pawl_err err;
    check_ok(pawl__inspect("tests/models/tiny-qwen3_5_moe_vl", &(pawl_inspect_opts){.tensors = 1}, &out, &err), &err);
    assert_non_null(strstr(out.data, "4: 3 Gated DeltaNet, 1 attention; MLPs: 4 of experts, 0 dense"));
    assert_non_null(strstr(out.data, "every tensor is accounted for"));
    assert_non_null(strstr(out.data, "model.language_model.layers.*.mlp.experts.gate_up_proj"));
    assert_non_null(strstr(out.data, "  mtp.fc.weight  BF16 [64, 128]  16384 B\n"));
    pawl__buf_free(&out);
}

static void broken(void **state)
{
    (void)state;
    folder d;
    pawl_buf out = {0};
    pawl_err err;
    const float x[4] = {1, 2, 3, 4};
    const given t[] = {{{"a.weight", PAWL_F32, 2, {2, 2}}, x}};
    folder_make(&d);
    folder_text(&d, "config.json", "{\"model_type\":\"qwen4_exp\"}");
    check_fails(pawl__inspect(d.path, &(pawl_inspect_opts){0}, &out, &err), PAWL_EIO, &err, "model.safetensors");
    folder_tensors(&d, "model.safetensors", t, 1);
    json_t *j = inspect(d.path, 1);
    assert_non_null(strstr(json_string_value(json_object_get(j, "problem")), "qwen4_exp"));
    assert_true(json_is_null(json_object_get(j, "model")));
    assert_true(json_is_null(json_object_get(j, "draft")));
    assert_int_equal(at(j, "parameters.total"), 4);
    json_decref(j);
    folder_remove(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(demo), cmocka_unit_test(wrapper), cmocka_unit_test(broken)};
    return cmocka_run_group_tests_name("tool.inspect", tests, NULL, NULL);
}
