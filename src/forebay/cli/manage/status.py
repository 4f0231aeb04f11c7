"""`forebay status`: a broker's state on one screen."""

from __future__ import annotations

import time
from typing import Annotated, Any, Final

import typer

from forebay.cli.access import AdminAccess, asks_broker
from forebay.cli.as_json import show_json
from forebay.cli.show import cell, show_table
from forebay.cli.units import messages, objects, octets_said, period_said, rate_said, rates, seconds_between

DAMAGE: Final = "damage"  # name of the alarm for unreadable messages
UNREADABLE: Final = "messages cannot be read; forebay log repair mends it while the broker is stopped"


@asks_broker
def status(
    access: AdminAccess,
    over: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="Seconds over which rates are measured; 0 for no rates.")
    ] = 0.5,
) -> None:
    """Show the broker's state: listeners, alarms, memory, disk, clients, rates, and its longest queues.

    Exits with 1 during an alarm: the broker does not read publishers, or cannot read messages.

    Example: forebay status
    """
    before: dict[str, Any] = access.run("broker.status")
    after = before
    if over:
        time.sleep(over)
        after = access.run("broker.status")
    found = {**after, "rates": rates(before, after, seconds_between(before, after))}
    if access.as_json:
        show_json(found)
    else:
        for name, value in described(found, access.client.server):
            print(f"{name:<10} {value}")
        for each in found["damages"]:
            print(f"damaged    {damage_said(each)}")
        if found["longest"]:
            print()
            show_table(
                ("vhost", "queue", "ready", "unacked", "consumers", "oldest"),
                [longest(each) for each in found["longest"]],
            )
    if found["alarms"]:
        raise typer.Exit(1)


def described(found: dict[str, Any], server: str) -> list[tuple[str, str]]:
    """Return the names and values of the lines above the table."""
    lacking = ", ".join(each for each in found["alarms"] if each != DAMAGE)
    alarms = f"{lacking}: publishers are not read until that is over" if lacking else ""
    if DAMAGE in found["alarms"]:
        alarms = f"{alarms}; {UNREADABLE}" if alarms else UNREADABLE
    flow = found["rates"]
    counts = found["counts"]
    died = sum(counts[name] for name in ("expired", "dropped", "rejected", "limited"))
    memory, memory_max = found["memory_octets"], found["memory_octets_max"]
    free, free_min = found["disk_free_octets"], found["disk_free_min_octets"]
    return [
        ("broker", f"{server}: forebay {found['version']} ({found['build']}, Python {found['python']})"),
        ("process", f"{found['pid']}, up {period_said(found['uptime_s'])}, {found['cpu_s']:.1f} s of CPU"),
        ("data", f"{cell(found['data'])}, {octets_said(found['octets'])} in queues"),
        ("listeners", ", ".join(f"{name} {address}" for name, address in found["listeners"].items())),
        ("alarms", alarms or "none"),
        *([("cluster", cell(found["cluster"]["line"]))] if found.get("cluster") else []),
        ("memory", f"{octets_said(memory)} of {octets_said(memory_max)} ({100 * memory // memory_max} %)"),
        ("disk", f"{octets_said(free)} free, limit {octets_said(free_min)}"),
        ("clients", clients(found)),
        ("queues", f"{found['queues']:,} with {found['ready']:,} messages ready and {found['unacked']:,} unacked"),
        ("waiting", f"{found['delayed']:,} delayed, {found['retained']:,} retained"),
        ("rates", ", ".join(f"{rate_said(flow[name])} {name}" for name in flow)),
        (
            "total",
            f"{counts['published']:,} in, {counts['acked']:,} acked, {counts['refused']:,} refused, {died:,} died",
        ),
    ]


def damage_said(damage: dict[str, Any]) -> str:
    """Return a line about a block that cannot be read."""
    where = f"queue {cell(damage['queue'])} of vhost {cell(damage['vhost'])}, {damage['first']} to {damage['last']}"
    return f"{where}: {cell(damage['file'])} at octet {damage['position']}: {cell(damage['reason'])}"


def clients(found: dict[str, Any]) -> str:
    said = f"{found['connections']:,} of {found['connections_max']:,} connections, "
    said += f"{objects(found['consumers'], 'consumers')}, {objects(found['sessions'], 'MQTT sessions')}"
    if found["slowed_publishers"]:
        said += f", {objects(found['slowed_publishers'], 'slowed publishers')}"
    if found["slow_readers"]:
        said += f", {objects(found['slow_readers'], 'slow readers')}"
    if found["messages_lost"]:
        said += f"; slow MQTT clients lost {messages(found['messages_lost'])}"
    if found["sessions_over_quota"]:
        said += f"; {found['sessions_over_quota']:,} MQTT sessions exceed mqtt_session_octets_max"
    return said


def longest(queue: dict[str, Any]) -> dict[str, object]:
    """Return a queue's row of the table of longest queues."""
    return {**queue, "oldest": oldest_said(queue)}


def oldest_said(queue: dict[str, Any]) -> str:
    """Return the age of a queue's first message as text. Returns "" if it has none."""
    age_ms = queue["oldest_ms"]
    return "" if age_ms is None or not queue["ready"] + queue["unacked"] else period_said(age_ms / 1000)
