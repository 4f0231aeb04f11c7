"""`forebay publish`: messages from the command line, each confirmed when it is on disk."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path
from typing import Annotated, BinaryIO, Final

import typer

from forebay.cli.access import AMQP, LoginOptions, ProtocolOption, logs_in, pairs, queue_names, refuse, value_of
from forebay.cli.as_json import show_json
from forebay.cli.messages.topics import Destination, heed_delay, place_of
from forebay.cli.progress import is_watched, progress_bar
from forebay.cli.units import messages
from forebay.client.messaging import TOPIC_EXCHANGE, MessageClient
from forebay.core.errors import NOT_FOUND, OptionError, RequestError
from forebay.core.message import Properties

UNCONFIRMED_MAX: Final = 1000  # messages that await their confirm
UNCONFIRMED_OCTETS: Final = 8 << 20  # bytes of bodies that await their confirm
TEXTS: Final = ("content_type", "content_encoding", "message_id", "reply_to", "type", "user_id", "app_id")
NUMBERS: Final = ("priority", "expiration_ms", "timestamp_s")


@logs_in
def publish(
    login: LoginOptions,
    body: Annotated[str | None, typer.Argument(metavar="BODY", help="The body; without it, standard input.")] = None,
    queue: Annotated[
        str | None, typer.Option("--queue", "-q", metavar="NAME", help="The queue.", autocompletion=queue_names)
    ] = None,
    exchange: Annotated[str | None, typer.Option("--exchange", "-e", metavar="NAME", help="The exchange.")] = None,
    key: Annotated[str, typer.Option("--key", "-k", metavar="KEY", help="The routing key, with --exchange.")] = "",
    topic: Annotated[str | None, typer.Option("--topic", "-t", metavar="TOPIC", help="The MQTT topic.")] = None,
    file: Annotated[str | None, typer.Option("--file", "-f", metavar="FILE", help="A file with the body.")] = None,
    lines: Annotated[
        bool, typer.Option("--lines", "-l", help="Each line of the file, or of standard input, is a message.")
    ] = False,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header; the value is JSON if it can be."),
    ] = None,
    property: Annotated[
        list[str] | None,
        typer.Option(
            "--property",
            "-P",
            metavar="NAME=VALUE",
            help=f"Of {', '.join((*TEXTS, *NUMBERS, 'correlation_id'))}.",
        ),
    ] = None,
    transient: Annotated[bool, typer.Option("--transient", help="Publish it as not persistent.")] = False,
    count: Annotated[int, typer.Option("--count", "-n", metavar="N", min=1, help="How often to publish it.")] = 1,
    rate: Annotated[float, typer.Option(metavar="N", min=0, help="The most messages a second; 0 sets no limit.")] = 0,
    protocol: ProtocolOption = AMQP,
) -> None:
    """Publish messages, and wait until all are on disk.

    Exits with 1 if a message was refused, or reached no queue or subscriber. A topic may be $queue/NAME/KEY, the
    address of a queue, or begin with $delayed/SECONDS/.

    Example: forebay publish --queue orders '{"total": 100}' -H region=eu
    """
    where = place(queue, exchange, key, topic)
    given = properties_of(header, property, transient)
    if where.cancels and protocol != AMQP:
        raise OptionError("--topic: $delayed/$cancel goes with --protocol amqp alone")
    heed_delay(where, given)
    bodies = bodies_of(body, file, lines, count)
    total = lines_of(file) if lines else count
    with login.messages(protocol) as client:
        properties = client.encode(given)
        client.select_confirms()
        began = time.monotonic()
        with progress_bar("published", total, shown=lines or count > 1) as advance:
            for each in bodies:
                if rate:
                    wait_turn(client, began + client.published / rate)
                client.publish(where.exchange, where.key, properties, each)
                unconfirmed_max = min(UNCONFIRMED_MAX, UNCONFIRMED_OCTETS // (len(each) + 1))
                if client.unconfirmed > unconfirmed_max:
                    client.settle(unconfirmed_max // 2)
                advance(1)
            client.settle(0)
        report(login, client, where, time.monotonic() - began)


def report(login: LoginOptions, client: MessageClient, where: Destination, seconds: float) -> None:
    """Print the outcome. Ends with an error if messages were refused or reached no queue."""
    if login.as_json:
        counts = {"published": client.published, "confirmed": client.confirmed, "refused": client.refused}
        show_json({**counts, "unroutable": client.returned, "seconds": round(seconds, 3)})
    elif client.confirmed > client.returned:
        print(f"{messages(client.confirmed - client.returned, 'is', 'are')} on disk")
    if client.refused:
        way = "consume from it, or raise its limit: `forebay policy list` and `forebay queue show NAME` have them"
        why = f": {client.refusal}" if client.refusal else ", their queue is full"
        refuse(f"{client.refused:,} of {messages(client.published)}: refused{why}", way)
    if not client.returned:
        return
    lost = f"{client.returned:,} of {messages(client.published)}"
    if where.cancels:
        refuse(f"no message waits under the delay-id of {lost}")
    if where.exchange == TOPIC_EXCHANGE:
        refuse(f"{lost} reached nobody: no queue or subscriber takes the topic")
    if where.exchange:
        refuse(
            f"{lost} reached no queue", f"`forebay binding list --exchange {where.exchange}` shows where its keys lead"
        )
    raise RequestError(NOT_FOUND, f"{lost} reached no queue: no queue '{where.key}' in vhost '{login.vhost}'")


def place(queue: str | None, exchange: str | None, key: str, topic: str | None) -> Destination:
    """Return the destination of messages. Raises OptionError unless exactly one destination is given."""
    if sum(each is not None for each in (queue, exchange, topic)) != 1:
        raise OptionError("one of --queue, --exchange and --topic says where the messages go")
    if key and exchange is None:
        raise OptionError("--key: it goes with --exchange")
    if topic is not None:
        return place_of(topic)
    return Destination("", queue) if queue is not None else Destination(exchange or "", key)


def properties_of(headers: list[str] | None, fields: list[str] | None, transient: bool) -> Properties:
    """Return the properties that the options describe. Raises OptionError for an invalid one."""
    properties = Properties()
    properties.durable = not transient
    properties.headers = [(name, value_of(value)) for name, value in pairs("--header", headers).items()]
    for given, value in pairs("--property", fields).items():
        name = given.replace("-", "_")
        if name in TEXTS:
            setattr(properties, name, value)
        elif name == "correlation_id":
            properties.correlation_id = value.encode()
        elif name in NUMBERS:
            if not value.isdigit():
                raise OptionError(f"--property: {given}: {value!r} is no whole number")
            setattr(properties, name, int(value))
        else:
            raise OptionError(f"--property: {given!r} is none of {', '.join((*TEXTS, *NUMBERS, 'correlation_id'))}")
    return properties


def bodies_of(body: str | None, file: str | None, lines: bool, count: int) -> Iterator[bytes]:
    """Return the bodies of all messages, read as they are needed."""
    if body is not None and (file is not None or lines):
        raise OptionError("BODY, --file and --lines: one of them says what is published")
    if lines and count != 1:
        raise OptionError("--count: each line is published once")
    if body is not None:
        return repeat(body.encode("utf-8", "surrogateescape"), count)
    try:
        if lines:
            return (line.rstrip(b"\r\n") for line in source(file))
        return repeat(source(file).read(), count)
    except OSError as error:
        raise OptionError(f"--file: {file}: cannot be read: {error.strerror}") from None


def source(file: str | None) -> BinaryIO:
    """Open the file with bodies, or return standard input. Stays open until the command ends."""
    return sys.stdin.buffer if file in {None, "-"} else open(str(file), "rb")


def lines_of(file: str | None) -> int | None:
    """Return the number of lines of a file. Returns None if it can be read only once, or no progress bar is shown."""
    if file is None or not is_watched() or not Path(file).is_file():
        return None
    with Path(file).open("rb") as counted:
        return sum(1 for _ in counted)


def wait_turn(client: MessageClient, due: float) -> None:
    """Wait until `due`, the time of the next message. Flushes the messages published before."""
    while (wait_s := due - time.monotonic()) > 0:
        client.flush()
        time.sleep(min(wait_s, client.silence_s_max))
