"""Queues whose consumers have filters, and what these may cost in one turn."""

from __future__ import annotations

from pathlib import Path

from forebay.core.message import AMQP091
from forebay.queue.group import Group
from forebay.queue.leases.lease import UNLIMITED
from forebay.queue.work.work_group import WorkGroup
from tests.vhosts import EMPTY, OneVhost

COUNT = 2000


def test_queues_with_filters_have_their_turns_one_after_the_other(tmp_path: Path) -> None:
    rig = OneVhost(tmp_path, None, filter_work_a_turn=1024)
    vhost = rig.vhost
    groups: list[Group] = []
    where: dict[str, object] = {"x-filter": "routing_key = 'nothing'"}
    for name in (b"one", b"two", b"three"):
        queue = vhost.catalog.declare_queue(name, False, False, False, {}, 0)
        vhost.consumers.consume(name, 1, 1, name, True, False, UNLIMITED, where)
        groups += queue.groups.values()
        for _ in range(COUNT):
            vhost.publishing.publish(vhost.router.route(b"", name), AMQP091, EMPTY, b"x")
    turns = 0
    furthest = 0
    while vhost.has_work():
        rig.turn()
        turns += 1
        came = [int(group.filters.selectors[0].next) for group in groups if isinstance(group, WorkGroup)]
        furthest = max(furthest, max(came) - min(came))
        assert turns < 100
    assert turns > COUNT * 3 * 5 // 1024
    assert furthest < COUNT // 2
    assert rig.vhosts.shared.budgets.filters.put_off > turns // 2
    rig.close()
