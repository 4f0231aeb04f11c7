"""Declarations: what a queue can be made of, and what may be declared again."""

from __future__ import annotations

import pytest

from forebay.core.errors import LOCKED, PRECONDITION, RequestError
from forebay.queue.declaration.spec import QueueSpec, check_declaration
from forebay.queue.queue import CLASSIC, QUORUM, STREAM, kind_of

WHERE = "queue 'q' in vhost '/'"
Arguments = dict[str, object]


def spec_of(arguments: Arguments, exclusive: bool = False) -> QueueSpec:
    return QueueSpec(True, False, exclusive, arguments, 30_000)


def again(first: Arguments, second: Arguments, any_type: bool = False) -> str:
    """What a second declaration of the queue is told; empty if it is the same."""
    try:
        spec_of(first).check_equivalent(WHERE, True, False, False, second, any_type)
    except RequestError as error:
        prefix, suffix = error.text.split(f" for {WHERE}: ")
        return prefix.removeprefix("inequivalent arg ") + ": " + suffix
    return ""


def test_the_type_is_an_argument_and_makes_the_kind() -> None:
    kinds = {None: CLASSIC, "classic": CLASSIC, "quorum": QUORUM, "stream": STREAM}
    for name, kind in kinds.items():
        spec = spec_of({} if name is None else {"x-queue-type": name})
        assert (spec.type, kind_of(spec)) == (name or "classic", kind)


@pytest.mark.parametrize(
    ("value", "fault"),
    [("x", "\"unsupported queue type 'x'\""), (5, "{unacceptable_type,signedint}")],
)
def test_another_type_is_refused(value: object, fault: str) -> None:
    with pytest.raises(RequestError) as caught:
        check_declaration(WHERE, False, True, False, False, {"x-queue-type": value})
    assert caught.value.text == f"invalid arg 'x-queue-type' for {WHERE}: {fault}"


@pytest.mark.parametrize("queue_type", ["quorum", "stream"])
@pytest.mark.parametrize(
    ("durable", "exclusive", "auto_delete", "wrong"),
    [
        (False, False, False, "non-durable"),
        (True, True, False, "exclusive-owner"),
        (True, False, True, "auto-delete"),
        (False, True, False, "exclusive-owner"),
    ],
)
def test_what_must_last_is_durable_and_nobodys(
    queue_type: str, durable: bool, exclusive: bool, auto_delete: bool, wrong: str
) -> None:
    with pytest.raises(RequestError) as caught:
        check_declaration(WHERE, False, durable, exclusive, auto_delete, {"x-queue-type": queue_type})
    assert (caught.value.reason, caught.value.text) == (PRECONDITION, f"invalid property '{wrong}' for {WHERE}")
    check_declaration(WHERE, False, durable, exclusive, auto_delete, {"x-queue-type": "classic"})


@pytest.mark.parametrize("queue_type", ["quorum", "stream"])
def test_only_a_classic_queue_may_leave_its_name_to_the_broker(queue_type: str) -> None:
    with pytest.raises(RequestError) as caught:
        check_declaration(WHERE, True, True, False, False, {"x-queue-type": queue_type})
    assert caught.value.text == f"Cannot declare a server-named queue for type rabbit_{queue_type}_queue"
    check_declaration(WHERE, True, True, False, False, {})


# Measured on RabbitMQ 4.0.
@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        ({"x-message-ttl": 5}, {}, "'x-message-ttl': received none but current is the value '5' of type 'signedint'"),
        ({}, {"x-message-ttl": 5}, "'x-message-ttl': received the value '5' of type 'signedint' but current is none"),
        ({"x-message-ttl": 5}, {"x-message-ttl": 6}, "'x-message-ttl': received '6' but current is '5'"),
        (
            {"x-message-ttl": 5},
            {"x-message-ttl": "5"},
            "'x-message-ttl': received '5' (longstr) but current is '5' (signedint)",
        ),
        (
            {"x-single-active-consumer": True},
            {"x-single-active-consumer": "true"},
            "'x-single-active-consumer': received 'true' (longstr) but current is 'true' (bool)",
        ),
        ({"x-message-ttl": 5}, {"x-message-ttl": 5}, ""),
        (
            {"x-dead-letter-exchange": "a"},
            {},
            "'x-dead-letter-exchange': received none but current is the value 'a' of type 'longstr'",
        ),
        (
            {"x-single-active-consumer": True},
            {"x-single-active-consumer": False},
            "'x-single-active-consumer': received 'false' but current is 'true'",
        ),
        (
            {},
            {"x-single-active-consumer": False},
            "'x-single-active-consumer': received the value 'false' of type 'bool' but current is none",
        ),
        (
            {"x-max-length": 5, "x-message-ttl": 5, "x-expires": 70_000},
            {},
            "'x-expires': received none but current is the value '70000' of type 'signedint'",
        ),
        ({"x-ha-policy": "all"}, {"x-ha-policy": "nodes"}, ""),
        ({"x-ha-policy": "all"}, {}, ""),
        ({}, {"x-max-age": "1h"}, ""),
        ({}, {"x-queue-type": "classic"}, ""),
        ({"x-queue-type": "quorum"}, {}, "'x-queue-type': received 'classic' but current is 'quorum'"),
        ({}, {"x-queue-type": "stream"}, "'x-queue-type': received 'stream' but current is 'classic'"),
    ],
)
def test_a_second_declaration_is_compared_as_rabbitmq_compares_it(
    first: Arguments, second: Arguments, told: str
) -> None:
    assert again(first, second) == told


def test_relaxed_checks_let_another_type_pass_and_nothing_else() -> None:
    quorum: Arguments = {"x-queue-type": "quorum", "x-delivery-limit": 5}
    assert again(quorum, {"x-queue-type": "classic", "x-delivery-limit": 5}, True) == ""
    assert again(quorum, {}, True).startswith("'x-delivery-limit': received none")


def test_properties_come_before_arguments() -> None:
    spec = spec_of({"x-message-ttl": 5})
    for durable, auto_delete, told in ((False, False, "durable"), (True, True, "auto_delete")):
        with pytest.raises(RequestError, match=f"inequivalent arg '{told}'") as caught:
            spec.check_equivalent(WHERE, durable, False, auto_delete, {}, False)
        assert caught.value.reason == PRECONDITION


@pytest.mark.parametrize("exclusive", [False, True])
def test_exclusive_on_one_side_only_is_a_lock(exclusive: bool) -> None:
    with pytest.raises(RequestError, match="cannot obtain exclusive access to locked queue 'q' in vhost '/'") as caught:
        spec_of({}, exclusive).check_equivalent(WHERE, True, not exclusive, False, {}, False)
    assert caught.value.reason == LOCKED


def test_visibility_comes_from_the_argument_or_the_option() -> None:
    assert spec_of({}).visibility_ms == 30_000
    assert spec_of({"x-visibility-timeout": 5}).visibility_ms == 5
