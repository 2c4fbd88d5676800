"""Renders templates with pawl and with Jinja2, set up as transformers does, and compares the texts byte for byte.

Usage: template_oracle.py RENDER_CASES [random cases]. Fixed cases first, then chat templates over message lists (see
template_models.py), then random expressions and templates from a seed (PAWL_SEED, else the clock) that is printed. An
error on both sides counts as equal. Without Jinja2 the test is skipped with a message.
"""
import signal
import functools
import json
import os
import random
import subprocess
import sys
import time
import warnings

try:
    import jinja2
    import jinja2.ext
    from jinja2.sandbox import ImmutableSandboxedEnvironment
except ImportError:
    print("template_oracle: skipped, this Python has no jinja2 (Debian: python3-jinja2)")
    sys.exit(0)

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import template_models  # noqa: E402
from template_cases import EXPRESSIONS, TEMPLATES, VARS  # noqa: E402


class Generation(jinja2.ext.Extension):
    """{% generation %}: marks what the model wrote; here it only passes it through."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("through"), [], [], body).set_lineno(line)

    def through(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols, Generation]
    )
    env.filters["tojson"] = tojson
    env.filters["from_json"] = json.loads
    env.globals["raise_exception"] = raise_exception
    return env


ENV = environment()


@functools.lru_cache(maxsize=64)
def compiled(source):
    return ENV.from_string(source)


class Slow(BaseException):
    """Not an Exception, which Jinja2 would catch while it folds constants."""


def too_slow(signum, frame):
    raise Slow


def oracle(case):
    """What Jinja2 makes of it. Python's integers have no bound: a power of powers gets two seconds."""
    signal.signal(signal.SIGALRM, too_slow)
    signal.setitimer(signal.ITIMER_REAL, 2)
    try:
        variables = case["vars"]
        if case.get("chat"):
            variables = {**variables.get("special", {}), **variables.get("kwargs", {}), "documents": None,
                         **{k: v for k, v in variables.items() if k not in ("special", "kwargs")}}
        text = compiled(case["template"]).render(**variables)
        text.encode()
        return {"text": text}
    except Slow:
        return {"slow": True}
    except Exception as e:  # whatever a template can provoke: Jinja2's errors and Python's
        return {"error": repr(e)}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def comparable(mine, theirs, what):
    """Not so: pawl's own limits (bounds, integers beyond 64 bits, complex numbers, and in random cases what it refuses as
    not supported), addresses in memory, and a quirk of Jinja2's constant folding, by which a slice of a constant that
    cannot be sliced is undefined, while it is an error everywhere else."""
    error = mine.get("error", "")
    refused = ["ETIMEDOUT", "EUNSUPPORTED"] if what == "random" else ["ETIMEDOUT"]
    return not (theirs.get("slow") or mine.get("status") in refused or " at 0x" in theirs.get("text", "")
                or any(limit in error for limit in ("64 bits", "cannot be sliced", "complex number")))


def compare(program, cases, what):
    """Renders all cases on both sides; returns the number of differences after printing them."""
    lines = "".join(json.dumps(c) + "\n" for c in cases)
    done = subprocess.run([program], input=lines.encode(), stdout=subprocess.PIPE, timeout=600)
    answers = done.stdout.decode().rstrip("\n").split("\n")
    if done.returncode != 0 or len(answers) != len(cases):
        print(f"{what}: the program ended with {done.returncode} after {len(answers)} of {len(cases)} cases")
        if len(answers) < len(cases):
            print(json.dumps(cases[len(answers)]))
        return 1
    bad = texts = skipped = 0
    for case, line in zip(cases, answers):
        mine, theirs = json.loads(line), oracle(case)
        texts += "text" in theirs
        if mine.get("text") == theirs.get("text"):
            continue
        if not comparable(mine, theirs, what):
            skipped += 1
            continue
        bad += 1
        if bad <= 20:
            print(f"{what}: {case['template']!r}\n  jinja2: {theirs}\n  pawl:   {mine}")
    print(f"{what}: {len(cases)} cases, {texts} with a text, {skipped} not comparable, {bad} differences")
    return bad


# ---- random templates ----

NAMES = ["a", "n", "f", "s", "u", "l", "d", "t", "z", "nosuch"]
LITERALS = ["1", "0", "-3", "2.5", "1e3", "'x'", "''", "'a b'", "'é'", "true", "false", "none", "[]", "[1, 2]", "{}",
            "{'k': 1}", "(1, 'q')", "['b', 'A', 'c']", "10", "7", "'A-b'", "' x '"]
BINARY = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or", "**"]
FILTERS = ["trim", "upper", "lower", "title", "capitalize", "length", "string", "tojson", "tojson(indent=2)", "int",
           "float", "abs", "list", "first", "last", "reverse|list", "sort", "join(',')", "join", "default('d')",
           "default('d', true)", "items|list", "safe", "e", "round(1)", "unique|list", "sum", "min", "max",
           "replace('a', 'bb')", "indent(2)", "map('string')|list", "select|list", "reject('none')|list", "batch(2)|list",
           "dictsort", "center(7)", "truncate(5)", "map('upper')|join", "selectattr('k')|list", "count", "slice(2)|list",
           "map(attribute='k')|list", "select('string')|list", "sort(reverse=true)", "tojson(sort_keys=true)"]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "mapping", "iterable", "sequence",
         "boolean", "true", "false", "odd", "even", "lower", "upper", "callable", "in [1, 'x']", "equalto 1",
         "divisibleby 2", "sameas none", "eq(1)", "gt 1"]
METHODS = ["strip()", "split()", "split(' ')", "split('a', 1)", "upper()", "lower()", "startswith('a')", "title()",
           "endswith('x')", "replace('a', 'b')", "items()", "keys()|list", "values()|list", "get('k')", "get('z', 5)",
           "count(1)", "index(1)", "find('b')", "join(['a', 'b'])", "lstrip('x')", "rstrip()", "splitlines()", "k",
           "isdigit()", "zfill(5)", "partition('b')", "rsplit(' ', 1)", "append(1)", "x", "copy()", "swapcase()",
           "ljust(5, '.')", "isalpha()", "capitalize()", "rfind('a')"]
SUBSCRIPTS = ["[0]", "[-1]", "['k']", "[1:]", "[:1]", "[::-1]", "[::2]", "[5]", "[-2:]", "[n]", "['get']", "[1:-1]"]


def expression(rng, depth):
    if depth <= 0 or rng.random() < 0.15:
        return rng.choice(NAMES if rng.random() < 0.5 else LITERALS)
    kind = rng.randrange(12)
    sub = lambda: expression(rng, depth - 1)  # noqa: E731
    if kind == 0:
        return f"{sub()} {rng.choice(BINARY)} {sub()}"
    if kind == 1:
        return f"({sub()} {rng.choice(BINARY)} {sub()})"
    if kind in (2, 3):
        return f"{sub()}|{rng.choice(FILTERS)}"
    if kind == 4:
        return f"({sub()}) is {rng.choice(['', 'not '])}{rng.choice(TESTS)}"
    if kind == 5:
        return f"({sub()}).{rng.choice(METHODS)}"
    if kind == 6:
        return f"({sub()}){rng.choice(SUBSCRIPTS)}"
    if kind == 7:
        return f"({sub()} if {sub()}{rng.choice(['', ' else ' + sub()])})"
    if kind == 8:
        return f"{rng.choice(['-', '+', 'not '])}{sub()}"
    if kind == 9:
        return f"[{sub()}, {sub()}]"
    if kind == 10:
        return "{" + f"{rng.choice(LITERALS[:10])}: {sub()}, 'y': {sub()}" + "}"
    return f"{rng.choice(NAMES)}.{rng.choice(METHODS)}"


def tag(rng, text):
    return "{%" + rng.choice(["", "", "-", "+"]) + f" {text} " + rng.choice(["", "", "-", "+"]) + "%}"


def block(rng, depth):
    text = rng.choice(["x", " ", "\n", "  \n ", "a\n", "\ty", "é ", ""])
    if depth <= 0:
        return text
    kind = rng.randrange(13)
    body = lambda: "".join(block(rng, depth - 1) for _ in range(rng.randrange(1, 4)))  # noqa: E731
    e = lambda: expression(rng, 2)  # noqa: E731
    name = rng.choice(NAMES)
    if kind <= 2:
        return text + "{{" + rng.choice(["", "-"]) + f" {e()} " + rng.choice(["", "-"]) + "}}"
    if kind == 3:
        return tag(rng, f"if {e()}") + body() + tag(rng, f"elif {e()}") + body() + tag(rng, "endif")
    if kind == 4:
        return tag(rng, f"if {e()}") + body() + tag(rng, "else") + body() + tag(rng, "endif")
    if kind in (5, 6):
        return tag(rng, f"for {name} in {e()}") + body() + tag(rng, "endfor")
    if kind == 7:
        loop = rng.choice(["loop.index", "loop.last", "loop.length", "loop.previtem", "loop.nextitem", "loop.revindex0"])
        what = f"for {name} in {e()} if {e()}"
        return tag(rng, what) + "{{ " + loop + " }}" + body() + tag(rng, "else") + body() + tag(rng, "endfor")
    if kind == 8:
        return tag(rng, f"set {name} = {e()}")
    if kind == 9:
        return tag(rng, f"set {name}") + body() + tag(rng, "endset")
    if kind == 10:
        macro = rng.choice(["m1", "m2"])
        return tag(rng, f"macro {macro}({name}, p={e()})") + body() + tag(rng, "endmacro") + "{{ " + macro + f"({e()}) }}}}"
    if kind == 11:
        return "{#" + rng.choice(["", "-"]) + " c " + rng.choice(["", "-"]) + "#}" + text
    where = rng.choice(["ns.a", "ns.b"])
    return tag(rng, f"for {name} in {e()}") + tag(rng, f"set {where} = {e()}") + tag(rng, "endfor") + "{{ ns.a }}"


def random_value(rng, depth):
    kind = rng.randrange(9 if depth > 0 else 7)
    if kind == 0:
        return rng.choice([None, True, False])
    if kind == 1:
        return rng.choice([0, 1, -1, 7, 10**6, -(2**62), 2**53 + 1])
    if kind == 2:
        return random_float(rng)
    if kind <= 6:
        return "".join(rng.choice("ab AZ'\"\\\n\t<&éß中😀\u2028\x1c\x7f_-.019") for _ in range(rng.randrange(8)))
    if kind == 7:
        return [random_value(rng, depth - 1) for _ in range(rng.randrange(4))]
    return {rng.choice(["k", "x", "a b", "get", "é", "0"]): random_value(rng, depth - 1) for _ in range(rng.randrange(4))}


def random_float(rng):
    return rng.choice([
        rng.uniform(-10, 10), rng.randrange(1000) / 8, 10.0 ** rng.randrange(-20, 25), 2.0 ** rng.randrange(-1074, 1023),
        rng.random() * 10.0 ** rng.randrange(-300, 300), float(rng.randrange(10**17)),
    ])


def random_cases(rng, count):
    cases = []
    for i in range(count):
        variables = {k: random_value(rng, 2) for k in NAMES if k not in ("nosuch", "u")}
        if i % 3 == 0:
            template = "{% set ns = namespace(a=0) %}" + "".join(block(rng, 3) for _ in range(rng.randrange(1, 6)))
        else:
            template = "{{ " + expression(rng, 3) + " }}"
        cases.append({"template": template, "vars": variables})
    for _ in range(count // 10):
        value = random_value(rng, 3)
        cases.append({"template": "{{ v|tojson }}{{ v|tojson(indent=3) }}{{ v }}", "vars": {"v": value}})
        numbers = [random_float(rng) for _ in range(10)]
        cases.append({"template": "{{ v }}{{ v|tojson }}", "vars": {"v": numbers}})
    return cases


def main():
    warnings.simplefilter("ignore", SyntaxWarning)  # Python's opinion of what Jinja2 made of a random template
    program = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 3000
    bad = compare(program, [{"template": "{{ " + e + " }}", "vars": VARS} for e in EXPRESSIONS], "expressions")
    bad += compare(program, [{"template": t, "vars": VARS} for t in TEMPLATES], "templates")
    bad += compare(program, template_models.cases(), "chat templates")
    seed = int(os.environ.get("PAWL_SEED", time.time()))
    print(f"random: PAWL_SEED={seed}")
    bad += compare(program, random_cases(random.Random(seed), count), "random")
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
