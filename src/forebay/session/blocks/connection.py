"""The block protocol's session: access to the logs of queues, whole blocks at a time, and administration.

Nothing is copied into records here and nothing waits: an answer is at most one long block or FETCH_OCTETS_MAX of short
ones. While the connection takes no more octets, fetches wait in `pending`, so that a client which asks and does not
read costs the broker no more than the send buffer and FETCHES_MAX answers.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import read_i32_le
from mypy_extensions import i64

from forebay.broker.administration import Administration
from forebay.broker.auth.authorizer import Principal, Undecided
from forebay.broker.auth.login import Auth, LoginRefused
from forebay.broker.vhosts import Vhosts
from forebay.core.errors import (
    INTERNAL,
    INVALID,
    MALFORMED,
    REFUSED,
    TAKEN_OVER,
    TIMED_OUT,
    UNEXPECTED,
    PeerError,
    RequestError,
    StorageError,
    UnreadableFile,
)
from forebay.core.options import Options
from forebay.log.block import Block, make_head
from forebay.log.queue_log import QueueLog, Stretch
from forebay.queue.leases.lease import Consumer, Delivery
from forebay.queue.queue import Queue
from forebay.session.blocks.picking import WORK_A_TURN, Picking
from forebay.session.blocks.projection import Projection
from forebay.session.blocks.reading import ReaderRequests, description
from forebay.session.blocks.staging import Stager
from forebay.session.session import FilePart, Session
from forebay.wire.blocks.frames import (
    ABORT,
    AUTH,
    BLOCKS_OCTETS_MAX,
    COMMIT,
    CONTROL,
    CONTROL_OCTETS_MAX,
    DELIVERIES,
    DESCRIBE,
    ENDS,
    FETCH,
    FETCH_OCTETS_MAX,
    FETCHES_MAX,
    FRAME_HEAD_OCTETS,
    HOLD,
    OFFSET_AT,
    PICKED,
    PREFACE,
    PREFACE_OCTETS,
    QUEUES,
    RELEASE,
    REPLY,
    REPLY_OCTETS_MAX,
    REQUEST,
    REQUEST_OCTETS_MAX,
    STAGE,
    STAGE_OCTETS_MAX,
    TRANSACTION,
    WHOLE_BLOCKS,
    BlocksFrame,
    Request,
    decode_frame,
    decode_preface,
    decode_request,
    encode_blocks_head,
    encode_error,
    encode_json,
    frame_octets,
)

MICROSECONDS: Final = 1000
FILE_OCTETS_MIN: Final = 256 << 10  # less is not worth the way over another thread
HELD: Final = 1 << 62  # until the turn's end says what the answer waits for


@final
class BlocksSession(Session):
    """One reader of blocks."""

    def __init__(
        self, session_id: int, vhosts: Vhosts, auth: Auth, options: Options, loopback: bool, control: Administration
    ) -> None:
        super().__init__(session_id, vhosts.default)
        self.vhosts = vhosts
        self.auth = auth
        self.control = control
        self.loopback = loopback
        self.greeted = False
        self.user = ""
        self.vhost_name = vhosts.default.name
        self.reading = ReaderRequests(session_id, options)
        self.picking = Picking()
        self.is_sending = False  # a file; what is asked meanwhile waits
        self.stager = Stager(options)
        self.pending: list[Request] = []  # in order; of the first the answer may be awaited
        self.fetches: i64 = 0  # answered since the turn began
        self.handshake_us: i64 = options.handshake_timeout_ms * MICROSECONDS
        self.opened_us: i64 = 0  # at the first tick
        self.fetched_octets: i64 = 0
        self.changing = False  # something was changed in this turn
        self.changed_lsn: i64 = 0  # when this is durable, all changes of the turns before are on disk

    def receive(self, data: bytes) -> int:
        at: i64 = 0
        begun: i64 = 0
        if self.is_proving():
            return 0
        try:
            if not self.greeted:
                at = decode_preface(data)
                if at == 0:
                    return 0
                self.greeted = True
                self.out.write(PREFACE)
            while not self.closing:
                begun = at
                if self.is_stage(data, at):
                    end = at + frame_octets(data, at, STAGE_OCTETS_MAX)
                    if end > len(data):
                        break
                    self.on_stage(data, at + FRAME_HEAD_OCTETS, end)
                    at = end
                    continue
                frame = decode_frame(data, at, self.request_octets_max())
                if frame is None:
                    break
                at += frame.octets
                self.on_frame(frame)
                if self.is_proving():
                    return int(at)
        except Undecided as error:
            self.ask(self.auth, error)
            return int(begun)
        except PeerError as error:
            if not self.greeted:
                self.greeted = True
                self.out.write(PREFACE)
            self.fail(error)
            return len(data)
        return len(data) if self.closing else int(at)

    def wanted(self, rest: bytes) -> int:
        if not self.greeted:
            return PREFACE_OCTETS
        most = STAGE_OCTETS_MAX if self.is_stage(rest, 0) else self.request_octets_max()
        return int(frame_octets(rest, 0, most))

    def is_stage(self, data: bytes, at: i64) -> bool:
        """True if rows to be staged begin here; they are long, and are not cut out before their block is."""
        return len(data) - at >= FRAME_HEAD_OCTETS and data[at + 4] == STAGE and bool(self.user)

    def on_stage(self, data: bytes, at: i64, end: i64) -> None:
        if self.pending:
            raise PeerError(UNEXPECTED, "a STAGE frame before the answers to earlier requests")
        try:
            self.reply("stage", self.stager.stage(self.vhost, self.rights, data, at, end))
        except RequestError as error:
            self.refuse(error)

    def request_octets_max(self) -> i64:
        """Only who has logged in may make the broker hold long requests."""
        return CONTROL_OCTETS_MAX if self.user else REQUEST_OCTETS_MAX

    def fail(self, error: PeerError) -> None:
        """Say what the peer broke, and end the connection."""
        self.out.write(encode_error("protocol", error.reason, error.text))
        self.reason = error.text
        self.closing = True

    def on_frame(self, frame: BlocksFrame) -> None:
        if frame.kind != REQUEST:
            raise PeerError(MALFORMED, f"frame of kind {frame.kind} from a client; only {REQUEST} is expected")
        try:
            request = decode_request(frame.payload)
            self.on_request(request)
        except RequestError as error:
            self.refuse(error)

    def refuse(self, error: RequestError) -> None:
        """Say what cannot be; before a good login the connection ends: the peer may not try names and passwords."""
        self.out.write(encode_error("request", error.reason, error.text))
        if not self.user:
            self.auth.note_refusal(int(self.id), error)
            self.reason = error.detail if isinstance(error, LoginRefused) else error.text
            self.closing = True

    def on_request(self, request: Request) -> None:
        if request.op == AUTH:
            if self.user:
                raise PeerError(UNEXPECTED, "a second login on one connection")
            self.vhost_name = request.vhost.encode()
            self.proof = self.auth.begin(int(self.id), request.user, request.password)
            if self.proof is None:
                self.logged_in(self.auth.check(request.user, request.password, self.loopback))
            return
        if not self.user:
            raise RequestError(REFUSED, f"{request.op}: log in first")
        if request.queue:
            self.rights.check_queue("read", request.queue.encode())
        # An answer must not overtake that of a fetch which waits.
        if self.pending or self.is_paused():
            if len(self.pending) >= FETCHES_MAX:
                raise PeerError(UNEXPECTED, f"more than {FETCHES_MAX} requests without reading the answers")
            self.pending.append(request)
            return
        if not self.answer(request):
            self.pending.append(request)

    def logged_in(self, principal: Principal) -> None:
        self.principal = principal
        self.auth.note_login(int(self.id), principal.user)
        if self.vhost_name:
            self.join(self.vhosts, self.vhost_name, principal)
        self.user = principal.user
        self.out.write(encode_json(REPLY, {"user": self.user}))

    def proven(self) -> None:
        proof = self.proof
        assert proof is not None
        self.proof = None
        if self.closing:
            return
        if self.user:
            return  # what needed the answer comes again
        try:
            if not self.principal.user:
                self.principal = self.auth.conclude(proof, self.loopback)
            self.logged_in(self.principal)
        except Undecided as error:
            self.ask(self.auth, error)
        except RequestError as error:
            self.refuse(error)

    def blocked(self, reason: str) -> None:
        """The protocol has no word for it."""

    def is_publisher(self) -> bool:
        return self.stager.octets > 0

    def is_paused(self) -> bool:
        """True if the connection takes no more octets for now."""
        return self.is_sending or self.id in self.vhost.consumers.paused

    def answer(self, request: Request) -> bool:
        """Answer one request, unless its time has not come; RequestError if it asks the impossible."""
        if request.op == CONTROL:
            self.operate(request)
            return True
        if request.op in (ENDS, QUEUES, HOLD, RELEASE, DELIVERIES):
            answer = self.reading.answer(self.vhost, self.rights, request)
            if self.reading.changed:
                self.reading.changed = False
                self.changing = True
                self.hold_lsn = HELD
            if answer is not None:
                self.reply(request.op, answer)
            return answer is not None
        if request.op in (COMMIT, ABORT, TRANSACTION):
            answer = self.stager.answer(self.vhost, self.rights, request)
            if answer is not None:
                self.reply(request.op, answer)
            return answer is not None
        queue = self.vhost.catalog.queue(request.queue.encode())
        self.vhost.catalog.check_owner(queue, self.id)
        log = queue.log
        if request.op == DESCRIBE:
            self.out.write(encode_json(REPLY, description(queue)))
        elif request.op == OFFSET_AT:
            offset = min(log.kept_offset_at(request.timestamp_us), log.readable_end())
            self.out.write(encode_json(REPLY, {"offset": int(offset)}))
        else:
            assert request.op == FETCH, request.op
            common = self.vhost.common
            is_work = bool(request.filter) or request.columns != WHOLE_BLOCKS
            if is_work and common.work >= WORK_A_TURN:
                common.woken.append(int(self.id))
                return False
            self.fetches += 1
            if self.fetches > FETCHES_MAX:
                raise PeerError(UNEXPECTED, f"more than {FETCHES_MAX} fetches at once")
            try:
                if request.filter:
                    self.pick(queue, request)
                elif is_work:
                    self.project(log, request)
                else:
                    self.fetch(log, request)
            except StorageError as error:
                self.out.write(encode_error("storage", "corrupt", str(error)))
        return True

    def reply(self, what: str, values: dict[str, object]) -> None:
        """Write a REPLY; RequestError if it is too long for a frame."""
        answer = encode_json(REPLY, values)
        if len(answer) > FRAME_HEAD_OCTETS + REPLY_OCTETS_MAX:
            raise RequestError(INVALID, f"{what}: an answer of {len(answer)} octets: ask for less at a time")
        self.out.write(answer)

    def operate(self, request: Request) -> None:
        """Do what an administrator asks. Where that changes something, the answer leaves when it is on disk."""
        if self.control.changes(request.do):
            self.vhost.store.hurry()
            self.changing = True
            self.hold_lsn = HELD
        try:
            answer = self.control.run(self.origin(), request.do, request.arguments)
        except StorageError as error:
            self.out.write(encode_error("storage", "corrupt", str(error)))
            return
        self.reply(request.do, answer)

    def pick(self, queue: Queue, request: Request) -> None:
        """Write the records of a range for which a filter holds, as many as one answer may hold and cost."""
        log = queue.log
        end = min(i64(request.end), log.readable_end())
        most = min(i64(request.octets_max), FETCH_OCTETS_MAX)
        picking = self.picking
        parts = picking.pick(queue, request.filter, request.first, end, most, self.vhost.turn.now_us, request.columns)
        self.vhost.common.work += self.picking.work
        octets = sum([len(part) for part in parts])
        assert octets <= BLOCKS_OCTETS_MAX
        self.out.write(encode_blocks_head(int(self.picking.next), int(log.kept), octets, PICKED))
        for part in parts:
            self.write_long(part)
        self.fetched_octets += octets

    def project(self, log: QueueLog, request: Request) -> None:
        """Write the blocks of a range with the columns that are asked for."""
        most = min(i64(request.octets_max), FETCH_OCTETS_MAX)
        end = min(i64(request.end), log.readable_end())
        answer = Projection(log, request.first, end, most, request.columns)
        self.vhost.common.work += answer.work
        assert answer.octets <= BLOCKS_OCTETS_MAX
        self.out.write(encode_blocks_head(int(answer.next), int(log.kept), int(answer.octets)))
        self.write_long(b"".join(answer.parts))  # short ones, most of the time
        self.fetched_octets += answer.octets

    def fetch(self, log: QueueLog, request: Request) -> None:
        """Answer with the blocks of a range, as many as one answer may hold."""
        most = min(i64(request.octets_max), FETCH_OCTETS_MAX)
        end = min(i64(request.end), log.readable_end())
        if self.sends_files:
            stretch = log.stretch(request.first, end, most)
            if stretch is not None and stretch.octets >= FILE_OCTETS_MIN and self.send_stretch(log, stretch):
                return
        self.send_blocks(log, request.first, end, most)

    def send_stretch(self, log: QueueLog, stretch: Stretch) -> bool:
        """Have the server send blocks from their file; nobody checks them before the client does.

        False if the file is not to be had: who reads a block says which it was.
        """
        disk = log.files.disk
        try:
            handle = disk.duplicate(log.files.handle(stretch.file))  # it is read when the log may have closed its own
        except UnreadableFile:
            return False
        self.out.write(encode_blocks_head(int(stretch.end), int(log.kept), int(stretch.octets)))
        self.file = FilePart(handle, int(stretch.position), int(stretch.octets))
        self.is_sending = True
        self.fetched_octets += stretch.octets
        return True

    def file_sent(self) -> None:
        self.is_sending = False

    def send_blocks(self, log: QueueLog, first: i64, end: i64, most: i64) -> None:
        """Write the blocks of a range."""
        offset = first
        parts: list[bytes] = []
        octets: i64 = 0
        while offset < end:
            block = log.kept_block(offset)
            if block is None or block.base >= end:
                offset = end
                break
            length = block.octets()
            if octets and octets + length > most:
                break
            parts.append(head_of(block))
            parts += block.parts()
            octets += length
            offset = block.end
        assert octets <= BLOCKS_OCTETS_MAX
        self.out.write(encode_blocks_head(int(offset), int(log.kept), int(octets)))
        for part in parts:
            self.write_long(part)
        self.fetched_octets += octets

    def resume(self) -> None:
        """Answer what waited, as far as the connection takes it."""
        while self.pending and not self.closing and not self.is_paused() and self.fetches < FETCHES_MAX:
            request = self.pending.pop(0)
            try:
                if not self.answer(request):
                    self.pending.insert(0, request)
                    break
            except RequestError as error:
                self.out.write(encode_error("request", error.reason, error.text))
            except PeerError as error:
                self.fail(error)

    def deliver(self, delivery: Delivery) -> None:
        raise AssertionError("a reader of blocks consumes nothing")

    def cancelled(self, consumer: Consumer) -> None:
        raise AssertionError("a reader of blocks consumes nothing")

    def end_turn(self, lsn: int, durable: int) -> None:
        if self.changing:
            self.changing = False
            self.changed_lsn = max(self.changed_lsn, i64(lsn))
            self.hold_lsn = self.changed_lsn
        self.fetches = 0
        if self.pending:
            self.resume()
            self.fetches = 0

    def on_durable(self, durable: int) -> None:
        if self.stager.commit is not None:
            self.resume()

    def waiting(self) -> bool:
        return self.stager.commit is not None

    def tick(self, now_us: int) -> None:
        if self.opened_us == 0:
            self.opened_us = now_us
        elif not self.user and now_us - self.opened_us > self.handshake_us:
            self.fail(PeerError(TIMED_OUT, "no login in time"))

    def taken_over(self) -> None:
        raise AssertionError("a reader of blocks has no client name")

    def dismiss(self, text: str, is_ours: bool = False) -> None:
        if not self.closing:
            self.fail(PeerError(INTERNAL if is_ours else TAKEN_OVER, text))

    def shut_down(self) -> None:
        self.pending.clear()
        self.closing = True

    def closed(self) -> None:
        self.pending.clear()
        self.reading.stop_waiting(self.vhost)
        self.vhost.session_closed(self.id)

    def describe(self) -> dict[str, object]:
        return {"protocol": "blocks", "user": self.user, "octets": int(self.fetched_octets)}


def head_of(block: Block) -> bytes:
    """A block's head; made now for one that was never to be written."""
    if block.head:
        return block.head
    data = block.data
    last = 4 * block.count  # a column's last offset is the column's length
    return make_head(
        data,
        block.base,
        block.count,
        i64(read_i32_le(data, block.exchange_at + last)),
        i64(read_i32_le(data, block.key_at + last)),
        i64(read_i32_le(data, block.properties_at + last)),
        i64(read_i32_le(data, block.body_at + last)),
        block.tail,
        i64(read_i32_le(data, block.annotations_at + last)) if block.annotated else 0,
    )
