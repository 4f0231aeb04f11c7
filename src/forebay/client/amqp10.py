"""A small client of AMQP 1.0, with one session: publishing with confirms, and consuming one queue.

An accepted message counts as confirmed, a released one as unroutable. The link credit bounds the number of
unacknowledged messages, like a prefetch.
"""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from contextlib import suppress
from typing import Final, TypeVar
from urllib.parse import quote

from librt.strings import BytesWriter

from forebay.client.messaging import SILENCE_S_MAX, Delivered
from forebay.client.publishing import RECEIVE_S, PublishingClient
from forebay.core.errors import (
    INVALID,
    LOCKED,
    MALFORMED,
    NOT_ALLOWED,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    PRECONDITION,
    REFUSED,
    TOO_LARGE,
    TOO_MANY,
    UNEXPECTED,
    ForebayError,
    OutcomeUnknown,
    PeerError,
    RequestError,
)
from forebay.core.message import Properties
from forebay.wire.amqp10 import states
from forebay.wire.amqp10.frames import (
    AMQP_FRAME,
    AMQP_HEADER,
    HEARTBEAT_FRAME,
    PROTOCOL_HEADER_OCTETS,
    SASL_FRAME,
    SASL_HEADER,
    PerformativeReader,
    body_at,
    encode_frame,
    frame_end,
    performative_code,
    put_frame,
)
from forebay.wire.amqp10.neutral import decode_neutral, encode_neutral
from forebay.wire.amqp10.outgoing import (
    ACCEPTED_STATE,
    RELEASED_STATE,
    first_head_octets,
    next_head_octets,
    put_disposition,
    put_first_head,
    put_flow,
    put_next_head,
)
from forebay.wire.amqp10.performatives import (
    DISPOSITION,
    FLOW,
    ROLE_RECEIVER,
    ROLE_SENDER,
    SENDER_SETTLED,
    SENDER_UNSETTLED,
    TRANSFER,
    Attach,
    Begin,
    Close,
    Detach,
    End,
    Flow,
    Open,
    Transfer,
    decode_performative,
)
from forebay.wire.amqp10.sasl import SASL_OK, SaslInit, SaslOutcome, decode_sasl
from forebay.wire.amqp10.sections import (
    FIRST_ACQUIRER,
    body_payload,
    flag_at,
    list_field,
    map_value,
    octets_at,
    put_data,
    split_sections,
)
from forebay.wire.amqp10.termini import LinkSource, LinkTarget
from forebay.wire.amqp10.values import Composite

CHANNEL: Final = 0
FRAME_OCTETS_MAX: Final = 131_072
WINDOW: Final = (1 << 31) - 1  # incoming window in frames; unlimited, as the credit bounds messages
SERIAL_MASK: Final = 0xFFFFFFFF
HEADER_DUE: Final = -1
CREDIT_MAX: Final = (1 << 31) - 1
SAFE: Final = "-._~"  # characters not escaped in a segment of an address
QUEUE_ADDRESSES: Final = "$queue/"
ADDRESS_ANNOTATIONS: Final = ("x-exchange", "x-routing-key")  # not headers, as they are fields of `Delivered`
REASONS: Final = {
    states.NOT_FOUND: NOT_FOUND,
    states.RESOURCE_DELETED: NOT_FOUND,
    states.UNAUTHORIZED_ACCESS: REFUSED,
    states.RESOURCE_LOCKED: LOCKED,
    states.INVALID_FIELD: INVALID,
    states.PRECONDITION_FAILED: PRECONDITION,
    states.NOT_ALLOWED: NOT_ALLOWED,
    states.NOT_IMPLEMENTED: NOT_IMPLEMENTED,
    states.RESOURCE_LIMIT_EXCEEDED: TOO_MANY,
    states.MESSAGE_SIZE_EXCEEDED: TOO_LARGE,
}
Frame = TypeVar("Frame", bound=Composite)


class PublishLink:
    """A link for publishing messages.

    handle    the link's handle in the session
    credit    number of messages that may still be sent
    sent      number of messages sent
    """

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self.credit = 0
        self.sent = 0


class ConsumeLink:
    """A link for consuming messages.

    prefetch  most unacknowledged messages, 0 for any number
    no_ack    whether the broker settles each message as it sends it
    received  number of messages received
    settled   number of messages acknowledged or returned to the queue
    granted   number of messages that the broker may still send
    first_id  delivery-id of the first message; the others have consecutive ids
    flows     number of flow frames received for the link
    is_cancelled  whether consuming has been stopped
    """

    def __init__(self, handle: int, prefetch: int, no_ack: bool) -> None:
        self.handle = handle
        self.prefetch = prefetch or CREDIT_MAX
        self.no_ack = no_ack
        self.received = 0
        self.settled = 0
        self.granted = 0
        self.first_id = 0
        self.flows = 0
        self.is_cancelled = False


class Amqp10Client(PublishingClient):
    """One connection with one session.

    returned, return_text   number of unroutable messages, and the outcome of the last; they are confirmed as well
    refusal, silence_s_max  as in `MessageClient`
    """

    def __init__(self, connection: socket.socket, server: str) -> None:
        super().__init__(connection, server)
        self.returned = 0
        self.return_text = ""
        self.refusal = ""
        self.silence_s_max = SILENCE_S_MAX
        self._delivered: deque[Delivered] = deque()
        self._frame_kind = HEADER_DUE
        self._header = SASL_HEADER  # the protocol header that the broker must reply with
        self._reader = PerformativeReader()
        self._replies: deque[Composite] = deque()
        self._frame_octets_max = FRAME_OCTETS_MAX
        self._frames_left = 0  # the broker's incoming window
        self._next_outgoing = 0
        self._next_incoming = 0
        self._handles = 0
        self._senders: dict[str, PublishLink] = {}
        self._deliveries = 0  # delivery-id of the next message
        self._unsettled: set[int] = set()  # delivery-ids of messages published
        self._receiver: ConsumeLink | None = None
        self._payload: list[bytes] = []  # frames of a message that is not complete yet
        self._is_topic = False
        self._is_leaving = False
        self._sent_s = time.monotonic()

    def close(self) -> None:
        """Send buffered bytes, release received messages that are not settled, and close the connection."""
        self._is_leaving = True
        if self._broken is None:
            with suppress(ForebayError):  # the connection is closed in any case
                if self._receiver is not None:
                    put_frame(self._out, CHANNEL, Detach(self._receiver.handle, closed=True))
                    self._wait(Detach)
                put_frame(self._out, CHANNEL, Close())
                self._wait(Close)
        self._broken = self._broken or OutcomeUnknown(f"{self.server}: the connection was closed")
        super().close()

    def flush(self) -> None:
        """Send buffered bytes, or a heartbeat if nothing has been sent for `silence_s_max`."""
        now = time.monotonic()
        if len(self._out):
            self._sent_s = now
        elif now - self._sent_s > self.silence_s_max and self._broken is None:
            self._sent_s = now
            self._out.write(HEARTBEAT_FRAME)
        super().flush()

    # ---- publishing

    def select_confirms(self) -> None:
        """Do nothing: in AMQP 1.0 the broker reports the outcome of each message."""

    def publish(self, exchange: str, routing_key: str, properties: bytes, body: bytes) -> None:
        """Buffer a message for publishing. It is sent when the buffer is full, or with the next `flush` or `settle`."""
        self._check()
        link = self._sender(target_address(exchange, routing_key))
        message = BytesWriter()
        message.write(properties)
        put_data(message, body)
        payload = message.getvalue()
        delivery_id = self._deliveries
        tag = delivery_id.to_bytes(4, "big")
        self._wait_for_room(link)
        end = min(self._frame_octets_max - int(first_head_octets(link.handle, delivery_id, tag, b"")), len(payload))
        has_more = end < len(payload)
        put_first_head(self._out, CHANNEL, link.handle, delivery_id, tag, False, has_more, b"", end)
        self._put_payload(payload[:end])
        while end < len(payload):
            self._wait_for_room(None)
            at = end
            end = min(at + self._frame_octets_max - int(next_head_octets(link.handle)), len(payload))
            put_next_head(self._out, CHANNEL, link.handle, end < len(payload), end - at)
            self._put_payload(payload[at:end])
        link.credit -= 1
        link.sent = link.sent + 1 & SERIAL_MASK
        self._deliveries = delivery_id + 1 & SERIAL_MASK
        self._unsettled.add(delivery_id)
        self._published()

    def encode(self, properties: Properties) -> bytes:
        """Return properties encoded for `publish`."""
        return encode_neutral(properties)

    def _put_payload(self, payload: bytes) -> None:
        """Buffer the payload of a frame, and count the frame."""
        self._out.write(payload)
        self._frames_left -= 1
        self._next_outgoing = self._next_outgoing + 1 & SERIAL_MASK

    def _sender(self, address: str) -> PublishLink:
        """Return the link to an address, attaching it on first use."""
        link = self._senders.get(address)
        if link is None:
            attach = self._new_link(ROLE_SENDER)
            attach.snd_settle_mode = SENDER_UNSETTLED
            attach.source = LinkSource()
            attach.target = LinkTarget(address)
            attach.initial_delivery_count = 0
            link = PublishLink(int(attach.handle))
            self._senders[address] = link
            self._attach(attach)
        return link

    def _wait_for_room(self, link: PublishLink | None) -> None:
        """Wait until the broker accepts one more frame, and one more message on the link if one is given.

        Raises OutcomeUnknown if the broker does not within the timeout.
        """
        until = 0.0
        while self._frames_left <= 0 or (link is not None and link.credit <= 0):
            self.flush()
            until = until or time.monotonic() + self._timeout_s()
            if not self._receive(RECEIVE_S) and time.monotonic() > until:
                waiting = f"{self.unconfirmed} messages without a confirm"
                raise self._broke(OutcomeUnknown(f"{self.server}: the broker takes in nothing: {waiting}"))

    # ---- consuming

    def topic_source(self, topic_filter: str) -> str:
        """Return the source to pass to `consume` for the messages of an MQTT topic filter."""
        self._is_topic = True
        return topic_filter

    def consume(self, queue: str, prefetch: int, no_ack: bool, arguments: dict[str, object]) -> None:
        """Start consuming a queue, with at most `prefetch` unacknowledged messages, or any number for 0."""
        source = LinkSource(queue if self._is_topic else source_address(queue))
        source.capabilities = ["topic"] if self._is_topic else []
        attach = self._new_link(ROLE_RECEIVER)
        attach.snd_settle_mode = SENDER_SETTLED if no_ack else SENDER_UNSETTLED
        attach.source = source
        attach.target = LinkTarget()
        attach.properties = arguments
        self._receiver = ConsumeLink(int(attach.handle), prefetch, no_ack)
        self._attach(attach)
        self._grant(self._receiver.prefetch)
        self.flush()

    def cancel(self) -> None:
        """Stop consuming. Messages already received can still be settled."""
        link = self._receiver
        assert link is not None
        link.is_cancelled = True
        asked = link.flows
        self._grant(0, echo=True)
        self.flush()
        until = time.monotonic() + self._timeout_s()
        while link.flows == asked:
            if not self._receive(RECEIVE_S) and time.monotonic() > until:
                raise self._broke(OutcomeUnknown(f"{self.server}: no answer in time"))

    def next(self, timeout_s: float) -> Delivered | None:
        """Return the next message, or None if none arrives within `timeout_s`."""
        until = time.monotonic() + timeout_s
        link = self._receiver
        if link is not None and link.no_ack and not self._delivered and link.granted <= link.prefetch >> 1:
            self._grant(link.prefetch)
        while not self._delivered:
            self.flush()
            # Part of a message may arrive, which is not enough. A timeout of 0 would make the socket non-blocking.
            if not self._receive(max(until - time.monotonic(), 0.001)) or time.monotonic() > until:
                break
        return self._delivered.popleft() if self._delivered else None

    @property
    def has_next(self) -> bool:
        """Return whether `next` has a message without waiting."""
        return bool(self._delivered)

    def ack(self, tag: int) -> None:
        """Acknowledge a message and all earlier ones. This is sent with the next `flush` or `next`."""
        self._settle_to(tag, ACCEPTED_STATE)

    def requeue(self, tag: int) -> None:
        """Return a message and all earlier ones to the queue."""
        self._settle_to(tag, RELEASED_STATE)

    def decode(self, message: Delivered) -> Properties:
        """Return the properties of a received message."""
        found = decode_neutral(message.properties)
        found.headers = [each for each in found.named_values() if each[0] not in ADDRESS_ANNOTATIONS]
        return found

    def _settle_to(self, tag: int, state: bytes) -> None:
        """Settle all messages up to a tag with this outcome, and grant credit for as many more."""
        link = self._receiver
        assert link is not None
        if tag <= link.settled:
            return
        first = link.first_id + link.settled & SERIAL_MASK
        last = link.first_id + tag - 1 & SERIAL_MASK
        if first <= last:
            put_disposition(self._out, CHANNEL, ROLE_RECEIVER, first, last, True, state)
        else:
            put_disposition(self._out, CHANNEL, ROLE_RECEIVER, first, SERIAL_MASK, True, state)
            put_disposition(self._out, CHANNEL, ROLE_RECEIVER, 0, last, True, state)
        link.settled = tag
        if not link.is_cancelled:
            self._grant(link.prefetch - (link.received - link.settled))

    def _grant(self, credit: int, echo: bool = False) -> None:
        """Let the broker send `credit` more messages.

        echo  whether the broker must reply with a flow
        """
        link = self._receiver
        assert link is not None
        link.granted = credit
        flow = self._flow()
        flow.handle = link.handle
        flow.delivery_count = link.received & SERIAL_MASK
        flow.link_credit = credit
        flow.echo = echo
        put_flow(self._out, CHANNEL, flow)

    def _flow(self) -> Flow:
        """Return a flow with the session's windows."""
        flow = Flow()
        flow.next_incoming_id = self._next_incoming
        flow.incoming_window = WINDOW
        flow.next_outgoing_id = self._next_outgoing
        flow.outgoing_window = WINDOW
        return flow

    # ---- opening

    def _greet(self, user: str, password: str, place: str) -> None:
        self._out.write(SASL_HEADER)
        response = b"\0" + user.encode() + b"\0" + password.encode()
        put_frame(self._out, 0, SaslInit("PLAIN", response), SASL_FRAME)
        if self._wait(SaslOutcome).outcome != SASL_OK:
            raise self._broke(RequestError(REFUSED, f"{self.server}: the login of user '{user}' is refused"))
        self._frame_kind = HEADER_DUE
        self._header = AMQP_HEADER
        self._out.write(AMQP_HEADER)
        opened = Open(f"forebay-{os.getpid()}-{os.urandom(4).hex()}")
        opened.hostname = f"vhost:{place}" if place != "/" else None
        opened.max_frame_size = FRAME_OCTETS_MAX
        opened.properties = {"product": "forebay"}
        put_frame(self._out, 0, opened)
        answer = self._wait(Open)
        self._frame_octets_max = min(int(answer.max_frame_size), FRAME_OCTETS_MAX)
        if answer.idle_time_out_ms > 0:
            self.silence_s_max = int(answer.idle_time_out_ms) / 2000
        put_frame(self._out, CHANNEL, Begin(0, WINDOW, WINDOW))
        begun = self._wait(Begin)
        self._frames_left = int(begun.incoming_window)
        self._next_incoming = int(begun.next_outgoing_id)

    def _new_link(self, role: bool) -> Attach:
        """Return the attach frame of a new link."""
        handle = self._handles
        self._handles += 1
        return Attach(f"forebay-{handle}", handle, role)

    def _attach(self, attach: Attach) -> None:
        """Attach a link. Raises the broker's error if it refuses the link."""
        put_frame(self._out, CHANNEL, attach)
        answer = self._wait(Attach)
        if (answer.target if attach.role == ROLE_SENDER else answer.source) is None:
            self._wait(Detach)  # raises the error in the detach

    def _wait(self, kind: type[Frame]) -> Frame:
        """Return the next reply, which must be of this type. Raises PeerError if it is another."""
        self.flush()
        until = time.monotonic() + self._timeout_s()
        while not self._replies:
            if not self._receive(RECEIVE_S) and time.monotonic() > until:
                raise self._broke(OutcomeUnknown(f"{self.server}: no answer in time"))
        found = self._replies.popleft()
        if not isinstance(found, kind):
            names = f"{type(found).__name__.lower()} where {kind.__name__.lower()} was due"
            raise self._broke(PeerError(UNEXPECTED, f"{self.server}: {names}"))
        return found

    # ---- receiving

    def _take(self, data: bytes) -> int:
        at = 0
        while True:
            if self._frame_kind == HEADER_DUE:
                if len(data) - at < PROTOCOL_HEADER_OCTETS:
                    return at
                if data[at : at + PROTOCOL_HEADER_OCTETS] != self._header:
                    raise PeerError(MALFORMED, "no AMQP 1.0")
                at += PROTOCOL_HEADER_OCTETS
                self._frame_kind = SASL_FRAME if self._header == SASL_HEADER else AMQP_FRAME
                continue
            end = int(frame_end(data, at, FRAME_OCTETS_MAX, self._frame_kind))
            if end == 0:
                return at
            start = int(body_at(data, at))
            at = end
            if start == end:
                continue
            if self._frame_kind == AMQP_FRAME:
                self._take_frame(data, start, end)
            elif isinstance(frame := decode_sasl(data, start, end), SaslOutcome):
                self._replies.append(frame)

    def _take_frame(self, data: bytes, at: int, end: int) -> None:
        code = performative_code(data, at, end)
        if code == TRANSFER:
            payload_at = int(self._reader.read_transfer(data, at, end))
            self._take_transfer(self._reader.transfer, data[payload_at:end])
        elif code == DISPOSITION:
            self._reader.read_disposition(data, at, end)
            self._take_outcome()
        elif code == FLOW:
            self._reader.read_flow(data, at, end)
            self._take_flow(self._reader.flow)
        else:
            frame = decode_performative(data, at, end)
            if isinstance(frame, Close | End | Detach) and frame.error is not None:
                raise self._ended(frame, frame.error)
            if isinstance(frame, Close | End) and self._broken is None and not self._is_leaving:
                raise self._broke(OutcomeUnknown(f"{self.server}: the broker ended the connection"))
            self._replies.append(frame)

    def _take_transfer(self, transfer: Transfer, payload: bytes) -> None:
        """Process one frame of a message. Queue the message once it is complete."""
        link = self._receiver
        self._next_incoming = self._next_incoming + 1 & SERIAL_MASK
        if link is None:
            return
        if not self._payload and link.received == 0:
            link.first_id = int(transfer.delivery_id)
        self._payload.append(payload)
        if transfer.more:
            return
        message = b"".join(self._payload)
        self._payload = []
        link.received += 1
        link.granted -= 1
        if not transfer.aborted:
            self._delivered.append(delivered(link.received, message))

    def _take_outcome(self) -> None:
        """Count the messages that the received disposition settles."""
        disposition = self._reader.disposition
        state = disposition.state
        first = int(disposition.first)
        found = {first + each & SERIAL_MASK for each in range((int(disposition.last) - first & SERIAL_MASK) + 1)}
        found &= self._unsettled
        self._unsettled -= found
        if isinstance(state, states.Rejected):
            self.refused += len(found)
            if state.error is not None:
                self.refusal = state.error.description or state.error.condition
            return
        self.confirmed += len(found)
        if not isinstance(state, states.Accepted):
            self.returned += len(found)
            self.return_text = type(state).__name__.lower()

    def _take_flow(self, flow: Flow) -> None:
        """Apply the session's window and a link's credit from a received flow."""
        seen = int(flow.next_incoming_id) if flow.next_incoming_id >= 0 else 0
        self._frames_left = (seen + int(flow.incoming_window) - self._next_outgoing) & SERIAL_MASK
        if self._frames_left > CREDIT_MAX:
            self._frames_left = 0
        if self._receiver is not None and flow.handle == self._receiver.handle:
            self._receiver.flows += 1
        for link in self._senders.values():
            if flow.handle == link.handle:
                link.credit = (max(int(flow.delivery_count), 0) + int(flow.link_credit) - link.sent) & SERIAL_MASK
                link.credit = 0 if link.credit > CREDIT_MAX else link.credit
        if flow.echo:
            put_flow(self._out, CHANNEL, self._flow())

    def _ended(self, frame: Close | End | Detach, error: states.Error) -> ForebayError:
        """Confirm that the broker ended a link, session or connection, and return the error to raise.

        Returns RequestError for a caller's mistake, OutcomeUnknown if the broker closes or redirects, else PeerError.
        """
        answer = Detach(frame.handle, closed=True) if isinstance(frame, Detach) else type(frame)()
        with suppress(OSError):  # the broker may have closed the socket
            self._connection.sendall(encode_frame(CHANNEL, answer))
        said = f"{self.server}: {error.description or error.condition}"
        reason = REASONS.get(error.condition, "")
        if error.condition == states.CONNECTION_FORCED:
            return self._broke(OutcomeUnknown(said))
        if error.condition == states.CONNECTION_REDIRECT:
            where = error.info or {}
            return self._broke(OutcomeUnknown(f"{said}; connect to {where.get('network-host')}:{where.get('port')}"))
        return self._broke(RequestError(reason, said) if reason else PeerError(MALFORMED, said))


def delivered(tag: int, message: bytes) -> Delivered:
    """Parse a received message. Raises PeerError if it is malformed."""
    found = split_sections(message, 0, len(message))
    is_first = flag_at(message, list_field(message, found.header, found.end, FIRST_ACQUIRER))
    exchange, key = (
        octets_at(message, map_value(message, found.message_annotations, found.end, name), found.end).decode(
            "utf-8", "replace"
        )
        for name in (b"x-exchange", b"x-routing-key")
    )
    body = body_payload(message, found)
    return Delivered(tag, not is_first, exchange, key, message[: found.body_at], body)


def target_address(exchange: str, routing_key: str) -> str:
    """Return the address for publishing to an exchange, or to a queue if `exchange` is ""."""
    if not exchange:
        return source_address(routing_key)
    key = f"/{quote(routing_key, SAFE)}" if routing_key else ""
    return f"/exchanges/{quote(exchange, SAFE)}{key}"


def source_address(queue: str) -> str:
    """Return the address of a queue. A name of the form `$queue/NAME/FILTER` is an address already."""
    return queue if queue.startswith(QUEUE_ADDRESSES) else f"/queues/{quote(queue, SAFE)}"
