"""What forebay's own API answers, beside RabbitMQ's: operations, messages, groups, sessions, retained messages."""

from __future__ import annotations

import json

import httpx
import pika
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions
from pika.adapters.blocking_connection import BlockingChannel
from pika.spec import Basic

from tests.admin.clients import mqtt
from tests.broker_process import BrokerProcess
from tests.waiting import until

WAIT_S_MAX = 60


def run(http: httpx.Client, operation: str, **arguments: object) -> dict[str, object]:
    answer = http.post(f"/operations/{operation}", json=arguments)
    assert answer.status_code == 200, answer.text
    found: dict[str, object] = answer.json()
    return found


def refused(answer: httpx.Response, status: int) -> str:
    assert answer.status_code == status, answer.text
    return str(answer.json()["reason"])


def fill(channel: BlockingChannel, queue: str, count: int, **arguments: object) -> None:
    channel.queue_declare(queue, durable=True, arguments=arguments)
    for number in range(count):
        properties = pika.BasicProperties(headers={"n": number}, message_id=f"{queue}-{number}")
        channel.basic_publish("", queue, json.dumps({"n": number}).encode(), properties)


def bodies(http: httpx.Client, queue: str, **parameters: str | int) -> list[int]:
    answer = http.get(f"/queues/%2F/{queue}/messages", params=parameters)
    assert answer.status_code == 200, answer.text
    return [json.loads(each["body"])["n"] for each in answer.json()["items"]]


def test_any_operation_may_be_run_with_its_arguments_as_json(http: httpx.Client, broker: BrokerProcess) -> None:
    assert run(http, "queue.declare", queue="by-operation", arguments={"x-max-length": 3})["ready"] == 0
    listed = run(http, "queue.list")["items"]
    assert isinstance(listed, list) and "by-operation" in {each["queue"] for each in listed}
    known = {each["name"]: each for each in http.get("/operations").json()}
    assert known["queue.move"]["changes"] is True
    assert {each["name"] for each in known["queue.move"]["parameters"]} >= {"vhost", "queue", "to", "where"}
    paths = httpx.get(f"{broker.http_url}/api/openapi.json", timeout=WAIT_S_MAX).json()["paths"]
    body = paths["/api/forebay/operations/queue.move"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body["properties"]["limit"]["type"] == "integer"
    assert body["required"] == ["queue"]
    assert "is no argument" in refused(http.post("/operations/queue.show", json={"name": "q"}), 400)
    assert "queue is missing" in refused(http.post("/operations/queue.show"), 400)
    assert "no JSON" in refused(http.post("/operations/queue.show", content="{"), 400)
    assert "no object" in refused(http.post("/operations/queue.show", json=[1]), 400)
    assert "no queue" in refused(http.post("/operations/queue.show", json={"queue": "none"}), 404)
    assert http.post("/operations/nothing.there").status_code == 404
    assert http.post("/operations/queue.list", auth=("guest", "wrong")).status_code == 401


def test_messages_are_looked_at_by_filter_offset_and_time(http: httpx.Client, channel: BlockingChannel) -> None:
    fill(channel, "look", 250)
    assert bodies(http, "look", where="/n >= 100 AND /n < 103") == [100, 101, 102]
    page = http.get("/queues/%2F/look/messages", params={"limit": 10, "from": 240}).json()
    assert [each["offset"] for each in page["items"]] == list(range(240, 250))
    page = http.get("/queues/%2F/look/messages", params={"limit": 2, "where": "/n > 5"}).json()
    assert (len(page["items"]), page["next"]) == (2, 8)
    stored_ms = http.get("/queues/%2F/look/messages/7").json()["stored_ms"]
    offset = http.get("/queues/%2F/look/offset", params={"time_ms": stored_ms}).json()["offset"]
    assert 0 <= offset <= 7
    assert bodies(http, "look", time_ms=stored_ms, limit=1) == [offset]
    log = http.get("/queues/%2F/look/log").json()
    assert (log["start"], log["end"], log["readable_end"]) == (0, 250, 250)
    assert log["first_ms"] <= stored_ms <= log["last_ms"]
    assert sum(each["end"] - each["first"] for each in log["files"]) == 250
    assert "offset: 250 is not within" in refused(http.get("/queues/%2F/look/messages/250"), 404)
    assert "filter" in refused(http.get("/queues/%2F/look/messages", params={"where": "AND"}), 400)
    assert http.get("/queues/%2F/look/messages", params={"limit": 0}).status_code == 400
    assert channel.queue_declare("look", passive=True).method.message_count == 250


def test_messages_are_discarded_and_moved_by_filter(http: httpx.Client, channel: BlockingChannel) -> None:
    fill(channel, "from", 500)
    fill(channel, "to", 0)
    channel.exchange_declare("by-key", "direct", durable=True)
    channel.queue_bind("to", "by-key", "moved")
    gone = http.request("DELETE", "/queues/%2F/from/messages", json={"where": "/n < 100"}).json()
    assert (gone["done"], gone["scanned"]) == (100, 500)
    held, _, _ = channel.basic_get("from")
    assert held is not None
    moved = http.post("/queues/%2F/from/move", json={"to": "to", "where": "/n < 150", "limit": 30}).json()
    assert (moved["done"], moved["held"]) == (30, 1)
    assert bodies(http, "to") == list(range(101, 131))
    some = {"exchange": "by-key", "routing_key": "moved", "offsets": [131, [200, 203], 999]}
    moved = http.post("/queues/%2F/from/move", json=some).json()
    assert (moved["done"], moved["gone"]) == (4, 1)
    assert bodies(http, "to", **{"from": 30}) == [131, 200, 201, 202]
    last = http.get("/queues/%2F/to/messages/33").json()
    assert (last["exchange"], last["routing_key"], last["headers"]) == ("by-key", "moved", {"n": 202})
    nowhere = http.post("/queues/%2F/from/move", json={"exchange": "by-key", "where": "/n = 300"}).json()
    assert (nowhere["done"], nowhere["refused"]) == (0, 1)
    assert "leads routing key 'from' nowhere" in nowhere["refusal"]
    assert "one of them says" in refused(http.post("/queues/%2F/from/move", json={}), 400)
    assert "queue itself" in refused(http.post("/queues/%2F/from/move", json={"to": "from"}), 400)
    channel.basic_ack(held.delivery_tag)
    rest = http.post("/queues/%2F/from/move", json={"to": "to"}).json()
    assert rest["done"] == 500 - 100 - 30 - 4 - 1
    assert channel.queue_declare("from", passive=True).method.message_count == 0


def test_dead_letters_go_back_by_filter(http: httpx.Client, channel: BlockingChannel) -> None:
    fill(channel, "dead", 0)
    fill(channel, "work", 3, **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    for _ in range(3):
        method, _, _ = channel.basic_get("work")
        assert method is not None
        channel.basic_reject(method.delivery_tag, requeue=False)
    until(lambda: channel.queue_declare("dead", passive=True).method.message_count == 3)
    listed = {each["queue"]: each for each in http.get("/dead-letters/%2F").json()["items"]}
    assert listed["dead"]["causes"] == {"rejected": 3}
    shown = http.get("/dead-letters/%2F/dead", params={"where": "/n = 2"}).json()["items"]
    assert shown[0]["death"]["death_queue"] == "work"
    assert http.patch("/dead-letters/%2F/dead/2", json={"body": '{"n": 7}'}).status_code == 200
    assert http.post("/dead-letters/%2F/dead/redrive", json={"where": "/n = 7"}).json()["done"] == 1
    assert bodies(http, "work") == [7]
    assert http.post("/dead-letters/%2F/dead/redrive").json()["done"] == 2
    assert channel.queue_declare("dead", passive=True).method.message_count == 0


def test_stream_groups_are_moved_with_their_consumers(http: httpx.Client, channel: BlockingChannel) -> None:
    fill(channel, "events", 20, **{"x-queue-type": "stream"})
    seen: list[int] = []
    channel.basic_qos(prefetch_count=100)

    def on_message(_: object, method: Basic.Deliver, __: object, body: bytes) -> None:
        seen.append(json.loads(body)["n"])
        channel.basic_ack(method.delivery_tag)

    arguments = {"x-consumer-group": "readers", "x-stream-offset": "first"}
    channel.basic_consume("events", on_message, arguments=arguments)
    while len(seen) < 20:
        channel.connection.process_data_events(0.1)
    groups = http.get("/groups/%2F", params={"queue": "events"}).json()["items"]
    assert [(each["group"], each["kind"], each["cursor"]) for each in groups] == [("readers", "stream", 20)]
    assert http.post("/groups/%2F/events/readers/seek", json={"to": "17"}).json() == {"offset": 17}
    while len(seen) < 23:
        channel.connection.process_data_events(0.1)
    assert seen == [*range(20), 17, 18, 19]
    assert http.post("/groups/%2F/events/readers/seek", json={"to": "last"}).json() == {"offset": 19}
    assert "none of first, last" in refused(http.post("/groups/%2F/events/readers/seek", json={"to": "x"}), 400)
    assert "no group 'none'" in refused(http.post("/groups/%2F/events/none/seek", json={"to": "first"}), 404)
    assert http.get("/pipelines/%2F").json()["sinks"] == []


def test_work_groups_are_moved_with_their_consumers(http: httpx.Client, channel: BlockingChannel) -> None:
    fill(channel, "works", 6)
    channel.basic_qos(prefetch_count=3)
    held: list[tuple[int, int, object]] = []

    def on_message(_: object, method: Basic.Deliver, properties: pika.BasicProperties, body: bytes) -> None:
        assert properties.headers is not None and method.delivery_tag is not None
        held.append((method.delivery_tag, json.loads(body)["n"], properties.headers.get("x-acquired-count")))

    def got(count: int) -> None:
        while len(held) < count:
            channel.connection.process_data_events(0.1)

    channel.basic_consume("works", on_message, arguments={"x-consumer-group": "g", "x-delivery-counts": True})
    got(3)
    seek = "/groups/%2F/works/g/seek"
    assert http.post(seek, json={"to": "1"}).json() == {"offset": 1}
    got(6)
    assert [n for _, n, _ in held] == [0, 1, 2, 1, 2, 3]
    assert [again for _, _, again in held] == [None] * 6, "nothing was delivered before, as far as it is concerned"
    channel.basic_ack(3, multiple=True)  # too late: it settles nothing
    assert http.get("/groups/%2F", params={"queue": "works"}).json()["items"][0]["leased"] == 3
    channel.basic_ack(6, multiple=True)
    got(8)
    assert http.post(seek, json={"to": "first"}).json() == {"offset": 4}, "what everybody has settled is there no more"
    beyond = refused(http.post(seek, json={"to": "7"}), 400)
    assert "to: '7' is beyond the end of queue 'works', which is offset 6" in beyond
    assert "to: 'yesterday' is none of first" in refused(http.post(seek, json={"to": "yesterday"}), 400)
    assert http.post(seek, json={"to": "timestamp=1"}).json() == {"offset": 4}
    assert http.post(seek, json={"to": "1h"}).json() == {"offset": 4}
    assert http.post(seek, json={"to": "next"}).json() == {"offset": 6}
    assert http.get("/queues/%2F/works/messages").json()["items"] == []


def test_a_group_is_deleted(http: httpx.Client, channel: BlockingChannel) -> None:
    fill(channel, "pinned", 4)
    audit = channel.basic_consume("pinned", lambda *_: None, arguments={"x-consumer-group": "audit"})
    for _ in range(4):
        assert channel.basic_get("pinned", auto_ack=True)[0] is not None
    assert run(http, "queue.show", queue="pinned")["start"] == 0
    where = "/groups/%2F/pinned/audit"
    assert "group 'audit' of queue 'pinned' in use: 1 consumer, 4 messages" in refused(http.delete(where), 400)
    ended: list[object] = []
    channel.add_on_cancel_callback(ended.append)
    assert "if_unused" in refused(http.delete(where, params={"if_unused": "false"}), 400)
    assert http.delete(where, params={"if-unused": "false"}).status_code == 200
    while not ended:
        channel.connection.process_data_events(0.1)
    assert ended[0].method.consumer_tag == audit  # type: ignore[attr-defined]
    assert "no group 'audit' on queue 'pinned'" in refused(http.delete(where), 404)
    assert run(http, "queue.show", queue="pinned")["start"] == 4
    assert [each["group"] for each in http.get("/groups/%2F", params={"queue": "pinned"}).json()["items"]] == [""]
    own = http.post("/operations/group.delete", json={"queue": "pinned", "group": ""})
    assert "it is queue 'pinned's own" in refused(own, 400)


def test_the_figures_of_a_queue_are_of_all_its_groups(http: httpx.Client, channel: BlockingChannel) -> None:
    """A message that several groups want counts once; and who holds the log back is named."""
    fill(channel, "both", 6)
    channel.basic_cancel(channel.basic_consume("both", lambda *_: None, arguments={"x-consumer-group": "audit"}))
    left = [channel.basic_get("both", auto_ack=True)[0].message_count for _ in range(6)]
    assert left == [5, 4, 3, 2, 1, 0], "of who gets"
    queue = http.get("../queues/%2F/both").json()
    assert (queue["messages"], queue["messages_ready"], queue["messages_unacknowledged"]) == (6, 6, 0)
    pin = queue["forebay"]["pinned_by"]
    assert (pin["group"], pin["kind"], pin["offset"], pin["messages"]) == ("audit", "work", 0, 6)
    assert (pin["frees_messages"], pin["active_ms"], pin["consumers"]) == (6, None, 0)
    assert pin["octets"] == run(http, "queue.show", queue="both")["octets"]
    assert "pinned_by" not in http.get("../queues/%2F").json()[0]["forebay"], "a list looks at no log"
    assert channel.queue_declare("both", passive=True).method.message_count == 6
    found = http.get("/explain", params={"queue": "both", "offset": 3}).json()["found"][0]
    assert found["pinned_by"]["group"] == "audit"
    assert {"pinned", "settled"} <= {reason["code"] for reason in found["reasons"]}
    assert http.delete("/groups/%2F/both/audit").status_code == 200
    queue = http.get("../queues/%2F/both").json()
    assert (queue["messages"], queue["forebay"]["pinned_by"]) == (0, None)


def test_a_lease_is_taken_back(http: httpx.Client, channel: BlockingChannel) -> None:
    fill(channel, "leased", 1)
    method, _, _ = channel.basic_get("leased")
    assert method is not None
    leases = http.get("/leases/%2F", params={"queue": "leased"}).json()["items"]
    assert [(each["first"], each["left"]) for each in leases] == [(0, 1)]
    assert http.delete("/leases/%2F/leased/0").status_code == 200
    assert "no consumer holds 0" in refused(http.delete("/leases/%2F/leased/0"), 404)
    again, _, _ = channel.basic_get("leased")
    assert again is not None and again.redelivered
    channel.basic_ack(method.delivery_tag)  # late: it settles nothing
    assert channel.queue_declare("leased", passive=True).method.message_count == 0
    assert len(http.get("/leases/%2F", params={"queue": "leased"}).json()["items"]) == 1


def test_delayed_messages_are_published_now_or_never(http: httpx.Client, broker: BrokerProcess) -> None:
    run(http, "queue.declare", queue="later")
    run(http, "binding.add", exchange="amq.topic", destination="later", routing_key="later.*")
    with mqtt(broker, "delayer") as client:
        for name in ("a", "b"):
            properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
            properties.UserProperty = [("delay-id", name)]
            client.publish(f"$delayed/1000/later/{name}", name, 1, properties=properties).wait_for_publish(WAIT_S_MAX)
    assert [each["key"] for each in http.get("/delayed/%2F").json()["items"]] == ["a", "b"]
    assert http.post("/delayed/%2F/b/publish").json() == {"routed": True}
    assert http.delete("/delayed/%2F/a").status_code == 200
    assert http.get("/delayed/%2F").json()["total"] == 0
    assert "no message waits" in refused(http.post("/delayed/%2F/b/publish"), 404)
    until(lambda: run(http, "queue.show", queue="later")["ready"] == 1)
    assert http.get("/queues/%2F/later/messages").json()["items"][0]["body"] == "b"


def test_sessions_and_subscriptions_are_shown_closed_and_deleted(http: httpx.Client, broker: BrokerProcess) -> None:
    with mqtt(broker, "sleeper", 1000) as client:
        client.subscribe([("home/+/light", SubscribeOptions(qos=1)), ("other", SubscribeOptions(qos=0))])
        until(lambda: http.get("/sessions/%2F/sleeper").json()["subscriptions"] == 2)
        shown = http.get("/sessions/%2F/sleeper").json()
        assert (shown["connected"], shown["durable"], shown["expiry_s"]) == (True, True, 1000)
        assert [each["filter"] for each in shown["subscriptions_list"]] == ["home/+/light", "other"]
    until(lambda: not http.get("/sessions/%2F/sleeper").json()["connected"])
    with mqtt(broker, "speaker") as client:
        client.publish("home/hall/light", "on", 1).wait_for_publish(WAIT_S_MAX)
    until(lambda: http.get("/sessions/%2F/sleeper").json()["waiting"] == 1)
    waiting = http.get("/sessions/%2F/sleeper/messages").json()["items"]
    assert [(each["topic"], each["body"]) for each in waiting] == [("home/hall/light", "on")]
    found = http.get("/subscriptions/%2F", params={"topic": "home/hall/light"}).json()["items"]
    assert [(each["client_id"], each["filter"]) for each in found] == [("sleeper", "home/+/light")]
    assert http.get("/sessions/%2F", params={"connected": True}).json()["items"] == []
    assert "is not connected" in refused(http.delete("/sessions/%2F/sleeper/connection"), 404)
    assert http.delete("/sessions/%2F/sleeper").json() == {"waiting": 1, "inflight": 0}
    assert http.get("/sessions/%2F/sleeper").status_code == 404
    broker.kill9()
    broker.start()
    assert http.get("/sessions/%2F/sleeper").status_code == 404


def test_a_connected_session_is_ended(http: httpx.Client, broker: BrokerProcess) -> None:
    reasons: list[int] = []
    with mqtt(broker, "unwanted", 1000) as client:
        client.on_disconnect = lambda _, __, ___, reason, ____: reasons.append(reason.value)
        client.reconnect_delay_set(1000, 1000)
        client.subscribe("a/#", 1)
        until(lambda: http.get("/sessions/%2F/unwanted").json()["subscriptions"] == 1)
        assert http.delete("/sessions/%2F/unwanted").status_code == 200
        until(lambda: reasons)
        assert reasons[0] == 0x98  # administrative action
        assert http.get("/sessions/%2F/unwanted").status_code == 404


def test_retained_messages_are_listed_shown_and_deleted(http: httpx.Client, broker: BrokerProcess) -> None:
    with mqtt(broker, "keeper") as client:
        for topic in ("keep/a", "keep/b"):
            client.publish(topic, topic, 1, retain=True).wait_for_publish(WAIT_S_MAX)
    listed = http.get("/retained/%2F", params={"filter": "keep/+"}).json()["items"]
    assert [(each["topic"], each["octets"], each["qos"]) for each in listed] == [("keep/a", 6, 1), ("keep/b", 6, 1)]
    shown = http.get("/retained/%2F/message", params={"topic": "keep/a"}).json()
    assert shown["body"] == "keep/a"
    assert http.delete("/retained/%2F/message", params={"topic": "keep/a"}).status_code == 200
    assert http.get("/retained/%2F/message", params={"topic": "keep/a"}).status_code == 404
    assert http.get("/retained/%2F", params={"filter": "keep/#"}).json()["total"] == 1


def test_others_than_administrators_see_what_their_rights_say(http: httpx.Client, channel: BlockingChannel) -> None:
    fill(channel, "ann-own", 3)
    fill(channel, "secret", 3)
    run(http, "user.add", user="ann", password="ann", tags=["management"])
    run(http, "permission.set", user="ann", configure="", write="^ann", read="^ann")
    with httpx.Client(base_url=http.base_url, auth=("ann", "ann"), timeout=WAIT_S_MAX) as ann:
        assert bodies(ann, "ann-own") == [0, 1, 2]
        assert "read access to queue 'secret'" in refused(ann.get("/queues/%2F/secret/messages"), 401)
        refused(ann.request("DELETE", "/queues/%2F/secret/messages"), 401)
        assert ann.request("DELETE", "/queues/%2F/ann-own/messages", json={"limit": 1}).json()["done"] == 1
        assert "administrator" in refused(ann.post("/operations/vhost.add", json={"vhost": "x"}), 401)
        assert ann.get("/groups/%2F").status_code == 200
        assert "write access to exchange" in refused(ann.post("/queues/%2F/ann-own/move", json={"to": "secret"}), 401)
