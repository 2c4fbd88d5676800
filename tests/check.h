/* What every test program includes: cmocka with the headers that it needs before it, and the seed for random tests.
 * A random test draws its seed from PAWL_SEED or the clock and prints it, so that a failure can be repeated. */
#ifndef PAWL_TESTS_CHECK_H
#define PAWL_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "base/rng.h"
#include "base/status.h"

static inline uint64_t check_seed(const char *what)
{
    const char *e = getenv("PAWL_SEED");
    uint64_t seed = e ? strtoull(e, NULL, 10) : (uint64_t)time(NULL);
    printf("%s: PAWL_SEED=%llu\n", what, (unsigned long long)seed);
    return seed;
}

/* Fails with the error's own sentence when a call that should work did not. */
#define check_ok(call, err)                                                                                            \
    do {                                                                                                               \
        if ((call) != PAWL_OK) fail_msg("%s: %s", #call, (err)->text);                                                 \
    } while (0)

/* The call fails with this status and its sentence contains the words. */
#define check_fails(call, status_, err, words)                                                                         \
    do {                                                                                                               \
        pawl_status got_ = (call);                                                                                     \
        if (got_ != (status_)) fail_msg("%s: got %s, expected %s", #call, pawl_status_name(got_), #status_);           \
        if (!strstr((err)->text, (words))) fail_msg("%s: said \"%s\", expected \"%s\"", #call, (err)->text, (words));  \
    } while (0)

#endif
