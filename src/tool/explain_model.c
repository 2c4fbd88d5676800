/* A door for the command line, which does not see the engine. */
#include "tool/explain_model.h"

#include "engine/engine.h"

pawl_status pawl__explain_model(const char *path, const char *caps, const pawl_kernel_options *target,
                                const pawl_kernel_options *draft, int json, pawl_buf *out, pawl_err *err)
{
    return pawl__engine_explain(path, caps, target, draft, json, out, err);
}
