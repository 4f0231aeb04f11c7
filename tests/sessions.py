"""A session of any protocol over a vhost on a real store, without sockets: octets go in by hand, turns end by hand."""

from __future__ import annotations

from collections.abc import Callable

from forebay.broker.auth import Auth
from forebay.broker.vhosts import Vhosts
from forebay.core.options import Options, make_options
from forebay.log.store import Store
from forebay.server.disk import DataDisk
from forebay.session.effects import Session
from tests.stores import SMALL, TestClock

MakeSession = Callable[[int, Vhosts, Auth, Options, bool], Session]


class SessionRig:
    """One session, and everything below it.

    sent  what it has written, of all turns that ended
    """

    def __init__(self, folder: str, make: MakeSession, **options: object) -> None:
        self.clock = TestClock()
        self.disk = DataDisk(folder)
        self.store = Store(self.disk, self.clock, SMALL)
        self.store.open()
        made = make_options(options)
        self.vhosts = Vhosts(self.store, made)
        self.vhost = self.vhosts.default
        self.vhosts.recover([], self.clock.us)
        self.store.start(self.vhost.checkpoint())
        self.session = make(1, self.vhosts, Auth(made.users), made, True)
        self.rest = b""
        self.sent = b""

    def send(self, octets: bytes) -> None:
        """What comes in one read, as the server hands it over."""
        if self.session.closing:
            return
        data = self.rest + octets
        used = self.session.receive(data)
        assert 0 <= used <= len(data)
        self.rest = data[used:]

    def turn(self) -> None:
        """The end of a turn whose writes are on disk at once."""
        for delivery in self.vhost.end_turn(self.clock.us):
            self.session.deliver(delivery)
        self.vhost.note_sessions()
        cancelled, self.vhost.cancelled = self.vhost.cancelled, []
        for consumer in cancelled:
            self.session.cancelled(consumer)
        commit = self.store.commit()
        if commit is not None:
            commit.run()
            self.store.synced(commit)
            self.vhost.synced()
        self.session.end_turn(self.store.lsn, self.store.lsn)
        self.sent += self.session.out.getvalue()
        self.session.out.truncate(0)

    def close(self) -> None:
        """The connection is gone; nothing may be left of it."""
        self.session.closed()
        for queue in self.vhost.queues.values():
            assert queue.consumer_count() == 0
        self.disk.close_all()
