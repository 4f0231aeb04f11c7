"""Write the pages of docs/ that are made from the code: options, commands, operations, HTTP, conformance.

`tests/docs/test_generated.py` compares; `make docs` writes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import MISSING
from pathlib import Path
from typing import Any

import typer

from forebay.cli.access import COMMON_NAMES
from forebay.cli.commands import command_line
from forebay.core.option_cluster import AdvertiseOptions, ClusterOptions, EtcdOptions
from forebay.core.option_groups import (
    BindingOptions,
    DeadLetterOptions,
    ExchangeOptions,
    LimitOptions,
    PermissionOptions,
    QueueOptions,
    ReplicationOptions,
    RetentionOptions,
    RetryOptions,
    VhostOptions,
    WebhookOptions,
)
from forebay.core.option_table import INTEGER, OptionSpec, option_fields
from forebay.core.options import Options
from forebay.filter.functions import FUNCTIONS, PROPERTY_FUNCTIONS
from forebay.filter.subject import PROPERTIES
from forebay.management.needs import told
from forebay.management.table import OPERATIONS
from forebay.message.events import TYPES

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # as a script it would find only what lies beside it
from tools.amqp10_conformance import amqp10_conformance_page  # noqa: E402
from tools.http_reference import http_page  # noqa: E402
from tools.metrics_reference import metrics_page  # noqa: E402
from tools.mqtt_conformance import conformance_page  # noqa: E402

DOCS = ROOT / "docs" / "reference"
HEAD = "<!-- Made by `make docs`; what is changed here by hand goes at the next run. -->\n"
INTRODUCTION = """\
This page lists every option of the broker. A file uses an option's name as it is, the environment as
`FOREBAY_<NAME>`, and `forebay serve --<name>` takes those marked *flag*.
[Configuration](../how-to/configuration.md) says how to use them.
"""
CLI_INTRODUCTION = """\
This page lists every command with its arguments and options; [the guide](../how-to/command-line.md) shows how to use
them.

An error is one line, with a second one that tells you what to do next. Exit codes: 1 when something was refused or
failed, 2 for a mistake in the command, 3 when no broker answers or the connection ends before its answer, 130 after
Ctrl-C.

All commands except `serve`, `log`, `config check`, `completion` and `version` ask a running broker, and have these
options besides their own.
"""
CONTROL_INTRODUCTION = """\
This page lists the operations by which administrators ask and change a running broker. [The command line](cli.md)
calls them, and programs may, by `forebay.client.control.ControlClient`;
[administration](../how-to/administration.md) has examples.

On the wire they are requests of the block protocol (`src/forebay/wire/blocks/frames.py`): `{"op": "control", "do":
"queue.purge", "vhost": "/", "queue": "orders"}`. The answer is an object. Lists come in pages: `items`, `total`, and
`next`, which is the `from` of the next page. What is refused is an error with a reason and a text that names the
argument and its value.
"""
GROUPS = (
    ("A queue in `queues`", QueueOptions),
    ("`retention` of a queue", RetentionOptions),
    ("`limits` of a queue", LimitOptions),
    ("`retry` of a queue", RetryOptions),
    ("`dlq` of a queue", DeadLetterOptions),
    ("`replication` of a queue", ReplicationOptions),
    ("An exchange in `exchanges`", ExchangeOptions),
    ("A binding in `bindings`", BindingOptions),
    ("A vhost in `vhosts`", VhostOptions),
    ("Permissions of a user in `permissions`", PermissionOptions),
    ("A webhook in `webhooks`", WebhookOptions),
    ("`cluster`", ClusterOptions),
    ("`advertise_clients` of `cluster`", AdvertiseOptions),
    ("`etcd` of `cluster`", EtcdOptions),
)
SECONDS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
SCALES_OF = {
    "octets": ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")),
    "s": SECONDS,
    "ms": (*((1000 * scale, name) for scale, name in SECONDS), (1, "ms")),
}


def options_page() -> str:
    """docs/reference/options.md."""
    parts = [
        HEAD,
        "# Options\n",
        INTRODUCTION,
        _table(Options),
    ]
    for title, table in GROUPS:
        parts += [f"## {title}\n", _table(table)]
    return "\n".join(parts)


def events_page() -> str:
    """docs/reference/event-types.md."""
    rows = [
        "| type | when, and what `data` has |",
        "|---|---|",
        *(f"| `{name}` | {doc} |" for name, doc in TYPES.items()),
    ]
    first = "This page lists the types of events; [events](../how-to/events.md) says how to receive them.\n"
    return "\n".join([HEAD, "# Types of events\n", first, *rows]) + "\n"


def cli_page() -> str:
    """docs/reference/cli.md."""
    command = typer.main.get_command(command_line())
    parts = [
        HEAD,
        "# Command line\n",
        f"{command.help}\n",
        CLI_INTRODUCTION,
        _parameters(_common(command)) + "\n",
    ]
    for name, each in sorted(_commands(command).items()):
        parts.append(f"## forebay {name}\n")
        parts.append(f"{_joined(each.help or '')}\n")
        inner = _commands(each)
        rows = [item for item in each.params if item.name not in COMMON_NAMES]
        if rows and not inner:
            parts.append(_parameters(rows) + "\n")
        for verb, one in inner.items():
            own = [item for item in one.params if item.name not in COMMON_NAMES]
            usage = " ".join(["forebay", name, verb, *(str(item.metavar) for item in own if not _is_option(item))])
            parts.append(f"### `{usage}`\n")
            parts.append(f"{_joined(one.help or '')}\n")
            if own:
                parts.append(_parameters(own) + "\n")
    return "\n".join(parts)


def control_page() -> str:
    """docs/reference/control.md."""
    parts = [HEAD, "# Operations\n", CONTROL_INTRODUCTION]
    for name, operation in sorted(OPERATIONS.items()):
        parts.append(f"## {name}\n")
        note = " The broker answers when the change is on disk." if operation.waits else ""
        parts.append(f"{_joined(operation.doc)}{note}\n")
        rows = ["| argument | is | default | meaning |", "|---|---|---|---|"]
        for each in operation.parameters:
            default = (
                "must be given" if each.required else "" if each.default is None else f"`{json.dumps(each.default)}`"
            )
            rows.append(f"| `{each.name}` | {each.type} | {default} | {each.doc} |")
        if operation.parameters:
            parts.append("\n".join(rows) + "\n")
        parts.append(f"Over HTTP: {told(operation.need)}.\n")
    return "\n".join(parts)


def filters_tables() -> str:
    """docs/reference/filter-words.md: the properties and functions of the filter language."""
    properties = [
        "| word | what it is |",
        "|---|---|",
        *(f"| `{name}` | {meaning} |" for name, meaning in PROPERTIES.items()),
    ]
    functions = ["| function | values | what it makes |", "|---|---|---|"]
    for name, each in FUNCTIONS.items():
        count = f"{each.least}" if each.least == each.most else f"{each.least} to {each.most}"
        functions.append(f"| `{name}` | {count} | {each.meaning} |")
    functions += [f"| `{name}` | 0 | the property `{same}` |" for name, same in PROPERTY_FUNCTIONS.items()]
    parts = [
        HEAD,
        "# Words of the filter language\n",
        "The properties and functions of filters; [filters](filters.md) says how they go together.\n",
    ]
    parts += ["## Properties\n", "\n".join(properties) + "\n", "## Functions\n", "\n".join(functions) + "\n"]
    return "\n".join(parts)


def _commands(command: Any) -> dict[str, Any]:
    """The commands within a group; typer's classes are not public."""
    return getattr(command, "commands", {})


def _common(command: Any) -> list[Any]:
    """The options of every command that asks a running broker."""
    found = _commands(_commands(command)["queue"])["list"].params
    return [item for item in found if item.name in COMMON_NAMES]


def _is_option(item: Any) -> bool:
    return bool(item.param_type_name == "option")


def _parameters(items: list[Any]) -> str:
    rows = ["| option | meaning |", "|---|---|"]
    for item in items:
        if item.name == "help":
            continue
        word = item.opts[0] if _is_option(item) else ""
        shown = " ".join(part for part in (word, "" if getattr(item, "is_flag", False) else item.metavar) if part)
        meaning = item.help + (f" (`{item.envvar}`)" if item.envvar else "")
        rows.append(f"| `{shown}` | {meaning} |".replace("A|B", "A,B"))
    return "\n".join(rows)


PAGES: dict[str, Callable[[], str]] = {
    "options.md": options_page,
    "cli.md": cli_page,
    "control.md": control_page,
    "event-types.md": events_page,
    "filter-words.md": filters_tables,
    "http-reference.md": lambda: http_page(HEAD),
    "metrics-reference.md": lambda: metrics_page(HEAD),
    "mqtt-conformance.md": lambda: conformance_page(HEAD),
    "amqp10-conformance.md": lambda: amqp10_conformance_page(HEAD),
}


def _table(cls: type) -> str:
    rows = ["| name | default | may be | meaning |", "|---|---|---|---|"]
    for name, spec, default in option_fields(cls):
        notes = "".join(f" *{note}*" for note, there in (("flag", spec.flag), ("reloadable", spec.reloadable)) if there)
        alias = f" or `{spec.alias}`" if spec.alias else ""
        rows.append(f"| `{name}`{alias}{notes} | {_shown(spec, default)} | {_domain(spec)} | {spec.doc} |")
    return "\n".join(rows) + "\n"


def _domain(spec: OptionSpec) -> str:
    if spec.kind != INTEGER:
        return spec.domain()
    least, most = _number(spec, spec.least), _number(spec, spec.most)
    return f"{least} to {most}" + ("" if spec.unit in SCALES_OF else f" {spec.unit}")


def _shown(spec: OptionSpec, default: object) -> str:
    if default is MISSING:
        return "must be given"
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, int):
        return _number(spec, default)
    if isinstance(default, str | list | dict):
        return f"`{default if isinstance(default, str) else json.dumps(default)}`" if default else "none"
    return "see below"


def _number(spec: OptionSpec, value: int) -> str:
    """The number in the largest unit that it is a whole number of; octets and times have their units."""
    for scale, name in SCALES_OF.get(spec.unit, ()):
        if value >= scale and value % scale == 0:
            return f"{value // scale} {name}"
    return str(value)


def _joined(text: str) -> str:
    """Paragraphs of a docstring, each on one line."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def main() -> None:
    """Write every page."""
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
