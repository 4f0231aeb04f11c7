"""Run the simulation of `tests/simulation` for many seeds: one broker with clients and faults, against a model.

    python tools/simulate.py --seeds 1000
    python tools/simulate.py --minutes 480 --first 5000

It ends with 1 at the first seed that goes wrong, and prints the steps that are enough for it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.simulation.simulation import Result, simulate


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--minutes", type=float, default=0, help="as many seeds as there is time for instead")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--steps", type=int, default=200, help="of each seed")
    given = parser.parse_args()
    began = time.monotonic()
    result = Result()
    seed = given.first
    while time.monotonic() - began < given.minutes * 60 if given.minutes else seed < given.first + given.seeds:
        failure = simulate(seed, given.steps, result)
        if failure is not None:
            print(failure)
            return 1
        seed += 1
    seconds = time.monotonic() - began
    print(f"{seed - given.first} seeds, {result.steps} steps, {result.steps / seconds:.0f} a second")
    print(f"{result.messages} messages, {result.audits} times against the model")
    print(", ".join(f"{kind}: {count}" for kind, count in sorted(result.faults.items())))
    return 0


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is a part of what a seed repeats
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "PYTHONHASHSEED": "0"})
    sys.exit(main())
