/* Ops that are large enough to be handed out over threads, and that go through all of their scratch: every kernel of the op
 * gives the same bits on 1 to 4 threads. The contract's cases are small and mostly stay on the caller's thread. */
#include "check.h"

#include "kernels/list/list.h"
#include "op/act.h"
#include "op/attn.h"
#include "op/embed.h"
#include "op/moe.h"
#include "op/norm.h"
#include "op/rope.h"
#include "quant/quant.h"

enum { ROWS = 1030, WIDTH = 512, HEADS = 8, D = WIDTH / HEADS, SEGS = 7, EXPERTS = 64, TOP_K = 4, ATTN_SEGS = 5 };

static float *x, *u, *w; /* inputs: [ROWS][WIDTH] twice, [WIDTH] */
static float *out;       /* what a case writes */
static size_t out_floats;
static uint64_t seed;

static float *fill(size_t n, uint64_t *rng)
{
    float *p = malloc(n * sizeof *p);
    for (size_t i = 0; i < n; i++) p[i] = (float)(8 * pawl__rng_uniform(rng) - 4);
    return p;
}

/* Runs the case of m rows on every kernel of the op that this machine has and that serves it, with 1 to 4 threads. again:
 * sets the output up anew. */
static void same_on_all(const pawl_query *q, int64_t m, const void *args, void (*again)(void))
{
    pawl_caps caps;
    pawl__caps_probe(&caps);
    float *want = malloc(out_floats * sizeof *want);
    int ran = 0;
    for (pawl_kernel_list k = pawl__kernel_table.list[q->op]; *k; k++) {
        if ((*k)->arch != PAWL_ARCH_CPU || !(*k)->run || ((*k)->isa & ~caps.isa)) continue;
        if ((*k)->supports && !(*k)->supports(q, &caps, NULL)) continue;
        for (int threads = 1; threads <= 4; threads++) {
            pawl_err err;
            pawl_pool *pool;
            check_ok(pawl__pool_create(threads, &pool, &err), &err);
            pawl_exec ex = {.caps = &caps, .pool = pool};
            ex.scratch_size = (*k)->scratch ? (*k)->scratch(q, m, threads) : 0;
            if (ex.scratch_size) {
                assert_int_equal(posix_memalign(&ex.scratch, 64, ex.scratch_size), 0);
                memset(ex.scratch, 0xff, ex.scratch_size);
            }
            again();
            check_ok((*k)->run(args, &ex, &err), &err);
            if (ran++ == 0)
                memcpy(want, out, out_floats * sizeof *want);
            else if (memcmp(want, out, out_floats * sizeof *want))
                fail_msg("%s on %d threads gives other bits", (*k)->id, threads);
            free(ex.scratch);
            pawl__pool_destroy(&pool);
        }
    }
    assert_true(ran >= 4);
    free(want);
}

/* The output's room; its content is the case's to set up. */
static void make_out(size_t floats)
{
    out_floats = floats;
    free(out);
    out = malloc(floats * sizeof *out);
}

static void poison(void)
{
    memset(out, 0x7f, out_floats * sizeof *out);
}

static void from_u(void)
{
    memcpy(out, u, out_floats * sizeof *out);
}

static void row_ops(void **state)
{
    (void)state;
    make_out((size_t)ROWS * WIDTH);
    pawl_query q = pawl__query(PAWL_OP_ADD);
    pawl_add_args add = {
        .m = ROWS, .n = WIDTH, .x = x, .x_row = WIDTH, .gate = w, .gate_row = 0, .y = out, .y_row = WIDTH};
    same_on_all(&q, ROWS, &add, from_u);
    pawl_act_args act = {
        .m = ROWS, .n = WIDTH, .g = x, .u = u, .g_row = WIDTH, .u_row = WIDTH, .out = out, .out_row = WIDTH};
    q = pawl__query(PAWL_OP_ACT);
    same_on_all(&q, ROWS, &act, poison);
    pawl_norm_args norm = {.m = ROWS,
                           .heads = HEADS,
                           .k = D,
                           .x = x,
                           .x_row = WIDTH,
                           .x_head = D,
                           .w = w,
                           .out = out,
                           .out_row = WIDTH,
                           .out_head = D,
                           .eps = 1e-6f,
                           .offset1 = 1};
    q = pawl__query(PAWL_OP_RMSNORM);
    same_on_all(&q, ROWS, &norm, poison);
    pawl_rope_args rope = {
        .m = ROWS, .heads = HEADS, .r = D, .x = out, .x_row = WIDTH, .x_head = D, .cos = x, .sin = u};
    q = pawl__query(PAWL_OP_ROPE);
    same_on_all(&q, ROWS, &rope, from_u);
    int32_t ids[ROWS];
    for (int i = 0; i < ROWS; i++) ids[i] = (i * 37) % ROWS;
    pawl_wmat table = {.q = PAWL_Q_F32, .n = ROWS, .k = WIDTH, .data = x, .ld = WIDTH * 4, .scale2 = 1};
    pawl_embed_args embed = {.m = ROWS, .ids = ids, .table = &table, .out = out};
    q = pawl__query(PAWL_OP_EMBED);
    q.w = PAWL_Q_F32;
    same_on_all(&q, ROWS, &embed, poison);
}

static void keys_and_choices(void **state)
{
    (void)state;
    pawl_seg segs[SEGS];
    int32_t pages[ROWS / PAWL_KV_PAGE + SEGS], n_pages = 0;
    for (int i = 0, row = 0; i < SEGS; i++) {
        int rows = i + 1 < SEGS ? 150 : ROWS - row;
        segs[i] = (pawl_seg){.row0 = row, .rows = rows, .page0 = n_pages};
        for (int p = 0; p < (rows + PAWL_KV_PAGE - 1) / PAWL_KV_PAGE; p++, n_pages++) pages[n_pages] = n_pages;
        row += rows;
    }
    size_t half = (size_t)n_pages * PAWL_KV_PAGE * WIDTH;
    make_out(2 * half);
    pawl_kv_store_args store = {.m = ROWS,
                                .kv_heads = HEADS,
                                .d = D,
                                .k = x,
                                .v = u,
                                .k_row = WIDTH,
                                .v_row = WIDTH,
                                .segs = segs,
                                .n_segs = SEGS,
                                .pages = pages,
                                .cache_k = out,
                                .cache_v = out + half};
    pawl_query q = pawl__query(PAWL_OP_KV_STORE);
    same_on_all(&q, ROWS, &store, poison);

    make_out((size_t)ROWS * TOP_K * 2);
    pawl_moe_route_args route = {.m = ROWS,
                                 .experts = EXPERTS,
                                 .top_k = TOP_K,
                                 .logits = x,
                                 .logits_row = WIDTH,
                                 .method = PAWL_ROUTE_RENORMALIZE_NAIVE,
                                 .groups = 1,
                                 .groups_kept = 1,
                                 .scale = 1,
                                 .ids = (int32_t *)out,
                                 .weights = out + ROWS * TOP_K};
    q = pawl__query(PAWL_OP_MOE_ROUTE);
    q.n = EXPERTS;
    q.k = TOP_K;
    q.x[0] = q.x[1] = 1;
    q.x[2] = route.method;
    same_on_all(&q, ROWS, &route, poison);
}

/* A batch for attention: segments of so many rows behind so many positions. */
typedef struct attn_batch {
    int64_t heads, kv_heads, d;
    int32_t n_segs, verify;
    int32_t rows[ATTN_SEGS], pos0[ATTN_SEGS];
} attn_batch;

static void attend(const attn_batch *b)
{
    pawl_seg segs[ATTN_SEGS];
    int32_t row = 0, page = 0;
    for (int32_t i = 0; i < b->n_segs; i++) {
        segs[i] = (pawl_seg){
            .row0 = row, .rows = b->rows[i], .pos0 = b->pos0[i], .slot = i, .page0 = page, .verify = b->verify};
        row += b->rows[i];
        page += (b->pos0[i] + b->rows[i] + PAWL_KV_PAGE - 1) / PAWL_KV_PAGE;
    }
    if (b->n_segs > 2) segs[1].slot = -1; /* padding among them */
    int32_t *pages = malloc((size_t)page * sizeof *pages);
    for (int32_t i = 0; i < page; i++) pages[i] = page - 1 - i;
    size_t kv = (size_t)(page * PAWL_KV_PAGE * b->kv_heads * b->d);
    uint64_t rng = seed;
    float *keys = fill(kv, &rng), *values = fill(kv, &rng);
    int64_t width = b->heads * b->d;
    float *queries = fill((size_t)(row * width), &rng), *gate = fill((size_t)(row * width), &rng);
    pawl_attn_args a = {.m = row,
                        .heads = b->heads,
                        .kv_heads = b->kv_heads,
                        .d = b->d,
                        .scale = 0.05f,
                        .q = queries,
                        .q_row = width,
                        .q_head = b->d,
                        .gate = gate,
                        .gate_row = width,
                        .gate_head = b->d,
                        .segs = segs,
                        .n_segs = b->n_segs,
                        .pages = pages,
                        .cache_k = keys,
                        .cache_v = values};
    make_out((size_t)(row * width));
    a.out = out;
    pawl_query q = pawl__query(PAWL_OP_ATTN);
    q.n = b->heads;
    q.k = b->d;
    q.x[0] = b->kv_heads;
    q.flags = b->verify ? PAWL_QF_VERIFY : 0;
    same_on_all(&q, row, &a, poison);
    free(pages);
    free(keys);
    free(values);
    free(queries);
    free(gate);
}

/* The tiled kernels take blocks of 256 positions as tasks where rows are few, in rounds where scratch has no room for all of
 * them (256 queries' results a thread), and otherwise whole contexts. */
static void attention(void **state)
{
    (void)state;
    static const attn_batch batches[] = {
        {16, 2, 48, 1, 0, {1}, {700}},                               /* blocks, one round */
        {16, 2, 48, 1, 0, {1}, {9000}},                              /* more blocks than 2 threads have room for */
        {16, 2, 48, 5, 0, {1, 1, 1, 1, 1}, {1500, 3, 255, 256, 40}}, /* contexts that end before others do */
        {16, 2, 48, 5, 1, {8, 2, 8, 5, 8}, {900, 300, 20, 0, 250}},  /* a round for each block */
        {16, 2, 48, 3, 0, {150, 9, 130}, {100, 500, 0}},             /* whole contexts */
        {80, 1, 16, 2, 1, {3, 2}, {700, 254}},                       /* more heads on a key than a chunk takes */
    };
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) attend(&batches[i]);
}

/* Random weights of either format, as exact codes and scales. */
static pawl_wmat make_weights(pawl_quant format, int64_t n, int64_t k, uint64_t *rng)
{
    float *values = fill((size_t)(n * k), rng);
    pawl_wmat m = {.q = format, .n = n, .k = k, .ld = pawl__quant_row_bytes(format, k), .scale2 = 1};
    uint8_t *codes = malloc((size_t)(n * m.ld));
    if (format == PAWL_Q_NVFP4) {
        m.scale_ld = k / 16;
        uint8_t *scales = malloc((size_t)(n * m.scale_ld));
        m.scale2 = pawl__nvfp4_encode(values, n, k, 0, codes, scales);
        m.bscale = scales;
    } else {
        m.scale_ld = (k + 127) / 128;
        float *scales = malloc((size_t)((n + 127) / 128 * m.scale_ld) * sizeof *scales);
        pawl__fp8blk_encode(values, n, k, 0, codes, scales);
        m.scale = scales;
    }
    m.data = codes;
    free(values);
    return m;
}

static void free_weights(const pawl_wmat *m)
{
    free((void *)(uintptr_t)m->data);
    free((void *)(uintptr_t)m->scale);
    free((void *)(uintptr_t)m->bscale);
}

/* m tokens with top_k places each, of which one in `every` names an expert. */
static void through_experts(const pawl_experts *s, uint32_t flags, int64_t m, int64_t top_k, int every)
{
    uint64_t rng = seed;
    size_t pairs = (size_t)(m * top_k);
    int32_t *ids = malloc(pairs * sizeof *ids);
    for (size_t i = 0; i < pairs; i++) {
        uint64_t r = pawl__rng_next(&rng);
        ids[i] = r % (uint64_t)every ? -1 : (int32_t)((r >> 32) % (uint64_t)s->n);
    }
    float *tokens = fill((size_t)(m * s->h), &rng), *weights = fill(pairs, &rng);
    make_out((size_t)(m * s->h));
    pawl_moe_args a = {.m = m, .top_k = top_k, .experts = s, .x = tokens, .ids = ids, .weights = weights, .y = out};
    pawl_query q = pawl__query(PAWL_OP_MOE);
    q.w = s->e[0].gate.q;
    q.ws = q.w == PAWL_Q_NVFP4 ? PAWL_SCALE_E4M3 : PAWL_SCALE_F32;
    q.n = s->i;
    q.k = s->h;
    q.x[0] = s->n;
    q.x[1] = top_k;
    q.x[2] = PAWL_ROUTE_RENORMALIZE_NAIVE;
    q.flags = flags | PAWL_QF_GATED;
    same_on_all(&q, m, &a, poison);
    free(ids);
    free(tokens);
    free(weights);
}

/* Few tokens share experts between threads; very many places, nearly all of them empty, take several blocks of scratch. */
static void experts(void **state)
{
    (void)state;
    static const pawl_quant formats[] = {PAWL_Q_FP8BLK, PAWL_Q_NVFP4};
    static const uint32_t policies[] = {0, PAWL_QF_ACT_INT8};
    for (int f = 0; f < 2; f++) {
        uint64_t rng = seed;
        pawl_expert e[6];
        pawl_experts s = {.e = e, .n = 6, .h = 128, .i = 288, .act = PAWL_ACT_SILU, .gated = 1};
        for (int i = 0; i < s.n; i++)
            e[i] = (pawl_expert){.gate = make_weights(formats[f], s.i, s.h, &rng),
                                 .up = make_weights(formats[f], s.i, s.h, &rng),
                                 .down = make_weights(formats[f], s.h, s.i, &rng)};
        for (int p = 0; p < 2; p++) {
            through_experts(&s, policies[p], 1, 2, 1);
            through_experts(&s, policies[p], 13, 3, 1);
            through_experts(&s, policies[p], 1000, 64, 1000);
        }
        for (int i = 0; i < s.n; i++) {
            free_weights(&e[i].gate);
            free_weights(&e[i].up);
            free_weights(&e[i].down);
        }
    }
}

int main(void)
{
    seed = check_seed("split");
    uint64_t rng = seed;
    x = fill((size_t)ROWS * WIDTH, &rng);
    u = fill((size_t)ROWS * WIDTH, &rng);
    w = fill(WIDTH, &rng);
    const struct CMUnitTest tests[] = {cmocka_unit_test(row_ops), cmocka_unit_test(keys_and_choices),
                                       cmocka_unit_test(attention), cmocka_unit_test(experts)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(x);
    free(u);
    free(w);
    free(out);
    return failed;
}
