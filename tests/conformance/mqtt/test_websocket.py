"""MQTT over WebSocket, frame by frame: section 6 of both standards, and RFC 6455 below it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from tests.broker_process import BrokerProcess, running
from tests.conformance.mqtt.raw import (
    DISCONNECT,
    PINGREQ,
    PINGRESP,
    V5,
    V311,
    connect,
    connected,
    packet,
    publish,
    subscribe,
    will,
)
from tests.conformance.mqtt.raw_websocket import (
    BINARY,
    CLOSE,
    CONT,
    PING,
    PONG,
    TEXT,
    RawWebSocket,
    frame,
    opened,
    request,
)
from tests.conformance.mqtt.statements import statement

NORMAL, PROTOCOL_ERROR, UNSUPPORTED, TOO_BIG = 1000, 1002, 1003, 1009
PINGS_MAX = 400_000  # guards against a broker that takes pings without end
Start = Callable[..., BrokerProcess]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A running broker with default options, which the tests of this module share."""
    with running(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


# ---- the handshake


@statement("MQTT-6.0.0-4")
@statement("MQTT-6.0.0-4", version=V311)
@pytest.mark.parametrize("offered", ["mqtt", "mqttv3.1, mqtt", "mqtt, wamp"])
def test_the_subprotocol_mqtt_is_selected(broker: BrokerProcess, offered: str) -> None:
    raw = RawWebSocket(broker)
    raw.socket.sendall(request(Sec_WebSocket_Protocol=offered))
    status, headers, _ = raw.answer()
    assert (status, headers["sec-websocket-protocol"]) == (101, "mqtt")
    assert "sec-websocket-extensions" not in headers
    raw.send(connect())
    raw.connack()


def test_a_request_may_come_octet_by_octet_and_have_a_query(broker: BrokerProcess) -> None:
    raw = RawWebSocket(broker)
    for octet in request("/mqtt?token=a/b"):
        raw.socket.sendall(bytes([octet]))
    assert raw.answer()[0] == 101
    raw.send(connect())
    raw.connack()


@pytest.mark.parametrize(
    ("octets", "status"),
    [
        (request("/"), 404),
        (request("/mqtt/"), 404),
        (request(Sec_WebSocket_Protocol=None), 400),
        (request(Sec_WebSocket_Protocol="mqttv3.1"), 400),
        (request(Sec_WebSocket_Protocol="MQTT"), 400),
        (request(Sec_WebSocket_Version="8"), 400),
        (request(Sec_WebSocket_Key="short"), 400),
        (request(Upgrade=None, Connection=None), 426),
    ],
)
def test_what_is_no_request_for_mqtt_gets_its_http_error(broker: BrokerProcess, octets: bytes, status: int) -> None:
    raw = RawWebSocket(broker)
    raw.socket.sendall(octets)
    assert raw.answer()[0] == status
    assert raw.cut()


@pytest.mark.parametrize("octets", [request(method="HEAD"), request("/" + "a" * 10_000), request(Cookie="a" * 10_000)])
def test_a_request_of_another_method_or_too_long_ends_the_connection(broker: BrokerProcess, octets: bytes) -> None:
    """Whether an HTTP error says why depends on the version of `websockets`."""
    raw = RawWebSocket(broker)
    raw.socket.sendall(octets)
    said = b""
    with suppress(ConnectionResetError):  # as good an end
        while more := raw.socket.recv(65536):
            said += more
    assert b" 101 " not in said


@pytest.mark.parametrize("octets", [connect(), b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"\r\n\r\n"])
def test_what_is_not_http_is_cut_off(start_process: Start, octets: bytes) -> None:
    raw = RawWebSocket(start_process(handshake_timeout_ms=500))
    raw.socket.sendall(octets)
    assert raw.cut()


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("https://app.example", 101),
        (None, 101),  # no browser
        ("http://app.example", 403),
        ("https://evil.example", 403),
        ("null", 403),
        ("http://[", 403),
        ("http://localhost:3000", 101),  # a page of this machine
    ],
)
def test_pages_of_other_origins_are_refused(start_process: Start, origin: str | None, status: int) -> None:
    raw = RawWebSocket(start_process(mqtt_websocket_origins=["https://other.example", "https://app.example"]))
    raw.socket.sendall(request(Origin=origin))
    assert raw.answer()[0] == status


@pytest.mark.parametrize(("origins", "status"), [([], 403), (["*"], 101)])
def test_pages_from_anywhere_have_to_be_allowed(start_process: Start, origins: list[str], status: int) -> None:
    raw = RawWebSocket(start_process(mqtt_websocket_origins=origins))
    raw.socket.sendall(request(Origin="https://any.example", Host="any.example"))
    assert raw.answer()[0] == status


def test_the_path_is_an_option(start_process: Start) -> None:
    broker = start_process(mqtt_websocket_path="/ws/broker")
    for path, status in (("/mqtt", 404), ("/ws/broker", 101)):
        raw = RawWebSocket(broker)
        raw.socket.sendall(request(path))
        assert raw.answer()[0] == status


@pytest.mark.parametrize(
    "behind", [frame(PING), frame(CLOSE), frame(BINARY, connect()), frame(TEXT, b"x"), b"\xff" * 20]
)
@pytest.mark.parametrize("path", ["/mqtt", "/elsewhere"])
def test_frames_before_the_answer_end_the_connection(broker: BrokerProcess, path: str, behind: bytes) -> None:
    raw = RawWebSocket(broker)
    raw.socket.sendall(request(path) + behind)
    assert raw.cut()


# ---- frames and packets


@statement("MQTT-6.0.0-2")
@statement("MQTT-6.0.0-2", version=V311)
@pytest.mark.parametrize("version", [V311, V5])
def test_each_octet_may_have_a_frame_of_its_own(broker: BrokerProcess, version: int) -> None:
    raw = opened(broker, version)
    for octet in connect(version=version) + subscribe(1, ("a", 1), version=version):
        raw.send(bytes([octet]))
    raw.connack()
    assert raw.granted() == [1]


@statement("MQTT-6.0.0-2")
@pytest.mark.parametrize("each", [1, 2, 7, 50, 1000])
def test_packets_need_not_begin_or_end_where_frames_do(broker: BrokerProcess, each: int) -> None:
    raw = opened(broker)
    stream = connect() + subscribe(1, ("a/#", 0)) + b"".join(publish("a/b", b"%d" % n * n) for n in range(40))
    frames = [frame(BINARY, stream[at : at + each]) for at in range(0, len(stream), each)]
    raw.socket.sendall(b"".join(frames))
    raw.connack()
    assert raw.granted() == [0]
    for n in range(40):
        assert raw.delivery().body == b"%d" % n * n


def test_a_message_may_come_in_fragments_with_pings_between_them(broker: BrokerProcess) -> None:
    raw = opened(broker)
    stream = connect() + PINGREQ
    first, *middle, last = [stream[at : at + 5] for at in range(0, len(stream), 5)]
    raw.socket.sendall(frame(BINARY, first, fin=False))
    for at, part in enumerate(middle):
        raw.socket.sendall(frame(PING, b"%d" % at) + frame(CONT, part, fin=False))
        assert raw.frame() == (PONG, b"%d" % at)
    raw.socket.sendall(frame(CONT, last))
    raw.connack()
    raw.expect(PINGRESP[0])


def test_a_long_packet_passes_in_frames_and_out_in_one(broker: BrokerProcess) -> None:
    raw = opened(broker)
    raw.send(connect())
    raw.connack()
    raw.subscribe("long", qos=0)
    body = bytes(range(256)) * 1200
    sent = publish("long", body)
    for at in range(0, len(sent), 9999):
        raw.send(sent[at : at + 9999])
    opcode, payload = raw.frame()
    assert opcode == BINARY
    assert payload == sent


def test_what_is_answered_at_once_leaves_in_one_frame(broker: BrokerProcess) -> None:
    raw = opened(broker)
    raw.send(connect())
    raw.connack()
    raw.socket.sendall(frame(BINARY, PINGREQ * 3) + frame(BINARY, PINGREQ))
    answer = b""
    while len(answer) < 4 * len(PINGRESP):
        opcode, payload = raw.frame()
        assert opcode == BINARY
        assert len(payload) >= 3 * len(PINGRESP) or answer
        answer += payload
    assert answer == PINGRESP * 4


def test_an_empty_frame_is_nothing(broker: BrokerProcess) -> None:
    raw = opened(broker)
    raw.send(b"")
    raw.send(connect())
    raw.send(b"")
    raw.connack()
    raw.quiet()


def test_a_websocket_client_and_a_tcp_client_share_topics(broker: BrokerProcess) -> None:
    raw = opened(broker)
    raw.send(connect("browser"))
    raw.connack()
    raw.subscribe("a", qos=1)
    plain = connected(broker, "plain")
    plain.publish("a", b"x")
    assert raw.delivery().body == b"x"


def test_the_subprotocol_mqtt_is_no_other_protocol(broker: BrokerProcess) -> None:
    raw = opened(broker)
    raw.send(b"AMQP\x00\x00\x09\x01")
    raw.left(NORMAL)


# ---- pings, and frames that are none of MQTT's


@pytest.mark.parametrize("payload", [b"", b"are you there?", bytes(125)])
def test_a_ping_is_answered_with_what_it_holds(broker: BrokerProcess, payload: bytes) -> None:
    raw = opened(broker)
    raw.socket.sendall(frame(PING, payload))
    assert raw.frame() == (PONG, payload)
    raw.socket.sendall(frame(PONG, b"unasked"))
    raw.send(connect())
    raw.connack()


@statement("MQTT-6.0.0-1")
@statement("MQTT-6.0.0-1", version=V311)
@pytest.mark.parametrize("text", [frame(TEXT, connect()), frame(TEXT), frame(TEXT, b"a", fin=False)])
@pytest.mark.parametrize("greeted", [False, True])
def test_a_text_frame_ends_the_connection(broker: BrokerProcess, text: bytes, greeted: bool) -> None:
    raw = opened(broker)
    if greeted:
        raw.send(connect())
        raw.connack()
    raw.socket.sendall(text)
    raw.left(UNSUPPORTED)
    assert raw.cut()


@statement("MQTT-6.0.0-1")
def test_what_came_before_a_text_frame_counts_and_what_follows_does_not(broker: BrokerProcess) -> None:
    watcher = connected(broker, "watcher")
    watcher.subscribe("a", qos=0)
    raw = opened(broker)
    raw.send(connect())
    raw.connack()
    raw.socket.sendall(frame(BINARY, publish("a", b"1")) + frame(TEXT, b"x") + frame(BINARY, publish("a", b"2")))
    raw.left(UNSUPPORTED)
    assert watcher.delivery().body == b"1"
    watcher.quiet()


@pytest.mark.parametrize(
    "octets",
    [
        frame(BINARY, connect(), masked=False),
        frame(CONT, connect()),
        frame(3, b"reserved"),
        frame(PING, b"a", fin=False),
        frame(PING, bytes(126)),
        frame(BINARY, b"a", fin=False) + frame(BINARY, b"b"),
        bytes([BINARY | 0xC0, 0x80, 0, 0, 0, 0]),  # a reserved bit: no extension was agreed on
    ],
)
def test_frames_against_the_rules_end_the_connection(broker: BrokerProcess, octets: bytes) -> None:
    raw = opened(broker)
    raw.socket.sendall(octets)
    raw.left(PROTOCOL_ERROR)
    assert raw.cut()


@pytest.mark.parametrize(
    "octets",
    [
        bytes([BINARY | 0x80, 0xFF]) + (1 << 40).to_bytes(8, "big") + bytes(4),
        frame(BINARY, bytes(2049)),
        frame(BINARY, connect() + PINGREQ * 700, fin=False) + frame(CONT, PINGREQ * 400),
    ],
)
def test_a_message_longer_than_a_packet_may_be_is_refused(start_process: Start, octets: bytes) -> None:
    raw = opened(start_process(mqtt_packet_octets_max=2048))
    raw.socket.sendall(octets)
    while True:
        opcode, payload = raw.frame()
        if opcode == CLOSE:
            break
    assert int.from_bytes(payload[:2], "big") == TOO_BIG
    assert raw.cut()


def send_pings(raw: RawWebSocket) -> None:
    for _ in range(PINGS_MAX // 100):
        raw.socket.sendall(frame(PING, bytes(125)) * 100)


def test_a_client_that_pings_and_never_reads_is_let_go(start_process: Start) -> None:
    broker = start_process(send_buffer_octets_max=64 * 1024)
    raw = opened(broker)
    with pytest.raises((ConnectionResetError, BrokenPipeError)):
        send_pings(raw)
    assert "pings and does not read" in broker.log_text()


# ---- the end


@pytest.mark.parametrize("payload", [b"", NORMAL.to_bytes(2, "big"), (1001).to_bytes(2, "big") + b"page closed"])
def test_a_close_frame_is_answered_and_the_will_is_published(broker: BrokerProcess, payload: bytes) -> None:
    watcher = connected(broker, "watcher")
    watcher.subscribe("gone", qos=0)
    raw = opened(broker)
    raw.send(connect("browser", will=will("gone", b"farewell")))
    raw.connack()
    raw.socket.sendall(frame(CLOSE, payload))
    assert raw.frame() == (CLOSE, payload)
    assert raw.cut()
    assert watcher.delivery().body == b"farewell"


def test_a_disconnect_ends_with_a_close_frame_and_no_will(broker: BrokerProcess) -> None:
    watcher = connected(broker, "watcher")
    watcher.subscribe("gone", qos=0)
    raw = opened(broker)
    raw.send(connect("browser", will=will("gone", b"farewell")))
    raw.connack()
    raw.send(DISCONNECT)
    raw.left(NORMAL)
    raw.socket.sendall(frame(CLOSE, NORMAL.to_bytes(2, "big")))
    assert raw.cut()
    watcher.quiet()


def test_an_error_is_told_before_the_close_frame(broker: BrokerProcess) -> None:
    raw = opened(broker)
    raw.send(connect())
    raw.connack()
    raw.send(packet(0xF8))
    assert raw.packet()[0] == 0xE0
    raw.left(NORMAL)


def test_after_its_close_frame_the_broker_takes_nothing_more(broker: BrokerProcess) -> None:
    watcher = connected(broker, "watcher")
    watcher.subscribe("a", qos=0)
    raw = opened(broker)
    raw.send(connect())
    raw.connack()
    raw.send(DISCONNECT)
    raw.left(NORMAL)
    raw.send(publish("a", b"x"))
    raw.socket.sendall(frame(CLOSE))
    assert raw.cut()
    watcher.quiet()


def test_a_client_that_does_not_answer_the_close_frame_is_cut_off(start_process: Start) -> None:
    raw = opened(start_process(drain_timeout_ms=300))
    raw.send(connect())
    raw.connack()
    raw.send(DISCONNECT)
    raw.left(NORMAL)
    assert raw.cut()


def test_a_client_that_is_taken_over_is_told(broker: BrokerProcess) -> None:
    first = opened(broker)
    first.send(connect("same"))
    first.connack()
    second = opened(broker)
    second.send(connect("same"))
    second.connack()
    assert first.expect(0xE0)[0] == 0x8E
    first.left(NORMAL)
    second.quiet()


def test_a_broker_that_stops_says_so(broker_process: BrokerProcess) -> None:
    raw = opened(broker_process)
    raw.send(connect())
    raw.connack()
    broker_process.stop()
    assert raw.expect(0xE0)[0] == 0x8B
    raw.left(NORMAL)


@pytest.mark.parametrize("sent", [b"", b"GET /mqtt HTTP/1.1\r\n", request()])
def test_a_client_that_never_comes_to_connect_is_cut_off(start_process: Start, sent: bytes) -> None:
    raw = RawWebSocket(start_process(handshake_timeout_ms=300))
    raw.socket.sendall(sent)
    with suppress(ConnectionResetError):  # as good an end
        while raw.socket.recv(65536):
            pass


def test_no_websocket_listener_where_its_address_is_empty(start_process: Start) -> None:
    broker = start_process(mqtt_websocket="")
    assert "mqtt_websocket" not in broker.ready
    connected(broker).quiet()
