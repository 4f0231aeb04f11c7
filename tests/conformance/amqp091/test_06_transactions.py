"""Transactions: tx.select, tx.commit and tx.rollback (AMQP 0.9.1 section 1.9, with RabbitMQ's answers)."""

from __future__ import annotations

from collections.abc import Callable

from tests.broker_process import AnyBroker
from tests.conformance.amqp091.raw import (
    ACK,
    CONFIRM_SELECT,
    DELIVER,
    GET,
    GET_EMPTY,
    GET_OK,
    NACK,
    RECOVER,
    RECOVER_OK,
    REJECT,
    RETURN,
    Raw,
    connect,
    method,
    number,
    publish,
    short,
    table,
)

SELECT, SELECT_OK, COMMIT, COMMIT_OK, ROLLBACK, ROLLBACK_OK = (90, 10), (90, 11), (90, 20), (90, 21), (90, 30), (90, 31)
MULTIPLE = 1
REQUEUE = 2


def do(raw: Raw, which: tuple[int, int], channel: int = 1) -> None:
    """One method of the class, and its answer."""
    raw.send(method(channel, which))
    raw.expect(channel, (which[0], which[1] + 1))


def get(raw: Raw, queue: str, channel: int = 1) -> tuple[int, bytes]:
    """Delivery tag and body of the next message."""
    raw.send(method(channel, GET, b"\0\0" + short(queue) + b"\0"))
    args = raw.expect(channel, GET_OK)
    return int.from_bytes(args[:8], "big"), raw.content(channel)[1]


def test_publishes_come_with_the_commit(broker: AnyBroker) -> None:
    with connect(broker, 2) as raw:
        raw.declare("q")
        do(raw, SELECT)
        raw.send(publish(1, "q", b"a"), publish(1, "q", b"b"))
        raw.sync()
        assert raw.count("q", 2)[0] == 0
        do(raw, COMMIT)
        assert raw.count("q", 2)[0] == 2
        raw.send(publish(1, "q", b"c"))
        do(raw, ROLLBACK)
        do(raw, COMMIT)  # of nothing
        assert raw.count("q", 2)[0] == 2
        assert [get(raw, "q", 2)[1] for _ in range(2)] == [b"a", b"b"]


def test_acknowledgements_come_with_the_commit(broker: AnyBroker) -> None:
    with connect(broker, 2) as raw:
        raw.declare("q")
        raw.fill("q", [b"a", b"b", b"c", b"d"], 2)
        do(raw, SELECT)
        for tag in range(1, 5):
            assert get(raw, "q")[0] == tag
        raw.settle(ACK, 2)
        raw.settle(REJECT, 4, 0)
        raw.settle(ACK, 3, MULTIPLE)
        do(raw, COMMIT)
        raw.send(method(1, RECOVER, b"\x01"))
        raw.expect(1, RECOVER_OK)
        assert raw.count("q", 2)[0] == 0


def test_after_a_rollback_deliveries_are_still_to_be_settled(broker: AnyBroker) -> None:
    with connect(broker, 2) as raw:
        raw.declare("q")
        raw.fill("q", [b"a", b"b"], 2)
        do(raw, SELECT)
        assert get(raw, "q") == (1, b"a")
        assert get(raw, "q") == (2, b"b")
        raw.settle(ACK, 0, MULTIPLE)
        do(raw, ROLLBACK)
        raw.settle(ACK, 1)
        raw.settle(NACK, 2, REQUEUE)
        raw.sync()
        assert raw.count("q", 2)[0] == 0  # nothing returns before the commit
        do(raw, COMMIT)
        assert raw.count("q", 2)[0] == 1
        assert get(raw, "q", 2)[1] == b"b"


def test_recover_gives_back_only_what_the_transaction_does_not_settle(broker: AnyBroker) -> None:
    with connect(broker, 2) as raw:
        raw.declare("q")
        raw.fill("q", [b"a", b"b", b"c"], 2)
        do(raw, SELECT)
        for tag in range(1, 4):
            assert get(raw, "q")[0] == tag
        raw.settle(ACK, 2)
        raw.send(method(1, RECOVER, b"\x01"))
        raw.expect(1, RECOVER_OK)
        assert raw.count("q", 2)[0] == 2
        do(raw, COMMIT)
        assert [get(raw, "q", 2)[1] for _ in range(2)] == [b"a", b"c"]
        raw.send(method(2, GET, b"\0\0" + short("q") + b"\0"))
        raw.expect(2, GET_EMPTY)


def test_an_end_of_the_channel_is_a_rollback(broker: AnyBroker) -> None:
    with connect(broker, 2) as raw:
        raw.declare("q")
        raw.fill("q", [b"a"], 2)
        do(raw, SELECT)
        assert get(raw, "q") == (1, b"a")
        raw.settle(ACK, 1)
        raw.send(publish(1, "q", b"b"))
        raw.send(method(1, (20, 40), b"\0\0\0\0\0\0\0"))
        raw.expect(1, (20, 41))
        assert get(raw, "q", 2)[1] == b"a"
        assert raw.count("q", 2)[0] == 0


def test_a_tag_is_settled_once(broker: AnyBroker) -> None:
    for first, second in ((0, 0), (MULTIPLE, 0), (0, MULTIPLE), (MULTIPLE, MULTIPLE)):
        queue = f"q{first}{second}"
        with connect(broker, 2) as raw:
            raw.declare(queue)
            raw.fill(queue, [b"a", b"b"], 2)
            do(raw, SELECT)
            get(raw, queue)
            get(raw, queue)
            raw.settle(ACK, 2, first)
            raw.settle(ACK, 2, second)
            raw.channel_closed(406, "PRECONDITION_FAILED - unknown delivery tag 2", cause=ACK)
            assert raw.count(queue, 2)[0] == 2
    with connect(broker) as raw:
        do(raw, SELECT)
        raw.settle(ACK, 7)
        raw.channel_closed(406, "PRECONDITION_FAILED - unknown delivery tag 7", cause=ACK)


def test_consumers_get_no_more_than_their_prefetch_before_the_commit(broker: AnyBroker) -> None:
    with connect(broker, 2) as raw:
        raw.declare("q")
        raw.fill("q", [b"a", b"b"], 2)
        raw.prefetch(1)
        do(raw, SELECT)
        raw.consume("q")
        assert raw.delivery() == (1, False, b"a")
        raw.settle(ACK, 1)
        raw.sync()
        raw.send(method(1, COMMIT))
        raw.expect(1, COMMIT_OK)
        assert raw.delivery() == (2, False, b"b")


def test_what_has_no_route_is_returned_before_the_commit_is_answered(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        do(raw, SELECT)
        raw.send(publish(1, "none", b"back", mandatory=True), publish(1, "none", b"gone"))
        raw.sync()
        raw.send(method(1, COMMIT))
        assert raw.expect(1, RETURN) == number(312, 2) + short("NO_ROUTE") + short("") + short("none")
        assert raw.content(1)[1] == b"back"
        raw.expect(1, COMMIT_OK)


def test_a_missing_exchange_ends_the_channel_at_once(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("q")
        do(raw, SELECT)
        raw.send(publish(1, "q", b"a"), publish(1, "k", b"x", "none"))
        raw.channel_closed(404, "NOT_FOUND - no exchange 'none' in vhost '/'")
        raw.open_channel()
        assert raw.count("q")[0] == 0


def test_confirms_and_transactions_do_not_mix(broker: AnyBroker) -> None:
    with connect(broker, 3) as raw:
        do(raw, SELECT)
        do(raw, SELECT)
        raw.send(method(1, CONFIRM_SELECT, b"\0"))
        raw.channel_closed(406, "PRECONDITION_FAILED - cannot switch from tx to confirm mode", cause=CONFIRM_SELECT)
        raw.confirm(2)
        raw.send(method(2, SELECT))
        raw.channel_closed(406, "PRECONDITION_FAILED - cannot switch from confirm to tx mode", 2, cause=SELECT)
        raw.send(method(3, COMMIT))
        raw.channel_closed(406, "PRECONDITION_FAILED - channel is not transactional", 3, cause=COMMIT)
        raw.open_channel()
        raw.send(method(1, ROLLBACK))
        raw.channel_closed(406, "PRECONDITION_FAILED - channel is not transactional", 1, cause=ROLLBACK)


def test_a_commit_that_a_queue_refuses_does_nothing(broker: AnyBroker) -> None:
    with connect(broker, 2) as raw:
        raw.declare("full", arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
        raw.declare("q")
        raw.fill("q", [b"in"], 2)
        do(raw, SELECT)
        get(raw, "q")
        raw.settle(ACK, 1)
        raw.send(publish(1, "q", b"a"), *[publish(1, "full", b"b") for _ in range(4)])
        raw.send(method(1, COMMIT))
        raw.channel_closed(406, "PRECONDITION_FAILED - partial tx completion", cause=COMMIT)
        assert raw.count("full", 2)[0] == 0
        assert get(raw, "q", 2)[1] == b"in"
        assert raw.count("q", 2)[0] == 0


def delayed(ms: int) -> bytes:
    return b"\x20\0" + table({"x-delay": ms})


def test_a_commit_with_more_delays_than_may_wait_does_nothing(start_broker: Callable[..., AnyBroker]) -> None:
    broker = start_broker(mqtt_delayed_max=1)
    with connect(broker, 2) as raw:
        raw.declare("q")
        do(raw, SELECT)
        raw.send(publish(1, "q", b"a"), *[publish(1, "q", b"b", properties=delayed(1)) for _ in range(2)])
        raw.send(method(1, COMMIT))
        raw.channel_closed(406, "PRECONDITION_FAILED - partial tx completion", cause=COMMIT)
        assert raw.count("q", 2)[0] == 0


def test_what_headers_ask_for_begins_with_the_commit(broker: AnyBroker) -> None:
    once = b"\x20\0" + table({"x-deduplication-key": "k"})
    with connect(broker, 2) as raw:
        raw.declare("q")
        do(raw, SELECT)
        raw.send(publish(1, "q", b"forgotten", properties=once), publish(1, "q", b"late", properties=delayed(1)))
        do(raw, ROLLBACK)
        raw.send(*[publish(1, "q", body, properties=once) for body in (b"first", b"second")])
        raw.send(publish(1, "q", b"late", properties=delayed(1)))
        raw.sync()
        assert raw.count("q", 2)[0] == 0
        do(raw, COMMIT)
        assert get(raw, "q", 2)[1] == b"first"
        raw.consume("q", channel=2, bits=2)
        assert raw.delivery(2)[2] == b"late"


def test_what_is_no_message_is_done_at_once(broker: AnyBroker) -> None:
    with connect(broker, 2) as raw:
        raw.confirm(2)
        named = b"\x20\0" + table({"x-delay": 3_600_000, "x-delay-id": "d"})
        raw.send(publish(2, "q", b"late", properties=named))
        raw.confirmed(1, 2)
        do(raw, SELECT)
        raw.send(publish(1, "$delayed/cancel/d", b"", mandatory=True))
        raw.send(publish(1, "$delayed/cancel/d", b"", mandatory=True))  # nothing waits any more
        raw.expect(1, RETURN)
        raw.content(1)
        do(raw, ROLLBACK)


def test_a_transaction_has_a_limit(start_broker: Callable[..., AnyBroker]) -> None:
    broker = start_broker(transaction_octets_max=1 << 20)
    with connect(broker) as raw:
        raw.declare("q")
        do(raw, SELECT)
        raw.send(*[publish(1, "q", bytes(100_000)) for _ in range(11)])
        text = "transaction is larger than transaction_octets_max 1048576 before its commit"
        raw.channel_closed(406, f"PRECONDITION_FAILED - {text}")
        raw.open_channel()
        assert raw.count("q")[0] == 0


def test_many_small_messages_count_for_what_they_take(start_broker: Callable[..., AnyBroker]) -> None:
    broker = start_broker(transaction_octets_max=1 << 20)
    with connect(broker) as raw:
        raw.declare("q")
        do(raw, SELECT)
        raw.send(*[publish(1, "q", b"") for _ in range(4000)])
        do(raw, ROLLBACK)
        raw.send(*[publish(1, "q", b"") for _ in range(5000)])
        text = "transaction is larger than transaction_octets_max 1048576 before its commit"
        raw.channel_closed(406, f"PRECONDITION_FAILED - {text}")


def test_an_open_transaction_holds_up_nobody_else(broker: AnyBroker) -> None:
    with connect(broker, 2) as raw:
        raw.declare("q")
        do(raw, SELECT)
        raw.send(publish(1, "q", b"later"))
        raw.confirm(2)
        raw.send(publish(2, "q", b"now"))
        raw.confirmed(1, 2)
        raw.consume("q", channel=2, bits=2)
        assert raw.delivery(2)[2] == b"now"
        raw.send(method(1, COMMIT))
        found = {raw.frame()[2][:4] for _ in range(4)}
        assert bytes([0, COMMIT_OK[0], 0, COMMIT_OK[1]]) in found
        assert bytes([0, DELIVER[0], 0, DELIVER[1]]) in found
