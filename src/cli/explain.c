/* pawl explain: which kernel serves which op of a model, and why the others do not. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "tool/explain_model.h"

enum { KEY_CAPS = 0x200, KEY_JSON };

typedef struct explain_args {
    const char *model, *caps;
    cli_model_args machine; /* the kernel options only */
    int json;
} explain_args;

static const struct argp_option options[] = {
    {"caps", KEY_CAPS, "TEXT", 0, "For a machine described so, instead of this one", 1},
    {"json", KEY_JSON, 0, 0, "One JSON object", 1},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *st)
{
    explain_args *a = st->input;
    switch (key) {
    case ARGP_KEY_INIT:
        st->child_inputs[0] = &a->machine;
        break;
    case KEY_CAPS:
        a->caps = arg;
        break;
    case KEY_JSON:
        a->json = 1;
        break;
    case ARGP_KEY_ARG:
        if (a->model) argp_error(st, "what is \"%s\"? explain takes one MODEL", arg);
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

static const char doc[] = "Print the plan of a model: for each distinct op the kernels that serve it, for which "
                          "numbers of rows, and the reason "
                          "why each better kernel was passed over. Nothing is computed."
                          "\v"
                          "Examples:\n"
                          "  pawl explain models/tale-moe-fp8\n"
                          "  pawl explain MODEL --caps 'cuda cc=90 sms=132'  # a GPU that is not here\n"
                          "  pawl explain MODEL --isa ref --json\n"
                          "  pawl explain MODEL --ban linear.fp8blk:avx2     # what would step in\n";

static const struct argp_child children[] = {{&cli_kernels_argp, 0, NULL, 0}, {0}};
static const struct argp parser = {options, parse, "MODEL", doc, children, NULL, NULL};

int cli_explain(int argc, char **argv)
{
    explain_args a = {0};
    argp_parse(&parser, argc, argv, 0, NULL, &a);
    pawl_err err;
    pawl_buf out = {0};
    cli_kernel_options k;
    cli_kernel_options_from(&a.machine, &k);
    pawl_status st = pawl__explain_model(a.model, a.caps, &k.target, k.has_draft ? &k.draft : NULL, a.json, &out, &err);
    int code = st == PAWL_OK ? cli_print_text(&out) : cli_fail(&err);
    pawl__buf_free(&out);
    cli_model_args_free(&a.machine);
    return cli_finish(code);
}
