"""The requests of the node `/management`: what each changes, what it answers, and which are refused by what."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.node.entry.protocols import begin_session
from forebay.session.amqp10.management.requests import Count, Management, ManagementAnswer
from forebay.session.session import Session
from tests.logins import http_login
from tests.node_rig import NodeRig


def begun(rig: NodeRig) -> Session:
    """A session of whatever protocol, for requests to be made by."""
    line = rig.connect("amqp")

    def make(id: int) -> Session:
        return begin_session(id, http_login(), rig.vhosts, rig.auth, rig.options, rig.broker.control)

    rig.broker.seat(line, make)
    session = line.session
    assert session is not None
    return session


@pytest.fixture
def rig(tmp_path: Path) -> NodeRig:
    return NodeRig(tmp_path, None)


@pytest.fixture
def management(rig: NodeRig) -> Management:
    return Management(begun(rig), "forebay@here", ["forebay@here"])


def plain(value: object) -> object:
    """A body with bare numbers."""
    if isinstance(value, Count):
        return value.value
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list) else value


def asked(management: Management, verb: str, path: str, body: object = None) -> tuple[int, object]:
    found: ManagementAnswer = management.answer(verb, path, body)
    return found.status, plain(found.body)


QUORUM = {"arguments": {"x-queue-type": "quorum", "x-max-length": 5}}


def test_a_queue_is_declared_read_and_deleted(management: Management) -> None:
    described = {
        "name": "a/b c",
        "vhost": "/",
        "durable": True,
        "auto_delete": False,
        "exclusive": False,
        "type": "quorum",
        "arguments": {"x-queue-type": "quorum", "x-max-length": 5},
        "leader": "forebay@here",
        "replicas": ["forebay@here"],
        "message_count": 0,
        "consumer_count": 0,
    }
    path = "/queues/a%2Fb%20c"
    assert asked(management, "GET", path)[0] == 404
    assert asked(management, "PUT", path, QUORUM) == (201, described)
    assert asked(management, "PUT", path, QUORUM) == (200, described)
    assert asked(management, "GET", path) == (200, described)
    status, reason = asked(management, "PUT", path, {"arguments": {"x-queue-type": "quorum", "x-max-length": 6}})
    assert status == 409
    assert "x-max-length" in str(reason)
    assert asked(management, "DELETE", path) == (200, {"message_count": 0})
    assert asked(management, "DELETE", path) == (200, {"message_count": 0}), "also where there is none"


def test_counts_have_the_widths_that_clients_read(management: Management) -> None:
    body = management.answer("PUT", "/queues/q", None).body
    assert isinstance(body, dict)
    assert (body["message_count"].is_long, body["consumer_count"].is_long) == (True, False)


def test_an_exchange_and_its_bindings(management: Management) -> None:
    assert asked(management, "PUT", "/exchanges/logs", {"type": "headers"}) == (204, None)
    assert asked(management, "PUT", "/exchanges/logs", {"type": "headers"}) == (204, None)
    assert asked(management, "PUT", "/exchanges/logs", {"type": "topic"})[0] == 409
    assert (
        asked(management, "PUT", "/exchanges/more", {"type": "fanout", "durable": False, "auto_delete": True})[0] == 204
    )
    asked(management, "PUT", "/queues/q")
    bound = {"source": "logs", "destination_queue": "q", "binding_key": "a;b=c", "arguments": {}}
    matched = {**bound, "arguments": {"x-match": "any", "tier": "gold"}}
    assert asked(management, "POST", "/bindings", bound) == (204, None)
    assert asked(management, "POST", "/bindings", matched) == (204, None)
    assert asked(management, "POST", "/bindings", {"source": "logs", "destination_exchange": "more"}) == (204, None)
    status, listed = asked(management, "GET", "/bindings?src=logs&dstq=q&key=a%3Bb%3Dc")
    assert status == 200
    assert isinstance(listed, list)
    locations = [each.pop("location") for each in listed]
    assert listed == [bound, matched]
    assert locations[0] == "/bindings/src=logs;dstq=q;key=a%3Bb%3Dc;args="
    assert asked(management, "DELETE", locations[1]) == (204, None)
    assert asked(management, "DELETE", locations[1]) == (204, None), "also where there is none"
    left = asked(management, "GET", "/bindings?src=logs&dstq=q")[1]
    assert isinstance(left, list)
    assert [each["arguments"] for each in left] == [{}]
    assert asked(management, "DELETE", locations[0]) == (204, None)
    assert asked(management, "GET", "/bindings?src=logs&dstq=q") == (200, [])
    assert asked(management, "DELETE", "/bindings/src=logs;dste=more;key=;args=") == (204, None)
    assert asked(management, "DELETE", "/exchanges/logs") == (204, None)
    assert asked(management, "DELETE", "/exchanges/logs") == (204, None)


def test_messages_are_purged(management: Management, rig: NodeRig) -> None:
    asked(management, "PUT", "/queues/q")
    vhost = rig.vhost
    queue = vhost.catalog.queues[b"q"]
    before = asked(management, "GET", "/queues/q")[1]
    assert isinstance(before, dict)
    assert before["message_count"] == queue.ready() == 0
    assert asked(management, "DELETE", "/queues/q/messages") == (200, {"message_count": 0})
    assert asked(management, "DELETE", "/queues/none/messages")[0] == 404


@pytest.mark.parametrize(
    ("status", "verb", "path", "body", "named"),
    [
        (404, "GET", "/", None, "/"),
        (404, "GET", "queues/q", None, "queues/q"),
        (404, "GET", "/queues", None, "/queues"),
        (404, "GET", "/queues/q/bindings", None, "bindings"),
        (404, "PUT", "/vhosts/v", None, "/vhosts/v"),
        (405, "POST", "/queues/q", None, "POST"),
        (405, "GET", "/exchanges/e", None, "GET"),
        (405, "PUT", "/bindings", None, "PUT"),
        (405, "get", "/queues/q", None, "get"),
        (400, "PUT", "/queues/", None, "name"),
        (400, "PUT", "/queues/%zz", None, "%zz"),
        (400, "PUT", "/queues/a%0D%0Ab", None, "line feeds"),
        (400, "PUT", "/queues/q", ["durable"], "body"),
        (400, "PUT", "/queues/q", {"durable": 1}, "durable"),
        (400, "PUT", "/queues/q", {"arguments": "x"}, "arguments"),
        (400, "PUT", "/queues/q", {"autodelete": True}, "autodelete"),
        (400, "PUT", "/queues/q", {"arguments": {"x-max-length": -1}}, "x-max-length"),
        (403, "PUT", "/queues/amq.q", None, "amq."),
        (400, "PUT", "/exchanges/e", {"type": 5}, "type"),
        (403, "PUT", "/exchanges/amq.e", None, "amq."),
        (400, "POST", "/bindings", {"source": "amq.topic"}, "destination_queue"),
        (404, "POST", "/bindings", {"source": "none", "destination_queue": "q"}, "none"),
        (404, "POST", "/bindings", {"source": "amq.topic", "destination_queue": "none"}, "none"),
        (400, "GET", "/bindings?src=amq.topic", None, "dstq"),
        (400, "GET", "/bindings?source=amq.topic&dstq=q", None, "source"),
        (404, "GET", "/bindings?src=amq.topic&dstq=none", None, "none"),
        (400, "DELETE", "/bindings/src=a;src=b", None, "src=b"),
        (400, "DELETE", "/bindings/amq.topic", None, "amq.topic"),
    ],
)
def test_requests_that_cannot_be_met_say_why(
    management: Management, rig: NodeRig, status: int, verb: str, path: str, body: object, named: str
) -> None:
    found, reason = asked(management, verb, path, body)
    assert found == status, reason
    assert named in str(reason)
    assert not rig.vhost.catalog.queues, "and nothing is made"
