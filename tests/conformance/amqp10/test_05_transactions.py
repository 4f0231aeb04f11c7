"""Transactions: declared and discharged by a link to a coordinator (part 4)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.broker_process import AnyBroker
from tests.conformance.amqp10.raw import (
    ACCEPTED,
    ATTACH,
    COORDINATOR,
    DETACH,
    DISPOSITION,
    END,
    FLOW,
    REJECTED,
    RELEASED,
    SENDER,
    TRANSFER,
    VALUE,
    WINDOW,
    Described,
    Raw,
    Symbol,
    Uint,
    attach,
    begun,
    body_of,
    disposition,
    encode,
    flow,
    message,
    performative,
    source,
    transfer,
)

QUEUE = "$queue/q"
CONTROL = 7
DECLARE, DISCHARGE, DECLARED, TRANSACTIONAL = 0x31, 0x32, 0x33, 0x34


class Client:
    """A session with a link to a coordinator, and one to publish by."""

    def __init__(self, broker: AnyBroker) -> None:
        self.raw = begun(broker)
        target = Described(COORDINATOR, [[Symbol("amqp:local-transactions")]])
        self.raw.send(attach("control", CONTROL, SENDER, source(None), target))
        assert self.raw.expect(ATTACH)[6].code == COORDINATOR
        self.raw.flow(CONTROL)
        self.raw.publisher(QUEUE)
        self.next = 0

    def control(self, code: int, *fields: Any) -> Described:
        """The state that a request to the coordinator is settled with."""
        self.raw.send(transfer(self.next, encode(Described(VALUE, Described(code, list(fields)))), CONTROL))
        found = self.raw.expect(DISPOSITION)
        assert (found[1], found[3]) == (self.next, True)
        self.next += 1
        state: Described = found[4]
        if state.code != ACCEPTED:
            self.raw.flow(CONTROL)
        return state

    def declare(self) -> bytes:
        state = self.control(DECLARE)
        assert state.code == DECLARED
        name = state.value[0]
        assert isinstance(name, bytes)
        return name

    def discharge(self, name: bytes, fail: bool = False) -> int:
        """The code of the outcome; a commit's flow comes before it, as its acceptance waits for the disk."""
        self.raw.send(transfer(self.next, encode(Described(VALUE, Described(DISCHARGE, [name, fail]))), CONTROL))
        self.next += 1
        while (found := self.raw.frame())[2] == FLOW:
            pass
        assert found[2] == DISPOSITION
        state = found[3][4]
        self.error = state.value[0].value[0] if state.code == REJECTED else ""
        if state.code == REJECTED:
            self.raw.flow(CONTROL)
        return int(state.code)

    def post(self, name: bytes, body: bytes) -> None:
        """Publish under a transaction, whose provisional outcome comes at once."""
        fields = [Uint(0), Uint(self.next), b"t", Uint(0), False, False, None, Described(TRANSACTIONAL, [name])]
        self.raw.send(performative(0, TRANSFER, *fields, payload=message(body)))
        found = self.raw.expect(DISPOSITION)
        self.next += 1
        assert found[4].code == TRANSACTIONAL
        assert found[4].value[0] == name
        assert found[4].value[1].code == ACCEPTED


@pytest.fixture
def client(broker: AnyBroker) -> Client:
    return Client(broker)


def bodies(raw: Raw, handle: int, count: int) -> list[Any]:
    raw.consumer(QUEUE, handle, credit=count)
    return [body_of(raw.delivery()[1]) for _ in range(count)]


def test_what_is_posted_is_there_after_the_commit(broker: AnyBroker, client: Client) -> None:
    name = client.declare()
    client.post(name, b"1")
    client.post(name, b"2")
    other = begun(broker)
    other.consumer(QUEUE, 3, credit=10)
    other.quiet_session()
    assert client.discharge(name) == ACCEPTED
    assert [body_of(other.delivery()[1]) for _ in range(2)] == [b"1", b"2"]
    assert client.discharge(name) == REJECTED
    assert client.error == "amqp:transaction:unknown-id"


def test_what_is_rolled_back_is_not(broker: AnyBroker, client: Client) -> None:
    name = client.declare()
    client.post(name, b"never")
    assert client.discharge(name, fail=True) == ACCEPTED
    other = begun(broker)
    other.consumer(QUEUE, 3, credit=10)
    other.quiet_session()


@pytest.mark.parametrize("fail", [False, True])
def test_outcomes_wait_for_the_discharge(broker: AnyBroker, client: Client, fail: bool) -> None:
    raw = client.raw
    raw.send(transfer(client.next, message(b"job")))
    raw.outcome()
    client.next += 1
    assert bodies(raw, 3, 1) == [b"job"]
    name = client.declare()
    raw.send(disposition(0, state=Described(TRANSACTIONAL, [name, Described(ACCEPTED, [])])))
    assert client.discharge(name, fail) == ACCEPTED
    raw.send(performative(0, DETACH, Uint(3), True))
    raw.expect(DETACH)
    other = begun(broker)
    other.consumer(QUEUE, 3, credit=10)
    if fail:
        assert body_of(other.delivery()[1]) == b"job"
    other.quiet_session()


def acquiring_flow(handle: int, credit: int, name: bytes) -> bytes:
    """A flow whose credit belongs to a transaction."""
    fields: list[Any] = [Uint(0), Uint(WINDOW), Uint(0), Uint(WINDOW), Uint(handle), Uint(0), Uint(credit), None]
    return performative(0, FLOW, *fields, False, False, {Symbol("txn-id"): name})


@pytest.mark.parametrize("fail", [False, True])
def test_what_a_transaction_acquires_goes_back_with_it(broker: AnyBroker, client: Client, fail: bool) -> None:
    raw = client.raw
    for body in (b"1", b"2"):
        raw.send(transfer(client.next, message(body)))
        raw.outcome()
        client.next += 1
    raw.consumer(QUEUE, 3)
    name = client.declare()
    raw.send(acquiring_flow(3, 5, name))
    for body in (b"1", b"2"):
        first, found = raw.delivery()
        assert (first[7].code, first[7].value[0], body_of(found)) == (TRANSACTIONAL, name, body)
    other = begun(broker)
    other.consumer(QUEUE, 3, credit=10)
    other.quiet_session()
    raw.send(transfer(client.next, encode(Described(VALUE, Described(DISCHARGE, [name, fail]))), CONTROL))
    client.next += 1
    ended = raw.flow(3)
    assert (ended[5], ended[6]) == (2, 0), "the credit ends with the transaction"
    raw.flow(CONTROL)
    assert raw.outcome()[2] == ACCEPTED
    if fail:
        assert [body_of(other.delivery()[1]) for _ in range(2)] == [b"1", b"2"]
    other.quiet_session()
    raw.send(disposition(0, 1))
    raw.quiet_session()


def test_what_is_accepted_of_what_a_transaction_acquires_is_settled_with_it(broker: AnyBroker, client: Client) -> None:
    raw = client.raw
    raw.send(transfer(client.next, message(b"1")))
    raw.outcome()
    client.next += 1
    raw.consumer(QUEUE, 3)
    name = client.declare()
    raw.send(acquiring_flow(3, 1, name))
    raw.delivery()
    raw.send(disposition(0, state=Described(TRANSACTIONAL, [name, Described(ACCEPTED, [])])))
    raw.send(performative(0, DETACH, Uint(3), True))
    raw.expect(DETACH)
    assert client.discharge(name) == ACCEPTED
    other = begun(broker)
    other.consumer(QUEUE, 3, credit=10)
    other.quiet_session()


def test_credit_of_a_transaction_that_there_is_not(client: Client) -> None:
    raw = client.raw
    raw.consumer(QUEUE, 3)
    raw.send(acquiring_flow(3, 1, b"none"))
    assert raw.error(DETACH)[0] == "amqp:transaction:unknown-id"
    raw.consumer(QUEUE, 4, settled=1)
    raw.send(acquiring_flow(4, 1, client.declare()))
    assert raw.error(DETACH)[0] == "amqp:not-implemented"


def test_a_coordinator_that_goes_rolls_back(broker: AnyBroker, client: Client) -> None:
    name = client.declare()
    client.post(name, b"never")
    client.raw.send(performative(0, DETACH, Uint(CONTROL), True))
    client.raw.expect(DETACH)
    other = begun(broker)
    other.consumer(QUEUE, 3, credit=10)
    other.quiet_session()


def test_a_connection_that_goes_rolls_back(broker: AnyBroker, client: Client) -> None:
    name = client.declare()
    client.post(name, b"never")
    client.raw.socket.close()
    other = begun(broker)
    other.consumer(QUEUE, 3, credit=10)
    other.quiet_session()


def test_a_transaction_that_was_not_declared(broker: AnyBroker, client: Client) -> None:
    fields = [Uint(0), Uint(0), b"t", Uint(0), False, False, None, Described(TRANSACTIONAL, [b"none"])]
    client.raw.send(performative(0, TRANSFER, *fields, payload=message(b"x")))
    found = client.raw.expect(DISPOSITION)
    assert found[4].code == REJECTED
    assert found[4].value[0].value[0] == "amqp:transaction:unknown-id"
    client.raw.send(disposition(0, state=Described(TRANSACTIONAL, [b"none", Described(RELEASED, [])])))
    assert client.raw.error(END)[0] == "amqp:transaction:unknown-id"


def test_requests_that_are_none(client: Client) -> None:
    assert client.control(DECLARE, "global").value[0].value[0] == "amqp:not-implemented"
    assert client.control(0x24).value[0].value[0] == "amqp:decode-error"


def test_transactions_have_a_bound(client: Client) -> None:
    for _ in range(16):
        client.declare()
    assert client.control(DECLARE).value[0].value[0] == "amqp:resource-limit-exceeded"


def test_a_commit_that_a_full_queue_refuses_is_rolled_back(broker: AnyBroker) -> None:
    from tests.conformance.amqp10.test_03_publish import declare

    declare(broker, "full", {"x-max-length": 1, "x-overflow": "reject-publish"})
    client = Client(broker)
    raw = client.raw
    raw.publisher("/queues/full", 1)
    name = client.declare()
    client.post(name, b"never")
    for _ in range(2):
        fields = [Uint(1), Uint(client.next), b"t", Uint(0), False, False, None, Described(TRANSACTIONAL, [name])]
        raw.send(performative(0, TRANSFER, *fields, payload=message(b"x")))
        raw.expect(DISPOSITION)
        client.next += 1
    assert client.discharge(name) == REJECTED
    assert client.error == "amqp:transaction:rollback"
    other = begun(broker)
    other.consumer(QUEUE, 3, credit=10)
    other.consumer("/queues/full", 4, credit=10)
    other.quiet_session()
    raw.send(flow(echo=True))
    raw.flow(None)


def test_a_command_is_refused_before_the_commit(broker: AnyBroker, client: Client) -> None:
    client.raw.publisher("$queue/q/$commit", 3)
    name = client.declare()
    fields = [Uint(3), Uint(client.next), b"t", Uint(0), False, False, None, Described(TRANSACTIONAL, [name])]
    client.raw.send(performative(0, TRANSFER, *fields, payload=message(b"1")))
    assert client.raw.outcome() == (client.next, client.next, REJECTED)
    client.next += 1
    client.post(name, b"2")
    assert client.discharge(name) == ACCEPTED
    assert bodies(client.raw, 4, 1) == [b"2"]


def test_a_request_that_is_aborted_or_has_no_number(client: Client) -> None:
    body = encode(Described(VALUE, Described(DECLARE, [])))
    client.raw.send(transfer(0, body, CONTROL, aborted=True))
    client.raw.flow(CONTROL)
    client.raw.send(performative(0, TRANSFER, Uint(CONTROL), None, None, Uint(0), False, payload=body))
    assert client.raw.error(DETACH)[0] == "amqp:not-allowed"
