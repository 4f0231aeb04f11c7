"""Operations on vhosts."""

from __future__ import annotations

from functools import partial
from typing import cast

from forebay.broker.vhost import Vhost
from forebay.core.errors import PRECONDITION, RequestError
from forebay.directory.vhost_settings import FIELDS
from forebay.management.arguments import octets
from forebay.management.control import Control, operation, page
from forebay.management.requests.fields import EmptyAnswer, ListPage
from forebay.management.requests.vhosts import (
    VhostAddRequest,
    VhostDeleteRequest,
    VhostFields,
    VhostListRequest,
    VhostSetRequest,
    VhostSettingsFields,
)
from forebay.routing.exchange import text


@operation("vhost.list")
def list_vhosts(control: Control, given: VhostListRequest) -> ListPage[VhostFields]:
    """List all vhosts, with their numbers of objects and messages."""
    return page(given, [partial(vhost_fields, vhost) for vhost in control.vhosts.all()])


@operation("vhost.add", changes=True)
def add_vhost(control: Control, given: VhostAddRequest) -> VhostFields:
    """Create a vhost; it must not exist yet."""
    name = octets(given.vhost)
    if name in control.vhosts.by_name:
        raise RequestError(PRECONDITION, f"vhost: '{text(name)}' is there already")
    vhost = control.vhosts.add(name)
    try:
        change(control, vhost, given)
    except RequestError:
        control.vhosts.delete(name)
        raise
    return vhost_fields(vhost)


@operation("vhost.set", changes=True)
def set_vhost(control: Control, given: VhostSetRequest) -> VhostFields:
    """Change the given settings of a vhost."""
    vhost = control.vhost(given)
    change(control, vhost, given)
    return vhost_fields(vhost)


@operation("vhost.delete", changes=True)
def delete_vhost(control: Control, given: VhostDeleteRequest) -> EmptyAnswer:
    """Delete a vhost with everything in it, and close its connections."""
    control.vhosts.delete(octets(given.vhost))
    return {}


def change(control: Control, vhost: Vhost, given: VhostAddRequest | VhostSetRequest) -> None:
    settings = {name: value for name in FIELDS if (value := getattr(given, name)) is not None}
    if settings:
        control.vhosts.change(vhost, settings)


def vhost_fields(vhost: Vhost) -> VhostFields:
    queues = vhost.catalog.queues.values()
    return {
        "vhost": text(vhost.name),
        **cast("VhostSettingsFields", vhost.catalog.settings.fields()),
        "connections": len(vhost.entered),
        "exchanges": len(vhost.catalog.bindings.exchanges),
        "queues": len(queues),
        "ready": sum(int(queue.ready()) for queue in queues),
        "delayed": int(vhost.delayed.count()),
    }
