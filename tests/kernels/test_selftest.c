/* The checker under test: kernels that are broken on purpose, each in one way, must all be caught, and for the right reason.
 * Each runs in a child process, since some of them touch memory that is not theirs. */
#include "check.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checker.h"
#include "kernels/ref/ref.h"

/* The whole kernel is right but for what `run` does beside or instead of it. */
typedef struct broken {
    const char *what;
    const pawl_kernel *like;
    pawl_status (*run)(const void *args, pawl_exec *ex, pawl_err *err);
    bool alone;         /* not compared with the reference, so that a later promise must catch it */
    const char *caught; /* words of the complaint; NULL: the process dies of a fault */
} broken;

static float next(float x)
{
    return nextafterf(x, INFINITY);
}

static pawl_status tail_dropped(const void *args, pawl_exec *ex, pawl_err *err)
{
    pawl_linear_args a = *(const pawl_linear_args *)args;
    pawl_wmat w = *a.w;
    w.k = w.k / 16 * 16;
    a.w = &w;
    return pawl__k_linear_bf16_ref.run(&a, ex, err);
}

static pawl_status wrong_scale(const void *args, pawl_exec *ex, pawl_err *err)
{
    pawl_linear_args a = *(const pawl_linear_args *)args;
    pawl_wmat w = *a.w;
    w.row0 = 0;
    a.w = &w;
    return pawl__k_linear_fp8blk_ref.run(&a, ex, err);
}

static pawl_status multiplier_dropped(const void *args, pawl_exec *ex, pawl_err *err)
{
    pawl_linear_args a = *(const pawl_linear_args *)args;
    pawl_wmat w = *a.w;
    w.scale2 = 1;
    a.w = &w;
    return pawl__k_linear_nvfp4_ref.run(&a, ex, err);
}

static pawl_status reads_behind(const void *args, pawl_exec *ex, pawl_err *err)
{
    const pawl_linear_args *a = args;
    if (a->m) (void)*(const volatile float *)(a->x + (a->m - 1) * a->ldx + a->w->k);
    return pawl__k_linear_f32_ref.run(a, ex, err);
}

static pawl_status reads_weights_behind(const void *args, pawl_exec *ex, pawl_err *err)
{
    const pawl_linear_args *a = args;
    (void)*((const volatile char *)a->w->data + (a->w->n - 1) * a->w->ld + a->w->k * 2 + 3);
    return pawl__k_linear_bf16_ref.run(a, ex, err);
}

static pawl_status uses_padding(const void *args, pawl_exec *ex, pawl_err *err)
{
    const pawl_linear_args *a = args;
    pawl_status s = pawl__k_linear_f32_ref.run(a, ex, err);
    if (a->m > 1 && a->ldx > a->w->k) a->y[0] += 0 * a->x[a->w->k];
    return s;
}

static pawl_status unstable(const void *args, pawl_exec *ex, pawl_err *err)
{
    static int calls;
    const pawl_linear_args *a = args;
    pawl_status s = pawl__k_linear_f32_ref.run(a, ex, err);
    if (a->m && ++calls % 2 == 0) a->y[0] = next(a->y[0]);
    return s;
}

static pawl_status other_order(const void *args, pawl_exec *ex, pawl_err *err)
{
    const pawl_linear_args *a = args;
    if (a->w->k <= 16) return pawl__k_linear_f32_ref.run(a, ex, err);
    for (int64_t m = 0; m < a->m; m++)
        for (int64_t n = 0; n < a->w->n; n++) {
            float sum[8] = {0}, w, total = 0;
            for (int64_t k = 0; k < a->w->k; k++) {
                memcpy(&w, (const char *)a->w->data + n * a->w->ld + 4 * k, 4);
                sum[k % 8] = fmaf(w, a->x[m * a->ldx + k], sum[k % 8]);
            }
            for (int i = 0; i < 8; i++) total += sum[i];
            a->y[m * a->ldy + n] = a->bias ? total + a->bias[n] : total;
        }
    return PAWL_OK;
}

static pawl_status threads_matter(const void *args, pawl_exec *ex, pawl_err *err)
{
    const pawl_linear_args *a = args;
    pawl_status s = pawl__k_linear_f32_ref.run(a, ex, err);
    if (pawl__exec_threads(ex) == 3) a->y[0] = next(a->y[0]);
    return s;
}

static pawl_status batch_matters(const void *args, pawl_exec *ex, pawl_err *err)
{
    const pawl_linear_args *a = args;
    pawl_status s = pawl__k_linear_f32_ref.run(a, ex, err);
    if (a->m >= 32) a->y[0] = next(a->y[0]);
    return s;
}

static pawl_status isa_matters(const void *args, pawl_exec *ex, pawl_err *err)
{
    const pawl_linear_args *a = args;
    pawl_status s = pawl__k_linear_f32_ref.run(a, ex, err);
    if (a->m && ex->caps->isa) a->y[0] = next(a->y[0]);
    return s;
}

static pawl_status writes_padding(const void *args, pawl_exec *ex, pawl_err *err)
{
    const pawl_linear_args *a = args;
    pawl_status s = pawl__k_linear_f32_ref.run(a, ex, err);
    if (a->m > 1 && a->ldy > a->w->n) a->y[a->w->n] = 0;
    return s;
}

static pawl_status writes_behind(const void *args, pawl_exec *ex, pawl_err *err)
{
    const pawl_linear_args *a = args;
    if (a->m) a->y[(a->m - 1) * a->ldy + a->w->n] = 0;
    return pawl__k_linear_f32_ref.run(a, ex, err);
}

static pawl_status writes_in_front(const void *args, pawl_exec *ex, pawl_err *err)
{
    const pawl_linear_args *a = args;
    a->y[-1] = 0;
    return pawl__k_linear_f32_ref.run(a, ex, err);
}

static pawl_status writes_input(const void *args, pawl_exec *ex, pawl_err *err)
{
    const pawl_linear_args *a = args;
    pawl_status s = pawl__k_linear_f32_ref.run(a, ex, err);
    if (a->m) ((float *)(uintptr_t)a->x)[0] = 7;
    return s;
}

static pawl_status writes_without_rows(const void *args, pawl_exec *ex, pawl_err *err)
{
    const pawl_linear_args *a = args;
    if (a->m == 0) a->y[0] = 0;
    return pawl__k_linear_f32_ref.run(a, ex, err);
}

static pawl_status fails(const void *args, pawl_exec *ex, pawl_err *err)
{
    (void)args;
    (void)ex;
    return pawl__fail(err, PAWL_EINTERNAL, "no luck");
}

static pawl_status scratch_overrun(const void *args, pawl_exec *ex, pawl_err *err)
{
    ((volatile char *)ex->scratch)[ex->scratch_size] = 0;
    return pawl__k_linear_fp8blk_a8_ref.run(args, ex, err);
}

static pawl_status computes_padding(const void *args, pawl_exec *ex, pawl_err *err)
{
    pawl_moe_masked_args a = *(const pawl_moe_masked_args *)args;
    int32_t all[CHK_EXPERTS];
    for (int i = 0; i < CHK_EXPERTS; i++) all[i] = (int32_t)a.max;
    a.counts = all;
    return pawl__k_moe_masked_any_ref.run(&a, ex, err);
}

static pawl_status mixes_padding_in(const void *args, pawl_exec *ex, pawl_err *err)
{
    const pawl_moe_masked_args *a = args;
    pawl_status s = pawl__k_moe_masked_any_ref.run(a, ex, err);
    for (int64_t e = 0; e < a->experts->n; e++)
        if (a->counts[e] > 0 && a->counts[e] < a->max)
            a->y[e * a->max * a->experts->h] += 0 * a->x[(e + 1) * a->max * a->experts->h - 1];
    return s;
}

static pawl_status forgets_zeros(const void *args, pawl_exec *ex, pawl_err *err)
{
    pawl_moe_masked_args a = *(const pawl_moe_masked_args *)args;
    a.zero_padding = 0;
    return pawl__k_moe_masked_any_ref.run(&a, ex, err);
}

static pawl_status takes_every_id(const void *args, pawl_exec *ex, pawl_err *err)
{
    pawl_moe_args a = *(const pawl_moe_args *)args;
    int32_t ids[64 * 3];
    for (int64_t i = 0; i < a.m * a.top_k; i++) ids[i] = a.ids[i] < 0 || a.ids[i] >= a.experts->n ? 0 : a.ids[i];
    a.ids = ids;
    return pawl__k_moe_any_ref.run(&a, ex, err);
}

static pawl_status activation_swapped(const void *args, pawl_exec *ex, pawl_err *err)
{
    pawl_moe_grouped_args a = *(const pawl_moe_grouped_args *)args;
    pawl_experts s = *a.experts;
    s.act = PAWL_ACT_SILU;
    a.experts = &s;
    return pawl__k_moe_grouped_any_ref.run(&a, ex, err);
}

static pawl_status chooses_twice(const void *args, pawl_exec *ex, pawl_err *err)
{
    const pawl_moe_route_args *a = args;
    pawl_status s = pawl__k_moe_route_f32_ref.run(a, ex, err);
    for (int64_t t = 0; t < a->m && a->top_k > 1; t++)
        if (a->logits[t * a->logits_row] != a->logits[t * a->logits_row])
            a->ids[t * a->top_k + 1] = a->ids[t * a->top_k];
    return s;
}

static pawl_status scale_dropped(const void *args, pawl_exec *ex, pawl_err *err)
{
    pawl_moe_route_args a = *(const pawl_moe_route_args *)args;
    a.scale = 1;
    return pawl__k_moe_route_f32_ref.run(&a, ex, err);
}

static pawl_status keeps_drafts(const void *args, pawl_exec *ex, pawl_err *err)
{
    pawl_gdn_args a = *(const pawl_gdn_args *)args;
    pawl_seg segs[CHK_SEGS];
    memcpy(segs, a.segs, (size_t)a.n_segs * sizeof *segs);
    for (int i = 0; i < a.n_segs; i++) segs[i].verify = 0;
    a.segs = segs;
    return pawl__k_gdn_verify_f32_ref.run(&a, ex, err);
}

static pawl_status beta_dropped(const void *args, pawl_exec *ex, pawl_err *err)
{
    pawl_gdn_replay_args a = *(const pawl_gdn_replay_args *)args;
    static float ones[64 * 4];
    for (int i = 0; i < 64 * 4; i++) ones[i] = 1;
    a.log.beta = ones;
    return pawl__k_gdn_replay_f32_ref.run(&a, ex, err);
}

static pawl_status sees_the_future(const void *args, pawl_exec *ex, pawl_err *err)
{
    pawl_attn_args a = *(const pawl_attn_args *)args;
    pawl_seg segs[CHK_SEGS];
    memcpy(segs, a.segs, (size_t)a.n_segs * sizeof *segs);
    for (int i = 0; i < a.n_segs; i++) segs[i].pos0 += (segs[i].pos0 + segs[i].rows) % PAWL_KV_PAGE != 0;
    a.segs = segs;
    return pawl__k_attn_f32_ref.run(&a, ex, err);
}

static pawl_status offset_dropped(const void *args, pawl_exec *ex, pawl_err *err)
{
    pawl_norm_args a = *(const pawl_norm_args *)args;
    a.offset1 = 0;
    return pawl__k_rmsnorm_f32_ref.run(&a, ex, err);
}

static pawl_status forgets_window(const void *args, pawl_exec *ex, pawl_err *err)
{
    pawl_conv_args a = *(const pawl_conv_args *)args;
    float zeros[8 * 400] = {0};
    a.state = zeros;
    return pawl__k_conv_f32_ref.run(&a, ex, err);
}

static const broken kernels[] = {
    {"tail of k dropped", &pawl__k_linear_bf16_ref, tail_dropped, false, "expected"},
    {"scale of the wrong block", &pawl__k_linear_fp8blk_ref, wrong_scale, false, "expected"},
    {"tensor multiplier dropped", &pawl__k_linear_nvfp4_ref, multiplier_dropped, false, "expected"},
    {"reads behind its rows", &pawl__k_linear_f32_ref, reads_behind, false, NULL},
    {"reads behind its weights", &pawl__k_linear_bf16_ref, reads_weights_behind, false, NULL},
    {"uses the padding of rows", &pawl__k_linear_f32_ref, uses_padding, false, "nan"},
    {"another result each time", &pawl__k_linear_f32_ref, unstable, true, "second run"},
    {"another order of additions", &pawl__k_linear_f32_ref, other_order, false, "of the reference"},
    {"depends on threads", &pawl__k_linear_f32_ref, threads_matter, true, "with 3 threads"},
    {"depends on the batch", &pawl__k_linear_f32_ref, batch_matters, true, "at a time"},
    {"depends on the processor", &pawl__k_linear_f32_ref, isa_matters, true, "instruction-set cap"},
    {"writes between rows", &pawl__k_linear_f32_ref, writes_padding, false, "left alone"},
    {"writes behind its output", &pawl__k_linear_f32_ref, writes_behind, false, NULL},
    {"writes in front of its output", &pawl__k_linear_f32_ref, writes_in_front, false, "in front of y"},
    {"writes into its input", &pawl__k_linear_f32_ref, writes_input, false, "input x"},
    {"writes for zero rows", &pawl__k_linear_f32_ref, writes_without_rows, false, "no rows"},
    {"fails", &pawl__k_linear_f32_ref, fails, false, "no luck"},
    {"more scratch than booked", &pawl__k_linear_fp8blk_a8_ref, scratch_overrun, false, NULL},
    {"computes padding", &pawl__k_moe_masked_any_ref, computes_padding, false, ""},
    {"mixes padding into a row", &pawl__k_moe_masked_any_ref, mixes_padding_in, false, "nan"},
    {"leaves padding unzeroed", &pawl__k_moe_masked_any_ref, forgets_zeros, false, "expected 0"},
    {"takes ids out of range", &pawl__k_moe_any_ref, takes_every_id, false, "expected"},
    {"silu for relu2", &pawl__k_moe_grouped_any_ref, activation_swapped, false, "expected"},
    {"chooses an expert twice", &pawl__k_moe_route_f32_ref, chooses_twice, false, "ids"},
    {"drops the routing scale", &pawl__k_moe_route_f32_ref, scale_dropped, false, "weights"},
    {"keeps drafts in the state", &pawl__k_gdn_verify_f32_ref, keeps_drafts, false, ""},
    {"replays without beta", &pawl__k_gdn_replay_f32_ref, beta_dropped, false, "state"},
    {"attends to the future", &pawl__k_attn_f32_ref, sees_the_future, false, ", expected "},
    {"norm without its offset", &pawl__k_rmsnorm_f32_ref, offset_dropped, false, "expected"},
    {"forgets the window", &pawl__k_conv_f32_ref, forgets_window, false, ""},
};

/* What the checker says about b, "" for nothing; false when the process died of a fault. */
static bool complaint(const broken *b, uint64_t seed, char *said, size_t size)
{
    int pipe_ends[2], status = 0;
    assert_int_equal(pipe(pipe_ends), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int null = open("/dev/null", O_WRONLY); /* a sanitizer's report is not wanted */
        if (null >= 0) dup2(null, STDERR_FILENO);
        signal(SIGSEGV, SIG_DFL); /* cmocka would go on with the next test, in the child */
        pawl_kernel k = *b->like;
        k.run = b->run;
        const pawl_kernel *floors[] = {b->like, NULL};
        char why[512] = "";
        chk_kernel(&k, b->alone ? NULL : floors, seed, why, sizeof why);
        ssize_t n = write(pipe_ends[1], why, strlen(why) + 1);
        _exit(n < 0);
    }
    close(pipe_ends[1]);
    memset(said, 0, size);
    ssize_t n = read(pipe_ends[0], said, size - 1);
    close(pipe_ends[0]);
    assert_true(waitpid(child, &status, 0) == child);
    return n > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void broken_kernels_are_caught(void **state)
{
    (void)state;
    uint64_t seed = check_seed("broken_kernels_are_caught");
    char said[512];
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        const broken *b = &kernels[i];
        bool lived = complaint(b, seed, said, sizeof said);
        if (!b->caught && lived) fail_msg("\"%s\" did not fault: %s", b->what, said);
        if (b->caught && !lived) fail_msg("\"%s\" faulted", b->what);
        if (b->caught && (!said[0] || !strstr(said, b->caught)))
            fail_msg("\"%s\": the checker said \"%s\", expected \"%s\"", b->what, said, b->caught);
    }
}

static void right_kernels_pass(void **state)
{
    (void)state;
    uint64_t seed = check_seed("right_kernels_pass");
    char why[512] = "";
    if (chk_kernel(&pawl__k_moe_route_f32_ref, NULL, seed, why, sizeof why) <= 0) fail_msg("%s", why);
    if (chk_kernel(&pawl__k_linear_f32_ref, NULL, seed, why, sizeof why) <= 0) fail_msg("%s", why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_kernels_are_caught),
        cmocka_unit_test(right_kernels_pass),
    };
    return cmocka_run_group_tests_name("kernels.selftest", tests, NULL, NULL);
}
