"""TLS within a connection: protocol header 2, and then the handshake (part 5.2)."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.broker_process import BrokerProcess, running
from tests.certificates import Certificates
from tests.conformance.amqp10.raw import (
    ACCEPTED,
    AMQP_HEADER,
    BEGIN,
    INIT,
    MECHANISMS,
    OPEN,
    OUTCOME,
    SASL_HEADER,
    Raw,
    Symbol,
    begin,
    message,
    opened,
    performative,
    transfer,
)
from tests.conformance.mqtt.raw import connect

TLS_HEADER = b"AMQP\x02\x01\x00\x00"
Start = Callable[..., BrokerProcess]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """An authority, and the broker's certificate."""
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[BrokerProcess]:
    """A broker that has a certificate, no TLS listener, and users that certificates name."""
    named = {"tls_client_ca": str(certificates.ca), "tls_client_auth": "optional", "tls_identity": "cn"}
    with running(tmp_path_factory.mktemp("broker"), **certificates.options(**named)) as broker:
        yield broker


class SecuredRaw(Raw):
    """A connection that has begun TLS; the handshake is done.

    is_pipelined  the client's part of the handshake was sent with the header, in one write
    """

    def __init__(
        self,
        broker: BrokerProcess,
        context: ssl.SSLContext,
        is_pipelined: bool = False,
        listener: str = "amqp",
        octets: int = 65536,
    ) -> None:
        super().__init__(broker)
        if listener != "amqp":
            self.socket.close()
            self.socket = broker.dial(listener)
        self.octets = octets
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="127.0.0.1")
        head = b"" if is_pipelined else TLS_HEADER
        if not is_pipelined:
            self.socket.sendall(TLS_HEADER)
            assert self.below(8) == TLS_HEADER
        is_answered = not is_pipelined
        while True:
            try:
                self.tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self.push(TLS_HEADER if not is_answered and not head else b"")
                head = TLS_HEADER
            if not is_answered:
                assert self.below(8) == TLS_HEADER
                is_answered = True
            self.incoming.write(self.socket.recv(65536))
        self.push()

    def below(self, count: int) -> bytes:
        """So many bytes of the connection below TLS."""
        found = b""
        while len(found) < count:
            more = self.socket.recv(count - len(found))
            assert more, f"the broker closed the connection after {found!r}"
            found += more
        return found

    def push(self, before: bytes = b"") -> None:
        """Send what TLS has to say, a few bytes at a time if so asked."""
        octets = before + self.outgoing.read()
        for at in range(0, len(octets), self.octets):
            self.socket.sendall(octets[at : at + self.octets])

    def send(self, *octets: bytes) -> None:
        self.tls.write(b"".join(octets))
        self.push()

    def read(self, octets: int) -> bytes:
        while len(self.rest) < octets:
            try:
                more = self.tls.read(65536)
            except ssl.SSLWantReadError:
                came = self.socket.recv(65536)
                assert came, f"the broker closed the connection after {self.rest!r}"
                self.incoming.write(came)
                continue
            assert more, "the broker ended TLS"
            self.rest += more
        taken, self.rest = self.rest[:octets], self.rest[octets:]
        return taken


def publish(raw: Raw, queue: str) -> None:
    """Publish a message, which is accepted, and consume it."""
    raw.send(begin())
    raw.expect(BEGIN)
    raw.publisher(f"$queue/{queue}")
    raw.send(transfer(0, message(b"secret")))
    assert raw.outcome() == (0, 0, ACCEPTED)
    raw.consumer(f"$queue/{queue}", credit=1)
    assert raw.delivery()[1][-1].value == b"secret"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("is_pipelined", [False, True])
@pytest.mark.parametrize("octets", [65536, 7])
def test_the_same_header_and_then_tls(
    process: BrokerProcess, certificates: Certificates, version: ssl.TLSVersion, is_pipelined: bool, octets: int
) -> None:
    context = certificates.client()
    context.minimum_version = context.maximum_version = version
    raw = SecuredRaw(process, context, is_pipelined, octets=octets)
    raw.open()
    publish(raw, f"tls-{version.name}-{is_pipelined}-{octets}")


def test_what_a_client_sends_without_waiting_is_not_lost(process: BrokerProcess, certificates: Certificates) -> None:
    """The SASL header may come in one write with the last part of the handshake."""
    for _ in range(20):
        raw = SecuredRaw(process, certificates.client(), octets=1 << 20)
        raw.log_in()


def test_the_mqtt_listener_takes_it_too(process: BrokerProcess, certificates: Certificates) -> None:
    raw = SecuredRaw(process, certificates.client(), listener="mqtt")
    raw.open()


def test_a_certificate_says_who_the_client_is(process: BrokerProcess, certificates: Certificates) -> None:
    """5.3.3: EXTERNAL stands for what the layer below SASL has found."""
    raw = SecuredRaw(process, certificates.client("sensor-1"))
    raw.send(SASL_HEADER, performative(0, INIT, Symbol("EXTERNAL"), None, kind=1))
    assert raw.read(8) == SASL_HEADER
    assert "EXTERNAL" in raw.expect(MECHANISMS, kind=1)[0]
    assert raw.expect(OUTCOME, kind=1)[0] == 0
    raw.send(AMQP_HEADER, opened())
    assert raw.read(8) == AMQP_HEADER
    raw.expect(OPEN)


@pytest.mark.parametrize("header", [TLS_HEADER, connect(), b"FBLK\x01\x00\x00\x00"])
def test_inside_is_nothing_but_amqp(process: BrokerProcess, certificates: Certificates, header: bytes) -> None:
    raw = SecuredRaw(process, certificates.client())
    raw.send(header)
    assert raw.read(8)[:4] == b"AMQP"
    with pytest.raises(AssertionError, match="the broker"):
        raw.read(1)


def test_without_a_certificate_another_header_is_offered(start_process: Start) -> None:
    """2.2: a header that is served here, and the end."""
    raw = Raw(start_process())
    raw.send(TLS_HEADER)
    assert raw.read(8) == SASL_HEADER
    assert raw.ended()


def test_a_tls_listener_begins_no_second_tls(start_process: Start, certificates: Certificates) -> None:
    broker = start_process(**certificates.options(amqps="127.0.0.1:0"))
    plain = socket.create_connection(("127.0.0.1", broker.port("amqps")), timeout=20)
    with certificates.client().wrap_socket(plain, server_hostname="127.0.0.1") as client:
        client.sendall(TLS_HEADER)
        assert client.recv(8) == SASL_HEADER


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x02\x00\x01\x00", b"no TLS at all, and no ClientHello either"])
def test_a_handshake_that_comes_to_nothing_ends_the_connection(
    start_process: Start, certificates: Certificates, sent: bytes
) -> None:
    broker = start_process(**certificates.options(handshake_timeout_ms=500))
    for together in (True, False):
        raw = Raw(broker)
        if together:
            raw.send(TLS_HEADER + sent)
        else:
            raw.send(TLS_HEADER)
            assert raw.read(8) == TLS_HEADER
            raw.send(sent)
        with suppress(ConnectionResetError):
            while raw.socket.recv(65536):
                pass
    assert SecuredRaw(broker, certificates.client()).open()


def test_a_client_that_goes_in_the_middle(process: BrokerProcess, certificates: Certificates) -> None:
    for octets in (0, 1, 50, 200):
        raw = Raw(process)
        bio = ssl.MemoryBIO()
        tls = certificates.client().wrap_bio(ssl.MemoryBIO(), bio, server_hostname="127.0.0.1")
        with suppress(ssl.SSLWantReadError):
            tls.do_handshake()
        raw.send(TLS_HEADER + bio.read()[:octets])
        raw.socket.close()
    assert SecuredRaw(process, certificates.client()).open()


def test_a_client_that_trusts_somebody_else(process: BrokerProcess) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        SecuredRaw(process, ssl.create_default_context())


def test_handshakes_count_for_what_clients_without_a_login_may_take(
    start_process: Start, certificates: Certificates
) -> None:
    options = certificates.options(login_buffers_octets_max=4 * 65_536, handshake_timeout_ms=600_000)
    broker = start_process(**options)
    waiting = []
    for _ in range(8):
        raw = Raw(broker)
        raw.send(TLS_HEADER)
        assert raw.read(8) == TLS_HEADER
        waiting.append(raw)
    for raw in waiting[:4]:
        assert raw.ended()
    assert SecuredRaw(broker, certificates.client()).open()


def test_a_broker_that_stops_tells_a_client_behind_tls(
    start_process: Start, certificates: Certificates, tmp_path: Path
) -> None:
    broker = start_process(**certificates.options())
    raw = SecuredRaw(broker, certificates.client())
    raw.open()
    waiting = Raw(broker)
    waiting.send(TLS_HEADER)
    assert waiting.read(8) == TLS_HEADER
    broker.stop()
    assert raw.error(0x18)[0] == "amqp:connection:forced"
