"""Who changed what is written down, and nothing that is secret is written anywhere."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx
import pika
import pika.exceptions
import pytest

from forebay.client.control import ControlClient
from forebay.core.options import make_options
from tests.broker_process import BrokerProcess
from tests.waiting import until

GUEST = ("guest", "guest")
WAIT_S = 60
SECRET = "correct-horse-battery"


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_changes_by_every_way_are_written_down(start_broker: Callable[..., BrokerProcess], tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    broker = start_broker(http="127.0.0.1:0", audit_log=str(log))
    with httpx.Client(base_url=broker.http_url, auth=GUEST) as http:
        assert http.put("/api/users/ada", json={"password": SECRET, "tags": ""}).status_code == 201
        assert http.put("/api/vhosts/sales").status_code == 201
        assert http.delete("/api/queues/%2F/nowhere").status_code == 404
        http.get("/api/whoami", auth=("guest", SECRET))
    parameters = pika.ConnectionParameters("127.0.0.1", broker.amqp_port)
    with closing(pika.BlockingConnection(parameters)) as connection:
        channel = connection.channel()
        for _ in range(2):
            channel.queue_declare("orders", durable=True, arguments={"x-max-length": 5})
        channel.queue_declare("", exclusive=True)
        channel.exchange_declare("shop")
        channel.queue_delete("orders")
    with ControlClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest") as control:
        control.run("user.add", user="bob", password=SECRET)
    broker.stop()
    found = lines(log)
    assert [(each["protocol"], each["what"], each["result"]) for each in found] == [
        ("http", "user.put", "done"),
        ("http", "vhost.add", "done"),
        ("http", "queue.delete", found[2]["result"]),
        ("http", "login", "wrong password for user 'guest'"),
        ("amqp", "queue.declare", "done"),
        ("amqp", "exchange.declare", "done"),
        ("amqp", "queue.delete", "done"),
        ("blocks", "user.add", "done"),
    ]
    assert found[2]["result"] != "done"
    assert {each["user"] for each in found} == {"guest"}
    assert {each["address"] for each in found} == {"127.0.0.1"}
    assert found[4]["arguments"] == {"queue": "orders", "arguments": {"x-max-length": 5}, "vhost": "/"}
    assert all(str(each["time"]).endswith("Z") for each in found)
    assert SECRET not in log.read_text() + broker.log_text()
    assert log.stat().st_mode & 0o007 == 0


def test_lines_are_added_to_what_is_there(start_broker: Callable[..., BrokerProcess], tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    log.write_text('{"kept": true}\n')
    broker = start_broker(http="127.0.0.1:0", audit_log=str(log))
    httpx.put(f"{broker.http_url}/api/vhosts/one", auth=GUEST)
    until(lambda: len(lines(log)) >= 2)
    log.rename(tmp_path / "old.jsonl")
    httpx.put(f"{broker.http_url}/api/vhosts/two", auth=GUEST)
    broker.stop()
    assert lines(tmp_path / "old.jsonl")[0] == {"kept": True}
    assert [each["arguments"] for each in lines(log)] == [{"vhost": "two"}]


def test_a_name_cannot_make_up_a_line(start_broker: Callable[..., BrokerProcess], tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    broker = start_broker(http="127.0.0.1:0", audit_log=str(log))
    httpx.get(f"{broker.http_url}/api/whoami", auth=('x\n{"user": "root"}', "x"))
    broker.stop()
    assert len(lines(log)) == 1


def test_what_clients_declare_does_not_fill_the_log(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(http="127.0.0.1:0")
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)) as connection:
        connection.channel().queue_declare("of-a-client", durable=True)
    assert httpx.put(f"{broker.http_url}/api/vhosts/two", auth=GUEST, timeout=WAIT_S).status_code == 201
    broker.stop()
    assert "of-a-client" not in broker.log_text()
    assert '"what": "vhost.add"' in broker.log_text()


def test_a_file_that_cannot_be_written_stops_the_start(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "broker", audit_log=str(tmp_path / "missing" / "audit.jsonl"))
    broker.launch()
    assert broker.wait() == 2
    assert "audit_log: " in broker.log_text()


def test_nobody_gets_in_from_outside_with_the_default_options(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(http="127.0.0.1:0", proxy_protocol=True)
    with httpx.Client(base_url=broker.http_url, transport=Proxied(broker, "192.0.2.7")) as outside:
        assert outside.get("/api/whoami", auth=GUEST).status_code == 401
        assert outside.post("/api/login", json={"username": "guest", "password": "guest"}).status_code == 401
    with httpx.Client(base_url=broker.http_url, transport=Proxied(broker, "127.0.0.1")) as inside:
        assert inside.get("/api/whoami", auth=GUEST).status_code == 200
    assert "can only log in from this machine" in broker.log_text()


class Proxied(httpx.BaseTransport):
    """Requests by way of a proxy that says where the client is."""

    def __init__(self, broker: BrokerProcess, address: str) -> None:
        self.broker = broker
        self.address = address

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        body = request.read()
        head = f"PROXY TCP4 {self.address} 198.51.100.1 4000 80\r\n".encode()
        head += f"{request.method} {request.url.raw_path.decode()} HTTP/1.1\r\n".encode()
        headers = {**request.headers, "connection": "close"}
        head += b"".join(f"{name}: {value}\r\n".encode() for name, value in headers.items()) + b"\r\n"
        octets = exchange(self.broker.port("http"), head + body)
        top, _, rest = octets.partition(b"\r\n\r\n")
        return httpx.Response(int(top.split()[1]), content=rest)


def exchange(port: int, octets: bytes) -> bytes:
    """What a server answers until it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as plain:
        plain.sendall(octets)
        parts: list[bytes] = []
        while part := plain.recv(65_536):
            parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize("name", ["amqp", "mqtt", "mqtt_websocket", "http", "prometheus"])
def test_every_default_listener_is_of_this_machine_only(name: str) -> None:
    assert str(getattr(make_options({}), name)).startswith("127.0.0.1:")


def test_addresses_in_values_lose_their_passwords(start_broker: Callable[..., BrokerProcess], tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    broker = start_broker(http="127.0.0.1:0", audit_log=str(log))
    uri = f"amqp://ada:{SECRET}@host/%2f"
    shovel = {"value": {"src-uri": [uri], "dest-uri": uri, "src-queue": "q", "dest-queue": "q"}}
    with httpx.Client(base_url=broker.http_url, auth=GUEST) as http:
        assert http.put("/api/parameters/shovel/%2F/s", json=shovel).status_code == 201
        assert http.put("/api/global-parameters/g", json={"value": {"upstream": uri}}).status_code == 201
        definitions = {"global_parameters": [{"name": "h", "value": [uri]}]}
        assert http.post("/api/definitions", json=definitions).status_code == 204
        http.put("/api/queues/%2F/q", json={"arguments": {"x-note": uri}})
    with ControlClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest") as control:
        control.run("queue.declare", queue="r", arguments={"x-queue-type": "classic"})
    broker.stop()
    written = log.read_text()
    assert "amqp://ada:***@host" in written
    assert SECRET not in written
    assert SECRET not in broker.log_text()
