"""What a subscriber over HTTP is sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.core.message import MQTT, QOS_SHIFT
from forebay.session.http import HEARTBEAT_S, EventSession
from tests.logins import http_login
from tests.node_rig import NodeRig
from tests.sessions import SessionRig

QOS_1 = MQTT | 1 << QOS_SHIFT


def make(rig: NodeRig, id: int) -> EventSession:
    login = http_login()
    return EventSession(id, login, rig.vhost, rig.vhosts.enter(login.vhost, login.principal, id))


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[SessionRig]:
    rig = SessionRig(str(tmp_path / "data"), make)
    yield rig
    rig.close()


def session_of(rig: SessionRig) -> EventSession:
    assert isinstance(rig.session, EventSession)
    return rig.session


def publish(rig: SessionRig, topic: bytes, body: bytes) -> None:
    rig.vhost.publishing.publish(rig.vhost.router.route_topic(topic, None), QOS_1, b"", body)
    rig.turn()


def events(rig: SessionRig) -> list[dict[str, object]]:
    """The events so far, each with its fields; comments and the time to wait are passed over."""
    found: list[dict[str, object]] = []
    for part in rig.sent.split(b"\n\n"):
        lines = [line.split(b": ", 1) for line in part.splitlines() if not line.startswith((b":", b"retry"))]
        event: dict[str, object] = {name.decode(): value.decode() for name, value in lines}
        if event:
            event["data"] = json.loads(str(event["data"]))
            found.append(event)
    return found


def test_topics_come_without_an_id_and_silence_has_a_comment(rig: SessionRig) -> None:
    session = session_of(rig)
    session.subscribe(b"a/+", True)
    publish(rig, b"a/b", b"1")
    publish(rig, b"b/b", b"2")
    assert events(rig) == [{"data": {"topic": "a/b", "payload": "1", "qos": 1}}]
    assert rig.sent.startswith(b"retry: 1000\n\n")
    for second in range(HEARTBEAT_S):
        assert b":\n\n" not in rig.sent
        session.tick(second)
        rig.turn()
    assert rig.sent.endswith(b"\n\n:\n\n")


def test_what_was_lost_meanwhile_is_told(rig: SessionRig) -> None:
    session = session_of(rig)
    session.subscribe(b"#", False)
    rig.vhost.pause(session.id, True)
    for number in range(3):
        publish(rig, b"a", b"%d" % number)
    session.tick(1)
    rig.turn()
    assert events(rig) == []
    rig.vhost.pause(session.id, False)
    publish(rig, b"a", b"3")
    publish(rig, b"a", b"4")
    assert [each["data"] for each in events(rig)] == [
        {"messages": 3},
        {"topic": "a", "payload": "3", "qos": 1},
        {"topic": "a", "payload": "4", "qos": 1},
    ]
    assert session.describe()["dropped"] == 3


def test_a_queue_comes_with_offsets_and_ends_with_it(rig: SessionRig) -> None:
    session = session_of(rig)
    rig.vhost.catalog.declare_queue(b"q", True, False, False, {}, 0)
    publish(rig, b"$queue/q", b"\xff")
    session.consume(b"$queue/q", 0, {"x-stream-offset": "first"})
    rig.turn()
    rig.turn()
    (event,) = events(rig)
    assert event["id"] == "0"
    data = event["data"]
    assert isinstance(data, dict) and (data["payload_base64"], data["offset"]) == ("/w==", 0)
    rig.vhost.upkeep.delete_queue(b"q", False, False)
    rig.turn()
    assert events(rig)[-1] == {"event": "end", "data": {"reason": "queue 'q' was deleted"}}
    assert session.closing
    session.dismiss("again")
    rig.turn()
    assert len(events(rig)) == 2
