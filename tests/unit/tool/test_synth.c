/* Synthetic checkpoints: every format and layout opens as a model without a warning, the same seed gives the same bytes,
 * and a planted draft is always accepted. */
#include <math.h>
#include <stdio.h>

#include "base/file.h"
#include "base/json.h"
#include "check.h"
#include "kernels/list/list.h"
#include "model/net.h"
#include "pawl/pawl.h"
#include "store/weights.h"
#include "tool/synth.h"
#include "unit/store/folder.h"

static void path_in(const folder *d, const char *name, char out[512])
{
    snprintf(out, 512, "%s/%s", d->path, name);
}

/* Opens the model as an engine would; nothing may be left over or contradict the config. */
static pawl_net_dims open_model(const char *dir)
{
    pawl_checkpoint *ck;
    pawl_net *net;
    pawl_plan *plan;
    pawl_caps caps;
    pawl_err err;
    const pawl_net_options no = {.space = PAWL_SPACE_HOST};
    pawl__caps_probe(&caps);
    check_ok(pawl__checkpoint_open(dir, NULL, &ck, &err), &err);
    check_ok(pawl__plan_create(&pawl__kernel_table, &caps, NULL, NULL, NULL, &plan, &err), &err);
    check_ok(pawl__net_open(ck, plan, &no, &net, &err), &err);
    pawl_net_dims dims = *pawl__net_dims(net);
    if (pawl__checkpoint_warning(ck, 0)) fail_msg("%s", pawl__checkpoint_warning(ck, 0));
    pawl__net_close(&net);
    pawl__plan_destroy(&plan);
    pawl__checkpoint_close(&ck);
    return dims;
}

static pawl_quant format_of(const char *dir, const char *name, int64_t n, int64_t k)
{
    pawl_checkpoint *ck;
    pawl_wmat w;
    pawl_err err;
    check_ok(pawl__checkpoint_open(dir, NULL, &ck, &err), &err);
    check_ok(pawl__weights_matrix(ck, name, n, k, &w, &err), &err);
    float row[4096];
    double sum = 0;
    for (int64_t r = 0; r < n; r++) {
        pawl__wmat_decode_row(&w, r, row);
        for (int64_t j = 0; j < k; j++) sum += (double)row[j] * row[j];
    }
    double rms = sqrt(sum / (double)(n * k) * (double)k); /* 1 where the weights keep the size of what they multiply */
    assert_true(rms > 0.9 && rms < 1.1);
    pawl__checkpoint_close(&ck);
    return w.q;
}

static void formats(void **state)
{
    (void)state;
    static const struct {
        const char *config, *prefix;
    } models[] = {{"tests/models/tiny-qwen3_5/config.json", "model."},
                  {"tests/models/tiny-qwen3_5_moe/config.json", "model."},
                  {"tests/models/tiny-qwen3_5_moe_vl/config.json", "model.language_model."}};
    static const pawl_quant q[] = {PAWL_Q_BF16, PAWL_Q_FP8BLK, PAWL_Q_NVFP4},
                            mtp[] = {PAWL_Q_BF16, PAWL_Q_FP8BLK, PAWL_Q_BF16};
    for (int m = 0; m < 3; m++)
        for (int f = 0; f < PAWL_SYNTH_FORMATS; f++) {
            folder d;
            pawl_err err;
            char name[128];
            folder_make(&d);
            check_ok(pawl__synth(models[m].config, d.path,
                                 &(pawl_synth_opts){.seed = 5, .format = (pawl_synth_format)f}, &err),
                     &err);
            pawl_net_dims dims = open_model(d.path);
            assert_int_equal(dims.draft_layers, m == 2);
            int64_t qkv = 2 * dims.nk * dims.dk + dims.nv * dims.dv;
            snprintf(name, sizeof name, "%slayers.0.linear_attn.in_proj_qkv", models[m].prefix);
            assert_int_equal(format_of(d.path, name, qkv, dims.hidden), q[f]);
            if (m == 2) {
                int64_t kv = dims.kv_heads * dims.head_dim;
                assert_int_equal(format_of(d.path, "mtp.layers.0.self_attn.k_proj", kv, dims.hidden), mtp[f]);
                assert_int_equal(format_of(d.path, "mtp.fc", dims.hidden, 2 * dims.hidden), PAWL_Q_BF16);
            }
            folder_remove(&d);
        }
}

static void same_file(const folder *a, const folder *b, const char *name, int equal)
{
    char pa[512], pb[512];
    char *da, *db;
    size_t na, nb;
    pawl_err err;
    path_in(a, name, pa);
    path_in(b, name, pb);
    check_ok(pawl__file_read(pa, 1 << 26, &da, &na, &err), &err);
    check_ok(pawl__file_read(pb, 1 << 26, &db, &nb, &err), &err);
    assert_int_equal(na == nb && !memcmp(da, db, na), equal);
    free(da);
    free(db);
}

static void seeds_and_shards(void **state)
{
    (void)state;
    const char *config = "tests/models/tiny-qwen3_5_moe/config.json";
    folder a, b, c, s;
    pawl_err err;
    folder_make(&a);
    folder_make(&b);
    folder_make(&c);
    folder_make(&s);
    check_ok(pawl__synth(config, a.path, &(pawl_synth_opts){.seed = 1}, &err), &err);
    check_ok(pawl__synth(config, b.path, &(pawl_synth_opts){.seed = 1}, &err), &err);
    check_ok(pawl__synth(config, c.path, &(pawl_synth_opts){.seed = 2}, &err), &err);
    same_file(&a, &b, "model.safetensors", 1);
    same_file(&a, &c, "model.safetensors", 0);
    check_ok(pawl__synth(config, s.path, &(pawl_synth_opts){.seed = 1, .shard_bytes = 100000}, &err), &err);
    char path[512];
    path_in(&s, "model.safetensors.index.json", path);
    assert_true(pawl__file_exists(path));
    path_in(&s, "model.safetensors", path);
    assert_false(pawl__file_exists(path));
    open_model(s.path);
    check_fails(pawl__synth(config, a.path, &(pawl_synth_opts){.seed = 1}, &err), PAWL_EINVAL, &err,
                "expected a new or an empty folder");
    folder_remove(&a);
    folder_remove(&b);
    folder_remove(&c);
    folder_remove(&s);
}

/* Config with an odd vocabulary and what else the test wants. */
static void write_config(const folder *d, int64_t vocab, int64_t hidden)
{
    json_t *j;
    pawl_err err;
    char path[512];
    check_ok(pawl__json_load("tests/models/tiny-qwen3_5_moe/config.json", 1 << 20, &j, &err), &err);
    json_object_set_new(j, "vocab_size", json_integer(vocab));
    json_object_set_new(j, "hidden_size", json_integer(hidden));
    path_in(d, "given.json", path);
    assert_int_equal(json_dump_file(j, path, 0), 0);
    json_decref(j);
}

typedef struct seen {
    int32_t last, fixed; /* fixed: the token that is its own pair, or -1 */
    int wrong, count;
} seen;

static int next_token(const pawl_token *t, void *user)
{
    seen *s = user;
    s->wrong += t->id != (s->last == s->fixed ? s->last : (s->last ^ 1));
    s->last = t->id;
    s->count++;
    return 0;
}

typedef struct both {
    float *rows[2]; /* target's and draft's */
    int64_t vocab;
} both;

static int keep_logits(void *user, int draft, int64_t first, int64_t rows, const float *logits)
{
    both *b = user;
    memcpy(b->rows[draft] + first * b->vocab, logits, (size_t)(rows * b->vocab) * sizeof(float));
    return 0;
}

static void generates(pawl_session *s, int32_t first, int32_t fixed, float temperature, int draft)
{
    pawl_err err;
    const int32_t prompt[3] = {7, 300, first};
    pawl_session_reset(s);
    check_ok(pawl_session_feed(s, prompt, 3, &err), &err);
    pawl_sampling how = PAWL_INIT(pawl_sampling);
    how.temperature = temperature;
    how.top_p = how.repetition_penalty = 1;
    how.seed = 9;
    how.has_seed = 1;
    pawl_generate_options g = PAWL_INIT(pawl_generate_options);
    g.max_tokens = 25; /* rounds of draft + 1 tokens fill it when all are accepted */
    g.draft = draft;
    g.sampling = &how;
    g.ignore_eos = 1;
    seen got = {.last = first, .fixed = fixed};
    pawl_result r = PAWL_INIT(pawl_result);
    check_ok(pawl_generate(s, &g, next_token, &got, &r, &err), &err);
    assert_int_equal(got.count, 25);
    assert_int_equal(got.wrong, 0);
    if (draft) assert_true(r.stats.drafted > 0);
    assert_int_equal(r.stats.drafted, r.stats.accepted);
}

/* Greedy and sampled, and by the logits: the draft's row for a token has the bits of the target's. */
static void check_planted(const char *dir, int64_t vocab)
{
    pawl_err err;
    pawl_model *m;
    pawl_session *s;
    pawl_model_options mo = PAWL_INIT(pawl_model_options);
    mo.threads = 1;
    check_ok(pawl_model_open(dir, &mo, &m, &err), &err);
    pawl_session_options so = PAWL_INIT(pawl_session_options);
    so.context = 64;
    check_ok(pawl_session_create(m, &so, &s, &err), &err);
    int32_t fixed = vocab % 2 ? (int32_t)vocab - 1 : -1;
    int32_t ids[6] = {0, 1, 77, 300, (int32_t)vocab - 1, 12};
    enum { N = 6 };
    both b = {{malloc((size_t)(N * vocab) * 4), malloc((size_t)(N * vocab) * 4)}, vocab};
    check_ok(pawl_score(s, ids, N, 1, keep_logits, &b, &err), &err);
    for (int t = 0; t + 1 < N; t++)
        assert_memory_equal(b.rows[1] + t * vocab, b.rows[0] + (t + 1) * vocab, (size_t)vocab * 4);
    free(b.rows[0]);
    free(b.rows[1]);
    for (int draft = 0; draft <= 4; draft += 2) {
        generates(s, 12, fixed, 0, draft);
        generates(s, 13, fixed, 1.2f, draft);
        generates(s, (int32_t)vocab - 1, fixed, 0, draft);
    }
    pawl_session_destroy(&s);
    pawl_model_close(&m);
}

static void planted(void **state)
{
    (void)state;
    for (int f = 0; f < PAWL_SYNTH_FORMATS; f++) {
        folder d, configs;
        pawl_err err;
        char config[512];
        folder_make(&d);
        folder_make(&configs);
        int64_t vocab = f == 1 ? 511 : 512;
        write_config(&configs, vocab, f == 2 ? 96 : 64);
        path_in(&configs, "given.json", config);
        check_ok(pawl__synth(config, d.path,
                             &(pawl_synth_opts){.seed = 3, .format = (pawl_synth_format)f, .planted_mtp = 1}, &err),
                 &err);
        assert_int_equal(open_model(d.path).draft_layers, 1);
        check_planted(d.path, vocab);
        folder_remove(&d);
        folder_remove(&configs);
    }
}

static void refuses(void **state)
{
    (void)state;
    folder d, configs;
    pawl_err err;
    char config[512], dst[512];
    folder_make(&d);
    folder_make(&configs);
    path_in(&d, "made", dst);
    path_in(&configs, "given.json", config);
    write_config(&configs, 512, 32);
    check_fails(pawl__synth(config, dst, &(pawl_synth_opts){.planted_mtp = 1}, &err), PAWL_EINVAL, &err,
                "a planted draft needs hidden_size of at least 64 and a multiple of 4");
    write_config(&configs, 512, 72);
    check_fails(pawl__synth(config, dst, &(pawl_synth_opts){.format = PAWL_SYNTH_NVFP4}, &err), PAWL_EUNSUPPORTED, &err,
                "model.layers.0.linear_attn.in_proj_qkv.weight: nvfp4 needs rows of a multiple of 16");
    folder_text(&configs, "given.json", "{\"model_type\":\"llama\"}");
    check_fails(pawl__synth(config, dst, &(pawl_synth_opts){0}, &err), PAWL_EUNSUPPORTED, &err,
                "given.json: model_type");
    folder_text(
        &configs, "given.json",
        "{\"model_type\":\"qwen3_5_moe_text\",\"vocab_size\":1000,\"hidden_size\":1048576,\"num_hidden_layers\":512,"
        "\"num_attention_heads\":8,\"num_key_value_heads\":8,\"max_position_embeddings\":100,\"num_experts\":65536,"
        "\"num_experts_per_tok\":1,\"moe_intermediate_size\":1048576,\"shared_expert_intermediate_size\":1}");
    check_fails(pawl__synth(config, dst, &(pawl_synth_opts){0}, &err), PAWL_EINVAL, &err,
                "would take more than 64 TiB");
    assert_false(pawl__file_exists(dst)); /* nothing is made before all is checked */
    assert_int_equal(pawl__synth_format_parse("fp8"), PAWL_SYNTH_FP8);
    assert_int_equal(pawl__synth_format_parse("int3"), PAWL_SYNTH_FORMATS);
    folder_remove(&d);
    folder_remove(&configs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(formats), cmocka_unit_test(seeds_and_shards),
                                       cmocka_unit_test(planted), cmocka_unit_test(refuses)};
    return cmocka_run_group_tests_name("tool.synth", tests, NULL, NULL);
}
