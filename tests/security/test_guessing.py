"""One client with an old password, or one that guesses, holds up nobody who knows the right one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count, repeat

import httpx
import pika
import pytest
from paho.mqtt.enums import MQTTProtocolVersion
from pika.exceptions import AMQPError

from tests.broker_process import BrokerProcess
from tests.interop.mqtt_client import V5, V311, Client
from tests.waiting import until

Start = Callable[..., BrokerProcess]
USERS = {"guest": "guest", "stale": "new", "device": "right"}
ROUNDS = 15  # of which three are free


def over_mqtt(broker: BrokerProcess, user: str, password: str, version: MQTTProtocolVersion = V5) -> bool:
    client = Client(broker, "", version)
    client.client.username_pw_set(user, password)
    code = client.connect()[0]
    client.end()
    return not code.is_failure


def over_amqp(broker: BrokerProcess, user: str, password: str) -> bool:
    login = pika.PlainCredentials(user, password)
    with (
        suppress(AMQPError),
        pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port, "/", login)),
    ):
        return True
    return False


def over_http(broker: BrokerProcess, user: str, password: str) -> bool:
    return httpx.get(f"{broker.http_url}/api/whoami", auth=(user, password)).status_code == 200


DOORS = (over_mqtt, over_amqp, over_http)


def started(start_broker: Start, **options: object) -> BrokerProcess:
    return start_broker(http="127.0.0.1:0", users=USERS, login_failures_free=3, login_wait_max_s=3600, **options)


def guess_at_everybody(broker: BrokerProcess) -> None:
    """Guess until the address has to wait for longer than a busy machine takes for the next requests."""
    guess_at(broker, (f"user-{number}" for number in count()))


def guess_at(broker: BrokerProcess, names: Iterator[str]) -> None:
    """Guess at one after the other until the next has to wait for longer than a busy machine takes for a request."""

    def has_long_to_wait() -> bool:
        answer = httpx.get(f"{broker.http_url}/api/whoami", auth=(next(names), "x"))
        return answer.status_code == 429 and int(answer.headers["retry-after"]) >= 8

    until(has_long_to_wait)


def test_a_device_with_an_old_password_locks_out_itself_and_nobody_at_its_address(start_broker: Start) -> None:
    broker = started(start_broker)
    refused = 0
    for _ in range(ROUNDS):
        for attempt in DOORS:
            assert not attempt(broker, "stale", "old")
            refused += not attempt(broker, "device", "right")
    assert refused == 0
    guess_at(broker, repeat("stale"))
    assert not over_http(broker, "stale", "new"), "it waits"


def test_who_was_right_there_lately_passes_while_another_guesses_its_password(start_broker: Start) -> None:
    broker = started(start_broker)
    for attempt in DOORS:
        assert attempt(broker, "device", "right")
    refused = 0
    for _ in range(ROUNDS):
        for attempt in DOORS:
            assert not attempt(broker, "device", "wrong")
            refused += not attempt(broker, "device", "right")
    assert refused == 0
    assert "too many failed logins" in broker.log_text()


def test_a_user_with_a_hash_passes_as_well(start_broker: Start) -> None:
    broker = started(start_broker)
    made = httpx.put(
        f"{broker.http_url}/api/users/ada", auth=("guest", "guest"), json={"password": "right", "tags": "monitoring"}
    )
    assert made.status_code == 201
    assert over_http(broker, "ada", "right")
    for _ in range(ROUNDS):
        assert not over_http(broker, "ada", "wrong")
        assert over_http(broker, "ada", "right")


def test_an_address_that_guesses_at_everybody_waits_but_who_was_right_there_does_not(start_broker: Start) -> None:
    broker = started(start_broker, login_address_failures_free=10)
    assert over_http(broker, "device", "right")
    guess_at_everybody(broker)
    answer = httpx.get(f"{broker.http_url}/api/whoami", auth=("guest", "guest"))
    assert (answer.status_code, "retry-after" in answer.headers) == (429, True)
    assert over_http(broker, "device", "right")
    assert over_mqtt(broker, "device", "right")


def test_trust_comes_to_an_end(start_broker: Start) -> None:
    broker = started(start_broker, login_trust_s=0)
    for _ in range(20):
        if not over_http(broker, "device", "right"):
            break
        over_http(broker, "device", "wrong")
    assert not over_http(broker, "device", "right")


@pytest.mark.parametrize("version", [V311, V5])
def test_a_guess_from_elsewhere_is_none_of_theirs(start_broker: Start, version: MQTTProtocolVersion) -> None:
    broker = started(start_broker)
    for _ in range(10):
        assert not over_mqtt(broker, "stale", "old", version)
    assert over_mqtt(broker, "device", "right", version)
