"""/api/forebay: MQTT sessions, their subscriptions, and retained messages."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from forebay.admin.asking import answer
from forebay.admin.forebay.answers import EMPTY, LIST, OBJECT
from forebay.admin.forebay.queues import Body, First, Limit
from forebay.admin.http.paths import VhostName
from forebay.admin.login import Asker, Broker
from forebay.management.arguments import LIMIT_DEFAULT

router = APIRouter(prefix="/api/forebay", tags=["forebay"])

ClientId = Annotated[str, Path(description="The client identifier, percent-encoded.")]
OneClient = Annotated[str | None, Query(description="Only those of this client identifier.")]
OneTopic = Annotated[str | None, Query(description="Only those that get what is published to this topic.")]
Connected = Annotated[bool | None, Query(description="Only those that are connected, or that are not.")]
TopicFilter = Annotated[str, Query(description="A topic filter.")]
Topic = Annotated[str, Query(description="The topic.")]


@router.get("/sessions/{vhost:name}", responses=LIST)
async def list_sessions(
    app: Broker,
    caller: Asker,
    vhost: VhostName,
    connected: Connected = None,
    first: First = 0,
    limit: Limit = LIMIT_DEFAULT,
) -> Response:
    """The MQTT sessions of a vhost, connected or not."""
    values: dict[str, object] = {"vhost": vhost, "connected": connected, "from": first, "limit": limit}
    return await answer(app, caller, "session.list", values)


@router.get("/sessions/{vhost:name}/{client_id:name}", responses=OBJECT)
async def show_session(app: Broker, caller: Asker, vhost: VhostName, client_id: ClientId) -> Response:
    """One session: its subscriptions, what is in flight and what waits."""
    return await answer(app, caller, "session.show", {"vhost": vhost, "client_id": client_id})


@router.get("/sessions/{vhost:name}/{client_id:name}/messages", responses=LIST)
async def list_session_messages(
    app: Broker,
    caller: Asker,
    vhost: VhostName,
    client_id: ClientId,
    first: First = 0,
    limit: Limit = LIMIT_DEFAULT,
    body_octets_max: Body = 1024,
) -> Response:
    """The messages that wait for a session, or are in flight to it."""
    values: dict[str, object] = {"vhost": vhost, "client_id": client_id, "from": first, "limit": limit}
    values["body_octets_max"] = body_octets_max
    return await answer(app, caller, "session.messages", values)


@router.delete("/sessions/{vhost:name}/{client_id:name}/connection", responses=EMPTY)
async def close_session(app: Broker, caller: Asker, vhost: VhostName, client_id: ClientId) -> Response:
    """End the connection of a session; what is durable stays."""
    return await answer(app, caller, "session.close", {"vhost": vhost, "client_id": client_id})


@router.delete("/sessions/{vhost:name}/{client_id:name}", responses=OBJECT)
async def delete_session(app: Broker, caller: Asker, vhost: VhostName, client_id: ClientId) -> Response:
    """Forget a session with all that waits for it."""
    return await answer(app, caller, "session.delete", {"vhost": vhost, "client_id": client_id})


@router.get("/subscriptions/{vhost:name}", responses=LIST)
async def list_subscriptions(
    app: Broker,
    caller: Asker,
    vhost: VhostName,
    client_id: OneClient = None,
    topic: OneTopic = None,
    first: First = 0,
    limit: Limit = LIMIT_DEFAULT,
) -> Response:
    """The subscriptions of MQTT sessions."""
    values: dict[str, object] = {"vhost": vhost, "client_id": client_id, "topic": topic, "from": first, "limit": limit}
    return await answer(app, caller, "subscription.list", values)


@router.get("/retained/{vhost:name}", responses=LIST)
async def list_retained(
    app: Broker,
    caller: Asker,
    vhost: VhostName,
    filter: TopicFilter = "#",
    first: First = 0,
    limit: Limit = LIMIT_DEFAULT,
) -> Response:
    """The retained messages of the topics that a filter matches."""
    values: dict[str, object] = {"vhost": vhost, "filter": filter, "from": first, "limit": limit}
    return await answer(app, caller, "retained.list", values)


@router.get("/retained/{vhost:name}/message", responses=OBJECT)
async def show_retained(
    app: Broker, caller: Asker, vhost: VhostName, topic: Topic, body_octets_max: Body = 128 << 10
) -> Response:
    """The retained message of a topic, with its body."""
    values: dict[str, object] = {"vhost": vhost, "topic": topic, "body_octets_max": body_octets_max}
    return await answer(app, caller, "retained.show", values)


@router.delete("/retained/{vhost:name}/message", responses=EMPTY)
async def delete_retained(app: Broker, caller: Asker, vhost: VhostName, topic: Topic) -> Response:
    """Forget the retained message of a topic."""
    return await answer(app, caller, "retained.delete", {"vhost": vhost, "topic": topic})
