/* Tests: what stands after `is`, and what select and reject take by name. */
#include "token/jinja.h"

static int is_int(jval v)
{
    return v.kind == J_INT || v.kind == J_BOOL;
}

static int t_defined(jrun *run, jval v, jval a)
{
    (void)run, (void)a;
    return v.kind != J_UNDEF;
}

static int t_undefined(jrun *run, jval v, jval a)
{
    (void)run, (void)a;
    return v.kind == J_UNDEF;
}

static int t_none(jrun *run, jval v, jval a)
{
    (void)run, (void)a;
    return v.kind == J_NONE;
}

static int t_boolean(jrun *run, jval v, jval a)
{
    (void)run, (void)a;
    return v.kind == J_BOOL;
}

static int t_true(jrun *run, jval v, jval a)
{
    (void)run, (void)a;
    return v.kind == J_BOOL && v.u.i;
}

static int t_false(jrun *run, jval v, jval a)
{
    (void)run, (void)a;
    return v.kind == J_BOOL && !v.u.i;
}

static int t_integer(jrun *run, jval v, jval a)
{
    (void)run, (void)a;
    return v.kind == J_INT;
}

static int t_float(jrun *run, jval v, jval a)
{
    (void)run, (void)a;
    return v.kind == J_FLOAT;
}

static int t_number(jrun *run, jval v, jval a)
{
    (void)run, (void)a;
    return is_int(v) || v.kind == J_FLOAT;
}

static int t_string(jrun *run, jval v, jval a)
{
    (void)run, (void)a;
    return v.kind == J_STR;
}

static int t_mapping(jrun *run, jval v, jval a)
{
    (void)run, (void)a;
    return v.kind == J_DICT;
}

/* What has a length and an index: an undefined value too. */
static int t_sequence(jrun *run, jval v, jval a)
{
    (void)run, (void)a;
    return pawl__jv_has_length(v) && v.kind != J_VIEW && v.kind != J_LOOP;
}

static int t_iterable(jrun *run, jval v, jval a)
{
    (void)run, (void)a;
    return pawl__jv_iterable(v);
}

static int t_callable(jrun *run, jval v, jval a)
{
    (void)run, (void)a;
    return v.kind == J_UNDEF || v.kind == J_MACRO || v.kind == J_FUNC || v.kind == J_METHOD || v.kind == J_JOINER ||
           v.kind == J_LOOP;
}

static int t_escaped(jrun *run, jval v, jval a)
{
    (void)run, (void)a;
    return v.kind == J_STR && v.flag;
}

static int t_lower(jrun *run, jval v, jval a)
{
    (void)a;
    return pawl__jinja_isclass(run, pawl__jv_to_str(run, v), J_LOWER);
}

static int t_upper(jrun *run, jval v, jval a)
{
    (void)a;
    return pawl__jinja_isclass(run, pawl__jv_to_str(run, v), J_UPPER);
}

static int remainder_is(jrun *run, jval v, jval divisor, int64_t r)
{
    jval m = pawl__jinja_binary(run, OP_MOD, v, divisor);
    return run->status == PAWL_OK && pawl__jv_equal(run, m, pawl__jv_int(r));
}

static int t_odd(jrun *run, jval v, jval a)
{
    (void)a;
    return remainder_is(run, v, pawl__jv_int(2), 1);
}

static int t_even(jrun *run, jval v, jval a)
{
    (void)a;
    return remainder_is(run, v, pawl__jv_int(2), 0);
}

static int t_divisibleby(jrun *run, jval v, jval a)
{
    return remainder_is(run, v, a, 0);
}

static int t_sameas(jrun *run, jval v, jval a)
{
    (void)run;
    return pawl__jv_same(v, a);
}

static int t_in(jrun *run, jval v, jval a)
{
    return pawl__jv_contains(run, a, v);
}

static int t_eq(jrun *run, jval v, jval a)
{
    return pawl__jv_equal(run, v, a);
}

static int t_ne(jrun *run, jval v, jval a)
{
    return !pawl__jv_equal(run, v, a);
}

static int t_lt(jrun *run, jval v, jval a)
{
    return pawl__jv_order(run, OP_LT, v, a);
}

static int t_le(jrun *run, jval v, jval a)
{
    return pawl__jv_order(run, OP_LE, v, a);
}

static int t_gt(jrun *run, jval v, jval a)
{
    return pawl__jv_order(run, OP_GT, v, a);
}

static int t_ge(jrun *run, jval v, jval a)
{
    return pawl__jv_order(run, OP_GE, v, a);
}

static int t_filter(jrun *run, jval v, jval a)
{
    (void)run, (void)a;
    return v.kind == J_STR && pawl__jinja_find_filter(v) != NULL;
}

static const struct {
    const char *name;
    uint32_t args;
    int (*holds)(jrun *run, jval v, jval a);
} tests[] = {{"defined", 0, t_defined},
             {"undefined", 0, t_undefined},
             {"none", 0, t_none},
             {"string", 0, t_string},
             {"mapping", 0, t_mapping},
             {"iterable", 0, t_iterable},
             {"sequence", 0, t_sequence},
             {"boolean", 0, t_boolean},
             {"true", 0, t_true},
             {"false", 0, t_false},
             {"number", 0, t_number},
             {"integer", 0, t_integer},
             {"float", 0, t_float},
             {"callable", 0, t_callable},
             {"escaped", 0, t_escaped},
             {"lower", 0, t_lower},
             {"upper", 0, t_upper},
             {"odd", 0, t_odd},
             {"even", 0, t_even},
             {"filter", 0, t_filter},
             {"divisibleby", 1, t_divisibleby},
             {"sameas", 1, t_sameas},
             {"in", 1, t_in},
             {"==", 1, t_eq},
             {"eq", 1, t_eq},
             {"equalto", 1, t_eq},
             {"!=", 1, t_ne},
             {"ne", 1, t_ne},
             {"<", 1, t_lt},
             {"lt", 1, t_lt},
             {"lessthan", 1, t_lt},
             {"<=", 1, t_le},
             {"le", 1, t_le},
             {">", 1, t_gt},
             {"gt", 1, t_gt},
             {"greaterthan", 1, t_gt},
             {">=", 1, t_ge},
             {"ge", 1, t_ge}};

int pawl__jinja_test(jrun *run, jval name, jval v, const jargs *args)
{
    int n = (int)(name.n < 100 ? name.n : 100);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        if (!pawl__jv_is(name, tests[i].name)) continue;
        if (args->npos + args->nkw != tests[i].args) {
            pawl__jinja_fail(run, PAWL_EINVAL, "the test '%.*s' takes %u arguments", n, name.u.s, tests[i].args);
            return 0;
        }
        return tests[i].holds(run, v, args->npos ? args->pos[0] : args->nkw ? args->vals[0] : pawl__jv_none());
    }
    pawl__jinja_fail(run, PAWL_EUNSUPPORTED, "there is no test named '%.*s'", n, name.u.s);
    return 0;
}
