"""A small synchronous client of AMQP 0.9.1, for the command line: publishing with confirms, and consuming.

    with AmqpClient.connect("localhost:5672", "guest", "guest") as client:
        client.select_confirms()
        client.publish("", "orders", encode_properties(Properties()), b"1")
        client.settle(0)

One channel, one thread. What the broker says of messages is counted (`confirmed`, `refused`, `returned`) and not
answered one by one, so that a thousand are on their way at a time.
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
DEPTH_MAX: Final = 16  # of tables within tables
FRAME_OCTETS_MAX: Final = 131_072
HEADER_HEAD_OCTETS: Final = 12  # of a content header: class, weight, octets of the body
MANDATORY: Final = 1
NO_ACK: Final = 2
DURABLE: Final = 2
EXCLUSIVE: Final = 4
REASONS: Final = {code: reason for reason, (code, _) in reversed(REPLIES.items())}


class AmqpClient(PublishingClient):
    """One connection with one channel.

    returned     messages that led nowhere; they are confirmed as well
    return_text  what the broker said of the last of those
    refusal, silence_s_max  as those of `MessageClient`: the protocol has no reasons, and no heartbeat was agreed on
    """

    def __init__(self, connection: socket.socket, server: str) -> None:
        super().__init__(connection, server)
        self.returned = 0
        self.return_text = ""
        self.refusal = ""
        self.silence_s_max = SILENCE_S_MAX
        self._frame_octets_max = FRAME_OCTETS_MAX
        self._settled = 0  # all messages up to this tag are confirmed or refused ...
        self._early: set[int] = set()  # ... and these behind it
        self._replies: deque[tuple[int, Reader]] = deque()
        self._delivered: deque[Delivered] = deque()
        self._content: tuple[int, Reader] | None = None  # the method whose content is coming
        self._properties = b""
        self._parts: list[bytes] = []
        self._missing = 0  # octets of the body
        self._consumer = b""

    def close(self) -> None:
        """Send what is gathered, and end the connection."""
        if self._broken is None:
            args = BytesWriter()
            put_short(args, 200)
            put_short_string(args, b"")
            put_long(args, 0)
            with suppress(ForebayError):  # it ends all the same
                self._put(0, CONNECTION_CLOSE, args)
                self._wait(CONNECTION_CLOSE_OK)
        self._broken = self._broken or OutcomeUnknown(f"{self.server}: the connection was closed")
        super().close()

    # ---- publishing

    def select_confirms(self) -> None:
        """Have the broker say of each message when it is on disk."""
        args = BytesWriter()
        args.append(0)
        self._put(CHANNEL, CONFIRM_SELECT, args)
        self._wait(CONFIRM_SELECT_OK)

    def publish(self, exchange: str, routing_key: str, properties: bytes, body: bytes) -> None:
        """Publish a message; it leaves with others, or with the next `flush` or `settle`."""
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
        """Return properties as `publish` takes them."""
        return encode_properties(properties)

    # ---- consuming

    def topic_source(self, topic_filter: str) -> str:
        """Return the name of a queue for the messages of an MQTT topic filter, from now on."""
        return self.temporary_queue(TOPIC_EXCHANGE, topic_filter.translate(SWAPPED))

    def temporary_queue(self, exchange: str, binding_key: str) -> str:
        """The name of a queue that goes with this connection, bound to an exchange."""
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
        """Make a durable queue, or check that the one there is was declared alike."""
        self._declare(queue, DURABLE)

    def delete_queue(self, queue: str) -> None:
        """Delete a queue with its messages; no error where there is none."""
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
        """Have messages of a queue sent, up to `prefetch` that are not acknowledged."""
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
        """Have no more messages sent; those that came can still be settled."""
        args = BytesWriter()
        put_short_string(args, self._consumer)
        args.append(0)
        self._put(CHANNEL, BASIC_CANCEL, args)
        self._wait(BASIC_CANCEL_OK)

    def next(self, timeout_s: float) -> Delivered | None:
        """The next message; None where none comes in that time."""
        until = time.monotonic() + timeout_s
        while not self._delivered:
            self.flush()
            # A part of a message is none yet; and a wait of 0 would be no wait but an error.
            if not self._receive(max(until - time.monotonic(), 0.001)) or time.monotonic() > until:
                break
        return self._delivered.popleft() if self._delivered else None

    @property
    def has_next(self) -> bool:
        """True if `next` has a message without waiting."""
        return bool(self._delivered)

    def ack(self, tag: int) -> None:
        """Settle a message and all before it; said to the broker with the next `flush` or `next`."""
        args = BytesWriter()
        write_i64_be(args, tag)
        args.append(1)
        put_method(self._out, CHANNEL, BASIC_ACK, args.getvalue())

    def requeue(self, tag: int) -> None:
        """Give a message and all before it back to the queue."""
        args = BytesWriter()
        write_i64_be(args, tag)
        args.append(1 | 2)  # multiple, requeue
        put_method(self._out, CHANNEL, BASIC_NACK, args.getvalue())

    def decode(self, message: Delivered) -> Properties:
        """Return the properties of a message that was received."""
        return decode_properties(message.properties, DEPTH_MAX)

    # ---- within

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
        put_short(args, 0)  # no heartbeats: nobody is there to send them while a command works
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
        """The arguments of the reply that must come next."""
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
        # Refusals come at once and confirms wait for the disk, so they do not come in the order of the tags.
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
        """RequestError where the caller asked the impossible, PeerError for all else."""
        said = f"{self.server}: {text.partition(' - ')[2] or text}"
        answer = CHANNEL_CLOSE_OK if method == CHANNEL_CLOSE else CONNECTION_CLOSE_OK
        channel = CHANNEL if method == CHANNEL_CLOSE else 0
        out = BytesWriter()
        put_method(out, channel, answer, b"")
        with suppress(OSError):  # it has gone already
            self._connection.sendall(out.getvalue())
        if method == CHANNEL_CLOSE or code in (403, 530):
            raise self._broke(RequestError(REASONS.get(code, INVALID), said))
        raise self._broke(OutcomeUnknown(said) if code == 320 else PeerError(REASONS.get(code, MALFORMED), said))

    def _take_content(self) -> None:
        """A whole message is there, once nothing of its body is missing."""
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
    """A name as the protocol has them; RequestError(INVALID) where it is too long."""
    octets = text.encode()
    if len(octets) > 255:
        raise RequestError(INVALID, f"{what}: '{text[:80]}…' is longer than 255 octets")
    return octets
