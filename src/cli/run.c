/* pawl run: continue a text, or answer one message. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"

enum { KEY_CHAT = 0x200, KEY_SYSTEM, KEY_THINK, KEY_NO_THINK, KEY_KWARGS, KEY_IDS, KEY_SPECIAL, KEY_JSON, KEY_STATS };

typedef struct run_args {
    const char *model;
    cli_prompt prompt;
    cli_model_args machine;
    cli_sampling_args sampling;
    const char *system, *kwargs;
    int chat, think /* -1: as the template has it */, ids, special, json, stats;
} run_args;

static const struct argp_option options[] = {
    {0, 0, 0, 0, "The prompt:", 1},
    {"chat", KEY_CHAT, 0, 0, "The prompt is a user's message: render it with the checkpoint's chat template", 2},
    {"system", KEY_SYSTEM, "TEXT", 0, "With --chat: the system message", 2},
    {"think", KEY_THINK, 0, 0, "With --chat: let the model think first (enable_thinking of the template)", 2},
    {"no-think", KEY_NO_THINK, 0, 0, "With --chat: answer at once", 2},
    {"kwargs", KEY_KWARGS, "JSON", 0, "With --chat: an object of further template variables", 2},
    {"special", KEY_SPECIAL, 0, 0, "Special tokens in the prompt, such as <|im_end|>, are not plain text", 2},
    {"ids", KEY_IDS, 0, 0, "The prompt is token ids, and ids come out: works without a tokenizer", 2},
    {0, 0, 0, 0, "Output:", 30},
    {"json", KEY_JSON, 0, 0, "One JSON object at the end (schema pawl.run/1)", 30},
    {"stats", KEY_STATS, 0, 0, "Tokens per second and accepted drafts, on standard error", 30},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *st)
{
    run_args *a = st->input;
    switch (key) {
    case ARGP_KEY_INIT:
        st->child_inputs[0] = &a->prompt;
        st->child_inputs[1] = &a->sampling;
        st->child_inputs[2] = &a->machine;
        break;
    case KEY_CHAT:
        a->chat = 1;
        break;
    case KEY_SYSTEM:
        a->system = arg;
        break;
    case KEY_THINK:
        a->think = 1;
        break;
    case KEY_NO_THINK:
        a->think = 0;
        break;
    case KEY_KWARGS:
        a->kwargs = arg;
        break;
    case KEY_IDS:
        a->ids = 1;
        break;
    case KEY_SPECIAL:
        a->special = 1;
        break;
    case KEY_JSON:
        a->json = 1;
        break;
    case KEY_STATS:
        a->stats = 1;
        break;
    case ARGP_KEY_ARG:
        if (!a->model)
            a->model = arg;
        else if (!strcmp(arg, "-") && !a->prompt.text && !a->prompt.file)
            a->prompt.file = arg;
        else
            argp_error(st, "what is \"%s\"? The prompt goes after -p", arg);
        break;
    case ARGP_KEY_END:
        if (!a->model) argp_error(st, "which model? Give the folder of a checkpoint");
        if (!a->prompt.text && !a->prompt.file)
            argp_error(st, "no prompt: give -p TEXT, -f FILE, or \"-\" for standard input");
        if (a->ids && a->chat) argp_error(st, "--ids and --chat exclude each other");
        if (!a->chat && (a->system || a->kwargs || a->think >= 0))
            argp_error(st, "--system, --think, --no-think and --kwargs need --chat");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const char doc[] =
    "Continue a text, or answer a message with --chat. The text goes to standard output as it is made."
    "\v"
    "Examples:\n"
    "  pawl run models/tale-moe-fp8 -p 'Once upon a time' -n 100\n"
    "  pawl run models/tale-moe-fp8 --chat -p 'What is 17 + 25?' --temp 0 --stats\n"
    "  cat story.txt | pawl run MODEL - --temp 0.7 --top-p 0.95 --seed 7\n"
    "  pawl run MODEL -p 'Hello' --draft 0    # the same text, slower\n"
    "  pawl run MODEL --ids -p '1,2,3' -n 8   # no tokenizer needed\n"
    "\n"
    "Ctrl-C ends after the current token and prints what there is (exit code 130).\n";

static const struct argp_child children[] = {
    {&cli_prompt_argp, 0, NULL, 1}, {&cli_sampling_argp, 0, NULL, 0}, {&cli_model_argp, 0, NULL, 0}, {0}};
static const struct argp parser = {options, parse, "MODEL [-]", doc, children, NULL, NULL};

/* What the callback collects. */
typedef struct answer {
    const run_args *args;
    pawl_buf text;
    pawl_ids ids;
    int failed;    /* out of memory */
    int last_char; /* of the text written to the terminal */
} answer;

/* An id of -1 brings text that was held back behind the last token. */
static int on_token(const pawl_token *t, void *user)
{
    answer *a = user;
    if (a->args->json) {
        if (t->n_text) pawl__buf_append(&a->text, t->text, t->n_text);
        a->failed = a->text.failed || (t->id >= 0 && pawl__ids_push(&a->ids, t->id) != PAWL_OK);
        return a->failed;
    }
    if (a->args->ids) {
        if (t->id < 0) return 0;
        char number[16];
        int n = snprintf(number, sizeof number, "%s%d", a->last_char ? " " : "", (int)t->id);
        a->last_char = '0';
        return cli_write(number, (size_t)n);
    }
    if (t->n_text) a->last_char = t->text[t->n_text - 1];
    return cli_write(t->text, t->n_text);
}

static pawl_status render_message(const run_args *a, const pawl_model *m, char **text, size_t *n, pawl_err *err)
{
    json_t *messages = json_array();
    if (a->system) json_array_append_new(messages, json_pack("{s:s,s:s}", "role", "system", "content", a->system));
    json_array_append_new(messages, json_pack("{s:s,s:s%}", "role", "user", "content", *text, *n));
    char *dump = json_dumps(messages, JSON_COMPACT), *kwargs = NULL, *rendered = NULL;
    json_decref(messages);
    pawl_status st =
        dump ? cli_kwargs(a->kwargs, a->think, &kwargs, err) : pawl__fail(err, PAWL_ENOMEM, "out of memory");
    size_t n_rendered = 0;
    if (st == PAWL_OK) st = pawl_render_chat(m, dump, NULL, kwargs, 1, &rendered, &n_rendered, err);
    free(dump);
    free(kwargs);
    if (st != PAWL_OK) return st;
    free(*text);
    *text = malloc(n_rendered + 1);
    if (*text) memcpy(*text, rendered, n_rendered + 1);
    pawl_free(rendered);
    *n = n_rendered;
    return *text ? PAWL_OK : pawl__fail(err, PAWL_ENOMEM, "out of memory");
}

/* The prompt's token ids into the session. */
static pawl_status feed(const run_args *a, const pawl_model *m, pawl_session *s, char **text, size_t n, pawl_err *err)
{
    int32_t *ids = NULL;
    size_t n_ids = 0;
    pawl_ids parsed = {0};
    pawl_status st = PAWL_OK;
    if (a->ids) {
        st = cli_parse_ids(a->prompt.file ? a->prompt.file : "the prompt", *text, n, &parsed, err);
        ids = parsed.data, n_ids = parsed.len;
    } else {
        st = cli_check_utf8(a->prompt.file ? a->prompt.file : "the prompt", *text, n, err);
        if (st == PAWL_OK && a->system) st = cli_check_utf8("--system", a->system, strlen(a->system), err);
        if (st == PAWL_OK && a->chat) st = render_message(a, m, text, &n, err);
        unsigned flags = a->chat || a->special ? PAWL_TOKENIZE_SPECIAL : 0;
        if (st == PAWL_OK) st = pawl_tokenize(m, *text, n, flags, &ids, &n_ids, err);
    }
    if (st == PAWL_OK && n_ids == 0)
        st = pawl__fail(err, PAWL_EINVAL, "the prompt is empty: there is nothing to continue");
    if (st == PAWL_OK && (int64_t)n_ids > pawl_session_context(s))
        st = pawl__fail(err, PAWL_EINVAL, "the prompt has %zu tokens, the context holds %lld (see --context)", n_ids,
                        (long long)pawl_session_context(s));
    if (st == PAWL_OK) st = pawl_session_feed(s, ids, n_ids, err);
    if (a->ids)
        pawl__ids_free(&parsed);
    else
        pawl_free(ids);
    return st;
}

static int print_json(const run_args *a, const pawl_model *m, answer *ans, const pawl_result *r)
{
    pawl_model_info info = PAWL_INIT(pawl_model_info);
    pawl_model_get_info(m, &info);
    json_t *ids = json_array();
    for (size_t i = 0; i < ans->ids.len; i++) json_array_append_new(ids, json_integer(ans->ids.data[i]));
    json_t *text = info.has_tokenizer ? json_stringn(ans->text.data ? ans->text.data : "", ans->text.len) : json_null();
    return cli_print_json(json_pack("{s:s,s:s,s:o,s:o,s:s,s:o,s:o}", "schema", "pawl.run/1", "model", a->model, "text",
                                    text, "ids", ids, "finish", cli_finish_name(r->finish), "seed",
                                    cli_seed_json(r->seed), "stats", cli_stats_json(&r->stats)));
}

static int generate(const run_args *a, const pawl_model *m, pawl_session *s)
{
    pawl_err err;
    pawl_sampling sampling;
    pawl_generate_options o;
    cli_generate_options(&a->sampling, m, &sampling, &o);
    answer ans = {.args = a};
    pawl_result r = PAWL_INIT(pawl_result);
    pawl_status st = pawl_generate(s, &o, on_token, &ans, &r, &err);
    int code = CLI_DONE;
    if (st == PAWL_ECANCELED && cli_signals_interrupts())
        code = CLI_INTERRUPTED;
    else if (st != PAWL_OK)
        code = cli_fail(&err);
    if (ans.failed) code = cli_error("out of memory while collecting the answer");
    if (code != CLI_FAILED) {
        if (a->json)
            code = print_json(a, m, &ans, &r) == CLI_DONE ? code : CLI_FAILED;
        else if (a->ids || (ans.last_char && ans.last_char != '\n' && isatty(STDOUT_FILENO)))
            cli_write("\n", 1); /* a file or a pipe gets the text's own bytes */
        if (a->stats) cli_stats_print(&r);
    }
    pawl__buf_free(&ans.text);
    pawl__ids_free(&ans.ids);
    return code;
}

int cli_run(int argc, char **argv)
{
    run_args a = {.think = -1};
    cli_sampling_init(&a.sampling, 256);
    argp_parse(&parser, argc, argv, 0, NULL, &a);
    pawl_err err;
    pawl_model *m = NULL;
    pawl_session *s = NULL;
    char *text = NULL;
    size_t n = 0;
    int code;
    pawl_status st = cli_prompt_read(&a.prompt, &text, &n, &err);
    if (st == PAWL_OK) st = cli_model_open(&a.machine, a.model, &m, &err);
    if (st == PAWL_OK) st = cli_session_open(&a.machine, m, &s, &err);
    if (st == PAWL_OK) st = feed(&a, m, s, &text, n, &err);
    if (st == PAWL_OK) {
        cli_signals_guard(s);
        code = generate(&a, m, s);
        cli_signals_guard(NULL);
    } else {
        code = cli_fail(&err);
    }
    free(text);
    pawl_session_destroy(&s);
    pawl_model_close(&m);
    cli_sampling_free(&a.sampling);
    cli_model_args_free(&a.machine);
    return cli_finish(code);
}
