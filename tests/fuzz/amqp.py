"""AMQP 0.9.1: conversations to be recorded, and methods with arguments that chance has filled in."""

from __future__ import annotations

from random import Random
from typing import Final

from tests.conformance.amqp091 import raw
from tests.conformance.amqp091.raw import content, long, method, number, publish, short, table
from tests.fuzz import filters
from tests.fuzz.held import Held
from tests.fuzz.recorder import Talk

TX_SELECT, TX_COMMIT, TX_ROLLBACK = (90, 10), (90, 20), (90, 30)
EXCHANGE_DECLARE, EXCHANGE_DELETE, EXCHANGE_BIND, EXCHANGE_UNBIND = (40, 10), (40, 20), (40, 30), (40, 40)
BIND, PURGE, DELETE, UNBIND = (50, 20), (50, 30), (50, 40), (50, 50)
MULTIPLE, REQUEUE = 1, 2
LONG_OCTETS: Final = (1 << 20) + 5  # as log/block.py calls long what it copies only once
DURABLE, EXCLUSIVE, AUTO_DELETE = 2, 4, 8
QUEUES: Final = ("work", "quorum", "stream", "priority", "short", "letters", "dead", "jobs", "own", "retry")
EXCHANGES: Final = ("", "amq.topic", "amq.direct", "amq.fanout", "amq.headers", "x", "hash", "later", "none")
KEYS: Final = (
    "work",
    "a",
    "a.b",
    "a.b.c",
    "#",
    "*.b",
    "stream",
    "$queue/jobs/k",
    "$queue/jobs/$extend",
    "$queue/stream/$commit",
    "$delayed/cancel/d",
    "amq.rabbitmq.reply-to",
)
# Arguments of queues, consumers and exchanges, and headers, each with something that it may be.
ARGUMENTS: Final[dict[str, tuple[object, ...]]] = {
    "x-queue-type": ("classic", "quorum", "stream"),
    "x-expires": (1, 1000, 60_000),
    "x-message-ttl": (0, 1, 1000),
    "x-max-length": (0, 1, 3),
    "x-max-length-bytes": (0, 10, 1000),
    "x-max-priority": (1, 10, 255),
    "x-overflow": ("drop-head", "reject-publish", "reject-publish-dlx"),
    "x-dead-letter-exchange": ("", "amq.topic", "x"),
    "x-dead-letter-routing-key": ("dead", "letters"),
    "x-dead-letter-strategy": ("at-most-once", "at-least-once"),
    "x-single-active-consumer": (True,),
    "x-delivery-limit": (0, 1, -1),
    "x-delayed-retry-type": ("all", "failed"),
    "x-delayed-retry-min": (1, 1000),
    "x-visibility-timeout": (10, 1000),
    "x-consumer-timeout": (10, 60_000),
    "x-leasing": ("sublet",),
    "x-max-age": ("1s", "1D"),
    "x-stream-offset": ("first", "last", "next", 0, 2, 1 << 62),
    "x-stream-filter": ("red",),
    "x-stream-filter-size-bytes": (16, 255),
    "x-filter": ("/n > 5", "header.colour = 'red' OR octets < 10", "age_ms < 5 AND routing_key LIKE '^a.*b$'", "((("),
    "x-consumer-group": ("g", "h"),
    "x-auto-commit": (True, False),
    "x-primary-group": ("g",),
    "x-priority": (1, 10, -1),
    "x-priority-mode": ("fair", "strict"),
    "x-delivery-headers": ("forebay", "fluxmq", "none"),
    "x-delivery-counts": (True, False),
    "x-death": (1,),
    "x-delay": (0, 1000, 1 << 40),
    "x-delay-id": ("d",),
    "x-delayed-type": ("topic", "direct"),
    "x-producer-id": ("p",),
    "x-sequence": (1, 2, 9),
    "x-deduplication-key": ("k",),
    "x-stream-filter-value": ("red", "blue"),
    "x-match": ("all", "any", "all-with-x"),
    "x-group-id": ("g",),
    "alternate-exchange": ("x", "amq.fanout"),
    "hash-header": ("colour",),
    "CC": ("a",),
    "BCC": ("a.b",),
    "colour": ("red", 5, True),
    "x-cancel-on-ha-failover": (True,),
    "x-credit": (5,),
    "x-delivery-tag": (0, 1, 2),
    "x-offset": (0, 1, "2"),
    "x-extend-ms": (1000, "5"),
}
NUMBERS: Final = (
    0,
    1,
    2,
    3,
    127,
    128,
    255,
    256,
    1 << 15,
    (1 << 16) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 62,
    (1 << 64) - 1,
)
# Arguments of each method that a client sends: r reserved short, s name of a queue or exchange, k key or tag, B bits,
# t table, q, d, w, b number of 8, 4, 2, 1 octets, L long text.
METHODS: Final[dict[raw.Method, str]] = {
    (10, 50): "wkww",
    (10, 70): "Lk",
    (20, 10): "k",
    (20, 20): "B",
    (20, 40): "wkww",
    (20, 41): "",
    EXCHANGE_DECLARE: "rsxBt",
    EXCHANGE_DELETE: "rsB",
    EXCHANGE_BIND: "rsskBt",
    EXCHANGE_UNBIND: "rsskBt",
    raw.QUEUE_DECLARE: "rsBt",
    BIND: "rsskBt",
    PURGE: "rsB",
    DELETE: "rsB",
    UNBIND: "rsskt",
    raw.QOS: "dwB",
    raw.CONSUME: "rskBt",
    raw.CANCEL: "kB",
    raw.PUBLISH: "rskB",
    raw.GET: "rsB",
    raw.ACK: "qB",
    raw.REJECT: "qB",
    raw.NACK: "qB",
    (60, 100): "B",
    raw.RECOVER: "B",
    raw.CONFIRM_SELECT: "B",
    TX_SELECT: "",
    TX_COMMIT: "",
    TX_ROLLBACK: "",
}
OFTEN: Final = (raw.PUBLISH, raw.PUBLISH, raw.CONSUME, raw.ACK, raw.NACK, raw.GET, raw.QUEUE_DECLARE, BIND)
# Properties of a message from the highest flag bit on, by what they are.
PROPERTIES: Final = "kktbbkkkkqkkkk"


# ---- made by chance


def login() -> bytes:
    """Everything up to an open channel."""
    answer = table(raw.CLIENT) + short("PLAIN") + long("\0guest\0guest") + short("en_US")
    tuned = number(2047, 2) + number(131_072, 4) + number(60, 2)
    begin = raw.HEADER + method(0, raw.START_OK, answer) + method(0, raw.TUNE_OK, tuned)
    return begin + method(0, raw.OPEN, short("/") + b"\0\0") + method(1, raw.CHANNEL_OPEN, b"\0")


def made_up(chance: Random) -> bytes:
    """A frame of a method, and content where it has to follow."""
    which = chance.choice(OFTEN) if chance.random() < 0.5 else chance.choice(list(METHODS))
    channel = 1 if chance.random() < 0.9 else chance.choice((0, 2, 2047, 65_535))
    made = method(channel, which, b"".join(argument(chance, kind) for kind in METHODS[which]))
    if which == raw.PUBLISH:
        made += content(channel, body(chance), properties(chance), chance.choice((131_072, 100)))
    return made


def argument(chance: Random, kind: str) -> bytes:
    """One argument of that kind."""
    if kind == "r":
        return b"\0\0"
    if kind == "s":
        return short(chance.choice(chance.choice((QUEUES, QUEUES, EXCHANGES))))
    if kind == "x":
        return short(
            chance.choice(("direct", "topic", "fanout", "headers", "x-consistent-hash", "x-delayed-message", "y"))
        )
    if kind == "k":
        return short(chance.choice((*KEYS, "t", "")))
    if kind == "L":
        return long(chance.choice(("", "guest", "x" * 300)))
    if kind == "B":
        return number(chance.choice((0, 0, 1, 2, 2, 3, 4, 8, 10, 16, 255)), 1)
    if kind == "t":
        return arguments(chance)
    octets = {"q": 8, "d": 4, "w": 2, "b": 1}[kind]
    value = chance.randrange(6) if chance.random() < 0.8 else chance.choice(NUMBERS)
    return number(value % (1 << 8 * octets), octets)


def arguments(chance: Random) -> bytes:
    """A table: of arguments that somebody knows, or of values of every kind."""
    count = chance.choice((0, 0, 1, 1, 2, 4))
    inner = b""
    for name in chance.choices(list(ARGUMENTS), k=count):
        if name in ("CC", "BCC") and chance.random() < 0.8:
            inner += array(name, *chance.choices(KEYS, k=2))
        elif chance.random() < 0.2:
            inner += short(name) + value(chance, chance.choice((0, 0, 1, 2)))
        elif name == "x-filter" and chance.random() < 0.8:
            inner += short(name) + b"S" + long(filters.made_up(chance))
        else:
            inner += short(name) + table({"": chance.choice(ARGUMENTS[name])})[5:]
    return long(inner)


def value(chance: Random, depth: int) -> bytes:
    """A value of a table with its type."""
    kind = chance.choice("tbBsuIilfdDSATFVx" if depth else "tbBsuIilfdDSTVx")
    if kind == "F":
        return b"F" + long(short("inner") + value(chance, depth - 1))
    if kind == "A":
        return b"A" + long(value(chance, depth - 1) * chance.choice((0, 1, 3)))
    if kind in "Sx":
        return kind.encode() + long(chance.choice((b"", b"red", b"\xff\0", b"x" * 70)))
    octets = {"t": 1, "b": 1, "B": 1, "s": 2, "u": 2, "I": 4, "i": 4, "l": 8, "f": 4, "d": 8, "D": 5, "T": 8, "V": 0}[
        kind
    ]
    return kind.encode() + chance.choice((bytes(octets), b"\xff" * octets, chance.randbytes(octets)))


def properties(chance: Random) -> bytes:
    """The flags of a content header, and the properties that they tell of."""
    flags, inner = 0, b""
    for place, kind in enumerate(PROPERTIES):
        if chance.random() < 0.2:
            flags |= 1 << (15 - place)
            inner += argument(chance, kind)
    return number(flags, 2) + inner


def body(chance: Random) -> bytes:
    """The body of a message."""
    if chance.random() < 0.5:
        return b'{"n": %d, "colour": "red"}' % chance.randrange(10)
    return bytes(chance.choice((0, 1, 99, 100, 101, 700)))


# ---- conversations


def bind(queue: str, exchange: str, key: str, arguments: dict[str, object] | None = None) -> bytes:
    return method(1, BIND, b"\0\0" + short(queue) + short(exchange) + short(key) + b"\0" + table(arguments))


def headers(fields: dict[str, object], persistent: bool = False) -> bytes:
    """Properties with these headers."""
    return (b"\x30\0" if persistent else b"\x20\0") + table(fields) + (b"\x02" if persistent else b"")


def array(name: str, *texts: str) -> bytes:
    """A field of a table with these texts."""
    return short(name) + b"A" + long(b"".join(b"S" + long(each) for each in texts))


def work(rig: Held) -> None:
    """Confirms, prefetch, acknowledgements of all sorts, get, recover, purge and delete."""
    with raw.connect(rig, 2) as client:
        client.declare("work")
        client.confirm()
        client.send(*[publish(1, "work", b"x" * size, properties=b"\x10\0\x02") for size in (0, 1, 300)])
        client.confirmed(3)
        client.send(publish(1, "none", b"lost", mandatory=True))
        client.expect(1, raw.RETURN)
        client.content(1)
        client.confirmed(4)
        client.prefetch(2, channel=2)
        client.consume("work", channel=2)
        tags = [client.delivery(2)[0] for _ in range(2)]
        client.settle(raw.ACK, tags[0], channel=2)
        client.settle(raw.NACK, tags[1], REQUEUE, channel=2)
        client.settle(raw.REJECT, client.delivery(2)[0], 1, channel=2)
        client.send(method(2, raw.RECOVER, b"\x01"), method(2, raw.CANCEL, short("t") + b"\0"))
        rig.settle()
        client.send(*[publish(1, "work", b"more")] * 3)
        client.send(method(1, raw.GET, b"\0\0" + short("work") + b"\0"), method(1, raw.ACK, number(1, 8) + b"\x01"))
        client.send(method(1, PURGE, b"\0\0" + short("work") + b"\0"))
        client.send(method(1, DELETE, b"\0\0" + short("work") + b"\0"))
        client.send(method(0, raw.CLOSE, number(200, 2) + short("bye") + bytes(4)))
        rig.settle()


def transactions(rig: Held) -> None:
    with raw.connect(rig) as client:
        client.declare("work")
        client.send(method(1, TX_SELECT), publish(1, "work", b"a"), publish(1, "work", b"b"), method(1, TX_COMMIT))
        client.send(publish(1, "work", b"c"), method(1, TX_ROLLBACK), method(1, raw.CONSUME, consume("work", "t")))
        rig.settle()
        client.send(method(1, raw.ACK, number(1, 8) + b"\0"), method(1, raw.NACK, number(2, 8) + b"\0"))
        client.send(method(1, TX_COMMIT))
        rig.settle()


def consume(queue: str, tag: str, bits: int = 0, arguments: dict[str, object] | None = None) -> bytes:
    return b"\0\0" + short(queue) + short(tag) + number(bits, 1) + table(arguments)


def streams(rig: Held) -> None:
    """A stream with a filter, readers from everywhere, and a group that works on it."""
    with raw.connect(rig, 3) as client:
        client.declare("stream", arguments={"x-queue-type": "stream", "x-max-age": "1D", "x-primary-group": "g"})
        client.send(
            *[publish(1, "stream", b"%d" % n, properties=headers({"x-stream-filter-value": "red"})) for n in range(4)]
        )
        for channel, start in ((2, "first"), (3, 2)):
            client.prefetch(3, channel=channel)
            client.consume("stream", arguments={"x-stream-offset": start, "x-stream-filter": "red"}, channel=channel)
        rig.settle()
        client.send(method(2, raw.ACK, number(3, 8) + b"\x01"))
        client.send(method(1, raw.QOS, bytes(4) + number(5, 2) + b"\0"))
        client.send(method(1, raw.CONSUME, consume("stream", "w", 0, {"x-consumer-group": "g"})))
        rig.settle()
        client.send(method(1, raw.ACK, number(1, 8) + b"\0"), method(1, raw.NACK, number(2, 8) + b"\0"))
        client.send(
            method(1, raw.CONSUME, consume("stream", "s", 0, {"x-consumer-group": "s", "x-stream-offset": "first"}))
        )
        client.send(publish(1, "$queue/stream/$commit", b"", "", headers({"x-group-id": "s", "x-offset": 2})))
        rig.settle()


def letters(rig: Held) -> None:
    """Dead letters of every reason, delays, retries and priorities."""
    with raw.connect(rig) as client:
        client.declare("dead")
        to_dead: dict[str, object] = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        client.declare("letters", arguments={**to_dead, "x-message-ttl": 100, "x-max-length": 2})
        limited = {"x-queue-type": "quorum", "x-delivery-limit": 1, "x-dead-letter-strategy": "at-least-once"}
        client.declare("quorum", arguments={**to_dead, **limited, "x-overflow": "reject-publish"})
        client.declare("priority", arguments={"x-max-priority": 5})
        client.declare("retry", arguments={"x-delayed-retry-type": "all", "x-delayed-retry-min": 100})
        client.send(
            *[publish(1, queue, b"{}") for queue in ("letters", "quorum", "retry", "priority") for _ in range(3)]
        )
        client.send(publish(1, "priority", b"high", properties=b"\x08\0\x04"))
        for queue in ("quorum", "retry", "priority"):
            client.send(method(1, raw.CONSUME, consume(queue, queue)))
        rig.settle()
        client.send(*[method(1, raw.NACK, number(tag, 8) + b"\x02") for tag in range(1, 10)])
        rig.settle()
        client.send(*[method(1, raw.NACK, number(tag, 8) + b"\x00") for tag in range(10, 16)])
        rig.wait(1)
        client.send(method(1, raw.GET, b"\0\0" + short("dead") + b"\x01"))
        rig.settle()


def exchanges(rig: Held) -> None:
    """Exchanges of every type, bound to queues and to each other, and taken apart again."""
    with raw.connect(rig) as client:
        client.declare("work")
        for name, kind in (("x", "headers"), ("hash", "x-consistent-hash"), ("later", "x-delayed-message")):
            more: dict[str, object] = {"x-delayed-type": "topic"} if name == "later" else {}
            args = b"\0\0" + short(name) + short(kind) + b"\x02" + table({**more, "alternate-exchange": "amq.fanout"})
            client.send(method(1, EXCHANGE_DECLARE, args))
        client.send(bind("work", "x", "", {"x-match": "any", "colour": "red", "n": 5}))
        client.send(bind("work", "hash", "10"), bind("work", "later", "a.#"), bind("work", "amq.topic", "*.b.#"))
        args = b"\0\0" + short("x") + short("amq.topic") + short("a.*") + b"\0" + table()
        client.send(method(1, EXCHANGE_BIND, args))
        client.send(publish(1, "a.b", b"1", "amq.topic", headers({"colour": "red"})))
        client.send(publish(1, "a.b", b"2", "later", headers({"x-delay": 100, "x-delay-id": "d"}, True)))
        copied = b"\x20\0" + long(array("CC", "a", "work") + array("BCC", "none", "a.b.c"))
        client.send(publish(1, "k", b"3", "hash"), publish(1, "", b"4", "x", headers({"n": 5})))
        client.send(publish(1, "a.b", b"5", "amq.topic", copied))
        client.send(publish(1, "$delayed/cancel/d", b""))
        rig.wait(1)
        client.send(method(1, EXCHANGE_UNBIND, args))
        client.send(method(1, UNBIND, b"\0\0" + short("work") + short("amq.topic") + short("*.b.#") + table()))
        client.send(*[method(1, EXCHANGE_DELETE, b"\0\0" + short(name) + b"\0") for name in ("x", "hash", "later")])
        rig.settle()


def own(rig: Held) -> None:
    """Queues of one connection, names that the broker gives, replies, consumers that are cancelled with their queue."""
    with raw.connect(rig, 2) as client, raw.connect(rig) as other:
        client.declare("own", EXCLUSIVE)
        given = client.declare("", EXCLUSIVE | AUTO_DELETE)
        client.send(publish(1, given, b"x"), publish(1, "own", b"y"))
        client.send(method(2, raw.CONSUME, consume("own", "", 2)))
        client.send(method(1, raw.CONSUME, consume("amq.rabbitmq.reply-to", "r", 2)))
        client.send(publish(1, "jobs", b"ask", properties=b"\x06\0" + short("c") + short("amq.rabbitmq.reply-to")))
        rig.settle()
        other.send(method(1, raw.GET, b"\0\0" + short("own") + b"\0"))
        rig.settle()
        client.send(method(1, DELETE, b"\0\0" + short("own") + b"\0"), method(2, (20, 40), bytes(7)))
        rig.settle()


def choosy(rig: Held) -> None:
    """Consumers with filters and priorities, and publishes that are taken only once."""
    with raw.connect(rig, 3) as client:
        client.declare("jobs", arguments={"x-leasing": "sublet", "x-visibility-timeout": 1000})
        for n in range(6):
            once = headers({"x-producer-id": "p", "x-sequence": n // 2, "x-deduplication-key": "k"}, True)
            client.send(publish(1, "jobs", b'{"n": %d, "tags": ["a", {"b": [1, 2]}]}' % n, properties=once))
        client.send(
            method(2, raw.CONSUME, consume("jobs", "t", 0, {"x-filter": "/n > 2 AND /tags/b = 1", "x-priority": 3}))
        )
        client.send(
            method(3, raw.CONSUME, consume("jobs", "u", 0, {"x-filter": "octets < 99 OR NOT header.a LIKE '^b'"}))
        )
        rig.settle()
        client.send(publish(2, "$queue/jobs/$extend", b"", "", headers({"x-delivery-tag": 1, "x-extend-ms": 5000})))
        client.send(publish(1, "$queue/jobs/$extend", b"", "", headers({"x-offset": 3})))
        client.send(method(2, raw.ACK, number(0, 8) + b"\x01"), method(3, raw.NACK, number(0, 8) + b"\x03"))
        rig.wait(2)


def channels(rig: Held) -> None:
    """Channels that come and go, flow, qos of a whole channel, heartbeats, and errors that end a channel."""
    client = raw.Raw(rig)
    client.handshake(beat=1, channel_max=100, frame_max=4096)
    for channel in (1, 7, 100):
        client.open_channel(channel)
    client.send(method(7, (20, 20), b"\x01"), raw.frame(8, 0, b""))
    client.send(method(7, raw.QOS, bytes(4) + number(3, 2) + b"\x01"), method(100, (20, 40), bytes(7)))
    client.send(method(1, PURGE, b"\0\0" + short("none") + b"\0"))
    rig.settle()
    client.send(method(1, (20, 41)), publish(7, "work", b"y" * 9000, frame_max=4096))
    client.send(method(0, (10, 70), long("new secret") + short("why")))
    rig.settle()
    client.send(
        method(1, raw.CHANNEL_OPEN, b"\0"), method(1, raw.QUEUE_DECLARE, b"\0\0" + short("amq.x") + b"\x02" + table())
    )
    rig.settle()
    client.socket.close()


def logins(rig: Held) -> None:
    """Logins by other mechanisms, and with a wrong password."""
    client = raw.Raw(rig)
    client.send(raw.HEADER)
    client.expect(0, raw.START)
    fields = table({"LOGIN": "guest", "PASSWORD": "guest"})[4:]
    client.send(method(0, raw.START_OK, table(raw.CLIENT) + short("AMQPLAIN") + long(fields) + short("en_US")))
    client.expect(0, raw.TUNE)
    client.send(
        method(0, raw.TUNE_OK, number(9, 2) + number(8192, 4) + number(0, 2)),
        method(0, raw.OPEN, short("none") + b"\0\0"),
    )
    rig.settle()
    client.socket.close()
    other = raw.Raw(rig)
    other.send(raw.HEADER)
    other.expect(0, raw.START)
    other.send(method(0, raw.START_OK, table() + short("PLAIN") + long("\0guest\0wrong") + short("en_US")))
    rig.settle()
    other.socket.close()


def long_body(rig: Held) -> None:
    """A message of a megabyte and more, to a queue that is read."""
    with raw.connect(rig) as client:
        client.declare("work")
        client.consume("work")
        client.send(publish(1, "work", bytes(LONG_OCTETS)))
        rig.settle()


TALKS: Final[dict[str, Talk]] = {
    f"amqp {talk.__name__}": talk
    for talk in (work, transactions, streams, letters, exchanges, own, choosy, channels, logins)
}
