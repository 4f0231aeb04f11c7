"""/api/forebay/policies: what a policy would change, before it is set."""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import Meta, field
from starlette.responses import Response

from forebay.admin.forebay.answers import answers
from forebay.admin.http.answer import as_json
from forebay.admin.http.paths import VhostName
from forebay.admin.http.slices import sliced
from forebay.admin.login import Broker
from forebay.admin.rights import Policymaker, check_vhost
from forebay.admin.web.bodies import Exact
from forebay.admin.web.router import RouteGroup
from forebay.broker.catalog.policies import Policies, Policy, check_policy
from forebay.broker.vhost import Vhost
from forebay.queue.queue import SHARE, Queue
from forebay.routing.exchange import text

SHOWN_MAX: Final = 100
WHATEVER: Final = {"max-length": 1}  # which queues a policy is about does not depend on what it sets
PREVIEW: Final = answers(
    {
        "type": "object",
        "properties": {
            "queues": {"type": "integer", "description": "Those of the vhost."},
            "changes": {
                "type": "integer",
                "description": "Those to which another policy would apply, or a changed one.",
            },
            "items": {"type": "array", "items": {"type": "object"}, "description": "The first of these, by name."},
        },
        "required": ["queues", "changes", "items"],
    }
)
router = RouteGroup(prefix="/api/forebay/policies", tags=["forebay"])


class Proposal(Exact):
    """A policy that is not set yet."""

    name: Annotated[str, Meta(description="One of this name would go.")]
    pattern: Annotated[str, Meta(description="A regular expression that is found in names.")]
    apply_to: Annotated[str, Meta(description="As of a policy.")] = field(name="apply-to", default="all")
    priority: Annotated[int, Meta(description="Of those that match, the highest applies.")] = 0
    definition: Annotated[dict[str, Any], Meta(description="What it would set; empty: not said yet.")] = {}
    operator: Annotated[bool, Meta(description="It is an operator's.")] = False


@router.post("/{vhost:name}/preview", responses=PREVIEW)
async def preview_policy(app: Broker, caller: Policymaker, vhost: VhostName, proposal: Proposal) -> Response:
    """The queues to which another policy than now would apply if this one were set; nothing is changed."""
    place = check_vhost(app, caller, vhost)
    policy = check_policy(
        proposal.name,
        proposal.operator,
        proposal.pattern,
        proposal.apply_to,
        proposal.definition or WHATEVER,
        proposal.priority,
    )
    return as_json(await previewed(place, policy))


async def previewed(vhost: Vhost, policy: Policy) -> dict[str, object]:
    """The preview of a policy, in the fields of `PREVIEW`."""
    known = vhost.catalog.policies
    then = Policies()
    then.by_user, then.by_operator = dict(known.by_user), dict(known.by_operator)
    then.table_of(policy.operator)[policy.name] = policy
    queues = [queue for _, queue in sorted(vhost.catalog.queues.items()) if queue.kind != SHARE]

    def change_of(queue: Queue) -> dict[str, object] | None:
        before, after = known.of_queue(queue, policy.operator), then.of_queue(queue, policy.operator)
        if before == after:
            return None
        names = (None if each is None else each.name for each in (before, after))
        return {"queue": text(queue.name), **dict(zip(("from", "to"), names, strict=True))}

    changes = [each for each in await sliced(queues, change_of) if each is not None]
    return {"queues": len(queues), "changes": len(changes), "items": changes[:SHOWN_MAX]}
