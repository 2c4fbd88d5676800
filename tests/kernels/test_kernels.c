/* Every CPU kernel of the lists against its op's contract and against the reference's bits. With arguments: only the kernels
 * whose ids begin with one of them. PAWL_SEED repeats a failure. */
#include "check.h"

#include "checker.h"
#include "kernels/list/list.h"
#include "kernels/ref/cpu_avx2.h"

#ifdef __x86_64__
/* The second build of the row-wise kernels, whether or not a list has them yet. */
static const pawl_kernel *const twice[] = {
    &pawl__k_embed_any_avx2,      &pawl__k_rmsnorm_f32_avx2, &pawl__k_rope_f32_avx2, &pawl__k_kv_store_f32_avx2,
    &pawl__k_attn_f32_avx2,       &pawl__k_conv_f32_avx2,    &pawl__k_gdn_f32_avx2,  &pawl__k_gdn_verify_f32_avx2,
    &pawl__k_gdn_replay_f32_avx2, &pawl__k_act_f32_avx2,     &pawl__k_add_f32_avx2,  &pawl__k_moe_route_f32_avx2,
};
enum { TWICE = sizeof twice / sizeof twice[0] };
#else
static const pawl_kernel *const *const twice = NULL;
enum { TWICE = 0 };
#endif

static uint64_t seed;
static int failures;

static bool asked_for(const char *id, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strncmp(id, argv[i], strlen(argv[i])) == 0) return true;
    return argc <= 1;
}

static void check_one(const pawl_kernel *k, pawl_kernel_list list)
{
    char why[512] = "";
    printf("%-24s ", k->id);
    fflush(stdout); /* so that a fault shows whose it is */
    int cases = chk_kernel(k, list, seed, why, sizeof why);
    if (cases > 0) printf("%d cases\n", cases);
    if (cases < 0) printf("not on this processor\n");
    if (cases == 0) printf("FAILED: %s\n", why);
    failures += cases == 0;
}

int main(int argc, char **argv)
{
    seed = check_seed("kernels");
    for (int op = 0; op < PAWL_OP_COUNT; op++) {
        pawl_kernel_list list = pawl__kernel_table.list[op];
        for (pawl_kernel_list k = list; k && *k; k++)
            if ((*k)->arch == PAWL_ARCH_CPU && (*k)->run && asked_for((*k)->id, argc, argv)) check_one(*k, list);
    }
    for (int i = 0; i < TWICE; i++)
        if (asked_for(twice[i]->id, argc, argv)) check_one(twice[i], pawl__kernel_table.list[twice[i]->op]);
    printf("%d kernels failed\n", failures);
    return failures != 0;
}
