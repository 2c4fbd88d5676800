/* Ops that are large enough to be handed out over threads: the row-wise kernels, whose small cases all run on the caller's
 * thread, give the same bits on 1 to 4 threads. */
#include "check.h"

#include "kernels/list/list.h"
#include "op/act.h"
#include "op/attn.h"
#include "op/embed.h"
#include "op/moe.h"
#include "op/norm.h"
#include "op/rope.h"

enum { ROWS = 1030, WIDTH = 512, HEADS = 8, D = WIDTH / HEADS, SEGS = 7, EXPERTS = 64, TOP_K = 4 };

static float *x, *u, *w; /* inputs: [ROWS][WIDTH] twice, [WIDTH] */
static float *out;       /* what a case writes */
static size_t out_floats;

static float *fill(size_t n, uint64_t *seed)
{
    float *p = malloc(n * sizeof *p);
    for (size_t i = 0; i < n; i++) p[i] = (float)(8 * pawl__rng_uniform(seed) - 4);
    return p;
}

/* Runs the case on every kernel of the op that this machine has, with 1 to 4 threads. again: sets the output up anew. */
static void same_on_all(pawl_op op, const void *args, void (*again)(void))
{
    pawl_caps caps;
    pawl__caps_probe(&caps);
    float *want = malloc(out_floats * sizeof *want);
    int ran = 0;
    for (pawl_kernel_list k = pawl__kernel_table.list[op]; *k; k++) {
        if ((*k)->arch != PAWL_ARCH_CPU || !(*k)->run || ((*k)->isa & ~caps.isa)) continue;
        for (int threads = 1; threads <= 4; threads++) {
            pawl_err err;
            pawl_pool *pool;
            check_ok(pawl__pool_create(threads, &pool, &err), &err);
            pawl_exec ex = {.caps = &caps, .pool = pool};
            again();
            check_ok((*k)->run(args, &ex, &err), &err);
            if (ran++ == 0)
                memcpy(want, out, out_floats * sizeof *want);
            else if (memcmp(want, out, out_floats * sizeof *want))
                fail_msg("%s on %d threads gives other bits", (*k)->id, threads);
            pawl__pool_destroy(&pool);
        }
    }
    assert_true(ran >= 4);
    free(want);
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
    out_floats = (size_t)ROWS * WIDTH;
    pawl_add_args add = {
        .m = ROWS, .n = WIDTH, .x = x, .x_row = WIDTH, .gate = w, .gate_row = 0, .y = out, .y_row = WIDTH};
    same_on_all(PAWL_OP_ADD, &add, from_u);
    pawl_act_args act = {
        .m = ROWS, .n = WIDTH, .g = x, .u = u, .g_row = WIDTH, .u_row = WIDTH, .out = out, .out_row = WIDTH};
    same_on_all(PAWL_OP_ACT, &act, poison);
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
    same_on_all(PAWL_OP_RMSNORM, &norm, poison);
    pawl_rope_args rope = {
        .m = ROWS, .heads = HEADS, .r = D, .x = out, .x_row = WIDTH, .x_head = D, .cos = x, .sin = u};
    same_on_all(PAWL_OP_ROPE, &rope, from_u);
    int32_t ids[ROWS];
    for (int i = 0; i < ROWS; i++) ids[i] = (i * 37) % ROWS;
    pawl_wmat table = {.q = PAWL_Q_F32, .n = ROWS, .k = WIDTH, .data = x, .ld = WIDTH * 4, .scale2 = 1};
    pawl_embed_args embed = {.m = ROWS, .ids = ids, .table = &table, .out = out};
    same_on_all(PAWL_OP_EMBED, &embed, poison);
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
    out_floats = 2 * half;
    free(out);
    out = malloc(out_floats * sizeof *out);
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
    same_on_all(PAWL_OP_KV_STORE, &store, poison);

    out_floats = (size_t)ROWS * TOP_K * 2;
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
    same_on_all(PAWL_OP_MOE_ROUTE, &route, poison);
}

int main(void)
{
    uint64_t seed = check_seed("split");
    x = fill((size_t)ROWS * WIDTH, &seed);
    u = fill((size_t)ROWS * WIDTH, &seed);
    w = fill(WIDTH, &seed);
    out = malloc((size_t)ROWS * WIDTH * sizeof *out);
    const struct CMUnitTest tests[] = {cmocka_unit_test(row_ops), cmocka_unit_test(keys_and_choices)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(x);
    free(u);
    free(w);
    free(out);
    return failed;
}
