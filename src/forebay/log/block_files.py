"""The files that hold blocks: which are open, and which of their blocks cannot be read."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.core.errors import DamagedBlock, UnreadableFile
from forebay.core.ports import Disk
from forebay.log.block import BadBlock, Block, read_block
from forebay.log.columns.parts import BlockPart, read_part

HANDLES_MAX: Final = 256  # segments kept open for reading; the first opened is closed first


@final
class Damage:
    """A block of a log that cannot be read.

    queue, name  number and name of the queue
    base, end    the offsets that cannot be read
    """

    def __init__(self, path: str, position: int, queue: int, name: str, base: int, end: int, why: str) -> None:
        self.path = path
        self.position = position
        self.queue = queue
        self.name = name
        self.base = base
        self.end = end
        self.why = why

    def error(self) -> DamagedBlock:
        """Return the error to raise for readers of these offsets."""
        return DamagedBlock(self.path, self.position, self.queue, self.name, self.base, self.end, self.why)


@final
class BlockFile:
    """A file that holds blocks.

    handle  of the open file; -1 while it is closed
    pinned  it may neither be closed nor reopened by name, as its name may belong to another file by now
    blocks  number of its blocks that a log still retains
    octets  bytes of these blocks
    whole   its index can be trusted; if not, nothing in the file can be read
    """

    def __init__(self, number: int, path: str, handle: int, pinned: bool) -> None:
        self.number = number
        self.path = path
        self.handle = handle
        self.pinned = pinned
        self.blocks: i64 = 0
        self.octets: i64 = 0
        self.whole = True


@final
class BlockFiles:
    """All files that hold blocks, by number.

    damages  blocks that could not be read and are still needed, by file and position
    """

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.files: dict[int, BlockFile] = {}
        self.opened: list[BlockFile] = []
        self.damages: dict[tuple[int, int], Damage] = {}
        self.reads: i64 = 0  # of blocks that were not in memory
        self.octets_read: i64 = 0

    def add(self, file: BlockFile) -> None:
        assert file.number not in self.files
        self.files[file.number] = file

    def forget(self, file: BlockFile) -> None:
        """Close a file and remove it from the table. No log may hold a block of it any more."""
        del self.files[file.number]
        for number, position in [place for place in self.damages if place[0] == file.number]:
            self.forgive(number, position)
        if file in self.opened:
            self.opened.remove(file)
        if file.handle >= 0:
            self.disk.close(file.handle)
            file.handle = -1

    def let_go(self, file: BlockFile) -> None:
        """Remove a file from the table but leave it open, as another object writes to it and closes it."""
        del self.files[file.number]

    def pin(self, file: BlockFile) -> None:
        """Keep the file open until `unpin` or `forget`."""
        if file.handle < 0:
            file.handle = self.disk.open(file.path, False)
        if file in self.opened:
            self.opened.remove(file)
        file.pinned = True

    def unpin(self, file: BlockFile) -> None:
        """Allow the file to be closed again."""
        file.pinned = False
        self.opened.append(file)

    def handle(self, file: BlockFile) -> int:
        if file.handle < 0:
            if len(self.opened) >= HANDLES_MAX:
                oldest = self.opened.pop(0)
                self.disk.close(oldest.handle)
                oldest.handle = -1
            file.handle = self.disk.open(file.path, False)
            self.opened.append(file)
        return file.handle

    def read(self, number: i64, position: i64, octets: i64, queue: int, name: str, base: i64, count: i64) -> Block:
        """Read the block that the index places there. Raises DamagedBlock if it is not as it was written."""
        file = self.files[int(number)]
        self.reads += 1
        self.octets_read += octets
        if not file.whole:
            known = self.damages[int(number), int(position)]
            raise self.damaged(file, position, queue, name, base, base + count, known.why).error()
        try:
            handle = self.handle(file)
            block = read_block(self.disk, handle, int(position), int(octets))
            if block.base != base or block.count != count:
                raise BadBlock(f"another block stands here: offsets {block.base} to {block.end - 1}")
        except (BadBlock, UnreadableFile) as error:
            raise self.damaged(file, position, queue, name, base, base + count, str(error)).error() from error
        if self.damages:
            self.forgive(number, position)
        return block

    def read_part(
        self, number: i64, position: i64, octets: i64, queue: int, name: str, base: i64, count: i64, columns: i64
    ) -> BlockPart:
        """Read only these columns of a block. Damage in other columns does not matter."""
        file = self.files[int(number)]
        if not file.whole:
            self.read(number, position, octets, queue, name, base, count)  # always raises DamagedBlock
        self.reads += 1
        try:
            part = read_part(self.disk, self.handle(file), int(position), int(octets), columns)
            if part.base != base or part.end != base + count:
                raise BadBlock(f"another block stands here: offsets {part.base} to {part.end - 1}")
        except (BadBlock, UnreadableFile) as error:
            raise self.damaged(file, position, queue, name, base, base + count, str(error)).error() from error
        self.octets_read += part.octets
        return part

    def damaged(self, file: BlockFile, position: i64, queue: int, name: str, base: i64, end: i64, text: str) -> Damage:
        """Record and return the damage that makes these offsets unreadable."""
        path = self.disk.path(file.path)
        damage = Damage(path, int(position), queue, name, int(base), int(end), text.removeprefix(f"{path}: "))
        self.damages[file.number, int(position)] = damage
        return damage

    def forgive(self, number: i64, position: i64) -> None:
        """Delete the damage at this position, because its block can be read again or is not needed any more."""
        self.damages.pop((int(number), int(position)), None)
