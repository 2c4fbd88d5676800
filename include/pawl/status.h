/* Status codes and error details, used by the public API and inside the library alike.
 *
 * A fallible call returns a pawl_status. Where it also takes a pawl_err, that record receives one sentence that names
 * the file, tensor or field, what was found and what was expected. Passing NULL for the record is allowed. */
#ifndef PAWL_STATUS_H
#define PAWL_STATUS_H

/* Marks what the shared library shows. */
#if defined(__GNUC__)
#define PAWL_API __attribute__((visibility("default")))
#else
#define PAWL_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pawl_status {
    PAWL_OK = 0,
    PAWL_EINVAL,       /* the caller's mistake: an argument or a request that makes no sense */
    PAWL_EUNSUPPORTED, /* makes sense, but this build or this machine cannot do it */
    PAWL_EIO,          /* the operating system failed a read, write, open or map */
    PAWL_EFORMAT,      /* a file's or a message's contents are malformed */
    PAWL_ENOMEM,       /* out of memory, or over a memory bound */
    PAWL_ECANCELED,    /* the caller asked to stop */
    PAWL_ETIMEDOUT,    /* a bound on time or on steps was reached */
    PAWL_EBUSY,        /* try again later */
    PAWL_EINTERNAL     /* a bug in pawl */
} pawl_status;

typedef struct pawl_err {
    pawl_status status;
    char text[500]; /* one sentence, UTF-8, no newline, always terminated */
} pawl_err;

/* A short name such as "EFORMAT"; never NULL. */
PAWL_API const char *pawl_status_name(pawl_status s);

#ifdef __cplusplus
}
#endif
#endif
