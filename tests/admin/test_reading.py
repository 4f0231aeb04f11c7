"""What RabbitMQ's read side says of queues, connections, channels and messages that real clients have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import quote

import httpx
import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.admin.clients import mqtt, publish_mqtt
from tests.broker_process import BrokerProcess
from tests.conformance.mqtt.raw import connected
from tests.waiting import until

EXCHANGE = "readings"
QUEUE = "reading"


@pytest.fixture(scope="module")
def http(broker: BrokerProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=broker.http_url + "/api", auth=("guest", "guest"), timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def connection(broker: BrokerProcess) -> Iterator[pika.BlockingConnection]:
    parameters = pika.ConnectionParameters(
        "127.0.0.1", broker.amqp_port, client_properties={"connection_name": "reader"}, heartbeat=0
    )
    with pika.BlockingConnection(parameters) as connection:
        yield connection


@pytest.fixture(scope="module")
def channel(connection: pika.BlockingConnection) -> BlockingChannel:
    """A channel with a history: 20 published, 5 held by a consumer, 2 of them acknowledged before, 1 got."""
    channel = connection.channel()
    channel.confirm_delivery()
    channel.exchange_declare(EXCHANGE, "topic", durable=True)
    channel.queue_declare(QUEUE, durable=True, arguments={"x-max-length": 1000})
    channel.queue_bind(QUEUE, EXCHANGE, "a.*")
    for number in range(20):
        channel.basic_publish(EXCHANGE, "a.b", b"message %d" % number)
    channel.basic_publish(EXCHANGE, "elsewhere", b"lost")
    channel.basic_get(QUEUE, auto_ack=True)
    channel.basic_qos(prefetch_count=5)
    taken: list[int] = []
    channel.basic_consume(
        QUEUE,
        lambda _c, method, _p, _b: taken.append(method.delivery_tag),
        consumer_tag="taker",
        arguments={"x-priority": 3},
    )
    pump(connection, lambda: len(taken) == 5)
    channel.basic_ack(taken[1], multiple=True)
    pump(connection, lambda: len(taken) == 7)
    return channel


def pump(connection: pika.BlockingConnection, condition: Callable[[], object]) -> None:
    """Let the client work until a condition holds."""
    until(lambda: connection.process_data_events(0) or condition())


def get(http: httpx.Client, path: str, **query: object) -> Any:
    answer = http.get(path, params={name: str(value) for name, value in query.items()})
    assert answer.status_code == 200, answer.text
    return answer.json()


def eventually(read: Callable[[], Any], condition: Callable[[Any], object]) -> Any:
    """The first answer for which a condition holds."""
    found: list[Any] = []

    def holds() -> object:
        found.append(read())
        return condition(found[-1])

    until(holds)
    return found[-1]


def test_a_queue_with_its_figures(http: httpx.Client, channel: BlockingChannel) -> None:
    queue = eventually(lambda: get(http, f"/queues/%2F/{QUEUE}"), lambda queue: queue["message_stats"]["ack"] == 2)
    assert queue["name"] == QUEUE
    assert queue["vhost"] == "/"
    assert queue["type"] == "classic"
    assert queue["arguments"] == {"x-max-length": 1000}
    assert (queue["durable"], queue["auto_delete"], queue["exclusive"]) == (True, False, False)
    assert (queue["messages"], queue["messages_ready"], queue["messages_unacknowledged"]) == (17, 12, 5)
    assert queue["consumers"] == 1
    stats = {name: value for name, value in queue["message_stats"].items() if not name.endswith("_details")}
    assert stats == {
        "publish": 20,
        "deliver_get": 8,
        "deliver": 7,
        "deliver_no_ack": 0,
        "get": 0,
        "get_no_ack": 1,
        "redeliver": 0,
        "ack": 2,
    }
    (consumer,) = queue["consumer_details"]
    assert consumer["consumer_tag"] == "taker"
    assert consumer["prefetch_count"] == 5
    assert consumer["ack_required"] is True
    assert consumer["arguments"] == {"x-priority": 3}
    assert consumer["channel_details"]["user"] == "guest"


def test_rates_come_with_time(http: httpx.Client, channel: BlockingChannel) -> None:
    """The history is older than the first sample, or younger: both times there is a rate, until there is none."""
    window = {"msg_rates_age": 60, "msg_rates_incr": 5, "lengths_age": 60, "lengths_incr": 5}
    queue = eventually(
        lambda: get(http, f"/queues/%2F/{QUEUE}", **window),
        lambda queue: any(each["sample"] == 20 for each in queue["message_stats"]["publish_details"]["samples"]),
    )
    samples = queue["message_stats"]["publish_details"]["samples"]
    assert [each["sample"] for each in samples] == sorted((each["sample"] for each in samples), reverse=True)
    assert len(samples) == 13
    assert queue["message_stats"]["publish_details"]["avg_rate"] > 0
    assert {each["sample"] for each in queue["messages_details"]["samples"]} <= {0, *range(21)}
    overview = eventually(
        lambda: get(http, "/overview", **window), lambda seen: seen["message_stats"]["publish_details"]["samples"]
    )
    assert overview["message_stats"]["publish_details"]["samples"][0]["sample"] >= 20


def test_the_overview_sums(http: httpx.Client, channel: BlockingChannel) -> None:
    overview = get(http, "/overview")
    assert overview["product_name"] == "forebay"
    assert overview["management_version"].count(".") == 2
    assert overview["object_totals"]["queues"] == len(get(http, "/queues"))
    assert overview["object_totals"]["exchanges"] == len(get(http, "/exchanges"))
    assert overview["object_totals"]["connections"] == len(get(http, "/connections"))
    assert overview["object_totals"]["channels"] == len(get(http, "/channels"))
    assert overview["object_totals"]["consumers"] == len(get(http, "/consumers"))
    assert overview["queue_totals"]["messages"] == sum(queue["messages"] for queue in get(http, "/queues"))
    assert overview["message_stats"]["publish"] >= 21
    assert overview["message_stats"]["drop_unroutable"] >= 1
    assert overview["message_stats"]["confirm"] >= 21
    assert overview["churn_rates"]["queue_created"] >= 1
    protocols = {listener["protocol"] for listener in overview["listeners"]}
    assert {"amqp", "mqtt", "http"} <= protocols
    assert "direct" in {kind["name"] for kind in overview["exchange_types"]}


def test_connection_and_channel(http: httpx.Client, broker: BrokerProcess, channel: BlockingChannel) -> None:
    (connection,) = [each for each in get(http, "/connections") if each.get("user_provided_name") == "reader"]
    assert connection["protocol"] == "AMQP 0-9-1"
    assert connection["port"] == broker.amqp_port
    assert connection["name"] == f"127.0.0.1:{connection['peer_port']} -> 127.0.0.1:{broker.amqp_port}"
    assert (connection["user"], connection["vhost"], connection["state"]) == ("guest", "/", "running")
    assert connection["ssl"] is False
    assert connection["channels"] == 1
    assert connection["recv_oct"] > 500
    assert connection["send_oct"] > 500
    assert connection["client_properties"]["connection_name"] == "reader"
    path = "/connections/" + quote(connection["name"], safe="")
    assert get(http, path)["name"] == connection["name"]
    (shown,) = get(http, path + "/channels")
    assert (shown["number"], shown["confirm"], shown["prefetch_count"]) == (1, True, 5)
    assert shown["messages_unacknowledged"] == 5
    assert shown["consumer_count"] == 1
    assert shown["message_stats"]["publish"] == 21
    one = get(http, "/channels/" + quote(shown["name"], safe=""))
    assert [each["consumer_tag"] for each in one["consumer_details"]] == ["taker"]
    assert [each["name"] for each in get(http, "/connections/username/guest")] == [connection["name"]]
    assert [each["name"] for each in get(http, "/vhosts/%2F/channels")] == [shown["name"]]


def test_mqtt_connections_are_there_too(http: httpx.Client, broker: BrokerProcess) -> None:
    with mqtt(broker, "sensor-1") as client:
        client.subscribe("sensors/#", 1)
        shown = eventually(
            lambda: [each for each in get(http, "/vhosts/%2F/connections") if each["protocol"].startswith("MQTT")],
            lambda found: found and found[0]["forebay"]["session"]["subscriptions"] == 1,
        )
        (connection,) = shown
        assert (connection["protocol"], connection["forebay"]["protocol"]) == ("MQTT 5-0", "MQTT 5.0")
        assert connection["client_properties"] == {"client_id": "sensor-1"}
        assert connection["timeout"] == 60
        assert get(http, "/connections/" + quote(connection["name"], safe="") + "/channels") == []
    eventually(lambda: get(http, "/connections", name=str(connection["peer_port"])), lambda found: not found)


def test_exchanges_and_what_went_through(http: httpx.Client, channel: BlockingChannel) -> None:
    exchange = get(http, f"/exchanges/%2F/{EXCHANGE}")
    assert exchange["type"] == "topic"
    assert exchange["message_stats"]["publish_in"] == 21
    assert exchange["message_stats"]["publish_out"] == 20
    assert exchange["forebay"]["unroutable"] == 1
    assert get(http, "/exchanges/%2F/amq.default")["name"] == ""
    names = [each["name"] for each in get(http, "/exchanges/%2F")]
    assert names == sorted(names)
    assert {"", "amq.direct", "amq.fanout", "amq.headers", "amq.match", "amq.topic", EXCHANGE} <= set(names)


def test_publishes_over_mqtt_go_through_the_topic_exchange(http: httpx.Client, broker: BrokerProcess) -> None:
    def published() -> int:
        return int(get(http, "/exchanges/%2F/amq.topic").get("message_stats", {}).get("publish_in", 0))

    before = published()
    publish_mqtt(broker, "sensors/1", "21")
    assert published() == before + 1


def test_bindings_in_every_form(http: httpx.Client, channel: BlockingChannel) -> None:
    channel.queue_declare("bound/1", durable=True)
    channel.exchange_declare("inner", "direct", durable=True)
    channel.queue_bind("bound/1", EXCHANGE, "k ü/%")
    channel.queue_bind("bound/1", EXCHANGE, "", arguments={"x-bound-from": 1})
    channel.exchange_bind("inner", EXCHANGE, "k")
    of_queue = get(http, "/queues/%2F/bound%2F1/bindings")
    assert [(each["source"], each["routing_key"]) for each in of_queue] == [
        ("", "bound/1"),
        (EXCHANGE, "k ü/%"),
        (EXCHANGE, ""),
    ]
    between = get(http, f"/bindings/%2F/e/{EXCHANGE}/q/bound%2F1")
    assert between == of_queue[1:]
    for binding in between:
        for segment in (binding["properties_key"], quote(binding["properties_key"], safe="")):
            assert get(http, f"/bindings/%2F/e/{EXCHANGE}/q/bound%2F1/{segment}") == binding
    (to_exchange,) = get(http, f"/bindings/%2F/e/{EXCHANGE}/e/inner")
    assert to_exchange["destination_type"] == "exchange"
    assert get(http, f"/bindings/%2F/e/{EXCHANGE}/e/inner/k") == to_exchange
    assert get(http, "/exchanges/%2F/inner/bindings/destination") == [to_exchange]
    assert to_exchange in get(http, f"/exchanges/%2F/{EXCHANGE}/bindings/source")
    assert [each["source"] for each in get(http, "/exchanges/%2F/amq.default/bindings/source")] == [""] * len(
        get(http, "/queues/%2F")
    )
    everything = get(http, "/bindings")
    assert everything == get(http, "/bindings/%2F")
    for binding in [*of_queue, to_exchange]:
        assert binding in everything
    missing = http.get(f"/bindings/%2F/e/{EXCHANGE}/q/bound%2F1/nothing")
    assert missing.status_code == 404
    assert "nothing" in missing.json()["reason"]


def test_policies_in_force(http: httpx.Client, channel: BlockingChannel) -> None:
    channel.queue_declare("ruled", durable=True)
    for path, limit in (("policies", 500), ("operator-policies", 400)):
        body = {"pattern": "^ruled$", "definition": {"max-length": limit}, "apply-to": "queues"}
        assert http.put(f"/{path}/%2F/{path}", json=body).status_code == 201
    queue = get(http, "/queues/%2F/ruled")
    assert (queue["policy"], queue["operator_policy"]) == ("policies", "operator-policies")
    assert queue["effective_policy_definition"] == {"max-length": 400}
    assert http.delete("/operator-policies/%2F/operator-policies").status_code == 204
    queue = get(http, "/queues/%2F/ruled")
    assert queue["operator_policy"] is None
    assert queue["effective_policy_definition"] == {"max-length": 500}
    assert get(http, f"/queues/%2F/{QUEUE}")["policy"] is None


def test_kinds_of_queues(http: httpx.Client, channel: BlockingChannel) -> None:
    for kind in ("quorum", "stream"):
        channel.queue_declare(kind, durable=True, arguments={"x-queue-type": kind})
    node = get(http, "/overview")["node"]
    quorum = get(http, "/queues/%2F/quorum")
    assert (quorum["type"], quorum["leader"], quorum["members"]) == ("quorum", node, [node])
    assert quorum["delivery_limit"] == 20
    stream = get(http, "/queues/%2F/stream")
    assert stream["type"] == "stream"
    assert "consumer_utilisation" not in stream


def test_an_exclusive_queue_names_its_owner(http: httpx.Client, channel: BlockingChannel) -> None:
    name = channel.queue_declare("", exclusive=True).method.queue
    queue = get(http, f"/queues/%2F/{name}")
    (connection,) = [each for each in get(http, "/connections") if each.get("user_provided_name") == "reader"]
    assert queue["exclusive"] is True
    assert queue["owner_pid_details"]["name"] == connection["name"]


def test_queues_without_figures(http: httpx.Client, channel: BlockingChannel) -> None:
    (bare,) = get(http, "/queues", disable_stats="true", name=QUEUE)
    assert "messages" not in bare
    assert bare["name"] == QUEUE
    (counted,) = get(http, "/queues", disable_stats="true", enable_queue_totals="true", name=QUEUE)
    assert counted["messages"] == 17
    assert "message_stats" not in counted


def test_consumers(http: httpx.Client, channel: BlockingChannel) -> None:
    consumers = get(http, "/consumers")
    assert consumers == get(http, "/consumers/%2F")
    (own,) = [each for each in consumers if each["consumer_tag"] == "taker"]
    assert own["queue"] == {"name": QUEUE, "vhost": "/"}
    assert (own["active"], own["activity_status"]) == (True, "up")


def test_connections_are_filtered_and_sorted_by_what_is_shown(http: httpx.Client, broker: BrokerProcess) -> None:
    names = ["zebra-1", "alpha-1", "Beta-1"]
    with ExitStack() as opened:
        for name in names:
            parameters = pika.ConnectionParameters(
                "127.0.0.1", broker.amqp_port, client_properties={"connection_name": name}, heartbeat=0
            )
            opened.enter_context(pika.BlockingConnection(parameters))
        sensor = connected(broker, "sensor-1")
        shown = get(http, "/connections", name="-1", sort="forebay.title")
        assert [each["forebay"]["title"] for each in shown] == ["Beta-1", "alpha-1", "sensor-1", "zebra-1"]
        (own,) = get(http, "/connections", name="SENSOR")
        assert [each["name"] for each in get(http, "/connections", search="mqtt 5.0")] == [own["name"]]
        assert own["variable_map"]["client_id"] == "sensor-1"
        (own,) = get(http, "/connections", name="^alpha-[0-9]$", use_regex="true")
        assert own["user_provided_name"] == "alpha-1"
        (own,) = get(http, "/connections", name=own["name"])
        assert own["user_provided_name"] == "alpha-1"
        sensor.close()


def test_a_consumer_is_shown_with_its_arguments(http: httpx.Client, channel: BlockingChannel) -> None:
    arguments = {"x-priority": 3, "x-filter": "/total > 5", "x-consumer-timeout": 60_000}
    channel.basic_consume(QUEUE, lambda *_: None, consumer_tag="asks", arguments=arguments)
    (own,) = [each for each in get(http, "/consumers") if each["consumer_tag"] == "asks"]
    assert own["arguments"] == arguments
    (own,) = [each for each in get(http, f"/queues/%2F/{QUEUE}")["consumer_details"] if each["consumer_tag"] == "asks"]
    assert own["arguments"] == arguments
    channel.basic_cancel("asks")


def test_only_one_consumer_is_active(http: httpx.Client, channel: BlockingChannel) -> None:
    channel.queue_declare("single", durable=True, arguments={"x-single-active-consumer": True})
    for tag in ("first", "second"):
        channel.basic_consume("single", lambda *_: None, consumer_tag=tag)
    found = eventually(
        lambda: get(http, "/queues/%2F/single"), lambda queue: queue["single_active_consumer_tag"] is not None
    )
    assert found["single_active_consumer_tag"] == "first"
    states = {each["consumer_tag"]: each["activity_status"] for each in found["consumer_details"]}
    assert states == {"first": "single_active", "second": "waiting"}
    for tag in ("first", "second"):
        channel.basic_cancel(tag)


def test_the_node(http: httpx.Client, broker: BrokerProcess) -> None:
    (node,) = get(http, "/nodes")
    assert node["os_pid"] == str(broker.pid)
    assert node["db_dir"] == str(broker.data)
    assert 0 < node["mem_used"] < node["mem_limit"]
    assert node["disk_free"] > node["disk_free_limit"]
    assert 0 < node["fd_used"] < node["fd_total"]
    assert (node["mem_alarm"], node["disk_free_alarm"]) == (False, False)
    assert node["running"] is True
    path = "/nodes/" + node["name"]
    assert get(http, path)["name"] == node["name"]
    assert get(http, path + "/memory")["memory"]["total"]["rss"] > 0
    assert "memory" in get(http, path, memory="true")
    assert http.get("/nodes/other@nowhere").status_code == 404
    assert get(http, "/cluster-name") == {"name": node["name"]}


def test_uptime_grows(http: httpx.Client) -> None:
    first = get(http, "/nodes")[0]["uptime"]
    until(lambda: get(http, "/nodes")[0]["uptime"] > first)


@pytest.mark.parametrize(
    "path",
    [
        "/queues/%2F/nowhere",
        "/queues/nowhere",
        "/exchanges/%2F/nowhere",
        "/connections/nowhere",
        "/channels/nowhere",
        "/bindings/%2F/e/nowhere/q/nowhere",
        "/consumers/nowhere",
        "/vhosts/nowhere/connections",
    ],
)
def test_what_is_not_there_is_named(http: httpx.Client, path: str) -> None:
    answer = http.get(path)
    assert answer.status_code == 404
    assert answer.json()["error"] == "Object Not Found"
    assert "nowhere" in answer.json()["reason"]


@pytest.mark.parametrize(
    "path",
    [
        "/extensions",
        "/deprecated-features",
        "/deprecated-features/used",
        "/federation-links",
        "/shovels",
        "/shovels/%2F",
        "/stream/connections",
        "/stream/publishers",
        "/stream/consumers",
        "/stream/consumers/%2F",
    ],
)
def test_plugins_have_nothing_to_list(http: httpx.Client, path: str) -> None:
    assert get(http, path) == []


def test_feature_flags_are_on(http: httpx.Client) -> None:
    assert {flag["state"] for flag in get(http, "/feature-flags")} == {"enabled"}
    assert httpx.get(str(http.base_url) + "auth").json() == {"oauth_enabled": False}


def test_a_vhost_sums_its_queues(http: httpx.Client, channel: BlockingChannel) -> None:
    vhost = get(http, "/vhosts/%2F", lengths_age=60, lengths_incr=5)
    assert vhost["name"] == "/"
    assert vhost["messages"] == sum(queue["messages"] for queue in get(http, "/queues/%2F"))
    assert vhost["message_stats"]["publish"] >= 21
    assert vhost["message_stats"]["deliver_get"] >= 8
    assert "rate" in vhost["message_stats"]["publish_details"]
    assert [each["name"] for each in get(http, "/vhosts")] == ["/"]


def test_subscribers_over_http_are_connections(http: httpx.Client, broker: BrokerProcess) -> None:
    with httpx.stream("GET", f"{broker.http_url}/subscribe/news/%23", auth=("guest", "guest"), timeout=60) as answer:
        assert answer.status_code == 200
        found = eventually(
            lambda: [each for each in get(http, "/connections") if each["protocol"] == "HTTP events"],
            lambda found: found,
        )
        assert [each["user"] for each in found] == ["guest"]
        assert get(http, "/connections/" + quote(found[0]["name"], safe="") + "/channels") == []
