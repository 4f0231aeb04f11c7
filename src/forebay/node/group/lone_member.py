"""A node's part in its group, and the part of a node that is the whole group."""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

from mypy_extensions import mypyc_attr

from forebay.log.store import Recovery, Store
from forebay.log.wal import Commit
from forebay.node.ready import Ready

ALONE: Final = -1  # in place of an epoch, as no other node can lead


@mypyc_attr(allow_interpreted_subclasses=True)
class NodeMember:
    """A node's part in its group: the store, who leads, and what is committed.

    store  of everything durable
    epoch  in which the node leads, or which it follows; ALONE for a node that is the whole group
    """

    def __init__(self, store: Store, epoch: int) -> None:
        self.store = store
        self.epoch = epoch

    @abstractmethod
    def open(self) -> list[str]:
        """Read the data folder, and return messages about it for the log."""

    @abstractmethod
    def recovery(self) -> Recovery:
        """Return the state that the log holds, for a node that leads from now on."""

    @abstractmethod
    def begin(self) -> None:
        """Record that the node leads. The frame with which it begins is on its disk."""

    @abstractmethod
    def can_deliver(self) -> bool:
        """Return whether the node may deliver what is committed at this moment."""

    @abstractmethod
    def written(self, commit: Commit) -> None:
        """Record that a commit of the node that leads is on its disk."""

    @abstractmethod
    def followed(self, commit: Commit, error: BaseException | None) -> None:
        """Record that a commit of the leader's frames is on this node's disk, or why it is not."""

    @abstractmethod
    def take(self, out: Ready) -> int:
        """Add to `out` what is to be done for the group. Return the last committed frame if that is new, or 0."""


@mypyc_attr(allow_interpreted_subclasses=True)
class LoneMember(NodeMember):
    """The whole of a group of one, which has no register: the node leads from its start, and commits by its own disk.

    found     in the data folder; None once a broker has it
    is_ready  the folder is open, and nobody was told yet that the node leads
    reported  the last frame of which it was said that it is committed
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store, ALONE)
        self.found: Recovery | None = None
        self.is_ready = False
        self.reported = 0

    def open(self) -> list[str]:
        self.found = self.store.open()
        self.is_ready = True
        return self.found.report

    def recovery(self) -> Recovery:
        found, self.found = self.found, None
        assert found is not None
        return found

    def begin(self) -> None:
        self.reported = self.store.durable

    def can_deliver(self) -> bool:
        return True

    def written(self, commit: Commit) -> None:
        self.store.synced(commit)

    def followed(self, commit: Commit, error: BaseException | None) -> None:
        raise AssertionError("there is no leader to follow")

    def take(self, out: Ready) -> int:
        if self.is_ready:
            out.leads, self.is_ready = True, False
            return 0
        durable = self.store.durable
        if durable == self.reported:
            return 0
        self.reported = durable
        return durable
