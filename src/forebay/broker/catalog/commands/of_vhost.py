"""All commands about one vhost that the log of a broker may have, as recovery reads them."""

from __future__ import annotations

from typing import Final

import msgspec

from forebay.broker.catalog.commands.exchanges import Bind, DeclareExchange, RemoveExchange, Unbind
from forebay.broker.catalog.commands.policies import ClearPolicy, SetPolicy
from forebay.broker.catalog.commands.queues import (
    AddGroup,
    ChangeQueue,
    CountQueues,
    DeclareQueue,
    KeepTtls,
    KeyQueue,
    MarkCrash,
    MoveGroup,
    PauseGroup,
    PauseQueue,
    RedeliverRecords,
    RemoveGroup,
    RemoveQueue,
)

TOPOLOGY: Final = msgspec.msgpack.Decoder(
    DeclareQueue
    | ChangeQueue
    | RemoveQueue
    | KeyQueue
    | KeepTtls
    | MarkCrash
    | CountQueues
    | AddGroup
    | MoveGroup
    | PauseGroup
    | PauseQueue
    | RedeliverRecords
    | RemoveGroup
    | DeclareExchange
    | RemoveExchange
    | Bind
    | Unbind
    | SetPolicy
    | ClearPolicy
)
