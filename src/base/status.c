#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *pawl_status_name(pawl_status s)
{
    switch (s) {
    case PAWL_OK:
        return "OK";
    case PAWL_EINVAL:
        return "EINVAL";
    case PAWL_EUNSUPPORTED:
        return "EUNSUPPORTED";
    case PAWL_EIO:
        return "EIO";
    case PAWL_EFORMAT:
        return "EFORMAT";
    case PAWL_ENOMEM:
        return "ENOMEM";
    case PAWL_ECANCELED:
        return "ECANCELED";
    case PAWL_ETIMEDOUT:
        return "ETIMEDOUT";
    case PAWL_EBUSY:
        return "EBUSY";
    case PAWL_EINTERNAL:
        return "EINTERNAL";
    }
    return "unknown status";
}

/* Text from outside may be quoted in a message: control bytes would let it forge log lines or move a terminal's
 * cursor, so they become '?'. */
static void make_printable(char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || *s == 0x7f) *s = '?';
}

pawl_status pawl__fail(pawl_err *err, pawl_status s, const char *fmt, ...)
{
    if (!err) return s;
    err->status = s;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    make_printable(err->text);
    return s;
}

pawl_status pawl__fail_in(pawl_err *err, const char *fmt, ...)
{
    if (!err) return PAWL_EINTERNAL;
    char old[sizeof err->text];
    memcpy(old, err->text, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    if (n < 0) n = 0;
    if ((size_t)n < sizeof err->text) snprintf(err->text + n, sizeof err->text - (size_t)n, ": %s", old);
    make_printable(err->text);
    return err->status;
}
