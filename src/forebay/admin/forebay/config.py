"""/api/forebay/config, reload and webhooks: the options in force, reading them again, and where events are sent."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from forebay.admin.asking import answer
from forebay.admin.forebay.operations import ANSWERS
from forebay.admin.http.answer import as_json
from forebay.admin.login import Asker, Broker
from forebay.admin.rights import Administrator
from forebay.admin.web.router import Responses, RouteGroup
from forebay.management.requests.broker import OptionFields, ReloadAnswer, WebhookFields

RELOADED: Responses = {
    200: {"description": "What has changed.", "model": ReloadAnswer},
    **{status: ANSWERS[status] for status in (400, 401)},
}
router = RouteGroup(prefix="/api/forebay", tags=["forebay"])


def all_of(model: Any) -> Responses:
    """Return what the OpenAPI document says of a list of these."""
    return {200: {"description": "All of them.", "model": list[model]}, 401: ANSWERS[401]}


@router.get("/config", responses=all_of(OptionFields))
async def show_config(app: Broker, caller: Administrator) -> Response:
    """Every option: `name`, `value` (no secrets), `origin`, `reloadable`."""
    configuration = app.control.configuration
    return as_json([] if configuration is None else configuration.shown())


@router.post("/reload", responses=RELOADED)
async def reload_config(app: Broker, caller: Asker) -> Response:
    """Read the configuration again: `applied`, `restart`, `unchanged`; where anything is wrong, nothing is changed."""
    return await answer(app, caller, "config.reload", {})


@router.get("/webhooks", responses=all_of(WebhookFields))
async def list_webhooks(app: Broker, caller: Administrator) -> Response:
    """The webhooks that events are sent to, and how that goes."""
    webhooks = app.control.webhooks
    return as_json([] if webhooks is None else webhooks.listed())
