"""The cost of an input by what it grows with, counted in steps and not in seconds.

A family makes an input of any size. Of one that is eight times as long each octet may cost what it cost before, and not
more. Counted are lines of the broker that are interpreted, its turns and commits, octets that it looks at once more,
that it writes to the disk, and that it answers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Final

from tests.blocks import stage_frame, to_queue
from tests.conformance.amqp091 import raw
from tests.conformance.amqp091.raw import content, long, method, number, publish, short, table
from tests.conformance.mqtt import raw as mqtt
from tests.conformance.mqtt.raw import PUBACK, PUBREL, V311, acknowledge, connect, subscribe, unsubscribe
from tests.fuzz import amqp, blocks
from tests.fuzz.held import Held

if TYPE_CHECKING:
    from _typeshed import TraceFunction

READ_OCTETS: Final = 4096
# How many octets of an input are free of what: a turn ends with a read, or when it has enough; a frame that is cut by
# a read is looked at twice; a file of the log begins with what is there. In any build a turn has interpreted lines.
FREE: Final = {"lines": 1 / 50, "turns": 1 / 500, "commits": 1 / 500, "again": 1.0, "written": 6.0, "answered": 1.0}
OURS: Final = "/forebay/"  # in the path of each of its modules
AMQP, MQTT, BLOCKS = "amqp", "mqtt", "blocks"


class LineCounter:
    """The lines of the broker that are interpreted while it is in force."""

    def __init__(self) -> None:
        self.lines = 0
        self.before = sys.gettrace()

    def __enter__(self) -> LineCounter:
        self.before = sys.gettrace()
        sys.settrace(self.called)
        return self

    def called(self, frame: FrameType, event: str, argument: object) -> TraceFunction | None:
        return self.counted if OURS in frame.f_code.co_filename else None

    def counted(self, frame: FrameType, event: str, argument: object) -> TraceFunction:
        if event == "line":
            self.lines += 1
        return self.counted

    def __exit__(self, *error: object) -> None:
        sys.settrace(self.before)


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one input.

    again    octets that were looked at once more, because the frame was not whole or the turn had enough
    written  octets for the disk
    """

    octets: int
    lines: int
    turns: int
    commits: int
    again: int
    written: int
    answered: int

    def counts(self) -> dict[str, int]:
        """All that must not grow faster than the octets."""
        return {name: getattr(self, name) for name in FREE}


Make = Callable[[int], bytes]


def nothing(_: int) -> bytes:
    return b""


@dataclass(frozen=True, slots=True)
class Family:
    """Inputs of one kind.

    before  is sent before counting begins
    make    the input of n things; what it costs is counted
    first   how many things the shorter input has
    read    octets that come at a time
    """

    protocol: str
    make: Make
    first: int = 24
    before: Make = nothing
    read: int = READ_OCTETS


def begin(protocol: str) -> bytes:
    """A login."""
    if protocol == AMQP:
        return amqp.login()
    return blocks.login() if protocol == BLOCKS else connect("c", V311)


def cost_of(family: Family, things: int) -> Cost:
    """Give a new broker the input of so many things."""
    rig = Held()
    line = rig.connect(AMQP if family.protocol == AMQP else MQTT)
    for octets in (begin(family.protocol), family.before(things)):
        line.put(octets)
        rig.settle()
    line.forget()
    before = Cost(0, 0, rig.turns, rig.commits, line.again, rig.written(), line.answered)
    octets = family.make(things)
    with LineCounter() as counter:
        for at in range(0, len(octets), family.read):
            line.put(octets[at : at + family.read])
            rig.settle()
    line.forget()
    assert not line.gone, "the broker has ended the connection: the rest of the input cost nothing"
    rig.close()
    return Cost(
        len(octets),
        counter.lines,
        rig.turns - before.turns,
        rig.commits - before.commits,
        line.again - before.again,
        rig.written() - before.written,
        line.answered - before.answered,
    )


# ---- AMQP

QUEUE: Final = method(1, raw.QUEUE_DECLARE, b"\0\0" + short("work") + b"\0" + table())
CONSUME: Final = method(1, raw.CONSUME, amqp.consume("work", "t"))


def declare(name: str, arguments: dict[str, object] | None = None) -> bytes:
    return method(1, raw.QUEUE_DECLARE, b"\0\0" + short(name) + b"\0" + table(arguments))


def with_headers(fields: bytes) -> bytes:
    """A publish with this table of headers."""
    return publish(1, "work", b"x", properties=b"\x20\0" + long(fields))


def numbers(n: int, kind: bytes = b"b\x01") -> bytes:
    """So many fields of a table."""
    return b"".join(short(f"k{each}") + kind for each in range(n))


def nested(n: int) -> bytes:
    """Tables in tables, as deep as they may be, one after the other."""
    inner = b""
    for _ in range(90):
        inner = b"\x01aF" + number(len(inner), 4) + inner
    return with_headers(inner) * n


def arrays(n: int) -> bytes:
    return with_headers(b"\x01aA" + long(b"b\x01" * n))


def copies(n: int) -> bytes:
    """A publish with many copies, each for a queue that is not there."""
    return with_headers(b"\x02CCA" + long(b"".join(b"S" + long(f"none{each}") for each in range(n))))


def pieces(n: int) -> bytes:
    """One body in frames of one octet."""
    head = method(1, raw.PUBLISH, b"\0\0" + short("") + short("work") + b"\0")
    return head + content(1, bytes(n), frame_max=9)


def slow_body(n: int) -> bytes:
    return publish(1, "work", bytes(n))


def words(n: int) -> bytes:
    """A key of many words."""
    return publish(1, ".".join(["a"] * n), b"x", "amq.topic") * 2


HASHES: Final = ".".join(["#", "a"] * 5) + ".b"  # which no key of words that are all alike fits


def backwards(n: int, which: raw.Method = raw.ACK, bits: bytes = b"\0") -> bytes:
    """Every message is settled, the last first."""
    return b"".join(method(1, which, number(tag, 8) + bits) for tag in range(n, 0, -1))


def every_other(n: int) -> bytes:
    order = [*range(1, n + 1, 2), *range(2, n + 1, 2)]
    return b"".join(method(1, raw.ACK, number(tag, 8) + b"\0") for tag in order)


def rejected(n: int) -> bytes:
    return backwards(n, raw.REJECT, b"\0")


def delivered(n: int) -> bytes:
    return QUEUE + CONSUME + publish(1, "work", b"x") * n


def in_transaction(n: int) -> bytes:
    settled = backwards(n)
    return publish(1, "work", b"x") * n + settled + method(1, amqp.TX_COMMIT)


def filter_of(text: str) -> bytes:
    """A consumer with this filter, which leaves again."""
    wanted = amqp.consume("work", "f", 0, {"x-filter": text})
    return method(1, raw.CONSUME, wanted) + method(1, raw.CANCEL, short("f") + b"\0")


def channels(n: int) -> bytes:
    opened = b"".join(method(2 + each, raw.CHANNEL_OPEN, b"\0") for each in range(n))
    return opened + b"".join(method(2 + each, raw.CHANNEL_CLOSE, bytes(7)) for each in range(n))


def consumers(n: int) -> bytes:
    come = b"".join(method(1, raw.CONSUME, amqp.consume("work", f"t{each}")) for each in range(n))
    return come + b"".join(method(1, raw.CANCEL, short(f"t{each}") + b"\0") for each in range(n))


def holding_consumers(n: int) -> bytes:
    """Consumers that have a message each."""
    come = b"".join(method(1, raw.CONSUME, amqp.consume("work", f"t{each}")) for each in range(n))
    return QUEUE + ONE_AT_A_TIME + come + publish(1, "work", b"x") * n


def choosy_consumers(n: int) -> bytes:
    """Each with a filter that no other has."""
    wanted = (amqp.consume("work", f"t{each}", 0, {"x-filter": f"octets > {each}"}) for each in range(n))
    come = b"".join(method(1, raw.CONSUME, each) for each in wanted)
    return come + b"".join(method(1, raw.CANCEL, short(f"t{each}") + b"\0") for each in range(n))


def own_queues(n: int) -> bytes:
    """Exclusive ones; they go in the order in which they came."""
    args = (b"\0\0" + short(f"q{each}") + b"\x04" + table() for each in range(n))
    made = b"".join(method(1, raw.QUEUE_DECLARE, each) for each in args)
    return made + b"".join(method(1, amqp.DELETE, b"\0\0" + short(f"q{each}") + b"\0") for each in range(n))


def queues(n: int) -> bytes:
    made = b"".join(declare(f"q{each}") for each in range(n))
    return made + b"".join(method(1, amqp.DELETE, b"\0\0" + short(f"q{each}") + b"\0") for each in range(n))


def bindings(n: int) -> bytes:
    made = b"".join(amqp.bind("work", "amq.topic", f"k{each}.#") for each in range(n))
    unbind = (short("work") + short("amq.topic") + short(f"k{each}.#") + table() for each in range(n))
    return made + b"".join(method(1, amqp.UNBIND, b"\0\0" + each) for each in unbind)


def header_bindings(n: int) -> bytes:
    return b"".join(amqp.bind("work", "amq.headers", "", {f"k{each}": each, "x-match": "any"}) for each in range(n))


def one_header_binding(n: int) -> bytes:
    return amqp.bind("work", "amq.headers", "", {f"k{each}": each for each in range(n)})


def expired(n: int) -> bytes:
    """Each message dies at once, and another queue takes it."""
    return publish(1, "letters", b"x") * n


LETTERS: Final = QUEUE + declare(
    "letters", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work", "x-max-length": 1}
)
ONE_AT_A_TIME: Final = method(1, raw.QOS, bytes(4) + b"\0\x01\0")
FLOW: Final = method(1, (20, 20), b"\x01")
AMQP_FAMILIES: Final[dict[str, Family]] = {
    "heartbeats": Family(AMQP, lambda n: raw.frame(8, 0, b"") * n),
    "methods": Family(AMQP, lambda n: FLOW * n),
    "limits of prefetch": Family(AMQP, lambda n: method(1, raw.QOS, bytes(4) + b"\0\x05\0") * n),
    "publishes": Family(AMQP, lambda n: publish(1, "work", b"x") * n, before=lambda n: QUEUE),
    "publishes in small reads": Family(AMQP, lambda n: publish(1, "work", b"x") * n, before=lambda n: QUEUE, read=7),
    "publishes that are confirmed": Family(
        AMQP, lambda n: publish(1, "work", b"x") * n, before=lambda n: QUEUE + method(1, raw.CONFIRM_SELECT, b"\0")
    ),
    "returned publishes": Family(AMQP, lambda n: publish(1, "none", b"x", mandatory=True) * n),
    "a body in many frames": Family(AMQP, pieces, before=lambda n: QUEUE),
    "a body octet by octet": Family(AMQP, slow_body, 300, lambda n: QUEUE, 1),
    "a long body": Family(AMQP, slow_body, 10_000, lambda n: QUEUE),
    "nested tables": Family(AMQP, nested, 2, lambda n: QUEUE),
    "a wide table": Family(AMQP, lambda n: with_headers(numbers(n)), 200, lambda n: QUEUE),
    "a wide table octet by octet": Family(AMQP, lambda n: with_headers(numbers(n)), 60, lambda n: QUEUE, 1),
    "a long array": Family(AMQP, arrays, 200, lambda n: QUEUE),
    "many copies": Family(AMQP, copies, 20, lambda n: QUEUE),
    "words of a key": Family(AMQP, words, 15, lambda n: QUEUE + amqp.bind("work", "amq.topic", HASHES)),
    "acknowledgements backwards": Family(AMQP, backwards, before=delivered),
    "acknowledgements of every other": Family(AMQP, every_other, before=delivered),
    "rejections backwards": Family(AMQP, rejected, before=delivered),
    "a transaction": Family(AMQP, in_transaction, before=lambda n: delivered(n) + method(1, amqp.TX_SELECT)),
    "channels": Family(AMQP, channels),
    "consumers": Family(AMQP, consumers, before=lambda n: QUEUE),
    "the end of many consumers": Family(
        AMQP, lambda n: method(1, raw.CHANNEL_CLOSE, bytes(7)), before=holding_consumers
    ),
    "consumers with filters": Family(AMQP, choosy_consumers, before=lambda n: QUEUE),
    "queues": Family(AMQP, queues),
    "queues of one connection": Family(AMQP, own_queues),
    "bindings": Family(AMQP, bindings, before=lambda n: QUEUE),
    "bindings by headers": Family(AMQP, header_bindings, before=lambda n: QUEUE),
    "a binding with many headers": Family(AMQP, one_header_binding, before=lambda n: QUEUE),
    "empty gets": Family(
        AMQP, lambda n: method(1, raw.GET, b"\0\0" + short("work") + b"\0") * n, before=lambda n: QUEUE
    ),
    "dead letters": Family(AMQP, expired, before=lambda n: LETTERS),
    "a long filter": Family(AMQP, lambda n: filter_of("octets > 1" + " OR octets > 1" * n), 30, lambda n: QUEUE),
    "brackets of a filter": Family(AMQP, lambda n: filter_of("(" * n + "octets > 1" + ")" * n), 8, lambda n: QUEUE),
    "a filter that says no": Family(AMQP, lambda n: filter_of("NOT " * n + "octets > 1"), 10, lambda n: QUEUE),
    "a list of a filter": Family(AMQP, lambda n: filter_of("octets IN (1" + ", 1" * n + ")"), 60, lambda n: QUEUE),
    "a long pattern": Family(AMQP, lambda n: filter_of(f"routing_key LIKE '{'(a|b)*' * n}'"), 40, lambda n: QUEUE),
}


# ---- MQTT


def publishes(n: int, qos: int = 0) -> bytes:
    return b"".join(mqtt.publish("a/b", b"x", qos, each % 60_000 + 1, V311) for each in range(n))


def exactly_once(n: int) -> bytes:
    """Publishes of QoS 2, which are released backwards."""
    begun = publishes(n, 2)
    return begun + b"".join(acknowledge(PUBREL, each) for each in range(n, 0, -1))


def many_topics(n: int) -> bytes:
    return b"".join(mqtt.publish(f"a/{each}", b"x", 0, 0, V311) for each in range(n))


def retained(n: int) -> bytes:
    return b"".join(mqtt.publish(f"a/{each}", b"x", 0, 0, V311, bits=1) for each in range(n))


def subscriptions(n: int) -> bytes:
    come = b"".join(subscribe(1, (f"a/{each}/+", 1), version=V311) for each in range(n))
    return come + b"".join(unsubscribe(1, f"a/{each}/+", version=V311) for each in range(n))


def shares(n: int) -> bytes:
    come = b"".join(subscribe(1, (f"$share/g{each}/a", 1), version=V311) for each in range(n))
    return come + b"".join(unsubscribe(1, f"$share/g{each}/a", version=V311) for each in range(n))


def in_flight(n: int) -> bytes:
    return subscribe(1, ("a/b", 1), version=V311) + publishes(n, 1)


def delayed(n: int) -> bytes:
    return b"".join(mqtt.publish(f"$delayed/{100 + each}/a", b"x", 0, 0, V311) for each in range(n))


MQTT_FAMILIES: Final[dict[str, Family]] = {
    "pings": Family(MQTT, lambda n: mqtt.PINGREQ * n),
    "pings octet by octet": Family(MQTT, lambda n: mqtt.PINGREQ * n, read=1),
    "QoS 0": Family(MQTT, publishes),
    "QoS 1": Family(MQTT, lambda n: publishes(n, 1)),
    "QoS 2": Family(MQTT, exactly_once),
    "topics": Family(MQTT, many_topics),
    "levels of a topic": Family(MQTT, lambda n: mqtt.publish("/".join("a" * n), b"", 0, 0, V311), 16),
    "a level of long names": Family(MQTT, lambda n: mqtt.publish("a" * n, b"", 0, 0, V311), 1000),
    "a packet octet by octet": Family(MQTT, lambda n: mqtt.publish("a", bytes(n), 0, 0, V311), 300, read=1),
    "retained messages": Family(MQTT, retained),
    "subscriptions": Family(MQTT, subscriptions),
    "a subscription of many filters": Family(
        MQTT, lambda n: subscribe(1, *[(f"a/{each}/#", 1) for each in range(n)], version=V311)
    ),
    "the same subscription": Family(MQTT, lambda n: subscribe(1, ("a/#", 1), version=V311) * n),
    "shared subscriptions": Family(MQTT, shares),
    "acknowledgements that nobody waits for": Family(MQTT, lambda n: acknowledge(PUBACK, 7) * n),
    "acknowledgements": Family(
        MQTT, lambda n: b"".join(acknowledge(PUBACK, each + 1) for each in range(n)), 20, in_flight
    ),
    "to oneself": Family(MQTT, lambda n: publishes(n, 1), before=lambda n: subscribe(1, ("#", 0), version=V311)),
    "to a queue": Family(MQTT, lambda n: mqtt.publish("$queue/jobs/k", b"x", 1, 1, V311) * n),
    "delayed": Family(MQTT, delayed),
}


# ---- blocks


def rows(n: int) -> bytes:
    """Rows in parts of their own, and their commit."""
    staged = b"".join(stage_frame("s", 1, f"p{each}", to_queue(b"work", b"x")) for each in range(n))
    return staged + blocks.ask("commit", query="s", batch=1, parts={f"p{each}": 1 for each in range(n)})


def holds(n: int) -> bytes:
    """Holds of a few, again and again: of one queue there may be a thousand, and each looks at all."""
    asked = (blocks.ask("hold", queue="work", group=f"g{each % 9}", offset=0, ttl_ms=60_000) for each in range(n))
    return b"".join(asked) + b"".join(blocks.ask("release", queue="work", group=f"g{each}") for each in range(9))


def object_of(n: int) -> bytes:
    fields = {f"k{each}": each for each in range(n)}
    return blocks.asked({"op": "control", "do": "policy.set", "policy": "p", "pattern": ".*", "definition": fields})


def declared(n: int) -> bytes:
    return blocks.asked({"op": "control", "do": "queue.declare", "queue": "work"})


def many_queues(n: int) -> bytes:
    asked = (blocks.asked({"op": "control", "do": "queue.declare", "queue": f"q{each}"}) for each in range(n))
    return b"".join(asked)


BLOCKS_FAMILIES: Final[dict[str, Family]] = {
    "questions": Family(BLOCKS, lambda n: blocks.ask("describe", queue="work") * n, before=declared),
    "questions octet by octet": Family(
        BLOCKS, lambda n: blocks.ask("describe", queue="work") * n, 10, before=declared, read=1
    ),
    "a long question octet by octet": Family(BLOCKS, object_of, 30, before=declared, read=1),
    "a wide object": Family(BLOCKS, object_of, 100, before=declared),
    "deep JSON": Family(
        BLOCKS, lambda n: blocks.ask("fetch", queue=json.loads("[" * n + "]" * n)), 10, before=declared
    ),
    "staged rows": Family(BLOCKS, rows, 20, before=declared),
    "holds": Family(BLOCKS, holds, before=declared),
    "queues": Family(BLOCKS, many_queues),
    "ends of queues": Family(
        BLOCKS, lambda n: blocks.ask("ends", queues={f"q{each}": 9 for each in range(n)}), before=many_queues
    ),
    "transactions": Family(
        BLOCKS, lambda n: b"".join(blocks.ask("abort", query=f"q{each}", batch=1) for each in range(n))
    ),
}
FAMILIES: Final[dict[str, Family]] = {
    f"{protocol} {name}": family
    for protocol, families in ((AMQP, AMQP_FAMILIES), (MQTT, MQTT_FAMILIES), (BLOCKS, BLOCKS_FAMILIES))
    for name, family in families.items()
}
