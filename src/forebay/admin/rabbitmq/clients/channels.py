"""/api/channels: the channels of AMQP connections, and what goes over them."""

from __future__ import annotations

from typing import Annotated

from starlette.responses import Response

from forebay.admin.caller import Caller
from forebay.admin.http.answer import as_json
from forebay.admin.http.paging import Listing, Wanted, answer_list, answer_one
from forebay.admin.http.paths import VhostName
from forebay.admin.http.slices import sliced
from forebay.admin.login import Broker
from forebay.admin.openapi.shapes import CHANNELS, ONE_CHANNEL, SESSIONS
from forebay.admin.rabbitmq.clients.connections import (
    ConnectionName,
    find_connection,
    open_connections,
    peer_fields,
    state_of,
)
from forebay.admin.rabbitmq.clients.consumers import consumer_fields
from forebay.admin.rabbitmq.node.node import own_node
from forebay.admin.rights import Manager, check_vhost
from forebay.admin.samples.rates import CHANNEL, RateSamples, channel_numbers, number_of
from forebay.admin.samples.samples import Windows
from forebay.admin.samples.windows import Asked, Sampled
from forebay.admin.web.fields import InPath
from forebay.admin.web.router import RouteGroup
from forebay.core.errors import INVALID, NOT_FOUND, RequestError
from forebay.server.broker_view import BrokerView

ChannelName = Annotated[
    str, InPath(description="The channel's name: its connection's, and its number in brackets; encoded.")
]

Placed = tuple[int, dict[str, object]]  # a channel as its session describes it, and its connection
router = RouteGroup(prefix="/api", tags=["channels"])


def channels_of(app: BrokerView, connection: int) -> list[Placed]:
    return [(connection, each) for each in app.clients.channels(connection)]


async def channels_over(app: BrokerView, connections: list[int]) -> list[Placed]:
    """The channels of these connections."""
    found = await sliced(connections, lambda connection: channels_of(app, connection))
    return [each for some in found for each in some]


def name_of(app: BrokerView, placed: Placed) -> str:
    connection, channel = placed
    return f"{app.clients.name(connection)} ({channel['channel']})"


def channel_fields(app: BrokerView, rates: RateSamples, asked: Windows, placed: Placed) -> dict[str, object] | None:
    """One channel; None if its connection is gone."""
    id, channel = placed
    connection = app.clients.read(id)
    if connection is None:
        return None
    number = number_of(channel, "channel")
    numbers = channel_numbers(channel)
    fields: dict[str, object] = {
        "name": name_of(app, placed),
        "number": number,
        "node": own_node(app),
        "user": connection.counts.user,
        "user_who_performed_action": connection.counts.user,
        "vhost": connection.vhost,
        "connection_details": peer_fields(app, id),
        "state": state_of(connection),
        "consumer_count": channel["consumers"],
        "confirm": channel["confirms"],
        "transactional": channel["transactional"],
        "prefetch_count": channel["prefetch"],
        "global_prefetch_count": channel["limit"],
        "messages_unacknowledged": channel["unacked"],
        "messages_unconfirmed": channel["unconfirmed"],
        "messages_uncommitted": 0,
        "acks_uncommitted": 0,
    }
    if any(numbers):
        series = rates.channels.get((id, number))
        fields["message_stats"] = rates.stats(series, CHANNEL, numbers, asked.messages, 0, len(numbers))
    return fields


async def answer_channels(
    app: BrokerView, rates: RateSamples, asked: Windows, channels: list[Placed], wanted: Listing
) -> Response:
    def make(placed: Placed) -> dict[str, object] | None:
        return channel_fields(app, rates, asked, placed)

    return await answer_list(channels, lambda placed: name_of(app, placed), make, wanted)


@router.get("/channels", responses=CHANNELS)
async def list_channels(app: Broker, caller: Manager, rates: Sampled, wanted: Wanted, asked: Asked) -> Response:
    """Open channels: all for a monitor, one's own for others."""
    return await answer_channels(app, rates, asked, await channels_over(app, open_connections(app, caller)), wanted)


@router.get("/vhosts/{vhost:name}/channels", responses=CHANNELS)
async def list_channels_of_vhost(
    app: Broker, caller: Manager, rates: Sampled, vhost: VhostName, wanted: Wanted, asked: Asked
) -> Response:
    """Open channels in a vhost."""
    own = open_connections(app, caller, int(check_vhost(app, caller, vhost).number))
    return await answer_channels(app, rates, asked, await channels_over(app, own), wanted)


@router.get("/connections/{connection:name}/channels", responses=CHANNELS)
async def list_channels_of_connection(
    app: Broker, caller: Manager, rates: Sampled, connection: ConnectionName, wanted: Wanted, asked: Asked
) -> Response:
    """Open channels of a connection; one of MQTT has none."""
    own = find_connection(app, caller, connection)
    return await answer_channels(app, rates, asked, channels_of(app, own), wanted)


@router.get("/connections/{connection:name}/sessions", responses=SESSIONS)
async def list_sessions_of_connection(app: Broker, caller: Manager, connection: ConnectionName) -> Response:
    """Sessions of a connection over AMQP 1.0; 400 for any other, as with RabbitMQ."""
    found = app.clients.sessions(find_connection(app, caller, connection))
    if found is None:
        raise RequestError(INVALID, "connection does not use AMQP 1.0")
    return as_json([session_fields(each) for each in found])


def session_fields(described: dict[str, object]) -> dict[str, object]:
    """Return a session as RabbitMQ shows it."""
    links = described.pop("links")
    assert isinstance(links, list)
    return {
        **described,
        "incoming_links": [each for each in links if "target_address" in each],
        "outgoing_links": [each for each in links if "source_address" in each],
    }


@router.get("/channels/{channel:name}", responses=ONE_CHANNEL)
async def show_channel(
    app: Broker, caller: Manager, rates: Sampled, channel: ChannelName, wanted: Wanted, asked: Asked
) -> Response:
    """One channel with its consumers."""
    placed = find_channel(app, caller, channel)
    fields = channel_fields(app, rates, asked, placed)
    id, described = placed
    counts = app.clients.counts(id)
    assert fields is not None and counts is not None, "nothing happens between a search and a reading"
    vhost = app.vhosts.by_number[counts.vhost]
    own = [each for each in vhost.consumers.by_session.get(id, []) if each.channel == described["channel"]]
    queues = vhost.catalog.queues_by_id
    fields["consumer_details"] = [
        consumer_fields(app, (vhost, queues[each.queue], each)) for each in own if each.queue in queues
    ]
    fields["deliveries"] = []
    fields["publishes"] = []
    return answer_one(fields, wanted)


def find_channel(app: BrokerView, caller: Caller, name: str) -> Placed:
    """The channel of that name; RequestError: NOT_FOUND, REFUSED."""
    connection, bracket, _ = name.rpartition(" (")
    for placed in channels_of(app, find_connection(app, caller, connection)) if bracket else []:
        if name_of(app, placed) == name:
            return placed
    raise RequestError(NOT_FOUND, f"channel: '{name}' does not exist")
