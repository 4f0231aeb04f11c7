"""What strangers can make the HTTP ports hold: a little, for a while, and nobody else waits for it."""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from tests.broker_process import BrokerProcess
from tests.waiting import until

MIB = 1 << 20
WAIT_S = 60
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
METRICS = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
GROWTH_MAX = 48 * MIB
Start = Callable[..., BrokerProcess]


def resident(broker: BrokerProcess, what: str = "VmRSS") -> int:
    """Octets of memory of the broker now; of `VmHWM` the most that there ever were."""
    for line in Path(f"/proc/{broker.pid}/status").read_text().splitlines():
        if line.startswith(what + ":"):
            return int(line.split()[1]) * 1024
    raise AssertionError(what)


def peak_since(broker: BrokerProcess, before: int) -> int:
    return resident(broker, "VmHWM") - before


@pytest.fixture
def broker(start_broker: Start) -> BrokerProcess:
    broker = start_broker(http="127.0.0.1:0", prometheus="127.0.0.1:0", handshake_timeout_ms=60_000)
    httpx.get(f"{broker.http_url}/health")  # what the first request loads is there
    httpx.get(f"http://127.0.0.1:{broker.port('prometheus')}/metrics")
    return broker


@contextmanager
def connected(broker: BrokerProcess, listener: str = "http") -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", broker.port(listener)), WAIT_S) as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        yield raw


def pour(raws: list[socket.socket], octets: bytes, most: int, quiet_s: float = 0.7) -> int:
    """Send to all of them until each has had so much, or none has taken anything for a while; how much they took."""
    left = {raw: memoryview(octets * (most // len(octets))) for raw in raws}
    taken = 0
    while left:
        _, ready, _ = select.select([], list(left), [], quiet_s)
        if not ready:
            break
        for raw in ready:
            try:
                sent = raw.send(left[raw][: 1 << 16], socket.MSG_DONTWAIT)
            except BlockingIOError:
                continue
            except OSError:  # the broker has ended it
                del left[raw]
                continue
            taken += sent
            left[raw] = left[raw][sent:]
            if not left[raw]:
                del left[raw]
    return taken


def line_of(raw: socket.socket) -> bytes:
    """The first line of what the broker answers; empty where it has only closed the connection."""
    octets = b""
    with contextlib.suppress(ConnectionResetError):
        while b"\r\n" not in octets and (more := raw.recv(4096)):
            octets += more
    return octets.partition(b"\r\n")[0]


@pytest.mark.parametrize(("listener", "request_"), [("http", HEALTH), ("prometheus", METRICS)])
def test_requests_behind_an_answer_that_nobody_reads_wait_outside(
    broker: BrokerProcess, listener: str, request_: bytes
) -> None:
    before = resident(broker)
    with ExitStack() as stack:
        raws = [stack.enter_context(connected(broker, listener)) for _ in range(4)]
        pour(raws, request_, 16 * MIB)
        began = time.monotonic()
        assert httpx.get(f"{broker.http_url}/health").status_code == 200
        assert time.monotonic() - began < 20
        assert peak_since(broker, before) < GROWTH_MAX
    until(lambda: resident(broker) - before < GROWTH_MAX)


def test_all_pipelined_requests_of_who_reads_are_answered_in_order(broker: BrokerProcess) -> None:
    paths = [b"/health" if number % 3 else b"/none-%d" % number for number in range(600)]
    with connected(broker) as raw:
        sent = b"".join(b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n" % path for path in paths)
        body = b"POST /publish/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello"
        chunked = (
            b"POST /publish/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n0\r\n\r\n"
        )
        last = b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        octets = sent + body + chunked + body + last
        raw.setblocking(True)
        file = raw.makefile("rb")
        for at in range(0, len(octets), 7000):
            raw.sendall(octets[at : at + 7000])
        answers = list(statuses(file))
    assert answers == [200 if path == b"/health" else 404 for path in paths] + [401, 401, 401, 200]


def statuses(file: object) -> Iterator[int]:
    """The statuses of the answers on a connection, until its end."""
    while line := file.readline():  # type: ignore[attr-defined]
        length = 0
        while (header := file.readline()) not in (b"\r\n", b""):  # type: ignore[attr-defined]
            if header.lower().startswith(b"content-length:"):
                length = int(header.split(b":")[1])
        file.read(length)  # type: ignore[attr-defined]
        yield int(line.split()[1])


def test_each_octet_may_come_by_itself(broker: BrokerProcess) -> None:
    with connected(broker) as raw:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for octet in HEALTH:
            raw.sendall(bytes([octet]))
        assert line_of(raw) == b"HTTP/1.1 200 OK"


ENDLESS = {
    "lines": (b"GET /health HTTP/1.1\r\nHost: localhost\r\n", b"a:b\r\n"),
    "one line": (b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: ", b"x" * 1024),
    "name": (b"GET /health HTTP/1.1\r\nHost: localhost\r\n", b"x" * 1024),
    "path": (b"GET /health?", b"x" * 1024),
    "trailers": (b"POST /publish/a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"a:b\r\n"),
    "one trailer": (b"POST /publish/a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ", b"x" * 1024),
    "extension": (b"POST /publish/a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"x" * 1024),
    "empty lines": (b"", b"\r\n" * 512),
}


@pytest.mark.parametrize("listener", ["http", "prometheus"])
@pytest.mark.parametrize("how", ENDLESS)
def test_a_head_has_an_end(broker: BrokerProcess, listener: str, how: str) -> None:
    before = resident(broker)
    begin, more = ENDLESS[how]
    with ExitStack() as stack:
        raws = [stack.enter_context(connected(broker, listener)) for _ in range(4)]
        for raw in raws:
            raw.sendall(begin)
        taken = pour(raws, more, 8 * MIB)
        assert taken < 4 * 8 * MIB
        assert peak_since(broker, before) < GROWTH_MAX
        for raw in raws:
            assert line_of(raw).partition(b" ")[2][:3] in (b"431", b"401", b"404", b"")  # or it is answered before


def test_a_head_that_is_too_long_is_told_so(start_broker: Start) -> None:
    broker = start_broker(http="127.0.0.1:0", http_head_octets_max=8192)
    for length, status in ((7000, 200), (8200, 431)):
        answer = httpx.get(f"{broker.http_url}/health", headers={"X-Long": "x" * length})
        assert answer.status_code == status
    assert "http_head_octets_max" in answer.json()["reason"]
    many = httpx.get(f"{broker.http_url}/health", headers=[("X", "")] * 300)  # each takes 32 octets besides
    assert many.status_code == 431


def test_connections_are_limited_by_address_and_in_all(start_broker: Start) -> None:
    broker = start_broker(
        http="127.0.0.1:0",
        prometheus="127.0.0.1:0",
        http_connections_max=3,
        http_address_connections_max=2,
        http_hosts=["*"],
        proxy_protocol=True,
    )
    with ExitStack() as stack:

        def opened(address: str, listener: str = "http") -> socket.socket:
            raw = stack.enter_context(connected(broker, listener))
            raw.sendall(f"PROXY TCP4 {address} 192.0.2.1 4000 80\r\n".encode() + HEALTH)
            return raw

        first = opened("198.51.100.1")
        assert line_of(first) == b"HTTP/1.1 200 OK"
        assert line_of(opened("198.51.100.1", "prometheus")) == b"HTTP/1.1 404 Not Found"
        too_many = opened("198.51.100.1")
        assert line_of(too_many) == b"HTTP/1.1 503 Service Unavailable"
        assert line_of(opened("198.51.100.2")) == b"HTTP/1.1 200 OK"
        assert line_of(opened("198.51.100.3")) == b"HTTP/1.1 503 Service Unavailable"
        first.close()
        until(lambda: line_of(opened("198.51.100.1")) == b"HTTP/1.1 200 OK")


def test_bodies_of_all_together_are_limited(start_broker: Start) -> None:
    broker = start_broker(
        http="127.0.0.1:0", http_body_octets_max=4 * MIB, http_requests_octets_max=8 * MIB, memory_octets_max=MIB * 512
    )
    before = resident(broker)
    head = b"POST /publish/a HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n"
    with ExitStack() as stack:
        raws = [stack.enter_context(connected(broker)) for _ in range(20)]
        for raw in raws:
            raw.sendall(head + b"Content-Length: %d\r\n\r\n" % (4 * MIB))
        pour(raws, b"x" * 1024, 4 * MIB - 1024)  # none is whole
        assert peak_since(broker, before) < GROWTH_MAX
        until(lambda: len(select.select(raws, [], [], 0)[0]) >= 18)  # two of them at most are taken in
        ended = select.select(raws, [], [], 0)[0]
        assert {line_of(raw) for raw in ended} <= {b"HTTP/1.1 503 Service Unavailable", b""}
    until(lambda: httpx.post(f"{broker.http_url}/publish/a", content=b"x" * MIB, auth=("guest", "guest")).is_success)


def test_connections_leave_nothing_behind(broker: BrokerProcess) -> None:
    def burst() -> None:
        with ExitStack() as stack:
            raws = [stack.enter_context(connected(broker, name)) for name in ("http", "prometheus") * 150]
            for raw in raws:
                raw.sendall(HEALTH)
            for raw in raws:
                assert line_of(raw)

    burst()
    before = resident(broker)
    for _ in range(8):
        burst()
    until(lambda: resident(broker) - before < 8 * MIB)


def test_a_reader_of_events_that_sends_on_is_not_heard(broker: BrokerProcess) -> None:
    before = resident(broker)
    head = b"GET /subscribe/a HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n\r\n"
    with ExitStack() as stack:
        raws = [stack.enter_context(connected(broker)) for _ in range(4)]
        for raw in raws:
            raw.sendall(head)
            assert line_of(raw) == b"HTTP/1.1 200 OK"
        assert pour(raws, HEALTH, 16 * MIB) < 64 * MIB
        assert peak_since(broker, before) < GROWTH_MAX
        httpx.post(f"{broker.http_url}/publish/a", content=b"still there", auth=("guest", "guest"))
        assert b"still there" in raws[0].recv(1 << 16)


@pytest.mark.parametrize("how", ["lines", "one line", "path"])
def test_the_head_of_a_websocket_has_an_end(broker: BrokerProcess, how: str) -> None:
    before = resident(broker)
    begin, more = ENDLESS[how]
    with ExitStack() as stack:
        raws = [stack.enter_context(connected(broker, "mqtt_websocket")) for _ in range(4)]
        for raw in raws:
            raw.sendall(begin)
        assert pour(raws, more, 8 * MIB) < 32 * MIB
        assert peak_since(broker, before) < GROWTH_MAX


def test_asking_for_a_websocket_where_there_is_none_fills_no_log(broker: BrokerProcess) -> None:
    asked = {"Connection": "Upgrade", "Upgrade": "websocket"}
    for _ in range(3):
        assert httpx.get(f"{broker.http_url}/health", headers=asked).status_code == 200
    assert "upgrade" not in broker.log_text().lower()


def long_answers(broker: BrokerProcess) -> bytes:
    """A request whose answer has some 5 MiB."""
    with httpx.Client(base_url=f"{broker.http_url}/api", auth=("guest", "guest"), timeout=WAIT_S) as http:
        http.put("/queues/%2F/long", json={"durable": False}).raise_for_status()
        message = {"properties": {}, "routing_key": "long", "payload": "x" * (4 * MIB), "payload_encoding": "string"}
        assert http.post("/exchanges/%2F/amq.default/publish", json=message).json() == {"routed": True}
    body = b'{"count": 1, "ackmode": "ack_requeue_true", "encoding": "base64"}'
    head = b"POST /api/queues/%2F/long/get HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n"
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def test_long_answers_that_nobody_reads_are_limited(start_broker: Start) -> None:
    """The connections with the most are ended, and who reads is answered all the same."""
    broker = start_broker(
        http="127.0.0.1:0", http_body_octets_max=8 * MIB, send_buffers_octets_max=12 * MIB, handshake_timeout_ms=60_000
    )
    request = long_answers(broker)
    before = resident(broker)
    with ExitStack() as stack:
        raws = [stack.enter_context(connected(broker)) for _ in range(80)]
        for raw in raws:
            raw.sendall(request)
        until(lambda: ended_unread(broker) >= 60)
        assert (
            peak_since(broker, before) < 220 * MIB
        )  # 80 answers, and what they are made of, would take thrice as much
        answer = httpx.get(f"{broker.http_url}/api/queues", auth=("guest", "guest"), timeout=WAIT_S)
        assert answer.status_code == 200


def ended_unread(broker: BrokerProcess) -> int:
    """The number of connections that were ended for what their clients did not read."""
    text = httpx.get(f"{broker.http_url}/metrics", auth=("guest", "guest"), timeout=WAIT_S).text
    name = 'forebay_http_refused_total{why="unread"} '
    return sum(int(line.removeprefix(name)) for line in text.splitlines() if line.startswith(name))
