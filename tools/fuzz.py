"""Give a broker held in this process inputs that chance has spoilt, as `tests/fuzz` says.

    python tools/fuzz.py --octets 100000000 --seed 1
    python tools/fuzz.py --minutes 480 --seed 5000
    python tools/fuzz.py --costs 64                # what an octet costs, of inputs that grow

A seed is one round, and repeats itself; the next round has the next seed. It ends with 1 at the first round that goes
wrong, and prints the shortest inputs it has found that show it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.fuzz.costs import FAMILIES, cost_of
from tests.fuzz.fuzzer import Fuzzer, Result, make_mutator

TELL_S = 60


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--octets", type=int, default=1_000_000, help="how many the clients send")
    parser.add_argument("--seed", type=int, default=1, help="of the first round")
    parser.add_argument("--minutes", type=float, default=0, help="as many octets as there is time for instead")
    parser.add_argument("--costs", type=int, default=0, help="how many times as long the longer inputs are")
    given = parser.parse_args()
    if given.costs:
        return tell_costs(given.costs)
    fuzzer = Fuzzer(make_mutator())
    result = Result()
    seed = given.seed
    began = told = time.monotonic()
    while time.monotonic() - began < given.minutes * 60 if given.minutes else result.octets < given.octets:
        failure = fuzzer.round(seed, result)
        if failure is not None:
            print(failure)
            return 1
        seed += 1
        if time.monotonic() - told > TELL_S:
            told = time.monotonic()
            tell(result, told - began)
    tell(result, time.monotonic() - began)
    print(", ".join(f"{kind}: {count}" for kind, count in sorted(result.kinds.items())))
    return 0


def tell(result: Result, seconds: float) -> None:
    print(
        f"{result.octets} octets in {result.reads} reads, {result.inputs} inputs in {result.rounds} rounds, "
        f"{result.inputs / seconds:.0f} inputs and {result.octets / seconds:.0f} octets a second; "
        f"{result.answered} octets answered, {result.turns} turns, {result.commits} commits",
        flush=True,
    )


def tell_costs(times: int) -> int:
    """Print what an octet of the longer input costs, in what one of the shorter does."""
    for name, family in FAMILIES.items():
        short, long = cost_of(family, family.first), cost_of(family, family.first * times)
        before = short.counts()
        more = [
            f"{what} {count / long.octets / (before[what] / short.octets):.2f}"
            for what, count in long.counts().items()
            if before[what]
        ]
        print(f"{name}: {short.octets} to {long.octets} octets; {', '.join(more)}")
    return 0


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is a part of what a seed repeats
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "PYTHONHASHSEED": "0"})
    sys.exit(main())
