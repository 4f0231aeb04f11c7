"""Deliveries round the keys of a queue: who is next, how often, and how many of a key are out."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from forebay.broker.policy_changes import set_policy
from forebay.core.errors import RequestError
from forebay.queue.leases.lease import Consumer, Delivery
from forebay.queue.ready.fair_order import HEADS, FairOrder
from forebay.queue.turn import SCAN_RECORDS
from forebay.queue.work.work_group import WorkGroup
from tests.restarts import ENDS, STOP, RestartRig

KINDS: Final[dict[str, dict[str, object]]] = {"classic": {}, "quorum": {"x_queue_type": "quorum"}}
EVERY_KIND = pytest.mark.parametrize("kind", sorted(KINDS))
EVERY_END = pytest.mark.parametrize("way", ENDS)
KEY: Final = "/t"


def rig_with(folder: Path, kind: str, keys: str = "", way: str = STOP, **arguments: object) -> RestartRig:
    """A broker with a queue that has one message of each of these keys."""
    rig = RestartRig(folder, way)
    rig.declare(b"q", **KINDS[kind], x_fair_key=KEY, **arguments)
    publish(rig, keys)
    rig.settle()
    return rig


def publish(rig: RestartRig, keys: str) -> None:
    for key in keys:
        publish_one(rig, key)


def publish_one(rig: RestartRig, key: str) -> None:
    rig.publish(b"", b"q", b'{"t": "%s"}' % key.encode())


def consumer(rig: RestartRig, credit: int = 0, session: int = 1) -> Consumer:
    return rig.vhost.consuming.consume(b"q", session, 1, b"c", False, False, credit, {})


def keys_of(deliveries: list[Delivery]) -> str:
    found = ""
    for each in deliveries:
        for index in range(int(each.index), int(each.index + each.count)):
            body = bytes(each.block.body(index))
            found += body.split(b'"')[3].decode()
    return found


def ack(rig: RestartRig, deliveries: list[Delivery]) -> None:
    for each in deliveries:
        assert each.lease is not None
        rig.vhost.settling.ack(each.lease, each.lease.first, each.count)


def order(rig: RestartRig) -> FairOrder:
    found = rig.vhost.catalog.queue(b"q").find_group(b"")
    assert isinstance(found, WorkGroup)
    made = found.ready_queue.order
    assert isinstance(made, FairOrder)
    return made


def catch_up(rig: RestartRig) -> None:
    """Have the group find the keys of all that it has."""
    found = rig.vhost.catalog.queue(b"q").find_group(b"")
    assert isinstance(found, WorkGroup)
    while not found.ready_queue.take_in(order(rig)):
        found.turn.looks = SCAN_RECORDS
        found.properties.looks.begin()


# ---- rounds


@EVERY_KIND
def test_deliveries_go_round_the_keys(tmp_path: Path, kind: str) -> None:
    rig = rig_with(tmp_path, kind, "aaaabbc")
    consumer(rig)
    assert keys_of(rig.deliveries()) == "abcabaa"


@EVERY_KIND
def test_a_noisy_key_delays_another_by_one_round(tmp_path: Path, kind: str) -> None:
    rig = rig_with(tmp_path, kind, "a" * 9990 + "b" * 10)
    consumer(rig, 1)
    first = rig.deliveries()
    assert keys_of(first) == "a"
    catch_up(rig)
    publish(rig, "z")
    got = ""
    while "z" not in got:
        ack(rig, first)
        first = rig.deliveries()
        got += keys_of(first)
    assert len(got) <= 3, got


@EVERY_KIND
def test_weights_are_the_turns_of_a_round(tmp_path: Path, kind: str) -> None:
    rig = rig_with(tmp_path, kind, "abc" * 4000, x_fair_weight="a=5, b=2, *=1")
    taker = consumer(rig, 100)
    got = Counter[str]()
    while sum(got.values()) < 8000:
        given = rig.deliveries()
        got.update(keys_of(given))
        ack(rig, given)
        if got["a"] > 3900:
            break
    total = got["a"] / 5
    assert abs(got["b"] / 2 - total) <= 5
    assert abs(got["c"] - total) <= 5
    assert taker.held == 0


def test_ten_thousand_deliveries_are_spread_evenly(tmp_path: Path) -> None:
    rig = rig_with(tmp_path, "classic", "abcdefghij" * 1000)
    consumer(rig, 200)
    got = Counter[str]()
    while sum(got.values()) < 10_000:
        given = rig.deliveries()
        got.update(keys_of(given))
        ack(rig, given)
        assert max(got.values()) - min(got[key] for key in "abcdefghij") <= 1
    assert order(rig).fair_keys == {}


def test_a_policy_changes_the_weights_of_the_next_turns(tmp_path: Path) -> None:
    rig = rig_with(tmp_path, "classic", "ab" * 20)
    set_policy(rig.vhost, "gold", "^q$", {"fair-weight": "a=3"})
    consumer(rig, 8)
    assert keys_of(rig.deliveries()) == "aaabaaab"


def test_who_has_no_key_shares_one(tmp_path: Path) -> None:
    rig = rig_with(tmp_path, "classic", "aaa")
    for _ in range(3):
        rig.publish(b"", b"q", b'no {"t": "n"}')
    consumer(rig)
    assert keys_of(rig.deliveries()) == "ananan"


# ---- how many of a key are out


@EVERY_KIND
@pytest.mark.parametrize("limit", [1, 2])
def test_no_more_of_a_key_are_out_than_it_may_have(tmp_path: Path, kind: str, limit: int) -> None:
    rig = rig_with(tmp_path, kind, "aaaabb", x_key_concurrency=limit)
    consumer(rig)
    consumer(rig, 0, 2)
    given = rig.deliveries()
    assert Counter(keys_of(given)) == {"a": limit, "b": limit}
    assert rig.deliveries() == []
    for _ in range(4 - limit):
        mine = [each for each in given if keys_of([each]).startswith("a")][:1]
        ack(rig, mine)
        given = [each for each in given if each not in mine] + rig.deliveries()
        assert keys_of(given).count("a") == limit
    ack(rig, given)
    rig.deliveries()


@EVERY_KIND
def test_what_comes_back_is_the_first_of_its_key(tmp_path: Path, kind: str) -> None:
    rig = rig_with(tmp_path, kind, "aaab", x_key_concurrency=1)
    consumer(rig)
    given = {keys_of([each]): each for each in rig.deliveries()}
    lease = given["a"].lease
    assert lease is not None
    rig.vhost.settling.nack(lease, lease.first, 1, 0)
    again = rig.deliveries()
    assert keys_of(again) == "a"
    assert again[0].block.base + again[0].index == lease.first
    assert again[0].redelivered


def test_a_delayed_record_holds_its_place(tmp_path: Path) -> None:
    rig = rig_with(tmp_path, "classic", "aa", x_key_concurrency=1, x_delayed_retry_type="all", x_delayed_retry_min=5000)
    consumer(rig)
    lease = rig.deliveries()[0].lease
    assert lease is not None
    rig.vhost.settling.nack(lease, lease.first, 1, 0)
    assert rig.deliveries() == []
    rig.clock.us += 6_000_000
    rig.tick()
    assert [int(each.block.base + each.index) for each in rig.deliveries()] == [0]


def test_a_dead_letter_lets_the_next_of_its_key_come(tmp_path: Path) -> None:
    rig = rig_with(tmp_path, "classic", "aa", x_key_concurrency=1, x_dead_letter_exchange="amq.fanout")
    consumer(rig)
    lease = rig.deliveries()[0].lease
    assert lease is not None
    rig.vhost.settling.reject(lease, lease.first, 1)
    rig.given = []
    rig.settle()
    assert keys_of(rig.given) == "a"
    assert sorted(order(rig).keys) == [1]


# ---- ends


@EVERY_END
@EVERY_KIND
def test_keys_are_known_again_after_every_end(tmp_path: Path, kind: str, way: str) -> None:
    rig = rig_with(tmp_path, kind, "aaaabbc", way)
    consumer(rig, 3)
    given = rig.deliveries()
    assert keys_of(given) == "abc"
    ack(rig, given)
    rig.settle()
    rig.flush()
    rig.end(1)
    rig.settle()
    consumer(rig)
    assert keys_of(rig.deliveries()) in ("abaa", "baaa")


def test_a_backlog_passed_over_is_taken_in_by_portions(tmp_path: Path) -> None:
    rig = rig_with(tmp_path, "classic", "a" * 9000 + "b", STOP)
    consumer(rig, 2)
    got = ""
    while "b" not in got:
        given = rig.deliveries()
        got += keys_of(given)
        ack(rig, given)
    rig.flush()
    rig.end(1)
    left = 9001 - len(got)
    assert left > 8900
    assert rig.vhost.catalog.queue(b"q").ready() == left
    found = rig.vhost.catalog.queue(b"q").find_group(b"")
    assert isinstance(found, WorkGroup)
    assert order(rig).pending
    found.dispatch(1, [])
    assert order(rig).pending, "one turn does not go through all of it"
    catch_up(rig)
    consumer(rig, 9000)
    came = 0
    while came < left:
        came += len(keys_of(rig.deliveries()))
    assert came == left


# ---- with others


def test_what_expires_goes_at_every_key(tmp_path: Path) -> None:
    rig = rig_with(tmp_path, "classic", "", x_message_ttl=1000)
    for number in range(3 * HEADS):
        publish_one(rig, f"k{number}")
    rig.settle()
    rig.clock.us += 2_000_000
    rig.tick()
    rig.settle()
    assert rig.vhost.catalog.queue(b"q").ready() == 0


def test_the_longest_and_purge_count_all_keys(tmp_path: Path) -> None:
    rig = rig_with(tmp_path, "classic", "aaaabbbb", x_max_length=5)
    assert rig.vhost.catalog.queue(b"q").ready() == 5
    assert rig.vhost.upkeep.purge(b"q") == 5
    publish(rig, "ab")
    consumer(rig)
    assert keys_of(rig.deliveries()) == "ab"


def test_a_view_goes_round_keys(tmp_path: Path) -> None:
    rig = RestartRig(tmp_path, STOP)
    rig.declare(b"log", x_queue_type="stream")
    rig.declare(b"q", x_source="log", x_fair_key=KEY, x_filter="/t <> 'x'")
    for key in "axaxaabc":
        rig.publish(b"", b"log", b'{"t": "%s"}' % key.encode())
    rig.settle()
    consumer(rig)
    assert keys_of(rig.deliveries()) == "abcaaa"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("x-fair-weight", {"x_fair_weight": "a=2"}),
        ("x-key-concurrency", {"x_key_concurrency": 2}),
        ("x-fair-weight", {"x_fair_key": "/t", "x_fair_weight": "a"}),
        ("x-fair-weight", {"x_fair_key": "/t", "x_fair_weight": "a=0"}),
        ("x-fair-weight", {"x_fair_key": "/t", "x_fair_weight": "a=1,a=2"}),
        ("x-fair-key", {"x_fair_key": "/t = 1"}),
        ("x-fair-key", {"x_fair_key": "deliveries"}),
        ("x-key-concurrency", {"x_fair_key": "/t", "x_key_concurrency": 0}),
        ("x-max-priority", {"x_fair_key": "/t", "x_max_priority": 3}),
        ("x-priority-mode", {"x_fair_key": "/t", "x_priority_mode": "fair"}),
    ],
)
def test_what_does_not_go_together_is_refused_by_name(tmp_path: Path, name: str, arguments: dict[str, object]) -> None:
    rig = RestartRig(tmp_path, STOP)
    with pytest.raises(RequestError, match=name):
        rig.declare(b"q", **arguments)


def test_a_consumer_with_a_filter_is_refused(tmp_path: Path) -> None:
    rig = rig_with(tmp_path, "classic")
    with pytest.raises(RequestError, match="x-fair-key"):
        rig.vhost.consuming.consume(b"q", 1, 1, b"c", False, False, 0, {"x-filter": "/t = 'a'"})
