"""Metrics on the listener of HTTP: whoever asks there has to be one who sees everything."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Query, Request, Response

from forebay.admin.login import Broker
from forebay.admin.metrics.gather import METRICS, PER_OBJECT, ScrapeRequest
from forebay.admin.metrics.scraping import ACCEPT, detailed, scraped
from forebay.admin.rights import Monitor

router = APIRouter(tags=["metrics"])
TEXT_ANSWER: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {"text/plain": {}, "application/openmetrics-text": {}}}
}


@router.get(METRICS, response_class=Response, responses=TEXT_ANSWER)
async def aggregated(app: Broker, caller: Monitor, request: Request) -> Response:
    """Prometheus: the broker as a whole, and sums over all queues, connections and channels."""
    return await scraped(app, request.headers.get(ACCEPT, ""), ScrapeRequest())


@router.get(PER_OBJECT, response_class=Response, responses=TEXT_ANSWER)
async def per_object(app: Broker, caller: Monitor, request: Request) -> Response:
    """Prometheus: each queue, group, exchange, connection and channel has samples of its own."""
    return await scraped(app, request.headers.get(ACCEPT, ""), ScrapeRequest(each=True))


@router.get("/metrics/detailed", response_class=Response, responses=TEXT_ANSWER)
async def detailed_groups(
    app: Broker,
    caller: Monitor,
    request: Request,
    family: list[str] = Query([], description="Groups of metrics, see docs/how-to/metrics.md."),  # noqa: B008
    vhost: list[str] = Query([], description="Only objects of these vhosts."),  # noqa: B008
) -> Response:
    """Prometheus: of each object, only some groups of metrics; names have `detailed_` in them."""
    return await detailed(app, request.headers.get(ACCEPT, ""), family, vhost)
