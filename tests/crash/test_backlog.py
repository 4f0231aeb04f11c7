"""kill -9 while a durable session is away: all that its publishers have an acknowledgement for comes, in order."""

from __future__ import annotations

from collections.abc import Callable

from tests.broker_process import BrokerProcess
from tests.flow import Reader, sent_until_acknowledged

COUNT = 50_000


def test_a_session_that_is_away_loses_nothing(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    Reader(broker, "away", "t", clean=False).leave()
    sent_until_acknowledged(broker, "t", COUNT, window=1000)
    broker.kill9()
    broker.start()
    back = Reader(broker, "away", clean=False)
    back.take(COUNT)
    assert back.all() == list(range(COUNT))
    back.close()
