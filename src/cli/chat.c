/* pawl chat: a conversation. The prompt, what is typed and remarks go to the terminal by way of standard error; standard
 * output carries the answers alone, so that it can be piped. */
#include "cli/cli.h"

#include <errno.h>
#include <histedit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"

enum { KEY_SYSTEM = 0x200, KEY_THINK, KEY_NO_THINK, KEY_KWARGS, KEY_STATS, MAX_HISTORY = 500, MAX_ANSWER = 64 << 20 };

typedef struct chat_args {
    const char *model, *system, *kwargs;
    cli_model_args machine;
    cli_sampling_args sampling;
    int think, stats;
} chat_args;

static const struct argp_option options[] = {
    {0, 0, 0, 0, "The conversation:", 1},
    {"system", KEY_SYSTEM, "TEXT", 0, "The system message", 1},
    {"think", KEY_THINK, 0, 0, "Let the model think first (enable_thinking of the template)", 1},
    {"no-think", KEY_NO_THINK, 0, 0, "Answer at once", 1},
    {"kwargs", KEY_KWARGS, "JSON", 0, "An object of further template variables", 1},
    {"stats", KEY_STATS, 0, 0, "Tokens per second and accepted drafts after each answer", 1},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *st)
{
    chat_args *a = st->input;
    switch (key) {
    case ARGP_KEY_INIT:
        st->child_inputs[0] = &a->sampling;
        st->child_inputs[1] = &a->machine;
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
    case KEY_STATS:
        a->stats = 1;
        break;
    case ARGP_KEY_ARG:
        if (a->model) argp_error(st, "what is \"%s\"? chat takes one MODEL", arg);
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

static const char commands[] = "/system TEXT   set the system message and begin anew\n"
                               "/reset         forget the conversation\n"
                               "/stats         cost of the last answer; again after each one from now on\n"
                               "/help          this list\n"
                               "/quit          leave (or Ctrl-D)\n"
                               "Ctrl-C stops an answer; //text sends a message that begins with a slash.\n";

static const char doc[] = "Talk with a model. What was said before stays computed: only new text is."
                          "\v"
                          "Examples:\n"
                          "  pawl chat models/tale-moe-fp8\n"
                          "  pawl chat MODEL --system 'Answer in one sentence.' --temp 0.7 --stats\n"
                          "  printf 'What is 2 + 3?\\n' | pawl chat MODEL > answer.txt\n"
                          "\n"
                          "Commands in the conversation: /system TEXT, /reset, /stats, /help, /quit. Ctrl-C stops the "
                          "answer, not the program.\n";

static const struct argp_child children[] = {{&cli_sampling_argp, 0, NULL, 0}, {&cli_model_argp, 0, NULL, 0}, {0}};
static const struct argp parser = {options, parse, "MODEL", doc, children, NULL, NULL};

/* ---- lines from the user ----------------------------------------------------------------------------------------- */

typedef struct line_source {
    EditLine *el; /* NULL when standard input is no terminal */
    History *history;
    char *history_path; /* NULL: not kept */
    char *plain;        /* getline's buffer */
    size_t cap;
} line_source;

static char *prompt_text(EditLine *el)
{
    (void)el;
    static char text[] = "> ";
    return text;
}

/* $XDG_STATE_HOME/pawl/history, with its folders made on the way; NULL when there is no place for it. */
static char *find_history(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char path[4096];
    int n;
    if (state && *state == '/')
        n = snprintf(path, sizeof path, "%s/pawl/history", state);
    else if (home && *home == '/')
        n = snprintf(path, sizeof path, "%s/.local/state/pawl/history", home);
    else
        return NULL;
    if (n >= (int)sizeof path) return NULL;
    for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = 0;
        if (mkdir(path, 0700) != 0 && errno != EEXIST) return NULL;
        *p = '/';
    }
    return strdup(path);
}

static void open_lines(line_source *l)
{
    *l = (line_source){0};
    if (!isatty(STDIN_FILENO)) return;
    l->el = el_init("pawl", stdin, stderr, stderr);
    if (!l->el) return;
    el_set(l->el, EL_EDITOR, "emacs");
    el_set(l->el, EL_PROMPT, prompt_text);
    l->history = history_init();
    if (l->history) {
        HistEvent ev;
        history(l->history, &ev, H_SETSIZE, MAX_HISTORY);
        history(l->history, &ev, H_SETUNIQUE, 1);
        el_set(l->el, EL_HIST, history, l->history);
        l->history_path = find_history();
        if (l->history_path) history(l->history, &ev, H_LOAD, l->history_path);
    }
    el_source(l->el, NULL); /* the user's ~/.editrc */
}

static void close_lines(line_source *l)
{
    HistEvent ev;
    if (l->history_path) {
        mode_t old = umask(077); /* what was said is nobody else's business */
        history(l->history, &ev, H_SAVE, l->history_path);
        umask(old);
    }
    if (l->history) history_end(l->history);
    if (l->el) el_end(l->el);
    free(l->history_path);
    free(l->plain);
}

/* The next line without its newline, valid until the next call; NULL at the end of the input. A Ctrl-C at the prompt
 * gives an empty line. */
static const char *next_line(line_source *l, pawl_buf *line)
{
    pawl__buf_clear(line);
    if (!l->el) {
        ssize_t n = getline(&l->plain, &l->cap, stdin);
        if (n < 0) return NULL;
        pawl__buf_append(line, l->plain, (size_t)n);
    } else {
        int n = 0;
        errno = 0;
        const char *s = el_gets(l->el, &n);
        if (!s || n <= 0) {
            fputc('\n', stderr);
            return n < 0 && errno == EINTR ? "" : NULL;
        }
        pawl__buf_append(line, s, (size_t)n);
        HistEvent ev;
        if (l->history && n > 1) history(l->history, &ev, H_ENTER, s);
    }
    while (line->len && (line->data[line->len - 1] == '\n' || line->data[line->len - 1] == '\r'))
        line->data[--line->len] = 0;
    return line->failed ? NULL : line->data;
}

/* ---- the conversation -------------------------------------------------------------------------------------------- */

typedef struct chat {
    const chat_args *args;
    pawl_model *m;
    pawl_session *s;
    json_t *messages;
    char *kwargs;
    pawl_result last;
    int have_last, stats;
    pawl_buf answer;
} chat;

static int set_messages(chat *c, const char *system, size_t n)
{
    json_decref(c->messages);
    c->messages = json_array();
    if (n) json_array_append_new(c->messages, json_pack("{s:s,s:s%}", "role", "system", "content", system, n));
    pawl_session_reset(c->s);
    return c->messages && json_array_size(c->messages) == (n > 0);
}

static int on_token(const pawl_token *t, void *user)
{
    chat *c = user;
    if (t->n_text) pawl__buf_append(&c->answer, t->text, t->n_text);
    return c->answer.failed || cli_write(t->text, t->n_text);
}

static pawl_status answer(chat *c, pawl_err *err)
{
    char *dump = json_dumps(c->messages, JSON_COMPACT), *text = NULL;
    int32_t *ids = NULL;
    size_t n_text = 0, n_ids = 0;
    pawl_sampling sampling;
    pawl_generate_options o;
    cli_generate_options(&c->args->sampling, c->m, &sampling, &o);
    c->last = PAWL_INIT(pawl_result);
    pawl__buf_clear(&c->answer);
    pawl_status st = dump ? PAWL_OK : pawl__fail(err, PAWL_ENOMEM, "out of memory");
    if (st == PAWL_OK) st = pawl_render_chat(c->m, dump, NULL, c->kwargs, 1, &text, &n_text, err);
    if (st == PAWL_OK) st = pawl_tokenize(c->m, text, n_text, PAWL_TOKENIZE_SPECIAL, &ids, &n_ids, err);
    if (st == PAWL_OK && (int64_t)n_ids >= pawl_session_context(c->s))
        st = pawl__fail(err, PAWL_EINVAL,
                        "the conversation has %zu tokens, the context holds %lld: /reset begins anew (see --context)",
                        n_ids, (long long)pawl_session_context(c->s));
    if (st == PAWL_OK) st = pawl_session_sync(c->s, ids, n_ids, err);
    if (st == PAWL_OK) {
        st = pawl_generate(c->s, &o, on_token, c, &c->last, err);
        c->have_last = st == PAWL_OK || st == PAWL_ECANCELED;
    }
    free(dump);
    pawl_free(text);
    pawl_free(ids);
    return st;
}

/* One message and its answer. A message that got no answer is taken back, so that it can be tried again. */
static void say(chat *c, const char *text, size_t n)
{
    pawl_err err;
    if (cli_check_utf8("the message", text, n, &err) != PAWL_OK) {
        cli_fail(&err);
        return;
    }
    json_array_append_new(c->messages, json_pack("{s:s,s:s%}", "role", "user", "content", text, n));
    cli_signals_guard(c->s);
    pawl_status st = answer(c, &err);
    const int stopped = st == PAWL_ECANCELED && cli_signals_interrupts();
    cli_signals_guard(NULL);
    if (c->answer.len) {
        cli_write("\n", 1);
        json_array_append_new(c->messages,
                              json_pack("{s:s,s:s%}", "role", "assistant", "content", c->answer.data, c->answer.len));
    } else {
        json_array_remove(c->messages, json_array_size(c->messages) - 1);
    }
    if (stopped)
        fputs("[stopped]\n", stderr);
    else if (st != PAWL_OK)
        cli_fail(&err);
    if (c->stats && c->have_last) cli_stats_print(&c->last);
}

static int is_command(const char *line, const char *name, const char **rest)
{
    size_t n = strlen(name);
    if (strncmp(line, name, n) != 0 || (line[n] && line[n] != ' ')) return 0;
    *rest = line + n + strspn(line + n, " ");
    return 1;
}

/* Nonzero: leave. */
static int command(chat *c, const char *line)
{
    const char *rest;
    if (is_command(line, "/quit", &rest) || is_command(line, "/exit", &rest)) return 1;
    if (is_command(line, "/reset", &rest)) {
        const json_t *first = json_array_get(c->messages, 0);
        const char *role = json_string_value(json_object_get(first, "role"));
        char *system =
            role && !strcmp(role, "system") ? strdup(json_string_value(json_object_get(first, "content"))) : NULL;
        set_messages(c, system, system ? strlen(system) : 0);
        free(system);
    } else if (is_command(line, "/system", &rest)) {
        pawl_err err;
        if (cli_check_utf8("the system message", rest, strlen(rest), &err) != PAWL_OK)
            cli_fail(&err);
        else
            set_messages(c, rest, strlen(rest));
    } else if (is_command(line, "/stats", &rest)) {
        c->stats = !c->stats;
        if (c->stats && c->have_last) cli_stats_print(&c->last);
        fprintf(stderr, "[statistics %s]\n", c->stats ? "on" : "off");
    } else if (is_command(line, "/help", &rest)) {
        fputs(commands, stderr);
    } else {
        fprintf(stderr, "no command \"%.*s\"; /help lists them, //text sends a message that begins with a slash\n",
                (int)strcspn(line, " "), line);
    }
    return 0;
}

static void converse(chat *c)
{
    line_source lines;
    pawl_buf line = {.limit = MAX_ANSWER};
    open_lines(&lines);
    if (lines.el)
        fprintf(stderr, "pawl %s, %s. /help lists commands, /quit or Ctrl-D leaves.\n", pawl_version(), c->args->model);
    const char *text;
    for (;;) {
        cli_signals_idle(lines.el != NULL);
        text = next_line(&lines, &line);
        cli_signals_idle(0);
        if (!text) break;
        if (!*text) continue;
        if (text[0] == '/' && text[1] != '/') {
            if (command(c, text)) break;
            continue;
        }
        if (*text == '/') text++;
        say(c, text, strlen(text));
        if (cli_write("", 0)) break; /* nobody reads any more */
    }
    close_lines(&lines);
    pawl__buf_free(&line);
}

static pawl_status begin(chat *c, pawl_err *err)
{
    const chat_args *a = c->args;
    pawl_model_info info = PAWL_INIT(pawl_model_info);
    pawl_model_get_info(c->m, &info);
    if (!info.has_tokenizer)
        return pawl__fail(err, PAWL_EUNSUPPORTED, "%s has no tokenizer.json: without one there is no text to chat in",
                          a->model);
    if (!info.has_template)
        return pawl__fail(err, PAWL_EUNSUPPORTED, "%s has no chat template; `pawl run` continues plain text", a->model);
    if (a->system) PAWL_TRY(cli_check_utf8("--system", a->system, strlen(a->system), err));
    PAWL_TRY(cli_kwargs(a->kwargs, a->think, &c->kwargs, err));
    if (!set_messages(c, a->system, a->system ? strlen(a->system) : 0))
        return pawl__fail(err, PAWL_ENOMEM, "out of memory");
    return PAWL_OK;
}

int cli_chat(int argc, char **argv)
{
    chat_args a = {.think = -1};
    cli_sampling_init(&a.sampling, 0);
    argp_parse(&parser, argc, argv, 0, NULL, &a);
    pawl_err err;
    chat c = {.args = &a, .stats = a.stats, .answer = {.limit = MAX_ANSWER}};
    int code = CLI_DONE;
    pawl_status st = cli_model_open(&a.machine, a.model, &c.m, &err);
    if (st == PAWL_OK) st = cli_session_open(&a.machine, c.m, &c.s, &err);
    if (st == PAWL_OK) st = begin(&c, &err);
    if (st == PAWL_OK)
        converse(&c);
    else
        code = cli_fail(&err);
    json_decref(c.messages);
    free(c.kwargs);
    pawl__buf_free(&c.answer);
    pawl_session_destroy(&c.s);
    pawl_model_close(&c.m);
    cli_sampling_free(&a.sampling);
    cli_model_args_free(&a.machine);
    return cli_finish(code);
}
