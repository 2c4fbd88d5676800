/* attn for AVX-512. */
#include "kernels/x86/attn.h"

#if defined(__x86_64__)
#include "kernels/x86/attn_body.h"

pawl_status pawl__attn_run_avx512(const void *args, pawl_exec *ex, pawl_err *err)
{
    (void)err;
    attend(args, ex);
    return PAWL_OK;
}
#endif
