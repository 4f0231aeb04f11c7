"""A small synchronous client of the block protocol, for Spark, the command line and tests.

    with BlockClient.connect("localhost:5672", "guest", "guest") as client:
        queue = client.describe("flights")
        for fetched in client.fetch("flights", queue.start, queue.end):
            ...

Every listener of a broker accepts the protocol.
"""

from __future__ import annotations

import errno
import math
import socket
import ssl
import struct
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Self

from forebay.client.closing import Closing
from forebay.client.connecting import ClientTls, connect_any
from forebay.core.errors import ForebayError, OutcomeUnknown, PeerError, RequestError
from forebay.wire.blocks.frames import (
    BLOCKS,
    BLOCKS_HEAD_OCTETS,
    BLOCKS_OCTETS_MAX,
    ERROR,
    FETCH_OCTETS_MAX,
    FRAME_HEAD_OCTETS,
    PICKED,
    PREFACE,
    PREFACE_OCTETS,
    REPLY,
    REPLY_OCTETS_MAX,
    REQUEST,
    decode_blocks_head,
    decode_json,
    decode_preface,
    encode_json,
    frame_octets,
)

TIMEOUT_S: Final = 30.0
RECEIVE_OCTETS: Final = 1 << 20  # size of the socket's buffer: a large one needs fewer reads
BAD_ANSWER: Final = (KeyError, ValueError, IndexError)  # raised by reading fields of a malformed answer


class StoredDataError(ForebayError):
    """The broker cannot read its own records; the text names the file and the offsets."""


@dataclass(frozen=True, slots=True)
class QueueDescription:
    """A queue, as a broker describes it.

    start, end  offsets of the records on disk now: from `start` to below `end`
    octets      approximate size of these records, in bytes
    """

    queue: str
    id: int
    kind: str
    start: int
    end: int
    octets: int


@dataclass(frozen=True, slots=True)
class QueueEnd:
    """The bounds of a queue now; the fields are those of `QueueDescription`."""

    id: int
    start: int
    end: int
    octets: int


@dataclass(frozen=True, slots=True)
class ReadGrant:
    """A permission to read the records of a range from followers of a cluster.

    end    bounds of the queue now, as in `QueueDescription`
    token  to be sent to the followers
    nodes  address by the name of a listener, for each follower; the preferred follower is first
    """

    end: QueueEnd
    token: str
    nodes: dict[str, dict[str, str]]


@dataclass(frozen=True, slots=True)
class Fetched:
    """One answer with blocks.

    next    all records of the range below this offset have been received
    start   the queue's first offset at the time of the answer
    blocks  complete blocks back to back, each with its head; parts of blocks, if columns were given
    offsets_follow  whether a filter was given. Then the blocks hold only matching records, each block is followed by
                    their offsets as little-endian i64, and the offset in its head has no meaning
    """

    next: int
    start: int
    blocks: bytes
    offsets_follow: bool = False


class BlockClient(Closing):
    """One connection. Use it from one thread at a time."""

    vhost: str | None = None  # the vhost to enter; None: the broker chooses
    answer_s: float = 0.0  # limit for receiving one answer in full; 0: none while bytes arrive

    def __init__(self, connection: socket.socket, server: str) -> None:
        self.server = server
        self._connection = connection
        self._timeout_s = TIMEOUT_S
        self._flags: int = socket.MSG_WAITALL
        self._broken = ""
        self._unread = False

    @classmethod
    def connect(
        cls,
        servers: str,
        user: str,
        password: str,
        timeout_s: float = TIMEOUT_S,
        vhost: str | None = None,
        tls: ClientTls | None = None,
    ) -> Self:
        """Connect to the first server of a list `host:port,host:port` that answers, and log in.

        timeout_s  limit for each answer, in seconds
        vhost      the vhost to enter; None uses the class's default
        tls        None: the connection is not encrypted
        raises     Unreachable, naming every server and its error; RequestError if login is refused
        """
        return connect_any(servers, timeout_s, tls, partial(cls._begin, user, password, vhost, timeout_s))

    @classmethod
    def _begin(
        cls, user: str, password: str, vhost: str | None, timeout_s: float, connection: socket.socket, server: str
    ) -> Self:
        client = cls(connection, server)
        if vhost is not None:
            client.vhost = vhost
        client._greet(user, password, timeout_s)
        return client

    @property
    def is_idle(self) -> bool:
        """Return whether a request can be sent: the connection works, and no answer is left unread."""
        return not self._broken and not self._unread

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
        self._broken = "the connection was closed"

    def describe(self, queue: str) -> QueueDescription:
        """Return the broker's description of a queue. Raises RequestError(NOT_FOUND) if there is none."""
        answer = self._ask({"op": "describe", "queue": queue})
        try:
            return description(answer)
        except BAD_ANSWER as error:
            raise self._malformed(answer, error) from None

    def queues(self, pattern: str = "") -> Iterator[QueueDescription]:
        """Yield the queues that the user may read, in order of their names.

        pattern  a regular expression that the whole name must match, in the syntax of filters
        raises   RequestError(INVALID) if the pattern is malformed
        """
        asked: dict[str, object] = {"op": "queues"}
        if pattern:
            asked["pattern"] = pattern
        more = True
        while more:
            answer = self._ask(asked)
            try:
                page = [description(each) for each in objects(answer["queues"])]
                more = answer["next"] is not None
                asked["from"] = answer["next"]
            except BAD_ANSWER as error:
                raise self._malformed(answer, error) from None
            yield from page

    def ends(self, queues: Mapping[str, int], wait_s: float = 0.0) -> dict[str, QueueEnd]:
        """Return the bounds of queues, waiting until one of them has records beyond the known end.

        queues  the end that the caller knows, by the queue's name
        wait_s  longest wait; at most 30 s, and at most half the timeout of an answer
        raises  RequestError(NOT_FOUND), also if a queue is deleted meanwhile
        """
        wait_ms = int(min(wait_s, self._timeout_s / 2) * 1000)
        answer = self._ask({"op": "ends", "queues": dict(queues), "wait_ms": wait_ms})
        try:
            return {name: queue_end(each) for name, each in mapping(answer["queues"]).items()}
        except BAD_ANSWER as error:
            raise self._malformed(answer, error) from None

    def hold(self, queue: str, group: str, offset: int, ttl_s: float) -> tuple[int, int]:
        """Hold the records from `offset` on for a time, so that no consumer, purge or limit removes them.

        group   name of the hold; a repeated request moves and renews it
        ttl_s   at least 1; the option hold_ttl_max_ms limits it
        returns the first offset held, above `offset` if earlier records are gone already; and the queue's start
        """
        asked = {"op": "hold", "queue": queue, "group": group, "offset": offset, "ttl_ms": int(ttl_s * 1000)}
        answer = self._ask(asked)
        try:
            return whole(answer["offset"]), whole(answer["start"])
        except BAD_ANSWER as error:
            raise self._malformed(answer, error) from None

    def release(self, queue: str, group: str) -> None:
        """End a hold, if there is one."""
        self._ask({"op": "release", "queue": queue, "group": group})

    def deliveries(self, queue: str, first: int, end: int) -> dict[int, int]:
        """Return how often the unsettled records of [first, end) were delivered, by offset.

        Records never delivered are left out.
        """
        found: dict[int, int] = {}
        while first < end:
            answer = self._ask({"op": "deliveries", "queue": queue, "first": first, "end": end})
            try:
                next = whole(answer["next"])
                found.update((whole(each[0]), whole(each[1])) for each in lists(answer["deliveries"]))
            except BAD_ANSWER as error:
                raise self._malformed(answer, error) from None
            if next <= first:
                break
            first = next
        return found

    def offset_at(self, queue: str, timestamp_us: int) -> int:
        """Return the first offset whose record is at or after a time, or the queue's end if there is none."""
        answer = self._ask({"op": "offset_at", "queue": queue, "timestamp_us": timestamp_us})
        try:
            return whole(answer["offset"])
        except BAD_ANSWER as error:
            raise self._malformed(answer, error) from None

    def grant(self, queue: str, first: int, end: int) -> ReadGrant:
        """Request permission to read the records of [first, end) from followers.

        The followers in the result serve these records to a client that sends the result's token.

        raises  RequestError(INVALID) if the broker's version does not support this
        """
        answer = self._ask({"op": "grant", "queue": queue, "first": first, "end": end})
        try:
            nodes = {str(each["node"]): texts(each["servers"]) for each in objects(answer["nodes"])}
            return ReadGrant(queue_end(answer), str(answer["token"]), nodes)
        except BAD_ANSWER as error:
            raise self._malformed(answer, error) from None

    def fetch(
        self,
        queue: str,
        first: int,
        end: int,
        octets_max: int = FETCH_OCTETS_MAX,
        filter: str = "",
        columns: Collection[str] | None = None,
    ) -> Iterator[Fetched]:
        """Yield the blocks that hold the records of [first, end), as they arrive.

        The first block may begin before `first` and the last end after `end`. The result ends early if the queue does.
        The next part is requested before this one is read, so the broker works while the caller does.

        filter   the broker sends only matching records of the range (docs/reference/filters.md); an answer may be empty
        columns  the broker sends only these columns, as parts of blocks (log/columns/parts.py): timestamp, format,
                 exchange, routing_key, properties, annotations, body
        """
        if first >= end:
            return
        asked_for: dict[str, object] = {"op": "fetch", "queue": queue, "end": end, "octets_max": octets_max}
        if filter:
            asked_for["filter"] = filter
        if columns is not None:
            asked_for["columns"] = list(columns)
        self._send(encode_json(REQUEST, {**asked_for, "first": first}))
        while True:
            payload_octets = self._head(PICKED if filter else BLOCKS)
            next, start = self._blocks_head(payload_octets)
            octets = payload_octets - BLOCKS_HEAD_OCTETS
            asked = (octets > 0 or bool(filter)) and first < next < end
            if asked:
                self._send(encode_json(REQUEST, {**asked_for, "first": next}))
            blocks = self._read(octets)
            # If the caller stops here, an answer stays unread in the connection.
            self._unread = asked
            yield Fetched(next, start, blocks, bool(filter))
            if not asked:
                return
            self._unread = False
            first = next

    def _blocks_head(self, payload_octets: int) -> tuple[int, int]:
        try:
            return decode_blocks_head(self._read(min(BLOCKS_HEAD_OCTETS, payload_octets)))
        except PeerError as error:
            raise self._broke(PeerError(error.reason, f"{self.server}: {error.text}")) from None

    def _greet(self, user: str, password: str, timeout_s: float) -> None:
        self._begin_speaking(PREFACE, timeout_s)
        login: dict[str, object] = {"op": "auth", "user": user, "password": password}
        if self.vhost is not None:
            login["vhost"] = self.vhost
        self._ask(login)

    def _begin_speaking(self, preface: bytes, timeout_s: float) -> None:
        """Configure the socket, and exchange prefaces."""
        self._timeout_s = timeout_s
        if isinstance(self._connection, ssl.SSLSocket):
            self._flags = 0  # a TLS socket accepts no flags
            self._connection.settimeout(timeout_s)
        else:
            # Not settimeout(): that makes the socket non-blocking, and MSG_WAITALL then costs a call for every packet.
            self._connection.settimeout(None)
            limit = struct.pack("ll", int(timeout_s), int(timeout_s % 1 * 1_000_000))
            self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
            self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_OCTETS)
        self._send(preface)
        answer = self._read(PREFACE_OCTETS)
        try:
            decode_preface(answer)
        except PeerError as error:
            raise PeerError(error.reason, f"{self.server}: no forebay broker: {error.text}") from None

    def _ask(self, request: dict[str, object]) -> dict[str, object]:
        """Send a request and return its reply."""
        self._send(encode_json(REQUEST, request))
        return self._reply()

    def _reply(self) -> dict[str, object]:
        """Return the object in the next frame, which must be a REPLY."""
        octets = self._head(REPLY)
        try:
            return decode_json(self._read(octets))
        except PeerError as error:
            raise self._broke(error) from None

    def _send(self, octets: bytes) -> None:
        if self._unread:
            self._broken = self._broken or "a fetch was left before its end"
        if self._broken:
            raise OutcomeUnknown(f"{self.server}: not usable any more: {self._broken}")
        try:
            self._connection.sendall(octets)
        except OSError as error:
            raise self._broke(OutcomeUnknown(f"{self.server}: sending failed: {error}")) from error

    def _head(self, kind: int) -> int:
        """Return the payload length of the next frame, which must be of this kind.

        Raises the error in an ERROR frame.
        """
        head = self._read(FRAME_HEAD_OCTETS)
        try:
            most = BLOCKS_OCTETS_MAX if head[4] in (BLOCKS, PICKED) else REPLY_OCTETS_MAX
            octets = int(frame_octets(head, 0, most)) - FRAME_HEAD_OCTETS
        except PeerError as error:
            raise self._broke(PeerError(error.reason, f"{self.server}: {error.text}")) from None
        if head[4] == ERROR:
            raise self._error(decode_json(self._read(octets)))
        if head[4] != kind:
            raise self._broke(PeerError("unexpected", f"{self.server}: frame of kind {head[4]} where {kind} was due"))
        return octets

    def _error(self, values: dict[str, object]) -> ForebayError:
        """Return the exception for an ERROR frame."""
        error, reason, text = (str(values.get(name)) for name in ("error", "reason", "text"))
        text = f"{self.server}: {text}"
        if error == "request":
            return RequestError(reason, text)
        if error == "storage":
            return StoredDataError(text)
        return self._broke(PeerError(reason, text))

    def _read(self, octets: int) -> bytes:
        """Read exactly this many bytes. Raises OutcomeUnknown if they do not arrive in time."""
        parts: list[bytes] = []
        until_s = time.monotonic() + self.answer_s if self.answer_s else math.inf
        while octets:
            if parts and time.monotonic() > until_s:
                raise self._broke(
                    OutcomeUnknown(f"{self.server}: too slow: {octets} octets of an answer have not come")
                )
            try:
                part = self._connection.recv(octets, self._flags)
            except OSError as error:
                late = isinstance(error, TimeoutError) or error.errno == errno.EAGAIN
                text = "no answer in time" if late else f"receiving failed: {error}"
                raise self._broke(OutcomeUnknown(f"{self.server}: {text}")) from error
            if not part:
                raise self._broke(OutcomeUnknown(f"{self.server}: the broker closed the connection"))
            parts.append(part)
            octets -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _malformed(self, answer: object, error: Exception) -> ForebayError:
        """Return the error for a malformed answer, after which the connection is not usable."""
        return self._broke(PeerError("malformed", f"{self.server}: answer {answer}: {error}"))

    def _broke(self, error: ForebayError) -> ForebayError:
        """Mark the connection as not usable after this error, and return the error."""
        self._broken = self._broken or str(error)
        return error


def whole(value: object) -> int:
    """Return a field of the broker's answer as an integer. Raises ValueError unless it is one, and 0 or more."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} is no whole number from 0")
    return value


def mapping(value: object) -> dict[str, object]:
    """Return a field of the broker's answer as an object. Raises ValueError if it is none."""
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is no object")
    return value


def objects(value: object) -> list[dict[str, object]]:
    """Return a field of the broker's answer as a list of objects. Raises ValueError if it is none."""
    if not isinstance(value, list):
        raise ValueError(f"{value!r} is no list")
    return [mapping(each) for each in value]


def lists(value: object) -> list[list[object]]:
    """Return a field of the broker's answer as a list of lists. Raises ValueError if it is none."""
    if not isinstance(value, list) or not all(isinstance(each, list) for each in value):
        raise ValueError(f"{value!r} is no list of lists")
    return value


def texts(value: object) -> dict[str, str]:
    """Return a field of the broker's answer as an object of texts. Raises ValueError if it is no object."""
    return {name: str(each) for name, each in mapping(value).items()}


def description(values: dict[str, object]) -> QueueDescription:
    end = queue_end(values)
    return QueueDescription(str(values["queue"]), end.id, str(values["kind"]), end.start, end.end, end.octets)


def queue_end(value: object) -> QueueEnd:
    values = mapping(value)
    return QueueEnd(*(whole(values[name]) for name in ("id", "start", "end", "octets")))
