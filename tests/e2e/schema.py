"""The part of JSON Schema that doc/schema uses. An unknown keyword is an error: it would check nothing."""
import json
import os

FOLDER = os.path.join(os.path.dirname(__file__), "..", "..", "doc", "schema")
SILENT = {"$schema", "$id", "$defs", "title", "description"}
TYPES = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "null": lambda v: v is None,
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
}


def load(name):
    """name: "pawl.run/1"."""
    with open(os.path.join(FOLDER, name.split("/")[0].split(".")[1] + ".schema.json"), encoding="utf-8") as f:
        return json.load(f)


def check(value, schema, root=None, at="$"):
    """Raises ValueError at the first place where the value is not as the schema says."""
    root = root or schema

    def fail(text):
        raise ValueError(f"{at}: {text}, found {json.dumps(value)[:80]}")

    if "$ref" in schema:
        part = root
        for key in schema["$ref"].lstrip("#/").split("/"):
            part = part[key]
        return check(value, part, root, at)
    for key, want in schema.items():
        if key in SILENT:
            continue
        if key == "type":
            names = want if isinstance(want, list) else [want]
            if not any(TYPES[n](value) for n in names):
                fail(f"expected {' or '.join(names)}")
        elif key == "const":
            if value != want:
                fail(f"expected {want!r}")
        elif key == "enum":
            if value not in want:
                fail(f"expected one of {want}")
        elif key in ("minimum", "maximum"):
            if TYPES["number"](value) and (value < want if key == "minimum" else value > want):
                fail(f"{key} {want}")
        elif key in ("minItems", "maxItems"):
            if isinstance(value, list) and (len(value) < want if key == "minItems" else len(value) > want):
                fail(f"{key} {want}")
        elif key == "required":
            for name in want:
                if isinstance(value, dict) and name not in value:
                    fail(f"expected the member {name!r}")
        elif key == "properties":
            for name, part in want.items():
                if isinstance(value, dict) and name in value:
                    check(value[name], part, root, f"{at}.{name}")
        elif key == "additionalProperties":
            extra = set(value) - set(schema.get("properties", {})) if isinstance(value, dict) else set()
            if want is False and extra:
                fail(f"unexpected members {sorted(extra)}")
            for name in extra if isinstance(want, dict) else ():
                check(value[name], want, root, f"{at}.{name}")
        elif key == "items":
            for i, v in enumerate(value if isinstance(value, list) else ()):
                check(v, want, root, f"{at}[{i}]")
        elif key == "anyOf":
            for part in want:
                try:
                    check(value, part, root, at)
                    break
                except ValueError:
                    pass
            else:
                fail("none of the alternatives fits")
        else:
            raise ValueError(f"{at}: the checker does not know the keyword {key!r}")
