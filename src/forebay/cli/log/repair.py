"""The repair of a data folder: planned in a scratch folder, tried there, and only then put in place."""

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

SCRATCH: Final = "repair.tmp"  # folder below the data folder in which files are rewritten
DAMAGED: Final = ".damaged"  # added to the name of the file that is replaced
TRIES_MAX: Final = 4  # to repair one file: its head, its frames, its end
WRITES: Final = "write anew"
SETS_ASIDE: Final = "set aside"
LOST_NOTES: Final = {
    INVENTORY: "that a file is missing could not be noticed",
    IDENTITY: "which node of its cluster the folder was, and what it had promised there: it joins as a new one",
}


@dataclass(slots=True)
class FileRepair:
    """The repair of one file.

    path    the file below the data folder
    made    path below the data folder of the file to put there; empty for none
    gone    whether the file is removed without a replacement
    kept    the content that is kept, for people; empty if that is not known
    losses  the content that is lost, for people
    tries   number of attempts to repair the file
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
    """A data folder as it will be after the steps of a repair."""

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
    """A plan for the repair of one data folder, which stays locked meanwhile.

    cut    whether to discard the write-ahead log from the first damage on
    steps  repairs of files, by path
    notes  other losses, for people
    names  vhost and name of the queues after the repair, by the number that `losses` uses
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
        """Delete the scratch folder, and unlock the data folder in its present state."""
        shutil.rmtree(self.disk.path(SCRATCH), ignore_errors=True)
        self.mended.close_all()
        self.disk.close_all()

    # ---- planning

    def plan(self) -> None:
        """Add steps until a broker can start and every block can be read. Raises Unmendable if that is impossible."""
        while not self.recovers():
            pass
        if self.mend_blocks():
            while not self.recovers():
                pass

    def recovers(self) -> bool:
        """Return whether a broker could start on the planned folder. If not, add a step that repairs one more file."""
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
        """Rewrite the segments in which a block cannot be read. Return whether there were any."""
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
        """Return the scratch path at which a file is rewritten."""
        return f"{SCRATCH}/{step.tries}/{path}"

    def output(self, step: FileRepair) -> tuple[Output, str]:
        made = self.scratch(step.path, step)
        self.disk.make_folder(os.path.dirname(made))
        return Output(self.disk, made), made

    # ---- the write-ahead log

    def numbers(self) -> list[int]:
        """Return the numbers of the WAL files, as planned so far."""
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
        """Rewrite the head of a WAL file if it is damaged. Return whether it was."""
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
        """Rewrite a WAL file with its undamaged frames. Return whether any part was damaged."""
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
        """Return the epoch of the last WAL file before `number` that states its own. Returns 0 if none does."""
        return next((epoch for each in reversed(self.numbers()) if each < number and (epoch := self.epoch(each))), 0)

    def epoch(self, number: int) -> int:
        """Return the epoch of the first whole frame of a WAL file. Returns 0 if no frame is left."""
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
        """Return the LSN of the first frame of a WAL file. Returns None if the file does not exist."""
        if number not in self.numbers():
            return None
        return int(mended_head(self.mended, number).first_lsn)

    def replace_wal(self, step: FileRepair, number: int) -> None:
        """Replace a missing WAL file by an empty one. If the newest is missing, rewrite the manifest instead."""
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
            with suppress(CorruptFile):  # the next try repairs this damage
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
        """Return the offsets lost with WAL file `number`: they existed when `later` began, in no older file."""
        disk = MendedDisk(self.mended.root, self.steps)
        try:
            with suppress(CorruptFile):  # damage hides which offsets are lost
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
        """Discard the write-ahead log from the first damage of a file on."""
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
        """Write a manifest that names the newest WAL file there is."""
        numbers = self.numbers()
        step.tries += 1
        made = f"{SCRATCH}/{step.tries}"
        self.disk.make_folder(made)
        write_manifest(Below(self.disk, made), Manifest(numbers[-1] if numbers else 0, 0, False))
        step.made = f"{made}/{MANIFEST}"
        step.losses += losses

    def state_before(self, number: int) -> list[FrameEntry]:
        """Return the entries of a checkpoint at the start of a WAL file. Raises Unmendable without an older file."""
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
        """Read all segments, and the WAL files before `number`."""
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
        """Rewrite a segment with its undamaged blocks. Put an empty segment in the place of a missing one."""
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
        """Return the end offset that the write-ahead log requires of the segment that begins at `first`, or None."""
        disk = MendedDisk(self.mended.root, self.steps)
        try:
            opening = Opening(disk, Logs(disk, StoreOptions()))
            opening.inventory = read_inventory(disk)
            for number in self.numbers():
                opening.read_wal(number, True)
        except CorruptFile:
            pass  # repaired later; the entries read so far may have the end
        finally:
            disk.close_all()
        opening.note_required()
        return dict(opening.required.segments.get(queue, [])).get(first)

    # ---- doing

    def apply(self) -> list[str]:
        """Put all repaired files in place, one after the other. Return the paths under which the old files are kept."""
        kept: list[str] = []
        if self.steps and IDENTITY not in self.steps and self.is_there(IDENTITY):
            # The folder may have lost data: it must not rejoin its cluster as the same node.
            self.disk.remove(IDENTITY)
        # The manifest last: the new one requires less of the folder than the old one.
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
        """Link or copy a file to a free name with DAMAGED. The old name stays until another file takes its place."""
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
    """A subfolder of a data folder that this process has locked."""

    def __init__(self, disk: DataDisk, folder: str) -> None:
        self.begin(disk.path(folder), disk.paths, disk.nameless)
