/* pawl detokenize: token ids to text. Reads the checkpoint's tokenizer only; weights are not touched. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "token/tokenizer.h"

enum { KEY_SKIP_SPECIAL = 0x200, KEY_JSON, MAX_IDS_FILE = 256 << 20 };

typedef struct detokenize_args {
    const char *model, *file;
    pawl_buf ids; /* from the command line */
    int skip_special, json;
} detokenize_args;

static const struct argp_option options[] = {
    {"file", 'f', "FILE", 0, "The ids are in FILE; \"-\" reads standard input", 1},
    {"skip-special", KEY_SKIP_SPECIAL, 0, 0, "Leave special tokens out", 1},
    {"json", KEY_JSON, 0, 0, "One JSON object (schema pawl.detokenize/1)", 1},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *st)
{
    detokenize_args *a = st->input;
    switch (key) {
    case 'f':
        a->file = arg;
        break;
    case KEY_SKIP_SPECIAL:
        a->skip_special = 1;
        break;
    case KEY_JSON:
        a->json = 1;
        break;
    case ARGP_KEY_ARG:
        if (!a->model) {
            a->model = arg;
        } else if (!strcmp(arg, "-")) {
            a->file = arg;
        } else {
            pawl__buf_puts(&a->ids, arg);
            pawl__buf_putc(&a->ids, ' ');
        }
        break;
    case ARGP_KEY_END:
        if (!a->model) argp_error(st, "which model? Give the folder of a checkpoint");
        if (!a->file == !a->ids.len)
            argp_error(st, "give the ids once: after MODEL, with -f FILE, or \"-\" for standard input");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const char doc[] = "Turn token ids, separated by white space or commas, into text. Bytes that are no UTF-8 come "
                          "out as U+FFFD."
                          "\v"
                          "Examples:\n"
                          "  pawl detokenize models/tale-moe-fp8 4090 522 198\n"
                          "  pawl tokenize MODEL -p 'Hello' | pawl detokenize MODEL -\n";

static const struct argp parser = {options, parse, "MODEL [ID...|-]", doc, NULL, NULL, NULL};

static int print(const detokenize_args *a, const pawl_buf *text)
{
    const char *data = text->data ? text->data : "";
    if (a->json)
        return cli_print_json(
            json_pack("{s:s,s:o}", "schema", "pawl.detokenize/1", "text", json_stringn(data, text->len)));
    cli_write(data, text->len);
    if (isatty(STDOUT_FILENO) && text->len && data[text->len - 1] != '\n') cli_write("\n", 1);
    return CLI_DONE;
}

int cli_detokenize(int argc, char **argv)
{
    detokenize_args a = {0};
    argp_parse(&parser, argc, argv, 0, NULL, &a);
    pawl_err err;
    pawl_tokenizer *t = NULL;
    pawl_ids ids = {0};
    pawl_buf out = {0};
    char *text = NULL;
    size_t n = 0;
    pawl_status st = PAWL_OK;
    if (a.file)
        st = cli_read(a.file, MAX_IDS_FILE, &text, &n, &err);
    else if (a.ids.failed)
        st = pawl__fail(&err, PAWL_ENOMEM, "out of memory");
    else
        n = a.ids.len, text = pawl__buf_take(&a.ids);
    if (st == PAWL_OK) st = cli_parse_ids(a.file ? a.file : "ids", text, n, &ids, &err);
    if (st == PAWL_OK) st = pawl__tokenizer_open(a.model, &t, &err);
    if (st == PAWL_OK) st = pawl__tokenizer_decode(t, ids.data, ids.len, a.skip_special, &out, &err);
    int code = st == PAWL_OK ? print(&a, &out) : cli_fail(&err);
    free(text);
    pawl__buf_free(&a.ids);
    pawl__buf_free(&out);
    pawl__ids_free(&ids);
    pawl__tokenizer_close(&t);
    return cli_finish(code);
}
