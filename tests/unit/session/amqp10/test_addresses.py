"""What an address of AMQP 1.0 stands for, and why another one is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.errors import INVALID, RequestError
from forebay.session.amqp10.addresses import (
    ConsumeAddress,
    PublishAddress,
    exchange_path,
    parse_source,
    parse_target,
    queue_path,
)


def target(address: str, *capabilities: str, patterns: tuple[str, ...] = ()) -> PublishAddress:
    return parse_target(address, list(capabilities), list(patterns))


def source(address: str, *capabilities: str, patterns: tuple[str, ...] = ()) -> ConsumeAddress:
    return parse_source(address, list(capabilities), list(patterns))


@pytest.mark.parametrize(
    ("address", "exchange", "key"),
    [
        ("/exchanges/logs/a.b", b"logs", b"a.b"),
        ("/exchanges/logs", b"logs", b""),
        ("/exchanges/a%2Fb/%C3%A4%20%25", b"a/b", "ä %".encode()),
        ("/exchanges/späti/größe", "späti".encode(), "größe".encode()),
        ("/queues/orders", b"", b"orders"),
        ("/queues/%24queue%2Forders", b"", b"$queue/orders"),
        ("$queue/orders", b"", b"$queue/orders"),
        ("$queue/orders/eu/1", b"", b"$queue/orders/eu/1"),
        ("news::orders", b"", b"orders"),
        ("news/sport", b"amq.topic", b"news.sport"),
        ("news.sport", b"amq.topic", b"news/sport"),
    ],
)
def test_a_target_is_an_exchange_and_a_key(address: str, exchange: bytes, key: bytes) -> None:
    found = target(address)
    assert (found.exchange, found.routing_key) == (exchange, key)


@pytest.mark.parametrize(
    ("address", "queue", "topic"),
    [
        ("/queues/orders", b"orders", b""),
        ("/queues/a%2Fb", b"a/b", b""),
        ("$queue/orders", b"$queue/orders", b""),
        ("$queue/orders/eu/+", b"$queue/orders/eu/+", b""),
        ("news::orders", b"orders", b""),
        ("news/+/#", b"", b"news.*.#"),
    ],
)
def test_a_source_is_a_queue_or_a_topic(address: str, queue: bytes, topic: bytes) -> None:
    found = source(address)
    assert (found.queue, found.topic) == (queue, topic)


def test_a_plain_name_is_a_queue_by_capability_or_pattern() -> None:
    name = "a/b c"
    for parse in (target, source):
        found = [parse(name, "queue"), parse(name, "temporary-queue"), parse(name, patterns=("x", "a/*"))]
        assert [(each.queue, each.is_declared) for each in found] == [(name.encode(), True)] * 3
        found = [parse(name, "topic", patterns=("*",)), parse(name, patterns=("b*",))]
        assert [(each.queue, each.is_declared) for each in found] == [(b"", False)] * 2


def test_the_queue_of_a_path_must_be_there() -> None:
    assert not target("/queues/orders", "queue").is_declared
    assert not source("/queues/orders", "queue").is_declared
    assert not target("$queue/orders", "queue").is_declared


@pytest.mark.parametrize(
    "address",
    [
        "",
        "/exchanges/",
        "/exchanges//key",
        "/exchanges/logs/",
        "/exchanges/logs/a/b",
        "/exchanges/amq.default/orders",
        "/queues/",
        "/queues/a/b",
        "/queues/%",
        "/queues/%4",
        "/queues/%zz",
        "/queues/%FF",
        "/queues/" + "q" * 256,
        "$queue/",
        "news::",
        "/exchange/logs/key",
        "/amq/queue/orders",
        "/queue/orders",
        "/topic/a",
    ],
)
def test_addresses_of_no_form_are_refused_by_name(address: str) -> None:
    for parse in (target, source):
        with pytest.raises(RequestError) as caught:
            parse(address)
        assert caught.value.reason == INVALID
        assert f"'{address}'" in str(caught.value)


def test_nothing_is_consumed_from_an_exchange() -> None:
    with pytest.raises(RequestError, match="consumed from a queue"):
        source("/exchanges/logs")


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60))
def test_a_path_leads_back_to_its_name(name: str) -> None:
    octets = name.encode()
    assert source(queue_path(octets)).queue == octets
    assert target(queue_path(octets)).routing_key == octets
    if name != "amq.default":
        both = target(exchange_path(octets, octets))
        assert (both.exchange, both.routing_key) == (octets, octets)
