/* Queries: print -> parse -> equal on random ones, known texts, and what is refused. */
#include "check.h"

#include "op/moe.h"
#include "op/query.h"

static pawl_status parse(const char *text, pawl_query *out, pawl_err *err)
{
    return pawl__query_parse(text, strlen(text), out, err);
}

static void test_words(void **state)
{
    (void)state;
    for (int op = 0; op < PAWL_OP_COUNT; op++) {
        const char *word = pawl__op_word((pawl_op)op);
        assert_int_equal(pawl__op_parse(word, strlen(word)), op);
    }
    assert_int_equal(pawl__op_parse("linea", 5), PAWL_OP_COUNT);
    assert_int_equal(pawl__op_parse("", 0), PAWL_OP_COUNT);
}

static void test_known_texts(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "linear a=f32 w=fp8blk128/f32 out=f32 m=1 n=4096 k=2048",
        "linear a=bf16 w=fp8blk128/ue8m0 out=bf16 at=cuda m=* n=4096 k=2048 bias",
        "linear a=f32 w=bf16 out=f32 m=* n=512 k=256",
        "linear a=f32 w=nvfp4/e4m3 wl=packed_cuda out=f32 m=0 n=512 k=256",
        "moe a=f32 w=bf16 out=f32 m=* i=512 h=2048 experts=256 topk=8 method=RenormalizeNaive gated",
        "moe_masked a=f32 w=bf16 out=f32 m=* i=512 h=2048 experts=256 max=64 relu2 zero_pad",
        "moe_route a=f32 out=f32 m=* experts=256 topk=8 groups=8 kept=4 method=DeepSeekV3 bias renorm",
        "gdn_verify a=f32 out=f32 c=f32 m=* nk=16 nv=32 dk=128 dv=128 tree=1",
        "attn a=f32 out=f32 c=bf16 m=* heads=8 kv_heads=2 d=64 gated",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        pawl_query q;
        pawl_err err;
        pawl_buf out = {0};
        check_ok(parse(texts[i], &q, &err), &err);
        check_ok(pawl__query_check(&q, &err), &err);
        pawl__query_print(&q, &out);
        assert_string_equal(out.data, texts[i]);
        pawl__buf_free(&out);
    }
}

static void test_defaults(void **state)
{
    (void)state;
    pawl_query q, full;
    pawl_err err;
    check_ok(parse("  linear k=2048\tn=4096 \n w=fp8blk128 ", &q, &err), &err);
    check_ok(parse("linear a=f32 w=fp8blk128/f32 wl=disk out=f32 at=host m=* n=4096 k=2048", &full, &err), &err);
    assert_true(pawl__query_equal(&q, &full));
    full.m = 7;
    assert_false(pawl__query_equal(&q, &full));
}

static void test_bad_texts(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } bad[] = {
        {"", "empty"},
        {"lineal n=1", "\"lineal\"; expected an op"},
        {"linear q=1", "\"q=1\"; expected a key that this op has"},
        {"linear heads=1", "expected a key that this op has"},
        {"rope w=bf16", "expected a key that this op has"},
        {"linear n=1 n=1", "each key once"},
        {"linear a=f32 a=f32", "each key once"},
        {"linear n=-1", "a number up to"},
        {"linear n=2147483648", "a number up to"},
        {"linear n=", "a number up to"},
        {"linear m=x", "* or a number of rows"},
        {"linear a=f33", "a dtype such as"},
        {"linear w=fp9", "FORMAT or FORMAT/SCALE"},
        {"linear w=bf16/x", "FORMAT or FORMAT/SCALE"},
        {"linear gated", "a flag that this op has"},
        {"linear at=moon", "host or cuda"},
        {"moe method=Best", "a routing method"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        pawl_query q;
        pawl_err err;
        check_fails(parse(bad[i].text, &q, &err), PAWL_EINVAL, &err, bad[i].words);
    }
}

static void test_check(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } bad[] = {
        {"linear w=bf16 n=0 k=16", "n is 0; expected 1 to"},
        {"linear w=bf16 n=16", "k is 0"},
        {"linear n=16 k=16", "expected a weight format"},
        {"linear w=nvfp4 n=16 k=24", "k is 24; expected a multiple"},
        {"moe w=nvfp4 i=24 h=32 experts=4 topk=2", "i is 24; expected a multiple"},
        {"linear w=mxfp4 n=16 k=48", "k is 48"},
        {"linear w=bf16/f32 n=16 k=16", "scale f32 does not go with weights in bf16"},
        {"linear w=fp8blk128/none n=16 k=16", "scale none does not go with"},
        {"linear w=fp8ten/ue8m0 n=16 k=16", "scale ue8m0 does not go with"},
        {"linear w=bf16 n=16 k=16 act_fp8", "expected fp8blk128"},
        {"linear w=bf16 n=16 k=16 act_int8", "expected nvfp4 or an fp8 format"},
        {"moe w=mxfp4 i=32 h=32 experts=4 topk=2 act_int8", "expected nvfp4 or an fp8 format"},
        {"linear w=fp8blk128 n=16 k=16 act_fp8 act_int8", "not both"},
        {"linear a=bf16 w=nvfp4 n=16 k=16 act_int8", "expected f32 in host memory"},
        {"linear w=nvfp4 at=cuda n=16 k=16 act_int8", "expected f32 in host memory"},
        {"moe w=bf16 i=16 h=16 experts=4 topk=5", "topk is 5; expected at most"},
        {"moe_route experts=4 topk=5", "topk is 5; expected at most"},
        {"moe_route experts=8 topk=2 groups=3", "groups is 3; expected a divisor"},
        {"moe_route experts=8 topk=2 groups=4 kept=5", "kept is 5"},
        {"attn heads=5 kv_heads=2 d=64", "heads is 5; expected a multiple"},
        {"gdn nk=3 nv=4 dk=64 dv=64", "nv is 4; expected a multiple"},
        {"gdn_verify nk=2 nv=4 dk=64 dv=64 tree=2", "tree is 2; expected 0 or 1"},
        {"rope heads=4 d=64 rot=65", "rot is 65"},
    };
    pawl_query q;
    pawl_err err;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        check_ok(parse(bad[i].text, &q, &err), &err);
        check_fails(pawl__query_check(&q, &err), PAWL_EINVAL, &err, bad[i].words);
    }
    /* what the text could not carry */
    check_ok(parse("rope heads=4 d=64 rot=16", &q, &err), &err);
    check_ok(pawl__query_check(&q, &err), &err);
    q.x[3] = 1;
    check_fails(pawl__query_check(&q, &err), PAWL_EINVAL, &err, "x[3] is 1; expected 0");
    q.x[3] = 0, q.flags = PAWL_QF_GATED;
    check_fails(pawl__query_check(&q, &err), PAWL_EINVAL, &err, "only flags that the op has");
    q.flags = 0, q.w = PAWL_Q_BF16;
    check_fails(pawl__query_check(&q, &err), PAWL_EINVAL, &err, "the op has no weight");
    q.w = PAWL_Q_NONE, q.c = PAWL_BF16;
    check_fails(pawl__query_check(&q, &err), PAWL_EINVAL, &err, "the op has no cache");
}

static int64_t pick(uint64_t *s, int64_t lo, int64_t hi)
{
    return lo + (int64_t)(pawl__rng_next(s) % (uint64_t)(hi - lo + 1));
}

enum { N = 1, K = 2, W = 4, C = 8, X0 = 16, X1 = 32, X2 = 64, X3 = 128 };

/* Which fields an op uses, after the comments of op/query.h, and its flags. */
static const struct {
    unsigned fields;
    uint32_t flags;
} uses[PAWL_OP_COUNT] = {
    [PAWL_OP_EMBED] = {N | K | W, 0},
    [PAWL_OP_RMSNORM] = {K, PAWL_QF_OFFSET1 | PAWL_QF_GATED},
    [PAWL_OP_LINEAR] = {N | K | W, PAWL_QF_BIAS | PAWL_QF_ACT_FP8 | PAWL_QF_ACT_INT8},
    [PAWL_OP_ROPE] = {N | K | X0, 0},
    [PAWL_OP_KV_STORE] = {N | K | C, 0},
    [PAWL_OP_ATTN] = {N | K | C | X0, PAWL_QF_GATED},
    [PAWL_OP_CONV] = {N | K, PAWL_QF_VERIFY},
    [PAWL_OP_CONV_REPLAY] = {N | K, 0},
    [PAWL_OP_GDN] = {N | K | C | X0 | X1, 0},
    [PAWL_OP_GDN_VERIFY] = {N | K | C | X0 | X1 | X2 | X3, 0},
    [PAWL_OP_GDN_REPLAY] = {N | K | C | X0 | X1, 0},
    [PAWL_OP_ACT] = {N, PAWL_QF_GATED | PAWL_QF_RELU2},
    [PAWL_OP_ADD] = {N, PAWL_QF_ROWGATE},
    [PAWL_OP_MOE_ROUTE] = {N | K | X0 | X1 | X2, PAWL_QF_BIAS | PAWL_QF_RENORM},
    [PAWL_OP_MOE] = {N | K | W | X0 | X1 | X2, PAWL_QF_BIAS | PAWL_QF_GATED | PAWL_QF_RELU2 | PAWL_QF_ACT_INT8},
    [PAWL_OP_MOE_MASKED] = {N | K | W | X0 | X1, PAWL_QF_BIAS | PAWL_QF_GATED | PAWL_QF_RELU2 | PAWL_QF_ZERO_PAD},
    [PAWL_OP_MOE_GROUPED] = {N | K | W | X0, PAWL_QF_BIAS | PAWL_QF_GATED | PAWL_QF_RELU2},
};

/* Random values in the fields that the op uses; pawl__query_check says whether they make a query. */
static pawl_query random_query(uint64_t *s)
{
    pawl_query q = pawl__query((pawl_op)pick(s, 0, PAWL_OP_COUNT - 1));
    unsigned f = uses[q.op].fields;
    q.a = (pawl_dtype)pick(s, 0, PAWL_DTYPE_COUNT - 1);
    q.out = (pawl_dtype)pick(s, 0, PAWL_DTYPE_COUNT - 1);
    q.at = pick(s, 0, 1) ? PAWL_SPACE_CUDA : PAWL_SPACE_HOST;
    q.m = pick(s, 0, 2) ? pick(s, 0, INT32_MAX) : PAWL_M_ANY;
    if (f & C) q.c = (pawl_dtype)pick(s, 0, PAWL_DTYPE_COUNT - 1);
    if (f & W) {
        static const pawl_scale usual[] = {PAWL_SCALE_NONE, PAWL_SCALE_NONE, PAWL_SCALE_NONE,
                                           PAWL_SCALE_NONE, PAWL_SCALE_F32,  PAWL_SCALE_F32,
                                           PAWL_SCALE_F32,  PAWL_SCALE_E4M3, PAWL_SCALE_E8M0};
        q.w = (pawl_quant)pick(s, 1, PAWL_QUANT_COUNT - 1);
        q.ws = q.w == PAWL_Q_FP8BLK && pick(s, 0, 1) ? PAWL_SCALE_UE8M0 : usual[q.w];
        q.wl = (pawl_layout)pick(s, 0, PAWL_LAYOUT_COUNT - 1);
    }
    if (f & N) q.n = pick(s, 0, 2) ? pick(s, 1, 8) * 32 : pick(s, 1, INT32_MAX);
    if (f & K) q.k = pick(s, 0, 2) ? pick(s, 1, 4) * 32 : pick(s, 1, INT32_MAX);
    for (int i = 0; i < 4; i++) {
        if (f & (unsigned)X0 << i) q.x[i] = pick(s, 0, 8);
    }
    q.flags = (uint32_t)pawl__rng_next(s) & uses[q.op].flags;
    return q;
}

static void test_print_parse_equal(void **state)
{
    (void)state;
    uint64_t s = check_seed("query");
    int good = 0, per_op[PAWL_OP_COUNT] = {0};
    for (int i = 0; i < 100000; i++) {
        pawl_query q = random_query(&s), back;
        pawl_err err;
        if (pawl__query_check(&q, &err) != PAWL_OK) continue;
        pawl_buf out = {0};
        pawl__query_print(&q, &out);
        check_ok(parse(out.data, &back, &err), &err);
        if (!pawl__query_equal(&q, &back)) fail_msg("`%s` came back otherwise", out.data);
        pawl__buf_free(&out);
        good++;
        per_op[q.op]++;
    }
    printf("%d queries\n", good);
    for (int op = 0; op < PAWL_OP_COUNT; op++) {
        if (per_op[op] < 20) fail_msg("only %d queries of %s", per_op[op], pawl__op_word((pawl_op)op));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),     cmocka_unit_test(test_known_texts), cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_bad_texts), cmocka_unit_test(test_check),       cmocka_unit_test(test_print_parse_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
