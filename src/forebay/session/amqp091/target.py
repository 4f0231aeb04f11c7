"""The target of a basic.publish: an exchange, or through the default exchange something of the broker's own."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.broker.publish.commands import MESSAGE, REPLY
from forebay.broker.publish.router import Route


@final
class PublishTarget:
    """The target of one basic.publish, octet for octet; good for one epoch of the vhost.

    command     MESSAGE, or what else the publish is; `subject` says of what
    is_message  somebody gets it; other commands are done at once, in transactions too
    plain       nothing about it depends on the message's headers, and it leads to little
    """

    def __init__(self, raw: bytes, route: Route, epoch: i64, mandatory: bool, command: i64, subject: bytes) -> None:
        self.raw = raw
        self.route = route
        self.epoch: i64 = epoch
        self.mandatory = mandatory
        self.command: i64 = command
        self.subject = subject
        self.is_message = command in (MESSAGE, REPLY)
        self.plain = command == MESSAGE and route.headers_exchange is None and not route.is_counted
