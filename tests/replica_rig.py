"""One member of a group in the test's hand: what it says is read, and what others say is told."""

from __future__ import annotations

from forebay.replica.member import Member
from forebay.replica.messages import (
    Acknowledgement,
    Append,
    Heartbeat,
    HeartbeatAnswer,
    PeerMessage,
    decode_message,
    encode_message,
)
from forebay.replica.outcome import LEADER, Change, Outcome
from forebay.replica.register import TAKE_OVER, MemberAddresses, RegisterValue, View
from forebay.replica.settings import ReplicaSettings
from tests.simulation.replica.logs import SimFrame, SimLog

MS = 1_000
SECOND = 1_000_000
ADDRESSES = MemberAddresses("host:1", {})


def store(node: str, number: int = 1) -> str:
    """A store id of a node's folder."""
    return f"{ord(node):016x}{number:016x}"


def frames(*epochs: int) -> list[SimFrame]:
    """One frame an epoch."""
    return [(epoch, ("P", 0, number)) for number, epoch in enumerate(epochs)]


def value(
    epoch: int,
    leader: str,
    in_sync: str = "abc",
    members: str = "abc",
    min_in_sync: int = 2,
    why: str = TAKE_OVER,
    by: str = "",
) -> RegisterValue:
    """What the register says, of nodes whose names are letters."""
    stores = {node: store(node) for node in in_sync}
    return RegisterValue("test", epoch, leader, stores, dict.fromkeys(members, ADDRESSES), min_in_sync, why, by)


def only(messages: list[PeerMessage]) -> PeerMessage:
    """The one message of a list."""
    assert len(messages) == 1, messages
    return messages[0]


class HeldMember:
    """A member named `a`, which has started. Its log takes what it asks for; `sync` is the disk."""

    def __init__(
        self, made: type[Member] = Member, log: list[SimFrame] | None = None, promised: int = 0, name: str = "a"
    ) -> None:
        self.now = 100 * SECOND
        self.name = name
        self.log = SimLog(name, list(log or []))
        self.settings = ReplicaSettings()
        self.member = made(name, store(name), promised, self.log, self.settings)
        self.said: list[tuple[str, PeerMessage]] = []
        self.changes: list[Change] = []
        self.probes: list[str] = []
        self.events: list[str] = []
        self.reads = 0
        self.revision = 0
        self.promise = 0
        self.copy_from = ""
        self.unwritten: list[tuple[int, int]] = []
        self.begun = 0
        self.out = Outcome()
        self.member.start(self.now)
        self.look()

    # What it asks for.

    def look(self) -> None:
        """Take what it asks for, and do what a node does at once."""
        is_refused = False
        out = self.out = self.member.take()
        for taking in out.takings:
            if self.log.take(taking):
                self.unwritten.append((int(taking.epoch), int(taking.last)))
            else:
                self.member.mismatched(taking.epoch, self.now)
                is_refused = True
        self.promise = max(self.promise, int(out.promise))
        self.said += [(peer, decode_message(octets)) for peer, octets in out.messages]
        if out.change is not None:
            self.changes.append(out.change)
        self.probes += out.probe
        self.events += out.events
        self.reads += out.read
        self.copy_from = out.copy_from or self.copy_from
        if out.role == LEADER and out.epoch != self.begun:
            self.begun = int(out.epoch)
            self.append("barrier")
        if is_refused:
            self.look()

    def heard_by(self, peer: str, kind: type[PeerMessage]) -> list[PeerMessage]:
        """All that it has said of this kind to a peer, and forget it."""
        found = [message for to, message in self.said if to == peer and isinstance(message, kind)]
        self.said = [(to, message) for to, message in self.said if to != peer or not isinstance(message, kind)]
        return found

    def acknowledged(self, peer: str) -> list[int]:
        """What it has acknowledged to a peer since this was asked."""
        return [
            int(message.lsn) for message in self.heard_by(peer, Acknowledgement) if isinstance(message, Acknowledgement)
        ]

    def change(self) -> Change:
        """The only change that it has asked for since this was asked."""
        changes, self.changes = self.changes, []
        assert len(changes) == 1, changes
        return changes[0]

    def role(self) -> str:
        return self.member.role()

    def commit(self) -> int:
        return int(self.member.take().commit)

    # What it is told.

    def pass_time(self, time: int, step: int = 50 * MS) -> None:
        """With ticks."""
        end = self.now + time
        while self.now < end:
            self.now = min(self.now + step, end)
            self.member.tick(self.now)
            self.look()

    def see(self, said: RegisterValue, revision: int = 0) -> None:
        self.revision = revision or self.revision + 1
        self.member.seen(View(self.revision, said), self.now)
        self.look()

    def hear(self, peer: str, message: PeerMessage) -> None:
        self.member.message(peer, encode_message(message), self.now)
        self.look()

    def hear_append(self, peer: str, epoch: int, prev: tuple[int, int], *epochs: int, commit: int = 0) -> None:
        """Frames of these epochs behind `prev`, an LSN and an epoch."""
        source = SimLog(peer, [(0, ())] * prev[0] + [(each, ("new", epoch, each)) for each in epochs])
        shipments = source.frames_from(prev[0] + 1, 1 << 20) if epochs else []
        assert shipments is not None
        self.hear(peer, Append(epoch, prev[0], prev[1], commit, shipments))

    def refused(self, peer: str, tried: int | None = None) -> None:
        self.member.refused(peer, self.now if tried is None else tried, self.now)
        self.look()

    def sync(self) -> None:
        """The disk has everything."""
        self.member.promised(self.promise, self.now)
        self.look()
        for epoch, last in self.unwritten:
            self.member.written(epoch, last, self.now)
        self.unwritten.clear()
        self.look()

    # While it leads.

    def append(self, said: str = "frame") -> int:
        """Its LSN."""
        self.log.frames.append((self.begun, ("P", said, 0)))
        lsn = len(self.log.frames)
        self.unwritten.append((self.begun, lsn))
        self.member.appended(lsn, self.now)
        self.look()
        return lsn

    def answer(self, *peers: str, number: int = 1, sent: int | None = None) -> None:
        """Heartbeats of just now are answered."""
        for peer in peers:
            self.hear(peer, HeartbeatAnswer(self.begun, self.now if sent is None else sent, store(peer, number)))

    def acknowledge(self, lsn: int, *peers: str, number: int = 1, epoch: int = 0) -> None:
        for peer in peers:
            self.hear(peer, Acknowledgement(epoch or self.begun, lsn, store(peer, number)))

    def can_deliver(self) -> bool:
        return self.member.can_deliver(self.now)


def leader(
    made: type[Member] = Member,
    in_sync: str = "abc",
    members: str = "abc",
    min_in_sync: int = 2,
    log: list[SimFrame] | None = None,
) -> HeldMember:
    """One that leads epoch 2, whose barrier is committed and whose promises are over; all have answered just now."""
    held = HeldMember(made, frames(1, 1) if log is None else log)
    held.see(value(2, "a", in_sync, members, min_in_sync))
    held.sync()
    others = [node for node in members if node != "a"]
    for _ in range(22):
        held.pass_time(50 * MS)
        held.answer(*others)
        held.acknowledge(len(held.log.frames), *[node for node in others if node in in_sync])
    assert held.role() == LEADER
    held.changes.clear()
    held.said.clear()
    return held


def follower(made: type[Member] = Member, log: list[SimFrame] | None = None, promised: int = 0) -> HeldMember:
    """One that follows `b` in epoch 2, with its promise on the disk."""
    held = HeldMember(made, frames(1, 1) if log is None else log, promised)
    held.see(value(2, "b"))
    held.sync()
    held.hear("b", Heartbeat(2, 1, 0))
    held.said.clear()
    return held
