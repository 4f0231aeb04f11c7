"""Long messages: taken in pieces, put together beside the loop, stored and sent without being copied."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.broker.joining import Joining
from forebay.log.block import LONG_OCTETS
from forebay.session.amqp091.connection import Amqp091Session
from tests.conformance.amqp091.raw import CONSUME, GET, QUEUE_DECLARE, content, method, publish, short, table
from tests.conformance.mqtt.raw import PINGREQ, PINGRESP, V5, V311, connect, subscribe
from tests.conformance.mqtt.raw import publish as mqtt_publish
from tests.mqtt_rig import RigClient
from tests.unit.session.amqp091.test_too_much import AmqpRig

READ_OCTETS = 200_000
NOTHING = b"\0\0"
BODY = bytes(range(256)) * (LONG_OCTETS // 256) + b"the end"


def reads(octets: bytes) -> list[bytes]:
    return [octets[at : at + READ_OCTETS] for at in range(0, len(octets), READ_OCTETS)]


def join(rig: AmqpRig) -> Joining:
    """Do what a session waits for."""
    rig.turn()
    proof = rig.prove()
    assert isinstance(proof, Joining) and not rig.proofs
    return proof


# ---- AMQP


def declared(rig: AmqpRig, durable: bool = True) -> Amqp091Session:
    session = rig.running()
    rig.give(session, method(1, QUEUE_DECLARE, NOTHING + short("long") + bytes([2 * durable]) + table()))
    return session


def give_long(rig: AmqpRig, session: Amqp091Session, after: bytes = b"") -> Joining:
    rest = b""
    for data in reads(publish(1, "long", BODY) + after):
        rest = rig.give(session, rest + data)
    assert session.is_proving()
    assert session.receive(b"more") == 0
    joining = join(rig)
    assert rig.give(session, rest) == b""
    return joining


def test_an_amqp_body_is_put_together_beside_the_loop_and_never_copied(tmp_path: Path) -> None:
    rig = AmqpRig(tmp_path)
    session = declared(rig)
    joining = give_long(rig, session, publish(1, "long", b"after"))
    rig.turn()
    log = rig.vhost.catalog.queues[b"long"].log
    long = log.block(0)
    assert long is not None and long.body(0) is joining.body == BODY
    after = log.block(1)
    assert after is not None and after.body(0) == b"after"
    assert (long.count, after.base) == (1, 1)
    rig.close()


@pytest.mark.parametrize("get", [True, False])
def test_it_is_sent_from_where_it_is_kept(tmp_path: Path, get: bool) -> None:
    rig = AmqpRig(tmp_path)
    session = declared(rig)
    give_long(rig, session)
    rig.turn()
    reader = rig.running()
    if get:
        rig.give(reader, method(1, GET, NOTHING + short("long") + b"\1"))
    else:
        rig.give(reader, method(1, CONSUME, NOTHING + short("long") + short("t") + b"\2" + table()))
    ready = rig.node.turn()
    views = [part for part in reader.parts if isinstance(part, memoryview)]
    assert sum(map(len, views)) == len(BODY)
    assert len(reader.out) < 100
    sent = b"".join([*reader.parts, reader.out.getvalue()])
    assert sent.endswith(content(1, BODY))
    rig.do(ready)
    rig.close()


def test_it_survives_a_restart(tmp_path: Path) -> None:
    rig = AmqpRig(tmp_path)
    give_long(rig, declared(rig))
    rig.turn()
    rig.crash()
    block = rig.vhost.catalog.queues[b"long"].log.block(0)
    assert block is not None and block.tail == BODY
    rig.close()


def test_a_channel_that_was_closed_meanwhile_publishes_nothing(tmp_path: Path) -> None:
    rig = AmqpRig(tmp_path)
    session = declared(rig)
    rest = b""
    for data in reads(publish(1, "long", BODY)):
        rest = rig.give(session, rest + data)
    session.channels[1].release()
    join(rig)
    rig.give(session, rest)
    rig.turn()
    assert rig.vhost.catalog.queues[b"long"].log.end == 0
    rig.close()


# ---- MQTT


def connacked(rig: AmqpRig, name: str, version: int = V5) -> RigClient:
    raw = rig.client(version)
    raw.send(connect(name, version))
    raw.connack()
    return raw


def has_begun(raw: RigClient) -> bool:
    return raw.session.long.packet is not None


@pytest.mark.parametrize("version", [V311, V5])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_an_mqtt_body_goes_to_its_subscribers_without_a_copy(tmp_path: Path, version: int, qos: int) -> None:
    rig = AmqpRig(tmp_path)
    sink = connacked(rig, "sink", version)
    sink.send(subscribe(1, ("#", 1), version=version))
    sink.granted()
    source = connacked(rig, "source", version)
    octets = mqtt_publish("a/b", BODY, qos, 7, version) + mqtt_publish("a/b", b"after", 0, 0, version) + PINGREQ
    for data in reads(octets):
        source.send(data)
    assert source.session.is_proving()
    joining = join(rig)
    ready = rig.node.turn()
    assert [part for part in sink.session.parts if part is joining.body]
    rig.do(ready)
    assert sink.delivery().body == BODY
    assert sink.delivery().body == b"after"
    source.expect(PINGRESP[0])  # it needs no disk
    if qos:
        source.acked(7, kind=0x40 if qos == 1 else 0x50)
    assert source.session.inbox.received == 2
    rig.close()


def test_many_subscribers_share_one_body(tmp_path: Path) -> None:
    rig = AmqpRig(tmp_path)
    sinks = [connacked(rig, f"sink{number}") for number in range(5)]
    for sink in sinks:
        sink.subscribe("a", qos=0)
    source = connacked(rig, "source")
    for data in reads(mqtt_publish("a", BODY, 0, 0)):
        source.send(data)
    body = join(rig).body
    ready = rig.node.turn()
    assert all([part for part in sink.session.parts if part is body] for sink in sinks)
    rig.do(ready)
    for sink in sinks:
        assert sink.delivery().body == BODY
    rig.close()


def test_a_body_beyond_the_limit_is_refused_before_it_has_come(tmp_path: Path) -> None:
    rig = AmqpRig(tmp_path, message_octets_max=LONG_OCTETS)
    source = connacked(rig, "source")
    source.send(mqtt_publish("a", BODY, 0, 0)[:1000])
    source.refused(0x95)
    rig.close()


def test_a_head_that_comes_in_pieces_is_waited_for(tmp_path: Path) -> None:
    rig = AmqpRig(tmp_path)
    source = connacked(rig, "source")
    octets = mqtt_publish("a" * 300, BODY, 1, 7)
    source.send(octets[:200])
    assert not has_begun(source)
    assert source.session.wanted(octets[:200]) == 0
    source.send(octets[200:400])
    assert has_begun(source)
    source.send(octets[400:])
    join(rig)
    source.acked(7, 0x10)
    rig.close()


def test_a_long_command_is_still_a_command(tmp_path: Path) -> None:
    rig = AmqpRig(tmp_path)
    sink = connacked(rig, "sink")
    sink.subscribe("a", qos=0)
    source = connacked(rig, "source")
    for data in reads(mqtt_publish("$delayed/1/a", BODY, 1, 7)):
        source.send(data)
    join(rig)
    source.acked(7)
    rig.later(2000)
    assert sink.delivery().body == BODY
    rig.close()
