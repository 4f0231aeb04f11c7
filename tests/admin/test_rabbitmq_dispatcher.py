"""Every path and method of RabbitMQ's management dispatcher is answered here, or refused with the reason why not.

The table has what `dispatcher/0` of each of RabbitMQ's plugins lists (main, 21 August 2026), with the methods that the
modules behind the paths allow, but for HEAD and OPTIONS. `q` stands for the type of a binding's destination.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx
import pytest

from forebay.admin.api import all_routes
from forebay.admin.rabbitmq.unsupported import PATHS, unsupported_at
from tests.admin.clients import open_channel
from tests.broker_process import BrokerProcess, running
from tests.conformance.amqp10.raw import begun

DISPATCHER: Final = """
# rabbitmq_management
GET             /api/overview
GET,PUT         /api/cluster-name
GET             /api/nodes
GET             /api/nodes/{node}
GET             /api/nodes/{node}/memory
GET             /api/nodes/{node}/memory/relative
GET             /api/nodes/{node}/memory/ets
GET             /api/nodes/{node}/memory/ets/relative
GET             /api/nodes/{node}/memory/ets/{filter}
GET             /api/nodes/{node}/memory/ets/{filter}/relative
GET             /api/extensions
GET,POST        /api/all-configuration
GET,POST        /api/definitions
GET,POST        /api/definitions/{vhost}
GET             /api/parameters
GET             /api/parameters/{component}
GET             /api/parameters/{component}/{vhost}
GET,PUT,DELETE  /api/parameters/{component}/{vhost}/{name}
GET             /api/global-parameters
GET,PUT,DELETE  /api/global-parameters/{name}
GET             /api/policies
GET             /api/policies/{vhost}
GET,PUT,DELETE  /api/policies/{vhost}/{name}
GET             /api/operator-policies
GET             /api/operator-policies/{vhost}
GET,PUT,DELETE  /api/operator-policies/{vhost}/{name}
PUT,DELETE      /api/vhost-limits/{vhost}/{name}
GET             /api/vhost-limits
GET             /api/vhost-limits/{vhost}
GET             /api/connections
GET,DELETE      /api/connections/{connection}
GET,DELETE      /api/connections/username/{username}
GET             /api/connections/{connection}/channels
GET             /api/connections/{connection}/sessions
GET             /api/channels
GET             /api/channels/{channel}
GET             /api/consumers
GET             /api/consumers/{vhost}
GET             /api/exchanges
GET             /api/exchanges/{vhost}
GET,PUT,DELETE  /api/exchanges/{vhost}/{exchange}
POST            /api/exchanges/{vhost}/{exchange}/publish
GET             /api/exchanges/{vhost}/{exchange}/bindings/source
GET             /api/exchanges/{vhost}/{exchange}/bindings/destination
GET             /api/queues
GET             /api/queues/detailed
GET             /api/queues/{vhost}
GET,PUT,DELETE  /api/queues/{vhost}/{queue}
GET             /api/queues/{vhost}/{destination}/bindings
DELETE          /api/queues/{vhost}/{queue}/contents
POST            /api/queues/{vhost}/{queue}/get
POST            /api/queues/{vhost}/{queue}/actions
POST            /api/queues/quorum/{vhost}/{queue}/replicas/add
DELETE          /api/queues/quorum/{vhost}/{queue}/replicas/delete
POST            /api/queues/quorum/replicas/on/{node}/grow
DELETE          /api/queues/quorum/replicas/on/{node}/shrink
GET             /api/queues/quorum/{vhost}/{queue}/status
GET             /api/bindings
GET             /api/bindings/{vhost}
GET,POST        /api/bindings/{vhost}/e/{source}/q/{destination}
GET,DELETE      /api/bindings/{vhost}/e/{source}/q/{destination}/{props}
GET             /api/vhosts
GET,PUT,DELETE  /api/vhosts/{vhost}
GET,POST,DELETE /api/vhosts/{vhost}/deletion/protection
POST            /api/vhosts/{vhost}/start/{node}
GET             /api/vhosts/{vhost}/permissions
GET             /api/vhosts/{vhost}/topic-permissions
GET             /api/vhosts/{vhost}/connections
GET             /api/vhosts/{vhost}/channels
POST            /api/users/bulk-delete
GET             /api/users/without-permissions
GET             /api/users
GET,PUT,DELETE  /api/users/{user}
GET             /api/users/{user}/permissions
GET             /api/users/{user}/topic-permissions
GET             /api/users/{user}/queues
PUT,DELETE      /api/user-limits/{user}/{name}
GET             /api/user-limits
GET             /api/user-limits/{user}
GET             /api/feature-flags
PUT             /api/feature-flags/{name}/enable
GET             /api/deprecated-features
GET             /api/deprecated-features/used
GET             /api/whoami
GET             /api/permissions
GET,PUT,DELETE  /api/permissions/{vhost}/{user}
GET             /api/topic-permissions
GET,PUT,DELETE  /api/topic-permissions/{vhost}/{user}
GET,PUT,DELETE  /api/topic-permissions/{vhost}/{user}/{exchange}
GET             /api/aliveness-test/{vhost}
GET             /api/healthchecks/node
GET             /api/healthchecks/node/{node}
GET             /api/health/checks/alarms
GET             /api/health/checks/local-alarms
GET             /api/health/checks/metadata-store/initialized
GET             /api/health/checks/metadata-store/initialized/with-data
GET             /api/health/checks/certificate-expiration/{within}/{unit}
GET             /api/health/checks/port-listener/{port}
GET             /api/health/checks/protocol-listener/{protocols}
GET             /api/health/checks/virtual-hosts
GET             /api/health/checks/quorum-queues-without-elected-leaders/all-vhosts
GET             /api/health/checks/quorum-queues-without-elected-leaders/vhost/{vhost}
GET             /api/health/checks/quorum-queues-without-elected-leaders/all-vhosts/pattern/{pattern}
GET             /api/health/checks/quorum-queues-without-elected-leaders/vhost/{vhost}/pattern/{pattern}
GET             /api/health/checks/node-is-quorum-critical
GET             /api/health/checks/is-in-service
GET             /api/health/checks/below-node-connection-limit
GET             /api/health/checks/ready-to-serve-clients
GET             /api/health/checks/reached-target-cluster-size
DELETE          /api/reset
DELETE          /api/reset/{node}
POST            /api/rebalance/queues
GET,DELETE      /api/auth/attempts/{node}
GET,DELETE      /api/auth/attempts/{node}/source
POST,DELETE     /api/login
GET             /api/config/effective
GET             /api/auth/hash_password/{password}
GET             /api/version
# rabbitmq_federation_management
GET,DELETE      /api/federation-links
GET,DELETE      /api/federation-links/{vhost}
GET,DELETE      /api/federation-links/state/down
GET,DELETE      /api/federation-links/{vhost}/state/down
GET,DELETE      /api/federation-links/vhost/{vhost}/{id}/{node}/restart
# rabbitmq_shovel_management
GET,DELETE      /api/shovels/vhost/{vhost}/{name}
GET,DELETE      /api/shovels/vhost/{vhost}/{name}/restart
GET             /api/shovels
GET             /api/shovels/{vhost}
# rabbitmq_stream_management
GET             /api/stream/connections/{vhost}/{connection}/consumers
GET,DELETE      /api/stream/connections/{vhost}/{connection}
GET             /api/stream/connections/{vhost}/{connection}/publishers
GET             /api/stream/connections
GET             /api/stream/connections/{vhost}
GET             /api/stream/consumers
GET             /api/stream/consumers/{vhost}
GET             /api/stream/publishers
GET             /api/stream/publishers/{vhost}
GET             /api/stream/publishers/{vhost}/{queue}
PUT             /api/stream/super-streams/{vhost}/{name}
GET             /api/stream/{vhost}/{queue}/tracking
# rabbitmq_top
GET             /api/top/{node}
GET             /api/top/ets/{node}
GET             /api/process/{pid}
# rabbitmq_tracing
GET             /api/traces
GET             /api/traces/node/{node}
GET             /api/traces/{vhost}
GET             /api/traces/node/{node}/{vhost}
GET,PUT,DELETE  /api/traces/{vhost}/{name}
GET,PUT,DELETE  /api/traces/node/{node}/{vhost}/{name}
GET             /api/trace-files
GET             /api/trace-files/node/{node}
GET,DELETE      /api/trace-files/{name}
GET,DELETE      /api/trace-files/node/{node}/{name}
"""
TOPICS = "/api/topic-permissions/%2F/reader"
REFERENCE = Path(__file__).parents[2] / "docs/reference/http-reference.md"


def rows() -> Iterator[tuple[str, str]]:
    """Method and path of each that RabbitMQ answers."""
    for line in DISPATCHER.splitlines():
        if line and not line.startswith("#"):
            methods, path = line.split()
            yield from ((method, path) for method in methods.split(","))


def nameless(path: str) -> str:
    return re.sub(r"\{[^}]*\}", "{}", path)


@pytest.fixture(scope="module")
def client(broker: BrokerProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=broker.http_url, auth=("guest", "guest"), timeout=60) as client:
        yield client


def test_each_is_a_route_or_listed_with_a_reason() -> None:
    ours = {(method, nameless(route.path_format)) for route in all_routes().all for method in route.methods}
    listed = {(method, each.path) for each in PATHS for method in each.methods}
    assert len(list(rows())) > 200
    assert {row for row in rows() if (row[0], nameless(row[1])) not in ours} == listed
    assert not {row for row in listed if (row[0], nameless(row[1])) in ours}, "answered, and listed as not"


def test_each_is_answered_or_refused_by_name(client: httpx.Client) -> None:
    for method, path in rows():
        asked = re.sub(r"\{\w+\}", "nothing", path)
        answer = client.request(method, asked)
        known = unsupported_at(method, asked)
        if known is None:
            assert answer.status_code not in (500, 501), (method, path)
            said = answer.json()["reason"] if answer.status_code in (404, 405) else ""
            assert not said.startswith(("path:", "method:")), (method, path, said)
        else:
            assert answer.status_code == known.status, (method, path)
            assert answer.json()["reason"] == f"{method} {known.path}: {known.reason}"


def test_the_reference_lists_what_is_not_answered() -> None:
    text = REFERENCE.read_text()
    assert [each.path for each in PATHS if f"{each.path}` |" not in text] == []


def test_other_paths_and_methods_are_refused_by_name(client: httpx.Client) -> None:
    answer = client.get("/api/nothing/of/the/kind")
    assert (answer.status_code, answer.json()["error"]) == (404, "Object Not Found")
    assert "/api/nothing/of/the/kind" in answer.json()["reason"]
    answer = client.delete("/api/overview")
    assert (answer.status_code, answer.json()["error"]) == (405, "method_not_allowed")
    assert "DELETE is none that /api/overview answers" in answer.json()["reason"]


# ---- topic permissions of one exchange


@pytest.fixture
def restricted(client: httpx.Client) -> Iterator[None]:
    """A user with restrictions on two exchanges."""
    assert client.put("/api/users/reader", json={"password": "reader", "tags": "management"}).status_code == 201
    for exchange in ("amq.topic", "other"):
        body = {"exchange": exchange, "write": "^w", "read": "^r"}
        assert client.put(f"{TOPICS}/{exchange}", json=body).status_code == 201
        assert client.put(f"{TOPICS}/{exchange}", json=body).status_code == 204
    yield
    client.delete("/api/users/reader")


def exchanges_of(client: httpx.Client) -> list[str]:
    return sorted(each["exchange"] for each in client.get("/api/topic-permissions").json())


@pytest.mark.usefixtures("restricted")
def test_the_restriction_on_one_exchange_is_lifted(client: httpx.Client) -> None:
    assert [each["exchange"] for each in client.get(f"{TOPICS}/other").json()] == ["other"]
    assert client.delete(f"{TOPICS}/amq.topic").status_code == 204
    assert exchanges_of(client) == ["other"]
    assert client.get(f"{TOPICS}/amq.topic").status_code == 404
    assert client.delete(f"{TOPICS}/amq.topic").status_code == 204, "as with RabbitMQ while there are others"
    assert client.delete(f"{TOPICS}/other").status_code == 204
    assert client.delete(f"{TOPICS}/other").status_code == 404
    assert exchanges_of(client) == []


@pytest.mark.usefixtures("restricted")
def test_the_body_names_the_exchange_of_the_path(client: httpx.Client) -> None:
    answer = client.put(f"{TOPICS}/third", json={"exchange": "other", "write": "", "read": ""})
    assert (answer.status_code, answer.json()["reason"]) == (400, "exchange: 'other' is not that of the path, 'third'")
    assert exchanges_of(client) == ["amq.topic", "other"]


# ---- queues of a user


def names(client: httpx.Client, user: str) -> set[str]:
    return {each["name"] for each in client.get(f"/api/users/{user}/queues").json()}


def test_queues_are_listed_by_the_user_that_declared_them(client: httpx.Client, broker: BrokerProcess) -> None:
    entry = {"name": "imported", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
    maker = ("maker", "maker")
    with open_channel(broker) as channel:
        channel.queue_declare("of-guest", durable=True)
        channel.queue_declare("of-guest-for-now", exclusive=True)
        client.put("/api/users/maker", json={"password": "maker", "tags": "management"})
        client.put("/api/permissions/%2F/maker", json={"configure": ".*", "write": ".*", "read": ".*"})
        assert client.put("/api/queues/%2F/of-maker", json={"durable": True}, auth=maker).status_code == 201
        channel.queue_declare("of-maker", durable=True)  # declared anew, it stays its maker's
        assert client.post("/api/definitions", json={"queues": [entry]}).status_code == 204
        assert names(client, "guest") >= {"of-guest", "of-guest-for-now", "imported"}
        assert names(client, "maker") == {"of-maker"}
        assert names(client, "nobody") == set()
        client.delete("/api/permissions/%2F/maker")
        assert client.get("/api/users/maker/queues", auth=maker).json() == [], "only of vhosts that it may enter"


def test_a_queue_is_its_users_after_a_restart(tmp_path: Path) -> None:
    for is_new in (True, False):
        with (
            running(tmp_path, http="127.0.0.1:0") as broker,
            httpx.Client(base_url=broker.http_url, auth=("guest", "guest"), timeout=60) as client,
        ):
            if is_new:
                client.put("/api/queues/%2F/kept", json={"durable": True})
            assert names(client, "guest") == {"kept"}


# ---- the rest


def test_the_version_needs_no_login(broker: BrokerProcess, client: httpx.Client) -> None:
    answer = httpx.get(f"{broker.http_url}/api/version", timeout=60)
    assert answer.json() == client.get("/api/overview").json()["rabbitmq_version"]


def test_feature_flags_are_enabled(client: httpx.Client) -> None:
    for flag in client.get("/api/feature-flags").json():
        assert client.put(f"/api/feature-flags/{flag['name']}/enable", json={}).status_code == 204
    answer = client.put("/api/feature-flags/warp_drive/enable")
    assert (answer.status_code, "'warp_drive'" in answer.json()["reason"]) == (400, True)


def test_memory_in_percent(client: httpx.Client) -> None:
    (node,) = client.get("/api/nodes").json()
    memory = client.get(f"/api/nodes/{node['name']}/memory/relative").json()["memory"]
    assert memory.pop("total") == 100
    assert 90 <= sum(memory.values()) <= 105, memory


def test_the_options_in_force_are_a_text(client: httpx.Client) -> None:
    answer = client.get("/api/config/effective")
    assert answer.headers["content-type"].startswith("text/plain")
    assert "disk_free_min_octets = " in answer.text
    assert "  # default\n" in answer.text


def test_connections_have_no_sessions_of_amqp_1(client: httpx.Client, broker: BrokerProcess) -> None:
    with open_channel(broker):
        connection = client.get("/api/connections").json()[0]["name"].replace(" ", "%20")
        answer = client.get(f"/api/connections/{connection}/sessions")
        assert (answer.status_code, answer.json()["reason"]) == (400, "connection does not use AMQP 1.0")
    assert client.get("/api/connections/nothing/sessions").status_code == 404


def test_sessions_of_amqp_1_are_listed_with_their_links(client: httpx.Client, broker: BrokerProcess) -> None:
    raw = begun(broker)
    raw.publisher("$queue/links", 1)
    raw.consumer("$queue/links", 2, credit=5)
    raw.quiet_session()
    (found,) = [each for each in client.get("/api/connections").json() if each["protocol"] == "AMQP 1-0"]
    assert (found["user"], found["channels"]) == ("guest", 1)
    name = found["name"].replace(" ", "%20")
    (session,) = client.get(f"/api/connections/{name}/sessions").json()
    assert (session["channel_number"], session["remote_incoming_window"]) == (0, 1000)
    (incoming,), (outgoing,) = session["incoming_links"], session["outgoing_links"]
    assert (incoming["handle"], incoming["target_address"]) == (1, "$queue/links")
    assert (outgoing["handle"], outgoing["queue_name"], outgoing["credit"]) == (2, "links", 5)
    (channel,) = client.get(f"/api/connections/{name}/channels").json()
    assert (channel["number"], channel["consumer_count"]) == (0, 1)
    raw.socket.close()


def test_definitions_have_an_old_name_too(client: httpx.Client) -> None:
    assert client.get("/api/all-configuration").json() == client.get("/api/definitions").json()
    assert client.post("/api/all-configuration", json={"vhosts": [{"name": "made"}]}).status_code == 204
    assert client.get("/api/vhosts/made").status_code == 200


def test_a_login_is_ended(broker: BrokerProcess) -> None:
    with httpx.Client(base_url=broker.http_url, timeout=60) as page:
        assert page.post("/api/login", json={"username": "guest", "password": "guest"}).status_code == 200
        cookies = dict(page.cookies)
        assert page.get("/api/whoami").status_code == 200
        assert page.delete("/api/login").status_code == 204
        page.cookies.update(cookies)
        assert page.get("/api/whoami").status_code == 401
