/* act and add, element by element. */
#include "op/act.h"

#include "kernels/ref/act_fn.h"
#include "kernels/ref/isa.h"
#include "kernels/ref/split.h"
#include "kernels/ref/supports.h"

static void act_rows(const void *args, int64_t first, int64_t last, int thread)
{
    (void)thread;
    const pawl_act_args *a = args;
    for (int64_t t = first; t < last; t++)
        pawl__act_row(a->act, a->g + t * a->g_row, a->u ? a->u + t * a->u_row : NULL, a->n, a->out + t * a->out_row);
}

static void add_rows(const void *args, int64_t first, int64_t last, int thread)
{
    (void)thread;
    const pawl_add_args *a = args;
    for (int64_t t = first; t < last; t++) {
        const float *restrict x = a->x + t * a->x_row;
        float *restrict y = a->y + t * a->y_row;
        if (a->gate) {
            float gate = pawl__sigmoidf(a->gate[t * a->gate_row]);
            for (int64_t i = 0; i < a->n; i++) y[i] = fmaf(gate, x[i], y[i]);
        } else {
            for (int64_t i = 0; i < a->n; i++) y[i] += x[i];
        }
    }
}

static pawl_status run_act(const void *args, pawl_exec *ex, pawl_err *err)
{
    (void)err;
    const pawl_act_args *a = args;
    pawl__split(ex, a->m, 16 * a->m * a->n, act_rows, args);
    return PAWL_OK;
}

static pawl_status run_add(const void *args, pawl_exec *ex, pawl_err *err)
{
    (void)err;
    const pawl_add_args *a = args;
    pawl__split(ex, a->m, a->m * a->n, add_rows, args);
    return PAWL_OK;
}

const pawl_kernel PAWL_ENTRY(act_f32) = {
    .id = "act.f32:" PAWL_ISA_WORD,
    .op = PAWL_OP_ACT,
    .arch = PAWL_ARCH_CPU,
    .isa = PAWL_ISA_NEEDS,
    .m_min = 1,
    .traits = PAWL_TRAIT_VERIFY | PAWL_TRAIT_ROW_INVARIANT,
    .supports = pawl__ref_f32,
    .run = run_act,
};

const pawl_kernel PAWL_ENTRY(add_f32) = {
    .id = "add.f32:" PAWL_ISA_WORD,
    .op = PAWL_OP_ADD,
    .arch = PAWL_ARCH_CPU,
    .isa = PAWL_ISA_NEEDS,
    .m_min = 1,
    .traits = PAWL_TRAIT_VERIFY | PAWL_TRAIT_ROW_INVARIANT,
    .supports = pawl__ref_f32,
    .run = run_add,
};
