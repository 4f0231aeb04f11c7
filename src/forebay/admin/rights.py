"""The rights of callers to see and to change, by RabbitMQ's tags.

`management` lets a user in: it sees the vhosts that it may enter, and its own connections. `policymaker` may also set
policies and parameters there, `monitoring` sees everything, `administrator` may do everything.
"""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Depends

from forebay.admin.login import Asker, Caller
from forebay.broker.auth.users import ADMINISTRATOR
from forebay.broker.vhost import Vhost
from forebay.core.errors import NOT_FOUND, REFUSED, RequestError
from forebay.routing.exchange import text
from forebay.server.app import App

MONITORING: Final = "monitoring"
POLICYMAKER: Final = "policymaker"
MANAGEMENT: Final = "management"
MANAGERS: Final = frozenset({ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT})
MONITORS: Final = frozenset({ADMINISTRATOR, MONITORING})
POLICYMAKERS: Final = frozenset({ADMINISTRATOR, POLICYMAKER})


def check_tags(caller: Caller, tags: frozenset[str]) -> None:
    """RequestError(REFUSED) for a caller who has none of these tags."""
    if not caller.tags & tags:
        lacking = " or ".join(sorted(tags))
        raise RequestError(REFUSED, f"user '{caller.user}' lacks the tag {lacking}")


def check_monitor(caller: Caller) -> None:
    """RequestError(REFUSED) for a caller who may not see what belongs to all vhosts or to others."""
    check_tags(caller, MONITORS)


def check_policymaker(caller: Caller) -> None:
    """RequestError(REFUSED) for a caller who may not set policies and parameters."""
    check_tags(caller, POLICYMAKERS)


async def manager_of(caller: Asker) -> Caller:
    """The caller, who may use the management API; RequestError(REFUSED)."""
    check_tags(caller, MANAGERS)
    return caller


async def monitor_of(caller: Asker) -> Caller:
    """The caller, who sees everything; RequestError(REFUSED)."""
    check_monitor(caller)
    return caller


async def policymaker_of(caller: Asker) -> Caller:
    """The caller, who may set policies and parameters; RequestError(REFUSED)."""
    check_policymaker(caller)
    return caller


async def administrator_of(caller: Asker) -> Caller:
    """The caller, who may do everything; RequestError(REFUSED)."""
    caller.check_administrator()
    return caller


Manager = Annotated[Caller, Depends(manager_of)]
Monitor = Annotated[Caller, Depends(monitor_of)]
Policymaker = Annotated[Caller, Depends(policymaker_of)]
Administrator = Annotated[Caller, Depends(administrator_of)]


def is_monitor(caller: Caller) -> bool:
    """True if the caller sees what belongs to all vhosts and to others."""
    return bool(caller.tags & MONITORS)


def may_enter(app: App, caller: Caller, vhost: Vhost) -> bool:
    """True if the caller could connect to the vhost."""
    return caller.may_enter(vhost.name)


def seen_vhosts(app: App, caller: Caller) -> list[Vhost]:
    """The vhosts whose content the caller may list, by name."""
    vhosts = sorted(app.vhosts.all(), key=name_of)
    return vhosts if is_monitor(caller) else [vhost for vhost in vhosts if may_enter(app, caller, vhost)]


def name_of(vhost: Vhost) -> bytes:
    return vhost.name


def check_vhost(app: App, caller: Caller, name: str) -> Vhost:
    """The vhost of that name; RequestError: NOT_FOUND, REFUSED for a caller who may not see it."""
    vhost = app.vhosts.by_name.get(name.encode())
    if vhost is None:
        raise RequestError(NOT_FOUND, f"vhost: '{name}' does not exist")
    if not is_monitor(caller) and not may_enter(app, caller, vhost):
        raise RequestError(REFUSED, f"user '{caller.user}' may not enter vhost '{text(vhost.name)}'")
    return vhost
