"""A small synchronous client of AMQP 0.9.1 for the command line: publishing with confirms, and consuming.

    with AmqpClient.connect("localhost:5672", "guest", "guest") as client:
        client.select_confirms()
        client.publish("", "orders", encode_properties(Properties()), b"1")
        client.settle(0)

It uses one channel, from one thread. The broker's confirms are counted (`confirmed`, `refused`, `returned`) and not
awaited one by one, so that a thousand messages can be in flight at a time.
"""

from __future__ import annotations

import socket
import time
from collections import deque
from contextlib import suppress
from typing import Final

from librt.strings import BytesWriter, read_i64_be, write_i64_be

from forebay.client.messaging import SILENCE_S_MAX, SWAPPED, TOPIC_EXCHANGE, Delivered
from forebay.client.publishing import PublishingClient
from forebay.core.errors import (
    INVALID,
    MALFORMED,
    NOT_FOUND,
    UNEXPECTED,
    ForebayError,
    OutcomeUnknown,
    PeerError,
    RequestError,
)
from forebay.core.message import Properties
from forebay.wire.amqp091.codec import (
    BODY,
    FRAME_OVERHEAD,
    HEADER,
    METHOD,
    PROTOCOL_HEADER,
    Reader,
    frame_end,
    put_content,
    put_long,
    put_long_string,
    put_method,
    put_short,
    put_short_string,
    put_table,
)
from forebay.wire.amqp091.methods import (
    BASIC_ACK,
    BASIC_CANCEL,
    BASIC_CANCEL_OK,
    BASIC_CONSUME,
    BASIC_CONSUME_OK,
    BASIC_DELIVER,
    BASIC_NACK,
    BASIC_PUBLISH,
    BASIC_QOS,
    BASIC_QOS_OK,
    BASIC_RETURN,
    CHANNEL_CLOSE,
    CHANNEL_CLOSE_OK,
    CHANNEL_OPEN,
    CHANNEL_OPEN_OK,
    CONFIRM_SELECT,
    CONFIRM_SELECT_OK,
    CONNECTION_BLOCKED,
    CONNECTION_CLOSE,
    CONNECTION_CLOSE_OK,
    CONNECTION_OPEN,
    CONNECTION_OPEN_OK,
    CONNECTION_START,
    CONNECTION_START_OK,
    CONNECTION_TUNE,
    CONNECTION_TUNE_OK,
    CONNECTION_UNBLOCKED,
    QUEUE_BIND,
    QUEUE_BIND_OK,
    QUEUE_DECLARE,
    QUEUE_DECLARE_OK,
    QUEUE_DELETE,
    QUEUE_DELETE_OK,
    REPLIES,
)
from forebay.wire.amqp091.properties import decode_properties, encode_properties

CHANNEL: Final = 1
DEPTH_MAX: Final = 16  # of nested tables
FRAME_OCTETS_MAX: Final = 131_072
HEADER_HEAD_OCTETS: Final = 12  # of a content header: class, weight, body size
MANDATORY: Final = 1
NO_ACK: Final = 2
DURABLE: Final = 2
EXCLUSIVE: Final = 4
REASONS: Final = {code: reason for reason, (code, _) in reversed(REPLIES.items())}


class AmqpClient(PublishingClient):
    """One connection with one channel.

    returned     number of unroutable messages; they are confirmed as well
    return_text  the broker's reply text for the last unroutable message
    refusal, silence_s_max  as in `MessageClient`; the protocol gives no reasons, and no heartbeat is negotiated
    """

    def __init__(self, connection: socket.socket, server: str) -> None:
        super().__init__(connection, server)
        self.returned = 0
        self.return_text = ""
        self.refusal = ""
        self.silence_s_max = SILENCE_S_MAX
        self._frame_octets_max = FRAME_OCTETS_MAX
        self._settled = 0  # all messages up to this tag are confirmed or refused
        self._early: set[int] = set()  # later tags that are confirmed or refused already
        self._replies: deque[tuple[int, Reader]] = deque()
        self._delivered: deque[Delivered] = deque()
        self._content: tuple[int, Reader] | None = None  # the method whose content is being received
        self._properties = b""
        self._parts: list[bytes] = []
        self._missing = 0  # bytes of the body not received yet
        self._consumer = b""

    def close(self) -> None:
        """Send buffered bytes and close the connection."""
        if self._broken is None:
            args = BytesWriter()
            put_short(args, 200)
            put_short_string(args, b"")
            put_long(args, 0)
            with suppress(ForebayError):  # the connection is closed in any case
                self._put(0, CONNECTION_CLOSE, args)
                self._wait(CONNECTION_CLOSE_OK)
        self._broken = self._broken or OutcomeUnknown(f"{self.server}: the connection was closed")
        super().close()

    # ---- publishing

    def select_confirms(self) -> None:
        """Enable publisher confirms: the broker confirms each message once it is on disk."""
        args = BytesWriter()
        args.append(0)
        self._put(CHANNEL, CONFIRM_SELECT, args)
        self._wait(CONFIRM_SELECT_OK)

    def publish(self, exchange: str, routing_key: str, properties: bytes, body: bytes) -> None:
        """Buffer a message for publishing. It is sent when the buffer is full, or with the next `flush` or `settle`."""
        self._check()
        args = BytesWriter()
        put_short(args, 0)
        put_short_string(args, name(exchange, "exchange"))
        put_short_string(args, name(routing_key, "routing key"))
        args.append(MANDATORY)
        put_method(self._out, CHANNEL, BASIC_PUBLISH, args.getvalue())
        put_content(self._out, CHANNEL, properties, body, self._frame_octets_max)
        self._published()

    def encode(self, properties: Properties) -> bytes:
        """Return properties encoded for `publish`."""
        return encode_properties(properties)

    # ---- consuming

    def topic_source(self, topic_filter: str) -> str:
        """Declare a temporary queue that gets the messages of an MQTT topic filter from now on, and return its name."""
        return self.temporary_queue(TOPIC_EXCHANGE, topic_filter.translate(SWAPPED))

    def temporary_queue(self, exchange: str, binding_key: str) -> str:
        """Declare a queue that is deleted with this connection, bind it to an exchange, and return its name."""
        queue = self._declare("", EXCLUSIVE)
        args = BytesWriter()
        put_short(args, 0)
        put_short_string(args, queue)
        put_short_string(args, name(exchange, "exchange"))
        put_short_string(args, name(binding_key, "binding key"))
        args.append(0)
        put_table(args, [])
        self._put(CHANNEL, QUEUE_BIND, args)
        self._wait(QUEUE_BIND_OK)
        return queue.decode()

    def declare_queue(self, queue: str) -> None:
        """Declare a durable queue. Raises RequestError if a queue of the name exists with other properties."""
        self._declare(queue, DURABLE)

    def delete_queue(self, queue: str) -> None:
        """Delete a queue with its messages, if it exists."""
        args = BytesWriter()
        put_short(args, 0)
        put_short_string(args, name(queue, "queue"))
        args.append(0)
        self._put(CHANNEL, QUEUE_DELETE, args)
        self._wait(QUEUE_DELETE_OK)

    def _declare(self, queue: str, flags: int) -> bytes:
        args = BytesWriter()
        put_short(args, 0)
        put_short_string(args, name(queue, "queue"))
        args.append(flags)
        put_table(args, [])
        self._put(CHANNEL, QUEUE_DECLARE, args)
        return self._wait(QUEUE_DECLARE_OK).short_string()

    def consume(self, queue: str, prefetch: int, no_ack: bool, arguments: dict[str, object]) -> None:
        """Start consuming a queue, with at most `prefetch` unacknowledged messages."""
        args = BytesWriter()
        put_long(args, 0)
        put_short(args, prefetch)
        args.append(0)
        self._put(CHANNEL, BASIC_QOS, args)
        self._wait(BASIC_QOS_OK)
        args = BytesWriter()
        put_short(args, 0)
        put_short_string(args, name(queue, "queue"))
        put_short_string(args, b"")
        args.append(NO_ACK if no_ack else 0)
        put_table(args, list(arguments.items()))
        self._put(CHANNEL, BASIC_CONSUME, args)
        self._consumer = self._wait(BASIC_CONSUME_OK).short_string()

    def cancel(self) -> None:
        """Stop consuming. Messages already received can still be settled."""
        args = BytesWriter()
        put_short_string(args, self._consumer)
        args.append(0)
        self._put(CHANNEL, BASIC_CANCEL, args)
        self._wait(BASIC_CANCEL_OK)

    def next(self, timeout_s: float) -> Delivered | None:
        """Return the next message, or None if none arrives within `timeout_s`."""
        until = time.monotonic() + timeout_s
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
        args = BytesWriter()
        write_i64_be(args, tag)
        args.append(1)
        put_method(self._out, CHANNEL, BASIC_ACK, args.getvalue())

    def requeue(self, tag: int) -> None:
        """Return a message and all earlier ones to the queue."""
        args = BytesWriter()
        write_i64_be(args, tag)
        args.append(1 | 2)  # multiple, requeue
        put_method(self._out, CHANNEL, BASIC_NACK, args.getvalue())

    def decode(self, message: Delivered) -> Properties:
        """Return the properties of a received message."""
        return decode_properties(message.properties, DEPTH_MAX)

    # ---- internal

    def _greet(self, user: str, password: str, place: str) -> None:
        self._out.write(PROTOCOL_HEADER)
        self._wait(CONNECTION_START)
        args = BytesWriter()
        put_table(args, [("product", "forebay"), ("capabilities", CAPABILITIES)])
        put_short_string(args, b"PLAIN")
        put_long_string(args, b"\0" + user.encode() + b"\0" + password.encode())
        put_short_string(args, b"en_US")
        self._put(0, CONNECTION_START_OK, args)
        tune = self._wait(CONNECTION_TUNE)
        channels_max = tune.short()
        self._frame_octets_max = min(int(tune.long()) or FRAME_OCTETS_MAX, FRAME_OCTETS_MAX)
        args = BytesWriter()
        put_short(args, channels_max)
        put_long(args, self._frame_octets_max)
        put_short(args, 0)  # no heartbeats: a command could not send them while it is busy
        self._put(0, CONNECTION_TUNE_OK, args)
        args = BytesWriter()
        put_short_string(args, name(place, "vhost"))
        put_short_string(args, b"")
        args.append(0)
        self._put(0, CONNECTION_OPEN, args)
        self._wait(CONNECTION_OPEN_OK)
        args = BytesWriter()
        put_short_string(args, b"")
        self._put(CHANNEL, CHANNEL_OPEN, args)
        self._wait(CHANNEL_OPEN_OK)

    def _put(self, channel: int, method: int, args: BytesWriter) -> None:
        put_method(self._out, channel, method, args.getvalue())

    def _wait(self, method: int) -> Reader:
        """Return the arguments of the next reply, which must be of this method. Raises PeerError if it is another."""
        self.flush()
        while not self._replies:
            if not self._receive(self._timeout_s()):
                raise self._broke(OutcomeUnknown(f"{self.server}: no answer in time"))
        found, args = self._replies.popleft()
        if found != method:
            raise self._broke(PeerError(UNEXPECTED, f"{self.server}: method {found:#x} where {method:#x} was due"))
        return args

    def _take(self, data: bytes) -> int:
        at = 0
        if data.startswith(b"AMQP") and not self.published and not self._replies:
            raise PeerError(MALFORMED, "another version of AMQP")
        while end := frame_end(data, at, self._frame_octets_max):
            self._take_frame(data, at, int(end))
            at = int(end)
        return at

    def _take_frame(self, data: bytes, at: int, end: int) -> None:
        kind = data[at]
        first = at + FRAME_OVERHEAD - 1
        if kind == METHOD:
            args = Reader(data, first, end - 1, DEPTH_MAX)
            self._take_method(int(args.long()), args)
        elif kind == HEADER:
            self._missing = int(read_i64_be(data, first + 4))
            self._properties = data[first + HEADER_HEAD_OCTETS : end - 1]
            self._parts = []
            self._take_content()
        elif kind == BODY:
            self._parts.append(data[first : end - 1])
            self._missing -= len(self._parts[-1])
            self._take_content()

    def _take_method(self, method: int, args: Reader) -> None:
        if method in (BASIC_DELIVER, BASIC_RETURN):
            self._content = (method, args)
        elif method in (BASIC_ACK, BASIC_NACK):
            self._take_confirm(method == BASIC_ACK, int(args.longlong()), args.octet() & 1 != 0)
        elif method in (CONNECTION_CLOSE, CHANNEL_CLOSE):
            self._closed_by_broker(method, int(args.short()), args.short_string().decode("utf-8", "replace"))
        elif method == BASIC_CANCEL:
            raise self._broke(RequestError(NOT_FOUND, f"{self.server}: the queue is gone"))
        elif method == CONNECTION_BLOCKED:
            self.blocked = args.short_string().decode("utf-8", "replace")
        elif method == CONNECTION_UNBLOCKED:
            self.blocked = ""
        else:
            self._replies.append((method, args))

    def _take_confirm(self, good: bool, tag: int, multiple: bool) -> None:
        # Refusals are sent at once and confirms wait for the disk, so they do not arrive in the order of the tags.
        if multiple:
            early = {each for each in self._early if each > tag}
            count = tag - self._settled - (len(self._early) - len(early))
            self._settled = max(tag, self._settled)
            self._early = early
        else:
            count = 1
            self._early.add(tag)
        while self._settled + 1 in self._early:
            self._settled += 1
            self._early.remove(self._settled)
        if good:
            self.confirmed += count
        else:
            self.refused += count

    def _closed_by_broker(self, method: int, code: int, text: str) -> None:
        """Confirm the broker's close and raise its error: RequestError for a caller's mistake, else PeerError.

        A broker that shuts down (code 320) raises OutcomeUnknown.
        """
        said = f"{self.server}: {text.partition(' - ')[2] or text}"
        answer = CHANNEL_CLOSE_OK if method == CHANNEL_CLOSE else CONNECTION_CLOSE_OK
        channel = CHANNEL if method == CHANNEL_CLOSE else 0
        out = BytesWriter()
        put_method(out, channel, answer, b"")
        with suppress(OSError):  # the broker may have closed the socket
            self._connection.sendall(out.getvalue())
        if method == CHANNEL_CLOSE or code in (403, 530):
            raise self._broke(RequestError(REASONS.get(code, INVALID), said))
        raise self._broke(OutcomeUnknown(said) if code == 320 else PeerError(REASONS.get(code, MALFORMED), said))

    def _take_content(self) -> None:
        """Queue a received message, or count a returned one, once its body is complete."""
        if self._missing > 0 or self._content is None:
            return
        method, args = self._content
        self._content = None
        if method == BASIC_RETURN:
            self.returned += 1
            args.short()
            self.return_text = args.short_string().decode("utf-8", "replace")
            return
        args.short_string()
        tag = int(args.longlong())
        redelivered = args.octet() != 0
        exchange = args.short_string().decode("utf-8", "replace")
        routing_key = args.short_string().decode("utf-8", "replace")
        body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._delivered.append(Delivered(tag, redelivered, exchange, routing_key, self._properties, body))


CAPABILITIES: Final[dict[str, object]] = {
    "basic.nack": True,
    "connection.blocked": True,
    "consumer_cancel_notify": True,
    "publisher_confirms": True,
    "authentication_failure_close": True,
}


def name(text: str, what: str) -> bytes:
    """Encode a name for the protocol. Raises RequestError(INVALID) if it is too long.

    what  the kind of name, for the message
    """
    octets = text.encode()
    if len(octets) > 255:
        raise RequestError(INVALID, f"{what}: '{text[:80]}…' is longer than 255 octets")
    return octets
