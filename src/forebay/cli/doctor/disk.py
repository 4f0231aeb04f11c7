"""Checks the disk under a data folder: the time of an fdatasync, what it says of the disk, and the free space.

A confirm means that an fdatasync has come back. A disk that lies, because its cache loses its content with the power
and nobody waits until it is flushed, answers faster than its medium can write: a spinning one must wait for half a turn
(about 4 ms at 7,200 a minute), and no flash without a capacitor writes a page within 30 µs.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from forebay.cli.doctor.diagnosis import ERROR, GOOD, NOTE, WARNING, Diagnosis
from forebay.cli.units import octets_said

CHECK: Final = "disk"
ROOM: Final = "disk room"
WRITE_OCTETS: Final = 4096
SYNCS_MAX: Final = 200
SECONDS_MAX: Final = 2.0
TURN_MS: Final = 2.0  # a spinning disk that syncs faster has only filled its cache
FLASH_MS: Final = 0.03
SLOW_MS: Final = 20.0
IN_MEMORY: Final = {"tmpfs", "ramfs", "devtmpfs", "zram"}
ON_NETWORK: Final = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "9p", "ceph", "glusterfs"}
UNSAFE: Final = {"nobarrier", "barrier=0", "data=writeback", "nosync", "eatmydata", "volatile"}
THROUGH: Final = "write through"  # the kernel's word for a cache that needs no flush
SPINNING: Final = ("sd", "hd")  # prefixes of the names of devices that may spin
ROOM_PART: Final = 0.1


@dataclass(frozen=True, slots=True)
class DiskTrial:
    """A disk, as the system describes it and as it was measured.

    syncs       number of fdatasyncs measured, each after a write of 4 KiB
    rotational  whether the disk spins; None if unknown
    cache       mode of the device's cache: `write back` may lose writes that were not flushed; empty if unknown
    """

    folder: str
    file_system: str
    options: list[str]
    device: str
    rotational: bool | None
    cache: str
    syncs: int
    median_ms: float
    p99_ms: float


def measured(folder: Path) -> DiskTrial:
    """Measure the disk that a folder is on. Raises OSError if the folder cannot be written."""
    times = sync_times(folder)
    source, kind, options = mount_of(folder)
    device = block_device(folder)
    # Ask only real disks: a virtual disk always claims to spin.
    rotational = read_text(device / "queue/rotational") if device and device.name.startswith(SPINNING) else ""
    cache = read_text(device / "queue/write_cache") if device else ""
    return DiskTrial(
        str(folder),
        kind,
        options,
        device.name if device else source,
        rotational == "1" if rotational else None,
        cache,
        len(times),
        round(statistics.median(times) * 1000, 4),
        round(sorted(times)[int(len(times) * 0.99)] * 1000, 4),
    )


def sync_times(folder: Path) -> list[float]:
    """Return the seconds of each fdatasync after a write of 4 KiB to a temporary file in the folder."""
    with tempfile.TemporaryFile(dir=folder) as file:
        handle = file.fileno()
        os.posix_fallocate(handle, 0, WRITE_OCTETS * SYNCS_MAX)  # as the broker does: no sync has to write a length
        os.fsync(handle)
        times: list[float] = []
        end = time.monotonic() + SECONDS_MAX
        octets = os.urandom(WRITE_OCTETS)
        while len(times) < SYNCS_MAX and (time.monotonic() < end or not times):
            os.pwrite(handle, octets, len(times) * WRITE_OCTETS)
            began = time.perf_counter()
            os.fdatasync(handle)
            times.append(time.perf_counter() - began)
        return times


def assessed(trial: DiskTrial) -> Diagnosis:
    """Return a diagnosis of whether a disk keeps synced data, and is fast enough."""
    said = f"an fdatasync takes {trial.median_ms:g} ms (p99 {trial.p99_ms:g} ms), {trial.file_system} on {trial.device}"
    unsafe = sorted(UNSAFE.intersection(trial.options))
    level, text, remedy = GOOD, said, ""
    if trial.file_system in IN_MEMORY:
        level = ERROR
        text = f"{trial.folder} is in memory ({trial.file_system}): everything is gone when the machine restarts"
        remedy = "put the data folder on a disk: option `data`"
    elif unsafe:
        level = ERROR
        text = f"{said}; it is mounted with {', '.join(unsafe)}: synced data may be lost in a power cut"
        remedy = "mount it without that"
    elif trial.rotational and trial.median_ms < TURN_MS:
        level = WARNING
        text = f"{said}: a spinning disk cannot write so fast, so it loses confirmed messages when the power fails"
        remedy = f"switch its write cache off (`hdparm -W 0 /dev/{trial.device}`), or have a controller with a battery"
    elif trial.median_ms < FLASH_MS and trial.cache != THROUGH:
        level = WARNING
        text = f"{said}: no disk writes so fast unless a capacitor or a battery protects its cache"
        remedy = (
            "if it has none, make the disk, or the host of a virtual one, flush its cache on sync (not `cache=unsafe`)"
        )
    elif trial.median_ms > SLOW_MS:
        level = WARNING
        text = f"{said}: slow; a confirm takes at least as long"
        remedy = "put the data folder on a local SSD"
    elif trial.file_system in ON_NETWORK:
        level = NOTE
        text = f"{said}: over the network; a broker needs a disk of its own"
        remedy = "put the data folder on a local disk if you can"
    return Diagnosis(CHECK, level, text, remedy, asdict(trial))


def room(folder: Path, free_min_octets: int) -> Diagnosis:
    """Return a diagnosis of the free space and free inodes on the folder's disk."""
    stats = os.statvfs(folder)
    free, size = stats.f_bavail * stats.f_frsize, stats.f_blocks * stats.f_frsize
    fields: dict[str, object] = {"free_octets": free, "octets": size, "free_min_octets": free_min_octets}
    fields |= {"free_files": stats.f_favail, "files": stats.f_files}
    text = f"{octets_said(free)} of {octets_said(size)} are free; publishing stops below {octets_said(free_min_octets)}"
    remedy = "delete unused queues, drain or limit others, or enlarge the disk"
    if free < free_min_octets:
        return Diagnosis(ROOM, ERROR, f"{text}: the broker refuses publishes now", remedy, fields)
    if free < ROOM_PART * size or free < 2 * free_min_octets:
        return Diagnosis(ROOM, WARNING, f"{text}: that is soon", remedy, fields)
    if stats.f_files and stats.f_favail < 10_000:
        return Diagnosis(ROOM, WARNING, f"no more than {stats.f_favail} files can be made on the disk", remedy, fields)
    return Diagnosis(ROOM, GOOD, text, "", fields)


def mount_of(folder: Path) -> tuple[str, str, list[str]]:
    """Return source, file system and options of the mount that a folder is on."""
    place = os.path.realpath(folder)
    best = ("unknown", "unknown", [""])
    length = -1
    for line in read_text(Path("/proc/self/mounts")).splitlines():
        source, target, kind, options = line.split(" ")[:4]
        target = target.encode().decode("unicode_escape")  # blanks in it are written \040
        if len(target) >= length and (place == target or place.startswith(target.rstrip("/") + "/")):
            best, length = (source, kind, options.split(",")), len(target)
    return best


def block_device(folder: Path) -> Path | None:
    """Return the folder under /sys/block of the device that a folder is on. Returns None if the system names none."""
    number = os.stat(folder).st_dev
    place = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    with suppress(OSError):
        found = place.resolve(strict=True)  # a partition's folder is below its device's
        return found if (found / "queue").is_dir() else found.parent if (found.parent / "queue").is_dir() else None
    return None


def read_text(path: Path) -> str:
    """Return the content of a small system file. Returns "" if the file cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
