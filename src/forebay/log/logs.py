"""All logs of a store with their segments: opens, drops, merges and shrinks them."""

from __future__ import annotations

from bisect import insort
from typing import Final

from forebay.core.errors import CorruptFile, UnreadableFile
from forebay.core.ports import Disk
from forebay.log.block_files import BlockFile, BlockFiles, Damage
from forebay.log.frame import Frame
from forebay.log.housekeeping import Job, Liveness, Rewrite
from forebay.log.queue_log import BlockCache, QueueLog
from forebay.log.segment import Segment, queue_folder, read_damaged, read_segment
from forebay.log.stored import StoreOptions
from forebay.log.stored_log import StoredLog, StoredSegment, take_blocks, unnamed_logs, with_segments

SEGMENT_CHECKS_MAX: Final = 16  # segments that one `plan_segments` checks
MERGE_COUNT: Final = 8  # neighbouring segments of a log to merge when all are small
SMALL_PART: Final = 8  # a segment is small below this part of segment_octets_max


class Logs:
    """The logs by queue number, and the files that hold their blocks."""

    def __init__(self, disk: Disk, options: StoreOptions) -> None:
        self.disk = disk
        self.segment_octets_max = options.segment_octets_max
        self.files = BlockFiles(disk)
        self.cache = BlockCache(options.cache_octets_max)
        self.stored: dict[int, StoredLog] = {}
        self.leftover: list[str] = []  # useless files found when the folder was opened
        self.dead: list[tuple[str, int]] = []  # segments to be removed, and the frame that no longer names them
        self.next_segment = -1
        self.next_check = 0

    def create(self, queue: int, name: str, durable: bool) -> QueueLog:
        stored = self.stored.get(queue)
        if stored is None or stored.log.durable != durable:
            stored = StoredLog(QueueLog(queue, name, durable, self.files, self.cache))
            self.stored[queue] = stored
        stored.log.name = name
        stored.claimed = True
        return stored.log

    def stored_log(self, queue: int) -> StoredLog:
        stored = self.stored.get(queue)
        if stored is None:
            stored = StoredLog(QueueLog(queue, "", True, self.files, self.cache))
            self.stored[queue] = stored
        return stored

    def open_segments(self, queue: int, report: list[str]) -> None:
        folder = queue_folder(queue)
        stored = self.stored_log(queue)
        found: list[Segment] = []
        for name in self.disk.list(folder):
            path = f"{folder}/{name}"
            if name.endswith(".tmp"):
                self.leftover.append(path)
            elif name.endswith(".seg"):
                try:
                    segment = read_segment(self.disk, path)
                except (CorruptFile, UnreadableFile) as error:
                    segment = read_damaged(self.disk, path, fault_of(error))
                if segment.queue != queue or name != f"{segment.first:020d}.seg":
                    text = f"the segment says it is of queue {segment.queue} from offset {segment.first}"
                    raise CorruptFile(self.disk.path(path), 12, text)
                found.append(segment)
        for segment in found:
            before = stored.segments[-1].segment if stored.segments else None
            if before is not None and segment.end <= before.end:
                self.leftover.append(segment.path)
                report.append(f"{self.disk.path(segment.path)}: removed, {before.path} stands for it")
                continue
            if before is not None and segment.first < before.end:
                text = f"queue {queue}: the segment stands for offsets from {segment.first}, {before.path} for more"
                raise CorruptFile(self.disk.path(segment.path), 16, text)
            file = self.add_segment(stored, segment)
            for entry in segment.entries:
                stamp_us = stored.log.stamp_us if segment.fault else entry.stamp_us
                stored.log.add_stored(entry.base, entry.count, file, entry.position, entry.octets, stamp_us)
            if segment.fault:
                file.whole = False
                self.files.damaged(file, 0, queue, "", segment.first, segment.end, segment.fault)

    def add_segment(self, stored: StoredLog, segment: Segment) -> BlockFile:
        """Register a segment of a log and return its file. The caller adds its blocks."""
        file = BlockFile(self.next_segment, segment.path, -1, False)
        self.next_segment -= 1
        self.files.add(file)
        insort(stored.segments, StoredSegment(segment, file), key=lambda each: each.segment.first)
        stored.covered = max(stored.covered, segment.end)
        return file

    def take_blocks(self, frame: Frame, position: int, file: BlockFile) -> None:
        """Add the blocks of a frame that recovery found to their logs.

        Raises CorruptFile for offsets a log has already.
        """
        at: int = take_blocks(self.stored, frame, 0, position, file)
        while at < len(frame.blocks):
            block = frame.blocks[at]
            if block.queue in self.stored:
                where = f"queue {block.queue}, offsets {block.base} to {block.base + block.count - 1}"
                text = f"{where}: the log already reached offset {self.stored[block.queue].log.end - 1}"
                raise CorruptFile(self.disk.path(file.path), position + block.position, text)
            self.stored_log(block.queue)
            at = take_blocks(self.stored, frame, at, position, file)

    def forget(self, queue: int, busy: list[BlockFile]) -> None:
        """Drop a log. Segments in `busy` stay open until their job has finished."""
        stored = self.stored.pop(queue, None)
        if stored is None:
            return
        stored.log.clear()
        for segment in stored.segments:
            if segment.file not in busy:
                self.files.forget(segment.file)

    def segment_totals(self) -> tuple[int, int]:
        """Return the number of segments and their total bytes."""
        count = octets = 0
        for stored in with_segments(self.stored):
            for each in stored.segments:
                count += 1
                octets += each.segment.octets
        return count, octets

    def remove_leftover(self) -> None:
        """Remove the useless files that opening the folder found."""
        leftover, self.leftover = self.leftover, []
        for path in leftover:
            self.disk.remove(path)

    def drop_segments(self, lsn: int) -> list[StoredLog]:
        """Drop segments without needed blocks, and return their logs. Frame `lsn` must name the rest anew."""
        changed: list[StoredLog] = []
        for stored in with_segments(self.stored):
            dead = [each for each in stored.segments if each.file.blocks == 0]
            for each in dead:
                stored.segments.remove(each)
                self.files.forget(each.file)
                self.dead.append((each.segment.path, lsn))
            if dead:
                changed.append(stored)
        return changed

    def note_gone(self, log: QueueLog, file: BlockFile, why: str) -> None:
        """Record the needed blocks of a segment as damaged, because it was removed from outside."""
        entries = log.entries_in(file.number)
        for at in range(int(entries.size())):
            base, end = int(entries.bases[at]), int(entries.end(at))
            self.files.damaged(file, entries.positions[at], log.queue, log.name, base, end, why)

    def note_damaged(self, rewrite: Rewrite) -> None:
        """Record the blocks that a rewrite could not read as damaged at their new place, too."""
        log = rewrite.log
        index = log.index
        for base, why in rewrite.damaged:
            at = log.find(base)
            if at < index.size() and index.bases[at] == base:
                file = self.files.files[int(index.files[at])]
                self.files.damaged(file, index.positions[at], log.queue, log.name, base, index.end(at), why)

    def damages(self) -> list[Damage]:
        """Return the blocks that cannot be read and are still needed, ordered by queue and offset."""
        self.name_damages()
        return sorted(self.files.damages.values(), key=lambda each: (each.queue, each.base))

    def name_damages(self) -> None:
        """Set the queue's name in each damage: while a folder is opened, names are not known yet."""
        for damage in self.files.damages.values():
            stored = self.stored.get(damage.queue)
            damage.name = damage.name if stored is None else stored.log.name

    def dead_segments(self, durable: int) -> list[str]:
        """Remove from the list and return the paths of segments that no durable frame names any more."""
        paths = [path for path, lsn in self.dead if lsn <= durable]
        if paths:
            self.dead = [(path, lsn) for path, lsn in self.dead if lsn > durable]
        return paths

    def unnamed(self) -> list[QueueLog]:
        """Return the durable logs whose folder does not hold the queue's name yet."""
        return unnamed_logs(self.stored)

    def unnamed_of(self, job: Job, more: int) -> list[QueueLog]:
        """Return the logs that a job rewrites and that have no name on the disk, without the first `more` unnamed."""
        named = {log.queue for log in self.unnamed()[more:]}
        return [rewrite.log for rewrite in job.rewrites if rewrite.log.queue in named]

    def named(self, log: QueueLog) -> None:
        """Record that the log's folder holds the queue's name."""
        stored = self.stored.get(log.queue)
        if stored is not None and stored.log is log:
            stored.named = True

    def plan_segments(self, liveness: Liveness) -> list[Rewrite]:
        """Plan to merge small neighbouring segments, or shrink one that is less than half needed.

        Checks a few logs a call. Call `pinned` before the rewrites run.
        """
        found: list[Rewrite] = []
        logs = with_segments(self.stored)
        checks = 0
        for step in range(len(logs)):
            stored = logs[(self.next_check + step) % len(logs)]
            queue = stored.log.queue
            small = self.segment_octets_max // SMALL_PART
            last = stored.segments[-MERGE_COUNT:]
            if len(last) == MERGE_COUNT and all(each.segment.octets < small and each.file.whole for each in last):
                wanted = liveness.live(queue, last[0].segment.first, last[-1].segment.end)
                found.append(rewrite_of(stored, last, wanted))
            for each in stored.segments:
                checks += 1
                if found:
                    break
                segment = each.segment
                wanted = liveness.live(queue, segment.first, segment.end)
                if each.file.whole and 2 * kept_records(segment, wanted) < segment.records():
                    found.append(rewrite_of(stored, [each], wanted))
            if found or checks >= SEGMENT_CHECKS_MAX:
                self.next_check = (self.next_check + step + 1) % len(logs)
                break
        return found

    def still_here(self, rewrites: list[Rewrite]) -> list[Rewrite]:
        """Return the rewrites whose log and files still exist."""
        kept: list[Rewrite] = []
        for rewrite in rewrites:
            stored = self.stored.get(rewrite.log.queue)
            files = self.files.files
            is_there = stored is not None and stored.log is rewrite.log
            if is_there and all(files.get(number) is file for number, file in rewrite.files.items()):
                kept.append(rewrite)
        return kept

    def pinned(self, rewrites: list[Rewrite]) -> list[Rewrite]:
        """Keep the rewrites' segments open.

        Return the rewrites without those whose segments were removed from outside.
        """
        kept: list[Rewrite] = []
        for rewrite in rewrites:
            opened: list[BlockFile] = []
            try:
                for file in rewrite.files.values():
                    self.files.pin(file)
                    opened.append(file)
                kept.append(rewrite)
            except UnreadableFile as error:
                for each in opened:
                    self.files.unpin(each)
                self.note_gone(rewrite.log, file, str(error))
        return kept

    def take_rewrite(self, rewrite: Rewrite) -> bool:
        """Replace a rewrite's source files by its new segments in the log. Returns False if the log was dropped."""
        log = rewrite.log
        stored = self.stored.get(log.queue)
        if stored is None or stored.log is not log:
            for file in rewrite.files.values():
                if file.number < 0 and file.number in self.files.files:
                    self.files.forget(file)
            return False
        made = [(segment, self.add_segment(stored, segment)) for segment in rewrite.made]
        if rewrite.finished:
            end = rewrite.end
        elif made and not rewrite.whole:
            end = made[-1][0].end  # the disk was full before the last of them
        else:
            end = rewrite.first
        rewritten = log.index.part(0, 0)
        for segment, file in made:
            rewritten.extend(segment.index(file.number))
        if end > rewrite.first:
            log.replace(rewrite.first, end, rewritten)
            self.note_damaged(rewrite)
        paths = {segment.path for segment in rewrite.made}
        for source in [each for each in stored.segments if each.file.number in rewrite.files]:
            if source.file.blocks or not rewrite.finished:
                self.files.unpin(source.file)
                continue
            if source.segment.path in paths:
                stored.segments.remove(source)
                self.files.forget(source.file)
            else:
                self.files.unpin(source.file)  # it has no block that a log reads: the next plan removes it
        return True


def fault_of(error: CorruptFile | UnreadableFile) -> str:
    """Return an error's text without path and position."""
    return error.args[0].rpartition(": ")[2] if isinstance(error, CorruptFile) else str(error)


def rewrite_of(stored: StoredLog, sources: list[StoredSegment], wanted: list[tuple[int, int]]) -> Rewrite:
    """Return a rewrite that makes one segment of these neighbours."""
    entries = stored.log.entries_in(sources[0].file.number)
    for source in sources[1:]:
        entries.extend(stored.log.entries_in(source.file.number))
    files = {source.file.number: source.file for source in sources}
    return Rewrite(stored.log, entries, files, wanted, sources[0].segment.first, sources[-1].segment.end, True)


def kept_records(segment: Segment, wanted: list[tuple[int, int]]) -> int:
    """Return the number of a segment's records within the wanted intervals."""
    kept = 0
    for entry in segment.entries:
        end = entry.base + entry.count
        kept += sum(max(0, min(end, last) - max(entry.base, first)) for first, last in wanted)
    return kept
