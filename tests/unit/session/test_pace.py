"""Short turns while readers with small windows wait for theirs: what one read may bring in, and that all comes."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.queue.pace import MESSAGES_MIN, SHORT_US, UNLIMITED, Pace
from tests.conformance.mqtt.raw import puback, publish
from tests.conformance.mqtt.v5.flows import receive_maximum, subscribed
from tests.mqtt_rig import MqttRig

COUNT = 500


def test_turns_are_short_for_a_moment_after_a_small_window_was_served() -> None:
    pace = Pace()
    pace.note(1000)
    pace.note(20)
    pace.note(100)
    pace.end_turn(5)
    assert pace.messages == 80
    pace.end_turn(5 + SHORT_US - 1)
    assert pace.messages == 80
    pace.end_turn(5 + SHORT_US)
    assert (pace.messages, pace.until_us) == (UNLIMITED, 0)
    pace.note(1)
    pace.end_turn(6)
    assert pace.messages == MESSAGES_MIN


@pytest.mark.parametrize("durable", [False, True])
def test_a_read_brings_in_a_few_windows_while_a_reader_waits(tmp_path: Path, durable: bool) -> None:
    rig = MqttRig(tmp_path, mqtt_max_mqueue_len=0)
    window = receive_maximum(20)
    sink = rig.durable("sink", properties=window) if durable else rig.connected("sink", window)
    subscribed(sink, ("a", 1))
    source = rig.connected("source")
    inbox = source.session.inbox
    source.send(*[publish("a", b"%d" % at, 1, at + 1) for at in range(COUNT)])
    assert inbox.received == COUNT, "while nobody waits, a read is taken in at once"
    found = [sink.delivery()]
    sink.send(puback(found[0].id))
    rig.turn()
    source.send(*[publish("a", b"%d" % (COUNT + at), 1, at + 1) for at in range(COUNT)])
    assert inbox.received == COUNT + 80
    while len(found) < 2 * COUNT:
        found.append(sink.delivery())
        sink.send(puback(found[-1].id))
    assert [int(each.body) for each in found] == list(range(2 * COUNT))
    rig.close()
