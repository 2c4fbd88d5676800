/* Renders test cases for the oracle: reads lines of JSON {"template": ..., "vars": {...}} from stdin and answers each
 * with a line {"text": ...} or {"error": ..., "status": ...}. "chat": true goes through pawl__chat_render, where vars
 * holds messages, tools, add_generation_prompt and kwargs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "token/template.h"

static pawl_status render_chat(const pawl_template *t, const json_t *vars, pawl_buf *out, pawl_err *err)
{
    const json_t *tools = json_object_get(vars, "tools");
    return pawl__chat_render(t, json_object_get(vars, "messages"), json_is_null(tools) ? NULL : tools,
                             json_is_true(json_object_get(vars, "add_generation_prompt")),
                             json_object_get(vars, "special"), json_object_get(vars, "kwargs"), out, err);
}

static json_t *answer(const json_t *line)
{
    const json_t *source = json_object_get(line, "template"), *vars = json_object_get(line, "vars");
    const pawl_template_limits limits = {.steps = 2000000, .max_output = 1 << 20, .now = 1700000000};
    pawl_template *t = NULL;
    pawl_buf out = {0};
    pawl_err err = {0};
    pawl_status s = pawl__template_compile(json_string_value(source), json_string_length(source), "t", &t, &err);
    if (s == PAWL_OK && json_is_true(json_object_get(line, "chat")))
        s = render_chat(t, vars, &out, &err);
    else if (s == PAWL_OK)
        s = pawl__template_render(t, vars, &limits, &out, &err);
    json_t *a = json_object();
    if (s == PAWL_OK) {
        json_object_set_new(a, "text", json_stringn(out.data ? out.data : "", out.len));
    } else {
        json_object_set_new(a, "error", json_string(err.text));
        json_object_set_new(a, "status", json_string(pawl_status_name(s)));
    }
    pawl__buf_free(&out);
    pawl__template_destroy(&t);
    return a;
}

int main(void)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    while ((n = getline(&line, &cap, stdin)) > 0) {
        json_error_t e;
        json_t *j = json_loadb(line, (size_t)n, JSON_ALLOW_NUL, &e);
        if (!j) {
            fprintf(stderr, "render_cases: %s\n", e.text);
            free(line);
            return 1;
        }
        json_t *a = answer(j);
        json_dumpf(a, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(a);
        json_decref(j);
    }
    free(line);
    return 0;
}
