"""The state of one MQTT client beyond its connection: subscriptions, what is in flight, what waits.

A session is durable where it outlives its connection. What changes is then noted in the write-ahead log: small notes in
msgpack, and the way of messages as operations of 16 octets each:

    0  1  operation
    1  2  packet identifier
    3  5  count: so many consecutive identifiers and offsets
    8  8  offset in the sessions' log

Exactly once rests on these notes: a packet identifier means the same message after a crash, so an assignment is on disk
before a QoS 2 PUBLISH leaves, and so is what a PUBREC or PUBREL has changed before it is answered.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64

from forebay.queue.mqueue import Mqueue, MqueueRules

NEVER: Final = 0xFFFF_FFFF  # seconds of expiry that mean: the session does not end by itself

# Operations.
ASSIGNED_1: Final = 1  # sent at QoS 1 under this identifier
ASSIGNED_2: Final = 2  # the same at QoS 2
RELEASED: Final = 3  # PUBREC came
COMPLETED: Final = 4  # PUBACK or PUBCOMP came
TAKEN: Final = 5  # sent at QoS 0, or dropped: nothing remains to be done
RECEIVED: Final = 6  # a PUBLISH of QoS 2 came
FORGOTTEN: Final = 7  # its PUBREL came
OPERATION_OCTETS: Final = 16

# The packet that an identifier in flight waits for.
PHASE_BITS: Final = 2
AWAIT_PUBACK: Final = 1
AWAIT_PUBREC: Final = 2
AWAIT_PUBCOMP: Final = 3

# Where the rights of a session's user are known while its client is away.
STORED: Final = 0  # in the permissions stored here
VOUCHED: Final = 1  # the same, and a certificate vouches for the user
EXTERNAL: Final = 2  # only with a login: a token has them, or another server
ANONYMOUS: Final = 3  # stored here, of clients that give no user name


@final
class Owner:
    """The user that made an MQTT session, and the only one that may use or end it.

    user       empty of sessions that were stored before sessions had owners
    authority  STORED, VOUCHED, EXTERNAL or ANONYMOUS
    """

    def __init__(self, user: str, authority: i64) -> None:
        self.user = user
        self.authority: i64 = authority


NOBODY: Final = Owner("", STORED)


@final
class Will:
    """The message to be published when the connection ends without DISCONNECT."""

    def __init__(self, topic: bytes, body: bytes, properties: bytes, qos: i64, retain: bool, delay_s: i64) -> None:
        self.topic = topic
        self.body = body
        self.properties = properties
        self.qos: i64 = qos
        self.retain = retain
        self.delay_s: i64 = delay_s


@final
class Subscription:
    """One client's subscription to one topic filter.

    since       offset in the sessions' log: only later messages are meant
    identifier  of version 5; 0 for none
    arguments   of a subscription to a queue, as `Vhost.consume` takes them
    """

    def __init__(self, client: ClientSession, filter: bytes, qos: i64, since: i64) -> None:
        self.id: i64 = 0
        self.client = client
        self.filter = filter
        self.qos: i64 = qos
        self.since: i64 = since
        self.no_local = False
        self.keep_retain = False
        self.identifier: i64 = 0
        self.arguments: dict[str, object] = {}


@final
class ClientSession:
    """One user's session of one client identifier.

    next        the session that another user has under the same identifier, or None
    checked     `Rights.stamp` of when its subscriptions were last found to be permitted; -1 for never
    number      names it in the write-ahead log; never used twice
    connection  session id of the connection that has it, 0 while there is none
    resumed     that connection, or the last one, has found it there: the session present flag of its CONNACK
    covered     offset: for what is before, `mqueue` and `inflight` say all; later records are matched again in recovery
    away_from   offset: what was published at QoS 0 from here to `away_to` waits, as the client was not there
    inflight    packet identifier -> offset << PHASE_BITS | phase, in the order of sending
    received    identifiers of QoS 2 publishes whose PUBREL has not come
    missed      QoS 0 messages not given to its connection, which did not keep up
    full        its connection has more to send than it should
    crowded     publishers are held back for it until `crowded_until_us`, or longer if then less than `crowded_at` waits
    given_up    they were for too long
    over_quota  more waits for it on the disk than may
    refuses     publishers were held back for that, and what they publish to it is refused
    told        how many of `mqueue.dropped` and `missed` the operator has been told of, at `told_us`
    """

    def __init__(self, number: i64, client_id: bytes, durable: bool, expiry_s: i64, rules: MqueueRules) -> None:
        self.number: i64 = number
        self.client_id = client_id
        self.owner = NOBODY
        self.next: ClientSession | None = None
        self.checked: i64 = -1
        self.durable = durable
        self.expiry_s: i64 = expiry_s
        self.connection: i64 = 0
        self.resumed = False
        self.paused = False
        self.missed: i64 = 0
        self.full = False
        self.crowded = False
        self.crowded_until_us: i64 = 0
        self.crowded_at: i64 = 0
        self.given_up = False
        self.over_quota = False
        self.refuses = False
        self.told: i64 = 0
        self.told_us: i64 = 0
        self.ended = False
        self.ended_us: i64 = 0  # when its connection ended, 0 while it has one
        self.covered: i64 = 0
        self.away_from: i64 = 0
        self.away_to: i64 = 0
        self.subscriptions: dict[bytes, Subscription] = {}
        self.mqueue = Mqueue(rules)
        self.inflight: dict[int, int] = {}
        self.received: set[int] = set()
        self.will: Will | None = None
        self.will_due_us: i64 = 0
        # notes
        self.notes: BytesWriter | None = None
        self.noted = False  # in the list of those with something to note
        self.lowered = False  # to QoS 0 in this turn: what waits has to be noted when all that came in it is in the log
        self.urgent = False
        self.last_operation: i64 = 0
        self.last_id: i64 = 0
        self.last_count: i64 = 0
        self.last_offset: i64 = 0
        # recovery
        self.kept: list[int] = []  # first, end, ... of what waited below `covered`
        self.taken: list[int] = []  # first, end, ... of what was taken out of the backlog since
        self.unreadable: list[int] = []  # first, end, ... of what waited and could not be read

    def lost(self) -> i64:
        """Messages that it will never get: dropped from its queue, or not given to its connection."""
        return self.mqueue.dropped + self.missed

    # ---- what happens, and its note

    def operate(self, operation: i64, id: i64, offset: i64) -> None:
        """Note one operation; neighbours become one."""
        has_id = operation != TAKEN
        has_offset = operation <= ASSIGNED_2 or operation == TAKEN
        if (
            operation == self.last_operation
            and (not has_id or id == self.last_id + self.last_count)
            and (not has_offset or offset == self.last_offset + self.last_count)
        ):
            self.last_count += 1
            return
        self.cut_note()
        self.last_operation = operation
        self.last_id = id
        self.last_count = 1
        self.last_offset = offset

    def cut_note(self) -> None:
        if self.last_count == 0:
            return
        notes = self.notes
        if notes is None:
            notes = self.notes = BytesWriter()
        write_i64_le(notes, self.last_operation | self.last_id << 8 | self.last_count << 24)
        write_i64_le(notes, self.last_offset)
        self.last_count = 0
        self.last_operation = 0

    def take_notes(self) -> bytes:
        """Return the operations recorded since the last call, and clear them."""
        self.cut_note()
        notes = self.notes
        if notes is None:
            return b""
        self.notes = None
        return notes.getvalue()

    # ---- recovery

    def restore_operations(self, payload: bytes) -> None:
        """Apply what `take_notes` gave."""
        for at in range(0, i64(len(payload)), OPERATION_OCTETS):
            word = read_i64_le(payload, at)
            offset = read_i64_le(payload, at + 8)
            operation = word & 0xFF
            id = word >> 8 & 0xFFFF
            count = word >> 24
            for step in range(count):
                self.restore_operation(operation, id + step, offset + step)
            if operation <= ASSIGNED_2 or operation == TAKEN:
                taken = self.taken
                if taken and taken[-1] == offset:
                    taken[-1] = int(offset + count)
                else:
                    taken.append(int(offset))
                    taken.append(int(offset + count))

    def restore_operation(self, operation: i64, id: i64, offset: i64) -> None:
        if operation == ASSIGNED_1:
            self.inflight[int(id)] = int(offset << PHASE_BITS | AWAIT_PUBACK)
        elif operation == ASSIGNED_2:
            self.inflight[int(id)] = int(offset << PHASE_BITS | AWAIT_PUBREC)
        elif operation == RELEASED:
            self.inflight.pop(int(id), None)
            self.inflight[int(id)] = AWAIT_PUBCOMP
        elif operation == COMPLETED:
            self.inflight.pop(int(id), None)
        elif operation == RECEIVED:
            self.received.add(int(id))
        elif operation == FORGOTTEN:
            self.received.discard(int(id))

    def has_taken(self, offset: i64) -> bool:
        """Return whether the record has left the backlog. The search is binary, as the bounds ascend."""
        taken = self.taken
        low: i64 = 0
        high: i64 = len(taken)
        while low < high:
            middle = (low + high) >> 1
            if taken[middle] > offset:
                high = middle
            else:
                low = middle + 1
        return low & 1 == 1

    def floor(self, none: i64) -> i64:
        """Return the lowest offset that this client still needs, or `none` if it needs none."""
        lowest = self.mqueue.floor(none)
        for value in self.inflight.values():
            word: i64 = value
            if word & 3 != AWAIT_PUBCOMP and word >> PHASE_BITS < lowest:
                lowest = word >> PHASE_BITS
        return lowest

    def wanted(self, first: i64, end: i64) -> list[tuple[int, int]]:
        """Intervals of [first, end) that this client still wants, in no order."""
        found = self.mqueue.logged(first, end)
        for value in self.inflight.values():
            word: i64 = value
            offset = word >> PHASE_BITS
            if word & 3 != AWAIT_PUBCOMP and first <= offset < end:
                found.append((int(offset), int(offset + 1)))
        return found
