"""All kinds of faults, by their names."""

from __future__ import annotations

from tests.cluster.faults import disks, etcds, links, processes
from tests.cluster.faults.kind import Kind

KINDS: dict[str, Kind] = {**processes.KINDS, **links.KINDS, **etcds.KINDS, **disks.KINDS}
