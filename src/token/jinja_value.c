/* The values of a rendering and what Python says of them: truth, equality, order, hashing, length, iteration. */
#include "token/jinja.h"

#include <math.h>
#include <string.h>

#include "base/utf8.h"

/* ---- making ---- */

jval pawl__jv_none(void)
{
    return (jval){.kind = J_NONE};
}

jval pawl__jv_bool(int b)
{
    return (jval){.kind = J_BOOL, .u.i = b != 0};
}

jval pawl__jv_int(int64_t i)
{
    return (jval){.kind = J_INT, .u.i = i};
}

jval pawl__jv_float(double f)
{
    return (jval){.kind = J_FLOAT, .u.f = f};
}

jval pawl__jv_undef(const char *hint)
{
    return (jval){.kind = J_UNDEF, .flag = JU_HINT, .n = (uint32_t)strlen(hint), .u.s = hint};
}

jval pawl__jv_view(const char *s, size_t n)
{
    return (jval){.kind = J_STR, .n = (uint32_t)n, .u.s = s};
}

jval pawl__jv_copy(jrun *run, const char *s, size_t n)
{
    if (n > run->max_string)
        return pawl__jinja_fail(run, PAWL_ETIMEDOUT, "a string of more than %zu bytes", run->max_string);
    pawl__jinja_step(run, n / 256);
    char *p = pawl__jinja_alloc(run, n + 1, 1);
    if (!p) return pawl__jv_undef("nothing");
    if (n) memcpy(p, s, n);
    return pawl__jv_view(p, n);
}

pawl_buf pawl__jv_buf(const jrun *run)
{
    return (pawl_buf){.limit = run->max_string};
}

jval pawl__jv_take(jrun *run, pawl_buf *b)
{
    jval v;
    if (b->failed)
        v = pawl__jinja_fail(run, PAWL_ETIMEDOUT, "a string of more than %zu bytes", run->max_string);
    else
        v = pawl__jv_copy(run, b->data, b->len);
    pawl__buf_free(b);
    return v;
}

static jlist *new_list(jrun *run, uint32_t cap)
{
    jlist *l = pawl__jinja_alloc(run, 1, sizeof *l);
    jval *v = cap ? pawl__jinja_alloc(run, cap, sizeof *v) : NULL;
    if (!l || (cap && !v)) return NULL;
    l->v = v;
    l->cap = cap;
    return l;
}

jval pawl__jv_list(jrun *run, uint32_t cap)
{
    jlist *l = new_list(run, cap);
    return l ? (jval){.kind = J_LIST, .u.list = l} : pawl__jv_undef("nothing");
}

jval pawl__jv_tuple(jrun *run, uint32_t n)
{
    jval v = pawl__jv_list(run, n);
    if (v.kind == J_LIST) v.kind = J_TUPLE;
    return v;
}

jval pawl__jv_pair(jrun *run, jval a, jval b)
{
    jval t = pawl__jv_tuple(run, 2);
    if (t.kind != J_TUPLE) return t;
    pawl__jv_push(run, t.u.list, a);
    pawl__jv_push(run, t.u.list, b);
    return t;
}

void pawl__jv_push(jrun *run, jlist *list, jval v)
{
    if (list->n == list->cap) {
        uint32_t cap = list->cap ? list->cap * 2 : 4;
        jval *more = cap > list->cap ? pawl__jinja_alloc(run, cap, sizeof *more) : NULL;
        if (!more) return;
        if (list->n) memcpy(more, list->v, list->n * sizeof *more);
        list->v = more;
        list->cap = cap;
    }
    list->v[list->n++] = v;
}

/* ---- dicts ---- */

enum { SMALL_DICT = 8 };

jdict *pawl__jv_dict_create(jrun *run)
{
    return pawl__jinja_alloc(run, 1, sizeof(jdict));
}

jval pawl__jv_dict(jdict *d)
{
    return d ? (jval){.kind = J_DICT, .u.dict = d} : pawl__jv_undef("nothing");
}

int pawl__jv_hashable(jval v)
{
    if (v.kind == J_LIST || v.kind == J_DICT || v.kind == J_VIEW) return 0;
    if (v.kind == J_TUPLE)
        for (uint32_t i = 0; i < v.u.list->n; i++)
            if (!pawl__jv_hashable(v.u.list->v[i])) return 0;
    return 1;
}

/* Equal keys hash alike: 1, 1.0 and true are one key. The dict's address salts the hash, so that nobody can prepare
 * keys that collide. */
static uint64_t hash(const jdict *d, jval v)
{
    uint64_t h = 14695981039346656037u ^ (uintptr_t)d;
    if (v.kind == J_STR) {
        for (uint32_t i = 0; i < v.n; i++) h = (h ^ (unsigned char)v.u.s[i]) * 1099511628211u;
    } else if (v.kind == J_INT || v.kind == J_BOOL) {
        h = (h ^ (uint64_t)v.u.i) * 1099511628211u;
    } else if (v.kind == J_FLOAT) {
        int64_t i = fabs(v.u.f) < 9e18 ? (int64_t)v.u.f : 0;
        h = (h ^ (uint64_t)i) * 1099511628211u;
    } else if (v.kind == J_TUPLE) {
        for (uint32_t i = 0; i < v.u.list->n; i++) h = (h ^ hash(d, v.u.list->v[i])) * 1099511628211u;
    } else {
        h = (h ^ v.kind) * 1099511628211u;
    }
    return h ^ (h >> 29);
}

static int equal_keys(jval a, jval b)
{
    if (a.kind == J_TUPLE && b.kind == J_TUPLE) {
        if (a.u.list->n != b.u.list->n) return 0;
        for (uint32_t i = 0; i < a.u.list->n; i++)
            if (!equal_keys(a.u.list->v[i], b.u.list->v[i])) return 0;
        return 1;
    }
    return pawl__jv_same(a, b) || pawl__jv_equal(NULL, a, b);
}

jval *pawl__jv_dict_find(const jdict *d, jval key)
{
    if (!pawl__jv_hashable(key)) return NULL;
    if (!d->slots) {
        for (uint32_t i = 0; i < d->n; i++)
            if (equal_keys(d->keys[i], key)) return &d->vals[i];
        return NULL;
    }
    for (uint64_t h = hash(d, key);; h++) {
        uint32_t slot = d->slots[h & (d->nslots - 1)];
        if (!slot) return NULL;
        if (equal_keys(d->keys[slot - 1], key)) return &d->vals[slot - 1];
    }
}

jval *pawl__jv_dict_find_str(const jdict *d, const char *s, size_t n)
{
    return pawl__jv_dict_find(d, pawl__jv_view(s, n));
}

static int grow_dict(jrun *run, jdict *d)
{
    uint32_t cap = d->cap ? d->cap * 2 : 4;
    jval *keys = cap > d->cap ? pawl__jinja_alloc(run, cap, sizeof *keys) : NULL;
    jval *vals = keys ? pawl__jinja_alloc(run, cap, sizeof *vals) : NULL;
    if (!vals) return 0;
    if (d->n) {
        memcpy(keys, d->keys, d->n * sizeof *keys);
        memcpy(vals, d->vals, d->n * sizeof *vals);
    }
    d->keys = keys;
    d->vals = vals;
    d->cap = cap;
    if (cap <= SMALL_DICT) return 1;
    uint32_t *slots = pawl__jinja_alloc(run, (size_t)cap * 2, sizeof *slots);
    if (!slots) return 0;
    d->slots = slots;
    d->nslots = cap * 2;
    for (uint32_t i = 0; i < d->n; i++) {
        uint64_t h = hash(d, keys[i]);
        while (slots[h & (d->nslots - 1)]) h++;
        slots[h & (d->nslots - 1)] = i + 1;
    }
    return 1;
}

void pawl__jv_dict_set(jrun *run, jdict *d, jval key, jval v)
{
    if (!pawl__jv_hashable(key)) {
        pawl__jinja_fail(run, PAWL_EINVAL, "unhashable type: '%s'", pawl__jv_type(key));
        return;
    }
    jval *old = pawl__jv_dict_find(d, key);
    if (old) {
        *old = v;
        return;
    }
    if (d->n == d->cap && !grow_dict(run, d)) return;
    d->keys[d->n] = key;
    d->vals[d->n] = v;
    d->n++;
    if (!d->slots) return;
    uint64_t h = hash(d, key);
    while (d->slots[h & (d->nslots - 1)]) h++;
    d->slots[h & (d->nslots - 1)] = d->n;
}

/* ---- JSON ---- */

static jval from_json(jrun *run, const json_t *j, unsigned depth)
{
    if (depth > JINJA_MAX_VALUE_DEPTH)
        return pawl__jinja_fail(run, PAWL_EINVAL, "a variable is nested more than %d deep", JINJA_MAX_VALUE_DEPTH);
    switch (json_typeof(j)) {
    case JSON_NULL:
        return pawl__jv_none();
    case JSON_TRUE:
        return pawl__jv_bool(1);
    case JSON_FALSE:
        return pawl__jv_bool(0);
    case JSON_INTEGER:
        return pawl__jv_int(json_integer_value(j));
    case JSON_REAL:
        return pawl__jv_float(json_real_value(j));
    case JSON_STRING: {
        size_t n = json_string_length(j);
        if (n > UINT32_MAX) return pawl__jinja_fail(run, PAWL_EINVAL, "a string of more than 4 GiB");
        return pawl__jv_view(json_string_value(j), n);
    }
    case JSON_ARRAY: {
        size_t n = json_array_size(j);
        jval list = pawl__jv_list(run, n < UINT32_MAX ? (uint32_t)n : UINT32_MAX);
        for (size_t i = 0; i < n && run->status == PAWL_OK; i++)
            pawl__jv_push(run, list.u.list, from_json(run, json_array_get(j, i), depth + 1));
        return list;
    }
    case JSON_OBJECT: {
        jdict *d = pawl__jv_dict_create(run);
        json_t *obj = (json_t *)(uintptr_t)j; /* Jansson's iterators want it writable and only read it */
        for (void *it = json_object_iter(obj); d && it && run->status == PAWL_OK; it = json_object_iter_next(obj, it)) {
            jval key = pawl__jv_view(json_object_iter_key(it), strlen(json_object_iter_key(it)));
            pawl__jv_dict_set(run, d, key, from_json(run, json_object_iter_value(it), depth + 1));
        }
        return pawl__jv_dict(d);
    }
    }
    return pawl__jv_none();
}

jval pawl__jv_from_json(jrun *run, const json_t *j)
{
    return from_json(run, j, 0);
}

/* ---- questions ---- */

const char *pawl__jv_type(jval v)
{
    static const char *const names[] = {
        [J_ABSENT] = "nothing", [J_UNDEF] = "Undefined", [J_NONE] = "NoneType",    [J_BOOL] = "bool",
        [J_INT] = "int",        [J_FLOAT] = "float",     [J_STR] = "str",          [J_LIST] = "list",
        [J_TUPLE] = "tuple",    [J_DICT] = "dict",       [J_VIEW] = "dict_view",   [J_RANGE] = "range",
        [J_NS] = "Namespace",   [J_ITER] = "generator",  [J_LOOP] = "LoopContext", [J_MACRO] = "Macro",
        [J_FUNC] = "function",  [J_METHOD] = "method",   [J_CYCLER] = "Cycler",    [J_JOINER] = "Joiner"};
    return names[v.kind];
}

jval pawl__jv_use_undef(jrun *run, jval v)
{
    int n = (int)(v.n < 200 ? v.n : 200);
    if (v.flag == JU_NAME) return pawl__jinja_fail(run, PAWL_EINVAL, "'%.*s' is undefined", n, v.u.s);
    if (v.flag == JU_HINT) return pawl__jinja_fail(run, PAWL_EINVAL, "%.*s", n, v.u.s);
    jval of = {.kind = (uint8_t)(v.flag - JU_ATTR)};
    if (of.kind == J_NONE) return pawl__jinja_fail(run, PAWL_EINVAL, "'None' has no attribute '%.*s'", n, v.u.s);
    return pawl__jinja_fail(run, PAWL_EINVAL, "'%s object' has no attribute '%.*s'", pawl__jv_type(of), n, v.u.s);
}

int pawl__jv_truth(jrun *run, jval v)
{
    switch ((jkind)v.kind) {
    case J_ABSENT:
    case J_UNDEF:
    case J_NONE:
        return 0;
    case J_BOOL:
    case J_INT:
        return v.u.i != 0;
    case J_FLOAT:
        return v.u.f != 0;
    case J_STR:
        return v.n != 0;
    case J_LIST:
    case J_TUPLE:
    case J_DICT:
    case J_VIEW:
    case J_RANGE:
        return pawl__jv_length(run, v) != 0;
    default:
        return 1;
    }
}

int pawl__jv_is(jval v, const char *s)
{
    return v.kind == J_STR && strlen(s) == v.n && memcmp(v.u.s, s, v.n) == 0;
}

static int is_int(jval v)
{
    return v.kind == J_INT || v.kind == J_BOOL;
}

static int is_number(jval v)
{
    return is_int(v) || v.kind == J_FLOAT;
}

/* Exact for every int64 and double where long double has 64 bits of mantissa or more, as on x86 and 64-bit ARM. */
static long double exact(jval v)
{
    return v.kind == J_FLOAT ? (long double)v.u.f : (long double)v.u.i;
}

int pawl__jv_same(jval a, jval b)
{
    if (a.kind != b.kind) return 0;
    switch ((jkind)a.kind) {
    case J_NONE:
        return 1;
    case J_BOOL:
    case J_INT:
        return a.u.i == b.u.i;
    case J_FLOAT:
        return a.u.f == b.u.f;
    case J_STR:
        return a.n == b.n && (a.u.s == b.u.s || memcmp(a.u.s, b.u.s, a.n) == 0);
    case J_UNDEF:
        return a.flag == b.flag && a.u.s == b.u.s;
    default:
        return a.u.p == b.u.p;
    }
}

/* run is NULL when keys of a dict are compared: these hold no lists or dicts. */
static int equal(jrun *run, jval a, jval b, unsigned depth)
{
    if (run && (pawl__jinja_step(run, 1) || depth > JINJA_MAX_VALUE_DEPTH)) {
        pawl__jinja_fail(run, PAWL_ETIMEDOUT, "values are nested more than %d deep", JINJA_MAX_VALUE_DEPTH);
        return 0;
    }
    if (is_number(a) && is_number(b)) {
        if (is_int(a) && is_int(b)) return a.u.i == b.u.i;
        return exact(a) == exact(b);
    }
    if (a.kind != b.kind) return 0;
    switch ((jkind)a.kind) {
    case J_NONE:
    case J_UNDEF:
        return 1;
    case J_STR:
        if (run && a.n == b.n) pawl__jinja_step(run, a.n / 256);
        return a.n == b.n && memcmp(a.u.s, b.u.s, a.n) == 0;
    case J_LIST:
    case J_TUPLE:
        if (a.u.list == b.u.list) return 1;
        if (a.u.list->n != b.u.list->n) return 0;
        for (uint32_t i = 0; i < a.u.list->n; i++)
            if (!equal(run, a.u.list->v[i], b.u.list->v[i], depth + 1)) return 0;
        return 1;
    case J_DICT:
        if (a.u.dict == b.u.dict) return 1;
        if (a.u.dict->n != b.u.dict->n) return 0;
        for (uint32_t i = 0; i < a.u.dict->n; i++) {
            jval *other = pawl__jv_dict_find(b.u.dict, a.u.dict->keys[i]);
            if (!other || !equal(run, a.u.dict->vals[i], *other, depth + 1)) return 0;
        }
        return 1;
    case J_RANGE: {
        const jrange *x = a.u.range, *y = b.u.range;
        if (x->count != y->count) return 0;
        return x->count == 0 || (x->start == y->start && (x->count == 1 || x->step == y->step));
    }
    default:
        return a.u.p == b.u.p && a.flag == b.flag;
    }
}

int pawl__jv_equal(jrun *run, jval a, jval b)
{
    return equal(run, a, b, 0);
}

static int holds(jop op, int cmp)
{
    switch (op) {
    case OP_LT:
        return cmp < 0;
    case OP_LE:
        return cmp <= 0;
    case OP_GT:
        return cmp > 0;
    default:
        return cmp >= 0;
    }
}

static int compare_bytes(jval a, jval b)
{
    uint32_t n = a.n < b.n ? a.n : b.n;
    int c = n ? memcmp(a.u.s, b.u.s, n) : 0; /* UTF-8 sorts as its code points do */
    return c ? c : (a.n > b.n) - (a.n < b.n);
}

static int order(jrun *run, jop op, jval a, jval b, unsigned depth)
{
    static const char *const signs[] = {[OP_LT] = "<", [OP_LE] = "<=", [OP_GT] = ">", [OP_GE] = ">="};
    if (pawl__jinja_step(run, 1)) return 0;
    if (a.kind == J_UNDEF || b.kind == J_UNDEF) {
        pawl__jv_use_undef(run, a.kind == J_UNDEF ? a : b);
        return 0;
    }
    if (is_number(a) && is_number(b)) {
        if (is_int(a) && is_int(b)) return holds(op, (a.u.i > b.u.i) - (a.u.i < b.u.i));
        long double x = exact(a), y = exact(b);
        if (x != x || y != y) return 0;
        return holds(op, (x > y) - (x < y));
    }
    if (a.kind == J_STR && b.kind == J_STR) return holds(op, compare_bytes(a, b));
    if (a.kind == b.kind && (a.kind == J_LIST || a.kind == J_TUPLE) && depth < JINJA_MAX_VALUE_DEPTH) {
        const jlist *x = a.u.list, *y = b.u.list;
        for (uint32_t i = 0; i < x->n && i < y->n && run->status == PAWL_OK; i++)
            if (!pawl__jv_equal(run, x->v[i], y->v[i])) return order(run, op, x->v[i], y->v[i], depth + 1);
        return holds(op, (x->n > y->n) - (x->n < y->n));
    }
    pawl__jinja_fail(run, PAWL_EINVAL, "'%s' not supported between instances of '%s' and '%s'", signs[op],
                     pawl__jv_type(a), pawl__jv_type(b));
    return 0;
}

int pawl__jv_order(jrun *run, jop op, jval a, jval b)
{
    return order(run, op, a, b, 0);
}

static int range_holds(const jrange *r, jval v)
{
    int64_t x;
    if (v.kind == J_FLOAT) {
        if (!(fabs(v.u.f) < 9e18) || v.u.f != (double)(int64_t)v.u.f) return 0;
        x = (int64_t)v.u.f;
    } else if (is_int(v)) {
        x = v.u.i;
    } else {
        return 0;
    }
    int64_t diff;
    if (r->count == 0 || __builtin_sub_overflow(x, r->start, &diff) || diff % r->step != 0) return 0;
    return diff / r->step >= 0 && diff / r->step < r->count;
}

int pawl__jv_contains(jrun *run, jval c, jval v)
{
    switch ((jkind)c.kind) {
    case J_STR:
        if (v.kind != J_STR) {
            pawl__jinja_fail(run, PAWL_EINVAL, "'in <string>' requires string as left operand, not %s",
                             pawl__jv_type(v));
            return 0;
        }
        pawl__jinja_step(run, c.n / 64);
        return v.n == 0 || (c.n && memmem(c.u.s, c.n, v.u.s, v.n) != NULL);
    case J_DICT:
        if (!pawl__jv_hashable(v)) {
            pawl__jinja_fail(run, PAWL_EINVAL, "unhashable type: '%s'", pawl__jv_type(v));
            return 0;
        }
        if (v.kind == J_STR) pawl__jinja_step(run, v.n / 64);
        return pawl__jv_dict_find(c.u.dict, v) != NULL;
    case J_RANGE:
        return range_holds(c.u.range, v);
    default:
        break;
    }
    jiter *it = pawl__jv_iter(run, c);
    jval item;
    while (it && pawl__jv_next(run, it, &item))
        if (pawl__jv_same(item, v) || pawl__jv_equal(run, item, v)) return 1;
    return 0;
}

int pawl__jv_has_length(jval v)
{
    return v.kind == J_UNDEF || v.kind == J_STR || v.kind == J_LIST || v.kind == J_TUPLE || v.kind == J_DICT ||
           v.kind == J_VIEW || v.kind == J_RANGE || v.kind == J_LOOP;
}

int64_t pawl__jv_length(jrun *run, jval v)
{
    switch ((jkind)v.kind) {
    case J_UNDEF:
        return 0;
    case J_STR:
        pawl__jinja_step(run, v.n / 256);
        return pawl__jinja_chars(v.u.s, v.n);
    case J_LIST:
    case J_TUPLE:
        return v.u.list->n;
    case J_DICT:
    case J_VIEW:
        return v.u.dict->n;
    case J_RANGE:
        return v.u.range->count;
    case J_LOOP: {
        jval n = pawl__jinja_loop_attr(run, v.u.loop, pawl__jv_view("length", 6));
        return n.kind == J_INT ? n.u.i : -1;
    }
    default:
        pawl__jinja_fail(run, PAWL_EINVAL, "object of type '%s' has no len()", pawl__jv_type(v));
        return -1;
    }
}

/* ---- iteration ---- */

int pawl__jv_iterable(jval v)
{
    return pawl__jv_has_length(v) || v.kind == J_ITER;
}

jiter *pawl__jv_iter(jrun *run, jval v)
{
    if (v.kind == J_ITER) return v.u.iter;
    if (!pawl__jv_iterable(v) || v.kind == J_LOOP) {
        pawl__jinja_fail(run, PAWL_EINVAL, "'%s' object is not iterable", pawl__jv_type(v));
        return NULL;
    }
    jiter *it = pawl__jinja_alloc(run, 1, sizeof *it);
    if (!it) return NULL;
    it->src = v;
    switch ((jkind)v.kind) {
    case J_STR:
        it->how = JI_STR;
        break;
    case J_DICT:
    case J_VIEW:
        it->how = JI_DICT;
        break;
    case J_RANGE:
        it->how = JI_RANGE;
        break;
    default:
        it->how = JI_SEQ;
        break;
    }
    return it;
}

jval pawl__jv_iter_value(jiter *it)
{
    return it ? (jval){.kind = J_ITER, .u.iter = it} : pawl__jv_undef("nothing");
}

static jval dict_item(jrun *run, jval v, uint64_t i)
{
    const jdict *d = v.u.dict;
    if (v.kind == J_VIEW && v.flag == 'v') return d->vals[i];
    if (v.kind == J_VIEW && v.flag == 'i') return pawl__jv_pair(run, d->keys[i], d->vals[i]);
    return d->keys[i];
}

static int next_reversed(jrun *run, jiter *it, jval *out)
{
    jval v = it->src;
    uint64_t n = v.kind == J_RANGE                      ? (uint64_t)v.u.range->count
                 : v.kind == J_DICT || v.kind == J_VIEW ? v.u.dict->n
                                                        : v.u.list->n;
    if (it->pos >= n) return 0;
    uint64_t i = n - 1 - it->pos++;
    if (v.kind == J_RANGE)
        *out = pawl__jv_int(v.u.range->start + (int64_t)i * v.u.range->step);
    else if (v.kind == J_DICT || v.kind == J_VIEW)
        *out = dict_item(run, v, i);
    else
        *out = v.u.list->v[i];
    return 1;
}

int pawl__jv_next(jrun *run, jiter *it, jval *out)
{
    if (pawl__jinja_step(run, 1)) return 0;
    jval v = it->src;
    switch (it->how) {
    case JI_SEQ:
        if (v.kind == J_UNDEF || it->pos >= v.u.list->n) return 0;
        *out = v.u.list->v[it->pos++];
        return 1;
    case JI_STR: {
        if (it->pos >= v.n) return 0;
        uint32_t cp;
        int k = pawl__utf8_decode(v.u.s + it->pos, v.n - it->pos, &cp, NULL);
        if (k <= 0) k = 1;
        *out = pawl__jv_view(v.u.s + it->pos, (size_t)k);
        it->pos += (uint64_t)k;
        return 1;
    }
    case JI_DICT:
        if (it->pos >= v.u.dict->n) return 0;
        *out = dict_item(run, v, it->pos++);
        return run->status == PAWL_OK;
    case JI_RANGE:
        if (it->pos >= (uint64_t)v.u.range->count) return 0;
        *out = pawl__jv_int(v.u.range->start + (int64_t)it->pos++ * v.u.range->step);
        return 1;
    case JI_REVERSED:
        return next_reversed(run, it, out);
    case JI_FILTER_LOOP:
        return pawl__jinja_next_filtered(run, it, out);
    default: {
        /* Chains of map and select draw from one another: that nests like calls do. */
        if (pawl__jinja_enter(run)) return 0;
        int more = pawl__jinja_next_lazy(run, it, out);
        pawl__jinja_leave(run);
        return more && run->status == PAWL_OK;
    }
    }
}

jval pawl__jv_to_list(jrun *run, jval v)
{
    jiter *it = pawl__jv_iter(run, v);
    jval list = pawl__jv_list(run, 0), item;
    while (it && list.kind == J_LIST && pawl__jv_next(run, it, &item)) pawl__jv_push(run, list.u.list, item);
    return list;
}
