"""Plant bugs where nothing may be lost, and report those that the unit tests of that place do not find.

cosmic-ray makes the mutants, in a copy of this folder; the interpreted sources are tested:

    python3 -m venv build/mutants && build/mutants/bin/pip install cosmic-ray==8.7.0
    .venv/bin/python tools/mutants.py --cosmic-ray build/mutants/bin/cosmic-ray --seed 1 --count 12

The same seed plants the same mutants in the same sources. docs/reference/reliability.md lists those that survive.
"""

from __future__ import annotations

import argparse
import ast
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCES: Final = "src/forebay"
PLACES: Final = {  # place -> the tests that are to find a bug there
    "queue/work": "tests/unit/queue",
    "log/recovery": "tests/unit/log",
    "replica": "tests/unit/replica",
    "broker/mqtt/session_recovery.py": "tests/unit/broker/mqtt",
}
NO_BUGS: Final = ("core/RemoveDecorator",)  # `final` is for the compiler
CONFIG: Final = """[cosmic-ray]
module-path = {path!r}
timeout = 120.0
excluded-modules = []
test-command = {command!r}
[cosmic-ray.distributor]
name = "local"
"""


def main() -> int:
    """Run the mutants that the command line asks for; the exit code is 1 if any survives."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cosmic-ray", default="cosmic-ray", help="the program, of whatever environment")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=12, help="mutants of each place")
    parser.add_argument("--place", choices=PLACES, action="append", help="only this place")
    options = parser.parse_args()
    tool = shutil.which(options.cosmic_ray)
    if tool is None:
        parser.error(f"--cosmic-ray {options.cosmic_ray}: no such program")
    survived = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = copied(Path(folder))
        for place in options.place or PLACES:
            session = prepare(str(Path(tool).absolute()), copy, place)
            choose(session, copy, options.count, Random(f"{options.seed} {place}"))
            run([str(Path(tool).absolute()), "exec", "mutants.toml", session.name], copy)
            survived += report(session, place)
    return 1 if survived else 0


def copied(folder: Path) -> Path:
    """Copy what the tests need: a mutant is written into its module."""
    for name in ("src", "tests", "tools"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for name in ("pyproject.toml", "setup.py"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def run(command: list[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True)


def prepare(tool: str, folder: Path, place: str) -> Path:
    """Have cosmic-ray find all mutants of a place; the session that lists them."""
    session = folder / f"{place.replace('/', '-')}.sqlite"
    tests = f"{sys.executable} -m pytest -x -q -p no:cacheprovider {PLACES[place]}"
    command = f"env PYTHONPATH=src PYTHONDONTWRITEBYTECODE=1 {tests}"
    (folder / "mutants.toml").write_text(CONFIG.format(path=f"{SOURCES}/{place}", command=command))
    run([tool, "baseline", "mutants.toml"], folder)
    run([tool, "init", "mutants.toml", session.name], folder)
    return session


def choose(session: Path, folder: Path, count: int, chance: Random) -> None:
    """Leave this many mutants in the session, each at a place of its own in the code."""
    with sqlite3.connect(session) as database:
        rows = database.execute(
            "select job_id, module_path, operator_name, start_pos_row, start_pos_col from mutation_specs"
            " order by module_path, start_pos_row, start_pos_col, operator_name, operator_args, occurrence"
        ).fetchall()
        places: defaultdict[tuple[str, int, int], list[str]] = defaultdict(list)
        annotations = {path: annotated(folder / path) for path in {row[1] for row in rows}}
        for job, path, operator, line, column in rows:
            if operator not in NO_BUGS and not is_within(annotations[path], (line, column)):
                places[path, line, column].append(job)
        kept = [chance.choice(places[each]) for each in chance.sample(list(places), min(count, len(places)))]
        marks = ",".join("?" * len(kept))
        for table in ("mutation_specs", "work_items"):
            database.execute(f"delete from {table} where job_id not in ({marks})", kept)


Span = tuple[tuple[int, int], tuple[int, int]]


def annotated(module: Path) -> list[Span]:
    """The stretches of a module that only a type checker reads."""
    spans: list[Span] = []
    for node in ast.walk(ast.parse(module.read_text())):
        for name in ("annotation", "returns"):
            part = getattr(node, name, None)
            if isinstance(part, ast.expr):
                end = (part.end_lineno or part.lineno, part.end_col_offset or part.col_offset)
                spans.append(((part.lineno, part.col_offset), end))
    return spans


def is_within(spans: list[Span], at: tuple[int, int]) -> bool:
    return any(first <= at < end for first, end in spans)


def report(session: Path, place: str) -> int:
    """Print the mutants that survived; how many did."""
    with sqlite3.connect(session) as database:
        rows = database.execute(
            "select module_path, definition_name, operator_name, start_pos_row, test_outcome, diff"
            " from mutation_specs join work_results using (job_id) order by module_path, start_pos_row"
        ).fetchall()
    survivors = [row for row in rows if str(row[4]).lower() == "survived"]
    print(f"\n{place}: {len(rows)} mutants, {len(survivors)} survived {PLACES[place]}", flush=True)
    for path, function, operator, line, _, diff in survivors:
        print(f"\n{path}:{line} in {function}, {operator}\n{diff}", flush=True)
    return len(survivors)


if __name__ == "__main__":
    sys.exit(main())
