/* Operators, attributes, subscripts and slices. */
#include "token/jinja.h"

#include <math.h>
#include <string.h>

static int is_int(jval v)
{
    return v.kind == J_INT || v.kind == J_BOOL;
}

static int is_number(jval v)
{
    return is_int(v) || v.kind == J_FLOAT;
}

static double to_double(jval v)
{
    return v.kind == J_FLOAT ? v.u.f : (double)v.u.i;
}

static jval overflow(jrun *run)
{
    return pawl__jinja_fail(run, PAWL_EINVAL, "integer result does not fit 64 bits");
}

static jval zero_division(jrun *run)
{
    return pawl__jinja_fail(run, PAWL_EINVAL, "division by zero");
}

/* ---- arithmetic ---- */

static jval int_power(jrun *run, int64_t a, int64_t b)
{
    if (b < 0) {
        if (a == 0) return zero_division(run);
        return pawl__jv_float(pow((double)a, (double)b));
    }
    if (a == 0 || a == 1) return pawl__jv_int(b == 0 ? 1 : a);
    if (a == -1) return pawl__jv_int(b % 2 ? -1 : 1);
    int64_t r = 1;
    for (; b > 0; b--)
        if (__builtin_mul_overflow(r, a, &r)) return overflow(run);
    return pawl__jv_int(r);
}

static jval int_binary(jrun *run, jop op, int64_t a, int64_t b)
{
    int64_t r;
    switch (op) {
    case OP_ADD:
        return __builtin_add_overflow(a, b, &r) ? overflow(run) : pawl__jv_int(r);
    case OP_SUB:
        return __builtin_sub_overflow(a, b, &r) ? overflow(run) : pawl__jv_int(r);
    case OP_MUL:
        return __builtin_mul_overflow(a, b, &r) ? overflow(run) : pawl__jv_int(r);
    case OP_DIV:
        if (b == 0) return zero_division(run);
        if (a == 0) return pawl__jv_float(b < 0 ? -0.0 : 0.0); /* as Python has it: the sign is taken first */
        return pawl__jv_float((double)((long double)a / (long double)b));
    case OP_FLOORDIV:
        if (b == 0) return zero_division(run);
        if (b == -1) return a == INT64_MIN ? overflow(run) : pawl__jv_int(-a);
        return pawl__jv_int(a / b - (a % b != 0 && (a < 0) != (b < 0)));
    case OP_MOD:
        if (b == 0) return zero_division(run);
        if (b == -1) return pawl__jv_int(0);
        r = a % b;
        return pawl__jv_int(r != 0 && (r < 0) != (b < 0) ? r + b : r);
    default:
        return int_power(run, a, b);
    }
}

static jval float_binary(jrun *run, jop op, double a, double b)
{
    switch (op) {
    case OP_ADD:
        return pawl__jv_float(a + b);
    case OP_SUB:
        return pawl__jv_float(a - b);
    case OP_MUL:
        return pawl__jv_float(a * b);
    case OP_DIV:
        return b == 0 ? zero_division(run) : pawl__jv_float(a / b);
    case OP_POW: {
        if (a == 0 && b < 0) return zero_division(run);
        double r = pow(a, b);
        if (isnan(r) && !isnan(a) && !isnan(b))
            return pawl__jinja_fail(run, PAWL_EINVAL, "a power that is a complex number");
        if (isinf(r) && isfinite(a) && isfinite(b))
            return pawl__jinja_fail(run, PAWL_EINVAL, "numerical result out of range");
        return pawl__jv_float(r);
    }
    default:
        break;
    }
    if (b == 0) return zero_division(run);
    /* Floor division and its remainder, the remainder with the sign of b. */
    double mod = fmod(a, b), div = (a - mod) / b;
    if (mod != 0) {
        if ((b < 0) != (mod < 0)) {
            mod += b;
            div -= 1;
        }
    } else {
        mod = copysign(0, b);
    }
    if (op == OP_MOD) return pawl__jv_float(mod);
    double floored = copysign(0, a / b);
    if (div != 0) {
        floored = floor(div);
        if (div - floored > 0.5) floored += 1;
    }
    return pawl__jv_float(floored);
}

static jval add_strings(jrun *run, jval a, jval b)
{
    pawl_buf buf = pawl__jv_buf(run);
    int safe = a.flag || b.flag;
    if (safe && !a.flag)
        pawl__jv_escape(a.u.s, a.n, &buf);
    else
        pawl__buf_append(&buf, a.u.s, a.n);
    if (safe && !b.flag)
        pawl__jv_escape(b.u.s, b.n, &buf);
    else
        pawl__buf_append(&buf, b.u.s, b.n);
    jval v = pawl__jv_take(run, &buf);
    if (v.kind == J_STR) v.flag = (uint8_t)safe;
    return v;
}

static jval add_lists(jrun *run, jval a, jval b)
{
    const jlist *x = a.u.list, *y = b.u.list;
    if (x->n > UINT32_MAX - y->n || pawl__jinja_step(run, (uint64_t)x->n + y->n)) return overflow(run);
    jval v = pawl__jv_list(run, x->n + y->n);
    if (v.kind != J_LIST) return v;
    for (uint32_t i = 0; i < x->n; i++) pawl__jv_push(run, v.u.list, x->v[i]);
    for (uint32_t i = 0; i < y->n; i++) pawl__jv_push(run, v.u.list, y->v[i]);
    v.kind = a.kind;
    return v;
}

static jval repeat(jrun *run, jval seq, int64_t count)
{
    uint64_t n = seq.kind == J_STR ? seq.n : seq.u.list->n, total;
    if (count < 0) count = 0;
    if (__builtin_mul_overflow(n, (uint64_t)count, &total) || total > run->max_string)
        return pawl__jinja_fail(run, PAWL_ETIMEDOUT, "a repetition of more than %zu bytes or items", run->max_string);
    if (n == 0) count = 0;
    if (seq.kind == J_STR) {
        char *p = pawl__jinja_alloc(run, total + 1, 1);
        if (!p || pawl__jinja_step(run, total / 256)) return pawl__jv_undef("nothing");
        for (int64_t i = 0; i < count; i++) memcpy(p + (uint64_t)i * n, seq.u.s, n);
        jval v = pawl__jv_view(p, total);
        v.flag = seq.flag;
        return v;
    }
    if (pawl__jinja_step(run, total)) return pawl__jv_undef("nothing");
    jval v = pawl__jv_list(run, (uint32_t)total);
    for (int64_t i = 0; i < count && v.kind == J_LIST; i++)
        for (uint32_t j = 0; j < n; j++) pawl__jv_push(run, v.u.list, seq.u.list->v[j]);
    if (v.kind == J_LIST) v.kind = seq.kind;
    return v;
}

static int is_sequence(jval v)
{
    return v.kind == J_STR || v.kind == J_LIST || v.kind == J_TUPLE;
}

jval pawl__jinja_binary(jrun *run, jop op, jval a, jval b)
{
    static const char *const signs[] = {[OP_ADD] = "+",       [OP_SUB] = "-", [OP_MUL] = "*", [OP_DIV] = "/",
                                        [OP_FLOORDIV] = "//", [OP_MOD] = "%", [OP_POW] = "**"};
    if (is_int(a) && is_int(b)) return int_binary(run, op, a.u.i, b.u.i);
    if (is_number(a) && is_number(b)) return float_binary(run, op, to_double(a), to_double(b));
    if (op == OP_MOD && a.kind == J_STR) return pawl__jinja_format(run, a, b);
    if (a.kind == J_UNDEF) return pawl__jv_use_undef(run, a);
    if (b.kind == J_UNDEF) return pawl__jv_use_undef(run, b);
    if (op == OP_ADD && a.kind == J_STR && b.kind == J_STR) return add_strings(run, a, b);
    if (op == OP_ADD && a.kind == b.kind && (a.kind == J_LIST || a.kind == J_TUPLE)) return add_lists(run, a, b);
    if (op == OP_MUL && is_sequence(a) && is_int(b)) return repeat(run, a, b.u.i);
    if (op == OP_MUL && is_int(a) && is_sequence(b)) return repeat(run, b, a.u.i);
    return pawl__jinja_fail(run, PAWL_EINVAL, "unsupported operand types for %s: '%s' and '%s'", signs[op],
                            pawl__jv_type(a), pawl__jv_type(b));
}

jval pawl__jinja_unary(jrun *run, jop op, jval a)
{
    if (op == OP_NOT) return pawl__jv_bool(!pawl__jv_truth(run, a));
    if (a.kind == J_UNDEF) return pawl__jv_use_undef(run, a);
    if (a.kind == J_FLOAT) return op == OP_NEG ? pawl__jv_float(-a.u.f) : a;
    if (!is_int(a))
        return pawl__jinja_fail(run, PAWL_EINVAL, "bad operand type for unary %s: '%s'", op == OP_NEG ? "-" : "+",
                                pawl__jv_type(a));
    if (op == OP_NEG && a.u.i == INT64_MIN) return overflow(run);
    return pawl__jv_int(op == OP_NEG ? -a.u.i : a.u.i);
}

int pawl__jinja_compare(jrun *run, jop op, jval a, jval b)
{
    switch (op) {
    case OP_EQ:
        return pawl__jv_equal(run, a, b);
    case OP_NE:
        return !pawl__jv_equal(run, a, b);
    case OP_IN:
        return pawl__jv_contains(run, b, a);
    case OP_NOTIN:
        return !pawl__jv_contains(run, b, a);
    default:
        return pawl__jv_order(run, op, a, b);
    }
}

/* ---- attributes and subscripts ---- */

static jval missing(jval obj, jval name)
{
    return (jval){.kind = J_UNDEF, .flag = (uint8_t)(JU_ATTR + obj.kind), .n = name.n, .u.s = name.u.s};
}

static jval macro_attr(jrun *run, const jmacro *m, jval name)
{
    const jnode *n = m->node;
    if (pawl__jv_is(name, "name")) return n->value.kind == J_STR ? n->value : pawl__jv_none();
    if (pawl__jv_is(name, "catch_kwargs")) return pawl__jv_bool(n->op & JM_KWARGS);
    if (pawl__jv_is(name, "catch_varargs")) return pawl__jv_bool(n->op & JM_VARARGS);
    if (pawl__jv_is(name, "caller")) return pawl__jv_bool(n->op & JM_CALLER);
    if (pawl__jv_is(name, "arguments")) {
        jval list = pawl__jv_list(run, 0);
        for (const jnode *p = n->a; p && list.kind == J_LIST; p = p->next) pawl__jv_push(run, list.u.list, p->value);
        if (list.kind == J_LIST) list.kind = J_TUPLE;
        return list;
    }
    return (jval){.kind = J_ABSENT};
}

jval pawl__jinja_own_attr(jrun *run, jval obj, jval name)
{
    const char *refused = NULL;
    const jfunc *f = pawl__jinja_method(obj, name, &refused);
    if (f) {
        jmethod *m = pawl__jinja_alloc(run, 1, sizeof *m);
        if (!m) return pawl__jv_undef("nothing");
        m->self = obj;
        m->func = f;
        return (jval){.kind = J_METHOD, .u.method = m};
    }
    if (refused && *refused) return pawl__jv_undef(refused);
    if (refused)
        return pawl__jinja_fail(run, PAWL_EUNSUPPORTED, "%s.%.*s is not supported", pawl__jv_type(obj), (int)name.n,
                                name.u.s);
    switch ((jkind)obj.kind) {
    case J_NS: {
        jval *v = pawl__jv_dict_find(obj.u.dict, name);
        if (v) return *v;
        break;
    }
    case J_LOOP:
        return pawl__jinja_loop_attr(run, obj.u.loop, name);
    case J_MACRO:
        return macro_attr(run, obj.u.macro, name);
    case J_RANGE:
        if (pawl__jv_is(name, "start")) return pawl__jv_int(obj.u.range->start);
        if (pawl__jv_is(name, "stop")) return pawl__jv_int(obj.u.range->stop);
        if (pawl__jv_is(name, "step")) return pawl__jv_int(obj.u.range->step);
        break;
    case J_CYCLER:
        if (pawl__jv_is(name, "current")) return obj.u.cycler->items->v[obj.u.cycler->pos % obj.u.cycler->items->n];
        break;
    default:
        break;
    }
    return (jval){.kind = J_ABSENT};
}

jval pawl__jinja_attr(jrun *run, jval obj, jval name)
{
    if (obj.kind == J_UNDEF) return pawl__jv_use_undef(run, obj);
    jval v = pawl__jinja_own_attr(run, obj, name);
    if (v.kind != J_ABSENT) return v;
    if (obj.kind == J_DICT) {
        jval *found = pawl__jv_dict_find(obj.u.dict, name);
        if (found) return *found;
    }
    return missing(obj, name);
}

static jval char_at(jval s, int64_t i)
{
    size_t begin = pawl__jinja_offset(s.u.s, s.n, (uint32_t)i);
    size_t k = pawl__jinja_offset(s.u.s + begin, s.n - begin, 1);
    jval v = pawl__jv_view(s.u.s + begin, k);
    v.flag = s.flag;
    return v;
}

jval pawl__jinja_item(jrun *run, jval obj, jval key)
{
    if (obj.kind == J_UNDEF) return pawl__jv_use_undef(run, obj);
    if (is_int(key) && (is_sequence(obj) || obj.kind == J_RANGE)) {
        int64_t n = pawl__jv_length(run, obj), i = key.u.i < 0 ? key.u.i + n : key.u.i;
        if (i < 0 || i >= n) return pawl__jv_undef("the sequence has no element of that number");
        if (obj.kind == J_STR) return char_at(obj, i);
        if (obj.kind == J_RANGE) return pawl__jv_int(obj.u.range->start + i * obj.u.range->step);
        return obj.u.list->v[i];
    }
    if (obj.kind == J_DICT) {
        if (key.kind == J_STR) pawl__jinja_step(run, key.n / 64);
        jval *v = pawl__jv_dict_find(obj.u.dict, key);
        if (v) return *v;
    }
    if (key.kind != J_STR) return pawl__jv_undef("the object has no such element");
    jval v = pawl__jinja_own_attr(run, obj, key);
    return v.kind != J_ABSENT ? v : missing(obj, key);
}

/* Clamps the bounds of a slice to a sequence of n items, as Python does; returns the number of items taken. */
static int64_t slice_indices(int64_t n, jval vstart, jval vstop, int64_t step, int64_t *start)
{
    int64_t low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n, stop;
    *start = vstart.kind == J_NONE ? (step < 0 ? high : low) : vstart.u.i;
    stop = vstop.kind == J_NONE ? (step < 0 ? low : high) : vstop.u.i;
    if (vstart.kind != J_NONE) {
        if (*start < 0) *start = *start + n < low ? low : *start + n;
        if (*start > high) *start = high;
    }
    if (vstop.kind != J_NONE) {
        if (stop < 0) stop = stop + n < low ? low : stop + n;
        if (stop > high) stop = high;
    }
    if (step < 0) return stop < *start ? (*start - stop - 1) / -step + 1 : 0;
    return *start < stop ? (stop - *start - 1) / step + 1 : 0;
}

static jval slice_string(jrun *run, jval s, int64_t start, int64_t step, int64_t count)
{
    size_t begin = pawl__jinja_offset(s.u.s, s.n, (uint32_t)(step < 0 ? start + (count - 1) * step : start));
    if (step == 1) {
        size_t k = pawl__jinja_offset(s.u.s + begin, s.n - begin, (uint32_t)count);
        return pawl__jv_view(s.u.s + begin, k);
    }
    /* Walks forward through the characters taken; a negative step writes them from the end. */
    char *out = pawl__jinja_alloc(run, s.n + 1, 1);
    if (!out || pawl__jinja_step(run, s.n / 16)) return pawl__jv_undef("nothing");
    uint32_t stride = (uint32_t)(step < 0 ? -step : step);
    size_t used = 0, p = begin;
    for (int64_t i = 0; i < count; i++) {
        size_t k = pawl__jinja_offset(s.u.s + p, s.n - p, 1);
        used += k;
        memcpy(step < 0 ? out + s.n - used : out + used - k, s.u.s + p, k);
        p += pawl__jinja_offset(s.u.s + p, s.n - p, stride);
    }
    return pawl__jv_view(step < 0 ? out + s.n - used : out, used);
}

static jval slice_range(jrun *run, const jrange *r, int64_t start, int64_t step, int64_t count)
{
    jrange *out = pawl__jinja_alloc(run, 1, sizeof *out);
    if (!out) return pawl__jv_undef("nothing");
    out->start = r->start + start * r->step;
    if (__builtin_mul_overflow(r->step, step, &out->step) || __builtin_mul_overflow(count, out->step, &out->stop) ||
        __builtin_add_overflow(out->stop, out->start, &out->stop))
        return overflow(run);
    out->count = count;
    return (jval){.kind = J_RANGE, .u.range = out};
}

static int bad_index(jval v)
{
    return v.kind != J_NONE && !is_int(v);
}

jval pawl__jinja_slice(jrun *run, jval obj, jval vstart, jval vstop, jval vstep)
{
    if (obj.kind == J_UNDEF) return pawl__jv_use_undef(run, obj);
    if (!is_sequence(obj) && obj.kind != J_RANGE)
        return pawl__jinja_fail(run, PAWL_EINVAL, "'%s' object cannot be sliced", pawl__jv_type(obj));
    if (bad_index(vstart) || bad_index(vstop) || bad_index(vstep))
        return pawl__jinja_fail(run, PAWL_EINVAL, "slice indices must be integers or None");
    int64_t step = vstep.kind == J_NONE ? 1 : vstep.u.i, start;
    if (step == 0) return pawl__jinja_fail(run, PAWL_EINVAL, "slice step cannot be zero");
    /* No sequence is as long as this, so the result is the same and sums cannot overflow. */
    const int64_t most = (int64_t)1 << 40;
    step = step > most ? most : step < -most ? -most : step;
    int64_t n = pawl__jv_length(run, obj);
    int64_t count = slice_indices(n, vstart, vstop, step, &start);
    if (pawl__jinja_step(run, obj.kind == J_STR ? 1 : (uint64_t)count)) return pawl__jv_undef("nothing");
    jval v;
    if (obj.kind == J_RANGE) {
        return slice_range(run, obj.u.range, start, step, count);
    } else if (obj.kind == J_STR) {
        v = count == 0 ? pawl__jv_view("", 0) : slice_string(run, obj, start, step, count);
        if (v.kind == J_STR) v.flag = obj.flag;
        return v;
    }
    v = pawl__jv_list(run, (uint32_t)count);
    for (int64_t i = 0; i < count && v.kind == J_LIST; i++)
        pawl__jv_push(run, v.u.list, obj.u.list->v[start + i * step]);
    if (v.kind == J_LIST) v.kind = obj.kind;
    return v;
}

static int is_number_text(jval s)
{
    for (uint32_t i = 0; i < s.n; i++)
        if (s.u.s[i] < '0' || s.u.s[i] > '9') return 0;
    return s.n > 0 && s.n < 19;
}

jval pawl__jinja_path(jrun *run, jval obj, jval path, jval instead)
{
    if (path.kind == J_NONE || path.kind == J_ABSENT) return obj;
    int replace = instead.kind != J_NONE && instead.kind != J_ABSENT;
    if (path.kind != J_STR) {
        obj = pawl__jinja_item(run, obj, path);
        return replace && obj.kind == J_UNDEF ? instead : obj;
    }
    const char *s = path.u.s, *end = s + path.n;
    for (;;) {
        const char *dot = s < end ? memchr(s, '.', (size_t)(end - s)) : NULL;
        jval part = pawl__jv_view(s, (size_t)((dot ? dot : end) - s));
        if (is_number_text(part)) {
            int64_t i = 0;
            for (uint32_t k = 0; k < part.n; k++) i = i * 10 + (part.u.s[k] - '0');
            part = pawl__jv_int(i);
        }
        obj = pawl__jinja_item(run, obj, part);
        if (replace && obj.kind == J_UNDEF) obj = instead;
        if (!dot || pawl__jinja_step(run, 1)) return obj;
        s = dot + 1;
    }
}
