"""A session begins with a login, wherever that was made, and with nothing else."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import forebay.session
from forebay.core.errors import NOT_ALLOWED, RequestError
from forebay.directory.logins.authorizer import Authorizer, Principal
from forebay.node.entry.protocols import begin_session
from forebay.session.amqp091.connection import Amqp091Session
from forebay.session.amqp10.connection import Amqp10Session
from forebay.session.blocks.connection import BlocksSession
from forebay.session.http import EventSession
from forebay.session.login import Amqp091Login, Amqp10Login, BlocksLogin, Login, MqttLogin
from forebay.session.mqtt.connection import MqttSession
from forebay.session.session import Session
from tests.conformance.amqp091 import raw as amqp
from tests.conformance.amqp10 import raw as amqp10
from tests.logins import amqp10_login, amqp_login, blocks_login, http_login, mqtt_login
from tests.node_rig import Line, NodeRig

TENANT = b"tenant"
ANY = MqttLogin | Amqp091Login | Amqp10Login | BlocksLogin | Login


def as_it_is(login: Login) -> Login:
    return login


def encoded(login: Login) -> Login:
    """The login as it comes from the process that made the handshake."""
    found: Login = msgspec.msgpack.decode(msgspec.msgpack.encode(login), type=ANY)
    return found


def begun(rig: NodeRig, login: Login) -> Line:
    """A connection whose session begins from this login."""
    line = rig.connect("amqp")

    def make(id: int) -> Session:
        return begin_session(id, login, rig.vhosts, rig.auth, rig.options, rig.broker.control)

    rig.broker.seat(line, make)
    rig.broker.touch(line)
    rig.turn()
    return line


@pytest.mark.parametrize("login", [mqtt_login("c"), amqp_login(), amqp10_login(), blocks_login(), http_login()])
def test_a_login_is_the_same_when_it_comes_from_another_process(login: Login) -> None:
    found = encoded(login)
    assert type(found) is type(login)
    assert msgspec.to_builtins(found) == msgspec.to_builtins(login)


@pytest.mark.parametrize("hand_over", [as_it_is, encoded])
def test_an_amqp_session_begins_from_a_login(tmp_path: Path, hand_over: Callable[[Login], Login]) -> None:
    rig = NodeRig(tmp_path, None)
    line = begun(rig, hand_over(amqp_login()))
    assert isinstance(line.session, Amqp091Session)
    assert bytes(line.sent) == amqp.method(0, (10, 41), b"\0")  # connection.open-ok
    line.sent.clear()
    line.sendall(amqp.method(1, amqp.CHANNEL_OPEN, b"\0"))
    line.sendall(amqp.method(1, amqp.QUEUE_DECLARE, b"\0\0" + amqp.short("q") + b"\0" + amqp.table()))
    line.sendall(amqp.publish(1, "q", b"said"))
    rig.settle()
    assert rig.vhost.catalog.queues[b"q"].log.end == 1
    described = rig.broker.listed.listed()[0]
    assert (described["user"], described["frame_octets_max"]) == ("guest", 131_072)
    rig.close()


@pytest.mark.parametrize("hand_over", [as_it_is, encoded])
def test_an_amqp_1_0_session_begins_from_a_login(tmp_path: Path, hand_over: Callable[[Login], Login]) -> None:
    rig = NodeRig(tmp_path, None)
    line = begun(rig, hand_over(amqp10_login()))
    assert isinstance(line.session, Amqp10Session)
    opened, _ = amqp10.decode(bytes(line.sent), 8)
    assert (opened.code, opened.value[2]) == (amqp10.OPEN, 131_072)
    line.sent.clear()
    line.sendall(amqp10.begin() + amqp10.publisher("$queue/q") + amqp10.transfer(0, amqp10.message(b"said")))
    rig.settle()
    assert rig.vhost.catalog.queues[b"q"].log.end == 1
    described = rig.broker.listed.listed()[0]
    assert (described["user"], described["frame_octets_max"]) == ("guest", 131_072)
    rig.close()


@pytest.mark.parametrize("hand_over", [as_it_is, encoded])
def test_a_session_of_blocks_begins_from_a_login(tmp_path: Path, hand_over: Callable[[Login], Login]) -> None:
    rig = NodeRig(tmp_path, None)
    line = begun(rig, hand_over(blocks_login()))
    assert isinstance(line.session, BlocksSession)
    assert b'"user":"guest"' in line.sent.replace(b" ", b"")
    rig.close()


def test_a_session_begins_in_the_vhost_of_its_login_and_with_its_rights(tmp_path: Path) -> None:
    rig = NodeRig(tmp_path, None)
    rig.vhosts.add(TENANT)
    rig.turn()
    for make in (amqp_login, amqp10_login, blocks_login, http_login):
        with pytest.raises(RequestError) as refused:
            begun(rig, make(user="nobody", vhost=TENANT))
        assert refused.value.reason == NOT_ALLOWED
    with pytest.raises(RequestError):
        begun(rig, mqtt_login("c", "nobody", TENANT))
    tenant = rig.vhosts.by_name[TENANT]
    assert not tenant.entered and not rig.vhost.entered
    logins = [make(vhost=TENANT) for make in (amqp_login, amqp10_login, http_login)]
    for login in (mqtt_login("c", vhost=TENANT), *logins):
        session = begun(rig, login).session
        assert session is not None
        assert (session.vhost, session.rights.vhost, session.rights.user) == (tenant, "tenant", "guest")
    assert len(tenant.entered) == 4 and not rig.vhost.entered
    rig.close()


def test_a_refused_mqtt_login_leaves_nothing_behind(tmp_path: Path) -> None:
    rig = NodeRig(tmp_path, None)
    with pytest.raises(RequestError, match="CONNACK exceeds the client's 5 octets"):
        begun(rig, mqtt_login("c", packet_octets_max=5))
    assert not rig.vhost.entered and not rig.vhost.sessions.clients
    assert not rig.vhosts.directory.users.usage_of("guest").connections
    rig.close()


def test_an_authorizer_cannot_be_handed_over() -> None:
    class Everything(Authorizer):
        def may_enter(self, vhost: str) -> bool:
            return True

        def may(self, vhost: str, right: str, kind: str, name: str) -> bool:
            return True

        def may_topic(self, vhost: str, right: str, exchange: str, routing_key: str) -> bool:
            return True

    login = msgspec.structs.replace(http_login(), principal=Principal("ana", Everything()))
    with pytest.raises(TypeError, match="Everything"):
        msgspec.msgpack.encode(login)


@pytest.mark.parametrize("session", [MqttSession, Amqp091Session, Amqp10Session, BlocksSession, EventSession])
def test_no_session_can_be_made_of_its_number_alone(session: Callable[..., Session]) -> None:
    with pytest.raises(TypeError):
        session(1)
    with pytest.raises(TypeError):
        session(1, http_login())


def test_no_module_of_sessions_knows_a_vhost_or_rights_to_fall_back_to() -> None:
    folder = Path(forebay.session.__file__).parent
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                assert node.attr != "default", f"{path}:{node.lineno}: a vhost that no login names"
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("Rights", "Grants", "ClientSession"), f"{path}:{node.lineno}: made up"
