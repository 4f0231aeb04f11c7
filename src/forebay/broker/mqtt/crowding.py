"""MQTT sessions that do not keep up while they are connected: who publishes to them is held back, for a bounded time.

A session is crowded when more waits for it than it may have waiting, or when its connection does not take what it is
sent. It is relieved when less waits. One that is not relieved in time, and does not get any further, is given up:
nobody is held back for it any more, and what it does not take goes to the disk where its session is durable, and is
lost where it is not.

A durable session for which too much waits on the disk (`session_quota`) is crowded likewise, connected or not; once its
publishers have waited for long enough, they are refused.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.broker.mqtt.client_session import ClientSession

DURABLE_HOLD_US: Final = 100_000  # for a session that loses nothing, publishers wait no longer than this
RELIEF_SHIFT: Final = 3  # an eighth of the limit less is enough to go on, and to be worth waiting for


@final
class Crowding:
    """The crowded sessions of all vhosts.

    hold_us   how long publishers are held back for one of them
    count     of them
    epoch     another number whenever they are others
    refusing  sessions that take nothing of QoS 1 and 2
    relieved  there are less of them than there were: the server looks whom it holds, and says so here
    """

    def __init__(self) -> None:
        self.hold_us: i64 = 0
        self.clients: dict[ClientSession, None] = {}
        self.count: i64 = 0
        self.refusing: i64 = 0
        self.epoch: i64 = 1
        self.relieved = False

    def check(self, client: ClientSession, now_us: i64) -> None:
        """Hold back a session's publishers if more waits for it than may, or if its connection takes no more."""
        if client.crowded:
            client.crowded_at = max(client.crowded_at, client.mqueue.count)  # what was on its way when it became so
        if client.crowded or client.given_up or client.connection == 0:
            return
        most = client.mqueue.rules.crowd_at
        if not client.full and (most == 0 or client.mqueue.count <= most):
            return
        if self.hold_us == 0:
            self.give_up(client)
            return
        client.crowded = True
        self.extend(client, now_us)
        self.clients[client] = None
        self.changed()

    def extend(self, client: ClientSession, now_us: i64) -> None:
        """Hold its publishers back from now on, or again, as it has got a good deal further."""
        hold_us = self.hold_us
        if client.durable and not client.full:
            hold_us = min(hold_us, DURABLE_HOLD_US)
        client.crowded_until_us = now_us + hold_us
        client.crowded_at = client.mqueue.count

    def look(self, client: ClientSession, now_us: i64) -> None:
        """End or extend the hold, as less waits for a crowded session, or its connection takes more again."""
        if client.over_quota:
            return  # that is looked at elsewhere
        most = client.mqueue.rules.crowd_at
        step = max(1, most >> RELIEF_SHIFT)
        count = client.mqueue.count
        if not client.full and (most == 0 or count <= most - step):
            self.relieve(client)
        elif client.crowded and count <= client.crowded_at - step:
            self.extend(client, now_us)

    def relieve(self, client: ClientSession) -> None:
        """Let publishers go on: the session keeps up again, or its connection is gone."""
        if client.given_up:
            client.given_up = False
            client.mqueue.limit = client.mqueue.rules.limit
        self.remove(client)

    def give_up(self, client: ClientSession) -> None:
        """Hold nobody back for this session until it has caught up."""
        client.given_up = True
        if not client.durable and client.mqueue.rules.crowd_at:
            client.mqueue.limit = client.mqueue.rules.crowd_at
        self.remove(client)

    def exceed(self, client: ClientSession, now_us: i64) -> None:
        """Hold its publishers back, as more waits on the disk for this session than may."""
        if client.refuses or (client.over_quota and client.crowded):
            return
        client.over_quota = True
        if self.hold_us == 0:
            self.refuse(client)
            return
        client.crowded = True
        client.crowded_until_us = now_us + self.hold_us
        self.clients[client] = None
        self.changed()

    def refuse(self, client: ClientSession) -> None:
        """Refuse what is published to a session, as its publishers have been held back for long enough."""
        client.refuses = True
        self.refusing += 1
        self.remove(client)

    def keep_within(self, client: ClientSession) -> None:
        """End the hold and the refusal, as no more waits on the disk for this session than may."""
        if not client.over_quota:
            return
        client.over_quota = False
        if client.refuses:
            client.refuses = False
            self.refusing -= 1
        self.remove(client)

    def remove(self, client: ClientSession) -> None:
        if client.crowded:
            client.crowded = False
            del self.clients[client]
            self.relieved = True
            self.changed()

    def changed(self) -> None:
        self.count = len(self.clients)
        self.epoch += 1

    def tick(self, now_us: i64) -> None:
        """Give up those that others have waited for long enough."""
        for client in list(self.clients):
            if client.crowded_until_us > now_us:
                continue
            if client.over_quota:
                self.refuse(client)
            else:
                self.give_up(client)
