"""Run the simulation of `tests/simulation` for many seeds: one broker with clients and faults, against a model.

    python tools/simulate.py --seeds 1000
    python tools/simulate.py --nodes 3 --seeds 1000 --steps 300    # a group of three
    python tools/simulate.py --minutes 480 --first 5000

It ends with 1 at the first seed that goes wrong, and prints the steps that are enough for it. With `--all` it goes on,
and prints the seeds that go wrong as they are.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.simulation.group.group import GroupSetup
from tests.simulation.simulation import Result, Setup, attempt, simulate


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--minutes", type=float, default=0, help="as many seeds as there is time for instead")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--steps", type=int, default=200, help="of each seed")
    parser.add_argument("--nodes", type=int, choices=(1, 3), default=1, help="one broker, or a group of three nodes")
    parser.add_argument(
        "--faults", choices=("usual", "stormy", "parted"), default="usual", help="parted: of three nodes"
    )
    parser.add_argument("--all", action="store_true", help="go on after a seed that goes wrong")
    given = parser.parse_args()
    began, cpu = time.monotonic(), time.process_time()
    wrong = 0
    result = Result()
    is_stormy = given.faults == "stormy"
    is_group = given.nodes > 1
    setup = (
        GroupSetup(is_stormy=is_stormy, is_parted=given.faults == "parted") if is_group else Setup(is_stormy=is_stormy)
    )
    seed = given.first
    while time.monotonic() - began < given.minutes * 60 if given.minutes else seed < given.first + given.seeds:
        if given.all:
            failure = attempt(seed, list(range(1, given.steps + 1)), result, setup)
        else:
            failure = simulate(seed, given.steps, result, setup)
        if failure is not None:
            print(f"seed {seed}: {failure.text}" if given.all else failure, flush=True)
            wrong += 1
            if not given.all:
                return 1
        seed += 1
    used = time.process_time() - cpu
    print(f"{seed - given.first} seeds, {wrong} wrong, {result.steps} steps, {result.steps / used:.0f} a second of CPU")
    print(f"{result.messages} messages, {result.audits} times against the model")
    print(", ".join(f"{kind}: {count}" for kind, count in sorted(result.faults.items())))
    return 1 if wrong else 0


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is a part of what a seed repeats
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "PYTHONHASHSEED": "0"})
    sys.exit(main())
