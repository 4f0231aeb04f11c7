"""What waits on the disk for one session, reckoned from the log of all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.mqtt.raw import puback, publish, subscribe
from tests.mqtt_rig import MqttRig

LONG = b"x" * 1000
OVERHEAD_MAX = 400  # of one record and its share of a block


def quota_of(rig: MqttRig) -> dict[str, int]:
    """What the last look has found, by client."""
    return {client.client_id.decode(): octets for client, octets in rig.vhost.sessions.quota.over.items()}


@pytest.mark.parametrize("together", [True, False], ids=["one block", "blocks"])
def test_only_what_waits_for_a_session_counts(tmp_path: Path, together: bool) -> None:
    """Its own messages, whatever lies between them for others; also after a restart."""
    rig = MqttRig(tmp_path, mqtt_session_octets_max=4000)
    for name, filter in (("much", "t/#"), ("little", "t/9"), ("none", "s")):
        client = rig.durable(name)
        client.send(subscribe(1, (filter, 1)))
        assert client.granted() == [1]
        client.vanish()
    source = rig.connected("source")
    for number in range(10):
        source.send(publish(f"t/{number}", LONG, 1, number + 1))
        if not together:
            source.acked(number + 1)
    if together:
        for number in range(10):
            source.acked(number + 1)
    rig.later(1000)
    assert set(quota_of(rig)) == {"much"}
    assert 10 * len(LONG) <= quota_of(rig)["much"] <= 10 * (len(LONG) + OVERHEAD_MAX)
    source.vanish()
    rig.crash()
    rig.later(1000)
    assert set(quota_of(rig)) == {"much"}
    back = rig.durable("much", present=True)
    for _ in range(7):
        back.send(puback(back.delivery().id))
    rig.later(1000)
    assert quota_of(rig) == {}
    rig.close()


def test_more_sessions_than_one_look_is_for(tmp_path: Path) -> None:
    """A look goes on where the one before it stopped, so that all are found."""
    rig = MqttRig(tmp_path, mqtt_session_octets_max=4000)
    names = [f"c{number}" for number in range(9)]
    for name in names:
        client = rig.durable(name)
        client.send(subscribe(1, ("t", 1)))
        client.granted()
        client.vanish()
    source = rig.connected("source")
    for number in range(5):
        source.send(publish("t", LONG, 1, number + 1))
        source.acked(number + 1)
    quota = rig.vhost.sessions.quota
    quota.runs_a_look = 4
    for _ in range(20):
        rig.later(1000)
    assert set(quota_of(rig)) == set(names)
    rig.close()


def test_qos_0_passes_by_a_session_that_takes_no_more(tmp_path: Path) -> None:
    """It is counted as lost, and does not come after a crash either; what is acknowledged does."""
    rig = MqttRig(tmp_path, mqtt_session_octets_max=4000, mqtt_publisher_hold_ms=0)
    client = rig.durable("away")
    client.send(subscribe(1, ("t", 1)))
    client.granted()
    client.vanish()
    source = rig.connected("source")
    for number in range(5):
        source.send(publish("t", LONG, 1, number + 1))
        source.acked(number + 1)
    rig.later(1000)
    assert source.publish("t", b"refused") == 0x97
    assert source.publish("t", b"zero", 0) == 0
    rig.later(1000)
    assert rig.vhost.sessions.clients[b"away"].lost() == 1
    rig.crash()
    back = rig.durable("away", present=True)
    for _ in range(5):
        found = back.delivery()
        assert found.body == LONG
        back.send(puback(found.id))
    back.quiet()
    rig.close()
