"""What a queue delivers before the turn's end, for somebody who asks what is left of it then."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.vhosts import OneVhost


@pytest.fixture
def broker(tmp_path: Path) -> OneVhost:
    broker = OneVhost(tmp_path)
    broker.declare(b"q")
    return broker


@pytest.mark.parametrize("closes", [False, True])
def test_who_leaves_in_the_same_turn_gets_nothing_and_somebody_else_does(broker: OneVhost, closes: bool) -> None:
    """The records are in one place: a client that has left its subscription would get what is ready again."""
    consumer = broker.vhost.consumers.consume(b"q", 1, 1, b"c", False, False, 1, {})
    broker.publish(b"", b"q", b"x")
    assert broker.vhost.consumers.get(b"q", 2, 1, True) is None, "the consumer comes first"
    if closes:
        broker.vhost.session_closed(1)
    else:
        broker.vhost.consumers.cancel(consumer)
    got = broker.vhost.consumers.get(b"q", 2, 1, True)
    assert got is not None and got.block.body(got.index) == b"x"
    assert broker.deliveries() == []


def test_what_needs_no_settlement_still_goes_to_whom_it_was_handed(broker: OneVhost) -> None:
    consumer = broker.vhost.consumers.consume(b"q", 1, 1, b"c", True, False, 0, {})
    broker.publish(b"", b"q", b"x")
    assert broker.vhost.consumers.get(b"q", 2, 1, True) is None
    broker.vhost.consumers.cancel(consumer)
    assert [(each.consumer, each.count) for each in broker.deliveries()] == [(consumer, 1)]


def test_what_was_handed_out_early_comes_first(broker: OneVhost) -> None:
    consumer = broker.vhost.consumers.consume(b"q", 1, 1, b"c", False, False, 0, {})
    for body in (b"1", b"2"):
        broker.publish(b"", b"q", body)
        broker.vhost.dispatcher.catch_up(broker.vhost.catalog.queue(b"q"))
    broker.publish(b"", b"q", b"3")
    bodies = [each.block.body(each.index) for each in broker.deliveries() if each.consumer is consumer]
    assert bodies == [b"1", b"2", b"3"]
