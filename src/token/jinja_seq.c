/* Filters on sequences. Those that are generators in Jinja2 are lazy here too: see jiter. */
#include "token/jinja.h"

#include <string.h>

static jval undef(void)
{
    return pawl__jv_undef("nothing");
}

static int is_int(jval v)
{
    return v.kind == J_INT || v.kind == J_BOOL;
}

/* ---- sorting ---- */

static int less(jrun *run, const jval *keys, uint32_t a, uint32_t b, int reverse)
{
    return pawl__jv_order(run, OP_LT, keys[reverse ? b : a], keys[reverse ? a : b]);
}

uint32_t *pawl__jinja_sort(jrun *run, const jval *keys, uint32_t n, int reverse)
{
    uint32_t *from = pawl__jinja_alloc(run, (size_t)n + 1, sizeof *from);
    uint32_t *to = pawl__jinja_alloc(run, (size_t)n + 1, sizeof *to);
    if (!from || !to) return NULL;
    for (uint32_t i = 0; i < n; i++) from[i] = i;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t lo = 0; lo < n; lo += 2 * width) {
            size_t mid = lo + width < n ? lo + width : n, hi = lo + 2 * width < n ? lo + 2 * width : n;
            size_t a = lo, b = mid;
            for (size_t k = lo; k < hi; k++) {
                int right = a == mid || (b < hi && less(run, keys, from[b], from[a], reverse));
                to[k] = right ? from[b++] : from[a++];
            }
            if (run->status != PAWL_OK) return NULL;
        }
        uint32_t *t = from;
        from = to;
        to = t;
    }
    return from;
}

static jval fold_case(jrun *run, jval v, jval case_sensitive)
{
    return v.kind == J_STR && !pawl__jv_truth(run, case_sensitive) ? pawl__jinja_lower(run, v) : v;
}

/* What to sort an item by: a list with one part for each of the comma-separated attributes. */
static jval sort_key(jrun *run, jval item, jval attribute, jval case_sensitive)
{
    jval key = pawl__jv_list(run, 1), none = pawl__jv_none();
    if (key.kind != J_LIST) return key;
    if (attribute.kind != J_STR) {
        pawl__jv_push(run, key.u.list, fold_case(run, pawl__jinja_path(run, item, attribute, none), case_sensitive));
        return key;
    }
    const char *s = attribute.u.s, *end = s + attribute.n;
    for (;;) {
        const char *comma = s < end ? memchr(s, ',', (size_t)(end - s)) : NULL;
        jval path = pawl__jv_view(s, (size_t)((comma ? comma : end) - s));
        pawl__jv_push(run, key.u.list, fold_case(run, pawl__jinja_path(run, item, path, none), case_sensitive));
        if (!comma || run->status != PAWL_OK) return key;
        s = comma + 1;
    }
}

static jval permuted(jrun *run, jval list, jval keys, int reverse)
{
    if (run->status != PAWL_OK) return undef();
    uint32_t n = list.u.list->n;
    uint32_t *perm = pawl__jinja_sort(run, keys.u.list->v, n, reverse);
    jval out = pawl__jv_list(run, n);
    for (uint32_t i = 0; perm && i < n && out.kind == J_LIST; i++)
        pawl__jv_push(run, out.u.list, list.u.list->v[perm[i]]);
    return out;
}

static jval f_sort(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)raw;
    jval list = pawl__jv_to_list(run, v), keys = pawl__jv_list(run, 0);
    for (uint32_t i = 0; run->status == PAWL_OK && i < list.u.list->n; i++)
        pawl__jv_push(run, keys.u.list, sort_key(run, list.u.list->v[i], a[2], a[1]));
    return permuted(run, list, keys, pawl__jv_truth(run, a[0]));
}

static jval f_dictsort(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)raw;
    int by_value = pawl__jv_is(a[1], "value");
    if (!by_value && a[1].kind != J_ABSENT && !pawl__jv_is(a[1], "key"))
        return pawl__jinja_fail(run, PAWL_EINVAL, "dictsort: by must be \"key\" or \"value\"");
    if (v.kind == J_UNDEF) return pawl__jv_use_undef(run, v);
    if (v.kind != J_DICT)
        return pawl__jinja_fail(run, PAWL_EINVAL, "dictsort: expected a mapping, found %s", pawl__jv_type(v));
    jval items = pawl__jv_to_list(run, (jval){.kind = J_VIEW, .flag = 'i', .u.dict = v.u.dict});
    jval keys = pawl__jv_list(run, 0);
    for (uint32_t i = 0; run->status == PAWL_OK && i < items.u.list->n; i++)
        pawl__jv_push(run, keys.u.list, fold_case(run, items.u.list->v[i].u.list->v[by_value], a[0]));
    return permuted(run, items, keys, pawl__jv_truth(run, a[2]));
}

static jval extreme(jrun *run, jval v, jval *a, jop op)
{
    jiter *it = pawl__jv_iter(run, v);
    jval item, best, key, best_key = {.kind = J_ABSENT}, none = pawl__jv_none();
    while (it && pawl__jv_next(run, it, &item)) {
        key = fold_case(run, pawl__jinja_path(run, item, a[1], none), a[0]);
        if (best_key.kind != J_ABSENT && !pawl__jv_order(run, op, key, best_key)) continue;
        best = item;
        best_key = key;
    }
    return best_key.kind == J_ABSENT ? pawl__jv_undef("No aggregated item, sequence was empty.") : best;
}

static jval f_min(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)raw;
    return extreme(run, v, a, OP_LT);
}

static jval f_max(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)raw;
    return extreme(run, v, a, OP_GT);
}

static jval f_sum(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)raw;
    jval total = a[1].kind == J_ABSENT ? pawl__jv_int(0) : a[1], item, none = pawl__jv_none();
    if (total.kind == J_STR) return pawl__jinja_fail(run, PAWL_EINVAL, "sum: cannot sum strings");
    jiter *it = pawl__jv_iter(run, v);
    while (it && pawl__jv_next(run, it, &item))
        total = pawl__jinja_binary(run, OP_ADD, total, pawl__jinja_path(run, item, a[0], none));
    return total;
}

/* ---- taking apart and together ---- */

static jval f_items(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)a, (void)raw;
    if (v.kind == J_UNDEF) return pawl__jv_iter_value(pawl__jv_iter(run, v));
    if (v.kind != J_DICT) return pawl__jinja_fail(run, PAWL_EINVAL, "Can only get item pairs from a mapping.");
    return pawl__jv_iter_value(pawl__jv_iter(run, (jval){.kind = J_VIEW, .flag = 'i', .u.dict = v.u.dict}));
}

static jval f_join(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)raw;
    jval sep = a[0].kind == J_ABSENT ? pawl__jv_view("", 0) : pawl__jv_to_str(run, a[0]), item, none = pawl__jv_none();
    jiter *it = pawl__jv_iter(run, v);
    pawl_buf b = pawl__jv_buf(run);
    for (int first = 1; it && pawl__jv_next(run, it, &item) && !b.failed; first = 0) {
        if (!first) pawl__buf_append(&b, sep.u.s, sep.n);
        pawl__jv_str(run, pawl__jinja_path(run, item, a[1], none), &b);
    }
    return pawl__jv_take(run, &b);
}

static jval f_list(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)a, (void)raw;
    return pawl__jv_to_list(run, v);
}

static jval f_first(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)a, (void)raw;
    jiter *it = pawl__jv_iter(run, v);
    jval item;
    return it && pawl__jv_next(run, it, &item) ? item : pawl__jv_undef("No first item, sequence was empty.");
}

static int reversible(jval v)
{
    return v.kind == J_LIST || v.kind == J_TUPLE || v.kind == J_DICT || v.kind == J_VIEW || v.kind == J_RANGE;
}

static jiter *reversed(jrun *run, jval v)
{
    jiter *it = pawl__jv_iter(run, v);
    if (it) it->how = JI_REVERSED;
    return it;
}

static jval f_last(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)a, (void)raw;
    if (v.kind == J_STR && v.n) return pawl__jinja_item(run, v, pawl__jv_int(-1));
    if (v.kind == J_STR || v.kind == J_UNDEF) return pawl__jv_undef("No last item, sequence was empty.");
    if (!reversible(v))
        return pawl__jinja_fail(run, PAWL_EINVAL, "last: '%s' object is not reversible", pawl__jv_type(v));
    jiter *it = reversed(run, v);
    jval item;
    return it && pawl__jv_next(run, it, &item) ? item : pawl__jv_undef("No last item, sequence was empty.");
}

static jval f_reverse(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)a, (void)raw;
    if (v.kind == J_STR) return pawl__jinja_slice(run, v, pawl__jv_none(), pawl__jv_none(), pawl__jv_int(-1));
    if (v.kind == J_UNDEF) return pawl__jv_iter_value(pawl__jv_iter(run, v));
    if (reversible(v)) return pawl__jv_iter_value(reversed(run, v));
    jval list = pawl__jv_to_list(run, v);
    if (run->status != PAWL_OK) return undef();
    return pawl__jinja_slice(run, list, pawl__jv_none(), pawl__jv_none(), pawl__jv_int(-1));
}

static jval f_batch(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)raw;
    if (!is_int(a[0])) return pawl__jinja_fail(run, PAWL_EINVAL, "batch: expected an integer");
    jiter *it = pawl__jv_iter(run, v);
    jval out = pawl__jv_list(run, 0), row = {.kind = J_ABSENT}, item;
    while (it && out.kind == J_LIST && pawl__jv_next(run, it, &item)) {
        if (row.kind == J_ABSENT || row.u.list->n == a[0].u.i) {
            if (row.kind == J_ABSENT && a[0].u.i == 0) pawl__jv_push(run, out.u.list, pawl__jv_list(run, 0));
            row = pawl__jv_list(run, 0);
            if (row.kind != J_LIST) return undef();
            pawl__jv_push(run, out.u.list, row);
        }
        pawl__jv_push(run, row.u.list, item);
    }
    if (row.kind == J_LIST && a[1].kind != J_ABSENT && a[1].kind != J_NONE)
        while (row.u.list->n < a[0].u.i && !pawl__jinja_step(run, 1)) pawl__jv_push(run, row.u.list, a[1]);
    return run->status == PAWL_OK ? pawl__jv_iter_value(pawl__jv_iter(run, out)) : undef();
}

static jval f_slice(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)raw;
    if (!is_int(a[0]) || a[0].u.i == 0) return pawl__jinja_fail(run, PAWL_EINVAL, "slice: expected a count");
    jval list = pawl__jv_to_list(run, v), out = pawl__jv_list(run, 0);
    if (run->status != PAWL_OK) return undef();
    int64_t n = list.u.list->n, slices = a[0].u.i, each = slices > 0 ? n / slices : 0;
    int64_t extra = slices > 0 ? n % slices : 0, begin = 0;
    for (int64_t i = 0; i < slices && !pawl__jinja_step(run, 1); i++) {
        int64_t end = begin + each + (i < extra);
        jval part = pawl__jv_list(run, (uint32_t)(end - begin));
        if (part.kind != J_LIST) return undef();
        for (; begin < end; begin++) pawl__jv_push(run, part.u.list, list.u.list->v[begin]);
        if (a[1].kind != J_ABSENT && a[1].kind != J_NONE && i >= extra) pawl__jv_push(run, part.u.list, a[1]);
        pawl__jv_push(run, out.u.list, part);
    }
    return run->status == PAWL_OK ? pawl__jv_iter_value(pawl__jv_iter(run, out)) : undef();
}

/* ---- lazy ones ---- */

static jiter *lazy(jrun *run, jval v, int how)
{
    if (!pawl__jv_truth(run, v)) v = undef(); /* as Jinja2: nothing is drawn from a false value */
    jiter *from = pawl__jv_iter(run, v);
    jiter *it = from ? pawl__jinja_alloc(run, 1, sizeof *it) : NULL;
    if (!it) return NULL;
    it->src = pawl__jv_iter_value(from);
    it->how = how;
    return it;
}

/* Arguments outlive the call in a lazy filter; those of a call live in the rendering's memory already. */
static jval apply(jrun *run, jval v, const jargs *raw, int how, int by_attr, int negate)
{
    jiter *it = lazy(run, v, how);
    if (!it) return undef();
    it->args = *raw;
    it->by_attr = (uint8_t)by_attr;
    it->negate = (uint8_t)negate;
    return pawl__jv_iter_value(it);
}

static jval f_map(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)a;
    return apply(run, v, raw, JI_MAP, 0, 0);
}

static jval f_select(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)a;
    return apply(run, v, raw, JI_SELECT, 0, 0);
}

static jval f_reject(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)a;
    return apply(run, v, raw, JI_SELECT, 0, 1);
}

static jval f_selectattr(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)a;
    return apply(run, v, raw, JI_SELECT, 1, 0);
}

static jval f_rejectattr(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)a;
    return apply(run, v, raw, JI_SELECT, 1, 1);
}

static jval f_unique(jrun *run, jval v, jval *a, const jargs *raw)
{
    (void)raw;
    jiter *from = pawl__jv_iter(run, v);
    jiter *it = from ? pawl__jinja_alloc(run, 1, sizeof *it) : NULL;
    if (!it) return undef();
    it->how = JI_UNIQUE;
    it->src = pawl__jv_iter_value(from);
    it->case_sensitive = a[0];
    it->attribute = a[1];
    it->seen = pawl__jv_dict_create(run);
    return pawl__jv_iter_value(it);
}

static jval map_item(jrun *run, const jiter *it, jval item)
{
    const jargs *args = &it->args;
    if (args->npos) {
        if (args->pos[0].kind != J_STR) return pawl__jinja_fail(run, PAWL_EINVAL, "map: expected a filter's name");
        jargs rest = {args->pos + 1, args->names, args->vals, args->npos - 1, args->nkw};
        return pawl__jinja_filter(run, args->pos[0], item, &rest);
    }
    jval attribute = {.kind = J_ABSENT}, instead = {.kind = J_ABSENT};
    for (uint32_t i = 0; i < args->nkw; i++) {
        if (pawl__jv_is(args->names[i], "attribute"))
            attribute = args->vals[i];
        else if (pawl__jv_is(args->names[i], "default"))
            instead = args->vals[i];
        else
            return pawl__jinja_fail(run, PAWL_EINVAL, "map: unexpected keyword argument");
    }
    if (attribute.kind == J_ABSENT) return pawl__jinja_fail(run, PAWL_EINVAL, "map requires a filter argument");
    return pawl__jinja_path(run, item, attribute, instead);
}

static int selected(jrun *run, const jiter *it, jval item)
{
    const jargs *args = &it->args;
    uint32_t off = it->by_attr;
    if (args->npos < off) {
        pawl__jinja_fail(run, PAWL_EINVAL, "Missing parameter for attribute name");
        return 0;
    }
    if (it->by_attr) item = pawl__jinja_path(run, item, args->pos[0], pawl__jv_none());
    if (args->npos == off) return pawl__jv_truth(run, item);
    if (args->pos[off].kind != J_STR) {
        pawl__jinja_fail(run, PAWL_EINVAL, "select: expected a test's name");
        return 0;
    }
    jargs rest = {args->pos + off + 1, args->names, args->vals, args->npos - off - 1, args->nkw};
    return run->status == PAWL_OK && pawl__jinja_test(run, args->pos[off], item, &rest);
}

int pawl__jinja_next_lazy(jrun *run, jiter *it, jval *out)
{
    jval item, none = pawl__jv_none();
    while (pawl__jv_next(run, it->src.u.iter, &item)) {
        if (it->how == JI_MAP) {
            *out = map_item(run, it, item);
            return 1;
        }
        if (it->how == JI_SELECT) {
            *out = item;
            if (selected(run, it, item) != it->negate) return 1;
            continue;
        }
        jval key = fold_case(run, pawl__jinja_path(run, item, it->attribute, none), it->case_sensitive);
        if (pawl__jv_hashable(key) && pawl__jv_dict_find(it->seen, key)) continue;
        pawl__jv_dict_set(run, it->seen, key, none);
        *out = item;
        return 1;
    }
    return 0;
}

/* ---- table ---- */

static const jfunc filters[] = {{"items", "", 0, f_items},
                                {"join", "d,attribute", 0, f_join},
                                {"list", "", 0, f_list},
                                {"first", "", 0, f_first},
                                {"last", "", 0, f_last},
                                {"reverse", "", 0, f_reverse},
                                {"map", NULL, 0, f_map},
                                {"select", NULL, 0, f_select},
                                {"reject", NULL, 0, f_reject},
                                {"selectattr", NULL, 0, f_selectattr},
                                {"rejectattr", NULL, 0, f_rejectattr},
                                {"unique", "case_sensitive,attribute", 0, f_unique},
                                {"sort", "reverse,case_sensitive,attribute", 0, f_sort},
                                {"dictsort", "case_sensitive,by,reverse", 0, f_dictsort},
                                {"min", "case_sensitive,attribute", 0, f_min},
                                {"max", "case_sensitive,attribute", 0, f_max},
                                {"sum", "attribute,start", 0, f_sum},
                                {"batch", "linecount,fill_with", 1, f_batch},
                                {"slice", "slices,fill_with", 1, f_slice}};

const jfunc *pawl__jinja_find_seq_filter(jval name)
{
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        if (pawl__jv_is(name, filters[i].name)) return &filters[i];
    return NULL;
}
