"""The methods of AMQP 0.9.1: their numbers, arguments and reply codes (amqp0-9-1.xml, with RabbitMQ's additions)."""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from forebay.core.errors import (
    DAMAGED,
    INTERNAL,
    INVALID,
    LOCKED,
    MALFORMED,
    NOT_ALLOWED,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    PRECONDITION,
    REFUSED,
    TAKEN_OVER,
    TIMED_OUT,
    TOO_LARGE,
    TOO_MANY,
    UNEXPECTED,
    UNSUPPORTED_VERSION,
)
from forebay.wire.amqp091.codec import (
    FRAME,
    SHORT_STRING_MAX,
    Reader,
    cut_text,
    put_long_string,
    put_method,
    put_short,
    put_short_string,
    put_table,
)

# Method numbers: class << 16 | method.
CONNECTION_START: Final = 0x000A000A
CONNECTION_START_OK: Final = 0x000A000B
CONNECTION_SECURE_OK: Final = 0x000A0015
CONNECTION_TUNE: Final = 0x000A001E
CONNECTION_TUNE_OK: Final = 0x000A001F
CONNECTION_OPEN: Final = 0x000A0028
CONNECTION_OPEN_OK: Final = 0x000A0029
CONNECTION_CLOSE: Final = 0x000A0032
CONNECTION_CLOSE_OK: Final = 0x000A0033
CONNECTION_BLOCKED: Final = 0x000A003C
CONNECTION_UNBLOCKED: Final = 0x000A003D
CONNECTION_UPDATE_SECRET: Final = 0x000A0046
CONNECTION_UPDATE_SECRET_OK: Final = 0x000A0047
CHANNEL_OPEN: Final = 0x0014000A
CHANNEL_OPEN_OK: Final = 0x0014000B
CHANNEL_FLOW: Final = 0x00140014
CHANNEL_FLOW_OK: Final = 0x00140015
CHANNEL_CLOSE: Final = 0x00140028
CHANNEL_CLOSE_OK: Final = 0x00140029
EXCHANGE_DECLARE: Final = 0x0028000A
EXCHANGE_DECLARE_OK: Final = 0x0028000B
EXCHANGE_DELETE: Final = 0x00280014
EXCHANGE_DELETE_OK: Final = 0x00280015
EXCHANGE_BIND: Final = 0x0028001E
EXCHANGE_BIND_OK: Final = 0x0028001F
EXCHANGE_UNBIND: Final = 0x00280028
EXCHANGE_UNBIND_OK: Final = 0x00280033
QUEUE_DECLARE: Final = 0x0032000A
QUEUE_DECLARE_OK: Final = 0x0032000B
QUEUE_BIND: Final = 0x00320014
QUEUE_BIND_OK: Final = 0x00320015
QUEUE_PURGE: Final = 0x0032001E
QUEUE_PURGE_OK: Final = 0x0032001F
QUEUE_DELETE: Final = 0x00320028
QUEUE_DELETE_OK: Final = 0x00320029
QUEUE_UNBIND: Final = 0x00320032
QUEUE_UNBIND_OK: Final = 0x00320033
BASIC_QOS: Final = 0x003C000A
BASIC_QOS_OK: Final = 0x003C000B
BASIC_CONSUME: Final = 0x003C0014
BASIC_CONSUME_OK: Final = 0x003C0015
BASIC_CANCEL: Final = 0x003C001E
BASIC_CANCEL_OK: Final = 0x003C001F
BASIC_PUBLISH: Final = 0x003C0028
BASIC_RETURN: Final = 0x003C0032
BASIC_DELIVER: Final = 0x003C003C
BASIC_GET: Final = 0x003C0046
BASIC_GET_OK: Final = 0x003C0047
BASIC_GET_EMPTY: Final = 0x003C0048
BASIC_ACK: Final = 0x003C0050
BASIC_REJECT: Final = 0x003C005A
BASIC_RECOVER_ASYNC: Final = 0x003C0064
BASIC_RECOVER: Final = 0x003C006E
BASIC_RECOVER_OK: Final = 0x003C006F
BASIC_NACK: Final = 0x003C0078
CONFIRM_SELECT: Final = 0x0055000A
CONFIRM_SELECT_OK: Final = 0x0055000B
TX_SELECT: Final = 0x005A000A
TX_SELECT_OK: Final = 0x005A000B
TX_COMMIT: Final = 0x005A0014
TX_COMMIT_OK: Final = 0x005A0015
TX_ROLLBACK: Final = 0x005A001E
TX_ROLLBACK_OK: Final = 0x005A001F


# Error reasons that only AMQP 0.9.1 distinguishes.
CHANNEL_ERROR: Final = "channel-error"  # a frame for a channel that is not open, or an open of one that is
UNEXPECTED_FRAME: Final = "unexpected-frame"  # content without a publish, or a method inside content

# reason -> (code, name). Codes of HARD end the connection, the others the channel.
REPLIES: Final[dict[str, tuple[int, str]]] = {
    TOO_LARGE: (311, "CONTENT_TOO_LARGE"),
    TIMED_OUT: (320, "CONNECTION_FORCED"),
    TAKEN_OVER: (320, "CONNECTION_FORCED"),
    REFUSED: (403, "ACCESS_REFUSED"),
    NOT_FOUND: (404, "NOT_FOUND"),
    LOCKED: (405, "RESOURCE_LOCKED"),
    PRECONDITION: (406, "PRECONDITION_FAILED"),
    DAMAGED: (406, "PRECONDITION_FAILED"),
    INVALID: (406, "PRECONDITION_FAILED"),
    TOO_MANY: (406, "PRECONDITION_FAILED"),
    FRAME: (501, "FRAME_ERROR"),
    MALFORMED: (502, "SYNTAX_ERROR"),
    UNEXPECTED: (503, "COMMAND_INVALID"),
    UNSUPPORTED_VERSION: (503, "COMMAND_INVALID"),
    CHANNEL_ERROR: (504, "CHANNEL_ERROR"),
    UNEXPECTED_FRAME: (505, "UNEXPECTED_FRAME"),
    NOT_ALLOWED: (530, "NOT_ALLOWED"),
    NOT_IMPLEMENTED: (540, "NOT_IMPLEMENTED"),
    INTERNAL: (541, "INTERNAL_ERROR"),
}
HARD: Final = (320, 402, 501, 502, 503, 504, 505, 506, 530, 540, 541)
NO_ROUTE: Final = 312


def reply(reason: str) -> tuple[int, str]:
    """Return the reply code and the name of an error reason."""
    return REPLIES[reason]


def reply_text(name: str, text: str) -> bytes:
    """Return the reply text of a close method, truncated to 255 octets."""
    return cut_text(f"{name} - {text}", SHORT_STRING_MAX)


# ---- arguments of methods that have many


@final
class StartOk:
    """The arguments of connection.start-ok."""

    def __init__(self, args: Reader) -> None:
        self.client_properties = args.table()
        self.mechanism = args.short_string()
        self.response = args.long_string()
        self.locale = args.short_string()


def read_name(args: Reader) -> bytes:
    """Read the name of a queue or exchange to declare, bind or delete. CR and LF are removed, as in RabbitMQ."""
    name = args.short_string()
    if b"\n" in name or b"\r" in name:
        return name.replace(b"\n", b"").replace(b"\r", b"")
    return name


@final
class ExchangeDeclare:
    """The arguments of exchange.declare."""

    def __init__(self, args: Reader) -> None:
        args.short()
        self.exchange = read_name(args)
        self.kind = args.short_string()
        bits = args.octet()
        self.passive = bits & 1 != 0
        self.durable = bits & 2 != 0
        self.auto_delete = bits & 4 != 0
        self.internal = bits & 8 != 0
        self.no_wait = bits & 16 != 0
        self.arguments = args.table()


@final
class ExchangeBind:
    """The arguments of exchange.bind or exchange.unbind."""

    def __init__(self, args: Reader) -> None:
        args.short()
        self.destination = read_name(args)
        self.source = read_name(args)
        self.routing_key = args.short_string()
        self.no_wait = args.octet() & 1 != 0
        self.arguments = args.table()


@final
class QueueDeclare:
    """The arguments of queue.declare."""

    def __init__(self, args: Reader) -> None:
        args.short()
        self.queue = read_name(args)
        bits = args.octet()
        self.passive = bits & 1 != 0
        self.durable = bits & 2 != 0
        self.exclusive = bits & 4 != 0
        self.auto_delete = bits & 8 != 0
        self.no_wait = bits & 16 != 0
        self.arguments = args.table()


@final
class QueueBind:
    """The arguments of queue.bind, or of queue.unbind, which has no no-wait bit."""

    def __init__(self, args: Reader, unbind: bool) -> None:
        args.short()
        self.queue = read_name(args)
        self.exchange = read_name(args)
        self.routing_key = args.short_string()
        self.no_wait = False if unbind else args.octet() & 1 != 0
        self.arguments = args.table()


@final
class Consume:
    """The arguments of basic.consume."""

    def __init__(self, args: Reader) -> None:
        args.short()
        self.queue = args.short_string()
        self.tag = args.short_string()
        bits = args.octet()
        self.no_local = bits & 1 != 0
        self.no_ack = bits & 2 != 0
        self.exclusive = bits & 4 != 0
        self.no_wait = bits & 8 != 0
        at = args.pos
        self.arguments = args.table()
        start = self.arguments.get("x-stream-offset")
        # The decoder turns a timestamp into an integer. Here an integer would be taken for an offset.
        if isinstance(start, int) and args.data.find(b"\x0fx-stream-offsetT", at, args.pos) >= 0:
            self.arguments["x-stream-offset"] = f"timestamp={start * 1000}"


# ---- replies


def put_close(out: BytesWriter, channel: i64, method: i64, code: i64, text: bytes, cause: i64) -> None:
    """Append connection.close or channel.close. `cause` is the method that failed, or 0 for none."""
    args = BytesWriter()
    put_short(args, code)
    put_short_string(args, text)
    put_short(args, cause >> 16)
    put_short(args, cause & 0xFFFF)
    put_method(out, channel, method, args.getvalue())


def put_start(out: BytesWriter, server_properties: list[tuple[str, object]], mechanisms: bytes) -> None:
    """Append connection.start."""
    args = BytesWriter()
    args.write(b"\x00\x09")
    put_table(args, server_properties)
    put_long_string(args, mechanisms)
    put_long_string(args, b"en_US")
    put_method(out, 0, CONNECTION_START, args.getvalue())


def put_blocked(out: BytesWriter, reason: bytes) -> None:
    """Append connection.blocked, or connection.unblocked if `reason` is empty."""
    if not reason:
        put_method(out, 0, CONNECTION_UNBLOCKED, b"")
        return
    args = BytesWriter()
    put_short_string(args, reason)
    put_method(out, 0, CONNECTION_BLOCKED, args.getvalue())


def put_tune(out: BytesWriter, channels_max: i64, frame_octets_max: i64, heartbeat_s: i64) -> None:
    """Append connection.tune with the limits that the server proposes."""
    args = BytesWriter()
    put_short(args, channels_max)
    write_i32_be(args, i32(frame_octets_max))
    put_short(args, heartbeat_s)
    put_method(out, 0, CONNECTION_TUNE, args.getvalue())


def put_counts(out: BytesWriter, channel: i64, method: i64, name: bytes, messages: i64, consumers: i64) -> None:
    """Append queue.declare-ok with the queue's name and its counts of messages and consumers."""
    args = BytesWriter()
    put_short_string(args, name)
    put_count(args, messages)
    put_count(args, consumers)
    put_method(out, channel, method, args.getvalue())


def put_count(out: BytesWriter, count: i64) -> None:
    """Append a 32-bit count. A count of 2^31 or more is written as 2^31 - 1."""
    write_i32_be(out, i32(min(count, 0x7FFFFFFF)))


def put_message_count(out: BytesWriter, channel: i64, method: i64, messages: i64) -> None:
    """Append queue.purge-ok or queue.delete-ok with the number of messages removed."""
    args = BytesWriter()
    put_count(args, messages)
    put_method(out, channel, method, args.getvalue())


def put_tag(out: BytesWriter, channel: i64, method: i64, tag: bytes) -> None:
    """Append basic.consume-ok or basic.cancel-ok with the consumer's tag."""
    args = BytesWriter()
    put_short_string(args, tag)
    put_method(out, channel, method, args.getvalue())


def put_cancel(out: BytesWriter, channel: i64, tag: bytes) -> None:
    """Append basic.cancel, which notifies a consumer that its queue is gone."""
    args = BytesWriter()
    put_short_string(args, tag)
    args.append(1)
    put_method(out, channel, BASIC_CANCEL, args.getvalue())


def put_settle(out: BytesWriter, channel: i64, method: i64, tag: i64, multiple: bool) -> None:
    """Append basic.ack or basic.nack as a publisher confirm."""
    args = BytesWriter()
    write_i64_be(args, tag)
    args.append(1 if multiple else 0)
    put_method(out, channel, method, args.getvalue())


def put_return(out: BytesWriter, channel: i64, code: i64, text: bytes, exchange: bytes, routing_key: bytes) -> None:
    """Append basic.return. The content must follow."""
    args = BytesWriter()
    put_short(args, code)
    put_short_string(args, text)
    put_short_string(args, exchange)
    put_short_string(args, routing_key)
    put_method(out, channel, BASIC_RETURN, args.getvalue())


def put_get_ok(
    out: BytesWriter, channel: i64, tag: i64, redelivered: bool, exchange: bytes, routing_key: bytes, ready: i64
) -> None:
    """Append basic.get-ok. The content must follow."""
    args = BytesWriter()
    write_i64_be(args, tag)
    args.append(1 if redelivered else 0)
    put_short_string(args, exchange)
    put_short_string(args, routing_key)
    put_count(args, ready)
    put_method(out, channel, BASIC_GET_OK, args.getvalue())
