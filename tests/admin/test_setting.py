"""What tools of RabbitMQ set over HTTP is set, by RabbitMQ's statuses, and only by who may."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pika
import pytest

from tests.broker_process import BrokerProcess, running

WAIT_S_MAX = 60
CREATED, DONE = 201, 204
BAD, DENIED, MISSING, PROTECTED = 400, 401, 404, 412


@contextmanager
def asking(broker: BrokerProcess, user: str = "guest", password: str = "guest") -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{broker.http_url}/api", auth=(user, password), timeout=WAIT_S_MAX) as client:
        yield client


@pytest.fixture
def api(broker: BrokerProcess) -> Iterator[httpx.Client]:
    with asking(broker) as client:
        yield client


def put(api: httpx.Client, path: str, body: object | None = None) -> int:
    return api.put(path, json=body).status_code if body is not None else api.put(path).status_code


def reason(answer: httpx.Response, status: int = BAD) -> str:
    """Why something was refused."""
    assert answer.status_code == status, answer.text
    error = answer.json()
    assert set(error) == {"error", "reason"}
    return str(error["reason"])


def test_vhosts(api: httpx.Client) -> None:
    assert put(api, "/vhosts/a%2Fb") == CREATED
    assert put(api, "/vhosts/a%2Fb") == DONE
    assert put(api, "/vhosts/a%2Fb", {"description": "d", "tags": "x, y", "default_queue_type": "quorum"}) == DONE
    shown = api.get("/vhosts/a%2Fb").json()
    assert (shown["name"], shown["description"], shown["tags"]) == ("a/b", "d", ["x", "y"])
    assert shown["metadata"] == {"description": "d", "tags": ["x", "y"], "default_queue_type": "quorum"}
    assert put(api, "/queues/a%2Fb/q", {"durable": True}) == CREATED
    assert api.get("/queues/a%2Fb/q").json()["type"] == "quorum"
    refused = api.put("/vhosts/a%2Fb", json={"default_queue_type": "fast"})
    assert "default_queue_type: 'fast'" in reason(refused)
    assert "body" in reason(api.put("/vhosts/a%2Fb", content=b"{"))
    assert api.post("/vhosts/a%2Fb/deletion/protection").status_code == DONE
    assert "protected" in reason(api.delete("/vhosts/a%2Fb"), PROTECTED)
    assert api.get("/vhosts/a%2Fb").json()["protected_from_deletion"] is True
    assert api.delete("/vhosts/a%2Fb/deletion/protection").status_code == DONE
    assert api.delete("/vhosts/a%2Fb").status_code == DONE
    assert "'a/b' does not exist" in reason(api.get("/vhosts/a%2Fb"), MISSING)
    assert reason(api.delete("/vhosts/a%2Fb"), MISSING)
    node = api.get("/overview").json()["node"]
    assert api.post(f"/vhosts/%2F/start/{node}").status_code == DONE
    assert reason(api.post("/vhosts/%2F/start/nowhere"), MISSING)


def test_users_and_what_they_may(api: httpx.Client, broker: BrokerProcess) -> None:
    assert put(api, "/users/ann", {"password": "päss", "tags": "management,shop"}) == CREATED
    assert put(api, "/users/ann", {"password": "päss", "tags": ["management"]}) == DONE
    shown = api.get("/users/ann").json()
    assert (shown["name"], shown["tags"], shown["hashing_algorithm"]) == ("ann", ["management"], "forebay_argon2id")
    assert "tags_not_present" in reason(api.put("/users/ann", json={"password": "x"}))
    both = {"password": "x", "password_hash": "y", "tags": ""}
    assert "both_password_and_password_hash" in reason(api.put("/users/ann", json=both))
    assert "no base64" in reason(api.put("/users/ann", json={"password_hash": "xyz", "tags": ""}))
    assert "ann" in [user["name"] for user in api.get("/users/without-permissions").json()]
    with asking(broker, "ann", "päss") as ann:
        assert "may not enter" in reason(ann.get("/queues/%2F"), DENIED)
        assert reason(ann.get("/users"), DENIED)
        assert put(api, "/permissions/%2F/ann", {"configure": "^a", "write": "^a", "read": "^a"}) == CREATED
        assert put(api, "/permissions/%2F/ann", {"configure": "^ann", "write": "^ann", "read": "^ann"}) == DONE
        assert api.get("/permissions/%2F/ann").json()["configure"] == "^ann"
        assert put(ann, "/queues/%2F/ann-1", {}) == CREATED
        assert "configure access to queue 'other'" in reason(ann.put("/queues/%2F/other", json={}), DENIED)
        assert ann.delete("/queues/%2F/ann-1/contents").status_code == DONE
        message = {"properties": {}, "routing_key": "ann-1", "payload": "x", "payload_encoding": "string"}
        denied = ann.post("/exchanges/%2F/amq.default/publish", json=message)
        assert "write access to exchange 'amq.default'" in reason(denied, DENIED)
        denied = ann.post("/bindings/%2F/e/amq.direct/q/ann-1", json={})
        assert "read access to exchange 'amq.direct'" in reason(denied, DENIED)
        assert reason(ann.put("/policies/%2F/p", json={"pattern": "x", "definition": {"max-length": 1}}), DENIED)
        assert ann.delete("/queues/%2F/ann-1").status_code == DONE
    assert "body.write" in reason(api.put("/permissions/%2F/ann", json={"configure": ""}))
    assert "read: '('" in reason(api.put("/permissions/%2F/ann", json={"configure": "", "write": "", "read": "("}))
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    assert "vhost_or_user_not_found" in reason(api.put("/permissions/nope/ann", json=everything))
    assert "vhost_or_user_not_found" in reason(api.put("/permissions/%2F/nope", json=everything))
    assert "ann" in [each["user"] for each in api.get("/vhosts/%2F/permissions").json()]
    assert [each["vhost"] for each in api.get("/users/ann/permissions").json()] == ["/"]
    topic = {"exchange": "amq.topic", "write": "^a", "read": ".*"}
    assert put(api, "/topic-permissions/%2F/ann", topic) == CREATED
    assert api.get("/topic-permissions/%2F/ann").json() == [{"user": "ann", "vhost": "/", **topic}]
    assert api.delete("/topic-permissions/%2F/ann").status_code == DONE
    assert reason(api.get("/topic-permissions/%2F/ann"), MISSING)
    assert api.delete("/permissions/%2F/ann").status_code == DONE
    assert reason(api.delete("/permissions/%2F/ann"), MISSING)


def test_users_of_the_configuration_have_permissions_without_being_given_any(api: httpx.Client) -> None:
    everything = {"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}
    assert api.get("/permissions/%2F/guest").json() == everything
    for path in ("/permissions", "/users/guest/permissions", "/vhosts/%2F/permissions"):
        assert everything in api.get(path).json(), path
    assert everything in api.get("/definitions").json()["permissions"]
    assert "guest" not in [each["name"] for each in api.get("/users/without-permissions").json()]
    assert "come with the configuration" in reason(api.delete("/permissions/%2F/guest"))


@pytest.mark.parametrize("path", ["queues/%2F/php", "exchanges/%2F/php"])
def test_an_empty_list_is_a_table_without_fields(api: httpx.Client, path: str) -> None:
    assert put(api, f"/{path}", {"arguments": []}) == CREATED
    assert api.get(f"/{path}").json()["arguments"] == {}
    assert "arguments" in reason(api.put(f"/{path}", json={"arguments": [1]}))
    assert api.delete(f"/{path}").status_code == DONE
    assert api.post("/users/bulk-delete", json={"users": ["ann", "nobody"]}).status_code == DONE
    assert reason(api.get("/users/ann"), MISSING)
    assert "of the configuration" in reason(api.delete("/users/guest"), DENIED)


def test_a_hash_out_of_the_api_makes_a_user(api: httpx.Client, broker: BrokerProcess) -> None:
    hash = api.get("/auth/hash_password/s%2Fecret").json()["ok"]
    body = {"password_hash": hash, "hashing_algorithm": "forebay_argon2id", "tags": "administrator"}
    assert put(api, "/users/hashed", body) == CREATED
    with asking(broker, "hashed", "s/ecret") as client:
        assert client.get("/whoami").json()["tags"] == ["administrator"]
    assert api.delete("/users/hashed").status_code == DONE
    with asking(broker, "hashed", "s/ecret") as client:
        assert client.get("/whoami").status_code == DENIED


def test_queues_and_exchanges(api: httpx.Client) -> None:
    assert put(api, "/queues/%2F/q%2F1", {"durable": True, "arguments": {"x-message-ttl": 1000}}) == CREATED
    # RabbitMQ's tools say it in texts.
    assert put(api, "/queues/%2F/q%2F1", {"durable": "true", "arguments": {"x-message-ttl": 1000}}) == DONE
    refused = api.put("/queues/%2F/q%2F1", json={"durable": False, "arguments": {"x-message-ttl": 1000}})
    assert "inequivalent arg 'durable'" in reason(refused)
    refused = api.put("/queues/%2F/q2", json={"arguments": {"x-message-ttl": "soon"}})
    assert "invalid arg 'x-message-ttl'" in reason(refused)
    assert "body.durable: 'perhaps'" in reason(api.put("/queues/%2F/q2", json={"durable": "perhaps"}))
    assert "64 bits" in reason(api.put("/queues/%2F/q2", json={"arguments": {"x": 1 << 64}}))
    assert "half a character" in reason(api.put("/queues/%2F/q2", content=b'{"arguments": {"x": "\\ud800"}}'))
    assert "reserved prefix" in reason(api.put("/queues/%2F/amq.q", json={}), DENIED)
    assert put(api, "/exchanges/%2F/e%201", {"type": "topic", "durable": True}) == CREATED
    assert put(api, "/exchanges/%2F/e%201", {"type": "topic", "durable": True}) == DONE
    assert "inequivalent arg 'type'" in reason(api.put("/exchanges/%2F/e%201", json={"type": "fanout"}))
    assert "'odd'" in reason(api.put("/exchanges/%2F/e2", json={"type": "odd"}))
    assert reason(api.delete("/exchanges/%2F/amq.direct"), DENIED)
    assert "default exchange" in reason(api.delete("/exchanges/%2F/amq.default"), DENIED)
    bound = api.post("/bindings/%2F/e/e%201/q/q%2F1", json={"routing_key": "a.#"})
    assert (bound.status_code, bound.headers["Location"]) == (CREATED, "q%2F1/a.%2523")
    assert api.post("/bindings/%2F/e/e%201/q/q%2F1").headers["Location"] == "q%2F1/~"
    (first, second) = api.get("/bindings/%2F/e/e%201/q/q%2F1").json()
    assert (first["properties_key"], second["properties_key"]) == ("a.%23", "~")
    assert "in use" in reason(api.delete("/exchanges/%2F/e%201?if-unused=true"))
    assert api.delete("/bindings/%2F/e/e%201/q/q%2F1/a.%2523").status_code == DONE
    assert reason(api.delete("/bindings/%2F/e/e%201/q/q%2F1/a.%2523"), MISSING)
    assert api.delete("/bindings/%2F/e/e%201/q/q%2F1/~").status_code == DONE
    assert api.post("/bindings/%2F/e/e%201/e/amq.fanout", json={"routing_key": "z"}).status_code == CREATED
    assert api.delete("/bindings/%2F/e/e%201/e/amq.fanout/z").status_code == DONE
    assert "no exchange 'nope'" in reason(api.post("/bindings/%2F/e/nope/q/q%2F1", json={}), MISSING)
    assert "no queue 'nope'" in reason(api.post("/bindings/%2F/e/e%201/q/nope", json={}), MISSING)
    assert "default exchange" in reason(api.post("/bindings/%2F/e/amq.default/q/q%2F1", json={}), DENIED)
    assert "default exchange" in reason(api.delete("/bindings/%2F/e/amq.default/q/q%2F1/q%252F1"), DENIED)
    assert api.delete("/queues/%2F/q%2F1?if-empty=true&if-unused=true").status_code == DONE
    assert api.delete("/exchanges/%2F/e%201").status_code == DONE
    assert reason(api.delete("/exchanges/%2F/e%201"), MISSING)


def test_bindings_with_arguments_are_told_apart(api: httpx.Client) -> None:
    put(api, "/queues/%2F/told", {})
    for weight in (1, 2):
        body = {"routing_key": "k~1 ü", "arguments": {"x-match": "any", "weight": weight}}
        assert api.post("/bindings/%2F/e/amq.headers/q/told", json=body).status_code == CREATED
    keys = [each["properties_key"] for each in api.get("/bindings/%2F/e/amq.headers/q/told").json()]
    assert len(set(keys)) == 2
    assert all(key.startswith("k%7E1+%C3%BC~") for key in keys)
    gone = str(httpx.URL("/", params={"": keys[0]})).rpartition("=")[2]
    assert api.delete(f"/bindings/%2F/e/amq.headers/q/told/{gone}").status_code == DONE
    assert [each["properties_key"] for each in api.get("/bindings/%2F/e/amq.headers/q/told").json()] == keys[1:]
    api.delete("/queues/%2F/told")


def test_policies(api: httpx.Client) -> None:
    put(api, "/queues/%2F/capped", {})
    for path in ("/policies/%2F/cap", "/operator-policies/%2F/cap"):
        assert put(api, path, {"pattern": "^capped$", "definition": {"max-length": 10}}) == CREATED
        body = {"pattern": "^capped$", "definition": {"max-length": 5}, "priority": 3, "apply-to": "queues"}
        assert put(api, path, body) == DONE
        assert api.get(path).json() == {"vhost": "/", "name": "cap", **body}
        assert api.get(path.removesuffix("/cap")).json() == [{"vhost": "/", "name": "cap", **body}]
        assert "max-size" in reason(api.put(path, json={"pattern": "", "definition": {"max-size": 1}}))
        assert "apply-to" in reason(api.put(path, json={**body, "apply-to": "everything"}))
        assert "definition" in reason(api.put(path, json={"pattern": ""}))
    shown = api.get("/queues/%2F/capped").json()
    assert (shown["policy"], shown["operator_policy"]) == ("cap", "cap")
    (parameter,) = api.get("/parameters/operator_policy").json()
    assert (parameter["name"], parameter["value"]["definition"]) == ("cap", {"max-length": 5})
    for path in ("/policies/%2F/cap", "/operator-policies/%2F/cap"):
        assert api.delete(path).status_code == DONE
        assert reason(api.get(path), MISSING)
        assert reason(api.delete(path), MISSING)
    api.delete("/queues/%2F/capped")


def test_parameters_and_limits(api: httpx.Client) -> None:
    assert put(api, "/parameters/notes/%2F/why", {"value": {"a": [1, None]}}) == CREATED
    assert put(api, "/parameters/notes/%2F/why", {"value": {"a": [2, None]}}) == DONE
    shown = {"value": {"a": [2, None]}, "vhost": "/", "component": "notes", "name": "why"}
    assert api.get("/parameters/notes/%2F/why").json() == shown
    assert api.get("/parameters").json() == [shown]
    assert api.delete("/parameters/notes/%2F/why").status_code == DONE
    assert reason(api.delete("/parameters/notes/%2F/why"), MISSING)
    assert put(api, "/vhost-limits/%2F/max-queues", {"value": 500}) == DONE
    assert put(api, "/parameters/vhost-limits/%2F/limits", {"value": {"max-connections": 7}}) == DONE
    assert api.get("/vhost-limits/%2F").json() == [{"vhost": "/", "value": {"max-connections": 7}}]
    assert "'max-bogus' is no limit" in reason(api.put("/vhost-limits/%2F/max-bogus", json={"value": 1}))
    assert "body.value: 'x'" in reason(api.put("/vhost-limits/%2F/max-queues", json={"value": "x"}))
    assert api.delete("/vhost-limits/%2F/max-connections").status_code == DONE
    assert api.get("/vhost-limits").json() == []
    assert put(api, "/users/held", {"tags": ""}) == CREATED
    assert put(api, "/user-limits/held/max-connections", {"value": 2}) == DONE
    assert put(api, "/user-limits/held/max-channels", {"value": 9}) == DONE
    limits = {"max-connections": 2, "max-channels": 9}
    assert api.get("/user-limits").json() == api.get("/user-limits/held").json() == [{"user": "held", "value": limits}]
    assert api.get("/users/held").json()["limits"] == limits
    assert "'max-queues' is no limit" in reason(api.put("/user-limits/held/max-queues", json={"value": 1}))
    assert api.delete("/user-limits/held/max-channels").status_code == DONE
    assert api.get("/user-limits/held").json()[0]["value"] == {"max-connections": 2}
    assert reason(api.get("/user-limits/nobody"), MISSING)
    assert api.delete("/users/held").status_code == DONE
    assert api.get("/user-limits").json() == []
    assert put(api, "/global-parameters/g", {"value": 5}) == CREATED
    assert api.get("/global-parameters/g").json() == {"name": "g", "value": 5}
    assert api.delete("/global-parameters/g").status_code == DONE
    assert reason(api.get("/global-parameters/g"), MISSING)
    assert put(api, "/cluster-name", {"name": "shop"}) == DONE
    assert api.get("/cluster-name").json() == {"name": "shop"}
    assert api.post("/rebalance/queues").status_code == DONE
    assert api.delete("/reset").status_code == DONE


def test_what_is_set_outlives_the_broker(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running(tmp_path_factory.mktemp("kept"), http="127.0.0.1:0") as process:
        with asking(process) as api:
            put(api, "/vhosts/v", {"description": "d"})
            put(api, "/parameters/notes/v/why", {"value": "because"})
            put(api, "/parameters/notes/%2F/gone", {"value": 1})
            api.delete("/parameters/notes/%2F/gone")
            put(api, "/global-parameters/g", {"value": {"deep": [1.5, True]}})
            put(api, "/users/u", {"password": "p", "tags": "odd"})
            api.post("/vhosts/v/deletion/protection")
        process.kill9()
        process.start()
        with asking(process) as api:
            assert api.get("/parameters").json()[0]["value"] == "because"
            assert len(api.get("/parameters").json()) == 1
            assert api.get("/global-parameters/g").json()["value"] == {"deep": [1.5, True]}
            assert api.get("/users/u").json()["tags"] == ["odd"]
            assert api.get("/vhosts/v").json()["protected_from_deletion"] is True
        process.restart()  # from a checkpoint
        with asking(process) as api:
            assert api.get("/parameters").json()[0]["value"] == "because"
            api.delete("/vhosts/v/deletion/protection")
            api.delete("/vhosts/v")
            assert api.get("/parameters").json() == []


def test_connections_are_ended(api: httpx.Client, broker: BrokerProcess) -> None:
    parameters = pika.ConnectionParameters("127.0.0.1", broker.amqp_port)
    one, two = pika.BlockingConnection(parameters), pika.BlockingConnection(parameters)
    names = [each["name"] for each in api.get("/connections").json()]
    path = f"/connections/{httpx.URL('/', params={'': names[0]}).query.decode()[1:].replace('+', '%20')}"
    assert api.delete(path, headers={"X-Reason": "out of here"}).status_code == DONE
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="out of here"):
        one.process_data_events(time_limit=WAIT_S_MAX)
    assert api.delete("/connections/username/guest").status_code == DONE
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
        two.process_data_events(time_limit=WAIT_S_MAX)
    assert reason(api.delete(path), MISSING)


def test_logins_are_counted(api: httpx.Client, broker: BrokerProcess) -> None:
    pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)).close()
    path = f"/auth/attempts/{api.get('/overview').json()['node']}"
    assert [each["auth_attempts_failed"] for each in api.get(path).json() if each["protocol"] == "amqp"] == [0]
    assert all(each["auth_attempts"] > 0 for each in api.get(path).json())
    assert api.get(f"{path}/source").json() == []
    assert api.delete(path).status_code == DONE
    assert reason(api.get("/auth/attempts/nowhere"), MISSING)


def test_bodies_are_json_whatever_they_say(api: httpx.Client) -> None:
    for kind in ("application/x-www-form-urlencoded", "text/plain", None):
        headers = {} if kind is None else {"Content-Type": kind}
        answer = api.put("/queues/%2F/typed", content=b'{"durable": true}', headers=headers)
        assert answer.status_code in {CREATED, DONE}
    assert api.get("/queues/%2F/typed").json()["durable"] is True
    api.delete("/queues/%2F/typed")
    assert reason(api.put("/queues/%2F/typed", content=b"[]"))
    assert reason(api.put("/queues/%2F/typed", content=b"{"))


def test_changes_are_in_the_audit_log(api: httpx.Client, broker: BrokerProcess) -> None:
    put(api, "/users/audited", {"password": "very secret", "tags": ""})
    api.delete("/users/nobody-there")
    api.delete("/users/audited")
    lines = [line for line in broker.log_text().splitlines() if " audit " in line]
    assert any('"user.put"' in line and "audited" in line for line in lines)
    assert any("nobody-there" in line and "does not exist" in line for line in lines)
    assert "very secret" not in broker.log_text()


def test_a_single_broker_has_one_member_of_each_quorum_queue(api: httpx.Client) -> None:
    assert put(api, "/queues/%2F/qq", {"durable": True, "arguments": {"x-queue-type": "quorum"}}) == CREATED
    (node,) = [each["name"] for each in api.get("/nodes").json()]
    (member,) = api.get("/queues/quorum/%2F/qq/status").json()
    assert (member["Node Name"], member["Raft State"]) == (node, "leader")
    assert member["Commit Index"] <= member["Last Log Index"]
    assert api.post("/queues/quorum/%2F/qq/replicas/add", json={"node": node}).status_code == DONE
    assert "'elsewhere' is no member" in reason(
        api.post("/queues/quorum/%2F/qq/replicas/add", json={"node": "elsewhere"})
    )
    assert "the only one there is" in reason(
        api.request("DELETE", "/queues/quorum/%2F/qq/replicas/delete", json={"node": node})
    )
    assert "the only one there is" in reason(api.delete(f"/queues/quorum/replicas/on/{node}/shrink"))
    assert reason(api.delete("/queues/quorum/replicas/on/elsewhere/shrink"), MISSING)
