/* What a kernel runs on: threads and scratch on the host. A GPU stream joins here when there is one.
 * Owned by the engine; one engine thread uses it at a time. */
#ifndef PAWL_DEVICE_EXEC_H
#define PAWL_DEVICE_EXEC_H

#include <stddef.h>

#include "base/pool.h"
#include "device/caps.h"

typedef struct pawl_exec {
    const pawl_caps *caps; /* as capped by the policy */
    pawl_pool *pool;       /* NULL: single-threaded */
    void *scratch;         /* 64-byte aligned, of any content, shared by all kernels one after another; a kernel may use
                              as many bytes as its scratch() said for the query and thread count */
    size_t scratch_size;
} pawl_exec;

static inline int pawl__exec_threads(const pawl_exec *ex)
{
    return ex->pool ? pawl__pool_threads(ex->pool) : 1;
}

#endif
