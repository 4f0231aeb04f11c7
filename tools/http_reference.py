"""docs/reference/http-reference.md: every path of the HTTP API, out of its OpenAPI document."""

from __future__ import annotations

from typing import Any, Final

from forebay.admin.api import all_routes
from forebay.admin.openapi.document import EVERYWHERE, NO_TAG, NOT_FOUND, TAG_KEY, make_document
from forebay.admin.rabbitmq.unsupported import PATHS

INTRODUCTION: Final = """\
All paths of the HTTP API, as the broker itself tells of them in its OpenAPI document at `/api/openapi.json`.
[The HTTP API](http-api.md) says how to use it.

*Needs* is the tag that the caller's user must have; an administrator needs no other. What a user may do with queues and
exchanges depends on its permissions besides. Names in paths are percent-encoded: the vhost `/` is `%2F`.

Lists take the parameters `page`, `page_size`, `name`, `use_regex`, `sort`, `sort_reverse` and `columns`, and where
there are rates `lengths_age` and its like; they are not repeated below. Every operation may also answer 400 (a
parameter or the body is wrong), 401 (nobody has logged in, or whoever has may not do this), 404 (there is no such
thing), 413 and 429 (too long a body, too many wrong logins), 503 (somebody else is asked first who may do this); bodies
of errors are `{"error": "...", "reason": "..."}`.
"""
UNSUPPORTED_NOTE: Final = """\
Every other path of RabbitMQ's management plugin, and of those for federation, shovels, streams, tracing and `top`, is
answered above. 404 means that nothing of that name can be here; 501 that the request is not supported.
"""
OPERATIONS: Final = "/api/forebay/operations/"
OPERATIONS_NOTE: Final = """\
`POST /api/forebay/operations/{name}` runs any of [the operations](control.md); the body is an object of its arguments.
"""
REPEATED: Final = (
    *("page", "page_size", "name", "use_regex", "sort", "sort_reverse", "columns"),
    *(f"{what}_{word}" for what in ("lengths", "msg_rates", "data_rates", "node_stats") for word in ("age", "incr")),
)
OWN: Final = "forebay"
REPEATED_ANSWERS: Final = {"Successful Response", NOT_FOUND, *EVERYWHERE.values()}


def http_page(head: str) -> str:
    """docs/reference/http-reference.md."""
    document = make_document(all_routes())
    sections: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        if path.startswith(OPERATIONS):
            continue
        for method, operation in methods.items():
            sections.setdefault(section_of(path), []).append(entry(document, path, method, operation))
    parts = [head, "# Paths of the HTTP API\n", INTRODUCTION]
    for section in sorted(sections, key=lambda name: (name.startswith(OWN), name)):
        parts.append(f"## {section}\n")
        if section == OWN:
            parts.append(OPERATIONS_NOTE)
        parts += sections[section]
    parts += [
        "## Paths of RabbitMQ that are not answered\n",
        UNSUPPORTED_NOTE,
        "| path | answer | reason |",
        "|---|---|---|",
    ]
    parts += [f"| `{' '.join(each.methods)} {each.path}` | {each.status} | {each.reason} |" for each in PATHS]
    return "\n".join(parts) + "\n"


def section_of(path: str) -> str:
    """What of the broker a path is about."""
    parts = path.strip("/").split("/")
    if parts[0] != "api":
        return parts[0]
    if parts[1] == OWN and len(parts) > 3:
        return f"{OWN}: {parts[2]}"
    return parts[1]


def entry(document: dict[str, Any], path: str, method: str, operation: dict[str, Any]) -> str:
    """What is said of one operation."""
    needs = operation.get(TAG_KEY)
    told = {None: "Needs no login.", NO_TAG: "Needs a login of any user."}.get(needs, f"Needs `{needs}`.")
    text = " ".join(operation["description"].split())
    lines = [f"### {method.upper()} {path}\n", f"{text}\n", f"{told}{statuses(operation)}\n"]
    rows = []
    for each in operation.get("parameters", []):
        if each["name"] not in REPEATED and each["in"] != "path":
            said = meaning(each.get("schema", {}), each.get("description", ""))
            rows.append(f"| `{each['name']}` | {each['in']} | {said} |")
    rows += [f"| `{name}` | body | {said} |" for name, said in body_fields(document, operation)]
    if rows:
        lines.append("\n".join(["| parameter | where | meaning |", "|---|---|---|", *rows]) + "\n")
    return "\n".join(lines)


def statuses(operation: dict[str, Any]) -> str:
    """What it answers where all is well, and what it alone may answer besides."""
    told = [
        f"{status}: {one_line(each['description'])}"
        for status, each in sorted(operation["responses"].items())
        if each["description"] not in REPEATED_ANSWERS
    ]
    return " Answers " + " ".join(told) if told else ""


def one_line(text: str) -> str:
    """A description as one sentence."""
    return " ".join(text.split()).rstrip(".") + "."


def body_fields(document: dict[str, Any], operation: dict[str, Any]) -> list[tuple[str, str]]:
    """The fields of an object of JSON that the body is, with what they mean."""
    content = operation.get("requestBody", {}).get("content", {})
    schema = resolved(document, content.get("application/json", {}).get("schema", {}))
    for option in schema.get("anyOf", []):
        if resolved(document, option).get("type") == "object":
            schema = resolved(document, option)
            break
    required = schema.get("required", [])
    found: list[tuple[str, str]] = []
    for name, each in schema.get("properties", {}).items():
        said = meaning(each, each.get("description", ""))
        found.append((name, f"{said} (must be given)" if name in required else said))
    return found


def meaning(schema: dict[str, Any], description: str) -> str:
    """A value's type, what it is where nobody says, and what it means."""
    kinds = [kind_of(each) for each in schema.get("anyOf", [schema])]
    kind = " or ".join(dict.fromkeys(each for each in kinds if each and each != "null"))
    default = schema.get("default")
    shown = str(default).lower() if isinstance(default, bool) else default
    told = f" (`{shown}`)" if isinstance(default, str | int) and default != "" else ""
    colon = ": " if kind and description else ""
    return f"{kind}{told}{colon}{' '.join(description.split())}".replace("|", "\\|")


def kind_of(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    return str(schema.get("type", ""))


def resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """A schema, where it is only named."""
    name = schema.get("$ref")
    return schema if name is None else document["components"]["schemas"][name.rpartition("/")[2]]
