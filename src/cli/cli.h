/* What the verbs share: option groups, opening a model, input, output, signals. One file per verb; main.c dispatches.
 *
 * stdout carries the generated text or the asked-for JSON and nothing else; everything else goes to stderr. */
#ifndef PAWL_CLI_CLI_H
#define PAWL_CLI_CLI_H

#include <argp.h>
#include <jansson.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/status.h"
#include "pawl/pawl.h"
#include "token/tokenizer.h"

enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130 };

/* A verb parses argv (argv[0] is "pawl VERB", for messages) and returns an exit code. */
typedef struct cli_verb {
    const char *name;
    const char *summary; /* one line of `pawl --help` */
    int (*main)(int argc, char **argv);
} cli_verb;

int cli_run(int argc, char **argv);
int cli_chat(int argc, char **argv);
int cli_bench(int argc, char **argv);
int cli_serve(int argc, char **argv);
int cli_score(int argc, char **argv);
int cli_explain(int argc, char **argv);
int cli_inspect(int argc, char **argv);
int cli_synth(int argc, char **argv);
int cli_tokenize(int argc, char **argv);
int cli_detokenize(int argc, char **argv);
int cli_render(int argc, char **argv);

/* ---- messages and output (output.c) ------------------------------------------------------------------------------ */

/* "pawl: sentence" on stderr; returns CLI_FAILED. */
int cli_fail(const pawl_err *err);
int cli_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Flushes stdout. Returns code, or CLI_DONE when the reader has gone (EPIPE: `pawl run ... | head` is no failure), or
 * CLI_FAILED with a message when writing failed otherwise. */
int cli_finish(int code);
/* Nonzero once a write to stdout has failed, whatever the reason. */
int cli_write(const void *data, size_t n);
/* What a tool has written, with a newline at its end. */
int cli_print_text(const pawl_buf *b);
/* One line of compact JSON on stdout; takes the reference. NULL reports being out of memory. */
int cli_print_json(json_t *j);
/* May escape sequences be sent to this file descriptor? A terminal, TERM not "dumb"; for colour also no NO_COLOR. */
int cli_is_terminal(int fd);
int cli_may_colour(int fd);

/* ---- input (input.c) --------------------------------------------------------------------------------------------- */

/* A whole file, or stdin when path is "-". *data is terminated and owned by the caller (free). */
pawl_status cli_read(const char *path, size_t max, char **data, size_t *n, pawl_err *err);
/* PAWL_EFORMAT with the offset when the bytes are not UTF-8. what: "the prompt". */
pawl_status cli_check_utf8(const char *what, const char *text, size_t n, pawl_err *err);
/* Token ids separated by white space or commas. what names the source in messages. */
pawl_status cli_parse_ids(const char *what, const char *text, size_t n, pawl_ids *out, pawl_err *err);

/* Values of options; a bad one ends the program with a hint and exit code 2. opt: "--top-k". */
int64_t cli_int(struct argp_state *st, const char *opt, const char *arg, int64_t lo, int64_t hi);
double cli_num(struct argp_state *st, const char *opt, const char *arg, double lo, double hi);
uint64_t cli_seed(struct argp_state *st, const char *opt, const char *arg);

/* Strings of an option that may be repeated, borrowed from argv. */
typedef struct cli_list {
    const char **v;
    size_t n;
} cli_list;
void cli_list_add(struct argp_state *st, cli_list *l, const char *s);

/* The text to work on: -p TEXT, -f FILE, or "-" for stdin. */
typedef struct cli_prompt {
    const char *text, *file; /* one of them, or neither */
} cli_prompt;
extern const struct argp cli_prompt_argp; /* input: cli_prompt * */
/* Owned by the caller (free); not checked for UTF-8. */
pawl_status cli_prompt_read(const cli_prompt *p, char **data, size_t *n, pawl_err *err);

/* ---- the model and its kernels (policy.c) ------------------------------------------------------------------------ */

typedef struct cli_kernels {
    const char *isa, *activations;
    int deterministic;
    cli_list force, ban;
    int given; /* any of them was on the command line */
} cli_kernels;

typedef struct cli_model_args {
    cli_kernels target, draft;
    int threads, check_nan, poison;
    int64_t context;
    int32_t chunk;
} cli_model_args;
extern const struct argp cli_kernels_argp; /* kernel choice only; input: cli_model_args * */
extern const struct argp cli_model_argp; /* kernel choice, threads, context, debugging aids; input: cli_model_args * */

/* The options that the API takes, pointing into args. Draft options that were not given are the target's. */
typedef struct cli_kernel_options {
    pawl_kernel_options target, draft;
    int has_draft;
} cli_kernel_options;
void cli_kernel_options_from(const cli_model_args *a, cli_kernel_options *out);
void cli_model_args_free(cli_model_args *a);

/* Opens with progress on stderr when it takes more than a moment. */
pawl_status cli_model_open(const cli_model_args *a, const char *path, pawl_model **out, pawl_err *err);
pawl_status cli_session_open(const cli_model_args *a, pawl_model *m, pawl_session **out, pawl_err *err);

/* ---- sampling and generating (sampling.c) ------------------------------------------------------------------------ */

typedef struct cli_sampling_args {
    unsigned given; /* bits of sampling.c: which fields were on the command line */
    pawl_sampling v;
    pawl_logit_bias *bias;
    int64_t max_tokens;
    int draft; /* PAWL_DRAFT_AUTO unless given */
    int ignore_eos;
    cli_list stop;
} cli_sampling_args;
extern const struct argp cli_sampling_argp; /* input: cli_sampling_args *, which cli_sampling_init has filled */
void cli_sampling_init(cli_sampling_args *a, int64_t max_tokens);
void cli_sampling_free(cli_sampling_args *a);
/* The checkpoint's defaults with what was given on top; the options point into a and s. */
void cli_generate_options(const cli_sampling_args *a, const pawl_model *m, pawl_sampling *s,
                          pawl_generate_options *out);

/* A JSON object of messages' template variables: {"enable_thinking": true} for think = 1, false for 0, none for -1; kwargs
 * (text or NULL) is merged in. *out may become NULL (no variables); owned by the caller. */
pawl_status cli_kwargs(const char *kwargs, int think, char **out, pawl_err *err);

/* ---- statistics (stats.c) ---------------------------------------------------------------------------------------- */

const char *cli_finish_name(pawl_finish f);
void cli_stats_print(const pawl_result *r);
/* New reference, or NULL when out of memory. */
json_t *cli_stats_json(const pawl_stats *s);
json_t *cli_seed_json(uint64_t seed);

/* ---- signals (signals.c) ----------------------------------------------------------------------------------------- */

/* Installs the handlers that every verb has: SIGPIPE ignored, SIGBUS on a mapped file named. */
void cli_signals_init(void);
/* From now on SIGINT cancels this session's current or next call, and a second one ends the program. NULL: SIGINT ends the
 * program at once. */
void cli_signals_guard(pawl_session *s);
/* While on, SIGINT only interrupts what waits for input (EINTR). */
void cli_signals_idle(int on);
/* SIGINTs since the last cli_signals_guard. */
int cli_signals_interrupts(void);

#endif
