"""Machines that are network namespaces on one bridge: links between any two can be cut in each direction, silently.

A cut gives the sender a wrong hardware address of the other: what it sends goes nowhere, and nobody tells it.
All of it is within namespaces of a process of its own (`isolated`): what is left over ends with that process.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

NET = "10.77.0."
CLIENTS = "clients"  # the name of where they are, which is here
FILL_OCTETS_MIN = 4096
NOBODY = "02:00:00:00:00:ff"
ISOLATED = "FOREBAY_FAULTS_ISOLATED"
RELAY = Path(__file__).with_name("relay.py")
# Of the old kind of BPF, for each packet: a random number; is it below that share of them all? Then drop it (2).
LOSS = "4,32 0 0 {random},53 1 0 {share},6 0 0 2,6 0 0 4294967295,"
LOSS_RANDOM = (1 << 32) - 0x1000 + 56  # SKF_AD_OFF + SKF_AD_RANDOM


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


class Place:
    """Something with an address on the bridge.

    within  options of `ip` and `tc` for its namespace
    """

    def __init__(self, number: int, device: str, within: Sequence[str] = ()) -> None:
        self.ip = f"{NET}{number}"
        self.mac = f"02:00:00:00:00:{number:02x}"
        self.device = device
        self.within = within

    def change(self, lines: Iterable[str]) -> None:
        """Commands of `ip`, there."""
        run("ip", *self.within, "-batch", "-", given="\n".join(lines) + "\n")

    def reach(self, other: Place, reaches: bool) -> None:
        """From now on what this one sends to the other arrives, or does not."""
        mac = other.mac if reaches else NOBODY
        self.change([f"neigh replace {other.ip} lladdr {mac} dev {self.device} nud permanent"])


class Machine(Place):
    """A namespace.

    wrapper  a command that runs another one there
    """

    def __init__(self, name: str, number: int) -> None:
        super().__init__(number, "eth0", ("-n", name))
        self.name = name
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

    def traffic(self, *words: str) -> None:
        """A command of `tc` about its device."""
        run("tc", *self.within, *words)

    def slow_down(self, kilobits: int) -> Callable[[], None]:
        """What it sends goes at so many kilobits a second, after a queue of at most 400 ms; takes that back."""
        rate = ("tbf", "rate", f"{kilobits}kbit", "burst", "4k", "latency", "400ms")
        self.traffic("qdisc", "replace", "dev", "eth0", "root", *rate)
        return lambda: self.traffic("qdisc", "del", "dev", "eth0", "root")

    def lose(self, share: float) -> Callable[[], None]:
        """Such a share of the packets that it sends and gets is lost; takes that back."""
        code = LOSS.format(random=LOSS_RANDOM, share=int(share * (1 << 32)))
        self.traffic("qdisc", "add", "dev", "eth0", "clsact")
        for way in ("ingress", "egress"):
            self.traffic("filter", "add", "dev", "eth0", way, "bpf", "direct-action", "bytecode", code)
        return lambda: self.traffic("qdisc", "del", "dev", "eth0", "clsact")

    def delay(self, milliseconds: int, more: int) -> Callable[[], None]:
        """Each packet to it and from it takes so long, and up to so much more, on its way; takes that back."""
        cable, near, far = f"v-{self.name}", f"w-{self.name}", f"x-{self.name}"
        run("ip", "link", "add", near, "type", "veth", "peer", "name", far)
        run("ip", "link", "set", near, "up")
        run("ip", "link", "set", far, "master", "bridge", "up")
        run("ip", "link", "set", cable, "nomaster")
        relay = subprocess.Popen([sys.executable, str(RELAY), cable, near, str(milliseconds), str(more)])

        def take_back() -> None:
            relay.kill()
            relay.wait()
            run("ip", "link", "del", near)
            run("ip", "link", "set", cable, "master", "bridge")

        return take_back


class Network:
    """A bridge with machines, and this process, with the clients, beside them."""

    def __init__(self, names: Iterable[str]) -> None:
        assert is_isolated(), "this process would change the network of the whole machine"
        self.machines = {name: Machine(name, 11 + place) for place, name in enumerate(names)}
        self.here = Place(1, "bridge")
        self.places: dict[str, Place] = {**self.machines, CLIENTS: self.here}

    def make(self) -> None:
        """Make them all; each reaches every other."""
        run("mount", "-t", "tmpfs", "none", "/run")  # where `ip netns` keeps names, ours alone
        lines = [
            "link set lo up",
            f"link add bridge address {self.here.mac} type bridge",
            f"addr add {self.here.ip}/24 dev bridge",
            "link set bridge up",
        ]
        self.here.change(lines)
        for machine in self.machines.values():
            machine.make()
        self.heal()

    def cut(self, pairs: Iterable[tuple[str, str]]) -> Callable[[], None]:
        """What the first of each pair sends to the second does not arrive any more; takes that back."""
        self.set(pairs, False)
        return self.heal

    def heal(self) -> None:
        """Everybody reaches everybody."""
        names = list(self.places)
        self.set([(one, other) for one in names for other in names if one != other], True)

    def set(self, pairs: Iterable[tuple[str, str]], reaches: bool) -> None:
        for one, other in pairs:
            self.places[one].reach(self.places[other], reaches)


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
