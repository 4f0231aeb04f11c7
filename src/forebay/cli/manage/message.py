"""`forebay message` and `stream`: one message and what became of it, and the log of a queue."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from forebay.cli.access import AdminAccess, asks, queue_names
from forebay.cli.as_json import show_json
from forebay.cli.manage.from_rows import add_commands
from forebay.cli.show import cell, moment_ms, show_message, show_table
from forebay.core.errors import OptionError

app = typer.Typer(help="One message: its content, why it waits, and its history.", no_args_is_help=True)
streams = typer.Typer(help="The log of a queue or stream.", no_args_is_help=True)

Queue = Annotated[str, typer.Argument(metavar="QUEUE", help="Name of the queue.", autocompletion=queue_names)]
Offset = Annotated[int, typer.Argument(metavar="OFFSET", help="The message's offset.")]
QueueOption = Annotated[str | None, typer.Option("--queue", "-q", metavar="NAME", help="The message's queue.")]
OffsetOption = Annotated[int | None, typer.Option(metavar="N", help="The message's offset.")]
IdOption = Annotated[str | None, typer.Option("--id", metavar="ID", help="Instead: its message id, in any queue.")]


@app.command("show")
@asks
def show_one(
    access: AdminAccess,
    queue: Queue,
    offset: Offset,
    body_octets: Annotated[int, typer.Option(metavar="N", help="Octets of its body to show.")] = 100_000,
) -> None:
    """Show a message, settled or not, while the log has it.

    Example: forebay message show orders 17
    """
    found = access.run("message.show", queue=queue, offset=offset, body_octets_max=body_octets)
    if access.as_json:
        show_json(found)
    else:
        show_message(found)


@app.command("explain")
@asks
def explain(
    access: AdminAccess,
    queue: QueueOption = None,
    offset: OffsetOption = None,
    id: IdOption = None,
    client: Annotated[
        str | None, typer.Option(metavar="CLIENT", help="Instead: the client identifier of an MQTT session.")
    ] = None,
    topic: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="With --client: the topic that it was published to.")
    ] = None,
) -> None:
    """Explain why a message is not delivered: who holds it, or which limit, filter, order or prefetch stops it.

    Example: forebay message explain --queue orders --offset 17
    """
    answer: dict[str, Any] = access.run(
        "message.explain", queue=queue, offset=offset, message_id=id, client_id=client, topic=topic
    )
    if access.as_json:
        show_json(answer)
        return
    for found in answer["found"]:
        print(explained(found))
    say_if_none(answer)


@app.command("history")
@asks
def history(access: AdminAccess, queue: QueueOption = None, offset: OffsetOption = None, id: IdOption = None) -> None:
    """Show a message's history since it was stored, as far as the broker keeps it.

    Example: forebay message history --queue orders --offset 17
    """
    answer: dict[str, Any] = access.run("message.history", queue=queue, offset=offset, message_id=id)
    if access.as_json:
        show_json(answer)
        return
    for found in answer["found"]:
        print(f"queue {cell(found['queue'])}, offset {found['offset']}")
        show_table(("time_ms", "type", "source", "group", "connection", "consumer", "detail"), found["events"])
        for each in found["not_kept"]:
            print(f"not kept: {cell(each)}")
    say_if_none(answer)


add_commands(streams, "stream.show")


@streams.command("offset")
@asks
def offset_at(
    access: AdminAccess,
    queue: Queue,
    time: Annotated[str, typer.Argument(metavar="TIME", help="ISO 8601, or milliseconds since 1970.")],
) -> None:
    """Find the first message stored at or after a time.

    Example: forebay stream offset prices 2026-11-21T12:00
    """
    time_ms = int(time) if time.isdigit() else moment_ms(time)
    if time_ms is None:
        raise OptionError(f"TIME: {time!r} is no time such as 2026-11-21T12:00")
    answer = access.run("stream.offset", queue=queue, time_ms=time_ms)
    if access.as_json:
        show_json(answer)
    else:
        print(answer["offset"])


def say_if_none(answer: dict[str, Any]) -> None:
    """Print the reason why a search found no message, if it found none."""
    if not answer["found"]:
        print(
            "there is no such message" if answer["complete"] else "it was not among the newest messages of the queues"
        )


def explained(found: dict[str, Any]) -> str:
    """Return one explanation as lines: its summary, and the reasons behind it."""
    summary = cell(found["summary"])  # the summary names queue and offset
    if "client_id" in found:
        summary = f"session {cell(found['client_id'])}: {summary}"
    elif "queue" not in found:
        summary = f"delayed message to {cell(found['topic'])}: {summary}"
    lines = [summary]
    lines += [f"    {each['code']}: {cell(each['text'])}" for each in found["reasons"]]
    return "\n".join(lines)
