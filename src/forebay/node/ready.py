"""The requests of a node's turn to the world around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from forebay.broker.audit import AuditEntry
from forebay.broker.joining import Joining
from forebay.directory.logins.authorizer import Proof
from forebay.log.room import Growth
from forebay.log.store import Job
from forebay.log.wal import Commit
from forebay.node.link import Link
from forebay.node.telemetry.events import Told
from forebay.node.telemetry.journal import Line
from forebay.queue.leases.lease import Delivery
from forebay.replica.outcome import Change

# Why a node stops.
CONNECTION: Final = "connection"  # the place of a fault
OWN_STATE: Final = "own state"  # the state in memory may be inconsistent
STORAGE: Final = "storage"  # the state on the disk may be inconsistent


@final
class Fault:
    """An internal error that has ended something, and not the broker.

    place  a kind of what it has ended: see server/faults.py
    what   it has ended, for people
    """

    def __init__(self, place: str, what: str, error: BaseException) -> None:
        self.place = place
        self.what = what
        self.error = error


@final
class Stop:
    """The node is at its end: nothing that it says later counts.

    why  OWN_STATE, STORAGE
    """

    def __init__(self, why: str, error: BaseException) -> None:
        self.why = why
        self.error = error


@final
class Ready:
    """To be done in the order of the fields; each stands here once.

    stop     the process has to end, and nothing else of this is to be done
    commit   to be run, which writes and syncs; then `Node.synced`
    job      to be run, which rewrites files; then `Node.job_done`
    messages  for other members of the group: name and octets
    read     the group's register is to be read
    change   to be made in the register
    copy_from  the member whose files this store is to be replaced by; "" for none
    needs_copy  the reason why this store can never take the frames of the leader; "" for none
    leads    the node is to lead: `Node.lead`
    anew     the reason why the process is to begin anew, such as that another node leads; "" for none
    growth   to be run, which reserves room for the log; then `Node.job_done`
    lines    for the log
    faults   errors of our own
    audit    who has changed what
    events   for listeners
    cut      connections to be ended at once, whatever waits for them
    send     connections that have something written to be sent
    close    connections to be sent what is written, and then closed as soon as they have taken it
    reading  connections to be read again, or no longer: by their `holds`
    proofs   proofs to be run and bodies to be put together, each on a thread of its own kind; then `Node.answered`
    now_us   when the turn was
    lsn      of the turn: what it has brought is durable when `durable` is as high
    durable  what is on the disk
    committed  the last frame that is committed, if that is new; 0 if not
    awaited  somebody waits for `lsn`
    delivery  the last that was delivered; None where none was
    again_us  when `Node.wake` is to be called, also if nothing happens; 0 for not at all
    """

    __slots__ = (
        "again_us",
        "anew",
        "audit",
        "awaited",
        "change",
        "close",
        "commit",
        "committed",
        "copy_from",
        "cut",
        "delivery",
        "durable",
        "events",
        "faults",
        "growth",
        "job",
        "leads",
        "lines",
        "lsn",
        "messages",
        "needs_copy",
        "now_us",
        "proofs",
        "read",
        "reading",
        "send",
        "stop",
    )

    def __init__(self) -> None:
        self.stop: Stop | None = None
        self.commit: Commit | None = None
        self.job: Job | None = None
        self.messages: Sequence[tuple[str, bytes]] = ()
        self.read = False
        self.change: Change | None = None
        self.copy_from = ""
        self.needs_copy = ""
        self.leads = False
        self.anew = ""
        self.growth: Growth | None = None
        self.cut: list[Link] = []
        self.send: list[Link] = []
        self.close: list[Link] = []
        self.reading: list[Link] = []
        self.proofs: Sequence[Proof | Joining] = ()
        self.events: Sequence[Told] = ()
        self.audit: Sequence[AuditEntry] = ()
        self.faults: list[Fault] = []
        self.lines: Sequence[Line] = ()
        self.now_us = 0
        self.lsn = 0
        self.durable = 0
        self.committed = 0
        self.awaited = False
        self.delivery: Delivery | None = None
        self.again_us = 0
