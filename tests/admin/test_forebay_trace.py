"""What happened to a message: by what it says, by its group, by dead letters and by a trace."""

from __future__ import annotations

import httpx
import pika
from pika.adapters.blocking_connection import BlockingChannel

from tests.waiting import until

WAIT_S_MAX = 60
Event = dict[str, object]


def take(channel: BlockingChannel, queue: str) -> int:
    method, _, _ = channel.basic_get(queue)
    assert method is not None
    tag: int = method.delivery_tag
    return tag


def history(http: httpx.Client, **parameters: str | int) -> dict[str, object]:
    answer = http.get("/history", params=parameters)
    assert answer.status_code == 200, answer.text
    (found,) = answer.json()["found"]
    assert isinstance(found, dict)
    return found


def listed(found: dict[str, object]) -> list[Event]:
    events = found["events"]
    assert isinstance(events, list)
    return events


def types(found: dict[str, object]) -> list[str]:
    return [str(each["type"]) for each in listed(found)]


def test_a_message_has_a_history_though_nobody_traced_it(http: httpx.Client, channel: BlockingChannel) -> None:
    channel.queue_declare("dead", durable=True)
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    channel.queue_declare("work", durable=True, arguments=letters)
    channel.basic_publish("", "work", b"1", pika.BasicProperties(message_id="m1", app_id="shop"))
    channel.basic_nack(take(channel, "work"), requeue=True)
    until(lambda: "returned" in types(history(http, queue="work", offset=0)))
    tag = take(channel, "work")
    held = history(http, queue="work", offset=0)
    assert types(held) == ["stored", "held", "returned"]
    stored, lease, returned = listed(held)
    assert (stored["routing_key"], stored["app_id"], stored["protocol"]) == ("work", "shop", "amqp091")
    assert (lease["user"], returned["deliveries"]) == ("guest", 1)
    assert any("start a trace" in each for each in held["not_kept"])  # type: ignore[attr-defined]
    channel.basic_reject(tag, requeue=False)
    until(lambda: "dead-lettered" in types(history(http, queue="work", offset=0)))
    went = listed(history(http, queue="work", offset=0))[-1]
    assert (went["to_queue"], went["to_offset"], went["reason"]) == ("dead", 0, "rejected")
    letter = history(http, message_id="m1", queue="dead")
    assert types(letter) == ["died", "stored"] or types(letter) == ["stored", "died"]
    (died,) = [each for each in listed(letter) if each["type"] == "died"]
    assert (died["queue"], died["reason"], died["times"]) == ("work", "rejected", 1)


def test_a_trace_writes_down_what_happens_to_chosen_messages(http: httpx.Client, channel: BlockingChannel) -> None:
    channel.queue_declare("traced-a", durable=True)
    channel.queue_declare("other", durable=True)
    started = http.put("/traces/%2F/mine", json={"pattern": "^traced", "where": "/n > 0"})
    assert (started.status_code, started.json()) == (200, {"queues": 1})
    assert http.put("/traces/%2F/mine").status_code == 400
    channel.queue_declare("traced-b", durable=True)  # made later, and meant all the same
    for queue in ("traced-a", "traced-b", "other"):
        for number in (0, 1):
            channel.basic_publish(
                "", queue, b'{"n": %d}' % number, pika.BasicProperties(message_id=f"{queue}-{number}")
            )
    channel.basic_ack(take(channel, "traced-a"))
    channel.basic_nack(take(channel, "traced-a"), requeue=True)
    until(lambda: http.get("/traces/%2F/mine").json()["total"] == 4)
    channel.basic_ack(take(channel, "traced-a"))
    until(lambda: http.get("/traces/%2F/mine").json()["total"] == 6)
    events = http.get("/traces/%2F/mine").json()["items"]
    steps = [(each["queue"], each["type"]) for each in events]
    assert steps == [
        ("traced-a", "published"),
        ("traced-b", "published"),
        ("traced-a", "delivered"),
        ("traced-a", "returned"),
        ("traced-a", "delivered"),
        ("traced-a", "acked"),
    ]
    assert {each["message_id"] for each in events} == {"traced-a-1", "traced-b-1"}
    assert events[2]["connection"] and events[3]["connection"] == events[5]["connection"]
    whole = history(http, queue="traced-a", offset=1)
    assert [each for each in types(whole) if each != "settled"][-5:] == [
        "published",
        "delivered",
        "returned",
        "delivered",
        "acked",
    ]
    traces = http.get("/traces/%2F").json()["items"]
    assert [(each["name"], each["events"], each["seen"]) for each in traces] == [("mine", 6, 6)]
    assert http.delete("/traces/%2F/mine").status_code == 200
    channel.basic_publish("", "traced-a", b'{"n": 1}')
    assert http.get("/traces/%2F/mine").status_code == 404
    assert http.get("/traces/%2F").json()["items"] == []


def test_a_trace_keeps_the_latest_events_only(http: httpx.Client, channel: BlockingChannel) -> None:
    channel.queue_declare("busy", durable=True, arguments={"x-max-length": 1})
    assert http.put("/traces/%2F/short", json={"pattern": "busy", "events_max": 3}).status_code == 200
    for _ in range(5):
        channel.basic_publish("", "busy", b"x")
    until(lambda: http.get("/traces/%2F").json()["items"][0]["seen"] == 9)  # five came, four gave way
    assert http.get("/traces/%2F/short").json()["total"] == 3
    died = [each for each in http.get("/traces/%2F/short").json()["items"] if each["type"] == "died"]
    assert {each["detail"] for each in died} == {"maxlen"}
    assert http.put("/traces/%2F/bad", json={"pattern": "("}).status_code == 400
    assert http.put("/traces/%2F/bad", json={"where": "AND"}).status_code == 400
    assert http.delete("/traces/%2F/short").status_code == 200
