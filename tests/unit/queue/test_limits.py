"""What is in force for a queue: who goes first, and in which units."""

from __future__ import annotations

import pytest

from forebay.queue.declaration.limits import (
    DROP_HEAD,
    FAIR,
    NO_PRIORITY,
    REJECT_PUBLISH,
    RETRY_DISABLED,
    RETRY_FAILED,
    STRICT,
    Limits,
    limits_of,
)
from forebay.queue.declaration.spec import QueueSpec

Table = dict[str, object]


def limits(
    arguments: Table, policy: Table | None = None, operator_policy: Table | None = None, delivery_limit: int = -1
) -> Limits:
    return limits_of(
        QueueSpec(True, False, False, arguments, 30_000), policy or {}, operator_policy or {}, delivery_limit
    )


def quorum(arguments: Table) -> Table:
    return {"x-queue-type": "quorum", **arguments}


def test_nothing_is_limited_unless_somebody_asks() -> None:
    free = limits({})
    assert (free.message_ttl_us, free.expires_us, free.max_messages, free.max_octets) == (-1, 0, -1, -1)
    assert (free.overflow, free.dead_letter_exchange, free.dead_letter_key, free.at_least_once) == (
        DROP_HEAD,
        None,
        None,
        False,
    )
    assert (free.delivery_limit, free.retry_type, free.single_active) == (-1, RETRY_DISABLED, False)
    assert (free.priority_mode, free.consumer_timeout_us, free.visibility_us, free.max_age_us) == (NO_PRIORITY, 0, 0, 0)


def test_arguments_become_limits() -> None:
    made = limits(
        {
            "x-message-ttl": 0,
            "x-expires": 7,
            "x-max-length": 5,
            "x-max-length-bytes": 0,
            "x-overflow": "reject-publish",
            "x-dead-letter-exchange": "dead",
            "x-dead-letter-routing-key": b"\xff",
            "x-dead-letter-strategy": "at-least-once",
            "x-delivery-limit": 3,
            "x-single-active-consumer": True,
            "x-consumer-timeout": 9,
            "x-visibility-timeout": 10,
        }
    )
    assert (made.message_ttl_us, made.expires_us, made.max_messages, made.max_octets) == (0, 7000, 5, 0)
    assert (made.overflow, made.dead_letter_exchange, made.dead_letter_key) == (REJECT_PUBLISH, b"dead", b"\xff")
    assert made.at_least_once and made.single_active
    assert (made.delivery_limit, made.consumer_timeout_us, made.visibility_us) == (3, 9000, 10_000)


def test_a_stream_has_its_retention() -> None:
    made = limits({"x-queue-type": "stream", "x-max-age": "1h", "x-max-length": 5, "x-max-length-bytes": 1 << 40})
    assert (made.max_age_us, made.max_messages, made.max_octets) == (3_600_000_000, 5, 1 << 40)


# The first seven were measured on RabbitMQ 4.0: the lowest number of all three.
@pytest.mark.parametrize(
    ("argument", "policy", "operator_policy", "in_force"),
    [
        (10, 5, None, 5),
        (5, 10, None, 5),
        (None, 5, 10, 5),
        (None, 10, 5, 5),
        (5, None, 10, 5),
        (10, None, 5, 5),
        (10, 5, 8, 5),
        (None, 0, 8, 0),
        (None, None, None, -1),
    ],
)
def test_of_numbers_that_limit_the_lowest_is_in_force(
    argument: int | None, policy: int | None, operator_policy: int | None, in_force: int
) -> None:
    made = limits(
        {} if argument is None else {"x-max-length": argument},
        {} if policy is None else {"max-length": policy},
        {} if operator_policy is None else {"max-length": operator_policy},
    )
    assert made.max_messages == in_force


def test_an_operator_goes_before_an_argument_before_a_policy() -> None:
    argument: Table = {"x-overflow": "reject-publish"}
    assert limits(argument, {"overflow": "drop-head"}).overflow == REJECT_PUBLISH
    assert limits(argument, {}, {"overflow": "drop-head"}).overflow == DROP_HEAD
    assert limits({}, {"overflow": "reject-publish"}).overflow == REJECT_PUBLISH
    assert limits({"x-dead-letter-exchange": "a"}, {"dead-letter-exchange": "b"}).dead_letter_exchange == b"a"
    assert limits({"x-consumer-timeout": 9}, {"consumer-timeout": 5}).consumer_timeout_us == 9000


def test_a_queue_heeds_only_what_its_type_knows() -> None:
    policy: Table = {"message-ttl": 5, "max-age": "1h", "max-length": 5, "max-length-bytes": 6}
    stream = limits({"x-queue-type": "stream"}, policy)
    assert (stream.message_ttl_us, stream.max_age_us, stream.max_octets) == (-1, 3_600_000_000, 6)
    assert stream.max_messages == -1  # as RabbitMQ's streams, which know no such policy
    own = limits({"x-queue-type": "stream", "x-message-ttl": 7, "x-max-length": 8}, policy)
    assert (own.message_ttl_us, own.max_messages) == (7000, 8)
    classic = limits({}, policy)
    assert (classic.message_ttl_us, classic.max_age_us, classic.max_messages) == (5000, 0, 5)


def test_the_delivery_limit_of_a_quorum_queue_is_20_and_of_a_classic_queue_the_options() -> None:
    assert limits(quorum({})).delivery_limit == 20
    assert limits(quorum({}), delivery_limit=7).delivery_limit == 20
    assert limits({}, delivery_limit=7).delivery_limit == 7
    assert limits(quorum({"x-delivery-limit": -1})).delivery_limit == -1
    assert limits(quorum({"x-delivery-limit": -9}), {"delivery-limit": 4}).delivery_limit == 4
    assert limits(quorum({"x-delivery-limit": 0})).delivery_limit == 0


@pytest.mark.parametrize(
    ("arguments", "mode", "most"),
    [
        ({}, NO_PRIORITY, 0),
        ({"x-max-priority": 0}, NO_PRIORITY, 0),
        ({"x-max-priority": 10}, STRICT, 10),
        ({"x-max-priority": 10, "x-priority-mode": "fair"}, FAIR, 0),
        ({"x-priority-mode": "strict"}, STRICT, 31),
        ({"x-queue-type": "quorum"}, FAIR, 0),
        ({"x-queue-type": "quorum", "x-priority-mode": "strict"}, STRICT, 31),
        ({"x-queue-type": "stream"}, NO_PRIORITY, 0),
    ],
)
def test_priorities(arguments: Table, mode: int, most: int) -> None:
    made = limits(arguments)
    assert (made.priority_mode, made.max_priority) == (mode, most)


@pytest.mark.parametrize("arguments", [{"x-overflow": "drop-head"}, {"x-overflow": "reject-publish-dlx"}, {}])
def test_at_least_once_needs_publishes_to_be_refused(arguments: Table) -> None:
    asked = {"x-dead-letter-exchange": "", "x-dead-letter-strategy": "at-least-once"}
    assert not limits({**asked, **arguments}).at_least_once
    assert limits({**asked, "x-overflow": "reject-publish"}).at_least_once
    assert not limits({"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}).at_least_once


def test_the_longest_delay_of_a_retry_is_at_least_the_shortest() -> None:
    made = limits({"x-delayed-retry-type": "failed", "x-delayed-retry-min": 5})
    assert (made.retry_type, made.retry_min_us, made.retry_max_us) == (RETRY_FAILED, 5000, 5000)
    made = limits({"x-delayed-retry-min": 5, "x-delayed-retry-max": 3})
    assert (made.retry_type, made.retry_min_us, made.retry_max_us) == (RETRY_DISABLED, 5000, 5000)
    assert limits({"x-delayed-retry-min": 5}, {"delayed-retry-max": 8}).retry_max_us == 8000


@pytest.mark.parametrize("huge", [1 << 63, 1 << 64, 10**30])
def test_numbers_beyond_all_use_are_cut_to_what_fits(huge: int) -> None:
    made = limits({"x-message-ttl": huge, "x-max-length": huge})
    assert made.message_ttl_us == 10**18
    assert made.max_messages == 1 << 62


def test_limits_become_others() -> None:
    mine = Limits()
    other = limits(
        quorum({"x-message-ttl": 5, "x-dead-letter-exchange": "d", "x-max-length": 7, "x-delivery-limit": 2})
    )
    mine.become(other)
    assert vars_of(mine) == vars_of(other) != vars_of(Limits())


def vars_of(made: Limits) -> dict[str, object]:
    """Every field, also of the compiled class, which has no `__dict__`."""
    found = {name: getattr(made, name) for name in dir(made) if not name.startswith("_")}
    return {name: value for name, value in found.items() if not callable(value)}
