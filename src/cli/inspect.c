/* pawl inspect: what a checkpoint is. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "tool/inspect.h"

enum { KEY_TENSORS = 0x200, KEY_JSON };

typedef struct inspect_args {
    const char *model;
    pawl_inspect_opts opts;
} inspect_args;

static const struct argp_option options[] = {
    {"tensors", KEY_TENSORS, 0, 0, "List every tensor", 1},
    {"json", KEY_JSON, 0, 0, "One JSON object (schema pawl.inspect/1)", 1},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *st)
{
    inspect_args *a = st->input;
    switch (key) {
    case KEY_TENSORS:
        a->opts.tensors = 1;
        break;
    case KEY_JSON:
        a->opts.json = 1;
        break;
    case ARGP_KEY_ARG:
        if (a->model) argp_error(st, "what is \"%s\"? inspect takes one MODEL", arg);
        a->model = arg;
        break;
    case ARGP_KEY_END:
        if (!a->model) argp_error(st, "which model? Give the folder of a checkpoint");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const char doc[] = "Tell what a checkpoint is: layers by kind, parameters, bytes by number format, the draft "
                          "layer, memory per token and "
                          "per sequence, tensors that nobody reads. No weight is loaded."
                          "\v"
                          "Examples:\n"
                          "  pawl inspect models/tale-moe-fp8\n"
                          "  pawl inspect MODEL --tensors | grep experts\n"
                          "  pawl inspect MODEL --json\n";

static const struct argp parser = {options, parse, "MODEL", doc, NULL, NULL, NULL};

int cli_inspect(int argc, char **argv)
{
    inspect_args a = {0};
    argp_parse(&parser, argc, argv, 0, NULL, &a);
    pawl_err err;
    pawl_buf out = {0};
    pawl_status st = pawl__inspect(a.model, &a.opts, &out, &err);
    int code = st == PAWL_OK ? cli_print_text(&out) : cli_fail(&err);
    pawl__buf_free(&out);
    return cli_finish(code);
}
