"""Publishes to last-value queues: a record replaces the older one of its key; a merge patch is stored as the whole."""

from __future__ import annotations

from typing import Final, final

import msgspec
from mypy_extensions import i64, u8

from forebay.broker.turn import Turn
from forebay.core.message import PLAIN_BODY
from forebay.core.reading.merge_patch import merge_patch
from forebay.filter.subject import BODY_OCTETS_MAX
from forebay.log.block import LONG_OCTETS
from forebay.message.formats.table import format_of
from forebay.message.record import StoredRecord
from forebay.message.subject import PublishedSubject
from forebay.queue.last_value.last_values import KEY_OCTETS_MAX, LastValues
from forebay.queue.queue import Queue
from forebay.queue.ready.selector import look_cost

PATCH_HEADER: Final = "x-merge-patch"
PATCH_OCTETS: Final = PATCH_HEADER.encode()
NO_VALUE: Final[dict[str, object]] = {}


@final
class RefusedPatch(Exception):
    """A merge patch that cannot be applied."""


@final
class LastValuePublisher:
    """Finds the keys of messages for last-value queues, and the whole of patched ones."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn

    def append(self, queue: Queue, last_values: LastValues, record: StoredRecord) -> str:
        """Append a message to a last-value queue. Return why the queue does not take it, or "" if it does.

        record  with the octet that is stored; a merge patch becomes the whole message
        """
        subject = PublishedSubject(
            record.format, record.exchange, record.routing_key, record.properties, record.body, record.annotations
        )
        expression = last_values.expression
        key = last_values.key_of(subject)
        queue.properties.looks.charge(look_cost(expression, i64(len(record.body))), subject)
        if not key:
            return f"wants a key of 1 to {KEY_OCTETS_MAX} octets: {expression.text} gives none for this message"
        if PATCH_OCTETS in record.properties and is_patch(record):
            try:
                self.complete(queue, last_values, key, record, subject)
            except RefusedPatch as error:
                return f"takes no such merge patch: {error}"
        octets = len(record.body)
        if queue.is_too_long(octets):
            return queue.refusal(octets)
        if not last_values.has_room(key, octets, queue.limits):
            return "is full: it has no room for a new key, or for so long a message"
        self.write(queue, last_values, key, record)
        return ""

    def write(self, queue: Queue, last_values: LastValues, key: bytes, record: StoredRecord) -> None:
        """Append the latest record of a key, alone in its block if it is long."""
        writer = queue.log.writer
        octets = i64(len(record.body))
        if octets >= LONG_OCTETS and writer.count:
            self.turn.seal(queue)
        last_values.put(key, queue.log.end + writer.count, octets)
        queue.log.append_annotated(
            u8(record.format), record.exchange, record.routing_key, record.properties, record.body, record.annotations
        )
        if octets >= LONG_OCTETS:
            self.turn.seal(queue)

    def complete(
        self, queue: Queue, last_values: LastValues, key: bytes, record: StoredRecord, subject: PublishedSubject
    ) -> None:
        """Make a merge patch the whole message: the latest one of its key, with the patch applied. Raises RefusedPatch.

        The message has the properties of the patch, without the header that says it is one.
        """
        patch = subject.body()
        if not isinstance(patch, dict):
            raise RefusedPatch("its body is no JSON object")
        format = format_of(record.format)
        try:
            body = msgspec.json.encode(merge_patch(self.latest_value(queue, last_values, key), patch))
        except (ValueError, RecursionError, msgspec.DecodeError) as error:
            raise RefusedPatch(str(error)) from None
        if len(body) > BODY_OCTETS_MAX:
            raise RefusedPatch(f"the whole would have more than {BODY_OCTETS_MAX} octets")
        record.properties = format.edit(record.properties, [PATCH_OCTETS], [])
        record.body = format.body_of(body, PLAIN_BODY)
        whole = PublishedSubject(
            record.format, record.exchange, record.routing_key, record.properties, record.body, record.annotations
        )
        if last_values.key_of(whole) != key:
            raise RefusedPatch(f"{last_values.expression.text} gives another key for the whole")

    def latest_value(self, queue: Queue, last_values: LastValues, key: bytes) -> object:
        """Return the latest message of a key as JSON, an empty object if there is none. Raises RefusedPatch."""
        latest = last_values.by_key.get(key)
        if latest is None:
            return NO_VALUE
        if latest.offset >= queue.log.end:
            self.turn.seal(queue)
        block = queue.log.block(latest.offset)
        if block is None or block.base > latest.offset:
            return NO_VALUE
        value = queue.properties.subject(queue.name, block, latest.offset - block.base, 0, 0).body()
        if not isinstance(value, dict):
            raise RefusedPatch("the latest message of its key is no JSON object")
        return value


def is_patch(record: StoredRecord) -> bool:
    """Return whether a message says that it is a merge patch, by a header, user property or message annotation."""
    return format_of(record.format).headers(record.properties).get(PATCH_HEADER) in (True, "true", b"true", 1)
