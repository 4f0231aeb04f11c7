"""The answers for Prometheus: /metrics, /metrics/per-object and /metrics/detailed.

On the listener for Prometheus nobody is asked who he is, as with RabbitMQ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from forebay.admin.http.answer import refusal
from forebay.admin.http.guards import Guards
from forebay.admin.metrics.gather import PER_OBJECT, ScrapeRequest, gathered, known_groups
from forebay.server.broker_view import BrokerView

DETAILED: Final = "detailed_"
ACCEPT: Final = "accept"


async def scraped(app: BrokerView, accept: str, wanted: ScrapeRequest, prefix: str = "") -> Response:
    """The metrics that are asked for, in the format that is."""
    async with app.door.long:
        content_type, document = await gathered(app, accept, wanted, prefix)
        return Response(document, media_type=None, headers={"content-type": content_type})


async def detailed(app: BrokerView, accept: str, families: Sequence[str], vhosts: Sequence[str]) -> Response:
    """Groups of metrics, of each object."""
    unknown = sorted(set(families) - set(known_groups()))
    if unknown:
        known = ", ".join(sorted(known_groups()))
        return refusal(400, f"family: '{unknown[0]}' is not known; known are {known}")
    chosen = ScrapeRequest(True, frozenset(families), frozenset(vhosts) if vhosts else None)
    return await scraped(app, accept, chosen, DETAILED)


def make_metrics_app(app: BrokerView) -> Starlette:
    """The application behind the listener for Prometheus: metrics, and nothing else."""

    async def on_metrics(request: Request) -> Response:
        return await scraped(app, request.headers.get(ACCEPT, ""), ScrapeRequest())

    async def on_per_object(request: Request) -> Response:
        return await scraped(app, request.headers.get(ACCEPT, ""), ScrapeRequest(each=True))

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
