"""Steps of MQTT 5 that many tests take: sessions that last, whole exchanges of QoS 2, subscription options."""

from __future__ import annotations

from tests.broker_process import Dialled
from tests.conformance.mqtt.raw import (
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    Delivery,
    Raw,
    acknowledge,
    connected,
    number,
    puback,
    publish,
    subscribe,
    varint,
)

DUP, RETAIN = 8, 1
NO_LOCAL, AS_PUBLISHED, IF_NEW, NEVER = 0x04, 0x08, 0x10, 0x20  # bits of the subscription options
LONG_S = 600  # longer than any test


def expiry(seconds: int) -> bytes:
    """The Session Expiry Interval."""
    return b"\x11" + number(seconds, 4)


def message_expiry(seconds: int) -> bytes:
    return b"\x02" + number(seconds, 4)


def receive_maximum(messages: int) -> bytes:
    return b"\x21" + number(messages)


def packet_maximum(octets: int) -> bytes:
    return b"\x27" + number(octets, 4)


def alias(value: int) -> bytes:
    return b"\x23" + number(value)


def subscription_id(value: int) -> bytes:
    return b"\x0b" + varint(value)


def session(broker: Dialled, client: str, present: bool = False, properties: bytes = b"") -> Raw:
    """A connection with Clean Start 0 whose session outlives it; `present`: which CONNACK must tell of."""
    return connected(broker, client, properties=expiry(LONG_S) + properties, clean=False, present=present)


def subscribed(raw: Raw, *filters: tuple[str, int], properties: bytes = b"") -> Raw:
    """The same connection with subscriptions of these options, each granted the QoS it asks for."""
    raw.send(subscribe(1, *filters, properties=properties))
    assert raw.granted() == [options & 3 for _, options in filters]
    return raw


def publish_whole(
    raw: Raw, topic: str, body: bytes = b"", qos: int = 1, properties: bytes = b"", bits: int = 0
) -> None:
    """A publish and all of its exchange; somebody must be there who wants it."""
    raw.send(publish(topic, body, qos, 9, properties=properties, bits=bits))
    if qos == 0:
        raw.quiet()
    elif qos == 1:
        raw.acked(9)
    else:
        raw.acked(9, kind=PUBREC)
        raw.send(acknowledge(PUBREL, 9))
        raw.acked(9, kind=PUBCOMP)


def retain(raw: Raw, topic: str, body: bytes, qos: int = 1, properties: bytes = b"") -> None:
    """A retained publish, which is stored when this returns; an empty body removes what is there."""
    raw.send(publish(topic, body, qos, 8, properties=properties, bits=RETAIN))
    if qos:
        assert raw.expect(PUBACK if qos == 1 else PUBREC)[:2] == number(8)
    if qos == 2:
        raw.send(acknowledge(PUBREL, 8))
        raw.acked(8, kind=PUBCOMP)
    raw.quiet()


def settle(raw: Raw, found: Delivery) -> None:
    """Acknowledge a delivery, at QoS 2 to the end."""
    if found.qos == 1:
        raw.send(puback(found.id))
    elif found.qos == 2:
        raw.send(acknowledge(PUBREC, found.id))
        raw.acked(found.id, kind=PUBREL)
        raw.send(acknowledge(PUBCOMP, found.id))


def take(raw: Raw) -> Delivery:
    """The delivery that must come now, acknowledged."""
    found = raw.delivery()
    settle(raw, found)
    return found


def take_all(raw: Raw, count: int) -> list[Delivery]:
    """So many deliveries, acknowledged as they come; what is to come of QoS 2 may mingle with the next ones."""
    found: list[Delivery] = []
    unreleased = 0
    while len(found) < count or unreleased:
        first, rest = raw.packet()
        if first == PUBREL:
            raw.send(acknowledge(PUBCOMP, int.from_bytes(rest[:2], "big")))
            unreleased -= 1
            continue
        made = raw.parsed(first, rest)
        found.append(made)
        if made.qos:
            raw.send(acknowledge(PUBACK if made.qos == 1 else PUBREC, made.id))
            unreleased += made.qos == 2
    assert len(found) == count
    return found


def bodies(raw: Raw, count: int) -> list[bytes]:
    """Of so many deliveries, acknowledged."""
    return [each.body for each in take_all(raw, count)]


def ids_of(found: Delivery) -> list[int]:
    """Its subscription identifiers, ascending."""
    return sorted(int(str(value)) for id, value in found.properties if id == 0x0B)
