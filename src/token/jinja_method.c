/* Methods of str, dict, list, tuple and range. What changes a list or dict is hidden, as Jinja2's immutable sandbox has
 * it; what Python has and pawl does not is an error that says so, never a silent undefined. */
#include "token/jinja.h"

#include <string.h>

#include "base/utf8.h"

static jval undef(void)
{
    return pawl__jv_undef("nothing");
}

static jval bad_argument(jrun *run, const char *method, jval v)
{
    return pawl__jinja_fail(run, PAWL_EINVAL, "%s: unexpected argument of type '%s'", method, pawl__jv_type(v));
}

static jval like(jval self, const char *s, size_t n)
{
    jval v = pawl__jv_view(s, n);
    v.flag = self.flag;
    return v;
}

/* Methods of a string marked safe escape plain strings passed to them. */
static jval escaped_for(jrun *run, jval self, jval v)
{
    if (!self.flag || v.kind != J_STR || v.flag) return v;
    pawl_buf b = pawl__jv_buf(run);
    pawl__jv_escape(v.u.s, v.n, &b);
    return pawl__jv_take(run, &b);
}

static int want_int(jrun *run, const char *method, jval v, int64_t otherwise, int64_t *out)
{
    *out = otherwise;
    if (v.kind == J_ABSENT) return 1;
    if (v.kind != J_INT && v.kind != J_BOOL) {
        bad_argument(run, method, v);
        return 0;
    }
    *out = v.u.i;
    return 1;
}

/* ---- str ---- */

static jval m_upper(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)a, (void)raw;
    return pawl__jinja_upper(run, self);
}

static jval m_lower(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)a, (void)raw;
    return pawl__jinja_lower(run, self);
}

static jval m_title(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)a, (void)raw;
    return pawl__jinja_title(run, self);
}

static jval m_capitalize(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)a, (void)raw;
    return pawl__jinja_capitalize(run, self);
}

static jval m_swapcase(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)a, (void)raw;
    return pawl__jinja_swapcase(run, self);
}

static jval strip(jrun *run, const char *name, jval self, jval chars, int left, int right)
{
    if (chars.kind != J_ABSENT && chars.kind != J_NONE && chars.kind != J_STR) return bad_argument(run, name, chars);
    return pawl__jinja_strip(run, self, escaped_for(run, self, chars), left, right);
}

static jval m_strip(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)raw;
    return strip(run, "strip", self, a[0], 1, 1);
}

static jval m_lstrip(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)raw;
    return strip(run, "lstrip", self, a[0], 1, 0);
}

static jval m_rstrip(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)raw;
    return strip(run, "rstrip", self, a[0], 0, 1);
}

static void push_part(jrun *run, jlist *l, jval self, size_t begin, size_t end)
{
    pawl__jinja_step(run, 1);
    pawl__jv_push(run, l, like(self, self.u.s + begin, end - begin));
}

/* One character's length at p if it is white space, else 0. */
static size_t space_at(jval s, size_t p)
{
    uint32_t cp;
    int k = p < s.n ? pawl__utf8_decode(s.u.s + p, s.n - p, &cp, NULL) : 0;
    return k > 0 && pawl__jinja_is_space(cp) ? (size_t)k : 0;
}

static size_t char_len(jval s, size_t p)
{
    return pawl__jinja_offset(s.u.s + p, s.n - p, 1);
}

static void split_space(jrun *run, jlist *l, jval s, int64_t max)
{
    size_t p = 0, k;
    for (;;) {
        while ((k = space_at(s, p)) > 0) p += k;
        if (p >= s.n || run->status != PAWL_OK) return;
        if (max >= 0 && l->n >= max) {
            jval rest = pawl__jinja_strip(run, like(s, s.u.s + p, s.n - p), pawl__jv_none(), 0, 1);
            pawl__jv_push(run, l, rest);
            return;
        }
        size_t begin = p;
        while (p < s.n && !space_at(s, p)) p += char_len(s, p);
        push_part(run, l, s, begin, p);
    }
}

/* The last white space character that ends at or before end: its start, or SIZE_MAX. */
static size_t previous_char(jval s, size_t end)
{
    do end--;
    while (end > 0 && ((unsigned char)s.u.s[end] & 0xc0) == 0x80);
    return end;
}

static void rsplit_space(jrun *run, jlist *l, jval s, int64_t max)
{
    size_t end = s.n;
    for (;;) {
        while (end > 0 && space_at(s, previous_char(s, end))) end = previous_char(s, end);
        if (end == 0 || run->status != PAWL_OK) return;
        if (max >= 0 && l->n >= max) {
            pawl__jv_push(run, l, pawl__jinja_strip(run, like(s, s.u.s, end), pawl__jv_none(), 1, 0));
            return;
        }
        size_t stop = end;
        while (end > 0 && !space_at(s, previous_char(s, end))) end = previous_char(s, end);
        push_part(run, l, s, end, stop);
    }
}

static void split_by(jrun *run, jlist *l, jval s, jval sep, int64_t max)
{
    size_t p = 0;
    while ((max < 0 || l->n < max) && run->status == PAWL_OK) {
        const char *hit = p < s.n ? memmem(s.u.s + p, s.n - p, sep.u.s, sep.n) : NULL;
        if (!hit) break;
        push_part(run, l, s, p, (size_t)(hit - s.u.s));
        p = (size_t)(hit - s.u.s) + sep.n;
    }
    push_part(run, l, s, p, s.n);
}

/* The last sep (not empty) that ends at or before end. */
static const char *last_of(jrun *run, jval s, size_t end, jval sep)
{
    for (size_t p = end; p >= sep.n; p--) {
        if (s.u.s[p - sep.n] != *sep.u.s) continue;
        if (memcmp(s.u.s + p - sep.n, sep.u.s, sep.n) == 0) return s.u.s + p - sep.n;
        if (pawl__jinja_step(run, sep.n / 64)) break;
    }
    return NULL;
}

static void rsplit_by(jrun *run, jlist *l, jval s, jval sep, int64_t max)
{
    size_t end = s.n;
    while ((max < 0 || l->n < max) && run->status == PAWL_OK) {
        const char *hit = last_of(run, s, end, sep);
        if (!hit) break;
        push_part(run, l, s, (size_t)(hit - s.u.s) + sep.n, end);
        end = (size_t)(hit - s.u.s);
    }
    push_part(run, l, s, 0, end);
}

static void reverse(jlist *l)
{
    for (uint32_t i = 0; i < l->n / 2; i++) {
        jval t = l->v[i];
        l->v[i] = l->v[l->n - 1 - i];
        l->v[l->n - 1 - i] = t;
    }
}

static jval split(jrun *run, jval self, jval *a, int from_right)
{
    int64_t max;
    if (!want_int(run, "split", a[1], -1, &max)) return undef();
    if (a[0].kind != J_ABSENT && a[0].kind != J_NONE && a[0].kind != J_STR) return bad_argument(run, "split", a[0]);
    if (a[0].kind == J_STR && a[0].n == 0) return pawl__jinja_fail(run, PAWL_EINVAL, "empty separator");
    jval list = pawl__jv_list(run, 0);
    if (list.kind != J_LIST || pawl__jinja_step(run, self.n / 16)) return list;
    if (a[0].kind != J_STR)
        (from_right ? rsplit_space : split_space)(run, list.u.list, self, max);
    else
        (from_right ? rsplit_by : split_by)(run, list.u.list, self, a[0], max);
    if (from_right) reverse(list.u.list);
    return list;
}

static jval m_split(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)raw;
    return split(run, self, a, 0);
}

static jval m_rsplit(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)raw;
    return split(run, self, a, 1);
}

static jval m_splitlines(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)raw;
    return pawl__jinja_splitlines(run, self, pawl__jv_truth(run, a[0]));
}

static jval m_partition(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)raw;
    jval sep = escaped_for(run, self, a[0]);
    if (sep.kind != J_STR) return bad_argument(run, "partition", sep);
    if (sep.n == 0) return pawl__jinja_fail(run, PAWL_EINVAL, "empty separator");
    pawl__jinja_step(run, self.n / 64);
    const char *hit = self.n ? memmem(self.u.s, self.n, sep.u.s, sep.n) : NULL;
    size_t at = hit ? (size_t)(hit - self.u.s) : self.n, after = hit ? at + sep.n : self.n;
    jval t = pawl__jv_tuple(run, 3);
    if (t.kind != J_TUPLE) return t;
    push_part(run, t.u.list, self, 0, at);
    push_part(run, t.u.list, self, at, after);
    push_part(run, t.u.list, self, after, self.n);
    return t;
}

static jval m_rpartition(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)raw;
    jval sep = escaped_for(run, self, a[0]);
    if (sep.kind != J_STR) return bad_argument(run, "rpartition", sep);
    if (sep.n == 0) return pawl__jinja_fail(run, PAWL_EINVAL, "empty separator");
    pawl__jinja_step(run, self.n / 64);
    const char *hit = last_of(run, self, self.n, sep);
    size_t at = hit ? (size_t)(hit - self.u.s) : 0, after = hit ? at + sep.n : 0;
    jval t = pawl__jv_tuple(run, 3);
    if (t.kind != J_TUPLE) return t;
    push_part(run, t.u.list, self, 0, at);
    push_part(run, t.u.list, self, at, after);
    push_part(run, t.u.list, self, after, self.n);
    return t;
}

/* The part of self that optional start and end arguments (in characters) select; *lo is its first character's number.
 * Zero when the range is empty in Python's sense: start lies behind the end. */
static int window(jrun *run, const char *method, jval self, const jval *a, jval *part, int64_t *lo)
{
    int64_t n = pawl__jinja_chars(self.u.s, self.n), start, end;
    jval from = a[0].kind == J_NONE ? (jval){.kind = J_ABSENT} : a[0];
    jval to = a[1].kind == J_NONE ? (jval){.kind = J_ABSENT} : a[1];
    if (!want_int(run, method, from, 0, &start) || !want_int(run, method, to, n, &end)) return 0;
    if (start < 0) start = start + n < 0 ? 0 : start + n;
    if (end < 0) end = end + n < 0 ? 0 : end + n;
    if (end > n) end = n;
    if (start > end) return 0;
    size_t b = pawl__jinja_offset(self.u.s, self.n, (uint32_t)start);
    size_t k = pawl__jinja_offset(self.u.s + b, self.n - b, (uint32_t)(end - start));
    *part = pawl__jv_view(self.u.s + b, k);
    *lo = start;
    pawl__jinja_step(run, self.n / 64);
    return 1;
}

static int affix(jval s, jval word, int at_end)
{
    return word.n <= s.n && memcmp(at_end ? s.u.s + s.n - word.n : s.u.s, word.u.s, word.n) == 0;
}

static jval starts_or_ends(jrun *run, const char *method, jval self, jval *a, int at_end)
{
    jval part;
    int64_t lo;
    int ok = window(run, method, self, a + 1, &part, &lo);
    if (a[0].kind == J_STR) return pawl__jv_bool(ok && affix(part, a[0], at_end));
    if (a[0].kind != J_TUPLE) return bad_argument(run, method, a[0]);
    for (uint32_t i = 0; i < a[0].u.list->n; i++) {
        jval word = a[0].u.list->v[i];
        if (word.kind != J_STR) return bad_argument(run, method, word);
        if (ok && affix(part, word, at_end)) return pawl__jv_bool(1);
    }
    return pawl__jv_bool(0);
}

static jval m_startswith(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)raw;
    return starts_or_ends(run, "startswith", self, a, 0);
}

static jval m_endswith(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)raw;
    return starts_or_ends(run, "endswith", self, a, 1);
}

/* Character number of a[0] in self, or -1. */
static int64_t search(jrun *run, const char *method, jval self, jval *a, int last)
{
    jval part;
    int64_t lo;
    if (a[0].kind != J_STR) {
        bad_argument(run, method, a[0]);
        return -1;
    }
    if (!window(run, method, self, a + 1, &part, &lo)) return -1;
    const char *hit = a[0].n == 0 ? part.u.s + (last ? part.n : 0)
                      : last      ? last_of(run, part, part.n, a[0])
                      : part.n    ? memmem(part.u.s, part.n, a[0].u.s, a[0].n)
                                  : NULL;
    return hit ? lo + pawl__jinja_chars(part.u.s, (size_t)(hit - part.u.s)) : -1;
}

static jval m_find(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)raw;
    return pawl__jv_int(search(run, "find", self, a, 0));
}

static jval m_rfind(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)raw;
    return pawl__jv_int(search(run, "rfind", self, a, 1));
}

static jval m_index(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)raw;
    int64_t i = search(run, "index", self, a, 0);
    return i < 0 ? pawl__jinja_fail(run, PAWL_EINVAL, "substring not found") : pawl__jv_int(i);
}

static jval m_rindex(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)raw;
    int64_t i = search(run, "rindex", self, a, 1);
    return i < 0 ? pawl__jinja_fail(run, PAWL_EINVAL, "substring not found") : pawl__jv_int(i);
}

static jval m_count(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)raw;
    jval part;
    int64_t lo, n = 0;
    if (a[0].kind != J_STR) return bad_argument(run, "count", a[0]);
    if (!window(run, "count", self, a + 1, &part, &lo)) return pawl__jv_int(0);
    if (a[0].n == 0) return pawl__jv_int((int64_t)pawl__jinja_chars(part.u.s, part.n) + 1);
    const char *p = part.u.s, *end = p + part.n;
    while (p < end && (p = memmem(p, (size_t)(end - p), a[0].u.s, a[0].n)) != NULL) {
        n++;
        p += a[0].n;
    }
    return pawl__jv_int(n);
}

static jval m_replace(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)raw;
    int64_t count;
    if (a[0].kind != J_STR) return bad_argument(run, "replace", a[0]);
    if (a[1].kind != J_STR) return bad_argument(run, "replace", a[1]);
    if (!want_int(run, "replace", a[2], -1, &count)) return undef();
    return pawl__jinja_replace(run, self, escaped_for(run, self, a[0]), escaped_for(run, self, a[1]), count);
}

static jval m_join(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)raw;
    jiter *it = pawl__jv_iter(run, a[0]);
    pawl_buf b = pawl__jv_buf(run);
    jval item;
    for (int first = 1; it && pawl__jv_next(run, it, &item) && !b.failed; first = 0) {
        if (item.kind != J_STR && !self.flag) {
            pawl__buf_free(&b);
            return pawl__jinja_fail(run, PAWL_EINVAL, "join: expected a str, found %s", pawl__jv_type(item));
        }
        item = escaped_for(run, self, pawl__jv_to_str(run, item));
        if (!first) pawl__buf_append(&b, self.u.s, self.n);
        pawl__buf_append(&b, item.u.s, item.kind == J_STR ? item.n : 0);
    }
    jval v = pawl__jv_take(run, &b);
    if (v.kind == J_STR) v.flag = self.flag;
    return v;
}

static jval m_removeprefix(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)raw;
    if (a[0].kind != J_STR) return bad_argument(run, "removeprefix", a[0]);
    if (!affix(self, a[0], 0)) return pawl__jv_view(self.u.s, self.n);
    return pawl__jv_view(self.u.s + a[0].n, self.n - a[0].n);
}

static jval m_removesuffix(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)raw;
    if (a[0].kind != J_STR) return bad_argument(run, "removesuffix", a[0]);
    return pawl__jv_view(self.u.s, affix(self, a[0], 1) ? self.n - a[0].n : self.n);
}

static jval justify(jrun *run, const char *method, jval self, jval *a, int left, int right)
{
    int64_t width;
    uint32_t fill = ' ';
    if (!want_int(run, method, a[0], 0, &width)) return undef();
    if (a[1].kind != J_ABSENT) {
        if (a[1].kind != J_STR || pawl__jinja_chars(a[1].u.s, a[1].n) != 1) return bad_argument(run, method, a[1]);
        pawl__utf8_decode(a[1].u.s, a[1].n, &fill, NULL);
    }
    return pawl__jinja_center(run, self, width, fill, left, right);
}

static jval m_center(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)raw;
    return justify(run, "center", self, a, 1, 1);
}

static jval m_ljust(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)raw;
    return justify(run, "ljust", self, a, 0, 1);
}

static jval m_rjust(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)raw;
    return justify(run, "rjust", self, a, 1, 0);
}

static jval m_zfill(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)raw;
    int64_t width;
    if (!want_int(run, "zfill", a[0], 0, &width)) return undef();
    int sign = self.n > 0 && (*self.u.s == '-' || *self.u.s == '+');
    jval digits = like(self, self.u.s + sign, self.n - (size_t)sign);
    if (width <= sign) return self;
    jval v = pawl__jinja_center(run, digits, width - sign, '0', 1, 0);
    if (!sign || v.kind != J_STR) return v;
    pawl_buf b = pawl__jv_buf(run);
    pawl__buf_append(&b, self.u.s, 1);
    pawl__buf_append(&b, v.u.s, v.n);
    v = pawl__jv_take(run, &b);
    if (v.kind == J_STR) v.flag = self.flag;
    return v;
}

static jval m_isdigit(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)a, (void)raw;
    return pawl__jv_bool(pawl__jinja_isclass(run, self, J_DIGIT));
}

static jval m_isdecimal(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)a, (void)raw;
    return pawl__jv_bool(pawl__jinja_isclass(run, self, J_DECIMAL));
}

static jval m_isalpha(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)a, (void)raw;
    return pawl__jv_bool(pawl__jinja_isclass(run, self, J_ALPHA));
}

static jval m_isalnum(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)a, (void)raw;
    return pawl__jv_bool(pawl__jinja_isclass(run, self, J_ALNUM));
}

static jval m_isspace(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)a, (void)raw;
    return pawl__jv_bool(pawl__jinja_isclass(run, self, J_SPACE));
}

static jval m_islower(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)a, (void)raw;
    return pawl__jv_bool(pawl__jinja_isclass(run, self, J_LOWER));
}

static jval m_isupper(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)a, (void)raw;
    return pawl__jv_bool(pawl__jinja_isclass(run, self, J_UPPER));
}

static jval m_istitle(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)a, (void)raw;
    return pawl__jv_bool(pawl__jinja_isclass(run, self, J_TITLE));
}

/* The value that a replacement field such as "0", "name", "a.b" or "a[0]" names. next numbers the empty fields. */
static jval format_field(jrun *run, jval field, const jargs *raw, uint32_t *next)
{
    const char *s = field.u.s, *end = s + field.n, *p = s;
    while (p < end && *p != '.' && *p != '[') p++;
    jval first = pawl__jv_view(s, (size_t)(p - s)), v = {.kind = J_ABSENT};
    int number = first.n > 0 && first.n < 6;
    uint32_t index = 0;
    for (uint32_t i = 0; i < first.n && number; i++) {
        number = first.u.s[i] >= '0' && first.u.s[i] <= '9';
        index = index * 10 + (uint32_t)(first.u.s[i] - '0');
    }
    if (first.n == 0) index = (*next)++;
    if (first.n == 0 || number) {
        if (index < raw->npos) v = raw->pos[index];
    } else {
        for (uint32_t i = 0; i < raw->nkw; i++)
            if (pawl__jv_same(raw->names[i], first)) v = raw->vals[i];
    }
    if (v.kind == J_ABSENT) return pawl__jinja_fail(run, PAWL_EINVAL, "format: no such argument");
    while (p < end && run->status == PAWL_OK) {
        int item = *p++ == '[';
        s = p;
        while (p < end && (item ? *p != ']' : *p != '.' && *p != '[')) p++;
        jval name = pawl__jv_view(s, (size_t)(p - s));
        if (item && p++ >= end) return pawl__jinja_fail(run, PAWL_EINVAL, "format: missing ']'");
        int digits = item && name.n > 0 && name.n < 10;
        int64_t i = 0;
        for (uint32_t k = 0; k < name.n && digits; k++) {
            digits = name.u.s[k] >= '0' && name.u.s[k] <= '9';
            i = i * 10 + (name.u.s[k] - '0');
        }
        v = digits ? pawl__jinja_item(run, v, pawl__jv_int(i)) : pawl__jinja_attr(run, v, name);
    }
    return v;
}

/* str.format with fields and the conversions !s and !r, without format specifications. */
static jval m_format(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)a;
    if (self.flag) return pawl__jinja_fail(run, PAWL_EUNSUPPORTED, "format of a string marked safe is not supported");
    pawl_buf b = pawl__jv_buf(run);
    const char *p = self.u.s, *end = p + self.n;
    uint32_t next = 0;
    while (p < end && run->status == PAWL_OK && !b.failed) {
        char c = *p++;
        if (c != '{' && c != '}') {
            pawl__buf_putc(&b, c);
        } else if (p < end && *p == c) {
            pawl__buf_putc(&b, *p++);
        } else if (c == '}') {
            pawl__jinja_fail(run, PAWL_EINVAL, "format: single '}'");
        } else {
            const char *s = p;
            while (p < end && *p != '}' && *p != '{' && *p != ':' && *p != '!') p++;
            jval v = format_field(run, pawl__jv_view(s, (size_t)(p - s)), raw, &next);
            char conversion = 's';
            if (p + 1 < end && *p == '!') {
                conversion = p[1];
                p += 2;
            }
            if (p >= end || *p != '}' || (conversion != 's' && conversion != 'r'))
                pawl__jinja_fail(run, PAWL_EUNSUPPORTED, "format: only plain fields, !s and !r are supported");
            if (conversion == 'r')
                pawl__jv_repr(run, v, &b);
            else
                pawl__jv_str(run, v, &b);
            p++;
        }
    }
    return pawl__jv_take(run, &b);
}

/* ---- dict, list, tuple, range ---- */

static jval view(jval self, char what)
{
    return (jval){.kind = J_VIEW, .flag = (uint8_t)what, .u.dict = self.u.dict};
}

static jval m_items(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)run, (void)a, (void)raw;
    return view(self, 'i');
}

static jval m_keys(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)run, (void)a, (void)raw;
    return view(self, 'k');
}

static jval m_values(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)run, (void)a, (void)raw;
    return view(self, 'v');
}

static jval m_get(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)raw;
    if (!pawl__jv_hashable(a[0])) return bad_argument(run, "get", a[0]);
    jval *v = pawl__jv_dict_find(self.u.dict, a[0]);
    return v ? *v : a[1].kind == J_ABSENT ? pawl__jv_none() : a[1];
}

static jval m_dict_copy(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)a, (void)raw;
    jdict *d = pawl__jv_dict_create(run);
    for (uint32_t i = 0; d && i < self.u.dict->n && !pawl__jinja_step(run, 1); i++)
        pawl__jv_dict_set(run, d, self.u.dict->keys[i], self.u.dict->vals[i]);
    return pawl__jv_dict(d);
}

static jval m_list_copy(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)a, (void)raw;
    return pawl__jv_to_list(run, self);
}

static jval m_list_count(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)raw;
    jiter *it = pawl__jv_iter(run, self);
    jval item;
    int64_t n = 0;
    while (it && pawl__jv_next(run, it, &item)) n += pawl__jv_equal(run, item, a[0]);
    return pawl__jv_int(n);
}

static jval m_list_index(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)raw;
    int64_t n = pawl__jv_length(run, self), start, stop;
    if (!want_int(run, "index", a[1], 0, &start) || !want_int(run, "index", a[2], n, &stop)) return undef();
    if (start < 0) start = start + n < 0 ? 0 : start + n;
    if (stop < 0) stop += n;
    jiter *it = pawl__jv_iter(run, self);
    jval item;
    for (int64_t i = 0; it && pawl__jv_next(run, it, &item) && i < stop; i++)
        if (i >= start && pawl__jv_equal(run, item, a[0])) return pawl__jv_int(i);
    return pawl__jinja_fail(run, PAWL_EINVAL, "value is not in the sequence");
}

static jval m_cycler_next(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)run, (void)a, (void)raw;
    jcycler *c = self.u.cycler;
    return c->items->v[c->pos++ % c->items->n];
}

static jval m_cycler_reset(jrun *run, jval self, jval *a, const jargs *raw)
{
    (void)run, (void)a, (void)raw;
    self.u.cycler->pos = 0;
    return pawl__jv_none();
}

/* ---- tables ---- */

static const jfunc str_methods[] = {{"split", "sep,maxsplit", 0, m_split},
                                    {"strip", "/chars", 0, m_strip},
                                    {"lstrip", "/chars", 0, m_lstrip},
                                    {"rstrip", "/chars", 0, m_rstrip},
                                    {"startswith", "/prefix,start,end", 1, m_startswith},
                                    {"endswith", "/suffix,start,end", 1, m_endswith},
                                    {"replace", "/old,new,count", 2, m_replace},
                                    {"join", "/iterable", 1, m_join},
                                    {"upper", "", 0, m_upper},
                                    {"lower", "", 0, m_lower},
                                    {"casefold", "", 0, m_lower},
                                    {"title", "", 0, m_title},
                                    {"capitalize", "", 0, m_capitalize},
                                    {"swapcase", "", 0, m_swapcase},
                                    {"rsplit", "sep,maxsplit", 0, m_rsplit},
                                    {"splitlines", "keepends", 0, m_splitlines},
                                    {"partition", "/sep", 1, m_partition},
                                    {"rpartition", "/sep", 1, m_rpartition},
                                    {"find", "/sub,start,end", 1, m_find},
                                    {"rfind", "/sub,start,end", 1, m_rfind},
                                    {"index", "/sub,start,end", 1, m_index},
                                    {"rindex", "/sub,start,end", 1, m_rindex},
                                    {"count", "/sub,start,end", 1, m_count},
                                    {"removeprefix", "/prefix", 1, m_removeprefix},
                                    {"removesuffix", "/suffix", 1, m_removesuffix},
                                    {"center", "/width,fillchar", 1, m_center},
                                    {"ljust", "/width,fillchar", 1, m_ljust},
                                    {"rjust", "/width,fillchar", 1, m_rjust},
                                    {"zfill", "/width", 1, m_zfill},
                                    {"isdigit", "", 0, m_isdigit},
                                    {"isdecimal", "", 0, m_isdecimal},
                                    {"isalpha", "", 0, m_isalpha},
                                    {"isalnum", "", 0, m_isalnum},
                                    {"isspace", "", 0, m_isspace},
                                    {"islower", "", 0, m_islower},
                                    {"isupper", "", 0, m_isupper},
                                    {"istitle", "", 0, m_istitle},
                                    {"format", NULL, 0, m_format},
                                    {NULL, NULL, 0, NULL}};
static const jfunc dict_methods[] = {{"items", "", 0, m_items},    {"keys", "", 0, m_keys},
                                     {"values", "", 0, m_values},  {"get", "/key,default", 1, m_get},
                                     {"copy", "", 0, m_dict_copy}, {NULL, NULL, 0, NULL}};
static const jfunc list_methods[] = {{"index", "/value,start,stop", 1, m_list_index},
                                     {"count", "/value", 1, m_list_count},
                                     {"copy", "", 0, m_list_copy},
                                     {NULL, NULL, 0, NULL}};
static const jfunc tuple_methods[] = {
    {"index", "/value,start,stop", 1, m_list_index}, {"count", "/value", 1, m_list_count}, {NULL, NULL, 0, NULL}};
static const jfunc cycler_methods[] = {
    {"next", "", 0, m_cycler_next}, {"reset", "", 0, m_cycler_reset}, {NULL, NULL, 0, NULL}};

/* What Python has and pawl does not. */
static const char *const str_others[] = {"encode",    "expandtabs",  "format_map", "isascii",   "isidentifier",
                                         "isnumeric", "isprintable", "maketrans",  "translate", NULL};
static const char *const dict_others[] = {"fromkeys", NULL};
static const char *const list_others[] = {"pop", "clear", NULL};
static const char *const number_others[] = {
    "as_integer_ratio", "bit_count", "bit_length", "conjugate", "denominator", "fromhex", "hex", "imag",
    "is_integer",       "numerator", "real",       "to_bytes",  NULL};
/* What the sandbox hides, because it would change the object. */
static const char *const dict_hidden[] = {"clear", "pop", "popitem", "setdefault", "update", NULL};
static const char *const list_hidden[] = {"append", "reverse", "insert", "sort", "extend", "remove", NULL};

static int listed(const char *const *words, jval name)
{
    for (; words && *words; words++)
        if (pawl__jv_is(name, *words)) return 1;
    return 0;
}

const jfunc *pawl__jinja_method(jval obj, jval name, const char **refused)
{
    const jfunc *table = NULL;
    const char *const *others = NULL, *const *hidden = NULL;
    switch ((jkind)obj.kind) {
    case J_STR:
        table = str_methods;
        others = str_others;
        break;
    case J_DICT:
        table = dict_methods;
        others = dict_others;
        hidden = dict_hidden;
        break;
    case J_LIST:
        table = list_methods;
        others = list_others;
        hidden = list_hidden;
        break;
    case J_TUPLE:
    case J_RANGE:
        table = tuple_methods;
        break;
    case J_CYCLER:
        table = cycler_methods;
        break;
    case J_BOOL:
    case J_INT:
    case J_FLOAT:
        others = number_others;
        break;
    default:
        return NULL;
    }
    for (const jfunc *f = table; f && f->name; f++)
        if (pawl__jv_is(name, f->name)) return f;
    if (listed(hidden, name)) *refused = "this attribute is hidden, since it would change the object";
    if (listed(others, name)) *refused = "";
    return NULL;
}
