"""`$queue/<queue>/$extend`: who needs more time for a message says so by a publish, before its time is over.

The message is named by the header `x-delivery-tag`, of a delivery on the same channel; or by `x-offset`, with
`x-group-id` where its group has a name. `x-extend-ms` is how long it may be held from now on; without it, as long as if
it were delivered now.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.broker.contract import VhostContract
from forebay.core.errors import PRECONDITION, REFUSED, RequestError
from forebay.core.reading.nearest import slip_of
from forebay.wire.amqp091.properties import whole_number

EXTEND_MS_MAX: Final = 10**10
TAG_MAX: Final = (1 << 63) - 1
KNOWN: Final = ("x-delivery-tag", "x-offset", "x-group-id", "x-extend-ms")


@final
class Extension:
    """More time for what was delivered under a tag; 0 for `extend_ms` is the consumer's own time again."""

    def __init__(self, queue: bytes, channel: i64, tag: i64, extend_ms: i64) -> None:
        self.queue = queue
        self.channel: i64 = channel
        self.tag: i64 = tag
        self.extend_ms: i64 = extend_ms


def read_extension(queue: bytes, channel: i64, headers: dict[str, object]) -> Extension:
    """The extension that a publish to a queue's `$extend` asks for; tag 0 where the message is named otherwise."""
    for name in headers:
        meant = slip_of(name, KNOWN)
        if meant:
            raise RequestError(PRECONDITION, f"{name}: nothing puts it in force; did you mean {meant}?")
    extend_ms: i64 = 0
    if "x-extend-ms" in headers:
        extend_ms = number_in(headers, "x-extend-ms", 1, EXTEND_MS_MAX)
    tag: i64 = 0
    if "x-delivery-tag" in headers:
        tag = number_in(headers, "x-delivery-tag", 1, TAG_MAX)
    return Extension(queue, channel, tag, extend_ms)


def extend_offset(vhost: VhostContract, wanted: Extension, headers: dict[str, object], session_id: i64) -> bool:
    """Give the message at an offset more time; whether somebody holds it. RequestError(REFUSED): somebody else does."""
    group = headers.get("x-group-id", "")
    if not isinstance(group, str):
        raise RequestError(PRECONDITION, f"x-group-id: {group!r} is no text")
    offset = number_in(headers, "x-offset", 0, TAG_MAX)
    lease = vhost.settlement.find_lease(wanted.queue, group.encode(), offset)
    if lease is None:
        return False
    if not vhost.settlement.may_settle(lease, session_id):
        queue = wanted.queue.decode("utf-8", "replace")
        raise RequestError(REFUSED, f"x-offset: {offset} of queue '{queue}' is held by somebody else")
    return vhost.settlement.extend(lease, offset, 1, wanted.extend_ms) > 0


def number_in(headers: dict[str, object], name: str, least: int, most: int) -> i64:
    """A header that must be a number, or its digits; a field of AMQP may hold one that is too large for 64 bits."""
    value = headers.get(name)
    if isinstance(value, str):
        value = whole_number(value.encode())
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise RequestError(PRECONDITION, f"{name}: {headers.get(name)!r} is no number within {least} .. {most}")
    return value
