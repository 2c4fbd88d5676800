#include "store/index.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "store/safetensors.h"
#include "base/scan.h"

enum { MAX_FILE_NAME = 255, MAX_BYTES = PAWL_ST_MAX_HEADER };

/* A name that stays inside the folder, whatever the file system makes of it. */
static pawl_status check_file(const char *where, const char *file, size_t n, pawl_err *err)
{
    char shown[PAWL_SHOWN];
    int bad = n == 0 || file[0] == '.' || strlen(file) != n || strstr(file, "..");
    for (size_t i = 0; i < n; i++) bad |= (unsigned char)file[i] < 0x20 || strchr("/\\:\x7f", file[i]) != NULL;
    if (!bad) return PAWL_OK;
    return pawl__fail(err, PAWL_EFORMAT,
                      "%s: shard \"%s\": expected a plain file name without path separators and without \"..\"", where,
                      pawl__scan_show(file, n, shown));
}

/* The file's number, added when new. Files come in runs, so that the last one is looked at first. */
static pawl_status find_file(pawl_index *x, const char *where, const char *file, size_t n, uint32_t *out, pawl_err *err)
{
    for (size_t i = x->files; i-- > 0;)
        if (!strcmp(x->file[i], file)) {
            *out = (uint32_t)i;
            return PAWL_OK;
        }
    PAWL_TRY(check_file(where, file, n, err));
    if (x->files == PAWL_INDEX_MAX_FILES)
        return pawl__fail(err, PAWL_EFORMAT, "%s: more than %d shards", where, PAWL_INDEX_MAX_FILES);
    x->file[x->files] = strdup(file);
    if (!x->file[x->files]) return pawl__fail(err, PAWL_ENOMEM, "%s: out of memory", where);
    *out = (uint32_t)x->files++;
    return PAWL_OK;
}

static pawl_status read_map(pawl_index *x, pawl_scan *s, pawl_err *err)
{
    size_t cap = 0, used = 0;
    PAWL_TRY(pawl__scan_expect(s, '{', err));
    for (int more = !pawl__scan_take(s, '}'); more;) {
        char name[PAWL_ST_MAX_NAME + 1], file[MAX_FILE_NAME + 1];
        size_t len, n;
        PAWL_TRY(pawl__scan_string(s, name, sizeof name, &len, err));
        PAWL_TRY(pawl__scan_expect(s, ':', err));
        PAWL_TRY(pawl__scan_string(s, file, sizeof file, &n, err));
        if (x->count == cap) {
            cap = cap ? cap * 2 : 256;
            void *p = realloc(x->entry, cap * sizeof *x->entry);
            if (!p) return pawl__fail(err, PAWL_ENOMEM, "%s: out of memory", s->name);
            x->entry = p;
        }
        if (x->count == PAWL_ST_MAX_TENSORS)
            return pawl__fail(err, PAWL_EFORMAT, "%s: more than %d tensors", s->name, PAWL_ST_MAX_TENSORS);
        uint32_t which = 0;
        PAWL_TRY(find_file(x, s->name, file, n, &which, err));
        char *kept = x->text + used; /* a JSON string takes its bytes and two quotes, so the text is large enough */
        memcpy(kept, name, len + 1);
        used += len + 1;
        x->entry[x->count].name = kept;
        x->entry[x->count].len = (uint32_t)len;
        x->entry[x->count].file = which;
        x->count++;
        PAWL_TRY(pawl__scan_next(s, '}', &more, err));
    }
    if (pawl__names_init(&x->names, x->count)) return pawl__fail(err, PAWL_ENOMEM, "%s: out of memory", s->name);
    for (size_t i = 0; i < x->count; i++)
        if (pawl__names_add(&x->names, x->entry[i].name, x->entry[i].len, (uint32_t)i) != PAWL_NAMES_NONE) {
            char shown[PAWL_SHOWN];
            return pawl__fail(err, PAWL_EFORMAT, "%s: tensor %s given twice in weight_map", s->name,
                              pawl__scan_show(x->entry[i].name, x->entry[i].len, shown));
        }
    return PAWL_OK;
}

pawl_status pawl__index_parse(const char *text, size_t n, const char *name, pawl_index *x, pawl_err *err)
{
    pawl_scan s;
    memset(x, 0, sizeof *x);
    PAWL_TRY(pawl__scan_init(&s, name, text, n, err));
    x->text = malloc(n + 1);
    if (!x->text) return pawl__fail(err, PAWL_ENOMEM, "%s: out of memory", name);
    int found = 0;
    PAWL_TRY(pawl__scan_expect(&s, '{', err));
    for (int more = !pawl__scan_take(&s, '}'); more;) {
        char key[PAWL_ST_MAX_NAME + 1];
        size_t len;
        PAWL_TRY(pawl__scan_string(&s, key, sizeof key, &len, err));
        PAWL_TRY(pawl__scan_expect(&s, ':', err));
        if (len == 10 && !memcmp(key, "weight_map", 10)) {
            if (found++) return pawl__fail(err, PAWL_EFORMAT, "%s: weight_map given twice", name);
            PAWL_TRY(read_map(x, &s, err));
        } else {
            PAWL_TRY(pawl__scan_skip(&s, PAWL_ST_MAX_DEPTH, err));
        }
        PAWL_TRY(pawl__scan_next(&s, '}', &more, err));
    }
    if (!found) return pawl__fail(err, PAWL_EFORMAT, "%s: no weight_map", name);
    return pawl__scan_end(&s, err);
}

pawl_status pawl__index_load(const char *path, pawl_index *x, pawl_err *err)
{
    char *text;
    size_t n;
    memset(x, 0, sizeof *x);
    PAWL_TRY(pawl__file_read(path, MAX_BYTES, &text, &n, err));
    pawl_status s = pawl__index_parse(text, n, path, x, err);
    free(text);
    return s;
}

void pawl__index_free(pawl_index *x)
{
    for (size_t i = 0; i < x->files; i++) free(x->file[i]);
    pawl__names_free(&x->names);
    free(x->entry);
    free(x->text);
    memset(x, 0, sizeof *x);
}
