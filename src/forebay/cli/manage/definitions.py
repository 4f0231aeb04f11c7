"""`forebay definitions`: exports and imports all declarations, in RabbitMQ's file format."""

from __future__ import annotations

import json
import sys
import urllib.parse
from pathlib import Path
from typing import Annotated, Any

import typer

from forebay.cli.access import LoginOptions, YesOption, confirm, logs_in_broker, part_list
from forebay.cli.as_json import show_json
from forebay.cli.progress import progress_bar
from forebay.cli.units import objects
from forebay.client.web import WebClient
from forebay.core.errors import OptionError
from forebay.core.reading.json_text import NotJson, read_json
from forebay.management.definitions.left_out import LeftOut

app = typer.Typer(help="All declarations of a broker in one file.", no_args_is_help=True)

PATH = "/api/definitions"
OfVhost = Annotated[
    str | None, typer.Option("--vhost", metavar="NAME", envvar="FOREBAY_VHOST", help="Only declarations of this vhost.")
]
Without = Annotated[
    str | None, typer.Option(metavar="A,B", help="Omit these parts, such as users, permissions, policies.")
]

Strict = Annotated[bool, typer.Option("--strict", help="Import nothing if a part of the file cannot be in force.")]


@app.command("export")
@logs_in_broker
def export_definitions(
    login: LoginOptions,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file to write; - is standard output.")] = "-",
    of_vhost: OfVhost = None,
    without: Without = None,
) -> None:
    """Write all declarations to a file: vhosts, users, permissions, policies, queues, exchanges and bindings.

    The file has no messages, but password hashes. The command uses the broker's HTTP API.

    Example: forebay definitions export broker.json
    """
    with progress_bar("exporting", None):
        document = left(web(login, lambda client: client.get(path_of(of_vhost))), without)
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    if file == "-":
        print(text, end="")
        return
    try:
        path = Path(file)
        path.touch(mode=0o600)  # the file has password hashes
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OptionError(f"FILE: {file}: cannot be written: {error.strerror}") from None
    if login.as_json:
        show_json(counted(document))
    else:
        print(f"{file} has {said(document)}")


@app.command("import")
@logs_in_broker
def import_definitions(
    login: LoginOptions,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file to read; - is standard input.")],
    of_vhost: OfVhost = None,
    without: Without = None,
    strict: Strict = False,
    yes: YesOption = False,
) -> None:
    """Declare everything in a file that the broker lacks. The file is checked first; nothing is deleted.

    Files of RabbitMQ work as well. What cannot be in force here is left out and listed, with its reason. The command
    uses the broker's HTTP API.

    Example: forebay definitions import broker.json --without users,permissions --yes
    """
    document = left(read(file), without)
    if file != "-":
        confirm(f"Declare {said(document)} in {login.server}?", yes)
    with progress_bar("importing", None):
        path = f"{path_of(of_vhost)}?strict={'true' if strict else 'false'}"
        answer = web(login, lambda client: client.post(path, document))
    left_out = answer["left_out"] if answer else []
    if login.as_json:
        show_json({**counted(document), "left_out": left_out})
        return
    for each in left_out:
        print(f"left out: {LeftOut(each['entry'], each['field'], each['reason'], each['may_lose_messages']).line()}")
    rest = f", without {objects(len(left_out), 'parts')} of them that cannot be in force here" if left_out else ""
    print(f"the broker has {said(document)} of the file{rest}")


def web(login: LoginOptions, ask: Any) -> Any:
    """Connect to the broker's HTTP API, call `ask` with the client, and return its answer."""
    with login.control() as control:
        client = WebClient.beside(control, login.user, login.password, login.tls)
    return ask(client)


def path_of(vhost: str | None) -> str:
    return PATH if vhost is None else f"{PATH}/{urllib.parse.quote(vhost, safe='')}"


def read(file: str) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        document = read_json(text)
    except OSError as error:
        raise OptionError(f"FILE: {file}: cannot be read: {error.strerror}") from None
    except NotJson as error:
        raise OptionError(f"FILE: {file}: is {error}") from None
    except ValueError as error:
        raise OptionError(f"FILE: {file}: {error}") from None
    if not isinstance(document, dict):
        raise OptionError(f"FILE: {file}: is no JSON object")
    return document


def left(document: dict[str, Any], without: str | None) -> dict[str, Any]:
    """Return the document without the parts in `without`. Raises OptionError for a part that is not a list."""
    parts = part_list(without) or []
    for part in parts:
        if not isinstance(document.get(part, []), list):
            raise OptionError(f"--without: {part!r} is no list of the file: {', '.join(counted(document))} are")
    return {name: value for name, value in document.items() if name not in parts}


def counted(document: dict[str, Any]) -> dict[str, int]:
    """Return the number of objects of each kind in a document."""
    return {name: len(value) for name, value in document.items() if isinstance(value, list)}


def said(document: dict[str, Any]) -> str:
    """Return the numbers of objects in a document as text, such as "1 user, 5,000 queues"."""
    counts = [objects(count, name.replace("_", " ")) for name, count in counted(document).items() if count]
    return ", ".join(counts) or "nothing"
