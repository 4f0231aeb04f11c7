"""Users that administrators make while the broker runs: their logins, rights and vhosts, over all protocols."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import (
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)

from forebay.client.control import ControlClient
from tests.broker_process import BrokerProcess, running
from tests.conformance.mqtt.raw import PINGREQ, PINGRESP, SUBACK, V5, V311, Raw, connect, publish, subscribe, will

ALL = {"configure": ".*", "write": ".*", "read": ".*"}
NOT_AUTHORIZED = 0x87


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running(tmp_path_factory.mktemp("users"), vhosts=[{"name": "one"}, {"name": "two"}]) as made:
        with control(made) as admin:
            for name in ("ada", "bob"):
                admin.run("user.add", user=name, password=f"{name}'s secret")
                admin.run("permission.set", user=name, vhost="one", **ALL)
        yield made


def control(broker: BrokerProcess) -> ControlClient:
    return ControlClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest")


def amqp(broker: BrokerProcess, user: str, password: str, vhost: str = "one") -> pika.BlockingConnection:
    credentials = pika.PlainCredentials(user, password)
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port, vhost, credentials))


def mqtt(broker: BrokerProcess, user: str, password: str, *more: bytes, version: int = V5) -> Raw:
    raw = Raw(broker, version)
    raw.send(connect("c-" + user.replace(":", "-"), version, login=(user, password)), *more)
    return raw


def test_a_hashed_password_is_checked_again_and_again(broker: BrokerProcess) -> None:
    for _ in range(3):
        with pytest.raises(ProbableAuthenticationError, match="ACCESS_REFUSED - Login was refused using authent"):
            amqp(broker, "ada", "guess")
        with amqp(broker, "ada", "ada's secret") as connection:
            assert connection.channel().queue_declare("", exclusive=True).method.queue
    with pytest.raises(ProbableAuthenticationError, match="ACCESS_REFUSED - Login was refused using authent"):
        amqp(broker, "nobody", "ada's secret")


def test_what_an_mqtt_client_sends_behind_its_connect_waits_for_the_password(broker: BrokerProcess) -> None:
    behind = [subscribe(1, ("t", 1)), publish("t", b"sent at once", 1, 2), PINGREQ]
    with control(broker) as admin:
        for turn in range(2):  # the second time the answer is at hand
            admin.run("user.password", user="bob", password=f"new {turn}") if turn == 0 else None
            with closing(mqtt(broker, "one:bob", "new 0", *behind)) as raw:
                raw.connack()
                assert raw.expect(SUBACK)
                seen = {raw.packet()[0] & 0xF0 for _ in range(3)}
                assert seen == {0x30, 0x40, PINGRESP[0]}
        admin.run("user.password", user="bob", password="bob's secret")
    with closing(mqtt(broker, "one:bob", "new 0", *behind)) as raw:
        assert raw.expect(0x20)[1] == 0x86


@pytest.mark.parametrize("version", [V311, V5])
def test_an_mqtt_client_names_its_vhost_before_its_user(broker: BrokerProcess, version: int) -> None:
    refused = {V311: 5, V5: NOT_AUTHORIZED}[version]
    with closing(mqtt(broker, "one:ada", "ada's secret", version=version)) as one:
        one.connack()
        one.subscribe("t")
        with closing(mqtt(broker, "two:guest", "guest", version=version)) as two:
            two.connack()
            two.publish("t", b"in two")
        with closing(mqtt(broker, "one:guest", "guest", version=version)) as other:
            other.connack()
            other.publish("t", b"in one")
        assert one.delivery().body == b"in one"
    for user, password in (("two:ada", "ada's secret"), ("ada", "ada's secret"), ("nope:ada", "ada's secret")):
        with closing(mqtt(broker, user, password, version=version)) as raw:
            assert raw.expect(0x20)[1] == refused


def test_rights_change_under_a_connection(broker: BrokerProcess) -> None:
    with control(broker) as admin, amqp(broker, "ada", "ada's secret") as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("q")
        channel.basic_publish("", "q", b"x")
        admin.run("permission.set", user="ada", vhost="one", configure=".*", write="^nothing$", read=".*")
        with pytest.raises(
            ChannelClosedByBroker, match=r"write access to exchange 'amq\.default' in vhost 'one' refused"
        ):
            channel.basic_publish("", "q", b"y")
        admin.run("permission.set", user="ada", vhost="one", **ALL)
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("", "q", b"z")
        channel.queue_delete("q")


def test_topic_permissions(broker: BrokerProcess) -> None:
    pattern = r"^of\.{username}\."
    with control(broker) as admin:
        admin.run("topic_permission.set", user="ada", vhost="one", exchange="amq.topic", write=pattern, read=pattern)
        try:
            with amqp(broker, "ada", "ada's secret") as connection:
                channel = connection.channel()
                channel.confirm_delivery()
                channel.queue_declare("mine")
                channel.queue_bind("mine", "amq.topic", "of.ada.*")
                channel.basic_publish("amq.topic", "of.ada.x", b"x")
                refused: list[tuple[Callable[[BlockingChannel], object], str]] = [
                    (lambda c: c.basic_publish("amq.topic", "of.bob.x", b"x"), "write"),
                    (lambda c: c.queue_bind("mine", "amq.topic", "of.bob.x"), "read"),
                    (lambda c: c.queue_unbind("mine", "amq.topic", "of.bob.x"), "read"),
                ]
                for work, right in refused:
                    channel = connection.channel()
                    channel.confirm_delivery()
                    with pytest.raises(ChannelClosedByBroker) as caught:
                        work(channel)
                    place = "topic 'of.bob.x' in exchange 'amq.topic' in vhost 'one'"
                    text = f"ACCESS_REFUSED - {right} access to {place} refused for user 'ada'"
                    assert (caught.value.reply_code, caught.value.reply_text) == (403, text)
                connection.channel().queue_delete("mine")
            with closing(mqtt(broker, "one:ada", "ada's secret")) as raw:
                raw.connack()
                raw.send(subscribe(1, ("of/ada/+", 1), ("of/bob/+", 1), ("#", 1)))
                assert raw.granted() == [1, NOT_AUTHORIZED, NOT_AUTHORIZED]
                raw.send(publish("of/bob/x", b"x", 1, 2))
                raw.acked(2, NOT_AUTHORIZED)
                raw.send(publish("of/ada/x", b"mine", 1, 3))
                assert {raw.packet()[0] & 0xF0, raw.packet()[0] & 0xF0} == {0x30, 0x40}
            with closing(Raw(broker, V5)) as raw:
                last = will("of/bob/gone", b"x")
                raw.send(connect("c", V5, login=("one:ada", "ada's secret"), will=last))
                assert raw.expect(0x20)[1] == NOT_AUTHORIZED
        finally:
            admin.run("topic_permission.clear", user="ada", vhost="one")


def test_queues_over_mqtt_need_rights(broker: BrokerProcess) -> None:
    with control(broker) as admin:
        with amqp(broker, "bob", "bob's secret", "one") as connection:
            connection.channel().queue_declare("mine", durable=True)
        admin.run("permission.set", user="bob", vhost="one", configure="", write=r"^amq\.topic$", read="^mine$")
        try:
            with closing(mqtt(broker, "one:bob", "bob's secret")) as raw:
                raw.connack()
                raw.send(subscribe(1, ("$queue/mine", 1), ("$queue/yours", 1), ("$share/g/t", 1)))
                assert raw.granted() == [1, NOT_AUTHORIZED, NOT_AUTHORIZED]
                for id, topic in enumerate(("$queue/mine", "$queue/yours/$commit", "$delayed/9/$queue/yours"), 2):
                    raw.send(publish(topic, b"x", 1, id))
                    raw.acked(id, NOT_AUTHORIZED)
                raw.send(publish("t", b"x", 1, 9))
                raw.acked(9, 0x10)
        finally:
            admin.run("permission.set", user="bob", vhost="one", **ALL)


def test_the_connections_of_a_deleted_vhost_are_told(broker: BrokerProcess) -> None:
    with control(broker) as admin:
        admin.run("vhost.add", vhost="short-lived")
        connection = amqp(broker, "guest", "guest", "short-lived")
        connection.channel().queue_declare("q", durable=True)
        with closing(mqtt(broker, "short-lived:guest", "guest")) as raw:
            raw.connack()
            admin.run("vhost.delete", vhost="short-lived")
            raw.refused(0x98)
        with pytest.raises(ConnectionClosedByBroker) as caught:
            connection.process_data_events(20)
        assert (caught.value.reply_code, caught.value.reply_text) == (
            320,
            "CONNECTION_FORCED - vhost 'short-lived' is deleted",
        )
        with pytest.raises(ProbableAccessDeniedError, match="vhost short-lived not found"):
            amqp(broker, "guest", "guest", "short-lived")
        admin.run("vhost.add", vhost="short-lived")
        with amqp(broker, "guest", "guest", "short-lived") as again, pytest.raises(ChannelClosedByBroker, match="no q"):
            again.channel().queue_declare("q", passive=True)
        admin.run("vhost.delete", vhost="short-lived")


def test_the_connections_of_a_deleted_user_are_told(broker: BrokerProcess) -> None:
    with control(broker) as admin:
        admin.run("user.add", user="cy", password="c")
        admin.run("permission.set", user="cy", vhost="one", **ALL)
        connection = amqp(broker, "cy", "c")
        with closing(mqtt(broker, "one:cy", "c")) as raw, amqp(broker, "ada", "ada's secret") as other:
            raw.connack()
            admin.run("user.delete", user="cy")
            raw.refused(0x98)
            other.channel().queue_declare("", exclusive=True)
        with pytest.raises(ConnectionClosedByBroker, match="CONNECTION_FORCED - user 'cy' is deleted"):
            connection.process_data_events(20)


def test_users_and_permissions_outlive_a_kill(tmp_path: Path) -> None:
    with running(tmp_path, users={"guest": "guest", "eve": "e"}, vhosts=[{"name": "one"}]) as broker:
        with control(broker) as admin:
            for name in ("ada", "bob", "cy"):
                admin.run("user.add", user=name, password=name)
                admin.run("permission.set", user=name, vhost="one", **ALL)
            admin.run("user.tags", user="ada", tags=["monitoring"])
            admin.run("user.delete", user="bob")
            admin.run("permission.clear", user="cy", vhost="one")
            admin.run("topic_permission.set", user="ada", vhost="one", exchange="x", write="^w$", read="^r$")
            before = [list(admin.items(f"{kind}.list")) for kind in ("user", "permission", "topic_permission")]
        broker.kill9()
        broker.start()
        with control(broker) as admin:
            after = [list(admin.items(f"{kind}.list")) for kind in ("user", "permission", "topic_permission")]
        assert after == before
        amqp(broker, "ada", "ada").close()
        with pytest.raises(ProbableAuthenticationError):
            amqp(broker, "bob", "bob")
        with pytest.raises(ProbableAccessDeniedError, match="access to vhost 'one' refused for user 'cy'"):
            amqp(broker, "cy", "cy")


def test_a_configured_password_may_be_a_hash(tmp_path: Path) -> None:
    hashed = "$argon2id$v=19$m=19456,t=2,p=1$MTExMTExMTExMTExMTExMQ$QosfZWCuIIjUtYBGekkiYAq3w4MIqWhMZnLAQgjj3QE"
    with running(tmp_path, users={"ada": hashed}) as broker:
        amqp(broker, "ada", "päss", "/").close()
        with pytest.raises(ProbableAuthenticationError):
            amqp(broker, "ada", hashed, "/")


def test_many_logins_at_once_all_get_in(broker: BrokerProcess) -> None:
    """The same password many times over is checked once, and keeps nobody waiting who needs no such check."""
    with control(broker) as admin:
        admin.run("user.password", user="bob", password="for the storm")
    raws = [Raw(broker, V5) for _ in range(200)]
    for place, raw in enumerate(raws):
        raw.send(connect(f"storm-{place}", login=("one:bob", "for the storm")))
    with closing(mqtt(broker, "guest", "guest")) as other:
        other.connack()
        other.quiet()
    for raw in raws:
        raw.connack()
        raw.close()
    with control(broker) as admin:
        admin.run("user.password", user="bob", password="bob's secret")
