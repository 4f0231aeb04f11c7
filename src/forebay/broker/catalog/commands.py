"""All commands that the log of a broker may have, as recovery reads them."""

from __future__ import annotations

from typing import Final

import msgspec

from forebay.broker.auth.user_commands import (
    ClearPermission,
    ClearTopicPermission,
    LimitUser,
    PutUser,
    RemoveUser,
    SetPermission,
    SetTopicPermission,
)
from forebay.broker.catalog.exchange_commands import Bind, DeclareExchange, RemoveExchange, Unbind
from forebay.broker.catalog.parameters import ClearGlobal, ClearParameter, SetGlobal, SetParameter
from forebay.broker.catalog.policy_commands import ClearPolicy, SetPolicy
from forebay.broker.catalog.queue_commands import (
    AddGroup,
    ChangeQueue,
    CountQueues,
    DeclareQueue,
    KeepTtls,
    KeyQueue,
    MoveGroup,
    RemoveGroup,
    RemoveQueue,
)
from forebay.broker.catalog.vhost_commands import CountVhosts, RemoveVhost, SetVhost

OF_BROKER: Final = msgspec.msgpack.Decoder(
    SetVhost
    | RemoveVhost
    | CountVhosts
    | PutUser
    | RemoveUser
    | LimitUser
    | SetPermission
    | ClearPermission
    | SetTopicPermission
    | ClearTopicPermission
    | SetParameter
    | ClearParameter
    | SetGlobal
    | ClearGlobal
)
TOPOLOGY: Final = msgspec.msgpack.Decoder(
    DeclareQueue
    | ChangeQueue
    | RemoveQueue
    | KeyQueue
    | KeepTtls
    | CountQueues
    | AddGroup
    | MoveGroup
    | RemoveGroup
    | DeclareExchange
    | RemoveExchange
    | Bind
    | Unbind
    | SetPolicy
    | ClearPolicy
)
