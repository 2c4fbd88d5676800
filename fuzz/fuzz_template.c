/* libs: pawl_token
 *
 * Property: no template, and no variables, make compiling or rendering crash, leak, or run past its bounds. The input is
 * a template; what follows a NUL byte, if there is one, is JSON for its variables. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "token/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char default_vars[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", \"content\": [{\"type\": "
    "\"text\","
    " \"text\": \"hi\"}]}, {\"role\": \"assistant\", \"content\": \"a</think>b\", \"tool_calls\": [{\"function\":"
    " {\"name\": \"f\", \"arguments\": {\"x\": 1.5, \"y\": [null, true]}}}]}], \"tools\": null, \"n\": -3,"
    " \"add_generation_prompt\": true, \"bos_token\": \"<s>\"}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    const char *nul = size ? memchr(text, 0, size) : NULL;
    size_t n = nul ? (size_t)(nul - text) : size;
    const pawl_template_limits limits = {.steps = 50000, .depth = 100, .max_output = 1 << 16, .now = 1700000000};
    json_t *vars = nul ? json_loadb(nul + 1, size - n - 1, JSON_ALLOW_NUL, NULL) : NULL;
    if (!json_is_object(vars)) {
        json_decref(vars);
        vars = json_loads(default_vars, 0, NULL);
        if (!vars) abort();
    }
    pawl_template *t;
    pawl_err err;
    if (pawl__template_compile(text, n, "fuzz", &t, &err) == PAWL_OK) {
        pawl_buf out = {0};
        pawl_status s = pawl__template_render(t, vars, &limits, &out, &err);
        if (out.len > limits.max_output || (s != PAWL_OK && out.len)) abort();
        pawl__buf_free(&out);
        pawl__template_destroy(&t);
    } else if (t) {
        abort();
    }
    json_decref(vars);
    return 0;
}
