"""Room on the disk for the write-ahead log, reserved before messages are accepted for it.

In a broker's process another thread reserves room ahead (`is_ahead`). Messages that arrive meanwhile are accepted, and
their frame waits in memory until its file has room. Otherwise `reserve` and `fits` reserve room themselves.
"""

from __future__ import annotations

from typing import Final

from forebay.core.errors import DiskFull
from forebay.core.ports import Clock, Disk
from forebay.log.stored import StoreOptions
from forebay.log.wal import GatheredFrame, WalFile
from forebay.log.wal_maker import ROOM_SLACK_OCTETS, WalMaker

RETRY_US: Final = 1_000_000  # shortest time between two requests for room on a full disk


class Growth:
    """A request for room for a WAL file. Call `run` on another thread, then `LogRoom.grown` on the loop.

    file      the file in use; None for the file made ahead
    path      of a file that `run` creates; empty if it exists
    least     bytes that it must have
    wanted    bytes that it should have
    reserved  bytes that it has by now; 0 if the disk is full
    """

    def __init__(self, disk: Disk, file: WalFile | None, path: str, handle: int, least: int, wanted: int) -> None:
        self.disk = disk
        self.file = file
        self.path = path
        self.handle = handle
        self.least = least
        self.wanted = wanted
        self.reserved = 0

    def run(self) -> None:
        """Reserve the room. A full disk leaves `reserved` 0. Raises StorageError for any other fault."""
        if self.path:
            self.handle = self.disk.open(self.path, True)
        if not self.takes(self.wanted) and not self.takes(self.least) and self.path:
            self.disk.close(self.handle)
            self.disk.remove(self.path)

    def takes(self, octets: int) -> bool:
        try:
            self.disk.reserve(self.handle, octets)
        except DiskFull:
            return False
        self.reserved = octets
        return True


class LogRoom:
    """The room of one store's write-ahead log.

    is_ahead  another thread reserves room ahead
    full      the disk had no room at the last request
    growing   the request under way; `due` is the same until `take_due` returns it
    """

    def __init__(self, disk: Disk, clock: Clock, options: StoreOptions, maker: WalMaker) -> None:
        self.disk = disk
        self.clock = clock
        self.options = options
        self.maker = maker
        self.is_ahead = False
        self.full = False
        self.asked_us = 0
        self.growing: Growth | None = None
        self.due: Growth | None = None

    def left(self, frame: GatheredFrame) -> int:
        """Return how many bytes of messages may be accepted before `reserve` must be called."""
        return frame.file.reserved - frame.end() - self.options.settle_margin_octets - ROOM_SLACK_OCTETS

    def reserve(self, frame: GatheredFrame, octets: int) -> bool:
        """Reserve room for `octets` bytes of messages, and return False if the disk is full."""
        if self.left(frame) >= octets:
            return True
        need = frame.end() + octets + self.options.settle_margin_octets + ROOM_SLACK_OCTETS
        if self.is_ahead:
            self.ask(frame.file, need)
            return not self.full
        return self.grow(frame.file, need)

    def fits(self, frame: GatheredFrame) -> bool:
        """Return whether the file has room for the frame.

        A frame without room waits in memory, and room is requested.
        """
        if frame.end() <= frame.file.reserved:
            return True
        if self.is_ahead:
            self.ask(frame.file, frame.end())
            return False
        return self.grow(frame.file, frame.end())

    def look_again(self, frame: GatheredFrame) -> None:
        """Retry a full disk even if nobody publishes, because blocked publishers wait for the news.

        The disk counts as full until it has room for a whole step: less would be used up at once.
        """
        step = self.options.wal_chunk_octets
        if not self.full:
            return
        if self.left(frame) >= step:
            self.full = False
        elif self.is_ahead:
            self.ask(frame.file, frame.file.reserved + step)
        else:
            self.grow(frame.file, frame.file.reserved + step)

    def has_waited(self) -> bool:
        """Return whether the disk may be asked for room: it is not full, or RETRY_US have passed."""
        return not self.full or self.clock.now_us() - self.asked_us >= RETRY_US

    def grow(self, file: WalFile, need: int) -> bool:
        """Reserve room for a file up to this length, rounded up to a whole step if possible.

        Returns False if the disk is full.
        """
        if not self.has_waited():
            return False
        growth = self.growth_of(file, need)
        growth.run()
        return self.take(growth)

    def growth_of(self, file: WalFile, need: int) -> Growth:
        step = self.options.wal_chunk_octets
        return Growth(self.disk, file, "", file.blocks.handle, need, -(-need // step) * step)

    def take(self, growth: Growth) -> bool:
        """Record the room that was reserved, and return False if the disk is full."""
        file = growth.file
        if growth.reserved == 0:
            self.full = True
            self.asked_us = self.clock.now_us()
            return False
        if file is None:
            self.maker.spare = (self.maker.next_number, growth.handle, growth.reserved)
        else:
            file.reserved = max(file.reserved, growth.reserved)
            self.full = False
        return True

    # ---- ahead

    def take_due(self, frame: GatheredFrame | None) -> Growth | None:
        """Return the request to run on another thread now, if one is due, then call `grown`. Call once a turn."""
        step = self.options.wal_chunk_octets
        if frame is not None and not self.full and self.growing is None and self.left(frame) < step // 2:
            self.ask(frame.file, frame.file.reserved + step // 2)
        due, self.due = self.due, None
        return due

    def ask(self, file: WalFile, need: int) -> None:
        """Request room for a file up to this length, rounded up to a whole step, unless a request is under way."""
        if self.growing is None and self.has_waited():
            self.growing = self.due = self.growth_of(file, need)

    def ask_for_file(self, octets: int, busy: bool) -> bool:
        """Return whether a file with `octets` bytes is ready. If not, request it unless a job is making it."""
        maker = self.maker
        if maker.spare is not None and maker.spare[2] >= octets:
            return True
        if self.growing is None and not busy:
            least = octets + self.options.settle_margin_octets
            wanted = max(least, maker.spare_octets)
            if maker.spare is None:
                growth = Growth(self.disk, None, maker.next_path(), -1, least, wanted)
            else:
                growth = Growth(self.disk, None, "", maker.spare[1], octets, wanted)
            self.growing = self.due = growth
            maker.making = True
        return False

    def grown(self, growth: Growth, error: BaseException | None) -> None:
        """Record the result of a request. Raises `error` again, as it means a disk fault."""
        assert growth is self.growing
        self.growing = None
        if growth.file is None:
            self.maker.making = False
        if error is not None:
            raise error
        self.take(growth)
