"""The requests in the headers of one message: further routing keys, delays, to be taken once (`message/requests.py`).

Few messages have any of these; they go a way of their own, so that the others pay nothing for them.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.broker.publish.deduplication import Identity, identity_of
from forebay.message.formats.format import Format


@final
class PublishHeaders:
    """The requests in the headers of one message.

    properties  as they are delivered
    delayed     as they are kept until their time has come
    keys        further routing keys
    delay_us    0 for none
    due_us      the time of the publish instead of a delay; 0 for none
    recurrence  the times at which it is published; empty for once
    identity    None where nobody asks for it to be taken only once
    """

    def __init__(self, properties: bytes) -> None:
        self.properties = properties
        self.delayed = properties
        self.keys: list[bytes] = []
        self.delay_us: i64 = 0
        self.due_us: i64 = 0
        self.delay_id = b""
        self.recurrence = b""
        self.identity: Identity | None = None

    def is_delayed(self) -> bool:
        """Return whether the message may have to wait for its time."""
        return self.delay_us > 0 or self.due_us > 0 or len(self.recurrence) > 0


def read_publish_headers(format: Format, properties: bytes) -> PublishHeaders:
    """Return the requests in checked properties of a format; RequestError(PRECONDITION) where they are nonsense."""
    found = format.read_requests(properties)
    headers = PublishHeaders(found.properties)
    headers.delayed = found.delayed
    headers.keys = found.keys
    headers.delay_us = found.delay_us
    headers.due_us = found.due_us
    headers.delay_id = found.delay_id
    headers.recurrence = found.recurrence
    headers.identity = identity_of(found.producer, found.sequence, found.deduplication_key)
    return headers
