"""Messages that recur, as clients ask for them and administrators see them."""

from __future__ import annotations

import pika
import pika.exceptions
import pytest

from forebay.client.control import ControlClient
from tests.behaviour.kinds import open_channel
from tests.broker_process import BrokerProcess
from tests.interop.mqtt_client import V5, client

CRON = "0 18 * * 1-5"
ZONE = "Europe/Berlin"
SHOWN = ("key", "cron", "time_zone", "topic")


def waiting(broker: BrokerProcess) -> list[tuple[object, ...]]:
    """Return name, expression, zone and target of each message that waits for its time."""
    with ControlClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest") as control:
        return [tuple(each[name] for name in SHOWN) for each in control.items("delayed.list")]


def test_amqp_clients_schedule_and_cancel(broker: BrokerProcess) -> None:
    channel = open_channel(broker)
    channel.queue_declare("reports", durable=True)
    headers = {"x-cron": CRON, "x-cron-time-zone": ZONE, "x-delay-id": "daily"}
    channel.basic_publish("", "reports", b"", pika.BasicProperties(headers=headers))
    assert waiting(broker) == [("daily", CRON, ZONE, "reports")]
    broker.kill9()
    broker.start()
    assert waiting(broker) == [("daily", CRON, ZONE, "reports")]
    with ControlClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest") as control:
        assert control.run("delayed.publish", name="daily") == {"routed": True}
    channel = open_channel(broker)
    assert channel.basic_get("reports", auto_ack=True)[0] is not None
    channel.basic_publish("", "$delayed/cancel/daily", b"", mandatory=True)
    assert waiting(broker) == []


@pytest.mark.parametrize(
    ("headers", "fault"),
    [
        ({"x-cron": "soon", "x-delay-id": "a"}, "x-cron: 'soon' is no cron expression of 5 fields"),
        ({"x-cron": CRON}, "x-delay-id: missing"),
        ({"x-cron": CRON, "x-delay-id": "a", "x-cron-time-zone": "Mars"}, "x-cron-time-zone: 'Mars' is no time zone"),
        ({"x-cron-time-zone": ZONE, "x-delay-id": "a"}, "x-cron-time-zone: 'Europe/Berlin' goes with x-cron only"),
        ({"x-cron": CRON, "x-delay-id": "a", "x-delay": 5}, "does not go with a delay"),
    ],
)
def test_nonsense_is_refused_by_name(broker: BrokerProcess, headers: dict[str, object], fault: str) -> None:
    channel = open_channel(broker)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
        channel.basic_publish("", "reports", b"", pika.BasicProperties(headers=headers))
    assert fault in refused.value.reply_text
    assert waiting(broker) == []


def test_mqtt_clients_schedule_and_cancel(broker: BrokerProcess) -> None:
    topic = "$delayed/$cron/reports/daily"
    with client(broker, "scheduler", V5) as scheduler:
        assert scheduler.publish(topic, cron=CRON, time_zone=ZONE, delay_id="daily").value < 0x80
        assert waiting(broker) == [("daily", CRON, ZONE, "reports/daily")]
        assert scheduler.publish(topic, cron="x", delay_id="b").value == 0x99
        assert scheduler.publish(topic, cron=CRON).value == 0x99
        assert scheduler.publish("$delayed/$cancel", delay_id="daily").value < 0x80
    assert waiting(broker) == []
