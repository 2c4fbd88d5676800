/* The public calls on text: tokenising, detokenising, rendering chats. */
#include "engine/engine.h"

#include <stdlib.h>
#include <string.h>
#include <jansson.h>

#include "base/json.h"
#include "token/template.h"

static pawl_status need_tokenizer(const pawl_model *m, pawl_err *err)
{
    if (m->tokenizer) return PAWL_OK;
    return pawl__fail(err, PAWL_EUNSUPPORTED, "%s: no tokenizer.json: this model takes and gives token ids only",
                      m->path);
}

pawl_status pawl_tokenize(const pawl_model *m, const char *text, size_t n, unsigned flags, int32_t **ids, size_t *n_ids,
                          pawl_err *err)
{
    pawl_ids out = {0};
    *ids = NULL;
    *n_ids = 0;
    PAWL_TRY(need_tokenizer(m, err));
    unsigned f = flags & PAWL_TOKENIZE_SPECIAL ? PAWL_ENCODE_SPECIAL : PAWL_ENCODE_BOS;
    pawl_status s = pawl__tokenizer_encode(m->tokenizer, text, n, f, &out, err);
    if (s == PAWL_OK && !out.data && !(out.data = malloc(sizeof *out.data)))
        s = pawl__fail(err, PAWL_ENOMEM, "tokenize: out of memory");
    if (s != PAWL_OK) {
        pawl__ids_free(&out);
        return s;
    }
    *ids = out.data;
    *n_ids = out.len;
    return PAWL_OK;
}

static pawl_status take_text(pawl_buf *b, char **text, size_t *n_text, pawl_err *err)
{
    size_t n = b->len;
    *text = pawl__buf_take(b);
    if (!*text) return pawl__fail(err, PAWL_ENOMEM, "text of %zu bytes: out of memory", n);
    *n_text = n;
    return PAWL_OK;
}

pawl_status pawl_detokenize(const pawl_model *m, const int32_t *ids, size_t n, int skip_special, char **text,
                            size_t *n_text, pawl_err *err)
{
    pawl_buf b = {0};
    *text = NULL;
    PAWL_TRY(need_tokenizer(m, err));
    pawl_status s = pawl__tokenizer_decode(m->tokenizer, ids, n, skip_special, &b, err);
    if (s == PAWL_OK) return take_text(&b, text, n_text, err);
    pawl__buf_free(&b);
    return s;
}

json_t *pawl__special_tokens(const pawl_model *m)
{
    static const char *const names[] = {"bos_token", "eos_token", "pad_token", "unk_token"};
    json_t *o = json_object();
    for (size_t i = 0; o && i < sizeof names / sizeof names[0]; i++) {
        const char *t = pawl__tokenizer_named(m->tokenizer, names[i]);
        if (t) json_object_set_new(o, names[i], json_string(t));
    }
    return o;
}

static pawl_status parse_part(const char *text, const char *name, int want_array, json_t **out, pawl_err *err)
{
    *out = NULL;
    if (!text) return PAWL_OK;
    PAWL_TRY(pawl__json_parse(text, strlen(text), name, out, err));
    if (want_array ? json_is_array(*out) : json_is_object(*out)) return PAWL_OK;
    return pawl__fail(err, PAWL_EFORMAT, "%s: expected %s, found %s", name, want_array ? "an array" : "an object",
                      pawl__json_kind(*out));
}

pawl_status pawl_render_chat(const pawl_model *m, const char *messages, const char *tools, const char *kwargs,
                             int add_generation_prompt, char **text, size_t *n_text, pawl_err *err)
{
    json_t *msg = NULL, *tl = NULL, *kw = NULL, *special = NULL;
    pawl_template *t = NULL;
    pawl_buf b = {0};
    *text = NULL;
    PAWL_TRY(need_tokenizer(m, err));
    pawl_status s = messages ? PAWL_OK : pawl__fail(err, PAWL_EINVAL, "messages: found nothing, expected a JSON array");
    if (s == PAWL_OK) s = parse_part(messages, "messages", 1, &msg, err);
    if (s == PAWL_OK) s = parse_part(tools, "tools", 1, &tl, err);
    if (s == PAWL_OK) s = parse_part(kwargs, "kwargs", 0, &kw, err);
    if (s == PAWL_OK) s = pawl__template_open(m->path, tl != NULL, &t, err);
    if (s == PAWL_OK && !(special = pawl__special_tokens(m))) s = pawl__fail(err, PAWL_ENOMEM, "chat: out of memory");
    if (s == PAWL_OK) s = pawl__chat_render(t, msg, tl, add_generation_prompt, special, kw, &b, err);
    if (s == PAWL_OK) s = take_text(&b, text, n_text, err);
    pawl__buf_free(&b);
    pawl__template_destroy(&t);
    json_decref(special);
    json_decref(msg);
    json_decref(tl);
    json_decref(kw);
    return s;
}
