/* Filling in a pawl_err. Every layer uses these two calls and PAWL_TRY; nobody writes into the record by hand. */
#ifndef PAWL_BASE_STATUS_H
#define PAWL_BASE_STATUS_H

#include "pawl/status.h"

/* Writes the formatted sentence (cut to fit) and the status into err (may be NULL) and returns the status. */
pawl_status pawl__fail(pawl_err *err, pawl_status s, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Puts the formatted words and ": " in front of the sentence that err already holds, e.g. the file's name.
 * Returns err's status (PAWL_EINTERNAL if err is NULL). */
pawl_status pawl__fail_in(pawl_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Leaves the function with the status of a call that failed. */
#define PAWL_TRY(call)                                                                                                 \
    do {                                                                                                               \
        pawl_status try_status_ = (call);                                                                              \
        if (try_status_ != PAWL_OK) return try_status_;                                                                \
    } while (0)

#endif
