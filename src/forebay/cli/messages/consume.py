"""`forebay consume`: messages of a queue, a stream or a topic, to a terminal, a file or another program."""

from __future__ import annotations

import base64
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Annotated, BinaryIO, Final

import typer

from forebay.cli.access import AMQP, LoginOptions, ProtocolOption, logs_in, queue_names, refuse
from forebay.cli.messages.topics import consumed_address
from forebay.cli.progress import progress_bar
from forebay.cli.show import cell, moment_ms
from forebay.cli.units import messages
from forebay.client.messaging import Delivered, MessageClient
from forebay.core.errors import OptionError
from forebay.core.message import Properties
from forebay.message.shown import plain

PREFETCH: Final = 500
PREFETCH_MAX: Final = 65_535
ACK_AFTER: Final = 100  # messages; earlier if no more are waiting
POLL_S: Final = 0.2
FIELDS: Final = (
    "content_type",
    "content_encoding",
    "priority",
    "correlation_id",
    "reply_to",
    "expiration_ms",
    "message_id",
    "timestamp_s",
    "type",
    "user_id",
    "app_id",
    "to",
    "subject",
    "group_id",
)
TEXT, JSON, RAW, LINES = OUTPUTS = ("text", "json", "raw", "lines")
ACK, NO_ACK, REQUEUE = MODES = ("ack", "no-ack", "requeue")


@logs_in
def consume(
    login: LoginOptions,
    queue: Annotated[
        str | None, typer.Option("--queue", "-q", metavar="NAME", help="Name of the queue.", autocompletion=queue_names)
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option("--topic", "-t", metavar="FILTER", help="A topic filter, or $queue/NAME/FILTER."),
    ] = None,
    filter: Annotated[
        str | None,
        typer.Option(metavar="FILTER", help="Only messages that match this filter; see docs/reference/filters.md."),
    ] = None,
    group: Annotated[
        str | None, typer.Option(metavar="NAME", help="The consumer group, which has its own position.")
    ] = None,
    starting: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="PLACE",
            help="Where to start: first, last, next, resume, an offset, a time, or an age such as 90m.",
        ),
    ] = None,
    count: Annotated[int, typer.Option("--count", "-n", metavar="N", min=0, help="Number of messages; 0 is all.")] = 0,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for more until Ctrl-C; implied by --topic.")] = False,
    wait: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="Without --follow: end when nothing came for this time.")
    ] = 2.0,
    settle: Annotated[
        str, typer.Option("--settle", metavar="WORD", help="How to settle messages: ack, no-ack or requeue.")
    ] = ACK,
    output: Annotated[str, typer.Option("--output", "-o", metavar="WORD", help="text, json, raw or lines.")] = TEXT,
    out: Annotated[str | None, typer.Option(metavar="FILE", help="Append the messages to this file.")] = None,
    protocol: ProtocolOption = AMQP,
) -> None:
    """Consume messages: print them, and acknowledge those that were printed.

    Exits with 1 if it got fewer than --count messages. Output json is an object a line; lines are bodies with a line
    end each; raw are bodies alone.

    Example: forebay consume --queue orders --filter '/total > 100' --count 10
    """
    form = JSON if login.as_json else checked("--output", output, OUTPUTS)
    mode = checked("--settle", settle, MODES)
    check_together(queue, topic, mode, count)
    address = None if topic is None else consumed_address(topic)
    arguments = {"x-filter": filter, "x-consumer-group": group, "x-stream-offset": place(starting)}
    given = {name: value for name, value in arguments.items() if value is not None}
    with login.messages(protocol) as client, progress_bar("messages", count or None, out is not None) as advance:
        source = queue or address or client.topic_source(str(topic))
        prefetch = count if mode == REQUEUE else min(count or PREFETCH, PREFETCH)
        client.consume(source, prefetch, mode == NO_ACK, given)
        reading = Consumption(client, Printer(form, opened(out), client.decode), mode, count, prefetch)
        reading.run(follow or topic is not None, wait, advance)
    if reading.taken < count and not reading.stopped:
        refuse(f"{messages(reading.taken)} came, not {count:,}")


def check_together(queue: str | None, topic: str | None, mode: str, count: int) -> None:
    """Refuse options that do not go together."""
    if (queue is None) == (topic is None):
        raise OptionError("one of --queue and --topic says which messages are meant")
    if mode == NO_ACK and count:
        raise OptionError("--count: with --settle no-ack the broker sends more than that, and what it sends is gone")
    if mode == REQUEUE and count > PREFETCH_MAX:
        raise OptionError(
            f"--count: with --settle requeue at most {PREFETCH_MAX:,}, as all are held to the end; 0 is all"
        )


class Consumption:
    """A run of `forebay consume`, until there are enough messages, no more come, or a signal ends it.

    taken    number of messages printed
    stopped  whether Ctrl-C or SIGTERM ended the run
    """

    def __init__(self, client: MessageClient, printer: Printer, mode: str, count: int, prefetch: int) -> None:
        self.client = client
        self.printer = printer
        self.mode = mode
        self.count = count
        self.prefetch = prefetch
        self.taken = 0
        self.stopped = False
        self._printed_tag = 0
        self._acked = 0
        self._flushed = 0

    def run(self, follow: bool, wait_s: float, advance: Callable[[int], None]) -> None:
        """Consume and print messages. All printed messages are settled when it returns."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)
        until = time.monotonic() + wait_s
        while not self.stopped and (self.taken < self.count or not self.count):
            if not self.client.has_next or self.taken - self._flushed >= ACK_AFTER:
                self._settle(False)
            message = self.client.next(POLL_S)
            if message is not None:
                self.printer.show(message)
                self._printed_tag = message.tag
                self.taken += 1
                advance(1)
                until = time.monotonic() + wait_s
            elif not follow and time.monotonic() > until:
                break
        self._settle(True)

    def _settle(self, last: bool) -> None:
        """Acknowledge the printed messages, after they have been flushed to the output.

        Each acknowledgement makes the broker send another message. With --count, the last ones are acknowledged only
        at the end: messages beyond the count would be returned as redelivered.
        """
        if self._flushed < self.taken:
            self.printer.flush()
            self._flushed = self.taken
        if last:
            self.client.cancel()
        if self.mode == ACK:
            most = self.taken if last or not self.count else min(self.taken, max(self.count - self.prefetch, 0))
            if most > self._acked:
                self.client.ack(self._printed_tag - (self.taken - most))  # one consumer: its tags are consecutive
                self._acked = most
        elif self.mode == REQUEUE and last and self.taken:
            self.client.requeue(self._printed_tag)
        self.client.flush()

    def _stop(self, signum: int, frame: FrameType | None) -> None:
        self.stopped = True


class Printer:
    """The output of `forebay consume` in one form. Text for people has control characters escaped.

    decode  function that returns a message's properties
    """

    def __init__(self, form: str, out: BinaryIO, decode: Callable[[Delivered], Properties]) -> None:
        self.form = form
        self.out = out
        self.decode = decode
        self._is_file = out is not sys.stdout.buffer

    def show(self, message: Delivered) -> None:
        if self.form == RAW:
            self.out.write(message.body)
        elif self.form == LINES:
            self.out.write(message.body + b"\n")
        elif self.form == JSON:
            self.out.write(
                json.dumps(described(message, self.decode(message)), ensure_ascii=False).encode("utf-8", "replace")
                + b"\n"
            )
        else:
            self.out.write(said(described(message, self.decode(message))).encode("utf-8", "replace"))

    def flush(self) -> None:
        """Flush the printed messages. If the output is a file, also sync it to disk."""
        self.out.flush()
        if self._is_file:
            os.fsync(self.out.fileno())


def described(message: Delivered, properties: Properties) -> dict[str, object]:
    """Return a message as fields for JSON. A body that is not UTF-8 is in base64."""
    fields: dict[str, object] = {
        "exchange": message.exchange,
        "routing_key": message.routing_key,
        "redelivered": message.redelivered,
        "properties": fields_of(properties),
        "headers": {name: plain(value) for name, value in properties.headers},
    }
    try:
        fields["body"] = message.body.decode()
    except UnicodeDecodeError:
        fields["body_base64"] = base64.b64encode(message.body).decode()
    return fields


def fields_of(properties: Properties) -> dict[str, object]:
    values = {name: getattr(properties, name) for name in FIELDS}
    return {name: plain(value) for name, value in values.items() if value is not None}


def said(fields: dict[str, object]) -> str:
    """Return a message as text for people: a line of fields, its properties and headers, and its body."""
    again = "  redelivered" if fields["redelivered"] else ""
    parts = [f"exchange {cell(fields['exchange']) or '(default)'}  key {cell(fields['routing_key'])}{again}"]
    for part, word in (("properties", "property"), ("headers", "header")):
        values = fields[part]
        assert isinstance(values, dict)
        parts += [f"    {word} {cell(name)}: {cell(value)}" for name, value in values.items()]
    body = cell(fields["body"]) if "body" in fields else f"{fields['body_base64']} (base64)"
    return "\n".join([*parts, f"    {body}", ""])


def place(text: str | None) -> object:
    """Return the value of `x-stream-offset` for a start. A time in ISO 8601 becomes a timestamp in milliseconds."""
    if text is None:
        return None
    if text.isdigit():
        return int(text)
    time_ms = moment_ms(text)
    return text if time_ms is None else f"timestamp={time_ms}"  # the broker reports the error if it knows no such start


def checked(option: str, word: str, words: tuple[str, ...]) -> str:
    if word not in words:
        raise OptionError(f"{option}: {word!r} is none of {', '.join(words)}")
    return word


def opened(path: str | None) -> BinaryIO:
    if path is None:
        return sys.stdout.buffer
    try:
        return open(path, "ab")
    except OSError as error:
        raise OptionError(f"--out: {path}: cannot be written: {error.strerror}") from None
