/* stdout and stderr of all verbs. */
#include "cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int write_errno; /* of the first write to stdout that failed */

int cli_error(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("pawl: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    return CLI_FAILED;
}

int cli_fail(const pawl_err *err)
{
    return cli_error("%s", err->text);
}

int cli_write(const void *data, size_t n)
{
    if (write_errno) return 1;
    if ((n > 0 && fwrite(data, 1, n, stdout) != n) || fflush(stdout) != 0) write_errno = errno ? errno : EIO;
    return write_errno != 0;
}

int cli_finish(int code)
{
    if (!write_errno && fflush(stdout) != 0) write_errno = errno ? errno : EIO;
    if (!write_errno) return code;
    if (write_errno == EPIPE) return CLI_DONE;
    return cli_error("cannot write to standard output: %s", strerror(write_errno));
}

int cli_print_text(const pawl_buf *b)
{
    cli_write(b->data, b->len);
    if (b->len && b->data[b->len - 1] != '\n') cli_write("\n", 1);
    return CLI_DONE;
}

int cli_print_json(json_t *j)
{
    char *text = j ? json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(12)) : NULL;
    json_decref(j);
    if (!text) return cli_error("out of memory while writing JSON");
    cli_write(text, strlen(text));
    cli_write("\n", 1);
    free(text);
    return CLI_DONE;
}

int cli_is_terminal(int fd)
{
    const char *term = getenv("TERM");
    return isatty(fd) && term && strcmp(term, "dumb") != 0;
}

int cli_may_colour(int fd)
{
    const char *no = getenv("NO_COLOR"); /* no-color.org: any value but the empty one */
    return cli_is_terminal(fd) && !(no && *no);
}
