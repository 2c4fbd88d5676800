/* The router: which kernel serves an op, and why the others do not.
 *
 * A kernel says in plain data what it can do. The choice is pure: no clock, no global, no device; the same query, caps and
 * policy always give the same route. A route covers row counts 1 .. infinity in spans without gap or overlap; zero rows
 * never reach a kernel. The list's order is the policy: best first, floor last. */
#ifndef PAWL_ROUTE_ROUTE_H
#define PAWL_ROUTE_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/caps.h"
#include "device/exec.h"
#include "op/query.h"

/* One sentence fragment that says why not: "needs avx2", "n % 64 != 0 (n=100)". Fixed size: a decision is plain data. */
typedef struct pawl_reason {
    char text[96];
} pawl_reason;
void pawl__reason(pawl_reason *why, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

enum {
    PAWL_TRAIT_VERIFY = 1 << 0,        /* may serve rows that are rolled back later */
    PAWL_TRAIT_ROW_INVARIANT = 1 << 1, /* a row's bits do not depend on the other rows or their number */
    PAWL_TRAIT_CAPTURABLE = 1 << 2,    /* may be part of a captured graph */
    PAWL_TRAIT_RETRYABLE = 1 << 3,     /* a failed run has changed nothing: the next entry may try */
    PAWL_TRAIT_UNPROVEN = 1 << 4,      /* written for a chip that was not at hand */
    PAWL_TRAIT_TUNABLE = 1 << 5, /* m_min and m_max are a measured crossover, not a limit: a tuning file may move it */
    PAWL_TRAIT_FAST_STATE = 1 << 6 /* gdn: keeps the recurrent state as this chip's fast verification wants it */
};

typedef struct pawl_kernel {
    const char *id; /* "linear.fp8blk:avx2": op.format:where; the one name in code, log, filter, test and bench */
    pawl_op op;
    pawl_arch arch;
    uint64_t isa;         /* every bit is needed */
    int cc_min, cc_max;   /* CUDA: inclusive; code for one chip need not run on the next. 0, 0 on CPUs */
    int64_t m_min, m_max; /* row counts served; m_max 0 means no upper bound */
    pawl_layout wl;
    /* Block scales as the body wants them; NONE: it says so in supports. Packed UE8M0 scales are unpacked once at load for
     * a kernel that wants F32; floats are never rounded to UE8M0, since that would change the weights. */
    pawl_scale ws;
    uint32_t traits;
    /* Everything else that must hold. Never reads q->m; portable C, compiled into every build. NULL: no more conditions */
    bool (*supports)(const pawl_query *q, const pawl_caps *caps, pawl_reason *why);
    /* Bytes of exec.scratch for at most m rows on so many threads. NULL: none */
    size_t (*scratch)(const pawl_query *q, int64_t m, int threads);
    /* May still decline when a library, driver or the system does not do. PAWL_EUNSUPPORTED + why. NULL: nothing to do */
    pawl_status (*prepare)(const pawl_query *q, pawl_exec *ex, pawl_reason *why);
    /* args is the op's argument record (op/<op>.h). NULL: known, but not built here */
    pawl_status (*run)(const void *args, pawl_exec *ex, pawl_err *err);
} pawl_kernel;

/* Best first, floor last, NULL at the end. One list per op; the whole table is given to the plan by the engine. */
typedef const pawl_kernel *const *pawl_kernel_list;
typedef struct pawl_kernel_table {
    pawl_kernel_list list[PAWL_OP_COUNT];
} pawl_kernel_table;

#endif
