"""What the system says of a broker's process."""

from __future__ import annotations

import os
from pathlib import Path

from tests.broker_process import BrokerProcess

PAGE = os.sysconf("SC_PAGE_SIZE")


def resident(broker: BrokerProcess) -> int:
    """Octets of memory."""
    return int(Path(f"/proc/{broker.pid}/statm").read_text(encoding="ascii").split()[1]) * PAGE


def handles(broker: BrokerProcess) -> int:
    """Open files and sockets."""
    return len(list(Path(f"/proc/{broker.pid}/fd").iterdir()))


def targets(broker: BrokerProcess) -> list[str]:
    """What the open handles stand for, without files of the write-ahead log: these stay for as long as they like."""
    found = (target_of(handle) for handle in Path(f"/proc/{broker.pid}/fd").iterdir())
    return [target for target in found if target and not target.startswith(str(broker.data / "wal"))]


def target_of(handle: Path) -> str:
    """What a handle stands for; empty where it has been closed since it was listed."""
    try:
        return os.readlink(handle)
    except FileNotFoundError:
        return ""
