"""MQTT 3.1.1 and 5: conversations to be recorded, and packets that chance has filled in."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from tests.conformance.amqp091 import raw as amqp
from tests.conformance.mqtt import raw
from tests.conformance.mqtt.raw import (
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    V5,
    V311,
    WIDTHS,
    acknowledge,
    block,
    connect,
    connected,
    number,
    packet,
    properties_of,
    publish,
    split_block,
    subscribe,
    text,
    unsubscribe,
    user,
    varint,
    will,
)
from tests.conformance.mqtt.v5.flows import NO_LOCAL, alias, expiry, message_expiry, receive_maximum, subscription_id
from tests.fuzz import filters
from tests.fuzz.amqp import LONG_OCTETS
from tests.fuzz.held import Held
from tests.fuzz.recorder import Talk
from tests.scram_client import ScramClient

RETAIN, DUP = 1, 8
Talk2 = Callable[[Held, int], None]
TOPICS: Final = (
    "a",
    "a/b",
    "a/b/c",
    "/",
    "$queue/jobs",
    "$queue/jobs/k",
    "$queue/jobs/$ack",
    "$queue/jobs/k/$nack",
    "$queue/jobs/$reject",
    "$queue/jobs/$extend",
    "$queue/stream/$commit",
    "$delayed/1/a/b",
    "$delayed/$cancel",
    "$SYS/broker/uptime",
    "x" * 200,
)
FILTERS: Final = (
    *TOPICS[:6],
    "#",
    "+/b",
    "a/+/#",
    "$share/g/a/#",
    "$share/g/$queue/jobs",
    "$queue/jobs/#",
    "$queue/stream/+",
    "$SYS/#",
    "$share//a",
    "a/#/b",
)
CLIENTS: Final = ("c", "one", "two", "")
FACTS: Final[dict[str, tuple[str, ...]]] = {
    "message-id": ("jobs:0", "jobs:1", "stream:2", "jobs:x"),
    "group-id": ("g", "one"),
    "consumer-group": ("g", "h"),
    "offset": ("0", "2", "-1", "9223372036854775808"),
    "extend-ms": ("1", "5000"),
    "filter": ("/n > 5", "header.a = 'b'", "((", "routing_key LIKE '(a|b)*c'"),
    "delay-id": ("d",),
    "x-stream-offset": ("first", "0", "last"),
    "producer-id": ("p",),
    "sequence": ("1", "2"),
    "a": ("b", ""),
}
VALUES: Final = (0, 1, 2, 127, 255, 65_535, (1 << 32) - 1)


# ---- made by chance


def made_up(chance: Random, version: int) -> bytes:
    """A packet of a client that is connected."""
    kind = chance.randrange(12)
    id = chance.choice((1, 1, 2, 3, 4, 7, 65_535))
    qos = chance.randrange(3)
    if kind < 4:
        bits = chance.choice((0, 0, 0, RETAIN, DUP if qos else 0))
        made = properties(chance, (0x01, 0x02, 0x03, 0x08, 0x09, 0x23, 0x26, 0x26))
        return publish(chance.choice(TOPICS), body(chance), qos, id, version, made, bits)
    if kind < 6:
        filters = [
            (each, chance.choice((qos, qos, 4, 46, 255)))
            for each in chance.choices(FILTERS, k=chance.choice((1, 1, 3)))
        ]
        return subscribe(id, *filters, version=version, properties=properties(chance, (0x0B, 0x26)))
    if kind == 6:
        return unsubscribe(id, chance.choice(FILTERS), version=version)
    if kind < 10:
        code = chance.choice((0, 0, 0x10, 0x80, 0x97)) if version == V5 else 0
        return acknowledge(chance.choice((PUBACK, PUBREC, PUBREL, PUBCOMP)), id, code)
    if version == V5 and kind == 10:
        made = properties(chance, (0x15, 0x16, 0x1F, 0x26))
        return packet(0xF0, bytes([chance.choice((0, 0x18, 0x19))]) + varint(len(made)) + made)
    if chance.random() < 0.1:
        made = block(version, properties(chance, (0x11, 0x1F, 0x26)))
        return packet(0xE0, bytes([chance.choice((0, 4, 0x82))]) + made if version == V5 else b"")
    return raw.PINGREQ


def properties(chance: Random, known: tuple[int, ...]) -> bytes:
    """A few properties, most of them of these."""
    made = b""
    for _ in range(chance.choice((0, 0, 1, 1, 2, 5))):
        id = chance.choice(known) if chance.random() < 0.9 else chance.choice(list(WIDTHS))
        made += bytes([id]) + property_value(chance, WIDTHS[id])
    return made


def property_value(chance: Random, width: int) -> bytes:
    """A value that is so wide: see `WIDTHS`."""
    if width > 0:
        return number(chance.choice(VALUES) % (1 << 8 * width), width)
    if width == -1:
        return varint(chance.choice((0, 1, 127, 128, 268_435_455)))
    if width == -2:
        name = chance.choice(list(FACTS))
        if name == "filter" and chance.random() < 0.8:
            return text(name) + text(filters.made_up(chance))
        return text(name) + text(chance.choice(FACTS[name]))
    return text(chance.choice((b"", b"text", b"a/b", b"SCRAM-SHA-256", b"\xff", bytes(70))))


def body(chance: Random) -> bytes:
    """The body of a message."""
    if chance.random() < 0.5:
        return b'{"n": %d}' % chance.randrange(10)
    return bytes(chance.choice((0, 1, 127, 128, 600)))


def login(chance: Random, version: int) -> bytes:
    """A CONNECT with whatever one may ask for."""
    clean = chance.random() < 0.5
    known = (0x11, 0x17, 0x19, 0x21, 0x22, 0x26, 0x27) if version == V5 else ()
    made = b"".join(
        bytes([id]) + (b"\x01" if WIDTHS[id] == 1 else property_value(chance, WIDTHS[id]))
        for id in known
        if chance.random() < 0.15
    )
    last = b""
    if chance.random() < 0.4:
        delay = b"\x18" + number(chance.choice((0, 1, 100)), 4) if version == V5 and chance.random() < 0.5 else b""
        last = will(chance.choice(TOPICS[:7]), body(chance), version, delay)
    client = chance.choice(CLIENTS if clean or version == V5 else CLIENTS[:3])
    return connect(client, version, made, chance.choice((0, 1, 60)), last, chance.choice((4, 12, 20, 36)), clean=clean)


# ---- conversations


def qos(rig: Held, version: int) -> None:
    """Every QoS both ways, with what the client acknowledges, and a topic with an alias."""
    reader = connected(rig, "one", version)
    reader.subscribe("a/#", qos=2)
    writer = connected(rig, "two", version)
    writer.send(*[publish("a/b", b"x" * n, n, n + 1, version) for n in range(3)])
    writer.send(acknowledge(PUBREL, 3))
    rig.settle()
    reader.send(acknowledge(PUBACK, 1), acknowledge(PUBREC, 2))
    rig.settle()
    reader.send(acknowledge(PUBCOMP, 2), raw.PINGREQ)
    if version == V5:
        writer.send(publish("a/c", b"1", 1, 9, properties=alias(1) + user("a", "b") + message_expiry(1)))
        writer.send(publish("", b"2", 1, 10, properties=alias(1) + b"\x01\x01" + b"\x09\0\x01x" + b"\x08\0\x01r"))
    writer.send(publish("a/b", b"kept", 1, 11, version, bits=RETAIN), publish("a/b", b"", 0, 0, version, bits=RETAIN))
    reader.send(unsubscribe(3, "a/#", version=version))
    rig.settle()
    reader.send(raw.DISCONNECT)
    rig.settle()
    writer.socket.close()


def sessions(rig: Held, version: int) -> None:
    """A session whose client goes, misses something, comes again, and does not finish its exchanges."""
    lasting = expiry(600) if version == V5 else b""
    first = connected(rig, "one", version, lasting + (receive_maximum(2) if version == V5 else b""), clean=False)
    first.subscribe("a/+", "b", qos=2)
    writer = connected(rig, "two", version)
    writer.send(*[publish("a/b", b"%d" % n, n % 2 + 1, n + 1, version) for n in range(5)])
    rig.settle()
    first.send(acknowledge(PUBREC, 2))
    first.send(publish("b", b"half", 2, 5, version))
    rig.settle()
    first.socket.close()
    writer.send(publish("b", b"missed", 1, 9, version), publish("a/b", b"kept", 1, 10, version, bits=RETAIN))
    rig.settle()
    again = connected(rig, "one", version, lasting, clean=False, present=True)
    rig.settle()
    again.send(acknowledge(PUBREL, 5), acknowledge(PUBCOMP, 2), acknowledge(PUBACK, 1), acknowledge(PUBREC, 4))
    taking = raw.Raw(rig, version)
    taking.send(connect("one", version, lasting, clean=False))
    rig.settle()
    again.socket.close()
    taking.send(subscribe(4, ("a/+", 1), version=version), publish("b", b"half", 2, 5, version, bits=DUP))
    rig.settle()
    taking.send(raw.DISCONNECT)
    rig.settle()
    writer.socket.close()


def wills(rig: Held, version: int) -> None:
    """Wills that are sent, kept, put off and taken back."""
    reader = connected(rig, "c", version)
    reader.subscribe("will/#", qos=1)
    for name, flags, delay in (("one", 4, 0), ("two", 4 | 8 | 32, 2)):
        client = raw.Raw(rig, version)
        more = b"\x18" + number(delay, 4) + user("a", "b") if version == V5 else b""
        client.send(connect(name, version, b"", 1, will("will/" + name, b"gone", version, more), flags))
        client.connack()
        if name == "two" and version == V5:
            client.send(packet(0xE0, b"\x04\x00"))
        client.socket.close()
    rig.wait(3)
    reader.socket.close()


def shared(rig: Held, version: int) -> None:
    """Shared subscriptions and their members that come and go, and subscription options."""
    one, two = connected(rig, "one", version), connected(rig, "two", version)
    for client in (one, two):
        client.send(subscribe(1, ("$share/g/a/#", 2), ("#", NO_LOCAL | 1 if version == V5 else 1), version=version))
    rig.settle()
    one.send(*[publish("a/b", b"%d" % n, 1, n + 1, version) for n in range(4)])
    rig.settle()
    two.send(acknowledge(PUBACK, 1), acknowledge(PUBACK, 2, 0x80 if version == V5 else 0))
    one.socket.close()
    rig.settle()
    if version == V5:
        two.send(subscribe(9, ("a/b", 1 | 8 | 32), properties=subscription_id(5)))
    two.send(unsubscribe(2, "$share/g/a/#", version=version), acknowledge(PUBACK, 3))
    rig.settle()
    two.socket.close()


def queues(rig: Held, version: int) -> None:
    """Queues by their address: groups, filters, and commands that settle."""
    with amqp.connect(rig) as client:
        client.declare("jobs")
        client.declare("stream", arguments={"x-queue-type": "stream"})
    writer = connected(rig, "two", version)
    writer.send(*[publish("$queue/jobs/k", b'{"n": %d}' % n, 1, n + 1, version) for n in range(6)])
    writer.send(publish("$queue/stream", b"x", 1, 20, version))
    reader = connected(rig, "one", version)
    facts = user("consumer-group", "g") + user("filter", "/n < 5")
    reader.send(subscribe(1, ("$queue/jobs/#", 1), version=version, properties=facts))
    reader.send(subscribe(2, ("$queue/stream/#", 1), version=version, properties=user("x-stream-offset", "first")))
    rig.settle()
    for offset, verb in enumerate(("ack", "nack", "reject", "extend")):
        known = user("message-id", f"jobs:{offset}") + user("group-id", "g") + user("extend-ms", "1000")
        reader.send(publish(f"$queue/jobs/${verb}", b"", 1, 30 + offset, version, known))
    reader.send(publish("$queue/stream/$commit", b"", 1, 40, version, user("group-id", "g") + user("offset", "1")))
    reader.send(acknowledge(PUBACK, 1), acknowledge(PUBACK, 2, 0x80 if version == V5 else 0), acknowledge(PUBACK, 3))
    rig.settle()
    reader.send(unsubscribe(3, "$queue/jobs/#", version=version))
    rig.settle()
    reader.socket.close()
    writer.socket.close()


def delays(rig: Held, version: int) -> None:
    """Messages for later, and their end; messages that are taken only once."""
    writer = connected(rig, "two", version)
    writer.subscribe("a/#")
    later = user("delay-id", "d")
    writer.send(publish("$delayed/1/a/b", b"x", 1, 1, version, later), publish("$delayed/60/a/b", b"y", 2, 2, version))
    writer.send(acknowledge(PUBREL, 2), publish("$delayed/$cancel", b"d", 1, 3, version, later))
    once = user("producer-id", "p") + user("sequence", "1")
    writer.send(publish("a/b", b"z", 1, 4, version, once), publish("a/b", b"z", 1, 5, version, once))
    rig.wait(2)
    writer.socket.close()


def scram(rig: Held) -> None:
    """A login that the client proves, and proves again."""
    client = raw.Raw(rig)
    again = 0x18
    for code in (0x18, 0x19):
        prover = ScramClient("guest", "guest", "sha256")
        named = b"\x15" + text("SCRAM-SHA-256")
        made = named + b"\x16" + text(prover.first())
        if code == again:
            client.send(connect("one", properties=made, login=("nobody", "wrong")))
        else:
            client.send(packet(0xF0, bytes([code]) + varint(len(made)) + made))
        found = dict(properties_of(split_block(client.expect(0xF0)[1:])[0]))
        data = found[0x16]
        assert isinstance(data, bytes)
        made = named + b"\x16" + text(prover.final(data))
        client.send(packet(0xF0, b"\x18" + varint(len(made)) + made))
        client.packet()
    client.send(publish("a", b"x", 1))
    rig.settle()
    client.socket.close()


def refusals(rig: Held) -> None:
    """Logins that are refused, and packets that must not come."""
    for octets in (
        connect("one", login=("guest", "wrong")),
        connect("", V311, clean=False),
        connect("one") + connect("one"),
        connect("one", 6),
        connect("one") + publish("a/#", b""),
        connect("one") + b"\x62\x02\x00\x09" + b"\x20\x02\x00\x00",
    ):
        client = raw.Raw(rig)
        client.send(octets)
        rig.settle()
        client.socket.close()


def long_body(rig: Held) -> None:
    """A message of a megabyte and more, to whoever has subscribed, and kept."""
    client = connected(rig, "one")
    client.subscribe("a/#", qos=1)
    client.send(publish("a/b", bytes(LONG_OCTETS), 2, 1, properties=user("a", "b"), bits=RETAIN))
    rig.settle()
    client.send(acknowledge(PUBREL, 1), acknowledge(PUBACK, 1))
    rig.settle()
    client.socket.close()


def of_version(talk: Talk2, version: int) -> Talk:
    """The conversation in that version."""

    def made(rig: Held) -> None:
        talk(rig, version)

    return made


TALKS: Final[dict[str, Talk]] = {
    f"mqtt {version} {talk.__name__}": of_version(talk, version)
    for version in (V311, V5)
    for talk in (qos, sessions, wills, shared, queues, delays)
} | {"mqtt scram": scram, "mqtt refusals": refusals}
