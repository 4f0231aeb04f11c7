"""/api/whoami: who the caller is, and what it may do where."""

from __future__ import annotations

from starlette.responses import Response

from forebay.admin.caller import Caller
from forebay.admin.http.answer import as_json
from forebay.admin.http.slices import sliced
from forebay.admin.login import Asker, Broker
from forebay.admin.web.router import RouteGroup
from forebay.broker.vhost import Vhost
from forebay.directory.permissions import CONFIGURE, READ, WRITE
from forebay.routing.exchange import text

router = RouteGroup(prefix="/api")


@router.get("/whoami")
async def whoami(broker: Broker, caller: Asker) -> Response:
    """The caller's name and tags; `permissions` has its patterns in each vhost that it may enter."""

    def permissions_in(vhost: Vhost) -> list[dict[str, object]]:
        return [permission_of(caller, vhost)] if caller.may_enter(vhost.name) else []

    given = [each for found in await sliced(broker.vhosts.all(), permissions_in) for each in found]
    return as_json(
        {"name": caller.user, "tags": sorted(caller.tags), "is_internal_user": True, "permissions": given},
    )


def permission_of(caller: Caller, vhost: Vhost) -> dict[str, object]:
    """The caller's permissions to configure, write and read in a vhost, as patterns."""
    rights = caller.rights(vhost.name)
    return {"vhost": text(vhost.name), **{right: rights.pattern(right) for right in (CONFIGURE, WRITE, READ)}}
