"""Reading a WAL file back: where it may end, where it must not, and what is said of the damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.core.errors import CorruptFile
from forebay.core.message import MQTT
from forebay.log.block_files import BlockFile, BlockFiles
from forebay.log.frame import CHECKPOINT, FILE_HEAD_OCTETS, FRAME_MAGIC, FileHead
from forebay.log.queue_log import BlockCache, QueueLog
from forebay.log.recovery.recovery import CHUNK_OCTETS, WalReader
from forebay.log.wal import FOLDER, GatheredFrame, WalFile, wal_path
from forebay.server.system.disk import DataDisk
from tests.simulation.disk import SimDisk

NUMBER = 7
FIRST = 100
NOTE = 3


class Written:
    """A WAL file whose octets a test puts together, frame by frame.

    places  where each frame begins
    """

    def __init__(self, folder: Path, epoch: int = 4) -> None:
        self.disk = SimDisk()
        self.disk.make_folder(FOLDER)
        head = FileHead(NUMBER, 0x1234, FIRST)
        self.file = WalFile(head, BlockFile(NUMBER, wal_path(NUMBER), -1, True), FILE_HEAD_OCTETS, 0, True, epoch)
        self.octets = bytearray(self.file.head_octets)
        self.files = BlockFiles(DataDisk(str(folder)))
        self.logs: dict[int, QueueLog] = {}
        self.places: list[int] = []
        self.lsn = FIRST

    def frame(self, *, records: dict[int, int] | None = None, note: bytes = b"n", flags: int = 0) -> None:
        """The next frame: so many records of each queue, and a note."""
        frame = GatheredFrame(self.lsn, self.file, CHECKPOINT if self.lsn == FIRST else flags)
        for queue, count in (records or {}).items():
            log = self.logs.setdefault(queue, QueueLog(queue, "q", True, self.files, BlockCache(1 << 20)))
            for _ in range(count):
                log.append(MQTT, b"", b"k", b"", b"body")
            block = log.seal(1)
            assert block is not None
            frame.add_block(log, block)
        frame.add_note(NOTE, 1, 0, note)
        self.places.append(len(self.octets))
        self.octets += b"".join(frame.encode())
        self.file.tail = len(self.octets)
        self.lsn += 1

    def spoil(self, place: int, octets: int = 1) -> None:
        """Change octets of a frame, at its magic."""
        at = self.places[place]
        for each in range(at, at + octets):
            self.octets[each] ^= 0xFF

    def reader(self, last: bool = True) -> WalReader:
        handle = self.disk.open(wal_path(NUMBER), True)
        self.disk.truncate(handle, 0)
        self.disk.pwrite(handle, [bytes(self.octets)], 0)
        return WalReader(self.disk, wal_path(NUMBER), handle, NUMBER, last)


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return Written(tmp_path)


def read(reader: WalReader) -> list[int]:
    """The LSNs of all frames."""
    found = []
    while (frame := reader.next()) is not None:
        found.append(int(frame.lsn))
    return found


def damage(reader: WalReader) -> CorruptFile:
    with pytest.raises(CorruptFile) as caught:
        read(reader)
    return caught.value


def test_all_frames_are_read_to_the_zeros_behind_them(written: Written) -> None:
    for _ in range(3):
        written.frame(records={1: 2})
    end = len(written.octets)
    written.octets += bytes(4096)
    reader = written.reader()
    assert read(reader) == [100, 101, 102]
    assert (reader.position, reader.lsn, reader.epoch) == (end, 102, 4)
    assert reader.rest_octets() == 0


@pytest.mark.parametrize("rest", [b"\1", b"torn", bytes(9) + b"x", FRAME_MAGIC * 5, b"x" * 3 + bytes(50)])
def test_a_torn_end_is_no_damage_and_is_measured(written: Written, rest: bytes) -> None:
    """Also where the magic of a frame stands in it, which is whole nowhere."""
    written.frame()
    written.frame()
    written.octets += rest + bytes(100)
    reader = written.reader()
    assert read(reader) == [100, 101]
    assert reader.rest_octets() == len(rest.rstrip(b"\0"))


@pytest.mark.parametrize("kept", [8, 39, 41, 60])
def test_a_frame_that_was_written_in_part_is_a_torn_end(written: Written, kept: int) -> None:
    written.frame()
    written.frame()
    written.frame(records={1: 3})
    del written.octets[written.places[2] + kept :]
    reader = written.reader()
    assert read(reader) == [100, 101]
    assert reader.rest_octets() > 0
    del written.octets[written.places[2] :]
    assert read(written.reader(last=False)) == [100, 101]


def test_a_torn_end_is_damage_where_another_file_follows(written: Written) -> None:
    written.frame(records={1: 2, 3: 1})
    written.frame()
    written.octets += b"torn"
    error = damage(written.reader(last=False))
    assert (error.path, error.position) == (f"/simulated/{wal_path(NUMBER)}", len(written.octets) - 4)
    assert "this is not the last WAL file" in str(error)
    assert "queue 1 from offset 2; queue 3 from offset 1" in str(error)


@pytest.mark.parametrize("whole", [3, 4, 5])
def test_damage_before_whole_frames_is_told_with_what_is_missing(written: Written, whole: int) -> None:
    """The frames 101 and on are damaged up to `whole`; the offsets between are missing."""
    for _ in range(7):
        written.frame(records={1: 5, 2: 1})
    for place in range(1, whole):
        written.spoil(place, 4)
    error = damage(written.reader())
    assert error.position == written.places[1]
    text = str(error)
    assert f"frame {FIRST + whole} stands whole at octet {written.places[whole]}." in text
    first, end = 5, 5 * whole
    assert f"Missing, unless an older file has them: queue 1, offsets {first} to {end - 1}; " in text
    assert f"queue 2, offsets 1 to {whole - 1}" in text


def test_damage_of_a_frame_without_records_says_that_no_offsets_are_missing(written: Written) -> None:
    written.frame(records={1: 5})
    written.frame()
    written.frame(records={1: 1})
    written.spoil(1)
    assert "No offsets are missing" in str(damage(written.reader()))
    assert "Concerned may be queue 1 from offset 5" in str(damage(written.reader()))


def test_offsets_of_a_queue_that_was_not_seen_before_are_missing_from_the_first_one(written: Written) -> None:
    written.frame()
    written.frame(records={2: 4})
    written.frame(records={2: 1})
    written.spoil(1)
    assert "queue 2, offsets 0 to 3" in str(damage(written.reader()))


@pytest.mark.parametrize("before_edge", [16, 8, 0, -8])
@pytest.mark.parametrize("seen", [False, True])
def test_a_whole_frame_is_found_wherever_it_stands_behind_the_damage(
    written: Written, before_edge: int, seen: bool
) -> None:
    """At the edges of what is read at once, too, and behind magic that begins no frame."""
    written.frame()
    if seen:
        written.frame()
    edge = len(written.octets) + CHUNK_OCTETS
    head = 56  # of the frame, and of its note
    written.frame(note=b"\0" * 4 + FRAME_MAGIC + bytes(edge - before_edge - len(written.octets) - head - 8))
    written.frame(records={1: 1})
    assert written.places[-1] == edge - before_edge
    written.spoil(len(written.places) - 2, 4)
    error = damage(written.reader())
    assert error.position == written.places[-2]
    assert f"frame {written.lsn - 1} stands whole at octet {written.places[-1]}" in str(error)


def test_what_follows_a_gap_of_zeros_as_long_as_a_read_is_measured(written: Written) -> None:
    written.frame()
    end = len(written.octets)
    written.octets += bytes(2 * CHUNK_OCTETS + 5) + b"x"
    reader = written.reader()
    assert read(reader) == [100]
    assert reader.rest_octets() == len(written.octets) - end


def test_a_whole_frame_that_is_not_the_next_one_is_no_torn_end(written: Written) -> None:
    """It would be cut, and what it holds may have been confirmed."""
    written.frame(records={1: 1})
    written.lsn += 1
    written.frame(records={1: 1})
    error = damage(written.reader())
    assert error.position == written.places[1]
    assert f"frame {FIRST + 2} stands where {FIRST + 1} should" in str(error)


def test_an_older_frame_behind_the_end_is_no_later_one(written: Written) -> None:
    """What is left of the same file from before its end was cut, with numbers that were given again."""
    written.frame()
    written.frame()
    old = written.octets[written.places[1] :]
    written.octets += b"\1" * 8 + old
    assert read(written.reader()) == [100, 101]


def test_frames_of_one_file_are_of_one_epoch(written: Written) -> None:
    written.frame()
    written.file.epoch = 5
    written.frame()
    error = damage(written.reader())
    assert error.position == written.places[1]
    assert "frame 101 is of epoch 5, the file's frames before it are of 4" in str(error)


def test_a_file_begins_with_a_whole_checkpoint(written: Written) -> None:
    written.lsn = FIRST + 1  # so that it is no checkpoint
    written.file.head.first_lsn = FIRST + 1
    written.frame()
    written.octets[:FILE_HEAD_OCTETS] = WalFile(
        FileHead(NUMBER, 0x1234, FIRST + 1), written.file.blocks, 0, 0, True, 4
    ).head_octets
    error = damage(written.reader())
    assert (error.position, "does not begin with a checkpoint" in str(error)) == (FILE_HEAD_OCTETS, True)
    written.octets[FILE_HEAD_OCTETS] ^= 1
    assert "first frame: " in str(damage(written.reader()))


def test_a_file_says_which_it_is(written: Written) -> None:
    written.frame()
    handle = written.reader().handle
    with pytest.raises(CorruptFile, match="the file says it is number 7") as caught:
        WalReader(written.disk, wal_path(NUMBER), handle, NUMBER + 1, True)
    assert caught.value.position == 16


def test_reading_goes_on_behind_damage_that_is_passed_over(written: Written) -> None:
    for records in (2, 3, 4, 5):
        written.frame(records={1: records})
    written.spoil(1)
    reader = written.reader()
    assert reader.next() is not None
    reader.pass_over(written.places[2], FIRST + 2, 4)
    assert read(reader) == [102, 103]
    assert reader.ends() == {1: 14}
    assert reader.read == [(FILE_HEAD_OCTETS, written.places[1])]


def test_a_frame_that_is_written_meanwhile_is_noticed(written: Written) -> None:
    written.frame()
    written.frame()
    grown = bytes(written.octets)
    del written.octets[written.places[1] :]
    written.octets += bytes(len(grown) - len(written.octets))
    reader = written.reader()
    assert read(reader) == [100]
    assert not reader.has_grown()
    written.disk.pwrite(reader.handle, [grown], 0)
    assert reader.has_grown()
    assert read(reader) == [101]
