"""The block protocol: conversations to be recorded, and requests that chance has filled in."""

from __future__ import annotations

import json
import struct
from random import Random
from typing import Final

from forebay.management.parameters import ANY, FLAG, RANGES, TABLE, TEXT, TEXTS, WHOLE
from forebay.management.table import OPERATIONS
from tests.blocks import EMPTY, stage_frame, staged_block, to_queue
from tests.conformance.amqp091 import raw as amqp
from tests.fuzz import filters
from tests.fuzz.amqp import ARGUMENTS, EXCHANGES, KEYS, QUEUES
from tests.fuzz.held import Held
from tests.fuzz.recorder import PREFACES, Talk

PREFACE: Final = PREFACES["blocks"]
WHOLES: Final = (0, 0, 1, 2, 5, 1000, 1 << 31, (1 << 63) - 1, -1)
FILTERS: Final = ("/n > 1", "octets > 0 AND NOT /colour = 'red'", "((", "age_ms < 5")
PATTERNS: Final = (".*", "w.*", "(a|w)*k", "(", "(?i)W{2,5}")
FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "auth": ("user", "password", "vhost"),
    "describe": ("queue",),
    "queues": ("pattern", "from"),
    "ends": ("queues", "wait_ms"),
    "hold": ("queue", "group", "offset", "ttl_ms"),
    "release": ("queue", "group"),
    "deliveries": ("queue", "first", "end"),
    "offset_at": ("queue", "timestamp_us"),
    "fetch": ("queue", "first", "end"),
    "commit": ("query", "batch", "parts"),
    "abort": ("query", "batch"),
    "transaction": ("query",),
}


def ask(op: str, **fields: object) -> bytes:
    """The frame of a request."""
    return asked({"op": op, **fields})


def asked(request: dict[str, object]) -> bytes:
    payload = json.dumps(request).encode()
    return struct.pack("<IB3x", len(payload), 1) + payload


def login(user: str = "guest") -> bytes:
    return PREFACE + ask("auth", user=user, password="guest")


# ---- made by chance


def made_up(chance: Random) -> bytes:
    """A request, or rows to be staged."""
    kind = chance.random()
    if kind < 0.4:
        return operation(chance)
    if kind < 0.5:
        block = chance.choice((to_queue(b"work", b"1", b"2"), staged_block((b"amq.topic", b"a.b", EMPTY, b"x"))))
        return stage_frame(chance.choice(("s", "t")), chance.randrange(3), chance.choice("pq"), block)
    op = chance.choice(list(FIELDS)) if chance.random() < 0.8 else "fetch"
    fields: dict[str, object] = {name: field(chance, name) for name in FIELDS[op] if chance.random() < 0.95}
    if op == "fetch" and chance.random() < 0.5:
        fields["filter"] = chance.choice((chance.choice(FILTERS), filters.made_up(chance)))
    return ask(op, **fields)


def field(chance: Random, name: str) -> object:
    """Something for a field of that name."""
    if chance.random() < 0.05:
        return chance.choice((None, True, -1, 1.5, "", [], {}, 1 << 70, "\ud800"))
    if name == "queue":
        return chance.choice(QUEUES)
    if name == "pattern":
        return chance.choice(PATTERNS)
    if name == "queues":
        return {chance.choice(QUEUES): chance.choice(WHOLES) for _ in range(chance.randrange(3))}
    if name == "parts":
        return {chance.choice("pq"): chance.randrange(3) for _ in range(chance.randrange(3))}
    if name in ("wait_ms", "offset", "first", "end", "ttl_ms", "batch", "timestamp_us"):
        return chance.choice(WHOLES)
    return chance.choice(("guest", "s", "g", "work", "/"))


def operation(chance: Random) -> bytes:
    """Questions that an administrator may ask."""
    made = OPERATIONS[chance.choice(list(OPERATIONS))]
    given: dict[str, object] = {}
    for parameter in made.parameters:
        if chance.random() < (0.95 if parameter.required else 0.4) and parameter.name != "vhost":
            given[parameter.name] = argument(chance, parameter.name, parameter.type)
    return asked({"op": "control", "do": made.name, **given})


def argument(chance: Random, name: str, kind: str) -> object:
    """Something for an argument of that name and type."""
    if chance.random() < 0.04:
        return field(chance, "")
    if kind == WHOLE:
        return chance.choice(WHOLES)
    if kind == FLAG:
        return chance.random() < 0.5
    if kind == TEXTS:
        return chance.choices((*QUEUES, "administrator", "*"), k=chance.randrange(3))
    if kind == RANGES:
        return [chance.choice((0, 1, [0, 5], [2, 1 << 40])) for _ in range(chance.randrange(3))]
    if kind == TABLE:
        chosen = chance.choices(list(ARGUMENTS), k=chance.randrange(3))
        return {each.removeprefix(chance.choice(("", "x-"))): chance.choice(ARGUMENTS[each]) for each in chosen}
    if kind == ANY:
        return chance.choice((7, "x", True, None, [1], {"a": "b"}))
    assert kind == TEXT
    if name == "password":
        return ""  # to hash one takes longer than everything else
    if name in ("where", "filter"):
        return chance.choice((chance.choice(FILTERS), filters.made_up(chance)))
    if name in ("pattern", "configure", "read", "write"):
        return chance.choice(PATTERNS)
    return chance.choice((*QUEUES, *EXCHANGES, *KEYS, "guest", "classic", "topic", "nobody", "one", "a/b", "$dlq/work"))


# ---- conversations


def filled(rig: Held) -> None:
    """A queue and a stream with something in them."""
    with amqp.connect(rig) as client:
        client.declare("work")
        client.declare("stream", arguments={"x-queue-type": "stream"})
        client.send(*[amqp.publish(1, name, b'{"n": %d}' % n) for n in range(5) for name in ("work", "stream")])
        client.sync()


def reads(rig: Held) -> None:
    """All that may be read of queues, and holds."""
    filled(rig)
    line = rig.connect("mqtt")
    line.sendall(login())
    rig.settle()
    line.sendall(ask("describe", queue="work") + ask("queues", pattern="w.*") + ask("ends", queues={"work": 2}))
    line.sendall(
        ask("fetch", queue="work", first=0, end=99) + ask("fetch", queue="stream", first=0, end=5, filter="/n > 2")
    )
    rig.settle()
    line.sendall(ask("hold", queue="work", group="g", offset=1, ttl_ms=60_000))
    line.sendall(ask("deliveries", queue="work", first=0, end=9) + ask("offset_at", queue="work", timestamp_us=5))
    rig.settle()
    line.sendall(ask("ends", queues={"work": 5, "stream": 5}, wait_ms=200) + ask("release", queue="work", group="g"))
    rig.wait(1)
    line.sendall(
        ask("hold", queue="stream", group="h", offset=0, ttl_ms=1000) + ask("fetch", queue="none", first=0, end=1)
    )
    rig.settle()
    line.close()


def stages(rig: Held) -> None:
    """Rows that are staged, committed, thrown away, and committed again."""
    filled(rig)
    line = rig.connect("mqtt")
    line.sendall(login())
    rig.settle()
    line.sendall(stage_frame("s", 1, "p", to_queue(b"work", b"1", b"2")))
    line.sendall(
        stage_frame("s", 1, "q", staged_block((b"amq.topic", b"a.b", EMPTY, b"x"), (b"", b"work", EMPTY, b"y")))
    )
    rig.settle()
    line.sendall(ask("commit", query="s", batch=1, parts={"p": 2, "q": 2}) + ask("transaction", query="s"))
    rig.settle()
    line.sendall(stage_frame("s", 1, "p", to_queue(b"work", b"1")) + ask("abort", query="s", batch=2))
    line.sendall(stage_frame("t", 1, "p", to_queue(b"work", b"left")))
    rig.settle()
    line.close()


def administers(rig: Held) -> None:
    """Changes that an administrator makes."""
    filled(rig)
    line = rig.connect("mqtt")
    line.sendall(login())
    rig.settle()
    for do, given in (
        ("vhost.add", {"vhost": "test"}),
        ("user.add", {"user": "u", "password": ""}),
        ("permission.set", {"user": "u", "configure": ".*", "write": "w.*", "read": "(a|b)*"}),
        ("policy.set", {"policy": "p", "pattern": "w.*", "definition": {"max-length": 3}}),
        ("queue.declare", {"queue": "jobs", "type": "quorum"}),
        ("queue.messages", {"queue": "work", "where": "/n > 2"}),
        ("queue.move", {"queue": "work", "to": "jobs"}),
        ("group.list", {"queue": "work"}),
        ("trace.start", {"name": "t", "pattern": ".*"}),
        ("message.explain", {"queue": "work", "offset": 2}),
        ("queue.purge", {"queue": "work"}),
        ("connection.list", {}),
        ("queue.delete", {"queue": "jobs"}),
        ("vhost.delete", {"vhost": "test"}),
        ("user.delete", {"user": "u"}),
    ):
        line.sendall(asked({"op": "control", "do": do, **given}))
        rig.settle()
    line.close()


TALKS: Final[dict[str, Talk]] = {f"blocks {talk.__name__}": talk for talk in (reads, stages, administers)}
