"""The list of vhosts has their numbers and settings, whether or not this process has them open."""

from __future__ import annotations

from typing import Final

from forebay.directory.vhost_settings import VhostSettings

# Of clients that name no vhost. A new data folder begins with it; $SYS, $events and configured queues are there.
DEFAULT_VHOST: Final = b"/"
FIRST_NUMBER: Final = 0  # of the default vhost of a new data folder; no vhost has it once that is deleted


class VhostEntry:
    """A vhost in the list.

    number    is in the log's entries of the vhost; no other ever has it
    settings  what administrators have set
    """

    def __init__(self, number: int, name: bytes, settings: VhostSettings) -> None:
        self.number = number
        self.name = name
        self.settings = settings


class VhostList:
    """The vhosts of one store, as commands change them.

    default_queue_type  of queues in a vhost for which nobody has set one
    next_number         of the next vhost
    """

    def __init__(self, default_queue_type: str) -> None:
        self.default_queue_type = default_queue_type
        self.by_number: dict[int, VhostEntry] = {}
        self.next_number = FIRST_NUMBER
        self.put(FIRST_NUMBER, DEFAULT_VHOST, self.new_settings().fields())

    def new_settings(self) -> VhostSettings:
        """Return the settings of a vhost for which nobody has set any."""
        settings = VhostSettings()
        settings.default_queue_type = self.default_queue_type
        return settings

    def put(self, number: int, name: bytes, fields: dict[str, object]) -> None:
        """Add a vhost, or change the settings of the one with this number."""
        entry = self.by_number.get(number)
        if entry is None:
            entry = self.by_number[number] = VhostEntry(number, name, self.new_settings())
            self.next_number = max(self.next_number, number + 1)
        entry.settings.change(fields)
