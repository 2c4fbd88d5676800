/* Text, token ids and option values from the user. */
#include "cli/cli.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/utf8.h"

enum { MAX_PROMPT = 64 << 20 };

static pawl_status read_stdin(size_t max, char **data, size_t *n, pawl_err *err)
{
    pawl_buf b = {.limit = max};
    char chunk[65536];
    size_t got;
    while (!b.failed && (got = fread(chunk, 1, sizeof chunk, stdin)) > 0) pawl__buf_append(&b, chunk, got);
    if (ferror(stdin)) {
        pawl__buf_free(&b);
        return pawl__fail(err, PAWL_EIO, "cannot read standard input: %s", strerror(errno));
    }
    if (b.failed) {
        pawl__buf_free(&b);
        return pawl__fail(err, PAWL_EFORMAT, "standard input is longer than %zu bytes", max);
    }
    *n = b.len;
    *data = pawl__buf_take(&b);
    return *data ? PAWL_OK : pawl__fail(err, PAWL_ENOMEM, "out of memory while reading standard input");
}

pawl_status cli_read(const char *path, size_t max, char **data, size_t *n, pawl_err *err)
{
    if (!strcmp(path, "-")) return read_stdin(max, data, n, err);
    return pawl__file_read(path, max, data, n, err);
}

pawl_status cli_check_utf8(const char *what, const char *text, size_t n, pawl_err *err)
{
    size_t at = pawl__utf8_valid(text, n);
    if (at == n) return PAWL_OK;
    return pawl__fail(err, PAWL_EFORMAT, "%s is not UTF-8: byte 0x%02x at offset %zu", what, (unsigned char)text[at],
                      at);
}

static int is_separator(char c)
{
    return c == ',' || c == ' ' || (c >= '\t' && c <= '\r');
}

pawl_status cli_parse_ids(const char *what, const char *text, size_t n, pawl_ids *out, pawl_err *err)
{
    size_t i = 0;
    for (;;) {
        while (i < n && is_separator(text[i])) i++;
        if (i == n) return PAWL_OK;
        size_t start = i;
        int64_t id = 0;
        while (i < n && text[i] >= '0' && text[i] <= '9' && id <= INT32_MAX) id = id * 10 + (text[i++] - '0');
        if (i == start || id > INT32_MAX || (i < n && !is_separator(text[i]))) {
            size_t end = start;
            while (end < n && end < start + 20 && !is_separator(text[end])) end++;
            return pawl__fail(err, PAWL_EFORMAT, "%s: \"%.*s\" at offset %zu is no token id (a number from 0 to %d)",
                              what, (int)(end - start), text + start, start, INT32_MAX);
        }
        if (pawl__ids_push(out, (int32_t)id) != PAWL_OK)
            return pawl__fail(err, PAWL_ENOMEM, "%s: out of memory after %zu token ids", what, out->len);
    }
}

/* ---- values of options ------------------------------------------------------------------------------------------- */

int64_t cli_int(struct argp_state *st, const char *opt, const char *arg, int64_t lo, int64_t hi)
{
    char *end;
    errno = 0;
    long long v = strtoll(arg, &end, 10);
    if (end == arg || *end || errno || v < lo || v > hi)
        argp_error(st, "%s: \"%s\" is not a whole number from %lld to %lld", opt, arg, (long long)lo, (long long)hi);
    return v;
}

double cli_num(struct argp_state *st, const char *opt, const char *arg, double lo, double hi)
{
    char *end;
    double v = strtod(arg, &end);
    if (end == arg || *end || !(v >= lo && v <= hi))
        argp_error(st, "%s: \"%s\" is not a number from %g to %g", opt, arg, lo, hi);
    return v;
}

uint64_t cli_seed(struct argp_state *st, const char *opt, const char *arg)
{
    char *end;
    errno = 0;
    unsigned long long v = strtoull(arg, &end, 10);
    if (*arg < '0' || *arg > '9' || *end || errno)
        argp_error(st, "%s: \"%s\" is not a whole number from 0 to %llu", opt, arg, (unsigned long long)UINT64_MAX);
    return v;
}

void cli_list_add(struct argp_state *st, cli_list *l, const char *s)
{
    const char **v = realloc(l->v, (l->n + 1) * sizeof *v);
    if (!v) argp_failure(st, CLI_FAILED, ENOMEM, "reading the options");
    l->v = v;
    l->v[l->n++] = s;
}

/* ---- the prompt -------------------------------------------------------------------------------------------------- */

static const struct argp_option prompt_options[] = {
    {"prompt", 'p', "TEXT", 0, "The text itself", 1},
    {"file", 'f', "FILE", 0, "The text is in FILE; \"-\" reads standard input", 1},
    {0},
};

static error_t parse_prompt(int key, char *arg, struct argp_state *st)
{
    cli_prompt *p = st->input;
    switch (key) {
    case 'p':
    case 'f':
        if (p->text || p->file) argp_error(st, "give the text once: with -p TEXT or with -f FILE");
        *(key == 'p' ? &p->text : &p->file) = arg;
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

const struct argp cli_prompt_argp = {.options = prompt_options, .parser = parse_prompt};

pawl_status cli_prompt_read(const cli_prompt *p, char **data, size_t *n, pawl_err *err)
{
    if (p->file) return cli_read(p->file, MAX_PROMPT, data, n, err);
    *data = strdup(p->text);
    if (!*data) return pawl__fail(err, PAWL_ENOMEM, "out of memory");
    *n = strlen(p->text);
    return PAWL_OK;
}
