"""connection.blocked and unblocked, and connection.update-secret: RabbitMQ's additions to the connection class."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from tests.broker_process import AnyBroker, BrokerProcess
from tests.conformance.amqp091.raw import HEADER, START, Raw, connect, long, method, publish, short
from tests.waiting import look_again

Start = Callable[..., BrokerProcess]
BLOCKED, UNBLOCKED, UPDATE_SECRET, UPDATE_SECRET_OK = (10, 60), (10, 61), (10, 70), (10, 71)
QUEUE_PURGE, QUEUE_PURGE_OK = (50, 30), (50, 31)
MIB = 1 << 20
LIMIT = 250 * MIB  # the modules that the fork server has loaded count, too: about 100 MiB
ABLE = {"capabilities": {"connection.blocked": True}}
# Several: the broker looks at its memory once a second, and by then a quick machine has filled the share of one queue.
QUEUES = ("first", "second", "third", "fourth")


def fill(raw: Raw, reader: Raw, broker: BrokerProcess) -> None:
    """Publish into memory until the broker has had enough.

    A message is sent once the one before has been read: a publisher that is held with more on the way than
    the sockets take would wait for ever.
    """
    for queue in QUEUES:
        raw.declare(queue, bits=0)
    for sent in count():
        queue = QUEUES[sent % len(QUEUES)]
        raw.send(publish(1, queue, bytes(MIB)))
        look_again()  # so that it is not far over its limit when it says so
        while reader.count(queue)[0] <= sent // len(QUEUES):
            if "octets of memory" in broker.log_text():
                return
            look_again()


def purge(raw: Raw) -> None:
    for queue in QUEUES:
        raw.send(method(1, QUEUE_PURGE, b"\0\0" + short(queue) + b"\0"))
        raw.expect(1, QUEUE_PURGE_OK)


def test_publishers_are_told_that_memory_is_low_and_others_go_on(start_process: Start) -> None:
    broker = start_process(memory_octets_max=LIMIT, queue_memory_percent_max=100)
    with connect(broker, client=ABLE) as raw, connect(broker, client=ABLE) as reader:
        fill(raw, reader, broker)
        raw.send(publish(1, QUEUES[0], b"x"))
        assert raw.expect(0, BLOCKED) == short("low on memory")
        purge(reader)
        assert raw.expect(0, UNBLOCKED) == b""
        raw.sync()


def test_who_has_not_said_that_it_can_hear_it_is_not_told(start_process: Start) -> None:
    broker = start_process(memory_octets_max=LIMIT, queue_memory_percent_max=100)
    with connect(broker) as raw, connect(broker, client=ABLE) as reader:
        fill(raw, reader, broker)
        purge(reader)
        raw.sync()  # answered once the broker reads again, with nothing before it


@pytest.mark.parametrize("secret", ["guest", "any other"])
def test_a_new_secret_changes_nothing_for_who_has_a_password(broker: AnyBroker, secret: str) -> None:
    """Of whom a token or another server decides it is checked: tests/security/test_oauth.py."""
    with connect(broker) as raw:
        raw.send(method(0, UPDATE_SECRET, long(secret) + short("the token was renewed")))
        assert raw.expect(0, UPDATE_SECRET_OK) == b""
        raw.sync()


def test_a_new_secret_before_the_connection_is_open(broker: AnyBroker) -> None:
    raw = Raw(broker)
    raw.send(HEADER, method(0, UPDATE_SECRET, long("guest") + short("too early")))
    raw.expect(0, START)
    raw.connection_closed(503, "COMMAND_INVALID - method 10.70 is not expected on channel 0 now", cause=UPDATE_SECRET)


def test_what_comes_behind_a_new_secret_is_done(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("q")
        raw.confirm()
        raw.send(method(0, UPDATE_SECRET, long("guest") + short("in the middle")), publish(1, "q", b"behind it"))
        assert raw.expect(0, UPDATE_SECRET_OK) == b""
        raw.confirmed(1)
