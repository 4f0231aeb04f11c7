"""What a connection says of itself to administrators, limits and metrics."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from forebay.session.amqp10.connection import CLOSE_WAIT_US, Amqp10Session
from forebay.session.traffic import Traffic
from tests.conformance.amqp10.raw import BEGIN, CLOSE, END, Raw, begin, begun, message, performative, transfer
from tests.node_rig import Line, NodeRig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[NodeRig]:
    made = NodeRig(tmp_path)
    yield made
    made.close()


def session_of(raw: Raw) -> Amqp10Session:
    session = cast(Line, raw.socket).session
    assert isinstance(session, Amqp10Session)
    return session


def test_publishes_are_counted_for_the_channel_the_connection_and_the_broker(rig: NodeRig) -> None:
    raw = begun(rig)
    raw.publisher("$queue/q", 0)
    raw.publisher("/exchanges/amq.topic/nobody", 1)
    raw.send(*[transfer(each, message()) for each in range(5)], transfer(5, message(), settled=True))
    raw.send(transfer(6, message(), 1))
    assert raw.outcome() == (6, 6, 0x26)
    assert raw.outcome()[:2] == (0, 4)
    session = session_of(raw)
    described = session.describe_channels()[0]
    counted = {name: described[name] for name in ("published", "confirmed", "returned", "dropped", "unconfirmed")}
    assert counted == {"published": 7, "confirmed": 5, "returned": 1, "dropped": 0, "unconfirmed": 0}
    assert (session.published(), session.channel_count()) == (7, 1)
    raw.send(performative(0, END))
    raw.expect(END)
    assert (session.published(), session.channel_count()) == (7, 0)
    raw.send(performative(0, CLOSE))
    raw.expect(CLOSE)
    rig.settle()
    found = rig.broker.stats.traffic([])
    assert (found.channels, found.received, found.expecting, found.confirmed, found.returned) == (1, 7, 5, 5, 1)


def test_a_publisher_pays_for_what_it_publishes(tmp_path: Path) -> None:
    rig = NodeRig(tmp_path, client_messages_per_s=1, client_messages_burst=1)
    raw = begun(rig)
    raw.publisher("$queue/q", 0)
    raw.send(*[transfer(each, message()) for each in range(20)])
    rig.turn()
    assert cast(Line, raw.socket).holds, "it is not read until it has paid"
    rig.close()


def test_connection_and_channels_are_listed(rig: NodeRig) -> None:
    raw = begun(rig)
    raw.consumer("$queue/q", 1)
    raw.publisher("$queue/q", 2)
    listed = rig.broker.listed.listed()[0]
    assert (listed["protocol"], listed["user"], listed["channels"], listed["consumers"]) == ("AMQP 1.0", "guest", 1, 1)
    assert listed["heartbeat_s"] == 0
    channel = rig.broker.listed.channels()[0]
    assert (channel["channel"], channel["consumers"], channel["transactional"]) == (0, 1, False)
    sessions = session_of(raw).describe_sessions()
    links = cast("list[dict[str, object]]", sessions[0]["links"])
    assert [each["link_name"] for each in links] == ["consumer 1", "publisher 2"]
    assert (links[0]["source_address"], links[1]["target_address"]) == ("/queues/q", "$queue/q")


def test_sessions_that_have_nothing_to_say_are_not_looked_at(rig: NodeRig) -> None:
    raw = begun(rig)
    for channel in range(1, 50):
        raw.send(begin(channel))
        raw.expect(BEGIN, channel)
    session = session_of(raw)
    assert session.touched == [] and session.owing == []
    raw.publisher("$queue/q", 0)
    rig.holding = True
    raw.send(transfer(0, message()))
    rig.settle()
    assert session.touched == [] and session.owing == [session.endpoints[0]] and session.waiting()
    rig.holding = False
    assert raw.outcome()[:2] == (0, 0)
    assert not session.waiting()


def test_a_client_that_goes_on_talking_after_the_close_is_cut_off(rig: NodeRig) -> None:
    raw = begun(rig)
    session_of(raw).dismiss("enough")
    rig.settle()
    raw.error(CLOSE)
    for _ in range(2 * CLOSE_WAIT_US // 100_000):
        if cast(Line, raw.socket).gone:
            break
        raw.send(begin(3))
        rig.tick()
        rig.settle()
    assert cast(Line, raw.socket).gone


def test_nothing_published_is_an_empty_sum(rig: NodeRig) -> None:
    found = Traffic()
    session_of(begun(rig)).add_traffic(found)
    assert (found.channels, found.received) == (1, 0)


@pytest.mark.parametrize(
    ("server", "info"),
    [
        ("a.shop:5672", {"hostname": "a.shop", "network-host": "a.shop", "port": 5672}),
        ("[::1]:5672", {"hostname": "::1", "network-host": "::1", "port": 5672}),
        ("", None),
    ],
)
def test_a_client_is_sent_to_another_node(rig: NodeRig, server: str, info: object) -> None:
    raw = begun(rig)
    session_of(raw).send_elsewhere(server)
    rig.settle()
    error = raw.expect(CLOSE)[0].value + [None]
    assert error[0] == ("amqp:connection:redirect" if info else "amqp:connection:forced")
    assert error[2] == info
