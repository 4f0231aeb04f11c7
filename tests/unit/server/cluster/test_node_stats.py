"""Stats of a node go over a link as they are, and those of another version are understood as far as they can be."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from forebay import __version__
from forebay.core.errors import PeerError
from forebay.server.cluster.node_stats import STATS, NodeStats, decode_stats, own_stats
from forebay.server.system.disk import DataDisk

MARK = bytes((STATS,))


def test_a_node_knows_its_own(tmp_path: Path) -> None:
    disk = DataDisk(str(tmp_path))
    own = own_stats(disk)
    disk.close_all()
    assert own.version == __version__
    assert own.disk_octets > own.disk_free_octets > 0 and own.memory_octets > 0 and own.started_ms > 0
    assert decode_stats(MARK + msgspec.json.encode(own)) == own


def test_fields_of_another_version_do_no_harm() -> None:
    assert decode_stats(MARK + b'{"version":"9","newer":1}') == NodeStats(version="9")


@pytest.mark.parametrize("octets", [b"", b"{", b'{"disk_octets":"much"}', b"[]"])
def test_what_is_none_ends_the_link(octets: bytes) -> None:
    with pytest.raises(PeerError, match="stats of a node"):
        decode_stats(MARK + octets)
