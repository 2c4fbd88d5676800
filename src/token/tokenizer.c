/* Opening a tokenizer: reads tokenizer.json and tokenizer_config.json, refuses what is not byte-level BPE, and hands
 * the parts to vocab.c, added.c and pretokenize.c. Also the look-ups. The JSON trees are gone when loading ends. */
#include "token/internal.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/utf8.h"

pawl_excerpt pawl__excerpt(const char *s, size_t n)
{
    pawl_excerpt e;
    size_t k = 0;
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        int len = pawl__utf8_decode(s + i, n - i, &cp, NULL);
        size_t step = len > 0 ? (size_t)len : 1;
        if (k + step > 48) {
            memcpy(e.text + k, "...", 3);
            k += 3;
            break;
        }
        if (len < 0 || cp < 0x20 || cp == 0x7f)
            e.text[k++] = '?';
        else
            for (size_t j = 0; j < step; j++) e.text[k++] = s[i + j];
        i += step;
    }
    e.text[k] = 0;
    return e;
}

pawl_status pawl__ids_push(pawl_ids *ids, int32_t id)
{
    if (ids->len == ids->cap) {
        size_t cap = ids->cap ? 2 * ids->cap : 64;
        int32_t *more = realloc(ids->data, cap * sizeof *more);
        if (!more) return PAWL_ENOMEM;
        ids->data = more;
        ids->cap = cap;
    }
    ids->data[ids->len++] = id;
    return PAWL_OK;
}

void pawl__ids_free(pawl_ids *ids)
{
    free(ids->data);
    *ids = (pawl_ids){0};
}

/* The type of a part of tokenizer.json: NULL when the part is absent or null. */
static pawl_status part_type(const json_t *part, const char **type, pawl_err *err)
{
    *type = NULL;
    if (!part || json_is_null(part)) return PAWL_OK;
    if (!json_is_object(part))
        return pawl__fail(err, PAWL_EFORMAT, "expected an object, found %s", pawl__json_kind(part));
    PAWL_TRY(pawl__json_get_str(part, "type", type, err));
    return *type ? PAWL_OK : pawl__fail(err, PAWL_EFORMAT, "type is missing");
}

static pawl_status unsupported(const char *type, pawl_err *err)
{
    return pawl__fail(err, PAWL_EUNSUPPORTED, "type \"%s\" is not supported", pawl__excerpt(type, strlen(type)).text);
}

static pawl_status load_normalizer(pawl_tokenizer *t, const json_t *part, unsigned depth, pawl_err *err)
{
    const char *type;
    PAWL_TRY(part_type(part, &type, err));
    if (!type) return PAWL_OK;
    if (strcmp(type, "NFC") == 0) {
        t->nfc = 1;
        return PAWL_OK;
    }
    if (strcmp(type, "Sequence") != 0 || depth == 0) return unsupported(type, err);
    const json_t *list = json_object_get(part, "normalizers");
    if (!json_is_array(list)) return pawl__fail(err, PAWL_EFORMAT, "normalizers: expected an array");
    for (size_t i = 0; i < json_array_size(list); i++)
        PAWL_TRY(load_normalizer(t, json_array_get(list, i), depth - 1, err));
    return PAWL_OK;
}

static pawl_status check_decoder(const json_t *part, pawl_err *err)
{
    const char *type;
    PAWL_TRY(part_type(part, &type, err));
    return !type || strcmp(type, "ByteLevel") == 0 ? PAWL_OK : unsupported(type, err);
}

/* Options of the model that change ids and that no supported family uses. */
static pawl_status check_model(pawl_tokenizer *t, const json_t *model, pawl_err *err)
{
    const char *type;
    PAWL_TRY(part_type(model, &type, err));
    if (!type) return pawl__fail(err, PAWL_EFORMAT, "expected an object");
    if (strcmp(type, "BPE") != 0)
        return pawl__fail(err, PAWL_EUNSUPPORTED, "type \"%s\" is not supported, only BPE",
                          pawl__excerpt(type, strlen(type)).text);
    double dropout = 0;
    int byte_fallback = 0;
    const char *prefix = "", *suffix = "";
    PAWL_TRY(pawl__json_get_num(model, "dropout", 0, 1, &dropout, err));
    PAWL_TRY(pawl__json_get_bool(model, "byte_fallback", &byte_fallback, err));
    PAWL_TRY(pawl__json_get_str(model, "continuing_subword_prefix", &prefix, err));
    PAWL_TRY(pawl__json_get_str(model, "end_of_word_suffix", &suffix, err));
    PAWL_TRY(pawl__json_get_bool(model, "ignore_merges", &t->ignore_merges, err));
    if (dropout != 0) return pawl__fail(err, PAWL_EUNSUPPORTED, "dropout is not supported");
    if (byte_fallback) return pawl__fail(err, PAWL_EUNSUPPORTED, "byte_fallback is not supported");
    if (*prefix) return pawl__fail(err, PAWL_EUNSUPPORTED, "continuing_subword_prefix is not supported");
    if (*suffix) return pawl__fail(err, PAWL_EUNSUPPORTED, "end_of_word_suffix is not supported");
    return PAWL_OK;
}

static pawl_status template_ids(pawl_tokenizer *t, const json_t *special, const char *name, int after, pawl_err *err)
{
    const json_t *ids = json_object_get(json_object_get(special, name), "ids");
    if (!json_is_array(ids))
        return pawl__fail(err, PAWL_EFORMAT, "special_tokens: no ids for \"%s\"",
                          pawl__excerpt(name, strlen(name)).text);
    int32_t *list = after ? t->after : t->before;
    unsigned *n = after ? &t->n_after : &t->n_before;
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const json_t *v = json_array_get(ids, i);
        json_int_t id = json_integer_value(v);
        if (!json_is_integer(v) || id < 0 || id >= t->n_ids || !t->token[id].flags)
            return pawl__fail(err, PAWL_EFORMAT, "special_tokens: \"%s\": ids[%zu] is not the id of a token",
                              pawl__excerpt(name, strlen(name)).text, i);
        if (*n == PAWL_TOK_MAX_TEMPLATE)
            return pawl__fail(err, PAWL_EUNSUPPORTED, "single: more than %d ids", PAWL_TOK_MAX_TEMPLATE);
        list[(*n)++] = (int32_t)id;
    }
    return PAWL_OK;
}

/* TemplateProcessing: "single" is a list of {SpecialToken: {id: name}} around one {Sequence: {id: "A"}}. */
static pawl_status load_template(pawl_tokenizer *t, const json_t *part, pawl_err *err)
{
    const json_t *single = json_object_get(part, "single"), *special = json_object_get(part, "special_tokens");
    int seen = 0;
    if (!json_is_array(single)) return pawl__fail(err, PAWL_EFORMAT, "single: expected an array");
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *e = json_array_get(single, i), *token = json_object_get(e, "SpecialToken");
        const char *name = json_string_value(json_object_get(token, "id"));
        if (name)
            PAWL_TRY(template_ids(t, special, name, seen, err));
        else if (json_object_get(e, "Sequence") && !seen)
            seen = 1;
        else
            return pawl__fail(err, PAWL_EFORMAT, "single[%zu]: expected a SpecialToken or the one Sequence", i);
    }
    return seen ? PAWL_OK : pawl__fail(err, PAWL_EFORMAT, "single: no Sequence");
}

static pawl_status load_post(pawl_tokenizer *t, const json_t *part, unsigned depth, pawl_err *err)
{
    const char *type;
    PAWL_TRY(part_type(part, &type, err));
    if (!type || strcmp(type, "ByteLevel") == 0) return PAWL_OK;
    if (strcmp(type, "TemplateProcessing") == 0) return load_template(t, part, err);
    if (strcmp(type, "Sequence") != 0 || depth == 0) return unsupported(type, err);
    const json_t *list = json_object_get(part, "processors");
    if (!json_is_array(list)) return pawl__fail(err, PAWL_EFORMAT, "processors: expected an array");
    for (size_t i = 0; i < json_array_size(list); i++) PAWL_TRY(load_post(t, json_array_get(list, i), depth - 1, err));
    return PAWL_OK;
}

static const char *const named_keys[4] = {"bos_token", "eos_token", "pad_token", "unk_token"};

/* Named tokens: a string, or an object with its content. */
static pawl_status load_named(pawl_tokenizer *t, const json_t *config, pawl_err *err)
{
    for (int i = 0; i < 4; i++) {
        const json_t *v = json_object_get(config, named_keys[i]);
        if (json_is_object(v)) v = json_object_get(v, "content");
        if (!v || json_is_null(v)) continue;
        if (!json_is_string(v) || json_string_length(v) > PAWL_TOK_MAX_ADDED)
            return pawl__fail(err, PAWL_EFORMAT, "%s: expected a string of at most %d bytes", named_keys[i],
                              PAWL_TOK_MAX_ADDED);
        t->named[i] = pawl__arena_strndup(t->arena, json_string_value(v), json_string_length(v));
        if (!t->named[i]) return pawl__fail(err, PAWL_ENOMEM, "out of memory");
    }
    return PAWL_OK;
}

/* add_bos_token and add_eos_token do what a template would, for checkpoints whose tokenizer.json has none. */
static pawl_status load_add_flags(pawl_tokenizer *t, const json_t *config, pawl_err *err)
{
    static const char *const flag[2] = {"add_bos_token", "add_eos_token"};
    if (t->n_before || t->n_after) return PAWL_OK;
    for (int i = 0; i < 2; i++) {
        int on = 0;
        PAWL_TRY(pawl__json_get_bool(config, flag[i], &on, err));
        if (!on) continue;
        int32_t id = t->named[i] ? pawl__tokenizer_find(t, t->named[i]) : -1;
        if (id < 0)
            return pawl__fail(err, PAWL_EFORMAT, "%s is true, but %s is no known token", flag[i], named_keys[i]);
        if (i == 0)
            t->before[t->n_before++] = id;
        else
            t->after[t->n_after++] = id;
    }
    return PAWL_OK;
}

static pawl_status in_part(pawl_status s, const char *part, pawl_err *err)
{
    return s == PAWL_OK ? s : pawl__fail_in(err, "tokenizer.json: %s", part);
}

static pawl_status build(pawl_tokenizer *t, const pawl_parts *parts, const json_t *root, const json_t *config,
                         pawl_added_list *added, pawl_err *err)
{
    const json_t *model = json_object_get(root, "model");
    PAWL_TRY(in_part(check_model(t, model, err), "model", err));
    PAWL_TRY(in_part(load_normalizer(t, json_object_get(root, "normalizer"), 2, err), "normalizer", err));
    PAWL_TRY(in_part(check_decoder(json_object_get(root, "decoder"), err), "decoder", err));
    if (pawl__pretok_create(json_object_get(root, "pre_tokenizer"), &t->pretok, err) != PAWL_OK)
        return pawl__fail_in(err, "tokenizer.json");
    PAWL_TRY(pawl__added_read(added, root, config, err));
    if (pawl__vocab_load(t, parts, added->max_id + 1, added->n, err) != PAWL_OK)
        return pawl__fail_in(err, "tokenizer.json");
    PAWL_TRY(pawl__added_build(t, added, err));
    PAWL_TRY(in_part(load_post(t, json_object_get(root, "post_processor"), 2, err), "post_processor", err));
    if (load_named(t, config, err) != PAWL_OK || load_add_flags(t, config, err) != PAWL_OK)
        return pawl__fail_in(err, "tokenizer_config.json");
    return PAWL_OK;
}

static pawl_status load_trees(const pawl_parts *parts, const json_t *root, const json_t *config, pawl_tokenizer **out,
                              pawl_err *err)
{
    if (!json_is_object(root))
        return pawl__fail(err, PAWL_EFORMAT, "tokenizer.json: expected an object, found %s", pawl__json_kind(root));
    if (config && !json_is_object(config))
        return pawl__fail(err, PAWL_EFORMAT, "tokenizer_config.json: expected an object, found %s",
                          pawl__json_kind(config));
    pawl_arena *arena = pawl__arena_create((size_t)1 << 30);
    pawl_tokenizer *t = arena ? pawl__arena_alloc(arena, sizeof *t) : NULL;
    if (!t) {
        pawl__arena_destroy(&arena);
        return pawl__fail(err, PAWL_ENOMEM, "tokenizer: out of memory");
    }
    t->arena = arena;
    pawl_added_list added = {0};
    pawl_status s = build(t, parts, root, config, &added, err);
    free(added.item);
    if (s != PAWL_OK) pawl__tokenizer_close(&t);
    *out = t;
    return s;
}

pawl_status pawl__tokenizer_load(const char *json, size_t n, const char *config, size_t n_config, pawl_tokenizer **out,
                                 pawl_err *err)
{
    pawl_err own; /* the parts put their names in front of what others wrote */
    if (!err) err = &own;
    *out = NULL;
    json_t *root, *side = NULL;
    pawl_parts parts;
    pawl_buf rest = {0};
    pawl__tokenizer_parts(json, n, &parts, &rest);
    pawl_status s = rest.failed ? pawl__fail(err, PAWL_ENOMEM, "tokenizer.json: out of memory")
                                : pawl__json_parse(rest.data, rest.len, "tokenizer.json", &root, err);
    pawl__buf_free(&rest);
    if (s != PAWL_OK) return s;
    s = config ? pawl__json_parse(config, n_config, "tokenizer_config.json", &side, err) : PAWL_OK;
    if (s == PAWL_OK) s = load_trees(&parts, root, side, out, err);
    json_decref(side);
    json_decref(root);
    return s;
}

pawl_status pawl__tokenizer_open(const char *dir, pawl_tokenizer **out, pawl_err *err)
{
    char path[PATH_MAX], *json = NULL, *config = NULL;
    size_t n = 0, n_config = 0;
    pawl_err own;
    if (!err) err = &own;
    *out = NULL;
    PAWL_TRY(pawl__path_join(path, sizeof path, dir, "tokenizer.json", err));
    PAWL_TRY(pawl__file_read(path, PAWL_TOK_MAX_FILE, &json, &n, err));
    pawl_status s = pawl__path_join(path, sizeof path, dir, "tokenizer_config.json", err);
    if (s == PAWL_OK && pawl__file_exists(path)) s = pawl__file_read(path, PAWL_TOK_MAX_FILE, &config, &n_config, err);
    if (s == PAWL_OK) {
        s = pawl__tokenizer_load(json, n, config, n_config, out, err);
        if (s != PAWL_OK) s = pawl__fail_in(err, "%s", dir);
    }
    free(json);
    free(config);
    return s;
}

void pawl__tokenizer_close(pawl_tokenizer **pt)
{
    pawl_tokenizer *t = *pt;
    if (!t) return;
    *pt = NULL;
    pawl__pretok_destroy(&t->pretok);
    pawl_arena *arena = t->arena; /* t itself lies in it */
    pawl__arena_destroy(&arena);
}

int32_t pawl__tokenizer_size(const pawl_tokenizer *t)
{
    return t->n_ids;
}

const char *pawl__tokenizer_bytes(const pawl_tokenizer *t, int32_t id, size_t *n)
{
    *n = 0;
    if (id < 0 || id >= t->n_ids || !t->token[id].flags) return NULL;
    *n = t->token[id].n;
    return t->token[id].bytes;
}

int pawl__tokenizer_is_special(const pawl_tokenizer *t, int32_t id)
{
    return id >= 0 && id < t->n_ids && (t->token[id].flags & PAWL_TOKEN_SPECIAL) != 0;
}

int32_t pawl__tokenizer_find(const pawl_tokenizer *t, const char *content)
{
    size_t n = strlen(content);
    /* An added token first: it may lie past the vocabulary, and it is what the text would become. */
    const pawl_added_set *set[2] = {&t->raw, &t->normalized};
    for (int i = 0; i < 2; i++)
        for (uint32_t k = 0; k < set[i]->n; k++) {
            int32_t id = set[i]->item[k].id;
            if (t->token[id].n == n && memcmp(t->token[id].bytes, content, n) == 0) return id;
        }
    return pawl__vocab_find(t, content, n, 1);
}

const char *pawl__tokenizer_named(const pawl_tokenizer *t, const char *name)
{
    for (int i = 0; i < 4; i++)
        if (strcmp(name, named_keys[i]) == 0) return t->named[i];
    return NULL;
}
