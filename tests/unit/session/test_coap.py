"""What an observer over CoAP is given."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.core.message import MQTT, QOS_SHIFT
from forebay.session.coap import END, ObserverSession
from tests.logins import http_login
from tests.node_rig import NodeRig
from tests.sessions import SessionRig

QOS_1 = MQTT | 1 << QOS_SHIFT


def make_plain(rig: NodeRig, id: int) -> ObserverSession:
    login = http_login()
    return ObserverSession(id, login, rig.vhost, rig.vhosts.enter(login.vhost, login.principal, id), True)


def make_events(rig: NodeRig, id: int) -> ObserverSession:
    login = http_login()
    return ObserverSession(id, login, rig.vhost, rig.vhosts.enter(login.vhost, login.principal, id), False)


@pytest.fixture(params=[True, False])
def is_plain(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def rig(tmp_path: Path, is_plain: bool) -> Iterator[SessionRig]:
    rig = SessionRig(str(tmp_path / "data"), make_plain if is_plain else make_events)
    yield rig
    rig.close()


def session_of(rig: SessionRig) -> ObserverSession:
    assert isinstance(rig.session, ObserverSession)
    return rig.session


def publish(rig: SessionRig, topic: bytes, body: bytes) -> None:
    rig.vhost.publishing.publish(rig.vhost.router.route_topic(topic, None), QOS_1, b"", body)
    rig.turn()


def contents(rig: SessionRig) -> list[tuple[bytes, bytes, bytes]]:
    """Topic, content type and body of what was written."""
    found = []
    data = rig.sent
    while data:
        end = 4 + int.from_bytes(data[:4], "big")
        topic, kind = int.from_bytes(data[4:6], "big"), int.from_bytes(data[6:8], "big")
        kind = 0 if kind == END else kind
        found.append((data[8 : 8 + topic], data[8 + topic : 8 + topic + kind], data[8 + topic + kind : end]))
        data = data[end:]
    return found


def test_messages_are_written_with_their_topics(rig: SessionRig, is_plain: bool) -> None:
    assert session_of(rig).subscribe(b"a/#") == 0
    publish(rig, b"a/b", b"1")
    publish(rig, b"b", b"2")
    publish(rig, b"a/c", b"\xff" * 70_000)
    (first, kind, body), (second, _, long) = contents(rig)
    assert (first, second) == (b"a/b", b"a/c")
    if is_plain:
        assert (kind, body, long) == (b"", b"1", b"\xff" * 70_000)
    else:
        assert (kind, json.loads(body)) == (b"application/json", {"topic": "a/b", "payload": "1", "qos": 1})
        assert "payload_base64" in json.loads(long)


def test_retained_messages_come_first_and_are_counted(rig: SessionRig) -> None:
    for topic in (b"a/1", b"a/2"):
        rig.vhost.publishing.retain(topic, QOS_1, b"", b"kept")
    assert session_of(rig).subscribe(b"a/+") == 2
    rig.turn()
    assert [topic for topic, _, _ in contents(rig)] == [b"a/1", b"a/2"]


def test_an_ended_session_says_why_and_nothing_more(rig: SessionRig) -> None:
    session = session_of(rig)
    session.subscribe(b"a")
    session.dismiss("enough")
    session.shut_down()
    publish(rig, b"a", b"1")
    assert contents(rig) == [(b"", b"", b"enough")]
    assert session.describe()["protocol"] == "CoAP observe"
