"""Faults of the nodes' processes: killed, stopped, wiped, restarted; and leadership that moves under load."""

from __future__ import annotations

import shutil
from random import Random

from tests.cluster.faults.kind import Heal, Kind, at, follower, in_turn, leader, nothing, of_each
from tests.cluster.faults.site import Node, Site
from tests.waiting import until

KILLED_S = (0.3, 1.5)
COPY_KILOBITS = 20_000  # a copy takes seconds


def kill(site: Site, node: Node) -> Heal:
    """SIGKILL, and a start."""
    node.end()
    return node.begin


def kill_all(site: Site, chance: Random) -> Heal:
    """SIGKILL for all nodes at once, and a start of all: none waits for another to be ready."""
    nodes = list(site.nodes.values())
    for node in nodes:
        node.send_kill()
    for node in nodes:
        node.is_up = False
        node.wait()

    def start() -> None:
        for node in nodes:
            node.launch()
        for node in nodes:
            node.wait_ready()
            node.is_up = True

    return start


def wipe(site: Site, node: Node) -> Heal:
    """SIGKILL, and a start with an empty folder."""
    node.end()
    shutil.rmtree(node.data)
    return node.begin


def refill(site: Site, node: Node) -> Heal:
    """The same, started at once: it copies from now on."""
    wipe(site, node)()
    return nothing


def hang(site: Site, node: Node) -> Heal:
    """SIGSTOP, and SIGCONT."""
    node.hang()
    return node.go_on


def slow_copies(site: Site, node: Node) -> Heal:
    return site.network.machines[node.name].slow_down(COPY_KILOBITS)


def another_leads(site: Site, chance: Random) -> Heal:
    """Wait until a node leads that is up."""
    until(lambda: site.leader().is_up, site.told)
    return nothing


def roll(site: Site, chance: Random) -> Heal:
    """Stop one node after the other in good order, and start it; the next when all are in sync."""
    for node in chance.sample(list(site.nodes.values()), len(site.nodes)):
        node.is_up = False
        node.stop()
        node.begin()
        site.wait_in_sync()
    return nothing


def transfer(site: Site, chance: Random) -> Heal:
    """A follower is told to lead."""
    site.control("cluster", "transfer", follower(site, chance).name)
    return nothing


def transfer_there_and_back(site: Site, chance: Random) -> Heal:
    began = site.leader()
    transfer(site, chance)
    site.control("cluster", "transfer", began.name)
    return nothing


def drain(site: Site, node: Node) -> Heal:
    """Leadership and clients leave a node; then they may come again."""
    site.control("cluster", "drain", node.name)
    return lambda: site.control("cluster", "undrain", node.name)


def drop_clients(site: Site, chance: Random) -> Heal:
    """All clients end their connections, and come again."""
    for client in [*site.clients, *site.publishers]:
        client.alive_at = 0.0
    return nothing


KINDS: dict[str, Kind] = {
    "none": Kind("none", lambda site, chance: nothing),
    "drop-clients": Kind("clients cut themselves off", drop_clients, (0.2, 0.6)),
    **of_each("kill", "kill -9", kill, KILLED_S),
    "kill-all": Kind("all nodes: kill -9", kill_all, (0.0, 0.5), from_heal=True),
    "kill-two": Kind(
        "leader and a follower: kill -9", in_turn(at(follower, kill), at(leader, kill)), KILLED_S, from_heal=True
    ),
    "kill-next": Kind(
        "leader: kill -9, and so the one that leads next",
        in_turn(at(leader, kill), another_leads, at(leader, kill)),
        KILLED_S,
        from_heal=True,
    ),
    **of_each("wipe", "kill -9, and its folder is gone", wipe, KILLED_S),
    "kill-copied": Kind(
        "leader: kill -9 while a follower copies from it",
        in_turn(at(leader, slow_copies), at(follower, refill), at(leader, kill)),
        KILLED_S,
        from_heal=True,
    ),
    "kill-hung": Kind(
        "leader: kill -9 while a follower is stopped",
        in_turn(at(follower, hang), at(leader, kill)),
        KILLED_S,
        from_heal=True,
    ),
    **of_each("pause", "SIGSTOP, SIGCONT after 0.5 s", hang, (0.5, 0.5)),
    **of_each("hang", "SIGSTOP, SIGCONT", hang),
    **of_each("long-hang", "SIGSTOP, SIGCONT after 5 s", hang, (5.0, 5.0)),
    "roll": Kind("rolling restart of all three", roll, (0.0, 0.0)),
    "transfer": Kind("leadership is transferred", transfer),
    "transfer-back": Kind("leadership is transferred, and back", transfer_there_and_back),
    "kill-transferred": Kind(
        "leadership is transferred, and the new leader killed -9", in_turn(transfer, at(leader, kill)), KILLED_S
    ),
    **of_each("drain", "drained, undrained", drain),
}
