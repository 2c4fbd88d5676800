/* pawl score: what a model thinks of given tokens. */
#include "cli/cli.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/score.h"

enum { KEY_IDS_FILE = 0x200, KEY_OUT, KEY_MTP, KEY_JSON, MAX_IDS_FILE = 256 << 20 };

typedef struct score_args {
    const char *model, *ids_file, *out;
    cli_prompt prompt;
    cli_model_args machine;
    int mtp, json;
} score_args;

static const struct argp_option options[] = {
    {0, 0, 0, 0, "What to score:", 1},
    {"ids-file", KEY_IDS_FILE, "FILE", 0, "Token ids separated by white space or commas; \"-\" reads standard input",
     1},
    {0, 0, 0, 0, "Output:", 30},
    {"out", KEY_OUT, "FILE", 0, "Write f32 \"logits\" [T, vocab] to this safetensors file", 30},
    {"mtp", KEY_MTP, 0, 0, "With --out: also the draft layer's \"mtp_logits\" [T-1, vocab]", 30},
    {"json", KEY_JSON, 0, 0, "Log-probabilities and perplexity as one JSON object (schema pawl.score/1)", 30},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *st)
{
    score_args *a = st->input;
    switch (key) {
    case ARGP_KEY_INIT:
        st->child_inputs[0] = &a->prompt;
        st->child_inputs[1] = &a->machine;
        break;
    case KEY_IDS_FILE:
        a->ids_file = arg;
        break;
    case KEY_OUT:
        a->out = arg;
        break;
    case KEY_MTP:
        a->mtp = 1;
        break;
    case KEY_JSON:
        a->json = 1;
        break;
    case ARGP_KEY_ARG:
        if (a->model) argp_error(st, "what is \"%s\"? Token ids go into a file: --ids-file FILE", arg);
        a->model = arg;
        break;
    case ARGP_KEY_END:
        if (!a->model) argp_error(st, "which model? Give the folder of a checkpoint");
        if (!!a->ids_file + (a->prompt.text || a->prompt.file) != 1)
            argp_error(st, "give the tokens once: with --ids-file FILE, or as text with -p TEXT or -f FILE");
        if (a->mtp && !a->out) argp_error(st, "--mtp writes logits: it needs --out FILE");
        if (a->json && a->out) argp_error(st, "--json and --out exclude each other");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const char doc[] =
    "Run tokens through a model and report how probable it finds each of them, or write all logits to a file."
    "\v"
    "Examples:\n"
    "  pawl score MODEL -p 'The cat sat on the mat.'\n"
    "  pawl score MODEL --ids-file ids.txt --json\n"
    "  pawl score MODEL --ids-file ids.txt --out logits.safetensors --mtp --chunk 64\n"
    "\n"
    "Without --out, each line is position, token id and log-probability (natural) of the token after those before it; "
    "the "
    "last line is the perplexity, e to the negative mean.\n";

static const struct argp_child children[] = {{&cli_prompt_argp, 0, NULL, 1}, {&cli_model_argp, 0, NULL, 0}, {0}};
static const struct argp parser = {options, parse, "MODEL", doc, children, NULL, NULL};

static pawl_status read_tokens(const score_args *a, const pawl_model *m, pawl_ids *out, pawl_err *err)
{
    char *text = NULL;
    size_t n = 0;
    pawl_status st;
    if (a->ids_file) {
        st = cli_read(a->ids_file, MAX_IDS_FILE, &text, &n, err);
        if (st == PAWL_OK) st = cli_parse_ids(a->ids_file, text, n, out, err);
    } else {
        int32_t *ids = NULL;
        size_t n_ids = 0;
        st = cli_prompt_read(&a->prompt, &text, &n, err);
        if (st == PAWL_OK) st = cli_check_utf8(a->prompt.file ? a->prompt.file : "the text", text, n, err);
        if (st == PAWL_OK) st = pawl_tokenize(m, text, n, 0, &ids, &n_ids, err);
        for (size_t i = 0; i < n_ids && st == PAWL_OK; i++) st = pawl__ids_push(out, ids[i]);
        pawl_free(ids);
    }
    free(text);
    return st;
}

static int print_report(const score_args *a, const pawl_ids *ids, const double *logprob)
{
    double sum = 0;
    for (size_t i = 1; i < ids->len; i++) sum += logprob[i];
    const double mean = sum / (double)(ids->len - 1);
    if (a->json) {
        json_t *tokens = json_array();
        for (size_t i = 0; i < ids->len; i++) {
            json_t *p = i && isfinite(logprob[i]) ? json_real(logprob[i]) : json_null();
            json_array_append_new(tokens, json_pack("{s:i,s:o}", "id", (int)ids->data[i], "logprob", p));
        }
        json_t *perplexity = isfinite(exp(-mean)) ? json_real(exp(-mean)) : json_null();
        json_t *mean_json = isfinite(mean) ? json_real(mean) : json_null();
        return cli_print_json(json_pack("{s:s,s:s,s:o,s:o,s:o}", "schema", "pawl.score/1", "model", a->model, "tokens",
                                        tokens, "mean_logprob", mean_json, "perplexity", perplexity));
    }
    char line[96];
    for (size_t i = 1; i < ids->len; i++)
        if (cli_write(line, (size_t)snprintf(line, sizeof line, "%zu\t%d\t%.6f\n", i, (int)ids->data[i], logprob[i])))
            return CLI_FAILED;
    cli_write(line, (size_t)snprintf(line, sizeof line, "perplexity %.6g over %zu tokens\n", exp(-mean), ids->len - 1));
    return CLI_DONE;
}

static int score(const score_args *a, pawl_session *s, int64_t vocab, const pawl_ids *ids)
{
    pawl_err err;
    pawl_status st;
    int code = CLI_DONE;
    double *logprob = NULL;
    cli_signals_guard(s);
    if ((int64_t)ids->len > pawl_session_context(s)) {
        st = pawl__fail(&err, PAWL_EINVAL, "found %zu tokens, the context holds %lld (see --context)", ids->len,
                        (long long)pawl_session_context(s));
    } else if (a->out) {
        st = pawl__score_write(s, vocab, ids->data, ids->len, a->mtp, a->out, &err);
    } else if (!(logprob = calloc(ids->len + 1, sizeof *logprob))) {
        st = pawl__fail(&err, PAWL_ENOMEM, "out of memory");
    } else {
        st = pawl__score_logprobs(s, vocab, ids->data, ids->len, logprob, &err);
        if (st == PAWL_OK) code = print_report(a, ids, logprob);
    }
    if (st != PAWL_OK) code = st == PAWL_ECANCELED && cli_signals_interrupts() ? CLI_INTERRUPTED : cli_fail(&err);
    cli_signals_guard(NULL);
    free(logprob);
    return code;
}

int cli_score(int argc, char **argv)
{
    score_args a = {0};
    argp_parse(&parser, argc, argv, 0, NULL, &a);
    pawl_err err;
    pawl_model *m = NULL;
    pawl_session *s = NULL;
    pawl_ids ids = {0};
    int code;
    pawl_status st = cli_model_open(&a.machine, a.model, &m, &err);
    if (st == PAWL_OK) st = read_tokens(&a, m, &ids, &err);
    pawl_model_info info = PAWL_INIT(pawl_model_info);
    if (st == PAWL_OK) pawl_model_get_info(m, &info);
    if (!a.machine.context) { /* run's default bound is for answers; a text to score is as long as it is */
        a.machine.context = (int64_t)(ids.len ? ids.len : 1);
        if (a.machine.context > info.context) a.machine.context = info.context;
    }
    if (st == PAWL_OK) st = cli_session_open(&a.machine, m, &s, &err);
    if (st == PAWL_OK) {
        code = score(&a, s, info.vocab, &ids);
    } else {
        code = cli_fail(&err);
    }
    pawl__ids_free(&ids);
    pawl_session_destroy(&s);
    pawl_model_close(&m);
    cli_model_args_free(&a.machine);
    return cli_finish(code);
}
