"""Commands about vhosts: which there are, and their settings."""

from __future__ import annotations

import msgspec

from forebay.directory.command import StateCommand
from forebay.directory.vhost_list import FIRST_NUMBER, VhostList


class SettingsFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fields of `VhostSettings`."""

    description: str
    tags: list[str]
    default_queue_type: str
    connections_max: int
    queues_max: int
    octets_max: int
    protected: bool


class VhostCommand(StateCommand[VhostList], frozen=True):
    """A change of which vhosts there are and of their settings."""


class SetVhost(VhostCommand, frozen=True, tag="vhost"):
    """Make a vhost, or give the one of that number these settings."""

    number: int
    name: bytes
    settings: SettingsFields

    def apply(self, vhosts: VhostList) -> None:
        """Add the vhost, or change its settings."""
        vhosts.put(self.number, self.name, msgspec.structs.asdict(self.settings))


def set_vhost(number: int, name: bytes, fields: dict[str, object]) -> SetVhost:
    """Return the command that gives a vhost the settings of which `VhostSettings.fields` says this."""
    return SetVhost(number, name, msgspec.convert(fields, SettingsFields))


class RemoveVhost(VhostCommand, frozen=True, tag="vhost-delete"):
    """Take a vhost away with all that is in it."""

    number: int

    def apply(self, vhosts: VhostList) -> None:
        """Remove the vhost from the list."""
        del vhosts.by_number[self.number]


class CountVhosts(VhostCommand, frozen=True, tag="next-vhost"):
    """No vhost gets a number below this one any more: one that is gone may have had it."""

    number: int

    def apply(self, vhosts: VhostList) -> None:
        """Raise the number of the next vhost."""
        vhosts.next_number = max(vhosts.next_number, self.number)


def commands_of(vhosts: VhostList) -> list[VhostCommand]:
    """Return the commands that recovery has to apply to come to this list."""
    entries = vhosts.by_number.values()
    commands: list[VhostCommand] = [CountVhosts(vhosts.next_number)]
    if FIRST_NUMBER not in vhosts.by_number:  # recovery begins with it, as a new data folder does
        commands.append(RemoveVhost(FIRST_NUMBER))
    return commands + [set_vhost(entry.number, entry.name, entry.settings.fields()) for entry in entries]
