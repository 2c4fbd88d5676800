#include "store/checkpoint.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/readahead.h"
#include "store/config.h"
#include "store/index.h"
#include "store/names.h"
#include "store/quantcheck.h"
#include "base/scan.h"

enum { MAX_WARNINGS = 64, PATH_CAP = 4096, MOMENT_MS = 300, EVERY_MS = 100, SHOWN_UNUSED = 8 };

struct pawl_checkpoint {
    char *dir;
    json_t *config, *hf_quant;
    pawl_arena *arena;
    pawl_safetensors **file;
    size_t files;
    const pawl_tensor **tensor; /* file by file, in the order of their data */
    uint8_t *used;
    size_t count, n_used;
    pawl_names names; /* into tensor */
    const char *warning[MAX_WARNINGS];
    size_t warnings;
    pawl_readahead *ahead; /* NULL: not started */
    pawl_checkpoint_opts opts;
    int64_t started, reported; /* milliseconds */
};

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static pawl_status report(pawl_checkpoint *ck, const char *what, double done, pawl_err *err)
{
    if (!ck->opts.progress) return PAWL_OK;
    int64_t now = now_ms();
    if (now - ck->started < MOMENT_MS || now - ck->reported < EVERY_MS) return PAWL_OK;
    ck->reported = now;
    if (!ck->opts.progress(ck->opts.ctx, what, done)) return PAWL_OK;
    return pawl__fail(err, PAWL_ECANCELED, "%s: loading was canceled", ck->dir);
}

pawl_status pawl__checkpoint_tick(pawl_checkpoint *ck, const char *what, pawl_err *err)
{
    return report(ck, what, ck->count ? (double)ck->n_used / (double)ck->count : 1.0, err);
}

void pawl__checkpoint_warn(pawl_checkpoint *ck, const char *fmt, ...)
{
    char text[600];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    pawl__log(PAWL_LOG_WARN, "store", "%s: %s", ck->dir, text);
    if (ck->warnings == MAX_WARNINGS) return;
    char *kept = pawl__arena_strndup(ck->arena, text, strlen(text));
    if (kept) ck->warning[ck->warnings++] = kept;
}

const char *pawl__checkpoint_warning(const pawl_checkpoint *ck, size_t i)
{
    return i < ck->warnings ? ck->warning[i] : NULL;
}

/* Opens DIR/name as the next file. */
static pawl_status open_file(pawl_checkpoint *ck, const char *name, pawl_err *err)
{
    char path[PATH_CAP];
    PAWL_TRY(pawl__path_join(path, sizeof path, ck->dir, name, err));
    PAWL_TRY(pawl__safetensors_open(path, &ck->file[ck->files], err));
    ck->count += pawl__safetensors_count(ck->file[ck->files++]);
    return PAWL_OK;
}

/* A tensor counts where the index says that it is; x is NULL without an index. */
static pawl_status add_tensors(pawl_checkpoint *ck, size_t which, const pawl_index *x, size_t *extra, pawl_err *err)
{
    const pawl_safetensors *f = ck->file[which];
    for (size_t i = 0; i < pawl__safetensors_count(f); i++) {
        const pawl_tensor *t = pawl__safetensors_at(f, i);
        uint32_t e = x ? pawl__names_find(&x->names, t->name, t->name_len) : PAWL_NAMES_NONE;
        if (x && (e == PAWL_NAMES_NONE || x->entry[e].file != which)) {
            if (!(*extra)++)
                pawl__checkpoint_warn(ck, "tensor %.120s is in %.200s, but the index does not list it there", t->name,
                                      pawl__safetensors_path(f));
            if (e != PAWL_NAMES_NONE) continue;
        }
        if (pawl__names_add(&ck->names, t->name, t->name_len, (uint32_t)ck->count) != PAWL_NAMES_NONE) {
            if (!x) return pawl__fail(err, PAWL_EINTERNAL, "%s: tensor %.120s given twice", ck->dir, t->name);
            continue; /* in two shards and in no index: the first one counts, and the warning has been given */
        }
        ck->tensor[ck->count++] = t;
    }
    return PAWL_OK;
}

static pawl_status collect(pawl_checkpoint *ck, const pawl_index *x, pawl_err *err)
{
    size_t n = ck->count, extra = 0;
    ck->tensor = calloc(n + 1, sizeof *ck->tensor);
    ck->used = calloc(n + 1, 1);
    if (!ck->tensor || !ck->used || n > UINT32_MAX - 1 || pawl__names_init(&ck->names, n))
        return pawl__fail(err, PAWL_ENOMEM, "%s: out of memory for %zu tensors", ck->dir, n);
    ck->count = 0;
    for (size_t i = 0; i < ck->files; i++) PAWL_TRY(add_tensors(ck, i, x, &extra, err));
    if (extra > 1) pawl__checkpoint_warn(ck, "%zu tensors lie where the index does not list them", extra);
    for (size_t i = 0; x && i < x->count; i++)
        if (!pawl__safetensors_find(ck->file[x->entry[i].file], x->entry[i].name)) {
            char shown[PAWL_SHOWN];
            return pawl__fail(err, PAWL_EFORMAT,
                              "%s: tensor %s is missing, but model.safetensors.index.json lists it here",
                              pawl__safetensors_path(ck->file[x->entry[i].file]),
                              pawl__scan_show(x->entry[i].name, x->entry[i].len, shown));
        }
    return PAWL_OK;
}

static pawl_status open_sharded(pawl_checkpoint *ck, const char *path, pawl_err *err)
{
    pawl_index x;
    pawl_status s = pawl__index_load(path, &x, err);
    if (s == PAWL_OK) {
        ck->file = calloc(x.files + 1, sizeof *ck->file);
        if (!ck->file) s = pawl__fail(err, PAWL_ENOMEM, "%s: out of memory", ck->dir);
    }
    for (size_t i = 0; s == PAWL_OK && i < x.files; i++) {
        s = open_file(ck, x.file[i], err);
        if (s == PAWL_EIO) pawl__fail_in(err, "shard listed in model.safetensors.index.json");
        if (s == PAWL_OK) s = report(ck, "opening", (double)(i + 1) / (double)x.files, err);
    }
    if (s == PAWL_OK) s = collect(ck, &x, err);
    pawl__index_free(&x);
    return s;
}

static pawl_status open_tensors(pawl_checkpoint *ck, pawl_err *err)
{
    char path[PATH_CAP];
    PAWL_TRY(pawl__path_join(path, sizeof path, ck->dir, "model.safetensors.index.json", err));
    if (pawl__file_exists(path)) return open_sharded(ck, path, err);
    PAWL_TRY(pawl__path_join(path, sizeof path, ck->dir, "model.safetensors", err));
    if (!pawl__file_exists(path))
        return pawl__fail(err, PAWL_EIO, "%s: found neither model.safetensors.index.json nor model.safetensors",
                          ck->dir);
    ck->file = calloc(1, sizeof *ck->file);
    if (!ck->file) return pawl__fail(err, PAWL_ENOMEM, "%s: out of memory", ck->dir);
    PAWL_TRY(open_file(ck, "model.safetensors", err));
    return collect(ck, NULL, err);
}

static pawl_status open_all(pawl_checkpoint *ck, pawl_err *err)
{
    char path[PATH_CAP];
    PAWL_TRY(pawl__config_load(ck->dir, &ck->config, err));
    PAWL_TRY(pawl__path_join(path, sizeof path, ck->dir, "hf_quant_config.json", err));
    if (pawl__file_exists(path)) PAWL_TRY(pawl__json_load(path, PAWL_CONFIG_MAX_BYTES, &ck->hf_quant, err));
    PAWL_TRY(open_tensors(ck, err));
    pawl__quantcheck(ck);
    return PAWL_OK;
}

pawl_status pawl__checkpoint_open(const char *dir, const pawl_checkpoint_opts *opts, pawl_checkpoint **out,
                                  pawl_err *err)
{
    pawl_checkpoint *ck = calloc(1, sizeof *ck);
    *out = NULL;
    if (ck) {
        ck->dir = strdup(dir);
        ck->arena = pawl__arena_create(SIZE_MAX);
    }
    if (!ck || !ck->dir || !ck->arena) {
        pawl__checkpoint_close(&ck);
        return pawl__fail(err, PAWL_ENOMEM, "%s: out of memory", dir);
    }
    if (opts) ck->opts = *opts;
    ck->started = now_ms();
    pawl_status s = open_all(ck, err);
    if (s != PAWL_OK) {
        pawl__checkpoint_close(&ck);
        return s;
    }
    *out = ck;
    return PAWL_OK;
}

void pawl__checkpoint_close(pawl_checkpoint **pck)
{
    pawl_checkpoint *ck = *pck;
    if (!ck) return;
    pawl__readahead_stop(&ck->ahead);
    for (size_t i = 0; i < ck->files; i++) pawl__safetensors_close(&ck->file[i]);
    pawl__names_free(&ck->names);
    pawl__arena_destroy(&ck->arena);
    json_decref(ck->config);
    json_decref(ck->hf_quant);
    free(ck->file);
    free(ck->tensor);
    free(ck->used);
    free(ck->dir);
    free(ck);
    *pck = NULL;
}

const char *pawl__checkpoint_dir(const pawl_checkpoint *ck)
{
    return ck->dir;
}

const json_t *pawl__checkpoint_config(const pawl_checkpoint *ck)
{
    return ck->config;
}

const json_t *pawl__checkpoint_quant_config(const pawl_checkpoint *ck)
{
    const json_t *q = json_object_get(ck->config, "quantization_config");
    return json_is_object(q) ? q : NULL;
}

const json_t *pawl__checkpoint_hf_quant(const pawl_checkpoint *ck)
{
    return ck->hf_quant;
}

pawl_arena *pawl__checkpoint_arena(pawl_checkpoint *ck)
{
    return ck->arena;
}

size_t pawl__checkpoint_count(const pawl_checkpoint *ck)
{
    return ck->count;
}

const pawl_tensor *pawl__checkpoint_at(const pawl_checkpoint *ck, size_t i)
{
    return ck->tensor[i];
}

const pawl_tensor *pawl__checkpoint_find(const pawl_checkpoint *ck, const char *name)
{
    uint32_t i = pawl__names_find(&ck->names, name, strlen(name));
    return i == PAWL_NAMES_NONE ? NULL : ck->tensor[i];
}

const pawl_tensor *pawl__checkpoint_use(pawl_checkpoint *ck, const char *name)
{
    uint32_t i = pawl__names_find(&ck->names, name, strlen(name));
    if (i == PAWL_NAMES_NONE) return NULL;
    ck->n_used += !ck->used[i];
    ck->used[i] = 1;
    return ck->tensor[i];
}

const char *pawl__checkpoint_file(const pawl_checkpoint *ck, const pawl_tensor *t)
{
    for (size_t i = 0; i < ck->files; i++)
        if (pawl__safetensors_find(ck->file[i], t->name) == t) return pawl__safetensors_path(ck->file[i]);
    return ck->dir;
}

int pawl__checkpoint_used(const pawl_checkpoint *ck, size_t i)
{
    return ck->used[i];
}

void pawl__checkpoint_read_ahead(pawl_checkpoint *ck, uint64_t most)
{
    enum { GAP = 1 << 20 }; /* a smaller hole between two used tensors is read too */
    pawl_range *range = calloc(ck->count + 1, sizeof *range);
    uint64_t total = 0;
    size_t n = 0;
    for (size_t i = 0; range && i < ck->count; i++) {
        const pawl_tensor *t = ck->tensor[i];
        if (!ck->used[i] || !t->bytes) continue;
        const unsigned char *end = n ? range[n - 1].data + range[n - 1].bytes : NULL;
        total += t->bytes;
        if (n && t->data >= end && t->data - end < GAP)
            range[n - 1].bytes = (size_t)(t->data + t->bytes - range[n - 1].data);
        else
            range[n++] = (pawl_range){t->data, t->bytes};
    }
    if (n && total <= most && !ck->ahead) ck->ahead = pawl__readahead_start(range, n);
    free(range);
}

static int ends_with(const pawl_tensor *t, const char *end)
{
    size_t n = strlen(end);
    return t->name_len >= n && !memcmp(t->name + t->name_len - n, end, n);
}

int pawl__tensor_expected_unused(const pawl_tensor *t)
{
    return !strncmp(t->name, "model.visual.", 13) || !strncmp(t->name, "visual.", 7) || ends_with(t, ".k_scale") ||
           ends_with(t, ".v_scale") || ends_with(t, "input_scale") || ends_with(t, "input_global_scale");
}

size_t pawl__checkpoint_warn_unused(pawl_checkpoint *ck)
{
    size_t n = 0;
    for (size_t i = 0; i < ck->count; i++) {
        if (ck->used[i] || pawl__tensor_expected_unused(ck->tensor[i])) continue;
        if (n++ < SHOWN_UNUSED) {
            char text[PAWL_TENSOR_TEXT];
            pawl__checkpoint_warn(ck, "tensor %.200s, %s, is not used", ck->tensor[i]->name,
                                  pawl__tensor_text(ck->tensor[i], text));
        }
    }
    if (n > SHOWN_UNUSED) pawl__checkpoint_warn(ck, "%zu tensors in all are not used", n);
    return n;
}
