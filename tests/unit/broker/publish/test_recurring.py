"""Messages that recur: each time once, through restarts and crashes, and after a time away once and not for each."""

from __future__ import annotations

from pathlib import Path

import pytest
from mypy_extensions import u8

from forebay.broker.publish.headers import read_publish_headers
from forebay.core.errors import RequestError
from forebay.core.message import ACCEPTED, AMQP091
from forebay.management.operations.pending import delayed_fields
from forebay.message.formats.table import EXCHANGE_FORMAT
from tests.vhosts import EMPTY, OneVhost

HOUR_US = 3_600_000_000
QUEUE = b"reports"


@pytest.fixture
def broker(tmp_path: Path) -> OneVhost:
    made = OneVhost(tmp_path / "data")
    made.declare(QUEUE)
    made.settle()
    return made


def schedule(broker: OneVhost, cron: str, id: str = "daily", body: bytes = b"now", **further: object) -> int:
    """Publish a message that recurs, as a client of AMQP 0.9.1 does; return what became of it."""
    added = [
        ("x-cron", cron),
        ("x-delay-id", id),
        *[(name.replace("_", "-"), value) for name, value in further.items()],
    ]
    headers = read_publish_headers(EXCHANGE_FORMAT, EXCHANGE_FORMAT.edit(EMPTY, [], added))
    route = broker.vhost.router.route(b"", QUEUE)
    outcome = broker.vhost.publishing.publish_with_headers(route, headers, u8(AMQP091), body, b"guest")
    broker.settle()
    return outcome.status


def pass_hours(broker: OneVhost, hours: int) -> None:
    """Let so many hours go by, with a tick in each of them."""
    for _ in range(hours):
        broker.tick(HOUR_US)
        broker.settle()


def test_it_comes_at_each_of_its_times(broker: OneVhost) -> None:
    assert schedule(broker, "0 * * * *") == ACCEPTED
    pass_hours(broker, 5)
    assert broker.kept(QUEUE) == [b"now"] * 5
    assert broker.vhost.delayed.count() == 1


def test_each_delivery_has_no_header_by_which_it_would_recur_if_it_were_published_again(broker: OneVhost) -> None:
    schedule(broker, "0 * * * *", x_cron_time_zone="Europe/Berlin")
    pass_hours(broker, 1)
    log = broker.vhost.catalog.queue(QUEUE).log
    block = log.block(0)
    assert block is not None
    assert EXCHANGE_FORMAT.headers(block.properties(0)) == {"x-delay-id": "daily"}


def test_after_a_time_away_it_comes_once(broker: OneVhost) -> None:
    schedule(broker, "*/10 * * * *")
    broker.flush()
    broker.crash()
    broker.tick(30 * HOUR_US)
    broker.settle()
    assert broker.kept(QUEUE) == [b"now"]
    pass_hours(broker, 1)
    assert len(broker.kept(QUEUE)) == 2, "its next time is behind the time away"


@pytest.mark.parametrize("end", ["crash", "restart"])
def test_no_end_publishes_it_twice_or_ends_it(broker: OneVhost, end: str) -> None:
    schedule(broker, "0 * * * *")
    for count in range(1, 6):
        pass_hours(broker, 1)
        broker.flush()
        getattr(broker, end)()
        broker.settle()
        assert len(broker.kept(QUEUE)) == count
    assert broker.vhost.delayed.count() == 1


def test_one_of_the_same_name_replaces_it_and_it_can_be_cancelled(broker: OneVhost) -> None:
    schedule(broker, "0 * * * *", body=b"old")
    schedule(broker, "0 * * * *", body=b"new")
    pass_hours(broker, 1)
    assert broker.kept(QUEUE) == [b"new"]
    assert broker.vhost.delayed.cancel(b"daily")
    pass_hours(broker, 3)
    assert broker.kept(QUEUE) == [b"new"]


def test_it_is_listed_with_its_times(broker: OneVhost) -> None:
    schedule(broker, "0 18 * * 1-5", x_cron_time_zone="Europe/Berlin")
    due_us, offset = broker.vhost.delayed.times[0]
    fields = delayed_fields(broker.vhost.delayed, due_us, offset)
    assert (fields["key"], fields["cron"], fields["time_zone"]) == ("daily", "0 18 * * 1-5", "Europe/Berlin")


def test_a_delay_beside_it_is_refused(broker: OneVhost) -> None:
    with pytest.raises(RequestError, match="x-cron: '0 \\* \\* \\* \\*' does not go with a delay"):
        schedule(broker, "0 * * * *", x_delay=5)
