"""Paths of RabbitMQ's API that are about what a broker has or has not: its features, and plugins' objects."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from forebay.admin.changing import CHANGED, DONE_STATUS, noted
from forebay.admin.http.answer import as_json
from forebay.admin.http.paging import Wanted, answer_list
from forebay.admin.http.paths import FlagName, QueueName, VhostName
from forebay.admin.login import Broker
from forebay.admin.openapi.shapes import AUTH, EXTENSIONS, FEATURES, NOTHING_LISTED, VERSION
from forebay.admin.rabbitmq.node.node import SPOKEN_VERSION
from forebay.admin.rights import Administrator, Manager, Monitor, check_vhost
from forebay.admin.web.router import RouteGroup
from forebay.core.errors import INVALID, RequestError

# Those of RabbitMQ 4.0 that change what clients may do, all of which hold here.
FEATURE_FLAGS: Final = {
    "classic_queue_type_delivery_support": "Bug fix for classic queue deliveries using mixed versions",
    "direct_exchange_routing_v2": "v2 direct exchange routing implementation",
    "feature_flags_v2": "Feature flags subsystem V2",
    "listener_records_in_ets": "Store listener records in ETS instead of Mnesia",
    "message_containers": "Message containers",
    "quorum_queue": "Support queues of type `quorum`",
    "stream_queue": "Support queues of type `stream`",
    "stream_single_active_consumer": "Single active consumer for streams",
    "user_limits": "Configure connection and channel limits for a user",
    "virtual_host_metadata": "Virtual host metadata (description, tags, etc)",
}

router = RouteGroup(prefix="/api", tags=["others"], around=noted)


@router.get("/version", responses=VERSION)
async def show_version() -> Response:
    """The version of RabbitMQ whose API this is, as a text, by which tools decide what to ask. No login is needed."""
    return as_json(SPOKEN_VERSION)


@router.get("/extensions", responses=EXTENSIONS)
async def list_extensions(caller: Manager) -> Response:
    """Parts that plugins add to RabbitMQ's own page: none."""
    return as_json([])


@router.get("/feature-flags", responses=FEATURES)
async def list_feature_flags(caller: Manager, wanted: Wanted) -> Response:
    """RabbitMQ's feature flags, for tools that ask before they use something: what they stand for is there."""

    def make(flag: tuple[str, str]) -> dict[str, object]:
        name, note = flag
        return {
            "name": name,
            "desc": note,
            "doc_url": "",
            "state": "enabled",
            "stability": "required",
            "provided_by": "forebay",
        }

    return await answer_list(list(FEATURE_FLAGS.items()), lambda flag: flag[0], make, wanted)


@router.put("/feature-flags/{flag:name}/enable", status=DONE_STATUS, responses=CHANGED)
async def enable_feature_flag(caller: Administrator, flag: FlagName) -> Response:
    """Enable one of RabbitMQ's feature flags: each that is listed is enabled already. 400 for one that is not."""
    if flag not in FEATURE_FLAGS:
        raise RequestError(INVALID, f"unsupported: feature flag '{flag}' is none of {', '.join(FEATURE_FLAGS)}")
    return Response(status_code=DONE_STATUS)


@router.get("/deprecated-features", responses=NOTHING_LISTED)
@router.get("/deprecated-features/used", responses=NOTHING_LISTED)
async def list_deprecated_features(caller: Manager) -> Response:
    """Features that are to go: none."""
    return as_json([])


@router.get("/auth", responses=AUTH)
async def show_oauth() -> Response:
    """The login of RabbitMQ's own page; it needs nothing of this broker."""
    return as_json({"oauth_enabled": False})


@router.get("/federation-links", responses=NOTHING_LISTED)
@router.get("/federation-links/state/down", responses=NOTHING_LISTED)
@router.get("/shovels", responses=NOTHING_LISTED)
@router.get("/stream/connections", responses=NOTHING_LISTED)
async def list_nothing(caller: Monitor) -> Response:
    """Objects of plugins that have no counterpart here: none."""
    return as_json([])


@router.get("/federation-links/{vhost:name}", responses=NOTHING_LISTED)
@router.get("/federation-links/{vhost:name}/state/down", responses=NOTHING_LISTED)
@router.get("/shovels/{vhost:name}", responses=NOTHING_LISTED)
@router.get("/stream/connections/{vhost:name}", responses=NOTHING_LISTED)
@router.get("/stream/publishers/{vhost:name}", responses=NOTHING_LISTED)
@router.get("/stream/consumers/{vhost:name}", responses=NOTHING_LISTED)
async def list_nothing_in_vhost(app: Broker, caller: Manager, vhost: VhostName) -> Response:
    """Objects of plugins in a vhost: none."""
    check_vhost(app, caller, vhost)
    return as_json([])


@router.get("/stream/publishers/{vhost:name}/{queue:octets}", responses=NOTHING_LISTED)
async def list_no_publishers(app: Broker, caller: Manager, vhost: VhostName, queue: QueueName) -> Response:
    """Publishers to a stream over RabbitMQ's stream protocol: none."""
    check_vhost(app, caller, vhost).catalog.queue(queue)
    return as_json([])


@router.get("/stream/publishers", responses=NOTHING_LISTED)
@router.get("/stream/consumers", responses=NOTHING_LISTED)
async def list_no_stream_clients(caller: Manager) -> Response:
    """Clients of RabbitMQ's stream protocol: none, streams are read over the other protocols."""
    return as_json([])
