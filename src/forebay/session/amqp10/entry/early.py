"""The frames of a client without a user between `open` and its token: a session, and the links of `$cbs`.

A client of Azure Service Bus logs in by SASL ANONYMOUS, opens, begins a session, attaches a link to the node `$cbs` and
one from there, and sends a token. There is no session of the broker before that token is right: the handshake answers
these frames as a session would, and keeps them. The session that begins then reads them again, without answering, and
behind them the token itself, which it answers.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from forebay.core.errors import NOT_ALLOWED, REFUSED, TOO_LARGE, TOO_MANY, PeerError
from forebay.core.options import Options
from forebay.session.amqp10.entry.opening import CHANNEL_MAX, HANDLE_MAX
from forebay.session.amqp10.output import OUTGOING_WINDOW, SessionOutput
from forebay.session.amqp10.servicebus.node_requests import (
    NodeRequest,
    answer_request_link,
    answer_response_link,
    encode_claims_answer,
    is_claims_link,
    read_node_request,
)
from forebay.session.amqp10.servicebus.request_link import REQUESTS_MAX
from forebay.session.amqp10.windows import SessionWindows
from forebay.wire.amqp10.frames import PerformativeReader, body_at, channel_of, performative_code
from forebay.wire.amqp10.performatives import (
    ROLE_SENDER,
    TRANSFER,
    Attach,
    Begin,
    Flow,
    decode_performative,
)

FRAMES_MAX: Final = 32  # before the token
OCTETS_MAX: Final = 16 << 10  # of these frames, beside the token's
SESSIONS_MAX: Final = 4


@final
class EarlyFrames:
    """The frames of a client behind its `open`, as long as it has no user.

    frames    those that were answered, of `octets` together
    outputs   of the sessions that the client has begun, by channel
    requests  links to `$cbs`, by channel and handle
    answers   links from `$cbs`, as (channel, handle, credit)
    request   the token that the client has sent; None before
    """

    def __init__(self, out: BytesWriter, options: Options) -> None:
        self.out = out
        self.options = options
        self.reader = PerformativeReader(options.table_depth_max)
        self.frames: list[bytes] = []
        self.octets: i64 = 0
        self.outputs: dict[int, SessionOutput] = {}
        self.requests: set[tuple[int, int]] = set()
        self.answers: dict[tuple[int, int], int] = {}
        self.request: NodeRequest | None = None
        self.token_channel: i64 = 0

    def read(self, frame: bytes) -> bool:
        """Answer a frame, and return whether it was used: the token, or a link that is none of `$cbs`, is not."""
        channel = channel_of(frame, 0)
        at, end = body_at(frame, 0), i64(len(frame))
        if at == end:
            return True  # a heartbeat
        self.octets += end
        if len(self.frames) >= FRAMES_MAX or self.octets > OCTETS_MAX + self.options.amqp_login_frame_octets_max:
            raise PeerError(TOO_MANY, f"more than {FRAMES_MAX} frames, or {OCTETS_MAX} bytes, before a token")
        if performative_code(frame, at, end) == TRANSFER:
            self.read_token(channel, frame, at, end)
            return False
        read = decode_performative(frame, at, end, self.options.table_depth_max)
        if isinstance(read, Begin):
            self.begin(channel, read)
        elif isinstance(read, Attach):
            if not is_claims_link(read):
                return False
            self.attach(channel, read)
        elif isinstance(read, Flow):
            self.note_credit(channel, read)
        else:
            raise PeerError(REFUSED, f"{type(read).__name__.lower()}: a token is expected")
        self.frames.append(frame)
        return True

    def begin(self, channel: i64, read: Begin) -> None:
        """Answer the begin of a session."""
        if channel > CHANNEL_MAX or int(channel) in self.outputs or len(self.outputs) >= SESSIONS_MAX:
            raise PeerError(NOT_ALLOWED, f"begin on channel {channel}: a token is expected")
        windows = SessionWindows(read.next_outgoing_id, read.incoming_window)
        output = self.outputs[int(channel)] = SessionOutput(self.out, channel, windows)
        answer = Begin(0, windows.incoming, OUTGOING_WINDOW)
        answer.remote_channel = channel
        answer.handle_max = HANDLE_MAX
        output.put(answer)

    def attach(self, channel: i64, read: Attach) -> None:
        """Answer the attach of a link to or from `$cbs`."""
        output = self.output_of(channel)
        key = (int(channel), int(read.handle))
        if key in self.requests or key in self.answers or read.handle > HANDLE_MAX:
            raise PeerError(NOT_ALLOWED, f"attach: handle {read.handle} cannot be had")
        if read.role == ROLE_SENDER:
            self.requests.add(key)
            output.put(answer_request_link(read, self.options.message_octets_max))
            output.put_credit(read.handle, max(0, read.initial_delivery_count), REQUESTS_MAX)
        else:
            self.answers[key] = 0
            output.put(answer_response_link(read))

    def output_of(self, channel: i64) -> SessionOutput:
        output = self.outputs.get(int(channel))
        if output is None:
            raise PeerError(NOT_ALLOWED, f"channel {channel} has no session")
        return output

    def note_credit(self, channel: i64, read: Flow) -> None:
        """Remember whether the client takes an answer."""
        output = self.output_of(channel)
        output.windows.on_flow(read.next_incoming_id, read.incoming_window)
        key = (int(channel), int(read.handle))
        if key in self.answers:
            self.answers[key] = int(max(0, read.link_credit))

    def read_token(self, channel: i64, frame: bytes, at: i64, end: i64) -> None:
        """Take the client's token, which must be one frame."""
        start = self.reader.read_transfer(frame, at, end)
        transfer = self.reader.transfer
        if (int(channel), int(transfer.handle)) not in self.requests:
            raise PeerError(NOT_ALLOWED, f"transfer: no link is attached with handle {transfer.handle}")
        if transfer.more or transfer.aborted:
            raise PeerError(TOO_LARGE, "a token must be one frame")
        self.token_channel = channel
        self.request = read_node_request(frame, start, end, self.options.table_depth_max)

    def refuse(self, request: NodeRequest, status: int, description: str, frame_octets_max: i64) -> None:
        """Answer a token that is wrong, if the client takes an answer; nothing more is read then but its close."""
        output = self.output_of(self.token_channel)
        for (channel, handle), credit in self.answers.items():
            if channel == self.token_channel and credit > 0 and output.windows.remote_incoming > 0:
                payload = encode_claims_answer(request, status, description)
                for frame in output.settled_frames(handle, payload, frame_octets_max):
                    self.out.write(frame)
                return
