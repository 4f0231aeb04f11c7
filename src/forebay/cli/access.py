"""The common part of commands that query a running broker: its address, the user, and the output of answers."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

from forebay.cli.advice import note_nearest
from forebay.cli.as_json import JsonOption, show_json
from forebay.cli.progress import progress_bar
from forebay.cli.show import cell, show_fields, show_message, show_table
from forebay.client.blocks import whole
from forebay.client.connecting import ClientTls
from forebay.client.control import ControlClient
from forebay.core.errors import NOT_FOUND, ForebayError, OptionError, RequestError
from forebay.core.reading.json_text import JsonError, NotJson, read_json

if TYPE_CHECKING:
    from forebay.client.amqp import AmqpClient
    from forebay.client.messaging import MessageClient

SERVER: Final = "localhost:5672"
USER: Final = "guest"  # may log in from the broker's own machine only, unless the configuration says otherwise
COMPLETION_S: Final = 1.0  # longest wait for the broker after the completion key
OF_BROKER: Final = ("user.list", "vhost.list")  # operations that take no vhost
PORTION: Final = 1000  # messages that one request moves

ServerOption = Annotated[
    str,
    typer.Option(
        "--server",
        metavar="HOST:PORT",
        envvar="FOREBAY_SERVER",
        help="Any listener of the broker; several with commas.",
    ),
]
UserOption = Annotated[
    str, typer.Option("--user", metavar="NAME", envvar="FOREBAY_USER", help="Name of an administrator.")
]
PasswordOption = Annotated[
    str | None,
    typer.Option(
        "--password",
        metavar="TEXT",
        envvar="FOREBAY_PASSWORD",
        help="The administrator's password; asked for if not given.",
    ),
]
VhostOption = Annotated[str, typer.Option("--vhost", metavar="NAME", envvar="FOREBAY_VHOST", help="Name of the vhost.")]
TlsOption = Annotated[
    bool,
    typer.Option(
        "--tls", envvar="FOREBAY_TLS", help="Encrypt the connection; each of the next three options does so, too."
    ),
]
CaFileOption = Annotated[
    str,
    typer.Option(
        "--ca-file",
        metavar="FILE",
        envvar="FOREBAY_CA_FILE",
        help="Authorities that may sign the broker's certificate; by default the system's.",
    ),
]
CertificateOption = Annotated[
    str,
    typer.Option("--certificate", metavar="FILE", envvar="FOREBAY_CERTIFICATE", help="The client's certificate."),
]
KeyOption = Annotated[
    str,
    typer.Option(
        "--certificate-key",
        metavar="FILE",
        envvar="FOREBAY_CERTIFICATE_KEY",
        help="The certificate's key, if it is in another file.",
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
# For commands that publish or consume.
AMQP, AMQP10 = PROTOCOLS = ("amqp", "amqp10")
ProtocolOption = Annotated[
    str, typer.Option("--protocol", metavar="WORD", help="amqp (AMQP 0.9.1) or amqp10 (AMQP 1.0).")
]
# For commands that show or choose messages.
WhereOption = Annotated[
    str | None,
    typer.Option(metavar="FILTER", help="Only messages that match this filter; see docs/reference/filters.md."),
]
LimitOption = Annotated[int, typer.Option(metavar="N", help="The largest number.")]
FirstOption = Annotated[int, typer.Option("--from", metavar="OFFSET", help="The first offset.")]
BodyOctetsOption = Annotated[int, typer.Option(metavar="N", help="Octets of each body to show.")]
KEYWORD: Final = inspect.Parameter.KEYWORD_ONLY
COMMON: Final = (
    inspect.Parameter("server", KEYWORD, default=SERVER, annotation=ServerOption),
    inspect.Parameter("user", KEYWORD, default=USER, annotation=UserOption),
    inspect.Parameter("password", KEYWORD, default=None, annotation=PasswordOption),
    inspect.Parameter("as_json", KEYWORD, default=False, annotation=JsonOption),
)
TLS: Final = (
    inspect.Parameter("tls", KEYWORD, default=False, annotation=TlsOption),
    inspect.Parameter("ca_file", KEYWORD, default="", annotation=CaFileOption),
    inspect.Parameter("certificate", KEYWORD, default="", annotation=CertificateOption),
    inspect.Parameter("certificate_key", KEYWORD, default="", annotation=KeyOption),
)
VHOST: Final = inspect.Parameter("vhost", KEYWORD, default="/", annotation=VhostOption)
COMMON_NAMES: Final = (*(parameter.name for parameter in (*COMMON, *TLS)), VHOST.name)


def queue_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return the names of the queues that begin with `incomplete`, for shell completion."""
    return names_for_shell(context, incomplete, "queue.list", "queue")


def exchange_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return the names of the exchanges that begin with `incomplete`, for shell completion."""
    return names_for_shell(context, incomplete, "exchange.list", "exchange")


def user_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return the names of the users that begin with `incomplete`, for shell completion."""
    return names_for_shell(context, incomplete, "user.list", "name")


def session_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return the client identifiers of MQTT sessions that begin with `incomplete`, for shell completion."""
    return names_for_shell(context, incomplete, "session.list", "client_id")


def vhost_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return the names of the vhosts that begin with `incomplete`, for shell completion."""
    return names_for_shell(context, incomplete, "vhost.list", "vhost")


def names_for_shell(context: typer.Context, incomplete: str, operation: str, field: str) -> list[str]:
    """Return the values of `field` in the list of `operation` that begin with `incomplete`.

    Returns an empty list if no broker answers within COMPLETION_S, or if a password would have to be typed.
    """
    given = context.params
    user = given.get("user") or USER
    password = given.get("password") or (USER if user == USER else "")
    try:
        with ControlClient.connect(given.get("server") or SERVER, user, password, COMPLETION_S) as client:
            place = {} if operation in OF_BROKER else {"vhost": given.get("vhost") or "/"}
            items = client.run(operation, limit=1000, **place)["items"]
    except ForebayError:
        return []
    assert isinstance(items, list)
    return [each[field] for each in items if each[field].startswith(incomplete)]


@dataclass(frozen=True, slots=True)
class LoginOptions:
    """The broker, the user and the vhost that the options name.

    vhost    None for commands that are about no one vhost
    as_json  print JSON instead of tables and sentences
    """

    server: str
    user: str
    password: str
    vhost: str | None
    tls: ClientTls | None
    as_json: bool

    def control(self) -> ControlClient:
        """Return a new connection for an administrator's operations."""
        return ControlClient.connect(self.server, self.user, self.password, tls=self.tls)

    def amqp(self) -> AmqpClient:
        """Return a new AMQP 0.9.1 connection for messages."""
        from forebay.client.amqp import AmqpClient

        return AmqpClient.connect(self.server, self.user, self.password, self.vhost or "/", tls=self.tls)

    def messages(self, protocol: str) -> MessageClient:
        """Return a new connection for messages over `protocol`. Raises OptionError if it is not a version of AMQP."""
        if protocol == AMQP:
            return self.amqp()
        if protocol != AMQP10:
            raise OptionError(f"--protocol: {protocol!r} is none of {', '.join(PROTOCOLS)}")
        from forebay.client.amqp10 import Amqp10Client

        return Amqp10Client.connect(self.server, self.user, self.password, self.vhost or "/", tls=self.tls)


class AdminAccess:
    """An administrator's connection while one command runs.

    vhost    None for commands that are about no one vhost
    as_json  print JSON instead of tables and sentences
    """

    def __init__(self, client: ControlClient, vhost: str | None, as_json: bool) -> None:
        self.client = client
        self.vhost = vhost
        self.as_json = as_json

    def run(self, operation: str, **arguments: object) -> dict[str, object]:
        """Run an operation in this vhost, and return the broker's answer."""
        return self.client.run(operation, **{"vhost": self.vhost, **arguments})

    def change(self, sentence: str, operation: str, **arguments: object) -> dict[str, object]:
        """Run an operation, and print `sentence` about it. `{queue}` in it is an argument, or a field of the answer."""
        answer = self.run(operation, **arguments)
        if self.as_json:
            show_json(answer)
        else:
            print(filled(sentence, {**arguments, **answer}))
        return answer

    def list(self, columns: Sequence[str], operation: str, **arguments: object) -> None:
        """Print all items of a list operation."""
        items = list(self.client.items(operation, **{"vhost": self.vhost, **arguments}))
        if self.as_json:
            show_json(items)
        else:
            show_table(columns, items)

    def show(self, operation: str, **arguments: object) -> None:
        """Print the answer of an operation, field by field."""
        answer = self.run(operation, **arguments)
        if self.as_json:
            show_json(answer)
        else:
            show_fields(answer)

    def show_messages(self, operation: str, limit: int, first: int, **arguments: object) -> None:
        """Print up to `limit` messages from the offset `first` on, and the offset at which the rest begins."""
        items: list[dict[str, object]] = []
        place: object = first
        while place is not None and len(items) < limit:
            answer = self.run(operation, **{**arguments, "from": place, "limit": min(1000, limit - len(items))})
            listed = answer["items"]
            assert isinstance(listed, list)
            items += listed
            place = answer.get("next")
        if self.as_json:
            show_json(items)
            return
        for item in items:
            show_message(item)
        if place is not None:
            print(f"there is more: --from {place}")


def logs_in(command: Callable[..., None], in_vhost: bool = True) -> Callable[..., None]:
    """Make a command of a function whose first parameter is a `LoginOptions`. Adds the connection's options."""
    signature = inspect.signature(command, eval_str=True)
    common = [*COMMON, *TLS, VHOST] if in_vhost else [*COMMON, *TLS]
    parameters = [each.replace(kind=KEYWORD) for each in list(signature.parameters.values())[1:]] + common

    @functools.wraps(command)
    def run(
        *,
        server: str,
        user: str,
        password: str | None,
        as_json: bool,
        tls: bool,
        ca_file: str,
        certificate: str,
        certificate_key: str,
        vhost: str | None = None,
        **own: Any,
    ) -> None:
        if password is None:
            password = USER if user == USER else asked_password(f"Password of {user}", False)
        secure = (
            ClientTls(ca_file, certificate, certificate_key)
            if tls or ca_file or certificate or certificate_key
            else None
        )
        login = LoginOptions(server, user, password, vhost, secure, as_json)
        try:
            command(login, **own)
        except RequestError as error:
            if error.reason == NOT_FOUND:
                note_nearest(error, login.control, vhost)
            raise

    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def logs_in_broker(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command as `logs_in` does, without the option --vhost."""
    return logs_in(command, False)


def asks(command: Callable[..., None], in_vhost: bool = True) -> Callable[..., None]:
    """Make a command of a function whose first parameter is an `AdminAccess`, connected while the function runs."""
    signature = inspect.signature(command, eval_str=True)

    @functools.wraps(command)
    def run(login: LoginOptions, **own: Any) -> None:
        with login.control() as client:
            command(AdminAccess(client, login.vhost, login.as_json), **own)

    run.__signature__ = signature  # type: ignore[attr-defined]
    return logs_in(run, in_vhost)


def asks_broker(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command as `asks` does, without the option --vhost."""
    return asks(command, False)


def filled(sentence: str, values: Mapping[str, object]) -> str:
    """Return a sentence with each `{name}` replaced by its value. Braces around unknown names stay."""
    return re.sub(r"{(\w+)}", lambda name: cell(values[name[1]]) if name[1] in values else name[0], sentence)


def asked_password(prompt: str, twice: bool, option: str = "--password") -> str:
    """Ask for a password without showing it. Without a terminal, read the first line of standard input.

    Raises OptionError, which names `option`, if standard input is empty.
    """
    if sys.stdin.isatty():
        typed: str = typer.prompt(prompt, hide_input=True, confirmation_prompt=twice, err=True)
        return typed
    line = sys.stdin.readline().rstrip("\r\n")
    if not line:
        variable = f"FOREBAY_{option[2:].replace('-', '_').upper()}"
        raise OptionError(f"{prompt}: nobody can be asked: give {option}, set {variable}, or pipe it in")
    return line


def confirm(question: str, yes: bool) -> None:
    """Ask for confirmation of a step that cannot be undone, unless `yes`. Ends the command if it is refused."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise OptionError(f"{question} Nobody can answer: add --yes to confirm")
    if not typer.confirm(question, err=True):
        refuse("nothing was done")


def go_through(access: AdminAccess, operation: str, what: str, **arguments: object) -> tuple[int, int]:
    """Run an operation over a queue in requests of PORTION messages. Return the numbers of processed and held ones.

    Messages that arrive meanwhile are skipped. Otherwise a message that is dead-lettered again would loop for ever.
    """
    done = held = 0
    place: int | None = 0
    end: int | None = None
    with progress_bar(what, None) as bar:
        while place is not None and (end is None or place < end):
            answer = access.run(operation, **{**arguments, "from": place, "limit": PORTION})
            moved, kept = whole(answer["done"]), whole(answer["held"])
            done += moved
            held += kept
            end = whole(answer["end"]) if end is None else end
            place = whole(answer["next"]) if "next" in answer else None
            # Lower the total: offsets below the first message and settled ones were skipped.
            bar.expect(done + held + (0 if place is None else max(end - place, 0)))
            bar(moved + kept)
    return done, held


def report(access: AdminAccess, sentence: str, done: int, held: int) -> None:
    """Print how many messages an operation processed, and how many it left because consumers hold them."""
    if access.as_json:
        show_json({"done": done, "held": held})
    else:
        print(sentence + (f"; consumers hold {held:,} more, which remained" if held else ""))


def refuse(text: str, way: str = "") -> NoReturn:
    """Print the error `text`, with `way` as its remedy, and end the command with exit code 1."""
    print(f"forebay: {text}", *([way] if way else []), sep="\n", file=sys.stderr)
    raise typer.Exit(1)


def json_object(option: str, text: str | None) -> dict[str, object] | None:
    """Parse an option's text as a JSON object. Raises OptionError if it is not one."""
    if text is None:
        return None
    try:
        value = read_json(text)
    except NotJson as error:
        raise OptionError(f"{option}: {text!r} is {error}") from None
    except JsonError as error:
        raise OptionError(f"{option}: {error}") from None
    if not isinstance(value, dict):
        raise OptionError(f"{option}: {text!r} is no JSON object such as '{{\"x-max-length\": 1000}}'")
    return value


def part_list(text: str | None) -> list[str] | None:
    """Split an option's text at its commas, without empty parts. Returns None if the option was not given."""
    return None if text is None else [part for part in text.split(",") if part]


def pairs(option: str, values: Iterable[str] | None) -> dict[str, str]:
    """Parse an option's values NAME=VALUE. Raises OptionError for one that has another form."""
    found: dict[str, str] = {}
    for each in values or ():
        name, equals, value = each.partition("=")
        if not name or not equals:
            raise OptionError(f"{option}: {each!r} is not NAME=VALUE")
        found[name] = value
    return found


def value_of(text: str) -> object:
    """Parse a value of the command line as JSON, or return it as text if it is not JSON.

    Raises OptionError if it is JSON that cannot be stored.
    """
    try:
        return read_json(text)
    except NotJson:
        return text
    except JsonError as error:
        raise OptionError(f"VALUE: {error}") from None
