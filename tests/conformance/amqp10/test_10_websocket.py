"""AMQP over WebSocket, frame by frame: the subprotocol `amqp` (the OASIS binding), and Azure's name for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from tests.broker_process import BrokerProcess, running
from tests.conformance.amqp10.raw import (
    ACCEPTED,
    AMQP_HEADER,
    ATTACH,
    BEGIN,
    CLOSE,
    FLOW,
    MECHANISMS,
    OPEN,
    OUTCOME,
    SASL_HEADER,
    Raw,
    begin,
    begun,
    body_of,
    flow,
    message,
    opened,
    performative,
    publisher,
    sasl_plain,
    transfer,
)
from tests.conformance.amqp10.raw_websocket import CarriedRaw
from tests.conformance.mqtt.raw import connect
from tests.conformance.mqtt.raw_websocket import BINARY, CONT, PING, TEXT, RawWebSocket, frame, request
from tests.conformance.mqtt.raw_websocket import CLOSE as CLOSE_FRAME
from tests.conformance.mqtt.test_websocket import send_pings

NORMAL, UNSUPPORTED, TOO_BIG = 1000, 1003, 1009
AMQP_091 = b"AMQP\x00\x00\x09\x01"
Start = Callable[..., BrokerProcess]


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A running broker with default options, which the tests of this module share."""
    with running(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


def conversation(queue: str) -> bytes:
    """All that a client sends who waits for nothing, up to one message."""
    link = begin() + publisher(f"$queue/{queue}") + transfer(0, message(b"one"))
    return sasl_plain() + AMQP_HEADER + opened() + link


def is_published(raw: Raw) -> None:
    """Read the answers to a conversation, of which the last one accepts the message."""
    assert raw.read(8) == SASL_HEADER
    raw.expect(MECHANISMS, kind=1)
    assert raw.expect(OUTCOME, kind=1)[0] == 0
    assert raw.read(8) == AMQP_HEADER
    for code in (OPEN, BEGIN, ATTACH, FLOW):
        raw.expect(code)
    assert raw.outcome() == (0, 0, ACCEPTED)


def taken(broker: BrokerProcess, queue: str) -> Any:
    """The body of the next message of a queue, read over TCP."""
    raw = begun(broker)
    raw.consumer(f"$queue/{queue}", credit=1)
    return body_of(raw.delivery()[1])


# ---- the handshake


@pytest.mark.parametrize("path", ["/amqp", "/amqp/", "/", "/ws", "/$servicebus/websocket", "/$servicebus/websocket/"])
@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        ("amqp", "amqp"),
        ("AMQPWSB10", "AMQPWSB10"),
        ("binary, AMQPWSB10, amqp", "amqp"),  # as rhea
        ("mqtt, amqp", "amqp"),
    ],
)
def test_the_subprotocol_is_selected(process: BrokerProcess, path: str, offered: str, chosen: str) -> None:
    raw = CarriedRaw(process, path, offered)
    assert raw.headers["sec-websocket-protocol"] == chosen
    assert raw.open()


def test_what_follows_a_question_mark_is_the_clients_business(process: BrokerProcess) -> None:
    assert CarriedRaw(process, "/amqp?token=a/b").open()


@pytest.mark.parametrize(
    ("octets", "status"),
    [
        (request("/amqp"), 404),
        (request("/amqp", Sec_WebSocket_Protocol=None), 404),
        (request("/amqp", Sec_WebSocket_Protocol="binary"), 404),
        (request("/amqp", Sec_WebSocket_Protocol="AMQP"), 404),
        (request("/", Sec_WebSocket_Protocol="xamqp"), 404),
        (request("/amqp/more", Sec_WebSocket_Protocol="amqp"), 404),
        (request("/mqtt", Sec_WebSocket_Protocol="amqp"), 400),
        (request("/amqp", Sec_WebSocket_Protocol="amqp", Upgrade=None, Connection=None), 426),
        (request("/amqp", Sec_WebSocket_Protocol="amqp", Origin="https://evil.example"), 403),
    ],
)
def test_what_is_no_request_for_amqp_gets_its_http_error(process: BrokerProcess, octets: bytes, status: int) -> None:
    raw = RawWebSocket(process)
    raw.socket.sendall(octets)
    assert raw.answer()[0] == status
    assert raw.cut()


def test_both_protocols_may_share_a_path(start_process: Start) -> None:
    broker = start_process(mqtt_websocket_path="/")
    assert CarriedRaw(broker, "/").open()
    raw = RawWebSocket(broker)
    raw.socket.sendall(request("/"))
    assert raw.answer()[1]["sec-websocket-protocol"] == "mqtt"
    raw.send(connect())
    raw.connack()


# ---- frames of either kind


@pytest.mark.parametrize("octets", [1, 2, 7, 100, 1000])
def test_frames_of_amqp_need_not_be_those_of_the_websocket(process: BrokerProcess, octets: int) -> None:
    raw = CarriedRaw(process)
    sent = conversation(f"cut-{octets}")
    raw.socket.sendall(b"".join(frame(BINARY, sent[at : at + octets]) for at in range(0, len(sent), octets)))
    is_published(raw)


@pytest.mark.parametrize("seed", range(10))
def test_fragments_and_reads_may_end_anywhere(process: BrokerProcess, seed: int) -> None:
    """Fragments of any length with pings between them, of which any number of octets arrive at a time."""
    chance = Random(seed)
    sent = conversation(f"split-{seed}")
    framed, pings = b"", 0
    while sent:
        count = chance.randrange(3)
        parts = []
        for _ in range(count + 1):
            octets = chance.choice((0, 1, 3, 20, 70))
            parts.append(sent[:octets])
            sent = sent[octets:]
        for number, part in enumerate(parts):
            framed += frame(BINARY if number == 0 else CONT, part, fin=number == count)
            if chance.random() < 0.3:
                framed += frame(PING, b"%d" % pings)
                pings += 1
    raw = CarriedRaw(process)
    while framed:
        octets = chance.choice((1, 2, 5, 30, 200))
        raw.socket.sendall(framed[:octets])
        framed = framed[octets:]
    is_published(raw)
    while len(raw.pongs) < pings:
        raw.read_frame()
    assert raw.pongs == [b"%d" % number for number in range(pings)]


def test_a_long_message_in_several_frames(process: BrokerProcess) -> None:
    raw = CarriedRaw(process)
    raw.open()
    raw.send(begin())
    raw.expect(BEGIN)
    raw.publisher("$queue/long")
    body = bytes(range(256)) * 2000
    octets = message(body)
    parts = [octets[at : at + 60_000] for at in range(0, len(octets), 60_000)]
    frames = [transfer(0, part, more=part is not parts[-1]) for part in parts]
    raw.send(*frames)
    assert raw.outcome() == (0, 0, ACCEPTED)
    assert taken(process, "long") == body


def test_a_client_over_websocket_and_one_over_tcp_share_queues(process: BrokerProcess) -> None:
    plain = begun(process)
    plain.publisher("$queue/shared")
    plain.send(transfer(0, message(b"from TCP")))
    assert plain.outcome() == (0, 0, ACCEPTED)
    raw = CarriedRaw(process)
    raw.open()
    raw.send(begin())
    raw.expect(BEGIN)
    raw.consumer("$queue/shared", credit=1)
    assert b"from TCP" in raw.frame()[4]


def test_amqp_091_is_carried_too(process: BrokerProcess) -> None:
    raw = CarriedRaw(process)
    raw.send(AMQP_091)
    head = raw.read(11)
    assert head[0] == 1
    assert head[7:11] == b"\x00\x0a\x00\x0a", "connection.start"


@pytest.mark.parametrize("octets", [connect(), b"FBLK\x01\x00\x00\x00", b"GET / HTTP/1.1\r\n\r\n"])
def test_the_subprotocol_amqp_is_no_other_protocol(process: BrokerProcess, octets: bytes) -> None:
    """2.2: who begins with what is not served gets a header that is, and the end."""
    raw = CarriedRaw(process)
    raw.send(octets)
    assert raw.read(4) == b"AMQP"
    raw.read(4)
    raw.web.left(NORMAL)


# ---- clients that keep to the octets and to nothing else


@pytest.mark.parametrize("text", [frame(TEXT, SASL_HEADER), frame(TEXT), frame(TEXT, b"a", fin=False)])
@pytest.mark.parametrize("is_open", [False, True])
def test_a_text_frame_ends_the_connection(process: BrokerProcess, text: bytes, is_open: bool) -> None:
    raw = CarriedRaw(process)
    if is_open:
        raw.open()
    raw.socket.sendall(text)
    raw.web.left(UNSUPPORTED)
    assert raw.web.cut()


def test_half_a_request_and_half_a_conversation(process: BrokerProcess) -> None:
    asked = request("/amqp", Sec_WebSocket_Protocol="amqp")
    sent = asked + b"".join(frame(BINARY, part) for part in (conversation("half"),))
    for octets in (1, 5, 20, len(asked) - 1, len(asked)):
        web = RawWebSocket(process)
        web.socket.sendall(sent[:octets])
        web.socket.close()
    whole = frame(BINARY, conversation("half"))
    for octets in (1, 3, 6, 14, len(whole) // 2, len(whole) - 1):
        raw = CarriedRaw(process)
        raw.socket.sendall(whole[:octets])
        raw.socket.close()
    raw = CarriedRaw(process)
    raw.send(conversation("half"))
    is_published(raw)
    assert taken(process, "half") == b"one"


def test_what_a_lost_client_held_comes_again(process: BrokerProcess) -> None:
    raw = CarriedRaw(process)
    raw.send(conversation("lost"))
    is_published(raw)
    raw.consumer("$queue/lost", credit=1)
    assert b"one" in raw.frame()[4]
    raw.socket.close()
    assert taken(process, "lost") == b"one"


@pytest.mark.parametrize("octets", [request("/amqp", Cookie="a" * 10_000), request("/" + "a" * 10_000)])
def test_a_request_that_is_too_long_ends_the_connection(process: BrokerProcess, octets: bytes) -> None:
    raw = RawWebSocket(process)
    raw.socket.sendall(octets)
    said = b""
    with suppress(ConnectionResetError):
        while more := raw.socket.recv(65536):
            said += more
    assert b" 101 " not in said


def test_a_frame_before_the_login_may_not_be_long(start_process: Start) -> None:
    """It is ended before it is whole: login_octets_max."""
    broker = start_process(login_octets_max=8192)
    raw = CarriedRaw(broker)
    raw.socket.sendall(bytes([BINARY | 0x80, 0xFE]) + (60_000).to_bytes(2, "big") + bytes(4) + bytes(20_000))
    assert raw.web.cut()
    assert "login_octets_max" in broker.log_text()


def test_a_message_longer_than_the_websockets_may_be_is_refused(start_process: Start) -> None:
    raw = CarriedRaw(start_process(mqtt_packet_octets_max=4096))
    raw.open()
    raw.socket.sendall(frame(BINARY, bytes(5000)))
    opcode, payload = raw.web.frame()
    assert (opcode, int.from_bytes(payload[:2], "big")) == (CLOSE_FRAME, TOO_BIG)
    assert raw.web.cut()


def test_a_client_that_pings_and_never_reads_is_let_go(start_process: Start) -> None:
    broker = start_process(send_buffer_octets_max=64 * 1024)
    raw = CarriedRaw(broker)
    raw.open()
    with pytest.raises((ConnectionResetError, BrokenPipeError)):
        send_pings(raw.web)
    assert "pings and does not read" in broker.log_text()


def test_a_client_that_never_logs_in_is_cut_off(start_process: Start) -> None:
    broker = start_process(handshake_timeout_ms=300)
    for sent in (b"", SASL_HEADER, sasl_plain() + AMQP_HEADER):
        raw = CarriedRaw(broker)
        if sent:
            raw.send(sent)
        with suppress(ConnectionResetError):
            while raw.socket.recv(65536):
                pass


# ---- the end


def test_close_is_answered_before_the_close_frame(process: BrokerProcess) -> None:
    raw = CarriedRaw(process)
    raw.open()
    raw.send(performative(0, CLOSE))
    raw.expect(CLOSE)
    raw.web.left(NORMAL)
    raw.socket.sendall(frame(CLOSE_FRAME, NORMAL.to_bytes(2, "big")))
    assert raw.web.cut()


def test_an_error_is_told_before_the_close_frame(process: BrokerProcess) -> None:
    raw = CarriedRaw(process)
    raw.open()
    raw.send(b"\x00\x00\x00\x07\x02\x00\x00\x00")
    assert raw.error(CLOSE)[0] == "amqp:connection:framing-error"
    raw.send(performative(0, CLOSE))
    raw.web.left(NORMAL)


def test_a_close_frame_is_answered(process: BrokerProcess) -> None:
    raw = CarriedRaw(process)
    raw.open()
    raw.socket.sendall(frame(CLOSE_FRAME, NORMAL.to_bytes(2, "big")))
    assert raw.web.frame() == (CLOSE_FRAME, NORMAL.to_bytes(2, "big"))
    assert raw.web.cut()


def test_a_broker_that_stops_says_so(broker_process: BrokerProcess) -> None:
    raw = CarriedRaw(broker_process)
    raw.open()
    broker_process.stop()
    assert raw.error(CLOSE)[0] == "amqp:connection:forced"


def test_the_window_of_credit_holds(process: BrokerProcess) -> None:
    """2.6.7: a delivery needs credit, over whatever carries the frames."""
    raw = CarriedRaw(process)
    raw.send(conversation("credit"))
    is_published(raw)
    raw.consumer("$queue/credit", credit=0)
    raw.send(flow(1, 0, echo=True))
    assert raw.flow(1)[6] == 0
