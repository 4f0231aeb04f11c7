"""Messages of CoAP: types, codes, tokens, repetitions and options (RFC 7252)."""

from __future__ import annotations

import os

import pytest

from tests.broker_process import BrokerProcess
from tests.conformance.coap.raw import (
    ACCEPT,
    ACK,
    BLOCK1,
    CHANGED,
    CON,
    CONTENT,
    CONTENT_FORMAT,
    DELETE,
    ECHO,
    GET,
    GUEST,
    IF_MATCH,
    NO_RESPONSE,
    NON,
    POST,
    PROXY_URI,
    PUT,
    RST,
    Client,
    Message,
    Options,
    block,
    bodies,
    encode,
    number,
    operate,
)


def queue(broker: BrokerProcess) -> str:
    """A new queue, and the topic that addresses it."""
    name = "q" + os.urandom(4).hex()
    operate(broker, "queue.declare", queue=name)
    return name


@pytest.mark.parametrize("method", [PUT, POST])
def test_a_confirmable_request_is_answered_in_its_acknowledgement(
    client: Client, coap_broker: BrokerProcess, method: int
) -> None:
    name = queue(coap_broker)
    request = client.make(method, f"publish/$queue/{name}", GUEST, payload=b"on")
    answer = client.ask(request)
    assert (answer.type, answer.code, answer.message_id) == (ACK, CHANGED, request.message_id)
    assert (answer.options, answer.payload) == ([], b"")
    assert bodies(coap_broker, name) == ["on"]


@pytest.mark.parametrize("times", [1, 5])
def test_a_repetition_gets_the_same_answer_and_is_not_published(
    client: Client, coap_broker: BrokerProcess, times: int
) -> None:
    name = queue(coap_broker)
    octets = encode(client.make(PUT, f"publish/$queue/{name}", GUEST, payload=b"once"))
    client.send(octets)
    first = client.expect().octets
    for _ in range(times):
        client.send(octets)
        assert client.expect().octets == first
    assert bodies(coap_broker, name) == ["once"]


def test_repetitions_before_the_answer_are_answered_once(client: Client, coap_broker: BrokerProcess) -> None:
    name = queue(coap_broker)
    octets = encode(client.make(PUT, f"publish/$queue/{name}", GUEST, payload=b"once"))
    for _ in range(20):
        client.send(octets)
    assert client.expect().code == CHANGED
    while (again := client.hear(0.3)) is not None:
        assert again.code == CHANGED
    assert bodies(coap_broker, name) == ["once"]


def test_the_same_message_id_with_another_token_is_another_request(client: Client, coap_broker: BrokerProcess) -> None:
    name = queue(coap_broker)
    for token in (b"a", b"b", b""):
        request = client.make(PUT, f"publish/$queue/{name}", GUEST, payload=b"x", token=token)
        request.message_id = 7
        client.ask(request)
    assert len(bodies(coap_broker, name)) == 3


def test_a_non_confirmable_request_is_answered_by_a_message_of_its_own(
    client: Client, coap_broker: BrokerProcess
) -> None:
    name = queue(coap_broker)
    octets = encode(client.make(PUT, f"publish/$queue/{name}", GUEST, payload=b"non", type=NON, token=b"token678"))
    client.send(octets)
    answer = client.expect()
    assert (answer.type, answer.code, answer.token) == (NON, CHANGED, b"token678")
    client.send(octets)
    assert client.is_silent()
    assert bodies(coap_broker, name) == ["non"]


def test_an_empty_confirmable_message_is_rejected(client: Client) -> None:
    client.send(encode(Message(CON, 0, 77, b"")))
    answer = client.expect()
    assert (answer.type, answer.code, answer.message_id) == (RST, 0, 77)


@pytest.mark.parametrize(
    "octets",
    [
        b"\x49\x02\0\7" + bytes(9),  # a token of 9 octets
        b"\x4f\x02\0\7" + bytes(15),
        b"\x44\x02\0\7ab",  # a token that is cut off
        b"\x40\x00\0\7x",  # an empty message with octets behind it
        b"\x40\x02\0\7\xff",  # a payload marker without a payload
        b"\x40\x02\0\7\xf0",  # reserved delta and length
        b"\x40\x02\0\7\x0f",
        b"\x40\x02\0\7\xb5abc",  # options that are cut off
        b"\x40\x02\0\7\xd0",
        b"\x40\x02\0\7\xe0\x01",
        b"\x40\x02\0\7\x0d",
        b"\x40\x02\0\7\xe0\xff\xff\xe0\xff\xff",  # a number beyond 65,535
        b"\x40\x02\0\7" + b"\x00" * 65,  # more options than a message of ours
        b"\x40\x45\0\7",  # an answer to nothing
        b"\x40\x20\0\7",  # a class that is reserved
        b"\x40\xe1\0\7",
    ],
)
def test_what_is_no_request_is_rejected_if_it_is_confirmable_and_else_dropped(client: Client, octets: bytes) -> None:
    client.send(octets)
    answer = client.expect()
    assert (answer.type, answer.code, answer.message_id, answer.octets) == (RST, 0, 7, b"\x70\0\0\7")
    client.send(bytes([octets[0] | 0x10]) + octets[1:])
    assert client.is_silent()


@pytest.mark.parametrize("octets", [b"", b"\x40", b"\x40\x01\0", b"\x00\x01\0\7", b"\x80\x01\0\7", b"\xc0\x01\0\7"])
def test_too_little_and_other_versions_are_dropped(client: Client, octets: bytes) -> None:
    client.send(octets)
    assert client.is_silent()


@pytest.mark.parametrize("type", [ACK, RST])
def test_acknowledgements_and_resets_of_nothing_are_dropped(client: Client, type: int) -> None:
    client.send(encode(Message(type, 0, 5, b"")))
    client.send(encode(Message(type, GET, 5, b"")))
    assert client.is_silent()


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ([(9, b"")], "4.02"),  # OSCORE
        ([(IF_MATCH, b"")], "4.02"),
        ([(5, b"")], "4.02"),  # If-None-Match
        ([(65_001, b"x")], "4.02"),
        ([(BLOCK1, b"\0"), (BLOCK1, b"\0")], "4.02"),
        ([(BLOCK1, bytes(4))], "4.02"),
        ([(BLOCK1, b"\7")], "4.02"),
        ([(ACCEPT, b"\0"), (ACCEPT, b"\0")], "4.02"),
        ([(ACCEPT, bytes(3))], "4.02"),
        ([(3, b"")], "4.02"),  # Uri-Host has an octet at least
        ([(3, b"broker"), (7, b"\x16\x33")], "2.04"),
        ([(65_000, b"x" * 300)], "2.04"),
        ([(CONTENT_FORMAT, bytes(3))], "2.04"),  # too long, and may be ignored
        ([(PROXY_URI, b"coap://other/")], "5.05"),
        ([(39, b"http")], "5.05"),
        ([(CONTENT_FORMAT, number(60_000))], "4.15"),
        ([(CONTENT_FORMAT, number(50))], "2.04"),
        ([(ACCEPT, number(60))], "4.06"),
        ([(ECHO, b"no such")], "2.04"),
    ],
)
def test_options(client: Client, options: Options, code: str) -> None:
    assert client.request(PUT, "publish/a", options=options, payload=b"x").code_text == code


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        (GET, "publish/a", "4.05"),
        (DELETE, "publish/a", "4.05"),
        (POST, "topic/a", "4.05"),
        (POST, "subscribe/a", "4.05"),
        (5, "publish/a", "4.05"),
        (PUT, "publish", "4.04"),
        (GET, "", "4.04"),
        (GET, "nothing/here", "4.04"),
        (GET, "topic/nothing", "4.04"),
        (GET, "subscribe/a", "4.00"),
        (GET, "topic/%2B", "4.04"),
        (GET, "topic/+", "4.00"),
        (GET, "topic/$queue/q", "4.00"),
        (GET, "subscribe/$share/g/t", "4.00"),
        (GET, "topic/a#", "4.00"),
        (PUT, "publish/a/+", "4.00"),
        (PUT, "publish/$SYS/x", "4.00"),
    ],
)
def test_resources_and_methods(client: Client, method: int, path: str, code: str) -> None:
    assert client.request(method, path).code_text == code


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("qos=3", b"qos"),
        ("qos=x", b"qos"),
        ("qos=-1", b"qos"),
        ("retain=yes", b"retain"),
        ("priority=256", b"priority"),
        ("delay_ms=99999999999999999999", b"delay_ms"),
        ("qoss=1", b"qos"),
        ("user=guest", b"user"),
        ("\0=1", b"no such parameter"),
    ],
)
def test_a_wrong_parameter_is_named(client: Client, query: str, named: bytes) -> None:
    client.prove()
    answer = client.publish("a", b"x", query)
    assert answer.code_text == "4.00" and named in answer.payload


def test_resources_are_listed(client: Client) -> None:
    answer = client.request(GET, ".well-known/core", ())
    assert (answer.code, answer.number(CONTENT_FORMAT)) == (CONTENT, 40)
    assert answer.payload == b"</publish>,</topic>;obs,</subscribe>;obs"


def test_an_answer_in_json_says_where_the_message_went(client: Client, coap_broker: BrokerProcess) -> None:
    name = queue(coap_broker)
    client.prove()
    answer = client.publish(f"$queue/{name}", b"x", options=[(ACCEPT, number(50))])
    assert answer.payload == b'{"routed":true,"offsets":{"%s":0}}' % name.encode()


def test_an_unproven_client_is_not_sent_a_long_answer_to_a_publish(client: Client, coap_broker: BrokerProcess) -> None:
    name = "q" + "x" * 200
    operate(coap_broker, "queue.declare", queue=name)
    answer = client.publish(f"$queue/{name}", b"", options=[(ACCEPT, number(50))])
    assert answer.code == CHANGED
    assert bodies(coap_broker, name) == [""]


def test_a_client_that_wants_no_answer_gets_none(client: Client) -> None:
    request = client.make(PUT, "publish/a", GUEST, [(NO_RESPONSE, b"\2")], b"x")
    client.send(encode(request))
    answer = client.expect()
    assert (answer.type, answer.code, answer.message_id) == (ACK, 0, request.message_id)
    client.send(encode(client.make(PUT, "publish/a", GUEST, [(NO_RESPONSE, b"\2")], b"x", type=NON)))
    assert client.is_silent()
    client.send(encode(client.make(PUT, "publish/a/+", GUEST, [(NO_RESPONSE, b"\2")], b"x", type=NON)))
    assert client.expect().code_text == "4.00"


def test_too_long_a_datagram_is_to_be_sent_in_blocks(client: Client) -> None:
    answer = client.publish("a", bytes(5000))
    assert (answer.code_text, answer.option(BLOCK1)) == ("4.13", block(0, False, 6))
    assert client.publish("a", bytes(60_000)).code_text == "4.13"


def test_parameters_become_the_message(client: Client, coap_broker: BrokerProcess) -> None:
    name = queue(coap_broker)
    options = [(CONTENT_FORMAT, number(50))]
    query = ("x-region=eu", "priority=3", "expiration_s=1000", "key=k1")
    assert client.publish(f"$queue/{name}", b"{}", *query, options=options).code == CHANGED
    assert client.publish(f"$queue/{name}", b"1", "idempotency_key=7").code == CHANGED
    assert client.publish(f"$queue/{name}", b"1", "idempotency_key=7").code == CHANGED
    assert bodies(coap_broker, name) == ["{}", "1"]


def test_a_full_queue_and_a_long_message_are_told(client: Client, coap_broker: BrokerProcess) -> None:
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    operate(coap_broker, "queue.declare", queue="full", arguments=arguments)
    assert client.publish("$queue/full", b"1").code == CHANGED
    answer = client.publish("$queue/full", b"2")
    assert (answer.code_text, answer.number(14)) == ("4.29", 1)
