/* What a checkpoint is: layers by kind, parameters, bytes by number format, what is quantised how, the draft layer, memory
 * per token and per sequence, and tensors that nobody reads. */
#ifndef PAWL_TOOL_INSPECT_H
#define PAWL_TOOL_INSPECT_H

#include "base/buf.h"
#include "base/status.h"

typedef struct pawl_inspect_opts {
    int tensors; /* list every tensor */
    int json;    /* doc/schema/inspect.schema.json; else text */
} pawl_inspect_opts;

/* Opens the folder, and builds its model on paper to see which tensors are read. Where no model can be built (an unknown
 * architecture, a missing tensor) the rest is reported all the same, with the problem's sentence. Fails when the folder is
 * no well-formed checkpoint. Appends to out. */
pawl_status pawl__inspect(const char *dir, const pawl_inspect_opts *opts, pawl_buf *out, pawl_err *err);

#endif
