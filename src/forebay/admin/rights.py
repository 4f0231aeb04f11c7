"""The tags that routes ask for, and the vhosts that callers may see."""

from __future__ import annotations

from typing import Annotated, Final

from forebay.admin.caller import Caller
from forebay.admin.login import Asker
from forebay.admin.web.fields import Provided
from forebay.broker.vhost import Vhost
from forebay.management.needs import MANAGERS, MONITORS, POLICYMAKERS
from forebay.server.broker_view import BrokerView


async def manager_of(caller: Asker) -> Caller:
    """The caller, who may use the management API; RequestError(REFUSED)."""
    caller.check_tags(MANAGERS)
    return caller


async def monitor_of(caller: Asker) -> Caller:
    """The caller, who sees everything; RequestError(REFUSED)."""
    caller.check_tags(MONITORS)
    return caller


async def policymaker_of(caller: Asker) -> Caller:
    """The caller, who may set policies and parameters; RequestError(REFUSED)."""
    caller.check_tags(POLICYMAKERS)
    return caller


async def administrator_of(caller: Asker) -> Caller:
    """The caller, who may do everything; RequestError(REFUSED)."""
    caller.check_administrator()
    return caller


POLICYMAKER: Final = Provided(policymaker_of, "policymaker")
ADMINISTRATOR: Final = Provided(administrator_of, "administrator")
Manager = Annotated[Caller, Provided(manager_of, "management")]
Monitor = Annotated[Caller, Provided(monitor_of, "monitoring")]
Policymaker = Annotated[Caller, POLICYMAKER]
Administrator = Annotated[Caller, ADMINISTRATOR]


def is_monitor(caller: Caller) -> bool:
    """True if the caller sees what belongs to all vhosts and to others."""
    return bool(caller.tags & MONITORS)


def seen_vhosts(app: BrokerView, caller: Caller) -> list[Vhost]:
    """The vhosts whose content the caller may list, by name."""
    vhosts = sorted(app.vhosts.all(), key=name_of)
    return vhosts if is_monitor(caller) else [vhost for vhost in vhosts if caller.may_enter(vhost.name)]


def name_of(vhost: Vhost) -> bytes:
    return vhost.name


def check_vhost(app: BrokerView, caller: Caller, name: str) -> Vhost:
    """The vhost of that name; RequestError: NOT_FOUND, REFUSED for a caller who may not see it."""
    return app.control.visible(caller.principal, name)
