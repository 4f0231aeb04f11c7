"""Faults of etcd, alone and together with those of a node."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.cluster.faults.kind import Begin, Heal, Kind, all_of, at, in_turn, leader, nothing
from tests.cluster.faults.processes import KILLED_S, hang, kill
from tests.cluster.faults.site import ETCDS, Site
from tests.etcd import EtcdMember

Members = Callable[[Site], list[EtcdMember]]
DELAY_MS = (20, 20)  # each way of each member, and so much more by chance: a proposal takes four of them


def its_leader(site: Site) -> list[EtcdMember]:
    return [site.etcd.leader()]


def all_members(site: Site) -> list[EtcdMember]:
    return site.etcd.members


def kill_etcd(members: Members) -> Begin:
    """SIGKILL, and a start."""

    def begin(site: Site, chance: Random) -> Heal:
        killed = members(site)
        for member in killed:
            member.kill()

        def heal() -> None:
            for member in killed:
                member.start(site.etcd.members)
            site.etcd.wait()

        return heal

    return begin


def hang_etcd(members: Members) -> Begin:
    """SIGSTOP, and SIGCONT."""

    def begin(site: Site, chance: Random) -> Heal:
        hung = members(site)
        for member in hung:
            member.hang()
        return all_of([member.go_on for member in hung])

    return begin


def kill_without_etcd(site: Site, chance: Random) -> Heal:
    """The leader is killed while etcd, which says who that is, answers nobody."""
    killed = leader(site, chance)
    return all_of([hang_etcd(all_members)(site, chance), kill(site, killed)])


def delay_etcd(site: Site, chance: Random) -> Heal:
    return all_of([site.network.machines[name].delay(*DELAY_MS) for name in ETCDS])


def roll_etcd(site: Site, chance: Random) -> Heal:
    """One member after the other is killed and started; the next when all answer."""
    for member in site.etcd.members:
        member.kill()
        site.etcd.restart(member)
    return nothing


KINDS: dict[str, Kind] = {
    "kill-etcd-leader": Kind("leader of etcd: kill -9", kill_etcd(its_leader)),
    "kill-etcd": Kind("all of etcd: kill -9", kill_etcd(all_members)),
    "hang-etcd-leader": Kind("leader of etcd: SIGSTOP, SIGCONT", hang_etcd(its_leader)),
    "hang-etcd": Kind("all of etcd: SIGSTOP, SIGCONT", hang_etcd(all_members), (2.0, 5.0)),
    "slow-etcd": Kind(f"etcd: packets take {DELAY_MS[0]} to {sum(DELAY_MS)} ms", delay_etcd, (3.0, 5.0)),
    "roll-etcd": Kind("rolling restart of etcd", roll_etcd, (0.0, 0.0)),
    "kill-leaders": Kind(
        "leader and leader of etcd: kill -9", in_turn(kill_etcd(its_leader), at(leader, kill)), KILLED_S
    ),
    "kill-without-etcd": Kind("leader: kill -9 while all of etcd is stopped", kill_without_etcd, from_heal=True),
    "hang-with-slow-etcd": Kind(
        "leader: SIGSTOP, SIGCONT while etcd is slow", in_turn(delay_etcd, at(leader, hang)), from_heal=True
    ),
}
