/* pawl render: messages through the checkpoint's chat template. Reads template and tokenizer configuration only; weights
 * are not touched. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "token/template.h"
#include "token/tokenizer.h"

enum { KEY_TOOLS = 0x200, KEY_KWARGS, KEY_THINK, KEY_NO_THINK, KEY_NO_PROMPT, MAX_MESSAGES = 64 << 20 };

typedef struct render_args {
    const char *model, *messages, *tools, *kwargs;
    int think, no_prompt;
} render_args;

static const struct argp_option options[] = {
    {"tools", KEY_TOOLS, "FILE", 0, "A JSON array of tools, as the OpenAI API has it", 1},
    {"kwargs", KEY_KWARGS, "JSON", 0, "An object of further template variables", 1},
    {"think", KEY_THINK, 0, 0, "Set enable_thinking", 1},
    {"no-think", KEY_NO_THINK, 0, 0, "Clear enable_thinking", 1},
    {"no-generation-prompt", KEY_NO_PROMPT, 0, 0, "End after the last message, not where the answer begins", 1},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *st)
{
    render_args *a = st->input;
    switch (key) {
    case KEY_TOOLS:
        a->tools = arg;
        break;
    case KEY_KWARGS:
        a->kwargs = arg;
        break;
    case KEY_THINK:
        a->think = 1;
        break;
    case KEY_NO_THINK:
        a->think = 0;
        break;
    case KEY_NO_PROMPT:
        a->no_prompt = 1;
        break;
    case ARGP_KEY_ARG:
        if (!a->model)
            a->model = arg;
        else if (!a->messages)
            a->messages = arg;
        else
            argp_error(st, "what is \"%s\"? render takes a MODEL and one file of messages", arg);
        break;
    case ARGP_KEY_END:
        if (!a->model) argp_error(st, "which model? Give the folder of a checkpoint");
        if (!a->messages) argp_error(st, "which messages? Give a JSON file, or \"-\" for standard input");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const char doc[] =
    "Render messages with a checkpoint's chat template: the exact text that the model reads."
    "\v"
    "MESSAGES.json is an array of {\"role\": ..., \"content\": ...} as the OpenAI API has it, or an object with "
    "\"messages\" and perhaps \"tools\".\n\n"
    "Examples:\n"
    "  pawl render models/tale-moe-fp8 messages.json\n"
    "  pawl render MODEL messages.json --tools tools.json --kwargs '{\"enable_thinking\": true}'\n"
    "  echo '[{\"role\":\"user\",\"content\":\"Hi\"}]' | pawl render MODEL - | pawl tokenize MODEL --special -\n";

static const struct argp parser = {options, parse, "MODEL MESSAGES.json", doc, NULL, NULL, NULL};

typedef struct parts {
    json_t *file, *messages, *tools, *kwargs, *special; /* messages is borrowed from file, perhaps tools too */
    json_t *tools_file;
} parts;

static pawl_status load(const char *path, json_t **out, pawl_err *err)
{
    char *text = NULL;
    size_t n = 0;
    PAWL_TRY(cli_read(path, MAX_MESSAGES, &text, &n, err));
    pawl_status st = pawl__json_parse(text, n, strcmp(path, "-") ? path : "standard input", out, err);
    free(text);
    return st;
}

static pawl_status need_array(const json_t *j, const char *path, const char *what, pawl_err *err)
{
    if (json_is_array(j)) return PAWL_OK;
    return pawl__fail(err, PAWL_EFORMAT, "%s: %s: found %s, expected an array", path, what, pawl__json_kind(j));
}

static pawl_status read_parts(const render_args *a, const pawl_tokenizer *t, parts *p, pawl_err *err)
{
    PAWL_TRY(load(a->messages, &p->file, err));
    p->messages = p->file;
    if (json_is_object(p->file)) {
        p->messages = json_object_get(p->file, "messages");
        p->tools = json_object_get(p->file, "tools");
        if (!p->messages)
            return pawl__fail(err, PAWL_EFORMAT,
                              "%s: found an object without \"messages\", expected an array of messages", a->messages);
        if (json_is_null(p->tools)) p->tools = NULL;
    }
    PAWL_TRY(need_array(p->messages, a->messages, "messages", err));
    if (a->tools) {
        PAWL_TRY(load(a->tools, &p->tools_file, err));
        p->tools = p->tools_file;
    }
    if (p->tools) PAWL_TRY(need_array(p->tools, a->tools ? a->tools : a->messages, "tools", err));

    char *kwargs = NULL;
    PAWL_TRY(cli_kwargs(a->kwargs, a->think, &kwargs, err));
    pawl_status st = kwargs ? pawl__json_parse(kwargs, strlen(kwargs), "--kwargs", &p->kwargs, err) : PAWL_OK;
    free(kwargs);
    PAWL_TRY(st);
    static const char *const names[] = {"bos_token", "eos_token", "pad_token", "unk_token"};
    p->special = json_object();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *token = pawl__tokenizer_named(t, names[i]);
        if (token) json_object_set_new(p->special, names[i], json_string(token));
    }
    return PAWL_OK;
}

int cli_render(int argc, char **argv)
{
    render_args a = {.think = -1};
    argp_parse(&parser, argc, argv, 0, NULL, &a);
    pawl_err err;
    pawl_tokenizer *t = NULL;
    pawl_template *tmpl = NULL;
    parts p = {0};
    pawl_buf out = {0};
    pawl_status st = pawl__tokenizer_open(a.model, &t, &err);
    if (st == PAWL_OK) st = read_parts(&a, t, &p, &err);
    if (st == PAWL_OK) st = pawl__template_open(a.model, p.tools != NULL, &tmpl, &err);
    if (st == PAWL_OK) st = pawl__chat_render(tmpl, p.messages, p.tools, !a.no_prompt, p.special, p.kwargs, &out, &err);
    int code = CLI_DONE;
    if (st == PAWL_OK)
        cli_write(out.data ? out.data : "", out.len);
    else
        code = cli_fail(&err);
    pawl__buf_free(&out);
    pawl__template_destroy(&tmpl);
    pawl__tokenizer_close(&t);
    json_decref(p.file);
    json_decref(p.tools_file);
    json_decref(p.kwargs);
    json_decref(p.special);
    return cli_finish(code);
}
