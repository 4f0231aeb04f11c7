"""/api/vhost-limits and /api/user-limits: how much there may be at one time."""

from __future__ import annotations

from fastapi import APIRouter, Response

from forebay.admin.answer import as_json
from forebay.admin.changing import CHANGED, DONE_STATUS, ChangeRoute, finished
from forebay.admin.login import Broker
from forebay.admin.paging import Facts
from forebay.admin.paths import LimitName, VhostName
from forebay.admin.rights import Administrator, Manager, check_vhost, seen_vhosts
from forebay.admin.shapes_changes import LimitBody
from forebay.broker.definitions.limits import limit_settings, limits_of
from forebay.broker.users import User
from forebay.broker.vhost import Vhost
from forebay.broker.vhost_settings import UNLIMITED
from forebay.routing.exchange import text
from forebay.server.app import App

router = APIRouter(prefix="/api", tags=["limits"], route_class=ChangeRoute)


@router.get("/vhost-limits")
async def list_vhost_limits(broker: Broker, caller: Manager) -> Response:
    """The limits of the vhosts that the caller may enter; only of those that have some."""
    return as_json([limits_facts(vhost) for vhost in seen_vhosts(broker, caller) if limits_of(vhost)])


@router.get("/vhost-limits/{vhost:name}")
async def show_vhost_limits(broker: Broker, caller: Manager, vhost: VhostName) -> Response:
    """The limits of one vhost: a list of one, or of nothing where it has none."""
    where = check_vhost(broker, caller, vhost)
    return as_json([limits_facts(where)] if limits_of(where) else [])


@router.put("/vhost-limits/{vhost:name}/{limit:name}", status_code=DONE_STATUS, responses=CHANGED)
async def put_vhost_limit(
    broker: Broker, caller: Administrator, vhost: VhostName, limit: LimitName, body: LimitBody
) -> Response:
    """Set a limit of a vhost; below 0 it sets none."""
    change_limits(broker, check_vhost(broker, caller, vhost), {limit: body.value})
    return await finished(broker)


@router.delete("/vhost-limits/{vhost:name}/{limit:name}", status_code=DONE_STATUS, responses=CHANGED)
async def delete_vhost_limit(broker: Broker, caller: Administrator, vhost: VhostName, limit: LimitName) -> Response:
    """Lift a limit of a vhost; no error where there is none."""
    change_limits(broker, check_vhost(broker, caller, vhost), {limit: UNLIMITED})
    return await finished(broker)


def change_limits(app: App, vhost: Vhost, limits: dict[str, object]) -> None:
    """Set limits of a vhost; RequestError(INVALID) names the one that is wrong, and nothing has changed."""
    app.vhosts.change(vhost, limit_settings(limits))


def limits_facts(vhost: Vhost) -> Facts:
    return {"vhost": text(vhost.name), "value": limits_of(vhost)}


def user_limits(user: User) -> dict[str, object]:
    """The limits that are set for a user."""
    return {}
