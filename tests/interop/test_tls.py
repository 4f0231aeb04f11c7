"""TLS and PROXY headers with real clients: paho, pika and mosquitto_pub, on one port for both protocols."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pika
import pika.exceptions
import pytest

from tests.broker_process import BrokerProcess
from tests.certificates import Certificates
from tests.conformance.mqtt.raw import V5, V311, Raw, connect, connect_head, packet, text
from tests.interop.mqtt_client import Client
from tests.waiting import until

WAIT_S = 20
SIGNATURE = bytes.fromhex("0d0a0d0a000d0a515549540a")
Start = Callable[..., BrokerProcess]
SECURE = {"mqtts": "127.0.0.1:0", "amqps": "127.0.0.1:0"}


@pytest.fixture
def made(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path / "certificates")


def paho(broker: BrokerProcess, made: Certificates, listener: str = "mqtts", name: str = "") -> Client:
    """A paho client that trusts the broker, and shows a certificate where it has a name."""
    client = Client(broker, name or "c", listener=listener)
    certificate, key = made.issue(name) if name else (None, None)
    client.client.tls_set(str(made.ca), str(certificate) if certificate else None, str(key) if key else None)
    return client


def send_with_paho(client: Client, text: bytes) -> None:
    """Connect, and have a message back."""
    assert not client.connect()[0].is_failure
    client.subscribe("a")
    client.publish("a", text)
    assert client.next().payload == text
    client.end()


def send_with_pika(port: int, context: ssl.SSLContext | None, host: str = "localhost") -> None:
    """Connect, and have a message back."""
    security = None if context is None else pika.SSLOptions(context, host)
    parameters = pika.ConnectionParameters(
        "127.0.0.1", port, credentials=pika.PlainCredentials("guest", "guest"), ssl_options=security
    )
    with closing(pika.BlockingConnection(parameters)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_publish("", queue, b"x" * 300_000)
        _, _, body = channel.basic_get(queue, auto_ack=True)
        assert body == b"x" * 300_000


def mosquitto_pub(broker: BrokerProcess, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = ["mosquitto_pub", "-h", "127.0.0.1", "-p", str(broker.port("mqtts")), "-u", "guest", "-P", "guest"]
    return subprocess.run(
        [*command, "-t", "a", "-m", "x", "-q", "1", *arguments], capture_output=True, timeout=WAIT_S, check=False
    )


# ---- one port for both protocols


def test_both_protocols_speak_on_each_plain_port(broker: BrokerProcess) -> None:
    for listener in ("mqtt", "amqp"):
        send_with_paho(Client(broker, "c", listener=listener), b"over " + listener.encode())
        send_with_pika(broker.port(listener), None)


def test_both_protocols_speak_on_each_tls_port(start_broker: Start, made: Certificates) -> None:
    broker = start_broker(**made.options(**SECURE))
    for listener in ("mqtts", "amqps"):
        send_with_paho(paho(broker, made, listener), b"over " + listener.encode() * 100_000)
        send_with_pika(broker.port(listener), made.client())


# ---- certificates


def test_mosquitto_pub(start_broker: Start, made: Certificates) -> None:
    broker = start_broker(**made.options(**SECURE))
    assert mosquitto_pub(broker, "--cafile", str(made.ca)).returncode == 0


def test_a_client_that_does_not_trust_the_authority_stays_away(
    start_broker: Start, made: Certificates, tmp_path: Path
) -> None:
    broker = start_broker(**made.options(**SECURE))
    stranger = Certificates(tmp_path / "stranger")
    assert mosquitto_pub(broker, "--cafile", str(stranger.ca)).returncode != 0
    assert mosquitto_pub(broker, "--cafile", str(made.ca)).returncode == 0


def test_a_client_certificate_may_be_required(start_broker: Start, made: Certificates, tmp_path: Path) -> None:
    broker = start_broker(**made.options(tls_client_ca=str(made.ca), tls_client_auth="required", **SECURE))
    certificate, key = made.issue("sensor-1")
    shown = ["--cert", str(certificate), "--key", str(key)]
    assert mosquitto_pub(broker, "--cafile", str(made.ca), *shown).returncode == 0
    send_with_paho(paho(broker, made, name="sensor-2"), b"x")
    send_with_pika(broker.port("amqps"), made.client("worker"))

    certificate, key = Certificates(tmp_path / "stranger").issue("sensor-1")
    forged = ["--cert", str(certificate), "--key", str(key)]
    assert mosquitto_pub(broker, "--cafile", str(made.ca)).returncode != 0
    assert mosquitto_pub(broker, "--cafile", str(made.ca), *forged).returncode != 0
    with pytest.raises((pika.exceptions.AMQPConnectionError, ssl.SSLError, ConnectionResetError)):
        send_with_pika(broker.port("amqps"), made.client())
    assert "ended before its first packet" in broker.log_text()


def test_an_optional_client_certificate_must_be_good_all_the_same(
    start_broker: Start, made: Certificates, tmp_path: Path
) -> None:
    broker = start_broker(**made.options(tls_client_ca=str(made.ca), tls_client_auth="optional", **SECURE))
    send_with_paho(paho(broker, made), b"without")
    send_with_paho(paho(broker, made, name="sensor-1"), b"with")
    certificate, key = Certificates(tmp_path / "stranger").issue("sensor-1")
    forged = ["--cert", str(certificate), "--key", str(key)]
    assert mosquitto_pub(broker, "--cafile", str(made.ca), *forged).returncode != 0


@pytest.mark.parametrize(("least", "spoken"), [("1.2", True), ("1.3", False)])
def test_an_older_version_of_tls_is_refused(start_broker: Start, made: Certificates, least: str, spoken: bool) -> None:
    broker = start_broker(**made.options(tls_minimum_version=least, **SECURE))
    context = made.client()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection(("127.0.0.1", broker.port("mqtts")), timeout=WAIT_S) as plain:
        if not spoken:
            with pytest.raises(ssl.SSLError):
                context.wrap_socket(plain, server_hostname="localhost")
            return
        with context.wrap_socket(plain, server_hostname="localhost") as secure:
            assert secure.version() == "TLSv1.2"
            secure.sendall(connect())
            assert secure.recv(1) == b"\x20"


# ---- PROXY headers


def header(version: int, source: str) -> bytes:
    """A header that announces a client at this address."""
    if version == 1:
        return f"PROXY TCP4 {source} 198.51.100.1 4000 1883\r\n".encode()
    addresses = socket.inet_aton(source) + socket.inet_aton("198.51.100.1") + b"\x0f\xa0\x07\x5b"
    noop = b"\x04\x00\x05" + bytes(5)
    return SIGNATURE + b"\x21\x11" + len(addresses + noop).to_bytes(2, "big") + addresses + noop


LOCAL = SIGNATURE + b"\x20\x00\x00\x00"


def proxied(
    broker: BrokerProcess, head: bytes, secure: ssl.SSLContext | None = None, said: bytes = b"", version: int = V5
) -> Raw:
    """A client behind a proxy, which has said the header; what the client says is a CONNECT of guest or else `said`."""
    raw = Raw(broker, version)
    if secure is not None:
        raw.socket.close()
        raw.socket = socket.create_connection(("127.0.0.1", broker.port("mqtts")), timeout=WAIT_S)
        raw.socket.sendall(head)
        raw.socket = secure.wrap_socket(raw.socket, server_hostname="localhost")
        head = b""
    raw.socket.sendall(head + (said or connect()))
    return raw


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize(
    ("head", "code"),
    [
        (header(1, "127.0.0.1"), 0),
        (header(2, "127.0.0.1"), 0),
        (LOCAL, 0),
        (header(1, "192.0.2.1"), 0x86),
        (header(2, "192.0.2.1"), 0x86),
        (b"PROXY UNKNOWN\r\n", 0x86),
    ],
)
def test_guest_is_who_is_announced_from_this_machine(
    start_broker: Start, made: Certificates, head: bytes, code: int, secure: bool
) -> None:
    broker = start_broker(**made.options(proxy_protocol=True, **SECURE))
    with closing(proxied(broker, head, made.client() if secure else None)) as raw:
        assert raw.expect(0x20)[1] == code
        assert not code or raw.ended()
    if code:
        whose = "unknown" if b"UNKNOWN" in head else "192.0.2.1:4000"
        until(lambda: f"connection from {whose} ended" in broker.log_text(), broker.log_text)


@pytest.mark.parametrize("version", [V311, V5])
@pytest.mark.parametrize(
    ("identity", "name", "welcome"),
    [("cn", "sensor-1", True), ("cn", "", False), ("none", "sensor-1", False)],
)
def test_a_certificate_logs_its_owner_in(
    start_broker: Start, made: Certificates, version: int, identity: str, name: str, welcome: bool
) -> None:
    """Without a user name a client is guest, who may not come from elsewhere; the owner of a certificate may."""
    trust = made.options(tls_client_ca=str(made.ca), tls_client_auth="optional", tls_identity=identity)
    broker = start_broker(**trust, proxy_protocol=True, **SECURE)
    nameless = packet(0x10, connect_head(2, version) + text("c"))
    with closing(proxied(broker, header(2, "192.0.2.1"), made.client(name), nameless, version)) as raw:
        assert (raw.expect(0x20)[1] == 0) is welcome


def test_a_user_name_goes_before_the_certificate(start_broker: Start, made: Certificates) -> None:
    trust = made.options(tls_client_ca=str(made.ca), tls_client_auth="required", tls_identity="cn")
    broker = start_broker(**trust, proxy_protocol=True, **SECURE)
    wrong = connect(login=("guest", "wrong"))
    with closing(proxied(broker, LOCAL, made.client("sensor-1"), wrong)) as raw:
        assert raw.expect(0x20)[1] == 0x86


@pytest.mark.parametrize("name", ["ada", "nobody"])
def test_a_certificate_logs_its_owner_in_over_amqp(start_broker: Start, made: Certificates, name: str) -> None:
    """SASL EXTERNAL: who is a user has its permissions, whom only the authority vouches for may do everything."""
    trust = made.options(tls_client_ca=str(made.ca), tls_client_auth="required", tls_identity="cn")
    mine = [{"user": "ada", "configure": "^ada", "write": "", "read": ""}]
    broker = start_broker(**trust, users={"ada": "a"}, permissions=mine, **SECURE)
    parameters = pika.ConnectionParameters(
        "127.0.0.1",
        broker.port("amqps"),
        credentials=pika.credentials.ExternalCredentials(),
        ssl_options=pika.SSLOptions(made.client(name), "localhost"),
    )
    with closing(pika.BlockingConnection(parameters)) as connection:
        channel = connection.channel()
        if name == "ada":
            with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="refused for user 'ada'"):
                channel.queue_declare("q")
            channel = connection.channel()
        channel.queue_declare("ada's")


def test_external_is_offered_only_to_who_shows_a_certificate(start_broker: Start, made: Certificates) -> None:
    trust = made.options(tls_client_ca=str(made.ca), tls_client_auth="optional", tls_identity="cn")
    broker = start_broker(**trust, **SECURE)
    parameters = pika.ConnectionParameters(
        "127.0.0.1",
        broker.port("amqps"),
        credentials=pika.credentials.ExternalCredentials(),
        ssl_options=pika.SSLOptions(made.client(), "localhost"),
    )
    with pytest.raises(pika.exceptions.AuthenticationError, match="EXTERNAL"):
        pika.BlockingConnection(parameters)


@contextmanager
def proxy(broker: BrokerProcess, listener: str, head: bytes) -> Iterator[int]:
    """A proxy before a listener: its port."""

    def carry(source: socket.socket, sink: socket.socket) -> None:
        try:
            while octets := source.recv(65536):
                sink.sendall(octets)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # one side has ended, and so does the other

    def serve() -> None:
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", broker.port(listener)))
            server.sendall(head)
            pair = [threading.Thread(target=carry, args=ends) for ends in ((client, server), (server, client))]
            for thread in pair:
                thread.start()
            for thread in pair:
                thread.join()
            client.close()
            server.close()

    listening = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


@pytest.mark.parametrize("listener", ["amqp", "amqps"])
@pytest.mark.parametrize("version", [1, 2])
def test_pika_behind_a_proxy(start_broker: Start, made: Certificates, listener: str, version: int) -> None:
    broker = start_broker(**made.options(proxy_protocol=True, **SECURE))
    with proxy(broker, listener, header(version, "127.0.0.9")) as port:
        send_with_pika(port, made.client() if listener == "amqps" else None)


def test_without_the_option_a_header_is_no_protocol(broker: BrokerProcess) -> None:
    raw = Raw(broker)
    raw.socket.sendall(header(1, "127.0.0.1") + connect())
    assert raw.ended()


def test_with_the_option_a_client_without_header_is_cut_off(start_broker: Start) -> None:
    broker = start_broker(proxy_protocol=True)
    raw = Raw(broker)
    raw.socket.sendall(connect())
    assert raw.ended()
    assert "ended before its first packet: PROXY header: it begins with" in broker.log_text()
