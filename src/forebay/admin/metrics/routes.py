"""Metrics on the listener of HTTP: whoever asks there has to be one who sees everything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

from starlette.requests import Request
from starlette.responses import Response

from forebay.admin.login import Broker
from forebay.admin.metrics.gather import METRICS, PER_OBJECT, ScrapeRequest
from forebay.admin.metrics.scraping import ACCEPT, detailed, scraped
from forebay.admin.rights import Monitor
from forebay.admin.web.fields import Query
from forebay.admin.web.router import RouteGroup

router = RouteGroup(tags=["metrics"])
Families = Annotated[Sequence[str], Query(description="Groups of metrics, see docs/how-to/metrics.md.")]
OfVhosts = Annotated[Sequence[str], Query(description="Only objects of these vhosts.")]
TEXT_ANSWER: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {"text/plain": {}, "application/openmetrics-text": {}}}
}


@router.get(METRICS, is_plain=True, responses=TEXT_ANSWER)
async def aggregated(app: Broker, caller: Monitor, request: Request) -> Response:
    """Prometheus: the broker as a whole, and sums over all queues, connections and channels."""
    return await scraped(app, request.headers.get(ACCEPT, ""), ScrapeRequest())


@router.get(PER_OBJECT, is_plain=True, responses=TEXT_ANSWER)
async def per_object(app: Broker, caller: Monitor, request: Request) -> Response:
    """Prometheus: each queue, group, exchange, connection and channel has samples of its own."""
    return await scraped(app, request.headers.get(ACCEPT, ""), ScrapeRequest(each=True))


@router.get("/metrics/detailed", is_plain=True, responses=TEXT_ANSWER)
async def detailed_groups(
    app: Broker,
    caller: Monitor,
    request: Request,
    family: Families = (),
    vhost: OfVhosts = (),
) -> Response:
    """Prometheus: of each object, only some groups of metrics; names have `detailed_` in them."""
    return await detailed(app, request.headers.get(ACCEPT, ""), family, vhost)
