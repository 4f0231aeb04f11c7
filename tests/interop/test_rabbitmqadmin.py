"""RabbitMQ's own command-line tool for its HTTP API works with ours: every subcommand of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from tests.broker_process import BrokerProcess, running
from tests.interop.debian import rabbitmqadmin

COMMAND_S_MAX = 60
LISTED = [
    "connections",
    "channels",
    "consumers",
    "exchanges",
    "queues",
    "bindings",
    "users",
    "vhosts",
    "permissions",
    "nodes",
    "parameters",
    "policies",
    "operator_policies",
    "vhost_limits",
]


class Admin:
    """The tool, as somebody types it.

    user  name and password
    """

    def __init__(self, broker: BrokerProcess, folder: Path, user: tuple[str, str] = ("guest", "guest")) -> None:
        self.port = broker.port("http")
        self.folder = folder
        self.user = user

    def run(self, *words: str, vhost: str = "/", given: str = "") -> subprocess.CompletedProcess[str]:
        name, password = self.user
        command = [sys.executable, str(rabbitmqadmin()), "-H", "127.0.0.1", "-P", str(self.port), "-u", name]
        command += ["-p", password, "-V", vhost, *words]
        environment = {**os.environ, "HOME": str(self.folder), "PYTHONWARNINGS": "ignore"}
        return subprocess.run(
            command,
            cwd=self.folder,
            env=environment,
            input=given,
            capture_output=True,
            text=True,
            timeout=COMMAND_S_MAX,
            check=False,
        )

    def __call__(self, *words: str, vhost: str = "/", given: str = "") -> str:
        """What a command prints; it must succeed."""
        done = self.run(*words, vhost=vhost, given=given)
        assert done.returncode == 0, (words, done.stdout + done.stderr)
        return done.stdout

    def refused(self, *words: str, vhost: str = "/") -> str:
        """What a command prints that must fail."""
        done = self.run(*words, vhost=vhost)
        assert done.returncode != 0, (words, done.stdout)
        return done.stdout + done.stderr

    def rows(self, what: str, *columns: str, vhost: str = "/") -> list[dict[str, object]]:
        """The rows of a list."""
        # Before the subcommand, as the tool takes options.
        done = self.run("-f", "raw_json", "list", what, *columns, vhost=vhost)
        assert done.returncode == 0, done.stdout + done.stderr
        found: list[dict[str, object]] = json.loads(done.stdout)
        return found


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running(tmp_path_factory.mktemp("broker"), http="127.0.0.1:0") as process:
        yield process


@pytest.fixture
def admin(broker: BrokerProcess, tmp_path: Path) -> Admin:
    return Admin(broker, tmp_path)


def test_everything_can_be_listed(admin: Admin, broker: BrokerProcess) -> None:
    parameters = pika.ConnectionParameters("127.0.0.1", broker.amqp_port)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.queue_declare("listed", durable=True)
        channel.basic_consume("listed", lambda *_: None)
        admin("declare", "policy", "name=listed", "pattern=^listed$", 'definition={"max-length": 1000}')
        admin("declare", "operator_policy", "name=cap", "pattern=^listed$", 'definition={"max-length": 100}')
        admin("declare", "vhost_limit", "vhost=/", "name=max-queues", "value=1000")
        admin("declare", "parameter", "component=notes", "name=why", 'value={"text": "because"}')
        admin("declare", "permission", "vhost=/", "user=guest", "configure=.*", "write=.*", "read=.*")
        for what in LISTED:
            rows = admin.rows(what)
            assert rows, what
            assert admin("list", what).startswith("+-"), what
        names = [row["name"] for row in admin.rows("queues")]
        assert "listed" in names
        assert admin.rows("queues", "name")[names.index("listed")] == {"name": "listed"}
        assert [row["user"] for row in admin.rows("connections")] == ["guest"]
        (consumer,) = admin.rows("consumers")
        assert consumer["queue"] == {"name": "listed", "vhost": "/"}
    assert admin("-f", "tsv", "list", "policies", "name").split() == ["name", "listed"]
    assert "cluster_name" in admin("show", "overview")
    assert "mem_used" in admin("list", "nodes", "name", "mem_used")
    admin("delete", "vhost_limit", "vhost=/", "name=max-queues")
    admin("delete", "parameter", "component=notes", "name=why")
    admin("delete", "operator_policy", "name=cap")
    admin("delete", "policy", "name=listed")
    assert admin.rows("parameters") == []


def test_vhosts_and_users_come_and_go(admin: Admin, broker: BrokerProcess, tmp_path: Path) -> None:
    admin("declare", "vhost", "name=shop/eu")
    admin("declare", "user", "name=ann", "password=secret", "tags=management")
    denied = Admin(broker, tmp_path, ("ann", "secret"))
    assert "Access refused" in denied.refused("declare", "queue", "name=q", vhost="shop/eu")
    admin("declare", "permission", "vhost=shop/eu", "user=ann", "configure=^ann", "write=.*", "read=.*")
    denied("declare", "queue", "name=ann.jobs", vhost="shop/eu")
    assert "Access refused" in denied.refused("declare", "queue", "name=other", vhost="shop/eu")
    assert [row["name"] for row in denied.rows("queues", vhost="shop/eu")] == ["ann.jobs"]
    assert [row["name"] for row in denied.rows("vhosts")] == ["shop/eu"]
    hashed = admin.rows("users", "name", "password_hash", "hashing_algorithm")
    kept = next(row for row in hashed if row["name"] == "ann")
    words = [f"{key}={kept[key]}" for key in ("password_hash", "hashing_algorithm")]
    admin("declare", "user", "name=bob", *words, "tags=administrator")
    assert Admin(broker, tmp_path, ("bob", "secret"))("list", "users")
    admin("delete", "permission", "vhost=shop/eu", "user=ann")
    admin("delete", "user", "name=ann")
    admin("delete", "user", "name=bob")
    admin("delete", "vhost", "name=shop/eu")
    assert [row["name"] for row in admin.rows("vhosts")] == ["/"]
    assert "Not found" in admin.refused("delete", "vhost", "name=shop/eu")


def test_messages_go_through_exchanges_to_queues(admin: Admin, tmp_path: Path) -> None:
    admin("declare", "exchange", "name=orders", "type=topic")
    admin("declare", "exchange", "name=all", "type=fanout", "durable=false")
    admin("declare", "queue", "name=jobs", "queue_type=quorum")
    admin("declare", "queue", "name=audit", 'arguments={"x-queue-type": "classic", "x-max-length": 10}')
    admin("declare", "binding", "source=orders", "destination=jobs", "routing_key=new.#")
    admin("declare", "binding", "source=orders", "destination=all", "destination_type=exchange", "routing_key=#")
    admin("declare", "binding", "source=all", "destination=audit")
    said = admin(
        "publish",
        "exchange=orders",
        "routing_key=new.1",
        "payload=first",
        'properties={"delivery_mode": 2, "headers": {"colour": "red"}}',
    )
    assert "Message published" in said
    admin("publish", "exchange=orders", "routing_key=old", given="from standard input")
    assert "NOT routed" in admin("publish", "routing_key=nobody", "payload=x")
    got = admin("-d", "3", "get", "queue=jobs", "ackmode=ack_requeue_true")
    assert "first" in got
    assert "colour" in got
    assert "True" in admin("get", "queue=jobs", "ackmode=ack_requeue_false")  # redelivered
    assert "first" not in admin("get", "queue=jobs", "ackmode=ack_requeue_false")
    admin("get", "queue=audit", "ackmode=ack_requeue_false", "payload_file=body")
    assert (tmp_path / "body").read_text() == "first"
    assert admin.rows("queues", "name", "messages")[0] == {"name": "audit", "messages": 1}
    admin("purge", "queue", "name=audit")
    assert admin.rows("queues", "name", "messages")[0] == {"name": "audit", "messages": 0}
    assert "inequivalent arg" in admin.refused("declare", "queue", "name=audit", "durable=false")
    admin(
        "delete",
        "binding",
        "source=orders",
        "destination_type=queue",
        "destination=jobs",
        "properties_key=new.%23",
    )
    admin("delete", "binding", "source=all", "destination_type=queue", "destination=audit")
    assert [row["destination"] for row in admin.rows("bindings") if row["source"]] == ["all"]
    for kind, name in (("queue", "jobs"), ("queue", "audit"), ("exchange", "orders"), ("exchange", "all")):
        admin("delete", kind, f"name={name}")


def test_definitions_go_out_and_come_back(admin: Admin, tmp_path: Path) -> None:
    admin("declare", "queue", "name=kept")
    admin("declare", "binding", "source=amq.topic", "destination=kept", "routing_key=a.#")
    admin("export", "definitions.json")
    written = json.loads((tmp_path / "definitions.json").read_text())
    assert "kept" in [queue["name"] for queue in written["queues"]]
    admin("delete", "queue", "name=kept")
    admin("import", "definitions.json")
    assert "a.#" in admin("list", "bindings")
    admin("export", "again.json")
    assert json.loads((tmp_path / "again.json").read_text()) == written
    admin("export", "vhost.json", vhost="/")
    admin("import", "vhost.json", vhost="/")
    admin("delete", "queue", "name=kept")


def test_a_connection_is_closed(admin: Admin, broker: BrokerProcess) -> None:
    parameters = pika.ConnectionParameters("127.0.0.1", broker.amqp_port)
    connection = pika.BlockingConnection(parameters)
    (row,) = admin.rows("connections")
    admin("close", "connection", f"name={row['name']}")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="320"):
        connection.process_data_events(time_limit=COMMAND_S_MAX)


def test_who_is_nobody_is_told_so(broker: BrokerProcess, tmp_path: Path) -> None:
    assert "Access refused" in Admin(broker, tmp_path, ("guest", "wrong")).refused("list", "queues")
