"""The faults: each does something to a site, and gives what takes it back."""

from __future__ import annotations

import shutil
import signal
import threading
import time
from collections.abc import Callable
from random import Random

from tests.cluster.faults.machines import fill
from tests.cluster.faults.site import ETCDS, NODES, Node, Site
from tests.waiting import pause, until

Heal = Callable[[], None]
SLOW_KILOBITS = 300
FLAP_S = (0.05, 0.6)


class Kind:
    """A kind of fault.

    told       for people
    begin      does it; gives what takes it back
    hold_s     how long it lasts: at least, at most
    from_heal  the first confirm is counted from the moment at which it is taken back: until then there may be none
    small      it needs nodes with small disks
    """

    def __init__(
        self,
        told: str,
        begin: Callable[[Site, Random], Heal],
        hold_s: tuple[float, float] = (1.2, 2.5),
        from_heal: bool = False,
        small: bool = False,
    ) -> None:
        self.told = told
        self.begin = begin
        self.hold_s = hold_s
        self.from_heal = from_heal
        self.small = small


def kill(site: Site, nodes: list[Node]) -> Heal:
    """SIGKILL, and a start."""
    for node in nodes:
        node.end()

    def heal() -> None:
        for node in nodes:
            node.begin()

    return heal


def wipe(site: Site, node: Node) -> Heal:
    """SIGKILL, and a start with an empty folder."""
    node.end()
    shutil.rmtree(node.data)
    return node.begin


def hang(site: Site, node: Node) -> Heal:
    """SIGSTOP, and SIGCONT."""
    node.send(signal.SIGSTOP)
    return lambda: node.send(signal.SIGCONT)


def cut(site: Site, pairs: list[tuple[str, str]]) -> Heal:
    """What the first of each pair sends to the second does not arrive."""
    site.network.set(pairs, False)
    return site.network.heal


def leader_and_others(site: Site) -> tuple[str, list[str]]:
    leader = site.leader().name
    return leader, [name for name in NODES if name != leader]


def cut_leader(site: Site, chance: Random) -> Heal:
    leader, others = leader_and_others(site)
    return cut(site, both([leader], others))


def cut_leader_etcd(site: Site, chance: Random) -> Heal:
    return cut(site, both([site.leader().name], list(ETCDS)))


def cut_leader_all(site: Site, chance: Random) -> Heal:
    leader, others = leader_and_others(site)
    return cut(site, both([leader], [*others, *ETCDS]))


def cut_leader_out(site: Site, chance: Random) -> Heal:
    leader, others = leader_and_others(site)
    return cut(site, [(leader, other) for other in others])


def cut_leader_in(site: Site, chance: Random) -> Heal:
    leader, others = leader_and_others(site)
    return cut(site, [(other, leader) for other in others])


def cut_follower(site: Site, chance: Random) -> Heal:
    leader, others = leader_and_others(site)
    return cut(site, both([leader], [chance.choice(others)]))


def cut_follower_etcd(site: Site, chance: Random) -> Heal:
    _, others = leader_and_others(site)
    return cut(site, both([chance.choice(others)], list(ETCDS)))


def cut_apart(site: Site, chance: Random) -> Heal:
    return cut(site, [pair for one in NODES for pair in both([one], [each for each in NODES if each != one])])


def both(some: list[str], others: list[str]) -> list[tuple[str, str]]:
    """All pairs of these, in both directions."""
    return [pair for one in some for other in others for pair in ((one, other), (other, one))]


def flap(site: Site, chance: Random) -> Heal:
    """Links between the leader and another go and come back, each direction by itself."""
    leader, others = leader_and_others(site)
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            other = chance.choice(others)
            pair = chance.choice([[(leader, other)], [(other, leader)], both([leader], [other])])
            site.network.set(pair, False)
            over.wait(chance.uniform(*FLAP_S))
            site.network.set(pair, True)
            over.wait(chance.uniform(*FLAP_S))

    thread = threading.Thread(target=work)
    thread.start()

    def heal() -> None:
        over.set()
        thread.join()
        site.network.heal()

    return heal


def slow_link(site: Site, chance: Random) -> Heal:
    machine = site.network.machines[site.leader().name]
    machine.slow_down(SLOW_KILOBITS)
    return lambda: machine.slow_down(0)


def kill_etcd(site: Site, all_of_them: bool) -> Heal:
    members = site.etcd.members if all_of_them else [site.etcd.leader()]
    for member in members:
        member.kill()

    def heal() -> None:
        for member in members:
            member.start(site.etcd.members)
        site.etcd.wait()

    return heal


def roll(site: Site, chance: Random) -> Heal:
    """Stop one node after the other in good order, and start it; the next when all are in sync."""
    for node in chance.sample(list(site.nodes.values()), len(site.nodes)):
        node.is_up = False
        node.stop()
        node.begin()
        until(lambda: site.in_sync() == list(NODES), site.told)
    return lambda: None


def full(site: Site, node: Node) -> Heal:
    """No room on the disk of one node."""
    filler = fill(node.data)
    return filler.unlink


def drop_clients(site: Site, chance: Random) -> Heal:
    """All clients end their connections, and come again."""
    for client in [*site.clients, *site.publishers]:
        client.alive_at = 0.0
    return lambda: None


KINDS: dict[str, Kind] = {
    "drop-clients": Kind("clients cut themselves off", drop_clients, (0.2, 0.6)),
    "none": Kind("none", lambda site, chance: lambda: None),
    "kill-leader": Kind("leader: kill -9", lambda site, chance: kill(site, [site.leader()]), (0.3, 1.5)),
    "kill-follower": Kind(
        "a follower: kill -9", lambda site, chance: kill(site, [chance.choice(site.followers())]), (0.3, 1.5)
    ),
    "kill-all": Kind(
        "all nodes: kill -9", lambda site, chance: kill(site, list(site.nodes.values())), (0.0, 0.5), from_heal=True
    ),
    "wipe-follower": Kind(
        "a follower: kill -9, and its folder is gone",
        lambda site, chance: wipe(site, chance.choice(site.followers())),
        (0.3, 1.5),
    ),
    "hang-leader": Kind("leader: SIGSTOP, SIGCONT", lambda site, chance: hang(site, site.leader())),
    "hang-follower": Kind(
        "a follower: SIGSTOP, SIGCONT", lambda site, chance: hang(site, chance.choice(site.followers()))
    ),
    "cut-leader": Kind("leader | followers", cut_leader),
    "cut-leader-etcd": Kind("leader | etcd", cut_leader_etcd),
    "cut-leader-all": Kind("leader | followers and etcd", cut_leader_all),
    "cut-leader-out": Kind("leader to followers, one way", cut_leader_out),
    "cut-leader-in": Kind("followers to leader, one way", cut_leader_in),
    "cut-follower": Kind("leader | a follower", cut_follower),
    "cut-follower-etcd": Kind("a follower | etcd", cut_follower_etcd),
    "cut-apart": Kind("all three apart", cut_apart, from_heal=True),
    "flap": Kind("links of the leader come and go", flap, (2.0, 4.0), from_heal=True),
    "slow-link": Kind(f"leader sends {SLOW_KILOBITS} kbit/s", slow_link, from_heal=True),
    "kill-etcd-leader": Kind("leader of etcd: kill -9", lambda site, chance: kill_etcd(site, False)),
    "kill-etcd": Kind("all of etcd: kill -9", lambda site, chance: kill_etcd(site, True)),
    "roll": Kind("rolling restart of all three", roll, (0.0, 0.0)),
    "full-leader": Kind(
        "no room on the leader's disk", lambda site, chance: full(site, site.leader()), (4.0, 6.0), True, small=True
    ),
    "full-follower": Kind(
        "no room on a follower's disk",
        lambda site, chance: full(site, chance.choice(site.followers())),
        (4.0, 6.0),
        small=True,
    ),
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
