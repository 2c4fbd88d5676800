/* Reading requests: each field has one type and one range; whatever else comes is refused with the field's name. Fields
 * that are not known here are ignored, as OpenAI's clients send new ones all the time. */
#include "server/openai.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

typedef struct reader {
    const json_t *root;
    char *param;
    pawl_err *err;
} reader;

static pawl_status bad(reader *r, const char *key, const char *expected, const json_t *v)
{
    snprintf(r->param, 64, "%s", key);
    return pawl__fail(r->err, PAWL_EINVAL, "%s: expected %s, found %s", key, expected, pawl__json_kind(v));
}

/* An absent field and null are the same. */
static const json_t *get(const reader *r, const char *key)
{
    const json_t *v = json_object_get(r->root, key);
    return json_is_null(v) ? NULL : v;
}

static pawl_status get_int(reader *r, const char *key, int64_t lo, int64_t hi, int64_t *out)
{
    const json_t *v = get(r, key);
    if (!v) return PAWL_OK;
    /* 5.0 is what clients without integers send for 5. */
    double d = json_is_real(v) ? json_real_value(v) : 0;
    if (!json_is_integer(v) && !(json_is_real(v) && d == floor(d) && fabs(d) < 0x1p53))
        return bad(r, key, "an integer", v);
    int64_t i = json_is_integer(v) ? json_integer_value(v) : (int64_t)d;
    if (i < lo || i > hi) {
        snprintf(r->param, 64, "%s", key);
        return pawl__fail(r->err, PAWL_EINVAL, "%s: found %lld, expected %lld to %lld", key, (long long)i,
                          (long long)lo, (long long)hi);
    }
    *out = i;
    return PAWL_OK;
}

static pawl_status get_num(reader *r, const char *key, double lo, double hi, float *out)
{
    const json_t *v = get(r, key);
    if (!v) return PAWL_OK;
    if (!json_is_number(v)) return bad(r, key, "a number", v);
    double d = json_number_value(v);
    if (!(d >= lo && d <= hi)) {
        snprintf(r->param, 64, "%s", key);
        return pawl__fail(r->err, PAWL_EINVAL, "%s: found %g, expected %g to %g", key, d, lo, hi);
    }
    *out = (float)d;
    return PAWL_OK;
}

static pawl_status get_bool(reader *r, const char *key, int *out)
{
    const json_t *v = get(r, key);
    if (!v) return PAWL_OK;
    if (!json_is_boolean(v)) return bad(r, key, "true or false", v);
    *out = json_is_true(v);
    return PAWL_OK;
}

static pawl_status get_int32(reader *r, const char *key, int64_t lo, int64_t hi, int32_t *out)
{
    int64_t v = *out;
    PAWL_TRY(get_int(r, key, lo, hi, &v));
    *out = (int32_t)v;
    return PAWL_OK;
}

static pawl_status no_memory(reader *r)
{
    return pawl__fail(r->err, PAWL_ENOMEM, "request: out of memory");
}

static pawl_status refuse(reader *r, const char *key, const char *why)
{
    snprintf(r->param, 64, "%s", key);
    return pawl__fail(r->err, PAWL_EINVAL, "%s: %s", key, why);
}

/* ---- bodies ------------------------------------------------------------------------------------------------------ */

/* Depth before parsing: the parser's own limit is far above ours, and a deep tree is slow to build and to free. */
static int too_deep(const char *s, size_t n)
{
    int depth = 0, in_string = 0;
    for (size_t i = 0; i < n; i++) {
        if (in_string) {
            if (s[i] == '\\')
                i++;
            else if (s[i] == '"')
                in_string = 0;
        } else if (s[i] == '"') {
            in_string = 1;
        } else if (s[i] == '{' || s[i] == '[') {
            if (++depth > OPENAI_MAX_DEPTH) return 1;
        } else if (s[i] == '}' || s[i] == ']') {
            depth--;
        }
    }
    return 0;
}

pawl_status openai_body(const char *body, size_t n, json_t **out, pawl_err *err)
{
    *out = NULL;
    if (n == 0) return pawl__fail(err, PAWL_EINVAL, "the body is empty, expected a JSON object");
    if (too_deep(body, n))
        return pawl__fail(err, PAWL_EINVAL, "the body nests arrays and objects more than %d deep", OPENAI_MAX_DEPTH);
    json_error_t e;
    *out = json_loadb(body, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);
    if (!*out)
        return pawl__fail(err, PAWL_EINVAL, "the body is not JSON: line %d column %d: %s", e.line, e.column, e.text);
    if (json_is_object(*out)) return PAWL_OK;
    pawl__fail(err, PAWL_EINVAL, "the body is %s, expected an object", pawl__json_kind(*out));
    json_decref(*out);
    *out = NULL;
    return PAWL_EINVAL;
}

/* ---- fields of both kinds ---------------------------------------------------------------------------------------- */

static pawl_status read_sampling(reader *r, openai_request *q)
{
    pawl_sampling *s = &q->sampling;
    int64_t seed = 0;
    PAWL_TRY(get_num(r, "temperature", 0, 100, &s->temperature));
    PAWL_TRY(get_num(r, "top_p", 0, 1, &s->top_p));
    PAWL_TRY(get_num(r, "min_p", 0, 1, &s->min_p));
    PAWL_TRY(get_num(r, "presence_penalty", -2, 2, &s->presence_penalty));
    PAWL_TRY(get_num(r, "frequency_penalty", -2, 2, &s->frequency_penalty));
    PAWL_TRY(get_num(r, "repetition_penalty", 0.01, 100, &s->repetition_penalty));
    int64_t top_k = s->top_k;
    PAWL_TRY(get_int(r, "top_k", -1, INT32_MAX, &top_k)); /* vLLM's clients send -1 for off */
    s->top_k = top_k < 0 ? 0 : (int32_t)top_k;
    PAWL_TRY(get_int(r, "seed", INT64_MIN, INT64_MAX, &seed));
    if (get(r, "seed")) {
        s->seed = (uint64_t)seed;
        s->has_seed = 1;
    }
    return PAWL_OK;
}

static pawl_status read_bias(reader *r, openai_request *q, int64_t vocab)
{
    const json_t *o = get(r, "logit_bias");
    if (!o) return PAWL_OK;
    if (!json_is_object(o)) return bad(r, "logit_bias", "an object", o);
    if (json_object_size(o) > OPENAI_MAX_BIAS) return refuse(r, "logit_bias", "at most 1024 tokens may be biased");
    q->bias = calloc(json_object_size(o) + 1, sizeof *q->bias);
    if (!q->bias) return no_memory(r);
    const char *key;
    json_t *v;
    size_t n = 0;
    json_object_foreach((json_t *)(uintptr_t)o, key, v) /* Jansson's iterators want it writable and only read */
    {
        char *end;
        long long id = strtoll(key, &end, 10);
        if (end == key || *end || id < 0 || id >= vocab)
            return refuse(r, "logit_bias", "each name must be a token id of the model's vocabulary");
        if (!json_is_number(v) || !(fabs(json_number_value(v)) <= 100))
            return refuse(r, "logit_bias", "each value must be a number from -100 to 100");
        q->bias[n++] = (pawl_logit_bias){.id = (int32_t)id, .bias = (float)json_number_value(v)};
    }
    q->sampling.bias = q->bias;
    q->sampling.n_bias = n;
    return PAWL_OK;
}

static pawl_status add_stop(reader *r, openai_request *q, const json_t *v)
{
    if (!json_is_string(v)) return bad(r, "stop", "a string or an array of strings", v);
    size_t n = json_string_length(v);
    if (n == 0) return refuse(r, "stop", "an empty text ends everything at once");
    if (n > OPENAI_MAX_STOP || strlen(json_string_value(v)) != n)
        return refuse(r, "stop", "a stop text has at most 4096 bytes and no NUL");
    q->stop[q->options.n_stop++] = json_string_value(v);
    return PAWL_OK;
}

static pawl_status read_stops(reader *r, openai_request *q, int64_t vocab)
{
    const json_t *v = get(r, "stop");
    size_t n = json_is_array(v) ? json_array_size(v) : 1;
    if (n > OPENAI_MAX_STOPS) return refuse(r, "stop", "at most 64 stop texts are allowed");
    if (v) {
        q->stop = calloc(n + 1, sizeof *q->stop);
        if (!q->stop) return no_memory(r);
        if (!json_is_array(v)) PAWL_TRY(add_stop(r, q, v));
        for (size_t i = 0; json_is_array(v) && i < n; i++) PAWL_TRY(add_stop(r, q, json_array_get(v, i)));
    }
    const json_t *ids = get(r, "stop_token_ids");
    if (!ids) return PAWL_OK;
    n = json_array_size(ids);
    if (!json_is_array(ids)) return bad(r, "stop_token_ids", "an array of token ids", ids);
    if (n > OPENAI_MAX_STOPS) return refuse(r, "stop_token_ids", "at most 64 tokens are allowed");
    q->stop_ids = calloc(n + 1, sizeof *q->stop_ids);
    if (!q->stop_ids) return no_memory(r);
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(ids, i);
        if (!json_is_integer(id)) return bad(r, "stop_token_ids", "an array of token ids", id);
        if (json_integer_value(id) < 0 || json_integer_value(id) >= vocab)
            return refuse(r, "stop_token_ids", "found an id outside the vocabulary");
        q->stop_ids[i] = (int32_t)json_integer_value(id);
    }
    q->options.n_stop_ids = n;
    return PAWL_OK;
}

static pawl_status read_stream(reader *r, openai_request *q)
{
    PAWL_TRY(get_bool(r, "stream", &q->stream));
    const json_t *o = get(r, "stream_options");
    if (!o) return PAWL_OK;
    if (!json_is_object(o)) return bad(r, "stream_options", "an object", o);
    if (!q->stream) return refuse(r, "stream_options", "only allowed together with \"stream\": true");
    const json_t *u = json_object_get(o, "include_usage");
    if (u && !json_is_null(u) && !json_is_boolean(u)) return bad(r, "stream_options.include_usage", "true or false", u);
    q->include_usage = json_is_true(u);
    return PAWL_OK;
}

static pawl_status refuse_unsupported(reader *r)
{
    static const char *const templates[] = {"chat_template", "prompt_template", "template"};
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++)
        if (get(r, templates[i]))
            return refuse(r, templates[i], "templates in requests are refused: they are programs");
    const json_t *format = get(r, "response_format");
    if (format && !json_is_object(format)) return bad(r, "response_format", "an object", format);
    const char *type = json_string_value(json_object_get(format, "type"));
    if (format && (!type || strcmp(type, "text") != 0))
        return refuse(r, "response_format", "this server answers with text only");
    int64_t best_of = 1;
    PAWL_TRY(get_int(r, "best_of", 1, PAWL_MAX_CHOICES, &best_of));
    int64_t n = 1;
    PAWL_TRY(get_int(r, "n", 1, PAWL_MAX_CHOICES, &n));
    if (get(r, "best_of") && best_of != n) return refuse(r, "best_of", "only the value of n is supported");
    const json_t *suffix = get(r, "suffix");
    if (suffix && !(json_is_string(suffix) && json_string_length(suffix) == 0))
        return refuse(r, "suffix", "not supported");
    return PAWL_OK;
}

static pawl_status read_common(reader *r, openai_request *q, int64_t vocab)
{
    pawl_request_options *o = &q->options;
    const json_t *model = get(r, "model");
    if (model && !json_is_string(model)) return bad(r, "model", "a string", model);
    q->model = json_string_value(model);
    PAWL_TRY(refuse_unsupported(r));
    PAWL_TRY(read_stream(r, q));
    PAWL_TRY(read_sampling(r, q));
    PAWL_TRY(read_bias(r, q, vocab));
    PAWL_TRY(read_stops(r, q, vocab));
    PAWL_TRY(get_int32(r, "n", 1, PAWL_MAX_CHOICES, &o->n));
    PAWL_TRY(get_int(r, "max_tokens", 0, INT32_MAX, &o->max_tokens));
    PAWL_TRY(get_int(r, "max_completion_tokens", 0, INT32_MAX, &o->max_tokens));
    PAWL_TRY(get_int(r, "min_tokens", 0, INT32_MAX, &o->min_tokens));
    if (o->max_tokens >= 0 && o->min_tokens > o->max_tokens) return refuse(r, "min_tokens", "more than max_tokens");
    PAWL_TRY(get_bool(r, "ignore_eos", &o->ignore_eos));
    PAWL_TRY(get_bool(r, "include_stop_str_in_output", &o->include_stop));
    int skip_special = 1;
    PAWL_TRY(get_bool(r, "skip_special_tokens", &skip_special));
    o->keep_special = !skip_special;
    PAWL_TRY(get_int32(r, "priority", -1000000, 1000000, &o->priority));
    PAWL_TRY(get_int(r, "thinking_budget", 0, INT32_MAX, &o->think_budget));
    int64_t draft = PAWL_DRAFT_AUTO;
    PAWL_TRY(get_int(r, "draft", PAWL_DRAFT_AUTO, PAWL_MAX_DRAFT, &draft));
    o->draft = (int)draft;
    float seconds = 0;
    PAWL_TRY(get_num(r, "timeout", 0, 1e6, &seconds));
    o->deadline = (double)seconds;
    o->sampling = &q->sampling;
    o->stop = q->stop;
    o->stop_ids = q->stop_ids;
    return PAWL_OK;
}

/* ---- chat -------------------------------------------------------------------------------------------------------- */

static pawl_status in_message(reader *r, size_t i, const char *what)
{
    char key[64];
    snprintf(key, sizeof key, "messages[%zu].%s", i, what);
    return refuse(r, key,
                  !strcmp(what, "role") ? "expected \"system\", \"developer\", \"user\", \"assistant\" or \"tool\""
                                        : "expected a string or an array of text parts");
}

static pawl_status check_parts(reader *r, size_t i, const json_t *parts)
{
    for (size_t k = 0; k < json_array_size(parts); k++) {
        const json_t *part = json_array_get(parts, k);
        const char *type = json_string_value(json_object_get(part, "type"));
        char key[64];
        snprintf(key, sizeof key, "messages[%zu].content[%zu]", i, k);
        if (!type) return bad(r, key, "an object with a type", part);
        if (strcmp(type, "text") != 0) {
            snprintf(r->param, 64, "%s", key);
            return pawl__fail(r->err, PAWL_EINVAL, "%s: parts of type \"%.60s\" are not supported, only \"text\"", key,
                              type);
        }
        if (!json_is_string(json_object_get(part, "text")))
            return refuse(r, key, "a text part needs a string \"text\"");
    }
    return PAWL_OK;
}

static pawl_status check_message(reader *r, size_t i, const json_t *m)
{
    static const char *const roles[] = {"system", "developer", "user", "assistant", "tool"};
    char key[64];
    snprintf(key, sizeof key, "messages[%zu]", i);
    if (!json_is_object(m)) return bad(r, key, "an object", m);
    const char *role = json_string_value(json_object_get(m, "role"));
    size_t k = 0;
    while (role && k < sizeof roles / sizeof *roles && strcmp(role, roles[k]) != 0) k++;
    if (!role || k == sizeof roles / sizeof *roles) return in_message(r, i, "role");
    const json_t *content = json_object_get(m, "content");
    const json_t *calls = json_object_get(m, "tool_calls");
    if (calls && !json_is_null(calls) && !json_is_array(calls)) {
        snprintf(key, sizeof key, "messages[%zu].tool_calls", i);
        return bad(r, key, "an array", calls);
    }
    if (json_is_array(content)) return check_parts(r, i, content);
    if (json_is_string(content)) return PAWL_OK;
    if (!strcmp(role, "assistant") && (!content || json_is_null(content)) && json_array_size(calls) > 0) return PAWL_OK;
    return in_message(r, i, "content");
}

/* Templates know the role that came first. */
static pawl_status rename_developer(reader *r, const json_t *messages)
{
    for (size_t i = 0; i < json_array_size(messages); i++) {
        json_t *m = json_array_get(messages, i);
        if (!strcmp(json_string_value(json_object_get(m, "role")), "developer") &&
            json_object_set_new(m, "role", json_string("system")))
            return no_memory(r);
    }
    return PAWL_OK;
}

static pawl_status read_tools(reader *r, openai_request *q)
{
    const json_t *choice = get(r, "tool_choice");
    const char *name = json_string_value(choice);
    if (choice && (!name || (strcmp(name, "auto") != 0 && strcmp(name, "none") != 0)))
        return refuse(r, "tool_choice", "only \"auto\" and \"none\" are supported");
    q->tools = get(r, "tools");
    if (q->tools && !json_is_array(q->tools)) return bad(r, "tools", "an array", q->tools);
    if (json_array_size(q->tools) == 0 || (name && !strcmp(name, "none"))) q->tools = NULL;
    return PAWL_OK;
}

static pawl_status read_chat(reader *r, openai_request *q)
{
    q->messages = get(r, "messages");
    if (!json_is_array(q->messages)) return bad(r, "messages", "an array", q->messages);
    if (json_array_size(q->messages) == 0) return refuse(r, "messages", "there must be at least one message");
    for (size_t i = 0; i < json_array_size(q->messages); i++)
        PAWL_TRY(check_message(r, i, json_array_get(q->messages, i)));
    PAWL_TRY(rename_developer(r, q->messages));
    PAWL_TRY(read_tools(r, q));
    q->kwargs = get(r, "chat_template_kwargs");
    if (q->kwargs && !json_is_object(q->kwargs)) return bad(r, "chat_template_kwargs", "an object", q->kwargs);
    if (json_object_get(q->kwargs, "chat_template"))
        return refuse(r, "chat_template_kwargs", "templates in requests are refused: they are programs");
    PAWL_TRY(get_bool(r, "continue_final_message", &q->continue_final));
    const json_t *last = json_array_get(q->messages, json_array_size(q->messages) - 1);
    if (q->continue_final && strcmp(json_string_value(json_object_get(last, "role")), "assistant") != 0)
        return refuse(r, "continue_final_message", "the last message is not an assistant's");
    PAWL_TRY(get_bool(r, "logprobs", &q->want_logprobs));
    PAWL_TRY(get_int32(r, "top_logprobs", 0, PAWL_MAX_TOP_LOGPROBS, &q->options.top_logprobs));
    if (q->options.top_logprobs > 0 && !q->want_logprobs)
        return refuse(r, "top_logprobs", "only allowed together with \"logprobs\": true");
    q->options.logprobs = q->want_logprobs;
    q->split_reasoning = 1;
    return get_bool(r, "separate_reasoning", &q->split_reasoning);
}

/* ---- completions ------------------------------------------------------------------------------------------------- */

static pawl_status read_ids(reader *r, const json_t *list, int64_t vocab, openai_prompt *p)
{
    p->n_ids = json_array_size(list);
    p->ids = calloc(p->n_ids + 1, sizeof *p->ids);
    if (!p->ids) return no_memory(r);
    if (p->n_ids == 0) return refuse(r, "prompt", "a prompt needs at least one token");
    for (size_t i = 0; i < p->n_ids; i++) {
        const json_t *v = json_array_get(list, i);
        if (!json_is_integer(v)) return bad(r, "prompt", "a text, token ids, or an array of either", v);
        if (json_integer_value(v) < 0 || json_integer_value(v) >= vocab)
            return refuse(r, "prompt", "found a token id outside the vocabulary");
        p->ids[i] = (int32_t)json_integer_value(v);
    }
    return PAWL_OK;
}

static pawl_status read_prompt(reader *r, const json_t *v, int64_t vocab, openai_prompt *p)
{
    if (json_is_array(v)) return read_ids(r, v, vocab, p);
    if (!json_is_string(v)) return bad(r, "prompt", "a text, token ids, or an array of either", v);
    if (json_string_length(v) == 0) return refuse(r, "prompt", "a prompt needs at least one token");
    p->text = json_string_value(v);
    p->n_text = json_string_length(v);
    return PAWL_OK;
}

static pawl_status read_completion(reader *r, openai_request *q, int64_t vocab)
{
    const json_t *v = get(r, "prompt");
    const json_t *first = json_array_get(v, 0);
    int many = json_is_array(v) && !json_is_integer(first);
    size_t n = many ? json_array_size(v) : 1;
    if (!v) return bad(r, "prompt", "a text, token ids, or an array of either", v);
    if (n == 0) return refuse(r, "prompt", "there must be at least one prompt");
    if (n > OPENAI_MAX_PROMPTS) return refuse(r, "prompt", "at most 128 prompts are allowed");
    q->prompts = calloc(n, sizeof *q->prompts);
    if (!q->prompts) return no_memory(r);
    q->n_prompts = n;
    for (size_t i = 0; i < n; i++) PAWL_TRY(read_prompt(r, many ? json_array_get(v, i) : v, vocab, &q->prompts[i]));
    if (n * (size_t)q->options.n > OPENAI_MAX_PROMPTS) return refuse(r, "n", "more than 128 choices in all");
    PAWL_TRY(get_bool(r, "echo", &q->echo));
    int32_t top = -1;
    PAWL_TRY(get_int32(r, "logprobs", 0, PAWL_MAX_TOP_LOGPROBS, &top));
    q->want_logprobs = q->options.logprobs = top >= 0;
    q->options.top_logprobs = top > 0 ? top : 0;
    q->options.prompt_logprobs = q->echo && q->want_logprobs;
    return PAWL_OK;
}

/* ------------------------------------------------------------------------------------------------------------------ */

pawl_status openai_parse(const char *body, size_t n, int chat, const pawl_sampling *defaults, int64_t vocab,
                         openai_request *out, char param[64], pawl_err *err)
{
    *out = (openai_request){.sampling = *defaults,
                            .options = {.size = sizeof out->options,
                                        .n = 1,
                                        .max_tokens = chat ? -1 : 16, /* OpenAI's default for completions */
                                        .think_budget = -1}};
    param[0] = 0;
    PAWL_TRY(openai_body(body, n, &out->root, err));
    reader r = {.root = out->root, .param = param, .err = err};
    pawl_status st = read_common(&r, out, vocab);
    if (st == PAWL_OK) st = chat ? read_chat(&r, out) : read_completion(&r, out, vocab);
    if (st != PAWL_OK) openai_request_free(out);
    return st;
}

void openai_request_free(openai_request *r)
{
    for (size_t i = 0; i < r->n_prompts; i++) free(r->prompts[i].ids);
    free(r->prompts);
    free(r->bias);
    free(r->stop);
    free(r->stop_ids);
    json_decref(r->root);
    *r = (openai_request){0};
}
