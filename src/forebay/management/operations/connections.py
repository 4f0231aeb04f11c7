"""Operations on connections."""

from __future__ import annotations

from functools import partial

from forebay.core.errors import NOT_FOUND, RequestError
from forebay.management.control import PAGE, TEXT, WHOLE, Arguments, Control, Parameter, operation, page


@operation("connection.list", Parameter("vhost", TEXT, "only those in this vhost", False), *PAGE)
def list_connections(control: Control, given: Arguments) -> dict[str, object]:
    """The broker's connections by number, with their protocol and user."""
    known = control.connections.listed()
    if "vhost" in given:
        known = [each for each in known if each["vhost"] == given.text("vhost")]
    return page(given, [partial(dict, each) for each in known])


@operation("channel.list", Parameter("connection", WHOLE, "only those of this connection", False), *PAGE)
def list_channels(control: Control, given: Arguments) -> dict[str, object]:
    """The channels of AMQP connections, with what is on its way over them."""
    known = control.connections.channels()
    if "connection" in given:
        known = [each for each in known if each["connection"] == given.whole("connection")]
    return page(given, [partial(dict, each) for each in known])


@operation(
    "connection.close",
    Parameter("id", WHOLE, "the connection's number"),
    Parameter("reason", TEXT, "what the client is told", False, "closed by an administrator"),
    changes=True,
)
def close_connection(control: Control, given: Arguments) -> dict[str, object]:
    """End a connection, and tell its client why."""
    if not control.connections.close(given.whole("id"), given.text("reason")):
        raise RequestError(NOT_FOUND, f"id: {given.whole('id')} is no connection")
    return {}
