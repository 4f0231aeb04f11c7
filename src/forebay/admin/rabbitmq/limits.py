"""/api/vhost-limits and /api/user-limits: how much there may be at one time."""

from __future__ import annotations

from fastapi import APIRouter, Response

from forebay.admin.changing import CHANGED, DONE_STATUS, ChangeRoute, finished
from forebay.admin.http.answer import as_json
from forebay.admin.http.paging import Facts
from forebay.admin.http.paths import LimitName, UserName, VhostName
from forebay.admin.login import Broker
from forebay.admin.openapi.change_shapes import LimitBody
from forebay.admin.rights import Administrator, Manager, check_vhost, seen_vhosts
from forebay.broker.auth.users import Users
from forebay.broker.catalog.settings import UNLIMITED
from forebay.broker.vhost import Vhost
from forebay.management.definitions.limits import OF_USERS, OF_VHOSTS, limit_settings, limits_of, limits_of_user
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


@router.get("/user-limits")
async def list_user_limits(broker: Broker, caller: Administrator) -> Response:
    """The limits of users; only of those who have some."""
    users = broker.vhosts.users
    return as_json([user_facts(users, name) for name in sorted(users.limits)])


@router.get("/user-limits/{user:name}")
async def show_user_limits(broker: Broker, caller: Manager, user: UserName) -> Response:
    """The limits of one user: a list of one, or of nothing where it has none. Everybody may ask for the own ones."""
    if user != caller.user:
        caller.check_administrator()
    users = broker.vhosts.users
    users.user(user)
    return as_json([user_facts(users, user)] if user in users.limits else [])


@router.put("/user-limits/{user:name}/{limit:name}", status_code=DONE_STATUS, responses=CHANGED)
async def put_user_limit(
    broker: Broker, caller: Administrator, user: UserName, limit: LimitName, body: LimitBody
) -> Response:
    """Set a limit of a user; below 0 it sets none."""
    broker.vhosts.users.set_limits(user, limit_settings({limit: body.value}, OF_USERS))
    return await finished(broker)


@router.delete("/user-limits/{user:name}/{limit:name}", status_code=DONE_STATUS, responses=CHANGED)
async def delete_user_limit(broker: Broker, caller: Administrator, user: UserName, limit: LimitName) -> Response:
    """Lift a limit of a user; no error where there is none."""
    broker.vhosts.users.set_limits(user, limit_settings({limit: UNLIMITED}, OF_USERS))
    return await finished(broker)


def change_limits(app: App, vhost: Vhost, limits: dict[str, object]) -> None:
    """Set limits of a vhost; RequestError(INVALID) names the one that is wrong, and nothing has changed."""
    app.vhosts.change(vhost, limit_settings(limits, OF_VHOSTS))


def limits_facts(vhost: Vhost) -> Facts:
    return {"vhost": text(vhost.name), "value": limits_of(vhost)}


def user_facts(users: Users, name: str) -> Facts:
    return {"user": name, "value": limits_of_user(users, name)}
