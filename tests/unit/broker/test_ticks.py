"""Time goes by over many queues: only those are looked at to which it may bring something."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.broker.policy_changes import clear_policy, set_policy
from tests.vhosts import OneVhost

SECOND_MS = 1000
EXPIRES = {"expires": 5 * SECOND_MS}


@pytest.fixture
def broker(tmp_path: Path) -> OneVhost:
    broker = OneVhost(tmp_path)
    for name in (b"a", b"b", b"c"):
        broker.declare(name)
    broker.settle()
    broker.later(100)
    return broker


def timed(broker: OneVhost) -> list[bytes]:
    return sorted(queue.name for queue in broker.vhost.turn.timed)


def test_nobody_looks_at_queues_in_which_nothing_happens(broker: OneVhost) -> None:
    assert timed(broker) == []
    broker.publish(b"", b"a", b"x")
    broker.turn()
    assert timed(broker) == [b"a"]
    broker.later(100)
    assert timed(broker) == []


def test_a_lease_is_looked_at_until_it_is_settled(broker: OneVhost) -> None:
    broker.vhost.consumers.timeout_us = 10 * SECOND_MS * 1000
    broker.publish(b"", b"a", b"x")
    broker.turn()
    broker.taken(b"a")
    for _ in range(5):
        broker.later(SECOND_MS)
    assert timed(broker) == [b"a"] and broker.vhost.catalog.queue(b"a").ready() == 0
    broker.later(6 * SECOND_MS)
    assert broker.vhost.catalog.queue(b"a").ready() == 1
    lease = broker.taken(b"a")
    broker.turn()
    broker.vhost.settling.ack(lease, 0, 1)
    broker.turn()
    broker.later(100)
    broker.later(60 * SECOND_MS)  # a settled lease leaves the table when its time has come
    broker.later(100)
    assert timed(broker) == []


def test_what_is_given_back_for_later_comes_also_after_a_crash(broker: OneVhost) -> None:
    broker.publish(b"", b"a", b"x")
    broker.turn()
    lease = broker.taken(b"a")
    broker.turn()
    broker.vhost.settling.nack(lease, 0, 1, 5 * SECOND_MS)
    broker.turn()
    broker.flush()
    broker.later(SECOND_MS)
    assert broker.vhost.catalog.queue(b"a").ready() == 0
    broker.later(5 * SECOND_MS)
    assert broker.vhost.catalog.queue(b"a").ready() == 1
    lease = broker.taken(b"a")
    broker.vhost.settling.nack(lease, 0, 1, 5 * SECOND_MS)
    broker.turn()
    broker.flush()
    broker.crash()
    broker.later(6 * SECOND_MS)
    assert broker.vhost.catalog.queue(b"a").ready() == 1


def test_messages_expire_in_a_queue_that_was_idle(broker: OneVhost) -> None:
    broker.declare(b"brief", x_message_ttl=2 * SECOND_MS)
    broker.settle()
    broker.later(100)
    assert timed(broker) == []
    broker.publish(b"", b"brief", b"x")
    broker.turn()
    broker.later(SECOND_MS)
    assert broker.vhost.catalog.queue(b"brief").ready() == 1
    broker.later(2 * SECOND_MS)
    assert broker.vhost.catalog.queue(b"brief").ready() == 0


def test_a_policy_has_an_idle_queue_expire(broker: OneVhost) -> None:
    set_policy(broker.vhost, "p", "^a$", EXPIRES)
    broker.settle()
    broker.later(100)
    assert timed(broker) == [b"a"]
    broker.later(SECOND_MS)
    clear_policy(broker.vhost, "p")
    broker.later(10 * SECOND_MS)
    broker.later(100)
    assert b"a" in broker.vhost.catalog.queues and timed(broker) == []
    set_policy(broker.vhost, "p", "^[ab]$", EXPIRES)
    broker.later(100)
    broker.later(6 * SECOND_MS)
    assert set(broker.vhost.catalog.queues) & {b"a", b"b", b"c"} == {b"c"}


@pytest.mark.parametrize("before", ["got", "expiring"])
def test_a_queue_has_the_whole_time_of_a_new_expiry(broker: OneVhost, before: str) -> None:
    """However long nobody has used it: its messages do not go in the moment in which a policy is set."""
    if before == "got":
        assert broker.vhost.consumers.get(b"a", 1, 1, True) is None
    else:
        set_policy(broker.vhost, "p", "^a$", {"expires": 60 * SECOND_MS})
    broker.settle()
    for _ in range(10):
        broker.later(SECOND_MS)
    set_policy(broker.vhost, "p", "^a$", EXPIRES)
    for _ in range(4):
        broker.later(SECOND_MS)
    assert b"a" in broker.vhost.catalog.queues
    for _ in range(3):
        broker.later(SECOND_MS)
    assert b"a" not in broker.vhost.catalog.queues


def test_expiry_goes_on_after_a_crash(broker: OneVhost) -> None:
    broker.declare(b"brief", x_expires=5 * SECOND_MS)
    broker.settle()
    broker.later(100)
    broker.crash()
    broker.later(100)
    broker.later(6 * SECOND_MS)
    assert b"brief" not in broker.vhost.catalog.queues and b"a" in broker.vhost.catalog.queues


def test_exclusive_queues_go_with_their_session_and_no_other(broker: OneVhost) -> None:
    vhost = broker.vhost
    for session, name in ((1, b"one"), (1, b"two"), (2, b"three")):
        vhost.catalog.declare_queue(name, False, True, False, {}, session)
    vhost.upkeep.delete_queue(b"one", False, False)
    vhost.session_closed(1)
    assert set(vhost.catalog.queues) & {b"one", b"two", b"three"} == {b"three"}
    vhost.session_closed(2)
    vhost.session_closed(3)
    assert b"three" not in vhost.catalog.queues and vhost.catalog.owned == {}
    broker.settle()


def test_what_was_got_one_by_one_returns_with_its_channel_or_session(broker: OneVhost) -> None:
    vhost = broker.vhost
    for name in (b"a", b"b"):
        broker.publish(b"", name, b"x")
        broker.publish(b"", name, b"y")
    broker.turn()
    for session, channel, name in ((1, 1, b"a"), (1, 2, b"a"), (2, 1, b"b")):
        assert vhost.consumers.get(name, session, channel, False) is not None
    vhost.consumers.close_channel(1, 1)
    vhost.consumers.close_channel(1, 3)
    vhost.consumers.close_channel(7, 1)
    broker.settle()
    assert [vhost.catalog.queue(name).ready() for name in (b"a", b"b")] == [1, 1]
    vhost.session_closed(1)
    broker.settle()
    assert [vhost.catalog.queue(name).ready() for name in (b"a", b"b")] == [2, 1]
    vhost.session_closed(2)
    broker.settle()
    assert vhost.catalog.queue(b"b").ready() == 2 and vhost.consumers.getters == {}


def test_the_time_of_a_queue_that_expires_begins_when_its_last_consumer_goes(broker: OneVhost) -> None:
    vhost = broker.vhost
    broker.declare(b"brief", x_expires=5 * SECOND_MS)
    consumer = vhost.consumers.consume(b"brief", 1, 1, b"c", False, False, 0, {})
    assert vhost.consumers.get(b"brief", 2, 1, False) is None
    for _ in range(10):
        broker.later(SECOND_MS)
    vhost.consumers.cancel(consumer)
    for _ in range(4):
        broker.later(SECOND_MS)
    assert b"brief" in vhost.catalog.queues
    for _ in range(3):
        broker.later(SECOND_MS)
    assert b"brief" not in vhost.catalog.queues
