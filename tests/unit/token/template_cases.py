"""Fixed expressions and templates for template_oracle.py: what each stands for is what the oracle says of it."""

VARS = {
    "s": "Hello wörld", "e": "", "n": 3, "f": 2.5, "z": 0, "t": True, "no": None, "l": [3, 1, 2], "m": {"b": 1, "a": [1, None]},
    "p": [{"k": "x", "v": 1}, {"k": "Y", "v": 2}, {"v": 3}], "w": "  a\tb \n", "q": "it's \"q\"", "ws": ["b", "A", "a", "B"],
    "big": 9007199254740993, "lines": "one\ntwo\r\n\nfour\u2028five", "html": "<a href='x'>&amp;</a>", "tag": "a</think>b</think>c",
}

# One a line.
EXPRESSIONS = r"""
1 + 2 * 3
1 ~ 2 ~ 3
-1|abs
- n
+ t
2 ** 3 ** 2
-2 ** 2
7 // 2
-7 // 2
7 % -3
7.5 // 2
-7.5 % 2
1 / 3
10 / 5
2 ** 0.5
2 ** -2
1e16
1e15
1.5e300 * 1e10
0.1 + 0.2
5 // 0
5 % 0
1 / 0
1.0 / 0
1e308 * 10
big
big / 3
big * 1.0
big == 9007199254740992.0
true + true
t * 3
'ab' * 3
3 * 'ab'
'ab' * -1
[1] * 2
[1] + [2]
(1,) + (2,)
[1] + (2,)
'a' + 'b'
'a' + 1
'a' 'b' "c"
s[0]
s[-1]
s[7]
s[99]
s[1:4]
s[::-1]
s[::2]
s[-3:]
s[:-3]
s[5:1:-1]
s['upper']
s[1.5]
s[none]
l[1:]
l[::-1]
l[5]
l['x']
m.b
m['b']
m.a
m.zz
m.zz.y
m.get('b')
m.get('q', 7)
m.items()
m.keys()
m.values()
m.items|length
m|items
m.copy()
m.items() is sequence
m.keys() is iterable
m.pop
m.update is defined
m.clear()
l.append(1)
l.append is defined
l.index(2)
l.count(1)
l.index(9)
no.x
no.x.y
nosuch
nosuch.x
nosuch['x']
nosuch()
nosuch == no
nosuch == nosuch2
nosuch is defined
nosuch + 1
nosuch < 1
not nosuch
nosuch in l
nosuch in 'a'
1 in nosuch
'a' in no
1 in 'abc'
'' in ''
'b' in m
[] in m
2 in l
2.0 in l
true in [1]
'x' in p[0].values()
('a', 1) in {'a': 1}.items()
1 < 2 < 3
3 > 2 > 2
1 == 1.0 == true
'a' < 'b'
'a' < 1
[1, 2] < [1, 3]
[1] < [1, 0]
(1,) < (0,)
no < 1
'é' > 'z'
[1, 'a'] < [1, 2]
[none] == [none]
1 and 0
'' or 'x'
not 1
not not ''
0 and nosuch.x
1 or nosuch.x
'a' if t
'a' if z
'a' if z else 'b' if n else 'c'
(1 if z) is defined
t is true
1 is true
0 is false
no is none
n is number
t is number
t is integer
f is float
n is float
s is string
m is mapping
l is mapping
l is sequence
m is sequence
s is sequence
no is iterable
nosuch is iterable
nosuch is sequence
n is iterable
n is odd
n is even
n is divisibleby 3
s is upper
'AB' is upper
'a1' is lower
'1' is lower
n is eq 3
n is sameas 3
n is gt 2
n is in [3]
n is not in [3]
n is ge(3)
s is escaped
(s|safe) is escaped
range is callable
s is callable
nosuch is callable
s.upper is callable
'upper' is filter
'nosuch' is filter
n is defined and z is defined
w|trim
w.strip()
w.lstrip()
w.rstrip()
'xxaxx'.strip('x')
'xyaxy'.lstrip('yx')
w.split()
w.split(' ')
'a,b,,c'.split(',')
'a,b,c'.split(',', 1)
'a b  c'.split(none, 1)
' a b '.rsplit()
'a,b,c'.rsplit(',', 1)
'a b c '.rsplit(none, 1)
'abc'.split('')
''.split()
''.split(',')
tag.split('</think>')[-1]
tag.split('</think>', 1)
tag.partition('</think>')
tag.rpartition('</think>')
'abc'.rpartition('x')
s.upper()
s.lower()
s.title()
'they\'re bill'.title()
s.capitalize()
'aB'.swapcase()
'ß'.upper()
s.startswith('He')
s.startswith(('x', 'H'))
s.startswith('l', 2)
s.endswith('ld')
s.endswith('o', 0, 5)
s.startswith(1)
s.find('o')
s.find('zz')
s.rfind('o')
s.find('', 99)
s.index('zz')
s.count('o')
'aaa'.count('aa')
'abc'.count('')
s.replace('o', '0')
s.replace('o', '0', 1)
'abc'.replace('', '-')
'abc'.replace('', '-', 2)
s.replace('o')
', '.join(['a', 'b'])
','.join('abc')
','.join([1])
','.join(m)
'12'.isdigit()
'1a'.isdigit()
'²'.isdigit()
'²'.isdecimal()
''.isalpha()
'aé'.isalpha()
'a1'.isalnum()
' \t'.isspace()
'Ab'.istitle()
'a'.islower()
'7'.zfill(3)
'-7'.zfill(4)
'a'.center(5)
'a'.center(4)
'ab'.center(5, '*')
'a'.ljust(3, '.')
'a'.rjust(3)
'a'.rjust(3, 'xy')
lines.splitlines()
lines.splitlines(true)
'prefix'.removeprefix('pre')
'prefix'.removesuffix('fix')
'{} {}'.format(1, 'a')
'{1}{0}'.format(1, 2)
'{a.b}{c[0]}'.format(a=m, c=l)
'{{}}'.format()
'{!r}'.format('x')
'{}'.format()
'%s' % 1
'%s %s' % (1, 'a')
'%d%%' % 3.7
'%05.2f' % f
'%x' % 255
'%r' % 'a'
'%s' % nosuch
'%d' % 'a'
'%(b)s' % m
'%-5s|' % 'a'
'%5s' % 'é'
'%+d' % 3
'%.2s' % 'abc'
'%e' % 1234.5
'%g' % 1e-5
'%c' % 65
'%s' % (1, 2)
'%s %s' % 1
'a' % 1
'a' % []
'%o' % 8
'%#x' % 10
'%s'|format(1)
'%s-%s'|format('a', 'b')
s|upper
s|lower
'foo bar-baz (qux) [x'|title|s|capitalize|s|length|l|length|m|length|n|length|no|length|nosuch|length|s|first|s|last|l|first|l|last|[]|first|[]|last is defined|m|first|m|last|nosuch|first
l|sort
l|sort(reverse=true)
ws|sort
ws|sort(case_sensitive=true)
[1, 'a']|sort
p|sort(attribute='v', reverse=true)
p|map(attribute='v')|list
p|map(attribute='k')|list
p|map(attribute='k', default='D')|list
p|map(attribute='k.0')|first
p|map('length')|list
p|map|list
p|selectattr('k')|list
p|selectattr('v', 'gt', 1)|list
p|rejectattr('v', 'equalto', 2)|map(attribute='v')|list
l|select('odd')|list
l|reject('odd')|list
l|select|list
[0, 1]|select|list
l|select('nosuchtest')|list
no|map('upper')|list
l|map('nosuchfilter')|list
ws|unique|list
ws|unique(true)|list
[[1]]|unique|list
ws|join(',')
l|join
p|join('-', attribute='v')
l|sum
p|sum(attribute='v')
l|sum(start=10)
['a']|sum
l|min
l|max
ws|min
ws|max
[]|min
ws|max(case_sensitive=true)
p|max(attribute='v')
l|batch(2)|list
l|batch(2, 'x')|list
l|slice(2)|list
l|slice(2, 'f')|list
[1,2,3,4,5]|slice(3)|list
l|reverse|list
s|reverse
m|reverse|list
l|list
s|list
m|list
(1, 2)|list
no|list
nosuch|list
m|dictsort
{'b': 1, 'A': 2}|dictsort
{'b': 1, 'A': 2}|dictsort(by='value')
{'b': 1, 'A': 2}|dictsort(true, reverse=true)
m|items|list
nosuch|items|list
l|items|list
'3'|int
' 42 '|int
'4.7'|int
'x'|int
'x'|int(9)
'0x1f'|int(0, 16)
'ff'|int(base=16)
'0b11'|int(base=0)
'1_000'|int
'1__0'|int
f|int
-2.7|int
no|int
t|int
'1e3'|int
l|int
'12'|int(base=8)
'2.5'|float
' 1e3 '|float
'x'|float
'x'|float(1.5)
'nan'|float
'-inf'|float
'1_0.5'|float
'.5'|float
'5.'|float
n|float
no|float
42.55|round
42.55|round(1, 'floor')
42.55|round(1, 'ceil')
2.5|round
3.5|round
2.675|round(2)
n|round
n|round(1)
-0.4|round
'a'|round
1e300|round(2)
s|replace('o', 'x')
s|replace('o', 'x', 1)
n|replace(3, 4)
html|e
html|escape|string
n|e
html|safe
(html|safe)|e
html|forceescape
(html|safe) + '<'
'<' + (html|safe)
(html|safe) ~ '<'
['<'|safe]
('<b>'|safe).upper()
('a'|safe) * 2
('a,b'|safe).split(',')
('<a>'|safe).replace('a', '<')
('<a>'|safe)[0]
('-'|safe).join(['<', '&'])
'a\nb\n\nc'|indent
'a\nb\n\nc'|indent(2, true)
'a\nb\n\nc'|indent(2, blank=true)
'a\nb'|indent('> ')
n|indent
s|center(20)
s|truncate(5)
s|truncate(5, true)
s|truncate(8, false, '!')
s|truncate(8, false, '!', 0)
'foo bar baz qux'|truncate(9)
s|default('x')
nosuch|default('x')
nosuch|default|e|d('x')|e|d('x', true)
no|d('x', boolean=true)
m|tojson
l|tojson
s|tojson
q|tojson
no|tojson
f|tojson
m|tojson(indent=2)
m|tojson(indent='\t')
m|tojson(indent=0)
m|tojson(sort_keys=true)
m|tojson(separators=(',', ':'))
m|tojson(true)
s|tojson(ensure_ascii=true)
'😀'|tojson(true)
(1, [2], {})|tojson
{1: 2, none: 3, true: 4, 1.5: 5}|tojson
{(1,): 2}|tojson
nosuch|tojson
range(3)|tojson
[]|tojson(indent=4)
{}|tojson(indent=4)
m|tojson(nosuch=1)
'\u0001\x7f\b\f/</script>'|tojson
{'a': nosuch}|tojson
1e400|tojson
[1e22, 1e21, 123456789.123, 1e-7, 5e-324]|tojson
'[1, {"a": null}]'|from_json
'{"z": 1, "a": 2}'|from_json|tojson
'nope'|from_json
range(3)|list
range(1, 10, 3)|list
range(5, 0, -2)|list
range(3)[1]
range(10)[2:5]|list
range(0)
range(3) == range(0, 3)
2 in range(3)
range(1, 2, 0)
range('a')
range(3).stop
range(1, 3)|string
dict(a=1, b=2)
dict([('a', 1)])
dict(m, c=3)
dict(1)
namespace(a=1)
namespace(a=1).a
namespace({'a': 2}).a
namespace(a=1)['a']
namespace().b
{'a': 1, 'a': 2}
{1: 'a', true: 'b', 1.0: 'c'}
{'a': 1} == {'a': 1.0}
{}[[]]
{[]: 1}
[1, [2, (3, {'k': none})]]
(1,)
()
((1))
(1, 2)[0]
[1, 2,]
{'a': 1,}
'\x41\u00e9\101\n\q\\'
"it's"
'a"b'
'\é'
['\n\t\r\\\'', "\"", '\'\"', '\x00\x1f\u2028\ud7ff\ue000é']
'a'.nosuch
'a'.nosuch.x
m.b.c.d
l.0
p.0.k
p[0]['k']
m['items']
s is string and n > 2 or nosuch
not s is string
n + 1 is number
'a' + 'b' is string
n if n is defined else 0
n is not none
1 if n == 3 and not z
[1, 2, 3][1:][0]
(s|upper)[0]
s|upper|lower|length + 1
l|map('string')|join('-')|upper
{'a': {'b': [1, 2]}}.a.b[-1]
[[1, 2], [3]]|map('first')|list
[[1, 2], [3]]|map('sum')|sum
'a' ~ nosuch ~ 1.0 ~ true ~ none ~ [1]
s.upper().lower()[0:2] ~ '!'
0x1F
0b101
0o17
1_000
1e3
1.5E-3
1.
.5
1__0
007
9223372036854775807
-9223372036854775807 - 1
9223372036854775807 + 1
m|attr('items') is callable
m|attr('b')
p|map(attribute=0)|list
[[1, 2]]|map(attribute=1)|list
[[1, 2]]|map(attribute='1')|list
l|map('abs', 1)|list
*l
f(**m)
dict(**m)
dict(*[m])
cycler('a', 'b').next()
joiner()()
raise_exception('x')
""".strip().splitlines()

TEMPLATES = [
    'a\n  {% if true %}\nb\n  {% endif %}\nc\n',
    'a\n  {%- if true %}\nb\n  {%- endif -%}\n  c',
    'x {{ 1 }}\n{{ 2 }}\n',
    'a\n {%+ if true %}b{% endif %}',
    '{% if true +%}\nb{% endif %}',
    'a\n\n\n',
    'a\n',
    '\n',
    '',
    '{{ 1 }}\n\n',
    'a\r\nb\rc\r\n',
    '  {% set x = 1 %}  \n{{ x }}',
    '{# a #}\nb',
    '  {# a #}  \nb',
    '  {#- a -#}  \n b',
    'a {#+ b +#}\n c',
    '{#-#}x',
    '{# {{ x }} {% if %} #}y',
    '{% raw %}\n {{ x }}\n{% endraw %}\nb',
    '{%- raw -%} {{ x }} {%- endraw -%} b',
    '  {% raw %}a{% endraw %}  \nb',
    '{% raw %}{% raw %}{% endraw %}',
    '{%if t%}a{%endif%}',
    '{%  if   t  %}a{%endif  %}',
    '{% if t: %}a{% endif %}',
    "{{ '}}' }}{{ '%}' }}",
    "{{ {'a': {'b': 1}}['a'] }}",
    "{{ {'a': {}} }}",
    'a{{ 1 }}  {%- if t -%}  b  {%- endif -%}  {{ 2 }}',
    '{{- 1 -}}\n {{- 2 -}}',
    'x\x1c{%- if t %}a{% endif %}',
    '\xa0{%- if t -%}\u3000a{% endif %}',
    "{{ '\n' }}|",
    "{{ 'a\\\nb' }}",
    "{% set a = 'x\n  y' %}{{ a }}",
    '{ {%if t%}{{%endif%}',
    '{{ 1 }}{% if t %}\n\n\na{% endif %}',
    '{ { } }',
    '{',
    '{%',
    '{{',
    '{#',
    '}}',
    '%}',
    '{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }};{% endfor %}',
    '{% for x in l %}{{ loop.previtem }}-{{ x }}-{{ loop.nextitem }};{% endfor %}',
    '{% for x in l %}{{ loop.previtem is defined }}{{ loop.nextitem is undefined }}{% endfor %}',
    '{% for x in l if x > 1 %}{{ loop.index }}{{ x }}{{ loop.last }}{{ loop.length }}{{ loop.nextitem }};{% else %}none{% endfor %}',
    '{% for x in l if x > 9 %}a{% else %}none{% endfor %}',
    '{% for x in [] %}a{% else %}b{% endfor %}',
    '{% for x in nosuch %}a{% else %}b{% endfor %}',
    '{% for x in none %}a{% endfor %}',
    '{% for x in 5 %}a{% endfor %}',
    '{% for c in s %}{{ c }},{% endfor %}',
    '{% for k in m %}{{ k }}{% endfor %}{% for k, v in m|items %}{{ k }}{{ v }}{% endfor %}{% for k, v in m.items() %}{{ loop.last }}{% endfor %}',
    "{% for a, b in [[1, 2], (3, 4), 'xy'] %}{{ a }}{{ b }}{% endfor %}",
    '{% for a, b in [[1]] %}{% endfor %}',
    '{% for a, b in [[1, 2, 3]] %}{% endfor %}',
    '{% for a, (b, c) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}',
    '{% for a in l %}{% for b in l %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}',
    '{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}',
    '{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% else %}e{% endfor %}',
    '{% for x in [1] %}{% break %}{% else %}e{% endfor %}',
    '{% for x in [1] %}{% continue %}{% else %}e{% endfor %}',
    '{% break %}',
    '{% for x in l %}{% macro f() %}{% break %}{% endmacro %}{% endfor %}',
    '{% for x in l %}{% set y %}{% if x == 1 %}{% break %}{% endif %}q{{ x }}{% endset %}{{ y }}{% endfor %}',
    '{% for x in l %}{% else %}{% break %}{% endfor %}',
    '{% for x in l %}{{ x }}{% set x = 9 %}{{ x }}{% endfor %}{{ x }}',
    "{% for x in l %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }}{{ loop.depth }}{% endfor %}",
    '{% for x in l|reverse %}{{ loop.length }}{{ loop.last }}{{ x }}{% endfor %}',
    "{% for x in l|map('string') %}{{ loop.index }}/{{ loop.length }}{{ x }}{% endfor %}",
    '{% for x in l %}{{ loop }}{% endfor %}',
    '{% for x in l if loop.first %}{{ x }}{% endfor %}',
    '{% for x in l %}{% for y in l if loop.first %}{{ y }}{% endfor %}{% endfor %}',
    '{% set ns = namespace(go=true) %}{% for x in l if ns.go %}{{ x }}{% if x == 1 %}{% set ns.go = false %}{% endif %}{% endfor %}',
    '{% set ns = namespace(go=true) %}{% for x in l if ns.go %}{{ x }}{{ loop.last }}{% if x == 1 %}{% set ns.go = false %}{% endif %}{% endfor %}',
    "{% for x in (l|map('abs')) %}{{ x }}{% endfor %}",
    "{% set g = l|map('string') %}{{ g|join }}{{ g|join }}",
    '{% set g = m|items %}{% for k, v in g %}{{ k }}{% endfor %}{% for k, v in g %}{{ k }}{% endfor %}',
    "{{ ['a', 1]|map('upper')|first }}",
    "{{ [1, 'a']|map('abs')|first }}",
    '{% set x = 1 %}{% if t %}{% set x = 2 %}{% endif %}{{ x }}',
    '{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}',
    '{% set ns = namespace(x=1) %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}{{ ns }}',
    '{% set ns = namespace() %}{% set ns.y = 1 %}{{ ns.y }}{{ ns.z }}',
    '{% set a, b = 1, 2 %}{{ a }}{{ b }}',
    '{% set a, b = [1] %}',
    '{% set a = 1, %}{{ a }}',
    '{% set a = 1, 2 %}{{ a }}',
    '{% set (a, b) = (1, 2) %}{{ a ~ b }}',
    '{% set a.b = 1 %}',
    '{% set m.b = 1 %}',
    '{% set 1 = 2 %}',
    '{% set none = 2 %}',
    '{% set [a] = [2] %}',
    '{% set a[0] = 2 %}',
    '{% set a %}x{{ n }}{% endset %}{{ a }}{{ a|length }}',
    '{% set a | upper %}x{% endset %}{{ a }}',
    '{% set a | trim | upper %} x {% endset %}{{ a }}',
    '{% set a %}{% set b = 5 %}{% endset %}{{ b }}',
    '{% set a %}{% endset %}[{{ a }}]',
    "{% macro f(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }};{% endmacro %}{{ f(1) }}{{ f(1, c=3) }}{{ f(b=1, a=0) }}{{ f() }}{{ f(1, 2, 3) }}",
    '{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}',
    '{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, a=2) }}',
    '{% macro f(a) %}{{ a }}{% endmacro %}{{ f(b=2) }}',
    '{% macro f(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ f(1) }}',
    '{% macro f(a=1, b) %}{% endmacro %}',
    '{% macro f() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, x=3) }}',
    '{% macro f(a) %}{{ kwargs }}{% endmacro %}{{ f(1, b=2) }}{{ f(1, 2) }}',
    '{% macro f() %}x{% endmacro %}{{ f }}{{ f.name }}{{ f.arguments }}{{ f is callable }}',
    '{% macro f(x) %}{% if x > 0 %}{{ x }}{{ f(x - 1) }}{% endif %}{% endmacro %}{{ f(4) }}',
    '{% macro f() %}{{ y }}{% endmacro %}{% set y = 1 %}{{ f() }}',
    '{{ f() }}{% macro f() %}a{% endmacro %}',
    '{% macro f() %}{{ n }}{% set n = 9 %}{{ n }}{% endmacro %}{{ f() }}{{ n }}',
    '{% macro f() %}{% set n = 9 %}{{ n }}{% endmacro %}{{ f() }}{{ n }}',
    '{% macro f() %}{{ i }}{% endmacro %}{% for i in l %}{{ f() }}{% endfor %}',
    '{% for i in l %}{% macro f() %}{{ i }}{% endmacro %}{{ f() }}{% endfor %}',
    '{% set ns = namespace() %}{% for i in l %}{% macro f() %}{{ i }}{% endmacro %}{% if i == 3 %}{% set ns.f = f %}{% endif %}{{ ns.f() }}{% endfor %}',
    '{% macro f() -%}  a  {%- endmacro %}[{{ f() }}]',
    '{% macro f() %}{{ caller() }}{% endmacro %}{% call f() %}body{{ n }}{% endcall %}',
    '{% macro f(x) %}{{ caller(x, 2) }}{% endmacro %}{% call(a, b=3) f(1) %}{{ a }}{{ b }}{% endcall %}',
    '{% macro f() %}x{% endmacro %}{% call f() %}b{% endcall %}',
    '{% macro f() %}{{ caller() }}{% endmacro %}{{ f() }}',
    '{% macro f() %}{% if caller %}y{% else %}n{% endif %}{% endmacro %}{{ f() }}{% call f() %}{% endcall %}',
    '{% if nosuch %}a{% elif z %}b{% elif n %}c{% else %}d{% endif %}',
    '{% if z %}a{% endif %}b',
    '{% if 1, 0 %}a{% endif %}',
    '{% if %}a{% endif %}',
    '{% if t %}a{% else %}b{% elif t %}c{% endif %}',
    '{% else %}',
    '{% endif %}',
    '{% if t %}{% for x in l %}{% endif %}{% endfor %}',
    '{% nosuch %}',
    '{% filter upper %}a{{ s }}{% endfilter %}',
    "{% filter replace('a', 'b')|upper %}a{% set q = 1 %}{% endfilter %}{{ q }}",
    '{% with a = 1, b = n %}{{ a }}{{ b }}{% set c = 3 %}{% endwith %}{{ a }}{{ c }}',
    '{% with %}{% set a = 1 %}{{ a }}{% endwith %}{{ a }}',
    '{% print n %}{% print n, s %}',
    '{% generation %}a{% set x = 1 %}{{ x }}{% endgeneration %}{{ x }}\nb',
    '{% for i in [1] %}{{ n }}{% endfor %}{% set n = 1 %}{{ n }}',
    '{{ n }}{% set n = 1 %}{{ n }}',
    '{% if z %}{% set n = 1 %}{% endif %}{{ n }}',
    '{% if z %}{% set n = 1 %}{% else %}{% set z = 5 %}{% endif %}{{ n }}{{ z }}',
    '{% macro f() %}{{ n }}{% endmacro %}{{ f() }}{% set n = 1 %}{{ f() }}',
    '{% if z %}{% set n = 1 %}{% elif z %}{% set n = 2 %}{% else %}{% set n = n %}{% endif %}{{ n }}',
    '{% if z %}{% set n = 1 %}{% elif z %}{% set n = 2 %}{% endif %}{{ n }}',
    '{% for i in l %}{% if i == 1 %}{% set n = 7 %}{% endif %}{{ n }}{% endfor %}',
    '{% for n in l %}{{ n }}{% endfor %}{{ n }}',
    '{% for i in l %}{{ q }}{% set q = i %}{{ q }}{% endfor %}',
    '{% for i in l %}{% for j in l %}{{ k }}{% endfor %}{% set k = i %}{% endfor %}',
    '{% set x %}{{ n }}{% set n = 5 %}{{ n }}{% endset %}{{ x }}{{ n }}',
    '{% set x %}{% set n = 5 %}{{ n }}{% endset %}{{ x }}{{ n }}',
    '{% with n = 4 %}{{ n }}{% set n = 5 %}{{ n }}{% endwith %}{{ n }}',
    '{% if t %}{% macro f() %}a{% endmacro %}{% endif %}{{ f() }}',
    '{% if z %}{% macro f() %}a{% endmacro %}{% endif %}{{ f is defined }}',
    '{% set range = 5 %}{{ range }}',
    '{% set loop = 5 %}{{ loop }}',
    '{% for x in l %}{% set loop = 5 %}{% endfor %}',
    '{% for loop in l %}{% endfor %}',
    "{% for x in l %}{{ loop.nosuch }}{{ loop['index'] }}{% endfor %}{{ loop }}",
    "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}{{ c.reset() }}{{ c.next() }}",
    "{% set j = joiner('|') %}{% for x in l %}{{ j() }}{{ x }}{% endfor %}",
    "{% set x = 'a' if z %}{{ x }}{{ x is defined }}",
    "{{ raise_exception('boom') }}",
    "{% if z %}{{ raise_exception('boom') }}{% endif %}ok",
    '{{ dict(a=1).a }}{{ dict(a=1)|tojson }}',
    "{{ [1,2,3]|select('in', [1, 3])|list }}",
    "{{ x.y if x is defined else 'n' }}",
    "{{ 'a' is string == true }}",
    "{{ -n|string ~ 'x' }}",
    '{{ (n, s) }}',
    '{{ n, s }}',
    '{{ n, }}',
    '{{ }}',
    '{{ () }}',
    '{{ n s }}',
    '{{ n. }}',
    '{{ n.1a }}',
    '{{ a b }}',
    "{{ 'a' is }}",
    '{{ is }}',
    '{{ not }}',
    '{{ in }}',
    '{{ f(a=1, 2) }}',
    '{{ f(**m, *l) }}',
    "{{ dict(a=1, **{'b': 2}) }}",
    "{{ dict(a=1, **{'a': 2}) }}",
    '{{ range(*[1, 4])|list }}',
    "{% set messages = [{'role': 'user', 'content': 'hi'}] %}{% for m in messages %}{{ '<|' ~ m.role ~ '|>' ~ m['content'] }}{% if not loop.last %}\n{% endif %}{% endfor %}",
    '{% for m in p %}{% if (m.k is defined and m.k is string) or m.v > 2 %}{{ m.k }}{% endif %}{% endfor %}',
    '{%- for m in p -%}\n  {{- m.v }}\n  {%- if not loop.last %}, {% endif -%}\n{%- endfor %}',
    "{% set ns = namespace(first=true, text='') %}{% for m in p %}{% if ns.first %}{% set ns.first = false %}{% else %}{% set ns.text = ns.text + '|' %}{% endif %}{% set ns.text = ns.text + (m.k|default('-')) %}{% endfor %}{{ ns.text }}",
    "{% for x in p %}{{ x.k|default('none')|upper|tojson }}{% endfor %}",
    "{{ l[1:]|map('string')|join(', ') }}",
    '{{ p[::-1][0].v }}{{ p[-1].k }}{{ p[9].k }}',
    "{{ (p|last).v }}{{ p|map(attribute='v')|sum }}",
    "{{ 'yes' if 'k' in p[0] and 'k' not in p[2] else 'no' }}",
]
