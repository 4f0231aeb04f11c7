"""Machines that are network namespaces on one bridge: links between any two can be cut in each direction, silently.

A cut gives the sender a wrong hardware address of the other: what it sends goes nowhere, and nobody tells it.
All of it is within namespaces of a process of its own (`isolated`): what is left over ends with that process.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

NET = "10.77.0."
BRIDGE_IP = NET + "1"  # where clients are
FILL_OCTETS_MIN = 4096
NOBODY = "02:00:00:00:00:ff"
ISOLATED = "FOREBAY_FAULTS_ISOLATED"


def isolated(command: Sequence[str]) -> list[str]:
    """A command that runs this one where it may do all that is done here, and alone in its own network."""
    words = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid() != 0:
        words += ["--user", "--map-root-user"]
    return ["env", f"{ISOLATED}=1", *words, *command]


def is_isolated() -> bool:
    """True in a process that `isolated` has started."""
    return ISOLATED in os.environ


def isolate() -> None:
    """Go on in a process of that kind, unless this is one."""
    if not is_isolated():
        command = isolated([sys.executable, *sys.argv])
        os.execvp(command[0], command)


def run(*words: str, given: str = "") -> str:
    """The output of a command that must succeed."""
    done = subprocess.run(words, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr or done.stdout}"
    return done.stdout


class Machine:
    """A namespace with one address on the bridge.

    wrapper  a command that runs another one there
    """

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.ip = f"{NET}{number}"
        self.mac = f"02:00:00:00:00:{number:02x}"
        self.wrapper = ["nsenter", f"--net=/run/netns/{name}", "--"]

    def make(self) -> None:
        """Make the namespace and its cable."""
        run("ip", "netns", "add", self.name)
        link = f"v-{self.name}"
        run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        run("ip", "link", "set", link, "master", "bridge", "up")
        lines = [
            "link set lo up",
            f"link set eth0 address {self.mac}",
            f"addr add {self.ip}/24 dev eth0",
            "link set eth0 up",
        ]
        self.change(lines)

    def change(self, lines: Iterable[str]) -> None:
        """Commands of `ip`, within the namespace."""
        run("ip", "-n", self.name, "-batch", "-", given="\n".join(lines) + "\n")

    def reach(self, other: Machine, reaches: bool) -> None:
        """From now on what this machine sends to the other arrives, or does not."""
        mac = other.mac if reaches else NOBODY
        self.change([f"neigh replace {other.ip} lladdr {mac} dev eth0 nud permanent"])

    def slow_down(self, kilobits: int) -> None:
        """What it sends goes at so many kilobits a second, after a queue of at most 400 ms; 0: as fast as it can."""
        words = ["tc", "-n", self.name, "qdisc"]
        if kilobits:
            rate = ["tbf", "rate", f"{kilobits}kbit", "burst", "4k", "latency", "400ms"]
            run(*words, "replace", "dev", "eth0", "root", *rate)
        else:
            run(*words, "del", "dev", "eth0", "root")


class Network:
    """A bridge with machines, and this process beside them."""

    def __init__(self, names: Iterable[str]) -> None:
        assert is_isolated(), "this process would change the network of the whole machine"
        self.machines = {name: Machine(name, 11 + place) for place, name in enumerate(names)}

    def make(self) -> None:
        """Make them all; each reaches every other."""
        run("mount", "-t", "tmpfs", "none", "/run")  # where `ip netns` keeps names, ours alone
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "bridge", "type", "bridge")
        run("ip", "addr", "add", f"{BRIDGE_IP}/24", "dev", "bridge")
        run("ip", "link", "set", "bridge", "up")
        for machine in self.machines.values():
            machine.make()
        self.heal()

    def cut(self, senders: Iterable[str], receivers: Iterable[str]) -> None:
        """What these send to those does not arrive any more."""
        self.set([(one, other) for one in senders for other in receivers if one != other], False)

    def part(self, some: Iterable[str], others: Iterable[str]) -> None:
        """The same in both directions."""
        some, others = list(some), list(others)
        self.cut(some, others)
        self.cut(others, some)

    def heal(self) -> None:
        """Everybody reaches everybody."""
        names = list(self.machines)
        self.set([(one, other) for one in names for other in names if one != other], True)

    def set(self, pairs: Iterable[tuple[str, str]], reaches: bool) -> None:
        for one, other in pairs:
            self.machines[one].reach(self.machines[other], reaches)


def small_disk(folder: Path, octets: int) -> None:
    """Make a folder a file system of its own, of so many octets."""
    folder.mkdir(parents=True, exist_ok=True)
    run("mount", "-t", "tmpfs", "-o", f"size={octets}", "none", str(folder))


def fill(folder: Path) -> Path:
    """Leave no room on the file system of a folder; the file to remove for it to be there again."""
    filler = folder / "filler"
    with filler.open("wb") as file, suppress(OSError):  # until there is no room
        while (free := shutil.disk_usage(folder).free) > 0:
            os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, max(FILL_OCTETS_MIN, free // 2))
    return filler
