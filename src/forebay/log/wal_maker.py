"""Creates files of the write-ahead log with room for their first frames; one file is made ahead if there is time."""

from __future__ import annotations

from crc32c import crc32c

from forebay.core.errors import DiskFull
from forebay.core.ports import Clock, Disk
from forebay.log.block_files import BlockFile, BlockFiles
from forebay.log.frame import FILE_HEAD_OCTETS, FileHead
from forebay.log.stored import StoreOptions
from forebay.log.wal import WalFile, spare_path, wal_path

ROOM_SLACK_OCTETS = 4096  # heads and padding of the frame that holds the messages `room` allowed


class WalMaker:
    """Creates WAL files.

    next_number   of the next file
    spare         number, handle and length of a file made ahead
    spare_octets  length in bytes of the next file to be made ahead
    making        a file is being made ahead, or enlarged, other than by a job
    """

    def __init__(self, disk: Disk, clock: Clock, options: StoreOptions, files: BlockFiles) -> None:
        self.disk = disk
        self.clock = clock
        self.options = options
        self.files = files
        self.next_number = 1
        self.spare: tuple[int, int, int] | None = None
        self.making = False
        self.spare_octets = 2 * options.settle_margin_octets + 2 * ROOM_SLACK_OCTETS

    def expect(self, checkpoint_octets: int) -> None:
        """Set the length of the next file made ahead so that a checkpoint fits, even if the disk is full by then."""
        self.spare_octets = 2 * (checkpoint_octets + self.options.settle_margin_octets + ROOM_SLACK_OCTETS)

    def make(self, octets: int, first_lsn: int, epoch: int, busy: bool) -> WalFile | None:
        """Create a WAL file with room for `octets` bytes. Returns None if the disk is full.

        busy  a job is making the file of the next number just now, so that the number after it is used
        """
        number = self.next_number
        if self.spare is not None:
            _, handle, reserved = self.spare
            if reserved < octets:
                try:
                    self.disk.reserve(handle, octets)
                except DiskFull:
                    return None
                reserved = octets
            self.spare = None
        else:
            reserved = max(octets + self.options.settle_margin_octets, self.spare_octets)
            if busy:
                number = self.next_number = number + 1
            handle = self.opened(number, reserved)
            if handle < 0:
                return None
        salt = crc32c(b"%d %d" % (number, self.clock.now_us()))
        return self.taken(FileHead(number, salt, first_lsn), handle, reserved, epoch)

    def next_path(self) -> str:
        """Return the path of the next file as long as it has no frame."""
        return spare_path(self.next_number)

    def opened(self, number: int, octets: int) -> int:
        """Create a file of this number without frames and return its handle, or -1 if there is no room for it."""
        handle = self.disk.open(spare_path(number), True)
        try:
            self.disk.reserve(handle, octets)
        except DiskFull:
            self.disk.close(handle)
            self.disk.remove(spare_path(number))
            return -1
        return handle

    def taken(self, head: FileHead, handle: int, reserved: int, epoch: int) -> WalFile:
        """Register the open file of this head and return it as a WAL file."""
        self.next_number = head.number + 1
        file = BlockFile(head.number, wal_path(head.number), handle, True)
        self.files.add(file)
        return WalFile(head, file, FILE_HEAD_OCTETS, reserved, False, epoch)

    def take_spare(self, path: str, handle: int, octets: int) -> None:
        """Take over a file that a job made ahead, or remove it if its number is used by now."""
        if path == spare_path(self.next_number) and self.spare is None:
            self.spare = (self.next_number, handle, octets)
        else:  # a change of files overtook it
            self.disk.close(handle)
            self.disk.remove(path)

    def drop_spare(self) -> None:
        """Remove the file made ahead, if there is one."""
        if self.spare is not None:
            number, handle, _ = self.spare
            self.spare = None
            self.disk.close(handle)
            self.disk.remove(spare_path(number))
