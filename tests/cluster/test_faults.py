"""Faults of every sort once, under the load of real clients, on machines that are network namespaces.

`tools/cluster_faults.py` has more kinds, and does each as often as it is told.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.faults.kinds import KINDS
from tests.cluster.faults.ledger import KINDS as FINDINGS
from tests.cluster.faults.ledger import LATE

ROOT = Path(__file__).parent.parent.parent
SITES = {
    "killed": ["kill-leader", "kill-follower", "kill-all", "wipe-follower"],
    "hung": ["hang-leader", "hang-follower", "drop-clients"],
    "leader cut off": ["cut-leader", "cut-leader-etcd", "cut-leader-all"],
    "one way": ["cut-leader-out", "cut-leader-in", "slow-link"],
    "others cut off": ["cut-follower", "cut-follower-etcd", "cut-apart", "flap"],
    "etcd": ["none", "kill-etcd-leader", "kill-etcd", "roll"],
    "disks": ["full-leader", "full-follower"],
}
MUST_NOT_BE = [each for each in FINDINGS if each != LATE]


def test_kinds_are_named_as_they_are() -> None:
    assert {name for names in SITES.values() for name in names} <= set(KINDS)


@pytest.mark.parametrize("site", SITES)
def test_nothing_that_was_confirmed_is_lost(site: str) -> None:
    kinds = [word for name in SITES[site] for word in ("--kind", name)]
    command = [sys.executable, "tools/cluster_faults.py", "--runs", "1", "--json", *kinds]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["kind"] for row in rows] == SITES[site]
    assert all(row["runs"] == 1 and row["confirmed"] > 0 and not any(row[each] for each in MUST_NOT_BE) for row in rows)
