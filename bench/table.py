#!/usr/bin/env python3
"""The runs of `bench/run.py --json FILE` as the tables of docs/reference/benchmarks.md.

Medians, every scenario, every broker.

usage: bench/table.py FILE
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

Run = dict[str, object]
OURS = "forebay"


def median(runs: list[Run], *path: str) -> float:
    """Median of one figure, which may stand in a part of each run."""
    found = []
    for run in runs:
        value: object = run
        for name in path:
            assert isinstance(value, dict)
            value = value[name]
        assert isinstance(value, int | float)
        found.append(float(value))
    return statistics.median(found)


def row(target: str, runs: list[Run], ours: list[Run]) -> str:
    field = "cons_s" if runs[0]["subs"] else "pub_s"
    rate = median(runs, field)
    cells = [
        target,
        f"{rate:,.0f}",
        f"{median(runs, 'broker_us_msg'):.2f}",
        f"{median(runs, 'lat_ms', 'p50'):.2f}",
        f"{median(runs, 'lat_ms', 'p99'):.2f}",
        f"{median(runs, 'rss_max_kb') / 1024:.0f}",
    ]
    if runs is ours or not ours:
        cells += ["", ""]
    else:
        cells += [
            f"{median(ours, field) / max(rate, 1):.1f}x",
            f"{median(runs, 'broker_us_msg') / max(median(ours, 'broker_us_msg'), 1e-9):.0f}x",
        ]
    wrong = sum(1 for run in runs if run["gaps"] or run["dups"] or run["reorders"])
    note = f"{wrong} of {len(runs)} runs lost, doubled or reordered messages" if wrong else ""
    return "| " + " | ".join([*cells, note]) + " |"


def main() -> None:
    scenarios: dict[str, dict[str, list[Run]]] = {}
    for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines():
        run = json.loads(line)
        scenarios.setdefault(str(run["scenario"]), {}).setdefault(str(run["target"]), []).append(run)
    for scenario, targets in scenarios.items():
        ours = targets.get(OURS, [])
        print(f"### {scenario}\n")
        print(
            "| broker | messages/s | CPU µs/message | p50 ms | p99 ms | MiB | rate, ours/theirs | CPU, theirs/ours | |"
        )
        print("|---|---:|---:|---:|---:|---:|---:|---:|---|")
        for target, runs in targets.items():
            print(row(target, runs, ours))
        if not ours:
            print(f"| {OURS} | no run | | | | | | | it does not offer this |")
        print()


if __name__ == "__main__":
    main()
