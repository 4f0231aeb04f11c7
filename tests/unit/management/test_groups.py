"""Groups that are deleted, or moved elsewhere in the log: what the log keeps, and who gets what, after a crash too."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.broker.catalog.retention_pins import hold, release
from forebay.core.errors import NOT_FOUND, PRECONDITION, RequestError
from forebay.core.message import AMQP091, Properties
from forebay.management.groups import delete_group, find_group, move_group
from forebay.management.operations.queues import pin_fields
from forebay.message.formats.table import format_of
from forebay.queue.group import Group
from forebay.queue.leases.lease import Consumer, Delivery
from forebay.queue.totals import GroupTotals
from forebay.queue.work.work_group import WorkGroup
from tests.vhosts import OneVhost, leased

Q = b"q"


class Broker(OneVhost):
    """A vhost with one queue, `q`, and work groups on it."""

    def __init__(self, folder: Path, **arguments: object) -> None:
        super().__init__(folder)
        self.declare(Q, **arguments)

    def again(self) -> None:
        """As after a kill: what was synced is there; of settlements, what `flush` wrote."""
        self.settle()
        self.crash()

    def fill(self, count: int) -> None:
        for number in range(count):
            self.publish(b"", Q, b"%d" % number)
        self.turn()

    def join(self, group: str, credit: int = 0, session: int = 1) -> Consumer:
        arguments: dict[str, object] = {"x-consumer-group": group} if group else {}
        return self.vhost.consumers.consume(Q, session, 1, b"c", False, False, credit, arguments)

    def leave(self, group: str, session: int = 1) -> None:
        """Make a group that is used no more."""
        self.vhost.consumers.cancel(self.join(group, 1, session))
        self.turn()

    def group(self, key: bytes) -> WorkGroup:
        found = find_group(self.vhost.catalog.queue(Q), key)
        assert isinstance(found, WorkGroup)
        return found

    def delete(self, key: bytes, if_unused: bool = True) -> None:
        delete_group(self.vhost, self.vhost.catalog.queue(Q), self.group(key), if_unused)

    def move(self, key: bytes, offset: int) -> None:
        move_group(self.vhost, self.vhost.catalog.queue(Q), self.group(key), offset)

    def take(self, group: str, count: int) -> list[bytes]:
        """Get so many messages and acknowledge them; their bodies."""
        consumer = self.join(group, count)
        got = bodies(given := self.deliveries())
        for each in given:
            assert each.lease is not None
            self.vhost.settling.ack(each.lease, each.lease.first, each.count)
        self.vhost.consumers.cancel(consumer)
        self.turn()
        return got

    def keys(self) -> list[bytes]:
        return sorted(group.name for group in self.vhost.catalog.queue(Q).groups.values())

    def first(self) -> int:
        return int(self.vhost.catalog.queue(Q).log.start)


def bodies(deliveries: list[Delivery]) -> list[bytes]:
    return [each.block.body(at) for each in deliveries for at in range(each.index, each.index + each.count)]


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path / "data")


# ---- deletion


def test_a_deleted_group_pins_nothing_after_a_crash_too(broker: Broker) -> None:
    broker.leave("audit")
    broker.fill(10)
    assert broker.take("", 8) == numbers(0, 8)
    assert broker.first() == 0
    broker.delete(b"audit")
    broker.turn()
    assert (broker.first(), broker.keys()) == (8, [b""])
    broker.again()
    assert (broker.first(), broker.keys()) == (8, [b""])
    assert broker.take("", 9) == numbers(8, 10)


def test_a_crash_before_the_sync_leaves_the_group(broker: Broker) -> None:
    broker.leave("audit")
    broker.fill(3)
    broker.take("", 3)
    broker.flush()
    broker.delete(b"audit")
    broker.turn(sync=False)
    broker.crash()
    assert broker.keys() == [b"", b"audit"]
    assert broker.take("audit", 9) == numbers(0, 3)


def test_a_group_of_a_deleted_ones_name_begins_with_what_is_left(broker: Broker) -> None:
    broker.leave("audit")
    broker.fill(4)
    broker.take("", 3)
    broker.delete(b"audit")
    broker.turn()
    assert broker.take("audit", 9) == numbers(3, 4)


def test_no_group_has_the_number_of_one_before_it(broker: Broker) -> None:
    """Dead letters say of which group they are by its number."""
    broker.leave("a")
    broker.leave("b")
    last = int(broker.group(b"b").id)
    broker.delete(b"b")
    broker.again()
    broker.again()  # the second start has the checkpoint of the first alone
    broker.leave("c")
    assert int(broker.group(b"c").id) > last


def test_a_queue_without_its_last_group_keeps_what_it_has(broker: Broker) -> None:
    broker.fill(5)
    assert broker.take("only", 2) == numbers(0, 2)
    broker.delete(b"only")
    broker.again()
    assert broker.keys() == []
    assert broker.take("", 9) == numbers(2, 5)


def refusal(broker: Broker, key: bytes, if_unused: bool = True) -> RequestError:
    with pytest.raises(RequestError) as caught:
        broker.delete(key, if_unused)
    return caught.value


def test_a_group_in_use_is_refused_with_who_uses_it(broker: Broker) -> None:
    consumer = broker.join("g", 3)
    broker.fill(5)
    error = refusal(broker, b"g")
    assert (error.reason, error.text) == (
        PRECONDITION,
        "group 'g' of queue 'q' in use: 1 consumer, 3 messages with consumers",
    )
    broker.vhost.consumers.detach(consumer)  # it has gone, and may still settle what it holds
    assert refusal(broker, b"g").text == "group 'g' of queue 'q' in use: 3 messages with consumers"
    broker.vhost.consumers.cancel(consumer)
    broker.delete(b"g")
    assert broker.keys() == []


def test_the_queues_own_group_is_refused(broker: Broker) -> None:
    broker.leave("")
    for if_unused in (True, False):
        error = refusal(broker, b"", if_unused)
        assert (error.reason, error.text) == (PRECONDITION, "group '': it is queue 'q's own, and goes with it")


def test_a_group_that_is_not_there_is_named(broker: Broker) -> None:
    error = refusal(broker, b"none")
    assert (error.reason, error.text) == (NOT_FOUND, "no group 'none' on queue 'q'")
    broker.vhost.catalog.queue(Q).pins.put(b"spark", 0, 1, 1)
    assert refusal(broker, b"spark").text.endswith("(a reader of that name holds messages: release it)")


def test_a_cursor_without_a_name_is_no_group_to_delete(broker: Broker) -> None:
    broker.vhost.consumers.consume(Q, 1, 1, b"c", False, False, 0, {"x-stream-offset": "first"})
    (group,) = broker.vhost.catalog.queue(Q).groups.values()
    assert refusal(broker, group.name).reason == NOT_FOUND


def test_a_group_with_a_filter_goes_by_name_and_filter(broker: Broker) -> None:
    broker.vhost.consumers.cancel(broker.vhost.consumers.consume(b"$queue/q/eu/#", 1, 1, b"c", False, False, 0, {}))
    broker.delete(b"@eu/#")
    assert broker.keys() == []


def test_consumers_lose_a_group_that_is_deleted_all_the_same(broker: Broker) -> None:
    broker.leave("")
    consumer = broker.join("g", 2, session=7)
    broker.fill(5)
    lease = broker.group(b"g").leases.all_live()[0]
    broker.delete(b"g", if_unused=False)
    assert consumer.lost == "group 'g' of queue 'q' was deleted"
    assert broker.vhost.settling.ack(lease, 0, 2) == 0
    assert broker.deliveries() == []
    assert broker.cancelled == [consumer]
    broker.vhost.consumers.cancel(consumer)  # its session hears of it, and has it no more
    broker.vhost.session_closed(7)
    broker.take("", 5)
    assert broker.first() == 5
    broker.flush()
    broker.again()
    assert (broker.keys(), broker.take("", 9)) == ([b""], [])


def test_a_consumer_that_vanishes_while_its_group_is_deleted_leaves_nothing(broker: Broker) -> None:
    """In whichever order the broker hears of the two."""
    broker.leave("")
    for gone_first in (True, False):
        broker.join("g", 2, session=7)
        broker.fill(3)
        if gone_first:
            broker.vhost.session_closed(7)
            broker.delete(b"g")
        else:
            broker.delete(b"g", if_unused=False)
            broker.vhost.session_closed(7)
        broker.turn()
        assert broker.keys() == [b""]
        broker.take("", 3)
    assert broker.first() == 6


def test_a_queue_that_ends_with_its_last_consumer_ends_with_the_group(broker: Broker) -> None:
    broker.vhost.catalog.declare_queue(b"auto", True, False, True, {}, 1)
    broker.vhost.consumers.consume(b"auto", 1, 1, b"c", False, False, 0, {"x-consumer-group": "g"})
    queue = broker.vhost.catalog.queue(b"auto")
    delete_group(broker.vhost, queue, find_group(queue, b"g"), False)
    assert b"auto" not in broker.vhost.catalog.queues
    broker.turn()


# ---- moving


def test_a_group_that_is_moved_back_gets_again_what_others_still_want(broker: Broker) -> None:
    broker.leave("audit")
    broker.fill(6)
    assert broker.take("", 6) == numbers(0, 6)
    broker.move(b"", 2)
    broker.turn()
    assert broker.take("", 1) == numbers(2, 3)
    broker.flush()
    broker.again()
    assert broker.take("", 9) == numbers(3, 6)
    assert broker.take("audit", 9) == numbers(0, 6)


def test_what_a_group_is_moved_past_goes(broker: Broker) -> None:
    broker.fill(6)
    broker.leave("")
    broker.move(b"", 4)
    broker.turn()
    assert broker.first() == 4
    broker.again()
    assert broker.first() == 4
    assert broker.take("", 9) == numbers(4, 6)


def test_what_consumers_hold_is_theirs_no_more(broker: Broker) -> None:
    """It is delivered anew, with no delivery counted; who held it may go on, and says too late that it is done."""
    consumer = broker.join("", 3)
    broker.fill(5)
    lease = broker.group(b"").leases.all_live()[0]
    assert consumer.held == 3
    broker.move(b"", 1)
    assert (consumer.held, broker.group(b"").leases.count) == (0, 0)
    given = broker.deliveries()
    assert bodies(given) == numbers(1, 4)
    assert leased(given).deliveries == 1
    assert broker.vhost.settling.ack(lease, 0, 3) == 0
    assert consumer.held == 3


def test_what_was_handed_out_in_the_same_turn_comes_once(broker: Broker) -> None:
    broker.join("", 0)
    broker.publish(b"", Q, b"0")
    broker.vhost.dispatcher.catch_up(broker.vhost.catalog.queue(Q))
    broker.move(b"", 0)
    assert bodies(broker.deliveries()) == [b"0"]


def test_failures_count_anew(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "data", x_delivery_limit=1)
    broker.fill(1)
    for _ in range(3):
        lease = broker.held(Q)
        broker.vhost.session_closed(1)
        assert (lease.deliveries, lease.failures) == (1, 0)
        broker.move(b"", 0)
        broker.turn()
    broker.again()
    assert broker.held(Q).deliveries == 1


def test_what_rests_before_its_next_try_is_ready(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "data", **{"x-delayed-retry-type": "all", "x-delayed-retry-min": 60_000})
    broker.fill(1)
    broker.held(Q)
    broker.vhost.session_closed(1)
    broker.turn()
    assert (broker.group(b"").ready(), broker.group(b"").delayed.count) == (0, 1)
    broker.move(b"", 0)
    assert (broker.group(b"").ready(), broker.group(b"").delayed.count) == (1, 0)


def test_limits_hold_for_what_is_ready_again(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "data", x_max_length=3)
    broker.leave("audit")
    for turn in range(3):
        broker.fill(3)
        assert broker.take("", 3) == numbers(0, 3), turn
    broker.move(b"", int(broker.first()))
    broker.turn()
    assert broker.group(b"").ready() == 3


def test_a_move_waits_for_dead_letters(tmp_path: Path) -> None:
    broker = Broker(
        tmp_path / "data",
        x_queue_type="quorum",
        x_dead_letter_exchange="nowhere",
        x_dead_letter_strategy="at-least-once",
        x_overflow="reject-publish",
    )
    broker.fill(2)
    lease = broker.held(Q)
    broker.vhost.settling.reject(lease, 0, 1)
    broker.turn()
    assert broker.group(b"").dead_letters.count == 1
    with pytest.raises(RequestError, match="1 waiting dead letter would be lost") as caught:
        broker.move(b"", 0)
    assert caught.value.reason == PRECONDITION


def test_a_shared_subscription_is_refused(broker: Broker) -> None:
    client = broker.vhost.sessions.attach(b"c", 9, True, 0, None)
    broker.vhost.shares.join(b"$share/s/t", client, 1)
    consumer = broker.vhost.consumers.consume(b"$share/s/t", 9, 0, b"c", False, False, 1, {})
    queue = broker.vhost.catalog.queue(b"$share/s/t")
    group: Group = queue.groups[int(consumer.group)]
    with pytest.raises(RequestError, match="is a shared subscription") as caught:
        delete_group(broker.vhost, queue, group, False)
    assert caught.value.reason == PRECONDITION
    with pytest.raises(RequestError, match="is a shared subscription"):
        move_group(broker.vhost, queue, group, 0)


def test_what_a_rewrite_under_way_leaves_out_does_not_come_back(broker: Broker) -> None:
    """It is in the log until the rewrite is back; a consumer that held it then would hold nothing."""
    for number in range(150):
        broker.publish(b"", Q, b"%d" % number + bytes(100))
        broker.turn()
    leases = [broker.taken(Q) for _ in range(150)]
    for lease in leases[1:]:
        broker.vhost.settling.ack(lease, lease.first, 1)
    broker.vhost.settling.nack(leases[0], 0, 1, 0)
    broker.turn()
    while (job := broker.plan()) is None or not job.rewrites:
        if job is not None:
            broker.work()
        broker.flush()
    (rewrite,) = job.rewrites
    assert (rewrite.first, rewrite.wanted[0]) == (0, (0, 1))
    broker.move(b"", 0)
    ready = int(broker.group(b"").ready())
    assert 0 < ready < 150
    held = [broker.taken(Q) for _ in range(ready)]
    assert [int(lease.first) for lease in held] == [0, *range(150 - ready + 1, 150)]
    broker.work()
    for lease in held:
        broker.vhost.settling.nack(lease, lease.first, 1, 0)
    assert broker.group(b"").ready() == ready
    assert len(broker.take("", 0)) == ready


def test_priorities_hold_after_a_move(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "data", x_max_priority=5)
    broker.leave("audit")
    for priority in (1, 5, 3):
        properties = Properties()
        properties.priority = priority
        broker.publish(b"", Q, b"%d" % priority, format_of(AMQP091).encode(properties))
    broker.turn()
    assert broker.take("", 3) == [b"5", b"3", b"1"]
    broker.move(b"", 0)
    assert broker.take("", 1) == [b"5"]
    broker.flush()
    broker.again()
    assert broker.take("", 3) == [b"3", b"1"]


# ---- what is counted


def counts(broker: Broker) -> tuple[int, int, int]:
    queue = broker.vhost.catalog.queue(Q)
    return int(queue.wanted()), int(queue.ready()), int(GroupTotals(queue).unacked)


def test_a_message_that_several_groups_want_counts_once(broker: Broker) -> None:
    broker.leave("audit")
    broker.leave("print")
    broker.fill(10)
    assert counts(broker) == (10, 10, 0)
    broker.take("print", 10)
    assert counts(broker) == (10, 10, 0)
    broker.take("audit", 4)
    assert counts(broker) == (6, 6, 0)


def test_what_one_group_hands_out_another_still_has_ready(broker: Broker) -> None:
    broker.leave("audit")
    broker.fill(10)
    broker.join("print", 3)
    broker.turn()
    assert counts(broker) == (10, 10, 3)
    broker.join("audit", 0, session=2)
    broker.turn()
    assert counts(broker) == (10, 7, 13)


def test_the_queues_own_group_counts_as_any(broker: Broker) -> None:
    broker.leave("audit")
    broker.fill(10)
    assert broker.take("", 10) == numbers(0, 10)
    assert counts(broker) == (10, 10, 0), "audit wants them all"
    broker.fill(2)
    assert counts(broker) == (12, 12, 0)
    broker.delete(b"audit")
    assert counts(broker) == (2, 2, 0)


def test_what_is_published_in_this_turn_counts(broker: Broker) -> None:
    broker.leave("audit")
    broker.publish(b"", Q, b"x")
    assert counts(broker) == (1, 1, 0)


def test_with_one_group_what_is_got_is_counted_as_before(broker: Broker) -> None:
    """`basic.get` tells how many are left for who gets, or a client that gets until none is left never ends."""
    broker.leave("audit")
    broker.fill(2)
    broker.take("", 2)
    assert (int(broker.vhost.catalog.queue(Q).ready()), int(broker.vhost.catalog.queue(Q).own_ready())) == (2, 0)


def test_a_queue_that_a_group_wants_something_of_is_not_empty(broker: Broker) -> None:
    broker.leave("audit")
    broker.fill(2)
    broker.take("", 2)
    with pytest.raises(RequestError, match="not empty"):
        broker.vhost.upkeep.delete_queue(Q, False, True)
    assert broker.vhost.upkeep.purge(Q) == 2
    assert broker.vhost.upkeep.delete_queue(Q, False, True) == 0


def test_a_limit_of_length_holds_for_each_group_by_itself(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "data", x_max_length=3, x_overflow="reject-publish")
    broker.leave("audit")
    broker.fill(3)
    broker.take("", 3)
    broker.fill(1)
    assert counts(broker)[1] == 3, "audit's three: no room for another"
    assert broker.group(b"").ready() == 0
    broker.take("audit", 3)
    broker.fill(1)
    assert counts(broker)[1] == 1


def test_limits_hold_although_the_first_to_come_reads_a_queue_as_a_stream(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "data", x_max_length=2)
    broker.vhost.consumers.consume(Q, 1, 1, b"c", False, False, 0, {"x-stream-offset": "next"})
    broker.fill(5)
    broker.settle()
    assert counts(broker) == (2, 2, 0)
    assert broker.take("", 9) == numbers(3, 5)


def test_a_queue_that_is_only_read_as_a_stream_is_purged(broker: Broker) -> None:
    broker.vhost.consumers.consume(Q, 1, 1, b"c", False, False, 0, {"x-stream-offset": "next"})
    broker.fill(5)
    assert broker.vhost.upkeep.purge(Q) == 5
    broker.turn()
    assert counts(broker) == (0, 0, 0)


# ---- who pins a log


def pinned(broker: Broker) -> tuple[object, ...] | None:
    facts = pin_fields(broker.vhost.catalog.queue(Q))
    if facts is None:
        return None
    return tuple(facts[name] for name in ("group", "kind", "offset", "messages", "frees_messages"))


def test_the_group_with_the_lowest_offset_pins_the_log(broker: Broker) -> None:
    assert pinned(broker) is None
    broker.fill(10)
    assert pinned(broker) is None, "nobody has settled anything: the queue keeps it for who consumes"
    broker.leave("audit")
    assert pinned(broker) == ("audit", "work", 0, 10, 0), "without it, that is so again"
    broker.take("print", 6)
    assert pinned(broker) == ("audit", "work", 0, 10, 6)
    broker.take("audit", 8)
    assert pinned(broker) == ("print", "work", 6, 4, 2)
    broker.take("print", 9)
    broker.take("audit", 9)
    assert pinned(broker) is None


def test_a_reader_pins_what_groups_are_done_with(broker: Broker) -> None:
    broker.fill(10)
    hold(broker.vhost.catalog, broker.vhost.catalog.queue(Q), b"spark", 3, 60_000_000, broker.clock.us)
    broker.take("", 8)
    assert pinned(broker) == ("spark", "reader", 3, 7, 5)
    release(broker.vhost.catalog, broker.vhost.catalog.queue(Q), b"spark")
    assert pinned(broker) == ("", "work", 8, 2, 0)


def test_when_a_group_settled_something_last_is_known(broker: Broker) -> None:
    broker.leave("audit")
    broker.fill(4)
    facts = pin_fields(broker.vhost.catalog.queue(Q))
    assert facts is not None and facts["active_ms"] is None
    broker.later(5000)
    broker.take("audit", 1)
    facts = pin_fields(broker.vhost.catalog.queue(Q))
    assert facts is not None and facts["active_ms"] == broker.clock.us // 1000


def test_groups_of_a_stream_pin_nothing(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "data", x_queue_type="stream", x_primary_group="workers")
    broker.leave("workers")
    broker.fill(3)
    assert pinned(broker) is None
    hold(broker.vhost.catalog, broker.vhost.catalog.queue(Q), b"spark", 0, 60_000_000, broker.clock.us)
    assert pinned(broker) == ("spark", "reader", 0, 3, 0)
    broker.vhost.upkeep.truncate(Q, 2)
    assert pinned(broker) == ("spark", "reader", 0, 3, 2)
