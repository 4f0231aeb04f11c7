"""The vhost "/" is one like any other: it can be deleted, and made again."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.core.errors import NOT_ALLOWED, PRECONDITION, RequestError
from forebay.core.message import AMQP091
from forebay.message.events import QUEUE_NAME
from forebay.queue.queue import STREAM
from forebay.wire.blocks.frames import ERROR, PREFACE, REPLY, REQUEST, decode_frame, decode_json, encode_json
from tests.conformance.mqtt.raw import connect
from tests.mqtt_rig import MqttRig
from tests.node_rig import Line, NodeRig
from tests.unit.session.blocks.test_connection import LOGIN

NAME = b"/"


def names(rig: NodeRig) -> list[bytes]:
    return [vhost.name for vhost in rig.vhosts.all()]


def fill(rig: NodeRig) -> None:
    """Have a queue with a message in "/", and a vhost beside it."""
    rig.vhosts.add(b"shop")
    rig.vhost.catalog.declare_queue(b"q", True, False, False, {}, 1)
    rig.vhost.publishing.publish(rig.vhost.router.route(b"", b"q"), AMQP091, b"", b"x")
    rig.vhost.retained.put_volatile(b"t", b"x", rig.clock.us)
    rig.settle()


@pytest.mark.parametrize("checkpoint", [False, True])
def test_it_stays_deleted_after_a_crash(tmp_path: Path, checkpoint: bool) -> None:
    rig = NodeRig(tmp_path)
    fill(rig)
    rig.vhosts.delete(NAME)
    rig.turn()
    if checkpoint:
        rig.checkpoint()
    rig.crash()
    assert names(rig) == [b"shop"]
    assert rig.vhosts.default() is None
    rig.wait(2.0)
    rig.close()


def test_one_made_anew_begins_empty_and_outlives_a_crash(tmp_path: Path) -> None:
    rig = NodeRig(tmp_path)
    fill(rig)
    rig.vhosts.delete(NAME)
    rig.turn()
    made = rig.vhosts.add(NAME)
    assert made.number == 2
    assert not made.catalog.queues
    made.catalog.declare_queue(b"new", True, False, False, {}, 1)
    rig.turn()
    rig.checkpoint()
    rig.crash()
    assert names(rig) == [b"shop", NAME]
    assert (rig.vhost.number, set(rig.vhost.catalog.queues)) == (2, {b"new"})
    rig.close()


def test_a_protected_one_is_not_deleted(tmp_path: Path) -> None:
    rig = NodeRig(tmp_path)
    rig.vhosts.change(rig.vhost, {"protected": True})
    with pytest.raises(RequestError) as caught:
        rig.vhosts.delete(NAME)
    assert caught.value.reason == PRECONDITION
    rig.close()


def test_no_client_enters_it_any_more(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    inside, refused = rig.connect("mqtt"), rig.connect("mqtt")
    inside.received(connect("a"))
    rig.settle()
    rig.vhosts.delete(NAME)
    rig.settle()
    assert inside.gone
    refused.received(connect("b"))
    rig.settle()
    assert refused.gone
    with pytest.raises(RequestError) as caught:
        rig.vhosts.find(NAME)
    assert caught.value.reason == NOT_ALLOWED
    rig.close()


def test_what_the_configuration_has_there_makes_it_at_the_start(tmp_path: Path) -> None:
    rig = NodeRig(tmp_path, queues=[{"name": "orders"}])
    rig.vhosts.delete(NAME)
    rig.turn()
    rig.crash()
    assert names(rig) == [NAME]
    assert set(rig.vhost.catalog.queues) == {b"orders"}
    rig.close()


def test_an_exchange_of_the_configuration_makes_it_too(tmp_path: Path) -> None:
    rig = NodeRig(
        tmp_path,
        exchanges=[{"name": "in"}],
        bindings=[{"source": "in", "destination": "amq.fanout", "destination_type": "exchange"}],
    )
    rig.vhosts.delete(NAME)
    rig.turn()
    rig.crash()
    assert b"in" in rig.vhost.catalog.bindings.exchanges
    rig.close()


def test_events_and_stats_of_the_broker_go_on_without_it(tmp_path: Path) -> None:
    rig = NodeRig(tmp_path, events=["vhost.*"], mqtt_sys_interval_s=1)
    rig.wait(1.1)
    assert QUEUE_NAME in rig.vhost.catalog.queues
    rig.vhosts.delete(NAME)
    rig.wait(2.1)
    assert rig.broker.announcer.stream.lost == 1, "that it is deleted"
    rig.vhosts.add(NAME)
    rig.wait(1.1)
    assert rig.vhost.retained.numbers(b"$SYS/broker/version"), "also what has not changed since"
    stream = rig.vhost.catalog.queue(QUEUE_NAME)
    assert (stream.kind, stream.log.end) == (STREAM, 1)
    rig.close()


# ---- administrators that have entered no vhost


def administrator(rig: NodeRig) -> Line:
    line = rig.connect("blocks")
    line.received(PREFACE)
    line.received(encode_json(REQUEST, {**LOGIN, "vhost": ""}))
    rig.settle()
    line.sent.clear()
    return line


def asked(rig: NodeRig, line: Line, do: str, **arguments: object) -> list[tuple[int, dict[str, object]]]:
    """The answers to an operation: kinds of frames, and what they say."""
    line.received(encode_json(REQUEST, {"op": "control", "do": do, **arguments}))
    rig.settle()
    found, at, octets = [], 0, bytes(line.sent)
    line.sent.clear()
    while (frame := decode_frame(octets, at, 1 << 20)) is not None:
        at += int(frame.octets)
        found.append((int(frame.kind), decode_json(frame.payload)))
    return found


def test_an_administrator_hears_that_it_is_deleted(tmp_path: Path) -> None:
    rig = NodeRig(tmp_path)
    line = administrator(rig)
    answer, goodbye = asked(rig, line, "vhost.delete", vhost="/")
    assert answer == (REPLY, {})
    assert goodbye[0] == ERROR
    assert line.gone
    rig.close()


def test_an_administrator_makes_it_again(tmp_path: Path) -> None:
    rig = NodeRig(tmp_path)
    rig.vhosts.delete(NAME)
    rig.settle()
    line = administrator(rig)
    ((kind, told),) = asked(rig, line, "vhost.list")
    assert (kind, told["items"]) == (REPLY, [])
    assert [each["vhost"] for each in rig.broker.listed.listed()] == [""]
    ((kind, _),) = asked(rig, line, "vhost.add", vhost="/")
    assert kind == REPLY
    ((kind, _),) = asked(rig, line, "queue.declare", queue="q")
    assert kind == REPLY
    assert not line.gone
    assert set(rig.vhost.catalog.queues) == {b"q"}
    line.close()
    rig.settle()
    rig.crash()
    assert set(rig.vhost.catalog.queues) == {b"q"}
    rig.close()
