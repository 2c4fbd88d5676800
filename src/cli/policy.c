/* Options that say how a model is opened, shared by every verb that opens one: which kernels may serve, for the model and,
 * with the prefix --draft-, for its draft layer; threads, sizes and debugging aids. */
#include "cli/cli.h"

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    KEY_KERNEL = 0x400,
    KEY_BAN,
    KEY_ISA,
    KEY_DETERMINISTIC,
    KEY_ACTIVATIONS,
    KEY_DRAFT_KERNEL,
    KEY_DRAFT_BAN,
    KEY_DRAFT_ISA,
    KEY_DRAFT_DETERMINISTIC,
    KEY_THREADS,
    KEY_CONTEXT,
    KEY_CHUNK,
    KEY_LOG_JSON,
    KEY_CHECK_NAN,
    KEY_POISON
};

static const struct argp_option kernel_options[] = {
    {0, 0, 0, 0, "Which kernels may be used (see `pawl explain`):", 50},
    {"kernel", KEY_KERNEL, "OP=ID", 0, "Serve this op with this kernel; an error when it cannot. May be repeated", 50},
    {"ban", KEY_BAN, "ID", 0, "Never use this kernel. May be repeated", 50},
    {"isa", KEY_ISA, "LEVEL", 0, "Highest instruction set: ref, avx2, avx512, amx or neon", 50},
    {"deterministic", KEY_DETERMINISTIC, 0, 0, "One kernel per op for all row counts", 50},
    {"activations", KEY_ACTIVATIONS, "f32|int8", 0,
     "What FP8 and NVFP4 weights are multiplied with: f32 (default), or int8, faster and a little less accurate; for "
     "the "
     "model and its draft layer",
     50},
    {"draft-kernel", KEY_DRAFT_KERNEL, "OP=ID", 0,
     "As --kernel, for the draft layer alone; without --draft-... options it follows the model", 51},
    {"draft-ban", KEY_DRAFT_BAN, "ID", 0, "As --ban, for the draft layer", 51},
    {"draft-isa", KEY_DRAFT_ISA, "LEVEL", 0, "As --isa, for the draft layer", 51},
    {"draft-deterministic", KEY_DRAFT_DETERMINISTIC, 0, 0, "As --deterministic, for the draft layer", 51},
    {0},
};

static error_t parse_kernels(int key, char *arg, struct argp_state *st)
{
    cli_model_args *a = st->input;
    const int draft = key >= KEY_DRAFT_KERNEL && key <= KEY_DRAFT_DETERMINISTIC;
    cli_kernels *k = draft ? &a->draft : &a->target;
    switch (key) {
    case KEY_KERNEL:
    case KEY_DRAFT_KERNEL:
        if (!strchr(arg, '=') || *arg == '=' || arg[strlen(arg) - 1] == '=')
            argp_error(st, "--%skernel: \"%s\" is not OP=ID, as in --kernel linear=linear.fp8blk:ref",
                       draft ? "draft-" : "", arg);
        cli_list_add(st, &k->force, arg);
        break;
    case KEY_BAN:
    case KEY_DRAFT_BAN:
        cli_list_add(st, &k->ban, arg);
        break;
    case KEY_ISA:
    case KEY_DRAFT_ISA: {
        static const char *const levels[] = {"ref", "avx2", "avx512", "amx", "neon"};
        size_t i = 0;
        while (i < sizeof levels / sizeof *levels && strcmp(levels[i], arg) != 0) i++;
        if (i == sizeof levels / sizeof *levels)
            argp_error(st, "--%sisa: \"%s\" is not one of ref, avx2, avx512, amx, neon", draft ? "draft-" : "", arg);
        k->isa = arg;
        break;
    }
    case KEY_ACTIVATIONS:
        if (strcmp(arg, "f32") != 0 && strcmp(arg, "int8") != 0)
            argp_error(st, "--activations: \"%s\" is not one of f32, int8", arg);
        k->activations = arg;
        break;
    case KEY_DETERMINISTIC:
    case KEY_DRAFT_DETERMINISTIC:
        k->deterministic = 1;
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    k->given = 1;
    return 0;
}

const struct argp cli_kernels_argp = {.options = kernel_options, .parser = parse_kernels};

static const struct argp_option model_options[] = {
    {0, 0, 0, 0, "The machine:", 40},
    {"threads", KEY_THREADS, "N", 0, "Threads that compute (default: the CPUs that this process is granted)", 40},
    {"context", KEY_CONTEXT, "N", 0, "Longest sequence in tokens (default: the model's, at most 8192)", 40},
    {"chunk", KEY_CHUNK, "N", 0, "Token rows of a step at most (default 256); never changes a result", 40},
    {"log-json", KEY_LOG_JSON, 0, 0, "Log lines on standard error as JSON objects (PAWL_LOG=debug shows more of them)",
     40},
    {0, 0, 0, 0, "Debugging aids:", 60},
    {"check-nan", KEY_CHECK_NAN, 0, 0, "Test each op's valid rows; an error names op, layer and row", 60},
    {"poison", KEY_POISON, 0, 0, "Fill scratch memory with signalling NaNs before each use", 60},
    {0},
};

static error_t parse_model(int key, char *arg, struct argp_state *st)
{
    cli_model_args *a = st->input;
    switch (key) {
    case ARGP_KEY_INIT:
        st->child_inputs[0] = a;
        break;
    case KEY_THREADS:
        a->threads = (int)cli_int(st, "--threads", arg, 1, 1024);
        break;
    case KEY_CONTEXT:
        a->context = cli_int(st, "--context", arg, 1, INT32_MAX);
        break;
    case KEY_CHUNK:
        a->chunk = (int32_t)cli_int(st, "--chunk", arg, 1, 1 << 20);
        break;
    case KEY_LOG_JSON:
        pawl__log_set_json(1);
        break;
    case KEY_CHECK_NAN:
        a->check_nan = 1;
        break;
    case KEY_POISON:
        a->poison = 1;
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp_child model_children[] = {{&cli_kernels_argp, 0, NULL, 0}, {0}};
const struct argp cli_model_argp = {.options = model_options, .parser = parse_model, .children = model_children};

static void fill(pawl_kernel_options *o, const cli_kernels *k)
{
    *o = PAWL_INIT(pawl_kernel_options);
    o->isa = k->isa;
    o->deterministic = k->deterministic;
    o->force = k->force.v;
    o->n_force = k->force.n;
    o->ban = k->ban.v;
    o->n_ban = k->ban.n;
    o->activations = k->activations;
}

void cli_kernel_options_from(const cli_model_args *a, cli_kernel_options *out)
{
    fill(&out->target, &a->target);
    out->has_draft = a->draft.given;
    cli_kernels d = a->draft;
    d.activations = a->target.activations;
    if (!d.isa) d.isa = a->target.isa;
    if (!d.deterministic) d.deterministic = a->target.deterministic;
    if (!d.force.n) d.force = a->target.force;
    if (!d.ban.n) d.ban = a->target.ban;
    fill(&out->draft, &d);
}

void cli_model_args_free(cli_model_args *a)
{
    free(a->target.force.v);
    free(a->target.ban.v);
    free(a->draft.force.v);
    free(a->draft.ban.v);
    *a = (cli_model_args){0};
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

typedef struct progress {
    struct timespec start;
    int shown;
} progress;

static void show_progress(void *user, uint64_t done, uint64_t total)
{
    progress *p = user;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double seconds = (double)(now.tv_sec - p->start.tv_sec) + 1e-9 * (double)(now.tv_nsec - p->start.tv_nsec);
    if (seconds < 0.3 || !total) return;
    fprintf(stderr, "\rloading %3d %% of %.1f GB", (int)(100 * ((double)done / (double)total)), (double)total * 1e-9);
    p->shown = 1;
}

pawl_status cli_model_open(const cli_model_args *a, const char *path, pawl_model **out, pawl_err *err)
{
    cli_kernel_options k;
    cli_kernel_options_from(a, &k);
    pawl_model_options o = PAWL_INIT(pawl_model_options);
    o.threads = a->threads;
    o.kernels = &k.target;
    o.draft_kernels = k.has_draft ? &k.draft : NULL;
    o.check_nan = a->check_nan;
    o.poison = a->poison;
    progress p = {.shown = 0};
    clock_gettime(CLOCK_MONOTONIC, &p.start);
    if (cli_is_terminal(STDERR_FILENO)) {
        o.progress = show_progress;
        o.progress_user = &p;
    }
    pawl_status st = pawl_model_open(path, &o, out, err);
    if (p.shown) fputs("\r\033[K", stderr);
    return st;
}

pawl_status cli_session_open(const cli_model_args *a, pawl_model *m, pawl_session **out, pawl_err *err)
{
    pawl_session_options o = PAWL_INIT(pawl_session_options);
    o.context = a->context;
    o.chunk = a->chunk;
    return pawl_session_create(m, &o, out, err);
}
