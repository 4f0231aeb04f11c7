"""All commands that belong to no vhost and that the log of a broker may have, as recovery reads them."""

from __future__ import annotations

from typing import Final

import msgspec

from forebay.directory.command import Command
from forebay.directory.commands import DirectoryCommand


class StopInOrder(Command, frozen=True, tag="stop"):
    """The broker stops, and no consumer holds anything any more; the checkpoint of the next start takes this back."""


OF_STORE: Final = msgspec.msgpack.Decoder(DirectoryCommand | StopInOrder)
