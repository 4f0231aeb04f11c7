"""Where Prometheus asks: /metrics, /metrics/per-object and /metrics/detailed.

On the listener of HTTP whoever asks has to be one who sees everything; on the listener for Prometheus nobody is asked
who he is, as with RabbitMQ.
"""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Query, Response
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.routing import Route

from forebay.admin.answer import refusal
from forebay.admin.guards import Guards
from forebay.admin.login import Broker
from forebay.admin.metrics.exposition import Text, wants_open_metrics
from forebay.admin.metrics.gather import Gathering, Wanted, known_groups
from forebay.admin.rights import Monitor
from forebay.server.app import App

DETAILED: Final = "detailed_"
PER_OBJECT: Final = "/metrics/per-object"
ACCEPT: Final = "accept"

router = APIRouter(tags=["metrics"])
TEXT_ANSWER: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {"text/plain": {}, "application/openmetrics-text": {}}}
}


async def scraped(app: App, accept: str, wanted: Wanted, prefix: str = "") -> Response:
    """The metrics that are asked for, in the format that is."""
    out = Text(wants_open_metrics(accept), prefix)
    await Gathering(app, wanted).run(out)
    return Response(out.document(), media_type=None, headers={"content-type": out.content_type})


async def detailed(app: App, accept: str, families: list[str], vhosts: list[str]) -> Response:
    """Groups of metrics, of each object."""
    unknown = sorted(set(families) - set(known_groups()))
    if unknown:
        known = ", ".join(sorted(known_groups()))
        return refusal(400, f"family: '{unknown[0]}' is not known; known are {known}")
    chosen = Wanted(True, frozenset(families), frozenset(vhosts) if vhosts else None)
    return await scraped(app, accept, chosen, DETAILED)


@router.get("/metrics", response_class=Response, responses=TEXT_ANSWER)
async def aggregated(app: Broker, caller: Monitor, request: Request) -> Response:
    """Prometheus: the broker as a whole, and sums over all queues, connections and channels."""
    return await scraped(app, request.headers.get(ACCEPT, ""), Wanted())


@router.get(PER_OBJECT, response_class=Response, responses=TEXT_ANSWER)
async def per_object(app: Broker, caller: Monitor, request: Request) -> Response:
    """Prometheus: each queue, group, exchange, connection and channel has samples of its own."""
    return await scraped(app, request.headers.get(ACCEPT, ""), Wanted(each=True))


@router.get("/metrics/detailed", response_class=Response, responses=TEXT_ANSWER)
async def detailed_groups(
    app: Broker,
    caller: Monitor,
    request: Request,
    family: list[str] = Query([], description="Groups of metrics, see docs/metrics.md."),  # noqa: B008
    vhost: list[str] = Query([], description="Only objects of these vhosts."),  # noqa: B008
) -> Response:
    """Prometheus: of each object, only some groups of metrics; names have `detailed_` in them."""
    return await detailed(app, request.headers.get(ACCEPT, ""), family, vhost)


def make_metrics_app(app: App) -> Starlette:
    """What the listener for Prometheus answers: metrics, and nothing else."""

    async def on_metrics(request: Request) -> Response:
        return await scraped(app, request.headers.get(ACCEPT, ""), Wanted())

    async def on_per_object(request: Request) -> Response:
        return await scraped(app, request.headers.get(ACCEPT, ""), Wanted(each=True))

    async def on_detailed(request: Request) -> Response:
        query = request.query_params
        return await detailed(app, request.headers.get(ACCEPT, ""), query.getlist("family"), query.getlist("vhost"))

    return Starlette(
        routes=[
            Route("/metrics", on_metrics),
            Route(PER_OBJECT, on_per_object),
            Route("/metrics/detailed", on_detailed),
        ],
        middleware=[Middleware(Guards, broker=app)],
    )
