"""`$delayed/` topics: when and where to, what is refused and how that is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from librt.strings import BytesWriter

from forebay.broker.publish.delayed import Delayed
from forebay.core.errors import INVALID, NOT_FOUND, RequestError
from forebay.core.message import MQTT
from forebay.log.store import Store
from forebay.session.mqtt.incoming.delayed import cancel_delayed, cancels_delayed, delay_id, delayed_at, parse_delayed
from forebay.wire.mqtt.properties import append_user_property
from tests.stores import SMALL, SmallDisk, TestClock

NOW_US = 1_700_000_000_250_000


def user(name: bytes, value: bytes) -> bytes:
    out = BytesWriter()
    append_user_property(out, name, value)
    return out.getvalue()


@pytest.mark.parametrize(
    ("topic", "due_us", "target"),
    [
        (b"$delayed/5/a/b", NOW_US + 5_000_000, b"a/b"),
        (b"$delayed/0/a", NOW_US, b"a"),
        (b"$delayed/005/a", NOW_US + 5_000_000, b"a"),
        (b"$delayed/42949669/a", NOW_US + 42_949_669_000_000, b"a"),
        (b"$delayed/42949670/a", 42_949_670_000_000, b"a"),  # in 1971: due at once
        (b"$delayed/1800000000/a", 1_800_000_000_000_000, b"a"),
        (b"$delayed/253402300799/a", 253_402_300_799_000_000, b"a"),
        (b"$delayed/5/$queue/q/k", NOW_US + 5_000_000, b"$queue/q/k"),
        (b"$delayed/5//a", NOW_US + 5_000_000, b"/a"),
        (b"$delayed/5/5/a", NOW_US + 5_000_000, b"5/a"),
    ],
)
def test_when_and_where_to(topic: bytes, due_us: int, target: bytes) -> None:
    assert delayed_at(topic)
    assert parse_delayed(topic, NOW_US) == (due_us, target)


@pytest.mark.parametrize(
    ("topic", "named"),
    [
        (b"$delayed/", "''"),
        (b"$delayed//a", "''"),
        (b"$delayed/x/a", "'x'"),
        (b"$delayed/-1/a", "'-1'"),
        (b"$delayed/+5/a", "'+5'"),
        (b"$delayed/1.5/a", "'1.5'"),
        (b"$delayed/ 5/a", "' 5'"),
        ("$delayed/\N{ARABIC-INDIC DIGIT FIVE}/a".encode(), "'\N{ARABIC-INDIC DIGIT FIVE}'"),
        (b"$delayed/253402300800/a", "'253402300800'"),
        (b"$delayed/1700000000000/a", "'1700000000000'"),  # milliseconds
        (b"$delayed/" + b"9" * 500 + b"/a", "'999"),
        (b"$delayed/5", "'$delayed/5'"),
        (b"$delayed/5/", "'$delayed/5/'"),
        (b"$delayed/5/a/+", "'a/+'"),
        (b"$delayed/5/#", "'#'"),
        (b"$delayed/5/$delayed/5/a", "'$delayed/5/a'"),
        (b"$delayed/5/$SYS/a", "'$SYS/a'"),
        (b"$delayed/5/$queue/q/$ack", "'$queue/q/$ack'"),
        (b"$delayed/$cancel/a", "'$cancel'"),
    ],
)
def test_what_means_nothing_is_named(topic: bytes, named: str) -> None:
    with pytest.raises(RequestError) as wrong:
        parse_delayed(topic, NOW_US)
    assert wrong.value.reason == INVALID
    assert named in wrong.value.text


def test_other_topics_are_not_for_later() -> None:
    for topic in (b"$delayed", b"a/$delayed/5/b", b"$delayedx/5/a", b"$queue/q/k"):
        assert not delayed_at(topic)


def test_a_publish_may_name_its_message() -> None:
    assert delay_id(user(b"x", b"1") + user(b"delay-id", b"k")) == b"k"
    assert delay_id(user(b"x", b"1")) == b""
    assert delay_id(b"") == b""


def test_cancelling_says_what_it_did_not_find(tmp_path: Path) -> None:
    store = Store(SmallDisk(str(tmp_path)), TestClock(), SMALL)
    store.open()
    delayed = Delayed(store, 0)
    delayed.recovered(1)
    store.start(delayed.checkpoint())
    assert cancels_delayed(b"$delayed/$cancel")
    assert not cancels_delayed(b"$delayed/$cancel/a")
    delayed.put(b"k", 1, MQTT, b"a", b"", b"")
    offset = delayed.put(b"", 1, MQTT, b"a", b"", b"")
    cancel_delayed(delayed, user(b"delay-id", b"k"))
    cancel_delayed(delayed, user(b"delay-id", b"%d" % offset))
    assert delayed.count() == 0
    for block, reason, text in (
        (b"", INVALID, "delay-id: missing"),
        (user(b"delay-id", b""), INVALID, "delay-id: missing"),
        (user(b"delay-id", b"k"), NOT_FOUND, "no delayed message 'k'"),
    ):
        with pytest.raises(RequestError, match=text) as wrong:
            cancel_delayed(delayed, block)
        assert wrong.value.reason == reason
