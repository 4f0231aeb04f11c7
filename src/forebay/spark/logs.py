"""Where the records come from: the same four questions to a broker and to a data directory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

from forebay.client.blocks import BlockClient
from forebay.core.errors import ForebayError
from forebay.spark.arrow import BlockView, Buffer

ADVICE: Final = "Set failOnDataLoss to false to read what there is."


class DataLost(ForebayError):
    """Records that were asked for are not there any more, and the read may not do without them."""


class Logs(ABC):
    """Read-only access to the logs of queues."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def bounds(self, queue: str) -> tuple[int, int]:
        """First offset and end of what is on disk; RequestError(NOT_FOUND) if there is no such queue."""

    @abstractmethod
    def offset_at(self, queue: str, timestamp_us: int) -> int:
        """First offset whose record is at or after the time; the end where there is none."""

    @abstractmethod
    def blocks(self, queue: str, first: int, end: int, fail_on_data_loss: bool) -> Iterator[BlockView]:
        """The blocks with the records of [first, end), in order.

        raises  DataLost if records of the range went before they were read, unless told not to fail
        """

    @abstractmethod
    def close(self) -> None: ...


class RemoteLogs(Logs):
    """The logs of a running broker."""

    def __init__(self, servers: str, user: str, password: str) -> None:
        self.client = BlockClient.connect(servers, user, password)

    def bounds(self, queue: str) -> tuple[int, int]:
        description = self.client.describe(queue)
        return description.start, description.end

    def offset_at(self, queue: str, timestamp_us: int) -> int:
        return self.client.offset_at(queue, timestamp_us)

    def blocks(self, queue: str, first: int, end: int, fail_on_data_loss: bool) -> Iterator[BlockView]:
        wanted = first
        for fetched in self.client.fetch(queue, first, end):
            if fetched.start > wanted and fail_on_data_loss:
                raise lost(queue, wanted, fetched.start)
            yield from Buffer(fetched.blocks, f"{self.client.server}: queue {queue!r}").blocks()
            wanted = fetched.next
        if wanted < end and fail_on_data_loss:
            raise DataLost(
                f"queue {queue!r}: offsets from {wanted} to below {end} were to be read, but the log ends at {wanted}; "
                f"was the queue deleted and made anew? {ADVICE}"
            )

    def close(self) -> None:
        self.client.close()


def lost(queue: str, wanted: int, available: int) -> DataLost:
    """The error for records that retention, a purge or acknowledgements removed."""
    return DataLost(
        f"queue {queue!r}: offset {wanted} was wanted, but the first that is still there is {available}: "
        f"older records were removed. {ADVICE}"
    )
