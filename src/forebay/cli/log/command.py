"""`forebay log`: inspects, verifies, dumps and repairs a data folder without a broker."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from forebay.cli.access import YesOption, confirm
from forebay.cli.as_json import JsonOption, show_json
from forebay.cli.progress import progress_bar
from forebay.cli.show import cell, figure, head, show_message, show_table
from forebay.cli.units import octets_said
from forebay.core.errors import CorruptFile, OptionError, StorageError
from forebay.core.units import US_PER_MS

if TYPE_CHECKING:
    from forebay.cli.log.files import FileSummary, Survey
    from forebay.cli.log.folder import ReadingDisk, Recovered
    from forebay.queue.queue import Queue

app = typer.Typer(help="The files of a broker's data folder, read without a broker.", no_args_is_help=True)

BODY_OCTETS: Final = 1024
UNFINISHED: Final = "of no whole frame: a write that was never confirmed, unless the disk has spoilt one that was"
LOOKS_MAX: Final = 20  # attempts to read a folder that a running broker changes
Folder = Annotated[str, typer.Argument(metavar="DIR", help="The broker's data folder.")]
QueueOption = Annotated[str | None, typer.Option("--queue", "-q", metavar="NAME", help="Only this queue.")]
VhostName = Annotated[str, typer.Option("--vhost", metavar="NAME", help="The queue's vhost.")]


@app.command("inspect")
def inspect_log(
    folder: Folder,
    queue: QueueOption = None,
    vhost: VhostName = "/",
    offset: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Show messages of the queue from this offset on.")
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="The largest number of messages.")] = 10,
    body: Annotated[bool, typer.Option("--body", help="Show whole bodies.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the files and queues of a data folder, and what a broker that starts on it would do.

    Changes nothing. With --queue it shows the blocks of one queue, with --offset its messages.

    Example: forebay log inspect /var/lib/forebay --queue orders --offset 0 --limit 3
    """
    disk = opened(folder)
    try:
        inspect(disk, queue, vhost, offset, limit, body, as_json)
    finally:
        disk.close_all()


def inspect(
    disk: ReadingDisk, queue: str | None, vhost: str, offset: int | None, limit: int, body: bool, as_json: bool
) -> None:
    """Print the files and queues of a folder, the blocks of one queue, or its messages from an offset on."""
    recovered, failure = recovery_of(disk)
    if offset is not None:
        if queue is None:
            raise OptionError("--offset: it needs --queue")
        if recovered is None:
            raise StorageError(failure)
        show_records(recovered, queue, vhost, offset, limit, body, as_json)
        return
    chosen = None if queue is None else number_of(recovered, failure, queue, vhost)
    with progress_bar("octets", total_octets(disk)) as advance:
        survey = surveyed(disk, chosen, False, advance)
    found: dict[str, Any] = {
        "used_by": disk.user or None,
        "files": [each.fields() for each in survey.files],
        "queues": [] if recovered is None else queue_rows(recovered, chosen),
        "report": [] if recovered is None or disk.user else recovered.report,
        "changes": [] if disk.user else disk.changes,
        "failure": failure or None,
    }
    if queue is not None:
        found["blocks"] = [asdict(each) for each in survey.places]
    if as_json:
        show_json(found)
    else:
        show_inspected(found, survey)
    if failure:
        raise typer.Exit(1)


@app.command("verify")
def verify_log(folder: Folder, as_json: JsonOption = False) -> None:
    """Read every octet of a data folder, and compare all checksums: of files, frames, blocks and their columns.

    Changes nothing. Exits with 1 if anything is damaged, and names file, position and offsets.

    Example: forebay log verify /var/lib/forebay
    """
    disk = opened(folder)
    with progress_bar("octets", total_octets(disk)) as advance:
        survey = surveyed(disk, None, True, advance)
    failure = "" if survey.damages else recovery_of(disk)[1]
    disk.close_all()
    records = sum(each.records for file in survey.files for each in file.queues.values())
    if as_json:
        show_json(
            {
                "used_by": disk.user or None,
                "files": len(survey.files),
                "octets": sum(each.octets for each in survey.files),
                "records": records,
                "unconfirmed_octets": sum(each.rest for each in survey.files),
                "damages": [asdict(each) for each in survey.damages],
                "failure": failure or None,
            }
        )
    else:
        octets = octets_said(sum(each.octets for each in survey.files))
        print(f"{len(survey.files)} files, {octets}, {records:,} records in blocks")
        for each in survey.files:
            if each.rest:
                print(f"{each.path}: {each.rest} octets at {each.used} {UNFINISHED}")
        for damage in survey.damages:
            print(f"damaged: {damage.said()}")
        if failure:
            print(f"a broker cannot start on it: {failure}")
        if not survey.damages and not failure:
            print("every checksum is right")
    if survey.damages or failure:
        raise typer.Exit(1)


@app.command("dump")
def dump_log(
    folder: Folder,
    queue: QueueOption = None,
    vhost: VhostName = "/",
    file: Annotated[
        str | None, typer.Option(metavar="PATH", help="Only this file, by its path in the folder: wal/....wal.")
    ] = None,
    first: Annotated[int, typer.Option("--from", metavar="LSN", min=0, help="The first frame, by its number.")] = 0,
    limit: Annotated[
        int, typer.Option(metavar="N", min=0, help="The largest number of frames and blocks; 0 is all.")
    ] = 0,
    as_json: JsonOption = False,
) -> None:
    """Print the content of the log files: frames with their blocks and notes, and segments.

    Changes nothing. With --json it prints an object a line, whose `row` is a file, a frame, a block of a segment, or
    damage. Exits with 1 if anything is damaged; it prints what follows the damage, too.

    Example: forebay log dump /var/lib/forebay --queue orders --limit 20
    """
    from forebay.cli.log.dump import Dump, names_in

    disk = opened(folder)
    recovered, failure = recovery_of(disk)
    chosen = None if queue is None else number_of(recovered, failure, queue, vhost)
    dump = Dump(disk, names_in(recovered), chosen)
    shown = 0
    for row in dump.rows(file, first):
        if row["row"] in {"frame", "block"}:
            shown += 1
            if limit and shown > limit:
                break
        if as_json:
            print(json.dumps(row, ensure_ascii=False))
        else:
            show_row(row)
    else:
        if file is not None and not shown and not dump.damaged:
            raise OptionError(f"--file: {file!r} is no log file of the folder, or has no frame that is meant")
    disk.close_all()
    if dump.damaged:
        raise typer.Exit(1)


def show_row(row: dict[str, Any]) -> None:
    """Print one row of a dump for people."""
    if row["row"] == "file":
        print(f"{row['file']}  {told(row, 'row', 'file')}")
    elif row["row"] == "damage":
        print(f"  DAMAGED  {row['file']} at octet {row['position']}: {cell(row['text'])}")
    elif row["row"] == "block":
        print(f"  octet {row['position']}  block  {told(row, 'row', 'file', 'position')}")
    else:
        flags = "".join(f"  {name}" for name in ("checkpoint", "clean") if row[name])
        print(f"  octet {row['position']}  frame {row['lsn']}  {octets_said(row['octets'])}{flags}")
        for each in row["blocks"]:
            print(f"    block  {told(each)}")
        for each in row["notes"]:
            print(f"    note   {each['kind']}  {told(each, 'kind')}")


def told(row: dict[str, Any], *without: str) -> str:
    """Return the fields of a row as one line, except those in `without`."""
    return "  ".join(f"{head(name)} {figure(name, value)}" for name, value in row.items() if name not in without)


@app.command("repair")
def repair_log(
    folder: Folder,
    yes: YesOption = False,
    cut: Annotated[
        bool,
        typer.Option("--cut", help="Discard the write-ahead log from the first damage on, if nothing less helps."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done and lost, and change nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Repair a data folder with damaged or missing files. The broker must be stopped.

    Keeps everything undamaged, and of a damaged file all other blocks and frames. It shows what will be lost before it
    changes anything. It replaces one file after the other, and keeps each old file as <file>.damaged. If you have a
    copy of a missing file, put that back instead.

    Example: forebay log repair /var/lib/forebay
    """
    from forebay.cli.log.folder import folder_of
    from forebay.cli.log.repair import Repair

    if folder_of(folder).user:
        raise StorageError(f"{folder} is in use: stop the broker first")
    repair = Repair(folder, cut)
    try:
        repair.plan()
        steps = [
            {"file": each.path, "what": each.said(), "kept": each.kept, "lost": each.losses}
            for each in repair.steps.values()
        ]
        if not as_json:
            show_repair(steps, repair.notes, repair.names)
        kept = []
        if steps and not dry_run:
            confirm(f"Do this to {folder}?", yes)
            kept = repair.apply()
        if as_json:
            names = {str(queue): {"vhost": vhost, "name": name} for queue, (vhost, name) in repair.names.items()}
            show_json({"steps": steps, "lost": repair.notes, "queues": names, "set_aside": kept})
        elif steps and not dry_run:
            print("done; what was there is kept as")
            for path in kept:
                print(f"  {path}")
    finally:
        repair.close()


def show_repair(steps: list[dict[str, Any]], notes: list[str], names: dict[int, tuple[str, str]]) -> None:
    """Print the steps of a repair, and the messages that each keeps and loses."""
    if not steps:
        print("nothing has to be mended")
    for step in steps:
        print(f"{step['what']}: {step['file']}")
        if step["kept"]:
            print(f"  kept: {step['kept']}")
        for loss in step["lost"] or ["nothing"]:
            print(f"  lost: {loss}")
    for note in notes:
        print(f"  lost: {note}")
    losses = [loss for step in steps for loss in step["lost"]]
    for queue, (vhost, name) in sorted(names.items()):
        if any(f"queue {queue}," in loss for loss in losses):
            print(f"queue {queue} is '{cell(name)}' of vhost '{cell(vhost)}'")


def opened(folder: str) -> ReadingDisk:
    """Open a data folder for reading, and warn if a broker uses it. The folder is then read as it is now."""
    from forebay.cli.log.folder import folder_of

    disk = folder_of(folder)
    if disk.user:
        print(
            f"forebay: {folder} is in use by the process {disk.user}: what it writes from now on is not looked at",
            file=sys.stderr,
        )
    return disk


def recovery_of(disk: ReadingDisk) -> tuple[Recovered | None, str]:
    """Recover a folder as a broker would. Return the state, or None and the reason why a broker could not start."""
    from forebay.cli.log.folder import Recovered

    failure = ""
    for _ in range(LOOKS_MAX):
        disk.changes.clear()
        try:
            return Recovered(disk), ""
        except CorruptFile as error:
            if str(error) == failure or not disk.renew():
                return None, str(error)
            failure = str(error)  # a running broker may have changed a file meanwhile: try again
    return None, failure


def surveyed(disk: ReadingDisk, queue: int | None, whole: bool, advance: Callable[[float], None]) -> Survey:
    from forebay.cli.log.files import Survey

    survey = Survey(disk, queue, advance)
    survey.run(whole)
    return survey


def total_octets(disk: ReadingDisk) -> int:
    from forebay.cli.log.files import octets_in

    return octets_in(disk)


def queue_of(recovered: Recovered, name: str, vhost: str) -> Queue:
    """Return the recovered queue with a name. Raises OptionError if there is none."""
    found = recovered.vhosts.by_name.get(vhost.encode())
    if found is None:
        raise OptionError(f"--vhost: there is no vhost {vhost!r} in the folder")
    queue = found.catalog.queues.get(name.encode())
    if queue is None:
        raise OptionError(f"--queue: there is no queue {name!r} in vhost {vhost!r}")
    return queue


def number_of(recovered: Recovered | None, failure: str, name: str, vhost: str) -> int:
    """Return a queue's number. If recovery failed, `name` has to be the number itself, as names cannot be read."""
    if recovered is not None:
        return int(queue_of(recovered, name, vhost).id)
    if not name.isdigit():
        raise OptionError(f"--queue: give its number, names cannot be read: {failure}")
    return int(name)


def queue_rows(recovered: Recovered, chosen: int | None) -> list[dict[str, object]]:
    """Return the fields of the recovered queues, or of the queue `chosen` alone."""
    from forebay.management.operations.queues import queue_fields
    from forebay.queue.totals import oldest_us

    rows: list[dict[str, object]] = []
    for vhost in recovered.vhosts.by_name.values():
        for queue in vhost.catalog.queues.values():
            if chosen is not None and queue.id != chosen:
                continue
            log = queue.log
            stored_us = int(oldest_us(queue))
            rows.append(
                {
                    "number": int(queue.id),
                    "vhost": vhost.name.decode("utf-8", "replace"),
                    **queue_fields(queue),
                    "start": int(log.start),
                    "end": int(log.end),
                    "blocks": int(log.index.size() - log.first),
                    "oldest_ms": None if stored_us < 0 else stored_us // US_PER_MS,
                }
            )
    return rows


def show_inspected(found: dict[str, Any], survey: Survey) -> None:
    show_table(
        ("file", "octets", "used_octets", "queues", "blocks", "records", "first_ms", "last_ms", "remarks"),
        [file_row(each) for each in survey.files],
    )
    if found["queues"]:
        print()
        columns = ("number", "vhost", "queue", "type", "start", "end", "ready", "blocks", "octets", "oldest_ms")
        show_table(columns, found["queues"])
    if "blocks" in found:
        print()
        rows = [{**each, "stored_us": each["stamp_us"]} for each in found["blocks"]]
        show_table(("path", "position", "base", "count", "octets", "stored_us"), rows)
    print()
    if found["failure"]:
        print(f"a broker cannot start on it: {found['failure']}")
        return
    if found["used_by"]:
        return
    for each in found["report"]:
        print(f"a broker that starts would say: {each}")
    for each in found["changes"] or ["change nothing"]:
        print(f"a broker that starts would {each}")


def file_row(file: FileSummary) -> dict[str, object]:
    stretches = file.queues.values()
    remarks = []
    if file.frames:
        remarks.append(f"frames {file.first_lsn} to {file.last_lsn}")
    if file.clean:
        remarks.append("stopped in good order")
    if file.rest:
        remarks.append(f"{file.rest} octets {UNFINISHED}")
    if file.kind == "leftover":
        remarks.append("made ahead" if file.path.startswith("wal/") else "of a write that never came to its end")
    return {
        "file": file.path,
        "octets": file.octets,
        "used_octets": file.used,
        "queues": len(file.queues),
        "blocks": sum(each.blocks for each in stretches),
        "records": sum(each.records for each in stretches),
        "first_ms": min(each.first_us for each in stretches) // US_PER_MS if stretches else None,
        "last_ms": max(each.last_us for each in stretches) // US_PER_MS if stretches else None,
        "remarks": ", ".join(remarks),
    }


def show_records(
    recovered: Recovered, name: str, vhost: str, offset: int, limit: int, body: bool, as_json: bool
) -> None:
    """Print up to `limit` messages of a queue's log from `offset` on, settled or not."""
    from forebay.message.shown import record_shown
    from forebay.message.subject import RecordSubject

    queue = queue_of(recovered, name, vhost)
    log = queue.log
    now_us = recovered.store.clock.now_us()
    items: list[dict[str, object]] = []
    while len(items) < limit:
        block = log.kept_block(offset)
        if block is None:
            break
        offset = max(offset, int(block.base))
        subject = RecordSubject(queue.name, block, offset - int(block.base), now_us)
        items.append(record_shown(subject, int(block.body_span(offset - int(block.base), 1)) if body else BODY_OCTETS))
        offset += 1
    if as_json:
        show_json(items)
        return
    for item in items:
        show_message(item)
    if not items:
        print(f"{cell(name)} has no message from offset {offset} on; it has {log.kept} to {log.end - 1}")
