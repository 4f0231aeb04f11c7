"""/api/policies and /api/operator-policies: what is set for queues and exchanges by their names."""

from __future__ import annotations

from fastapi import APIRouter, Response

from forebay.admin.changing import DONE_STATUS, GONE, MADE, ChangeRoute, changed, put_status
from forebay.admin.http.paging import Facts, Wanted, answer_list, answer_one
from forebay.admin.http.paths import PolicyName, VhostName
from forebay.admin.login import Broker, Caller
from forebay.admin.openapi.change_shapes import PolicyBody
from forebay.admin.rights import Administrator, Manager, Policymaker, check_vhost, seen_vhosts
from forebay.broker.catalog.policies import Policy
from forebay.broker.vhost import Vhost
from forebay.management.definitions.exported import policy_value
from forebay.routing.exchange import text
from forebay.server.app import App

router = APIRouter(prefix="/api", tags=["policies"], route_class=ChangeRoute)

Placed = tuple[str, Policy]  # the vhost's name and one of its policies


@router.get("/policies")
async def list_policies(broker: Broker, caller: Manager, wanted: Wanted) -> Response:
    """The policies of the vhosts that the caller may enter."""
    return await answer_list(placed(seen_vhosts(broker, caller), False), name_of, placed_facts, wanted)


@router.get("/policies/{vhost:name}")
async def list_policies_of_vhost(broker: Broker, caller: Manager, vhost: VhostName, wanted: Wanted) -> Response:
    """The policies of one vhost."""
    return await answer_list(placed([check_vhost(broker, caller, vhost)], False), name_of, placed_facts, wanted)


@router.get("/policies/{vhost:name}/{policy:name}")
async def show_policy(
    broker: Broker, caller: Manager, vhost: VhostName, policy: PolicyName, wanted: Wanted
) -> Response:
    """One policy."""
    return answer_one(policy_facts(vhost, found(broker, caller, vhost, policy, False)), wanted)


@router.put("/policies/{vhost:name}/{policy:name}", status_code=201, responses=MADE, response_class=Response)
async def put_policy(
    broker: Broker, caller: Policymaker, vhost: VhostName, policy: PolicyName, body: PolicyBody
) -> Response:
    """Make a policy, or put it in the place of the one of that name; it applies at once."""
    return await put(broker, caller, vhost, policy, body, False)


@router.delete("/policies/{vhost:name}/{policy:name}", status_code=DONE_STATUS, responses=GONE)
async def delete_policy(broker: Broker, caller: Policymaker, vhost: VhostName, policy: PolicyName) -> Response:
    """Take a policy away."""
    return await changed(broker, caller, "policy.clear", {"vhost": vhost, "policy": policy})


@router.get("/operator-policies")
async def list_operator_policies(broker: Broker, caller: Manager, wanted: Wanted) -> Response:
    """The operator policies of the vhosts that the caller may enter."""
    return await answer_list(placed(seen_vhosts(broker, caller), True), name_of, placed_facts, wanted)


@router.get("/operator-policies/{vhost:name}")
async def list_operator_policies_of_vhost(
    broker: Broker, caller: Manager, vhost: VhostName, wanted: Wanted
) -> Response:
    """The operator policies of one vhost."""
    return await answer_list(placed([check_vhost(broker, caller, vhost)], True), name_of, placed_facts, wanted)


@router.get("/operator-policies/{vhost:name}/{policy:name}")
async def show_operator_policy(
    broker: Broker, caller: Manager, vhost: VhostName, policy: PolicyName, wanted: Wanted
) -> Response:
    """One operator policy."""
    return answer_one(policy_facts(vhost, found(broker, caller, vhost, policy, True)), wanted)


@router.put("/operator-policies/{vhost:name}/{policy:name}", status_code=201, responses=MADE, response_class=Response)
async def put_operator_policy(
    broker: Broker, caller: Administrator, vhost: VhostName, policy: PolicyName, body: PolicyBody
) -> Response:
    """Make an operator policy, which limits what arguments and policies ask for; it applies at once."""
    return await put(broker, caller, vhost, policy, body, True)


@router.delete("/operator-policies/{vhost:name}/{policy:name}", status_code=DONE_STATUS, responses=GONE)
async def delete_operator_policy(
    broker: Broker, caller: Administrator, vhost: VhostName, policy: PolicyName
) -> Response:
    """Take an operator policy away."""
    return await changed(broker, caller, "operator_policy.clear", {"vhost": vhost, "policy": policy})


def placed(vhosts: list[Vhost], operator: bool) -> list[Placed]:
    return [(text(vhost.name), policy) for vhost in vhosts for policy in vhost.catalog.policies.listed(operator)]


def found(app: App, caller: Caller, vhost: str, name: str, operator: bool) -> Policy:
    return check_vhost(app, caller, vhost).catalog.policies.find(name, operator)


async def put(app: App, caller: Caller, vhost: str, name: str, body: PolicyBody, operator: bool) -> Response:
    is_new = name not in check_vhost(app, caller, vhost).catalog.policies.table_of(operator)
    values = {"vhost": vhost, "policy": name, **body.model_dump()}
    operation = "operator_policy.set" if operator else "policy.set"
    return await changed(app, caller, operation, values, put_status(is_new))


def name_of(item: Placed) -> str:
    return item[1].name


def placed_facts(item: Placed) -> Facts:
    return policy_facts(*item)


def policy_facts(vhost: str, policy: Policy) -> Facts:
    return {"vhost": vhost, "name": policy.name, **policy_value(policy)}
