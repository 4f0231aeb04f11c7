"""Commands about vhosts: which there are, and their settings."""

from __future__ import annotations

import msgspec

from forebay.broker.catalog.commands.command import StateCommand
from forebay.broker.vhost_table import VhostTable


class SettingsFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fields of `VhostSettings`."""

    description: str
    tags: list[str]
    default_queue_type: str
    connections_max: int
    queues_max: int
    octets_max: int
    protected: bool


class VhostCommand(StateCommand[VhostTable], frozen=True):
    """A change of which vhosts there are and of their settings."""


class SetVhost(VhostCommand, frozen=True, tag="vhost"):
    """Make a vhost, or give the one of that number these settings."""

    number: int
    name: bytes
    settings: SettingsFields

    def apply(self, vhosts: VhostTable) -> None:
        vhost = vhosts.by_number.get(self.number)
        if vhost is None:
            vhost = vhosts.make(self.name, self.number)
        vhost.catalog.settings.change(msgspec.structs.asdict(self.settings))


def set_vhost(number: int, name: bytes, fields: dict[str, object]) -> SetVhost:
    """The command that gives a vhost the settings of which `VhostSettings.fields` says this."""
    return SetVhost(number, name, msgspec.convert(fields, SettingsFields))


class RemoveVhost(VhostCommand, frozen=True, tag="vhost-delete"):
    """Take a vhost away with all that is in it."""

    number: int

    def apply(self, vhosts: VhostTable) -> None:
        vhosts.remove(vhosts.by_number[self.number])


class CountVhosts(VhostCommand, frozen=True, tag="next-vhost"):
    """No vhost gets a number below this one any more: one that is gone may have had it."""

    number: int

    def apply(self, vhosts: VhostTable) -> None:
        vhosts.next_number = max(int(vhosts.next_number), self.number)


class StopInOrder(VhostCommand, frozen=True, tag="stop"):
    """The broker stops, and no consumer holds anything any more; the checkpoint of the next start takes this back."""

    def apply(self, vhosts: VhostTable) -> None:
        vhosts.stopped_in_order = True
