"""Who sees what: RabbitMQ's tags."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import httpx
import pika
import pytest

from tests.broker_process import BrokerProcess, running

USERS = {"nobody": "", "manager": "management", "policer": "policymaker", "monitor": "monitoring"}
VHOSTS = ["/", "hidden", "shared"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Three vhosts with a queue each; the manager may enter one of them, where it and the guest are connected."""
    with running(tmp_path_factory.mktemp("rights"), http="127.0.0.1:0") as broker:
        with httpx.Client(base_url=broker.http_url + "/api", auth=("guest", "guest"), timeout=60) as http:
            for name, tag in USERS.items():
                assert http.put(f"/users/{name}", json={"password": name, "tags": tag}).status_code == 201
            for vhost in VHOSTS:
                place = quote(vhost, safe="")
                assert http.put(f"/vhosts/{place}").status_code in {201, 204}
                assert http.put(f"/queues/{place}/q", json={"durable": True}).status_code == 201
            for name in ("manager", "policer"):
                everything = {"configure": ".*", "write": ".*", "read": ".*"}
                assert http.put(f"/permissions/shared/{name}", json=everything).status_code == 201
        yield broker


@pytest.fixture(scope="module")
def connections(broker: BrokerProcess) -> Iterator[list[str]]:
    """Names of the manager's connection and the guest's, with a channel each."""
    opened = [
        pika.BlockingConnection(
            pika.ConnectionParameters(
                "127.0.0.1", broker.amqp_port, "shared", pika.PlainCredentials(name, name), heartbeat=0
            )
        )
        for name in ("manager", "guest")
    ]
    for connection in opened:
        connection.channel()
    with ask(broker, "guest") as http:
        by_user = {each["user"]: each["name"] for each in http.get("/connections").json()}
    yield [by_user["manager"], by_user["guest"]]
    for connection in opened:
        connection.close()


def ask(broker: BrokerProcess, user: str) -> httpx.Client:
    return httpx.Client(base_url=broker.http_url + "/api", auth=(user, user), timeout=60, verify=False)


def status(broker: BrokerProcess, user: str, path: str) -> int:
    with ask(broker, user) as http:
        answer = http.get(path)
        if answer.status_code != 200:
            assert answer.json()["error"] == "not_authorized"
            assert answer.json()["reason"]
        return answer.status_code


def vhosts_of(broker: BrokerProcess, user: str, path: str) -> set[str]:
    with ask(broker, user) as http:
        return {each["vhost"] for each in http.get(path).json()}


@pytest.mark.parametrize(
    "path",
    ["/overview", "/queues", "/queues/shared/q", "/exchanges", "/bindings", "/connections", "/consumers", "/nodes"],
)
def test_without_a_tag_nobody_sees_anything(broker: BrokerProcess, path: str) -> None:
    assert status(broker, "nobody", path) == 401


@pytest.mark.parametrize("user", ["manager", "policer"])
@pytest.mark.parametrize("path", ["/queues", "/exchanges", "/bindings"])
def test_lists_have_the_vhosts_that_one_may_enter(broker: BrokerProcess, user: str, path: str) -> None:
    assert vhosts_of(broker, user, path) == {"shared"}


@pytest.mark.parametrize("user", ["monitor", "guest"])
@pytest.mark.parametrize("path", ["/queues", "/exchanges", "/bindings"])
def test_monitors_see_all_vhosts(broker: BrokerProcess, user: str, path: str) -> None:
    assert vhosts_of(broker, user, path) == set(VHOSTS)


@pytest.mark.parametrize(
    "path",
    [
        "/queues/hidden",
        "/queues/hidden/q",
        "/exchanges/hidden",
        "/bindings/hidden",
        "/consumers/hidden",
        "/vhosts/hidden/connections",
        "/vhosts/hidden/channels",
        "/aliveness-test/hidden",
    ],
)
def test_other_vhosts_are_refused(broker: BrokerProcess, path: str) -> None:
    assert status(broker, "manager", path) == 401
    assert status(broker, "monitor", path) == 200


def test_the_node_is_for_monitors(broker: BrokerProcess) -> None:
    assert status(broker, "manager", "/nodes") == 401
    assert status(broker, "policer", "/nodes") == 401
    assert status(broker, "monitor", "/nodes") == 200


def test_connections_of_others_are_hidden(broker: BrokerProcess, connections: list[str]) -> None:
    own, other = connections
    with ask(broker, "manager") as http:
        assert [each["name"] for each in http.get("/connections").json()] == [own]
        assert [each["name"] for each in http.get("/vhosts/shared/connections").json()] == [own]
        assert [each["name"] for each in http.get("/channels").json()] == [f"{own} (1)"]
        assert http.get("/connections/" + quote(own, safe="")).status_code == 200
        for path in ("/connections/" + quote(other, safe=""), "/channels/" + quote(f"{other} (1)", safe="")):
            refused = http.get(path)
            assert refused.status_code == 401
            assert other in refused.json()["reason"]
    with ask(broker, "monitor") as http:
        assert {each["name"] for each in http.get("/connections").json()} == {own, other}


def test_the_overview_is_of_what_one_may_see(broker: BrokerProcess, connections: list[str]) -> None:
    with ask(broker, "manager") as http:
        mine = http.get("/overview").json()
    with ask(broker, "monitor") as http:
        everything = http.get("/overview").json()
    assert mine["object_totals"]["queues"] == 1
    assert mine["object_totals"]["connections"] == 1
    assert everything["object_totals"]["queues"] >= len(VHOSTS)
    assert everything["object_totals"]["connections"] == 2
    assert "listeners" not in mine
    assert "listeners" in everything
    assert "churn_rates" not in mine
