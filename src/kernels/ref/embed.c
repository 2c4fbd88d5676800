/* embed: rows of the table, decoded. */
#include "op/embed.h"

#include "kernels/ref/isa.h"
#include "kernels/ref/split.h"
#include "kernels/ref/supports.h"

static void rows(const void *args, int64_t first, int64_t last, int thread)
{
    (void)thread;
    const pawl_embed_args *a = args;
    for (int64_t t = first; t < last; t++) pawl__wmat_decode_row(a->table, a->ids[t], a->out + t * a->table->k);
}

static pawl_status run(const void *args, pawl_exec *ex, pawl_err *err)
{
    (void)err;
    const pawl_embed_args *a = args;
    pawl__split(ex, a->m, a->m * a->table->k, rows, args);
    return PAWL_OK;
}

const pawl_kernel PAWL_ENTRY(embed_any) = {
    .id = "embed.any:" PAWL_ISA_WORD,
    .op = PAWL_OP_EMBED,
    .arch = PAWL_ARCH_CPU,
    .isa = PAWL_ISA_NEEDS,
    .m_min = 1,
    .traits = PAWL_TRAIT_VERIFY | PAWL_TRAIT_ROW_INVARIANT | PAWL_TRAIT_RETRYABLE,
    .supports = pawl__ref_any_weight,
    .run = run,
};
