/* rope: half-split rotation in place. */
#include "op/rope.h"

#include <math.h>

#include "kernels/ref/isa.h"
#include "kernels/ref/split.h"
#include "kernels/ref/supports.h"

static void rotate(float *restrict lo, float *restrict hi, const float *restrict c, const float *restrict s, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float a = lo[i], b = hi[i];
        lo[i] = fmaf(a, c[i], -(b * s[i]));
        hi[i] = fmaf(b, c[i], a * s[i]);
    }
}

static void rows(const void *args, int64_t first, int64_t last, int thread)
{
    (void)thread;
    const pawl_rope_args *a = args;
    int64_t half = a->r / 2;
    for (int64_t t = first; t < last; t++)
        for (int64_t h = 0; h < a->heads; h++) {
            float *x = a->x + t * a->x_row + h * a->x_head;
            rotate(x, x + half, a->cos + t * half, a->sin + t * half, half);
        }
}

static pawl_status run(const void *args, pawl_exec *ex, pawl_err *err)
{
    (void)err;
    const pawl_rope_args *a = args;
    pawl__split(ex, a->m, a->m * a->heads * a->r, rows, args);
    return PAWL_OK;
}

const pawl_kernel PAWL_ENTRY(rope_f32) = {
    .id = "rope.f32:" PAWL_ISA_WORD,
    .op = PAWL_OP_ROPE,
    .arch = PAWL_ARCH_CPU,
    .isa = PAWL_ISA_NEEDS,
    .m_min = 1,
    .traits = PAWL_TRAIT_VERIFY | PAWL_TRAIT_ROW_INVARIANT,
    .supports = pawl__ref_f32,
    .run = run,
};
