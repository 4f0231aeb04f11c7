"""A durable MQTT session that does not come back has a quota: publishers to it wait, and are then refused."""

from __future__ import annotations

from collections.abc import Callable

import pika
import pytest
from pika.exceptions import NackError

from forebay.client.control import ControlClient
from tests.behaviour.kinds import open_channel
from tests.broker_process import BrokerProcess
from tests.conformance.mqtt.raw import V311, connected, publish
from tests.flow import Reader
from tests.waiting import until

QUOTA = 200_000
BODY = b" " * 10_000


class Source:
    """A publisher of numbers; `taken` of them were acknowledged."""

    def __init__(self, broker: BrokerProcess, taken: int = 0) -> None:
        self.raw = connected(broker, "source")
        self.raw.socket.settimeout(60)
        self.taken = taken

    def is_refused(self) -> bool:
        """Whether the next one is."""
        code = self.raw.publish("t", b"%d" % self.taken + BODY)
        assert code in (0, 0x97), code
        self.taken += code == 0
        return code == 0x97


def ask(broker: BrokerProcess, what: str, **arguments: object) -> dict[str, object]:
    with ControlClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest") as control:
        return control.run(what, **arguments)


@pytest.mark.parametrize("overflow", ["hold", "spill"])
def test_it_gets_all_that_was_acknowledged_and_no_more(
    start_broker: Callable[..., BrokerProcess], overflow: str
) -> None:
    broker = start_broker(
        mqtt_session_octets_max=QUOTA,
        mqtt_publisher_hold_ms=300,
        mqtt_mqueue_overflow=overflow,
        log_events=["client.quota_reached"],
    )
    Reader(broker, "away", "t", clean=False).leave()
    source = Source(broker)
    until(source.is_refused, "a refusal")
    assert source.taken * len(BODY) > QUOTA
    assert "MQTT client 'away'" in broker.log_text() and "mqtt_session_octets_max is 200000" in broker.log_text()
    assert "client.quota_reached" in broker.log_text()
    assert ask(broker, "broker.status")["sessions_over_quota"] == 1
    found = ask(broker, "message.explain", client_id="away")["found"]
    assert isinstance(found, list)
    assert "over_quota" in [each["code"] for each in found[0]["reasons"]]
    assert source.raw.publish("elsewhere", b"1") == 0x10, "nobody waits for that"

    there = Reader(broker, "there", "t")
    there.take(1)
    source.raw.publish("t", b"7", 0)
    assert there.all() == [7], "QoS 0 goes to all others"
    there.close()

    broker.kill9()
    broker.restart()
    source = Source(broker, source.taken)
    until(source.is_refused, "a refusal after the restart")
    back = Reader(broker, "away", clean=False)
    back.take(source.taken)
    assert back.all() == list(range(source.taken))
    until(lambda: not source.is_refused(), "a publish that is taken again")
    back.close()
    assert ask(broker, "broker.status")["sessions_over_quota"] == 0


def test_who_cannot_be_told_is_not_acknowledged(start_broker: Callable[..., BrokerProcess]) -> None:
    """Over MQTT 3.1.1 and AMQP; what the broker has taken before goes to the session all the same."""
    broker = start_broker(mqtt_session_octets_max=QUOTA, mqtt_publisher_hold_ms=0)
    Reader(broker, "away", "t", clean=False).leave()
    source = Source(broker)
    channel = open_channel(broker)
    channel.queue_declare("late", durable=True, arguments={"x-message-ttl": 1, "x-dead-letter-exchange": "amq.topic"})
    channel.queue_bind("late", "amq.direct", "t")
    until(source.is_refused, "a refusal")
    old = connected(broker, "old", V311)
    old.send(publish("t", b"x", 1, 1, V311))
    assert old.ended()
    with pytest.raises(NackError):
        channel.basic_publish("amq.topic", "t", b"x", mandatory=True)
    channel.basic_publish("amq.direct", "t", b"%d" % source.taken, pika.BasicProperties(), mandatory=True)
    until(lambda: channel.queue_declare("late", passive=True).method.message_count == 0, "the dead letter")
    transaction = channel.connection.channel()
    transaction.tx_select()
    transaction.basic_publish("amq.topic", "t", b"x")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="406"):
        transaction.tx_commit()
    back = Reader(broker, "away", clean=False)
    back.take(source.taken + 1)
    assert back.all() == list(range(source.taken + 1))
    back.close()


def test_a_session_that_ends_holds_nobody_back(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(mqtt_session_octets_max=QUOTA, mqtt_publisher_hold_ms=100)
    for name in ("first", "second"):
        Reader(broker, name, "t", clean=False).leave()
    source = Source(broker)
    until(source.is_refused, "a refusal")
    ask(broker, "session.delete", client_id="first")
    assert source.is_refused(), "the other session is as full"
    ask(broker, "session.delete", client_id="second")
    assert source.raw.publish("t", BODY) == 0x10
