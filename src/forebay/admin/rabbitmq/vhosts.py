"""/api/vhosts: what vhosts there are, and how they come and go."""

from __future__ import annotations

from starlette.responses import Response

from forebay.admin.asking import perform
from forebay.admin.changing import CHANGED, CREATED, DONE_STATUS, GONE, MADE, changed, finished, noted
from forebay.admin.http.answer import as_json, refusal
from forebay.admin.http.paging import Wanted, answer_list, answer_one
from forebay.admin.http.paths import NodeName, VhostName
from forebay.admin.login import Broker
from forebay.admin.openapi.change_shapes import Texts, VhostBody
from forebay.admin.openapi.shapes import ONE_VHOST, VHOSTS
from forebay.admin.rabbitmq.node.members import Nodes, check_node
from forebay.admin.rabbitmq.permissions import permission_fields, topic_fields
from forebay.admin.rights import Administrator, Manager, check_vhost, seen_vhosts
from forebay.admin.samples.rates import VHOST, RateSamples, sum_of
from forebay.admin.samples.samples import Windows
from forebay.admin.samples.windows import Asked, Sampled
from forebay.admin.web.router import RouteGroup
from forebay.broker.vhost import Vhost
from forebay.directory.vhost_settings import PROTECTED
from forebay.management.definitions.exported import vhost_entry
from forebay.routing.exchange import text

router = RouteGroup(prefix="/api/vhosts", tags=["vhosts"], around=noted)

PRECONDITION_FAILED = 412


@router.get("", responses=VHOSTS)
async def list_vhosts(broker: Broker, caller: Manager, rates: Sampled, wanted: Wanted, asked: Asked) -> Response:
    """The vhosts that the caller may enter, or all."""
    vhosts, nodes = seen_vhosts(broker, caller), Nodes(broker)
    return await answer_list(
        vhosts, lambda vhost: text(vhost.name), lambda vhost: vhost_fields(rates, asked, vhost, nodes), wanted
    )


@router.get("/{vhost:name}", responses=ONE_VHOST)
async def show_vhost(
    broker: Broker, caller: Manager, rates: Sampled, vhost: VhostName, wanted: Wanted, asked: Asked
) -> Response:
    """One vhost."""
    return answer_one(vhost_fields(rates, asked, check_vhost(broker, caller, vhost), Nodes(broker)), wanted)


@router.put("/{vhost:name}", status=201, responses=MADE, is_plain=True)
async def put_vhost(broker: Broker, caller: Administrator, vhost: VhostName, body: VhostBody | None = None) -> Response:
    """Make a vhost, or change settings of the one there is: those that are given."""
    values = {"vhost": vhost, **({} if body is None else settings_of(body))}
    if vhost.encode() in broker.vhosts.by_name:
        return await changed(broker, caller, "vhost.set", values)
    answer = await changed(broker, caller, "vhost.add", values, CREATED)
    user = broker.directory.find_user(caller.user)
    if user is not None and not user.is_free:  # as with RabbitMQ, its maker may do everything in it
        everything: dict[str, object] = {"configure": ".*", "write": ".*", "read": ".*"}
        await perform(broker, caller, "permission.set", {"vhost": vhost, "user": caller.user, **everything})
    return answer


@router.delete("/{vhost:name}", status=DONE_STATUS, responses=GONE)
async def delete_vhost(broker: Broker, caller: Administrator, vhost: VhostName) -> Response:
    """Delete a vhost with everything in it, and close its connections."""
    if check_vhost(broker, caller, vhost).catalog.settings.protected:
        return refusal(PRECONDITION_FAILED, f"Vhost '{vhost}' is protected from deletion")
    return await changed(broker, caller, "vhost.delete", {"vhost": vhost})


@router.post("/{vhost:name}/deletion/protection", status=DONE_STATUS, responses=CHANGED)
async def protect_vhost(broker: Broker, caller: Administrator, vhost: VhostName) -> Response:
    """Protect a vhost: it cannot be deleted any more."""
    return await changed(broker, caller, "vhost.set", {"vhost": vhost, PROTECTED: True})


@router.delete("/{vhost:name}/deletion/protection", status=DONE_STATUS, responses=CHANGED)
async def unprotect_vhost(broker: Broker, caller: Administrator, vhost: VhostName) -> Response:
    """Let a protected vhost be deleted again."""
    return await changed(broker, caller, "vhost.set", {"vhost": vhost, PROTECTED: False})


@router.post("/{vhost:name}/start/{node:name}", status=DONE_STATUS, responses=CHANGED)
async def start_vhost(broker: Broker, caller: Administrator, vhost: VhostName, node: NodeName) -> Response:
    """Do nothing: every vhost runs as long as the node does."""
    check_vhost(broker, caller, vhost)
    check_node(broker, node)
    return await finished(broker)


@router.get("/{vhost:name}/permissions")
async def list_permissions(broker: Broker, caller: Administrator, vhost: VhostName) -> Response:
    """The permissions of users in a vhost."""
    name = check_vhost(broker, caller, vhost).name
    return as_json([permission_fields(each) for each in broker.directory.permissions(None, name)])


@router.get("/{vhost:name}/topic-permissions")
async def list_topic_permissions(broker: Broker, caller: Administrator, vhost: VhostName) -> Response:
    """The restrictions of users on topic exchanges of a vhost."""
    name = check_vhost(broker, caller, vhost).name
    return as_json([topic_fields(each) for each in broker.directory.topic_permissions(None, name)])


def settings_of(body: VhostBody) -> dict[str, object]:
    """The settings that a body gives, by our names."""
    given: dict[str, object] = {
        "description": body.description,
        "tags": None if body.tags is None else texts_of(body.tags),
        "default_queue_type": body.default_queue_type,
        PROTECTED: body.protected_from_deletion,
    }
    return {name: value for name, value in given.items() if value is not None}


def texts_of(given: Texts) -> list[str]:
    """A list, or text with commas between."""
    found = [each.strip() for each in given.split(",")] if isinstance(given, str) else given
    return [each for each in found if each]


def vhost_fields(rates: RateSamples, asked: Windows, vhost: Vhost, nodes: Nodes) -> dict[str, object]:
    numbers = sum_of(vhost).numbers()
    series = rates.vhosts.get(int(vhost.number))
    return {
        **vhost_entry(vhost),
        "protected_from_deletion": vhost.catalog.settings.protected,
        "tracing": False,
        "cluster_state": dict.fromkeys(nodes.running, "running"),
        **rates.stats(series, VHOST, numbers, asked.lengths, VHOST.counters, len(numbers)),
        "message_stats": rates.stats(series, VHOST, numbers, asked.messages, 0, VHOST.counters),
    }
