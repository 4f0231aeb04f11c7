"""All commands that belong to no vhost and that the log of a broker may have, as recovery reads them."""

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
from forebay.broker.catalog.commands.vhosts import CountVhosts, RemoveVhost, SetVhost, StopInOrder
from forebay.broker.catalog.parameters import ClearGlobal, ClearParameter, SetGlobal, SetParameter

OF_BROKER: Final = msgspec.msgpack.Decoder(
    SetVhost
    | RemoveVhost
    | CountVhosts
    | StopInOrder
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
