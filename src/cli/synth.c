/* pawl synth: a random checkpoint of any supported config. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

#include "tool/synth.h"

enum { KEY_SEED = 0x200, KEY_FORMAT, KEY_PLANTED };

typedef struct synth_args {
    const char *config, *dst;
    pawl_synth_opts opts;
} synth_args;

static const struct argp_option options[] = {
    {"seed", KEY_SEED, "S", 0, "The same seed gives the same bytes (default 0)", 1},
    {"format", KEY_FORMAT, "FORMAT", 0, "How weights are stored: bf16 (default), fp8 or nvfp4", 1},
    {"planted-mtp", KEY_PLANTED, 0, 0, "A draft layer that always agrees with the model, for tests of drafting", 1},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *st)
{
    synth_args *a = st->input;
    switch (key) {
    case KEY_SEED:
        a->opts.seed = cli_seed(st, "--seed", arg);
        break;
    case KEY_FORMAT:
        a->opts.format = pawl__synth_format_parse(arg);
        if (a->opts.format == PAWL_SYNTH_FORMATS)
            argp_error(st, "--format: \"%s\" is not one of bf16, fp8, nvfp4", arg);
        break;
    case KEY_PLANTED:
        a->opts.planted_mtp = 1;
        break;
    case ARGP_KEY_ARG:
        if (!a->config)
            a->config = arg;
        else if (!a->dst)
            a->dst = arg;
        else
            argp_error(st, "what is \"%s\"? synth takes CONFIG.json and DST", arg);
        break;
    case ARGP_KEY_END:
        if (!a->config) argp_error(st, "which config? Give a checkpoint's config.json");
        if (!a->dst) argp_error(st, "where to? Give a folder that does not exist yet, or is empty");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const char doc[] = "Write a checkpoint with random weights of sane size for a config.json, to try, time or "
                          "explain a model whose weights "
                          "are not at hand. DST is a new or empty folder."
                          "\v"
                          "Examples:\n"
                          "  pawl synth config.json /tmp/random --format fp8\n"
                          "  pawl synth config.json /tmp/planted --planted-mtp\n"
                          "  pawl run /tmp/planted --ids -p '1 2 3' -n 64 --draft 4 --stats\n";

static const struct argp parser = {options, parse, "CONFIG.json DST", doc, NULL, NULL, NULL};

int cli_synth(int argc, char **argv)
{
    synth_args a = {.opts = {.format = PAWL_SYNTH_BF16}};
    argp_parse(&parser, argc, argv, 0, NULL, &a);
    pawl_err err;
    pawl_status st = pawl__synth(a.config, a.dst, &a.opts, &err);
    return cli_finish(st == PAWL_OK ? CLI_DONE : cli_fail(&err));
}
