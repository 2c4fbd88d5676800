/* Chat templates: the subset of Jinja2 that checkpoints use, rendered as Python's jinja2 would with transformers' settings.
 *
 * A template is a stranger's program. Compilation and rendering are bounded in steps, nesting, string and output size; a
 * bound that is hit is one clear error. A compiled template is immutable and may be shared between threads. */
#ifndef PAWL_TOKEN_TEMPLATE_H
#define PAWL_TOKEN_TEMPLATE_H

#include <stddef.h>
#include <stdint.h>
#include <jansson.h>

#include "base/buf.h"
#include "base/status.h"

typedef struct pawl_template pawl_template;

/* name appears in messages with the line ("chat_template.jinja:12: ..."). PAWL_EFORMAT on a syntax error. */
pawl_status pawl__template_compile(const char *source, size_t n, const char *name, pawl_template **out, pawl_err *err);
void pawl__template_destroy(pawl_template **t);

/* Finds a checkpoint's chat template: chat_template.jinja, else tokenizer_config.json's chat_template (a string, or a
 * list of {name, template}: "tool_use" when with_tools and present, else "default"). PAWL_EIO when there is none. */
pawl_status pawl__template_open(const char *dir, int with_tools, pawl_template **out, pawl_err *err);

/* Zero means the default of each. */
typedef struct pawl_template_limits {
    uint64_t steps;    /* nodes evaluated; default 20 million */
    unsigned depth;    /* nesting of calls and expressions; default 200 */
    size_t max_output; /* bytes, of the output and of any one string; default 64 MiB */
    int64_t now;       /* seconds since the epoch for strftime_now; 0: the clock */
} pawl_template_limits;

/* vars: an object whose members become the template's variables (messages, tools, add_generation_prompt, bos_token, and
 * whatever else the caller passes). PAWL_EINVAL with the text of raise_exception or of an evaluation error and its line;
 * PAWL_ETIMEDOUT when a step or size bound was reached. */
pawl_status pawl__template_render(const pawl_template *t, const json_t *vars, const pawl_template_limits *limits,
                                  pawl_buf *out, pawl_err *err);

/* What transformers' apply_chat_template does around the template: refuses an empty message list, turns the JSON string
 * in tool_calls[].function.arguments into an object (order kept), sets messages, tools, documents, the special token
 * names and the caller's kwargs. special: object of named special tokens; tools, kwargs: may be NULL. */
pawl_status pawl__chat_render(const pawl_template *t, const json_t *messages, const json_t *tools,
                              int add_generation_prompt, const json_t *special, const json_t *kwargs, pawl_buf *out,
                              pawl_err *err);

#endif
