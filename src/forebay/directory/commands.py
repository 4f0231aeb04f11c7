"""All commands of the directory that the log of a broker may have."""

from __future__ import annotations

from typing import TypeAlias

from forebay.directory.parameters import ClearGlobal, ClearParameter, SetGlobal, SetParameter
from forebay.directory.user_commands import (
    ClearPermission,
    ClearTopicPermission,
    LimitUser,
    PutUser,
    RemoveUser,
    SetPermission,
    SetTopicPermission,
)
from forebay.directory.vhost_commands import CountVhosts, RemoveVhost, SetVhost

DirectoryCommand: TypeAlias = (
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
