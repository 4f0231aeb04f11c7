"""A queue is held to its length also by a restart, which brings back what consumers held."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.vhosts import OneVhost


@pytest.mark.parametrize("limit", [{"x_max_length": 2}, {"x_max_length_bytes": 15}])
@pytest.mark.parametrize("arguments", [{}, {"x_max_priority": 3}, {"x_queue_type": "quorum"}])
def test_a_restart_drops_what_is_too_much(
    tmp_path: Path, arguments: dict[str, object], limit: dict[str, object]
) -> None:
    broker = OneVhost(tmp_path)
    broker.declare(b"q", **limit, **arguments)
    broker.publish(b"", b"q", b"held")
    broker.settle()
    broker.taken(b"q")
    broker.publish(b"", b"q", b"ready")
    broker.publish(b"", b"q", b"ready, too")
    broker.settle()
    assert broker.kept(b"q") == [b"held", b"ready", b"ready, too"]
    broker.flush()
    broker.crash()
    broker.settle()
    assert broker.kept(b"q") == [b"ready", b"ready, too"]
