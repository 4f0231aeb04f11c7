"""A limit of the disk for what waits for one durable MQTT session, so that one that never comes back cannot fill it.

A session beyond it loses nothing that was acknowledged. Who publishes to it is held back for a while (`crowding`), and
refused from then on, until an eighth less waits. Messages lie in one log for all sessions, and what one of them has
waiting is runs of offsets; its octets are reckoned about once a second, and only while that log holds more than one
session may have.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.broker.mqtt.client_session import ClientSession
from forebay.broker.mqtt.crowding import RELIEF_SHIFT, Crowding
from forebay.log.queue_log import QueueLog

RUNS_A_LOOK: Final = 100_000  # of all sessions together; the others come with the next look


@final
class Weights:
    """Octets of a log below any offset, at one moment."""

    def __init__(self, log: QueueLog) -> None:
        self.log = log
        self.first: i64 = log.first
        self.below: list[int] = []  # for each block, from `first` on
        total: i64 = 0
        for at in range(self.first, log.index.size()):
            self.below.append(int(total))
            total += i64(log.index.octets[at])
        self.total: i64 = total

    def up_to(self, offset: i64) -> i64:
        """Return the size in bytes of the log below an offset. Within a block, all records count as equally long."""
        log = self.log
        at = log.find(offset)
        if at >= log.index.size():
            return self.total
        below: i64 = self.below[at - self.first]
        base = log.index.bases[at]
        if offset <= base:
            return below
        return below + i64(log.index.octets[at]) * (offset - base) // i64(log.index.counts[at])


@final
class SessionQuota:
    """The sessions of a vhost for which more waits than may.

    octets_max  for each; 0 is no limit
    over        those beyond it, with what waits for them
    crossed     those of them of whom the operator was not told yet
    next        number of the session with which the next look goes on
    runs_a_look  runs of messages that a look goes through, of those beyond the limit and of the others; `left` of them
    """

    def __init__(self, log: QueueLog, crowding: Crowding) -> None:
        self.log = log
        self.crowding = crowding
        self.octets_max: i64 = 0
        self.over: dict[ClientSession, int] = {}
        self.crossed: dict[ClientSession, None] = {}
        self.next: i64 = 0
        self.runs_a_look: i64 = RUNS_A_LOOK
        self.left: i64 = 0

    def look(self, clients: dict[int, ClientSession], now_us: i64) -> None:
        """Find out who is beyond the limit now."""
        if self.octets_max == 0 or self.log.octets <= self.octets_max:
            for client in list(self.over):
                self.forget(client)
            return
        weights = Weights(self.log)
        self.left = self.runs_a_look
        for client in list(self.over):
            if self.left <= 0:
                break
            del self.over[client]
            self.weigh(client, weights, now_us)  # behind the others, where it still belongs to them
        self.left = self.runs_a_look
        for number in list(clients):
            if number < self.next:
                continue
            if self.left <= 0:
                self.next = number
                return
            client = clients[number]
            if client.durable and client not in self.over:
                self.weigh(client, weights, now_us)
        self.next = 0

    def weigh(self, client: ClientSession, weights: Weights, now_us: i64) -> None:
        """Reckon what waits for a session, and let those who publish to it feel that."""
        self.left -= 1
        low = client.mqueue.floor(self.log.end)
        octets: i64 = 0
        most = self.octets_max
        if client.over_quota:
            most -= most >> RELIEF_SHIFT
        if weights.total - weights.up_to(low) > most:
            for first, end in client.mqueue.logged(low, self.log.end):
                octets += weights.up_to(end) - weights.up_to(first)
                self.left -= 1
        if octets <= most:
            self.forget(client)
            return
        if not client.over_quota:
            self.crossed[client] = None
        self.over[client] = int(octets)
        self.crowding.exceed(client, now_us)

    def forget(self, client: ClientSession) -> None:
        """Stop tracking a session that is within the limit again, or has ended."""
        self.over.pop(client, None)
        self.crossed.pop(client, None)
        self.crowding.keep_within(client)
