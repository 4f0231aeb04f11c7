"""Many faults of a kind, one after the other within one site, and what came of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from tests.cluster.faults.kind import Kind, Times, fault
from tests.cluster.faults.kinds import KINDS
from tests.cluster.faults.ledger import KINDS as COLUMNS
from tests.cluster.faults.machines import Network
from tests.cluster.faults.site import ETCDS, NODES, Site, Sort

SUMMED = ("runs", "confirmed", *COLUMNS)
TIMES = ("first_confirm_ms", "longest_pause_ms")


class Result:
    """Faults of one kind.

    found      what must not be: its kind, and more of it
    times      of each
    confirmed  messages, while they went on
    """

    def __init__(self, name: str, kind: Kind) -> None:
        self.name = name
        self.kind = kind
        self.runs = 0
        self.found: list[tuple[str, str]] = []
        self.times: list[Times] = []
        self.confirmed = 0

    def row(self) -> dict[str, Any]:
        """For programs."""
        return {
            "kind": self.name,
            "told": self.kind.told,
            "runs": self.runs,
            "confirmed": self.confirmed,
            **{what: sum(each == what for each, _ in self.found) for what in COLUMNS},
            "first_confirm_ms": sorted(round(1000 * each.first) for each in self.times),
            "longest_pause_ms": sorted(round(1000 * each.longest) for each in self.times),
            "from_heal": self.kind.from_heal,
        }


def summed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of several runs, one for each kind."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        whole = found.setdefault(row["kind"], {**row, **dict.fromkeys(SUMMED, 0), **{name: [] for name in TIMES}})
        for name in (*SUMMED, *TIMES):
            whole[name] += row[name]
    for whole in found.values():
        for name in TIMES:
            whole[name].sort()
    return list(found.values())


def table(rows: list[dict[str, Any]]) -> str:
    """For people."""
    lines = [
        "| fault | runs | confirmed | " + " | ".join(COLUMNS) + " | first confirm | longest pause |",
        "|---|" + "---:|" * (len(COLUMNS) + 4),
    ]
    for row in rows:
        first = median_and_most(row["first_confirm_ms"]) + (" *" if row["from_heal"] else "")
        times = [first, median_and_most(row["longest_pause_ms"])]
        cells = [row["told"], row["runs"], row["confirmed"], *(row[what] for what in COLUMNS), *times]
        lines.append("| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |")
    told = "Milliseconds: the median, and the most; * from the moment at which the fault is taken back."
    return "\n".join([*lines, "", told])


def median_and_most(times: list[int]) -> str:
    """Of sorted times."""
    return f"{times[len(times) // 2]}, {times[-1]}" if times else ""


def rounds(folder: Path, plan: list[tuple[str, int]], seed: int, rate: float) -> Iterator[Result]:
    """Kinds and how many of each; what came of each kind. Each sort of kinds has a site of its own."""
    network = Network([*NODES, *ETCDS])
    network.make()
    for sort in Sort:
        chosen = [(name, runs) for name, runs in plan if KINDS[name].sort is sort]
        if not chosen:
            continue
        site = Site(network, folder / sort.value, seed, rate, sort)
        try:
            site.start()
            result = None
            for place, (name, runs) in enumerate(chosen):
                if result is not None:
                    yield result
                result = of_kind(site, name, runs, Random(f"{name} {seed} {place}"))
            site.finish()
            assert result is not None
            result.found += site.findings.take()
            yield result
        finally:
            site.abandon()


def of_kind(site: Site, name: str, runs: int, chance: Random) -> Result:
    """So many faults of one kind; none more once something was found that must not be."""
    result = Result(name, KINDS[name])
    before = sum(len(line.confirmed()) for line in site.lines.values())
    for run in range(runs):
        times = fault(site, result.kind, chance)
        result.times.append(times)
        result.runs += 1
        found = site.findings.take()
        result.found += found
        told = f"{name} {run + 1}/{runs}: first confirm after {1000 * times.first:.0f} ms, "
        told += f"longest pause {1000 * times.longest:.0f} ms"
        print(told, *(f"{what}: {text}" for what, text in found), file=sys.stderr, flush=True, sep="\n  ")
    result.confirmed = sum(len(line.confirmed()) for line in site.lines.values()) - before
    return result
