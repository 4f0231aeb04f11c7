"""Observation of topics and topic filters (RFC 7641)."""

from __future__ import annotations

import json
import os

import pytest

from tests.broker_process import BrokerProcess
from tests.conformance.coap.raw import (
    ACK,
    BLOCK2,
    CON,
    CONTENT,
    CONTENT_FORMAT,
    GET,
    GUEST,
    MAX_AGE,
    NON,
    OBSERVE,
    Client,
    Message,
    block,
    client,
    encode,
    metric,
    operate,
)
from tests.waiting import until

REGISTER = [(OBSERVE, b"")]
DEREGISTER = [(OBSERVE, b"\1")]


def topic() -> str:
    return "t" + os.urandom(4).hex()


def observers(broker: BrokerProcess) -> list[dict[str, object]]:
    items = operate(broker, "connection.list")["items"]
    assert isinstance(items, list)
    return [each for each in items if each["protocol"] == "CoAP observe"]


@pytest.fixture
def other(coap_broker: BrokerProcess) -> object:
    with client(coap_broker) as other:
        yield other


def test_an_observer_gets_what_is_retained_and_then_each_new_message(client: Client, other: Client) -> None:
    name = topic()
    other.publish(name, b"old", "retain=true")
    first = client.request(GET, f"topic/{name}", options=REGISTER)
    assert (first.code, first.payload, first.number(MAX_AGE)) == (CONTENT, b"old", 900)
    numbers = [first.number(OBSERVE)]
    for payload, query in ((b"1", ()), (b"2", ("retain=true",)), (b"", ())):
        other.publish(name, payload, *query)
        found = client.expect()
        assert (found.type, found.code, found.token, found.payload) == (CON, CONTENT, first.token, payload)
        numbers.append(found.number(OBSERVE))
        client.acknowledge(found)
    assert numbers == sorted(set(numbers))


def test_a_topic_without_a_message_is_observed_from_an_empty_answer_on(client: Client, other: Client) -> None:
    name = topic()
    first = client.request(GET, f"topic/{name}", options=REGISTER)
    assert (first.code, first.payload, first.number(OBSERVE) >= 0) == (CONTENT, b"", True)
    other.publish(name, b"{}", options=[(CONTENT_FORMAT, b"\x32")])
    found = client.expect()
    assert (found.payload, found.number(CONTENT_FORMAT)) == (b"{}", 50)


def test_a_filter_is_observed_as_json_that_names_the_topic(client: Client, other: Client) -> None:
    name = topic()
    other.publish(f"{name}/a", b"\xff", "retain=true", "x-region=eu")
    first = client.request(GET, f"subscribe/{name}/#", options=REGISTER)
    assert first.number(CONTENT_FORMAT) == 50
    expected = {"topic": f"{name}/a", "payload_base64": "/w==", "headers": {"x-region": "eu"}, "qos": 1}
    assert json.loads(first.payload) == {**expected, "retained": True}
    other.publish(f"{name}/b/c", b"on")
    found = client.expect()
    assert json.loads(found.payload) == {"topic": f"{name}/b/c", "payload": "on", "qos": 1}


def test_a_client_that_is_there_gets_the_first_notification_in_the_acknowledgement(client: Client) -> None:
    client.prove()
    request = client.make(GET, f"topic/{topic()}", GUEST, REGISTER)
    client.send(encode(request))
    answer = client.expect()
    assert (answer.type, answer.message_id, answer.number(OBSERVE)) == (ACK, request.message_id, 1)


def test_a_non_confirmable_registration(client: Client, other: Client) -> None:
    name = topic()
    first = client.request(GET, f"topic/{name}", options=REGISTER, type=NON)
    assert (first.type, first.code) == (CON, CONTENT)
    other.publish(name, b"x")
    assert client.expect().payload == b"x"


@pytest.mark.parametrize("way", ["deregister", "reset", "register again"])
def test_an_observation_ends(client: Client, other: Client, coap_broker: BrokerProcess, way: str) -> None:
    name = topic()
    before = len(observers(coap_broker))
    first = client.request(GET, f"topic/{name}", options=REGISTER)
    assert len(observers(coap_broker)) == before + 1
    if way == "deregister":
        client.request(GET, f"topic/{name}", options=DEREGISTER, token=first.token)
    elif way == "reset":
        other.publish(name, b"x")
        client.reject(client.expect())
    else:
        again = client.request(GET, f"topic/{name}", options=REGISTER, token=first.token)
        assert again.code == CONTENT
        assert len(observers(coap_broker)) == before + 1
        return
    until(lambda: len(observers(coap_broker)) == before)
    other.publish(name, b"y")
    assert client.is_silent()


def test_the_newest_message_of_each_topic_waits_for_a_slow_observer(
    client: Client, other: Client, coap_broker: BrokerProcess
) -> None:
    name = topic()
    client.request(GET, f"subscribe/{name}/#", options=REGISTER)
    other.publish(f"{name}/a", b"first")
    first = client.expect()
    for index in range(50):
        other.publish(f"{name}/{index % 3}", b"%d" % index)
    client.acknowledge(first)
    found = {}
    for _ in range(3):
        message = client.expect()
        client.acknowledge(message)
        event = json.loads(message.payload)
        found[event["topic"][-1]] = event["payload"]
    assert found == {"0": "48", "1": "49", "2": "47"}
    assert client.is_silent()
    assert metric(coap_broker, "forebay_coap_notifications_total")['{fate="replaced"}'] >= 47


def test_a_long_notification_is_fetched_in_blocks(client: Client, other: Client) -> None:
    name = topic()
    body = os.urandom(900) * 2
    client.request(GET, f"topic/{name}", options=REGISTER)
    for index in range(2):
        options = [(27, block(index, index == 0, 6))]
        other.publish(name, body[index * 1024 :][:1024], options=options)
    first = client.expect()
    client.acknowledge(first)
    assert (first.option(BLOCK2), first.payload) == (block(0, True, 6), body[:1024])
    other.publish(name, b"newer")
    assert client.is_silent()
    rest = client.request(GET, f"topic/{name}", options=[(BLOCK2, block(1, False, 6))])
    assert (rest.payload, rest.option(4)) == (body[1024:], first.option(4))
    assert client.expect().payload == b"newer"


def test_an_administrator_sees_an_observer_and_ends_it(client: Client, coap_broker: BrokerProcess) -> None:
    name = topic()
    first = client.request(GET, f"topic/{name}", options=REGISTER)
    own = f"127.0.0.1:{client.socket.getsockname()[1]}"
    shown = next(each for each in observers(coap_broker) if each["peer"] == own)
    assert (shown["user"], shown["sent"]) == ("guest", 0)
    operate(coap_broker, "connection.close", id=shown["id"], reason="enough")
    last = client.expect()
    assert (last.type, last.code_text, last.token) == (CON, "5.03", first.token)
    assert b"enough" in last.payload
    client.acknowledge(last)
    until(lambda: all(each["peer"] != own for each in observers(coap_broker)))


def test_a_new_client_may_begin_several_observations_at_once(client: Client) -> None:
    requests = [client.make(GET, f"topic/{topic()}", GUEST, REGISTER) for _ in range(5)]
    for request in requests:
        client.send(encode(request))
    tokens: set[bytes] = set()
    while len(tokens) < len(requests):
        found = client.expect()
        client.acknowledge(found)
        if found.code:
            tokens.add(found.token)
    assert tokens == {request.token for request in requests}


def test_two_registrations_with_one_token_at_once_are_one(client: Client, coap_broker: BrokerProcess) -> None:
    client.prove()
    before = len(observers(coap_broker))
    name = topic()
    for _ in range(10):
        client.send(encode(client.make(GET, f"topic/{name}", GUEST, REGISTER, token=b"one")))
    for _ in range(10):
        assert client.expect().code == CONTENT
    assert len(observers(coap_broker)) == before + 1


def test_an_observer_with_the_token_of_another_client_is_another(client: Client, other: Client) -> None:
    name = topic()
    for each in (client, other):
        each.request(GET, f"topic/{name}", options=REGISTER, token=b"same")
    other.publish(name, b"x")
    assert client.expect().payload == b"x"


def test_a_reset_of_no_notification_ends_nothing(client: Client, other: Client) -> None:
    name = topic()
    client.request(GET, f"topic/{name}", options=REGISTER)
    client.reject(Message(CON, 0, 4711, b""))
    other.publish(name, b"x")
    assert client.expect().payload == b"x"
