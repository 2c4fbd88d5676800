/* Conditions that the GPU entries share. */
#include "kernels/cuda/predicates.h"

bool pawl__cuda_format(const pawl_query *q, pawl_quant w, pawl_reason *why)
{
    if (q->w == w) return true;
    pawl__reason(why, "needs %s weights, these are %s", pawl__quant_word(w), pawl__quant_word(q->w));
    return false;
}

bool pawl__cuda_bf16(const pawl_query *q, pawl_reason *why)
{
    if (q->a != PAWL_BF16) {
        pawl__reason(why, "needs bf16 activations, these are %s", pawl__dtype_word(q->a));
        return false;
    }
    if (q->out != PAWL_BF16) {
        pawl__reason(why, "writes bf16, not %s", pawl__dtype_word(q->out));
        return false;
    }
    return true;
}

static bool is_float(const char *what, pawl_dtype t, pawl_reason *why)
{
    if (t == PAWL_BF16 || t == PAWL_F32) return true;
    pawl__reason(why, "%s must be bf16 or f32, not %s", what, pawl__dtype_word(t));
    return false;
}

bool pawl__cuda_floats(const pawl_query *q, pawl_reason *why)
{
    return is_float("the input", q->a, why) && is_float("the output", q->out, why);
}

bool pawl__cuda_multiple(const char *name, int64_t v, int64_t of, pawl_reason *why)
{
    if (v % of == 0) return true;
    pawl__reason(why, "%s %% %lld != 0 (%s=%lld)", name, (long long)of, name, (long long)v);
    return false;
}

bool pawl__cuda_any_float(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    (void)caps;
    return pawl__cuda_floats(q, why);
}

bool pawl__cuda_any_cache(const pawl_query *q, const pawl_caps *caps, pawl_reason *why)
{
    (void)caps;
    return pawl__cuda_floats(q, why) && is_float("the cache", q->c, why);
}

pawl_status pawl__cuda_needs_12_8(const pawl_query *q, pawl_exec *ex, pawl_reason *why)
{
    (void)q;
    enum { NEEDED = 12080 };
    int found = ex->caps->driver;
    if (found == 0 || found >= NEEDED) return PAWL_OK;
    pawl__reason(why, "needs CUDA 12.8, the driver has %d.%d", found / 1000, found % 1000 / 10);
    return PAWL_EUNSUPPORTED;
}
