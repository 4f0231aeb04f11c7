"""Where a basic.publish leads: to an exchange, or through the default exchange to something of the broker's own.

$queue/<name>/$commit            the stream group of the header x-group-id resumes at x-offset
$queue/<name>/$extend            a message may be held longer, see `session/amqp091_extend.py`
$delayed/cancel/<id>             a delayed message is forgotten, by its x-delay-id or its number
amq.rabbitmq.reply-to.<name>     an answer for whoever has that name
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.broker.replies import REPLY_PREFIX
from forebay.broker.routes import Route

CANCEL_PREFIX: Final = b"$delayed/cancel/"

# What a publish is to the broker.
MESSAGE: Final = 0
COMMIT_OFFSET: Final = 1
CANCEL_DELAYED: Final = 2
REPLY: Final = 3
EXTEND_LEASE: Final = 4


@final
class Target:
    """Where one basic.publish, octet for octet, leads; good for one epoch of the vhost.

    command     MESSAGE, or what else the publish is; `subject` says of what
    is_message  somebody gets it; other commands are done at once, in transactions too
    plain       nothing about it depends on the message's headers
    """

    def __init__(self, raw: bytes, route: Route, epoch: i64, mandatory: bool, command: i64, subject: bytes) -> None:
        self.raw = raw
        self.route = route
        self.epoch: i64 = epoch
        self.mandatory = mandatory
        self.command: i64 = command
        self.subject = subject
        self.is_message = command in (MESSAGE, REPLY)
        self.plain = command == MESSAGE and route.headers_exchange is None


def command_at(exchange: bytes, key: bytes) -> tuple[i64, bytes]:
    """The command that a publish to this address is to the broker, and its subject."""
    if exchange:
        return MESSAGE, b""
    if key.startswith(b"$queue/"):
        name, _, rest = key[7:].partition(b"/")
        if name and rest == b"$commit":
            return COMMIT_OFFSET, name
        if name and rest == b"$extend":
            return EXTEND_LEASE, name
    elif key.startswith(REPLY_PREFIX):
        return REPLY, key
    elif key.startswith(CANCEL_PREFIX):
        return CANCEL_DELAYED, key[len(CANCEL_PREFIX) :]
    return MESSAGE, b""
