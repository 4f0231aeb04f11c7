"""Faults of the network: partitions of every kind, links that come and go, that are slow, or lose packets."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from random import Random

from tests.cluster.faults.kind import Begin, Heal, Kind, Pick, at, follower, in_turn, leader, of_each
from tests.cluster.faults.machines import CLIENTS
from tests.cluster.faults.site import ETCDS, NODES, Node, Site

SLOW_KILOBITS = 300
FLAP_S = (0.05, 0.6)
LOST_SHARE = 0.2
DELAY_MS = (40, 40)  # each way, and so much more by chance
HUNG_CLIENTS_S = (3.5, 5.0)  # clients take a connection for hung after 3 s
LOSSY_S = (3.0, 5.0)
Far = Callable[[Site, Node], Iterable[str]]


def other_nodes(site: Site, node: Node) -> list[str]:
    return [name for name in NODES if name != node.name]


def the_leader(site: Site, node: Node) -> list[str]:
    return [site.leader().name]


def etcds(site: Site, node: Node) -> list[str]:
    return list(ETCDS)


def nodes_and_etcds(site: Site, node: Node) -> list[str]:
    return [*other_nodes(site, node), *ETCDS]


def clients(site: Site, node: Node) -> list[str]:
    return [CLIENTS]


def both(some: Iterable[str], others: Iterable[str]) -> list[tuple[str, str]]:
    """All pairs of these, in both directions."""
    others = list(others)
    return [pair for one in some for other in others if one != other for pair in ((one, other), (other, one))]


def cut(pick: Pick, far: Far) -> Begin:
    """A node and others do not reach each other."""
    return at(pick, lambda site, node: site.network.cut(both([node.name], far(site, node))))


def cut_out(pick: Pick, far: Far) -> Begin:
    """What a node sends to others does not arrive."""
    return at(pick, lambda site, node: site.network.cut([(node.name, other) for other in far(site, node)]))


def cut_in(pick: Pick, far: Far) -> Begin:
    """What others send to a node does not arrive."""
    return at(pick, lambda site, node: site.network.cut([(other, node.name) for other in far(site, node)]))


def between(some: Iterable[str], others: Iterable[str]) -> Begin:
    """These machines and those do not reach each other."""
    return lambda site, chance: site.network.cut(both(some, others))


def split(site: Site, chance: Random) -> Heal:
    """The leader and an etcd on one side, all others on the other, clients with both."""
    some = [site.leader().name, chance.choice(ETCDS)]
    return site.network.cut(both(some, [name for name in (*NODES, *ETCDS) if name not in some]))


def flap(site: Site, chance: Random) -> Heal:
    """Links between the leader and another go and come back, each direction by itself."""
    node = site.leader()
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            other = chance.choice(other_nodes(site, node))
            pairs = chance.choice([[(node.name, other)], [(other, node.name)], both([node.name], [other])])
            site.network.set(pairs, False)
            over.wait(chance.uniform(*FLAP_S))
            site.network.set(pairs, True)
            over.wait(chance.uniform(*FLAP_S))

    thread = threading.Thread(target=work)
    thread.start()

    def heal() -> None:
        over.set()
        thread.join()
        site.network.heal()

    return heal


def lose(site: Site, node: Node) -> Heal:
    return site.network.machines[node.name].lose(LOST_SHARE)


def delay(site: Site, node: Node) -> Heal:
    return site.network.machines[node.name].delay(*DELAY_MS)


def slow_down(site: Site, node: Node) -> Heal:
    return site.network.machines[node.name].slow_down(SLOW_KILOBITS)


DELAYED = f"packets take {DELAY_MS[0]} to {sum(DELAY_MS)} ms"

KINDS: dict[str, Kind] = {
    "cut-leader": Kind("leader | followers", cut(leader, other_nodes)),
    "cut-leader-out": Kind("leader to followers, one way", cut_out(leader, other_nodes)),
    "cut-leader-in": Kind("followers to leader, one way", cut_in(leader, other_nodes)),
    "cut-leader-etcd": Kind("leader | etcd", cut(leader, etcds)),
    "cut-leader-all": Kind("leader | followers and etcd", cut(leader, nodes_and_etcds)),
    "cut-leader-clients": Kind("leader | clients", cut(leader, clients), HUNG_CLIENTS_S),
    "cut-follower": Kind("leader | a follower", cut(follower, the_leader)),
    "cut-follower-out": Kind("a follower to leader, one way", cut_out(follower, the_leader)),
    "cut-follower-in": Kind("leader to a follower, one way", cut_in(follower, the_leader)),
    "cut-follower-etcd": Kind("a follower | etcd", cut(follower, etcds)),
    "cut-follower-all": Kind("a follower | nodes and etcd", cut(follower, nodes_and_etcds)),
    "cut-follower-clients": Kind("a follower | clients", cut(follower, clients), HUNG_CLIENTS_S),
    "cut-apart": Kind("all three apart", between(NODES, NODES), from_heal=True),
    "cut-clients": Kind("nodes | clients", between(NODES, [CLIENTS]), HUNG_CLIENTS_S, from_heal=True),
    "cut-etcd": Kind("nodes | etcd", between(NODES, ETCDS)),
    "cut-etcd-apart": Kind("all three etcds apart", between(ETCDS, ETCDS)),
    "split": Kind("leader and an etcd | the others", split),
    "flap": Kind("links of the leader come and go", flap, (2.0, 4.0), from_heal=True),
    "flap-etcd": Kind(
        "links of the leader come and go, and it is away from etcd",
        in_turn(cut(leader, etcds), flap),
        (2.0, 4.0),
        from_heal=True,
    ),
    **of_each("loss", f"{LOST_SHARE:.0%} of its packets are lost", lose, LOSSY_S, True),
    **of_each("delay", DELAYED, delay, LOSSY_S, True),
    "slow-link": Kind(f"leader sends {SLOW_KILOBITS} kbit/s", at(leader, slow_down), from_heal=True),
}
