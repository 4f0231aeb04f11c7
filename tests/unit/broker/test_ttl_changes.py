"""A time to live that changes is for what comes: what waits expires when it would have."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.broker.catalog.configured import configure_queue
from forebay.broker.policy_changes import clear_policy, set_policy
from forebay.queue.declaration.limits import TTLS_MAX
from tests.vhosts import OneVhost

DAY_MS = 86_400_000


def policy(broker: OneVhost, ttl_ms: int) -> None:
    set_policy(broker.vhost, "p", "^q$", {"message-ttl": ttl_ms})


def put(broker: OneVhost, *bodies: bytes) -> None:
    for body in bodies:
        broker.publish(b"", b"q", body)


@pytest.mark.parametrize("arguments", [{}, {"x_max_priority": 3}, {"x_queue_type": "quorum"}])
@pytest.mark.parametrize("restart", [False, True])
def test_a_policy_takes_nothing_that_waits(tmp_path: Path, arguments: dict[str, object], restart: bool) -> None:
    broker = OneVhost(tmp_path)
    broker.declare(b"q", **arguments)
    put(broker, b"before")
    broker.turn()
    put(broker, b"in the same turn")
    policy(broker, 5)
    put(broker, b"behind")
    broker.settle()
    broker.later(DAY_MS)
    if restart:
        broker.flush()
        broker.crash()
        broker.later(DAY_MS)
    assert broker.kept(b"q") == [b"before", b"in the same turn", b"behind"], "what expires waits behind what does not"
    for _ in range(2):
        lease = broker.taken(b"q")
        broker.vhost.settling.ack(lease, lease.first, 1)
        broker.settle()
    broker.later(1)
    assert broker.kept(b"q") == []


def test_what_was_to_expire_does_so_without_the_policy(tmp_path: Path) -> None:
    broker = OneVhost(tmp_path)
    broker.declare(b"q")
    policy(broker, 5000)
    put(broker, b"a", b"b")
    broker.turn()
    clear_policy(broker.vhost, "p")
    put(broker, b"c")
    broker.later(1000)
    assert broker.kept(b"q") == [b"a", b"b", b"c"]
    broker.later(5000)
    assert broker.kept(b"q") == [b"c"]
    broker.later(DAY_MS)
    assert broker.kept(b"q") == [b"c"]
    put(broker, b"d")
    broker.settle()
    assert broker.kept(b"q") == [b"c", b"d"]


def test_consumers_get_nothing_that_has_expired_behind_what_has_not(tmp_path: Path) -> None:
    broker = OneVhost(tmp_path)
    broker.declare(b"q")
    put(broker, b"a")
    policy(broker, 5)
    put(broker, b"b")
    broker.settle()
    broker.clock.us += 1_000_000
    assert broker.held(b"q").count == 1
    broker.settle()
    assert broker.kept(b"q") == [b"a"]


def test_the_configuration_changes_it_in_the_same_way(tmp_path: Path) -> None:
    broker = OneVhost(tmp_path)
    for ttl_ms in (0, 5):
        arguments: dict[str, object] = {"x-message-ttl": ttl_ms} if ttl_ms else {}
        configure_queue(broker.vhost.catalog, b"q", arguments, [], False)
        put(broker, b"%d" % ttl_ms)
    broker.settle()
    lease = broker.taken(b"q")
    broker.vhost.settling.ack(lease, lease.first, 1)
    broker.later(DAY_MS)
    assert broker.kept(b"q") == []


def test_a_message_may_say_less(tmp_path: Path) -> None:
    broker = OneVhost(tmp_path)
    broker.declare(b"q")
    broker.publish(b"", b"q", b"a", b"\x01\x00\x0210")  # the property expiration
    broker.turn()
    policy(broker, 1000)
    broker.later(11)
    assert broker.kept(b"q") == []


def test_changes_of_which_nothing_has_come_are_forgotten(tmp_path: Path) -> None:
    broker = OneVhost(tmp_path)
    broker.declare(b"q")
    limits = broker.vhost.catalog.queue(b"q").limits
    policy(broker, 5)
    assert limits.earlier_ttls == [], "there is nothing yet"
    put(broker, b"a")
    policy(broker, 6)
    policy(broker, 7)
    assert limits.earlier_ttls == [(1, 5000)]
    policy(broker, 5)
    assert limits.earlier_ttls == []


def test_there_are_not_more_than_so_many_and_the_longer_time_holds(tmp_path: Path) -> None:
    broker = OneVhost(tmp_path)
    broker.declare(b"q")
    for number in range(TTLS_MAX + 2):
        policy(broker, 1000 if number % 2 else 2000)
        put(broker, b"%d" % number)
    limits = broker.vhost.catalog.queue(b"q").limits
    assert len(limits.earlier_ttls) <= TTLS_MAX
    assert limits.ttl_us(0) == limits.ttl_us(1) == 2_000_000
    assert limits.ttl_us(2) == 2_000_000 and limits.ttl_us(3) == 1_000_000


def test_what_is_gone_needs_none(tmp_path: Path) -> None:
    broker = OneVhost(tmp_path)
    broker.declare(b"q")
    put(broker, b"a")
    policy(broker, 5)
    put(broker, b"b")
    broker.settle()
    broker.vhost.upkeep.purge(b"q")
    broker.settle()
    policy(broker, 6)
    assert broker.vhost.catalog.queue(b"q").limits.earlier_ttls == []
