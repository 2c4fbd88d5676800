/* Counting what lies in a checkpoint. */
#include "tool/inspect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "kernels/list/list.h"
#include "store/config.h"
#include "store/formats.h"
#include "tool/inspect_internal.h"

static int begins_with(const char *s, const char *start)
{
    return !strncmp(s, start, strlen(start));
}

static int is_vision(const char *name)
{
    return begins_with(name, "model.visual.") || begins_with(name, "visual.");
}

static int is_draft(const char *name)
{
    return begins_with(name, "mtp.") || begins_with(name, "model.mtp.");
}

static void tally(pawl_tally *t, const pawl_tensor *x)
{
    t->tensors++;
    t->bytes += x->bytes;
}

/* The module's name with '*' for each part that is a number; without ".weight". */
static void pattern_of(const char *name, char out[PAWL_ST_MAX_NAME + 1])
{
    size_t n = 0;
    for (const char *p = name; *p;) {
        size_t part = strcspn(p, ".");
        if (strspn(p, "0123456789") == part && part) {
            out[n++] = '*';
        } else {
            memcpy(out + n, p, part);
            n += part;
        }
        p += part;
        if (*p) out[n++] = *p++;
    }
    out[n] = 0;
    static const char *const ends[] = {".weight", ".weight_packed"};
    for (int i = 0; i < 2; i++) {
        size_t m = strlen(ends[i]);
        if (n > m && !strcmp(out + n - m, ends[i])) out[n - m] = 0;
    }
}

static pawl_status add_module(pawl_inventory *v, const pawl_tensor *owner, const pawl_tensor *t, pawl_quant q,
                              pawl_err *err)
{
    char key[PAWL_ST_MAX_NAME + 8], *pattern = key + 3;
    snprintf(key, sizeof key, "%02d ", (int)q);
    pattern_of(owner->name, pattern);
    uint32_t i = pawl__names_find(&v->names, key, strlen(key));
    if (i == PAWL_NAMES_NONE) {
        if (v->modules == PAWL_INSPECT_MODULES) return PAWL_OK; /* a list that nobody reads any more */
        char *kept = pawl__arena_strndup(pawl__checkpoint_arena(v->ck), key, strlen(key));
        if (!kept) return pawl__fail(err, PAWL_ENOMEM, "%s: out of memory", pawl__checkpoint_dir(v->ck));
        i = (uint32_t)v->modules++;
        pawl__names_add(&v->names, kept, strlen(kept), i);
        v->module[i] = (pawl_module_row){.name = kept + 3, .q = q};
    }
    v->module[i].sum.bytes += t->bytes;
    v->module[i].sum.tensors += owner == t;
    return PAWL_OK;
}

/* Experts chosen per token and experts, from the config's own words; 1 of 1 without experts. */
static void expert_share(const pawl_checkpoint *ck, int64_t *chosen, int64_t *experts)
{
    const json_t *text;
    *chosen = *experts = 1;
    if (pawl__config_text(pawl__checkpoint_config(ck), &text, NULL) != PAWL_OK) return;
    int64_t k = 1, e = 1;
    if (pawl__json_get_int(text, "num_experts", 1, 1 << 20, &e, NULL) == PAWL_OK &&
        pawl__json_get_int(text, "num_experts_per_tok", 1, e, &k, NULL) == PAWL_OK) {
        *chosen = k;
        *experts = e;
    }
}

static pawl_status count_tensor(pawl_inventory *v, const pawl_tensor *t, int64_t chosen, int64_t experts, pawl_err *err)
{
    const pawl_tensor *owner;
    pawl_quant q = pawl__tensor_format(v->ck, t, &owner);
    int64_t n = pawl__tensor_parameters(v->ck, t);
    tally(&v->total, t);
    tally(&v->format[q], t);
    if (is_vision(t->name)) {
        tally(&v->vision, t);
        v->vision_parameters += n;
        return PAWL_OK;
    }
    if (is_draft(t->name)) {
        tally(&v->draft, t);
        tally(&v->draft_format[q], t);
        v->draft_parameters += n;
    } else {
        v->parameters += n;
        v->active += strstr(t->name, ".experts.") ? n / experts * chosen : n;
        static const char moe[] = ".mlp.gate.weight", dense[] = ".mlp.down_proj.weight";
        size_t len = t->name_len;
        v->moe_layers += len > sizeof moe && !strcmp(t->name + len - strlen(moe), moe);
        v->dense_layers += owner == t && len > sizeof dense && !strcmp(t->name + len - strlen(dense), dense);
    }
    return owner->rank >= 2 ? add_module(v, owner, t, q, err) : PAWL_OK;
}

static int by_name(const void *a, const void *b)
{
    const pawl_module_row *x = a, *y = b;
    int c = strcmp(x->name, y->name);
    return c ? c : (int)x->q - (int)y->q;
}

static pawl_status count_all(pawl_inventory *v, pawl_err *err)
{
    int64_t chosen, experts;
    expert_share(v->ck, &chosen, &experts);
    v->module = calloc(PAWL_INSPECT_MODULES, sizeof *v->module);
    if (!v->module || pawl__names_init(&v->names, PAWL_INSPECT_MODULES))
        return pawl__fail(err, PAWL_ENOMEM, "%s: out of memory", pawl__checkpoint_dir(v->ck));
    for (size_t i = 0; i < pawl__checkpoint_count(v->ck); i++) {
        PAWL_TRY(count_tensor(v, pawl__checkpoint_at(v->ck, i), chosen, experts, err));
        v->unused += pawl__inspect_unused(v, i);
    }
    qsort(v->module, v->modules, sizeof *v->module, by_name);
    return PAWL_OK;
}

int pawl__inspect_unused(const pawl_inventory *v, size_t i)
{
    return v->dims && !pawl__checkpoint_used(v->ck, i) && !pawl__tensor_expected_unused(pawl__checkpoint_at(v->ck, i));
}

int64_t pawl__inspect_kv_bytes(const pawl_net_dims *d)
{
    return d->kv_layers * 2 * d->kv_heads * d->head_dim * (int64_t)sizeof(float);
}

int64_t pawl__inspect_state_bytes(const pawl_net_dims *d)
{
    return d->rec_layers * (d->nv * d->dk * d->dv + 3 * d->conv_channels) * (int64_t)sizeof(float);
}

static pawl_status report(pawl_inventory *v, const pawl_inspect_opts *o, pawl_buf *out, pawl_err *err)
{
    PAWL_TRY(count_all(v, err));
    if (o->json) return pawl__inspect_json(v, o->tensors, out, err);
    pawl__inspect_text(v, o->tensors, out);
    return out->failed ? pawl__fail(err, PAWL_ENOMEM, "inspect: out of memory") : PAWL_OK;
}

pawl_status pawl__inspect(const char *dir, const pawl_inspect_opts *opts, pawl_buf *out, pawl_err *err)
{
    pawl_inventory v = {0};
    pawl_err problem;
    pawl_caps caps;
    pawl_plan *plan = NULL;
    pawl_net *net = NULL;
    const pawl_net_options no = {.space = PAWL_SPACE_HOST};
    PAWL_TRY(pawl__checkpoint_open(dir, NULL, &v.ck, err));
    v.type = json_string_value(json_object_get(pawl__checkpoint_config(v.ck), "model_type"));
    pawl__caps_probe(&caps);
    pawl_status s = pawl__plan_create(&pawl__kernel_table, &caps, NULL, NULL, NULL, &plan, err);
    if (s == PAWL_OK) {
        if (pawl__net_open(v.ck, plan, &no, &net, &problem) == PAWL_OK) {
            v.dims = pawl__net_dims(net);
        } else {
            v.problem = problem.text;
        }
        s = report(&v, opts, out, err);
    }
    pawl__net_close(&net);
    pawl__plan_destroy(&plan);
    pawl__checkpoint_close(&v.ck);
    pawl__names_free(&v.names);
    free(v.module);
    return s;
}
