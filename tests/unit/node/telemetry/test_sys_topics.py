"""The figures under `$SYS`: names, formats, what is told again, and the load averages."""

from __future__ import annotations

import math

import pytest

from forebay.core.metrics import Totals
from forebay.node.telemetry.sys_topics import SysTopics

SECOND_US = 1_000_000
START_US = 1_700_000_000 * SECOND_US
FIXED = {"version": "forebay version 1.2.3", "timestamp": "2023-11-14 22:13:20+0000"}


def started() -> SysTopics:
    return SysTopics("1.2.3", START_US, START_US)


def told(topics: SysTopics, totals: Totals, seconds: int) -> dict[str, str]:
    """Figure and value of what changed, so many seconds after the start."""
    found = topics.changed(totals, START_US + seconds * SECOND_US)
    assert all(topic.startswith(b"$SYS/broker/") for topic, _ in found)
    return {topic.removeprefix(b"$SYS/broker/").decode(): value.decode() for topic, value in found}


def test_all_is_told_at_first_then_what_changed() -> None:
    topics = started()
    totals = Totals(octets_received=7, retained=3, stored_messages=5, stored_octets=900, subscriptions=4)
    totals.shared_subscriptions = 2
    totals.dead_letters_dropped = 6
    totals.staged_batches = 1
    totals.memory_octets, totals.memory_octets_peak = 1000, 2000
    first = told(topics, totals, 0)
    loads = {name: value for name, value in first.items() if name.startswith("load/")}
    kinds = ["connections", "sockets", "bytes/received", "bytes/sent"]
    kinds += ["messages/received", "messages/sent", "publish/received", "publish/sent", "publish/dropped"]
    assert loads == {f"load/{kind}/{window}": "0.00" for kind in kinds for window in ("1min", "5min", "15min")}
    assert {name: value for name, value in first.items() if name not in loads} == FIXED | {
        "uptime": "0 seconds",
        "bytes/received": "7",
        "bytes/sent": "0",
        "clients/connected": "0",
        "clients/disconnected": "0",
        "clients/expired": "0",
        "clients/maximum": "0",
        "clients/total": "0",
        "messages/received": "0",
        "messages/sent": "0",
        "publish/bytes/received": "0",
        "publish/bytes/sent": "0",
        "publish/messages/received": "0",
        "publish/messages/sent": "0",
        "publish/messages/dropped": "0",
        "publish/messages/dropped/queue_full": "0",
        "publish/messages/dropped/not_read": "0",
        "publish/messages/dropped/expired": "0",
        "publish/messages/dropped/too_large": "0",
        "retained messages/count": "3",
        "delayed messages/count": "0",
        "dead letters/moved": "0",
        "dead letters/dropped": "6",
        "staged batches/count": "1",
        "store/messages/count": "5",
        "store/messages/bytes": "900",
        "subscriptions/count": "4",
        "shared_subscriptions/count": "2",
        "heap/current": "1000",
        "heap/maximum": "2000",
    }
    assert told(topics, totals, 10) == {"uptime": "10 seconds"}
    totals.retained = 4
    assert told(topics, totals, 20) == {"uptime": "20 seconds", "retained messages/count": "4"}


def test_packets_and_payloads() -> None:
    totals = Totals(packets_received=1, packets_sent=2, publish_octets_received=3, publish_octets_sent=4)
    first = told(started(), totals, 0)
    names = ["messages/received", "messages/sent", "publish/bytes/received", "publish/bytes/sent"]
    assert [first[name] for name in names] == ["1", "2", "3", "4"]
    assert first["load/messages/received/1min"] == first["load/messages/sent/15min"] == "0.00"


def test_the_maximum_of_clients_stays() -> None:
    topics = started()
    totals = Totals(clients_connected=5, clients_disconnected=2)
    assert told(topics, totals, 0)["clients/total"] == "7"
    totals.clients_connected = 1
    assert told(topics, totals, 10) == {"uptime": "10 seconds", "clients/connected": "1", "clients/total": "3"}
    totals.clients_connected = 6
    assert told(topics, totals, 20)["clients/maximum"] == "6"


@pytest.mark.parametrize(("window", "window_s"), [("1min", 60), ("5min", 300), ("15min", 900)])
def test_a_load_average_is_events_a_minute_smoothed(window: str, window_s: int) -> None:
    topics = started()
    totals = Totals(publishes_received=1000)
    name = f"load/publish/received/{window}"
    assert told(topics, totals, 0)[name] == "0.00"  # what came before the first look is no rate
    expected = 0.0
    for step, events in enumerate([50, 0, 0, 700], start=1):
        totals.publishes_received += events
        rate = events * 6.0  # in 10 s
        expected = rate + math.exp(-10 / window_s) * (expected - rate)
        assert told(topics, totals, 10 * step)[name] == f"{expected:.2f}"


def test_a_load_average_fades_to_nothing() -> None:
    """Also where each step is too small to be seen."""
    topics = started()
    totals = Totals()
    told(topics, totals, 0)
    totals.sockets = 30
    values = {}
    for second in range(10, 12_000, 10):
        values.update(told(topics, totals, second))
    assert values["load/sockets/15min"] == "0.00"


def test_two_looks_in_one_moment() -> None:
    topics = started()
    told(topics, Totals(), 0)
    assert told(topics, Totals(connects=5), 0) == {}
    assert float(told(topics, Totals(connects=5), 60)["load/connections/1min"]) == pytest.approx(3.16)
