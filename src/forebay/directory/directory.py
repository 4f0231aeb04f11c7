"""The directory: what belongs to no vhost. Each change is one entry in the write-ahead log."""

from __future__ import annotations

from collections.abc import Mapping

from forebay.core.errors import note_half_change
from forebay.core.stored.entry_kinds import BROKER
from forebay.directory.command import Command
from forebay.directory.open_vhost import OpenVhost
from forebay.directory.parameters import ParameterCommand, Parameters
from forebay.directory.user_commands import UserCommand
from forebay.directory.users import Users
from forebay.directory.vhost_commands import VhostCommand, commands_of
from forebay.directory.vhost_list import VhostList
from forebay.log.store import Store
from forebay.message.events import Events


class Directory:
    """Users and what they may do, parameters, and the list of vhosts."""

    def __init__(
        self, store: Store, opened: Mapping[bytes, OpenVhost], events: Events, default_queue_type: str
    ) -> None:
        self.store = store
        self.users = Users(store, opened, events)
        self.parameters = Parameters(store)
        self.vhosts = VhostList(default_queue_type)

    def change_vhosts(self, command: VhostCommand) -> None:
        """Write down and apply a change of the list of vhosts; what is open follows by `Vhosts.follow`."""
        try:
            command.check(self.vhosts)
            payload = command.encoded()
            self.store.note(BROKER, 0, 0, payload, True)
            command.apply(self.vhosts)
        except Exception as error:
            note_half_change(error)
            raise

    def forget_vhost(self, name: bytes) -> None:
        """Remove what was said of a vhost that is gone."""
        self.users.forget_vhost(name)
        self.parameters.forget_vhost(name)

    def apply(self, command: Command) -> None:
        """Apply a command that the log has."""
        if isinstance(command, UserCommand):
            command.apply(self.users)
        elif isinstance(command, ParameterCommand):
            command.apply(self.parameters)
        else:
            assert isinstance(command, VhostCommand)
            command.apply(self.vhosts)

    def commands(self) -> list[Command]:
        """Return all that recovery has to apply to come to this state."""
        return [*commands_of(self.vhosts), *self.users.commands(), *self.parameters.commands()]
