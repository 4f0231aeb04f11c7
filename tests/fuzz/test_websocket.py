"""WebSocket frames, spoilt: whatever they hold, the broker is as before when the client has gone."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Final

from tests.fuzz.fuzzer import make_mutator
from tests.fuzz.mutator import Mutator
from tests.fuzz.upkeep import of_connections
from tests.fuzz.websocket import WebHeld, WebHost, reads_of, talk

CLIENTS: Final = 300


def test_spoilt_frames_leave_nothing_behind() -> None:
    mutator = make_mutator()
    answered = asyncio.run(clients(mutator))
    assert answered > CLIENTS  # handshakes and packets were taken in


async def clients(mutator: Mutator) -> int:
    """Clients one after the other; how many octets they were sent."""
    rig = WebHeld()
    host = WebHost(rig)
    octets = 0
    for seed in range(CLIENTS):
        octets += talk(rig, host, reads_of(Random(seed), mutator))
        assert not of_connections(rig.broker)
    rig.close()
    return octets
