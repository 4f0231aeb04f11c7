"""Room on the disk for the write-ahead log, reserved before anything is accepted for it.

A broker's process has it reserved ahead, by another thread (`is_ahead`): what comes meanwhile is taken, and its frame
waits in memory until its file has room. Without that `reserve` and `fits` ask the disk themselves.
"""

from __future__ import annotations

from typing import Final

from forebay.core.errors import DiskFull
from forebay.core.ports import Clock, Disk
from forebay.log.stored import StoreOptions
from forebay.log.wal import GatheredFrame, WalFile
from forebay.log.wal_maker import ROOM_SLACK_OCTETS, WalMaker

RETRY_US: Final = 1_000_000  # a full disk is asked again for room at most this often


class Growth:
    """Room for a WAL file: `run` on another thread, then `LogRoom.grown` on the loop.

    file      that is written to; None for the one that is made ahead
    path      of a file that `run` makes; empty where it is there
    least     octets that it must have
    wanted    octets that it should have
    reserved  octets that it has by now; 0 if the disk is full
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
        """Reserve the room; StorageError for everything but a full disk."""
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
    """The room of one log.

    is_ahead  it is reserved by another thread
    full      the disk had no room when it was last asked
    growing   what is being reserved; `due` is the same until somebody takes it
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
        """Octets of messages that may be accepted before `reserve` must be asked."""
        return frame.file.reserved - frame.end() - self.options.settle_margin_octets - ROOM_SLACK_OCTETS

    def reserve(self, frame: GatheredFrame, octets: int) -> bool:
        """Reserve room for so many octets of messages, and return False if the disk is full."""
        if self.left(frame) >= octets:
            return True
        need = frame.end() + octets + self.options.settle_margin_octets + ROOM_SLACK_OCTETS
        if self.is_ahead:
            self.ask(frame.file, need)
            return not self.full
        return self.grow(frame.file, need)

    def fits(self, frame: GatheredFrame) -> bool:
        """True if the file has room for a frame. What has none waits in memory, whole frames at a time."""
        if frame.end() <= frame.file.reserved:
            return True
        if self.is_ahead:
            self.ask(frame.file, frame.end())
            return False
        return self.grow(frame.file, frame.end())

    def look_again(self, frame: GatheredFrame) -> None:
        """Ask a disk that was full again, though nobody publishes: who would may be waiting to hear that it can.

        Where there is room for a whole step it is full no longer; less would be gone at once.
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
        """True if a full disk may be asked again."""
        return not self.full or self.clock.now_us() - self.asked_us >= RETRY_US

    def grow(self, file: WalFile, need: int) -> bool:
        """Reserve a file to this length, or better to the next whole step."""
        if not self.has_waited():
            return False
        growth = self.growth_of(file, need)
        growth.run()
        return self.take(growth)

    def growth_of(self, file: WalFile, need: int) -> Growth:
        step = self.options.wal_chunk_octets
        return Growth(self.disk, file, "", file.blocks.handle, need, -(-need // step) * step)

    def take(self, growth: Growth) -> bool:
        """Take what was reserved; False if the disk is full."""
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
        """The room to be reserved by another thread now, before it is needed; then `grown`. Once a turn."""
        step = self.options.wal_chunk_octets
        if frame is not None and not self.full and self.growing is None and self.left(frame) < step // 2:
            self.ask(frame.file, frame.file.reserved + step // 2)
        due, self.due = self.due, None
        return due

    def ask(self, file: WalFile, need: int) -> None:
        """Ask for room for a file up to this length, or better a whole step, unless a request is under way."""
        if self.growing is None and self.has_waited():
            self.growing = self.due = self.growth_of(file, need)

    def ask_for_file(self, octets: int, busy: bool) -> bool:
        """True if a file with room for so many octets is ready; else it is made ahead, unless a job is at it."""
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
        """Room was reserved, or there is none. An error is raised again: the disk is not sound."""
        assert growth is self.growing
        self.growing = None
        if growth.file is None:
            self.maker.making = False
        if error is not None:
            raise error
        self.take(growth)
