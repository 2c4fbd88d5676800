/* rmsnorm, plain and gated. */
#include "op/norm.h"

#include "base/mathfn.h"
#include "kernels/ref/isa.h"
#include "kernels/ref/lanes.h"
#include "kernels/ref/split.h"
#include "kernels/ref/supports.h"

/* x and out may be the same, element by element: no restrict, the loops have no other dependence. */
static void norm(const float *x, const float *gate, const float *w, float offset, float eps, int64_t k, float *out)
{
    float r = 1.0f / sqrtf(pawl__lanes_dot(x, x, k) / (float)k + eps);
    if (gate)
        for (int64_t i = 0; i < k; i++) out[i] = x[i] * r * (offset + w[i]) * pawl__siluf(gate[i]);
    else
        for (int64_t i = 0; i < k; i++) out[i] = x[i] * r * (offset + w[i]);
}

static void rows(const void *args, int64_t first, int64_t last, int thread)
{
    (void)thread;
    const pawl_norm_args *a = args;
    for (int64_t t = first; t < last; t++)
        for (int64_t h = 0; h < a->heads; h++)
            norm(a->x + t * a->x_row + h * a->x_head, a->gate ? a->gate + t * a->gate_row + h * a->gate_head : NULL,
                 a->w, a->offset1 ? 1.0f : 0.0f, a->eps, a->k, a->out + t * a->out_row + h * a->out_head);
}

static pawl_status run(const void *args, pawl_exec *ex, pawl_err *err)
{
    (void)err;
    const pawl_norm_args *a = args;
    pawl__split(ex, a->m, 2 * a->m * a->heads * a->k, rows, args);
    return PAWL_OK;
}

const pawl_kernel PAWL_ENTRY(rmsnorm_f32) = {
    .id = "rmsnorm.f32:" PAWL_ISA_WORD,
    .op = PAWL_OP_RMSNORM,
    .arch = PAWL_ARCH_CPU,
    .isa = PAWL_ISA_NEEDS,
    .m_min = 1,
    .traits = PAWL_TRAIT_VERIFY | PAWL_TRAIT_ROW_INVARIANT,
    .supports = pawl__ref_f32,
    .run = run,
};
