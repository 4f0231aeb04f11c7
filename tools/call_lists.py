"""Print the calls that a login, a declare, a publish and an ack make, in this tree or another: `call_lists.py [ROOT]`.

A node is held in this process, on the sources of that tree and with the clients of its tests. Each operation is done
once before, so that what is kept between two of the same kind is there. A call stands below the one that made it.
Calls of the same name one after the other stand once, with their number. Codecs, and calls deeper than `--depth`, are
left out.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, Final

OMITTED: Final = ("wire/", "core/")
SOURCE: Final = "/src/forebay/"


class Calls:
    """The calls of one operation.

    entries  depth and name of each call, in their order
    """

    def __init__(self, depth_max: int) -> None:
        self.depth_max = depth_max
        self.entries: list[tuple[int, str]] = []
        self.stack: list[bool] = []

    def record(self, frame: FrameType, event: str, argument: Any) -> None:
        """Take one event of the interpreter's profiler."""
        if event == "call":
            name = name_of(frame)
            if name:
                self.entries.append((sum(self.stack), name))
            self.stack.append(bool(name))
        elif event == "return" and self.stack:
            self.stack.pop()

    def lines(self) -> list[str]:
        """Return one line a call, indented by its depth."""
        lines: list[tuple[str, int]] = []
        for depth, name in self.entries:
            line = "  " * depth + name
            if depth >= self.depth_max:
                continue
            if lines and lines[-1][0] == line:
                lines[-1] = (line, lines[-1][1] + 1)
            else:
                lines.append((line, 1))
        return [line if count == 1 else f"{line} x{count}" for line, count in lines]


def name_of(frame: FrameType) -> str:
    """Return a function's module and name if the function is the broker's and counts, or an empty text."""
    _, found, module = frame.f_code.co_filename.partition(SOURCE)
    name = frame.f_code.co_qualname
    if not found or module.startswith(OMITTED) or "<" in name or name.endswith("__init__"):
        return ""
    return f"{module.removesuffix('.py')}: {name}"


def main() -> None:
    """Print the calls of all operations."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--depth", type=int, default=5)
    given = parser.parse_args()
    root = given.root.resolve()
    sys.path[:0] = [str(root / "src"), str(root)]
    raw = import_module("tests.conformance.amqp091.raw")  # of that tree
    rig_module = import_module("tests.node_rig")
    with tempfile.TemporaryDirectory() as folder:
        rig = rig_module.NodeRig(Path(folder))
        with ExitStack() as clients:
            found = operations(raw, rig, given.depth, lambda: clients.enter_context(raw.connect(rig)))
    for name, calls in found:
        print(f"\n{name}: {len(calls.entries)} calls\n")
        print("\n".join(calls.lines()))


def operations(raw: Any, rig: Any, depth: int, connect: Callable[[], Any]) -> list[tuple[str, Calls]]:
    """Do all operations, and return the calls that each has made up to the end of its turn."""
    found: list[tuple[str, Calls]] = []

    def count(name: str, act: Any) -> None:
        calls = Calls(depth)
        sys.setprofile(calls.record)
        try:
            act()
            rig.settle()
        finally:
            sys.setprofile(None)
        found.append((name, calls))

    connect().declare("before")
    count("login", connect)
    client = connect()
    count("declare", lambda: client.declare("q"))
    client.confirm()
    client.consume("q")
    client.send(raw.publish(1, "q", b"first"))
    rig.settle()
    client.send(raw.method(1, raw.ACK, raw.number(1, 8) + b"\0"))
    rig.settle()
    count("publish, delivered in its turn", lambda: client.send(raw.publish(1, "q", b"second")))
    count("ack", lambda: client.send(raw.method(1, raw.ACK, raw.number(2, 8) + b"\0")))
    return found


if __name__ == "__main__":
    main()
