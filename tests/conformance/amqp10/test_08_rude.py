"""Clients that keep to the octets of the protocol and to nothing else: the broker goes on, and loses nothing."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest

from tests.broker_process import AnyBroker, BrokerProcess
from tests.conformance.amqp10.raw import (
    ACCEPTED,
    AMQP_HEADER,
    ATTACH,
    BEGIN,
    CLOSE,
    DETACH,
    EMPTY_FRAME,
    END,
    FLOW,
    SASL_HEADER,
    Described,
    Raw,
    Uint,
    begin,
    begun,
    body_of,
    consumer,
    disposition,
    encode,
    flow,
    message,
    opened,
    performative,
    publisher,
    sasl_plain,
    transfer,
)
from tests.conformance.amqp10.test_03_publish import bodies
from tests.conformance.amqp10.test_04_consume import fill, taken

pytestmark = pytest.mark.over_sockets

QUEUE = "$queue/q"
EVERYTHING = sasl_plain() + AMQP_HEADER + opened() + begin() + publisher(QUEUE) + transfer(0, message(b"whole"))


@pytest.mark.parametrize("octets", [1, 8, 9, 30, 60, 90, 120, 200, 250, len(EVERYTHING) - 1])
def test_half_a_conversation(broker: AnyBroker, octets: int) -> None:
    raw = Raw(broker)
    raw.send(EVERYTHING[:octets])
    raw.socket.close()
    other = begun(broker)
    other.publisher(QUEUE)
    other.send(transfer(0, message(b"other")))
    assert other.outcome() == (0, 0, ACCEPTED)
    assert bodies(broker, 1) == [b"other"]


def test_a_client_that_says_nothing_after_its_header(start_broker: Callable[..., AnyBroker]) -> None:
    """The login has a time limit: every unfinished one would hold a connection else."""
    broker = start_broker(handshake_timeout_ms=1000)
    for octets in (b"", SASL_HEADER, sasl_plain() + AMQP_HEADER):
        raw = Raw(broker)
        raw.send(octets)
        broker.wait_out(3)
        received = b""
        while more := raw.socket.recv(65536):
            received += more
        assert len(received) < 500


def test_a_window_of_zero(broker: AnyBroker) -> None:
    """2.5.6: no transfer comes; dispositions, flows, attaches and detaches are not subject to it."""
    raw = begun(broker, window=0)
    fill(raw, 3)
    raw.consumer(QUEUE)
    raw.send(flow(1, 10, window=0, echo=True))
    raw.send(performative(0, DETACH, Uint(1), True))
    codes = [raw.frame()[2]]
    while codes[-1] != DETACH:
        codes.append(raw.frame()[2])
    assert set(codes) <= {FLOW, DETACH}
    assert bodies(broker, 3) == [b"0", b"1", b"2"]


def test_a_storm_of_credit(broker: AnyBroker) -> None:
    """2.6.7: each flow replaces the one before; they do not add up."""
    raw = begun(broker)
    fill(raw, 20)
    raw.consumer(QUEUE)
    raw.send(*[flow(1, each % 7) for each in range(5000)], flow(1, 5))
    found = taken(raw, 5)
    assert found == [b"%d" % each for each in range(5)] or len(found) == 5
    raw.send(flow(1, 0, count=6, echo=True))
    frames = []
    while True:
        _, _, code, fields, _ = raw.frame()
        if code == FLOW:
            break
        frames.append(fields)
    assert len(frames) <= 1, "6 was the most that was ever granted"
    raw.send(performative(0, DETACH, Uint(1), True))
    raw.expect(DETACH)
    assert len(bodies(broker, 20)) == 20


def test_a_storm_of_questions(broker: AnyBroker) -> None:
    """An echo is answered; how many there were in one write changes neither the order nor the end."""
    raw = begun(broker)
    raw.publisher(QUEUE)
    raw.send(*[flow(0, echo=True) for _ in range(2000)], *[flow(echo=True) for _ in range(2000)])
    raw.send(transfer(0, message()))
    while (found := raw.frame())[2] == FLOW:
        pass
    assert (found[2], found[3][4].code) == (0x15, ACCEPTED)


def test_all_the_credit_there_can_be(broker: AnyBroker) -> None:
    raw = begun(broker)
    fill(raw, 5)
    raw.consumer(QUEUE)
    raw.send(flow(1, 2**32 - 1))
    assert len(taken(raw, 5)) == 5
    raw.send(flow(1, 2**32 - 1, count=5, drain=True))
    fields = raw.flow(1)
    assert (fields[6], fields[8]) == (0, True)


def test_no_end_and_no_close(broker: AnyBroker) -> None:
    """A connection that is dropped gives back what it held, and keeps what it had accepted."""
    for _ in range(3):
        raw = begun(broker)
        for channel in range(1, 6):
            raw.send(begin(channel), consumer(QUEUE, 1, channel), flow(1, 10, channel=channel))
        raw.send(publisher(QUEUE), transfer(0, message()))
        while raw.frame()[2] != 0x15:
            pass
        raw.socket.close()
    assert len(bodies(broker, 3)) == 3


def test_everything_at_once_and_gone(broker: AnyBroker) -> None:
    """What came whole was published, if anybody was told so or not."""
    for number in range(10):
        raw = Raw(broker)
        raw.send(EVERYTHING, transfer(1, message(), settled=True), performative(0, CLOSE))
        if number % 2:
            raw.socket.close()
    begun(broker).quiet_session()


def test_six_at_a_time(broker_process: BrokerProcess) -> None:
    """Six clients that publish and consume at once, each with two sessions: every message comes once."""
    count = 100
    found: dict[bytes, int] = {}
    failed: list[BaseException] = []

    def work(number: int) -> None:
        raw = begun(broker_process)
        raw.send(begin(1))
        raw.expect(BEGIN, 1)
        raw.publisher(QUEUE)
        raw.send(*[transfer(each, message(b"%d-%d" % (number, each))) for each in range(count)])
        raw.send(consumer(QUEUE, 1, 1, name=f"c{number}"), flow(1, count, channel=1))
        accepted = got = 0
        while accepted < count or got < count:
            _, channel, code, fields, payload = raw.frame()
            if code == 0x15:
                accepted += (fields[1] if fields[2] is None else fields[2]) - fields[1] + 1
            elif code == 0x14:
                got += 1
                body = payload[-10:].split(b"\x00")[-1][1:]
                found[body] = found.get(body, 0) + 1
                raw.send(disposition(fields[1], channel=channel))
        raw.send(performative(0, CLOSE))
        while raw.frame()[2] != CLOSE:
            pass

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001  # a thread's error is the test's
            failed.append(error)

    threads = [Thread(target=guarded, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failed == []
    assert sum(found.values()) == 6 * count
    assert set(found.values()) == {1}


def test_links_and_sessions_without_end(broker: AnyBroker) -> None:
    """Attach and detach, begin and end in a loop: nothing of them stays."""
    raw = begun(broker)
    for _ in range(100):
        raw.send(begin(3), consumer(QUEUE, 7, 3), performative(3, DETACH, Uint(7), True), performative(3, END))
    for _ in range(100):
        raw.expect(BEGIN, 3)
        raw.expect(ATTACH, 3)
        raw.expect(DETACH, 3)
        raw.expect(END, 3)
    raw.publisher(QUEUE)
    raw.send(transfer(0, message(b"one")))
    assert raw.outcome() == (0, 0, ACCEPTED)
    assert bodies(broker, 1) == [b"one"]


def test_a_message_of_many_sections(broker: AnyBroker) -> None:
    """3.2: a body may be many data sections; what it costs is bounded, whatever the answer."""
    raw = begun(broker)
    raw.publisher(QUEUE)
    raw.send(transfer(0, encode(Described(0x75, b"")) * 8_000), transfer(1, message(b"next")))
    answered: list[Any] = []
    while not answered or max(answered) < 1:
        fields = raw.expect(0x15)
        answered += [fields[1], fields[1] if fields[2] is None else fields[2]]


def test_heartbeats_without_end(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.send(EMPTY_FRAME * 50_000)
    raw.quiet_session()


def test_a_body_in_small_pieces_of_many_links(broker: AnyBroker) -> None:
    raw = begun(broker)
    links = 20
    for handle in range(links):
        raw.publisher(QUEUE, handle)
    payloads = [message(b"%03d" % handle) for handle in range(links)]
    for at in range(len(payloads[0])):
        last = at == len(payloads[0]) - 1
        raw.send(*[transfer(handle, payloads[handle][at : at + 1], handle, more=not last) for handle in range(links)])
    settled = 0
    while settled < links:
        first, last_id, code = raw.outcome()
        assert code == ACCEPTED
        settled += last_id - first + 1
    assert bodies(broker, links) == [b"%03d" % handle for handle in range(links)]


def test_a_body_is_read_back_by_the_message(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.publisher(QUEUE)
    raw.send(transfer(0, message(b"x" * 255)), transfer(1, message(b"x" * 256)))
    while raw.outcome()[1] < 1:
        pass
    raw.consumer(QUEUE, credit=2)
    assert [len(body_of(raw.delivery()[1])) for _ in range(2)] == [255, 256]
