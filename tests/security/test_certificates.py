"""Certificates that change while the broker runs, that were revoked or are too old, and whom they name."""

from __future__ import annotations

import datetime as dt
import ssl
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx
import pika
import pika.exceptions
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.broker_process import BrokerProcess
from tests.certificates import Certificates
from tests.interop.mqtt_client import Client
from tests.waiting import until

Start = Callable[..., BrokerProcess]
WAIT_S = 60
REFUSED = (pika.exceptions.AMQPConnectionError, ssl.SSLError, ConnectionResetError)


@pytest.fixture
def made(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path / "certificates")


def connect(broker: BrokerProcess, context: ssl.SSLContext, external: bool = False) -> pika.BlockingConnection:
    credentials = pika.credentials.ExternalCredentials() if external else pika.PlainCredentials("guest", "guest")
    return pika.BlockingConnection(
        pika.ConnectionParameters(
            "127.0.0.1",
            broker.port("amqps"),
            credentials=credentials,
            ssl_options=pika.SSLOptions(context, "localhost"),
            socket_timeout=WAIT_S,
        )
    )


def context_of(made: Certificates, certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(made.ca))
    context.load_cert_chain(certificate, key)
    return context


def revocations(made: Certificates, *certificates: Path) -> bytes:
    """A list by the authority of those certificates."""
    key = serialization.load_pem_private_key(made.authority.private_key_pem.bytes(), None)
    issuer = x509.load_pem_x509_certificate(made.authority.cert_pem.bytes())
    now = dt.datetime.now(dt.UTC)
    builder = x509.CertificateRevocationListBuilder().issuer_name(issuer.subject)
    builder = builder.last_update(now - dt.timedelta(days=1)).next_update(now + dt.timedelta(days=1))
    for path in certificates:
        serial = x509.load_pem_x509_certificate(path.read_bytes()).serial_number
        revoked = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now)
        builder = builder.add_revoked_certificate(revoked.build())
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)  # type: ignore[arg-type]


def served_serial(broker: BrokerProcess) -> int:
    pem = ssl.get_server_certificate(("127.0.0.1", broker.port("amqps")), timeout=WAIT_S)
    return x509.load_pem_x509_certificate(pem.encode()).serial_number


def serial_of(path: Path) -> int:
    return x509.load_pem_x509_certificate(path.read_bytes()).serial_number


def test_a_new_certificate_is_taken_up_and_connections_go_on(start_broker: Start, made: Certificates) -> None:
    broker = start_broker(**made.options(amqps="127.0.0.1:0", tls_watch_s=1))
    assert served_serial(broker) == serial_of(made.certificate)
    with closing(connect(broker, made.client())) as before:
        certificate, key = made.issue("renewed", "127.0.0.1", "localhost")
        made.key.write_bytes(b"no key")
        until(lambda: "the old ones stay in use" in broker.log_text())
        assert served_serial(broker) == serial_of(made.certificate)

        made.key.write_bytes(key.read_bytes())
        made.certificate.write_bytes(certificate.read_bytes())
        until(lambda: served_serial(broker) == serial_of(certificate))
        with closing(connect(broker, made.client())) as after:
            assert after.channel().queue_declare("q", exclusive=True).method.queue == "q"
        assert before.channel().queue_declare("r", exclusive=True).method.queue == "r"


def test_another_authority_for_clients_is_taken_up(start_broker: Start, made: Certificates, tmp_path: Path) -> None:
    other = Certificates(tmp_path / "other")
    trusted = made.folder / "trusted.pem"
    trusted.write_bytes(made.ca.read_bytes())
    options = made.options(amqps="127.0.0.1:0", tls_client_ca=str(trusted), tls_client_auth="required", tls_watch_s=1)
    broker = start_broker(**options)
    stranger = context_of(made, *other.issue("stranger"))
    with pytest.raises(REFUSED):
        connect(broker, stranger)
    connect(broker, made.client("friend")).close()
    trusted.write_bytes(other.ca.read_bytes())
    until(lambda: "TLS: certificate" in broker.log_text())
    connect(broker, stranger).close()
    with pytest.raises(REFUSED):
        connect(broker, made.client("friend"))


def test_a_revoked_certificate_is_refused(start_broker: Start, made: Certificates) -> None:
    good, bad = made.issue("good"), made.issue("bad")
    crl = made.folder / "revoked.pem"
    crl.write_bytes(revocations(made))
    broker = start_broker(
        **made.options(
            amqps="127.0.0.1:0",
            tls_client_ca=str(made.ca),
            tls_client_auth="required",
            tls_client_crl=str(crl),
            tls_watch_s=1,
        )
    )
    connect(broker, context_of(made, *bad)).close()
    crl.write_bytes(revocations(made, bad[0]))
    until(lambda: "TLS: certificate" in broker.log_text())
    with pytest.raises(REFUSED):
        connect(broker, context_of(made, *bad))
    connect(broker, context_of(made, *good)).close()
    until(lambda: "revoked" in broker.log_text())


def test_a_clients_certificate_that_is_too_old_is_refused(start_broker: Start, made: Certificates) -> None:
    old = made.authority.issue_cert("old.example", not_after=dt.datetime(2020, 1, 1, tzinfo=dt.UTC))
    path = made.folder / "old.pem"
    old.private_key_and_cert_chain_pem.write_to_path(path)
    options = made.options(amqps="127.0.0.1:0", tls_client_ca=str(made.ca), tls_client_auth="required")
    broker = start_broker(**options)
    with pytest.raises(REFUSED):
        connect(broker, context_of(made, path, path))
    until(lambda: "expired" in broker.log_text())


def test_an_expired_certificate_of_the_broker_stops_its_start(made: Certificates, tmp_path: Path) -> None:
    old = made.authority.issue_cert("localhost", not_after=dt.datetime(2020, 1, 1, tzinfo=dt.UTC))
    path = made.folder / "old.pem"
    old.private_key_and_cert_chain_pem.write_to_path(path)
    broker = BrokerProcess(tmp_path / "b", amqps="127.0.0.1:0", tls_certificate=str(path))
    broker.launch()
    assert broker.wait() == 2
    assert "was good until 2020-01-01" in broker.log_text()


@pytest.mark.parametrize(
    ("how", "identity", "user"),
    [
        ("cn", "x.example", "sensor-1"),
        ("dn", "x.example", ""),
        ("san_dns", "sensor.example", "sensor.example"),
        ("san_email", "sensor@example.org", "sensor@example.org"),
        ("san_ip", "10.1.2.3", "10.1.2.3"),
        ("san_uri", "spiffe://factory/sensor", "spiffe://factory/sensor"),
    ],
)
def test_a_certificate_says_who_the_client_is(
    start_broker: Start, made: Certificates, how: str, identity: str, user: str
) -> None:
    if how == "san_uri":
        certificate, key = with_uri(made, identity)
    else:
        certificate, key = made.issue("sensor-1", identity)
    if how == "dn":
        user = x509.load_pem_x509_certificates(certificate.read_bytes())[0].subject.rfc4514_string()
        assert user.startswith("CN=sensor-1,")
    broker = start_broker(
        **made.options(
            amqps="127.0.0.1:0",
            mqtts="127.0.0.1:0",
            https="127.0.0.1:0",
            tls_client_ca=str(made.ca),
            tls_client_auth="optional",
            tls_identity=how,
        )
    )
    with closing(connect(broker, context_of(made, certificate, key), external=True)):
        client = Client(broker, "c", password="", listener="mqtts")
        client.client.username_pw_set(None)
        client.client.tls_set(str(made.ca), str(certificate), str(key))
        assert not client.connect()[0].is_failure
        answer = httpx.get(
            f"https://localhost:{broker.port('https')}/api/connections", auth=("guest", "guest"), verify=made.client()
        )
        users = [each["user"] for each in answer.json()]
        assert sorted(users) == sorted([user, user]), users
        client.end()


def with_uri(made: Certificates, uri: str) -> tuple[Path, Path]:
    """A certificate for a URI, which trustme makes none for."""
    authority = serialization.load_pem_private_key(made.authority.private_key_pem.bytes(), None)
    issuer = x509.load_pem_x509_certificate(made.authority.cert_pem.bytes())
    key = ec.generate_private_key(ec.SECP256R1())
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "sensor-1")]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri)]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key()),  # type: ignore[arg-type]
            critical=False,
        )
        .sign(authority, hashes.SHA256())  # type: ignore[arg-type]
    )
    paths = made.folder / "uri.pem", made.folder / "uri.key"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return paths
