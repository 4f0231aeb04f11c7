"""Retained messages: one a topic, in the log, gone when they are replaced, removed or expired."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.core.message import AMQP091
from forebay.wire.mqtt.properties import CONTENT_TYPE, MESSAGE_EXPIRY, Property, encode_properties
from tests.retained import STORED, Keeper

SECOND_US = 1_000_000


def expires_in(seconds: int) -> bytes:
    return encode_properties([Property(CONTENT_TYPE, 0, b"t", b""), Property(MESSAGE_EXPIRY, seconds, b"", b"")])


@pytest.fixture
def keeper(tmp_path: Path) -> Keeper:
    return Keeper(tmp_path / "data")


def reopened(keeper: Keeper, tmp_path: Path) -> Keeper:
    """The same folder after a crash."""
    keeper.crash()
    return Keeper(tmp_path / "data", keeper.clock)


def test_a_message_comes_back_as_it_was_stored(keeper: Keeper) -> None:
    keeper.put(b"a/b", b"body", b"\x01\x01")
    stored_us = keeper.clock.us
    keeper.turn()
    keeper.clock.us += SECOND_US
    (message,) = keeper.retained.matching(b"a/+", keeper.clock.us)
    assert (message.topic, message.format, message.properties, message.body, message.stamp_us) == (
        b"a/b",
        STORED,
        b"\x01\x01",
        b"body",
        stored_us,
    )
    block = keeper.retained.log.block(0)
    assert block is not None
    assert (block.exchange(0), block.routing_key(0)) == (b"", b"a/b")


def test_the_latest_of_a_topic_is_there_before_the_turn_ends(keeper: Keeper) -> None:
    keeper.put(b"a", b"1")
    keeper.put(b"a", b"2")
    assert keeper.bodies(b"a") == [b"2"]
    keeper.put(b"a", b"3")
    assert keeper.bodies(b"#") == [b"3"]
    keeper.turn()
    assert keeper.bodies(b"#") == [b"3"]
    assert (keeper.retained.count(), keeper.retained.octets()) == (1, 1)
    keeper.turn()
    assert keeper.retained.log.start == 2


def test_messages_come_in_the_order_they_were_stored(keeper: Keeper) -> None:
    for topic, body in ((b"z", b"1"), (b"a", b"2"), (b"m", b"3")):
        keeper.put(topic, body)
        keeper.turn()
    keeper.put(b"z", b"4")
    assert keeper.bodies(b"+") == [b"2", b"3", b"4"]


def test_an_empty_body_removes_and_stays_removed(keeper: Keeper, tmp_path: Path) -> None:
    keeper.put(b"a", b"1")
    keeper.put(b"b", b"2")
    keeper.turn()
    keeper.put(b"a", b"")
    keeper.put(b"none", b"")
    assert keeper.held() == {b"b": b"2"}
    keeper.turn()
    assert reopened(keeper, tmp_path).held() == {b"b": b"2"}


def test_who_removes_waits_for_the_disk(keeper: Keeper) -> None:
    keeper.put(b"a", b"1")
    keeper.turn()
    keeper.put(b"a", b"")
    keeper.end_turn()
    first_lsn = keeper.store.due_lsn()
    assert first_lsn > keeper.store.durable
    commit = keeper.store.commit()
    assert commit is not None
    keeper.put(b"a", b"")  # gone in memory, on the disk not yet
    keeper.end_turn()
    assert keeper.store.due_lsn() > first_lsn
    commit.run()
    keeper.store.synced(commit)
    keeper.turn()
    keeper.put(b"a", b"")
    keeper.end_turn()
    assert keeper.store.due_lsn() == keeper.store.durable


def test_put_and_remove_in_one_turn_leaves_nothing(keeper: Keeper, tmp_path: Path) -> None:
    keeper.put(b"a", b"1")
    keeper.put(b"a", b"")
    keeper.turn()
    assert keeper.held() == {}
    assert keeper.retained.tree.is_empty()
    assert reopened(keeper, tmp_path).held() == {}


def test_a_replacement_that_is_not_on_the_disk_costs_nothing(keeper: Keeper, tmp_path: Path) -> None:
    """Until the new one is durable the old one is wanted, whatever housekeeping does meanwhile."""
    keeper.put(b"a", b"old")
    keeper.turn()
    keeper.rotate()
    keeper.sync()
    keeper.put(b"a", b"new")
    keeper.end_turn()
    assert keeper.retained.needed(0, 1) == [(0, 1)]
    while keeper.housekeep():
        pass
    again = reopened(keeper, tmp_path)
    assert again.held() == {b"a": b"old"}
    again.put(b"a", b"new")
    again.turn()
    assert again.retained.needed(0, 2) == [(1, 2)]
    again.turn()
    assert again.retained.log.start == 1
    assert reopened(again, tmp_path).held() == {b"a": b"new"}


def test_limits_say_what_they_are(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path / "data", None, 2, 10)
    assert keeper.put(b"a", b"x" * 10) == ""
    assert keeper.put(b"a", b"x" * 11) == "the retained message has 11 octets, the limit is 10"
    assert keeper.put(b"b", b"1") == ""
    assert keeper.put(b"c", b"1") == "there are 2 retained messages, the limit is 2"
    assert keeper.put(b"b", b"2") == ""
    keeper.put(b"a", b"")
    assert keeper.put(b"c", b"3") == ""
    assert keeper.held() == {b"b": b"2", b"c": b"3"}


def test_a_full_disk_refuses_and_keeps_what_was_there(keeper: Keeper) -> None:
    keeper.put(b"a", b"old")
    keeper.turn()
    keeper.disk.octets_max = keeper.disk.used()
    assert keeper.put(b"a", b"x" * 20_000) == "no room on the disk"
    assert keeper.held() == {b"a": b"old"}


def test_expired_messages_are_not_given_and_go(keeper: Keeper, tmp_path: Path) -> None:
    keeper.put(b"short", b"1", expires_in(2))
    keeper.put(b"long", b"2", expires_in(5))
    keeper.put(b"ever", b"3")
    keeper.turn()
    keeper.clock.us += 2 * SECOND_US - 1
    assert keeper.bodies(b"#") == [b"1", b"2", b"3"]
    keeper.clock.us += 1
    assert keeper.bodies(b"#") == [b"2", b"3"]
    assert keeper.retained.count() == 2
    keeper.turn()
    again = reopened(keeper, tmp_path)
    again.clock.us += 3 * SECOND_US
    assert again.retained.count() == 2
    again.retained.sweep(again.clock.us)
    assert again.retained.count() == 1
    assert again.bodies(b"#") == [b"3"]


def test_what_expired_while_the_broker_was_down_is_not_counted(keeper: Keeper, tmp_path: Path) -> None:
    keeper.put(b"a", b"1", expires_in(1))
    keeper.turn()
    keeper.clock.us += SECOND_US
    again = reopened(keeper, tmp_path)
    assert (again.retained.count(), again.retained.octets()) == (0, 0)
    again.turn()
    again.turn()
    assert again.retained.log.start == again.retained.log.end


def test_a_sweep_passes_over_what_was_replaced(keeper: Keeper) -> None:
    keeper.put(b"a", b"1", expires_in(1))
    keeper.put(b"a", b"2")
    keeper.clock.us += SECOND_US
    keeper.retained.sweep(keeper.clock.us)
    assert keeper.held() == {b"a": b"2"}
    assert keeper.retained.expiries == []


def test_expiries_of_replaced_messages_do_not_pile_up(keeper: Keeper) -> None:
    for number in range(5000):
        keeper.put(b"a", b"%d" % number, expires_in(1000))
        if number % 50 == 0:
            keeper.turn()
    assert len(keeper.retained.expiries) < 2000
    keeper.clock.us += 1000 * SECOND_US
    keeper.retained.sweep(keeper.clock.us)
    assert keeper.held() == {}


def test_a_property_block_of_another_protocol_is_no_expiry(keeper: Keeper) -> None:
    keeper.retained.put(b"a", AMQP091, b"\xff\xff\xff\xff", b"1", keeper.clock.us)
    assert keeper.held() == {b"a": b"1"}


def test_volatile_messages_are_neither_counted_nor_kept(keeper: Keeper, tmp_path: Path) -> None:
    retained = keeper.retained
    retained.put_volatile(b"$SYS/a", b"1", 1)
    retained.put_volatile(b"$SYS/b", b"2", 1)
    retained.put_volatile(b"$SYS/a", b"3", 2)
    assert keeper.bodies(b"$SYS/#") == [b"2", b"3"]
    assert keeper.bodies(b"#") == []
    assert (retained.count(), retained.octets(), retained.log.writer.count) == (0, 0, 0)
    retained.put_volatile(b"$SYS/a", b"", 3)
    assert keeper.bodies(b"$SYS/#") == [b"2"]
    keeper.turn()
    assert reopened(keeper, tmp_path).bodies(b"$SYS/#") == []


def test_a_topic_is_volatile_or_durable(keeper: Keeper, tmp_path: Path) -> None:
    keeper.put(b"a", b"1")
    keeper.turn()
    keeper.retained.put_volatile(b"a", b"2", 1)
    assert (keeper.bodies(b"#"), keeper.retained.count()) == ([b"2"], 0)
    keeper.put(b"a", b"3")
    assert (keeper.bodies(b"#"), keeper.retained.volatile) == ([b"3"], {})
    keeper.turn()
    assert reopened(keeper, tmp_path).held() == {b"a": b"3"}


def test_a_number_gives_nothing_once_its_message_was_replaced(keeper: Keeper) -> None:
    keeper.put(b"a", b"1")
    keeper.put(b"b", b"2")
    first, second = keeper.retained.numbers(b"#")
    keeper.put(b"a", b"3")
    assert keeper.retained.message(first, keeper.clock.us) is None
    message = keeper.retained.message(second, keeper.clock.us)
    assert message is not None and message.body == b"2"


def test_the_log_keeps_one_record_a_topic(keeper: Keeper, tmp_path: Path) -> None:
    """However often topics are replaced: files go, and what is wanted of them is copied."""
    keeper.put(b"first", b"stays")
    for number in range(300):
        keeper.put(b"t/%d" % (number % 7), b"x" * 100 + b"%d" % number)
        keeper.turn()
        if keeper.store.checkpoint_due():
            keeper.rotate()
            keeper.sync()
        keeper.housekeep()
    expected = {b"t/%d" % (number % 7): b"x" * 100 + b"%d" % number for number in range(293, 300)}
    expected[b"first"] = b"stays"
    assert keeper.held() == expected
    records = sum(last - first for first, last in keeper.retained.needed(0, keeper.retained.log.end))
    assert records == 8
    assert keeper.disk.used() < 60_000
    assert reopened(keeper, tmp_path).held() == expected
