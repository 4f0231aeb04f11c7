#!/usr/bin/env python3
"""What finding a message's way costs, in microseconds: each kind of exchange with 10 and with 10,000 bindings.

The ways are found anew each time; a publisher that repeats itself pays for the first time only. Build the compiled
broker first (`python setup.py build_ext --inplace`), or the figures are those of the interpreter.

usage: bench/routing.py [BINDINGS..]
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache

from forebay.broker.vhost import Vhost
from forebay.core.message import AMQP091, Properties
from forebay.core.options import make_options
from forebay.directory.vhost_list import VhostEntry
from forebay.directory.vhost_settings import VhostSettings
from forebay.log.store import Store, StoreOptions
from forebay.routing import exchange
from forebay.server.system.clock import SystemClock
from forebay.server.system.disk import DataDisk
from forebay.wire.amqp091.properties import encode_properties

ROUNDS = 9
WAYS = 2_000  # found in one round
CHAIN = 5  # exchanges that lead to one another

Setup = Callable[[Vhost, int], None]
Find = Callable[[Vhost, int], None]


def declare(vhost: Vhost, name: bytes, kind: bytes, **arguments: object) -> None:
    given: dict[str, object] = {key.replace("_", "-"): value for key, value in arguments.items()}
    vhost.catalog.declare_exchange(name, kind, False, False, False, given)


def queues(vhost: Vhost, count: int) -> list[bytes]:
    names = [b"q%d" % number for number in range(count)]
    for name in names:
        vhost.catalog.declare_queue(name, False, False, False, {}, 1)
    return names


@cache
def reading(number: int) -> bytes:
    """The properties of a message; made in the first round, which is not the best."""
    content = Properties()
    content.headers = [("site", number), ("kind", "reading"), ("unit", "C")]
    return encode_properties(content)


def bind_direct(vhost: Vhost, count: int) -> None:
    declare(vhost, b"x", b"direct")
    for number, name in enumerate(queues(vhost, count)):
        vhost.catalog.bind(name, b"x", b"key.%d" % number, {})


def bind_topic(vhost: Vhost, count: int) -> None:
    declare(vhost, b"x", b"topic")
    for number, name in enumerate(queues(vhost, count)):
        vhost.catalog.bind(name, b"x", b"site.%d.*.#" % number, {})


def bind_headers(vhost: Vhost, count: int) -> None:
    declare(vhost, b"x", b"headers")
    for number, name in enumerate(queues(vhost, count)):
        vhost.catalog.bind(name, b"x", b"", {"x-match": "all", "site": number, "kind": "reading"})


def bind_chain(vhost: Vhost, count: int) -> None:
    names = queues(vhost, count)
    for link in range(CHAIN):
        declare(vhost, b"x%d" % link, b"direct")
        for number, name in enumerate(names):
            vhost.catalog.bind(name, b"x%d" % link, b"key.%d.%d" % (link, number), {})
    for link in range(CHAIN - 1):
        for number in range(count):
            vhost.catalog.bind_exchange(b"x%d" % (link + 1), b"x%d" % link, b"key.%d" % number, {})
    for number, name in enumerate(names):
        vhost.catalog.bind(name, b"x%d" % (CHAIN - 1), b"key.%d" % number, {})


def bind_alternate(vhost: Vhost, count: int) -> None:
    bind_direct(vhost, count)
    declare(vhost, b"first", b"topic", alternate_exchange="x")
    for number in range(count):
        vhost.catalog.bind(b"q%d" % number, b"first", b"site.%d.*.#" % number, {})


def bind_hash(vhost: Vhost, count: int) -> None:
    declare(vhost, b"x", b"x-consistent-hash")
    for name in queues(vhost, count):
        vhost.catalog.bind(name, b"x", b"1", {})


def find_key(vhost: Vhost, number: int) -> None:
    assert len(vhost.router.route(b"x", b"key.%d" % number).queues) == 1


def find_topic(vhost: Vhost, number: int) -> None:
    assert len(vhost.router.route(b"x", b"site.%d.hall.heat" % number).queues) == 1


def find_headers(vhost: Vhost, number: int) -> None:
    vhost.router.resolved.clear()  # else it is remembered
    route = vhost.router.route(b"x", b"")
    assert len(vhost.router.resolve(route, AMQP091, reading(number)).queues) == 1


def find_chain(vhost: Vhost, number: int) -> None:
    assert len(vhost.router.route(b"x0", b"key.%d" % number).queues) == 1


def find_alternate(vhost: Vhost, number: int) -> None:
    assert len(vhost.router.route(b"first", b"key.%d" % number).queues) == 1


SCENARIOS: list[tuple[str, Setup, Find]] = [
    ("direct", bind_direct, find_key),
    ("topic, patterns with * and #", bind_topic, find_topic),
    ("headers, all of two pairs", bind_headers, find_headers),
    (f"chain of {CHAIN} direct exchanges", bind_chain, find_chain),
    ("topic exchange, then its alternate", bind_alternate, find_alternate),
    ("consistent hash", bind_hash, find_key),
]


def measure(setup: Setup, find: Find, count: int) -> float:
    """Best of some rounds, in microseconds of the processor a way."""
    with tempfile.TemporaryDirectory() as folder:
        disk = DataDisk(folder)
        store = Store(disk, SystemClock(), StoreOptions())
        store.open()
        vhost = Vhost(VhostEntry(0, b"/", VhostSettings()), store, make_options({}))
        store.start(vhost.checkpoint())
        setup(vhost, count)
        best = float("inf")
        for _ in range(ROUNDS):
            begin = time.process_time()
            for number in range(WAYS):
                find(vhost, number % count)
            best = min(best, time.process_time() - begin)
        disk.close_all()
    return best / WAYS * 1e6


def main() -> None:
    counts = [int(text) for text in sys.argv[1:]] or [10, 10_000]
    build = "compiled" if exchange.__file__.endswith(".so") else "interpreted"
    print(f"microseconds to find a way, {build}\n")
    print("| bindings of each exchange | " + " | ".join(f"{count:,}" for count in counts) + " |")
    print("|---|" + "---|" * len(counts))
    for name, setup, find in SCENARIOS:
        print(f"| {name} | " + " | ".join(f"{measure(setup, find, count):.1f}" for count in counts) + " |")


if __name__ == "__main__":
    main()
