"""What headers ask for: found where it is, passed over where it only looks so, refused where it is nonsense."""

from __future__ import annotations

from pathlib import Path

import pytest
from mypy_extensions import u8

from forebay.broker.publish.headers import read_publish_headers
from forebay.core.errors import INVALID, PRECONDITION, RequestError
from forebay.core.message import ACCEPTED, AMQP091, REJECTED, UNROUTABLE, Properties
from forebay.message.formats.table import EXCHANGE_FORMAT
from forebay.message.requests import DELAY_MS_MAX
from forebay.wire.amqp091.properties import encode_properties, headers_of
from tests.vhosts import OneVhost

FORMAT = u8(AMQP091)


def properties(**headers: object) -> bytes:
    """With these headers, `_` standing for `-`."""
    made = Properties()
    made.message_id = "id"
    made.headers = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return encode_properties(made)


def test_copies() -> None:
    found = read_publish_headers(EXCHANGE_FORMAT, properties(a=1, CC=["b", b"\xff", 5, None], BCC=["c"]))
    assert found.keys == [b"b", b"\xff", b"c"]
    assert [name for name, _ in headers_of(found.properties, 4)] == ["a", "CC"]
    assert [name for name, _ in headers_of(found.delayed, 4)] == ["a", "CC", "BCC"]


@pytest.mark.parametrize(
    ("delay", "us"), [(5, 5000), (0, 0), (-5, 0), (2.9, 2000), (DELAY_MS_MAX, DELAY_MS_MAX * 1000)]
)
def test_delays(delay: float, us: int) -> None:
    asked = properties(x_delay=delay, x_delay_id="name", BCC=["c"])
    found = read_publish_headers(EXCHANGE_FORMAT, asked)
    assert (found.delay_us, found.delay_id) == (us, b"name" if us else b"")
    kept = dict(headers_of(found.delayed, 4))
    assert kept["x-delay"] == (-(us // 1000) if us else delay)
    assert kept["BCC"] == ["c"]
    assert read_publish_headers(EXCHANGE_FORMAT, found.delayed).delay_us == 0  # what has waited waits no more


@pytest.mark.parametrize("delay", ["5", True, None, [], DELAY_MS_MAX + 1, 1e300, float("nan"), float("-inf")])
def test_delays_that_are_none(delay: object) -> None:
    with pytest.raises(RequestError, match="invalid x-delay header: ") as caught:
        read_publish_headers(EXCHANGE_FORMAT, properties(x_delay=delay))
    assert caught.value.reason == PRECONDITION


def test_a_delay_id_that_is_no_text() -> None:
    with pytest.raises(RequestError, match="invalid x-delay-id header: 5"):
        read_publish_headers(EXCHANGE_FORMAT, properties(x_delay=1, x_delay_id=5))


def test_who_it_is() -> None:
    found = read_publish_headers(EXCHANGE_FORMAT, properties(x_producer_id="p", x_sequence=7)).identity
    assert found is not None
    assert (found.producer, found.sequence, found.key) == (b"p", 7, b"")
    assert read_publish_headers(EXCHANGE_FORMAT, properties(CC=[])).identity is None
    with pytest.raises(RequestError) as caught:
        read_publish_headers(EXCHANGE_FORMAT, properties(x_sequence=7))
    assert caught.value.reason == INVALID


# ---- on a vhost


@pytest.fixture
def rig(tmp_path: Path) -> OneVhost:
    made = OneVhost(tmp_path)
    made.declare(b"q")
    made.declare(b"r")
    made.turn()
    return made


def send(rig: OneVhost, key: bytes, body: bytes, **headers: object) -> int:
    vhost = rig.vhost
    return vhost.publishing.publish_with_headers(
        vhost.router.route(b"", key),
        read_publish_headers(EXCHANGE_FORMAT, properties(**headers)),
        FORMAT,
        body,
        b"ada",
    ).status


def test_a_delayed_message_goes_where_its_address_leads_when_it_is_due(rig: OneVhost) -> None:
    assert send(rig, b"later", b"x", x_delay=1000, BCC=["r"]) == ACCEPTED
    rig.later(500)
    assert rig.kept(b"r") == []
    rig.declare(b"later")
    rig.later(500)
    assert rig.kept(b"later") == [b"x"]
    assert rig.kept(b"r") == [b"x"]


def test_a_delayed_message_whose_exchange_is_gone_is_dropped(rig: OneVhost) -> None:
    vhost = rig.vhost
    vhost.catalog.declare_exchange(b"e", b"direct", True, False, False, {})
    special = read_publish_headers(EXCHANGE_FORMAT, properties(x_delay=1000))
    route = vhost.router.route(b"e", b"k")
    assert vhost.publishing.publish_with_headers(route, special, FORMAT, b"x", b"ada").status == ACCEPTED
    vhost.catalog.delete_exchange(b"e", False)
    rig.later(1000)
    assert vhost.delayed.count() == 0


def test_a_delay_id_replaces_and_is_checked(rig: OneVhost) -> None:
    assert send(rig, b"q", b"first", x_delay=1000, x_delay_id="a:b") == ACCEPTED
    assert send(rig, b"q", b"second", x_delay=2000, x_delay_id="a:b") == ACCEPTED
    waiting = rig.vhost.delayed.listed(10)
    assert [(each.key, each.exchange, each.topic, each.body) for each in waiting] == [(b"a:b", b"", b"q", b"second")]
    with pytest.raises(RequestError, match="invalid x-delay-id header: ") as caught:
        send(rig, b"q", b"x", x_delay=1000, x_delay_id="k" * 256)
    assert caught.value.reason == PRECONDITION


def test_what_no_queue_took_was_not_taken(rig: OneVhost) -> None:
    assert send(rig, b"none", b"x", x_deduplication_key="k") == UNROUTABLE
    rig.declare(b"none")
    assert send(rig, b"none", b"x", x_deduplication_key="k") == ACCEPTED
    rig.declare(b"full", x_max_length=0, x_overflow="reject-publish")
    for _ in range(2):
        assert send(rig, b"full", b"x", x_deduplication_key="k") == REJECTED
    rig.turn()
    assert rig.kept(b"none") == [b"x"]


def test_a_delayed_message_is_taken_once_when_it_is_published(rig: OneVhost) -> None:
    for _ in range(2):
        assert send(rig, b"q", b"x", x_delay=1000, x_deduplication_key="k") == ACCEPTED
    rig.later(1000)
    assert rig.kept(b"q") == [b"x"]
