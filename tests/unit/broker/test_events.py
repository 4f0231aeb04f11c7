"""Events: what is noted, for whom, and by every change of a vhost."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import forebay
from forebay.broker.policy_changes import clear_policy, set_policy
from forebay.log.store import Recovery
from forebay.message.events import NOTED_MAX, PUBLISHED, TYPES, Events
from forebay.node.broker import NodeBroker
from forebay.node.node import Node
from tests.node_rig import NodeRig
from tests.vhosts import OneVhost


def names(events: Events) -> list[str]:
    return [each.type for each in events.take()]


@pytest.fixture
def one(tmp_path: Path) -> OneVhost:
    made = OneVhost(tmp_path)
    made.vhost.events.listen(set(TYPES))
    return made


def test_nothing_is_noted_that_nobody_wants() -> None:
    events = Events()
    events.note("queue.created", b"/", {})
    assert events.take() == []
    events.listen({"queue.deleted"})
    events.note("queue.created", b"/", {})
    events.note("queue.deleted", b"/", {"queue": b"q"})
    (noted,) = events.take()
    assert (noted.type, noted.vhost, noted.fields) == ("queue.deleted", b"/", {"queue": b"q"})
    assert events.take() == []


def test_what_one_turn_may_note_is_limited_and_the_rest_is_counted() -> None:
    events = Events()
    events.listen({PUBLISHED})
    for _ in range(NOTED_MAX + 3):
        events.note(PUBLISHED, b"/", {})
    assert len(events.take()) == NOTED_MAX
    assert events.lost == 3


def test_queues_exchanges_and_bindings_tell_of_themselves(one: OneVhost) -> None:
    vhost, events = one.vhost, one.vhost.events
    one.declare(b"orders", x_queue_type="stream")
    (made,) = events.take()
    assert made.type == "queue.created"
    assert made.fields == {
        "queue": b"orders",
        "type": "stream",
        "durable": True,
        "auto_delete": False,
        "exclusive": False,
        "arguments": {"x-queue-type": "stream"},
    }
    one.declare(b"orders", x_queue_type="stream")
    assert names(events) == [], "it is there already"
    vhost.catalog.declare_exchange(b"x", b"fanout", True, False, False, {})
    vhost.catalog.bind(b"orders", b"x", b"k", {})
    vhost.catalog.bind_exchange(b"x", b"amq.direct", b"", {})
    found = events.take()
    assert [each.type for each in found] == ["exchange.created", "binding.created", "binding.created"]
    assert found[1].fields == {
        "exchange": b"x",
        "destination": b"orders",
        "destination_type": "queue",
        "routing_key": b"k",
    }
    assert (found[2].fields["destination"], found[2].fields["destination_type"]) == (b"x", "exchange")
    vhost.catalog.unbind(b"orders", b"x", b"k", {})
    vhost.catalog.delete_exchange(b"x", False)
    vhost.upkeep.delete_queue(b"orders", False, False)
    assert names(events) == ["binding.deleted", "exchange.deleted", "queue.deleted"]


def test_messages_tell_of_themselves_with_what_they_are(one: OneVhost) -> None:
    events = one.vhost.events
    one.declare(b"q")
    events.take()
    one.publish(b"", b"q", b"hello")
    (published,) = events.take()
    assert published.type == PUBLISHED
    assert published.fields == {"octets": 5, "payload": b"hello", "exchange": b"", "routing_key": b"q"}


def test_a_publish_that_nobody_wants_to_hear_of_is_not_noted(one: OneVhost) -> None:
    events = one.vhost.events
    one.declare(b"q")
    events.listen({"queue.created"})
    events.take()
    one.publish(b"", b"q", b"hello")
    assert not events.publishes
    assert events.take() == []


def test_consumers_tell_of_themselves_but_those_of_the_events_do_not(one: OneVhost) -> None:
    vhost, events = one.vhost, one.vhost.events
    for name in (b"q", b"$events"):
        one.declare(name, x_queue_type="stream")
        events.take()
        consumer = vhost.consumers.consume(name, 7, 1, b"tag", False, False, 1, {})
        vhost.consumers.cancel(consumer)
        expected = [] if name == b"$events" else ["consumer.created", "consumer.deleted"]
        noted = events.take()
        assert [each.type for each in noted] == expected
        for each in noted:
            assert each.fields == {"queue": b"q", "consumer": b"tag", "connection": 7, "channel": 1}


def test_policies_tell_of_themselves(one: OneVhost) -> None:
    set_policy(one.vhost, "short", "^q", {"max-length": 1}, operator=True)
    clear_policy(one.vhost, "short", operator=True)
    made, cleared = one.vhost.events.take()
    assert (made.type, made.fields["policy"], made.fields["operator"]) == ("policy.set", "short", True)
    assert made.fields["definition"] == {"max-length": 1}
    assert (cleared.type, cleared.fields) == ("policy.cleared", {"policy": "short", "operator": True})


class ListeningBroker(NodeBroker):
    """A broker that notes everything, from before it has read its log, and leaves it to the test."""

    def load_from(self, recovery: Recovery, epoch: int) -> None:
        self.vhosts.events.listen(set(TYPES))
        super().load_from(recovery, epoch)

    def begin(self) -> None:
        """Nothing is told."""


class ListeningRig(NodeRig):
    """With such a broker."""

    def make_broker(self, node: Node) -> NodeBroker:
        return ListeningBroker(node.options, node.member.store, node.clock, node.chance)


def test_vhosts_and_users_tell_of_themselves_without_secrets(tmp_path: Path) -> None:
    rig = ListeningRig(tmp_path)
    vhosts = rig.vhosts
    events = vhosts.events
    assert events.take() == [], "what was there before is no news"
    made = vhosts.add(b"shop")
    vhosts.change(made, {"queues_max": 3})
    users = vhosts.directory.users
    users.add("ann", "secret words", [])
    users.change_password("ann", "other secret")
    users.set_tags("ann", ["management"])
    users.set_permissions("ann", b"shop", "a", "b", "c")
    users.set_topic_permissions("ann", b"shop", b"amq.topic", "a", "b")
    users.clear_topic_permissions("ann", b"shop")
    users.clear_permissions("ann", b"shop")
    users.delete("ann")
    vhosts.delete(b"shop")
    noted = events.take()
    assert "secret" not in repr([each.fields for each in noted])
    assert [each.type for each in noted] == [
        "vhost.created",
        "vhost.changed",
        "user.created",
        "user.changed",
        "user.changed",
        "permission.set",
        "permission.set",
        "permission.cleared",
        "permission.cleared",
        "user.deleted",
        "vhost.deleted",
    ]
    assert noted[1].vhost == b"shop" and noted[1].fields["queues_max"] == 3
    assert noted[5].fields == {"user": "ann", "configure": "a", "write": "b", "read": "c"}


def test_every_type_that_is_noted_is_in_the_table() -> None:
    noted: set[str] = set()
    for path in Path(forebay.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in {"note", "tell", "tell_consumer"}:
                texts = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant)]
                noted |= {each for each in texts if isinstance(each, str) and "." in each}
    assert noted, "there are some"
    assert noted <= set(TYPES)
