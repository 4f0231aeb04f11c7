"""Arguments of a declaration: which type of queue knows them, and RabbitMQ's words where one is refused."""

from __future__ import annotations

import pytest

from forebay.core.errors import PRECONDITION, RequestError
from forebay.core.option_names import QUEUE_TYPES
from forebay.queue.declaration.arguments import (
    BY_KEY,
    FOREIGN,
    KNOWN,
    NO_QUEUE,
    SETTINGS,
    age_us,
    check_arguments,
    check_names,
    type_bit,
)

WHERE = "queue 'q' in vhost '/'"
# A value that each argument takes.
GOOD: dict[str, object] = {
    "x-message-ttl": 0,
    "x-expires": 1,
    "x-max-length": 5,
    "x-max-length-bytes": 5,
    "x-overflow": "reject-publish-dlx",
    "x-dead-letter-exchange": "",
    "x-dead-letter-routing-key": "k",
    "x-dead-letter-strategy": "at-least-once",
    "x-delivery-limit": -5,
    "x-delayed-retry-type": "failed",
    "x-delayed-retry-min": 0,
    "x-delayed-retry-max": 1,
    "x-delayed-retry-backoff": "exponential",
    "x-delayed-retry-multiplier": 1.5,
    "x-nack-counts": True,
    "x-retain": "7d",
    "x-retain-bytes": 1 << 30,
    "x-retain-length": 1000,
    "x-dlq": True,
    "x-single-active-consumer": True,
    "x-max-priority": 255,
    "x-priority-mode": "strict",
    "x-priority-expression": "/urgency",
    "x-consumer-timeout": 1000,
    "x-consumer-disconnected-timeout": 1000,
    "x-visibility-timeout": 10,
    "x-lease-period": 10,
    "x-semantics": "at-most-once",
    "x-max-backlog": 7,
    "x-max-subscription-backlog": 7,
    "x-deferred-ack": 0,
    "x-max-deliveries": 2,
    "x-max-cancels": 2,
    "x-dead-letter-reasons": "amps",
    "x-fairness": "proportional",
    "x-fair-key": "header.tenant",
    "x-fair-weight": "gold=5, *=1",
    "x-key-concurrency": 2,
    "x-leasing": "sublet",
    "x-max-message-size": 1000,
    "x-publish-filter": "priority > 3",
    "x-retry-timeout": 1000,
    "x-primary-group": "workers",
    "x-source": "orders",
    "x-recovery-point": "now",
    "x-filter": "priority > 3",
    "x-publish-target": "orders",
    "x-last-value-key": "/symbol",
    "x-max-age": "1h",
    "x-stream-max-segment-size-bytes": 1000,
    "x-stream-filter-size-bytes": 255,
    "x-initial-cluster-size": 3,
    "x-quorum-initial-group-size": 3,
    "x-max-in-memory-length": 3,
    "x-max-in-memory-bytes": 3,
    "x-queue-mode": "lazy",
    "x-queue-version": 2,
    "x-queue-leader-locator": "client-local",
    "x-queue-master-locator": "min-masters",
}


def refusal(queue_type: str, arguments: dict[str, object]) -> str:
    with pytest.raises(RequestError) as caught:
        check_arguments(queue_type, arguments, WHERE)
    assert caught.value.reason == PRECONDITION
    return caught.value.text


def test_every_argument_of_the_table_has_a_good_value_here() -> None:
    assert {setting.argument for setting in SETTINGS if setting.types != NO_QUEUE} == set(GOOD)


@pytest.mark.parametrize("queue_type", QUEUE_TYPES)
@pytest.mark.parametrize("name", sorted(GOOD))
def test_an_argument_of_another_type_is_refused_and_one_of_this_type_accepted(queue_type: str, name: str) -> None:
    arguments = {name: GOOD[name]}
    known = BY_KEY[name[2:]].types & type_bit(queue_type)
    if name == "x-dead-letter-routing-key" and known:
        arguments["x-dead-letter-exchange"] = "x"
    if known:
        check_arguments(queue_type, arguments, WHERE)
    else:
        assert refusal(queue_type, arguments) == (
            f"invalid arg '{name}' for queue 'q' in vhost '/' of queue type rabbit_{queue_type}_queue"
        )


def test_what_nothing_puts_in_force_is_refused_with_what_was_meant() -> None:
    for name, meant in (("x-max-lenght", "did you mean x-max-length?"), ("max-length", "did you mean x-max-length?")):
        with pytest.raises(RequestError) as caught:
            check_names({name: 5}, KNOWN, FOREIGN, WHERE)
        assert caught.value.reason == PRECONDITION
        assert caught.value.text == f"invalid arg '{name}' for {WHERE}: nothing puts it in force; {meant}"
    with pytest.raises(RequestError, match="x-barrier-expresion"):
        check_names({"x-barrier-expresion": "a"}, KNOWN, FOREIGN, WHERE)


def test_what_clients_of_rabbitmq_send_is_taken() -> None:
    check_names(dict.fromkeys((*KNOWN, *FOREIGN), object()), KNOWN, FOREIGN, WHERE)


# Measured on RabbitMQ 4.0.
@pytest.mark.parametrize(
    ("queue_type", "name", "value", "fault"),
    [
        ("classic", "x-message-ttl", -1, "{value_negative,-1}"),
        ("classic", "x-message-ttl", "5", '"expected integer, got longstr"'),
        ("classic", "x-message-ttl", True, '"expected integer, got bool"'),
        ("classic", "x-message-ttl", None, '"expected integer, got void"'),
        ("classic", "x-message-ttl", [1], '"expected integer, got array"'),
        ("classic", "x-message-ttl", {}, '"expected integer, got table"'),
        ("classic", "x-message-ttl", 1.5, '"expected integer, got double"'),
        ("classic", "x-expires", 0, "{value_zero,0}"),
        ("classic", "x-expires", -1, "{value_negative,-1}"),
        ("classic", "x-max-length", -1, "{value_negative,-1}"),
        ("classic", "x-overflow", "x", "invalid_overflow"),
        ("classic", "x-overflow", 5, "{unacceptable_type,signedint}"),
        ("classic", "x-dead-letter-routing-key", 5, "{unacceptable_type,signedint}"),
        ("classic", "x-dead-letter-routing-key", "k", "routing_key_but_no_dlx_defined"),
        ("quorum", "x-dead-letter-strategy", "x", "invalid_dlx_strategy"),
        ("classic", "x-single-active-consumer", "x", "{unacceptable_type,longstr}"),
        ("classic", "x-max-priority", -1, "{value_negative,-1}"),
        ("classic", "x-max-priority", 256, "{max_value_exceeded,256}"),
        ("classic", "x-expires", 315_360_000_001, "{value_too_large,315360000001}"),
        ("quorum", "x-message-ttl", 1 << 40, "{value_too_large,1099511627776}"),
        ("stream", "x-max-age", 5, "{unacceptable_type,signedint}"),
        ("stream", "x-max-age", "1w", "invalid_max_age"),
        ("stream", "x-initial-cluster-size", 0, "{value_zero,0}"),
        ("classic", "x-queue-mode", "x", "\"unsupported queue mode 'x'\""),
        ("classic", "x-queue-version", 3, "\"unsupported queue version '3'\""),
        ("classic", "x-queue-leader-locator", "x", "invalid_queue_locator_arg"),
    ],
)
def test_a_wrong_value_is_refused_as_rabbitmq_words_it(queue_type: str, name: str, value: object, fault: str) -> None:
    assert refusal(queue_type, {name: value}) == f"invalid arg '{name}' for queue 'q' in vhost '/': {fault}"


def test_a_dead_letter_exchange_is_a_name() -> None:
    assert refusal("classic", {"x-dead-letter-exchange": 5}) == (
        "invalid type 'signedint' for arg 'x-dead-letter-exchange' in queue 'q' in vhost '/'"
    )
    check_arguments("classic", {"x-dead-letter-exchange": b"\xff"}, WHERE)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-delivery-limit", "5"),
        ("x-delayed-retry-type", "some"),
        ("x-priority-mode", "loose"),
        ("x-visibility-timeout", 0),
        ("x-primary-group", 5),
        ("x-stream-filter-size-bytes", 15),
        ("x-stream-filter-size-bytes", 256),
        ("x-consumer-timeout", -1),
        ("x-delayed-retry-multiplier", 0.5),
        ("x-delayed-retry-multiplier", "2"),
        ("x-delayed-retry-multiplier", True),
        ("x-nack-counts", 1),
    ],
)
def test_a_wrong_value_that_rabbitmq_takes_or_does_not_know_is_refused_too(name: str, value: object) -> None:
    assert refusal("quorum", {name: value}).startswith(f"invalid arg '{name}' for queue 'q' in vhost '/': ")


def test_a_linear_backoff_has_no_multiplier() -> None:
    assert "no multiplier" in refusal("quorum", {"x-delayed-retry-multiplier": 3, "x-delayed-retry-backoff": "linear"})
    check_arguments("quorum", {"x-delayed-retry-multiplier": 3, "x-delayed-retry-backoff": "exponential"}, WHERE)


def test_a_segment_of_a_stream_has_a_greatest_size() -> None:
    check_arguments("stream", {"x-stream-max-segment-size-bytes": 3_000_000_000}, WHERE)
    assert "x-stream-max-segment-size-bytes" in refusal("stream", {"x-stream-max-segment-size-bytes": 3_000_000_001})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1s", 1), ("90s", 90), ("2m", 120), ("3h", 10_800), ("7D", 604_800), ("1M", 2_592_000), ("1Y", 31_536_000)],
)
def test_max_age_has_a_number_and_a_unit(text: str, seconds: int) -> None:
    assert age_us(text) == seconds * 1_000_000


@pytest.mark.parametrize("text", ["", "D", "7", "7d", "-1D", "0D", "1.5h", "٣D", "9999999999s", "1hh"])
def test_another_max_age_is_none(text: str) -> None:
    assert age_us(text) == -1
