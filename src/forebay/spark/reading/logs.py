"""The records' origin: the same questions to a broker and to a data directory."""

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
PAUSE_S: Final = 0.05  # before a lost broker is tried again; doubled each time
PAUSE_S_MAX: Final = 1.0

T = TypeVar("T")


class DataLost(ForebayError):
    """Records that were asked for are not there any more, and the read may not do without them."""


class LogEnd(NamedTuple):
    """A log as it is just now.

    id      another one where the queue was deleted and made anew
    start, end  the offsets there are, of records that are on disk
    octets  about how much they take
    """

    id: int
    start: int
    end: int
    octets: int

    def octets_of(self, count: int) -> int:
        """About how much so many of its records take."""
        return self.octets * max(0, count) // max(1, self.end - self.start)


class CheckedAnswer(NamedTuple):
    """One answer of blocks, checked; the fields are those of the client's."""

    next: int
    start: int
    views: list[BlockView]


class LogAccess(Closing):
    """Read-only access to the logs of queues."""

    @abstractmethod
    def names(self, pattern: str) -> list[str]:
        """The queues whose whole name matches a regular expression, in their order."""

    @abstractmethod
    def look(self, queue: str) -> LogEnd:
        """One queue as it is; RequestError(NOT_FOUND) if there is none of that name."""

    @abstractmethod
    def ends(self, after: Mapping[str, int], wait_s: float) -> dict[str, LogEnd]:
        """The ends of these queues as they are; those that do not exist are left out.

        after   by queue: while every end is at most this, the answer waits
        wait_s  but no longer
        """

    def ends_of_existing(self, queues: Iterable[str]) -> dict[str, LogEnd]:
        """The ends of these queues as they are, at once; those that do not exist are left out."""
        found: dict[str, LogEnd] = {}
        for queue in queues:
            try:
                found[queue] = self.look(queue)
            except RequestError as error:
                if error.reason != NOT_FOUND:
                    raise
        return found

    def bounds(self, queue: str) -> tuple[int, int]:
        """First offset and end of what is on disk; RequestError(NOT_FOUND) if there is no such queue."""
        found = self.look(queue)
        return found.start, found.end

    @abstractmethod
    def offset_at(self, queue: str, timestamp_us: int) -> int:
        """First offset whose record is at or after the time; the end where there is none."""

    def share(self, range: Range) -> object:
        """All that a task needs to know of a range beside it, to be pickled; None where that is nothing."""
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
        """The blocks with the records of [first, end), in order; some may be in two of them, one after the other.

        id      the log that is meant; None for the one of that name
        filter  only records that match; the blocks then hold no others
        share   as the planner's `share` gave it
        columns  those of a block, by the block protocol's names, that will be read; all by default
        raises  DataLost if records of the range went before they were read, unless told not to fail
        """

    @abstractmethod
    def deliveries(self, queue: str, first: int, end: int) -> dict[int, int] | None:
        """The number of deliveries by offset of [first, end); None where nobody knows."""


class Patience:
    """The time for which a broker that is away is waited for."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self.pause_s = PAUSE_S
        self.deadline: float | None = None

    def wait(self, error: ForebayError) -> None:
        """Pause before the next attempt, or raise the error of the last."""
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
    """The logs of a running broker. One that is away is waited for, from the first question on."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.client: BlockClient | None = None
        self.is_used = False  # the client has come from `_idle`, where it may have grown old

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
        """Keep what is from an offset on; the first that is kept indeed."""
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
                    # Nothing of the answer that was cut off has been handed on: the next one begins where it did.
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
        """The log as it is, and the way on to the node that serves its records from `first` on."""
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
        """The answers of the node that serves them, checked: whoever takes them need not look elsewhere any more."""
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
        """The answer of a broker, waited for through its restart."""
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
        """Go on without a connection that broke: at once if it was an old one, else after a pause."""
        if self.client is not None:
            self.client.close()
            self.client = None
        _idle.close(self.access)
        if self.is_used:
            self.is_used = False
        else:
            patience.wait(error)

    def close(self) -> None:
        """Leave the connection to whoever comes next."""
        if self.client is not None:
            if self.client.is_idle:
                _idle.leave(self.access, self.client)
            else:
                self.client.close()
            self.client = None


@contextmanager
def naming(access: Access) -> Iterator[None]:
    """Errors of the broker say whose request it was."""
    try:
        yield
    except RequestError as error:
        if type(error) is not RequestError:
            raise
        who = f"user {access.user!r}, vhost {access.vhost!r}"
        raise RequestError(error.reason, f"{error.text} ({who})", error.scope) from None


def lost(queue: str, wanted: int, available: int) -> DataLost:
    """The error for records that retention, a purge or acknowledgements removed."""
    return DataLost(
        f"offsets {wanted} to {available - 1} of queue {queue!r} are gone: retention, a purge or acknowledgements "
        f"removed them. {ADVICE}"
    )


def recreated(queue: str) -> DataLost:
    """The error for a queue that is not the one which was read before."""
    return DataLost(f"queue {queue!r} was deleted and made anew since it was read. {ADVICE}")


def deleted(queue: str) -> DataLost:
    """The error for a queue that was read before and is not there any more."""
    return DataLost(f"queue {queue!r}, which was read before, was deleted. {ADVICE}")


def cut_off(queue: str, end: int, wanted: int) -> DataLost:
    """The error for a log that ends before what was read or planned."""
    return DataLost(
        f"queue {queue!r}: offsets to below {wanted} were there before, but the log ends at {end}: it was restored "
        f"from older files, or the queue was deleted and made anew. {ADVICE}"
    )
