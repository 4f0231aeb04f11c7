"""The repair of a data folder: planned beside the files, tried, and only then put in their place."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from forebay.cli.log.files import Survey
from forebay.cli.log.folder import ReadingDisk, Recovered
from forebay.core.errors import CorruptFile, StorageError
from forebay.core.stored.entry_kinds import START
from forebay.log.folder.identity import NAME as IDENTITY
from forebay.log.folder.inventory import NAME as INVENTORY
from forebay.log.folder.inventory import read_inventory
from forebay.log.folder.manifest import NAME as MANIFEST
from forebay.log.folder.manifest import Manifest, write_manifest
from forebay.log.folder.mending import Output, SegmentMender, Unmendable, WalMender, mended_head, placeholder
from forebay.log.folder.required import MissingFile, segments_payload, wals_payload
from forebay.log.frame import SEGMENTS, WALS, FrameEntry, encode_file_head, encode_start, parse_start
from forebay.log.logs import Logs
from forebay.log.recovery.opening import Opening
from forebay.log.recovery.recovery import WalReader
from forebay.log.segment import SegmentWriter, queue_folder
from forebay.log.stored import StoreOptions
from forebay.log.wal import FOLDER, wal_path
from forebay.server.system.disk import DataDisk

SCRATCH: Final = "repair.tmp"  # folder of the data folder in which files are made anew
DAMAGED: Final = ".damaged"  # added to the name of what was there
TRIES_MAX: Final = 4  # of mending one file: its head, its frames, its end
WRITES: Final = "write anew"
SETS_ASIDE: Final = "set aside"
LOST_NOTES: Final = {
    INVENTORY: "that a file is missing could not be noticed",
    IDENTITY: "which node of its cluster the folder was, and what it had promised there: it joins as a new one",
}


@dataclass(slots=True)
class FileRepair:
    """The repair of one file.

    path    below the data folder, as `made` is: the file to be put there; empty for none
    gone    it is taken away, and nothing comes in its place
    kept    what stays of it, for people; empty where that is all
    losses  what is lost by it, for people
    tries   how often it was mended
    """

    path: str
    made: str = ""
    gone: bool = False
    kept: str = ""
    losses: list[str] = field(default_factory=list)
    tries: int = 0

    def said(self) -> str:
        return SETS_ASIDE if self.gone else WRITES


class MendedDisk(ReadingDisk):
    """A data folder as it will be after these steps."""

    def __init__(self, root: str, steps: dict[str, FileRepair]) -> None:
        super().__init__(root)
        self.steps = steps

    def list(self, folder: str) -> list[str]:
        names = set(super().list(folder)) - {SCRATCH}
        for path, step in self.steps.items():
            where, _, name = path.rpartition("/")
            if where == folder:
                names = names | {name} if step.made else names - {name} if step.gone else names
            elif folder == "queues" and where.startswith("queues/"):
                names.add(where.removeprefix("queues/"))
        return sorted(names)

    def open(self, path: str, create: bool) -> int:
        step = self.steps.get(path)
        if step is None or not step.made:
            return super().open(path, create)
        handle = super().open(step.made, create)
        self._paths[handle] = path
        return handle


class Repair:
    """A plan for one data folder, which is locked meanwhile.

    cut    give up all of the write-ahead log from the first damage on
    steps  by path
    notes  what else is lost, for people
    names  of the queues that will be there, with their vhosts, by the numbers that losses have
    """

    def __init__(self, root: str, cut: bool) -> None:
        self.disk = DataDisk(root)
        self.cut = cut
        self.steps: dict[str, FileRepair] = {}
        self.notes: list[str] = []
        self.names: dict[int, tuple[str, str]] = {}
        shutil.rmtree(self.disk.path(SCRATCH), ignore_errors=True)
        self.mended = MendedDisk(root, self.steps)

    def close(self) -> None:
        """Leave the folder as it is now."""
        shutil.rmtree(self.disk.path(SCRATCH), ignore_errors=True)
        self.mended.close_all()
        self.disk.close_all()

    # ---- planning

    def plan(self) -> None:
        """Find what has to be done until a broker can start and every block can be read; Unmendable."""
        while not self.recovers():
            pass
        if self.mend_blocks():
            while not self.recovers():
                pass

    def recovers(self) -> bool:
        """True if a broker could start on what is planned; else one file more is mended."""
        try:
            recovered = Recovered(self.mended)
        except CorruptFile as error:
            self.mend(error)
            return False
        except (AssertionError, LookupError, TypeError, ValueError) as error:
            words = "what is left of the write-ahead log does not go together"
            raise Unmendable(
                f"{self.mended.root}: {words} ({type(error).__name__}: {error}); --cut may help"
            ) from error
        finally:
            self.mended.close_all()
        logs = recovered.store.logs.stored
        for queue, stored in logs.items():
            vhost = recovered.vhosts.of_log(queue)
            if vhost is not None:
                self.names[queue] = (vhost.name.decode("utf-8", "replace"), stored.log.name)
        lost = [queue for queue, stored in logs.items() if not stored.claimed and stored.log.index.size()]
        self.notes = [
            f"queue {queue}: that it was declared is lost, and all that is in it goes with it" for queue in lost
        ]
        return True

    def mend(self, error: CorruptFile) -> None:
        for full_path in error.paths if isinstance(error, MissingFile) else [error.path]:
            path = os.path.relpath(full_path, self.mended.root)
            step = self.steps.setdefault(path, FileRepair(path))
            step.tries += 1
            if step.tries > TRIES_MAX:
                raise Unmendable(f"cannot be mended: {error}")
            if path == MANIFEST:
                self.make_manifest(step, ["that an end of the write-ahead log is missing could not be noticed"])
            elif path in (INVENTORY, IDENTITY):
                step.gone = True
                step.losses += [LOST_NOTES[path]]
            elif path.startswith(f"{FOLDER}/"):
                self.mend_wal(step, int(Path(path).stem), error)
            else:
                self.mend_segment(step)

    def mend_blocks(self) -> bool:
        """Mend the segments in which a block cannot be read; whether there was any."""
        survey = Survey(self.mended, None, lambda _: None)
        survey.run(True)
        self.mended.close_all()
        paths = sorted({os.path.relpath(each.file, self.mended.root) for each in survey.damages})
        for path in paths:
            step = self.steps.setdefault(path, FileRepair(path))
            step.tries += 1
            if step.tries > TRIES_MAX:
                raise Unmendable(f"cannot be mended: {survey.damages[0].said()}")
            self.mend_segment(step)
        return bool(paths)

    def scratch(self, path: str, step: FileRepair) -> str:
        """The path at which a file is made anew."""
        return f"{SCRATCH}/{step.tries}/{path}"

    def output(self, step: FileRepair) -> tuple[Output, str]:
        made = self.scratch(step.path, step)
        self.disk.make_folder(os.path.dirname(made))
        return Output(self.disk, made), made

    # ---- the write-ahead log

    def numbers(self) -> list[int]:
        """The numbers of the WAL files that are there by now."""
        return [int(name[:-4]) for name in self.mended.list(FOLDER) if name.endswith(".wal") and name[:-4].isdigit()]

    def mend_wal(self, step: FileRepair, number: int, error: CorruptFile) -> None:
        if isinstance(error, MissingFile) and not self.is_there(step.path):
            self.replace_wal(step, number)
        elif self.mend_head(step, number):
            return
        elif self.cut and step.tries == 1:
            self.cut_at(step, number)
        elif number - 1 in self.numbers() and "the one before it ends before" in str(error):
            before = wal_path(number - 1)
            other = self.steps.setdefault(before, FileRepair(before))
            other.tries += 1
            self.rewrite_wal(other, number - 1)
        elif not self.rewrite_wal(step, number):
            if "were on the disk" not in str(error):
                raise Unmendable(f"cannot be mended: {error}")
            self.make_manifest(self.steps.setdefault(MANIFEST, FileRepair(MANIFEST)), [str(error)])

    def is_there(self, path: str) -> bool:
        where, _, name = path.rpartition("/")
        return name in self.mended.list(where)

    def mend_head(self, step: FileRepair, number: int) -> bool:
        """Write the head of a WAL file anew where it is damaged."""
        head = encode_file_head(mended_head(self.mended, number))
        handle = self.mended.open(step.path, False)
        try:
            if self.mended.pread(handle, len(head), 0) == head:
                return False
            out, made = self.output(step)
            out.write(head)
            out.copy(self.mended, handle, len(head), self.mended.size(handle))
            out.close()
        finally:
            self.mended.close(handle)
        step.made = made
        return True

    def rewrite_wal(self, step: FileRepair, number: int) -> bool:
        """Write a WAL file anew with all of it that is whole; whether anything of it was not."""
        head = mended_head(self.mended, number)
        mender = WalMender(self.mended, number, head, lambda: self.state_before(number), self.epoch_before(number))
        out, made = self.output(step)
        mender.write(out, self.first_lsn(number + 1))
        out.close()
        if mender.changed:
            step.made = made
            step.kept = f"{mender.frames():,} frames"
            step.losses += mender.losses
        elif not step.made:
            del self.steps[step.path]
        return mender.changed

    def epoch_before(self, number: int) -> int:
        """The epoch of the last file before this one that says its own; 0 where none does."""
        return next((epoch for each in reversed(self.numbers()) if each < number and (epoch := self.epoch(each))), 0)

    def epoch(self, number: int) -> int:
        """The epoch of the first whole frame of a WAL file; 0 where none is left."""
        handle = self.mended.open(wal_path(number), False)
        try:
            reader = WalReader(self.mended, wal_path(number), handle, number, True)
            frame = None
            with suppress(CorruptFile):
                frame = reader.next()
            at = int(reader.later_frame()) if frame is None else -1
            frame = reader.frame_at(at) if at >= 0 else frame
            return 0 if frame is None else int(frame.epoch)
        except CorruptFile:
            return 0
        finally:
            self.mended.close(handle)

    def first_lsn(self, number: int) -> int | None:
        """The LSN of the first frame of a WAL file; None if the file is not there."""
        if number not in self.numbers():
            return None
        return int(mended_head(self.mended, number).first_lsn)

    def replace_wal(self, step: FileRepair, number: int) -> None:
        """Have an empty WAL file in the place of one that is missing, or if it was the newest do without."""
        numbers = self.numbers()
        later = [each for each in numbers if each > number]
        earlier = [each for each in numbers if each < number]
        if not later:
            del self.steps[step.path]
            losses = [f"all that {step.path} had: what was declared, settled and published since it was begun"]
            self.make_manifest(self.steps.setdefault(MANIFEST, FileRepair(MANIFEST)), losses)
            return
        next_lsn = self.first_lsn(later[0])
        assert next_lsn is not None
        first_lsn = next_lsn - 1
        if earlier:
            handle = self.mended.open(wal_path(earlier[-1]), False)
            reader = WalReader(self.mended, wal_path(earlier[-1]), handle, earlier[-1], True)
            with suppress(CorruptFile):  # of which the next try takes care
                while reader.next() is not None:
                    pass
            first_lsn = min(int(reader.lsn) + 1, first_lsn)
            self.mended.close(handle)
        out, step.made = self.output(step)
        out.write(placeholder(number, self.epoch(later[0]), first_lsn, next_lsn))
        out.close()
        step.losses.append(f"frames {first_lsn} to {next_lsn - 1} of the write-ahead log: what was settled in them")
        step.losses += self.offsets_between(number, later[0])

    def offsets_between(self, number: int, later: int) -> list[str]:
        """The offsets that are in no file before this one, though they were there when a later one was begun."""
        disk = MendedDisk(self.mended.root, self.steps)
        try:
            with suppress(CorruptFile):  # then they cannot be told
                logs = self.opened_before(disk, number).logs.stored
                handle = disk.open(wal_path(later), False)
                begun = WalReader(disk, wal_path(later), handle, later, False).next()
                lost = []
                for entry in [] if begun is None else begun.entries:
                    if entry.kind == START:
                        kept, end, _ = parse_start(entry.payload)
                        stored = logs.get(entry.queue)
                        first = max(kept, 0 if stored is None else int(stored.log.end))
                        if first < end:
                            lost.append(f"queue {entry.queue}, offsets {first} to {end - 1}")
                return lost
        finally:
            disk.close_all()
        return []

    def cut_at(self, step: FileRepair, number: int) -> None:
        """Give up the write-ahead log from the first damage of a file on."""
        handle = self.mended.open(step.path, False)
        reader = WalReader(self.mended, step.path, handle, number, True)
        begin = end = int(reader.position)
        try:
            while reader.next() is not None:
                end = int(reader.position)
        except CorruptFile:
            end = int(reader.position)
        if end > begin:
            out, step.made = self.output(step)
            out.copy(self.mended, handle, 0, end)
            out.close()
        step.gone = not step.made
        self.mended.close(handle)
        step.losses.append(f"everything after frame {reader.lsn} of the write-ahead log")
        for later in [each for each in self.numbers() if each > number]:
            self.steps[wal_path(later)] = FileRepair(wal_path(later), gone=True, losses=["all of it"], tries=1)
        self.make_manifest(self.steps.setdefault(MANIFEST, FileRepair(MANIFEST)), [])

    def make_manifest(self, step: FileRepair, losses: list[str]) -> None:
        """Have the manifest say what is there."""
        numbers = self.numbers()
        step.tries += 1
        made = f"{SCRATCH}/{step.tries}"
        self.disk.make_folder(made)
        write_manifest(Below(self.disk, made), Manifest(numbers[-1] if numbers else 0, 0, False))
        step.made = f"{made}/{MANIFEST}"
        step.losses += losses

    def state_before(self, number: int) -> list[FrameEntry]:
        """The entries that a checkpoint at the beginning of this file has to have."""
        numbers = self.numbers()
        if number - 1 not in numbers:
            raise Unmendable(
                f"{self.mended.path(wal_path(number))}: its first frame is lost, and with it what the broker had "
                "declared: there is no older file that says so"
            )
        disk = MendedDisk(self.mended.root, self.steps)
        try:
            opening = self.opened_before(disk, number)
        finally:
            disk.close_all()
        opening.note_required()
        said = [FrameEntry(WALS, 0, 0, wals_payload([*opening.required.wals, number]))]
        for queue, stored in opening.logs.stored.items():
            kept, end, start = opening.replay.bounds.get(queue, (0, 0, 0))
            said.append(FrameEntry(START, queue, 0, encode_start(kept, max(end, int(stored.log.end)), start)))
            if stored.segments:
                said.append(FrameEntry(SEGMENTS, queue, 0, segments_payload(stored)))
        return said + opening.replay.entries

    def opened_before(self, disk: MendedDisk, number: int) -> Opening:
        """All segments, and what the WAL files before this one say."""
        opening = Opening(disk, Logs(disk, StoreOptions()))
        for name in disk.list("queues"):
            if name.isdigit():
                opening.logs.open_segments(int(name), [])
        for each in self.numbers():
            if each < number:
                opening.read_wal(each, False)
        return opening

    # ---- segments

    def mend_segment(self, step: FileRepair) -> None:
        """Write a segment anew with its whole blocks; an empty one in the place of one that is missing."""
        queue, first = int(step.path.split("/")[1]), int(Path(step.path).stem)
        end = self.required_end(queue, first)
        made = f"{SCRATCH}/{step.tries}"
        blocks = []
        if self.is_there(step.path):
            mender = SegmentMender(self.mended, step.path, queue, first, end)
            if (mender.queue, mender.first) != (queue, first):
                raise Unmendable(
                    f"{self.mended.path(step.path)}: it has queue {mender.queue} from offset {mender.first}"
                )
            blocks, end = mender.blocks, mender.end
            step.kept = f"{sum(int(each.count) for each in blocks):,} messages"
            step.losses += mender.losses
        elif end is None:
            raise Unmendable(f"{self.mended.path(step.path)}: nothing says what it had")
        else:
            step.losses.append(f"queue {queue}, offsets {first} to {end - 1}")
        self.disk.make_folder(f"{made}/{queue_folder(queue)}")
        writer = SegmentWriter(Below(self.disk, made), queue, first)
        writer.add_all(blocks)
        writer.finish(end)
        step.made = f"{made}/{step.path}"

    def required_end(self, queue: int, first: int) -> int | None:
        """The end of the segment that has to begin there, as the write-ahead log has it; None if it does not say."""
        disk = MendedDisk(self.mended.root, self.steps)
        try:
            opening = Opening(disk, Logs(disk, StoreOptions()))
            opening.inventory = read_inventory(disk)
            for number in self.numbers():
                opening.read_wal(number, True)
        except CorruptFile:
            pass  # it is mended later; what was read of it may say so
        finally:
            disk.close_all()
        opening.note_required()
        return dict(opening.required.segments.get(queue, [])).get(first)

    # ---- doing

    def apply(self) -> list[str]:
        """Put everything in its place, one file after the other; the paths of what was there before."""
        kept: list[str] = []
        if self.steps and IDENTITY not in self.steps and self.is_there(IDENTITY):
            # The folder is no longer what it was: to the nodes of a cluster it must not pass for that.
            self.disk.remove(IDENTITY)
        # The manifest last: it says less by then than before.
        for step in sorted(self.steps.values(), key=lambda each: each.path == MANIFEST):
            target = self.disk.path(step.path)
            if os.path.exists(target):
                kept.append(self.keep(target))
            if step.made:
                os.makedirs(os.path.dirname(target), exist_ok=True)
                self.disk.rename(step.made, step.path)
            elif step.gone:
                self.disk.remove(step.path)
        return kept

    def keep(self, target: str) -> str:
        """Give what is there another name as well; it loses the old one when something takes its place."""
        number = 1
        name = target + DAMAGED
        while os.path.exists(name):
            number += 1
            name = f"{target}{DAMAGED}.{number}"
        try:
            os.link(target, name)
        except OSError:
            try:
                shutil.copyfile(target, name)
            except OSError as error:
                raise StorageError(f"{name}: cannot be written: {error.strerror}") from None
        return name


class Below(DataDisk):
    """A folder of a data folder that is locked already."""

    def __init__(self, disk: DataDisk, folder: str) -> None:
        self.begin(disk.path(folder), disk.paths, disk.nameless)
