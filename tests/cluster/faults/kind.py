"""A kind of fault: what it does to a site, and one fault from its begin until all is well again."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random

from tests.cluster.faults.site import Node, Site, Sort
from tests.waiting import pause

Heal = Callable[[], object]
Begin = Callable[[Site, Random], Heal]
Pick = Callable[[Site, Random], Node]
Do = Callable[[Site, Node], Heal]


class Kind:
    """A kind of fault.

    told       for people
    begin      does it; gives what takes it back
    hold_s     how long it lasts: at least, at most
    from_heal  the first confirm is counted from the moment at which it is taken back: until then there may be none
    sort       the site that it needs
    """

    def __init__(
        self,
        told: str,
        begin: Begin,
        hold_s: tuple[float, float] = (1.2, 2.5),
        from_heal: bool = False,
        sort: Sort = Sort.PLAIN,
    ) -> None:
        self.told = told
        self.begin = begin
        self.hold_s = hold_s
        self.from_heal = from_heal
        self.sort = sort


def nothing() -> None:
    """What takes back a fault that is over by itself."""


def leader(site: Site, chance: Random) -> Node:
    return site.leader()


def follower(site: Site, chance: Random) -> Node:
    return chance.choice(site.followers())


def at(pick: Pick, do: Do) -> Begin:
    """A fault of one node."""
    return lambda site, chance: do(site, pick(site, chance))


def at_all(do: Do) -> Begin:
    """The same fault of every node."""

    def begin(site: Site, chance: Random) -> Heal:
        return all_of([do(site, node) for node in site.nodes.values()])

    return begin


def in_turn(*begins: Begin) -> Begin:
    """Several faults, one after the other, and all at once from then on."""
    return lambda site, chance: all_of([begin(site, chance) for begin in begins])


def all_of(heals: list[Heal]) -> Heal:
    def heal() -> None:
        for each in heals:
            each()

    return heal


def of_each(
    name: str,
    told: str,
    do: Do,
    hold_s: tuple[float, float] = (1.2, 2.5),
    leader_from_heal: bool = False,
    sort: Sort = Sort.PLAIN,
) -> dict[str, Kind]:
    """A kind for the leader, and one for a follower."""
    return {
        f"{name}-leader": Kind(f"leader: {told}", at(leader, do), hold_s, leader_from_heal, sort),
        f"{name}-follower": Kind(f"a follower: {told}", at(follower, do), hold_s, sort=sort),
    }


class Times:
    """What a fault cost, in seconds.

    first    from the fault, or from its end where it leaves nobody who could confirm, to the first confirm of a message
             that was sent after that
    longest  in which nobody had a confirm, from the fault until all is well
    """

    def __init__(self, first: float, longest: float) -> None:
        self.first = first
        self.longest = longest


def fault(site: Site, kind: Kind, chance: Random) -> Times:
    """One fault, from its begin until all is well again, and everything that was confirmed by then is looked for."""
    pause(chance.uniform(0.2, 0.8))
    began = time.monotonic()
    heal = kind.begin(site, chance)
    counted = time.monotonic()
    pause(chance.uniform(*kind.hold_s))
    if kind.from_heal:
        counted = time.monotonic()
    heal()
    site.wait_whole()
    longest = site.longest_pause(began)
    site.check()
    return Times(site.first_confirm(counted), longest)
