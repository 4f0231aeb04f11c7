"""TLS from options: what is refused, and how the refusal reads."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from forebay.core.errors import OptionError
from forebay.core.option_names import CN
from forebay.core.options import make_options
from forebay.server.auth.certificate_names import name_in
from forebay.server.transport.tls import make_context
from tests.broker_process import BrokerProcess
from tests.certificates import Certificates


@pytest.fixture
def made(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path / "certificates")


def refused(options: dict[str, object]) -> str:
    with pytest.raises(OptionError) as caught:
        make_context(make_options(options))
    return str(caught.value)


def test_the_key_may_stand_in_the_certificates_file(made: Certificates) -> None:
    both = made.folder / "both.pem"
    both.write_bytes(made.key.read_bytes() + made.certificate.read_bytes())
    make_context(make_options({"tls_certificate": str(both)}))


@pytest.mark.parametrize("option", ["tls_certificate", "tls_key", "tls_client_ca"])
def test_a_file_that_is_not_there_is_named(made: Certificates, option: str) -> None:
    missing = str(made.folder / "missing.pem")
    text = refused(made.options(**{option: missing}))
    assert text == f"{option}: {missing!r} cannot be read: No such file or directory"


@pytest.mark.parametrize("option", ["tls_certificate", "tls_key", "tls_client_ca"])
def test_a_file_that_is_no_pem_is_named(made: Certificates, option: str) -> None:
    other = made.folder / "notes.txt"
    other.write_text("no certificate")
    assert refused(made.options(**{option: str(other)})).startswith(f"{option}: {str(other)!r} holds no ")


def test_the_key_of_another_certificate_is_refused(made: Certificates) -> None:
    _, key = made.issue("other")
    assert (
        refused(made.options(tls_key=str(key))) == f"tls_key: {str(key)!r} is not the key of {str(made.certificate)!r}"
    )


def test_an_encrypted_key_is_refused_and_nobody_is_asked(made: Certificates) -> None:
    locked = made.folder / "locked.key"
    command = ["openssl", "rsa", "-in", str(made.key), "-aes256", "-passout", "pass:secret", "-out", str(locked)]
    if b"EC PRIVATE" in made.key.read_bytes():
        command[1] = "ec"
    subprocess.run(command, check=True, capture_output=True)
    assert refused(made.options(tls_key=str(locked))).startswith(f"tls_key: {str(locked)!r} holds no key without")


def test_what_lacks_another_option_is_refused(made: Certificates) -> None:
    assert refused({}).startswith("tls_certificate: ''")
    assert refused(made.options(tls_client_auth="required")) == "tls_client_auth: 'required' needs tls_client_ca"
    wanted = "tls_identity: 'cn' needs tls_client_auth optional or required"
    assert refused(made.options(tls_identity="cn", tls_client_ca=str(made.ca))) == wanted


@pytest.mark.parametrize("listener", ["mqtts", "amqps", "mqtt_websocket_tls"])
def test_a_listener_without_certificate_stops_the_start(tmp_path: Path, listener: str) -> None:
    broker = BrokerProcess(tmp_path / "broker", **{listener: "127.0.0.1:0"})
    broker.launch()
    assert broker.wait() == 2
    assert broker.log_text().startswith("forebay: tls_certificate: ''")
    assert not broker.data.exists()


def test_a_path_without_slash_stops_the_start(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "broker", mqtt_websocket_path="mqtt")
    broker.launch()
    assert broker.wait() == 2
    assert broker.log_text() == "forebay: mqtt_websocket_path: 'mqtt' must begin with /\n"


@pytest.mark.parametrize("name", ["mqtts", "mqtt_websocket"])
def test_an_address_in_use_is_named(start_broker: Callable[..., BrokerProcess], tmp_path: Path, name: str) -> None:
    made = Certificates(tmp_path / "certificates")
    address = str(start_broker(**made.options(mqtts="127.0.0.1:0")).ready[name])
    second = BrokerProcess(tmp_path / "second", **made.options(**{name: address}))
    second.launch()
    assert second.wait() == 2
    assert f"{name}: cannot listen on {address}" in second.log_text()
    assert "Traceback" not in second.log_text()


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        (((("commonName", "sensor-1"),),), "sensor-1"),
        (((("organizationName", "x"),), (("commonName", "sensor-1"), ("serialNumber", "7"))), "sensor-1"),
        (((("organizationName", "x"),),), ""),
        (((("commonName", "a"),), (("commonName", "b"),)), ""),
    ],
)
def test_a_common_name_is_taken_where_there_is_just_one(subject: object, name: str) -> None:
    assert name_in({"subject": subject}, CN) == name


def test_no_certificate_has_no_name() -> None:
    assert name_in(None, CN) == name_in({}, CN) == ""
