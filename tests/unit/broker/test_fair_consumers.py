"""The strategies of `x-fairness`: who gets how many of 10,000 deliveries."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from forebay.broker.policy_changes import set_policy
from forebay.core.errors import RequestError
from forebay.queue.leases.lease import Consumer, Delivery
from tests.restarts import ENDS, RestartRig

COUNT: Final = 10_000
KINDS: Final[dict[str, dict[str, object]]] = {"classic": {}, "quorum": {"x_queue_type": "quorum"}}
EVERY_KIND = pytest.mark.parametrize("kind", sorted(KINDS))


class Consumers:
    """Consumers of one queue with different windows, of which each settles a part of what it holds in each turn."""

    def __init__(self, rig: RestartRig, windows: list[int], priorities: list[int] | None = None) -> None:
        self.rig = rig
        self.all: list[Consumer] = []
        self.held: dict[int, list[Delivery]] = {}
        self.got: dict[int, int] = {}
        for number, window in enumerate(windows):
            arguments: dict[str, object] = {"x-priority": priorities[number]} if priorities else {}
            made = rig.vhost.consumers.consume(b"q", number + 1, 1, b"c", False, False, window, arguments)
            self.all.append(made)
            self.held[int(made.id)] = []
            self.got[int(made.id)] = 0

    def take(self) -> None:
        for each in self.rig.deliveries():
            number = int(each.consumer.id)
            self.held[number].append(each)
            self.got[number] += int(each.count)

    def settle(self, consumer: Consumer) -> None:
        """Settle all that a consumer holds."""
        for each in self.held[int(consumer.id)]:
            assert each.lease is not None
            self.rig.vhost.settling.ack(each.lease, each.lease.first, each.count)
        self.held[int(consumer.id)] = []

    def counts(self) -> list[int]:
        return [self.got[int(each.id)] for each in self.all]


def rig_with(folder: Path, kind: str, count: int, **arguments: object) -> RestartRig:
    rig = RestartRig(folder, ENDS[0])
    rig.declare(b"q", **KINDS[kind], **arguments)
    for number in range(count):
        rig.publish(b"", b"q", b"%d" % number)
    rig.settle()
    return rig


@EVERY_KIND
def test_proportional_fills_all_backlogs_to_one_share(tmp_path: Path, kind: str) -> None:
    rig = rig_with(tmp_path, kind, 0, x_fairness="proportional")
    consumers = Consumers(rig, [10, 20, 50])
    for number in range(40):  # half of what fits
        rig.publish(b"", b"q", b"%d" % number)
        consumers.take()
    assert consumers.counts() == [5, 10, 25]


@EVERY_KIND
def test_proportional_shares_follow_the_windows(tmp_path: Path, kind: str) -> None:
    rig = rig_with(tmp_path, kind, COUNT, x_fairness="proportional")
    consumers = Consumers(rig, [100, 200, 500])
    while sum(consumers.counts()) < COUNT:
        consumers.take()
        for each in consumers.all:
            consumers.settle(each)
    first, second, third = consumers.counts()
    assert abs(first - COUNT / 8) <= 100
    assert abs(second - COUNT / 4) <= 200
    assert abs(third - COUNT * 5 / 8) <= 500


@EVERY_KIND
def test_round_robin_gives_one_each_however_much_waits(tmp_path: Path, kind: str) -> None:
    rig = rig_with(tmp_path, kind, 0, x_fairness="round-robin")
    consumers = Consumers(rig, [0, 0, 0, 0])
    for number in range(COUNT):
        rig.publish(b"", b"q", b"%d" % number)
    while sum(consumers.counts()) < COUNT:
        consumers.take()
    assert consumers.counts() == [COUNT // 4] * 4
    assert all(int(each.count) == 1 for held in consumers.held.values() for each in held)


@EVERY_KIND
def test_fast_gives_the_first_with_room_all_that_it_takes(tmp_path: Path, kind: str) -> None:
    rig = rig_with(tmp_path, kind, COUNT, x_fairness="fast")
    consumers = Consumers(rig, [100, 100, 100])
    while sum(consumers.counts()) < COUNT:
        consumers.take()
        consumers.settle(consumers.all[0])
    assert consumers.counts() == [COUNT - 200, 100, 100]


@pytest.mark.parametrize("strategy", ["fast", "round-robin", "proportional"])
def test_a_higher_priority_goes_first_whatever_the_strategy(tmp_path: Path, strategy: str) -> None:
    rig = rig_with(tmp_path, "classic", 30, x_fairness=strategy)
    consumers = Consumers(rig, [10, 10, 20], [0, 5, 0])
    consumers.take()
    assert consumers.counts()[1] == 10
    assert sum(consumers.counts()) == 30


def test_a_policy_changes_the_strategy_at_once(tmp_path: Path) -> None:
    rig = rig_with(tmp_path, "classic", 100)
    consumers = Consumers(rig, [10, 10])
    set_policy(rig.vhost, "fast", "^q$", {"fairness": "fast"})
    consumers.take()
    consumers.settle(consumers.all[0])
    consumers.settle(consumers.all[1])
    consumers.take()
    before = consumers.counts()
    for _ in range(5):
        consumers.settle(consumers.all[0])
        consumers.take()
    assert consumers.counts()[1] == before[1]


def test_a_strategy_beside_a_single_active_consumer_is_refused_by_name(tmp_path: Path) -> None:
    rig = RestartRig(tmp_path, ENDS[0])
    with pytest.raises(RequestError, match="x-fairness"):
        rig.declare(b"q", x_fairness="fast", x_single_active_consumer=True)
    with pytest.raises(RequestError, match="x-fairness"):
        rig.declare(b"q", x_fairness="slow")
