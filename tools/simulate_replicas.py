"""Run the simulation of `tests/simulation/replica` for many seeds: groups of members in storms, held against promises.

    python tools/simulate_replicas.py --seeds 1000
    python tools/simulate_replicas.py --minutes 480 --first 5000

It ends with 1 at the first seed that goes wrong, and prints what the register said before.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.simulation.replica.faults import Storm
from tests.simulation.replica.violation import Violation


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--minutes", type=float, default=0, help="as many seeds as there is time for instead")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    given = parser.parse_args()
    began = time.monotonic()
    totals: Counter[str] = Counter()
    healed: list[int] = []
    seed = given.first
    while time.monotonic() - began < given.minutes * 60 if given.minutes else seed < given.first + given.seeds:
        storm = Storm(seed)
        try:
            storm.run()
        except (Violation, AssertionError) as error:
            for when, value in storm.history[-12:]:
                print(f"{when}: {value}")
            print(f"seed {seed}, {storm.now:.3f} s: {error}")
            return 1
        healed.append(storm.statistics.pop("heal_ms"))
        totals.update(storm.statistics)
        seed += 1
    healed.sort()
    print(f"{len(healed)} seeds, {len(healed) / (time.monotonic() - began):.2f} a second")
    print(f"well again after {healed[len(healed) // 2]} ms (median), {healed[-1]} ms (most)")
    print(", ".join(f"{kind}: {count}" for kind, count in sorted(totals.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
