"""Write the pages of docs/ that are made from the code: the options, the command line and the conformance to MQTT.

`tests/docs/test_generated.py` compares; `make docs` writes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import MISSING
from pathlib import Path

import typer

from forebay.cli.main import app
from forebay.core.options import INTEGER, Options, OptionSpec, QueueOptions, RetentionOptions, option_fields

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # as a script it would find only what lies beside it
from tools.mqtt_conformance import conformance_page  # noqa: E402

DOCS = ROOT / "docs"
HEAD = "<!-- Made by `make docs`; what is changed here by hand goes at the next run. -->\n"
INTRODUCTION = """\
Every option has one name. In a file it stands as it is, in the environment as `FOREBAY_<NAME>`, and those marked *flag*
are also `forebay serve --<name>`. [Configuration](configuration.md) says how to use them.
"""
SCALES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def options_page() -> str:
    """docs/options.md."""
    parts = [
        HEAD,
        "# Options\n",
        INTRODUCTION,
        _table(Options),
        "## A queue in `queues`\n",
        _table(QueueOptions),
        "## `retention` of a queue\n",
        _table(RetentionOptions),
    ]
    return "\n".join(parts)


def cli_page() -> str:
    """docs/cli.md."""
    command = typer.main.get_command(app)
    parts = [
        HEAD,
        "# Command line\n",
        f"{command.help}\n",
        "A user's mistake ends with exit code 2 and one line that says what to change.\n",
    ]
    for name, each in sorted(getattr(command, "commands").items()):  # noqa: B009  typer's classes are not public
        parts.append(f"## forebay {name}\n")
        parts.append(f"{_joined(each.help or '')}\n")
        rows = [f"| `--{item.name} {item.metavar}` | {item.help} |" for item in each.params if item.name != "help"]
        if rows:
            parts.append("\n".join(["| option | meaning |", "|---|---|", *rows]) + "\n")
    return "\n".join(parts)


PAGES: dict[str, Callable[[], str]] = {
    "options.md": options_page,
    "cli.md": cli_page,
    "mqtt-conformance.md": lambda: conformance_page(HEAD),
}


def _table(cls: type) -> str:
    rows = ["| name | default | may be | meaning |", "|---|---|---|---|"]
    for name, spec, default in option_fields(cls):
        notes = "".join(f" *{note}*" for note, there in (("flag", spec.flag), ("reloadable", spec.reloadable)) if there)
        rows.append(f"| `{name}`{notes} | {_shown(spec, default)} | {_domain(spec)} | {spec.doc} |")
    return "\n".join(rows) + "\n"


def _domain(spec: OptionSpec) -> str:
    if spec.kind != INTEGER:
        return spec.domain()
    least, most = _number(spec, spec.least), _number(spec, spec.most)
    return f"{least} to {most}" + ("" if spec.unit == "octets" else f" {spec.unit}")


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
    if spec.unit == "octets":
        for scale, name in SCALES:
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
