"""The cluster as administrators see it from the node that leads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forebay.management.control import Cluster

if TYPE_CHECKING:
    from forebay.server.cluster.member_process import MemberProcess


class LedCluster(Cluster):
    """The cluster that one process leads."""

    def __init__(self, member: MemberProcess) -> None:
        self.member = member

    def status(self) -> dict[str, object]:
        member = self.member
        settings = member.settings
        return {"name": settings.options.name, "node": settings.node, **member.group.status(member.now_us())}

    def transfer(self, node: str) -> None:
        self.member.group.replica.transfer(node, self.member.now_us())
        self.member.step()

    def remove(self, node: str) -> None:
        self.member.group.replica.remove(node, self.member.now_us())
        self.member.step()
