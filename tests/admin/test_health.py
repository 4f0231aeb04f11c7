"""The health checks: yes, and no with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pika
import pytest

from tests.broker_process import BrokerProcess, running
from tests.certificates import Certificates
from tests.waiting import until

CHECKS = [
    "alarms",
    "local-alarms",
    "virtual-hosts",
    "node-is-quorum-critical",
    "is-in-service",
    "below-node-connection-limit",
    "ready-to-serve-clients",
    "certificate-expiration/4/weeks",
    "metadata-store/initialized",
    "metadata-store/initialized/with-data",
    "quorum-queues-without-elected-leaders/all-vhosts/",
    "quorum-queues-without-elected-leaders/all-vhosts/pattern/%5Eq.*",
    "quorum-queues-without-elected-leaders/vhost/%2F/",
    "quorum-queues-without-elected-leaders/vhost/%2F/pattern/q",
    "reached-target-cluster-size",
]
# RabbitMQ asks for no login there: orchestrators have none.
WITHOUT_LOGIN = [
    "is-in-service",
    "below-node-connection-limit",
    "ready-to-serve-clients",
    "reached-target-cluster-size",
]
ENOUGH = 1 << 60  # octets that no disk has free


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One that has TLS."""
    folder = Path(tmp_path_factory.mktemp("health"))
    options = Certificates(folder / "certificates").options(amqps="127.0.0.1:0")
    with running(folder, http="127.0.0.1:0", **options) as broker:
        yield broker


def check(broker: BrokerProcess, name: str) -> tuple[int, Any]:
    path = name if name.startswith("/") else f"/health/checks/{name}"
    answer = httpx.get(broker.http_url + "/api" + path, auth=("guest", "guest"), timeout=60)
    return answer.status_code, answer.json()


@pytest.mark.parametrize("name", CHECKS)
def test_all_is_well(broker: BrokerProcess, name: str) -> None:
    status, body = check(broker, name)
    assert status == 200, body
    assert body["status"] == "ok"


@pytest.mark.parametrize("name", WITHOUT_LOGIN)
def test_orchestrators_ask_without_a_login(broker: BrokerProcess, name: str) -> None:
    answer = httpx.get(f"{broker.http_url}/api/health/checks/{name}", timeout=60)
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    assert httpx.get(f"{broker.http_url}/api/health/checks/alarms", timeout=60).status_code == 401


def test_leaders_of_what_is_not_there(broker: BrokerProcess) -> None:
    path = "quorum-queues-without-elected-leaders"
    assert check(broker, f"{path}/vhost/nowhere")[0] == 404
    status, body = check(broker, f"{path}/all-vhosts/pattern/%28")
    assert (status, "pattern: '('" in body["reason"]) == (400, True)


def test_the_node_is_asked_about_as_it_was(broker: BrokerProcess) -> None:
    """Tools older than the checks of one thing each."""
    address = broker.http_url + "/api/nodes"
    (node,) = httpx.get(address, auth=("guest", "guest"), timeout=60).json()
    for path in ("/healthchecks/node", f"/healthchecks/node/{node['name']}"):
        assert check(broker, path) == (200, {"status": "ok"})
    assert check(broker, "/healthchecks/node/other@host")[0] == 404


def test_listeners(broker: BrokerProcess) -> None:
    assert check(broker, f"port-listener/{broker.amqp_port}") == (200, {"status": "ok", "port": broker.amqp_port})
    status, body = check(broker, "port-listener/1")
    assert (status, body["missing"]) == (503, 1)
    assert broker.amqp_port in body["ports"]
    for protocol in ("amqp", "mqtt", "amqps", "http", "http/web-mqtt"):
        encoded = protocol.replace("/", "%2F")
        assert check(broker, f"protocol-listener/{encoded}")[0] == 200, protocol
    status, body = check(broker, "protocol-listener/stomp")
    assert (status, body["status"], body["missing"]) == (503, "failed", "stomp")
    status, body = check(broker, "protocol-listener/amqp0-9-1,mqtt311,webmqtt")
    assert (status, {"amqp", "mqtt", "http/web-mqtt"} <= set(body["protocols"])) == (200, True)
    status, body = check(broker, "protocol-listener/amqp,stomp,webmqtt+ssl")
    assert (status, body["missing"]) == (503, ["stomp", "webmqtt+ssl"])


def test_a_certificate_that_ends_too_soon(broker: BrokerProcess) -> None:
    status, body = check(broker, "certificate-expiration/1000/years")
    assert status == 503
    assert body["expired"][0]["certfile"].endswith("broker.pem")


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("certificate-expiration/1/parsecs", "parsecs"),
        ("certificate-expiration/x/days", "'x'"),
        ("port-listener/x", "'x'"),
        ("port-listener/70000", "70000"),
    ],
)
def test_what_cannot_be_asked(broker: BrokerProcess, path: str, named: str) -> None:
    status, body = check(broker, path)
    assert status == 400
    assert named in body["reason"]


def test_a_vhost_is_alive(broker: BrokerProcess) -> None:
    assert check(broker, "/aliveness-test/%2F") == (200, {"status": "ok"})
    assert check(broker, "/aliveness-test/nowhere")[0] == 404


def test_too_little_disk(tmp_path: Path) -> None:
    with running(tmp_path, http="127.0.0.1:0", disk_free_min_octets=ENOUGH) as broker:
        until(lambda: check(broker, "alarms")[0] == 503)
        for name in ("alarms", "local-alarms", "ready-to-serve-clients"):
            status, body = check(broker, name)
            assert status == 503
            assert [alarm["resource"] for alarm in body["alarms"]] == ["disk"]
        assert check(broker, "is-in-service")[0] == 200
        answer = httpx.get(broker.http_url + "/api/nodes", auth=("guest", "guest"), timeout=60)
        assert answer.json()[0]["disk_free_alarm"] is True


def test_no_room_for_connections(tmp_path: Path) -> None:
    with running(tmp_path, http="127.0.0.1:0", connections_max=1) as broker:
        assert check(broker, "below-node-connection-limit")[0] == 200
        with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)):
            status, body = check(broker, "below-node-connection-limit")
            assert (status, body["limit"], body["connections"]) == (503, 1, 1)
            assert check(broker, "ready-to-serve-clients")[0] == 503


def test_load_balancers_may_ask_for_the_head_alone(broker: BrokerProcess) -> None:
    for path, status in (("virtual-hosts", 200), ("port-listener/1", 503)):
        url = f"{broker.http_url}/api/health/checks/{path}"
        head = httpx.head(url, auth=("guest", "guest"), timeout=60)
        assert (head.status_code, head.content) == (status, b"")
        whole = httpx.get(url, auth=("guest", "guest"), timeout=60)
        assert head.headers["content-length"] == str(len(whole.content))
    assert httpx.head(f"{broker.http_url}/api/overview", timeout=60).status_code == 401
