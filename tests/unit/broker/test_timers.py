"""What is due is done though nobody touches anything: after a start of any kind, in every kind of queue.

The table of timers is in docs/reference/timers.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from forebay.broker.catalog.retention_pins import hold
from forebay.broker.policy_changes import set_policy
from forebay.broker.publish.deduplication import address_of, identity_of
from forebay.core.message import Properties
from forebay.wire.amqp091 import properties as amqp
from tests.conformance.mqtt.raw import connect, number, publish, will
from tests.conformance.mqtt.v5.flows import expiry, message_expiry
from tests.restarts import ENDS, SECOND_US, STOP, RestartRig

DUE_S: Final = 6  # after the beginning, or after the start, each timer here is due
DUE_MS: Final = DUE_S * 1000
DUE_US: Final = DUE_S * SECOND_US
MARGIN_S: Final = 1
LONG_S: Final = 10_000

# Kinds of work queues, by what they are declared with.
KINDS: Final[dict[str, dict[str, object]]] = {
    "classic": {},
    "quorum": {"x_queue_type": "quorum"},
    "priority": {"x_max_priority": 5},
    "fair": {"x_priority_mode": "fair"},
    "keyed": {},
    "single": {"x_single_active_consumer": True},
}
DEAD: Final = b"dead"
IsDone = Callable[[RestartRig], bool]


@dataclass(frozen=True)
class Timer:
    """One timer.

    begin  makes what it is about, and gives what says whether it has done its work
    since  "beginning": it is due that long after it began; "start": after the start; "leave": after the connection of
           its client ended, which a stop in order notes; "end": at once with the start
    kinds  of queues that have it
    """

    begin: Callable[[RestartRig, str], IsDone]
    since: str = "beginning"
    kinds: tuple[str, ...] = ("",)


def properties(kind: str, expiration_ms: int | None = None) -> bytes:
    made = Properties()
    made.expiration_ms = expiration_ms
    made.headers = [("x-group-id", "g")] if kind == "keyed" else []
    return amqp.encode_properties(made)


def declare(rig: RestartRig, kind: str, **arguments: object) -> None:
    rig.declare(DEAD)
    rig.declare(b"q", **KINDS[kind], x_dead_letter_exchange="", x_dead_letter_routing_key="dead", **arguments)


def publish_two(rig: RestartRig, kind: str, expiration_ms: int | None = None) -> None:
    """Publish a message of each of two levels."""
    for body in (b"a", b"b"):
        rig.publish(b"", b"q", body, properties(kind, expiration_ms))
        rig.settle()


def ready(rig: RestartRig, name: bytes = b"q") -> int:
    return int(rig.vhost.catalog.queue(name).ready())


def have_died(rig: RestartRig) -> bool:
    assert ready(rig) + ready(rig, DEAD) == 2, "each message is in one place"
    return ready(rig, DEAD) == 2


# ---- queues


def own_expiry(rig: RestartRig, kind: str) -> IsDone:
    declare(rig, kind)
    publish_two(rig, kind, DUE_MS)
    return have_died


def queue_expiry(rig: RestartRig, kind: str) -> IsDone:
    declare(rig, kind, x_message_ttl=DUE_MS)
    publish_two(rig, kind)
    return have_died


def policy_expiry(rig: RestartRig, kind: str) -> IsDone:
    declare(rig, kind)
    set_policy(rig.vhost, "ttl", "^q$", {"message-ttl": DUE_MS})
    publish_two(rig, kind)
    return have_died


def returned_expiry(rig: RestartRig, kind: str) -> IsDone:
    """Of messages that a consumer has had, and gave back."""
    declare(rig, kind, x_message_ttl=DUE_MS)
    publish_two(rig, kind)
    lease = rig.taken(b"q")
    rig.vhost.settling.nack(lease, lease.first, lease.count, 0)
    rig.settle()
    return have_died


def retry(rig: RestartRig, kind: str) -> IsDone:
    declare(rig, kind, x_delayed_retry_type="all", x_delayed_retry_min=DUE_MS)
    return given_back(rig, kind, 0)


def nack_with_delay(rig: RestartRig, kind: str) -> IsDone:
    declare(rig, kind)
    return given_back(rig, kind, DUE_MS)


def given_back(rig: RestartRig, kind: str, delay_ms: int) -> IsDone:
    rig.publish(b"", b"q", b"a", properties(kind))
    rig.settle()
    lease = rig.taken(b"q")
    assert rig.vhost.settling.nack(lease, lease.first, lease.count, delay_ms) == 1
    rig.settle()
    return lambda rig: ready(rig) == 1


def retry_timeout(rig: RestartRig, kind: str) -> IsDone:
    """A message dies that fails so long after its first failure."""
    declare(rig, kind, x_retry_timeout=DUE_MS, x_nack_counts=True)
    rig.publish(b"", b"q", b"a", properties(kind))
    rig.settle()

    def fail(rig: RestartRig) -> bool:
        lease = rig.taken(b"q")
        rig.vhost.settling.nack(lease, lease.first, lease.count, 0)
        rig.settle()
        return ready(rig, DEAD) == 1

    assert not fail(rig)
    return fail


def lease(rig: RestartRig, kind: str) -> IsDone:
    declare(rig, kind, x_visibility_timeout=1000 * DUE_MS)
    return held(rig, kind)


def consumer_timeout(rig: RestartRig, kind: str) -> IsDone:
    declare(rig, kind, x_consumer_timeout=1000 * DUE_MS)
    return held(rig, kind)


def held(rig: RestartRig, kind: str) -> IsDone:
    rig.publish(b"", b"q", b"a", properties(kind))
    rig.settle()
    rig.held(b"q")
    return lambda rig: ready(rig) == 1


def unused_queue(rig: RestartRig, kind: str) -> IsDone:
    declare(rig, kind, x_expires=DUE_MS)
    publish_two(rig, kind)
    return lambda rig: b"q" not in rig.vhost.catalog.queues


def delayed_message(rig: RestartRig, kind: str) -> IsDone:
    declare(rig, kind)
    client = rig.connected("c")
    client.send(publish(f"$delayed/{DUE_S}/$queue/q/key", b"a", 1))
    client.acked(1)
    client.vanish()
    return lambda rig: ready(rig) == 1


def dead_letter_without_route(rig: RestartRig, kind: str) -> IsDone:
    """An expired message waits for a route, and takes it as soon as there is one."""
    arguments = {"x_dead_letter_strategy": "at-least-once", "x_overflow": "reject-publish", "x_message_ttl": 500}
    rig.vhost.catalog.declare_exchange(b"dlx", b"fanout", True, False, False, {})
    rig.declare(b"q", **KINDS[kind], x_dead_letter_exchange="dlx", **arguments)
    rig.publish(b"", b"q", b"a", properties(kind))
    due_us = rig.now_us() + DUE_US
    rig.wait(MARGIN_S)

    def has_moved(rig: RestartRig) -> bool:
        if rig.now_us() < due_us:
            return False
        if DEAD not in rig.vhost.catalog.queues:
            rig.declare(DEAD)
            rig.vhost.catalog.bind(DEAD, b"dlx", b"", {})
            rig.wait(MARGIN_S)
        return ready(rig, DEAD) == 1

    return has_moved


# ---- MQTT


def bind_wills(rig: RestartRig) -> None:
    rig.declare(b"wills")
    rig.vhost.catalog.bind_topic(rig.vhost.catalog.queue(b"wills"), b"wills/#")


def vanish_with_will(rig: RestartRig, delay_s: int, session_s: int, properties: bytes = b"") -> None:
    """A client with a will goes without a word."""
    said = will("wills/c", b"a", properties=b"\x18" + number(delay_s, 4) + properties)
    client = rig.client()
    client.send(connect("c", properties=expiry(session_s), will=said, clean=False))
    client.connack()
    client.vanish()


def session_expiry(rig: RestartRig, kind: str) -> IsDone:
    client = rig.connected("c", expiry(DUE_S), False)
    client.vanish()
    return lambda rig: b"c" not in rig.vhost.sessions.clients


def connected_session_expiry(rig: RestartRig, kind: str) -> IsDone:
    """Of a session whose connection ends with the broker."""
    rig.connected("c", expiry(DUE_S), False)
    return lambda rig: b"c" not in rig.vhost.sessions.clients


def will_delay(rig: RestartRig, kind: str) -> IsDone:
    bind_wills(rig)
    vanish_with_will(rig, DUE_S, LONG_S)
    return lambda rig: ready(rig, b"wills") == 1


def will_with_session(rig: RestartRig, kind: str) -> IsDone:
    """A will whose session ends before its delay is over."""
    bind_wills(rig)
    vanish_with_will(rig, LONG_S, DUE_S)
    return lambda rig: ready(rig, b"wills") == 1


def will_expiry(rig: RestartRig, kind: str) -> IsDone:
    """A will is published, and expires as any message."""
    bind_wills(rig)
    vanish_with_will(rig, DUE_S // 2, LONG_S, message_expiry(DUE_S // 2))
    rig.wait(DUE_S // 2 + MARGIN_S / 2)
    assert ready(rig, b"wills") == 1
    return lambda rig: ready(rig, b"wills") == 0


def retained_expiry(rig: RestartRig, kind: str) -> IsDone:
    client = rig.connected("c")
    client.send(publish("t", b"a", 1, properties=message_expiry(DUE_S), bits=1))
    client.acked(1, 0x10)
    client.vanish()
    return lambda rig: rig.vhost.retained.count() == 0


# ---- what else the broker remembers


def deduplication(rig: RestartRig, kind: str) -> IsDone:
    rig.declare(b"q")
    address = address_of(b"", b"q")

    def is_new(rig: RestartRig) -> bool:
        identity = identity_of(None, None, "key")
        assert identity is not None
        is_known = rig.vhost.deduplication.is_known(address, identity, rig.now_us())
        rig.settle()
        return not is_known

    identity = identity_of(None, None, "key")
    assert identity is not None and not rig.vhost.deduplication.is_known(address, identity, rig.now_us())
    rig.vhost.deduplication.remember(identity)
    rig.settle()
    return is_new


def staged_rows(rig: RestartRig, kind: str) -> IsDone:
    rig.vhost.staging.stage("query", 1, "part", 1, b"rows", rig.now_us())
    rig.settle()
    return lambda rig: not rig.vhost.staging.staged


def stream_age(rig: RestartRig, kind: str) -> IsDone:
    rig.declare(b"s", x_queue_type="stream", x_max_age=f"{DUE_S}s")
    rig.publish(b"", b"s", b"a")
    rig.settle()
    return lambda rig: ready(rig, b"s") == 0


def readers_hold(rig: RestartRig, kind: str) -> IsDone:
    rig.declare(b"s", x_queue_type="stream")
    rig.publish(b"", b"s", b"a")
    rig.settle()
    hold(rig.vhost.catalog, rig.vhost.catalog.queue(b"s"), b"reader", 0, DUE_US, rig.now_us())
    rig.settle()
    return lambda rig: not rig.vhost.catalog.queue(b"s").pins.by_name


ALL_KINDS: Final = tuple(KINDS)
GETTABLE: Final = tuple(kind for kind in KINDS if kind != "single")  # a queue with a single active consumer is not
TIMERS: Final = {
    "message's own expiry": Timer(own_expiry, kinds=ALL_KINDS),
    "queue's message TTL": Timer(queue_expiry, kinds=ALL_KINDS),
    "policy's message TTL": Timer(policy_expiry, kinds=ALL_KINDS),
    "expiry of a returned message": Timer(returned_expiry, kinds=GETTABLE),
    "delayed retry": Timer(retry, kinds=GETTABLE),
    "nack with a delay": Timer(nack_with_delay, kinds=GETTABLE),
    "retry time-out": Timer(retry_timeout, kinds=GETTABLE),
    "lease": Timer(lease, "end", ALL_KINDS),
    "consumer time-out": Timer(consumer_timeout, "end", ALL_KINDS),
    "unused queue": Timer(unused_queue, "start", ALL_KINDS),
    "delayed message": Timer(delayed_message, kinds=ALL_KINDS),
    "dead letter without a route": Timer(dead_letter_without_route, kinds=ALL_KINDS),
    "session expiry": Timer(session_expiry),
    "session expiry of who was connected": Timer(connected_session_expiry, "leave"),
    "will delay": Timer(will_delay),
    "will of a session that ends": Timer(will_with_session),
    "will's expiry": Timer(will_expiry),
    "retained message's expiry": Timer(retained_expiry),
    "deduplication window": Timer(deduplication),
    "staged rows": Timer(staged_rows, "start"),
    "stream's max age": Timer(stream_age),
    "reader's hold": Timer(readers_hold, "start"),
}
ROWS: Final = [(name, kind) for name, timer in TIMERS.items() for kind in timer.kinds]


@pytest.fixture(params=ENDS)
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> RestartRig:
    return RestartRig(tmp_path, request.param, deduplication_window_ms=DUE_MS, staging_expiry_ms=DUE_MS)


@pytest.mark.parametrize(("name", "kind"), ROWS)
@pytest.mark.parametrize("is_long", [False, True], ids=["due later", "due meanwhile"])
def test_a_timer_goes_on(rig: RestartRig, name: str, kind: str, is_long: bool) -> None:
    timer = TIMERS[name]
    due_us = rig.now_us() + DUE_US
    is_done = timer.begin(rig, kind)
    rig.flush()
    assert not is_done(rig)
    rig.flush()
    left_us = rig.now_us()
    rig.end(2 * DUE_S if is_long else 1)
    if timer.since == "leave" and rig.way == STOP:
        due_us = left_us + DUE_US
    elif timer.since in ("start", "leave"):
        due_us = rig.now_us() + DUE_US
    elif timer.since == "end":
        due_us = rig.now_us()
    wait_s = (due_us - rig.now_us()) / SECOND_US
    if wait_s > MARGIN_S:
        rig.wait(wait_s - MARGIN_S)
        assert not is_done(rig), "not before its time"
    rig.wait(MARGIN_S + max(0, min(wait_s, MARGIN_S)))
    assert is_done(rig)
