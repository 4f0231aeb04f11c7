"""The messages between members of a group, as octets.

Every message, little-endian:

     0  1  version, 1
     1  1  kind
     2  6  zeros
     8  8  epoch of the leader that sends or is answered; in REFUSED the promised epoch

and behind that, by kind:

    HEARTBEAT 1     16  8  the leader's clock when it was sent, µs
                    24  8  commit index
    ANSWER 2        16  8  the clock of the heartbeat that is answered, untouched
                    24 16  store id
    APPEND 3        16  8  LSN of the frame before the first one here, 0 for none
                    24  8  epoch of that frame, 0 for none
                    32  8  commit index
                    40  4  count of shipments
                    44  4  zeros
                    48     shipments, each:
                             0 32  head of the WAL file
                            32  8  position of the first octet in the file
                            40  8  LSN of the first frame
                            48  8  LSN of the last frame
                            56  8  epoch of the first frame
                            64  8  epoch of the last frame
                            72  8  octets n of the frames
                            80  n  frames, as they stand in the file
    ACK 4           16  8  the highest LSN that was verified against this epoch's leader and is synced
                    24 16  store id
    MISMATCH 5      16 16  store id
                    32  4  count of runs, newest first
                    36  4  zeros
                    40     runs, each: epoch, first LSN, last LSN, 8 octets each
    REFUSED 6       nothing: the sender has promised a higher epoch
    REWRITE 7       16  8  number of the WAL file
                    24  4  count of queues
                    28  4  zeros
                    32     queues, each: number u32, count of intervals u32, then first and end of each, 8 octets each
    COPY_OFFER 8    nothing: the frames that the store lacks are gone
    COPY_ASK 9      16 16  store id: the store asks to be replaced by a copy of the leader's files
    COPY_GRANT 10   16 16  the same store id: that store never counts again for this leader, so it may be replaced

Numbers are signed and never negative. An APPEND without shipments asks whether the member has the frame before. The
bytes of frames are checked by the store that adds them.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, read_i32_le, read_i64_le, write_i32_le, write_i64_le
from mypy_extensions import i32, i64

from forebay.core.errors import MALFORMED, UNSUPPORTED_VERSION, PeerError
from forebay.log.shipment import Shipment

VERSION: Final = 1
HEAD_OCTETS: Final = 16
FILE_HEAD_OCTETS: Final = 32
STORE_ID_OCTETS: Final = 16
RUNS_MAX: Final = 1024  # in one MISMATCH: the newest runs, if a log has more
SHIPMENTS_MAX: Final = 4096
QUEUES_MAX: Final = 1 << 22
INTERVALS_MAX: Final = 1 << 24

HEARTBEAT: Final = 1
ANSWER: Final = 2
APPEND: Final = 3
ACK: Final = 4
MISMATCH: Final = 5
REFUSED: Final = 6
REWRITE: Final = 7
COPY_OFFER: Final = 8
COPY_ASK: Final = 9
COPY_GRANT: Final = 10

ZEROS: Final = bytes(8)

Run = tuple[int, int, int]  # epoch, first LSN, last LSN
Interval = tuple[int, int]  # first offset, end


class PeerMessage:
    """A message from one member to another."""

    def __init__(self, epoch: i64) -> None:
        self.epoch: i64 = epoch


@final
class Heartbeat(PeerMessage):
    """A leader's sign of life. `sent_us` is the leader's own clock."""

    def __init__(self, epoch: i64, sent_us: i64, commit: i64) -> None:
        super().__init__(epoch)
        self.sent_us: i64 = sent_us
        self.commit: i64 = commit


@final
class HeartbeatAnswer(PeerMessage):
    """A member's answer to a heartbeat: a promise not to take over for a while from now on."""

    def __init__(self, epoch: i64, sent_us: i64, store_id: str) -> None:
        super().__init__(epoch)
        self.sent_us: i64 = sent_us
        self.store_id = store_id


@final
class Append(PeerMessage):
    """Frames of the leader's log that follow the frame `prev_lsn` of `prev_epoch`."""

    def __init__(self, epoch: i64, prev_lsn: i64, prev_epoch: i64, commit: i64, shipments: list[Shipment]) -> None:
        super().__init__(epoch)
        self.prev_lsn: i64 = prev_lsn
        self.prev_epoch: i64 = prev_epoch
        self.commit: i64 = commit
        self.shipments = shipments


@final
class Acknowledgement(PeerMessage):
    """A store has synced all frames up to `lsn`, as the leader of this epoch has them."""

    def __init__(self, epoch: i64, lsn: i64, store_id: str) -> None:
        super().__init__(epoch)
        self.lsn: i64 = lsn
        self.store_id = store_id


@final
class RunsDiffer(PeerMessage):
    """A store's report that it lacks the frame before. `runs` are its log's runs of epochs, newest first."""

    def __init__(self, epoch: i64, store_id: str, runs: list[Run]) -> None:
        super().__init__(epoch)
        self.store_id = store_id
        self.runs = runs


@final
class RefusedEpoch(PeerMessage):
    """The answer to a message of a lower epoch than the promised one. `epoch` is the promised one."""


@final
class RewriteOrder(PeerMessage):
    """The leader has rewritten this WAL file and kept these offsets of its queues. The member has to do so, too."""

    def __init__(self, epoch: i64, number: i64, wanted: dict[int, list[Interval]]) -> None:
        super().__init__(epoch)
        self.number: i64 = number
        self.wanted = wanted


@final
class CopyOffer(PeerMessage):
    """The leader has no longer the frames that the member lacks. The member has to copy the files."""


@final
class CopyAsk(PeerMessage):
    """A store's request to be replaced by a copy of the leader's files."""

    def __init__(self, epoch: i64, store_id: str) -> None:
        super().__init__(epoch)
        self.store_id = store_id


@final
class CopyGrant(PeerMessage):
    """The leader's permission to replace a store, which never counts for the commit of this leader again."""

    def __init__(self, epoch: i64, store_id: str) -> None:
        super().__init__(epoch)
        self.store_id = store_id


def put_u32(out: BytesWriter, value: i64) -> None:
    write_i32_le(out, i32(value - ((value >> 31) << 32)))


def encode_message(message: PeerMessage) -> bytes:
    """Return the bytes of one message, in the format that the module's docstring describes."""
    out = BytesWriter()
    if isinstance(message, Append):
        put_head(out, APPEND, message.epoch)
        put_append(out, message)
    elif isinstance(message, Acknowledgement):
        put_head(out, ACK, message.epoch)
        write_i64_le(out, message.lsn)
        out.write(bytes.fromhex(message.store_id))
    elif isinstance(message, Heartbeat):
        put_head(out, HEARTBEAT, message.epoch)
        write_i64_le(out, message.sent_us)
        write_i64_le(out, message.commit)
    elif isinstance(message, HeartbeatAnswer):
        put_head(out, ANSWER, message.epoch)
        write_i64_le(out, message.sent_us)
        out.write(bytes.fromhex(message.store_id))
    elif isinstance(message, RunsDiffer):
        put_head(out, MISMATCH, message.epoch)
        put_runs(out, message)
    elif isinstance(message, RewriteOrder):
        put_head(out, REWRITE, message.epoch)
        put_rewrite(out, message)
    elif isinstance(message, CopyOffer):
        put_head(out, COPY_OFFER, message.epoch)
    elif isinstance(message, CopyAsk):
        put_head(out, COPY_ASK, message.epoch)
        out.write(bytes.fromhex(message.store_id))
    elif isinstance(message, CopyGrant):
        put_head(out, COPY_GRANT, message.epoch)
        out.write(bytes.fromhex(message.store_id))
    else:
        assert isinstance(message, RefusedEpoch)
        put_head(out, REFUSED, message.epoch)
    return out.getvalue()


def put_head(out: BytesWriter, kind: int, epoch: i64) -> None:
    out.write(bytes((VERSION, kind)) + ZEROS[:6])
    write_i64_le(out, epoch)


def put_append(out: BytesWriter, message: Append) -> None:
    write_i64_le(out, message.prev_lsn)
    write_i64_le(out, message.prev_epoch)
    write_i64_le(out, message.commit)
    put_u32(out, i64(len(message.shipments)))
    put_u32(out, 0)
    for each in message.shipments:
        assert len(each.file_head) == FILE_HEAD_OCTETS
        out.write(each.file_head)
        write_i64_le(out, each.position)
        write_i64_le(out, each.first)
        write_i64_le(out, each.last)
        write_i64_le(out, each.first_epoch)
        write_i64_le(out, each.last_epoch)
        write_i64_le(out, i64(len(each.octets)))
        out.write(each.octets)


def put_runs(out: BytesWriter, message: RunsDiffer) -> None:
    runs = message.runs[:RUNS_MAX]
    out.write(bytes.fromhex(message.store_id))
    put_u32(out, i64(len(runs)))
    put_u32(out, 0)
    for epoch, first, last in runs:
        write_i64_le(out, i64(epoch))
        write_i64_le(out, i64(first))
        write_i64_le(out, i64(last))


def put_rewrite(out: BytesWriter, message: RewriteOrder) -> None:
    write_i64_le(out, message.number)
    put_u32(out, i64(len(message.wanted)))
    put_u32(out, 0)
    for queue in sorted(message.wanted):
        intervals = message.wanted[queue]
        put_u32(out, i64(queue))
        put_u32(out, i64(len(intervals)))
        for first, end in intervals:
            write_i64_le(out, i64(first))
            write_i64_le(out, i64(end))


@final
class MessageReader:
    """A reader of one message from its first byte to its last. Its methods raise PeerError on a malformed message."""

    def __init__(self, octets: bytes) -> None:
        self.octets = octets
        self.at: i64 = 0

    def need(self, count: i64) -> i64:
        """Return the position of the next `count` bytes, and advance past them. Raise PeerError if fewer are left."""
        at = self.at
        if count < 0 or count > i64(len(self.octets)) - at:
            raise PeerError(MALFORMED, f"a message of {len(self.octets)} octets ends before octet {at + count}")
        self.at = at + count
        return at

    def take(self, count: i64) -> bytes:
        at = self.need(count)
        return self.octets[at : at + count]

    def number(self, field: str) -> i64:
        """Return the next 8 bytes as a number. Raise PeerError if it is negative."""
        value = read_i64_le(self.octets, self.need(8))
        if value < 0:
            raise PeerError(MALFORMED, f"{field} is {value}, which is negative")
        return value

    def count(self, field: str, most: i64) -> i64:
        value = i64(read_i32_le(self.octets, self.need(4))) & 0xFFFFFFFF
        if value > most:
            raise PeerError(MALFORMED, f"{field} is {value}, at most {most} can be")
        return value

    def zeros(self, count: i64) -> None:
        if self.take(count) != ZEROS[:count]:
            raise PeerError(MALFORMED, f"octets {self.at - count} to {self.at - 1} of a message are not zeros")

    def store_id(self) -> str:
        return self.take(STORE_ID_OCTETS).hex()


def decode_message(octets: bytes) -> PeerMessage:
    """Return the message in `octets`. Raise PeerError unless every byte is as the module's docstring describes."""
    reader = MessageReader(octets)
    at = reader.need(2)
    if octets[at] != VERSION:
        raise PeerError(UNSUPPORTED_VERSION, f"version {octets[at]} of a message is unknown, here is {VERSION}")
    kind = i64(octets[at + 1])
    reader.zeros(6)
    epoch = reader.number("epoch")
    message = read_body(reader, kind, epoch)
    if reader.at != i64(len(octets)):
        raise PeerError(MALFORMED, f"a message of kind {kind} has {i64(len(octets)) - reader.at} octets too many")
    return message


def read_body(reader: MessageReader, kind: i64, epoch: i64) -> PeerMessage:
    """Return the message behind the head, by its kind. Raise PeerError if the kind is unknown."""
    if kind == APPEND:
        return read_append(reader, epoch)
    if kind == ACK:
        lsn = reader.number("lsn")
        return Acknowledgement(epoch, lsn, reader.store_id())
    if kind == HEARTBEAT:
        sent_us = reader.number("sent")
        return Heartbeat(epoch, sent_us, reader.number("commit"))
    if kind == ANSWER:
        sent_us = reader.number("sent")
        return HeartbeatAnswer(epoch, sent_us, reader.store_id())
    if kind == MISMATCH:
        return read_runs(reader, epoch)
    if kind == REWRITE:
        return read_rewrite(reader, epoch)
    if kind == COPY_OFFER:
        return CopyOffer(epoch)
    if kind == COPY_ASK:
        return CopyAsk(epoch, reader.store_id())
    if kind == COPY_GRANT:
        return CopyGrant(epoch, reader.store_id())
    if kind == REFUSED:
        return RefusedEpoch(epoch)
    raise PeerError(MALFORMED, f"kind {kind} of a message is unknown")


def read_append(reader: MessageReader, epoch: i64) -> Append:
    prev_lsn = reader.number("prev_lsn")
    prev_epoch = reader.number("prev_epoch")
    commit = reader.number("commit")
    count = reader.count("shipments", SHIPMENTS_MAX)
    reader.zeros(4)
    if prev_epoch > epoch or (prev_lsn == 0 and prev_epoch != 0):
        raise PeerError(MALFORMED, f"prev_epoch is {prev_epoch} of LSN {prev_lsn} in an append of epoch {epoch}")
    shipments: list[Shipment] = []
    before = prev_lsn
    before_epoch = prev_epoch
    for _ in range(count):
        each = read_shipment(reader)
        if each.first != before + 1 or each.last < each.first:
            raise PeerError(MALFORMED, f"frames {each.first} to {each.last} do not follow LSN {before}")
        if each.first_epoch < before_epoch or each.last_epoch < each.first_epoch or each.last_epoch > epoch:
            raise PeerError(
                MALFORMED,
                f"epochs {each.first_epoch} to {each.last_epoch} follow {before_epoch} in an append of epoch {epoch}",
            )
        before = each.last
        before_epoch = each.last_epoch
        shipments.append(each)
    return Append(epoch, prev_lsn, prev_epoch, commit, shipments)


def read_shipment(reader: MessageReader) -> Shipment:
    file_head = reader.take(FILE_HEAD_OCTETS)
    position = reader.number("position")
    first = reader.number("first")
    last = reader.number("last")
    first_epoch = reader.number("first_epoch")
    last_epoch = reader.number("last_epoch")
    octets = reader.number("octets")
    return Shipment(file_head, position, first, last, first_epoch, last_epoch, reader.take(octets))


def read_runs(reader: MessageReader, epoch: i64) -> RunsDiffer:
    store_id = reader.store_id()
    count = reader.count("runs", RUNS_MAX)
    reader.zeros(4)
    runs: list[Run] = []
    for _ in range(count):
        run_epoch = reader.number("run's epoch")
        first = reader.number("run's first LSN")
        last = reader.number("run's last LSN")
        if first < 1 or last < first:
            raise PeerError(MALFORMED, f"a run of frames from {first} to {last} cannot be")
        runs.append((int(run_epoch), int(first), int(last)))
    return RunsDiffer(epoch, store_id, runs)


def read_rewrite(reader: MessageReader, epoch: i64) -> RewriteOrder:
    file_number = reader.number("number")
    count = reader.count("queues", QUEUES_MAX)
    reader.zeros(4)
    wanted: dict[int, list[Interval]] = {}
    for _ in range(count):
        queue = int(reader.count("queue", 0xFFFFFFFF))
        length = reader.count("intervals", INTERVALS_MAX)
        intervals: list[Interval] = []
        end: i64 = 0
        for _ in range(length):
            first = reader.number("first offset")
            if first < end:
                raise PeerError(MALFORMED, f"queue {queue}: an interval begins at {first}, before {end}")
            end = reader.number("end")
            if end <= first:
                raise PeerError(MALFORMED, f"queue {queue}: an interval from {first} to {end} is empty")
            intervals.append((int(first), int(end)))
        if queue in wanted:
            raise PeerError(MALFORMED, f"queue {queue} is named twice")
        wanted[queue] = intervals
    return RewriteOrder(epoch, file_number, wanted)
