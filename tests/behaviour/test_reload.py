"""A configuration that is read again while the broker runs: by SIGHUP, over HTTP, and by an operation."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import paho.mqtt.client as paho
import pika
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from forebay.core.option_table import option_fields
from forebay.core.options import Options
from tests.broker_process import BrokerProcess
from tests.certificates import Certificates
from tests.security.test_certificates import revocations
from tests.waiting import until

WAIT_S = 60
GUEST = ("guest", "guest")


class Reloaded:
    """A running broker whose file the test changes."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.first = dict(broker.options)

    def set(self, **options: object) -> None:
        """Write these options in place of those written before, beside those of the start."""
        self.broker.options = {**self.first, **options}
        self.broker.write_options()

    def ask(self) -> httpx.Response:
        """POST /api/forebay/reload."""
        return httpx.post(f"{self.broker.http_url}/api/forebay/reload", auth=GUEST, timeout=WAIT_S)

    def reload(self, **options: object) -> dict[str, Any]:
        """What the broker answers once these options are in its file."""
        self.set(**options)
        answer = self.ask()
        assert answer.status_code == 200, answer.text
        found = answer.json()
        assert isinstance(found, dict)
        return found

    def values(self) -> dict[str, object]:
        """The options that the broker goes by."""
        answer = httpx.get(f"{self.broker.http_url}/api/forebay/config", auth=GUEST, timeout=WAIT_S)
        assert answer.status_code == 200, answer.text
        return {each["name"]: each["value"] for each in answer.json()}

    def in_force(self, name: str) -> object:
        """The value of one of them."""
        return self.values()[name]

    def amqp(self, user: str = "guest", password: str = "guest") -> Any:
        """An AMQP connection."""
        return pika.BlockingConnection(
            pika.ConnectionParameters(
                "127.0.0.1", self.broker.amqp_port, credentials=pika.PlainCredentials(user, password)
            )
        )


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reloaded]:
    """One broker for all tests that leave it as it was."""
    broker = BrokerProcess(tmp_path_factory.mktemp("reload"), http="127.0.0.1:0")
    broker.start()
    yield Reloaded(broker)
    broker.finish()


RELOADABLE_NUMBERS = [
    (name, spec) for name, spec, _ in option_fields(Options) if spec.reloadable and spec.kind == "integer"
]


def test_every_number_that_may_be_changed_is_in_force_afterwards(running: Reloaded) -> None:
    wanted: dict[str, object] = {}
    before = running.values()
    for name, spec in RELOADABLE_NUMBERS:
        now = before[name]
        assert isinstance(now, int)
        wanted[name] = now + 1 if now < spec.most else now - 1
    found = running.reload(**wanted)
    assert {each["name"]: each["new"] for each in found["applied"]} == wanted
    assert found["restart"] == []
    after = running.values()
    assert {name: after[name] for name in wanted} == wanted
    back = running.reload()
    assert {each["name"] for each in back["applied"]} == set(wanted)
    assert back["unchanged"] == len(option_fields(Options)) - len(wanted)


# Another value of every other option that may be changed; files are made by the test.
OTHERS: dict[str, object] = {
    "mqtt_client_id_scope": "vhost",
    "address_queues": "refuse",
    "administrators": ["guest"],
    "amqp_delivery_headers": "forebay",
    "amqp_product": "RabbitMQ",
    "amqp_queue_addresses": ["orders.*"],
    "amqp_shared_access_keys": {"guest": "a long key"},
    "bindings": [{"source": "reloaded", "destination": "mqtt"}],
    "events": ["queue.*"],
    "exchanges": [{"name": "reloaded"}],
    "http_hosts": ["broker.example"],
    "log_events": ["vhost.*"],
    "log_format": "json",
    "log_level": "warning",
    "loopback_users": [],
    "mqtt_acl": "acl",
    "mqtt_auth_methods": ["SCRAM-SHA-512"],
    "mqtt_redirect": "127.0.0.1:9",
    "mqtt_redirect_code": "moved",
    "permissions": [{"user": "guest", "vhost": "/", "configure": "", "write": ".*", "read": ".*"}],
    "queue_type_equivalence_relaxed": True,
    "queues": [{"name": "mqtt"}],
    "tls_certificate": "certificate",
    "tls_client_auth": "optional",
    "tls_client_ca": "ca",
    "tls_client_crl": "crl",
    "tls_key": "key",
    "tls_minimum_version": "1.3",
    "users": {"guest": "guest", "bob": "words"},
    "vhosts": [{"name": "reloaded"}],
    "webhooks": [{"url": "http://127.0.0.1:9/", "events": ["policy.*"]}],
}


def test_every_other_option_that_may_be_changed_is_in_force_afterwards(running: Reloaded, tmp_path: Path) -> None:
    names = {name for name, spec, _ in option_fields(Options) if spec.reloadable}
    assert names == set(OTHERS) | {name for name, _ in RELOADABLE_NUMBERS}, "each has a value here"
    acl = tmp_path / "acl"
    acl.write_text("topic readwrite #\n")
    made = Certificates(tmp_path / "certificates")
    crl = tmp_path / "crl.pem"
    crl.write_bytes(revocations(made))
    trust = {"tls_client_ca": str(made.ca), "tls_client_crl": str(crl)}
    wanted = {**OTHERS, "mqtt_acl": str(acl), **made.options(**trust)}
    found = running.reload(**wanted)
    assert {each["name"] for each in found["applied"]} == set(wanted)
    after = running.values()
    for name, value in wanted.items():
        now = after[name]
        if isinstance(value, dict):
            assert isinstance(now, dict) and set(now) == set(value), name
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            assert isinstance(now, list)
            assert [{**new, **old} for new, old in zip(now, value, strict=True)] == now, name
        else:
            assert now == value, name
    assert {each["name"] for each in running.reload()["applied"]} == set(wanted)


def test_nothing_is_changed_where_anything_is_wrong(running: Reloaded) -> None:
    with running.amqp() as connection:
        connection.channel().queue_declare("there", durable=True)
    for wrong, said in (
        ({"mqtt_max_qos": 7}, "mqtt_max_qos: 7 is out of range"),
        ({"mqtt_max_qoss": 1}, "did you mean mqtt_max_qos?"),
        ({"permissions": [{"user": "nobody"}]}, "permissions: there is no user 'nobody'"),
        ({"permissions": [{"user": "guest", "read": "("}]}, "permissions: of user 'guest'"),
        ({"users": {"guest": "guest", "ann": ""}}, "the password of 'ann' is empty"),
        ({"queues": [{"name": "q", "topics": ["a/#/b"]}]}, "queues[0].topics"),
        ({"queues": [{"name": "there", "type": "stream"}]}, "there is a classic queue of that name"),
        ({"events": ["client.conected"]}, "did you mean client.connected?"),
        ({"webhooks": [{"url": "ftp://h"}]}, "must begin with http:// or https://"),
    ):
        running.set(mqtt_max_subscriptions=77, **wrong)
        answer = running.ask()
        assert answer.status_code == 400, wrong
        assert said in answer.json()["reason"], answer.text
        assert running.in_force("mqtt_max_subscriptions") == 0
    assert "the configuration is as before" in running.broker.log_text()
    running.reload()


def test_what_needs_a_restart_is_named_and_left_alone(running: Reloaded) -> None:
    before = running.in_force("wal_octets_max")
    found = running.reload(wal_octets_max=512 << 20, mqtt_max_subscriptions=5)
    assert found["restart"] == ["wal_octets_max"]
    assert [each["name"] for each in found["applied"]] == ["mqtt_max_subscriptions"]
    assert running.in_force("wal_octets_max") == before
    assert running.reload()["restart"] == []


def test_users_come_and_go_with_their_connections_and_no_password_is_shown(running: Reloaded) -> None:
    users = {"guest": "guest", "ann": "first words"}
    found = running.reload(users=users)
    assert found["applied"] == [{"name": "users", "old": {"guest": "***"}, "new": {"guest": "***", "ann": "***"}}]
    ann = running.amqp("ann", "first words")
    running.reload(users={**users, "ann": "other words"})
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        running.amqp("ann", "first words")
    running.amqp("ann", "other words").close()
    assert ann.is_open, "who is connected stays so"
    running.reload()
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="user 'ann' is deleted"):
        ann.process_data_events(WAIT_S)
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        running.amqp("ann", "other words")
    assert "first words" not in running.broker.log_text() and "other words" not in running.broker.log_text()


def test_permissions_hold_at_once_for_who_is_connected(running: Reloaded) -> None:
    users = {"guest": "guest", "ann": "words"}
    running.reload(users=users)
    ann = running.amqp("ann", "words")
    ann.channel().queue_declare("ann-1", auto_delete=True)
    running.reload(users=users, permissions=[{"user": "ann", "configure": "^none$"}])
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="403"):
        ann.channel().queue_declare("ann-2", auto_delete=True)
    running.reload(users=users)
    ann.channel().queue_declare("ann-2", auto_delete=True)
    ann.close()
    running.reload()


def test_queues_and_vhosts_are_made_and_topics_follow_the_file(running: Reloaded) -> None:
    queue: dict[str, object] = {"name": "added", "topics": ["a/+"], "limits": {"max_depth": 2}}
    running.reload(queues=[queue], vhosts=[{"name": "shop", "connections_max": 0}])
    with pytest.raises(pika.exceptions.AMQPConnectionError, match="connection limit"):
        pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", running.broker.amqp_port, "shop"))
    connection = running.amqp()
    channel = connection.channel()
    channel.confirm_delivery()
    for _ in range(2):
        channel.basic_publish("amq.topic", "a.b", b"x", mandatory=True)
    with pytest.raises(pika.exceptions.NackError):
        channel.basic_publish("amq.topic", "a.b", b"x")
    running.reload(queues=[{**queue, "topics": ["c"], "limits": {"max_depth": 3}}])
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("amq.topic", "a.b", b"x", mandatory=True)
    channel.basic_publish("amq.topic", "c", b"x", mandatory=True)
    assert channel.queue_declare("added", passive=True).method.message_count == 3
    running.reload()
    assert channel.queue_declare("added", passive=True).method.message_count == 3, "no queue goes by a reload"
    connection.close()


def test_new_connections_have_new_limits_and_old_ones_theirs(running: Reloaded) -> None:
    def connected() -> tuple[paho.Client, Any]:
        found: list[Any] = []
        client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
        client.on_connect = lambda *given: found.append(given[4])
        client.connect("127.0.0.1", running.broker.mqtt_port)
        client.loop_start()
        until(lambda: found)
        return client, found[0]

    first, terms = connected()
    assert not hasattr(terms, "MaximumQoS")
    running.reload(mqtt_max_qos=1, mqtt_receive_max=3)
    second, terms = connected()
    assert (terms.MaximumQoS, terms.ReceiveMaximum) == (1, 3)
    sent = first.publish("t", b"x", qos=2)
    sent.wait_for_publish(WAIT_S)
    assert sent.is_published()
    for client in (first, second):
        client.disconnect()
        client.loop_stop()
    running.reload()


def test_figures_are_told_and_messages_limited_as_the_file_says_now(running: Reloaded) -> None:
    running.reload(message_octets_max=10)
    connection = running.amqp()
    channel = connection.channel()
    channel.confirm_delivery()
    channel.basic_publish("", "mqtt", bytes(10))
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="10"):
        channel.basic_publish("", "mqtt", bytes(11))
    connection.close()
    running.reload()


def test_sighup_reads_the_file_again_and_says_so(running: Reloaded) -> None:
    running.set(mqtt_max_subscriptions=9, log_level="debug", log_format="json", users={"guest": "guest", "a": "b"})
    os.kill(running.broker.pid, signal.SIGHUP)
    until(lambda: running.in_force("mqtt_max_subscriptions") == 9)
    lines = [line for line in running.broker.log_text().splitlines() if "configuration read again" in line]
    said = json.loads(lines[-1])
    assert said["message"].startswith("configuration read again; changed: ")
    assert "mqtt_max_subscriptions" in said["message"]
    running.set(mqtt_max_subscriptions=-9)
    os.kill(running.broker.pid, signal.SIGHUP)
    until(lambda: "mqtt_max_subscriptions: -9 is out of range" in running.broker.log_text())
    assert running.in_force("mqtt_max_subscriptions") == 9, "the broker goes on"
    running.reload()


def test_only_administrators_may_read_and_change_the_configuration(running: Reloaded) -> None:
    running.reload(users={"guest": "guest", "ann": "words"}, administrators=["guest"])
    for method, path in (("POST", "reload"), ("GET", "config"), ("GET", "webhooks")):
        url = f"{running.broker.http_url}/api/forebay/{path}"
        assert httpx.request(method, url, auth=("ann", "words")).status_code == 401
        assert httpx.request(method, url).status_code == 401
    running.reload()


def test_origins_are_shown(running: Reloaded, tmp_path: Path) -> None:
    answer = httpx.get(f"{running.broker.http_url}/api/forebay/config", auth=GUEST)
    origins = {each["name"]: each["origin"] for each in answer.json()}
    assert origins["data"] == "command line"
    assert origins["mqtt_max_qos"] == "default"
    assert origins["http"].endswith("options.yaml:1")
