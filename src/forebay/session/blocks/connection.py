"""The block protocol's session: access to the logs of queues, whole blocks at a time, and administration.

Nothing is copied into records here and nothing waits: an answer is at most one long block or FETCH_OCTETS_MAX of short
ones. While the connection takes no more octets, fetches wait in `pending`, so that a client which asks and does not
read costs the broker no more than the send buffer and FETCHES_MAX answers.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.broker.audit import Administration
from forebay.broker.contract import VhostContract
from forebay.broker.read_offers import GrantedRead, ReadOffers
from forebay.core.errors import (
    INTERNAL,
    INVALID,
    MALFORMED,
    TAKEN_OVER,
    UNEXPECTED,
    PeerError,
    RequestError,
    StorageError,
)
from forebay.core.options import Options
from forebay.directory.logins.authorizer import Undecided
from forebay.directory.logins.login import Auth
from forebay.directory.permissions import Rights
from forebay.queue.leases.lease import Consumer, Delivery
from forebay.queue.queue import Queue
from forebay.session.blocks.answers import BlocksAnswer, answer_fetch, is_work
from forebay.session.blocks.picking import WORK_A_TURN, Picking
from forebay.session.blocks.reading import ReaderRequests, bounds, description, readable
from forebay.session.blocks.staging import Stager
from forebay.session.login import BlocksLogin
from forebay.session.session import Session
from forebay.wire.blocks.frames import (
    ABORT,
    AUTH,
    COMMIT,
    CONTROL,
    CONTROL_OCTETS_MAX,
    DELIVERIES,
    DESCRIBE,
    ENDS,
    FETCHES_MAX,
    FRAME_HEAD_OCTETS,
    GRANT,
    HOLD,
    OFFSET_AT,
    QUEUES,
    READ,
    RELEASE,
    REPLY,
    REPLY_OCTETS_MAX,
    REQUEST,
    STAGE,
    STAGE_OCTETS_MAX,
    TRANSACTION,
    BlocksFrame,
    Request,
    decode_frame,
    decode_request,
    encode_error,
    encode_json,
    frame_octets,
)

HELD: Final = 1 << 62  # until the turn's end says what the answer waits for


@final
class BlocksSession(Session):
    """One reader of blocks.

    offers  the other members of a group that reads may go to; None for a node that leads none
    """

    def __init__(
        self,
        session_id: int,
        login: BlocksLogin,
        vhost: VhostContract,
        rights: Rights,
        offers: ReadOffers | None,
        auth: Auth,
        options: Options,
        control: Administration,
    ) -> None:
        super().__init__(session_id, login, vhost, rights)
        self.offers = offers
        self.auth = auth
        self.control = control
        self.reading = ReaderRequests(session_id, options)
        self.picking = Picking()
        self.is_sending = False  # a file; what is asked meanwhile waits
        self.stager = Stager(options)
        self.pending: list[Request] = []  # in order; of the first the answer may be awaited
        self.fetches: i64 = 0  # answered since the turn began
        self.fetched_octets: i64 = 0
        self.changing = False  # something was changed in this turn
        self.changed_lsn: i64 = 0  # when this is durable, all changes of the turns before are on disk
        self.out.write(encode_json(REPLY, {"user": self.principal.user}))

    def receive(self, data: bytes) -> int:
        at: i64 = 0
        begun: i64 = 0
        if self.is_proving():
            return 0
        try:
            while not self.closing:
                begun = at
                if self.is_stage(data, at):
                    end = at + frame_octets(data, at, STAGE_OCTETS_MAX)
                    if end > len(data):
                        break
                    self.on_stage(data, at + FRAME_HEAD_OCTETS, end)
                    at = end
                    continue
                frame = decode_frame(data, at, CONTROL_OCTETS_MAX)
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
            self.fail(error)
            return len(data)
        return len(data) if self.closing else int(at)

    def wanted(self, rest: bytes) -> int:
        most = STAGE_OCTETS_MAX if self.is_stage(rest, 0) else CONTROL_OCTETS_MAX
        return int(frame_octets(rest, 0, most))

    def is_stage(self, data: bytes, at: i64) -> bool:
        """True if rows to be staged begin here; they are long, and are not cut out before their block is."""
        return len(data) - at >= FRAME_HEAD_OCTETS and data[at + 4] == STAGE

    def on_stage(self, data: bytes, at: i64, end: i64) -> None:
        if self.pending:
            raise PeerError(UNEXPECTED, "a STAGE frame before the answers to earlier requests")
        try:
            self.reply("stage", self.stager.stage(self.vhost, self.rights, data, at, end))
        except RequestError as error:
            self.refuse(error)

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
        """Say what cannot be."""
        self.out.write(encode_error("request", error.reason, error.text))

    def on_request(self, request: Request) -> None:
        if request.op == AUTH:
            raise PeerError(UNEXPECTED, "a second login on one connection")
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

    def proven(self) -> None:
        """Read on: the frame that needed the answer comes again."""
        self.proof = None

    def blocked(self, reason: str) -> None:
        """The protocol has no word for it."""

    def is_publisher(self) -> bool:
        return self.stager.octets > 0

    def is_paused(self) -> bool:
        """True if the connection takes no more octets for now."""
        return self.is_sending or self.vhost.consuming.is_paused(self.id)

    def answer(self, request: Request) -> bool:
        """Answer one request, unless its time has not come; RequestError if it asks the impossible."""
        if request.op == CONTROL:
            self.operate(request)
            return True
        if request.op == READ:
            raise RequestError(INVALID, f"{READ}: this node leads: log in, and fetch")
        # Of what a leader found when it took over nothing is told before it is committed.
        self.hold_lsn = max(self.hold_lsn, i64(self.vhost.block_reads.recovered_lsn()))
        if request.op in (ENDS, QUEUES, HOLD, RELEASE, DELIVERIES):
            answer = self.reading.answer(self.vhost, self.rights, request)
            if self.reading.take_changed():
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
        queue = readable(self.vhost.queue(request.queue.encode(), self.id))
        log = queue.log
        if request.op == DESCRIBE:
            self.out.write(encode_json(REPLY, description(queue)))
        elif request.op == OFFSET_AT:
            offset = min(log.kept_offset_at(request.timestamp_us), log.readable_end())
            self.out.write(encode_json(REPLY, {"offset": int(offset)}))
        elif request.op == GRANT:
            self.grant(queue, request)
        else:
            return self.fetch(queue, request)
        return True

    def fetch(self, queue: Queue, request: Request) -> bool:
        """Answer with records of a range; False if that has to wait for the next turn."""
        if self.vhost.budgets.reading >= WORK_A_TURN and is_work(request):
            self.vhost.block_reads.come_again(self.id)
            return False
        self.fetches += 1
        if self.fetches > FETCHES_MAX:
            raise PeerError(UNEXPECTED, f"more than {FETCHES_MAX} fetches at once")
        log = queue.log
        end = min(i64(request.end), log.readable_end())
        now_us = self.vhost.now_us()
        try:
            self.send(answer_fetch(log, queue.name, request, end, self.picking, now_us, self.sends_files))
        except StorageError as error:
            self.out.write(encode_error("storage", "corrupt", str(error)))
        return True

    def grant(self, queue: Queue, request: Request) -> None:
        """Say which other nodes of the cluster may be asked for a range, and let them know."""
        log = queue.log
        found = bounds(queue)
        offers = self.offers
        end = min(i64(request.end), log.readable_end())
        if offers is not None and log.durable and request.first < end:
            read = GrantedRead(int(log.queue), queue.name, request.first, int(end))
            token, places = offers.grant(read)
            found["token"] = token
            found["nodes"] = [{"node": place.node, "servers": place.servers} for place in places]
        else:
            found["token"] = ""
            found["nodes"] = []
        self.reply(GRANT, found)

    def reply(self, what: str, values: dict[str, object]) -> None:
        """Write a REPLY; RequestError if it is too long for a frame."""
        answer = encode_json(REPLY, values)
        if len(answer) > FRAME_HEAD_OCTETS + REPLY_OCTETS_MAX:
            raise RequestError(INVALID, f"{what}: an answer of {len(answer)} octets: ask for less at a time")
        self.out.write(answer)

    def operate(self, request: Request) -> None:
        """Do what an administrator asks. Where that changes something, the answer leaves when it is on disk."""
        if self.control.waits(request.do):
            self.vhost.hurry()
            self.changing = True
            self.hold_lsn = HELD
        try:
            answer = self.control.run(self.origin(), request.do, request.arguments)
        except StorageError as error:
            self.out.write(encode_error("storage", "corrupt", str(error)))
            return
        self.reply(request.do, answer)
        if self.vhost.block_reads.is_deleted():
            self.dismiss(f"vhost {self.vhost.name.decode('utf-8', 'replace')!r} is deleted")

    def send(self, answer: BlocksAnswer) -> None:
        """Have the server send the answer to a fetch."""
        self.vhost.budgets.reading += answer.work
        self.fetched_octets += answer.octets
        self.out.write(answer.head)
        for part in answer.parts:
            self.write_long(part)
        if answer.file is not None:
            self.file = answer.file
            self.is_sending = True

    def file_sent(self) -> None:
        self.is_sending = False

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
        """Do nothing: the protocol has no keepalive."""

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
        return {"protocol": "blocks", "user": self.principal.user, "octets": int(self.fetched_octets)}
