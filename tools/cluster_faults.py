"""Break a cluster of three nodes and three etcds, each on a machine of its own, under the load of real clients.

    python tools/cluster_faults.py --kind kill-leader --runs 100
    python tools/cluster_faults.py --kind cut-leader --kind flap:20 --runs 50 --seed 7 --json

Machines are network namespaces: it wants Linux with `ip` and `unshare`, and root or user namespaces. A table comes out,
or with `--json` a line for each kind as soon as it is done. It ends with 1 if anything was found that must not be;
what only came late, on a machine that has more to do, is told.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.cluster.faults.kinds import KINDS
from tests.cluster.faults.ledger import LATE
from tests.cluster.faults.machines import isolate
from tests.cluster.faults.rounds import Result, rounds, summed, table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ", ".join(KINDS)
    parser.add_argument("--kind", action="append", help=f"a kind of fault, or `kind:runs`; any of {names}")
    parser.add_argument("--runs", type=int, default=5, help="of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=25, help="messages a second of each of six publishers")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each kind")
    parser.add_argument("--folder", type=Path, help="where nodes and their logs stay; else they go")
    parser.add_argument("--table", type=Path, nargs="+", help="break nothing: the table of what `--json` has printed")
    given = parser.parse_args()
    if given.table:
        print(table(summed([json.loads(line) for path in given.table for line in path.read_text().splitlines()])))
        return 0
    plan = []
    for each in given.kind or list(KINDS):
        name, _, runs = each.partition(":")
        if name not in KINDS:
            parser.error(f"--kind: {name!r} is none of {names}")
        plan.append((name, int(runs or given.runs)))
    isolate()
    results: list[Result] = []
    with tempfile.TemporaryDirectory() as made:
        folder = given.folder or Path(made)
        for result in rounds(folder, plan, given.seed, given.rate):
            results.append(result)
            if given.json:
                print(json.dumps(result.row()), flush=True)
    if not given.json:
        print(table(summed([result.row() for result in results])))
    for result in results:
        for what, text in result.found:
            print(f"{result.name}: {what}: {text}", file=sys.stderr)
    return 1 if any(what != LATE for result in results for what, _ in result.found) else 0


if __name__ == "__main__":
    sys.exit(main())
