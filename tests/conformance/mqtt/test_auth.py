"""Enhanced authentication and server redirect (MQTT 5.0 sections 3.15, 4.11 and 4.12)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.broker_process import AnyBroker
from tests.conformance.mqtt.raw import (
    CONNACK,
    DISCONNECT,
    PINGREQ,
    V5,
    V311,
    Raw,
    connect,
    connected,
    packet,
    publish,
    split_block,
    subscribe,
    text,
    varint,
)
from tests.conformance.mqtt.raw import properties_of as listed
from tests.conformance.mqtt.statements import statement
from tests.scram_client import ScramClient

SCRAM = "SCRAM-SHA-256"
AUTH = 0xF0
SUCCESS, CONTINUE, AGAIN = 0x00, 0x18, 0x19
METHOD, DATA, REFERENCE = 0x15, 0x16, 0x1C


def properties(method: str | None, data: bytes | None = None) -> bytes:
    made = b"" if method is None else b"\x15" + text(method)
    return made if data is None else made + b"\x16" + text(data)


def auth(code: int, method: str | None = SCRAM, data: bytes | None = None) -> bytes:
    made = properties(method, data)
    return packet(AUTH, bytes([code]) + varint(len(made)) + made)


def begun(broker: AnyBroker, data: bytes | None, method: str = SCRAM, client: str = "c") -> Raw:
    """A connection that has sent its CONNECT; the password in it is wrong, and does not matter."""
    raw = Raw(broker)
    raw.send(connect(client, properties=properties(method, data), login=("nobody", "wrong")))
    return raw


def challenge(raw: Raw, code: int = CONTINUE) -> bytes:
    """The data of the AUTH that must come now, which has the method."""
    rest = raw.expect(AUTH)
    assert rest[0] == code
    found = dict(listed(split_block(rest[1:])[0]))
    assert found[METHOD] == SCRAM.encode()
    data = found.get(DATA, b"")
    assert isinstance(data, bytes)
    return data


def logged_in(broker: AnyBroker, client: str = "c") -> Raw:
    scram = ScramClient("guest", "guest", "sha256")
    raw = begun(broker, scram.first(), client=client)
    raw.send(auth(CONTINUE, data=scram.final(challenge(raw))))
    found = dict(raw.connack())
    assert found[METHOD] == SCRAM.encode()
    data = found[DATA]
    assert isinstance(data, bytes)
    scram.check(data)
    return raw


@statement("MQTT-4.12.0-2", "MQTT-4.12.0-3", "MQTT-4.12.0-5")
def test_scram_is_a_login(broker: AnyBroker) -> None:
    raw = logged_in(broker)
    raw.subscribe("a/b", qos=0)
    raw.send(publish("a/b", b"x"))
    assert raw.delivery().body == b"x"


@statement("MQTT-4.12.0-2")
def test_a_client_that_begins_without_data_is_asked_for_it(broker: AnyBroker) -> None:
    raw = begun(broker, None)
    assert challenge(raw) == b""
    scram = ScramClient("guest", "guest", "sha256")
    raw.send(auth(CONTINUE, data=scram.first()))
    raw.send(auth(CONTINUE, data=scram.final(challenge(raw))))
    raw.connack()


@statement("MQTT-4.12.0-1")
@pytest.mark.parametrize("method", ["", "GS2-KRB5", "scram-sha-256", "SCRAM-SHA-512"])
def test_a_method_that_is_not_offered(broker: AnyBroker, method: str) -> None:
    raw = begun(broker, b"x", method)
    raw.connack(0x8C)
    assert raw.ended()


@statement("MQTT-4.12.0-4")
@pytest.mark.parametrize(("user", "password"), [("guest", "wrong"), ("nobody", "guest")])
def test_a_refused_login_tells_nothing_and_closes(broker: AnyBroker, user: str, password: str) -> None:
    scram = ScramClient(user, password, "sha256")
    raw = begun(broker, scram.first())
    raw.send(auth(CONTINUE, data=scram.final(challenge(raw))))
    assert raw.connack(0x87) == []
    assert raw.ended()


@statement("MQTT-4.12.0-4")
def test_data_that_is_no_scram_is_refused(broker: AnyBroker) -> None:
    raw = begun(broker, b"\xff\x00")
    assert raw.connack(0x87) == []
    assert raw.ended()


@statement("MQTT-3.1.2-30")
@pytest.mark.parametrize(
    "octets", [PINGREQ, publish("a", b"x"), subscribe(1, ("a", 0)), connect(), b"\x40\x02\x00\x01"]
)
def test_only_auth_and_disconnect_before_connack(broker: AnyBroker, octets: bytes) -> None:
    raw = begun(broker, ScramClient("guest", "guest", "sha256").first())
    challenge(raw)
    raw.send(octets)
    raw.connack(0x82)
    assert raw.ended()


@statement("MQTT-3.1.2-30")
def test_what_comes_in_one_read_with_connect_is_refused_too(broker: AnyBroker) -> None:
    first = ScramClient("guest", "guest", "sha256").first()
    for octets in (PINGREQ, publish("a", b"x"), b"\x40\x02\x00\x01"):
        raw = Raw(broker)
        raw.send(connect(properties=properties(SCRAM, first)), octets)
        challenge(raw)
        raw.connack(0x82)
        assert raw.ended()


@statement("MQTT-3.1.2-30")
def test_disconnect_ends_an_exchange(broker: AnyBroker) -> None:
    raw = begun(broker, ScramClient("guest", "guest", "sha256").first())
    challenge(raw)
    raw.send(DISCONNECT)
    assert raw.ended()


@statement("MQTT-4.12.0-5", "MQTT-3.15.2-1")
@pytest.mark.parametrize(
    "octets", [auth(CONTINUE, None), auth(CONTINUE, "SCRAM-SHA-512"), auth(AGAIN), auth(SUCCESS), packet(AUTH)]
)
def test_an_auth_that_does_not_go_on(broker: AnyBroker, octets: bytes) -> None:
    raw = begun(broker, ScramClient("guest", "guest", "sha256").first())
    challenge(raw)
    raw.send(octets)
    raw.connack(0x82)
    assert raw.ended()


@statement("MQTT-3.15.1-1")
def test_the_flags_of_auth_are_zero(broker: AnyBroker) -> None:
    raw = begun(broker, ScramClient("guest", "guest", "sha256").first())
    challenge(raw)
    good = auth(CONTINUE)
    raw.send(bytes([good[0] | 1]) + good[1:])
    raw.connack(0x81)
    assert raw.ended()


@statement("MQTT-4.12.0-6", "MQTT-4.12.0-7")
@pytest.mark.parametrize("octets", [auth(AGAIN), auth(CONTINUE), auth(AGAIN, None), packet(AUTH)])
def test_without_a_method_there_is_no_auth(broker: AnyBroker, octets: bytes) -> None:
    raw = Raw(broker)
    raw.send(connect())
    assert METHOD not in dict(raw.connack())
    raw.send(octets)
    raw.refused(0x82)


@statement("MQTT-4.12.0-6")
def test_authentication_data_needs_a_method(broker: AnyBroker) -> None:
    raw = Raw(broker)
    raw.send(connect(properties=properties(None, b"x")))
    raw.connack(0x82)
    assert raw.ended()


@statement("MQTT-4.12.1-1")
def test_a_live_connection_authenticates_again_while_it_goes_on(broker: AnyBroker) -> None:
    raw = logged_in(broker)
    raw.subscribe("a/b", qos=0)
    for _ in range(2):
        scram = ScramClient("guest", "guest", "sha256")
        raw.send(auth(AGAIN, data=scram.first()))
        answer = challenge(raw)
        raw.send(publish("a/b", b"between"))
        assert raw.delivery().body == b"between"
        raw.send(auth(CONTINUE, data=scram.final(answer)))
        scram.check(challenge(raw, SUCCESS))
    raw.send(publish("a/b", b"after"))
    assert raw.delivery().body == b"after"


@statement("MQTT-4.12.1-2")
def test_failing_again_closes_the_connection(broker: AnyBroker) -> None:
    raw = logged_in(broker)
    scram = ScramClient("guest", "wrong", "sha256")
    raw.send(auth(AGAIN, data=scram.first()))
    raw.send(auth(CONTINUE, data=scram.final(challenge(raw))))
    raw.refused(0x87)


@statement("MQTT-4.12.1-1")
@pytest.mark.parametrize("octets", [auth(AGAIN, "SCRAM-SHA-512"), auth(AGAIN, None), auth(CONTINUE), auth(SUCCESS)])
def test_again_has_the_method_of_connect(broker: AnyBroker, octets: bytes) -> None:
    raw = logged_in(broker)
    raw.send(octets)
    raw.refused(0x82)


@statement("MQTT-4.12.1-1")
def test_another_user_cannot_take_the_connection(start_broker: Callable[..., AnyBroker]) -> None:
    broker = start_broker(users={"guest": "guest", "ana": "secret"})
    raw = logged_in(broker)
    scram = ScramClient("ana", "secret", "sha256")
    raw.send(auth(AGAIN, data=scram.first()))
    raw.send(auth(CONTINUE, data=scram.final(challenge(raw))))
    raw.refused(0x87)


def test_user_and_password_log_in_as_ever_where_scram_is_offered(broker: AnyBroker) -> None:
    connected(broker).close()
    raw = Raw(broker)
    raw.send(connect(login=("guest", "wrong")))
    raw.connack(0x86)
    assert raw.ended()


def test_methods_are_an_option(start_broker: Callable[..., AnyBroker]) -> None:
    raw = begun(start_broker(mqtt_auth_methods=[]), b"n,,n=guest,r=x")
    raw.connack(0x8C)
    assert raw.ended()


@pytest.mark.parametrize(("how", "code"), [("another", 0x9C), ("moved", 0x9D)])
def test_every_client_is_sent_to_another_server(start_broker: Callable[..., AnyBroker], how: str, code: int) -> None:
    broker = start_broker(mqtt_redirect="other.example:1883", mqtt_redirect_code=how)
    for login in (("guest", "guest"), ("nobody", "wrong")):
        raw = Raw(broker, V5)
        raw.send(connect(login=login))
        assert dict(raw.connack(code)) == {REFERENCE: b"other.example:1883"}
        assert raw.ended()
    raw = Raw(broker, V311)
    raw.send(connect(version=V311))
    assert raw.expect(CONNACK) == b"\x00\x03"
    assert raw.ended()
