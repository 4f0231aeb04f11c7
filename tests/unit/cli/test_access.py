"""Operations that a command runs portion by portion."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from forebay.cli import access
from forebay.cli.access import AdminAccess, go_through
from forebay.cli.progress import ProgressBar
from forebay.client.control import ControlClient
from tests.broker_process import BrokerProcess
from tests.unit.cli.commands import Forebay


def test_what_a_bar_expects_is_messages_and_not_offsets(broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    @contextmanager
    def bar_in_hand(what: str, total: float | None) -> Iterator[ProgressBar]:
        bar = ProgressBar(what, total)
        yield bar
        shown.append(bar.counted())

    monkeypatch.setattr(access, "progress_bar", bar_in_hand)
    monkeypatch.setattr(access, "PORTION", 2)
    forebay = Forebay(broker)
    forebay("queue", "declare", "orders")
    forebay("queue", "declare", "dead")
    forebay("publish", "-q", "dead", "x", "-n", "5")
    forebay("consume", "-q", "dead", "-n", "2")  # the first message is at offset 2
    with ControlClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest") as client:
        found = go_through(AdminAccess(client, "/", False), "dlq.redrive", "sent back", queue="dead", to="orders")
    assert found == (3, 0)
    assert shown == ["3 of 3"]
