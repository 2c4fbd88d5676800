/* Chat prompts: the template is compiled once; a request's strings are guarded, rendered and tokenised. */
#include "pawl/chat.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "engine/engine.h"
#include "token/guard.h"
#include "token/template.h"

struct pawl_chat {
    const pawl_model *model;
    pawl_template *plain, *with_tools; /* the same text compiled twice where the checkpoint has one template */
    json_t *special;                   /* names of special tokens, for the template */
    int32_t think, think_end;          /* -1: the vocabulary has no such token */
};

pawl_status pawl_chat_open(const pawl_model *m, pawl_chat **out, pawl_err *err)
{
    *out = NULL;
    if (!m->tokenizer) return pawl__fail(err, PAWL_EUNSUPPORTED, "%s has no tokenizer.json", m->path);
    if (!m->has_template) return pawl__fail(err, PAWL_EUNSUPPORTED, "%s has no chat template", m->path);
    pawl_chat *c = calloc(1, sizeof *c);
    if (!c) return pawl__fail(err, PAWL_ENOMEM, "chat: out of memory");
    c->model = m;
    pawl_status st = pawl__template_open(m->path, 0, &c->plain, err);
    if (st == PAWL_OK) st = pawl__template_open(m->path, 1, &c->with_tools, err);
    if (st == PAWL_OK && !(c->special = pawl__special_tokens(m)))
        st = pawl__fail(err, PAWL_ENOMEM, "chat: out of memory");
    c->think = pawl__tokenizer_find(m->tokenizer, "<think>");
    c->think_end = pawl__tokenizer_find(m->tokenizer, "</think>");
    if (st == PAWL_OK)
        *out = c;
    else
        pawl_chat_close(&c);
    return st;
}

void pawl_chat_close(pawl_chat **c)
{
    if (!*c) return;
    pawl__template_destroy(&(*c)->plain);
    pawl__template_destroy(&(*c)->with_tools);
    json_decref((*c)->special);
    free(*c);
    *c = NULL;
}

static pawl_status parse(const char *text, const char *name, json_t **out, pawl_err *err)
{
    *out = NULL;
    return text ? pawl__json_parse(text, strlen(text), name, out, err) : PAWL_OK;
}

/* Replaces *v by its guarded copy. */
static pawl_status replace(json_t **v, json_t *copy, const pawl_err *err)
{
    if (!copy) return err ? err->status : PAWL_EINVAL;
    json_decref(*v);
    *v = copy;
    return PAWL_OK;
}

static pawl_status guard(const pawl_chat *c, const pawl_chat_options *o, json_t **messages, json_t **tools,
                         json_t **kwargs, pawl_err *err)
{
    const pawl_tokenizer *t = c->model->tokenizer;
    const int barriers = !o->parse_special;
    PAWL_TRY(replace(messages, pawl__guard_messages(t, *messages, barriers, o->continue_final, err), err));
    if (*tools) PAWL_TRY(replace(tools, pawl__guard_value(t, *tools, barriers, err), err));
    if (*kwargs) PAWL_TRY(replace(kwargs, pawl__guard_value(t, *kwargs, barriers, err), err));
    return PAWL_OK;
}

static pawl_status render(const pawl_chat *c, const char *messages, const pawl_chat_options *o, pawl_guarded *out,
                          pawl_err *err)
{
    json_t *msg = NULL, *tools = NULL, *kwargs = NULL;
    pawl_buf b = {0};
    pawl_status st = parse(messages, "messages", &msg, err);
    if (st == PAWL_OK && !json_is_array(msg))
        st = pawl__fail(err, PAWL_EINVAL, "messages: expected an array, found %s", pawl__json_kind(msg));
    if (st == PAWL_OK) st = parse(o->tools, "tools", &tools, err);
    if (st == PAWL_OK) st = parse(o->kwargs, "chat_template_kwargs", &kwargs, err);
    if (st == PAWL_OK) st = guard(c, o, &msg, &tools, &kwargs, err);
    if (st == PAWL_OK)
        st = pawl__chat_render(tools ? c->with_tools : c->plain, msg, tools, !o->continue_final, c->special, kwargs, &b,
                               err);
    if (st == PAWL_OK) st = pawl__guard_strip(b.data ? b.data : "", b.len, out, err);
    if (st == PAWL_OK && o->continue_final) {
        if (out->end == SIZE_MAX) {
            pawl__guarded_free(out);
            st = pawl__fail(err, PAWL_EINVAL,
                            "messages: the template leaves the last message out, so that it cannot "
                            "be continued");
        } else {
            out->text.data[out->text.len = out->end] = 0;
        }
    }
    pawl__buf_free(&b);
    json_decref(msg);
    json_decref(tools);
    json_decref(kwargs);
    return st;
}

/* Messages end at special tokens: those of a chat template stand around each message. */
static pawl_status find_ends(const pawl_chat *c, const pawl_ids *ids, pawl_ids *ends)
{
    const char *eos = pawl__tokenizer_named(c->model->tokenizer, "eos_token");
    int32_t id = eos ? pawl__tokenizer_find(c->model->tokenizer, eos) : -1;
    for (size_t i = 0; id >= 0 && i + 1 < ids->len; i++)
        if (ids->data[i] == id) PAWL_TRY(pawl__ids_push(ends, (int32_t)i + 1));
    return PAWL_OK;
}

static int ends_thinking(const pawl_chat *c, const pawl_ids *ids)
{
    for (size_t i = ids->len; i > 0 && c->think >= 0; i--) {
        if (ids->data[i - 1] == c->think) return 1;
        if (ids->data[i - 1] == c->think_end || pawl__tokenizer_is_special(c->model->tokenizer, ids->data[i - 1]))
            return 0;
    }
    return 0;
}

pawl_status pawl_chat_prompt(const pawl_chat *c, const char *messages, const pawl_chat_options *opt, pawl_prompt *out,
                             pawl_err *err)
{
    pawl_chat_options o = PAWL_INIT(pawl_chat_options);
    if (opt) pawl__options_copy(&o, sizeof o, opt, opt->size);
    if (!messages) return pawl__fail(err, PAWL_EINVAL, "messages: found nothing, expected a JSON array");
    pawl_guarded text = {0};
    pawl_ids ids = {0}, ends = {0};
    PAWL_TRY(render(c, messages, &o, &text, err));
    pawl_status st = pawl__tokenizer_encode_guarded(c->model->tokenizer, &text, &ids, err);
    if (st == PAWL_OK && find_ends(c, &ids, &ends) != PAWL_OK) st = pawl__fail(err, PAWL_ENOMEM, "chat: out of memory");
    pawl__guarded_free(&text);
    if (st != PAWL_OK) {
        pawl__ids_free(&ids);
        pawl__ids_free(&ends);
        return st;
    }
    pawl_prompt p = {.size = sizeof p,
                     .ids = ids.data,
                     .n_ids = ids.len,
                     .message_ends = ends.data,
                     .n_message_ends = ends.len,
                     .thinking = ends_thinking(c, &ids)};
    pawl__options_copy(out, out->size, &p, sizeof p);
    return PAWL_OK;
}

void pawl_prompt_free(pawl_prompt *p)
{
    free(p->ids);
    free(p->message_ends);
    p->ids = p->message_ends = NULL;
    p->n_ids = p->n_message_ends = 0;
}

const char *pawl_token_bytes(const pawl_model *m, int32_t id, size_t *n)
{
    *n = 0;
    return m->tokenizer ? pawl__tokenizer_bytes(m->tokenizer, id, n) : NULL;
}
