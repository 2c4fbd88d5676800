/* Chat templates: the checkpoint's own against golden texts, the language's rules with right values, and the bounds. */
#include "check.h"

#include <unistd.h>
#include <jansson.h>

#include "token/template.h"

static const char model_dir[] = "models/tale-moe-fp8";

/* Renders with variables given as JSON text. */
static pawl_status render_with(const char *source, const char *vars, const pawl_template_limits *limits, pawl_buf *out,
                               pawl_err *err)
{
    json_error_t e;
    json_t *v = json_loads(vars, 0, &e);
    if (!v) fail_msg("%s: %s", vars, e.text);
    pawl_template *t = NULL;
    pawl_status s = pawl__template_compile(source, strlen(source), "t", &t, err);
    if (s == PAWL_OK) s = pawl__template_render(t, v, limits, out, err);
    pawl__template_destroy(&t);
    json_decref(v);
    return s;
}

static void renders(const char *source, const char *vars, const char *expected)
{
    pawl_buf out = {0};
    pawl_err err = {0};
    pawl_status s = render_with(source, vars, NULL, &out, &err);
    if (s != PAWL_OK) fail_msg("%s: %s", source, err.text);
    if (strcmp(out.data ? out.data : "", expected) != 0)
        fail_msg("%s: got \"%s\", expected \"%s\"", source, out.data, expected);
    pawl__buf_free(&out);
}

static void refuses(const char *source, const char *vars, pawl_status status, const char *words)
{
    pawl_buf out = {0};
    pawl_err err = {0};
    check_fails(render_with(source, vars, NULL, &out, &err), status, &err, words);
    assert_int_equal(out.len, 0);
    pawl__buf_free(&out);
}

static json_t *load(const char *path)
{
    json_error_t e;
    json_t *j = json_load_file(path, 0, &e);
    if (!j) fail_msg("%s: %s", path, e.text);
    return j;
}

/* ---- golden ---- */

static json_t *special_tokens(void)
{
    char path[200];
    snprintf(path, sizeof path, "%s/tokenizer_config.json", model_dir);
    json_t *config = load(path), *out = json_object();
    static const char *const names[] = {"bos_token", "eos_token", "pad_token", "unk_token"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        json_t *v = json_object_get(config, names[i]);
        if (json_is_string(v)) json_object_set(out, names[i], v);
    }
    json_decref(config);
    return out;
}

static pawl_status render_case(const pawl_template *t, const json_t *c, const json_t *special, pawl_buf *out,
                               pawl_err *err)
{
    json_t *kwargs = json_object();
    json_object_update(kwargs, json_object_get(c, "options"));
    int generate = json_is_true(json_object_get(kwargs, "add_generation_prompt"));
    json_object_del(kwargs, "add_generation_prompt");
    const json_t *tools = json_object_get(c, "tools");
    pawl_status s = pawl__chat_render(t, json_object_get(c, "messages"), json_is_null(tools) ? NULL : tools, generate,
                                      special, kwargs, out, err);
    json_decref(kwargs);
    return s;
}

static void golden_cases(void **state)
{
    (void)state;
    pawl_template *t;
    pawl_err err;
    check_ok(pawl__template_open(model_dir, 0, &t, &err), &err);
    json_t *golden = load("tests/golden/chat_template.json"), *special = special_tokens(), *c;
    size_t i;
    json_array_foreach(json_object_get(golden, "cases"), i, c)
    {
        pawl_buf out = {0};
        check_ok(render_case(t, c, special, &out, &err), &err);
        const json_t *text = json_object_get(c, "text");
        if (out.len != json_string_length(text) || memcmp(out.data, json_string_value(text), out.len) != 0)
            fail_msg("%s: got \"%s\"", json_string_value(json_object_get(c, "name")), out.data);
        pawl__buf_free(&out);
    }
    assert_true(i >= 17);
    json_array_foreach(json_object_get(golden, "errors"), i, c)
    {
        pawl_buf out = {0};
        check_fails(render_case(t, c, special, &out, &err), PAWL_EINVAL, &err,
                    json_string_value(json_object_get(c, "error")));
        assert_null(out.data);
    }
    assert_int_equal(i, 4);
    json_decref(golden);
    json_decref(special);
    pawl__template_destroy(&t);
}

/* ---- the rules ---- */

static void white_space(void **state)
{
    (void)state;
    renders("a\n  {% if true %}\nb\n  {% endif %}\nc\n", "{}", "a\nb\nc");
    renders("a\n  {%- if true %}\nb\n  {%- endif -%}\n  c", "{}", "abc");
    renders("x {{ 1 }}\n{{ 2 }}\n", "{}", "x 1\n2");
    renders("a\n {%+ if true %}b{% endif %}", "{}", "a\n b");
    renders("a\n\n", "{}", "a\n");
    renders("a\r\nb\rc\r\n", "{}", "a\nb\nc");
    renders("a  {#- note -#}\n  b", "{}", "ab");
    renders("a\n  {# note #}\nb", "{}", "a\nb");
    renders("a {{- 1 -}} b", "{}", "a1b");
    renders("a\n  {{ 1 }}", "{}", "a\n  1");
    renders("{% if true +%}\nb{% endif %}", "{}", "\nb");
    renders("{% raw %}{{ x }} {% if %}{% endraw %}!", "{}", "{{ x }} {% if %}!");
    renders("{% raw -%}\n  a\n  {%- endraw %}\nb", "{}", "ab");
    renders("a\xc2\xa0{%- if true -%}\xe3\x80\x80"
            "b{% endif %}",
            "{}", "ab");
}

static void printing(void **state)
{
    (void)state;
    renders("{{ true }}{{ none }}{{ 1.0 }}{{ -0.0 }}", "{}", "TrueNone1.0-0.0");
    renders("{{ x }}", "{\"x\": {\"a\": [1, true, null, \"x\"]}}", "{'a': [1, True, None, 'x']}");
    renders("{{ x|string }}", "{\"x\": {\"a\": 1e16}}", "{'a': 1e+16}");
    renders("{{ [\"it's\", 'say \"hi\"', '\\n\\x7f'] }}", "{}", "[\"it's\", 'say \"hi\"', '\\n\\x7f']");
    renders("{{ nothing }}|{{ {}.a }}|{{ [1][5] }}", "{}", "||");
    renders("{{ nothing ~ 'a' }}{{ none ~ 'a' }}{{ 1 ~ 2.5 }}", "{}", "aNonea12.5");
    renders("{{ (1,) }}{{ () }}{{ range(3) }}{{ {}.items() }}", "{}", "(1,)()range(0, 3)dict_items([])");
    refuses("{{ nothing.a }}", "{}", PAWL_EINVAL, "t:1: 'nothing' is undefined");
    refuses("\n{{ x.a.b }}", "{\"x\": {}}", PAWL_EINVAL, "t:2: 'dict object' has no attribute 'a'");
    refuses("{{ nothing + 'a' }}", "{}", PAWL_EINVAL, "'nothing' is undefined");
    refuses("{{ 'a' + 1 }}", "{}", PAWL_EINVAL, "unsupported operand");
}

static void floats(void **state)
{
    (void)state;
    renders("{{ [0.1, 1e15, 1e16, 123456789012345680.0, 0.0001, 0.00001, 5e-324, 1.7976931348623157e308] }}", "{}",
            "[0.1, 1000000000000000.0, 1e+16, 1.2345678901234568e+17, 0.0001, 1e-05, 5e-324, 1.7976931348623157e+308]");
    /* A power of two, where the nearest 16 digits do not read back but a neighbour does. */
    renders("{{ 5.684341886080802e-14 }} {{ 9007199254740993.0 }}", "{}", "5.684341886080802e-14 9007199254740992.0");
    renders("{{ 7 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7.5 // -2 }} {{ -7.5 % 2 }} {{ 2 ** -1 }}", "{}",
            "3.5 3 -4 2 -4.0 0.5 0.5");
}

static void scopes(void **state)
{
    (void)state;
    renders("{% set x = 1 %}{% for i in [1, 2] %}{% set x = i %}{{ x }}{% endfor %}{{ x }}", "{}", "121");
    renders("{% set n = namespace(a=1) %}{% for i in [5] %}{% set n.a = i %}{% endfor %}{{ n.a }}", "{}", "5");
    renders("{% set a %}x{{ 1 }}{% endset %}{{ a }}{% set b | upper %}y{% endset %}{{ b }}", "{}", "x1Y");
    renders("{% set a, b = 1, 'z' %}{{ b }}{{ a }}", "{}", "z1");
    renders("{% macro f(a, b='d', c=none) %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ f(1) }}{{ f(2, c=3) }}{{ f(b=4) }}",
            "{}", "[1dNone][2d3][4None]");
    renders("{% macro f() %}{{ i }}{{ x }}{% endmacro %}{% set x = 1 %}{% for i in [7] %}{{ f() }}{% endfor %}", "{}",
            "1");
    renders("{% macro f() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, k=3) }}", "{}", "(1, 2){'k': 3}");
    renders("{% macro f(x) %}<{{ caller(x) }}>{% endmacro %}{% call(y) f(3) %}{{ y + 1 }}{% endcall %}", "{}", "<4>");
    /* A name that the template sets is its own from the start, even where the caller passes one. */
    renders("{% for i in [1] %}{{ x }}{% endfor %}{% set x = 1 %}{{ x }}", "{\"x\": 9}", "1");
    renders("{% if false %}{% set x = 1 %}{% endif %}{{ x }}", "{\"x\": 9}", "9");
    renders("{% with a = 1, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}", "{\"a\": 8}", "188");
    renders("{% filter upper %}a{{ 'b' }}{% endfilter %}", "{}", "AB");
    renders("{% generation %}a{% set x = 2 %}{{ x }}{% endgeneration %}{{ x }}", "{\"x\": 1}", "a21");
    refuses("{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}", "{}", PAWL_EINVAL, "not more than 1");
    refuses("{% macro f(a) %}{% endmacro %}{{ f(b=2) }}", "{}", PAWL_EINVAL, "keyword argument 'b'");
    refuses("{% set x.a = 1 %}", "{\"x\": {}}", PAWL_EINVAL, "namespace");
    refuses("{% for x in [1] %}{% set loop = 1 %}{% endfor %}", "{}", PAWL_EFORMAT, "loop");
}

static void loops(void **state)
{
    (void)state;
    renders("{% for x in [1, 2, 3, 4] if x % 2 == 0 %}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}"
            "{{ loop.previtem }}{{ loop.nextitem }}/{{ loop.length }};{% endfor %}",
            "{}", "0TrueFalse4/2;1FalseTrue2/2;");
    renders("{% for x in [] %}a{% else %}none{% endfor %}", "{}", "none");
    renders("{% for k, v in m|items %}{{ k }}={{ v }};{% endfor %}{% for k in m %}{{ k }}{% endfor %}",
            "{\"m\": {\"b\": 1, \"a\": 2}}", "b=1;a=2;ba");
    renders("{% for k, v in m.items() %}{{ k }}{% endfor %}", "{\"m\": {\"items\": 1, \"z\": 2}}", "itemsz");
    renders("{% for x in [1, 2, 3] %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% endfor %}", "{}", "13");
    renders("{% for x in [1, 2, 3] %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}", "{}", "1");
    renders("{% for x in nothing %}a{% endfor %}|{% for c in 'hé' %}{{ c }}.{% endfor %}", "{}", "|h.é.");
    renders("{% for x in 'ab' %}{{ loop.revindex }}{{ loop.cycle('p', 'q') }}{% endfor %}", "{}", "2p1q");
    renders("{% for x in [1, 1, 2] %}{{ loop.changed(x) }}{% endfor %}", "{}", "TrueFalseTrue");
    refuses("{% for x in none %}{% endfor %}", "{}", PAWL_EINVAL, "not iterable");
    refuses("{% for a, b in [1] %}{% endfor %}", "{}", PAWL_EINVAL, "not iterable");
    refuses("{% for a, b in [[1]] %}{% endfor %}", "{}", PAWL_EINVAL, "not enough values");
    refuses("{% break %}", "{}", PAWL_EFORMAT, "outside");
}

static void attributes(void **state)
{
    (void)state;
    renders("{{ m.get('a') }}{{ m['get'] }}{{ m.b }}", "{\"m\": {\"a\": 1, \"get\": 5}}", "15");
    renders("{{ [1, 2, 3][::-1] }}{{ 'abc'[1:] }}{{ 'añb'[-2] }}{{ [1, 2][:1] }}{{ 'abcdef'[4:0:-2] }}", "{}",
            "[3, 2, 1]bcñ[1]ec");
    renders("{{ x.0 }}{{ x.1.a }}", "{\"x\": [3, {\"a\": 4}]}", "34");
    renders("{{ m.update is defined }}{{ m.nothing is defined }}", "{\"m\": {}}", "FalseFalse");
    refuses("{{ m.update({}) }}", "{\"m\": {}}", PAWL_EINVAL, "hidden");
    refuses("{{ 'a'.encode() }}", "{}", PAWL_EUNSUPPORTED, "str.encode");
}

static void precedence(void **state)
{
    (void)state;
    renders("{{ -1|abs }} {{ -2 ** 2 }} {{ 2 ** 3 ** 2 }} {{ -m.n }}", "{\"m\": {\"n\": 3}}", "1 4 64 -3");
    renders("{{ not 'a' is string }} {{ 1 < 2 < 3 }} {{ 3 > 2 > 2 }} {{ 1 + 2 * 3 }} {{ 'a' 'b' ~ 1 }}", "{}",
            "False True False 7 ab1");
    renders("{{ 'a' if x else 'b' if y else 'c' }}{{ 'z' if x }}", "{\"y\": 1}", "b");
    renders("{{ 1 not in [2] and 'a' in 'cat' }} {{ 0 or 'x' }} {{ 'q' and '' }}", "{}", "True x ");
    refuses("{{ 'a' + 'b' is string }}", "{}", PAWL_EINVAL, "unsupported operand");
    refuses("{{ 1 + 2 ~ 3 }}", "{}", PAWL_EINVAL, "unsupported operand");
}

static void tests_after_is(void **state)
{
    (void)state;
    renders("{{ {} is mapping }}{{ 'a' is sequence }}{{ {} is sequence }}{{ 'a' is iterable }}", "{}",
            "TrueTrueTrueTrue");
    renders("{{ 0 is false }}{{ 1 is true }}{{ true is number }}{{ true is integer }}", "{}", "FalseFalseTrueFalse");
    renders("{{ u is iterable }}{{ u is sequence }}{{ u is mapping }}{{ u is string }}{{ none is iterable }}", "{}",
            "TrueTrueFalseFalseFalse");
    renders("{{ u == none }}{{ u is undefined }}{{ none is none }}{{ u is defined }}{{ 1 == 1.0 == true }}", "{}",
            "FalseTrueTrueFalseTrue");
    renders("{{ 3 is odd }}{{ 4 is divisibleby 2 }}{{ 'a' is in 'abc' }}{{ 1 is not equalto 2 }}", "{}",
            "TrueTrueTrueTrue");
}

static void filters(void **state)
{
    (void)state;
    renders("{{ u|items|list }}{{ u|length }}{{ u|default('d') }}{{ ''|default('d') }}{{ ''|default('d', true) }}",
            "{}", "[]0dd");
    renders("{{ ' \\x1c\\xa0a\\u3000'|trim }}|{{ ' a  b '.split() }}|{{ 'a,b,c'.split(',', 1) }}", "{}",
            "a|['a', 'b']|['a', 'b,c']");
    renders("{{ 'xxaxx'.strip('x') }}{{ 'ab'.startswith('a') }}{{ 'hello world'.title() }}{{ '-'.join(['a', 'b']) }}",
            "{}", "aTrueHello Worlda-b");
    renders("{{ [3, 1, 2]|sort }}{{ ['b', 'A']|sort|join(',') }}{{ [1, 2, 3]|reject('equalto', 2)|list }}", "{}",
            "[1, 2, 3]A,b[1, 3]");
    renders("{{ x|map(attribute='a')|join('+') }}{{ x|selectattr('a', 'equalto', 2)|list|length }}",
            "{\"x\": [{\"a\": 1}, {\"a\": 2}]}", "1+21");
    renders("{{ '<a>'|safe }}{{ '<b>' }}{{ '<c>'|e }}{{ ('<d>'|safe) + '<' }}", "{}", "<a><b>&lt;c&gt;<d>&lt;");
    renders("{{ 'a\\nb'|indent(2) }}{{ '%s-%d' % ('a', 3) }}{{ 'x{}y{k}'.format(1, k=2) }}", "{}", "a\n  ba-3x1y2");
    refuses("{{ 1|nosuch }}", "{}", PAWL_EUNSUPPORTED, "nosuch");
    refuses("{{ 1 is nosuch }}", "{}", PAWL_EUNSUPPORTED, "nosuch");
}

static void json(void **state)
{
    (void)state;
    const char *vars =
        "{\"x\": {\"b\": [1, 1.0, 1e-07, 1e16, true, null], \"a\": \"</é\\u2028\\u007f\\u0001\\\"\\n\"}}";
    renders("{{ x|tojson }}", vars,
            "{\"b\": [1, 1.0, 1e-07, 1e+16, true, null], \"a\": \"</é\u2028\x7f\\u0001\\\"\\n\"}");
    renders("{{ {'b': [1, []], 'a': {}}|tojson(indent=2) }}", "{}",
            "{\n  \"b\": [\n    1,\n    []\n  ],\n  \"a\": {}\n}");
    renders("{{ {'b': 1, 'a': 2}|tojson(sort_keys=true, separators=(',', ':')) }}", "{}", "{\"a\":2,\"b\":1}");
    renders("{{ 'é😀'|tojson(ensure_ascii=true) }}", "{}", "\"\\u00e9\\ud83d\\ude00\"");
    renders("{{ ('{\"z\": [1, \"q\"], \"a\": 2.5}'|from_json).z[1] }}", "{}", "q");
    refuses("{{ nothing|tojson }}", "{}", PAWL_EINVAL, "not JSON serializable");
}

static void time_of_day(void **state)
{
    (void)state;
    setenv("TZ", "UTC", 1);
    tzset();
    const pawl_template_limits limits = {.now = 1700000000};
    pawl_buf out = {0};
    pawl_err err = {0};
    check_ok(render_with("{{ strftime_now('%d %b %Y %H:%M') }}", "{}", &limits, &out, &err), &err);
    assert_string_equal(out.data, "14 Nov 2023 22:13");
    pawl__buf_free(&out);
}

/* ---- errors and bounds ---- */

static void syntax_errors(void **state)
{
    (void)state;
    refuses("a\n{% if x %}", "{}", PAWL_EFORMAT, "t:2: unexpected end of template, expected 'elif'");
    refuses("{% include 'x' %}", "{}", PAWL_EFORMAT, "the tag 'include' is not supported");
    refuses("{% extends 'x' %}", "{}", PAWL_EFORMAT, "the tag 'extends' is not supported");
    refuses("{% import 'x' as y %}", "{}", PAWL_EFORMAT, "the tag 'import' is not supported");
    refuses("{{ 1 + }}", "{}", PAWL_EFORMAT, "expected an expression");
    refuses("{{ 'a }}", "{}", PAWL_EFORMAT, "string without an end");
    refuses("{{ (1] }}", "{}", PAWL_EFORMAT, "unexpected ']'");
    refuses("{# a", "{}", PAWL_EFORMAT, "missing end of comment");
    refuses("{{ 99999999999999999999 }}", "{}", PAWL_EFORMAT, "64 bits");
    refuses("{{ a ! b }}", "{}", PAWL_EFORMAT, "unexpected character '!'");
    refuses("\n\n{{ raise_exception('no ' ~ 1) }}", "{}", PAWL_EINVAL, "t:3: no 1");
    pawl_template *t;
    pawl_err err;
    check_fails(pawl__template_compile("a\xff", 2, "t", &t, &err), PAWL_EFORMAT, &err, "byte 1 is not valid UTF-8");
}

static void bounds(void **state)
{
    (void)state;
    refuses("{{ 'x' * 10 ** 9 }}", "{}", PAWL_ETIMEDOUT, "t:1: a repetition");
    refuses("{{ [0] * 10 ** 10 }}", "{}", PAWL_ETIMEDOUT, "t:1: a repetition");
    refuses("{{ range(10 ** 9) }}", "{}", PAWL_ETIMEDOUT, "range: more than 100000 items");
    refuses("{% macro f() %}{{ f() }}{% endmacro %}\n{{ f() }}", "{}", PAWL_ETIMEDOUT, "nested more than 200 deep");
    refuses("{% set n = namespace(s='x') %}{% for i in range(99) %}{% set n.s = n.s ~ n.s %}{% endfor %}", "{}",
            PAWL_ETIMEDOUT, "a string of more than");
    refuses("{% set n = namespace(l=[]) %}{% for i in range(99) %}{% set n.l = [n.l, n.l] %}{% endfor %}{{ n.l }}",
            "{}", PAWL_ETIMEDOUT, "");
    refuses("{% set n = namespace() %}{% set n.n = n %}{{ n }}", "{}", PAWL_ETIMEDOUT, "nested more than");
    refuses("{{ 9223372036854775807 + 1 }}", "{}", PAWL_EINVAL, "does not fit 64 bits");
    refuses("{{ '%999999999d' % 1 }}", "{}", PAWL_ETIMEDOUT, "");
    refuses("{{ [1]|tojson(indent=999999999) }}", "{}", PAWL_ETIMEDOUT, "");
    refuses("{{ 'a'.center(999999999999) }}", "{}", PAWL_ETIMEDOUT, "");

    const pawl_template_limits few = {.steps = 100000, .max_output = 1000};
    pawl_buf out = {0};
    pawl_err err = {0};
    check_fails(render_with("{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}", "{}", &few,
                            &out, &err),
                PAWL_ETIMEDOUT, &err, "more than 100000 steps");
    check_fails(render_with("{% for a in range(999) %}ab{% endfor %}", "{}", &few, &out, &err), PAWL_ETIMEDOUT, &err,
                "the output is longer than 1000 bytes");
    assert_null(out.data);
}

/* n times open, then the middle, then n times close, must be refused as nested too deeply and not crash. */
static void nested(const char *before, const char *open, const char *middle, const char *close, const char *after,
                   pawl_status status, const char *words)
{
    pawl_buf source = {0}, out = {0};
    pawl_err err = {0};
    pawl__buf_puts(&source, before);
    for (int i = 0; i < 100000; i++) pawl__buf_puts(&source, open);
    pawl__buf_puts(&source, middle);
    for (int i = 0; i < 100000; i++) pawl__buf_puts(&source, close);
    pawl__buf_puts(&source, after);
    check_fails(render_with(source.data, "{}", NULL, &out, &err), status, &err, words);
    pawl__buf_free(&source);
}

static void deep_sources(void **state)
{
    (void)state;
    nested("{{ ", "(", "1", ")", " }}", PAWL_EFORMAT, "nested");
    nested("{{ ", "[", "1", "]", " }}", PAWL_EFORMAT, "nested");
    nested("{{ ", "{1:", "1", "}", " }}", PAWL_EFORMAT, "nested");
    nested("{{ ", "f(", "1", ")", " }}", PAWL_EFORMAT, "nested");
    nested("{{ ", "a[", "1", "]", " }}", PAWL_EFORMAT, "nested");
    nested("{{ ", "- ", "1", "", " }}", PAWL_EFORMAT, "nested");
    nested("{{ ", "not ", "1", "", " }}", PAWL_EFORMAT, "nested");
    nested("{{ ", "1 if 1 else ", "1", "", " }}", PAWL_EFORMAT, "nested");
    nested("{{ ", "1 + ", "1", "", " }}", PAWL_EFORMAT, "nested");
    nested("{{ ", "1 or ", "1", "", " }}", PAWL_EFORMAT, "nested");
    nested("{{ a", ".b", "", "", " }}", PAWL_EFORMAT, "nested");
    nested("{{ a", "|b", "", "", " }}", PAWL_EFORMAT, "nested");
    nested("{{ a", "()", "", "", " }}", PAWL_EFORMAT, "nested");
    nested("", "{% if 1 %}", "", "{% endif %}", "", PAWL_EFORMAT, "nested");
    nested("", "{% for a in b %}", "", "{% endfor %}", "", PAWL_EFORMAT, "nested");
    nested("{{ 0", "", "", "", "", PAWL_EFORMAT, "unexpected end of template");
    pawl_buf out = {0};
    pawl_err err = {0};
    const pawl_template_limits shallow = {.depth = 3};
    check_fails(render_with("{{ [[[[1]]]] }}", "{}", &shallow, &out, &err), PAWL_ETIMEDOUT, &err, "3 deep");
}

/* ---- messages ---- */

static void tool_arguments(void **state)
{
    (void)state;
    static const char source[] = "{% for m in messages %}{% for c in m.tool_calls %}{{ c.function.arguments|tojson }};"
                                 "{% endfor %}{% endfor %}{{ bos_token }}{{ tools }}{{ documents }}{{ thinking }}";
    pawl_template *t;
    pawl_err err;
    check_ok(pawl__template_compile(source, strlen(source), "t", &t, &err), &err);
    json_t *special = json_pack("{s:s}", "bos_token", "<s>"), *kwargs = json_pack("{s:b}", "thinking", 1);
    const char *const given[] = {"{\"z\": 1, \"a\": 2.0}", "", "[1]", "{"};
    const char *const words[] = {NULL, NULL, "arguments are an array", "arguments are not valid JSON"};
    const char *const text[] = {"{\"z\": 1, \"a\": 2.0};<s>NoneNoneTrue", "{};<s>NoneNoneTrue"};
    for (size_t i = 0; i < 4; i++) {
        json_t *messages =
            json_pack("[{s:s, s:[{s:{s:s}}]}]", "role", "assistant", "tool_calls", "function", "arguments", given[i]);
        pawl_buf out = {0};
        pawl_status s = pawl__chat_render(t, messages, NULL, 0, special, kwargs, &out, &err);
        if (words[i]) {
            check_fails(s, PAWL_EINVAL, &err, words[i]);
        } else {
            check_ok(s, &err);
            assert_string_equal(out.data, text[i]);
        }
        /* The caller's messages stay as they were. */
        json_t *call = json_array_get(json_object_get(json_array_get(messages, 0), "tool_calls"), 0);
        assert_true(json_is_string(json_object_get(json_object_get(call, "function"), "arguments")));
        pawl__buf_free(&out);
        json_decref(messages);
    }
    json_t *messages = json_pack("[{s:s}]", "role", "user"), *bad = json_pack("{s:i}", "messages", 1);
    pawl_buf out = {0};
    check_fails(pawl__chat_render(t, messages, NULL, 0, special, bad, &out, &err), PAWL_EINVAL, &err, "'messages'");
    json_decref(messages);
    json_decref(bad);
    json_decref(special);
    json_decref(kwargs);
    pawl__template_destroy(&t);
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void opened_renders(const char *dir, int tools, const char *expected)
{
    pawl_template *t;
    pawl_err err;
    pawl_buf out = {0};
    check_ok(pawl__template_open(dir, tools, &t, &err), &err);
    json_t *vars = json_object();
    check_ok(pawl__template_render(t, vars, NULL, &out, &err), &err);
    assert_string_equal(out.data, expected);
    json_decref(vars);
    pawl__buf_free(&out);
    pawl__template_destroy(&t);
}

static void where_templates_are(void **state)
{
    (void)state;
    char dir[] = "/tmp/pawl-template-XXXXXX", config[100], jinja[100];
    assert_non_null(mkdtemp(dir));
    snprintf(config, sizeof config, "%s/tokenizer_config.json", dir);
    snprintf(jinja, sizeof jinja, "%s/chat_template.jinja", dir);
    pawl_template *t;
    pawl_err err;
    check_fails(pawl__template_open(dir, 0, &t, &err), PAWL_EIO, &err, "no chat template");
    write_file(config, "{}");
    check_fails(pawl__template_open(dir, 0, &t, &err), PAWL_EIO, &err, "no chat template");
    write_file(config, "{\"chat_template\": 5}");
    check_fails(pawl__template_open(dir, 0, &t, &err), PAWL_EFORMAT, &err, "found an integer");
    write_file(config, "{\"chat_template\": \"one\"}");
    opened_renders(dir, 1, "one");
    write_file(config, "{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"tools\"},"
                       " {\"name\": \"default\", \"template\": \"plain\"}]}");
    opened_renders(dir, 0, "plain");
    opened_renders(dir, 1, "tools");
    write_file(jinja, "file");
    opened_renders(dir, 1, "file");
    remove(config);
    remove(jinja);
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(golden_cases),
                                       cmocka_unit_test(white_space),
                                       cmocka_unit_test(printing),
                                       cmocka_unit_test(floats),
                                       cmocka_unit_test(scopes),
                                       cmocka_unit_test(loops),
                                       cmocka_unit_test(attributes),
                                       cmocka_unit_test(precedence),
                                       cmocka_unit_test(tests_after_is),
                                       cmocka_unit_test(filters),
                                       cmocka_unit_test(json),
                                       cmocka_unit_test(time_of_day),
                                       cmocka_unit_test(syntax_errors),
                                       cmocka_unit_test(bounds),
                                       cmocka_unit_test(deep_sources),
                                       cmocka_unit_test(tool_arguments),
                                       cmocka_unit_test(where_templates_are)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
