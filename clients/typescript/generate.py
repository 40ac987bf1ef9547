"""Write src/api.ts from the OpenAPI description of the service: types, and a method for every operation with a JSON answer.

python clients/typescript/generate.py
"""

import json
import re
import tempfile
from pathlib import Path

from surefoot.service.app import create_app
from surefoot.service.trial.trial import open_trial
from surefoot.study import Study

OUTPUT = Path(__file__).parent / "src" / "api.ts"
STUDY = """\
[columns]
participant = "participant"
time = "time"
available = "available"
probability = "probability"
[state.weather]
[outcome]
column = "steps"
[probability_limits]
minimum = 0.1
maximum = 0.9
[trial]
"""
"""Any study that can be served: the API is the same for all."""
HEADER = """\
// Written by generate.py from the OpenAPI description of the service, which says what every field means. Do not edit.
"""
SIMPLE = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def describe_api():
    """The OpenAPI description."""
    with tempfile.TemporaryDirectory() as folder:
        trial = open_trial(Study.parse(STUDY), f"sqlite:///{folder}/trial.db")
        description = create_app(trial).openapi()  # without the study's own variables
        trial.close()
    return description


def write_api(api):
    """The TypeScript of a description."""
    schemas = sorted(api["components"]["schemas"].items())
    parts = [HEADER, *(write_interface(name, schema) for name, schema in schemas), write_maximum_items(schemas)]
    return "\n".join([*parts, write_operations(api["paths"])])


def write_interface(name, schema):
    """A model of requests or replies."""
    lines = [f"/** {schema['description']} */"] if "description" in schema else []
    lines.append(f"export interface {name} {{")
    for field, one in schema["properties"].items():
        optional = "" if field in schema.get("required", ()) else "?"
        lines.append(f"  {field}{optional}: {write_type(one)};")
    return "\n".join([*lines, "}", ""])


def write_type(schema):
    """The type of a value: `number | null`, `"pause" | "resume"`, `Outcome[]`, …"""
    if "$ref" in schema:
        return schema["$ref"].rsplit("/", 1)[1]
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " | ".join(dict.fromkeys(write_type(one) for one in schema[several]))
    if schema.get("type") == "array":
        inside = write_type(schema["items"])
        return f"({inside})[]" if " | " in inside else f"{inside}[]"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties", True)
        return f"Record<string, {write_type(values) if isinstance(values, dict) else 'unknown'}>"
    return SIMPLE.get(schema.get("type"), "unknown")


def write_maximum_items(schemas):
    """How long lists may be."""
    lines = ["/** How many items a list may hold. */", "export const MAXIMUM_ITEMS = {"]
    for name, schema in schemas:
        found = {field: one["maxItems"] for field, one in schema["properties"].items() if "maxItems" in one}
        if found:
            lines.append(f"  {name}: {{ {', '.join(f'{field}: {most}' for field, most in found.items())} }},")
    return "\n".join([*lines, "} as const;", ""])


def write_operations(paths):
    """The class with all operations."""
    lines = ["/** Every operation that answers with JSON; exports are files and metrics are text. */"]
    lines += ["export abstract class Operations {"]
    lines += ["  protected abstract send<Reply>(method: string, path: string, body?: unknown): Promise<Reply>;"]
    for path, operations in paths.items():
        for method, operation in operations.items():
            reply = find_reply(operation)
            if reply is not None:
                lines += ["", *write_method(path, method, operation, write_type(reply))]
    return "\n".join([*lines, "}", ""])


def find_reply(operation):
    """The schema of a good answer, if that is JSON."""
    good = next(reply for status, reply in operation["responses"].items() if status.startswith("2"))
    return good.get("content", {}).get("application/json", {}).get("schema")


def write_method(path, method, operation, reply):
    """One operation."""
    given = [one for one in operation.get("parameters", ()) if one["in"] == "path"]
    arguments = [f"{camel(one['name'])}: {write_type(one['schema'])}" for one in given]
    passed = [json.dumps(method.upper()), write_path(path)]
    if "requestBody" in operation:
        arguments.append(f"body: {write_type(operation['requestBody']['content']['application/json']['schema'])}")
        passed.append("body")
    who = ", ".join(operation.get("tags", ()))
    name = camel(find_name(path, method, operation))
    return [
        f"  /** {operation['description']} ({who}) */",
        f"  {name}({', '.join(arguments)}): Promise<{reply}> {{",
        f"    return this.send({', '.join(passed)});",
        "  }",
    ]


def write_path(path):
    """A template literal where the path has parameters."""
    if "{" not in path:
        return json.dumps(path)
    return "`" + re.sub(r"\{(\w+)\}", lambda found: f"${{encodeURIComponent({camel(found[1])})}}", path) + "`"


def find_name(path, method, operation):
    """The name of the route's function: FastAPI's ids end with path and method."""
    return operation["operationId"].removesuffix(f"{re.sub(r'[^a-zA-Z0-9]', '_', path)}_{method}")


def camel(name):
    """A name as TypeScript spells it."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


if __name__ == "__main__":
    OUTPUT.write_text(write_api(describe_api()), encoding="utf-8")
