"""Reasons and searches: what tests over HTTP do not come to."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.broker.catalog.retention_pins import hold
from forebay.broker.limits.hold_reasons import COUNT, NAMES, QUEUE_SHARE, SEND_SHARE, SENTENCES
from forebay.core.message import AMQP091, Properties
from forebay.management.control import Connections
from forebay.management.explain.explain import explained
from forebay.management.explain.places import MessagePlace, Search
from forebay.management.explain.reasons import CODES, Reason, duration, worst_first
from forebay.message.formats.table import format_of
from tests.vhosts import OneVhost

ROOT = Path(__file__).parent.parent.parent.parent.parent


class Nobody(Connections):
    """A broker that knows nothing of its connections."""

    def listed(self) -> list[dict[str, object]]:
        return []

    def find(self, id: int) -> dict[str, object] | None:
        return None

    def channels(self) -> list[dict[str, object]]:
        return []

    def holds(self, id: int) -> list[dict[str, object]]:
        return []

    def close(self, id: int, text: str) -> bool:
        return False


@pytest.fixture
def broker(tmp_path: Path) -> OneVhost:
    broker = OneVhost(tmp_path / "data")
    broker.declare(b"q")
    return broker


def codes(broker: OneVhost, offset: int) -> list[str]:
    found = explained(broker.vhost, Nobody(), MessagePlace(broker.vhost.catalog.queue(b"q"), offset))
    reasons = found["reasons"]
    assert isinstance(reasons, list) and str(found["summary"]).endswith(reasons[0]["text"])
    return [each["code"] for each in reasons]


def ahead(broker: OneVhost, offset: int) -> int:
    found = explained(broker.vhost, Nobody(), MessagePlace(broker.vhost.catalog.queue(b"q"), offset))["reasons"]
    assert isinstance(found, list)
    return next((each["ahead"] for each in found if "ahead" in each), 0)


def test_every_code_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "reasons.md").read_text(encoding="utf-8")
    for code, meaning in CODES.items():
        assert f"| `{code}` | {meaning} |" in page


def test_every_reason_to_hold_a_connection_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "reasons.md").read_text(encoding="utf-8")
    assert len(NAMES) == COUNT
    assert NAMES[QUEUE_SHARE] == "queue_share" and NAMES[SEND_SHARE] == "send_share"
    for name, sentence in SENTENCES.items():
        assert f"| `{name}` | {sentence} |" in page


def test_reasons_are_told_the_worst_first() -> None:
    found = worst_first([Reason("leased", ""), Reason("gone", ""), Reason("no_consumers", "")])
    assert [each.code for each in found] == ["gone", "no_consumers", "leased"]


def test_lengths_of_time_are_told_in_their_unit() -> None:
    lengths = (-5, 5_000, 1_500_000, 119_000_000, 600_000_000, 8_000_000_000)
    assert [duration(us) for us in lengths] == ["0 ms", "5 ms", "2 s", "119 s", "10 min", "2 h"]


def test_how_many_stand_before_it_follows_what_comes_back(broker: OneVhost) -> None:
    for number in range(6):
        broker.publish(b"", b"q", b"%d" % number)
    broker.settle()
    assert [ahead(broker, offset) for offset in range(6)] == [0, 1, 2, 3, 4, 5]
    lease = broker.taken(b"q")
    other = broker.taken(b"q")
    broker.settle()
    assert codes(broker, 0) == ["leased"]
    assert [ahead(broker, offset) for offset in range(2, 6)] == [0, 1, 2, 3]
    broker.vhost.settling.nack(other, other.first, 1, 0)
    broker.settle()
    assert [ahead(broker, offset) for offset in (1, 2, 5)] == [0, 1, 4]
    broker.vhost.settling.ack(lease, lease.first, 1)
    broker.settle()
    assert codes(broker, 0) == ["gone"]
    assert codes(broker, 6) == ["not_there"]
    assert codes(broker, 1) == ["no_consumers"]


def test_a_search_goes_through_all_queues_in_steps(broker: OneVhost) -> None:
    broker.declare(b"r")
    for turn in range(450):  # a block each
        properties = Properties()
        properties.message_id = f"m{turn % 3}"
        broker.publish(
            b"", b"qr"[turn % 2 : turn % 2 + 1], b"m1 in a body is no message id", format_of(AMQP091).encode(properties)
        )
        broker.settle()
    queues = [broker.vhost.catalog.queue(name) for name in (b"q", b"r")]
    search = Search(broker.vhost, queues, "m1")
    steps = 0
    while not search.is_done:
        search.step()
        steps += 1
    assert steps > 1
    assert len(search.found) == 150
    assert {place.queue.name for place in search.found} == {b"q", b"r"}
    offsets = [place.offset for place in search.found if place.queue.name == b"q"]
    assert offsets == sorted(offsets, reverse=True)  # the newest first
    assert not Search(broker.vhost, queues, "m4").found


def test_a_message_that_is_kept_for_one_group_alone_names_it(broker: OneVhost) -> None:
    vhost = broker.vhost
    for number in range(4):
        broker.publish(b"", b"q", b"%d" % number)
    vhost.consumers.cancel(vhost.consumers.consume(b"q", 1, 1, b"c", False, False, 0, {"x-consumer-group": "audit"}))
    for _ in range(3):
        lease = broker.taken(b"q")
        vhost.settling.ack(lease, lease.first, 1)
    broker.turn()
    found = explained(vhost, Nobody(), MessagePlace(vhost.catalog.queue(b"q"), 1))
    reasons = found["reasons"]
    assert isinstance(reasons, list)
    reason = next(each for each in reasons if each["code"] == "pinned")
    assert reason["text"] == (
        "the log keeps it for group 'audit' alone, which is at offset 0: 3 messages would go without it; "
        "it has settled nothing since the broker started, and has no consumers"
    )
    assert (reason["group"], reason["frees_messages"]) == ("audit", 3)
    pin = found["pinned_by"]
    assert isinstance(pin, dict) and (pin["group"], pin["messages"]) == ("audit", 4)
    assert "pinned" not in codes(broker, 3)


def test_a_message_that_is_kept_for_a_reader_alone_names_it(broker: OneVhost) -> None:
    broker.publish(b"", b"q", b"x")
    broker.turn()
    hold(broker.vhost.catalog, broker.vhost.catalog.queue(b"q"), b"spark", 0, 60_000_000, broker.clock.us)
    lease = broker.taken(b"q")
    broker.vhost.settling.ack(lease, 0, 1)
    broker.turn()
    assert codes(broker, 0) == ["gone", "pinned"]
