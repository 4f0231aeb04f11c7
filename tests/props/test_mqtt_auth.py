"""Enhanced authentication: whatever a client sends, it gets an answer that is whole or a PeerError, and never in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.errors import PeerError
from forebay.directory.logins.login import Auth, LoginRefused, SaslExchange
from forebay.directory.logins.scram import HASHES, make_scram
from forebay.server.system.chance import SystemRandom
from forebay.session.mqtt.entry.auth import Answer, AuthExchange
from forebay.wire.mqtt import properties as props
from forebay.wire.mqtt.codes import AUTH, CONNACK, DISCONNECT, FAILURE, V5
from forebay.wire.mqtt.encoding import encode_packet
from forebay.wire.mqtt.packets import Ack, Connack, decode_packet, frame
from tests.scram_client import ScramClient, before_connack

USERS = {"ana": "secret"}
MECHANISMS = make_scram(USERS, HASHES, SystemRandom())
SALT = "MDEyMzQ1Njc4OWFiY2RlZg=="
FINAL = ScramClient("ana", "guessed", "sha256").final(f"r=abcDEF+/=more,s={SALT},i=4096".encode())
SAID = st.sampled_from([b"", b"n,,n=ana,r=x", b"y,a=ana,n=ana,r=x", b"n,,n=eve,r=x", b"c=biws,r=x,p=eA==", FINAL])
ALPHABET = st.sampled_from(
    [b"n", b"y", b"p", b"=", b",", b"a=", b"n=ana", b"r=x", b"c=biws", b"p=eA==", b"\xff", b"\0"]
)
DATA = st.none() | SAID | st.binary(max_size=100) | st.lists(ALPHABET, max_size=12).map(b"".join)
METHOD = st.sampled_from([None, b"", b"PLAIN", b"SCRAM-SHA-512"]) | st.just(b"SCRAM-SHA-256")
CODE = st.sampled_from([0x18, 0x18, 0x18, 0x19, 0x00, 0x87])


def block(method: bytes | None, data: bytes | None) -> bytes:
    pairs = ((props.AUTH_METHOD, method), (props.AUTH_DATA, data))
    return props.encode_properties([props.Property(id, 0, text, b"") for id, text in pairs if text is not None])


def check_answer(made: AuthExchange, answer: Answer, method: bytes) -> None:
    """It can be sent and read, and says what it has to say."""
    assert answer.kind in {CONNACK, AUTH, DISCONNECT}
    packet = (
        Connack(False, answer.code, answer.block)
        if answer.kind == CONNACK
        else Ack(answer.kind, 0, answer.code, answer.block)
    )
    octets = encode_packet(packet, V5)
    found = frame(octets, 0, len(octets), len(octets))
    assert found >> 3 == len(octets)
    again = decode_packet(octets, octets[0], found & 7, len(octets), V5)
    assert again.properties == answer.block
    refused = answer.code >= FAILURE
    assert refused == bool(answer.detail)
    assert refused == (not answer.block)
    assert before_connack(made) == (not refused)  # nobody here knows the password
    if not refused:
        assert (answer.kind, answer.code) == (AUTH, 0x18)
        assert props.decode_properties(answer.block)[0].text == method  # [MQTT-4.12.0-5]


@given(METHOD, DATA, st.lists(st.tuples(CODE, METHOD, DATA), max_size=6))
def test_any_messages_get_an_answer_and_nobody_gets_in(
    method: bytes | None, data: bytes | None, packets: list[tuple[int, bytes | None, bytes | None]]
) -> None:
    made = AuthExchange(Auth(USERS, [], MECHANISMS), True)
    answer: Answer | None
    try:
        answer = made.on_connect(block(method, data))
        assert (answer is None) == (method is None)
        for code, other, more in [*packets, (0x18, method, b"n,,n=ana,r=x")]:
            assert made.user == ""
            if answer is not None:
                assert method is not None
                check_answer(made, answer, method)
                if answer.code >= FAILURE:
                    return
            answer = made.on_auth(Ack(AUTH, 0, code, block(other, more)))
            assert other == method
    except PeerError:
        assert made.user == ""


def say(login: SaslExchange, *messages: bytes) -> None:
    for message in messages:
        assert login.step(message).isascii()
        assert not login.done


@given(st.binary(max_size=60) | st.lists(ALPHABET, max_size=12).map(b"".join), st.binary(max_size=80))
def test_any_octets_into_scram_are_refused(first: bytes, second: bytes) -> None:
    for name in HASHES:
        login = MECHANISMS[name].start()
        with pytest.raises(LoginRefused):
            say(login, first, second, b"", b"")
        assert login.user == ""


@given(st.data())
def test_one_changed_octet_of_the_proof_is_refused(data: st.DataObject) -> None:
    client = ScramClient("ana", "secret", "sha256")
    login = MECHANISMS["SCRAM-SHA-256"].start()
    final = client.final(login.step(client.first()))
    at = data.draw(st.integers(0, len(final) - 1))
    octet = data.draw(st.integers(0, 255).filter(lambda each: each != final[at]))
    with pytest.raises(LoginRefused):
        login.step(final[:at] + bytes([octet]) + final[at + 1 :])
    assert login.user == ""
