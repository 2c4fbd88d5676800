/* The expert kernels for AVX2, FMA and F16C. */
#include "kernels/x86/moe_body.h"

#if defined(__x86_64__)
#include "kernels/x86/moe_rows.h"

static const moe_isa avx2 = {pawl__linear_part_avx2, moe_act, moe_add};

pawl_status pawl__moe_run_avx2(const void *args, pawl_exec *ex, pawl_err *err)
{
    return pawl__moe_body(&avx2, args, ex, err);
}

pawl_status pawl__moe_masked_run_avx2(const void *args, pawl_exec *ex, pawl_err *err)
{
    return pawl__moe_masked_body(&avx2, args, ex, err);
}

pawl_status pawl__moe_grouped_run_avx2(const void *args, pawl_exec *ex, pawl_err *err)
{
    return pawl__moe_grouped_body(&avx2, args, ex, err);
}
#endif
