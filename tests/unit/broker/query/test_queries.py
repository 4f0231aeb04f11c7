"""Queries of a vhost's queues: states, groups, steps, what goes on meanwhile, and how many there may be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from forebay.broker.query import queries as queries_module
from forebay.broker.query.replies import QueryReply
from forebay.broker.query.running import RunningQuery
from forebay.core.errors import NOT_FOUND, TOO_MANY, RequestError
from forebay.core.message import AMQP091, Properties
from forebay.queue.leases.lease import NACKED
from tests.vhosts import OneVhost


@pytest.fixture
def rig(tmp_path: Path) -> OneVhost:
    rig = OneVhost(tmp_path)
    rig.declare(b"q")
    return rig


def fill(rig: OneVhost, count: int, queue: bytes = b"q") -> None:
    for n in range(count):
        rig.publish(b"", queue, json.dumps({"n": n, "even": n % 2 == 0}).encode())


def begin(rig: OneVhost, queue: bytes = b"q", owner: str = "u", **asked: object) -> RunningQuery:
    return rig.vhost.queries.begin(rig.vhost.catalog.queue(queue), dict(asked), owner)


def answered(rig: OneVhost, queue: bytes = b"q", records: int = 3, **asked: object) -> dict[str, Any]:
    query = rig.vhost.queries.begin(rig.vhost.catalog.queue(queue), dict(asked), "u")
    steps = 0
    while not query.is_done:
        rig.vhost.queries.advance(query, records)
        steps += 1
        assert steps < 1000
    return query.answer()


def values(answer: dict[str, Any], column: str = "/n") -> list[object]:
    return [row[column] for row in answer["rows"]]


def test_what_was_published_in_this_turn_is_there(rig: OneVhost) -> None:
    fill(rig, 10)
    found = answered(rig, select="/n", where="/even")
    assert values(found) == [0, 2, 4, 6, 8]
    assert (found["scanned"], found["matched"], found["end"]) == (10, 5, 10)


def test_states_say_who_holds_what_until_when(rig: OneVhost) -> None:
    fill(rig, 6)
    lease = rig.held(b"q")
    rig.vhost.settling.ack(lease, 0, 1)
    rig.vhost.settling.nack(lease, 1, 1, 5000)
    rig.vhost.settling.nack(lease, 2, 1, 0)
    rig.turn()
    now_ms = rig.clock.us // 1000
    found = answered(rig, select="/n, state, holder, connection, until_ms, deliveries")
    by_n = {row["/n"]: row for row in found["rows"]}
    assert 0 not in by_n
    assert (by_n[1]["state"], by_n[1]["holder"]) == ("delayed", None)
    assert now_ms + 4000 < by_n[1]["until_ms"] <= now_ms + 5000
    assert (by_n[3]["state"], by_n[3]["holder"], by_n[3]["connection"], by_n[3]["deliveries"]) == ("leased", "c", 1, 1)
    assert by_n[3]["until_ms"] == now_ms + 30_000
    counted = answered(rig, select="state, COUNT(*) AS n", group_by="state", order_by="state")
    assert {row["state"]: row["n"] for row in counted["rows"]} == {"delayed": 1, "leased": 4}
    assert values(answered(rig, select="/n", where="state = 'delayed'")) == [1]
    whole = answered(rig, where="/n = 3")["rows"][0]
    assert (whole["body"], whole["state"], whole["holder"]) == ('{"n": 3, "even": false}', "leased", "c")


def test_a_query_changes_nothing(rig: OneVhost) -> None:
    fill(rig, 5)
    rig.turn()
    before = rig.vhost.checkpoint()
    answered(rig, order_by="/n DESC")
    rig.turn()
    assert [(each.kind, bytes(each.payload)) for each in rig.vhost.checkpoint()] == [
        (each.kind, bytes(each.payload)) for each in before
    ]
    assert rig.vhost.catalog.queue(b"q").ready() == 5


def test_the_states_of_one_of_several_groups(rig: OneVhost) -> None:
    fill(rig, 4)
    for name in ("one", "two"):
        rig.vhost.consumers.consume(b"q", 1, 1, name.encode(), False, False, 2, {"x-consumer-group": name})
    deliveries = rig.deliveries()
    for delivery in deliveries:
        if delivery.consumer.tag == b"one" and delivery.lease is not None:
            rig.vhost.settling.ack(delivery.lease, delivery.lease.first, 2)
    rig.deliveries()
    assert values(answered(rig, select="/n, state", group="one")) == [2, 3]
    assert values(answered(rig, select="/n, state", group="one"), "state") == ["leased", "leased"]
    assert values(answered(rig, select="/n, state", group="two"), "state") == ["leased", "leased", "ready", "ready"]
    with pytest.raises(RequestError, match="has no work group 'three'"):
        begin(rig, group="three")


def test_a_stream_is_read_whole_whoever_has_read_it(rig: OneVhost) -> None:
    rig.declare(b"s", x_queue_type="stream")
    fill(rig, 5, b"s")
    rig.turn()
    assert values(answered(rig, b"s", select="/n, state"), "state") == ["ready"] * 5
    assert values(answered(rig, b"s", select="/n", **{"from": 2, "end": 4})) == [2, 3]


def test_what_happens_between_two_steps(rig: OneVhost) -> None:
    fill(rig, 9)
    lease = rig.held(b"q")
    query = begin(rig, select="/n")
    rig.vhost.queries.advance(query, 3)
    rig.vhost.settling.ack(lease, 0, 5)  # of what was looked at, and of what was not
    fill(rig, 3)  # what comes later is in no answer
    rig.turn()
    while not query.is_done:
        rig.vhost.queries.advance(query, 3)
    assert values(query.answer()) == [0, 1, 2, 5, 6, 7, 8]


def test_a_queue_that_goes_ends_its_queries(rig: OneVhost) -> None:
    fill(rig, 9)
    query = begin(rig)
    rig.vhost.queries.advance(query, 3)
    rig.vhost.upkeep.delete_queue(b"q", False, False)
    rig.declare(b"q")
    rig.vhost.queries.advance(query, 3)
    with pytest.raises(RequestError, match="was deleted while it was queried") as caught:
        query.answer()
    assert caught.value.reason == NOT_FOUND


def test_a_step_looks_at_so_many_records_and_octets(rig: OneVhost) -> None:
    fill(rig, 50)
    for _ in range(3):
        rig.publish(b"", b"q", b"x" * (1 << 20))
    query = begin(rig, select="COUNT(*) AS n")
    rig.vhost.queries.advance(query, 20)
    assert query.scanned == 20
    rig.vhost.queries.advance(query, 1000)
    assert query.scanned == 51
    while not query.is_done:
        before = query.scanned
        rig.vhost.queries.advance(query, 1000)
        assert query.scanned - before <= 1
    assert query.answer()["rows"] == [{"n": 53}]


def test_there_is_a_bound_of_queries_of_a_user_and_of_a_vhost(rig: OneVhost) -> None:
    fill(rig, 9)
    queries = rig.vhost.queries
    for number in range(queries_module.QUERIES_MAX):
        queries.keep(begin(rig, owner=f"user {number // queries_module.USER_QUERIES_MAX}"))
    with pytest.raises(RequestError, match="32 queries run in this vhost already") as caught:
        begin(rig, owner="late")
    assert caught.value.reason == TOO_MANY
    for query in list(queries.polled.values())[-8:]:
        queries.forget(query)
    with pytest.raises(RequestError, match="8 queries of user 'user 0' run already"):
        begin(rig, owner="user 0")
    begin(rig, owner="late")


def test_a_query_that_nobody_comes_for_is_dropped(rig: OneVhost) -> None:
    fill(rig, 9)
    queries = rig.vhost.queries
    queue = rig.vhost.catalog.queue(b"q")
    query = begin(rig)
    queries.keep(query)
    assert queries.find(query.id, queue, "u") is query
    for owner, id in (("another", query.id), ("u", query.id + 1)):
        with pytest.raises(RequestError, match="is not under way"):
            queries.find(id, queue, owner)
    queries.sweep(query.seen_us + queries_module.IDLE_US + 1)
    with pytest.raises(RequestError, match="is not under way"):
        queries.find(query.id, queue, "u")


def test_failures_are_counted_of_what_came_back(rig: OneVhost) -> None:
    fill(rig, 2)
    lease = rig.held(b"q")
    group = rig.vhost.catalog.queue(b"q").groups[lease.consumer.group]
    lease.consumer.credit = 0
    group.give_back(lease, 0, 1, 0, NACKED)
    rig.turn()
    assert values(answered(rig, select="/n, deliveries", order_by="deliveries DESC"), "deliveries") == [1, 1]


def ask(rig: OneVhost, body: bytes, reply_to: bytes = b"answers", session: int = 1) -> None:
    request = Properties()
    request.correlation_id = b"7"
    rig.vhost.query_requests.ask(b"q", body, QueryReply(AMQP091, b"", reply_to, request), session, f"u{session}")


def test_asked_queries_take_turns_and_are_answered_by_messages(rig: OneVhost) -> None:
    fill(rig, 1200)
    rig.declare(b"answers")
    ask(rig, b'{"select": "COUNT(*) AS n"}')
    ask(rig, b'{"select": "/n", "limit": 1}')
    ask(rig, b'{"limit": 0}')
    turns = 0
    while rig.vhost.queries.asked:
        rig.vhost.touch()
        rig.turn()
        turns += 1
    assert turns <= 4  # three steps of the first, one of the second
    rig.turn()
    answers = [json.loads(body) for body in rig.kept(b"answers")]
    assert [answer.get("rows") for answer in answers] == [None, [{"/n": 0}], [{"n": 1200}]]
    assert answers[0] == {"error": "invalid", "reason": "limit: 0 is not within 1 .. 1000"}


def test_the_end_of_a_session_ends_its_queries(rig: OneVhost) -> None:
    fill(rig, 1200)
    rig.declare(b"answers")
    for session in (1, 2, 1):
        ask(rig, b"{}", session=session)
    rig.vhost.session_closed(1)
    assert [each.session_id for each in rig.vhost.queries.asked] == [2]


def test_an_answer_whose_place_is_gone_is_lost(rig: OneVhost) -> None:
    fill(rig, 1)
    for reply_to in (b"nothing", b"amq.rabbitmq.reply-to.gone"):
        ask(rig, b"{}", reply_to)
    while rig.vhost.queries.asked:
        rig.vhost.touch()
        rig.turn()
    assert rig.vhost.catalog.queue(b"q").ready() == 1


@pytest.mark.parametrize("kind", ["classic", "stream"])
@pytest.mark.parametrize("sealed", [False, True])
def test_a_consumer_with_a_query_gets_all_from_the_end_of_its_answer_on(rig: OneVhost, kind: str, sealed: bool) -> None:
    rig.declare(b"s", x_queue_type=kind)
    fill(rig, 5, b"s")
    if sealed:
        rig.turn()
    rig.vhost.consumers.consume_replies(1, 1, b"replies")
    asked: dict[str, object] = {"x-query": '{"select": "/n"}'}
    rig.vhost.consumers.consume(b"s", 1, 1, b"c", True, False, 0, asked)
    rig.publish(b"", b"s", b'{"n": 5}')
    found: dict[bytes, list[bytes]] = {b"replies": [], b"c": []}
    for _ in range(5):
        rig.vhost.touch()
        for each in rig.deliveries():
            found[each.consumer.tag] += [each.block.body(each.index + at) for at in range(each.count)]
    (answer,) = [json.loads(body) for body in found[b"replies"]]
    seen = [row["/n"] for row in answer["rows"]]
    got = [json.loads(body)["n"] for body in found[b"c"]]
    assert seen + got == [0, 1, 2, 3, 4, 5]
    assert answer["end"] == len(seen)
    if kind == "classic":
        assert rig.vhost.catalog.queue(b"s").ready() == 6  # nothing is taken


def test_a_query_of_a_consumer_is_refused_by_name(rig: OneVhost) -> None:
    def consume(**arguments: object) -> None:
        given = {name.replace("_", "-"): value for name, value in arguments.items()}
        rig.vhost.consumers.consume(b"q", 1, 1, b"c", True, False, 0, given)

    with pytest.raises(RequestError, match="has no consumer of direct replies"):
        consume(x_query="{}")
    rig.vhost.consumers.consume_replies(1, 1, b"replies")
    with pytest.raises(RequestError, match="limit: 0 is not within"):
        consume(x_query='{"limit": 0}')
    with pytest.raises(RequestError, match="goes without x-stream-offset"):
        consume(x_query="{}", x_stream_offset="first")
    with pytest.raises(RequestError, match="goes without x-consumer-group"):
        consume(x_query="{}", x_consumer_group="g")
    with pytest.raises(RequestError, match="end: a consumer gets all"):
        consume(x_query='{"end": 5}')
    assert not rig.vhost.queries.asked
