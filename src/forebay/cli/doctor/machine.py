"""Checks of the machine: open files, memory, the clock, and the installed version."""

from __future__ import annotations

import ctypes
import os
import re
import resource
import sys
from pathlib import Path
from typing import Final

from forebay import __version__
from forebay.cli.build import build, python
from forebay.cli.doctor.diagnosis import ERROR, GOOD, NOTE, WARNING, Diagnosis
from forebay.cli.doctor.disk import read_text
from forebay.cli.units import octets_said, period_said
from forebay.server.system.handles import OWN

TIMEX_OCTETS: Final = 256  # struct timex has 208
UNSYNCHRONISED: Final = 5  # TIME_ERROR of adjtimex
BUILT_S: Final = 1_767_225_600  # start of 2026: an earlier time is wrong
AHEAD_S_MAX: Final = 60.0
BROKER_S_MAX: Final = 2.0
MEMORY_PART: Final = 0.8  # largest share of the machine's memory for a broker
CGROUP: Final = Path("/sys/fs/cgroup")
UNLIMITED: Final = 1 << 60


def handles(most: int, connections_max: int, whose: str) -> Diagnosis:
    """Return a diagnosis of whether open files suffice for all connections. `most` is the hard limit."""
    fields: dict[str, object] = {"limit": most, "connections_max": connections_max, "own": OWN}
    if most in {resource.RLIM_INFINITY, -1} or most >= connections_max + OWN:
        said = "without limit" if most in {resource.RLIM_INFINITY, -1} else f"{most:,}"
        return Diagnosis(
            "open files", GOOD, f"{said} for {whose}, enough for {connections_max:,} connections", "", fields
        )
    room = max(most - min(OWN, most // 2), 0)
    text = f"{most:,} for {whose}: no more than {room:,} connections are taken, not {connections_max:,}"
    remedy = f"raise the hard limit to {connections_max + OWN:,}: LimitNOFILE= of systemd, --ulimit nofile= of Docker, "
    remedy += "/etc/security/limits.conf; or lower connections_max"
    return Diagnosis("open files", WARNING, text, remedy, fields)


def limit_of(pid: int | None) -> int:
    """Return the hard limit of open files of a process, or of this one. Returns -1 for no limit."""
    found = re.search(r"Max open files\s+\S+\s+(\S+)", read_text(Path(f"/proc/{pid}/limits"))) if pid else None
    if found is not None:
        return -1 if found[1] == "unlimited" else int(found[1])
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def memory(octets_max: int, there: int, available: int) -> Diagnosis:
    """Return a diagnosis of the broker's memory limit. `there` is the memory of the machine or container, in bytes."""
    fields: dict[str, object] = {"memory_octets_max": octets_max, "octets": there, "available_octets": available}
    said = f"the broker may use {octets_said(octets_max)} of {octets_said(there)}"
    remedy = f"set memory_octets_max to {octets_said(int(there * 0.6))} or less, or give it more"
    if octets_max > there:
        return Diagnosis(
            "memory", ERROR, f"{said}: more than there is; the kernel ends it before it can slow down", remedy, fields
        )
    if octets_max > MEMORY_PART * there:
        return Diagnosis(
            "memory", WARNING, f"{said}: nothing is left for anybody else, nor for the page cache", remedy, fields
        )
    if available < octets_max // 4:
        text = f"{said}, but others leave {octets_said(available)}"
        return Diagnosis("memory", NOTE, text, "see who needs so much: `ps aux --sort -rss`", fields)
    return Diagnosis("memory", GOOD, said, "", fields)


def memory_there() -> tuple[int, int]:
    """Return the bytes of memory that this machine or container has, and those available."""
    fields = dict(re.findall(r"^(\w+):\s+(\d+) kB", read_text(Path("/proc/meminfo")), re.MULTILINE))
    there = int(fields.get("MemTotal", 0)) << 10 or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    available = int(fields.get("MemAvailable", 0)) << 10 or there
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        limit = read_text(CGROUP / name)
        if limit.isdigit() and int(limit) < min(there, UNLIMITED):
            there = int(limit)
            used = read_text(CGROUP / name.replace("max", "current").replace("limit", "usage"))
            available = min(available, max(there - int(used), 0)) if used.isdigit() else min(available, there)
    return there, available


def clock(now_s: float, state: int, newest_s: float | None, broker_s: float | None) -> Diagnosis:
    """Return a diagnosis of whether the clock is right.

    state     result of adjtimex; UNSYNCHRONISED if nothing sets the clock
    newest_s  when the newest file of the data folder was written; None if there is none
    broker_s  the broker's clock at `now_s`; None if no broker answers
    """
    fields: dict[str, object] = {"now_s": round(now_s, 3), "synchronised": state != UNSYNCHRONISED}
    sync = "set the clock, and keep it set: chronyd or systemd-timesyncd (`timedatectl set-ntp true`)"
    if now_s < BUILT_S:
        return Diagnosis("clock", ERROR, "it is years behind: TTLs, retention and certificates go by it", sync, fields)
    if newest_s is not None and newest_s > now_s + AHEAD_S_MAX:
        behind = period_said(newest_s - now_s)
        text = f"it is {behind} behind what the data folder has seen: messages would expire that much later"
        return Diagnosis("clock", ERROR, text, sync, {**fields, "behind_s": round(newest_s - now_s, 3)})
    if broker_s is not None and abs(broker_s - now_s) > BROKER_S_MAX:
        text = f"the broker's differs from the one here by {period_said(abs(broker_s - now_s))}"
        return Diagnosis(
            "clock", WARNING, text, f"on both machines: {sync}", {**fields, "differs_s": round(broker_s - now_s, 3)}
        )
    if state == UNSYNCHRONISED:
        text = "it seems right, but nothing synchronises it (no NTP)"
        return Diagnosis("clock", NOTE, text, sync, fields)
    return Diagnosis("clock", GOOD, "synchronised", "", fields)


def clock_state() -> int:
    """Return the state of the kernel's clock from adjtimex, which changes nothing here. Returns 0 if it has none."""
    try:
        return int(ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(TIMEX_OCTETS)))
    except (OSError, AttributeError):
        return 0


def version(of_broker: str | None, build_of_broker: str | None) -> Diagnosis:
    """Return a diagnosis of the installed version and build, and whether the broker runs the same version."""
    fields: dict[str, object] = {"version": __version__, "build": build(), "python": python()}
    said = f"forebay {__version__} ({build()}, Python {python()})"
    if of_broker is not None and of_broker != __version__:
        text = f"{said}, but the broker is {of_broker}"
        remedy = "restart the broker, if it was upgraded; else use the command of its version"
        return Diagnosis("version", WARNING, text, remedy, {**fields, "broker": of_broker})
    if (build_of_broker or build()) == "interpreted":
        text = f"{said}: without compiled modules a message costs much more CPU"
        remedy = "install a wheel, or with a C compiler at hand `pip install --force-reinstall --no-deps forebay`"
        return Diagnosis("version", NOTE, text, remedy, fields)
    if sys.version_info >= (3, 15):
        return Diagnosis("version", NOTE, f"{said}: this Python is newer than those it was tried on", "", fields)
    return Diagnosis("version", GOOD, said, "", fields)
