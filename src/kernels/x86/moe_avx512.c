/* The expert kernels for AVX-512 (F, BW, DQ, VL). */
#include "kernels/x86/body_avx512.h"
#include "kernels/x86/moe_body.h"

#if defined(__x86_64__)
#include "kernels/x86/moe_rows.h"

static const moe_isa avx512 = {pawl__linear_part_avx512, moe_act, moe_add};

pawl_status pawl__moe_run_avx512(const void *args, pawl_exec *ex, pawl_err *err)
{
    return pawl__moe_body(&avx512, args, ex, err);
}

pawl_status pawl__moe_masked_run_avx512(const void *args, pawl_exec *ex, pawl_err *err)
{
    return pawl__moe_masked_body(&avx512, args, ex, err);
}

pawl_status pawl__moe_grouped_run_avx512(const void *args, pawl_exec *ex, pawl_err *err)
{
    return pawl__moe_grouped_body(&avx512, args, ex, err);
}
#endif
