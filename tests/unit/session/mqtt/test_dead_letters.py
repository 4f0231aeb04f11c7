"""Dead letters over MQTT: whoever gets one sees where it died, however it comes to him."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from forebay.core.message import AMQP091
from tests.conformance.mqtt.raw import subscribe
from tests.mqtt_rig import MqttRig


@pytest.mark.parametrize(
    ("filter", "durable"), [("dead/q", False), ("dead/q", True), ("$share/g/dead/q", True), ("$queue/dead", True)]
)
def test_a_dead_letter_says_where_it_died(tmp_path: Path, filter: str, durable: bool) -> None:
    rig = MqttRig(tmp_path)
    catalog = rig.vhost.catalog
    dead_letters: dict[str, object] = {"x-dead-letter-exchange": "amq.topic", "x-dead-letter-routing-key": "dead.q"}
    catalog.declare_queue(b"q", True, False, False, dead_letters, 1)
    catalog.declare_queue(b"dead", True, False, False, {}, 1)
    catalog.bind(b"dead", b"amq.topic", b"dead.q", {})
    reader = rig.durable("reader") if durable else rig.connected("reader")
    reader.send(subscribe(1, (filter, 1)))
    reader.granted()
    rig.vhost.publishing.publish(rig.vhost.router.route(b"", b"q"), AMQP091, bytes(2), b"body")
    rig.turn()
    taken = rig.vhost.consumers.get(b"q", 99, 1, False)
    assert taken is not None and taken.lease is not None
    rig.vhost.settling.reject(taken.lease, taken.lease.first, 1)
    given = reader.delivery()
    said = given.facts()
    assert given.body == b"body"
    assert (said["x-first-death-queue"], said["x-last-death-reason"], said["dlq-reason"]) == ("q", *["rejected"] * 2)
    (death,) = json.loads(said["x-death"])
    assert (death["queue"], death["reason"], death["count"], death["routing-keys"]) == ("q", "rejected", 1, ["q"])
    rig.close()
