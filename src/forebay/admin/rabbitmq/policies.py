"""/api/policies and /api/operator-policies: what is set for queues and exchanges by their names."""

from __future__ import annotations

from msgspec.structs import asdict
from starlette.responses import Response

from forebay.admin.changing import DONE_STATUS, GONE, MADE, changed, noted, put_status
from forebay.admin.http.paging import Wanted, answer_list, answer_one
from forebay.admin.http.paths import PolicyName, VhostName
from forebay.admin.login import Broker
from forebay.admin.openapi.change_shapes import PolicyBody
from forebay.admin.rights import ADMINISTRATOR, POLICYMAKER, Manager, check_vhost, seen_vhosts
from forebay.admin.web.fields import Provided
from forebay.admin.web.router import RouteGroup
from forebay.broker.catalog.policies import Policy
from forebay.broker.vhost import Vhost
from forebay.management.definitions.exported import policy_value
from forebay.routing.exchange import text

router = RouteGroup(prefix="/api", tags=["policies"], around=noted)

Placed = tuple[str, Policy]  # the vhost's name and one of its policies


def add_policies(path: str, kind: str, operator: bool, may_change: Provided) -> None:
    """Have the router answer for policies of users, or of operators.

    kind        how descriptions call them
    may_change  lets nobody pass who may not change them
    """

    @router.get(path, description=f"The {kind} of the vhosts that the caller may enter.")
    async def list_policies(broker: Broker, caller: Manager, wanted: Wanted) -> Response:
        return await answer_list(placed(seen_vhosts(broker, caller), operator), name_of, placed_fields, wanted)

    @router.get(f"{path}/{{vhost:name}}", description=f"The {kind} of one vhost.")
    async def list_policies_of_vhost(broker: Broker, caller: Manager, vhost: VhostName, wanted: Wanted) -> Response:
        where = check_vhost(broker, caller, vhost)
        return await answer_list(placed([where], operator), name_of, placed_fields, wanted)

    one = f"{path}/{{vhost:name}}/{{policy:name}}"

    @router.get(one, description=f"One of the {kind} of a vhost.")
    async def show_policy(
        broker: Broker, caller: Manager, vhost: VhostName, policy: PolicyName, wanted: Wanted
    ) -> Response:
        found = check_vhost(broker, caller, vhost).catalog.policies.find(policy, operator)
        return answer_one(policy_fields(vhost, found), wanted)

    prefix = "operator_policy" if operator else "policy"

    @router.put(
        one,
        status=201,
        responses=MADE,
        is_plain=True,
        requires=(may_change,),
        description=f"Set one of the {kind}, in the place of the one of that name if there is one; it applies at once.",
    )
    async def put_policy(
        broker: Broker, caller: Manager, vhost: VhostName, policy: PolicyName, body: PolicyBody
    ) -> Response:
        is_new = policy not in check_vhost(broker, caller, vhost).catalog.policies.table_of(operator)
        values = {"vhost": vhost, "policy": policy, **asdict(body)}
        return await changed(broker, caller, f"{prefix}.set", values, put_status(is_new))

    @router.delete(
        one, status=DONE_STATUS, responses=GONE, requires=(may_change,), description=f"Take one of the {kind} away."
    )
    async def delete_policy(broker: Broker, caller: Manager, vhost: VhostName, policy: PolicyName) -> Response:
        return await changed(broker, caller, f"{prefix}.clear", {"vhost": vhost, "policy": policy})


add_policies("/policies", "policies", False, POLICYMAKER)
add_policies("/operator-policies", "operator policies", True, ADMINISTRATOR)


def placed(vhosts: list[Vhost], operator: bool) -> list[Placed]:
    return [(text(vhost.name), policy) for vhost in vhosts for policy in vhost.catalog.policies.listed(operator)]


def name_of(item: Placed) -> str:
    return item[1].name


def placed_fields(item: Placed) -> dict[str, object]:
    return policy_fields(*item)


def policy_fields(vhost: str, policy: Policy) -> dict[str, object]:
    return {"vhost": vhost, "name": policy.name, **policy_value(policy)}
