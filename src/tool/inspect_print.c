/* An inventory as text for people and as JSON for programs. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "store/formats.h"
#include "tool/inspect_internal.h"

enum { SHOWN_UNUSED = 20 };

/* "12.3 MiB" */
static void put_bytes(pawl_buf *b, uint64_t n)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double x = (double)n;
    int u = 0;
    for (; x >= 1024 && u < 4; u++) x /= 1024;
    pawl__buf_printf(b, u ? "%.1f %s" : "%.0f %s", x, units[u]);
}

/* "1.2 M" */
static void put_count(pawl_buf *b, int64_t n)
{
    if (n < 1000000) {
        pawl__buf_printf(b, "%" PRId64, n);
    } else {
        pawl__buf_printf(b, n < 1000000000 ? "%.1f M" : "%.1f G", (double)n / (n < 1000000000 ? 1e6 : 1e9));
    }
}

static void put_formats(pawl_buf *b, const pawl_tally *f)
{
    const char *between = "";
    for (int q = 0; q < PAWL_QUANT_COUNT; q++) {
        if (!f[q].tensors) continue;
        pawl__buf_printf(b, "%s%s ", between, q == PAWL_Q_NONE ? "other" : pawl__quant_word((pawl_quant)q));
        put_bytes(b, f[q].bytes);
        between = ", ";
    }
}

static void put_model(const pawl_inventory *v, pawl_buf *b)
{
    const pawl_net_dims *d = v->dims;
    pawl__buf_printf(b, "%s\n  type        %s\n", pawl__checkpoint_dir(v->ck), v->type ? v->type : "(none)");
    if (v->problem) pawl__buf_printf(b, "  problem     %s\n", v->problem);
    if (d) {
        pawl__buf_printf(b,
                         "  layers      %" PRId64 ": %" PRId64 " Gated DeltaNet, %" PRId64 " attention; MLPs: %" PRId64
                         " of experts, %" PRId64 " dense\n",
                         d->layers, d->rec_layers, d->kv_layers - d->draft_layers, v->moe_layers, v->dense_layers);
        pawl__buf_printf(b, "  sizes       hidden %" PRId64 ", vocabulary %" PRId64 ", context %" PRId64 "\n",
                         d->hidden, d->vocab, d->context);
    }
    pawl__buf_puts(b, "  parameters  ");
    put_count(b, v->parameters);
    pawl__buf_puts(b, ", of which a token uses ");
    put_count(b, v->active);
    pawl__buf_puts(b, "\n  draft       ");
    if (v->draft.tensors) {
        put_count(b, v->draft_parameters);
        pawl__buf_puts(b, " parameters in ");
        put_formats(b, v->draft_format);
        pawl__buf_puts(b, d && !d->draft_layers ? "; not used: the config has no MTP layer" : "");
    } else {
        pawl__buf_puts(b, "none");
    }
    if (v->vision.tensors) {
        pawl__buf_puts(b, "\n  vision      ");
        put_count(b, v->vision_parameters);
        pawl__buf_puts(b, " parameters, skipped");
    }
    pawl__buf_puts(b, "\n  bytes       ");
    put_bytes(b, v->total.bytes);
    pawl__buf_printf(b, " in %" PRId64 " tensors: ", v->total.tensors);
    put_formats(b, v->format);
    if (d) {
        pawl__buf_puts(b, "\n  memory      keys and values ");
        put_bytes(b, (uint64_t)pawl__inspect_kv_bytes(d));
        pawl__buf_puts(b, " a token, state ");
        put_bytes(b, (uint64_t)pawl__inspect_state_bytes(d));
        pawl__buf_puts(b, " a sequence (f32)");
    }
    pawl__buf_putc(b, '\n');
}

static void put_unused(const pawl_inventory *v, pawl_buf *b)
{
    if (!v->dims) return;
    pawl__buf_printf(b, "\n  unread      %" PRId64 "%s\n", v->unused,
                     v->unused ? "" : ": every tensor is accounted for");
    int64_t shown = 0;
    for (size_t i = 0; i < pawl__checkpoint_count(v->ck) && shown < SHOWN_UNUSED; i++) {
        if (!pawl__inspect_unused(v, i)) continue;
        pawl__buf_printf(b, "    %s\n", pawl__checkpoint_at(v->ck, i)->name);
        shown++;
    }
    if (shown < v->unused) pawl__buf_printf(b, "    ... and %" PRId64 " more\n", v->unused - shown);
}

void pawl__inspect_text(const pawl_inventory *v, int tensors, pawl_buf *b)
{
    put_model(v, b);
    pawl__buf_puts(b, "\n  format     count       size  matrices\n");
    for (size_t i = 0; i < v->modules; i++) {
        pawl_buf size = {0};
        put_bytes(&size, v->module[i].sum.bytes);
        pawl__buf_printf(b, "  %-9s %6" PRId64 " %10s  %s\n",
                         v->module[i].q == PAWL_Q_NONE ? "other" : pawl__quant_word(v->module[i].q),
                         v->module[i].sum.tensors, size.failed ? "?" : size.data, v->module[i].name);
        pawl__buf_free(&size);
    }
    put_unused(v, b);
    for (size_t i = 0; pawl__checkpoint_warning(v->ck, i); i++)
        pawl__buf_printf(b, "  warning     %s\n", pawl__checkpoint_warning(v->ck, i));
    if (tensors) pawl__buf_putc(b, '\n');
    for (size_t i = 0; tensors && i < pawl__checkpoint_count(v->ck); i++) {
        const pawl_tensor *t = pawl__checkpoint_at(v->ck, i);
        char text[PAWL_TENSOR_TEXT];
        pawl__buf_printf(b, "  %s  %s  %zu B%s\n", t->name, pawl__tensor_text(t, text), t->bytes,
                         pawl__inspect_unused(v, i) ? "  (unread)" : "");
    }
}

/* Texts come from strangers; what is not UTF-8 (a path may be anything) is left out. */
static json_t *text_or_null(const char *s)
{
    json_t *j = s ? json_string(s) : NULL;
    return j ? j : json_null();
}

static const char *format_word(int q)
{
    return q == PAWL_Q_NONE ? "other" : pawl__quant_word((pawl_quant)q);
}

static json_t *formats(const pawl_tally *f)
{
    json_t *a = json_array();
    for (int q = 0; q < PAWL_QUANT_COUNT; q++)
        if (f[q].tensors)
            json_array_append_new(a, json_pack("{s:s,s:I,s:I}", "format", format_word(q), "tensors",
                                               (json_int_t)f[q].tensors, "bytes", (json_int_t)f[q].bytes));
    return a;
}

static json_t *tensor_list(const pawl_inventory *v)
{
    json_t *a = json_array();
    for (size_t i = 0; i < pawl__checkpoint_count(v->ck); i++) {
        const pawl_tensor *t = pawl__checkpoint_at(v->ck, i), *owner;
        json_t *shape = json_array();
        for (int r = 0; r < t->rank; r++) json_array_append_new(shape, json_integer(t->shape[r]));
        pawl_quant q = pawl__tensor_format(v->ck, t, &owner);
        json_array_append_new(a, json_pack("{s:s,s:s,s:o,s:I,s:s,s:b}", "name", t->name, "dtype",
                                           pawl__tensor_dtype_name(t), "shape", shape, "bytes", (json_int_t)t->bytes,
                                           "format", format_word(q), "read", pawl__checkpoint_used(v->ck, i)));
    }
    return a;
}

static json_t *unused_list(const pawl_inventory *v)
{
    json_t *a = json_array();
    for (size_t i = 0; i < pawl__checkpoint_count(v->ck); i++)
        if (pawl__inspect_unused(v, i)) json_array_append_new(a, json_string(pawl__checkpoint_at(v->ck, i)->name));
    return a;
}

static json_t *model_object(const pawl_inventory *v)
{
    const pawl_net_dims *d = v->dims;
    if (!d) return json_null();
    return json_pack("{s:I,s:I,s:I,s:I,s:{s:I,s:I,s:I,s:I},s:I,s:I,s:I}", "hidden", (json_int_t)d->hidden, "vocab",
                     (json_int_t)d->vocab, "context", (json_int_t)d->context, "layers", (json_int_t)d->layers,
                     "layer_kinds", "gated_delta_net", (json_int_t)d->rec_layers, "attention",
                     (json_int_t)(d->kv_layers - d->draft_layers), "experts", (json_int_t)v->moe_layers, "dense_mlp",
                     (json_int_t)v->dense_layers, "draft_layers", (json_int_t)d->draft_layers, "kv_bytes_per_token",
                     (json_int_t)pawl__inspect_kv_bytes(d), "state_bytes_per_sequence",
                     (json_int_t)pawl__inspect_state_bytes(d));
}

pawl_status pawl__inspect_json(const pawl_inventory *v, int tensors, pawl_buf *out, pawl_err *err)
{
    json_t *modules = json_array(), *warnings = json_array();
    for (size_t i = 0; i < v->modules; i++)
        json_array_append_new(modules,
                              json_pack("{s:s,s:s,s:I,s:I}", "name", v->module[i].name, "format",
                                        format_word((int)v->module[i].q), "count", (json_int_t)v->module[i].sum.tensors,
                                        "bytes", (json_int_t)v->module[i].sum.bytes));
    for (size_t i = 0; pawl__checkpoint_warning(v->ck, i); i++)
        json_array_append_new(warnings, text_or_null(pawl__checkpoint_warning(v->ck, i)));
    json_t *draft = v->draft.tensors
                        ? json_pack("{s:I,s:I,s:o}", "parameters", (json_int_t)v->draft_parameters, "tensors",
                                    (json_int_t)v->draft.tensors, "formats", formats(v->draft_format))
                        : json_null();
    json_t *j =
        json_pack("{s:s,s:o,s:o,s:o,s:o,s:{s:I,s:I,s:I},s:I,s:I,s:o,s:o,s:o,s:o,s:o}", "schema", "pawl.inspect/1",
                  "path", text_or_null(pawl__checkpoint_dir(v->ck)), "model_type", text_or_null(v->type), "problem",
                  text_or_null(v->problem), "model", model_object(v), "parameters", "total", (json_int_t)v->parameters,
                  "active", (json_int_t)v->active, "vision", (json_int_t)v->vision_parameters, "tensor_count",
                  (json_int_t)v->total.tensors, "bytes", (json_int_t)v->total.bytes, "formats", formats(v->format),
                  "draft", draft, "matrices", modules, "unread", unused_list(v), "warnings", warnings);
    if (j && tensors) json_object_set_new(j, "tensors", tensor_list(v));
    char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
    json_decref(j);
    if (text) {
        pawl__buf_puts(out, text);
        pawl__buf_putc(out, '\n');
    }
    free(text);
    return text && !out->failed ? PAWL_OK : pawl__fail(err, PAWL_ENOMEM, "inspect: out of memory");
}
