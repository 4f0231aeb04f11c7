"""The arguments of a consumer beside the queue: its group, its rank, where to start in a stream, who commits."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.core.errors import INVALID, PRECONDITION, RequestError
from forebay.core.option_names import DELIVERY_HEADERS
from forebay.filter.parser import Filter, parse
from forebay.queue.declaration.arguments import AGE_UNITS, age_us, check_names, invalid
from forebay.queue.queue import QUORUM, STREAM, Queue
from forebay.routing.exchange import text, type_name

TIME_US_MAX: Final = 1 << 60
TIMEOUT_MS_MAX: Final = 1 << 40
VALUES_MAX: Final = 1000  # values that one consumer may ask for
FILTER: Final = "x-filter"
QUERY: Final = "x-query"
CONSUMER_ARGUMENTS: Final = (
    "x-consumer-group",
    "x-stream-offset",
    "x-auto-commit",
    "x-priority",
    "x-consumer-timeout",
    "x-stream-filter",
    "x-stream-match-unfiltered",
    "x-delivery-headers",
    "x-delivery-counts",
    FILTER,
    QUERY,
)
# RabbitMQ's, which its clients send; nothing here comes of them.
FOREIGN_TO_CONSUMERS: Final = ("x-cancel-on-ha-failover", "x-credit")


@final
class ConsumerArguments:
    """The arguments of one consumer, checked; names of RabbitMQ mean what they mean there.

    vhost, queue  names, for the texts of errors

    group        `x-consumer-group`; empty is the nameless one
    start        `x-stream-offset` as it was given; None where it was not
    auto_commit  `x-auto-commit`: a stream group commits by itself what was acknowledged
    priority     `x-priority`: who has a higher one is served first
    timeout_us   `x-consumer-timeout`: how long a record may be held; 0: as the queue says
    values       `x-stream-filter`: only records of these values are wanted; None: all are
    unfiltered   `x-stream-match-unfiltered`: with `values`, also records that have no value
    filter       `x-filter`: only records of which this holds are wanted; None: all are
    headers      `x-delivery-headers`: what deliveries say of their origin; empty: as the broker's option says
    query        `x-query`: a query whose answer comes first, and all records from its end on; None: there is none
    counts       `x-delivery-counts`: redeliveries over AMQP say how often, also where the queue counts nothing
    """

    def __init__(self, arguments: dict[str, object], vhost: bytes, queue: bytes) -> None:
        self.where = f"queue '{text(queue)}' in vhost '{text(vhost)}'"
        if arguments:
            check_names(arguments, CONSUMER_ARGUMENTS, FOREIGN_TO_CONSUMERS, f"a consumer of {self.where}")
        self.group = group_name(arguments.get("x-consumer-group", ""))
        self.start = arguments.get("x-stream-offset")
        self.auto_commit = self.switch(arguments, "x-auto-commit", True)
        self.priority = self.whole(arguments, "x-priority")
        timeout_ms = self.whole(arguments, "x-consumer-timeout")
        if not 0 <= timeout_ms <= TIMEOUT_MS_MAX:
            raise invalid("x-consumer-timeout", self.where, f"{timeout_ms} is not within 0 .. {TIMEOUT_MS_MAX} ms")
        self.timeout_us = timeout_ms * 1000
        self.values = self.texts(arguments, "x-stream-filter")
        self.unfiltered = self.switch(arguments, "x-stream-match-unfiltered", False)
        self.filter = None if FILTER not in arguments else content_filter(arguments[FILTER])
        self.query = None if QUERY not in arguments else self.query_text(arguments)
        self.headers = self.word(arguments, "x-delivery-headers", DELIVERY_HEADERS)
        self.counts = self.switch(arguments, "x-delivery-counts", False)

    def query_text(self, arguments: dict[str, object]) -> bytes:
        """Return the query of a consumer that begins where the answer ends."""
        for name in ("x-stream-offset", "x-consumer-group"):
            if name in arguments:
                raise invalid(QUERY, self.where, f"goes without {name}: the consumer begins where the answer ends")
        value = arguments[QUERY]
        if isinstance(value, bytes):
            return value
        if not isinstance(value, str):
            raise invalid(QUERY, self.where, f'"expected longstr, got {type_name(value)}"')
        return value.encode()

    def whole(self, arguments: dict[str, object], name: str) -> i64:
        """Return an integer argument, or 0 if it is absent. Raises RequestError if it is not an integer in range."""
        if name not in arguments:
            return 0
        value = arguments[name]
        if isinstance(value, bool) or not isinstance(value, int):
            raise invalid(name, self.where, f'"expected integer, got {type_name(value)}"')
        if not -(1 << 62) < value < 1 << 62:
            raise invalid(name, self.where, f"{value} is beyond all bounds")
        return value

    def switch(self, arguments: dict[str, object], name: str, default: bool) -> bool:
        value = arguments.get(name, default)
        if not isinstance(value, bool):
            raise invalid(name, self.where, f'"expected bool, got {type_name(value)}"')
        return value

    def word(self, arguments: dict[str, object], name: str, words: tuple[str, ...]) -> str:
        """One of these words; empty where it is absent."""
        if name not in arguments:
            return ""
        value = arguments[name]
        if not isinstance(value, str):
            raise invalid(name, self.where, f'"expected longstr, got {type_name(value)}"')
        if value not in words:
            raise invalid(name, self.where, f"'{value}' is none of {', '.join(words)}")
        return value

    def texts(self, arguments: dict[str, object], name: str) -> list[bytes] | None:
        """Return the texts of an argument that is a text or an array of texts, or None if it is absent."""
        if name not in arguments:
            return None
        value = arguments[name]
        given: list[object] = value if isinstance(value, list) else [value]
        found: list[bytes] = []
        for item in given:
            if isinstance(item, str):
                found.append(item.encode())
            elif isinstance(item, bytes):
                found.append(item)
            else:
                raise invalid(name, self.where, f'"expected longstr or array of them, got {type_name(item)}"')
        if not found or len(found) > VALUES_MAX:
            raise invalid(name, self.where, f"{len(found)} values are not within 1 .. {VALUES_MAX}")
        return found

    def check_kind(self, arguments: dict[str, object], queue: Queue, work: bool) -> None:
        """RequestError unless a work group, or else a stream group, of this queue can do what is asked."""
        foreign = ("x-stream-filter", "x-stream-match-unfiltered") if work else ("x-priority",)
        for name in foreign:
            if name in arguments:
                kind = "stream" if queue.kind == STREAM else "quorum" if queue.kind == QUORUM else "classic"
                raise RequestError(
                    PRECONDITION, f"invalid arg '{name}' for {self.where} of queue type rabbit_{kind}_queue"
                )


def content_filter(value: object) -> Filter:
    """`x-filter`: a filter on what messages say; RequestError where it is none, in the parser's words."""
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError as error:
            raise RequestError(INVALID, f"{FILTER}: no UTF-8 at octet {error.start}") from None
    if not isinstance(value, str):
        raise RequestError(INVALID, f"{FILTER}: expected longstr, got {type_name(value)}")
    filter = parse(value)
    if "age_ms" in filter.properties:
        raise RequestError(INVALID, "filter, 'age_ms': a consumer's filter looks at a message once; see stored_ms")
    return filter


def group_name(name: object) -> bytes:
    """`x-consumer-group`: the name of the group, or nothing."""
    if isinstance(name, bytes):
        name = name.decode("utf-8", "replace")
    if not isinstance(name, str) or len(name) > 255 or "\0" in name or "@" in name:
        raise RequestError(INVALID, f"x-consumer-group: {name!r} is not a name of at most 255 characters without '@'")
    return name.encode()


def stream_start(
    queue: Queue,
    start: object,
    now_us: i64,
    named: bool = False,
    argument: str = "x-stream-offset",
    first: i64 = -1,
) -> i64:
    """Return the first offset of a new group, as `x-stream-offset` or another start argument asks.

    named  the group has a name: unless it is told otherwise it misses nothing, and begins at the first record
    first  the first offset that it may be; -1: that of the queue
    """
    log = queue.log
    if first < 0:
        first = queue.start()
    if isinstance(start, bytes):
        start = start.decode("utf-8", "replace")
    if start is None:
        start = "first" if named else "next"
    if start == "next":
        return log.end
    if start in ("first", "resume"):
        return first
    if start == "last":
        return log.end - 1 if log.end > first else log.end
    if isinstance(start, str) and start.startswith("timestamp="):
        return max(first, log.offset_at(min(number_of(argument, start, start[10:]) * 1000, TIME_US_MAX)))
    if isinstance(start, str) and len(start) > 1 and start[-1] in AGE_UNITS:
        ago_us = age_us(start)
        if ago_us > 0:
            return max(first, log.offset_at(max(now_us - min(ago_us, TIME_US_MAX), i64(0))))
    if isinstance(start, str) and start.startswith("offset="):
        start = number_of(argument, start, start[7:])
    elif isinstance(start, str) and start.isdigit():
        start = number_of(argument, start, start)
    if isinstance(start, bool) or not isinstance(start, int) or not -(1 << 63) <= start < 1 << 62:
        raise RequestError(
            INVALID,
            f"{argument}: {start!r} is none of first, last, next, resume, a number, offset=N, timestamp=ms, "
            "a time ago such as 90m, 12h, 7D",
        )
    offset: i64 = start
    return max(first, min(log.end, offset))


def number_of(argument: str, whole: str, digits: str) -> int:
    if digits.isascii() and digits.isdigit() and len(digits) < 17:
        return int(digits)
    raise RequestError(INVALID, f"{argument}: {whole!r} has no number")
