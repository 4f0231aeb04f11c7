"""An MQTT session belongs to the user who made it: another user gets nothing of it and does not end it.

Its rights are those of now: they are asked again when the client comes back, and when they change while it is away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from forebay.client.control import ControlClient
from tests.broker_process import BrokerProcess, running
from tests.conformance.mqtt.raw import (
    PINGREQ,
    V5,
    V311,
    Raw,
    acknowledge,
    connect,
    number,
    publish,
    subscribe,
    will,
)
from tests.waiting import until

ALL = {"configure": ".*", "write": ".*", "read": ".*"}
VERSIONS = pytest.mark.parametrize("version", [V311, V5])
EXPIRY = b"\x11" + number(3600, 4)
REFUSED = {V311: 0x80, V5: 0x87}
TOPIC = "secret/a"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running(tmp_path_factory.mktemp("owners")) as made:
        add_users(made)
        yield made


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with running(tmp_path) as made:
        add_users(made)
        yield made


def control(broker: BrokerProcess) -> ControlClient:
    return ControlClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest")


def add_users(broker: BrokerProcess) -> None:
    """Make `vic`, who may do everything, and `low`, who may not read secret/#."""
    with control(broker) as admin:
        for name in ("vic", "low"):
            admin.run("user.add", user=name, password=name)
            admin.run("permission.set", user=name, vhost="/", **ALL)
        admin.run("topic_permission.set", user="low", vhost="/", exchange="amq.topic", write=".*", read="^public")


def come(
    broker: BrokerProcess,
    user: str,
    client: str,
    version: int = V5,
    present: bool = False,
    clean: bool = False,
    last_will: bytes = b"",
) -> Raw:
    """A connection that has its CONNACK, of a session that stays."""
    raw = Raw(broker, version)
    properties = EXPIRY if version == V5 else b""
    raw.send(connect(client, version, properties, login=(user, user), clean=clean, will=last_will))
    raw.connack(present=present)
    return raw


def send(broker: BrokerProcess, topic: str, body: bytes, qos: int = 1) -> None:
    with closing(Raw(broker)) as source:
        source.send(connect("source"))
        source.connack()
        source.publish(topic, body, qos=qos)


def leave_a_session(broker: BrokerProcess, client: str, version: int, filter: str = "secret/#") -> None:
    with closing(come(broker, "vic", client, version)) as vic:
        vic.subscribe(filter)
    send(broker, TOPIC, b"stored")


@VERSIONS
@pytest.mark.parametrize("clean", [False, True])
def test_another_user_gets_nothing_of_a_session_and_does_not_end_it(
    broker: BrokerProcess, version: int, clean: bool
) -> None:
    client = f"x-{version}-{clean}"
    leave_a_session(broker, client, version)
    with closing(come(broker, "low", client, version, clean=clean)) as low:
        send(broker, TOPIC, b"live")
        low.send(PINGREQ)
        assert low.packet()[0] == 0xD0, "nothing was delivered before the answer"
        with closing(come(broker, "vic", client, version, present=True)) as vic:  # and takes nothing over
            assert [vic.delivery().body for _ in range(2)] == [b"stored", b"live"]
            low.send(PINGREQ)
            assert low.packet()[0] == 0xD0


@VERSIONS
def test_the_sessions_of_two_users_come_back_each_to_its_own(own_broker: BrokerProcess, version: int) -> None:
    leave_a_session(own_broker, "x", version)
    with closing(come(own_broker, "low", "x", version)) as low:
        low.subscribe("public/#")
    send(own_broker, "public/a", b"for low")
    with control(own_broker) as admin:
        listed = admin.run("session.list", vhost="/")["items"]
        assert isinstance(listed, list)
        assert [(each["client_id"], each["user"]) for each in listed] == [("x", "low"), ("x", "vic")]
    own_broker.kill9()
    own_broker.start()
    with closing(come(own_broker, "low", "x", version, present=True)) as low:
        assert low.delivery().body == b"for low"
    with closing(come(own_broker, "vic", "x", version, present=True)) as vic:
        assert vic.delivery().body == b"stored"


@VERSIONS
def test_an_identifier_may_be_the_whole_vhosts(tmp_path: Path, version: int) -> None:
    with running(tmp_path, mqtt_client_id_scope="vhost") as broker:
        add_users(broker)
        leave_a_session(broker, "x", version)
        with closing(Raw(broker, version)) as low:
            low.send(connect("x", version, login=("low", "low")))
            low.connack({V311: 2, V5: 0x85}[version])
        with closing(come(broker, "vic", "x", version, present=True)) as vic:
            assert vic.delivery().body == b"stored"


def test_an_administrator_says_whose_session_is_meant(own_broker: BrokerProcess) -> None:
    leave_a_session(own_broker, "x", V5)
    come(own_broker, "low", "x").close()
    with control(own_broker) as admin:
        with pytest.raises(Exception, match="client_id: 'x' has a session of each of 'low', 'vic'"):
            admin.run("session.delete", vhost="/", client_id="x")
        admin.run("session.delete", vhost="/", client_id="x", user="low")
        assert admin.run("session.show", vhost="/", client_id="x")["user"] == "vic"


@pytest.fixture(params=["resume", "away"])
def narrowed(request: pytest.FixtureRequest, own_broker: BrokerProcess) -> Callable[[], None]:
    """Takes vic's right to read secret/# away: while a client is away, or just before it comes back."""

    def narrow() -> None:
        with control(own_broker) as admin:
            where = {"vhost": "/", "exchange": "amq.topic"}
            admin.run("topic_permission.set", user="vic", write=".*", read="^public", **where)
            if request.param == "away":
                until(lambda: admin.run("session.show", vhost="/", client_id="x")["subscriptions"] == 1, "no rights")

    return narrow


@VERSIONS
@pytest.mark.parametrize("qos", [1, 2])
def test_what_a_user_may_not_read_any_more_is_not_delivered(
    own_broker: BrokerProcess, narrowed: Callable[[], None], version: int, qos: int
) -> None:
    with closing(come(own_broker, "vic", "x", version)) as vic:
        vic.subscribe("secret/#", qos=qos)
        vic.subscribe("public/#", qos=qos)
        send(own_broker, TOPIC, b"in flight")
        assert vic.delivery().body == b"in flight"
    send(own_broker, TOPIC, b"stored")
    send(own_broker, "public/a", b"for everybody")
    with control(own_broker) as admin:
        until(lambda: admin.run("session.show", vhost="/", client_id="x")["waiting"] == 2, "both stored")
    narrowed()
    with closing(come(own_broker, "vic", "x", version, present=True)) as vic:
        found = vic.delivery()
        assert found.body == b"for everybody"
        vic.send(acknowledge(0x40, found.id))
        send(own_broker, TOPIC, b"live")
        vic.send(PINGREQ)
        assert vic.packet()[0] == 0xD0
        with control(own_broker) as admin:
            shown = admin.run("session.show", vhost="/", client_id="x")
            filters = shown["subscriptions_list"]
            assert isinstance(filters, list)
            assert [each["filter"] for each in filters] == ["public/#"]
            assert shown["inflight_list"] == []


@pytest.mark.parametrize("filter", ["secret/#", "$share/g/secret/#"])
def test_a_subscription_ends_when_its_right_does_while_the_client_is_away(
    own_broker: BrokerProcess, filter: str
) -> None:
    with closing(come(own_broker, "vic", "x")) as vic:
        vic.subscribe(filter)
    with control(own_broker) as admin:
        admin.run("permission.clear", user="vic", vhost="/")
        until(lambda: not admin.run("session.show", vhost="/", client_id="x")["subscriptions"], "the right has ended")
        admin.run("permission.set", user="vic", vhost="/", **ALL)
    send(own_broker, TOPIC, b"while it had no right")
    own_broker.kill9()
    own_broker.start()
    with closing(come(own_broker, "vic", "x", present=True)) as vic:
        vic.send(PINGREQ)
        assert vic.packet()[0] == 0xD0


def test_rules_of_the_acl_file_are_asked_again(tmp_path: Path) -> None:
    rules = tmp_path / "acl"
    rules.write_text("user vic\ntopic secret/#\nuser guest\ntopic #\n")
    (tmp_path / "data").mkdir()
    with running(tmp_path / "data", mqtt_acl=str(rules)) as broker:
        add_users(broker)
        leave_a_session(broker, "x", V5)
        rules.write_text("user vic\ntopic public/#\nuser guest\ntopic #\n")
        with control(broker) as admin:
            admin.run("config.reload")
        with closing(come(broker, "vic", "x", present=True)) as vic:
            vic.send(PINGREQ)
            assert vic.packet()[0] == 0xD0


@pytest.mark.parametrize("delay_s", [0, 1])
def test_a_will_that_its_user_may_not_publish_any_more_is_not_published(
    own_broker: BrokerProcess, delay_s: int
) -> None:
    with closing(come(own_broker, "guest", "reader")) as reader:
        reader.subscribe("#")
        delay = b"\x18" + number(delay_s, 4)
        vic = come(own_broker, "vic", "x", last_will=will(TOPIC, b"gone", V5, delay))
        if delay_s:
            vic.vanish()
        with control(own_broker) as admin:
            where = {"vhost": "/", "exchange": "amq.topic"}
            admin.run("topic_permission.set", user="vic", write="^public", read=".*", **where)
            if not delay_s:
                vic.vanish()
            own_broker.wait_out(delay_s)
            until(lambda: admin.run("session.show", vhost="/", client_id="x")["will"] is None, "the will is over")
        send(own_broker, "public/a", b"later")
        assert reader.delivery().body == b"later"


def test_a_deleted_users_sessions_are_not_those_of_a_new_user_of_that_name(own_broker: BrokerProcess) -> None:
    leave_a_session(own_broker, "x", V5)
    with control(own_broker) as admin:
        admin.run("user.delete", user="vic")
        admin.run("user.add", user="vic", password="vic")
        admin.run("permission.set", user="vic", vhost="/", **ALL)
    come(own_broker, "vic", "x", present=False).close()


@pytest.mark.parametrize("client", ["#", "+", "*", "a/b", "a.b"])
def test_an_identifier_does_not_widen_a_topic_permission(own_broker: BrokerProcess, client: str) -> None:
    with control(own_broker) as admin:
        where = {"vhost": "/", "exchange": "amq.topic"}
        admin.run("topic_permission.set", user="vic", write=".*", read=r"^dev\.{client_id}$", **where)
    with closing(come(own_broker, "vic", client)) as vic:
        vic.send(subscribe(7, (f"dev/{client.replace('*', '+')}", 1)))
        assert vic.granted(7) == [REFUSED[V5]]
    with closing(come(own_broker, "vic", "mine")) as vic:
        vic.subscribe("dev/mine")
        vic.send(publish("dev/mine", b"own", 0))
        assert vic.delivery().body == b"own"
