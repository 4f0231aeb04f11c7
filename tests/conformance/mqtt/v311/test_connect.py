"""CONNECT and CONNACK of MQTT 3.1.1 (sections 3.1 and 3.2)."""

from __future__ import annotations

import string

import pytest

from tests.broker_process import AnyBroker
from tests.conformance.mqtt.raw import V311, connect_head, packet, text
from tests.conformance.mqtt.statements import statement
from tests.conformance.mqtt.v311.old import (
    connect,
    connected,
    mortal,
    opened,
    publish,
    session,
    subscribe,
)

LOGIN = text("guest") + text("guest")
LETTERS = string.digits + string.ascii_letters


def raw_connect(flags: int, payload: bytes) -> bytes:
    return packet(0x10, connect_head(flags, V311) + payload)


@statement(
    "MQTT-3.1.2-9", "MQTT-3.1.2-18", "MQTT-3.1.2-19", "MQTT-3.1.2-20", "MQTT-3.1.2-21", "MQTT-3.1.4-1", version=V311
)
@pytest.mark.parametrize(
    ("flags", "payload"),
    [
        (0xC6, text("c") + LOGIN),  # a will, and neither topic nor message
        (0xC6, text("c") + text("w") + LOGIN[:-1]),
        (0xC2, text("c") + text("w") + text("gone") + LOGIN),  # no will, and yet its fields
        (0x82, text("c")),  # a user name that is not there
        (0xC2, text("c") + text("guest")),  # a password that is not there
        (0x02, text("c") + text("guest")),  # neither, and yet the one
        (0x82, text("c") + LOGIN),  # no password, and yet there
        (0xC2, text("c") + LOGIN + b"\0"),
        (0xC2, text("c") + LOGIN[:-1]),
        (0xC2, b""),  # [MQTT-3.1.3-3]
        (0xC2, b"\0"),
    ],
)
def test_mqtt3_3_1_4_1_a_payload_that_is_not_what_the_flags_say_gets_no_connack(
    broker: AnyBroker, flags: int, payload: bytes
) -> None:
    assert opened(broker, raw_connect(flags, payload)).ended()


@statement("MQTT-3.1.3-3", "MQTT-3.1.4-1", version=V311)
@pytest.mark.parametrize("rest", [b"", text("MQTT"), text("MQTT") + b"\x04\xc2\0", connect_head(2, V311)])
def test_mqtt3_3_1_3_3_a_connect_that_ends_before_the_client_identifier(broker: AnyBroker, rest: bytes) -> None:
    assert opened(broker, packet(0x10, rest)).ended()


@statement("MQTT-1.5.3-1", "MQTT-1.5.3-2", "MQTT-3.1.3-4", "MQTT-3.1.3-10", "MQTT-3.1.3-11", version=V311)
@pytest.mark.parametrize("bad", [b"\xff", b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xc0\x80", b"\xf4\x90\x80\x80", b"a\0b"])
def test_mqtt3_1_5_3_1_texts_of_connect_are_utf_8_without_nul(broker: AnyBroker, bad: bytes) -> None:
    client, name, password = text("c"), text("guest"), text("guest")
    for flags, payload in (
        (0xC2, text(bad) + name + password),
        (0xC6, client + text(bad) + text("gone") + name + password),
        (0xC2, client + text(bad) + password),
    ):
        assert opened(broker, raw_connect(flags, payload)).ended()


@statement("MQTT-3.1.3-1", "MQTT-3.1.2-9", "MQTT-3.1.2-19", "MQTT-3.1.2-21", version=V311)
def test_mqtt3_3_1_3_1_the_fields_of_the_payload_in_their_order(broker: AnyBroker, own: str) -> None:
    heir = connected(broker, f"{own} heir")
    heir.subscribe(own)
    payload = text(f"{own} mortal") + text(own) + text(b"\0any\xff octets") + LOGIN
    raw = opened(broker, raw_connect(0xC6, payload))
    raw.connack()
    raw.vanish()
    assert heir.delivery().body == b"\0any\xff octets"


@statement("MQTT-3.1.3-5", version=V311)
@pytest.mark.parametrize("client", ["a", "Z", "0", LETTERS[:23], LETTERS[23:46], LETTERS[39:]])
def test_mqtt3_3_1_3_5_client_identifiers_that_every_server_takes(broker: AnyBroker, client: str) -> None:
    connected(broker, client).quiet()
    session(broker, client).quiet()


@statement("MQTT-3.1.3-6", version=V311)
def test_mqtt3_3_1_3_6_each_client_without_identifier_is_another(broker: AnyBroker, own: str) -> None:
    first, second = connected(broker, ""), connected(broker, "")
    first.subscribe(own)
    second.subscribe(own)
    first.send(publish(own, b"both"))
    assert (first.delivery().body, second.delivery().body) == (b"both", b"both")


@statement("MQTT-3.1.3-7", "MQTT-3.1.3-8", "MQTT-3.1.3-9", "MQTT-3.2.2-4", "MQTT-3.2.2-5", version=V311)
def test_mqtt3_3_1_3_8_no_session_without_client_identifier(broker: AnyBroker) -> None:
    raw = opened(broker, connect("", clean=False))
    raw.connack(2)
    assert raw.ended()


@statement("MQTT-3.1.3-2", version=V311)
def test_mqtt3_3_1_3_2_the_client_identifier_names_the_session(broker: AnyBroker, own: str) -> None:
    bodies = {own: b"lower", own.upper(): b"upper", own + " ": b"blank", own + "\ufeff": b"zero width"}
    for client, body in bodies.items():
        raw = session(broker, client)
        raw.subscribe(f"{own}/{body.decode()}")
        raw.leave()
    publisher = connected(broker, f"{own} publisher")
    for body in bodies.values():
        publisher.publish(f"{own}/{body.decode()}", body)
    for client, body in bodies.items():
        raw = session(broker, client, present=True)
        assert raw.delivery().body == body
        raw.quiet()


@statement("MQTT-3.1.4-2", version=V311)
@pytest.mark.parametrize("clean", [False, True])
def test_mqtt3_3_1_4_2_the_connection_that_comes_last_takes_over(broker: AnyBroker, own: str, clean: bool) -> None:
    first = connected(broker, own, clean=clean)
    second = connected(broker, own, clean=clean, present=not clean)
    assert first.ended()
    third = connected(broker, own)
    assert second.ended()
    third.quiet()


@statement("MQTT-3.1.4-4", "MQTT-3.2.0-1", "MQTT-3.2.2-1", version=V311)
@pytest.mark.parametrize("cut", [False, True])
def test_mqtt3_3_2_0_1_connack_comes_first(broker: AnyBroker, own: str, cut: bool) -> None:
    octets = connect(own) + subscribe(7, (own, 1)) + publish(own, b"x", 1, 9)
    raw = opened(broker, *([] if cut else [octets]))
    for octet in octets if cut else b"":
        raw.send(bytes([octet]))
    assert raw.read(4) == b"\x20\x02\0\0"
    assert raw.granted(7) == [1]
    assert {raw.packet()[0] for _ in range(2)} == {0x32, 0x40}


@statement("MQTT-3.1.4-5", "MQTT-3.2.2-4", "MQTT-3.2.2-5", version=V311)
@pytest.mark.parametrize(
    ("first", "answer"),
    [
        (connect("refused", login=("guest", "wrong")), b"\x20\x02\0\x05"),
        (connect("", clean=False), b"\x20\x02\0\x02"),
        (packet(0x10, text("MQTT") + b"\x07\x02\0\0" + text("c")), b"\x20\x02\0\x01"),
        (raw_connect(0x03, text("c")), b""),
    ],
)
def test_mqtt3_3_1_4_5_nothing_behind_a_refused_connect_is_processed(
    broker: AnyBroker, own: str, first: bytes, answer: bytes
) -> None:
    reader = connected(broker, f"{own} reader")
    reader.subscribe(own)
    raw = opened(broker, first + publish(own, b"never", bits=1) + subscribe(1, (own, 0)))
    assert raw.read(len(answer)) == answer
    assert raw.ended()
    reader.quiet()
    later = connected(broker, f"{own} later")
    later.subscribe(own)
    later.quiet()


@statement("MQTT-3.2.2-1", "MQTT-3.2.2-2", "MQTT-3.2.2-3", "MQTT-3.1.4-3", version=V311)
def test_mqtt3_3_2_2_2_session_present(broker: AnyBroker, own: str) -> None:
    for clean, present in (
        (True, False),
        (False, False),  # the clean one left nothing
        (False, True),
        (True, False),
        (False, False),  # the clean one took it away
        (False, True),
    ):
        connected(broker, own, clean=clean, present=present).leave()


@statement("MQTT-3.2.2-4", version=V311)
def test_mqtt3_3_2_2_4_a_refusal_tells_of_no_session(broker: AnyBroker, own: str) -> None:
    session(broker, own).leave()
    raw = opened(broker, connect(own, clean=False, login=("guest", "wrong")))
    raw.connack(5, present=False)
    assert raw.ended()
    session(broker, own, present=True).quiet()


@statement("MQTT-3.1.4-5", "MQTT-3.1.4-2", version=V311)
def test_mqtt3_3_1_4_2_who_may_not_log_in_takes_nothing_over(broker: AnyBroker, own: str) -> None:
    raw = mortal(broker, own, own, b"gone")
    opened(broker, connect(own, login=("guest", "wrong"))).connack(5)
    raw.quiet()
