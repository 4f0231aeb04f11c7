"""The JSON output of commands, without an import of the client, which some commands do not need."""

from __future__ import annotations

import json
from typing import Annotated

import typer

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def show_json(value: object) -> None:
    """Print a value as JSON."""
    print(json.dumps(value, indent=2, ensure_ascii=False))
