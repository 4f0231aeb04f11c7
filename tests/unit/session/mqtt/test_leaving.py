"""Messages for a client whose connection is ending."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.mqtt.raw import DISCONNECT, V311, connect, publish, subscribe
from tests.sessions import SessionRig


@pytest.mark.parametrize("last", [DISCONNECT, b"\xf0\x00"], ids=["DISCONNECT", "a packet that cannot be"])
def test_what_comes_between_the_last_packet_and_the_end_of_a_connection_waits(tmp_path: Path, last: bytes) -> None:
    rig = SessionRig(str(tmp_path), "mqtt")
    line = rig.connect("mqtt")
    line.received(connect("source", V311))
    source = line.session
    assert source is not None
    rig.send(connect("sink", V311, clean=False))
    rig.send(subscribe(1, ("a", 1), version=V311))
    rig.turn()
    source.receive(publish("a", b"before", 1, 1, V311))
    rig.send(last)
    source.receive(publish("a", b"after", 1, 2, V311))
    assert rig.session.closing
    rig.turn()
    rig.line.close()
    rig.reconnect()
    rig.send(connect("sink", V311, clean=False))
    rig.turn()
    rig.turn()
    assert 0 < rig.sent.find(b"before") < rig.sent.find(b"after")
    line.close()
    rig.close()
