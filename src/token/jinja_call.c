/* Calls: binding arguments to built-in functions, the global functions, and the loop object. */
#include "token/jinja.h"

#include <string.h>
#include <time.h>

#include "base/utf8.h"

/* Position of the parameter with this name, or -1. params as in jfunc. */
static int param_index(const char *params, jval name)
{
    int i = 0;
    for (const char *p = params; *p; i++) {
        const char *comma = strchr(p, ',');
        size_t n = comma ? (size_t)(comma - p) : strlen(p);
        if (n == name.n && memcmp(p, name.u.s, n) == 0) return i;
        p += n + (comma != NULL);
    }
    return -1;
}

static int param_count(const char *params)
{
    int n = *params != 0;
    for (; *params; params++) n += *params == ',';
    return n;
}

jval pawl__jinja_invoke(jrun *run, const jfunc *f, jval self, const jargs *raw)
{
    jval a[JINJA_MAX_PARAMS] = {{.kind = J_ABSENT}};
    if (!f->params) return f->call(run, self, a, raw);
    int positional_only = *f->params == '/', count = param_count(f->params);
    const char *params = f->params + positional_only;
    if (raw->npos > (uint32_t)count)
        return pawl__jinja_fail(run, PAWL_EINVAL, "%s takes at most %d arguments, %u given", f->name, count, raw->npos);
    for (uint32_t i = 0; i < raw->npos; i++) a[i] = raw->pos[i];
    for (uint32_t i = 0; i < raw->nkw; i++) {
        int k = positional_only ? -1 : param_index(params, raw->names[i]);
        if (k < 0 || a[k].kind != J_ABSENT)
            return pawl__jinja_fail(run, PAWL_EINVAL, "%s got an unexpected keyword argument '%.*s'", f->name,
                                    (int)(raw->names[i].n < 100 ? raw->names[i].n : 100), raw->names[i].u.s);
        a[k] = raw->vals[i];
    }
    for (int i = 0; i < f->required; i++)
        if (a[i].kind == J_ABSENT)
            return pawl__jinja_fail(run, PAWL_EINVAL, "%s needs at least %d arguments", f->name, f->required);
    return f->call(run, self, a, raw);
}

static jval call_joiner(jcycler *j)
{
    return j->pos++ ? j->items->v[0] : pawl__jv_view("", 0);
}

jval pawl__jinja_call(jrun *run, jval callee, const jargs *args)
{
    switch ((jkind)callee.kind) {
    case J_FUNC:
        return pawl__jinja_invoke(run, callee.u.func, pawl__jv_none(), args);
    case J_METHOD:
        return pawl__jinja_invoke(run, callee.u.method->func, callee.u.method->self, args);
    case J_MACRO:
        return pawl__jinja_call_macro(run, callee.u.macro, args);
    case J_JOINER:
        if (args->npos || args->nkw) return pawl__jinja_fail(run, PAWL_EINVAL, "a joiner takes no arguments");
        return call_joiner(callee.u.cycler);
    case J_UNDEF:
        return pawl__jv_use_undef(run, callee);
    case J_LOOP:
        return pawl__jinja_fail(run, PAWL_EUNSUPPORTED, "recursive loops are not supported");
    default:
        return pawl__jinja_fail(run, PAWL_EINVAL, "'%s' object is not callable", pawl__jv_type(callee));
    }
}

/* ---- global functions ---- */

static jval g_range(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)self;
    for (uint32_t i = 0; i < raw->npos; i++) {
        if (a[i].kind == J_UNDEF) return pawl__jv_use_undef(run, a[i]);
        if (a[i].kind != J_INT && a[i].kind != J_BOOL)
            return pawl__jinja_fail(run, PAWL_EINVAL, "range: an integer is required, found %s", pawl__jv_type(a[i]));
    }
    jrange *r = pawl__jinja_alloc(run, 1, sizeof *r);
    if (!r) return pawl__jv_undef("nothing");
    r->start = raw->npos > 1 ? a[0].u.i : 0;
    r->stop = raw->npos > 1 ? a[1].u.i : a[0].u.i;
    r->step = raw->npos > 2 ? a[2].u.i : 1;
    if (r->step == 0) return pawl__jinja_fail(run, PAWL_EINVAL, "range: step must not be zero");
    __int128 span = r->step > 0 ? (__int128)r->stop - r->start : (__int128)r->start - r->stop;
    __int128 step = r->step > 0 ? (__int128)r->step : -(__int128)r->step;
    __int128 count = span > 0 ? (span - 1) / step + 1 : 0;
    if (count > JINJA_MAX_RANGE)
        return pawl__jinja_fail(run, PAWL_ETIMEDOUT, "range: more than %d items", JINJA_MAX_RANGE);
    r->count = (int64_t)count;
    return (jval){.kind = J_RANGE, .u.range = r};
}

/* dict(mapping or pairs, key=value...) */
static jdict *make_dict(jrun *run, const char *name, const jargs *raw)
{
    jdict *d = pawl__jv_dict_create(run);
    if (!d) return NULL;
    if (raw->npos > 1) {
        pawl__jinja_fail(run, PAWL_EINVAL, "%s expected at most 1 argument, got %u", name, raw->npos);
        return NULL;
    }
    if (raw->npos && raw->pos[0].kind == J_DICT) {
        const jdict *from = raw->pos[0].u.dict;
        for (uint32_t i = 0; i < from->n && !pawl__jinja_step(run, 1); i++)
            pawl__jv_dict_set(run, d, from->keys[i], from->vals[i]);
    } else if (raw->npos) {
        jiter *it = pawl__jv_iter(run, raw->pos[0]);
        jval item;
        while (it && pawl__jv_next(run, it, &item)) {
            jval pair = pawl__jv_to_list(run, item);
            if (run->status != PAWL_OK) return NULL;
            if (pair.u.list->n != 2) {
                pawl__jinja_fail(run, PAWL_EINVAL, "%s: expected pairs of key and value", name);
                return NULL;
            }
            pawl__jv_dict_set(run, d, pair.u.list->v[0], pair.u.list->v[1]);
        }
    }
    for (uint32_t i = 0; i < raw->nkw; i++) pawl__jv_dict_set(run, d, raw->names[i], raw->vals[i]);
    return d;
}

static jval g_dict(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)self, (void)a;
    return pawl__jv_dict(make_dict(run, "dict", raw));
}

static jval g_namespace(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)self, (void)a;
    jval v = pawl__jv_dict(make_dict(run, "namespace", raw));
    if (v.kind == J_DICT) v.kind = J_NS;
    return v;
}

static jval make_cycler(jrun *run, jkind kind, const jval *items, uint32_t n)
{
    jcycler *c = pawl__jinja_alloc(run, 1, sizeof *c);
    jval list = pawl__jv_list(run, n);
    if (!c || list.kind != J_LIST) return pawl__jv_undef("nothing");
    for (uint32_t i = 0; i < n; i++) pawl__jv_push(run, list.u.list, items[i]);
    c->items = list.u.list;
    return (jval){.kind = (uint8_t)kind, .u.cycler = c};
}

static jval g_cycler(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)self, (void)a;
    if (raw->npos == 0 || raw->nkw) return pawl__jinja_fail(run, PAWL_EINVAL, "cycler needs items");
    return make_cycler(run, J_CYCLER, raw->pos, raw->npos);
}

static jval g_joiner(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)self, (void)raw;
    jval sep = a[0].kind == J_ABSENT ? pawl__jv_view(", ", 2) : a[0];
    return make_cycler(run, J_JOINER, &sep, 1);
}

static jval g_raise(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)self, (void)raw;
    jval text = pawl__jv_to_str(run, a[0]);
    if (text.kind != J_STR) return text;
    return pawl__jinja_fail(run, PAWL_EINVAL, "%.*s", (int)(text.n < 400 ? text.n : 400), text.u.s);
}

static jval g_strftime(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)self, (void)raw;
    char format[256], text[2048];
    if (a[0].kind != J_STR || a[0].n + 2 > sizeof format || memchr(a[0].u.s, 0, a[0].n))
        return pawl__jinja_fail(run, PAWL_EINVAL, "strftime_now: expected a format of at most %zu bytes",
                                sizeof format - 2);
    /* A space in front: strftime's 0 for "does not fit" must differ from an empty result. */
    format[0] = ' ';
    memcpy(format + 1, a[0].u.s, a[0].n);
    format[a[0].n + 1] = 0;
    time_t now = run->now ? (time_t)run->now : time(NULL);
    struct tm tm;
    if (!localtime_r(&now, &tm)) return pawl__jinja_fail(run, PAWL_EINVAL, "strftime_now: the time is out of range");
    size_t n = strftime(text, sizeof text, format, &tm);
    if (n == 0 || pawl__utf8_valid(text, n) != n)
        return pawl__jinja_fail(run, PAWL_EINVAL, "strftime_now: the format gives no text that can be used");
    return pawl__jv_copy(run, text + 1, n - 1);
}

static const jfunc globals[] = {{"range", "/start,stop,step", 1, g_range},
                                {"namespace", NULL, 0, g_namespace},
                                {"dict", NULL, 0, g_dict},
                                {"cycler", NULL, 0, g_cycler},
                                {"joiner", "sep", 0, g_joiner},
                                {"raise_exception", "message", 1, g_raise},
                                {"strftime_now", "format", 1, g_strftime}};

const jfunc *pawl__jinja_global(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof globals / sizeof *globals; i++)
        if (strlen(globals[i].name) == n && memcmp(globals[i].name, name, n) == 0) return &globals[i];
    return NULL;
}

/* ---- loop ---- */

int pawl__jinja_loop_next(jrun *run, jloop *l)
{
    jval item = l->after;
    l->after.kind = J_ABSENT;
    if (item.kind == J_ABSENT && !pawl__jv_next(run, l->it, &item)) return 0;
    l->index0++;
    l->before = l->now;
    l->now = item;
    return run->status == PAWL_OK;
}

/* Draws one item ahead; zero when there is none. */
static int peek(jrun *run, jloop *l)
{
    if (l->after.kind == J_ABSENT && !pawl__jv_next(run, l->it, &l->after)) l->after.kind = J_ABSENT;
    return l->after.kind != J_ABSENT;
}

static int64_t loop_length(jrun *run, jloop *l)
{
    if (l->length >= 0) return l->length;
    if (l->seq.kind != J_ITER) {
        l->length = pawl__jv_length(run, l->seq);
    } else { /* a generator has to be emptied to be counted */
        int64_t ahead = l->after.kind != J_ABSENT;
        jval rest = pawl__jv_to_list(run, pawl__jv_iter_value(l->it));
        jiter *it = pawl__jv_iter(run, rest);
        if (!it || run->status != PAWL_OK) return 0;
        l->it = it;
        l->length = rest.u.list->n + l->index0 + 1 + ahead;
    }
    return l->length;
}

static jval l_cycle(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)a;
    if (raw->npos == 0 || raw->nkw) return pawl__jinja_fail(run, PAWL_EINVAL, "loop.cycle needs items");
    return raw->pos[(uint64_t)self.u.loop->index0 % raw->npos];
}

static jval l_changed(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)a;
    jval now = pawl__jv_tuple(run, raw->npos);
    for (uint32_t i = 0; i < raw->npos && now.kind == J_TUPLE; i++) pawl__jv_push(run, now.u.list, raw->pos[i]);
    int same = self.u.loop->changed.kind == J_TUPLE && pawl__jv_equal(run, self.u.loop->changed, now);
    self.u.loop->changed = now;
    return pawl__jv_bool(!same);
}

static jval loop_method(jrun *run, jloop *l, const jfunc *f)
{
    jmethod *m = pawl__jinja_alloc(run, 1, sizeof *m);
    if (!m) return pawl__jv_undef("nothing");
    m->self = (jval){.kind = J_LOOP, .u.loop = l};
    m->func = f;
    return (jval){.kind = J_METHOD, .u.method = m};
}

jval pawl__jinja_loop_attr(jrun *run, jloop *l, jval name)
{
    static const jfunc cycle = {"loop.cycle", NULL, 0, l_cycle}, changed = {"loop.changed", NULL, 0, l_changed};
    if (pawl__jv_is(name, "index0")) return pawl__jv_int(l->index0);
    if (pawl__jv_is(name, "index")) return pawl__jv_int(l->index0 + 1);
    if (pawl__jv_is(name, "first")) return pawl__jv_bool(l->index0 == 0);
    if (pawl__jv_is(name, "last")) return pawl__jv_bool(!peek(run, l));
    if (pawl__jv_is(name, "previtem")) return l->index0 == 0 ? pawl__jv_undef("there is no previous item") : l->before;
    if (pawl__jv_is(name, "nextitem")) return peek(run, l) ? l->after : pawl__jv_undef("there is no next item");
    if (pawl__jv_is(name, "length")) return pawl__jv_int(loop_length(run, l));
    if (pawl__jv_is(name, "revindex")) return pawl__jv_int(loop_length(run, l) - l->index0);
    if (pawl__jv_is(name, "revindex0")) return pawl__jv_int(loop_length(run, l) - l->index0 - 1);
    if (pawl__jv_is(name, "depth")) return pawl__jv_int(1);
    if (pawl__jv_is(name, "depth0")) return pawl__jv_int(0);
    if (pawl__jv_is(name, "cycle")) return loop_method(run, l, &cycle);
    if (pawl__jv_is(name, "changed")) return loop_method(run, l, &changed);
    return (jval){.kind = J_ABSENT};
}
