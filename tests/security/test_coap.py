"""CoAP: forged sources, rights, guessing, and limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from forebay.core.errors import OptionError
from forebay.core.options import make_options
from forebay.server.config.sources import check
from tests.broker_process import BrokerProcess, brokers_in
from tests.conformance.coap.raw import (
    ACCEPT,
    ACK,
    BLOCK1,
    BLOCK2,
    CON,
    CONTENT,
    ECHO,
    GET,
    GUEST,
    NON,
    OBSERVE,
    PUT,
    RST,
    Client,
    Message,
    block,
    client,
    encode,
    metric,
    operate,
)
from tests.security.jwks import AUDIENCE, Issuer
from tests.waiting import pause, until

REGISTER = [(OBSERVE, b"")]
LONG = b"x" * 900


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., BrokerProcess]]:
    with brokers_in(tmp_path, BrokerProcess) as start:
        yield lambda **options: start(coap="127.0.0.1:0", http="127.0.0.1:0", **options)


def received(client: Client, octets: bytes) -> int:
    """The octets that come back for a datagram, whose sender never answers."""
    client.send(octets)
    return heard(client, 0.3)


def heard(client: Client, seconds: float) -> int:
    """The octets that have come, and those that come before so long a silence."""
    total = 0
    while (found := client.hear(seconds)) is not None:
        total += len(found.octets)
    return total


def test_nobody_is_sent_more_than_three_times_the_request_before_it_is_there(
    start: Callable[..., BrokerProcess],
) -> None:
    broker = start()
    with client(broker) as there:
        there.publish("long", LONG, "retain=true")
        there.publish("s", b"short", "retain=true")
        requests = [
            there.make(GET, "topic/long", GUEST, token=b""),
            there.make(GET, "topic/long", GUEST, token=b"", type=NON),
            there.make(GET, "topic/long", GUEST, [(BLOCK2, block(0, False, 6))]),
            there.make(GET, "topic/long", GUEST, REGISTER),
            there.make(GET, "topic/s", GUEST, REGISTER, token=b""),
            there.make(GET, "topic/s", GUEST, REGISTER, type=NON),
            there.make(GET, "subscribe/#", GUEST, REGISTER, token=b""),
            there.make(GET, "topic/long", ("user=guest", "password=wrong"), token=b""),
            there.make(GET, "topic/a", (), token=b""),
            there.make(GET, "a", (), token=b""),
            there.make(GET, "", (), token=b""),
            there.make(GET, ".well-known/core", (), token=b""),
            there.make(PUT, "publish/a/+", GUEST, token=b""),
            there.make(PUT, "publish/a", ("x=" + "y" * 200,), token=b""),
            there.make(PUT, "publish/a", GUEST, [(BLOCK1, block(0, True, 0))], bytes(16), token=b""),
            there.make(PUT, "publish/a", GUEST, payload=bytes(5000)),
            there.make(GET, "topic/long", GUEST, [(ECHO, bytes(12))], token=b""),
        ]
    datagrams = [encode(each) for each in requests]
    datagrams += [b"\x40\0\0\1", b"\x40\x02\0\1\xff", b"\x40\xe1\0\1", b"\x40\x01\0\2", b"x" * 20, b"\x40\x45\0\1"]
    forgers = [Client(broker.port("coap")) for _ in datagrams]
    for forged, datagram in zip(forgers, datagrams, strict=True):
        forged.send(datagram)
    pause(2.0)
    for forged, datagram in zip(forgers, datagrams, strict=True):
        assert heard(forged, 0.01) <= 3 * len(datagram), datagram
        forged.close()


def test_a_repetition_is_answered_within_the_same_measure(start: Callable[..., BrokerProcess]) -> None:
    broker = start()
    with client(broker) as forged:
        datagram = encode(forged.make(GET, "topic/none", GUEST, REGISTER))
        for _ in range(5):
            assert received(forged, datagram) <= 3 * len(datagram)


def test_a_short_repetition_brings_no_long_answer(start: Callable[..., BrokerProcess]) -> None:
    broker = start()
    operate(broker, "queue.declare", queue="q" * 100)
    with client(broker) as forged:
        options = [(ACCEPT, b"\x32")]
        request = forged.make(PUT, "publish/$queue/" + "q" * 100, GUEST, options, b"x" * 100, token=b"")
        forged.send(encode(request))
        assert len(forged.expect().octets) > 100
        short = encode(Message(CON, PUT, request.message_id, b""))
        assert received(forged, short) <= 3 * len(short)


def test_an_observer_that_does_not_acknowledge_gets_nothing_more(start: Callable[..., BrokerProcess]) -> None:
    broker = start()
    with client(broker) as forged, client(broker) as other:
        forged.send(encode(forged.make(GET, "topic/a", GUEST, REGISTER)))
        assert forged.expect().type == ACK
        assert forged.expect().code == CONTENT
        for _ in range(20):
            other.publish("a", LONG)
        assert forged.is_silent()


@pytest.mark.parametrize("type", [ACK, RST])
def test_one_wrong_acknowledgement_ends_an_observation_that_may_be_forged(
    start: Callable[..., BrokerProcess], type: int
) -> None:
    broker = start()
    with client(broker) as forged, client(broker) as other:
        forged.send(encode(forged.make(GET, "topic/a", GUEST, REGISTER)))
        forged.expect()
        first = forged.expect()
        assert first.type == CON
        forged.send(encode(Message(type, 0, first.message_id ^ 1, b"")))
        until(lambda: metric(broker, "forebay_coap_observations")[""] == 0)
        forged.acknowledge(first)
        other.publish("a", LONG)
        assert forged.is_silent()


def test_message_ids_of_first_notifications_are_random(start: Callable[..., BrokerProcess]) -> None:
    broker = start()
    found = set()
    for _ in range(20):
        with client(broker) as each:
            found.add(each.request(GET, "topic/a", options=REGISTER).message_id)
    assert len(found) > 15


def challenged(found: Client, **fields: object) -> bytes:
    """The Echo option that a client is sent after too many wrong logins of those that may not be there."""
    answer = found.request(GET, "topic/a", ("user=guest", "password=wrong"), **fields)
    assert answer.code_text == "4.01"
    return answer.option(ECHO) or b""


def test_who_guesses_from_forged_sources_keeps_nobody_out(start: Callable[..., BrokerProcess]) -> None:
    broker = start(login_failures_free=5, login_address_failures_free=10)
    for _ in range(3):
        with client(broker) as forged:
            for _ in range(5):
                challenged(forged)
    with client(broker) as honest, client(broker) as thief:
        echo = challenged(honest)
        assert len(echo) == 12
        assert thief.request(GET, "topic/a", options=[(ECHO, echo)]).code_text in {"4.01", "4.04"}
        assert honest.publish("a", b"x", options=[(ECHO, echo)]).code_text == "2.04"
        # Now it is there: its own wrong logins count for its address.
        codes = [honest.request(GET, "topic/a", ("user=bob", "password=wrong")).code_text for _ in range(12)]
        assert codes[0] == "4.01" and codes[-1] == "4.29"


def test_an_echo_option_of_another_client_proves_nothing(start: Callable[..., BrokerProcess]) -> None:
    broker = start(login_failures_free=1)
    with client(broker) as first, client(broker) as second:
        while not (echo := challenged(first)):
            continue
        first.publish("long", LONG, "retain=true", options=[(ECHO, echo)])
        assert len(first.request(GET, "topic/long").payload) == len(LONG)
        answer = second.request(GET, "topic/long", options=[(ECHO, echo)])
        assert len(answer.payload) < len(LONG)


def test_rights(start: Callable[..., BrokerProcess]) -> None:
    permissions = [
        {"user": "reader", "configure": "", "write": "", "read": ".*"},
        {"user": "writer", "configure": "", "write": ".*", "read": ""},
    ]
    users = {"reader": "r", "writer": "w", "guest": "guest"}
    broker = start(users=users, permissions=permissions)
    operate(broker, "queue.declare", queue="q")
    reader, writer = ("user=reader", "password=r"), ("user=writer", "password=w")
    with client(broker) as found:
        for path, query, code in (
            ("publish/a", reader, "4.03"),
            ("publish/$queue/q", reader, "4.03"),
            ("publish/a", writer, "2.04"),
            ("publish/a", (), "4.01"),
            ("publish/a", ("user=writer",), "4.01"),
            ("publish/a", ("token=x",), "4.01"),
            ("publish/a", ("user=nobody", "password=x"), "4.01"),
            ("publish/a", (*writer, "vhost=none"), "4.04"),
        ):
            assert found.request(PUT, path, query, payload=b"x").code_text == code, (path, query)
            blocks = [(BLOCK1, block(0, True, 0))]
            begun = found.request(PUT, path, query, payload=bytes(16), options=blocks).code_text
            assert begun == ("2.31" if code == "2.04" else code)
        for path in ("topic/a", "subscribe/a"):
            assert found.request(GET, path, writer, options=REGISTER).code_text == "4.03"
            assert found.request(GET, path, reader, options=REGISTER).code == CONTENT
            assert found.request(GET, path, (), options=REGISTER).code_text == "4.01"
    entry = broker.log_text()
    assert "password=" not in entry


def test_observations_have_limits(start: Callable[..., BrokerProcess]) -> None:
    broker = start(coap_observations_max=5, coap_address_observations_max=3)
    with client(broker) as first, client(broker) as second, client(broker) as third:
        for each, codes in ((first, ["2.05"] * 3 + ["4.29"] * 2), (second, ["2.05"] * 2 + ["4.29"] * 2)):
            found = [each.request(GET, f"topic/{index}", options=REGISTER) for index in range(len(codes))]
            assert [answer.code_text for answer in found] == codes
            last = found[0]
        second.request(GET, "topic/0", options=[(OBSERVE, b"\1")], token=last.token)
        assert third.request(GET, "topic/0", options=REGISTER).code == CONTENT


def test_memory_of_bodies_has_a_limit(start: Callable[..., BrokerProcess]) -> None:
    broker = start(coap_octets_max=65_536)
    codes: list[str] = []
    clients = [Client(broker.port("coap")) for _ in range(8)]
    for index in range(16):
        for each in clients:
            options = [(BLOCK1, block(0, True, 6))]
            codes.append(each.publish(str(index), bytes(1024), options=options).code_text)
    assert codes.count("2.31") == 64 and set(codes) == {"2.31", "5.03"}
    assert metric(broker, "forebay_coap_bytes")[""] == 65_536
    for each in clients:
        each.close()


def test_floods_of_refused_requests_are_not_remembered(start: Callable[..., BrokerProcess]) -> None:
    broker = start(coap_exchanges_max=100)
    with client(broker) as found:
        for _ in range(300):
            assert found.request(PUT, "publish/a", ("user=x", "password=y")).code_text == "4.01"
            assert found.request(GET, "topic/a").code_text == "4.04"
        assert metric(broker, "forebay_coap_exchanges")[""] <= 1
        for _ in range(300):
            found.publish("a", b"")
        until(lambda: metric(broker, "forebay_coap_exchanges")[""] == 100)


@pytest.mark.parametrize("option", ["coaps", "coap_oscore"])
def test_encryption_that_is_not_there_is_refused_by_name(option: str) -> None:
    with pytest.raises(OptionError, match=f"{option}: .* is not there, as no maintained library .* `mqtts`"):
        make_options({option: "0.0.0.0:5684"})


def test_a_listener_for_others_is_warned_of(tmp_path: Path) -> None:
    file = tmp_path / "options.yaml"
    file.write_text("coap: 0.0.0.0:5683\n", encoding="utf-8")
    found = [each.text for each in check(str(file), {})]
    assert any("coap: 0.0.0.0:5683 is reached from outside" in text for text in found)


def test_a_token_logs_in_whole_or_in_parts(start: Callable[..., BrokerProcess]) -> None:
    issuer = Issuer()
    issuer.make("one")
    try:
        broker = start(auth_backends=["oauth", "internal"], oauth_issuer=issuer.url, oauth_audience=AUDIENCE)
        token = issuer.token(*("read:*/*", "write:*/own"))
        assert len(token) > 255
        parts = tuple(f"token={token[at : at + 200]}" for at in range(0, len(token), 200))
        with client(broker) as found:
            assert found.request(GET, "topic/a", parts).code_text == "4.04"
            assert found.request(GET, "topic/a", parts[:-1]).code_text == "4.01"
            assert found.request(PUT, "publish/a", parts, payload=b"x").code_text == "4.03"
            assert found.request(GET, "topic/a", (f"token={token}",)).code_text == "4.02"  # an option has 255 octets
    finally:
        issuer.stop()
