"""What a consumer over MQTT rejects moves to `$dlq/<queue>`: what it says there, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.broker.dead_letter.dead_letters import REASON_OCTETS_MAX, dead_letter_queue
from forebay.broker.vhost import Vhost
from forebay.core.errors import INVALID, NOT_FOUND, NOT_IMPLEMENTED, PRECONDITION, REFUSED, RequestError
from forebay.core.message import AMQP091, MQTT, Properties
from forebay.message.address import dead_letter_address
from forebay.message.rendered import rendered_at
from forebay.queue.leases.lease import Lease
from forebay.queue.queue import CLASSIC, EPHEMERAL
from forebay.wire.amqp091 import properties as amqp
from forebay.wire.amqp091.codec import TABLE_DEPTH_MAX
from forebay.wire.mqtt.properties import CONTENT_TYPE, USER_PROPERTY, Property, decode_properties, encode_properties
from tests.vhosts import OneVhost, leased

MARKED = {
    "dlq-id": "1-1-0",
    "dlq-queue": "q",
    "dlq-offset": "0",
    "dlq-reason": "rejected",
    "dlq-deliveries": "1",
    "dlq-time-ms": "1700000000000",
}


def published(broker: OneVhost, queue: bytes, *bodies: bytes) -> Lease:
    """Publish to a queue over MQTT; the lease of it."""
    for body in bodies:
        route = broker.vhost.router.route_topic(b"$queue/" + queue + b"/k", None)
        broker.vhost.publishing.publish(route, MQTT | 16, b"", body)
    return broker.held(queue)


def reject(vhost: Vhost, lease: Lease, offset: int, reason: bytes) -> None:
    vhost.dead_letters.reject(lease, offset, reason)


def facts(block: bytes) -> dict[str, str]:
    """The user properties of a block."""
    pairs = [each for each in decode_properties(block) if each.id == USER_PROPERTY]
    return {each.text.decode(): each.value.decode() for each in pairs}


@pytest.fixture
def broker(tmp_path: Path) -> OneVhost:
    broker = OneVhost(tmp_path / "data")
    broker.vhost.catalog.declare_queue(b"q", True, False, False, {"x-dlq": True}, 1)
    return broker


def test_a_rejected_record_is_in_the_dead_letter_queue_as_it_was(broker: OneVhost) -> None:
    properties = encode_properties([Property(CONTENT_TYPE, 0, b"text/plain", b"")])
    broker.vhost.publishing.publish(
        broker.vhost.router.route_topic(b"$queue/q/eu/a", None), MQTT | 16, properties, b"body"
    )
    reject(broker.vhost, broker.held(b"q"), 0, b"")
    broker.turn()
    assert broker.vhost.catalog.queue(b"q").log.start == 1
    dead = broker.vhost.catalog.queue(b"$dlq/q")
    block = dead.log.block(0)
    assert block is not None
    assert (block.routing_key(0), block.body(0), block.format(0)) == (b"$queue/q/eu/a", b"body", MQTT | 16)
    assert rendered_at(block, 0).startswith(properties)
    assert facts(rendered_at(block, 0)) == MARKED
    broker.vhost.consumers.consume(b"$dlq/q", 2, 1, b"c", False, False, 0, {})
    assert [each.block.body(each.index) for each in broker.deliveries()] == [b"body"]


def test_it_says_what_reason_was_given_and_how_often_it_was_delivered(broker: OneVhost) -> None:
    lease = published(broker, b"q", b"0", b"1", b"2")
    broker.vhost.settling.nack(lease, 1, 1, 0)
    again = leased(broker.deliveries())
    assert (again.first, again.deliveries) == (1, 2)
    reject(broker.vhost, again, 1, b"no such account")
    broker.turn()
    block = broker.vhost.catalog.queue(b"$dlq/q").log.block(0)
    assert block is not None and block.count == 1
    assert facts(rendered_at(block, 0)) == MARKED | {
        "dlq-id": "1-1-1",
        "dlq-offset": "1",
        "dlq-reason": "no such account",
        "dlq-deliveries": "2",
    }
    assert broker.vhost.catalog.queue(b"q").needed(0, 3) == [(0, 1), (2, 3)]


def test_the_move_is_on_disk_as_a_whole_or_not_at_all(broker: OneVhost) -> None:
    lease = published(broker, b"q", b"0", b"1")
    reject(broker.vhost, lease, 0, b"")
    broker.turn()
    reject(broker.vhost, lease, 1, b"")  # the turn does not end
    broker.crash()
    assert broker.vhost.catalog.queue(b"q").needed(0, 2) == [(1, 2)]
    dead = broker.vhost.catalog.queue(b"$dlq/q")
    assert (dead.log.durable, dead.log.end) == (True, 1)


def test_what_is_rejected_from_a_dead_letter_queue_is_discarded(broker: OneVhost) -> None:
    reject(broker.vhost, published(broker, b"q", b"0"), 0, b"")
    broker.turn()
    lease = broker.held(b"$dlq/q")
    reject(broker.vhost, lease, 0, b"")
    broker.turn()
    assert broker.vhost.catalog.queue(b"$dlq/q").log.start == 1
    assert b"$dlq/$dlq/q" not in broker.vhost.catalog.queues


@pytest.mark.parametrize(("durable", "kind"), [(True, CLASSIC), (False, CLASSIC), (False, EPHEMERAL)])
def test_a_dead_letter_queue_is_as_durable_as_its_source(broker: OneVhost, durable: bool, kind: int) -> None:
    if kind == EPHEMERAL:
        broker.vhost.catalog.ephemeral_queue(b"s")
    else:
        broker.vhost.catalog.declare_queue(b"s", durable, False, False, {"x-dlq": True}, 1)
    made = dead_letter_queue(broker.vhost.publishing, b"$dlq/s")
    assert (made.name, made.log.durable, made.kind) == (b"$dlq/s", durable, kind)
    assert dead_letter_queue(broker.vhost.publishing, b"$dlq/s") is made


def test_a_durable_record_does_not_move_into_memory(broker: OneVhost) -> None:
    broker.vhost.catalog.declare_queue(b"$dlq/q", False, False, False, {}, 1)
    lease = published(broker, b"q", b"0")
    with pytest.raises(RequestError, match=r"'\$dlq/q' is not durable, but queue 'q' is") as refused:
        reject(broker.vhost, lease, 0, b"")
    assert refused.value.reason == PRECONDITION
    assert broker.vhost.settling.ack(lease, 0, 1) == 1


def test_a_queue_that_was_deleted_leaves_its_dead_letters(broker: OneVhost) -> None:
    reject(broker.vhost, published(broker, b"q", b"0"), 0, b"")
    broker.vhost.upkeep.delete_queue(b"q", False, False)
    broker.turn()
    assert dead_letter_queue(broker.vhost.publishing, b"$dlq/q").ready() == 1
    with pytest.raises(RequestError, match="no queue 'none'") as unknown:
        dead_letter_queue(broker.vhost.publishing, b"$dlq/none")
    assert unknown.value.reason == NOT_FOUND


def test_what_finds_no_room_on_the_disk_stays_held(broker: OneVhost) -> None:
    lease = published(broker, b"q", b"x" * 20_000)
    broker.disk.octets_max = broker.disk.used()
    with pytest.raises(RequestError, match="no room on the disk") as refused:
        reject(broker.vhost, lease, 0, b"")
    assert refused.value.reason == REFUSED
    assert broker.vhost.settling.find_lease(b"q", b"", 0) is lease


def test_a_reason_has_a_limit(broker: OneVhost) -> None:
    lease = published(broker, b"q", b"0", b"1")
    with pytest.raises(RequestError, match="reason: 256 octets") as wrong:
        reject(broker.vhost, lease, 0, b"r" * (REASON_OCTETS_MAX + 1))
    assert wrong.value.reason == INVALID
    assert b"$dlq/q" not in broker.vhost.catalog.queues
    reject(broker.vhost, lease, 0, b"r" * REASON_OCTETS_MAX)


def test_a_record_of_amqp_gets_headers(broker: OneVhost) -> None:
    said = Properties()
    said.message_id = "m"
    said.headers = [("colour", "red"), ("dlq-reason", "of an earlier death")]
    properties = amqp.encode_properties(said)
    broker.vhost.publishing.publish(broker.vhost.router.route(b"", b"q"), AMQP091, properties, b"body")
    reject(broker.vhost, broker.held(b"q"), 0, b"")
    broker.turn()
    block = broker.vhost.catalog.queue(b"$dlq/q").log.block(0)
    assert block is not None
    assert (block.exchange(0), block.routing_key(0), block.body(0)) == (b"", b"q", b"body")
    found = amqp.decode_properties(rendered_at(block, 0), TABLE_DEPTH_MAX)
    assert found.message_id == "m"
    numbers = {"dlq-offset": 0, "dlq-deliveries": 1, "dlq-time-ms": 1_700_000_000_000}
    assert found.headers == [("colour", "red"), *(MARKED | numbers).items()]


@pytest.mark.parametrize(
    ("filter", "name", "rest"),
    [
        (b"$dlq/q", b"$dlq/q", b""),
        (b"$dlq/q/#", b"$dlq/q", b"#"),
        (b"$dlq/q/a/+/b", b"$dlq/q", b"a/+/b"),
        (b"$dlq/q/", b"$dlq/q", b""),
    ],
)
def test_the_address_of_a_dead_letter_queue(filter: bytes, name: bytes, rest: bytes) -> None:
    assert dead_letter_address(filter) == (name, rest)


@pytest.mark.parametrize(
    ("filter", "reason"),
    [
        (b"$dlq/", INVALID),
        (b"$dlq//a", INVALID),
        (b"$dlq/+", INVALID),
        (b"$dlq/#", INVALID),
        (b"$dlq/+/a", INVALID),
        (b"$dlq/q/$ack", NOT_IMPLEMENTED),
    ],
)
def test_what_is_no_address_of_a_dead_letter_queue(filter: bytes, reason: str) -> None:
    with pytest.raises(RequestError) as wrong:
        dead_letter_address(filter)
    assert wrong.value.reason == reason
