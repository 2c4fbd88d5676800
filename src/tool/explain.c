/* Builds a plan only to print it. */
#include "tool/explain.h"

#include <string.h>

#include "base/status.h"

pawl_status pawl__tool_explain(const pawl_kernel_table *table, const pawl_explain_options *o, pawl_walk_fn walk,
                               void *ctx, pawl_buf *out, pawl_err *err)
{
    pawl_caps caps;
    if (o->caps_text) {
        PAWL_TRY(pawl__caps_parse(o->caps_text, strlen(o->caps_text), &caps, err));
    } else {
        pawl__caps_probe(&caps);
    }
    /* Enough for prepare to look at; nothing is run. */
    pawl_exec ex = {.caps = &caps};
    pawl_plan *plan;
    PAWL_TRY(pawl__plan_create(table, &caps, o->target, o->draft, o->caps_text ? NULL : &ex, &plan, err));
    pawl_status s = walk(plan, caps.arch == PAWL_ARCH_CUDA ? PAWL_SPACE_CUDA : PAWL_SPACE_HOST, ctx, err);
    if (s == PAWL_OK) {
        if (o->json) {
            pawl__plan_explain_json(plan, out);
        } else {
            pawl__plan_explain(plan, out);
        }
        if (out->failed) s = pawl__fail(err, PAWL_ENOMEM, "no memory for the explanation");
    }
    pawl__plan_destroy(&plan);
    return s;
}
