"""Access to the logs of queues, with one interface for a broker and a data directory."""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple, TypeVar

from forebay.client.blocks import TIMEOUT_S, BlockClient, StoredDataError
from forebay.client.closing import Closing
from forebay.core.errors import (
    INVALID,
    NOT_FOUND,
    UNEXPECTED,
    CorruptFile,
    ForebayError,
    OutcomeUnknown,
    PeerError,
    RequestError,
    Unreachable,
)
from forebay.core.stored.columns import COLUMNS
from forebay.spark.access import Access
from forebay.spark.arrow.batches import BlockView, Buffer
from forebay.spark.idle import IdleConnections
from forebay.spark.reading.followers import FollowersAsked
from forebay.spark.reading.plan import Range

LOGGER: Final = logging.getLogger("forebay.spark")
ADVICE: Final = "Set failOnDataLoss to false to read what there is."
PAUSE_S: Final = 0.05  # before the first reconnect to a broker; doubled each time
PAUSE_S_MAX: Final = 1.0

T = TypeVar("T")


class DataLost(ForebayError):
    """Requested records no longer exist, and the read must not skip them."""


class LogEnd(NamedTuple):
    """The bounds of a log as it is now.

    id      id of the log; differs if the queue was deleted and declared anew
    start, end  first offset, and last offset plus one, of the records that are on disk
    octets  approximate size of the records, in bytes
    """

    id: int
    start: int
    end: int
    octets: int

    def octets_of(self, count: int) -> int:
        """Return the approximate size of `count` of its records, in bytes."""
        return self.octets * max(0, count) // max(1, self.end - self.start)


class CheckedAnswer(NamedTuple):
    """One answer with blocks, whose checksums are verified; the other fields are those of the client's answer."""

    next: int
    start: int
    views: list[BlockView]


class LogAccess(Closing):
    """Read-only access to the logs of queues."""

    @abstractmethod
    def names(self, pattern: str) -> list[str]:
        """Return the queues whose whole name matches a regular expression, sorted."""

    @abstractmethod
    def look(self, queue: str) -> LogEnd:
        """Return the bounds of one queue's log as it is now.

        Raises RequestError(NOT_FOUND) if there is no such queue.
        """

    @abstractmethod
    def ends(self, after: Mapping[str, int], wait_s: float) -> dict[str, LogEnd]:
        """Return the bounds of these queues' logs, waiting for new records. Queues that do not exist are left out.

        after   by queue: wait while no log's end is beyond the given offset
        wait_s  longest wait, in seconds
        """

    def ends_of_existing(self, queues: Iterable[str]) -> dict[str, LogEnd]:
        """Return the bounds of these queues' logs as they are now. Queues that do not exist are left out."""
        found: dict[str, LogEnd] = {}
        for queue in queues:
            try:
                found[queue] = self.look(queue)
            except RequestError as error:
                if error.reason != NOT_FOUND:
                    raise
        return found

    def bounds(self, queue: str) -> tuple[int, int]:
        """Return first offset and end of the records on disk.

        Raises RequestError(NOT_FOUND) if there is no such queue.
        """
        found = self.look(queue)
        return found.start, found.end

    @abstractmethod
    def offset_at(self, queue: str, timestamp_us: int) -> int:
        """Return the first offset whose record is at or after the time, or the log's end if there is none."""

    def share(self, range: Range) -> object:
        """Return what a task needs to read a range, besides the range itself; pickled. None if it needs nothing."""
        return None

    @abstractmethod
    def blocks(
        self,
        queue: str,
        first: int,
        end: int,
        fail_on_data_loss: bool,
        id: int | None = None,
        filter: str = "",
        share: object = None,
        columns: Collection[str] | None = None,
    ) -> Iterator[BlockView]:
        """Yield the blocks with the records of [first, end), in order. Consecutive blocks may repeat some records.

        id      id of the log that is expected; None for the queue's current log
        filter  content filter; the blocks then hold only matching records
        share   result of the planner's call of `share`
        columns  columns of a block that will be read, by the block protocol's names; all by default
        raises  DataLost if records of the range were removed before they could be read, if `fail_on_data_loss`
        """

    @abstractmethod
    def deliveries(self, queue: str, first: int, end: int) -> dict[int, int] | None:
        """Return the number of deliveries of the records of [first, end), by offset; None if unknown."""


class Patience:
    """The time that remains for reconnecting to a broker, with increasing pauses."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self.pause_s = PAUSE_S
        self.deadline: float | None = None

    def wait(self, error: ForebayError) -> None:
        """Pause before the next attempt, or raise the last attempt's error if the time is over."""
        now = time.monotonic()
        if self.deadline is None:
            self.deadline = now + self.limit_s
            if self.limit_s:
                LOGGER.warning("%s: waiting for up to %g s (retryMs)", error, self.limit_s)
        if now >= self.deadline:
            raise error
        time.sleep(min(self.pause_s, self.deadline - now))
        self.pause_s = min(2 * self.pause_s, PAUSE_S_MAX)


_idle: Final = IdleConnections[BlockClient]()


class RemoteLogs(LogAccess):
    """The logs of a running broker. If the broker is away, each request waits for it, from the first one on."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.client: BlockClient | None = None
        self.is_used = False  # the client comes from `_idle`, so that its connection may be broken

    def names(self, pattern: str) -> list[str]:
        return self.patiently(lambda client: [found.queue for found in client.queues(pattern)])

    def look(self, queue: str) -> LogEnd:
        found = self.patiently(lambda client: client.describe(queue))
        return LogEnd(found.id, found.start, found.end, found.octets)

    def ends(self, after: Mapping[str, int], wait_s: float) -> dict[str, LogEnd]:
        try:
            found = self.patiently(lambda client: client.ends(after, wait_s))
        except RequestError as error:
            if error.reason != NOT_FOUND:
                raise
            return self.ends_of_existing(after)
        return {queue: LogEnd(each.id, each.start, each.end, each.octets) for queue, each in found.items()}

    def offset_at(self, queue: str, timestamp_us: int) -> int:
        return self.patiently(lambda client: client.offset_at(queue, timestamp_us))

    def hold(self, queue: str, group: str, offset: int, ttl_s: float) -> int:
        """Hold the records from an offset on for `ttl_s` seconds. Returns the first offset that is held indeed."""
        granted, _ = self.patiently(lambda client: client.hold(queue, group, offset, ttl_s))
        return granted

    def blocks(
        self,
        queue: str,
        first: int,
        end: int,
        fail_on_data_loss: bool,
        id: int | None = None,
        filter: str = "",
        share: object = None,
        columns: Collection[str] | None = None,
    ) -> Iterator[BlockView]:
        wanted = first
        patience = Patience(self.access.retry_s)
        followers = FollowersAsked(self.access)
        try:
            while wanted < end:
                before = wanted
                try:
                    log = self.find(followers, queue, wanted, end)
                    if id is not None and log.id != id:
                        if fail_on_data_loss:
                            raise recreated(queue)
                        return
                    last = min(end, log.end) if followers.node else end
                    for fetched in self.fetched(followers, queue, wanted, last, filter, columns):
                        if fetched.start > wanted and fail_on_data_loss:
                            raise lost(queue, wanted, fetched.start)
                        yield from fetched.views
                        wanted = fetched.next
                        patience = Patience(self.access.retry_s)
                    if followers.node and wanted == before:
                        followers.lose(PeerError(UNEXPECTED, "an answer without records"), False)
                    elif not followers.node and (wanted == before or wanted < end):
                        break
                except (Unreachable, OutcomeUnknown) as error:
                    # No records of an incomplete answer were yielded: the next request begins at the same offset.
                    if followers.node:
                        followers.lose(error, wanted > before)
                    else:
                        self.lose(patience, error)
                        followers.failed.clear()
                except (PeerError, RequestError, StoredDataError, CorruptFile) as error:
                    if not followers.node:
                        raise
                    followers.lose(error, wanted > before)
        finally:
            followers.leave()
        if wanted < end and fail_on_data_loss:
            raise cut_off(queue, wanted, end)

    def find(self, followers: FollowersAsked, queue: str, first: int, end: int) -> LogEnd:
        """Return the log's bounds, and connect to a follower that may serve its records from `first` on."""
        followers.leave()
        if not self.access.from_followers:
            return self.look(queue)
        try:
            grant = self.patiently(lambda client: client.grant(queue, first, end))
        except RequestError as error:
            if error.reason != INVALID:
                raise
            return self.look(queue)  # a broker of an older version
        followers.reach(grant)
        return LogEnd(grant.end.id, grant.end.start, grant.end.end, grant.end.octets)

    def fetched(
        self,
        followers: FollowersAsked,
        queue: str,
        first: int,
        end: int,
        filter: str,
        columns: Collection[str] | None,
    ) -> Iterator[CheckedAnswer]:
        """Yield the answers of the serving node with verified checksums, so that the caller can rely on them."""
        parts = None if columns is None else sum(COLUMNS[name] for name in columns)
        if followers.client is not None:
            client: BlockClient = followers.client
            where = f"node {followers.node} at {client.server}"
        else:
            with naming(self.access):
                client = self.connected()
            where = self.access.servers
        for answer in client.fetch(queue, first, end, filter=filter, columns=columns):
            views = list(Buffer(answer.blocks, f"{where}: queue {queue!r}").blocks(answer.offsets_follow, parts))
            for view in views:
                view.check()
            yield CheckedAnswer(answer.next, answer.start, views)

    def deliveries(self, queue: str, first: int, end: int) -> dict[int, int] | None:
        return self.patiently(lambda client: client.deliveries(queue, first, end))

    def patiently(self, ask: Callable[[BlockClient], T]) -> T:
        """Return the broker's answer to a request, repeating it while the broker is away."""
        patience = Patience(self.access.retry_s)
        while True:
            try:
                with naming(self.access):
                    return ask(self.connected())
            except (Unreachable, OutcomeUnknown) as error:
                self.lose(patience, error)

    def connected(self) -> BlockClient:
        if self.client is None:
            self.client = _idle.take(self.access)
            self.is_used = self.client is not None
        if self.client is None:
            self.client = self.access.connect(BlockClient, TIMEOUT_S)
        return self.client

    def lose(self, patience: Patience, error: ForebayError) -> None:
        """Close a connection that broke.

        Pause before the next one, unless the connection was an old one from the idle pool.
        """
        if self.client is not None:
            self.client.close()
            self.client = None
        _idle.close(self.access)
        if self.is_used:
            self.is_used = False
        else:
            patience.wait(error)

    def close(self) -> None:
        """Return the connection to the idle pool, or close it if it is in use."""
        if self.client is not None:
            if self.client.is_idle:
                _idle.leave(self.access, self.client)
            else:
                self.client.close()
            self.client = None


@contextmanager
def naming(access: Access) -> Iterator[None]:
    """Add user and vhost to the text of a RequestError raised in the body of a `with`."""
    try:
        yield
    except RequestError as error:
        if type(error) is not RequestError:
            raise
        who = f"user {access.user!r}, vhost {access.vhost!r}"
        raise RequestError(error.reason, f"{error.text} ({who})", error.scope) from None


def lost(queue: str, wanted: int, available: int) -> DataLost:
    """Return the error for records removed by retention, a purge or acknowledgements."""
    return DataLost(
        f"offsets {wanted} to {available - 1} of queue {queue!r} are gone: retention, a purge or acknowledgements "
        f"removed them. {ADVICE}"
    )


def recreated(queue: str) -> DataLost:
    """Return the error for a queue that was deleted and declared anew since it was read."""
    return DataLost(f"queue {queue!r} was deleted and made anew since it was read. {ADVICE}")


def deleted(queue: str) -> DataLost:
    """Return the error for a queue that was read before and does not exist any more."""
    return DataLost(f"queue {queue!r}, which was read before, was deleted. {ADVICE}")


def cut_off(queue: str, end: int, wanted: int) -> DataLost:
    """Return the error for a log that ends before what was read or planned."""
    return DataLost(
        f"queue {queue!r}: offsets to below {wanted} were there before, but the log ends at {end}: it was restored "
        f"from older files, or the queue was deleted and made anew. {ADVICE}"
    )
