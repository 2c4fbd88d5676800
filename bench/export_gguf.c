/* Writes a checkpoint as a GGUF file for llama.cpp and its relatives (architecture qwen35moe), so that another engine can be
 * timed on the same model: see bench/README.md.
 *
 *   export_gguf MODEL FILE.gguf [--type bf16|q8_0|q4_0|iq4_nl] [--head TYPE]
 *
 * --type is the format of the linears and experts, --head that of the output matrix (default: as --type). Small tensors
 * stay f32, the router too, as in published files. The weights are decoded to f32 and encoded anew, simply: good for
 * timing, not for judging quality. The draft layer and the tokenizer are left out.
 *
 * The file format: "GGUF", version 3, counts, key-value pairs, tensor records, then data aligned to 32 bytes
 * (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). Names and conventions of the architecture: norms are stored
 * as 1 + w, A as -exp(A_log), and value heads in tiled order (head j * nk + i for the j-th value head of key head i). */
#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/mathfn.h"
#include "quant/codes.h"
#include "store/config_qwen3_5.h"
#include "store/weights.h"

enum { ALIGN = 32, BLOCK = 32, NAME = 64, LONG_NAME = 256 };

/* The numbers are ggml's. */
typedef enum ggml_type { GGML_F32 = 0, GGML_Q4_0 = 2, GGML_Q8_0 = 8, GGML_IQ4_NL = 20, GGML_BF16 = 30 } ggml_type;
enum { KEY_U32 = 4, KEY_F32 = 6, KEY_STRING = 8, KEY_ARRAY = 9 };

/* One tensor of the file: matrices [n, k] behind one another, or f32 values of the same shape. */
typedef struct tensor {
    char name[NAME];
    ggml_type type;
    int rank;
    int64_t k, n, count; /* values a row, rows a matrix, matrices */
    const pawl_wmat *w;  /* [count] */
    const float *values; /* instead of w */
    /* value heads that are to be tiled: `head` rows (or columns) each, from `first` on; head 0: none */
    int64_t first, head;
    int columns;
} tensor;

typedef struct exporter {
    pawl_checkpoint *ck;
    pawl_qwen35_config c;
    ggml_type type, head_type;
    const char *prefix, *model, *out;
    FILE *f;
    tensor *t;
    size_t n, cap;
} exporter;

__attribute__((format(printf, 1, 2), noreturn)) static void die(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fputs("export_gguf: ", stderr);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

static void must(pawl_status s, const pawl_err *err)
{
    if (s != PAWL_OK) die("%s", err->text);
}

/* Memory that lives as long as the checkpoint. */
static void *allocate(exporter *x, int64_t count, size_t size)
{
    void *p = pawl__arena_array(pawl__checkpoint_arena(x->ck), (size_t)count, size);
    if (!p) die("out of memory");
    return p;
}

/* ---- which tensors there are ---- */

static tensor *add(exporter *x, const char *name, int layer, ggml_type type, int rank, int64_t k, int64_t n)
{
    if (x->n == x->cap) {
        x->cap = x->cap ? 2 * x->cap : 64;
        x->t = realloc(x->t, x->cap * sizeof *x->t);
        if (!x->t) die("out of memory");
    }
    tensor *t = &x->t[x->n++];
    *t = (tensor){.type = type, .rank = rank, .k = k, .n = n, .count = 1};
    if (layer < 0)
        snprintf(t->name, sizeof t->name, "%s", name);
    else
        snprintf(t->name, sizeof t->name, "blk.%d.%s", layer, name);
    return t;
}

/* The checkpoint's name of a tensor or matrix: layer < 0 has none. */
static void source_name(const exporter *x, char out[LONG_NAME], const char *name, int layer)
{
    if (layer < 0)
        snprintf(out, LONG_NAME, "%s%s", x->prefix, name);
    else
        snprintf(out, LONG_NAME, "%slayers.%d.%s", x->prefix, layer, name);
}

static tensor *add_named_matrix(exporter *x, const char *full, const char *to, int layer, ggml_type type, int64_t n,
                                int64_t k)
{
    pawl_err err;
    pawl_wmat *w = allocate(x, 1, sizeof *w);
    must(pawl__weights_matrix(x->ck, full, n, k, w, &err), &err);
    tensor *t = add(x, to, layer, type, 2, k, n);
    t->w = w;
    return t;
}

static tensor *add_matrix(exporter *x, const char *from, const char *to, int layer, ggml_type type, int64_t n,
                          int64_t k)
{
    char full[LONG_NAME];
    source_name(x, full, from, layer);
    return add_named_matrix(x, full, to, layer, type, n, k);
}

static float as_it_is(float v)
{
    return v;
}

static float plus_one(float v)
{
    return 1.0f + v;
}

static float decay(float v)
{
    return -(float)pawl__exp((double)v);
}

static tensor *add_vector(exporter *x, const char *from, const char *to, int layer, int64_t n, float (*f)(float))
{
    char full[LONG_NAME];
    pawl_err err;
    float *v, *out = allocate(x, n, sizeof *out);
    source_name(x, full, from, layer);
    must(pawl__weights_vector(x->ck, full, n, &v, &err), &err);
    for (int64_t i = 0; i < n; i++) out[i] = f(v[i]);
    tensor *t = add(x, to, layer, GGML_F32, 1, 1, n);
    t->values = out;
    return t;
}

static void tile(tensor *t, int64_t first, int64_t head, int columns)
{
    t->first = first;
    t->head = head;
    t->columns = columns;
}

static void add_attention(exporter *x, int l)
{
    const pawl_qwen35_config *c = &x->c;
    const int64_t h = c->hidden_size, d = c->head_dim;
    add_matrix(x, "self_attn.q_proj", "attn_q.weight", l, x->type, 2 * c->q_heads * d, h);
    add_matrix(x, "self_attn.k_proj", "attn_k.weight", l, x->type, c->kv_heads * d, h);
    add_matrix(x, "self_attn.v_proj", "attn_v.weight", l, x->type, c->kv_heads * d, h);
    add_matrix(x, "self_attn.o_proj", "attn_output.weight", l, x->type, h, c->q_heads * d);
    add_vector(x, "self_attn.q_norm.weight", "attn_q_norm.weight", l, d, plus_one);
    add_vector(x, "self_attn.k_norm.weight", "attn_k_norm.weight", l, d, plus_one);
}

static void add_gdn(exporter *x, int l)
{
    const pawl_qwen35_config *c = &x->c;
    const int64_t h = c->hidden_size, kd = c->key_heads * c->key_dim, vd = c->value_heads * c->value_dim,
                  nv = c->value_heads, channels = 2 * kd + vd, shape[3] = {channels, 1, c->conv_width};
    char full[LONG_NAME];
    float *conv;
    pawl_err err;
    tile(add_matrix(x, "linear_attn.in_proj_qkv", "attn_qkv.weight", l, x->type, channels, h), 2 * kd, c->value_dim, 0);
    tile(add_matrix(x, "linear_attn.in_proj_z", "attn_gate.weight", l, x->type, vd, h), 0, c->value_dim, 0);
    tile(add_matrix(x, "linear_attn.in_proj_b", "ssm_beta.weight", l, GGML_Q8_0, nv, h), 0, 1, 0);
    tile(add_matrix(x, "linear_attn.in_proj_a", "ssm_alpha.weight", l, GGML_Q8_0, nv, h), 0, 1, 0);
    source_name(x, full, "linear_attn.conv1d.weight", l);
    must(pawl__weights_tensor(x->ck, full, 3, shape, &conv, &err), &err);
    tensor *t = add(x, "ssm_conv1d.weight", l, GGML_F32, 2, c->conv_width, channels);
    t->values = conv;
    tile(t, 2 * kd, c->value_dim, 0);
    tile(add_vector(x, "linear_attn.dt_bias", "ssm_dt.bias", l, nv, as_it_is), 0, 1, 0);
    tile(add_vector(x, "linear_attn.A_log", "ssm_a", l, nv, decay), 0, 1, 0);
    add_vector(x, "linear_attn.norm.weight", "ssm_norm.weight", l, c->value_dim, as_it_is);
    tile(add_matrix(x, "linear_attn.out_proj", "ssm_out.weight", l, x->type, h, vd), 0, c->value_dim, 1);
}

static void add_experts(exporter *x, int l)
{
    static const char *const names[3] = {"ffn_gate_exps.weight", "ffn_up_exps.weight", "ffn_down_exps.weight"};
    const pawl_qwen35_config *c = &x->c;
    const int64_t h = c->hidden_size, i = c->moe_intermediate;
    char full[LONG_NAME];
    pawl_err err;
    pawl_expert *e = allocate(x, c->experts, sizeof *e);
    source_name(x, full, "mlp.experts", l);
    must(pawl__weights_experts(x->ck, full, c->experts, i, h, e, &err), &err);
    for (int which = 0; which < 3; which++) {
        pawl_wmat *w = allocate(x, c->experts, sizeof *w);
        for (int64_t j = 0; j < c->experts; j++) w[j] = which == 0 ? e[j].gate : which == 1 ? e[j].up : e[j].down;
        tensor *t = add(x, names[which], l, x->type, 3, which == 2 ? i : h, which == 2 ? h : i);
        t->w = w;
        t->count = c->experts;
    }
}

static void add_moe(exporter *x, int l)
{
    const pawl_qwen35_config *c = &x->c;
    const int64_t h = c->hidden_size, i = c->shared_intermediate;
    add_matrix(x, "mlp.gate", "ffn_gate_inp.weight", l, GGML_F32, c->experts, h);
    add_experts(x, l);
    add_matrix(x, "mlp.shared_expert_gate", "ffn_gate_inp_shexp.weight", l, GGML_F32, 1, h)->rank = 1;
    add_matrix(x, "mlp.shared_expert.gate_proj", "ffn_gate_shexp.weight", l, x->type, i, h);
    add_matrix(x, "mlp.shared_expert.up_proj", "ffn_up_shexp.weight", l, x->type, i, h);
    add_matrix(x, "mlp.shared_expert.down_proj", "ffn_down_shexp.weight", l, x->type, h, i);
}

static void add_all(exporter *x)
{
    const pawl_qwen35_config *c = &x->c;
    const int64_t h = c->hidden_size;
    add_matrix(x, "embed_tokens", "token_embd.weight", -1, x->head_type, c->vocab_size, h);
    add_vector(x, "norm.weight", "output_norm.weight", -1, h, plus_one);
    if (!c->tied) add_named_matrix(x, "lm_head", "output.weight", -1, x->head_type, c->vocab_size, h);
    for (int l = 0; l < c->layers; l++) {
        add_vector(x, "input_layernorm.weight", "attn_norm.weight", l, h, plus_one);
        add_vector(x, "post_attention_layernorm.weight", "post_attention_norm.weight", l, h, plus_one);
        if (c->full_attention[l])
            add_attention(x, l);
        else
            add_gdn(x, l);
        add_moe(x, l);
    }
}

/* ---- the bytes ---- */

static void put(exporter *x, const void *p, size_t n)
{
    if (fwrite(p, 1, n, x->f) != n) die("%s: %s", x->out, strerror(errno));
}

static void put_u32(exporter *x, uint32_t v)
{
    put(x, &v, sizeof v);
}

static void put_u64(exporter *x, uint64_t v)
{
    put(x, &v, sizeof v);
}

static void put_string(exporter *x, const char *s)
{
    put_u64(x, strlen(s));
    put(x, s, strlen(s));
}

static void put_key_u32(exporter *x, const char *key, int64_t v)
{
    put_string(x, key);
    put_u32(x, KEY_U32);
    put_u32(x, (uint32_t)v);
}

static void put_key_f32(exporter *x, const char *key, double v)
{
    float f = (float)v;
    put_string(x, key);
    put_u32(x, KEY_F32);
    put(x, &f, sizeof f);
}

static void put_key_string(exporter *x, const char *key, const char *v)
{
    put_string(x, key);
    put_u32(x, KEY_STRING);
    put_string(x, v);
}

/* Where the interval's next full layer is: the architecture has one attention layer in so many. */
static int64_t interval(const pawl_qwen35_config *c)
{
    int64_t n = 1;
    while (n < c->layers && !c->full_attention[n - 1]) n++;
    for (int64_t l = 0; l < c->layers; l++)
        if (c->full_attention[l] != ((l + 1) % n == 0)) die("layer_types: expected one attention layer every so many");
    return n;
}

static void put_keys(exporter *x)
{
    const pawl_qwen35_config *c = &x->c;
    const struct {
        const char *key;
        int64_t value;
    } ints[] = {{"qwen35moe.block_count", c->layers},
                {"qwen35moe.context_length", c->max_positions},
                {"qwen35moe.embedding_length", c->hidden_size},
                {"qwen35moe.feed_forward_length", c->moe_intermediate},
                {"qwen35moe.vocab_size", c->vocab_size},
                {"qwen35moe.attention.head_count", c->q_heads},
                {"qwen35moe.attention.head_count_kv", c->kv_heads},
                {"qwen35moe.attention.key_length", c->head_dim},
                {"qwen35moe.attention.value_length", c->head_dim},
                {"qwen35moe.full_attention_interval", interval(c)},
                {"qwen35moe.rope.dimension_count", c->rotary_dim},
                {"qwen35moe.expert_count", c->experts},
                {"qwen35moe.expert_used_count", c->top_k},
                {"qwen35moe.expert_feed_forward_length", c->moe_intermediate},
                {"qwen35moe.expert_shared_feed_forward_length", c->shared_intermediate},
                {"qwen35moe.ssm.conv_kernel", c->conv_width},
                {"qwen35moe.ssm.state_size", c->key_dim},
                {"qwen35moe.ssm.group_count", c->key_heads},
                {"qwen35moe.ssm.time_step_rank", c->value_heads},
                {"qwen35moe.ssm.inner_size", c->value_heads * c->value_dim},
                {"general.quantization_version", 2},
                {"general.alignment", ALIGN}};
    enum { INTS = sizeof ints / sizeof *ints, OTHERS = 6 };
    put_u64(x, INTS + OTHERS);
    put_key_string(x, "general.architecture", "qwen35moe");
    put_key_string(x, "general.name", "exported for timing");
    put_key_string(x, "tokenizer.ggml.model", "none");
    put_key_f32(x, "qwen35moe.attention.layer_norm_rms_epsilon", c->rms_eps);
    put_key_f32(x, "qwen35moe.rope.freq_base", c->rope_theta);
    put_string(x, "qwen35moe.rope.dimension_sections"); /* of text, where all position axes are equal */
    put_u32(x, KEY_ARRAY);
    put_u32(x, KEY_U32);
    put_u64(x, 4);
    for (int i = 0; i < 4; i++) put_u32(x, i ? 0 : (uint32_t)c->rotary_dim / 2);
    for (size_t i = 0; i < INTS; i++) put_key_u32(x, ints[i].key, ints[i].value);
}

static int64_t row_bytes(const tensor *t)
{
    switch (t->type) {
    case GGML_F32:
        return 4 * t->k;
    case GGML_BF16:
        return 2 * t->k;
    case GGML_Q8_0:
        return t->k / BLOCK * (2 + BLOCK);
    default:
        return t->k / BLOCK * (2 + BLOCK / 2);
    }
}

static uint64_t padded(uint64_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

static void put_records(exporter *x)
{
    uint64_t at = 0;
    for (size_t i = 0; i < x->n; i++) {
        const tensor *t = &x->t[i];
        const int64_t dims[3] = {t->rank == 1 ? t->k * t->n : t->k, t->n, t->count};
        if (t->type != GGML_F32 && t->type != GGML_BF16 && t->k % BLOCK)
            die("%s: rows of %lld values, expected a multiple of %d", t->name, (long long)t->k, BLOCK);
        put_string(x, t->name);
        put_u32(x, (uint32_t)t->rank);
        for (int d = 0; d < t->rank; d++) put_u64(x, (uint64_t)dims[d]);
        put_u32(x, t->type);
        put_u64(x, at);
        at = padded(at + (uint64_t)(row_bytes(t) * t->n * t->count));
    }
}

static void put_padding(exporter *x)
{
    static const char zeros[ALIGN];
    long at = ftell(x->f);
    if (at < 0) die("%s: %s", x->out, strerror(errno));
    put(x, zeros, (size_t)(padded((uint64_t)at) - (uint64_t)at));
}

/* Blocks of 32: an f16 scale, then codes; four-bit codes i and i + 16 share a byte. */
static void encode_q8_0(const float *v, uint8_t *out)
{
    float most = 0;
    for (int i = 0; i < BLOCK; i++) most = fmaxf(most, fabsf(v[i]));
    float d = most / 127.0f, inverse = d > 0 ? 1.0f / d : 0;
    uint16_t code = pawl__f16_encode(d);
    memcpy(out, &code, 2);
    for (int i = 0; i < BLOCK; i++) out[2 + i] = (uint8_t)(int8_t)lrintf(v[i] * inverse);
}

static const int8_t q4_0_values[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
static const int8_t iq4_nl_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

static void encode_four_bits(const float *v, const int8_t *values, uint8_t *out)
{
    float most = 0;
    for (int i = 0; i < BLOCK; i++)
        if (fabsf(v[i]) > fabsf(most)) most = v[i];
    float d = most / (float)values[0], inverse = most != 0 ? 1.0f / d : 0;
    uint16_t code = pawl__f16_encode(d);
    memcpy(out, &code, 2);
    memset(out + 2, 0, BLOCK / 2);
    for (int i = 0; i < BLOCK; i++) {
        float x = v[i] * inverse;
        int c = 0; /* the nearest value, which lies among those that grow */
        while (c < 15 && fabsf(x - (float)values[c + 1]) <= fabsf(x - (float)values[c])) c++;
        out[2 + i % (BLOCK / 2)] |= (uint8_t)(i < BLOCK / 2 ? c : c << 4);
    }
}

static void encode_row(const tensor *t, const float *v, uint8_t *out)
{
    if (t->type == GGML_F32) memcpy(out, v, 4 * (size_t)t->k);
    for (int64_t i = 0; t->type == GGML_BF16 && i < t->k; i++) {
        uint16_t code = pawl__bf16_encode(v[i]);
        memcpy(out + 2 * i, &code, 2);
    }
    for (int64_t i = 0; t->type == GGML_Q8_0 && i < t->k; i += BLOCK) encode_q8_0(v + i, out + i / BLOCK * (2 + BLOCK));
    if (t->type != GGML_Q4_0 && t->type != GGML_IQ4_NL) return;
    for (int64_t i = 0; i < t->k; i += BLOCK)
        encode_four_bits(v + i, t->type == GGML_Q4_0 ? q4_0_values : iq4_nl_values, out + i / BLOCK * (2 + BLOCK / 2));
}

/* Which row or column of the checkpoint comes at place i of the file. */
static int64_t tiled(const exporter *x, const tensor *t, int64_t i)
{
    if (!t->head || i < t->first) return i;
    const int64_t nk = x->c.key_heads, each = x->c.value_heads / nk, head = (i - t->first) / t->head;
    return t->first + (head % nk * each + head / nk) * t->head + (i - t->first) % t->head;
}

static void put_tensor(exporter *x, const tensor *t)
{
    float *row = malloc((size_t)t->k * sizeof *row), *moved = malloc((size_t)t->k * sizeof *row);
    uint8_t *code = malloc((size_t)row_bytes(t));
    if (!row || !moved || !code) die("out of memory");
    for (int64_t m = 0; m < t->count; m++)
        for (int64_t r = 0; r < t->n; r++) {
            int64_t from = t->columns ? r : tiled(x, t, r);
            if (t->w)
                pawl__wmat_decode_row(&t->w[m], from, row);
            else
                memcpy(row, t->values + from * t->k, (size_t)t->k * sizeof *row);
            for (int64_t i = 0; t->columns && i < t->k; i++) moved[i] = row[tiled(x, t, i)];
            encode_row(t, t->columns ? moved : row, code);
            put(x, code, (size_t)row_bytes(t));
        }
    put_padding(x);
    free(row);
    free(moved);
    free(code);
}

/* ---- command line ---- */

static const struct argp_option options[] = {
    {"type", 't', "TYPE", 0, "Format of linears and experts: bf16, q8_0 (default), q4_0 or iq4_nl", 0},
    {"head", 'h', "TYPE", 0, "Format of embedding and output (default: as --type)", 0},
    {0},
};

static ggml_type type_of(struct argp_state *st, const char *word)
{
    static const struct {
        const char *word;
        ggml_type type;
    } types[] = {
        {"f32", GGML_F32}, {"bf16", GGML_BF16}, {"q8_0", GGML_Q8_0}, {"q4_0", GGML_Q4_0}, {"iq4_nl", GGML_IQ4_NL}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(word, types[i].word)) return types[i].type;
    argp_error(st, "found \"%s\", expected bf16, q8_0, q4_0 or iq4_nl", word);
    return GGML_F32;
}

static error_t parse(int key, char *arg, struct argp_state *st)
{
    exporter *x = st->input;
    switch (key) {
    case 't':
        x->type = type_of(st, arg);
        break;
    case 'h':
        x->head_type = type_of(st, arg);
        break;
    case ARGP_KEY_ARG:
        if (!x->model)
            x->model = arg;
        else if (!x->out)
            x->out = arg;
        else
            argp_error(st, "one model and one file");
        break;
    case ARGP_KEY_END:
        if (!x->out) argp_error(st, "from where to where? Give a checkpoint's folder and a file");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const struct argp parser = {options, parse, "MODEL FILE.gguf", "Writes a checkpoint as GGUF.", 0, 0, 0};
    exporter x = {.type = GGML_Q8_0, .head_type = GGML_F32};
    pawl_err err;
    argp_parse(&parser, argc, argv, 0, NULL, &x);
    if (x.head_type == GGML_F32) x.head_type = x.type;
    must(pawl__checkpoint_open(x.model, NULL, &x.ck, &err), &err);
    must(pawl__qwen35_config_read(pawl__checkpoint_config(x.ck), &x.c, &err), &err);
    if (!x.c.moe || x.c.key_dim != x.c.value_dim)
        die("%s: the exporter knows mixtures of experts with one head size only", x.model);
    x.prefix = x.c.nested ? "model.language_model." : "model.";
    x.f = fopen(x.out, "wb");
    if (!x.f) die("%s: %s", x.out, strerror(errno));
    add_all(&x);
    put(&x, "GGUF", 4);
    put_u32(&x, 3);
    put_u64(&x, x.n);
    put_keys(&x);
    put_records(&x);
    put_padding(&x);
    for (size_t i = 0; i < x.n; i++) put_tensor(&x, &x.t[i]);
    if (fclose(x.f)) die("%s: %s", x.out, strerror(errno));
    free(x.t);
    pawl__checkpoint_close(&x.ck);
    return 0;
}
