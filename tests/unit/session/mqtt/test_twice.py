"""Acknowledgements that come twice in one turn: nothing is answered before the first one's note is on the disk."""

from __future__ import annotations

from pathlib import Path

from tests.conformance.mqtt.raw import PUBCOMP, PUBREC, PUBREL, acknowledge, publish, subscribe
from tests.mqtt_rig import MqttRig


def test_a_pubrec_that_comes_twice_gets_no_pubrel_before_the_disk(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    reader = rig.durable("reader")
    reader.send(subscribe(1, ("a", 2)))
    reader.granted()
    publisher = rig.connected("publisher")
    publisher.send(publish("a", b"x", 2, 1))
    publisher.acked(1, kind=PUBREC)
    id = reader.delivery().id
    reader.send(acknowledge(PUBREC, id), acknowledge(PUBREC, id))
    rig.turn(sync=False)
    assert reader.rest == b""  # a crash from here on has the PUBLISH sent again [MQTT-4.3.3-1 of 3.1.1]
    rig.sync()
    for _ in range(2):
        reader.acked(id, kind=PUBREL)
    rig.close()


def test_a_pubrel_that_comes_twice_gets_no_pubcomp_before_the_disk(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    publisher = rig.durable("publisher")
    publisher.send(publish("a", b"one", 2, 1))
    publisher.acked(1, 0x10, PUBREC)
    publisher.send(acknowledge(PUBREL, 1), acknowledge(PUBREL, 1))
    rig.turn(sync=False)
    assert publisher.rest == b""  # after a crash the identifier is taken for the old message's: a new one would be lost
    rig.sync()
    publisher.acked(1, kind=PUBCOMP)
    publisher.acked(1, 0x92, PUBCOMP)
    rig.close()
