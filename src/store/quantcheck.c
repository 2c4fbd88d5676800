#include "store/quantcheck.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "store/names.h"

enum { MAX_WILD = 64, MAX_PLAIN = 1 << 18 };

/* '*' by backtracking to the last star only: time is at most the product of the lengths, whatever the pattern. */
static int wild_match(const char *p, const char *s)
{
    const char *star = NULL, *resume = NULL;
    while (*s) {
        if (*p == '*') {
            star = ++p;
            resume = s;
        } else if (*p == *s) {
            p++;
            s++;
        } else if (star) {
            p = star;
            s = ++resume;
        } else {
            return 0;
        }
    }
    while (*p == '*') p++;
    return !*p;
}

static const char *strip(const char *name)
{
    if (!strncmp(name, "model.language_model.", 21)) return name + 21;
    if (!strncmp(name, "language_model.model.", 21)) return name + 21;
    return !strncmp(name, "model.", 6) ? name + 6 : name;
}

static int under(const char *name, const char *module)
{
    size_t n = strlen(name);
    return !strncmp(module, name, n) && (module[n] == 0 || module[n] == '.');
}

int pawl__quant_pattern_covers(const char *pattern, const char *module)
{
    if (!strchr(pattern, '*')) return under(strip(pattern), strip(module));
    return wild_match(pattern, module) || wild_match(strip(pattern), strip(module));
}

/* The ignore list, made for many look-ups: plain names in a table, patterns with a star apart. */
typedef struct ignore_list {
    pawl_names plain;
    const char *wild[MAX_WILD];
    size_t n_wild;
    int usable; /* 0: a list that this check cannot read, such as regular expressions */
} ignore_list;

static void add_list(ignore_list *l, const json_t *array)
{
    for (size_t i = 0; i < json_array_size(array); i++) {
        const char *s = json_string_value(json_array_get(array, i));
        if (!s || !strncmp(s, "re:", 3)) {
            l->usable = 0;
        } else if (!strchr(s, '*')) {
            const char *t = strip(s);
            if (l->plain.count < l->plain.max) pawl__names_add(&l->plain, t, strlen(t), 0);
        } else if (l->n_wild < MAX_WILD) {
            l->wild[l->n_wild++] = s;
        } else {
            l->usable = 0;
        }
    }
}

static int ignored(const ignore_list *l, const char *module)
{
    const char *m = strip(module);
    for (const char *end = m + strlen(m); end > m; end--) /* the module and each that it lies in */
        if ((*end == 0 || *end == '.') && pawl__names_find(&l->plain, m, (size_t)(end - m)) != PAWL_NAMES_NONE)
            return 1;
    for (size_t i = 0; i < l->n_wild; i++)
        if (pawl__quant_pattern_covers(l->wild[i], module)) return 1;
    return 0;
}

static const json_t *path_get(const json_t *o, const char *a, const char *b)
{
    return json_object_get(b ? json_object_get(o, a) : o, b ? b : a);
}

/* What the two files say about the algorithm must agree; each may be silent. */
static void compare_files(pawl_checkpoint *ck, const json_t *config, const json_t *hf)
{
    const char *a = json_string_value(path_get(config, "quant_algo", NULL));
    const char *b = json_string_value(path_get(hf, "quantization", "quant_algo"));
    if (a && b && strcmp(a, b))
        pawl__checkpoint_warn(ck, "quant_algo is %.40s in config.json and %.40s in hf_quant_config.json", a, b);
}

/* The module of a tensor that holds codes of few bits, in out; 0 when it holds none. */
static int quantised_module(const pawl_tensor *t, char out[PAWL_ST_MAX_NAME + 1])
{
    int codes = t->dtype == PAWL_U8 || t->dtype == PAWL_F8_E4M3;
    if (!codes || t->rank < 2) return 0;
    memcpy(out, t->name, t->name_len + 1);
    static const char *const ends[] = {".weight", ".weight_packed", "gate_up_proj", "down_proj"};
    for (int i = 0; i < 4; i++) {
        size_t n = strlen(ends[i]);
        if (t->name_len <= n || strcmp(out + t->name_len - n, ends[i])) continue;
        if (i < 2) out[t->name_len - n] = 0;
        return 1;
    }
    return 0;
}

static void compare_tensors(pawl_checkpoint *ck, const ignore_list *l)
{
    size_t listed = 0, quantised = 0;
    const pawl_tensor *first = NULL;
    for (size_t i = 0; i < pawl__checkpoint_count(ck); i++) {
        char module[PAWL_ST_MAX_NAME + 1];
        const pawl_tensor *t = pawl__checkpoint_at(ck, i);
        if (!quantised_module(t, module)) continue;
        quantised++;
        if (!l->usable || !ignored(l, module)) continue;
        if (!listed++) first = t;
    }
    char text[PAWL_TENSOR_TEXT];
    if (listed)
        pawl__checkpoint_warn(ck,
                              "the quantisation config lists %zu modules as not quantised that are stored quantised, "
                              "first %.200s, %s; what is stored counts",
                              listed, first->name, pawl__tensor_text(first, text));
    if (!quantised)
        pawl__checkpoint_warn(ck, "the config says that weights are quantised, but none is; what is stored counts");
}

void pawl__quantcheck(pawl_checkpoint *ck)
{
    const json_t *config = pawl__checkpoint_quant_config(ck), *hf = pawl__checkpoint_hf_quant(ck);
    if (!config && !hf) return;
    compare_files(ck, config, hf);
    const json_t *lists[] = {path_get(config, "modules_to_not_convert", NULL), path_get(config, "ignore", NULL),
                             path_get(hf, "quantization", "exclude_modules")};
    ignore_list l = {.usable = 1};
    size_t n = 0;
    for (int i = 0; i < 3; i++) n += json_array_size(lists[i]);
    if (n > MAX_PLAIN || pawl__names_init(&l.plain, n)) return; /* no use in checking a list of that size */
    for (int i = 0; i < 3; i++) add_list(&l, lists[i]);
    compare_tensors(ck, &l);
    pawl__names_free(&l.plain);
}
