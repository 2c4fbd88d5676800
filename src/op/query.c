/* Queries as text: one table says which keys each op has, in which order they are printed, and what they default to.
 * Parsing, printing and checking all read this table, so they cannot disagree. */
#include "op/query.h"

#include <string.h>

#include "base/status.h"
#include "op/moe.h"
#include "quant/act8.h"

/* Integer fields of a query that have a key. */
enum { F_N, F_K, F_X0, F_X1, F_X2, F_X3, F_COUNT };

typedef struct pawl_key {
    const char *word;
    int field;
    int optional; /* left out at its default 0 */
} pawl_key;

/* What an op's queries may carry. a, out, m and at are common to all. */
enum { HAS_W = 1, HAS_C = 2, HAS_METHOD = 4 };

typedef struct pawl_form {
    const char *word;
    unsigned has;
    uint32_t flags;
    pawl_key keys[7];
} pawl_form;

static const pawl_form *form(pawl_op op)
{
    static const pawl_form forms[PAWL_OP_COUNT] = {
        [PAWL_OP_EMBED] = {"embed", HAS_W, 0, {{"n", F_N, 0}, {"k", F_K, 0}}},
        [PAWL_OP_RMSNORM] = {"rmsnorm", 0, PAWL_QF_OFFSET1 | PAWL_QF_GATED, {{"k", F_K, 0}}},
        [PAWL_OP_LINEAR] = {"linear",
                            HAS_W,
                            PAWL_QF_BIAS | PAWL_QF_ACT_FP8 | PAWL_QF_ACT_INT8,
                            {{"n", F_N, 0}, {"k", F_K, 0}}},
        [PAWL_OP_ROPE] = {"rope", 0, 0, {{"heads", F_N, 0}, {"d", F_K, 0}, {"rot", F_X0, 0}}},
        [PAWL_OP_KV_STORE] = {"kv_store", HAS_C, 0, {{"kv_heads", F_N, 0}, {"d", F_K, 0}}},
        [PAWL_OP_ATTN] = {"attn", HAS_C, PAWL_QF_GATED, {{"heads", F_N, 0}, {"kv_heads", F_X0, 0}, {"d", F_K, 0}}},
        [PAWL_OP_CONV] = {"conv", 0, PAWL_QF_VERIFY, {{"n", F_N, 0}, {"window", F_K, 0}}},
        [PAWL_OP_CONV_REPLAY] = {"conv_replay", 0, 0, {{"n", F_N, 0}, {"window", F_K, 0}}},
        [PAWL_OP_GDN] = {"gdn", HAS_C, 0, {{"nk", F_X0, 0}, {"nv", F_N, 0}, {"dk", F_K, 0}, {"dv", F_X1, 0}}},
        [PAWL_OP_GDN_VERIFY] =
            {"gdn_verify",
             HAS_C,
             0,
             {{"nk", F_X0, 0}, {"nv", F_N, 0}, {"dk", F_K, 0}, {"dv", F_X1, 0}, {"tree", F_X2, 1}, {"fast", F_X3, 1}}},
        [PAWL_OP_GDN_REPLAY] = {"gdn_replay",
                                HAS_C,
                                0,
                                {{"nk", F_X0, 0}, {"nv", F_N, 0}, {"dk", F_K, 0}, {"dv", F_X1, 0}}},
        [PAWL_OP_ACT] = {"act", 0, PAWL_QF_GATED | PAWL_QF_RELU2, {{"n", F_N, 0}}},
        [PAWL_OP_ADD] = {"add", 0, PAWL_QF_ROWGATE, {{"n", F_N, 0}}},
        [PAWL_OP_MOE_ROUTE] = {"moe_route",
                               HAS_METHOD,
                               PAWL_QF_BIAS | PAWL_QF_RENORM,
                               {{"experts", F_N, 0}, {"topk", F_K, 0}, {"groups", F_X0, 1}, {"kept", F_X1, 1}}},
        [PAWL_OP_MOE] = {"moe",
                         HAS_W | HAS_METHOD,
                         PAWL_QF_BIAS | PAWL_QF_GATED | PAWL_QF_RELU2 | PAWL_QF_ACT_INT8,
                         {{"i", F_N, 0}, {"h", F_K, 0}, {"experts", F_X0, 0}, {"topk", F_X1, 0}}},
        [PAWL_OP_MOE_MASKED] = {"moe_masked",
                                HAS_W,
                                PAWL_QF_BIAS | PAWL_QF_GATED | PAWL_QF_RELU2 | PAWL_QF_ZERO_PAD,
                                {{"i", F_N, 0}, {"h", F_K, 0}, {"experts", F_X0, 0}, {"max", F_X1, 0}}},
        [PAWL_OP_MOE_GROUPED] = {"moe_grouped",
                                 HAS_W,
                                 PAWL_QF_BIAS | PAWL_QF_GATED | PAWL_QF_RELU2,
                                 {{"i", F_N, 0}, {"h", F_K, 0}, {"experts", F_X0, 0}}},
    };
    return &forms[op];
}

static const struct {
    const char *word;
    uint32_t flag;
} flag_words[] = {{"bias", PAWL_QF_BIAS},        {"offset1", PAWL_QF_OFFSET1},   {"gated", PAWL_QF_GATED},
                  {"relu2", PAWL_QF_RELU2},      {"zero_pad", PAWL_QF_ZERO_PAD}, {"renorm", PAWL_QF_RENORM},
                  {"verify", PAWL_QF_VERIFY},    {"act_fp8", PAWL_QF_ACT_FP8},   {"rowgate", PAWL_QF_ROWGATE},
                  {"act_int8", PAWL_QF_ACT_INT8}};
enum { N_FLAGS = sizeof flag_words / sizeof *flag_words };

/* Sizes stay below this, so that the product of two fits in 64 bits with room to spare. */
static const int64_t MAX_DIM = INT32_MAX;

static int64_t *field(pawl_query *q, int f)
{
    return f == F_N ? &q->n : f == F_K ? &q->k : &q->x[f - F_X0];
}

static int64_t get(const pawl_query *q, int f)
{
    return f == F_N ? q->n : f == F_K ? q->k : q->x[f - F_X0];
}

pawl_query pawl__query(pawl_op op)
{
    pawl_query q;
    memset(&q, 0, sizeof q);
    q.op = op;
    q.a = q.out = q.c = PAWL_F32;
    q.at = PAWL_SPACE_HOST;
    q.m = PAWL_M_ANY;
    return q;
}

static int same(const char *text, size_t n, const char *word)
{
    return strlen(word) == n && memcmp(text, word, n) == 0;
}

const char *pawl__op_word(pawl_op op)
{
    return (unsigned)op < PAWL_OP_COUNT ? form(op)->word : "?";
}

pawl_op pawl__op_parse(const char *word, size_t n)
{
    int op = 0;
    while (op < PAWL_OP_COUNT && !same(word, n, form((pawl_op)op)->word)) op++;
    return (pawl_op)op;
}

/* The way a format's scales are stored on disk: what "w=nvfp4" without "/..." means. */
static pawl_scale usual_scale(pawl_quant w)
{
    switch (w) {
    case PAWL_Q_FP8BLK:
    case PAWL_Q_FP8TEN:
    case PAWL_Q_FP8CH:
        return PAWL_SCALE_F32;
    case PAWL_Q_NVFP4:
        return PAWL_SCALE_E4M3;
    case PAWL_Q_MXFP4:
        return PAWL_SCALE_E8M0;
    default:
        return PAWL_SCALE_NONE;
    }
}

void pawl__query_print(const pawl_query *q, pawl_buf *out)
{
    const pawl_form *f = form(q->op);
    pawl__buf_printf(out, "%s a=%s", f->word, pawl__dtype_word(q->a));
    if (f->has & HAS_W) {
        pawl__buf_printf(out, " w=%s", pawl__quant_word(q->w));
        if (q->ws != PAWL_SCALE_NONE || usual_scale(q->w) != PAWL_SCALE_NONE) {
            pawl__buf_printf(out, "/%s", pawl__scale_word(q->ws));
        }
        if (q->wl == PAWL_LAYOUT_PACKED_CUDA) pawl__buf_puts(out, " wl=packed_cuda");
    }
    pawl__buf_printf(out, " out=%s", pawl__dtype_word(q->out));
    if (f->has & HAS_C) pawl__buf_printf(out, " c=%s", pawl__dtype_word(q->c));
    if (q->at == PAWL_SPACE_CUDA) pawl__buf_puts(out, " at=cuda");
    if (q->m == PAWL_M_ANY) {
        pawl__buf_puts(out, " m=*");
    } else {
        pawl__buf_printf(out, " m=%lld", (long long)q->m);
    }
    for (const pawl_key *k = f->keys; k->word; k++) {
        int64_t v = get(q, k->field);
        if (v == 0 && k->optional) continue;
        pawl__buf_printf(out, " %s=%lld", k->word, (long long)v);
    }
    if (f->has & HAS_METHOD && q->x[2] != 0) {
        pawl__buf_printf(out, " method=%s", pawl__moe_method_name((pawl_moe_method)q->x[2]));
    }
    for (int i = 0; i < N_FLAGS; i++) {
        if (q->flags & flag_words[i].flag) pawl__buf_printf(out, " %s", flag_words[i].word);
    }
}

static pawl_status bad_value(const char *op, const char *s, size_t n, const char *expected, pawl_err *err)
{
    return pawl__fail(err, PAWL_EINVAL, "query %s: \"%.*s\"; expected %s", op, (int)(n > 60 ? 60 : n), s, expected);
}

static int parse_int(const char *s, size_t n, int64_t *out)
{
    if (n == 0 || n > 10) return 0;
    int64_t v = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9') return 0;
        v = v * 10 + (s[i] - '0');
    }
    if (v > MAX_DIM) return 0;
    *out = v;
    return 1;
}

static int parse_weight(const char *v, size_t n, pawl_query *q)
{
    size_t slash = 0;
    while (slash < n && v[slash] != '/') slash++;
    q->w = pawl__quant_parse(v, slash);
    if (q->w == PAWL_QUANT_COUNT) return 0;
    q->ws = slash == n ? usual_scale(q->w) : pawl__scale_parse(v + slash + 1, n - slash - 1);
    return q->ws != PAWL_SCALE_COUNT;
}

static int parse_dtype(const char *v, size_t n, pawl_dtype *out)
{
    *out = pawl__dtype_parse_word(v, n);
    return *out != PAWL_DTYPE_COUNT;
}

/* Keys are remembered as bits, so that a second one is an error. */
enum { SEEN_A, SEEN_OUT, SEEN_C, SEEN_W, SEEN_WL, SEEN_AT, SEEN_M, SEEN_METHOD, SEEN_FIELD };

/* One key=value; the value begins after eq. */
static pawl_status parse_pair(const char *s, size_t n, size_t eq, pawl_query *q, uint32_t *seen, pawl_err *err)
{
    const pawl_form *f = form(q->op);
    const char *v = s + eq + 1;
    size_t vn = n - eq - 1;
    int bit, ok;
    const char *expected = "a dtype such as f32 or bf16";
    if (same(s, eq, "a")) {
        bit = SEEN_A, ok = parse_dtype(v, vn, &q->a);
    } else if (same(s, eq, "out")) {
        bit = SEEN_OUT, ok = parse_dtype(v, vn, &q->out);
    } else if (same(s, eq, "c") && f->has & HAS_C) {
        bit = SEEN_C, ok = parse_dtype(v, vn, &q->c);
    } else if (same(s, eq, "w") && f->has & HAS_W) {
        bit = SEEN_W, ok = parse_weight(v, vn, q), expected = "FORMAT or FORMAT/SCALE such as fp8blk128/f32";
    } else if (same(s, eq, "wl") && f->has & HAS_W) {
        bit = SEEN_WL, ok = same(v, vn, "disk") || same(v, vn, "packed_cuda"), expected = "disk or packed_cuda";
        q->wl = same(v, vn, "packed_cuda") ? PAWL_LAYOUT_PACKED_CUDA : PAWL_LAYOUT_DISK;
    } else if (same(s, eq, "at")) {
        bit = SEEN_AT, ok = same(v, vn, "host") || same(v, vn, "cuda"), expected = "host or cuda";
        q->at = same(v, vn, "cuda") ? PAWL_SPACE_CUDA : PAWL_SPACE_HOST;
    } else if (same(s, eq, "m")) {
        bit = SEEN_M, expected = "* or a number of rows";
        if (same(v, vn, "*")) {
            ok = 1, q->m = PAWL_M_ANY;
        } else {
            ok = parse_int(v, vn, &q->m);
        }
    } else if (same(s, eq, "method") && f->has & HAS_METHOD) {
        int m = 0;
        while (m < PAWL_ROUTE_METHODS && !same(v, vn, pawl__moe_method_name((pawl_moe_method)m))) m++;
        bit = SEEN_METHOD, ok = m < PAWL_ROUTE_METHODS, expected = "a routing method such as RenormalizeNaive";
        q->x[2] = ok ? m : 0;
    } else {
        const pawl_key *k = f->keys;
        while (k->word && !same(s, eq, k->word)) k++;
        if (!k->word) return bad_value(f->word, s, n, "a key that this op has", err);
        bit = SEEN_FIELD + k->field, ok = parse_int(v, vn, field(q, k->field)), expected = "a number up to 2147483647";
    }
    if (!ok) return bad_value(f->word, s, n, expected, err);
    if (*seen >> bit & 1) return bad_value(f->word, s, n, "each key once", err);
    *seen |= 1u << bit;
    return PAWL_OK;
}

static pawl_status parse_word(const char *s, size_t n, pawl_query *q, uint32_t *seen, pawl_err *err)
{
    size_t eq = 0;
    while (eq < n && s[eq] != '=') eq++;
    if (eq < n) return parse_pair(s, n, eq, q, seen, err);
    for (int i = 0; i < N_FLAGS; i++) {
        if (!same(s, n, flag_words[i].word) || !(form(q->op)->flags & flag_words[i].flag)) continue;
        q->flags |= flag_words[i].flag;
        return PAWL_OK;
    }
    return bad_value(form(q->op)->word, s, n, "key=value or a flag that this op has", err);
}

static int is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

pawl_status pawl__query_parse(const char *text, size_t n, pawl_query *out, pawl_err *err)
{
    pawl_query q;
    uint32_t seen = 0;
    int words = 0;
    for (size_t i = 0; i < n;) {
        if (is_space(text[i])) {
            i++;
            continue;
        }
        size_t e = i;
        while (e < n && !is_space(text[e])) e++;
        if (words++ == 0) {
            pawl_op op = pawl__op_parse(text + i, e - i);
            if (op == PAWL_OP_COUNT) return bad_value("text", text + i, e - i, "an op such as linear or moe", err);
            q = pawl__query(op);
        } else {
            PAWL_TRY(parse_word(text + i, e - i, &q, &seen, err));
        }
        i = e;
    }
    if (!words) return pawl__fail(err, PAWL_EINVAL, "query: empty; expected an op and key=value pairs");
    *out = q;
    return PAWL_OK;
}

int pawl__query_equal(const pawl_query *a, const pawl_query *b)
{
    return a->op == b->op && a->a == b->a && a->out == b->out && a->c == b->c && a->w == b->w && a->ws == b->ws &&
           a->wl == b->wl && a->at == b->at && a->m == b->m && a->n == b->n && a->k == b->k && a->flags == b->flags &&
           memcmp(a->x, b->x, sizeof a->x) == 0;
}

static pawl_status bad(const pawl_query *q, pawl_err *err, const char *what, int64_t found, const char *expected)
{
    return pawl__fail(err, PAWL_EINVAL, "query %s: %s is %lld; expected %s", pawl__op_word(q->op), what,
                      (long long)found, expected);
}

/* Fields that the op has no key for would be lost in print: they must be at their defaults. */
static pawl_status check_unused(const pawl_query *q, pawl_err *err)
{
    const pawl_form *f = form(q->op);
    unsigned known = f->has & HAS_METHOD ? 1u << F_X2 : 0;
    for (const pawl_key *k = f->keys; k->word; k++) known |= 1u << k->field;
    for (int i = 0; i < F_COUNT; i++) {
        static const char *const names[F_COUNT] = {"n", "k", "x[0]", "x[1]", "x[2]", "x[3]"};
        if (!(known >> i & 1) && get(q, i) != 0) return bad(q, err, names[i], get(q, i), "0: the op does not use it");
    }
    if (q->flags & ~f->flags) return bad(q, err, "flags", q->flags & ~f->flags, "only flags that the op has");
    if (!(f->has & HAS_C) && q->c != PAWL_F32) return bad(q, err, "c", q->c, "f32: the op has no cache");
    if (!(f->has & HAS_W) && (q->w != PAWL_Q_NONE || q->ws != PAWL_SCALE_NONE || q->wl != PAWL_LAYOUT_DISK)) {
        return bad(q, err, "w", q->w, "none: the op has no weight with a format");
    }
    return PAWL_OK;
}

static pawl_status check_weight(const pawl_query *q, pawl_err *err)
{
    if (q->w <= PAWL_Q_NONE || q->w >= PAWL_QUANT_COUNT) return bad(q, err, "w", q->w, "a weight format");
    if ((unsigned)q->wl >= PAWL_LAYOUT_COUNT) return bad(q, err, "wl", q->wl, "a layout");
    int packed = q->w == PAWL_Q_FP8BLK && q->ws == PAWL_SCALE_UE8M0;
    if (q->ws != usual_scale(q->w) && !packed) {
        return pawl__fail(err, PAWL_EINVAL, "query %s: scale %s does not go with weights in %s", pawl__op_word(q->op),
                          (unsigned)q->ws < PAWL_SCALE_COUNT ? pawl__scale_word(q->ws) : "?", pawl__quant_word(q->w));
    }
    int64_t group = q->w == PAWL_Q_NVFP4 ? 16 : q->w == PAWL_Q_MXFP4 ? 32 : 1;
    int experts = q->op == PAWL_OP_MOE || q->op == PAWL_OP_MOE_MASKED || q->op == PAWL_OP_MOE_GROUPED;
    if (q->k % group) return bad(q, err, experts ? "h" : "k", q->k, "a multiple of the format's scale group");
    if (experts && q->n % group) return bad(q, err, "i", q->n, "a multiple of the format's scale group");
    if (q->flags & PAWL_QF_ACT_FP8 && q->w != PAWL_Q_FP8BLK) {
        return bad(q, err, "w", q->w, "fp8blk128 where activations are quantised to fp8");
    }
    if (q->flags & PAWL_QF_ACT_INT8) {
        if (!pawl__has_int8(q->w)) return bad(q, err, "w", q->w, "nvfp4 or an fp8 format where activations are int8");
        if (q->flags & PAWL_QF_ACT_FP8) return bad(q, err, "flags", q->flags, "act_fp8 or act_int8, not both");
        if (q->a != PAWL_F32 || q->at != PAWL_SPACE_HOST) {
            return bad(q, err, "a", q->a, "f32 in host memory where activations are quantised to int8");
        }
    }
    return PAWL_OK;
}

static pawl_status check_shape(const pawl_query *q, pawl_err *err)
{
    switch (q->op) {
    case PAWL_OP_ROPE:
        if (q->x[0] % 2 || q->x[0] > q->k) return bad(q, err, "rot", q->x[0], "an even number up to d");
        break;
    case PAWL_OP_ATTN:
        if (q->n % q->x[0]) return bad(q, err, "heads", q->n, "a multiple of kv_heads");
        break;
    case PAWL_OP_GDN_VERIFY:
        if (q->x[2] > 1) return bad(q, err, "tree", q->x[2], "0 or 1");
        if (q->x[3] > 1) return bad(q, err, "fast", q->x[3], "0 or 1");
        /* fall through */
    case PAWL_OP_GDN:
    case PAWL_OP_GDN_REPLAY:
        if (q->n % q->x[0]) return bad(q, err, "nv", q->n, "a multiple of nk");
        break;
    case PAWL_OP_MOE_ROUTE:
        if (q->k > q->n) return bad(q, err, "topk", q->k, "at most the number of experts");
        if (q->x[0] > 0 && q->n % q->x[0]) return bad(q, err, "groups", q->x[0], "a divisor of the number of experts");
        if (q->x[1] > q->x[0]) return bad(q, err, "kept", q->x[1], "at most the number of groups");
        break;
    case PAWL_OP_MOE:
        if (q->x[1] > q->x[0]) return bad(q, err, "topk", q->x[1], "at most the number of experts");
        break;
    default:
        break;
    }
    return PAWL_OK;
}

pawl_status pawl__query_check(const pawl_query *q, pawl_err *err)
{
    if ((unsigned)q->op >= PAWL_OP_COUNT) return pawl__fail(err, PAWL_EINVAL, "query: op number %d", (int)q->op);
    if ((unsigned)q->a >= PAWL_DTYPE_COUNT) return bad(q, err, "a", q->a, "a dtype");
    if ((unsigned)q->out >= PAWL_DTYPE_COUNT) return bad(q, err, "out", q->out, "a dtype");
    if ((unsigned)q->c >= PAWL_DTYPE_COUNT) return bad(q, err, "c", q->c, "a dtype");
    if (q->at != PAWL_SPACE_HOST && q->at != PAWL_SPACE_CUDA) return bad(q, err, "at", q->at, "a memory space");
    if (q->m < PAWL_M_ANY || q->m > MAX_DIM) return bad(q, err, "m", q->m, "* or a number of rows");
    const pawl_form *f = form(q->op);
    PAWL_TRY(check_unused(q, err));
    for (const pawl_key *k = f->keys; k->word; k++) {
        int64_t v = get(q, k->field);
        if (v < !k->optional || v > MAX_DIM) return bad(q, err, k->word, v, "1 to 2147483647");
    }
    if (f->has & HAS_METHOD && (q->x[2] < 0 || q->x[2] >= PAWL_ROUTE_METHODS)) {
        return bad(q, err, "method", q->x[2], "a routing method");
    }
    if (f->has & HAS_W) PAWL_TRY(check_weight(q, err));
    return check_shape(q, err);
}
