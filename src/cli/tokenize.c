/* pawl tokenize: text to token ids. Reads the checkpoint's tokenizer only; weights are not touched. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "token/tokenizer.h"

enum { KEY_SPECIAL = 0x200, KEY_JSON };

typedef struct tokenize_args {
    const char *model;
    cli_prompt prompt;
    int special, json;
} tokenize_args;

static const struct argp_option options[] = {
    {0, 0, 0, 0, "What to tokenize:", 1},
    {"special", KEY_SPECIAL, 0, 0, "Special tokens in the text, such as <|im_end|>, become their ids", 2},
    {"json", KEY_JSON, 0, 0, "One JSON object with ids and pieces (schema pawl.tokenize/1)", 30},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *st)
{
    tokenize_args *a = st->input;
    switch (key) {
    case ARGP_KEY_INIT:
        st->child_inputs[0] = &a->prompt;
        break;
    case KEY_SPECIAL:
        a->special = 1;
        break;
    case KEY_JSON:
        a->json = 1;
        break;
    case ARGP_KEY_ARG:
        if (!a->model)
            a->model = arg;
        else if (!strcmp(arg, "-") && !a->prompt.text && !a->prompt.file)
            a->prompt.file = arg;
        else
            argp_error(st, "what is \"%s\"? The text goes after -p", arg);
        break;
    case ARGP_KEY_END:
        if (!a->model) argp_error(st, "which model? Give the folder of a checkpoint");
        if (!a->prompt.text && !a->prompt.file)
            argp_error(st, "no text: give -p TEXT, -f FILE, or \"-\" for standard input");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const char doc[] = "Turn text into token ids with a checkpoint's tokenizer."
                          "\v"
                          "Examples:\n"
                          "  pawl tokenize models/tale-moe-fp8 -p 'Once upon a time'\n"
                          "  pawl tokenize MODEL -f story.txt --json\n"
                          "  pawl tokenize MODEL - < story.txt | pawl score MODEL --ids-file -\n";

static const struct argp_child children[] = {{&cli_prompt_argp, 0, NULL, 1}, {0}};
static const struct argp parser = {options, parse, "MODEL [-]", doc, children, NULL, NULL};

/* The text of each token; one that is a fraction of a character shows U+FFFD. */
static json_t *pieces_of(const pawl_tokenizer *t, const pawl_ids *ids, pawl_err *err)
{
    json_t *pieces = json_array();
    pawl_buf b = {0};
    for (size_t i = 0; i < ids->len; i++) {
        pawl__buf_clear(&b);
        if (pawl__tokenizer_decode(t, ids->data + i, 1, 0, &b, err) != PAWL_OK) break;
        json_array_append_new(pieces, json_stringn(b.data ? b.data : "", b.len));
    }
    pawl__buf_free(&b);
    if (json_array_size(pieces) == ids->len) return pieces;
    json_decref(pieces);
    return NULL;
}

static int print(const tokenize_args *a, const pawl_tokenizer *t, const pawl_ids *ids)
{
    if (a->json) {
        pawl_err err = {.text = "out of memory"};
        json_t *list = json_array(), *pieces = pieces_of(t, ids, &err);
        for (size_t i = 0; i < ids->len; i++) json_array_append_new(list, json_integer(ids->data[i]));
        if (!pieces) {
            json_decref(list);
            return cli_fail(&err);
        }
        return cli_print_json(json_pack("{s:s,s:o,s:o}", "schema", "pawl.tokenize/1", "ids", list, "pieces", pieces));
    }
    pawl_buf b = {0};
    for (size_t i = 0; i < ids->len; i++) pawl__buf_printf(&b, "%s%d", i ? " " : "", (int)ids->data[i]);
    pawl__buf_putc(&b, '\n');
    int failed = b.failed;
    if (!failed) cli_write(b.data, b.len);
    pawl__buf_free(&b);
    return failed ? cli_error("out of memory") : CLI_DONE;
}

int cli_tokenize(int argc, char **argv)
{
    tokenize_args a = {0};
    argp_parse(&parser, argc, argv, 0, NULL, &a);
    pawl_err err;
    pawl_tokenizer *t = NULL;
    pawl_ids ids = {0};
    char *text = NULL;
    size_t n = 0;
    pawl_status st = cli_prompt_read(&a.prompt, &text, &n, &err);
    if (st == PAWL_OK) st = cli_check_utf8(a.prompt.file ? a.prompt.file : "the text", text, n, &err);
    if (st == PAWL_OK) st = pawl__tokenizer_open(a.model, &t, &err);
    if (st == PAWL_OK)
        st = pawl__tokenizer_encode(t, text, n, a.special ? PAWL_ENCODE_SPECIAL : PAWL_ENCODE_BOS, &ids, &err);
    int code = st == PAWL_OK ? print(&a, t, &ids) : cli_fail(&err);
    free(text);
    pawl__ids_free(&ids);
    pawl__tokenizer_close(&t);
    return cli_finish(code);
}
