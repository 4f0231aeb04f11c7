"""Nothing of a connection stays when it has gone, whatever it was doing; tests/fuzz has found what was left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.amqp091 import raw as amqp
from tests.node_rig import NodeRig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[NodeRig]:
    made = NodeRig(tmp_path)
    yield made
    made.close()


def test_a_client_that_stops_reading_when_its_session_is_over_is_forgotten(rig: NodeRig) -> None:
    line = rig.connect("amqp")
    line.sendall(amqp.HEADER)
    line.sendall(amqp.frame(3, 7, b"a body before any login"))  # the session is over, and the turn has not come yet
    line.left = 1 << 30
    line.fill(True)
    assert rig.node.vhosts.default.consumers.paused
    line.close()
    rig.settle()
    assert not rig.node.vhosts.default.consumers.paused
