/* Which tensors a synthetic checkpoint has: names and shapes as published (Qwen3.5 releases; FP8 and NVFP4 layouts as in
 * store/weights.h), its config, and its division into shards. */
#include "tool/synth.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mathfn.h"
#include "base/rng.h"
#include "store/config_qwen3_5.h"
#include "tool/synth_internal.h"

enum { NAME_CAP = 256, PATH_CAP = 4096 };
static const uint64_t max_total = 1ull << 46; /* 64 TiB: far above any model, far below an overflow */

typedef struct plan {
    pawl_qwen35_config c;
    pawl_synth_opts opts;
    pawl_arena *arena;
    pawl_synth_item *item;
    size_t count, cap;
    uint64_t total;
    const char *prefix;  /* of the text model: "model." or "model.language_model." */
    json_t *unquantised; /* names for the config's list */
    pawl_status status;  /* the first failure while items were added */
    pawl_err *err;
} plan;

pawl_synth_format pawl__synth_format_parse(const char *word)
{
    static const char *const words[] = {"bf16", "fp8", "nvfp4"};
    int f = 0;
    while (f < PAWL_SYNTH_FORMATS && strcmp(word, words[f])) f++;
    return (pawl_synth_format)f;
}

static void fail(plan *p, pawl_status s, const char *what, const char *name)
{
    if (p->status == PAWL_OK) p->status = pawl__fail(p->err, s, "%s: %s", name, what);
}

/* Names are far shorter than this: the longest parts are written out below. */
static void name_of(char out[NAME_CAP], const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void name_of(char out[NAME_CAP], const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(out, NAME_CAP, fmt, ap);
    va_end(ap);
}

static uint64_t stream_of(const plan *p, const char *name)
{
    uint64_t h = pawl__mix64(p->opts.seed + 1);
    for (; *name; name++) h = pawl__mix64(h ^ (unsigned char)*name);
    return h;
}

/* A further part that the last item is stored as: its name with `end` instead of the last `cut` characters. */
static void add_part(plan *p, const char *name, size_t cut, const char *end, pawl_dtype type, int rank,
                     const int64_t *shape)
{
    pawl_synth_item *it = &p->item[p->count - 1];
    char full[NAME_CAP];
    name_of(full, "%.*s%s", (int)(strlen(name) - cut), name, end);
    pawl_tensor_decl *d = &it->part[it->parts++];
    d->name = pawl__arena_strndup(p->arena, full, strlen(full));
    d->dtype = type;
    d->rank = rank;
    if (rank) memcpy(d->shape, shape, (size_t)rank * sizeof *shape);
    if (!d->name) fail(p, PAWL_ENOMEM, "out of memory", name);
    p->total += pawl__decl_bytes(d);
    if (p->total > max_total) fail(p, PAWL_EINVAL, "the checkpoint would take more than 64 TiB", name);
}

static pawl_synth_item *add_item(plan *p, const char *name, pawl_fill fill, pawl_stored stored, float scale, int64_t n,
                                 int64_t k)
{
    if (p->status != PAWL_OK) return NULL;
    if (p->count == p->cap) {
        size_t cap = p->cap ? p->cap * 2 : 256;
        pawl_synth_item *grown = realloc(p->item, cap * sizeof *grown);
        if (!grown) {
            fail(p, PAWL_ENOMEM, "out of memory", name);
            return NULL;
        }
        p->item = grown;
        p->cap = cap;
    }
    pawl_synth_item *it = &p->item[p->count++];
    *it =
        (pawl_synth_item){.fill = fill, .stored = stored, .scale = scale, .n = n, .k = k, .stream = stream_of(p, name)};
    return it;
}

/* A tensor that no release quantises. */
static void add_plain(plan *p, const char *base, const char *name, pawl_fill fill, pawl_stored stored, float scale,
                      int rank, const int64_t *shape)
{
    char full[NAME_CAP];
    int64_t n = 1;
    name_of(full, "%s%s", base, name);
    for (int i = 0; i + 1 < rank; i++) n *= shape[i];
    if (add_item(p, full, fill, stored, scale, n, shape[rank - 1]))
        add_part(p, full, 0, "", stored == PAWL_STORED_F32 ? PAWL_F32 : PAWL_BF16, rank, shape);
}

static void add_vector(plan *p, const char *base, const char *name, pawl_fill fill, pawl_stored stored, int64_t n)
{
    add_plain(p, base, name, fill, stored, 0, 1, &n);
}

/* Lists a module as not quantised: base + name without ".weight". */
static void list_module(plan *p, const char *base, const char *name)
{
    char full[NAME_CAP];
    name_of(full, "%s%s", base, name);
    json_array_append_new(p->unquantised, json_string(full));
}

static float deviation(int64_t k)
{
    return 1.0f / sqrtf((float)k);
}

/* A small matrix that stays BF16, listed as such. */
static void add_kept(plan *p, const char *base, const char *name, float gain, int64_t n, int64_t k)
{
    char weight[NAME_CAP];
    const int64_t shape[2] = {n, k};
    name_of(weight, "%s.weight", name);
    add_plain(p, base, weight, PAWL_FILL_NORMAL, PAWL_STORED_BF16, gain * deviation(k), 2, shape);
    list_module(p, base, name);
}

/* The format of the linears of a layer. */
static pawl_stored stored_in(const plan *p, int mtp)
{
    if (p->opts.format == PAWL_SYNTH_FP8) return PAWL_STORED_FP8;
    return p->opts.format == PAWL_SYNTH_NVFP4 && !mtp ? PAWL_STORED_NVFP4 : PAWL_STORED_BF16;
}

/* A linear [n, k] that quantised releases quantise. writes: it writes into the residual stream, where a planted draft
 * wants zeros, and where the sum over all layers shall stay near 1. */
static void add_linear(plan *p, const char *base, const char *name, int writes, int mtp, int64_t n, int64_t k)
{
    char full[NAME_CAP];
    const int64_t shape[2] = {n, k}, blocks[2] = {(n + 127) / 128, (k + 127) / 128}, half[2] = {n, k / 2},
                  groups[2] = {n, k / 16};
    pawl_stored stored = stored_in(p, mtp);
    float scale = deviation(k) * (writes ? 1.0f / sqrtf(2.0f * (float)p->c.layers) : 1.0f);
    pawl_fill fill = writes && p->opts.planted_mtp ? PAWL_FILL_ZERO : PAWL_FILL_NORMAL;
    name_of(full, "%s%s.weight", base, name);
    if (stored == PAWL_STORED_NVFP4 && k % 16) fail(p, PAWL_EUNSUPPORTED, "nvfp4 needs rows of a multiple of 16", full);
    if (!add_item(p, full, fill, stored, scale, n, k)) return;
    if (stored == PAWL_STORED_BF16) add_part(p, full, 0, "", PAWL_BF16, 2, shape);
    if (stored == PAWL_STORED_FP8) {
        add_part(p, full, 0, "", PAWL_F8_E4M3, 2, shape);
        add_part(p, full, 0, "_scale_inv", PAWL_BF16, 2, blocks);
    }
    if (stored == PAWL_STORED_NVFP4) {
        add_part(p, full, 0, "", PAWL_U8, 2, half);
        add_part(p, full, 0, "_scale", PAWL_F8_E4M3, 2, groups);
        add_part(p, full, 0, "_scale_2", PAWL_F32, 0, NULL);
        add_part(p, full, strlen("weight"), "input_scale", PAWL_F32, 0, NULL);
    }
}

/* gate, up and down under base, e.g. "…mlp." */
static void add_mlp(plan *p, const char *base, int mtp, int64_t i)
{
    const int64_t h = p->c.hidden_size;
    add_linear(p, base, "gate_proj", 0, mtp, i, h);
    add_linear(p, base, "up_proj", 0, mtp, i, h);
    add_linear(p, base, "down_proj", 1, mtp, h, i);
}

static void add_experts(plan *p, const char *base, int mtp)
{
    char name[NAME_CAP];
    const pawl_qwen35_config *c = &p->c;
    const int64_t up[3] = {c->experts, 2 * c->moe_intermediate, c->hidden_size},
                  down[3] = {c->experts, c->hidden_size, c->moe_intermediate};
    if (stored_in(p, mtp) == PAWL_STORED_BF16) {
        pawl_fill fill = p->opts.planted_mtp ? PAWL_FILL_ZERO : PAWL_FILL_NORMAL;
        float scale = deviation(c->moe_intermediate) / sqrtf(2.0f * (float)c->layers);
        add_plain(p, base, "experts.gate_up_proj", PAWL_FILL_NORMAL, PAWL_STORED_BF16, deviation(up[2]), 3, up);
        add_plain(p, base, "experts.down_proj", fill, PAWL_STORED_BF16, scale, 3, down);
        return;
    }
    for (int64_t e = 0; e < c->experts && p->status == PAWL_OK; e++) {
        name_of(name, "%sexperts.%lld.", base, (long long)e);
        add_mlp(p, name, mtp, c->moe_intermediate);
    }
}

static void add_layer(plan *p, const char *base, int full, int mtp)
{
    char name[NAME_CAP];
    const pawl_qwen35_config *c = &p->c;
    const int64_t h = c->hidden_size, d = c->head_dim, kd = c->key_heads * c->key_dim,
                  vd = c->value_heads * c->value_dim;
    add_vector(p, base, "input_layernorm.weight", PAWL_FILL_NORM, PAWL_STORED_BF16, h);
    add_vector(p, base, "post_attention_layernorm.weight", PAWL_FILL_NORM, PAWL_STORED_BF16, h);
    if (full) {
        add_linear(p, base, "self_attn.q_proj", 0, mtp, c->q_heads * 2 * d, h);
        add_linear(p, base, "self_attn.k_proj", 0, mtp, c->kv_heads * d, h);
        add_linear(p, base, "self_attn.v_proj", 0, mtp, c->kv_heads * d, h);
        add_linear(p, base, "self_attn.o_proj", 1, mtp, h, c->q_heads * d);
        add_vector(p, base, "self_attn.q_norm.weight", PAWL_FILL_NORM, PAWL_STORED_BF16, d);
        add_vector(p, base, "self_attn.k_norm.weight", PAWL_FILL_NORM, PAWL_STORED_BF16, d);
    } else {
        const int64_t conv[3] = {2 * kd + vd, 1, c->conv_width};
        add_linear(p, base, "linear_attn.in_proj_qkv", 0, mtp, 2 * kd + vd, h);
        add_linear(p, base, "linear_attn.in_proj_z", 0, mtp, vd, h);
        add_kept(p, base, "linear_attn.in_proj_a", 1, c->value_heads, h);
        add_kept(p, base, "linear_attn.in_proj_b", 1, c->value_heads, h);
        add_plain(p, base, "linear_attn.conv1d.weight", PAWL_FILL_NORMAL, PAWL_STORED_BF16, 0.5f, 3, conv);
        list_module(p, base, "linear_attn.conv1d");
        add_vector(p, base, "linear_attn.A_log", PAWL_FILL_A_LOG, PAWL_STORED_F32, c->value_heads);
        add_vector(p, base, "linear_attn.dt_bias", PAWL_FILL_DT, PAWL_STORED_BF16, c->value_heads);
        add_vector(p, base, "linear_attn.norm.weight", PAWL_FILL_GAIN, PAWL_STORED_F32, c->value_dim);
        add_linear(p, base, "linear_attn.out_proj", 1, mtp, h, vd);
    }
    name_of(name, "%smlp.", base);
    if (!c->moe) {
        add_mlp(p, name, mtp, c->intermediate_size);
        return;
    }
    add_kept(p, base, "mlp.gate", 2, c->experts, h);
    add_kept(p, base, "mlp.shared_expert_gate", 1, 1, h);
    add_experts(p, name, mtp);
    name_of(name, "%smlp.shared_expert.", base);
    add_mlp(p, name, mtp, c->shared_intermediate);
}

static void add_all(plan *p)
{
    char base[NAME_CAP];
    const pawl_qwen35_config *c = &p->c;
    const int64_t h = c->hidden_size, table[2] = {c->vocab_size, h}, fc[2] = {h, 2 * h};
    int planted = p->opts.planted_mtp;
    pawl_fill norm = planted ? PAWL_FILL_PLANTED_NORM : PAWL_FILL_NORM;
    /* a tied embedding is the head as well: rows whose product with a normalised state has a deviation of 2 */
    add_plain(p, p->prefix, "embed_tokens.weight", planted ? PAWL_FILL_PLANTED_EMBED : PAWL_FILL_NORMAL,
              PAWL_STORED_BF16, c->tied ? 2 * deviation(h) : 1.0f, 2, table);
    list_module(p, p->prefix, "embed_tokens");
    for (int64_t i = 0; i < c->layers && p->status == PAWL_OK; i++) {
        name_of(base, "%slayers.%lld.", p->prefix, (long long)i);
        add_layer(p, base, c->full_attention[i], 0);
    }
    add_vector(p, p->prefix, "norm.weight", norm, PAWL_STORED_BF16, h);
    list_module(p, "", "lm_head");
    if (!c->tied) add_plain(p, "", "lm_head.weight", PAWL_FILL_NORMAL, PAWL_STORED_BF16, 2 * deviation(h), 2, table);
    if (!c->mtp_layers) return;
    pawl_fill before = planted ? PAWL_FILL_ZERO : PAWL_FILL_NORM;
    add_plain(p, "", "mtp.fc.weight", planted ? PAWL_FILL_PLANTED_FC : PAWL_FILL_NORMAL, PAWL_STORED_BF16,
              deviation(2 * h), 2, fc);
    list_module(p, "", "mtp.fc");
    add_vector(p, "", "mtp.pre_fc_norm_embedding.weight", before, PAWL_STORED_BF16, h);
    add_vector(p, "", "mtp.pre_fc_norm_hidden.weight", before, PAWL_STORED_BF16, h);
    for (int64_t i = 0; i < c->mtp_layers; i++) {
        name_of(base, "mtp.layers.%lld.", (long long)i);
        add_layer(p, base, 1, 1);
    }
    add_vector(p, "", "mtp.norm.weight", norm, PAWL_STORED_BF16, h);
}

/* Shards in order: a new one starts where the last would grow past the limit. */
static size_t shard_end(const plan *p, size_t first)
{
    uint64_t limit = p->opts.shard_bytes ? p->opts.shard_bytes : 4ull << 30, size = 0;
    size_t i = first;
    for (; i < p->count; i++) {
        uint64_t n = 0;
        for (int j = 0; j < p->item[i].parts; j++) n += pawl__decl_bytes(&p->item[i].part[j]);
        if (i > first && size + n > limit) break;
        size += n;
    }
    return i;
}

static pawl_status write_shard(const plan *p, const char *path, size_t first, size_t end, pawl_err *err)
{
    size_t n = 0;
    pawl_tensor_decl *decls = calloc((end - first) * PAWL_SYNTH_MAX_PARTS + 1, sizeof *decls);
    if (!decls) return pawl__fail(err, PAWL_ENOMEM, "%s: out of memory", path);
    for (size_t i = first; i < end; i++)
        for (int j = 0; j < p->item[i].parts; j++) decls[n++] = p->item[i].part[j];
    pawl_writer *w;
    pawl_status s = pawl__writer_create(path, decls, n, &w, err);
    free(decls);
    PAWL_TRY(s);
    for (size_t i = first; s == PAWL_OK && i < end; i++) s = pawl__synth_write(&p->item[i], w, err);
    if (s == PAWL_OK) return pawl__writer_finish(&w, err);
    pawl__writer_abort(&w);
    return s;
}

static pawl_status write_json(const char *dst, const char *name, const json_t *j, pawl_err *err)
{
    char path[PATH_CAP];
    PAWL_TRY(pawl__path_join(path, sizeof path, dst, name, err));
    char *text = json_dumps(j, JSON_INDENT(2));
    if (!text) return pawl__fail(err, PAWL_ENOMEM, "%s: out of memory", path);
    pawl_status s = pawl__file_write(path, text, strlen(text), err);
    free(text);
    return s;
}

static pawl_status write_tensors(const plan *p, const char *dst, pawl_err *err)
{
    size_t shards = 0;
    for (size_t i = 0; i < p->count; i = shard_end(p, i)) shards++;
    json_t *map = json_object();
    pawl_status s = PAWL_OK;
    for (size_t i = 0, which = 1; s == PAWL_OK && i < p->count; which++) {
        char name[64], path[PATH_CAP];
        size_t end = shard_end(p, i);
        snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", which, shards);
        s = pawl__path_join(path, sizeof path, dst, shards == 1 ? "model.safetensors" : name, err);
        if (s == PAWL_OK) s = write_shard(p, path, i, end, err);
        for (; i < end; i++)
            for (int j = 0; j < p->item[i].parts; j++)
                json_object_set_new(map, p->item[i].part[j].name, json_string(name));
    }
    if (s == PAWL_OK && shards > 1) {
        json_t *index = json_pack("{s:{s:I},s:O}", "metadata", "total_size", (json_int_t)p->total, "weight_map", map);
        s = write_json(dst, "model.safetensors.index.json", index, err);
        json_decref(index);
    }
    json_decref(map);
    return s;
}

/* The given config with what the options change. Owned by the caller. */
static json_t *make_config(const plan *p, const json_t *given)
{
    json_t *root = json_deep_copy(given), *text = json_object_get(root, "text_config");
    if (!json_is_object(text)) text = root;
    json_object_del(root, "quantization_config");
    if (p->opts.planted_mtp) {
        json_object_set_new(root, "tie_word_embeddings", json_true());
        json_object_set_new(text, "tie_word_embeddings", json_true());
        json_object_set_new(text, "mtp_num_hidden_layers", json_integer(p->c.mtp_layers));
    }
    if (p->opts.format == PAWL_SYNTH_FP8)
        json_object_set_new(root, "quantization_config",
                            json_pack("{s:s,s:s,s:s,s:[i,i],s:O}", "quant_method", "fp8", "fmt", "e4m3",
                                      "activation_scheme", "dynamic", "weight_block_size", 128, 128,
                                      "modules_to_not_convert", p->unquantised));
    if (p->opts.format == PAWL_SYNTH_NVFP4)
        json_object_set_new(root, "quantization_config",
                            json_pack("{s:s,s:s,s:O,s:{s:{s:{s:i,s:s,s:i,s:b},s:[s]}}}", "quant_method", "modelopt",
                                      "quant_algo", "NVFP4", "ignore", p->unquantised, "config_groups", "group_0",
                                      "weights", "num_bits", 4, "type", "float", "group_size", 16, "dynamic", 0,
                                      "targets", "Linear"));
    return root;
}

static pawl_status write_configs(const plan *p, const json_t *given, const char *dst, pawl_err *err)
{
    json_t *root = make_config(p, given);
    pawl_status s = write_json(dst, "config.json", root, err);
    json_decref(root);
    if (s != PAWL_OK || p->opts.format != PAWL_SYNTH_NVFP4) return s;
    json_t *hf = json_pack("{s:{s:s,s:s},s:{s:s,s:n,s:i,s:O}}", "producer", "name", "pawl synth", "version",
                           PAWL_VERSION, "quantization", "quant_algo", "NVFP4", "kv_cache_quant_algo", "group_size", 16,
                           "exclude_modules", p->unquantised);
    s = write_json(dst, "hf_quant_config.json", hf, err);
    json_decref(hf);
    return s;
}

static pawl_status make_folder(const char *dst, pawl_err *err)
{
    if (!mkdir(dst, 0777)) return PAWL_OK;
    int e = errno;
    DIR *dir = e == EEXIST ? opendir(dst) : NULL;
    if (!dir) return pawl__fail(err, PAWL_EIO, "%s: cannot make the folder: %s", dst, strerror(e));
    int holds = 0;
    for (struct dirent *f; (f = readdir(dir));) holds |= strcmp(f->d_name, ".") && strcmp(f->d_name, "..");
    closedir(dir);
    return holds ? pawl__fail(err, PAWL_EINVAL, "%s: expected a new or an empty folder", dst) : PAWL_OK;
}

static pawl_status prepare(plan *p, const json_t *given, pawl_err *err)
{
    PAWL_TRY(pawl__qwen35_config_read(given, &p->c, err));
    if (p->opts.format >= PAWL_SYNTH_FORMATS) return pawl__fail(err, PAWL_EINVAL, "format: unknown");
    p->prefix = p->c.nested ? "model.language_model." : "model.";
    if (p->opts.planted_mtp) {
        if (p->c.hidden_size < 64 || p->c.hidden_size % 4 || p->c.rms_eps > 1e-3)
            return pawl__fail(
                err, PAWL_EINVAL,
                "a planted draft needs hidden_size of at least 64 and a multiple of 4 and rms_norm_eps of at "
                "most 0.001, found %lld and %g",
                (long long)p->c.hidden_size, p->c.rms_eps);
        p->c.tied = 1;
        if (!p->c.mtp_layers) p->c.mtp_layers = 1;
    }
    p->arena = pawl__arena_create((size_t)4 << 30);
    p->unquantised = json_array();
    if (!p->arena || !p->unquantised) return pawl__fail(err, PAWL_ENOMEM, "out of memory");
    add_all(p);
    if (p->opts.format == PAWL_SYNTH_NVFP4) list_module(p, "", "mtp*");
    return p->status;
}

pawl_status pawl__synth(const char *config_path, const char *dst, const pawl_synth_opts *opts, pawl_err *err)
{
    json_t *given;
    plan p = {.opts = *opts, .err = err};
    PAWL_TRY(pawl__json_load(config_path, PAWL_CONFIG_MAX_BYTES, &given, err));
    pawl_status s = prepare(&p, given, err);
    if (s != PAWL_OK) pawl__fail_in(err, "%s", config_path);
    if (s == PAWL_OK) s = make_folder(dst, err);
    if (s == PAWL_OK) s = write_tensors(&p, dst, err);
    if (s == PAWL_OK) s = write_configs(&p, given, dst, err); /* last: a folder with a config is complete */
    json_decref(given);
    json_decref(p.unquantised);
    pawl__arena_destroy(&p.arena);
    free(p.item);
    return s;
}
