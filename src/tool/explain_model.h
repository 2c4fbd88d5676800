/* The plan of a checkpoint as text or JSON: what `pawl explain MODEL` prints. */
#ifndef PAWL_TOOL_EXPLAIN_MODEL_H
#define PAWL_TOOL_EXPLAIN_MODEL_H

#include "base/buf.h"
#include "base/status.h"
#include "pawl/pawl.h"

/* caps: the description of another machine ("cuda cc=90 sms=132"), NULL: this one. draft NULL: inherited from target.
 * Appends to out. */
pawl_status pawl__explain_model(const char *path, const char *caps, const pawl_kernel_options *target,
                                const pawl_kernel_options *draft, int json, pawl_buf *out, pawl_err *err);

#endif
