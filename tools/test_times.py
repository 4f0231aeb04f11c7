"""Where the time of the tests goes: the sum by folder, and the slowest ones.

    python -m pytest --junitxml=compiled.xml
    python tools/test_times.py compiled.xml interpreted.xml

A test's time is that of its fixtures and of itself, on the worker that ran it; a fixture that many share counts with
the first of them.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

SLOWEST = 50
DEPTH = 3  # parts of a path that make a folder: tests/conformance/mqtt


@dataclass(frozen=True, slots=True)
class TestTime:
    """One test of one run."""

    folder: str
    file: str
    name: str
    seconds: float


def read_times(report: Path) -> list[TestTime]:
    """The tests of a report in JUnit's XML."""
    return [time_of(case) for case in ET.parse(report).iter("testcase")]


def time_of(case: ET.Element) -> TestTime:
    names = case.get("classname", "").split(".")  # tests.unit.log.test_store, and a class where there is one
    module = next((at for at, name in enumerate(names) if name.startswith("test_")), len(names) - 1)
    file = "/".join(names[: module + 1]) + ".py"
    return TestTime("/".join(names[:module][:DEPTH]), file, case.get("name", ""), float(case.get("time", 0)))


def folders_text(runs: list[list[TestTime]], names: list[str]) -> list[str]:
    """The sums of each run by folder: one line a folder."""
    sums = [defaultdict[str, float](float) for _ in runs]
    counts = [defaultdict[str, int](int) for _ in runs]
    for run, seconds, count in zip(runs, sums, counts, strict=True):
        for test in run:
            for folder in (test.folder, "all"):
                seconds[folder] += test.seconds
                count[folder] += 1
    folders = sorted(set().union(*sums) - {"all"}) + ["all"]
    lines = [" " * 28 + "".join(f"{name[-22:]:>23}" for name in names)]
    for folder in folders:
        cells = [f"{each[folder]:14.1f} s{count[folder]:7}" for each, count in zip(sums, counts, strict=True)]
        lines.append(f"{folder:28}" + "".join(cells))
    return lines


def slowest_text(runs: list[list[TestTime]], count: int) -> list[str]:
    """The slowest tests of all runs."""
    tests = sorted((test for run in runs for test in run), key=lambda test: -test.seconds)
    return [f"{test.seconds:8.2f} s  {test.file}::{test.name}" for test in tests[:count]]


def main() -> None:
    parser = argparse.ArgumentParser(description="Where the time of the tests goes.")
    parser.add_argument("reports", nargs="+", type=Path, help="of pytest --junitxml")
    parser.add_argument("--slowest", type=int, default=SLOWEST, help="how many tests to list")
    asked = parser.parse_args()
    runs = [read_times(report) for report in asked.reports]
    print(f"The {asked.slowest} slowest tests")
    print("\n".join(slowest_text(runs, asked.slowest)))
    print("Seconds and tests by folder")
    print("\n".join(folders_text(runs, [report.stem for report in asked.reports])))


if __name__ == "__main__":
    main()
