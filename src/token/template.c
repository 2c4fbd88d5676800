/* Chat templates: finding, compiling and rendering them, and what stands around a rendering for chat messages. */
#include "token/jinja.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/utf8.h"

enum { MAX_CONFIG = 64 << 20, DEFAULT_DEPTH = 200 };

/* ---- compiling ---- */

/* As Jinja2 reads a source: \r\n and \r are newlines, and one newline at the very end is dropped. */
static size_t normalise(char *to, const char *from, size_t n)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        if (from[i] == '\r' && i + 1 < n && from[i + 1] == '\n') continue;
        to[k++] = from[i] == '\r' ? '\n' : from[i];
    }
    return k > 0 && to[k - 1] == '\n' ? k - 1 : k;
}

static pawl_status compile(pawl_template *t, const char *source, size_t n, pawl_err *err)
{
    char *text = pawl__arena_alloc(t->arena, n + 1);
    if (!text) return pawl__fail(err, PAWL_ENOMEM, "%s: out of memory", t->name);
    jtokens tokens = {0};
    pawl_status s = pawl__jinja_lex(text, normalise(text, source, n), t->name, t->arena, &tokens, err);
    if (s == PAWL_OK) s = pawl__jinja_parse(&tokens, t->name, t->arena, &t->parsed, err);
    if (s == PAWL_OK) s = pawl__jinja_scopes(t->parsed.root, t->parsed.nnames, t->name, t->arena, err);
    free(tokens.v);
    return s;
}

pawl_status pawl__template_compile(const char *source, size_t n, const char *name, pawl_template **out, pawl_err *err)
{
    *out = NULL;
    if (n > JINJA_MAX_SOURCE)
        return pawl__fail(err, PAWL_EFORMAT, "%s: a template of %zu bytes, at most %d are allowed", name, n,
                          JINJA_MAX_SOURCE);
    size_t valid = pawl__utf8_valid(source, n);
    if (valid != n) return pawl__fail(err, PAWL_EFORMAT, "%s: byte %zu is not valid UTF-8", name, valid);
    pawl_template *t = calloc(1, sizeof *t);
    if (!t) return pawl__fail(err, PAWL_ENOMEM, "%s: out of memory", name);
    t->arena = pawl__arena_create(((size_t)1 << 20) + n * 256);
    t->name = t->arena ? pawl__arena_strndup(t->arena, name, strlen(name)) : NULL;
    pawl_status s = t->name ? compile(t, source, n, err) : pawl__fail(err, PAWL_ENOMEM, "%s: out of memory", name);
    if (s == PAWL_OK)
        *out = t;
    else
        pawl__template_destroy(&t);
    return s;
}

void pawl__template_destroy(pawl_template **t)
{
    if (!*t) return;
    pawl__arena_destroy(&(*t)->arena);
    free(*t);
    *t = NULL;
}

/* ---- finding ---- */

static const json_t *named_template(const json_t *list, const char *name)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        const char *s = json_string_value(json_object_get(item, "name"));
        if (s && strcmp(s, name) == 0) return json_object_get(item, "template");
    }
    return NULL;
}

static pawl_status open_config(const char *dir, int with_tools, pawl_template **out, pawl_err *err)
{
    char path[4096];
    json_t *config;
    PAWL_TRY(pawl__path_join(path, sizeof path, dir, "tokenizer_config.json", err));
    if (!pawl__file_exists(path)) return pawl__fail(err, PAWL_EIO, "%s: there is no chat template", dir);
    PAWL_TRY(pawl__json_load(path, MAX_CONFIG, &config, err));
    const json_t *t = json_object_get(config, "chat_template");
    if (json_is_array(t)) {
        const json_t *tools = with_tools ? named_template(t, "tool_use") : NULL;
        t = tools ? tools : named_template(t, "default");
    }
    pawl_status s;
    if (!t || json_is_null(t))
        s = pawl__fail(err, PAWL_EIO, "%s: there is no chat template", dir);
    else if (!json_is_string(t))
        s = pawl__fail(err, PAWL_EFORMAT, "%s: chat_template: expected a string, found %s", path, pawl__json_kind(t));
    else
        s = pawl__template_compile(json_string_value(t), json_string_length(t), "chat_template", out, err);
    json_decref(config);
    return s;
}

pawl_status pawl__template_open(const char *dir, int with_tools, pawl_template **out, pawl_err *err)
{
    char path[4096], *source;
    size_t n;
    *out = NULL;
    PAWL_TRY(pawl__path_join(path, sizeof path, dir, "chat_template.jinja", err));
    if (!pawl__file_exists(path)) return open_config(dir, with_tools, out, err);
    PAWL_TRY(pawl__file_read(path, JINJA_MAX_SOURCE, &source, &n, err));
    pawl_status s = pawl__template_compile(source, n, "chat_template.jinja", out, err);
    free(source);
    return s;
}

/* ---- rendering ---- */

static void take_limits(jrun *run, const pawl_template_limits *limits)
{
    static const pawl_template_limits defaults = {0};
    const pawl_template_limits *l = limits ? limits : &defaults;
    run->max_steps = l->steps ? l->steps : 20000000;
    run->max_depth = l->depth ? l->depth : DEFAULT_DEPTH;
    if (run->max_depth > JINJA_MAX_HEIGHT) run->max_depth = JINJA_MAX_HEIGHT;
    run->max_string = l->max_output ? l->max_output : (size_t)64 << 20;
    if (run->max_string > UINT32_MAX / 2) run->max_string = UINT32_MAX / 2; /* lengths are 32 bits wide */
    run->now = l->now;
}

static pawl_status render(jrun *run, const json_t *vars, pawl_buf *out)
{
    jval v = pawl__jv_from_json(run, vars);
    if (run->status != PAWL_OK) return run->status;
    pawl_buf text = pawl__jv_buf(run);
    run->vars = v.u.dict;
    run->out = &text;
    pawl__jinja_run(run, run->tmpl->parsed.root);
    if (run->status == PAWL_OK) pawl__buf_append(out, text.data, text.len);
    pawl__buf_free(&text);
    if (run->status == PAWL_OK && out->failed)
        pawl__jinja_fail(run, PAWL_ENOMEM, "out of memory for the rendered text");
    return run->status;
}

pawl_status pawl__template_render(const pawl_template *t, const json_t *vars, const pawl_template_limits *limits,
                                  pawl_buf *out, pawl_err *err)
{
    if (!json_is_object(vars))
        return pawl__fail(err, PAWL_EINVAL, "%s: the variables are %s, expected an object", t->name,
                          pawl__json_kind(vars));
    jrun run = {.tmpl = t, .err = err, .line = 1};
    take_limits(&run, limits);
    run.arena = pawl__arena_create(((size_t)64 << 20) + 4 * run.max_string);
    if (!run.arena) return pawl__fail(err, PAWL_ENOMEM, "%s: out of memory", t->name);
    pawl_status s = render(&run, vars, out);
    pawl__arena_destroy(&run.arena);
    return s;
}

/* ---- chat ---- */

/* Replaces old in a container's copy. All of these take the reference to v and are nonzero when out of memory. */
static int put(json_t *object, const char *key, json_t *v)
{
    return json_object_set_new(object, key, v);
}

/* A tool call with its arguments as an object: a new reference, or NULL after filling err. */
static json_t *parsed_call(json_t *call, size_t message, size_t index, pawl_err *err)
{
    json_t *function = json_object_get(call, "function");
    json_t *holder = json_is_object(function) ? function : call;
    json_t *text = json_object_get(holder, "arguments");
    if (!json_is_string(text)) return json_incref(call);
    json_t *arguments = NULL;
    if (json_string_length(text) == 0)
        arguments = json_object();
    else if (pawl__json_parse_any(json_string_value(text), json_string_length(text), "arguments", &arguments, err) ==
             PAWL_ENOMEM)
        return NULL;
    if (!json_is_object(arguments)) {
        pawl__fail(err, PAWL_EINVAL, "messages[%zu].tool_calls[%zu]: arguments are %s, expected a JSON object", message,
                   index, arguments ? pawl__json_kind(arguments) : "not valid JSON");
        json_decref(arguments);
        return NULL;
    }
    json_t *copy = json_copy(call), *inner = holder == call ? json_incref(copy) : json_copy(function);
    int bad = !copy || !inner || put(inner, "arguments", arguments);
    if (!bad && holder != call) bad = put(copy, "function", json_incref(inner));
    json_decref(inner);
    if (bad) {
        pawl__fail(err, PAWL_ENOMEM, "messages[%zu]: out of memory", message);
        json_decref(copy);
        return NULL;
    }
    return copy;
}

/* A message whose tool calls have objects as arguments: a new reference, or NULL after filling err. */
static json_t *parsed_message(json_t *message, size_t index, pawl_err *err)
{
    if (!json_is_object(message)) {
        pawl__fail(err, PAWL_EINVAL, "messages[%zu]: expected an object, found %s", index, pawl__json_kind(message));
        return NULL;
    }
    const json_t *calls = json_object_get(message, "tool_calls");
    if (!json_is_array(calls)) return json_incref(message);
    json_t *copy = json_copy(message), *list = json_array();
    for (size_t i = 0; i < json_array_size(calls); i++) {
        json_t *call = parsed_call(json_array_get(calls, i), index, i, err);
        if (!call) {
            json_decref(list);
            json_decref(copy);
            return NULL;
        }
        json_array_append_new(list, call);
    }
    if (!copy || json_array_size(list) != json_array_size(calls) || put(copy, "tool_calls", json_incref(list))) {
        pawl__fail(err, PAWL_ENOMEM, "messages[%zu]: out of memory", index);
        json_decref(copy);
        copy = NULL;
    }
    json_decref(list);
    return copy;
}

static pawl_status add_kwargs(json_t *vars, const json_t *kwargs, pawl_err *err)
{
    static const char *const reserved[] = {"messages", "tools", "add_generation_prompt", "chat_template", "tokenize"};
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)kwargs, key, v) /* Jansson's iterators want it writable and only read */
    {
        for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
            if (strcmp(key, reserved[i]) == 0)
                return pawl__fail(err, PAWL_EINVAL, "chat template arguments: '%s' cannot be passed here", key);
        if (put(vars, key, json_incref(v))) return pawl__fail(err, PAWL_ENOMEM, "chat template: out of memory");
    }
    return PAWL_OK;
}

static pawl_status fill_vars(json_t *vars, const json_t *messages, const json_t *tools, int add_generation_prompt,
                             const json_t *special, const json_t *kwargs, pawl_err *err)
{
    json_t *list = json_array();
    if (put(vars, "messages", list)) return pawl__fail(err, PAWL_ENOMEM, "chat template: out of memory");
    for (size_t i = 0; i < json_array_size(messages); i++) {
        json_t *m = parsed_message(json_array_get(messages, i), i, err);
        if (!m) return err ? err->status : PAWL_EINVAL;
        if (json_array_append_new(list, m)) return pawl__fail(err, PAWL_ENOMEM, "chat template: out of memory");
    }
    json_t *t = tools ? json_incref((json_t *)(uintptr_t)tools) : json_null();
    int bad = put(vars, "tools", t) || put(vars, "documents", json_null()) ||
              put(vars, "add_generation_prompt", json_boolean(add_generation_prompt)) ||
              (special && json_object_update_missing(vars, (json_t *)(uintptr_t)special));
    if (bad) return pawl__fail(err, PAWL_ENOMEM, "chat template: out of memory");
    return kwargs ? add_kwargs(vars, kwargs, err) : PAWL_OK;
}

pawl_status pawl__chat_render(const pawl_template *t, const json_t *messages, const json_t *tools,
                              int add_generation_prompt, const json_t *special, const json_t *kwargs, pawl_buf *out,
                              pawl_err *err)
{
    if (!json_is_array(messages))
        return pawl__fail(err, PAWL_EINVAL, "messages: expected an array, found %s", pawl__json_kind(messages));
    if (json_array_size(messages) == 0)
        return pawl__fail(err, PAWL_EINVAL,
                          "Cannot apply chat template to an empty conversation. Provide at least one message.");
    json_t *vars = json_object();
    if (!vars) return pawl__fail(err, PAWL_ENOMEM, "chat template: out of memory");
    pawl_status s = fill_vars(vars, messages, tools, add_generation_prompt, special, kwargs, err);
    if (s == PAWL_OK) s = pawl__template_render(t, vars, NULL, out, err);
    json_decref(vars);
    return s;
}
