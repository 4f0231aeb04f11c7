"""/api/forebay: groups, leases, delayed messages, transactions of sinks and pipelines."""

from __future__ import annotations

from typing import Final, TypedDict

from starlette.responses import Response

from forebay.admin.asking import perform
from forebay.admin.forebay.answers import answer_of
from forebay.admin.forebay.operation_routes import OperationRoute, add_operations
from forebay.admin.http.answer import as_json
from forebay.admin.http.paths import VhostName
from forebay.admin.login import Asker, Broker
from forebay.admin.web.router import RouteGroup
from forebay.management.requests.fields import LIMIT_MAX
from forebay.management.requests.groups import TransactionFields
from forebay.management.requests.queues import GroupFields

GROUP: Final = "/groups/{vhost:name}/{queue:octets}/{group:name}"
DELAYED: Final = "/delayed/{vhost:name}/{key:name}"
KEY: Final = {"name": "key"}
router = RouteGroup(prefix="/api/forebay", tags=["forebay"])
add_operations(
    router,
    (
        OperationRoute("/groups/{vhost:name}", "group.list"),
        OperationRoute(f"{GROUP}/seek", "group.seek", method="POST"),
        OperationRoute(f"{GROUP}/pause", "group.pause", method="POST"),
        OperationRoute(f"{GROUP}/resume", "group.resume", method="POST"),
        OperationRoute(GROUP, "group.delete", method="DELETE", names={"if_unused": "if-unused"}),
        OperationRoute(f"{GROUP}/hold", "group.release", method="DELETE"),
        OperationRoute("/leases/{vhost:name}", "lease.list"),
        OperationRoute("/leases/{vhost:name}/{queue:octets}/{offset}", "lease.release", method="DELETE"),
        OperationRoute("/leases/{vhost:name}/{queue:octets}/{offset}/extend", "lease.extend", method="POST"),
        OperationRoute("/delayed/{vhost:name}", "delayed.list"),
        OperationRoute(DELAYED, "delayed.cancel", method="DELETE", names=KEY),
        OperationRoute(f"{DELAYED}/publish", "delayed.publish", method="POST", names=KEY),
        OperationRoute("/transactions/{vhost:name}", "transaction.list"),
    ),
)


class Pipelines(TypedDict):
    """Spark's queries: those that read queues, and those that publish."""

    readers: list[GroupFields]
    sinks: list[TransactionFields]


@router.get("/pipelines/{vhost:name}", responses=answer_of(Pipelines))
async def list_pipelines(app: Broker, caller: Asker, vhost: VhostName) -> Response:
    """Spark's queries: `readers` of queues with their lag and how long their hold lasts, and `sinks` that publish."""
    page: dict[str, object] = {"vhost": vhost, "limit": LIMIT_MAX}
    readers: list[object] = []
    while True:
        groups = await perform(app, caller, "group.list", page)
        items = groups["items"]
        assert isinstance(items, list)
        readers += [each for each in items if each["kind"] == "reader"]
        if "next" not in groups:
            break
        page["from"] = groups["next"]
    sinks = await perform(app, caller, "transaction.list", {"vhost": vhost, "limit": LIMIT_MAX})
    return as_json({"readers": readers, "sinks": sinks["items"]})
