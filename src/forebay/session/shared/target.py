"""The target of publishes of AMQP: an exchange, or through the default exchange something of the broker's own."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.broker.publish.commands import MESSAGE, REPLY
from forebay.broker.publish.route import Route
from forebay.directory.permissions import GrantsVersion


@final
class PublishTarget:
    """The target of publishes to one address.

    It may be used as long as its route is valid and the user's grants are the same.

    raw         the octets by which the client names the address
    grants      by which the publish is permitted
    command     MESSAGE, or what else the publish is; `subject` says of what
    is_message  somebody gets it; other commands are done at once, in transactions too
    plain       nothing about it depends on the message's headers, and it leads to little
    """

    def __init__(
        self, raw: bytes, route: Route, grants: GrantsVersion, mandatory: bool, command: i64, subject: bytes
    ) -> None:
        self.raw = raw
        self.route = route
        self.grants = grants
        self.mandatory = mandatory
        self.command: i64 = command
        self.subject = subject
        self.is_message = command in (MESSAGE, REPLY)
        self.plain = command == MESSAGE and route.headers_exchange is None and not route.is_counted

    def is_valid(self) -> bool:
        """Return whether the target may be used again."""
        return self.route.is_valid and self.grants.is_current
