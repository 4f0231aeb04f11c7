"""Faults of a node's disk and of its clock."""

from __future__ import annotations

from tests.cluster.faults.kind import Do, Heal, Kind, at_all, of_each
from tests.cluster.faults.machines import fill
from tests.cluster.faults.site import CLOCK_AHEAD, FAIL_SYNC, HOLD_SYNC, SLOW_SYNC, Node, Site, Sort

DISK_ERROR = 74  # how a node ends when a sync has failed
FULL_S = (4.0, 6.0)
JUMP_S = 600


def full(site: Site, node: Node) -> Heal:
    """No room."""
    return fill(node.data).unlink


def marked(variable: str) -> Do:
    """While a file is there its calls are answered in another way."""

    def do(site: Site, node: Node) -> Heal:
        node.mark(variable).touch()
        return node.mark(variable).unlink

    return do


def fail(site: Site, node: Node) -> Heal:
    """A sync fails, at which the node ends; it is started on a disk that is sound again."""
    node.mark(FAIL_SYNC).touch()
    node.is_up = False

    def heal() -> None:
        code = node.wait()
        assert code == DISK_ERROR, f"{node.name} ended with {code}"
        node.mark(FAIL_SYNC).unlink()
        node.begin()

    return heal


def jump(seconds: int) -> Do:
    """The time of the day jumps, and back."""

    def do(site: Site, node: Node) -> Heal:
        node.mark(CLOCK_AHEAD).write_text(str(seconds), encoding="ascii")
        return node.mark(CLOCK_AHEAD).unlink

    return do


KINDS: dict[str, Kind] = {
    **of_each("full", "no room on its disk", full, FULL_S, True, Sort.SMALL),
    **of_each("slow-disk", "a sync takes 200 ms more", marked(SLOW_SYNC), FULL_S, sort=Sort.PRELOADED),
    **of_each("hang-disk", "syncs do not return", marked(HOLD_SYNC), leader_from_heal=True, sort=Sort.PRELOADED),
    **of_each("fail-disk", "a sync fails", fail, sort=Sort.PRELOADED),
    **of_each("clock-ahead", "its clock jumps 10 minutes ahead, and back", jump(JUMP_S), sort=Sort.PRELOADED),
    **of_each("clock-back", "its clock jumps 10 minutes back, and ahead", jump(-JUMP_S), sort=Sort.PRELOADED),
    "clock-all": Kind("all nodes: clocks jump 10 minutes ahead, and back", at_all(jump(JUMP_S)), sort=Sort.PRELOADED),
}
